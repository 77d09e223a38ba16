//! Content negotiation through a cache: `Vary`, and whether a stored answer was selected by the same fields (RFC 9111
//! §4.1).
//!
//! The fields that an answer names, their values in the request that it answered, and the comparison. Not the part of
//! the cache key that the target gives.
//!
//! `Accept-Encoding` is never compared: [`super::onward`] never sends the client's, so all clients share the answer.
//! Callers: [`crate::data::cache`], [`crate::edge::proxy`], [`crate::origin`], and modules beside it.

use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_LANGUAGE, COOKIE, HeaderMap, HeaderName, HeaderValue, VARY,
};

use super::blames_the_request;
use super::fields::is_bare;
use crate::protocol::grammar::{every_member, members, trim, weight};

/// More fields count as `*`.
const MAX_FIELDS: usize = 32;
/// A longer value is kept as its hash.
const MAX_VALUE: usize = 256;

/// The fields of a request that an answer depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Vary {
    /// On these; sorted, each once.
    Fields(Vec<HeaderName>),
    /// On something outside the request: the answer serves no other request.
    Star,
}

impl Vary {
    /// The answer depends on no field.
    pub const NOTHING: Self = Self::Fields(Vec::new());

    /// Reads `Vary`. An invalid field name counts as `*`, and so do more than 32 fields.
    pub fn of(response: &HeaderMap) -> Self {
        let mut names = Vec::new();
        for member in members(response, VARY) {
            match HeaderName::from_bytes(member) {
                Ok(name) if member != b"*" => names.push(name),
                _ => return Self::Star,
            }
        }
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        if names.len() > MAX_FIELDS { Self::Star } else { Self::Fields(names) }
    }

    pub fn names(&self, name: &HeaderName) -> bool {
        match self {
            Self::Fields(names) => names.contains(name),
            Self::Star => true,
        }
    }
}

/// The values that selected an answer, normalised.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Selecting {
    /// Of the fields that `Vary` names; `None`: nothing can match (`Vary: *`).
    named: Option<Vec<(HeaderName, SelectingValue)>>,
    /// Of fields that it does not name, but the answer may depend on.
    unnamed: Vec<(HeaderName, SelectingValue)>,
}

/// The one language that a bare request asked for and got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OneLanguage(Box<[u8]>);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum SelectingValue {
    Absent,
    Short(Box<[u8]>),
    Long([u8; 32]),
}

impl Selecting {
    pub fn of(vary: &Vary, request: &HeaderMap) -> Self {
        let fields = match vary {
            Vary::Fields(names) => Some(names.iter().filter(|name| **name != ACCEPT_ENCODING)),
            Vary::Star => None,
        };
        let named = fields.map(|names| names.map(|name| (name.clone(), SelectingValue::of(name, request))).collect());
        Self { named, unnamed: Vec::new() }
    }

    #[must_use]
    pub fn and<'a>(mut self, unnamed: impl Iterator<Item = &'a HeaderName>, request: &HeaderMap) -> Self {
        for name in unnamed {
            let fields = self.named.iter().flatten().chain(&self.unnamed);
            if fields.into_iter().all(|(known, _)| known != name) {
                self.unnamed.push((name.clone(), SelectingValue::of(name, request)));
            }
        }
        self.unnamed.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        self
    }

    pub fn matches(&self, request: &HeaderMap) -> bool {
        self.matches_but(request, |_| false)
    }

    /// Whether it has the same values but for `Accept-Language`, by which it wants this language more than any other.
    pub fn serves_as_favourite(&self, language: &OneLanguage, request: &HeaderMap) -> bool {
        self.matches_but(request, |name| *name == ACCEPT_LANGUAGE && language.is_favourite_of(request))
    }

    fn matches_but(&self, request: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> bool {
        let is_same =
            |(name, value): &(HeaderName, SelectingValue)| passes(name) || SelectingValue::of(name, request) == *value;
        self.named.as_ref().is_some_and(|named| named.iter().chain(&self.unnamed).all(is_same))
    }

    /// Whether no field is compared that `Vary` does not name.
    pub const fn is_by_vary_alone(&self) -> bool {
        self.unnamed.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.named.iter().flatten().map(|(name, _)| name)
    }

    /// Its size in bytes, roughly.
    pub fn weight(&self) -> usize {
        let fields = self.named.iter().flatten().chain(&self.unnamed);
        fields.map(|(name, value)| size_of::<(HeaderName, SelectingValue)>() + name.as_str().len() + value.len()).sum()
    }
}

