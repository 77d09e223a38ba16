//! Secrets: values that must not be printed, as the admin token and the address of a store with its password.
//!
//! Callers: [`super::keys`], and the options of object stores.

use std::fmt;
use std::io::Read as _;
use std::path::PathBuf;

use url::Url;

use crate::words::remedy;

use super::address::{brackets, masked, unbracketed};
use super::errors::quoted;
use super::files;
use super::reader::KeyReader;
use super::sources::Node;
use super::values::{Values, Written, path};

/// A text that `Debug` and messages never show.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

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

pub(super) fn token() -> Values<Secret> {
    let read = |reader: &mut KeyReader, path: &str, node: Node| reader.parsed(path, &node, parse_token);
    Values::new("visible ASCII characters", read, |_| Written::Comment("set, not shown".to_owned()))
}

/// What no token is; the message does not show the value.
const NO_TOKEN: &str = "(not shown) is not a token: visible ASCII characters without spaces";

/// Visible ASCII characters, at least one.
fn as_token(text: &str) -> Option<Secret> {
    let is_token = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then(|| Secret(text.to_owned()))
}

fn parse_token(node: &Node) -> Result<Secret, String> {
    node.as_text().and_then(as_token).ok_or_else(|| format!("the value {NO_TOKEN}"))
}

/// A file with a token, as it was when the configuration was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFile {
    path: PathBuf,
    pub token: Secret,
}

pub(super) fn token_file() -> Values<TokenFile> {
    let Values { read, write, .. } = path("path of a text file");
    let read_file = move |reader: &mut KeyReader, path: &str, node: Node| {
        read_token(read(reader, path, node)?).map_err(|problem| reader.fail(path, problem)).ok()
    };
    Values::new("path of a text file", read_file, move |file: &TokenFile| write(&file.path))
}

fn read_token(path: PathBuf) -> Result<TokenFile, String> {
    /// A longer file is another one, in bytes.
    const LONGEST: u64 = 4096;
    let mut text = Vec::new();
    let read = files::open(&path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut text));
    let token = std::str::from_utf8(&text).ok().map(str::trim).filter(|_| text.len() as u64 <= LONGEST);
    match (read, token.and_then(as_token)) {
        (Err(error), _) => Err(format!("{}: {error}{}", path.display(), remedy(&path, &error))),
        (Ok(_), None) => Err(format!("{}: what it holds {NO_TOKEN}", path.display())),
        (Ok(_), Some(token)) => Ok(TokenFile { path, token }),
    }
}

/// The address of a Redis-compatible store: `redis://` or `rediss://`, perhaps with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(Url);

impl RedisUrl {
    /// The whole URL, password included, to connect with.
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }

    /// Host and port; 6379 by default.
    pub fn address(&self) -> (&str, u16) {
        let host = self.0.host_str().unwrap_or_default();
        (unbracketed(host), self.0.port().unwrap_or(6379))
    }

    pub fn is_tls(&self) -> bool {
        self.0.scheme() == "rediss"
    }

    /// The number of the database; 0 by default.
    pub fn database(&self) -> u16 {
        self.0.path().trim_matches('/').parse().unwrap_or(0)
    }

    pub fn user(&self) -> Option<String> {
        Some(decoded(self.0.username())).filter(|user| !user.is_empty())
    }

    pub fn password(&self) -> Option<Secret> {
        self.0.password().map(|password| Secret(decoded(password)))
    }
}

impl fmt::Display for RedisUrl {
    /// Without user name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(self.0.as_str()))
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Whether the path of a store's address is a database number, or absent, and nothing follows it.
fn names_database(url: &Url) -> bool {
    let number = url.path().trim_start_matches('/');
    (number.is_empty() || number.parse::<u16>().is_ok()) && url.query().is_none() && url.fragment().is_none()
}

/// The address of a store; with a password it is not shown.
pub(super) fn store_url() -> Values<RedisUrl> {
    let read = |reader: &mut KeyReader, path: &str, node: Node| reader.parsed(path, &node, parse_store_url);
    Values::new("`redis://` or `rediss://` URL", read, |store: &RedisUrl| {
        if store.password().is_some() {
            Written::Comment("set, password not shown".to_owned())
        } else {
            Written::Value(store.expose().into())
        }
    })
}

fn parse_store_url(node: &Node) -> Result<RedisUrl, String> {
    let text = node.as_text().unwrap_or_default();
    match Url::parse(text) {
        Ok(url)
            if matches!(url.scheme(), "redis" | "rediss")
                && url.host_str().is_some_and(|host| !host.is_empty())
                && text.contains("://")
                && names_database(&url) =>
        {
            Ok(RedisUrl(url))
        }
        _ => Err(format!(
            "{} is not the address of a store, such as \"redis://127.0.0.1:6379/0\"{}",
            if text.is_empty() { node.shown() } else { quoted(&masked(text)) },
            brackets(text)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::errors::ValueSource;
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = parse_token(&Node::string("hunter2", ValueSource::Set)).unwrap();
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert!(secret.matches(b"hunter2") && !secret.matches(b"hunter"));
        let refused = parse_token(&Node::string("hunter 2", ValueSource::Set)).unwrap_err();
        assert!(!refused.contains("hunter"), "{refused}");
    }

    #[test]
    fn the_address_of_a_store_is_taken_apart() {
        let parts = |text: &str| {
            let store = parse_store_url(&Node::string(text, ValueSource::Set)).unwrap();
            let (host, port) = store.address();
            (host.to_owned(), port, store.is_tls(), store.database(), store.user())
        };
        assert_eq!(parts("redis://h"), ("h".to_owned(), 6379, false, 0, None));
        assert_eq!(parts("rediss://a%40b:c@[::1]:7/12"), ("::1".to_owned(), 7, true, 12, Some("a@b".to_owned())));
        let password = |text: &str| parse_store_url(&Node::string(text, ValueSource::Set)).unwrap().password();
        assert!(password("redis://:p%2Fw@h/1").unwrap().matches(b"p/w"));
        assert_eq!(password("redis://h"), None);
        for bad in ["redis://h/one", "redis://h/1?protocol=3", "redis://h/70000", "redis:///1", "redis:h"] {
            assert!(parse_store_url(&Node::string(bad, ValueSource::Set)).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_password_of_a_store_is_never_shown() {
        let store = parse_store_url(&Node::string("redis://me:pw@127.0.0.1:6379/1", ValueSource::Set)).unwrap();
        assert_eq!(store.to_string(), "redis://***@127.0.0.1:6379/1");
        assert!(store.password().is_some() && store.expose().contains("me:pw"));
        let refused = parse_store_url(&Node::string("http://me:pw@127.0.0.1", ValueSource::Set)).unwrap_err();
        assert!(!refused.contains("pw"), "{refused}");
    }
}
