//! One request for a document and its answer: validators, header and whole body.
//!
//! It sends nothing. Callers: [`super::client`] makes answers; all who ask the origin read them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, InvalidHeaderValue, LAST_MODIFIED,
    RETRY_AFTER,
};

use crate::clock::WallTime;
use crate::semantics::caching::ResponseDirectives;
use crate::semantics::freshness::{self, Stamps};

use super::error::AskError;
use super::room::Held;
use super::stamps::DATE_GRAIN_MS;
use super::window::Class;

/// The validators of a stored answer.
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
    /// The status.
    pub status: u16,
    /// The header as it came.
    pub headers: HeaderMap,
    /// The decoded body; empty for 304.
    pub body: Bytes,
    /// `Date` and `Age` of the header.
    pub stamps: Stamps,
    /// When it was requested.
    pub asked: WallTime,
    /// When it arrived.
    pub received: WallTime,
    /// By how many milliseconds the origin's clock was behind ours then; negative: ahead.
    pub lag_ms: i64,
    /// The room that its body takes until judged.
    pub room: Arc<Held>,
}

impl Answer {
    /// The instant that the header speaks for, on the origin's clock. [`super::stamps`] judges the body's stamp.
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
    pub(super) fn grain_ms(&self) -> i64 {
        let took_ms = self.received.millis_since(self.asked).max(0);
        self.stamps.age.map_or(DATE_GRAIN_MS, |_| 2 * DATE_GRAIN_MS + took_ms)
    }

    /// Whether a cache may have kept this answer without saying so: it has no `Age`, and the origin does not forbid it.
    pub fn may_be_a_silent_copy(&self) -> bool {
        let directives = ResponseDirectives::of(&self.headers);
        self.stamps.age.is_none() && !directives.no_store && !directives.private
    }

    /// The validators for the next request; one that is too long to send back is dropped.
    pub fn validators(&self) -> Validators {
        const LONGEST: usize = 1024;
        let short = |value: &&HeaderValue| value.len() <= LONGEST;
        let text = |name| self.headers.get(name).filter(short).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Validators { etag: text(ETAG), last_modified: text(LAST_MODIFIED) }
    }
}

/// The header of a request: conditional if there are validators.
pub(super) fn question(validators: Option<&Validators>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut fields = HeaderMap::new();
    fields.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(validators) = validators {
        if let Some(etag) = &validators.etag {
            fields.insert(IF_NONE_MATCH, etag.parse()?);
        } else if let Some(date) = &validators.last_modified {
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

/// An error, unless the answer is usable: 200, 304, 404, 410, and for clients a refusal.
pub(super) fn judge(path: &str, answer: Answer, class: Class) -> Result<Answer, AskError> {
    match answer.status {
        200 | 304 | 404 | 410 => Ok(answer),
        status if class == Class::Client && is_refusal(status) => Ok(answer),
        status => {
            let wait = answer.headers.get(RETRY_AFTER);
            let wait = wait.and_then(|value| freshness::parse_retry_after(value.as_bytes(), answer.received));
            let retry_after = wait.map(|seconds| Duration::from_secs(u64::from(seconds)));
            Err(AskError::Status { status, path: path.to_owned(), retry_after })
        }
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
