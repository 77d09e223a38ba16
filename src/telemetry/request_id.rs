//! Request id, by which its answer, its line in the access log and lines of the log are found.
//!
//! A trusted proxy gives it, or it is made when somebody will see it: a hit in memory has none. It is no part of a cache
//! key, and never sent to the origin. Callers: [`crate::edge::answer`].

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderMap;

pub(crate) const NAME: &str = "x-request-id";
/// The longest id, in bytes.
const LONGEST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestId {
    /// The value of the header in the request.
    Given,
    Made(u64),
}

#[derive(Debug)]
pub(crate) struct RequestIds {
    /// Differs between processes.
    seed: u64,
    made: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        Self { seed: RandomState::new().hash_one(0), made: AtomicU64::default() }
    }
}

impl RequestIds {
    /// The id of a request with these headers; one that it gives counts if its peer is trusted.
    pub(crate) fn of(&self, headers: &HeaderMap, is_trusted: impl FnOnce() -> bool) -> RequestId {
        if given(headers).is_some() && is_trusted() { RequestId::Given } else { self.made() }
    }

    pub(crate) fn made(&self) -> RequestId {
        // An odd factor maps different numbers to different ids that do not look like a counter.
        let number = self.seed.wrapping_add(self.made.fetch_add(1, Ordering::Relaxed));
        RequestId::Made(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

impl RequestId {
    /// The text of the id of a request with these headers.
    pub(crate) fn text(self, headers: &HeaderMap) -> String {
        let mut text = String::new();
        match self {
            Self::Given => text.push_str(given(headers).unwrap_or_default()),
            // Writing to a String cannot fail.
            Self::Made(number) => drop(write!(text, "{number:016x}")),
        }
        text
    }
}

/// The id that a request gives: one line that can stand in any log.
fn given(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(NAME).iter();
    let value = lines.next().filter(|_| lines.next().is_none())?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (matches!(value.len(), 1..=LONGEST) && value.bytes().all(is_plain)).then_some(value)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let name = http::HeaderName::from_static(NAME);
        values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn a_plain_id_of_a_trusted_proxy_is_kept_and_all_others_are_made_anew() {
        let (ids, longest) = (RequestIds::default(), "x".repeat(LONGEST));
        for plain in ["a", "7e4f-A_b.9", longest.as_str()] {
            let headers = headers(&[plain]);
            assert_eq!(ids.of(&headers, || true).text(&headers), plain);
            assert_ne!(ids.of(&headers, || false).text(&headers), plain);
        }
        let long = "x".repeat(LONGEST + 1);
        for values in [&[][..], &[""], &["a b"], &["a\"b"], &["é"], &[long.as_str()], &["a", "a"]] {
            let headers = headers(values);
            assert!(matches!(ids.of(&headers, || true), RequestId::Made(_)), "{values:?}");
        }
    }

    #[test]
    fn made_ids_differ_and_could_be_given() {
        let ids = RequestIds::default();
        let made: std::collections::BTreeSet<String> = (0..1000).map(|_| ids.made().text(&HeaderMap::new())).collect();
        assert_eq!(made.len(), 1000);
        assert!(made.iter().all(|id| given(&headers(&[id])) == Some(id)), "{made:?}");
    }
}
