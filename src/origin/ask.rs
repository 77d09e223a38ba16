//! One question to the origin, and what comes of it: who asks and how patiently, validators, the answer with its whole
//! body, or why there is none, with the word and the status for a client.
//!
//! It sends nothing, and does not decide on pauses. Callers: [`super::client`] makes answers; all who ask the origin.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, InvalidHeaderValue, RETRY_AFTER,
};
use memchr::memmem;
use parking_lot::Mutex;
use url::Url;

use crate::api::route::Route;
use crate::clock::WallTime;
use crate::protocol::caching::{ResponseDirectives, is_about, validating_date};
use crate::protocol::excerpt::{self, Excerpt};
use crate::protocol::freshness::{self, Stamps};
use crate::protocol::hops::Trail;

use super::body_memory::Held;
use super::budget::{Permit, Spent};
use super::generated_at::DATE_GRAIN_MS;
use super::window::Class;
use super::wire::TransportError;

#[derive(Clone, Debug)]
pub struct Asker {
    pub class: Class,
    pub client: Option<IpAddr>,
    /// How long to wait for the budget; `None`: as long as it takes.
    pub patience: Option<Duration>,
    /// The slot that it was given before, if no client waits for it: its first request takes it.
    pub slot: Option<Arc<Mutex<Option<Permit>>>>,
    /// Whether it was answered well before: then the client cannot have caused a failure.
    pub was_well: bool,
    /// Whether the client chose the bytes of the request: it is sent only if that costs others nothing, and its failure
    /// says nothing about the origin.
    pub spare: bool,
    /// Whether it only finds out what a query means, or failed before: then an error of the origin is about it alone.
    pub is_example: bool,
    /// The processes of this program that the client's request passed.
    pub trail: Trail,
}

impl Asker {
    /// The mirror itself, with unlimited patience.
    pub const fn mirror(class: Class) -> Self {
        let (patience, slot, trail) = (None, None, Trail::NONE);
        Self { class, client: None, patience, slot, was_well: false, spare: false, is_example: false, trail }
    }

    /// A client that waits no longer than this.
    pub const fn client(client: Option<IpAddr>, patience: Duration) -> Self {
        let (class, patience, slot, trail) = (Class::Client, Some(patience), None, Trail::NONE);
        Self { class, client, patience, slot, was_well: false, spare: false, is_example: false, trail }
    }

