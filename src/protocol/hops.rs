//! Proxies that a request came through: `Via` (RFC 9110 §7.6.3) and `CDN-Loop` (RFC 8586).
//!
//! The name of this process on requests to the origin, and the names in requests from clients. Not the refusal of a
//! loop, which is [`crate::edge::answer::admit`].
//! Callers: [`crate::edge::answer::admit`], and the clients of the origin.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::VIA;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use memchr::memmem;

/// RFC 8586.
pub(crate) const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

const PREFIX: &str = "grandstand-";
/// How many hexadecimal digits follow.
const DIGITS: usize = 16;
/// The most names that are forwarded, the last ones: the origin would refuse a head that grows without bound.
const MOST: usize = 32;

/// The name of one process among all proxies, as in `grandstand-0123456789abcdef`.
///
/// Each process has its own: a mirror may ask a shield, and several servers may share one configuration. No answer
/// shows it, so no client can forge it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pseudonym(Arc<str>);

impl Pseudonym {
    /// The name of this number, which should be random.
    pub fn of(number: u64) -> Self {
        Self(format!("{PREFIX}{number:016x}").into())
    }

    /// Puts the name on a request of our own, which is not forwarded for anybody: `CDN-Loop` alone. With `Via`, which RFC
    /// 9110 asks of proxies only, servers such as nginx send no compressed answers (`gzip_proxied`).
    pub(crate) fn sign(&self, fields: &mut HeaderMap) {
        append(fields, CDN_LOOP, &self.0);
    }

    /// Appends the name to a forwarded request. `received`: the HTTP version of the request.
    pub(crate) fn sign_forwarded(&self, fields: &mut HeaderMap, received: Version) {
        let version = match received {
            Version::HTTP_09 => "0.9",
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2.0",
            Version::HTTP_3 => "3.0",
            _ => "1.1",
        };
        append(fields, VIA, &format!("{version} {}", self.0));
        self.sign(fields);
    }
}

/// Adds a member to a list, in one line.
fn append(fields: &mut HeaderMap, name: HeaderName, member: &str) {
    let lines = fields.get_all(&name).iter().map(HeaderValue::as_bytes).filter(|line| !line.is_empty());
    let list = lines.chain([member.as_bytes()]).collect::<Vec<_>>().join(&b", "[..]);
    // Nothing but field values are joined.
    if let Ok(list) = HeaderValue::from_maybe_shared(Bytes::from(list)) {
        fields.insert(name, list);
    }
}

/// The processes of this program that a request came through, in order, each once; nearly always none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail(Option<Arc<[Pseudonym]>>);

impl Trail {
    pub const NONE: Self = Self(None);

    /// Reads a header. Names of other proxies and CDNs are ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let (mut names, mut seen) = (Vec::new(), HashSet::new());
        for value in headers.get_all(&CDN_LOOP).iter().chain(headers.get_all(VIA)) {
            let text = value.as_bytes();
            for at in memmem::find_iter(text, PREFIX) {
                let name = text.get(at..at + PREFIX.len() + DIGITS).and_then(|name| std::str::from_utf8(name).ok());
                let name = name.filter(|name| name[PREFIX.len()..].bytes().all(|byte| byte.is_ascii_hexdigit()));
                if let Some(name) = name.filter(|name| seen.insert(*name)) {
                    names.push(name);
                }
            }
        }
        let names: Arc<[Pseudonym]> = names.into_iter().map(|name| Pseudonym(name.into())).collect();
        Self(Some(names).filter(|names| !names.is_empty()))
    }

    pub(crate) fn leads_through(&self, name: &Pseudonym) -> bool {
        self.0.as_ref().is_some_and(|names| names.contains(name))
    }

    /// Puts the last [`MOST`] of them on a request.
    pub(crate) fn write(&self, fields: &mut HeaderMap) {
        let names = self.0.as_deref().unwrap_or_default();
        for name in &names[names.len().saturating_sub(MOST)..] {
            name.sign_forwarded(fields, Version::HTTP_11);
        }
    }
}

#[derive(Clone, Debug)]
pub struct Caller {
    pub address: IpAddr,
    /// Through which processes of this program its request came.
    pub trail: Trail,
}

