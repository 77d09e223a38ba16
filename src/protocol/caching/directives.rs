//! `Cache-Control`, of answers and of requests (RFC 9111 §5.2), and its replacements: `CDN-Cache-Control` (RFC 9213)
//! and `Pragma` (RFC 9111 §5.4).
//!
//! The directives that this cache acts on, as values. Not a decision. For a malformed or contradictory directive the
//! stricter reading wins: a lifetime that is not a number is 0, a qualified `private` or `no-cache` counts as the
//! unqualified one (both allowed by §5.2.2.4 and §5.2.2.7). Callers: the cache, once per answer and request.

use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, PRAGMA};
use sfv::{BareItem, Item, ListEntry, Parser};

use crate::protocol::freshness::MAX_AGE_SECONDS;
use crate::protocol::grammar::{members, seconds, trim};

/// The directives of an answer. `Default`: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a directive of its own, and they combine freely")]
pub struct ResponseDirectives {
    pub no_store: bool,
    /// `no-cache`, qualified or not.
    pub no_cache: bool,
    /// `private`, qualified or not.
    pub private: bool,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    /// `max-age`; zero when it is malformed. The first of several counts (RFC 9111 §4.2.1).
    pub max_age: Option<Duration>,
    pub s_maxage: Option<Duration>,
    /// `stale-while-revalidate` (RFC 5861 §3), as above.
    pub stale_while_revalidate: Option<Duration>,
    /// `stale-if-error` (RFC 5861 §4), as above.
    pub stale_if_error: Option<Duration>,
    /// Whether they come from a valid `CDN-Cache-Control`; then `Cache-Control` and `Expires` are ignored (RFC 9213
    /// §2.1).
    pub targeted: bool,
}

impl ResponseDirectives {
    /// Reads a valid `CDN-Cache-Control`, else `Cache-Control`.
    pub fn of(headers: &HeaderMap) -> Self {
        if let Some(members) = targeted(headers) {
            let mut these = Self { targeted: true, ..Self::default() };
            for (name, seconds) in members {
                these.add(name.as_bytes(), || Duration::from_secs(seconds));
            }
            return these;
        }
        let mut these = Self::default();
        for directive in members(headers, CACHE_CONTROL).map(Directive::of) {
            these.add(directive.name, || directive.seconds());
        }
        these
    }

    /// Adds one directive; the first of several values counts.
    fn add(&mut self, name: &[u8], seconds: impl Fn() -> Duration) {
        let value = match name.to_ascii_lowercase().as_slice() {
            b"no-store" => return self.no_store = true,
            b"no-cache" => return self.no_cache = true,
            b"private" => return self.private = true,
            b"public" => return self.public = true,
            b"must-revalidate" => return self.must_revalidate = true,
            b"proxy-revalidate" => return self.proxy_revalidate = true,
            b"must-understand" => return self.must_understand = true,
            b"max-age" => &mut self.max_age,
            b"s-maxage" => &mut self.s_maxage,
            b"stale-while-revalidate" => &mut self.stale_while_revalidate,
            b"stale-if-error" => &mut self.stale_if_error,
            _ => return,
        };
        value.get_or_insert_with(seconds);
    }

    /// The lifetime for a shared cache, if stated.
    pub fn lifetime(&self) -> Option<Duration> {
        self.s_maxage.or(self.max_age)
    }
}

/// The directives of a request. `Default`: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestDirectives {
    /// `no-cache`, or `Pragma: no-cache` in a request without `Cache-Control`.
    pub no_cache: bool,
    pub no_store: bool,
    pub only_if_cached: bool,
    /// `max-age`; zero when it is malformed.
    pub max_age: Option<Duration>,
    pub min_fresh: Option<Duration>,
    /// `max-stale`: `Some(None)` without a bound, `Some(Some(_))` with one; zero when it is malformed.
    pub max_stale: Option<Option<Duration>>,
}

impl RequestDirectives {
    pub fn of(headers: &HeaderMap) -> Self {
        let mut these = Self::default();
        for directive in members(headers, CACHE_CONTROL).map(Directive::of) {
            let value = match directive.name.to_ascii_lowercase().as_slice() {
                b"max-age" => &mut these.max_age,
                b"min-fresh" => &mut these.min_fresh,
                b"max-stale" => {
                    these.max_stale.get_or_insert_with(|| directive.argument.map(|_| directive.seconds()));
                    continue;
                }
                name => {
                    these.no_cache |= name == b"no-cache";
                    these.no_store |= name == b"no-store";
                    these.only_if_cached |= name == b"only-if-cached";
                    continue;
                }
            };
            value.get_or_insert_with(|| directive.seconds());
        }
        // RFC 9111 §5.4: for clients that know no Cache-Control.
        if !headers.contains_key(CACHE_CONTROL) {
            these.no_cache = members(headers, PRAGMA).any(|member| member.eq_ignore_ascii_case(b"no-cache"));
        }
        these
    }
}

