//! The update of a stored header by a confirmation (RFC 9111 §3.2, §4.3.4, §4.3.5).
//!
//! The update by a 304, and by an answer to HEAD. Not the choice of the stored answer that is confirmed.
//! Callers: the cache.

use http::header::{
    AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderMap, HeaderName,
    LAST_MODIFIED, VARY,
};

use super::fields::HopByHop;

/// The fields that describe the stored bytes: a 304 does not change them (RFC 9111 §3.2).
const OF_THE_BYTES: [HeaderName; 4] = [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE];
/// The fields that belong to one message: without them in the confirmation, the stored ones must go.
const OF_THE_MESSAGE: [HeaderName; 2] = [AGE, DATE];

/// Updates a stored header by that of a 304, or of an answer to HEAD that [`head_agrees`] with it. Each field that the
/// newer one has replaces all lines of the stored one; others stay, except `Age` and `Date`, which belong to the
/// message (the newer one has a `Date`).
///
/// `Vary` stays as stored, because the selecting values were stored for it.
pub(crate) fn freshen(stored: &mut HeaderMap, validated: &HeaderMap) {
    for name in OF_THE_MESSAGE {
        stored.remove(name);
    }
    let hop_by_hop = HopByHop::of(validated);
    for name in validated.keys() {
        if OF_THE_BYTES.contains(name) || *name == VARY || hop_by_hop.contains(name) {
            continue;
        }
        stored.remove(name);
        for value in validated.get_all(name) {
            stored.append(name.clone(), value.clone());
        }
    }
}

/// Whether an answer to HEAD confirms the stored answer to GET (RFC 9111 §4.3.5): its validators and length are equal.
/// Otherwise the stored answer is stale.
pub(crate) fn head_agrees(stored: &HeaderMap, head: &HeaderMap) -> bool {
    let validators =
        [ETAG, LAST_MODIFIED].iter().all(|name| head.get(name).is_none_or(|_| head.get(name) == stored.get(name)));
    // The stored answer may have been chunked.
    let lengths = [head, stored].map(|headers| headers.get(CONTENT_LENGTH));
    validators && !matches!(lengths, [Some(one), Some(other)] if one != other)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_headers, headers};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_confirmation_replaces_what_it_names_but_for_what_describes_the_stored_bytes() {
        let mut stored = headers(&[
            ("test-header", "A"),
            ("x-content-foo", "A"),
            ("cache-control", "max-age=1"),
            ("cache-control", "public"),
            ("kept", "A"),
            ("content-length", "36"),
            ("content-type", "text/plain"),
            ("content-encoding", "gzip"),
            ("vary", "foo"),
            ("age", "50"),
            ("date", "then"),
        ]);
        let validated = headers(&[
            ("test-header", "B"),
            ("x-content-foo", "B"),
            ("x-content-foo", "C"),
            ("cache-control", "max-age=3600"),
            ("content-length", "10"),
            ("content-type", "text/html"),
            ("content-encoding", "br"),
            ("content-range", "bytes 0-1/2"),
            ("vary", "*"),
            ("connection", "x-nominated"),
            ("x-nominated", "B"),
            ("keep-alive", "B"),
            ("date", "now"),
        ]);
        freshen(&mut stored, &validated);
        let expected = headers(&[
            ("test-header", "B"),
            ("x-content-foo", "B"),
            ("x-content-foo", "C"),
            ("cache-control", "max-age=3600"),
            ("kept", "A"),
            ("content-length", "36"),
            ("content-type", "text/plain"),
            ("content-encoding", "gzip"),
            ("vary", "foo"),
            ("date", "now"),
        ]);
        assert_eq!(stored, expected);
    }

    #[test]
    fn an_answer_to_head_agrees_when_its_validators_and_length_are_those_stored() {
        let stored = [("etag", "\"a\""), ("content-length", "5")];
        for (stored, head, expected) in [
            (&stored[..], &[][..], true),
            (&stored, &[("etag", "\"a\""), ("content-length", "5")], true),
            (&stored, &[("etag", "\"b\"")], false),
            (&stored, &[("content-length", "6")], false),
            (&stored, &[("last-modified", "x")], false),
            (&[("etag", "\"a\"")], &[("content-length", "6")], true),
        ] {
            assert_eq!(head_agrees(&headers(stored), &headers(head)), expected, "{stored:?} {head:?}");
        }
    }

    proptest! {
        #[test]
        fn what_describes_the_stored_bytes_never_changes(stored in any_headers(), validated in any_headers()) {
            let mut fresh = stored.clone();
            freshen(&mut fresh, &validated);
            for name in OF_THE_BYTES {
                prop_assert!(fresh.get_all(&name).iter().eq(stored.get_all(&name).iter()));
            }
            let once = fresh.clone();
            freshen(&mut fresh, &validated);
            prop_assert_eq!(fresh, once);
        }
    }
}
