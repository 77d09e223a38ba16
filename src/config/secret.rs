//! Values that must not be printed: the admin token, the address of a store with its password.
//!
//! Callers: `[admin]`, `[rate_limit]`, and the options of object stores.

use std::fmt;

use url::Url;

use super::address::masked;
use super::errors::quoted;
use super::raw::Node;

/// A text that `Debug` and messages never show.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A secret of this text.
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `presented` is the secret, in constant time.
    pub fn matches(&self, presented: &[u8]) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(presented)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.0.as_bytes())
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// A token: visible ASCII characters, at least one. The message does not show the value.
pub(super) fn token(node: &Node) -> Result<Secret, String> {
    match node.as_text() {
        Some(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()) => Ok(Secret(text.to_owned())),
        _ => Err("the value (not shown) is not a token: visible ASCII characters without spaces".to_owned()),
    }
}

/// The address of a Redis-compatible store: `redis://` or `rediss://`, perhaps with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(Url);

impl StoreUrl {
    /// The whole URL, password included, to connect with.
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it has a user name or a password.
    pub fn has_credentials(&self) -> bool {
        !self.0.username().is_empty() || self.0.password().is_some()
    }
}

impl fmt::Display for StoreUrl {
    /// Without user name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(self.0.as_str()))
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// The address of a store.
pub(super) fn store_url(node: &Node) -> Result<StoreUrl, String> {
    let text = node.as_text().unwrap_or_default();
    match Url::parse(text) {
        Ok(url)
            if matches!(url.scheme(), "redis" | "rediss")
                && url.host_str().is_some_and(|host| !host.is_empty())
                && text.contains("://") =>
        {
            Ok(StoreUrl(url))
        }
        _ => Err(format!(
            "{} is not the address of a store, such as \"redis://127.0.0.1:6379\"",
            if text.is_empty() { node.shown() } else { quoted(&masked(text)) }
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::errors::Place;
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = token(&Node::string("hunter2", Place::Set)).unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert!(secret.matches(b"hunter2") && !secret.matches(b"hunter"));
        let refused = token(&Node::string("hunter 2", Place::Set)).unwrap_err();
        assert!(!refused.contains("hunter"), "{refused}");
    }

    #[test]
    fn the_password_of_a_store_is_never_shown() {
        let store = store_url(&Node::string("redis://me:pw@127.0.0.1:6379/1", Place::Set)).unwrap();
        assert_eq!(store.to_string(), "redis://***@127.0.0.1:6379/1");
        assert!(store.has_credentials() && store.expose().contains("me:pw"));
        let refused = store_url(&Node::string("http://me:pw@127.0.0.1", Place::Set)).unwrap_err();
        assert!(!refused.contains("pw"), "{refused}");
    }
}