#[derive(Clone, Copy)]
struct Directive<'a> {
    name: &'a [u8],
    /// Without the quotation marks around it (RFC 9111 §5.2: both forms are to be accepted).
    argument: Option<&'a [u8]>,
}

impl<'a> Directive<'a> {
    fn of(member: &'a [u8]) -> Self {
        let Some(equals) = member.iter().position(|&byte| byte == b'=') else {
            return Self { name: member, argument: None };
        };
        let (raw, value) = (&member[..equals], &member[equals + 1..]);
        let name = trim(raw);
        let argument = match value {
            // With whitespace around the equals sign: not in the grammar, but clear, and no number.
            [b' ' | b'\t', ..] => b"",
            _ if name.len() != raw.len() => b"",
            [b'"', inside @ .., b'"'] => inside,
            _ => value,
        };
        Self { name, argument: Some(argument) }
    }

    /// The argument as seconds; zero if it is not a number: the answer counts as stale (RFC 9111 §4.2.1).
    fn seconds(&self) -> Duration {
        let seconds = self.argument.and_then(|argument| seconds(argument, MAX_AGE_SECONDS));
        Duration::from_secs(seconds.unwrap_or(0).into())
    }
}

/// The members of a valid `CDN-Cache-Control`, a dictionary of structured fields (RFC 8941), with their seconds; 0 for
/// those that have none. `None` if the field is absent, empty, malformed or has a value of the wrong type, which counts as
/// absent.
fn targeted(headers: &HeaderMap) -> Option<Vec<(String, u64)>> {
    /// Our target is every cache in front of the origin.
    const FIELD: HeaderName = HeaderName::from_static("cdn-cache-control");
    /// The directives that are a number of seconds.
    const DELTAS: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];
    let lines: Vec<&[u8]> = headers.get_all(FIELD).iter().map(HeaderValue::as_bytes).collect();
    let members = Parser::parse_dictionary(&lines.join(&b","[..])).ok().filter(|members| !members.is_empty())?;
    let mut these = Vec::new();
    for (key, value) in members {
        let seconds = match value {
            ListEntry::Item(Item { bare_item: BareItem::Integer(seconds), .. }) if seconds >= 0 => {
                seconds.unsigned_abs().min(MAX_AGE_SECONDS.into())
            }
            _ if DELTAS.contains(&key.as_str()) => return None,
            // `no-store=?0` means absent.
            ListEntry::Item(Item { bare_item: BareItem::Boolean(false), .. }) => continue,
            _ => 0,
        };
        these.push((key, seconds));
    }
    Some(these)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{any_headers, headers};
    use proptest::prelude::*;
    fn of(value: &str) -> ResponseDirectives {
        ResponseDirectives::of(&headers(&[("cache-control", value)]))
    }

    #[test]
    fn lifetimes_are_read_and_what_is_malformed_is_zero() {
        for (value, expected) in [
            ("max-age=3600", Some(3600)),
            ("MaX-aGe=3600", Some(3600)),
            ("foobar, max-age=3600", Some(3600)),
            ("max-age=003600", Some(3600)),
            ("max-age=\"3600\"", Some(3600)),
            ("max-age=2147483647", Some(2_147_483_647)),
            ("max-age=2147483649", Some(1 << 31)),
            ("max-age=99999999999", Some(1 << 31)),
            ("max-age=1, max-age=1800", Some(1)),
            ("max-age=1800, max-age=1", Some(1800)),
            ("max-age=1, s-maxage=3600", Some(3600)),
            ("s-maxage=1, max-age=3600", Some(1)),
            ("extension=\"max-age=3600\", max-age=1", Some(1)),
            ("max-age=1, extension=\"max-age=3600\"", Some(1)),
            ("max-age=-3600", Some(0)),
            ("max-age='3600'", Some(0)),
            ("max-age =3600", Some(0)),
            ("max-age= 3600", Some(0)),
            ("max-age=3600.5", Some(0)),
            ("max-age=a3600", Some(0)),
            ("max-age=3600a", Some(0)),
            ("max-age", Some(0)),
            ("max-age=", Some(0)),
            ("max-ages=5", None),
            ("extension=\"max-age=3600\"", None),
            ("public", None),
            ("", None),
        ] {
            assert_eq!(of(value).lifetime(), expected.map(Duration::from_secs), "{value:?}");
        }
    }

    #[test]
    fn flags_are_read_in_any_case_and_qualified_ones_count_as_unqualified() {
        let all = of("No-StOrE, no-cache=\"a, b\", private=\"x\", PUBLIC, must-revalidate, proxy-revalidate, \
                      must-understand, stale-while-revalidate=60, stale-if-error=x");
        let expected = ResponseDirectives {
            no_store: true,
            no_cache: true,
            private: true,
            public: true,
            must_revalidate: true,
            proxy_revalidate: true,
            must_understand: true,
            stale_while_revalidate: Some(Duration::from_secs(60)),
            stale_if_error: Some(Duration::ZERO),
            ..ResponseDirectives::default()
        };
        assert_eq!(all, expected);
        assert!(of("private =\"x\"").private && of("no-cache = x").no_cache);
        assert_eq!(of("x-private, no-stored, extension=\"no-store, private\""), ResponseDirectives::default());
        let lines = headers(&[("cache-control", "max-age=5"), ("cache-control", "no-cache=\"a\"")]);
        assert!(ResponseDirectives::of(&lines).no_cache);
    }

    #[test]
    fn a_valid_targeted_field_wins_and_an_invalid_one_is_as_if_absent() {
        for (targeted, expected) in [
            ("max-age=3600", Some(3600)),
            ("max-age=99999999999", Some(1 << 31)),
            ("foobar, max-age=3600", Some(3600)),
            ("max-age=1, max-age=7", Some(7)),
            ("max-age=0", Some(0)),
            ("foo", None),
        ] {
            let read = ResponseDirectives::of(&headers(&[
                ("cache-control", "no-store, max-age=5"),
                ("cdn-cache-control", targeted),
            ]));
            assert!(read.targeted && !read.no_store, "{targeted:?}");
            assert_eq!(read.lifetime(), expected.map(Duration::from_secs), "{targeted:?}");
        }
        for targeted in
            ["", "max-age=10000, &&&&&", "max-age=\"10000\"", "max-age =100", "max-age= 100", "MaX-aGe=3600"]
        {
            let read = ResponseDirectives::of(&headers(&[
                ("cache-control", "no-store, max-age=5"),
                ("cdn-cache-control", targeted),
            ]));
            assert!(!read.targeted && read.no_store && read.max_age == Some(Duration::from_secs(5)), "{targeted:?}");
        }
    }

    #[test]
    fn requests_say_what_they_want_and_pragma_counts_only_alone() {
        let seconds = Duration::from_secs;
        for (value, expected) in [
            ("no-cache", RequestDirectives { no_cache: true, ..Default::default() }),
            ("no-store", RequestDirectives { no_store: true, ..Default::default() }),
            ("only-if-cached", RequestDirectives { only_if_cached: true, ..Default::default() }),
            ("max-age=0", RequestDirectives { max_age: Some(Duration::ZERO), ..Default::default() }),
            ("max-age=x", RequestDirectives { max_age: Some(Duration::ZERO), ..Default::default() }),
            ("min-fresh=20", RequestDirectives { min_fresh: Some(seconds(20)), ..Default::default() }),
            ("max-stale", RequestDirectives { max_stale: Some(None), ..Default::default() }),
            ("max-stale=9", RequestDirectives { max_stale: Some(Some(seconds(9))), ..Default::default() }),
            ("max-stale=x", RequestDirectives { max_stale: Some(Some(Duration::ZERO)), ..Default::default() }),
            ("nothing-to-see-here", RequestDirectives::default()),
        ] {
            assert_eq!(RequestDirectives::of(&headers(&[("cache-control", value)])), expected, "{value:?}");
        }
        assert!(RequestDirectives::of(&headers(&[("pragma", "foo, No-Cache")])).no_cache);
        assert!(!RequestDirectives::of(&headers(&[("pragma", "foo")])).no_cache);
        assert!(!RequestDirectives::of(&headers(&[("pragma", "no-cache"), ("cache-control", "x")])).no_cache);
    }

    proptest! {
        #[test]
        fn reading_is_total(headers in any_headers()) {
            let _ = RequestDirectives::of(&headers);
            let read = ResponseDirectives::of(&headers);
            prop_assert!(read.lifetime().is_none_or(|lifetime| lifetime <= Duration::from_secs(1 << 31)));
        }

        #[test]
        fn no_store_is_found_wherever_it_stands(before in "[a-z=, \"\\\\]{0,12}", after in "[a-z=, \"\\\\]{0,12}") {
            prop_assume!(!before.contains('"'));
            let read = of(&format!("{before},no-store,{after}"));
            prop_assert!(read.no_store);
        }
    }

    #[test]
    fn several_lines_are_one_dictionary_the_last_of_a_key_counts_and_a_false_flag_is_none() {
        let lines =
            [("cdn-cache-control", "max-age=5, s-maxage=1"), ("cdn-cache-control", "private=?0, no-cache, max-age=7")];
        let read = targeted(&headers(&lines)).unwrap();
        let read: Vec<_> = read.iter().map(|(key, seconds)| (key.as_str(), *seconds)).collect();
        assert_eq!(read, [("max-age", 7), ("s-maxage", 1), ("no-cache", 0)]);
    }

    proptest! {
        #[test]
        fn reading_a_targeted_field_is_total(text in "[a-c0-9=;,?()\":@%. -]{0,24}") {
            let _ = targeted(&headers(&[("cdn-cache-control", &text)]));
        }
    }
}
