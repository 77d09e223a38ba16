//! One page of the origin's list, taken apart.
//!
//! Not whether pages fit together, which [`crate::mirror`] checks. Callers: [`crate::mirror`].

use std::str;

use bytes::Bytes;

use super::envelope::Envelope;
use super::hash::ContentHash;
use super::json::{self, JsonError};
use super::listing::{Summary, SummaryError, SummaryFields};
use super::taxonomy::VolatileKeys;

/// A page as the origin sent it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The fields beside the items.
    pub envelope: Envelope,
    /// The number of listings, as the origin says.
    pub total: u64,
    /// The page size that the origin applied, if it says so.
    pub per_page: Option<u64>,
    /// The page's listings in order, as slices of the body.
    pub items: Vec<Summary>,
    /// The volatile fields with their JSON texts.
    pub volatile: Vec<(String, String)>,
}

/// The most items of a page: the largest `per_page`.
const MOST_ITEMS: usize = 100;

/// Why a body is no page of a list.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The body is no UTF-8.
    #[error("the body is not UTF-8: {0}")]
    NotUtf8(#[from] str::Utf8Error),
    /// There is no body.
    #[error(transparent)]
    Empty(JsonError),
    /// The body is no JSON object.
    #[error("the body is not a JSON object: {0}")]
    NotAnObject(JsonError),
    /// A required field is missing or of the wrong type.
    #[error("`{field}` is {found}, expected {expected}")]
    BadField {
        field: &'static str,
        expected: &'static str,
        /// The value, shortened.
        found: String,
    },
    /// A field that decides the meaning of the page is repeated; readers of JSON differ in which value counts.
    #[error("`{0}` occurs more than once")]
    Repeated(&'static str),
    /// More fields than an envelope has.
    #[error("the envelope has {0} fields")]
    TooManyFields(usize),
    /// More items than one page can hold.
    #[error("the page has more than the requested {MOST_ITEMS} items")]
    TooManyItems,
    /// An item is no summary.
    #[error("item {position}: {source}")]
    BadItem {
        /// The item's position on the page, from 0.
        position: usize,
        source: SummaryError,
    },
}

impl From<JsonError> for PageError {
    fn from(error: JsonError) -> Self {
        if matches!(error, JsonError::Empty) { Self::Empty(error) } else { Self::NotAnObject(error) }
    }
}

impl Page {
    /// Takes a body apart.
    ///
    /// # Errors
    /// When the body is not a page of this API; the message names the field.
    pub fn parse(body: &Bytes, volatile: &VolatileKeys) -> Result<Self, PageError> {
        const DECISIVE: [&str; 6] = ["items", "total", "page", "per_page", "filters", "generated_at"];
        let text = str::from_utf8(body)?;
        json::check(text)?;
        let fields = json::fields_up_to(text, Envelope::MAX_FIELDS)?;
        let repeated = |name: &&str| fields.iter().filter(|field| field.key == *name).count() > 1;
        if let Some(name) = DECISIVE.into_iter().find(repeated) {
            return Err(PageError::Repeated(name));
        }
        let value = |name: &str| fields.iter().find(|field| field.key == name).map(|field| field.value);
        let bad = |field, expected, found: Option<&str>| PageError::BadField {
            field,
            expected,
            found: found.map_or_else(|| "absent".to_owned(), json::shorten),
        };
        let items = value("items");
        let read = items.map(|items| json::elements_up_to(items, MOST_ITEMS));
        let elements = match read {
            Some(Ok(elements)) => elements,
            Some(Err(error)) if error.is_too_many() => return Err(PageError::TooManyItems),
            Some(Err(_)) | None => return Err(bad("items", "an array", items)),
        };
        let total = value("total");
        let total = total.and_then(|total| total.parse().ok()).ok_or_else(|| bad("total", "a whole number", total))?;
        let items = elements
            .iter()
            .enumerate()
            .map(|(position, raw)| {
                let fields = SummaryFields::read(raw).map_err(|source| PageError::BadItem { position, source })?;
                let raw = body.slice_ref(raw.as_bytes());
                let hash = ContentHash::of(&raw);
                Ok(Summary { id: fields.id, hash, raw })
            })
            .collect::<Result<_, PageError>>()?;
        Ok(Self {
            envelope: Envelope::of(&fields, volatile)?,
            total,
            per_page: value("per_page").and_then(|size| size.parse().ok()),
            items,
            volatile: fields
                .iter()
                .filter(|field| volatile.contains(&field.key))
                .map(|field| (field.key.clone().into_owned(), field.value.to_owned()))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Page, PageError> {
        Page::parse(&Bytes::copy_from_slice(text.as_bytes()), &VolatileKeys::default())
    }

    #[test]
    fn items_keep_their_bytes() {
        let page =
            parse(r#"{"total":2,"per_page":100,"items":[ {"id":1, "lat":4.50} ,{"id":2,"u":"https:\/\/x"}]}"#).unwrap();
        assert_eq!(page.items[0].raw.as_ref(), br#"{"id":1, "lat":4.50}"#);
        assert_eq!(page.items[1].raw.as_ref(), br#"{"id":2,"u":"https:\/\/x"}"#);
        assert_eq!((page.total, page.per_page), (2, Some(100)));
    }

    #[test]
    fn what_is_no_page_is_refused_with_the_field() {
        for (text, message) in [
            ("<html>", "not a JSON object"),
            ("", "the body is empty"),
            (r#"{"items":[]}"#, "`total` is absent"),
            (r#"{"total":"3","items":[]}"#, "`total` is \"3\""),
            (r#"{"total":3,"items":{}}"#, "`items` is {}"),
            (r#"{"total":1,"items":[{"id":"x"}]}"#, "item 0"),
            (r#"{"total":1,"items":[{"id":1}]"#, "not a JSON object"),
            (r#"{"total":1,"total":2,"items":[{"id":1}]}"#, "`total` occurs more than once"),
            (r#"{"total":1,"items":[{"id":1}],"items":[]}"#, "`items` occurs more than once"),
            (r#"{"total":1,"items":[{"id":1,"id":2}]}"#, "item 0: an item has two ids"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
