//! Ranges of a stored answer (RFC 9110 §14, RFC 9111 §3.3).
//!
//! Which bytes of a complete stored answer a request asks for. Not the storing of parts, which this cache does not do.
//! Callers: [`crate::edge::answer`], for a stored answer of an unknown path, and for dumps.

use http::StatusCode;
use http::header::{DATE, HeaderMap, HeaderValue, IF_RANGE, LAST_MODIFIED, RANGE};

use super::grammar::{PRESENT, date_in, http_date, trim};
use super::precondition::{EntityTag, matches_strongly};

/// The bytes of the stored body to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ranged {
    /// The whole body, with the stored status.
    Whole,
    /// With 206.
    Part {
        first: u64,
        /// The last byte, inclusive.
        last: u64,
        content_range: HeaderValue,
    },
    /// Nothing: 416.
    Unsatisfiable { content_range: HeaderValue },
}

/// Selects the bytes of a stored answer of `length` bytes. Only a GET may be asked about.
///
/// One byte range is served; several, other units and malformed fields get the whole answer, which RFC 9110 §14.2
/// allows.
pub(crate) fn select(request: &HeaderMap, stored_status: StatusCode, stored: &HeaderMap, length: u64) -> Ranged {
    let mut lines = request.get_all(RANGE).iter();
    let only = lines.next().filter(|_| lines.next().is_none());
    let Some(range) = only.filter(|_| stored_status == StatusCode::OK).and_then(|line| Spec::parse(line.as_bytes()))
    else {
        return Ranged::Whole;
    };
    if !if_range_holds(request, stored) {
        return Ranged::Whole;
    }
    let (first, last) = match range {
        Spec::From(first, last) => (first, last.min(length.saturating_sub(1))),
        Spec::Suffix(count) => (length.saturating_sub(count), length.saturating_sub(1)),
    };
    let suffix_of_nothing = matches!(range, Spec::Suffix(0));
    if first >= length || suffix_of_nothing {
        return value(&format!("bytes */{length}"))
            .map_or(Ranged::Whole, |content_range| Ranged::Unsatisfiable { content_range });
    }
    value(&format!("bytes {first}-{last}/{length}")).map_or(Ranged::Whole, |content_range| Ranged::Part {
        first,
        last,
        content_range,
    })
}

fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}

/// One range of bytes.
#[derive(Clone, Copy)]
enum Spec {
    From(u64, u64),
    Suffix(u64),
}

impl Spec {
    /// `bytes=0-1`, `bytes=1-` or `bytes=-1`; `None` otherwise.
    fn parse(text: &[u8]) -> Option<Self> {
        let (unit, range) = std::str::from_utf8(trim(text)).ok()?.split_once('=')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (first, last) = range.trim_matches([' ', '\t']).split_once('-')?;
        match (first, last) {
            ("", last) => Some(Self::Suffix(number(last)?)),
            (first, "") => Some(Self::From(number(first)?, u64::MAX)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, last))
            }
        }
    }
}

