//! Preferences of a client: the content coding of an answer (RFC 9110 §12.5.3), and HTML for people (§12.5.1).
//!
//! The choice. Not compression, or the `Vary` and `ETag` that go with it. Callers:
//! [`crate::edge::answer::admit`], once per request, before the reply is looked up.

use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap};

use crate::words::named;

use super::grammar::{members, trim, weight};

/// How many members of a field are read, over all its lines; the rest is as if absent.
const MAX_MEMBERS: usize = 64;

named! {
    /// A content coding that we can send, by its name in `Content-Encoding`, logs and metrics.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum Coding, as_str {
        /// None at all.
        Identity = "identity",
        /// RFC 1952; also known as `x-gzip`.
        Gzip = "gzip",
        /// RFC 7932.
        Brotli = "br",
        /// RFC 8878.
        Zstd = "zstd",
    }
}

impl Coding {
    /// Every real coding in the order in which we prefer them: by size for the CPU that decoding takes.
    pub const PREFERENCE: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// The coding of that name, whatever its case (RFC 9110 §8.4.1, and §8.4.1.3 for `x-gzip`); `None` for others.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let name = if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name };
        Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.as_str().as_bytes()))
    }
}

/// Chooses among `available`, given in the server's order of preference, and identity, which is always available.
///
/// The highest weight wins and a tie goes to the server's preference, identity last. A request without the field gets
/// identity: tools that cannot decode do not send it. So does a request that accepts nothing (`identity;q=0` alone):
/// RFC 9110 §12.5.3 allows it, and data beats a 406. A malformed member counts as absent; of repeated ones the first
/// counts.
pub fn negotiate(headers: &HeaderMap, available: &[Coding]) -> Coding {
    let mut wishes = Wishes::default();
    members(headers, ACCEPT_ENCODING).take(MAX_MEMBERS).for_each(|member| wishes.note(member));
    let mut best = (Coding::Identity, 0);
    for &coding in available.iter().filter(|&&coding| coding != Coding::Identity) {
        if let Some(weight) = wishes.weight(coding)
            && weight > best.1
        {
            best = (coding, weight);
        }
    }
    match wishes.weight(Coding::Identity) {
        Some(weight) if weight > best.1 => Coding::Identity,
        _ => best.0,
    }
}

/// The client's weights, in thousandths; `None`: not named.
#[derive(Default)]
struct Wishes {
    named: [Option<u16>; 4],
    /// The weight of `*`. It stands for gzip, and for other codings only where gzip is refused: who sends it alone is an
    /// old client more often than one that has every coding.
    others: Option<u16>,
}

impl Wishes {
    fn note(&mut self, member: &[u8]) {
        let (name, weight) = match member.iter().position(|&byte| byte == b';') {
            None => (member, Some(1000)),
            Some(at) => (trim(&member[..at]), weight(trim(&member[at + 1..]))),
        };
        let Some(weight) = weight else { return };
        if name == b"*" {
            self.others.get_or_insert(weight);
        } else if let Some(coding) = Coding::from_name(name) {
            self.named[coding as usize].get_or_insert(weight);
        }
    }

    fn weight(&self, coding: Coding) -> Option<u16> {
        let stands = matches!(coding, Coding::Gzip | Coding::Identity) || self.named[Coding::Gzip as usize] == Some(0);
        self.named[coding as usize].or(self.others.filter(|_| stands))
    }
}

/// Whether `Accept` names `text/html`, other than with a weight of 0. Wildcards do not count: every tool sends them.
pub(crate) fn names_html(headers: &HeaderMap) -> bool {
    accepted(headers, b"text/html").is_some_and(|weight| weight > 0)
}

/// Whether `Accept` names `text/html` with a higher weight than JSON, as browsers do.
pub(crate) fn prefers_html(headers: &HeaderMap) -> bool {
    let json = accepted(headers, b"application/json").max(accepted(headers, b"application/problem+json"));
    accepted(headers, b"text/html").unwrap_or(0) > json.unwrap_or(0)
}

/// The weight of a media type that `Accept` names, in thousandths; `None`: it does not.
fn accepted(headers: &HeaderMap, name: &[u8]) -> Option<u16> {
    let named = members(headers, ACCEPT).take(MAX_MEMBERS).filter_map(|member| {
        let mut parts = member.split(|byte| *byte == b';').map(trim);
        parts.next().filter(|range| range.eq_ignore_ascii_case(name))?;
        Some(parts.find_map(weight).unwrap_or(1000))
    });
    named.max()
}