impl SelectingValue {
    fn of(name: &HeaderName, request: &HeaderMap) -> Self {
        if !request.contains_key(name) {
            return Self::Absent;
        }
        let text = match *name {
            ACCEPT_LANGUAGE => languages(request),
            // No lists: a comma is a part of their values.
            COOKIE | AUTHORIZATION => whole(request, name),
            _ => combined(request, name),
        };
        if text.len() > MAX_VALUE { Self::Long(*blake3::hash(&text).as_bytes()) } else { Self::Short(text.into()) }
    }

    fn len(&self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Short(text) => text.len(),
            Self::Long(hash) => hash.len(),
        }
    }
}

/// All lines of a field, byte for byte, as lines of `Cookie` are joined (RFC 9113 §8.2.3).
fn whole(request: &HeaderMap, name: &HeaderName) -> Vec<u8> {
    request.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b"; "[..])
}

/// All lines of a field as one list without whitespace around its members (RFC 9111 §4.1). Empty members count: an
/// origin that takes the field for no list sees them.
fn combined(request: &HeaderMap, name: &HeaderName) -> Vec<u8> {
    every_member(request, name).collect::<Vec<_>>().join(&b","[..])
}

impl OneLanguage {
    /// Of a request that says nothing unusual, but one plain language range, and the answer in just this language.
    /// Errors are nobody else's: the value may have caused them.
    pub fn of(sent: &HeaderMap, status: StatusCode, response: &HeaderMap) -> Option<Self> {
        let (asked, given) = (sent.get(ACCEPT_LANGUAGE)?.as_bytes(), response.get(CONTENT_LANGUAGE)?.as_bytes());
        let is_plain = asked.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_given = is_plain && asked.eq_ignore_ascii_case(trim(given));
        let is_single = |headers: &HeaderMap, name| headers.get_all(name).iter().count() == 1;
        let is_only = is_single(sent, ACCEPT_LANGUAGE) && is_single(response, CONTENT_LANGUAGE);
        let is_bare = is_bare(sent, &Vary::of(response));
        (is_given && is_only && is_bare && !blames_the_request(status)).then(|| Self(asked.to_ascii_lowercase().into()))
    }

    /// Whether the request wants it more than any other. Malformed members weigh as much as absent ones.
    fn is_favourite_of(&self, request: &HeaderMap) -> bool {
        let (mut own, mut others) = (0, 0);
        for member in members(request, ACCEPT_LANGUAGE) {
            let mut parts = member.split(|&byte| byte == b';').map(trim);
            let is_own = parts.next().is_some_and(|range| range.eq_ignore_ascii_case(&self.0));
            let weighed = parts.find(|part| matches!(part, [b'q' | b'Q', b'=', ..]));
            let best = if is_own { &mut own } else { &mut others };
            *best = weighed.map_or(1000, |weighed| weight(weighed).unwrap_or(0)).max(*best);
        }
        own > others
    }
}

