//! Errors of an object store: why a call failed, in plain words.
//!
//! Callers: [`super`] makes them, publisher and replica show them.

use std::error::Error;
use std::io;
use std::time::Duration;

use object_store::UpdateVersion;

use crate::config::address::masked;
use crate::data::store::is_full;
use crate::protocol::excerpt::Excerpt;
use crate::words::with_causes;

/// The message where the library finds no credentials.
const NO_CREDENTIALS: &str = "no credentials are set (for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY); set them, or give \
                                         this machine a role";

/// How the addresses of machines that tell of their role begin: the library asks them where no credentials are set.
const METADATA: [&str; 2] = ["http://169.254.169.254/", "http://metadata.google.internal/"];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BundleStoreError {
    /// The configuration does not make a client.
    #[error("{0}")]
    Options(String),
    #[error("{0} is not in the object store")]
    Missing(String),
    #[error("{0} was changed by another writer")]
    Changed(String),
    #[error("the object store does not support this: {0}")]
    Unsupported(String),
    #[error("the object store refuses access; check the credentials and what they may do: {0}")]
    Forbidden(String),
    /// The directory of a `file://` address.
    #[error("the directory cannot be used; make it writable for the user that grandstand runs as: {0}")]
    Directory(String),
    /// The machine was asked for a role, because no credentials are set.
    #[error("{NO_CREDENTIALS}: {0}")]
    NoCredentials(String),
    #[error("the bucket or container does not exist, or these credentials may not see it: {0}")]
    NoBucket(String),
    #[error("the object store is full: {0}")]
    Full(String),
    #[error("the object store cannot be reached: {0}")]
    Unreachable(String),
    #[error("the object store did not answer within {limit} s ({what})")]
    Slow {
        /// The key, or the name of the call.
        what: String,
        /// Seconds.
        limit: u64,
    },
    #[error(
        "the object store sends {key} too slowly: {bytes} bytes in {seconds} s; at least 4096 bytes a second are expected"
    )]
    Drips { key: String, bytes: u64, seconds: u64 },
    #[error("{key} has more than {most} bytes")]
    TooLarge { key: String, most: u64, version: UpdateVersion },
    #[error("the object store failed: {0}")]
    Failed(String),
    #[error("a temporary file cannot be read: {0}")]
    File(String),
}

impl From<io::Error> for BundleStoreError {
    fn from(error: io::Error) -> Self {
        Self::File(error.to_string())
    }
}

impl BundleStoreError {
    /// The word for metrics.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Options(_) => "options",
            Self::Changed(_) => "changed",
            Self::Unsupported(_) => "unsupported",
            Self::Forbidden(_) | Self::Directory(_) | Self::NoCredentials(_) => "forbidden",
            Self::Missing(_) | Self::NoBucket(_) => "missing",
            Self::Full(_) => "full",
            Self::Unreachable(_) => "unreachable",
            Self::Slow { .. } | Self::Drips { .. } => "slow",
            Self::TooLarge { .. } => "too_large",
            Self::Failed(_) => "failed",
            Self::File(_) => "file",
        }
    }

    pub(super) fn slow(what: &str, limit: Duration) -> Self {
        Self::Slow { what: what.to_owned(), limit: limit.as_secs() }
    }

    /// The reason behind an error of the library. `what`: the key.
    pub(super) fn of(what: &str, error: &object_store::Error) -> Self {
        use object_store::Error as E;
        let text = chain(error);
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if says(&METADATA) {
            return Self::NoCredentials(text);
        }
        if says(&["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"]) {
            return Self::NoBucket(text);
        }
        match error {
            E::NotFound { .. } => Self::Missing(what.to_owned()),
            E::AlreadyExists { .. } | E::Precondition { .. } => Self::Changed(what.to_owned()),
            E::NotSupported { .. } | E::NotImplemented { .. } => Self::Unsupported(text),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Self::Forbidden(text),
            E::InvalidPath { .. } | E::UnknownConfigurationKey { .. } => Self::Options(text),
            _ => Self::of_cause(error, text),
        }
    }

    fn of_cause(error: &object_store::Error, text: String) -> Self {
        use object_store::client::{HttpError, HttpErrorKind as H};
        let first: &(dyn Error + 'static) = error;
        for cause in std::iter::successors(Some(first), |error| (*error).source()) {
            match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(kind) if is_full(kind) => return Self::Full(text),
                Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) => {
                    return if text.contains("LocalFileSystem") {
                        Self::Directory(text)
                    } else {
                        Self::Forbidden(text)
                    };
                }
                _ => {}
            }
            let http = cause.downcast_ref::<HttpError>();
            if let Some(H::Connect | H::Request | H::Interrupted | H::Timeout) = http.map(HttpError::kind) {
                return Self::Unreachable(text);
            }
        }
        // The library does not give the status of an answer, only its text.
        let says = |word: &str| text.contains(word);
        if says("507 Insufficient Storage")
            || says("QuotaExceeded")
            || says("InsufficientStorage")
            || says("StorageFull")
        {
            return Self::Full(text);
        }
        if says("501 Not Implemented") || says("NotImplemented") {
            return Self::Unsupported(text);
        }
        Self::Failed(text)
    }
}

