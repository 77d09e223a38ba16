//! A listing: its id, and its summary as the origin sent it.
//!
//! A summary is kept as text, byte for byte; the few fields that filters need are read from it and never written
//! back. Callers: [`crate::api::page`], [`crate::snapshot`], [`crate::store`], [`crate::mirror`].

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::hash::ContentHash;
use super::json::{self, JsonError, Picked};
use super::modified;

/// The id of a listing: a non-negative integer of at most 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ListingId(pub u64);

impl ListingId {
    /// Reads an id in its canonical decimal form: no sign, no leading zero, at most 64 bits. `None` otherwise.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = digits && (text.len() == 1 || !text.starts_with('0'));
        canonical.then(|| text.parse().ok().map(Self)).flatten()
    }
}

impl fmt::Display for ListingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One listing of a list: the origin's text and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The listing's id.
    pub id: ListingId,
    /// Hash of `raw`.
    pub hash: ContentHash,
    /// The JSON object exactly as the origin sent it. Often a slice of a larger buffer.
    pub raw: Bytes,
}

impl Summary {
    /// A copy with its own text, which keeps no larger buffer in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { raw: Bytes::copy_from_slice(&self.raw), ..*self }
    }
}

/// Whether the origin has the detail of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetailState {
    /// The origin sent it.
    Present,
    /// The origin answered 404 or 410 for a listed id. The body is empty.
    Gone,
}

/// The fields of a summary that filters need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummaryFields<'a> {
    /// The listing's id.
    pub id: ListingId,
    /// Display name of the city; `None` if absent or not a string.
    pub city: Option<Cow<'a, str>>,
    /// Display name of the state; `None` if absent or not a string.
    pub state: Option<Cow<'a, str>>,
    /// Slug of the sport; `None` if absent or not a string.
    pub sport: Option<Cow<'a, str>>,
    /// `modified` in nanoseconds since the epoch (saturating); `None` if absent or not a timestamp.
    pub modified: Option<i64>,
}

/// Why a text is no summary.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// It is not a JSON object.
    #[error("an item is not a JSON object: {0}")]
    NotAnObject(#[from] JsonError),
    /// It has no `id`, or the `id` is not a non-negative integer.
    #[error("an item has no valid id: {0}")]
    BadId(String),
    /// It has more than one `id`, and readers of JSON differ in which one counts.
    #[error("an item has two ids: {0} and {1}")]
    TwoIds(String, String),
}

impl<'a> SummaryFields<'a> {
    /// Reads the fields out of a summary's text.
    ///
    /// # Errors
    /// When the text is no object or has no integer `id`; every other field may be missing.
    pub(crate) fn read(raw: &'a str) -> Result<Self, SummaryError> {
        let [id, city, state, sport, modified] = json::pick(raw, &["id", "city", "state", "sport", "modified"])?;
        // A repeated field is ignored: readers of JSON differ in which value counts.
        let text = |picked| if let Picked::Once(value) = picked { json::string(value) } else { None };
        let id = match id {
            Picked::Absent => "(absent)",
            Picked::Once(id) => id,
            Picked::Repeated(one, other) => return Err(SummaryError::TwoIds(json::shorten(one), json::shorten(other))),
        };
        Ok(Self {
            id: ListingId::parse(id).ok_or_else(|| SummaryError::BadId(json::shorten(id)))?,
            city: text(city),
            state: text(state),
            sport: text(sport),
            modified: text(modified).and_then(|value| modified::parse_any(&value).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_decimal_integers_are_ids() {
        for (text, id) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("007", None),
            ("+7", None),
            ("-7", None),
            ("7.0", None),
            ("", None),
            ("٣", None),
        ] {
            assert_eq!(ListingId::parse(text), id.map(ListingId), "{text:?}");
        }
    }

    #[test]
    fn fields_are_read_and_unknown_ones_ignored() {
        let raw =
            r#"{"id":12,"x":[1e3],"city":"S\u00e3o","state":"Texas","sport":"golf","modified":"2024-01-01T00:00:00Z"}"#;
        let fields = SummaryFields::read(raw).unwrap();
        assert_eq!(fields.id, ListingId(12));
        assert_eq!(fields.city.as_deref(), Some("São"));
        assert_eq!(fields.modified, Some(1_704_067_200_000_000_000));
        assert!(SummaryFields::read(r#"{"id":"12"}"#).is_err());
        assert!(SummaryFields::read("[]").is_err());
        assert_eq!(SummaryFields::read(r#"{"id":1,"city":5}"#).unwrap().city, None);
        assert!(SummaryFields::read(r#"{"id":1,"id":1}"#).is_err());
        assert_eq!(SummaryFields::read(r#"{"id":1,"city":"a","city":"b"}"#).unwrap().city, None);
    }
}
