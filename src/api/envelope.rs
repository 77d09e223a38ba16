//! The envelope of a list: every field beside the items, in the origin's order.
//!
//! Computed fields are known by name and rendered; all others are copied as text. Callers: [`crate::api::page`] reads
//! it, [`crate::api::render`] writes it, [`crate::mirror`] merges many pages.

use serde::{Deserialize, Serialize};

use super::json::Field;
use super::page::PageError;
use super::taxonomy::VolatileKeys;

/// One field of the envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeField {
    /// The instant for which the snapshot is certified.
    GeneratedAt,
    /// The page that was asked for.
    Page,
    /// The page size in effect.
    PerPage,
    /// How many listings match.
    Total,
    /// The same; but the unfiltered list does not hold as many listings as it states, or not as they are now.
    StatedTotal {
        /// What it states.
        total: u64,
        /// How many listings of the origin are not known as they are now, at least.
        unknown: u64,
    },
    /// How many pages they fill.
    TotalPages,
    /// The filters that were applied.
    Filters,
    /// The listings.
    Items,
    /// Any other field, with the origin's JSON text.
    Carried {
        /// The key, decoded.
        key: String,
        /// The value's JSON text.
        value: String,
    },
    /// A field whose value means nothing (`request_id`). Its last value is stored apart and served.
    Volatile {
        /// The key, decoded.
        key: String,
    },
}

/// The envelope's fields in the origin's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The fields; at most [`Envelope::MAX_FIELDS`].
    pub fields: Vec<EnvelopeField>,
    /// The origin's text for no filters: `{}` or `[]`.
    pub empty_filters: String,
}

impl Envelope {
    /// More fields than this are not an envelope of this API.
    pub const MAX_FIELDS: usize = 256;

    /// Sorts the top-level fields of an unfiltered list into an envelope.
    ///
    /// # Errors
    /// When there are more than [`Envelope::MAX_FIELDS`].
    pub fn of(fields: &[Field<'_>], volatile: &VolatileKeys) -> Result<Self, PageError> {
        if fields.len() > Self::MAX_FIELDS {
            return Err(PageError::TooManyFields(fields.len()));
        }
        let mut empty_filters = String::from("{}");
        let fields = fields
            .iter()
            .map(|field| match field.key.as_ref() {
                "generated_at" => EnvelopeField::GeneratedAt,
                "page" => EnvelopeField::Page,
                "per_page" => EnvelopeField::PerPage,
                "total" => EnvelopeField::Total,
                "total_pages" => EnvelopeField::TotalPages,
                "filters" => {
                    if matches!(field.value, "[]" | "{}" | "null") {
                        field.value.clone_into(&mut empty_filters);
                    }
                    EnvelopeField::Filters
                }
                "items" => EnvelopeField::Items,
                key if volatile.contains(key) => EnvelopeField::Volatile { key: key.to_owned() },
                key => EnvelopeField::Carried { key: key.to_owned(), value: field.value.to_owned() },
            })
            .collect();
        Ok(Self { fields, empty_filters })
    }

    /// Removes every copied field that `other`, the envelope of another page of the same crawl, does not have with the
    /// same value. Returns the removed keys.
    pub fn agree_with(&mut self, other: &Self) -> Vec<String> {
        let mut left_out = Vec::new();
        self.fields.retain(|field| match field {
            EnvelopeField::Carried { key, .. } if !other.fields.contains(field) => {
                left_out.push(key.clone());
                false
            }
            _ => true,
        });
        left_out
    }

    /// States a total; `unknown` listings are not known as they are now.
    pub fn state_total(&mut self, total: u64, unknown: u64) {
        for field in &mut self.fields {
            if matches!(field, EnvelopeField::Total) {
                *field = EnvelopeField::StatedTotal { total, unknown };
            }
        }
    }

    /// What the unfiltered list states as its total, and how many listings are not known; `None`: it holds as many
    /// listings as it states.
    pub fn stated_total(&self) -> Option<(u64, u64)> {
        self.fields.iter().find_map(|field| match field {
            EnvelopeField::StatedTotal { total, unknown } => Some((*total, *unknown)),
            _ => None,
        })
    }

    /// The text of a carried field.
    pub fn carried(&self, name: &str) -> Option<&str> {
        self.fields.iter().find_map(|field| match field {
            EnvelopeField::Carried { key, value } if key == name => Some(value.as_str()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::json;

    fn envelope(text: &str) -> Envelope {
        Envelope::of(&json::fields(text).unwrap(), &VolatileKeys::default()).unwrap()
    }

    #[test]
    fn what_differs_between_pages_is_left_out() {
        let mut first = envelope(r#"{"license":"x","next":"2","page":1,"filters":[],"items":[]}"#);
        let second = envelope(r#"{"license":"x","next":"3","page":2,"filters":[],"items":[]}"#);
        assert_eq!(first.agree_with(&second), ["next"]);
        assert_eq!(first.carried("license"), Some("\"x\""));
        assert_eq!(first.carried("next"), None);
        assert_eq!(first.empty_filters, "[]");
        assert_eq!(first.fields.len(), 4);
    }
}