/// What an error says, and what caused it: each sentence once, cut.
fn chain(error: &object_store::Error) -> String {
    let text = with_causes(error);
    // An endpoint from the environment may have a password.
    let words: Vec<String> = text.split_whitespace().map(masked).collect();
    Excerpt(unmarked(&timeless(&words.join(" ")))).to_string()
}

/// The text with the document of a server as plain text: code and message of an error in XML, else the words between tags.
fn unmarked(text: &str) -> String {
    let Some(begin) =
        ["<?xml", "<Error", "<!DOCTYPE", "<!doctype", "<html"].iter().filter_map(|tag| text.find(tag)).min()
    else {
        return text.to_owned();
    };
    let (before, document) = text.split_at(begin);
    let field = |name: &str| {
        let (_, rest) = document.split_once(&format!("<{name}>"))?;
        Some(rest.split_once('<')?.0.trim())
    };
    let plain = match (field("Code"), field("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => {
            let words = document.split('<').filter_map(|piece| Some(piece.split_once('>')?.1.trim()));
            words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
        }
    };
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    before.to_owned() + &entities.iter().fold(plain, |text, (entity, letter)| text.replace(entity, letter))
}

/// Without the time and the number of tries of the library: the same failure has the same text.
fn timeless(text: &str) -> String {
    let Some(begin) = text.find("Error performing ") else { return text.to_owned() };
    let (before, told) = text.split_at(begin);
    match (told.find(" in "), told.find(" - ")) {
        (Some(from), Some(to)) if from < to => format!("{before}{}: {}", &told[..from], &told[to + 3..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_is_told_in_the_same_words() {
        let told = |tries: &str| {
            timeless(&format!(
                "Generic S3 error: Error performing GET http://h/b/head.json in {tries} - HTTP error: gone"
            ))
        };
        let want = "Generic S3 error: Error performing GET http://h/b/head.json: HTTP error: gone";
        assert_eq!(told("1.04s"), want);
        assert_eq!(told("630ms, after 2 retries, max_retries: 2, retry_timeout: 20s"), want);
        assert_eq!(timeless("no space in it - none"), "no space in it - none");
    }

    #[test]
    fn the_document_of_an_error_is_told_as_plain_text() {
        for (document, told) in [
            (
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?> <Error><Code>AccessDenied</Code><Message>Access &lt;x&gt; \
                 &amp;amp; Denied.</Message><Resource>/venues</Resource><RequestId>7</RequestId></Error>",
                "AccessDenied: Access <x> &amp; Denied.",
            ),
            ("<Error><Code>SlowDown</Code></Error>", "SlowDown"),
            (
                "<html><head><title>502 Bad Gateway</title></head> <body><h1>nginx</h1></body></html>",
                "502 Bad Gateway nginx",
            ),
            ("no document", "no document"),
            ("<Error", ""),
        ] {
            assert_eq!(unmarked(&format!("403 Forbidden: {document}")), format!("403 Forbidden: {told}"));
        }
    }

    #[test]
    fn causes_in_the_system_are_told_apart() {
        let of = |kind: std::io::ErrorKind| {
            let source = Box::new(std::io::Error::from(kind));
            BundleStoreError::of("head.json", &object_store::Error::Generic { store: "X", source }).as_str()
        };
        assert_eq!(of(std::io::ErrorKind::StorageFull), "full");
        assert_eq!(of(std::io::ErrorKind::ReadOnlyFilesystem), "forbidden");
        assert_eq!(of(std::io::ErrorKind::Other), "failed");
    }

    #[test]
    fn an_error_says_what_helps() {
        let told = |store, text: &str| {
            let source = Box::new(std::io::Error::other(text.to_owned()));
            BundleStoreError::of("full/x.gsb", &object_store::Error::Generic { store, source }).to_string()
        };
        let role = "Error performing PUT http://169.254.169.254/latest/api/token in 1s - Server returned 403";
        assert!(told("S3", role).starts_with("no credentials are set (for S3: AWS_ACCESS_KEY_ID and"));
        let bucket = "Error performing PUT http://h/venues/full/x.gsb in 1s - 404 Not Found: <?xml version=\"1.0\"?>\n\
                      <Error><Code>NoSuchBucket</Code><Message>It is not there</Message></Error>";
        assert!(told("S3", bucket).starts_with("the bucket or container does not exist, or"));
        assert!(told("S3", bucket).ends_with("404 Not Found: NoSuchBucket: It is not there"), "{}", told("S3", bucket));
        let source = Box::new(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
        let error = object_store::Error::Generic { store: "LocalFileSystem", source };
        let (told, word) = (BundleStoreError::of("x", &error).to_string(), BundleStoreError::of("x", &error).as_str());
        assert!(told.contains("make it writable for the user that grandstand runs as"), "{told}");
        assert_eq!(word, "forbidden");
    }
}
