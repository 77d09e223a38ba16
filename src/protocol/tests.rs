//! Helpers of the tests of this layer: headers from pairs, and random headers of relevant pieces.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::clock::WallTime;

/// 20 November 2026, noon.
pub(crate) const NOW: WallTime = WallTime::from_seconds(1_795_176_000);

pub(crate) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let parsed = |(name, value): &(&str, &str)| {
        let name: HeaderName = name.parse().unwrap();
        (name, HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    pairs.iter().map(parsed).collect()
}

/// [`NOW`] and so many seconds, as an HTTP-date.
pub(crate) fn date(offset: i64) -> String {
    NOW.plus_seconds(offset).http_date().unwrap()
}

/// Values of every kind: the pieces that parsers look for, in any order, and bytes of any sort.
pub(crate) fn any_value() -> impl Strategy<Value = HeaderValue> {
    let pieces: &'static [&'static str] = &[
        "max-age",
        "s-maxage",
        "no-store",
        "no-cache",
        "private",
        "public",
        "must-revalidate",
        "stale-if-error",
        "=",
        ",",
        "\"",
        "\\",
        " ",
        ";",
        "1",
        "3600",
        "99999999999999999999",
        "-",
        "*",
        "bytes=",
        "W/",
        "q=0.5",
        "en",
        "de",
        "Fri, 20 Nov 2026 12:00:00 GMT",
        "Fri Nov 20 12:00:00 2026",
        "Friday, 20-Nov-26 12:00:00 GMT",
        "?1",
        "(",
        ")",
        ":",
        "@",
        "%",
        "/a/b?c",
        "https://example.org",
        "vary",
    ];
    let made = vec(proptest::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat().into_bytes());
    let wild = vec(any::<u8>(), 0..24);
    prop_oneof![3 => made, 1 => wild].prop_filter_map("a value", |bytes| HeaderValue::from_bytes(&bytes).ok())
}

/// Headers of either side, with every field that this layer reads.
pub(crate) fn any_headers() -> impl Strategy<Value = HeaderMap> {
    let names: &'static [&'static str] = &[
        "cache-control",
        "cdn-cache-control",
        "expires",
        "date",
        "age",
        "last-modified",
        "etag",
        "vary",
        "pragma",
        "range",
        "if-range",
        "if-none-match",
        "if-match",
        "if-modified-since",
        "if-unmodified-since",
        "accept-language",
        "content-language",
        "content-length",
        "connection",
        "location",
        "content-location",
        "cookie",
        "authorization",
        "set-cookie",
        "foo",
        "user-agent",
    ];
    vec((proptest::sample::select(names), any_value()), 0..10)
        .prop_map(|lines| lines.into_iter().map(|(name, value)| (HeaderName::from_static(name), value)).collect())
}
