//! The envelope of a list: every field beside the items, in the origin's order.
//!
//! Computed fields are known by name and rendered; all others are copied as text. Callers: [`crate::api::page`] reads
//! it, [`crate::api::render`] writes it, [`crate::mirror`] merges many pages.

use serde::{Deserialize, Serialize};

use super::json::{self, Field};
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
    /// The origin's numbers of a list without listings.
    #[serde(default, skip_serializing_if = "EmptyNumbers::are_usual")]
    pub empty_numbers: EmptyNumbers,
}

/// `page` and `total_pages` of a list without listings, as JSON text: some origins say that it has one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyNumbers {
    /// Where page 1 is asked for.
    pub page: String,
    /// How many pages there are.
    pub total_pages: String,
}

impl Default for EmptyNumbers {
    fn default() -> Self {
        Self { page: "1".to_owned(), total_pages: "0".to_owned() }
    }
}

impl EmptyNumbers {
    /// Whether they are those of an origin that counts.
    pub fn are_usual(&self) -> bool {
        self.page == "1" && self.total_pages == "0"
    }

    /// Reads the first page of a list without listings; `None`: it is none.
    pub fn of(body: &[u8]) -> Option<Self> {
        let fields = json::fields(std::str::from_utf8(body).ok()?).ok()?;
        let text = |name: &str| fields.iter().find(|field| field.key == name).map(|field| field.value.trim());
        let is_empty = text("total")? == "0" && json::elements(text("items")?).is_ok_and(|items| items.is_empty());
        let usual = Self::default();
        let page = text("page").map_or(usual.page, str::to_owned);
        let total_pages = text("total_pages").map_or(usual.total_pages, str::to_owned);
        Some(Self { page, total_pages }).filter(|numbers| is_empty && numbers.check().is_ok())
    }

    /// They are copied into answers as they are.
    ///
    /// # Errors
    /// When one is no JSON number, nor `null`.
    pub fn check(&self) -> Result<(), String> {
        [&self.page, &self.total_pages].into_iter().try_for_each(|text| {
            let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("{text:?}: {error}"))?;
            if value.is_number() || value.is_null() { Ok(()) } else { Err(format!("{text:?} is not a number")) }
        })
    }
}

impl Default for Envelope {
    fn default() -> Self {
        Self { fields: Vec::new(), empty_filters: "{}".to_owned(), empty_numbers: EmptyNumbers::default() }
    }
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
        let mut envelope = Self::default();
        envelope.fields = fields
            .iter()
            .map(|field| match field.key.as_ref() {
                "generated_at" => EnvelopeField::GeneratedAt,
                "page" => EnvelopeField::Page,
                "per_page" => EnvelopeField::PerPage,
                "total" => EnvelopeField::Total,
                "total_pages" => EnvelopeField::TotalPages,
                "filters" => {
                    if matches!(field.value, "[]" | "{}" | "null") {
                        field.value.clone_into(&mut envelope.empty_filters);
                    }
                    EnvelopeField::Filters
                }
                "items" => EnvelopeField::Items,
                key if volatile.contains(key) => EnvelopeField::Volatile { key: key.to_owned() },
                key => EnvelopeField::Carried { key: key.to_owned(), value: field.value.to_owned() },
            })
            .collect();
        Ok(envelope)
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

    #[test]
    fn the_numbers_of_an_empty_list_are_read_from_one() {
        let of = |text: &str| EmptyNumbers::of(text.as_bytes()).map(|numbers| (numbers.page, numbers.total_pages));
        let said = |page: &str, pages: &str| Some((page.to_owned(), pages.to_owned()));
        assert_eq!(of(r#"{"page":1,"total":0,"total_pages":1,"items":[]}"#), said("1", "1"));
        assert_eq!(of(r#"{"page": 0, "total": 0, "total_pages": null, "items": [ ]}"#), said("0", "null"));
        assert_eq!(of(r#"{"total":0,"items":[]}"#), said("1", "0"));
        for other in [
            r#"{"page":1,"total":1,"total_pages":1,"items":[]}"#,
            r#"{"page":1,"total":0,"total_pages":1,"items":[{}]}"#,
            r#"{"page":"<p>","total":0,"total_pages":1,"items":[]}"#,
            r#"{"error":"no"}"#,
            "<p>",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
