//! Validators and conditional requests: whether to answer in full, with 304 or with 412 (RFC 9110 §8.8.3, §13).
//!
//! Not the answer itself, the conditions that the cache sends, or the hash that makes our tags ([`crate::api`]). Callers:
//! [`crate::edge::answer`], and only for an answer that would otherwise be 200 (RFC 9110 §13.2.1); [`crate::data::cache`],
//! [`crate::edge::dumps`] and [`crate::edge::proxy`] for tags.

use http::Method;
use http::header::{
    DATE, ETAG, GetAll, HeaderMap, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE,
    LAST_MODIFIED,
};

use super::grammar::{PRESENT, date_in, trim};

/// How many list members are looked at, over all lines of a field; the rest is as if absent.
const MAX_MEMBERS: usize = 256;

/// An entity tag as in a header: `"..."` or `W/"..."`. A clone shares the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntityTag(HeaderValue);

impl EntityTag {
    /// Reads exactly one entity tag (RFC 9110 §8.8.3), without surrounding whitespace; `None`: it is none.
    pub fn parse(wire: &[u8]) -> Option<Self> {
        // Every byte of a valid tag is valid in a header value.
        split_tag(wire).filter(|(_, rest)| rest.is_empty()).and_then(|_| HeaderValue::from_bytes(wire).ok()).map(Self)
    }

    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(trim(headers.get(ETAG)?.as_bytes()))
    }

    /// This tag as a weak one, for a rewritten or recompressed representation.
    #[must_use]
    pub fn weakened(&self) -> Self {
        // A valid tag stays valid behind `W/`.
        Self::parse(&[b"W/", opaque(self.as_bytes())].concat()).unwrap_or_else(|| self.clone())
    }

    /// The tag as it is sent, quotation marks and `W/` included.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The value for an `ETag` header; shares the bytes.
    pub fn to_header_value(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// Weak comparison: equal opaque bytes, whatever the marks (RFC 9110 §8.8.3.2).
pub(super) fn matches_weakly(one: &[u8], other: &[u8]) -> bool {
    opaque(one) == opaque(other)
}

/// Strong comparison: equal opaque bytes and neither tag weak (RFC 9110 §8.8.3.2).
pub(super) fn matches_strongly(one: &[u8], other: &[u8]) -> bool {
    one == other && opaque(one).len() == one.len()
}

/// The tag without its mark, which is case-sensitive (RFC 9110 §8.8.3: weak = %s"W/").
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Splits a tag off the front of `text`; the rest is whatever follows its closing quotation mark.
fn split_tag(text: &[u8]) -> Option<(&[u8], &[u8])> {
    /// Visible ASCII but the quotation mark, and obs-text.
    const fn is_etagc(byte: u8) -> bool {
        matches!(byte, 0x21 | 0x23..=0x7E | 0x80..=0xFF)
    }
    let inside = opaque(text).strip_prefix(b"\"")?;
    let end = inside.iter().position(|&byte| !is_etagc(byte)).filter(|&end| inside[end] == b'"')?;
    Some(text.split_at(text.len() - inside.len() + end + 1))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precondition {
    /// Answer as if there were no condition.
    Proceed,
    /// The client has the current representation: 304.
    NotModified,
    /// A condition is false: 412.
    Failed,
}

/// Evaluates the conditions in the order of RFC 9110 §13.2.2. `current` is the tag of the representation that would be
/// sent; `None` if it has no tag; then only `*` matches.
///
/// Several lines of a field are one list (RFC 9110 §5.3). Invalid members are skipped, and so is a `*` among other
/// members: at worst the answer is complete, or 412 for `If-Match`. Allocates nothing. Dates are ignored: answers from the
/// snapshot carry no `Last-Modified` (RFC 9110 §13.1.3, §13.1.4).
pub fn evaluate(method: &Method, headers: &HeaderMap, current: Option<&EntityTag>) -> Precondition {
    // RFC 9110 §13.2.1: these neither select nor modify a representation.
    if matches!(*method, Method::OPTIONS | Method::TRACE | Method::CONNECT) {
        return Precondition::Proceed;
    }
    // RFC 9110 §13.2.2 step 1; §13.1.1 asks for the strong comparison, which our weak tags never satisfy.
    if headers.contains_key(IF_MATCH) && !names(&headers.get_all(IF_MATCH), current, matches_strongly) {
        return Precondition::Failed;
    }
    // RFC 9110 §13.2.2 step 3; §13.1.2 asks for the weak comparison.
    if headers.contains_key(IF_NONE_MATCH) && names(&headers.get_all(IF_NONE_MATCH), current, matches_weakly) {
        return match *method {
            Method::GET | Method::HEAD => Precondition::NotModified,
            _ => Precondition::Failed,
        };
    }
    Precondition::Proceed
}

/// Whether the field's list names the current representation.
fn names(lines: &GetAll<'_, HeaderValue>, current: Option<&EntityTag>, matches: fn(&[u8], &[u8]) -> bool) -> bool {
    let mut line_iter = lines.iter();
    let only = line_iter.next().filter(|_| line_iter.next().is_none()).map(HeaderValue::as_bytes);
    if only.map(trim) == Some(b"*") {
        return true;
    }
    let Some(current) = current.map(EntityTag::as_bytes) else { return false };
    // Nearly every conditional request names exactly our tag.
    if let Some((tag, [])) = only.and_then(split_tag) {
        return matches(tag, current);
    }
    // DEVIATION: RFC 9110 §13.1 has no such bound. Beyond it `If-None-Match` costs a whole answer, and `If-Match` is
    // 412.
    let members = lines.iter().flat_map(|line| ListedTags(line.as_bytes())).take(MAX_MEMBERS);
    members.flatten().any(|tag| matches(tag, current))
}

/// The members of one line; `None` for an invalid one.
struct ListedTags<'a>(&'a [u8]);

impl<'a> Iterator for ListedTags<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        // Empty members don't count (RFC 9110 §5.6.1.2).
        while let [b',' | b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
        if self.0.is_empty() {
            return None;
        }
        if let Some((tag, rest)) = split_tag(self.0)
            && matches!(trim(rest), [] | [b',', ..])
        {
            self.0 = rest;
            return Some(Some(tag));
        }
        let comma = self.0.iter().position(|&byte| byte == b',').unwrap_or(self.0.len());
        self.0 = &self.0[comma..];
        Some(None)
    }
}