#[cfg(test)]
mod tests {
    use super::Coding::{Brotli, Gzip, Identity, Zstd};
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    fn choose(lines: &[&[u8]], available: &[Coding]) -> Coding {
        let mut map = HeaderMap::new();
        for line in lines {
            map.append(ACCEPT_ENCODING, HeaderValue::from_bytes(line).unwrap());
        }
        negotiate(&map, available)
    }

    #[test]
    fn clients_get_what_they_weigh_highest() {
        for (line, expected) in [
            ("gzip, deflate, br, zstd", Zstd),
            ("gzip, deflate, br", Brotli),
            ("gzip, deflate", Gzip),
            ("deflate", Identity),
            ("GZip", Gzip),
            ("x-gzip", Gzip),
            ("gzip;q=1.0, br;q=0.9, zstd;q=0.8", Gzip),
            ("gzip;q=0.501, br;q=0.5", Gzip),
            ("gzip ; Q=0.5 , br\t;\tq=0.4", Gzip),
            ("*", Gzip),
            ("*;q=0.5, gzip", Gzip),
            ("zstd;q=0, *", Gzip),
            ("br;q=0.5, *;q=0.1", Brotli),
            ("gzip;q=0, *", Zstd),
            ("zstd;q=0.000, br;q=0.001", Brotli),
            ("identity", Identity),
            ("identity;q=1, gzip;q=0.5", Identity),
            ("identity;q=0.5, gzip;q=0.5", Gzip),
            ("gzip, identity;q=0", Gzip),
            ("identity;q=0", Identity),
            ("*;q=0", Identity),
            ("*;q=0, gzip;q=0.1", Gzip),
            ("gzip;q=0", Identity),
            ("", Identity),
            (" , ,gzip, ,", Gzip),
            ("gzip;q=0, gzip", Identity),
            ("gzip;q=2, br;q=1.5, zstd;q=0.1234", Identity),
            ("gzip;q=, br;q=x, zstd;q=-1", Identity),
            ("gzip;level=9", Identity),
            ("gzip;q=1.001", Identity),
            ("gzip;q=0.", Identity),
            ("gzip;q=1.", Gzip),
        ] {
            assert_eq!(choose(&[line.as_bytes()], &Coding::PREFERENCE), expected, "{line:?}");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        assert_eq!(choose(&[b"gzip;q=0.5", b"br"], &Coding::PREFERENCE), Brotli);
    }

    #[test]
    fn only_what_is_available_is_chosen_in_the_servers_order() {
        assert_eq!(choose(&[b"gzip, br, zstd"], &[Gzip, Brotli]), Gzip);
        assert_eq!(choose(&[b"br, zstd"], &[Gzip]), Identity);
        assert_eq!(choose(&[b"gzip"], &[]), Identity);
        assert_eq!(choose(&[b"identity;q=0.1, *;q=0.2"], &[Identity, Gzip]), Gzip);
        assert_eq!(choose(&[], &Coding::PREFERENCE), Identity);
    }

    #[test]
    fn members_beyond_the_bound_are_not_read() {
        let line = format!("{}gzip", "deflate,".repeat(MAX_MEMBERS));
        assert_eq!(choose(&[line.as_bytes()], &Coding::PREFERENCE), Identity);
    }

    proptest! {
        #[test]
        fn negotiation_is_total(line in "[gzipbrzstdq=;,.*0-9 \\x80-\\xff]{0,64}") {
            let _ = choose(&[line.as_bytes()], &Coding::PREFERENCE);
        }
    }

    #[test]
    fn only_who_names_html_gets_it() {
        for (lines, wants) in [
            (&[][..], false),
            (&["*/*"], false),
            (&["text/*"], false),
            (&["application/json"], false),
            (&["text/html"], true),
            (&["TEXT/HTML;level=1"], true),
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], true),
            (&["application/json, text/html;q=0.1"], true),
            (&["application/json", "text/html"], true),
            (&["text/html;q=0"], false),
            (&["text/html; q=0.000, */*"], false),
            (&["text/html; q=0.001"], true),
            (&["text/htmlx, xtext/html"], false),
            (&[""], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(ACCEPT, HeaderValue::from_static(line));
            }
            assert_eq!(names_html(&headers), wants, "{lines:?}");
        }
    }

    #[test]
    fn who_likes_json_as_much_as_html_does_not_prefer_html() {
        for (line, prefers) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json;q=0.9, text/html", true),
            ("application/json, text/html", false),
            ("application/problem+json, text/html;q=0.9", false),
            ("application/json, text/plain, */*", false),
            ("text/html;q=0", false),
            ("*/*", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(line))]);
            assert_eq!(prefers_html(&headers), prefers, "{line}");
        }
    }
}
