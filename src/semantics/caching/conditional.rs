//! A client's conditions against a stored answer that carries the origin's validators (RFC 9111 §4.3.2, RFC 9110
//! §13.2).
//!
//! The evaluation by tags and, as unknown paths have modification dates, by dates. Not the conditions that the cache
//! itself sends.
//! Callers: `answer`, for a stored answer that would be sent with 200.

use http::Method;
use http::header::{ETAG, HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LAST_MODIFIED};

use super::dates;
use crate::semantics::etag::EntityTag;
use crate::semantics::precondition::{self, Precondition};
use crate::semantics::trim;

/// Evaluates the conditions in the order of RFC 9110 §13.2.2: `If-Match`, else `If-Unmodified-Since`; `If-None-Match`,
/// else `If-Modified-Since`. A malformed date counts as absent.
pub(crate) fn evaluate(method: &Method, request: &HeaderMap, stored: &HeaderMap) -> Precondition {
    let current = stored.get(ETAG).and_then(|tag| EntityTag::parse(trim(tag.as_bytes())).ok());
    let by_tag = precondition::evaluate(method, request, current.as_ref());
    if by_tag == Precondition::Failed {
        return by_tag;
    }
    let date = dates::date_of(stored, dates::PRESENT);
    let now = date.unwrap_or(dates::PRESENT);
    let modified = dates::single(stored, LAST_MODIFIED, now);
    if !request.contains_key(IF_MATCH)
        && let (Some(bound), Some(modified)) = (dates::single(request, IF_UNMODIFIED_SINCE, now), modified)
        && modified > bound
    {
        return Precondition::Failed;
    }
    if by_tag == Precondition::NotModified || !matches!(*method, Method::GET | Method::HEAD) {
        return by_tag;
    }
    if request.contains_key(IF_NONE_MATCH) {
        // A client that sends back our exact value means that answer, even if it is not a valid tag.
        let echo = stored.contains_key(ETAG) && request.get(IF_NONE_MATCH) == stored.get(ETAG);
        return if echo { Precondition::NotModified } else { Precondition::Proceed };
    }
    // RFC 9111 §4.3.2: without a modification date the answer's own date bounds it.
    match (dates::single(request, IF_MODIFIED_SINCE, now), modified.or(date)) {
        (Some(since), Some(modified)) if modified <= since => Precondition::NotModified,
        _ => Precondition::Proceed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_headers, date, headers};
    use super::*;
    use Precondition::{Failed, NotModified, Proceed};
    use proptest::prelude::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn decide(request: Pairs<'_>, stored: Pairs<'_>) -> Precondition {
        evaluate(&Method::GET, &headers(request), &headers(stored))
    }

    #[test]
    fn tags_are_compared_weakly_and_lists_are_read() {
        for (condition, tag, expected) in [
            ("\"abcdef\"", "\"abcdef\"", NotModified),
            ("W/\"abcdef\"", "W/\"abcdef\"", NotModified),
            ("W/\"abcdef\"", "\"abcdef\"", NotModified),
            ("\"abcdef\", \"1234\", \"5678\"", "\"abcdef\"", NotModified),
            ("\"1234\", \"abcdef\", \"5678\"", "\"abcdef\"", NotModified),
            ("\"1234\", \"5678\", \"abcdef\"", "\"abcdef\"", NotModified),
            ("*", "\"abcdef\"", NotModified),
            ("\"abcdefü\"", "\"abcdefü\"", NotModified),
            ("abcdef", "abcdef", NotModified),
            ("w/\"abcdef\"", "w/\"abcdef\"", NotModified),
            ("abcdef", "\"abcdef\"", Proceed),
            ("\"abcdef\"", "abcdef", Proceed),
            ("\"1234\"", "\"abcdef\"", Proceed),
        ] {
            assert_eq!(decide(&[("if-none-match", condition)], &[("etag", tag)]), expected, "{condition} {tag}");
        }
        assert_eq!(decide(&[("if-none-match", "\"a\"")], &[]), Proceed);
    }

    #[test]
    fn dates_count_where_there_are_no_tags() {
        let (now, early, middle, late) = (date(0), date(-5000), date(-3000), date(-2000));
        let rfc_850 = "Friday, 20-Nov-26 11:10:00 GMT";
        for (since, stored, expected) in [
            (middle.as_str(), &[("last-modified", middle.as_str()), ("date", now.as_str())][..], NotModified),
            (&late, &[("last-modified", &middle), ("date", &now)], NotModified),
            (&early, &[("last-modified", &middle), ("date", &now)], Proceed),
            (rfc_850, &[("last-modified", &middle), ("date", &now)], NotModified),
            (&now, &[("date", &now)], NotModified),
            (&middle, &[("date", &now)], Proceed),
            (&middle, &[], Proceed),
            ("nonsense", &[("last-modified", &middle)], Proceed),
        ] {
            assert_eq!(decide(&[("if-modified-since", since)], stored), expected, "{since} {stored:?}");
        }
        let stored = [("etag", "\"a\""), ("last-modified", &middle)];
        assert_eq!(decide(&[("if-none-match", "\"a\""), ("if-modified-since", &early)], &stored), NotModified);
        assert_eq!(decide(&[("if-none-match", "\"b\""), ("if-modified-since", &late)], &stored), Proceed);
    }

    #[test]
    fn conditions_for_changes_fail_with_412() {
        let (early, middle, late) = (date(-5000), date(-3000), date(-2000));
        let stored = [("etag", "\"a\""), ("last-modified", middle.as_str())];
        for (request, expected) in [
            (&[("if-match", "\"a\"")][..], Proceed),
            (&[("if-match", "\"b\"")], Failed),
            (&[("if-match", "\"a\""), ("if-unmodified-since", &early)], Proceed),
            (&[("if-unmodified-since", &early)], Failed),
            (&[("if-unmodified-since", &early), ("if-none-match", "\"a\"")], Failed),
            (&[("if-unmodified-since", &late)], Proceed),
            (&[("if-unmodified-since", "nonsense")], Proceed),
        ] {
            assert_eq!(decide(request, &stored), expected, "{request:?}");
        }
        let other = evaluate(&Method::POST, &headers(&[("if-none-match", "\"a\"")]), &headers(&stored));
        assert_eq!(other, Failed);
        assert_eq!(evaluate(&Method::POST, &headers(&[("if-modified-since", &late)]), &headers(&stored)), Proceed);
    }

    proptest! {
        #[test]
        fn evaluation_is_total_and_without_conditions_all_goes_on(mut request in any_headers(), stored in any_headers()) {
            let _ = evaluate(&Method::GET, &request, &stored);
            for name in [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
                request.remove(name);
            }
            prop_assert_eq!(evaluate(&Method::GET, &request, &stored), Proceed);
        }
    }
}
