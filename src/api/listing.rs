//! A listing: its id, and its summary as the origin sent it.
//!
//! A summary is kept as text, byte for byte; the few fields that filters need are read from it and never written
//! back. Callers: [`crate::api::page`], [`crate::data::snapshot`], [`crate::data::store`], [`crate::mirror`].

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
    Present,
    /// The origin answered 404 or 410 for a listed id. The body is empty.
    Gone,
}

/// The fields of a summary that filters need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummaryFields<'a> {
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

#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
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
    /// Reads the fields out of a summary's text. Every field but the integer `id` may be missing.
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
            modified: text(modified).and_then(|value| modified::parse_iso8601(&value).ok()),
        })
    }
}

/// What a summary says of a venue. Missing values, or of another type, are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Venue<'a> {
    pub name: Option<Cow<'a, str>>,
    pub url: Option<Cow<'a, str>>,
    pub city: Option<Cow<'a, str>>,
    pub state: Option<Cow<'a, str>>,
    pub sport: Option<Cow<'a, str>>,
    /// In degrees.
    pub lat: Option<f64>,
    pub lng: Option<f64>,
    pub rating: Option<f64>,
    pub review_count: Option<u64>,
}

impl<'a> Venue<'a> {
    pub(crate) fn read(raw: &'a [u8]) -> Self {
        const KEYS: [&str; 9] = ["name", "url", "city", "state", "sport", "lat", "lng", "rating", "review_count"];
        let picked = std::str::from_utf8(raw).ok().and_then(|raw| json::pick(raw, &KEYS).ok());
        let values = picked.unwrap_or([Picked::Absent; 9]).map(|picked| match picked {
            Picked::Once(value) => Some(value),
            Picked::Absent | Picked::Repeated(..) => None,
        });
        let [name, url, city, state, sport, lat, lng, rating, review_count] = values;
        let text = |value: Option<&'a str>| value.and_then(json::string);
        Self {
            name: text(name),
            url: text(url),
            city: text(city),
            state: text(state),
            sport: text(sport),
            lat: lat.and_then(|lat| degrees(lat, 90.0)).map(|(_, lat)| lat),
            lng: lng.and_then(|lng| degrees(lng, 180.0)).map(|(_, lng)| lng),
            rating: rating.and_then(number).map(|(_, rating)| rating),
            review_count: review_count.and_then(|count| count.parse().ok()),
        }
    }
}

/// A coordinate of at most so many degrees as the origin spells it, and its value.
pub(crate) fn degrees(value: &str, most: f64) -> Option<(Cow<'_, str>, f64)> {
    number(value).filter(|(_, number)| number.abs() <= most)
}

/// A number as the origin spells it, and its value. Some origins write numbers as texts.
fn number(value: &str) -> Option<(Cow<'_, str>, f64)> {
    let text = match json::string(value) {
        Some(Cow::Owned(text)) => Cow::Owned(text.trim().to_owned()),
        Some(Cow::Borrowed(text)) => Cow::Borrowed(text.trim()),
        None => Cow::Borrowed(value),
    };
    let number = serde_json::from_str(&text).ok().filter(|number: &f64| number.is_finite())?;
    Some((text, number))
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

    #[test]
    fn a_summary_may_lack_anything() {
        let venue =
            Venue::read(br#"{"id":1,"name":"A \u00e9","url":"javascript:1","lat":"40.5","lng":-1e1,"rating":null}"#);
        assert_eq!(venue.name.as_deref(), Some("A é"));
        assert_eq!((venue.lat, venue.lng, venue.rating), (Some(40.5), Some(-10.0), None));
        assert_eq!(Venue::read(b"[]"), Venue::default());
        let half = Venue::read(br#"{"id":1,"\ud800":"\udc00","name":"The \ud83d Club"}"#);
        assert_eq!(half.name.as_deref(), Some("The \u{fffd} Club"));
        let far = Venue::read(br#"{"lat":90.1,"lng":"-181","rating":"4.50"}"#);
        assert_eq!((far.lat, far.lng, far.rating), (None, None, Some(4.5)));
    }
}