/// Evaluates the conditions against a stored answer that carries the origin's validators, which may be dates (RFC 9111
/// §4.3.2), in the order of RFC 9110 §13.2.2: `If-Match`, else `If-Unmodified-Since`; `If-None-Match`,
/// else `If-Modified-Since`. A malformed date counts as absent.
pub(crate) fn evaluate_stored(method: &Method, request: &HeaderMap, stored: &HeaderMap) -> Precondition {
    let by_tag = evaluate(method, request, EntityTag::of(stored).as_ref());
    if by_tag == Precondition::Failed {
        return by_tag;
    }
    let date = date_in(stored, DATE, PRESENT);
    let now = date.unwrap_or(PRESENT);
    let modified = date_in(stored, LAST_MODIFIED, now);
    if !request.contains_key(IF_MATCH)
        && let (Some(bound), Some(modified)) = (date_in(request, IF_UNMODIFIED_SINCE, now), modified)
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
    match (date_in(request, IF_MODIFIED_SINCE, now), modified.or(date)) {
        (Some(since), Some(modified)) if modified <= since => Precondition::NotModified,
        _ => Precondition::Proceed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{any_headers, date, headers};
    use Precondition::{Failed, NotModified, Proceed};
    use proptest::prelude::*;
    #[test]
    fn tags_are_read_strictly() {
        for good in [&b"\"\""[..], b"\"xyzzy\"", b"W/\"xyzzy\"", b"\"a,b\"", b"\"\xfc\"", b"\"!\"", b"\"W/\""] {
            assert_eq!(EntityTag::parse(good).unwrap().as_bytes(), good);
        }
        for bad in [
            &b""[..],
            b"xyzzy",
            b"w/\"x\"",
            b"W/x",
            b" \"x\"",
            b"*",
            b"\"",
            b"\"a b\"",
            b"\"a\0\"",
            b"\"a\x7f\"",
            b"\"a\"b",
            b"\"a\" ",
            b"\"a\", \"b\"",
        ] {
            assert_eq!(EntityTag::parse(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn the_comparison_table_of_rfc_9110_holds() {
        for (a, b, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            let (x, y) = (a.as_bytes(), b.as_bytes());
            assert_eq!((matches_strongly(x, y), matches_weakly(x, y)), (strong, weak), "{a} {b}");
        }
    }

    #[test]
    fn weakening_marks_a_strong_tag_and_keeps_a_weak_one() {
        let strong = EntityTag::parse(b"\"v1\"").unwrap();
        assert_eq!(strong.weakened(), EntityTag::parse(b"W/\"v1\"").unwrap());
        assert_eq!(strong.weakened().weakened(), strong.weakened());
    }

    proptest! {
        #[test]
        fn the_parser_is_total_and_keeps_the_bytes(bytes: Vec<u8>) {
            if let Some(tag) = EntityTag::parse(&bytes) {
                prop_assert_eq!(tag.as_bytes(), bytes.as_slice());
                prop_assert!(matches_weakly(tag.as_bytes(), tag.weakened().as_bytes()));
            }
        }
    }

    fn asking(if_match: &[&str], if_none_match: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, lines) in [(IF_MATCH, if_match), (IF_NONE_MATCH, if_none_match)] {
            for line in lines {
                map.append(name.clone(), line.parse().unwrap());
            }
        }
        map
    }

    #[test]
    fn a_get_is_decided_by_the_table() {
        let weak = EntityTag::parse(b"W/\"now\"").unwrap();
        for (if_match, if_none_match, expected) in [
            (&[][..], &[][..], Proceed),
            (&[], &["W/\"now\""], NotModified),
            (&[], &["\"now\""], NotModified),
            (&[], &["*"], NotModified),
            (&[], &[" * "], NotModified),
            (&[], &["\"old\""], Proceed),
            (&[], &["\"old\", W/\"now\""], NotModified),
            (&[], &["\"old\" ,\t, \"now\" , "], NotModified),
            (&[], &["\"old\"", "\"older\", \"now\""], NotModified),
            (&[], &["\"a,now\", \"now,b\""], Proceed),
            (&[], &["now"], Proceed),
            (&[], &["\"old, \"now\""], NotModified),
            (&[], &["\"now\"x"], Proceed),
            (&[], &["\"now\" \"now\""], Proceed),
            (&[], &["w/\"now\""], Proceed),
            (&[], &["junk, \"now\""], NotModified),
            (&[], &["*, \"old\""], Proceed),
            (&[], &["*", "\"old\""], Proceed),
            (&[], &[""], Proceed),
            (&["*"], &[], Proceed),
            (&["W/\"now\""], &[], Failed),
            (&["\"now\""], &[], Failed),
            (&["junk"], &[], Failed),
            (&[""], &[], Failed),
            (&["*"], &["\"now\""], NotModified),
            (&["\"now\""], &["\"now\""], Failed),
        ] {
            let map = asking(if_match, if_none_match);
            assert_eq!(evaluate(&Method::GET, &map, Some(&weak)), expected, "{if_match:?} {if_none_match:?}");
            assert_eq!(evaluate(&Method::HEAD, &map, Some(&weak)), expected, "HEAD {if_match:?} {if_none_match:?}");
        }
    }

    #[test]
    fn a_strong_tag_of_the_origin_satisfies_if_match() {
        let strong = EntityTag::parse(b"\"now\"").unwrap();
        assert_eq!(evaluate(&Method::GET, &asking(&["\"old\", \"now\""], &[]), Some(&strong)), Proceed);
        assert_eq!(evaluate(&Method::GET, &asking(&["W/\"now\""], &[]), Some(&strong)), Failed);
    }

    #[test]
    fn a_representation_without_a_tag_is_named_by_the_asterisk_alone() {
        assert_eq!(evaluate(&Method::GET, &asking(&["*"], &[]), None), Proceed);
        assert_eq!(evaluate(&Method::GET, &asking(&["\"a\""], &[]), None), Failed);
        assert_eq!(evaluate(&Method::GET, &asking(&[], &["*"]), None), NotModified);
        assert_eq!(evaluate(&Method::GET, &asking(&[], &["\"a\""]), None), Proceed);
    }

    #[test]
    fn other_methods_fail_where_a_get_would_be_not_modified() {
        let tag = EntityTag::parse(b"W/\"now\"").unwrap();
        assert_eq!(evaluate(&Method::POST, &asking(&[], &["*"]), Some(&tag)), Failed);
        assert_eq!(evaluate(&Method::OPTIONS, &asking(&["\"x\""], &["*"]), Some(&tag)), Proceed);
    }

    #[test]
    fn dates_are_ignored() {
        let mut map = HeaderMap::new();
        map.insert(http::header::IF_MODIFIED_SINCE, HeaderValue::from_static("Fri, 31 Dec 9999 23:59:59 GMT"));
        map.insert(http::header::IF_UNMODIFIED_SINCE, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(evaluate(&Method::GET, &map, Some(&EntityTag::parse(b"W/\"now\"").unwrap())), Proceed);
    }

    #[test]
    fn members_beyond_the_bound_are_not_looked_at() {
        let tag = EntityTag::parse(b"W/\"now\"").unwrap();
        let inside = format!("{}\"now\"", "\"x\",".repeat(MAX_MEMBERS - 1));
        let beyond = format!("{}\"now\"", "x,".repeat(MAX_MEMBERS));
        assert_eq!(evaluate(&Method::GET, &asking(&[], &[&inside]), Some(&tag)), NotModified);
        assert_eq!(evaluate(&Method::GET, &asking(&[], &[&beyond]), Some(&tag)), Proceed);
    }

    proptest! {
        #[test]
        fn evaluation_is_total(lines in prop::collection::vec("[\" ,W/*a\\x80-\\xff]{0,24}", 0..4)) {
            let mut map = HeaderMap::new();
            for line in &lines {
                map.append(IF_NONE_MATCH, HeaderValue::from_bytes(line.as_bytes()).unwrap());
            }
            let (tag, other) = (EntityTag::parse(b"W/\"a\"").unwrap(), EntityTag::parse(b"W/\"b\"").unwrap());
            let any = lines.len() == 1 && lines[0].trim() == "*";
            if evaluate(&Method::GET, &map, Some(&tag)) == NotModified {
                prop_assert!(any || lines.iter().any(|line| line.contains("\"a\"")));
            }
            prop_assert_eq!(evaluate(&Method::GET, &map, Some(&other)) == NotModified, any);
        }
    }

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn decide(request: Pairs<'_>, stored: Pairs<'_>) -> Precondition {
        evaluate_stored(&Method::GET, &headers(request), &headers(stored))
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
        let other = evaluate_stored(&Method::POST, &headers(&[("if-none-match", "\"a\"")]), &headers(&stored));
        assert_eq!(other, Failed);
        assert_eq!(
            evaluate_stored(&Method::POST, &headers(&[("if-modified-since", &late)]), &headers(&stored)),
            Proceed
        );
    }

    proptest! {
        #[test]
        fn evaluation_is_total_and_without_conditions_all_goes_on(mut request in any_headers(), stored in any_headers()) {
            let _ = evaluate_stored(&Method::GET, &request, &stored);
            for name in [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
                request.remove(name);
            }
            prop_assert_eq!(evaluate_stored(&Method::GET, &request, &stored), Proceed);
        }
    }
}