impl From<IpAddr> for Caller {
    fn from(address: IpAddr) -> Self {
        Self { address, trail: Trail::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_name_is_appended_to_those_that_are_there() {
        let ours = Pseudonym::of(0xab);
        for (before, received, via, cdn_loop) in [
            (&[][..], Version::HTTP_2, "2.0 grandstand-00000000000000ab", "grandstand-00000000000000ab"),
            (
                &[("via", "1.0 fred (a, b)"), ("via", "1.1 p.example.net"), ("cdn-loop", "foo; a=\"b\"")],
                Version::HTTP_11,
                "1.0 fred (a, b), 1.1 p.example.net, 1.1 grandstand-00000000000000ab",
                "foo; a=\"b\", grandstand-00000000000000ab",
            ),
        ] {
            let mut fields = header(before);
            ours.sign_forwarded(&mut fields, received);
            assert_eq!((&fields[VIA], &fields[CDN_LOOP]), (&via.parse().unwrap(), &cdn_loop.parse().unwrap()));
            assert_eq!(fields.len(), 2, "each in one line");
            assert!(Trail::of(&fields).leads_through(&ours));
        }
        let mut own = HeaderMap::new();
        ours.sign(&mut own);
        assert!(own.contains_key(CDN_LOOP) && !own.contains_key(VIA), "{own:?}");
        assert!(Trail::of(&own).leads_through(&ours));
    }

    #[test]
    fn only_names_of_this_program_make_a_trail() {
        let (ours, other) = (Pseudonym::of(1), Pseudonym::of(2));
        for (fields, leads) in [
            (&[("via", "1.1 grandstand-0000000000000001")][..], true),
            (&[("via", "1.1 a (grandstand-0000000000000001)"), ("via", "1.1 b")], true),
            (&[("cdn-loop", "a, grandstand-0000000000000001;x=y ,b")], true),
            (&[("via", "1.1 varnish"), ("cdn-loop", "cloudflare")], false),
            (&[("via", "1.1 grandstand-0000000000000002")], false),
            (&[("via", "1.1 grandstand-"), ("cdn-loop", "grandstand-000000000000000")], false),
            (&[("x-via", "grandstand-0000000000000001")], false),
        ] {
            assert_eq!(Trail::of(&header(fields)).leads_through(&ours), leads, "{fields:?}");
        }
        let both = header(&[
            ("cdn-loop", "cloudflare, grandstand-0000000000000002"),
            ("via", "1.1 grandstand-0000000000000001"),
        ]);
        let mut sent = HeaderMap::new();
        Trail::of(&both).write(&mut sent);
        assert_eq!(sent[CDN_LOOP], "grandstand-0000000000000002, grandstand-0000000000000001");
        let again = Trail::of(&sent);
        assert!(again.leads_through(&ours) && again.leads_through(&other));
        assert_eq!(Trail::of(&HeaderMap::new()), Trail::NONE);
    }

    #[test]
    fn a_long_trail_is_sent_on_without_its_beginning() {
        let mut fields = HeaderMap::new();
        (0..100).for_each(|number| Pseudonym::of(number).sign(&mut fields));
        let mut sent = HeaderMap::new();
        Trail::of(&fields).write(&mut sent);
        let sent = Trail::of(&sent);
        assert_eq!(sent.0.as_ref().map(|names| names.len()), Some(MOST));
        assert!(sent.leads_through(&Pseudonym::of(99)) && !sent.leads_through(&Pseudonym::of(0)));
    }

    /// If each name were compared with all before it, this would take minutes.
    #[test]
    fn a_trail_of_very_many_names_is_read_in_one_pass() {
        let names: Vec<String> = (0..300_000).map(|number| Pseudonym::of(number).0.to_string()).collect();
        let mut headers = HeaderMap::new();
        headers.insert(CDN_LOOP, HeaderValue::from_str(&names.join(",")).unwrap());
        headers.insert(VIA, headers[CDN_LOOP].clone());
        let trail = Trail::of(&headers);
        assert_eq!(trail.0.as_ref().map(|names| names.len()), Some(names.len()));
    }

    proptest! {
        #[test]
        fn reading_a_trail_is_total(value in "(grandstand-|[0-9a-f, ]|[ -~]){0,60}") {
            let mut headers = HeaderMap::new();
            headers.insert(VIA, HeaderValue::from_str(&value).unwrap());
            let _ = Trail::of(&headers);
        }
    }
}