    /// Whether a client without a stale answer waits for it, as far as known.
    pub(super) const fn is_awaited(&self) -> bool {
        matches!(self.class, Class::Client) && self.slot.is_none() && !self.was_well
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag` as it came.
    pub etag: Option<String>,
    /// `Last-Modified` as it came.
    pub last_modified: Option<String>,
}

/// A complete answer, of any status.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    /// The header as it came.
    pub headers: HeaderMap,
    /// The decoded body; empty for 304.
    pub body: Bytes,
    /// `Date` and `Age` of the header.
    pub stamps: Stamps,
    /// When it was requested.
    pub asked: WallTime,
    pub received: WallTime,
    /// By how many milliseconds the origin's clock was behind ours then; negative: ahead.
    pub lag_ms: i64,
    /// The room that its body takes until judged.
    pub room: Arc<Held>,
}

impl Answer {
    /// The instant that the header speaks for, on the origin's clock. [`super::generated_at`] judges the body's stamp.
    pub(super) fn by_header(&self) -> WallTime {
        freshness::origin_time(self.stamps, self.asked, self.received, self.lag_ms)
    }

    /// How instants of the origin are kept. Those of an origin that is ahead are counted back to our clock: an instant
    /// in our future confirms nothing, here and on every machine that takes a bundle; an earlier one is safe.
    pub(super) fn kept_ms(&self, at: WallTime) -> i64 {
        at.as_millis().saturating_add(self.lag_ms.min(0))
    }

    /// The instant that the header speaks for, as it is kept, in milliseconds; never later than the arrival.
    pub fn sent_ms(&self) -> i64 {
        self.kept_ms(self.by_header())
    }

    /// How much later than the header says the content may have been made, in milliseconds: `Date` and `Age` have whole
    /// seconds, and of an answer with `Age` the time that it took was counted as its age.
    pub fn grain_ms(&self) -> i64 {
        let took_ms = self.received.millis_since(self.asked).max(0);
        self.stamps.age.map_or(DATE_GRAIN_MS, |_| 2 * DATE_GRAIN_MS + took_ms)
    }

    /// Whether a cache may have kept this answer without saying so: it has no `Age`, and the origin does not forbid it.
    pub fn may_be_a_silent_copy(&self) -> bool {
        let directives = ResponseDirectives::of(&self.headers);
        self.stamps.age.is_none() && !directives.no_store && !directives.private
    }

    /// Whether a 304 is about the stored answer with these validators.
    pub(super) fn is_about(&self, stored: &Validators) -> bool {
        let [etag, date] = [&stored.etag, &stored.last_modified].map(|text| text.as_deref().map(str::as_bytes));
        is_about(&self.headers, etag, date)
    }

    /// The validators for the next request; one that is too long to send back, or may stand for two bodies, is dropped.
    pub fn validators(&self) -> Validators {
        const LONGEST: usize = 1024;
        let text = |value: Option<&HeaderValue>| {
            value.filter(|value| value.len() <= LONGEST).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let last_modified = text(validating_date(&self.headers, self.received));
        Validators { etag: text(self.headers.get(ETAG)), last_modified }
    }
}

/// The header of a request: conditional if there are validators. The flags: whether `ETag` is one, and `Last-Modified`.
pub(super) fn question(
    validators: Option<&Validators>,
    [tags, dates]: [bool; 2],
) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut fields = HeaderMap::new();
    fields.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(validators) = validators {
        if let Some(etag) = validators.etag.as_ref().filter(|_| tags) {
            fields.insert(IF_NONE_MATCH, etag.parse()?);
        } else if let Some(date) = validators.last_modified.as_ref().filter(|_| dates) {
            fields.insert(IF_MODIFIED_SINCE, date.parse()?);
        }
    }
    Ok(fields)
}

/// A body without the UTF-8 byte order marks before its JSON object or array.
///
/// DEVIATION: RFC 8259 §8.1 lets a reader ignore such a mark. Here it is not kept either, so clients never get it: the
/// mirror takes bodies apart, and many clients cannot read JSON behind a mark. A mark before anything else stays.
pub(super) fn without_mark(body: Bytes) -> Bytes {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let mut rest = &*body;
    // Each file of a program that is saved with a mark sends one.
    while let Some(after) = rest.strip_prefix(MARK) {
        rest = after;
    }
    let is_json = matches!(rest.trim_ascii_start().first(), Some(b'{' | b'['));
    if is_json { body.slice(body.len() - rest.len()..) } else { body }
}

/// Whether a status is about the request, not about the origin, us or how often we ask.
pub(super) const fn is_refusal(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 407 | 408 | 421 | 425 | 429)
}

/// Whether the status of an answer to an open case is about us, about how often we ask, or a failure.
pub(super) const fn is_about_us(status: u16) -> bool {
    matches!(status, 401 | 403 | 406 | 407 | 421 | 429 | 451 | 500..)
}

/// Whether a redirect leads from one listing's detail to that of another, which would be taken for it.
pub(super) fn is_another_detail(path: &str, to: &str) -> bool {
    matches!([path, to].map(Route::of), [Route::Detail(asked), Route::Detail(given)] if asked != given)
}

/// A status as this program understands it: 203 is a 200 that a proxy has changed (RFC 9110 §15.3.4), and so is a 2xx that
/// nobody has defined (§15).
pub(super) const fn as_understood(status: u16) -> u16 {
    match status {
        203 | 209..=225 | 227..=299 => 200,
        status => status,
    }
}

/// An error, unless the answer is usable: 200, 304, 404, 410, and for clients a refusal.
pub(super) fn judge(path: &str, answer: Answer, class: Class) -> Result<Answer, AskError> {
    match answer.status {
        200 | 304 | 404 | 410 => Ok(answer),
        400 if PLAIN_REFUSED.iter().any(|words| memmem::find(&answer.body, words).is_some()) => {
            Err(AskError::nonsense(path, format!("status 400, {SPEAKS_TLS}")))
        }
        status if class == Class::Client && is_refusal(status) => Ok(answer),
        status => {
            let wait = answer.headers.get(RETRY_AFTER);
            let wait = wait.and_then(|value| freshness::parse_retry_after(value.as_bytes(), answer.received));
            let retry_after = wait.map(|seconds| Duration::from_secs(u64::from(seconds)));
            Err(AskError::Status { status, path: path.to_owned(), retry_after })
        }
    }
}

/// What is wrong with an answer whose first bytes are those of TLS.
pub(super) const SPEAKS_TLS: &str = "that port speaks TLS";

/// Words of servers that got a request without TLS on a port for HTTPS: nginx, Apache and this program; Go; Tomcat.
const PLAIN_REFUSED: [&[u8]; 3] = [b"plain HTTP", b"HTTP request to an HTTPS server", b"requires TLS"];

/// What to change, if what was said to a request for `url` shows that `origin.url` is wrong.
fn advice(url: &str, said: &impl ToString) -> &'static str {
    let said = said.to_string().to_lowercase();
    let is_plain = url.starts_with("http://");
    let is_page = ["<html", "<!doctype"].iter().any(|start| said.contains(start));
    if url.contains("/api/api/") && said.contains("404") {
        "; origin.url must end before /api, which is a part of each path"
    } else if url.starts_with("https://") && said.contains("is not tls") {
        "; that port does not speak TLS: set origin.url to http://, or to the port for HTTPS"
    } else if is_plain && said.contains("speaks tls") {
        ": set origin.url to https://"
    } else if url.contains("/api/listings.json") && (is_page || said == "404") {
        "; check origin.url: /api/listings.json is added to it"
    } else {
        ""
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("origin.ca_file: {0}")]
    CaFile(String),
    #[error("origin.user_agent: {0}")]
    UserAgent(String),
    #[error("TLS to the origin cannot be set up: {0}")]
    Tls(String),
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum AskError {
    #[error(transparent)]
    Spent(#[from] Spent),
    #[error("the origin answered {status} to {}{}", Excerpt(path), advice(path, status))]
    Status {
        status: u16,
        /// The URL that was asked, or its path as far as the URL is not known: see [`AskError::at`].
        path: String,
        /// The pause that it asks for.
        retry_after: Option<Duration>,
    },
    #[error("the origin did not answer {} within {} s", Excerpt(path), after.as_secs_f32())]
    Timeout { path: String, after: Duration },
    #[error("no answer from the origin to {}: {}{}", Excerpt(path), Excerpt(reason), advice(path, reason))]
    Connection {
        path: String,
        /// The chain of causes.
        reason: String,
        /// Whether there was a connection.
        reached: bool,
    },
    #[error("the origin's answer to {} is larger than {limit} bytes", Excerpt(path))]
    TooLarge {
        path: String,
        /// The bound, decoded.
        limit: u64,
    },
    #[error("the origin redirects {} to {}, which is not followed", Excerpt(path), Excerpt(to))]
    Redirect { path: String, to: String },
    #[error("the origin's answer to {} is not usable: {}{}", Excerpt(path), Excerpt(reason), advice(path, reason))]
    Nonsense { path: String, reason: String },
}

/// How an origin fails whose answers are no good.
pub(super) const UNUSABLE: &str = "the answers of the origin cannot be used";

/// The path in an error, if anything was asked.
macro_rules! asked {
    ($error:expr) => {
        match $error {
            Self::Spent(_) => None,
            Self::Status { path, .. }
            | Self::Timeout { path, .. }
            | Self::Connection { path, .. }
            | Self::TooLarge { path, .. }
            | Self::Redirect { path, .. }
            | Self::Nonsense { path, .. } => Some(path),
        }
    };
}

impl AskError {
    /// The word for `/status`, `Cache-Status` and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Spent(_) => "budget-spent",
            Self::Status { status: 429, .. } => "rate-limited",
            Self::Status { .. } => "error-status",
            Self::Timeout { .. } => "timeout",
            Self::Connection { .. } => "unreachable",
            Self::TooLarge { .. } => "too-large",
            Self::Redirect { .. } => "redirect",
            Self::Nonsense { .. } => "nonsense",
        }
    }

    /// How the origin fails, for people.
    pub(super) const fn how(&self) -> &'static str {
        match self {
            Self::Spent(_) => "the origin is not asked",
            Self::Status { status: 403, .. } => "the origin refuses requests, as it may do with a blocked address",
            Self::Status { status: 429, .. } => "the origin refuses requests because they are too many",
            Self::Status { status: 401 | 407, .. } => "the origin refuses requests",
            Self::Status { .. } => "the origin answers with errors",
            Self::Timeout { .. } | Self::Connection { .. } => "the origin cannot be reached",
            Self::TooLarge { .. } | Self::Redirect { .. } | Self::Nonsense { .. } => UNUSABLE,
        }
    }

    /// What to do about it, if that is known.
    pub(super) const fn todo(&self) -> Option<&'static str> {
        match self {
            Self::Status { status: 403, .. } => Some(
                "Ask the provider of the API whether it blocks the address of this machine. `curl -i` with this URL shows what it \
                 answers here and on another machine.",
            ),
            Self::Status { status: 429, .. } => Some(
                "Lower origin.requests_per_minute, or find the other program that asks the origin from this address and \
                 shares its limit.",
            ),
            _ => None,
        }
    }

    /// The URL that was asked, or its path; `None` when nothing was asked.
    pub const fn asked(&self) -> Option<&String> {
        asked!(self)
    }

    /// The same, with the whole URL that was asked.
    #[must_use]
    pub(super) fn at(mut self, base: &Url) -> Self {
        if let Some(path) = asked!(&mut self).filter(|path| path.starts_with('/')) {
            path.insert_str(0, base.as_str().trim_end_matches('/'));
        }
        self
    }

    /// Whether the answer itself was bad, rather than absent: 502 instead of 503 for a client.
    pub const fn is_nonsense(&self) -> bool {
        matches!(
            self,
            Self::TooLarge { .. } | Self::Redirect { .. } | Self::Nonsense { .. } | Self::Status { status: 0..=428 | 430..=499, .. }
        )
    }

    /// Whether the origin wants the next request at once: `Retry-After: 0`.
    pub fn wants_no_pause(&self) -> bool {
        matches!(self, Self::Status { retry_after: Some(wait), .. } if wait.is_zero())
    }

    /// How long a client should wait before it tries again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Spent(spent) => spent.retry_after,
            Self::Status { retry_after: Some(wait), .. } => *wait,
            _ => Duration::from_secs(5),
        }
    }

    /// The same, with a long path cut: for keeping.
    #[must_use]
    pub(super) fn shortened(mut self) -> Self {
        const LONGEST: usize = 200;
        if let Some(path) = asked!(&mut self).filter(|path| path.len() > LONGEST) {
            path.truncate(excerpt::start(path, LONGEST).len());
            path.push('\u{2026}');
            path.shrink_to_fit();
        }
        self
    }

    /// No answer to `path` over the wire in that time.
    pub(super) fn of(path: &str, error: TransportError, after: Duration) -> Self {
        let path = path.to_owned();
        match error {
            TransportError::Timeout => Self::Timeout { path, after },
            TransportError::Decode(reason) | TransportError::Malformed(reason) => Self::nonsense(&path, reason),
            TransportError::Connection(reason) | TransportError::Unsent(reason) | TransportError::Idle(reason) => {
                Self::Connection { path, reason, reached: true }
            }
            TransportError::Unreached(reason) => Self::Connection { path, reason, reached: false },
        }
    }

    /// An answer to `path` with a status that has no meaning there.
    pub(crate) fn answered(path: &str, status: u16) -> Self {
        Self::Status { status, path: path.to_owned(), retry_after: None }
    }

    /// Whether an answer for a page may say that the list ends before it.
    pub(crate) const fn ends_a_list(&self) -> bool {
        matches!(self, Self::Status { status: 400 | 404 | 410 | 416 | 422, .. })
    }

    /// An answer to `path` that is not valid.
    pub fn nonsense(path: &str, reason: impl std::fmt::Display) -> Self {
        Self::Nonsense { path: path.to_owned(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_before_json_are_skipped() {
        for (body, without) in [
            ("\u{feff}{}", "{}"),
            ("\u{feff}\u{feff} [1]", " [1]"),
            ("{\"a\":\"\u{feff}\"}", "{\"a\":\"\u{feff}\"}"),
            ("\u{feff}<html>", "\u{feff}<html>"),
            ("\u{feff}", "\u{feff}"),
            ("", ""),
        ] {
            assert_eq!(without_mark(Bytes::from(body)), without, "{body:?}");
        }
    }
}
