//! Conditional requests: whether to answer in full, with 304 or with 412 (RFC 9110 §13).
//!
//! The evaluation of `If-Match` and `If-None-Match` against the current tag. Not the answer itself, or any use of dates:
//! answers from the snapshot carry no `Last-Modified`, so `If-Modified-Since` and `If-Unmodified-Since` are ignored,
//! as RFC 9110 §13.1.3 and §13.1.4 ask for resources without a modification date.
//! Callers: `answer::compose`, and only for an answer that would otherwise be 200 (RFC 9110 §13.2.1).

use http::Method;
use http::header::{GetAll, HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH};

use super::etag::{EntityTag, TagRef};
use super::trim;

/// How many list members are looked at, over all lines of a field; the rest is as if absent.
const MAX_MEMBERS: usize = 256;

/// The result of the conditions.
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
/// members: at worst the answer is complete, or 412 for `If-Match`. Allocates nothing.
pub fn evaluate(method: &Method, headers: &HeaderMap, current: Option<&EntityTag>) -> Precondition {
    // RFC 9110 §13.2.1: these neither select nor modify a representation.
    if matches!(*method, Method::OPTIONS | Method::TRACE | Method::CONNECT) {
        return Precondition::Proceed;
    }
    // RFC 9110 §13.2.2 step 1; §13.1.1 asks for the strong comparison, which our weak tags never satisfy.
    if headers.contains_key(IF_MATCH) && !names(&headers.get_all(IF_MATCH), current, Comparison::Strong) {
        return Precondition::Failed;
    }
    // RFC 9110 §13.2.2 step 3; §13.1.2 asks for the weak comparison.
    if headers.contains_key(IF_NONE_MATCH) && names(&headers.get_all(IF_NONE_MATCH), current, Comparison::Weak) {
        return match *method {
            Method::GET | Method::HEAD => Precondition::NotModified,
            _ => Precondition::Failed,
        };
    }
    Precondition::Proceed
}

/// The two comparisons of RFC 9110 §8.8.3.2.
#[derive(Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

impl Comparison {
    fn holds(self, one: TagRef<'_>, other: TagRef<'_>) -> bool {
        match self {
            Self::Strong => one.matches_strongly(other),
            Self::Weak => one.matches_weakly(other),
        }
    }
}

/// Whether the field's list names the current representation.
fn names(lines: &GetAll<'_, HeaderValue>, current: Option<&EntityTag>, comparison: Comparison) -> bool {
    let mut line_iter = lines.iter();
    let only = line_iter.next().filter(|_| line_iter.next().is_none()).map(HeaderValue::as_bytes);
    if only.map(trim) == Some(b"*") {
        return true;
    }
    let Some(current) = current.map(EntityTag::view) else { return false };
    // Nearly every conditional request names exactly our tag.
    if let Some(Ok((tag, []))) = only.map(TagRef::split) {
        return comparison.holds(tag, current);
    }
    lines
        .iter()
        .flat_map(|line| Members(line.as_bytes()))
        .take(MAX_MEMBERS)
        .flatten()
        .any(|tag| comparison.holds(tag, current))
}

/// The members of one line; `None` for an invalid one.
struct Members<'a>(&'a [u8]);

impl<'a> Iterator for Members<'a> {
    type Item = Option<TagRef<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        // Empty members don't count (RFC 9110 §5.6.1.2).
        while let [b',' | b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
        if self.0.is_empty() {
            return None;
        }
        if let Ok((tag, rest)) = TagRef::split(self.0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use Precondition::{Failed, NotModified, Proceed};
    use proptest::prelude::*;

    fn headers(if_match: &[&str], if_none_match: &[&str]) -> HeaderMap {
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
        let weak = EntityTag::weak("now").unwrap();
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
            let map = headers(if_match, if_none_match);
            assert_eq!(evaluate(&Method::GET, &map, Some(&weak)), expected, "{if_match:?} {if_none_match:?}");
            assert_eq!(evaluate(&Method::HEAD, &map, Some(&weak)), expected, "HEAD {if_match:?} {if_none_match:?}");
        }
    }

    #[test]
    fn a_strong_tag_of_the_origin_satisfies_if_match() {
        let strong = EntityTag::parse(b"\"now\"").unwrap();
        assert_eq!(evaluate(&Method::GET, &headers(&["\"old\", \"now\""], &[]), Some(&strong)), Proceed);
        assert_eq!(evaluate(&Method::GET, &headers(&["W/\"now\""], &[]), Some(&strong)), Failed);
    }

    #[test]
    fn a_representation_without_a_tag_is_named_by_the_asterisk_alone() {
        assert_eq!(evaluate(&Method::GET, &headers(&["*"], &[]), None), Proceed);
        assert_eq!(evaluate(&Method::GET, &headers(&["\"a\""], &[]), None), Failed);
        assert_eq!(evaluate(&Method::GET, &headers(&[], &["*"]), None), NotModified);
        assert_eq!(evaluate(&Method::GET, &headers(&[], &["\"a\""]), None), Proceed);
    }

    #[test]
    fn other_methods_fail_where_a_get_would_be_not_modified() {
        let tag = EntityTag::weak("now").unwrap();
        assert_eq!(evaluate(&Method::POST, &headers(&[], &["*"]), Some(&tag)), Failed);
        assert_eq!(evaluate(&Method::OPTIONS, &headers(&["\"x\""], &["*"]), Some(&tag)), Proceed);
    }

    #[test]
    fn dates_are_ignored() {
        let mut map = HeaderMap::new();
        map.insert(http::header::IF_MODIFIED_SINCE, HeaderValue::from_static("Fri, 31 Dec 9999 23:59:59 GMT"));
        map.insert(http::header::IF_UNMODIFIED_SINCE, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(evaluate(&Method::GET, &map, Some(&EntityTag::weak("now").unwrap())), Proceed);
    }

    #[test]
    fn members_beyond_the_bound_are_not_looked_at() {
        let tag = EntityTag::weak("now").unwrap();
        let inside = format!("{}\"now\"", "\"x\",".repeat(MAX_MEMBERS - 1));
        let beyond = format!("{}\"now\"", "x,".repeat(MAX_MEMBERS));
        assert_eq!(evaluate(&Method::GET, &headers(&[], &[&inside]), Some(&tag)), NotModified);
        assert_eq!(evaluate(&Method::GET, &headers(&[], &[&beyond]), Some(&tag)), Proceed);
    }

    proptest! {
        #[test]
        fn evaluation_is_total(lines in prop::collection::vec("[\" ,W/*a\\x80-\\xff]{0,24}", 0..4)) {
            let mut map = HeaderMap::new();
            for line in &lines {
                map.append(IF_NONE_MATCH, HeaderValue::from_bytes(line.as_bytes()).unwrap());
            }
            let (tag, other) = (EntityTag::weak("a").unwrap(), EntityTag::weak("b").unwrap());
            let any = lines.len() == 1 && lines[0].trim() == "*";
            if evaluate(&Method::GET, &map, Some(&tag)) == NotModified {
                prop_assert!(any || lines.iter().any(|line| line.contains("\"a\"")));
            }
            prop_assert_eq!(evaluate(&Method::GET, &map, Some(&other)) == NotModified, any);
        }
    }
}