/// Digits; a number beyond 64 bits is the largest.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// RFC 9110 §13.1.5: a tag compares strongly; a date exactly, and only as a strong validator: a second before `Date`
/// (§8.8.2.2).
fn if_range_holds(request: &HeaderMap, stored: &HeaderMap) -> bool {
    let Some(condition) = request.get(IF_RANGE) else { return true };
    if let Some(tag) = EntityTag::parse(trim(condition.as_bytes())) {
        return EntityTag::of(stored).is_some_and(|current| matches_strongly(tag.as_bytes(), current.as_bytes()));
    }
    let Some(date) = date_in(stored, DATE, PRESENT) else { return false };
    let asked = http_date(condition.as_bytes(), date);
    asked.is_some_and(|asked| date_in(stored, LAST_MODIFIED, date) == Some(asked) && date.seconds_since(asked) >= 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{any_headers, date, headers};
    use proptest::prelude::*;
    fn ranged(request: &[(&str, &str)], stored: &[(&str, &str)], length: u64) -> Ranged {
        select(&headers(request), StatusCode::OK, &headers(stored), length)
    }

    fn part(first: u64, last: u64, length: u64) -> Ranged {
        Ranged::Part { first, last, content_range: value(&format!("bytes {first}-{last}/{length}")).unwrap() }
    }

    #[test]
    fn one_range_of_bytes_is_cut_from_the_whole() {
        for (range, expected) in [
            ("bytes=0-1", part(0, 1, 11)),
            ("bytes=1-", part(1, 10, 11)),
            ("bytes=-1", part(10, 10, 11)),
            ("BYTES=3-99", part(3, 10, 11)),
            ("bytes=-99", part(0, 10, 11)),
            ("bytes=10-99999999999999999999999", part(10, 10, 11)),
            ("bytes=0-1,3-4", Ranged::Whole),
            ("bytes=2-1", Ranged::Whole),
            ("bytes=-", Ranged::Whole),
            ("bytes=+1-2", Ranged::Whole),
            ("bytes", Ranged::Whole),
            ("lines=0-1", Ranged::Whole),
        ] {
            assert_eq!(ranged(&[("range", range)], &[], 11), expected, "{range:?}");
        }
        for (range, length) in [("bytes=11-", 11), ("bytes=-0", 11), ("bytes=0-", 0), ("bytes=-5", 0)] {
            let content_range = value(&format!("bytes */{length}")).unwrap();
            assert_eq!(ranged(&[("range", range)], &[], length), Ranged::Unsatisfiable { content_range }, "{range:?}");
        }
        assert_eq!(ranged(&[], &[], 11), Ranged::Whole);
        assert_eq!(ranged(&[("range", "bytes=0-1"), ("range", "bytes=0-1")], &[], 11), Ranged::Whole);
        let missing = select(&headers(&[("range", "bytes=0-1")]), StatusCode::NOT_FOUND, &HeaderMap::new(), 11);
        assert_eq!(missing, Ranged::Whole);
    }

    #[test]
    fn if_range_gets_the_part_only_of_the_same_representation() {
        let (now, before, other) = (date(0), date(-60), date(-61));
        for (condition, stored, holds) in [
            ("\"a\"", &[("etag", "\"a\"")][..], true),
            ("\"b\"", &[("etag", "\"a\"")], false),
            ("W/\"a\"", &[("etag", "W/\"a\"")], false),
            ("\"a\"", &[], false),
            (before.as_str(), &[("last-modified", before.as_str()), ("date", now.as_str())], true),
            (&other, &[("last-modified", &before), ("date", &now)], false),
            (&now, &[("last-modified", &now), ("date", &now)], false),
            (&before, &[("last-modified", &before)], false),
            ("nonsense", &[("etag", "\"a\"")], false),
        ] {
            let expected = if holds { part(0, 1, 11) } else { Ranged::Whole };
            assert_eq!(ranged(&[("range", "bytes=0-1"), ("if-range", condition)], stored, 11), expected, "{condition}");
        }
    }

    proptest! {
        #[test]
        fn a_part_lies_within_the_whole(request in any_headers(), stored in any_headers(), length: u64) {
            if let Ranged::Part { first, last, .. } = select(&request, StatusCode::OK, &stored, length) {
                prop_assert!(first <= last && last < length);
            }
        }

        #[test]
        fn every_pair_of_numbers_selects_what_it_says(first: u64, last: u64, length in 1..u64::MAX) {
            let selected = ranged(&[("range", &format!("bytes={first}-{last}"))], &[], length);
            match selected {
                Ranged::Part { first: from, last: to, .. } => {
                    prop_assert!(from == first && to == last.min(length - 1) && first <= last);
                }
                Ranged::Unsatisfiable { .. } => prop_assert!(first >= length && first <= last),
                Ranged::Whole => prop_assert!(first > last),
            }
        }
    }
}