/// `Accept-Language` with its ranges in lower case, in the order of the request.
fn languages(request: &HeaderMap) -> Vec<u8> {
    let members = every_member(request, ACCEPT_LANGUAGE).map(|member| {
        let mut parts = member.split(|&byte| byte == b';').map(trim);
        let range = parts.next().unwrap_or_default().to_ascii_lowercase();
        std::iter::once(range).chain(parts.map(<[u8]>::to_vec)).collect::<Vec<_>>().join(&b';')
    });
    members.collect::<Vec<_>>().join(&b","[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{any_headers, headers};
    use proptest::prelude::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn matches(vary: &str, stored: Pairs<'_>, presented: Pairs<'_>) -> bool {
        let response = headers(&[("vary", vary)]);
        Selecting::of(&Vary::of(&response), &headers(stored)).matches(&headers(presented))
    }

    #[test]
    fn a_star_anywhere_is_a_star() {
        for lines in [&["*"][..], &["*, *"], &["*", "*"], &[", *"], &["", "*"], &["*, Foo"], &["Foo, *"], &["no name"]]
        {
            let pairs: Vec<_> = lines.iter().map(|line| ("vary", *line)).collect();
            let vary = Vary::of(&headers(&pairs));
            assert_eq!(vary, Vary::Star, "{lines:?}");
            assert!(!Selecting::of(&vary, &HeaderMap::new()).matches(&HeaderMap::new()));
        }
        assert_eq!(Vary::of(&headers(&[("vary", "")])), Vary::NOTHING);
        let foo_bar = Vary::Fields(vec!["bar".parse().unwrap(), "foo".parse().unwrap()]);
        assert_eq!(Vary::of(&headers(&[("vary", "Foo,, bar"), ("vary", "foo")])), foo_bar);
        let many = (0..33).map(|number| format!("x-{number}")).collect::<Vec<_>>().join(",");
        assert_eq!(Vary::of(&headers(&[("vary", &many)])), Vary::Star);
    }

    #[test]
    fn an_answer_serves_the_requests_with_the_same_values_in_the_fields_that_it_names() {
        for (vary, stored, presented, expected) in [
            ("Foo", &[("foo", "1")][..], &[("foo", "1")][..], true),
            ("Foo", &[("foo", "1")], &[("foo", "2")], false),
            ("Foo", &[], &[("foo", "1")], false),
            ("Foo", &[("foo", "1")], &[], false),
            ("Foo", &[("foo", "")], &[], false),
            ("Foo", &[], &[], true),
            ("Foo", &[("foo", "1"), ("other", "2")], &[("foo", "1"), ("other", "3")], true),
            ("Foo, Bar", &[("foo", "1"), ("bar", "abc")], &[("bar", "abc"), ("foo", "1")], true),
            ("Foo, Bar", &[("foo", "1"), ("bar", "abc")], &[("foo", "1"), ("bar", "abcde")], false),
            ("Foo, Bar, Baz", &[("foo", "1"), ("baz", "789")], &[("foo", "1"), ("baz", "789")], true),
            ("Foo", &[("foo", "a, b")], &[("foo", "b, a")], false),
            ("Foo", &[("foo", "a")], &[("foo", "A")], false),
            ("", &[("foo", "1")], &[], true),
            ("Accept-Encoding", &[("accept-encoding", "gzip")], &[("accept-encoding", "br")], true),
        ] {
            assert_eq!(matches(vary, stored, presented), expected, "{vary} {stored:?} {presented:?}");
        }
    }

    #[test]
    fn values_that_mean_the_same_are_the_same() {
        for (stored, presented) in [
            (&[("foo", "1, 2")][..], &[("foo", "1"), ("foo", "2")][..]),
            (&[("foo", "1,2")], &[("foo", " 1, 2 ")]),
            (&[("accept-language", "en, de")], &[("accept-language", "eN, De")]),
            (&[("accept-language", "en, de")], &[("accept-language", " en ,   de")]),
            (&[("accept-language", "en, de;q=0.5")], &[("accept-language", "en"), ("accept-language", "DE ; q=0.5")]),
        ] {
            assert!(matches("Foo, Accept-Language", stored, presented), "{stored:?} {presented:?}");
        }
        for (stored, presented) in [
            (&[("foo", "\"1, 2\"")][..], &[("foo", "\"1,2\"")][..]),
            (&[("foo", "12")], &[("foo", "1,2")]),
            (&[("foo", ",1")], &[("foo", "1")]),
            (&[("foo", "1, ")], &[("foo", "1")]),
            (&[("foo", "1,,2")], &[("foo", "1,2")]),
            (&[("foo", "1"), ("foo", "")], &[("foo", "1")]),
            (&[("foo", ",")], &[("foo", "")]),
            (&[("accept-language", ",en")], &[("accept-language", "en")]),
            (&[("accept-language", "en;q=0.5, de")], &[("accept-language", "en, de;q=0.5")]),
            (&[("accept-language", "fr, en")], &[("accept-language", "en, fr")]),
            (&[("accept-language", "en;q=1, x;q=0.1")], &[("accept-language", "en")]),
            (&[("accept-language", "en")], &[("accept-language", "en-GB")]),
            (&[("accept-language", "en")], &[]),
        ] {
            assert!(!matches("Foo, Accept-Language", stored, presented), "{stored:?} {presented:?}");
        }
    }

    #[test]
    fn an_answer_in_the_one_language_that_was_asked_for_serves_whoever_wants_it_most() {
        let response = headers(&[("vary", "Accept-Language"), ("content-language", "de")]);
        let sent = headers(&[("accept-language", "DE")]);
        let language = OneLanguage::of(&sent, StatusCode::OK, &response).unwrap();
        let stored = Selecting::of(&Vary::of(&response), &sent);
        for (wanted, expected) in [
            ("fr;q=0.5, de;q=1.0", true),
            ("de;q=1, <script>;q=0.1", true),
            ("DE", true),
            ("fr;q=0.5, de;q=0.5", false),
            ("fr, de;q=0.5", false),
            ("de;q=0", false),
            ("de;q=x", false),
            ("fr", false),
            ("*", false),
        ] {
            let wanted = headers(&[("accept-language", wanted)]);
            assert_eq!(stored.serves_as_favourite(&language, &wanted), expected, "{wanted:?}");
        }
        assert!(!stored.serves_as_favourite(&language, &HeaderMap::new()));
        let also = Selecting::of(&Vary::of(&headers(&[("vary", "accept-language, foo")])), &sent);
        assert!(!also.serves_as_favourite(&language, &headers(&[("accept-language", "de"), ("foo", "1")])));
    }

    #[test]
    fn what_one_client_chose_is_shared_as_no_ones_favourite() {
        let of = |sent: Pairs<'_>, status, response: Pairs<'_>| {
            let response = headers(&[&[("vary", "Accept-Language")], response].concat());
            OneLanguage::of(&headers(sent), StatusCode::from_u16(status).unwrap(), &response).is_some()
        };
        let (asked, given) = ([("accept-language", "en")], [("content-language", "en")]);
        assert!(of(&asked, 200, &given) && of(&asked, 301, &given));
        for status in [400, 403, 404, 500] {
            assert!(!of(&asked, status, &given), "{status}");
        }
        for asked in ["en;q=1, <script>;q=0.1", "en;q=1", "en, fr", "*", "de", ""] {
            assert!(!of(&[("accept-language", asked)], 200, &given), "{asked}");
        }
        assert!(!of(&[asked[0], ("accept-language", "en")], 200, &given));
        assert!(!of(&[asked[0], ("x-odd", "1")], 200, &given) && !of(&[], 200, &given));
        assert!(!of(&asked, 200, &[("content-language", "en, de")]) && !of(&asked, 200, &[given[0], given[0]]));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let response = headers(&[("vary", "foo")]);
        let vary = Vary::of(&response);
        let long = "x".repeat(100_000);
        let selecting = Selecting::of(&vary, &headers(&[("foo", &long)]));
        assert!(selecting.weight() < 1000);
        assert!(selecting.matches(&headers(&[("foo", &long)])));
        assert!(!selecting.matches(&headers(&[("foo", &format!("{long}x"))])));
        assert_eq!(selecting.names().collect::<Vec<_>>(), ["foo"]);
    }

    proptest! {
        #[test]
        fn a_request_matches_its_own_answer_unless_that_varies_by_anything(
            request in any_headers(), response in any_headers(),
        ) {
            let vary = Vary::of(&response);
            let selecting = Selecting::of(&vary, &request);
            prop_assert_eq!(selecting.matches(&request), vary != Vary::Star);
        }

        #[test]
        fn requests_that_differ_in_a_named_field_share_no_answer(one in "[a-z]{0,5}", other in "[a-z]{0,5}") {
            prop_assert_eq!(matches("Foo", &[("foo", &one)], &[("foo", &other)]), one == other);
        }
    }
}
