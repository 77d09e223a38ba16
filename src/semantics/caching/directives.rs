//! `Cache-Control`, of answers and of requests (RFC 9111 §5.2), and its replacements: `CDN-Cache-Control` (RFC 9213)
//! and `Pragma` (RFC 9111 §5.4).
//!
//! The directives that this cache acts on, as values. Not a decision. For a malformed or contradictory directive the
//! stricter reading wins: a lifetime that is not a number is 0, a qualified `private` or `no-cache` counts as the
//! unqualified one (both allowed by §5.2.2.4 and §5.2.2.7). Callers: the cache, once per answer and request.

use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderMap, PRAGMA};

use super::{list, targeted};
use crate::semantics::freshness::{MAX_AGE_SECONDS, parse_seconds};

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
    /// `s-maxage`, as above.
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
        if let Some(members) = targeted::members(headers) {
            let mut these = Self { targeted: true, ..Self::default() };
            for (name, seconds) in members {
                these.add(&name, || Duration::from_secs(seconds));
            }
            return these;
        }
        let mut these = Self::default();
        for directive in list::members(headers, CACHE_CONTROL).map(Directive::of) {
            these.add(directive.name, || directive.seconds());
        }
        these
    }

    /// Adds one directive; the first of several values counts.
    fn add(&mut self, name: &[u8], seconds: impl Fn() -> Duration) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let flags = [
            ("no-store", &mut self.no_store),
            ("no-cache", &mut self.no_cache),
            ("private", &mut self.private),
            ("public", &mut self.public),
            ("must-revalidate", &mut self.must_revalidate),
            ("proxy-revalidate", &mut self.proxy_revalidate),
            ("must-understand", &mut self.must_understand),
        ];
        for (_, flag) in flags.into_iter().filter(|(known, _)| is(known)) {
            *flag = true;
        }
        let values = [
            ("max-age", &mut self.max_age),
            ("s-maxage", &mut self.s_maxage),
            ("stale-while-revalidate", &mut self.stale_while_revalidate),
            ("stale-if-error", &mut self.stale_if_error),
        ];
        for (_, value) in values.into_iter().filter(|(known, _)| is(known)) {
            value.get_or_insert_with(&seconds);
        }
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
    /// `min-fresh`, as above.
    pub min_fresh: Option<Duration>,
    /// `max-stale`: `Some(None)` without a bound, `Some(Some(_))` with one; zero when it is malformed.
    pub max_stale: Option<Option<Duration>>,
}

impl RequestDirectives {
    /// Reads them.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut these = Self::default();
        for directive in list::members(headers, CACHE_CONTROL).map(Directive::of) {
            if directive.is("no-cache") {
                these.no_cache = true;
            } else if directive.is("no-store") {
                these.no_store = true;
            } else if directive.is("only-if-cached") {
                these.only_if_cached = true;
            } else if directive.is("max-age") {
                these.max_age.get_or_insert_with(|| directive.seconds());
            } else if directive.is("min-fresh") {
                these.min_fresh.get_or_insert_with(|| directive.seconds());
            } else if directive.is("max-stale") {
                these.max_stale.get_or_insert_with(|| directive.argument.is_given().then(|| directive.seconds()));
            }
        }
        // RFC 9111 §5.4: for clients that know no Cache-Control.
        if !headers.contains_key(CACHE_CONTROL) {
            these.no_cache = list::members(headers, PRAGMA).any(|member| member.eq_ignore_ascii_case(b"no-cache"));
        }
        these
    }
}

/// One member of the list.
#[derive(Clone, Copy)]
struct Directive<'a> {
    name: &'a [u8],
    argument: Argument<'a>,
}

#[derive(Clone, Copy)]
enum Argument<'a> {
    None,
    Given(&'a [u8]),
    /// With whitespace around the equals sign: not in the grammar, but clear.
    Malformed,
}

impl Argument<'_> {
    const fn is_given(&self) -> bool {
        !matches!(self, Self::None)
    }
}

impl<'a> Directive<'a> {
    fn of(member: &'a [u8]) -> Self {
        let Some(equals) = member.iter().position(|&byte| byte == b'=') else {
            return Self { name: member, argument: Argument::None };
        };
        let (raw, value) = (&member[..equals], &member[equals + 1..]);
        let name = crate::semantics::trim(raw);
        let spaced = name.len() != raw.len() || value.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        Self { name, argument: if spaced { Argument::Malformed } else { Argument::Given(unquoted(value)) } }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The argument as seconds; zero if it is not a number: the answer counts as stale (RFC 9111 §4.2.1).
    fn seconds(&self) -> Duration {
        let seconds = match self.argument {
            Argument::Given(value) => parse_seconds(value, MAX_AGE_SECONDS),
            Argument::None | Argument::Malformed => None,
        };
        Duration::from_secs(seconds.unwrap_or(0).into())
    }
}

/// RFC 9111 §5.2: both forms of an argument are to be accepted.
fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inside @ .., b'"'] => inside,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{any_headers, headers};
    use super::*;
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
}
