//! Parsed page of the origin's list: its listings, and its envelope, which is every field beside the items.
//!
//! Computed fields of the envelope are known by name and rendered; all others are copied as text. Not whether pages fit
//! together, which [`crate::mirror`] checks. Callers: [`crate::mirror`] reads, [`crate::api::render`] writes.

use std::str;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::hash::ContentHash;
use super::json::{self, Field, JsonError};
use super::listing::{Summary, SummaryError, SummaryFields};
use super::taxonomy::VolatileKeys;
use super::values;

#[derive(Clone, Debug)]
pub struct Page {
    pub envelope: Envelope,
    /// The number of listings, as the origin says.
    pub total: u64,
    /// The page size that the origin applied, if it says so.
    pub per_page: Option<u64>,
    /// The page's listings in order, as slices of the body.
    pub items: Vec<Summary>,
    pub volatile: Vec<(String, String)>,
}

/// The most items of a page: the largest `per_page`.
const MOST_ITEMS: usize = 100;

/// The fields that decide what a page means: each is there at most once.
const DECISIVE: [&str; 6] = ["items", "total", "page", "per_page", "filters", "generated_at"];

/// What an origin may show in the place of no filters.
const EMPTY_FILTERS: [&str; 3] = ["[]", "{}", "null"];

#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error("the body is not UTF-8: {0}")]
    NotUtf8(#[from] str::Utf8Error),
    #[error(transparent)]
    Empty(JsonError),
    #[error("the body is not a JSON object: {0}")]
    NotAnObject(JsonError),
    /// A required field is missing or of the wrong type.
    #[error("`{field}` is {found}, expected {expected}")]
    BadField { field: &'static str, expected: &'static str, found: String },
    /// A field that decides the meaning of the page is repeated; readers of JSON differ in which value counts.
    #[error("`{0}` occurs more than once")]
    Repeated(&'static str),
    #[error("the envelope has {0} fields")]
    TooManyFields(usize),
    #[error("the page has more than the requested {MOST_ITEMS} items")]
    TooManyItems,
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
    pub fn parse(body: &Bytes, volatile: &VolatileKeys) -> Result<Self, PageError> {
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
        let total = value("total");
        let total = total.and_then(json::whole).ok_or_else(|| bad("total", "a whole number", total))?;
        let items = value("items");
        let elements = match items.map(|items| json::elements_up_to(items, MOST_ITEMS)) {
            Some(Ok(elements)) => elements,
            Some(Err(JsonError::TooMany { .. })) => return Err(PageError::TooManyItems),
            // What some servers make of an array without elements.
            Some(Err(_)) if items == Some("null") && is_beyond(total, value) => Vec::new(),
            Some(Err(_)) | None => return Err(bad("items", "an array", items)),
        };
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
            per_page: value("per_page").and_then(json::whole),
            items,
            volatile: fields
                .iter()
                .filter(|field| volatile.contains(&field.key))
                .map(|field| (field.key.clone().into_owned(), field.value.to_owned()))
                .collect(),
        })
    }
}

/// Whether a page that states this total has no listings: there are none, or it is beyond the last.
fn is_beyond<'a>(total: u64, value: impl Fn(&str) -> Option<&'a str>) -> bool {
    let number = |name| value(name).and_then(json::whole);
    let before = number("page").and_then(|page| page.checked_sub(1)?.checked_mul(number("per_page")?));
    total == 0 || before.is_some_and(|before| before >= total)
}

/// A body without the items that are no JSON or have no valid id, and how many these are. `None`: there are none, or
/// more of them than of the others, so that something else is wrong.
pub fn without_broken_items(body: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut depth, mut at, mut key) = (0_usize, 0, &b""[..]);
    // Where the items begin, and where each of them ends.
    let (mut start, mut ends) = (None, Vec::new());
    while let Some(&byte) = body.get(at) {
        let begun = at;
        at += 1;
        match byte {
            b'"' => {
                at = body.len() - json::after_string(&body[at..]).len();
                key = if depth == 1 { &body[begun..at] } else { key };
            }
            b'{' | b'[' => {
                depth += 1;
                start = start.or((depth == 2 && byte == b'[' && key == b"\"items\"").then_some(at));
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 1 && start.is_some() {
                    ends.push(begun);
                    break;
                }
            }
            b',' if depth == 2 && start.is_some() => ends.push(begun),
            _ => {}
        }
    }
    let (start, end) = (start?, *ends.last().filter(|end| body[**end] == b']')?);
    let starts = [start].into_iter().chain(ends.iter().map(|end| end + 1));
    let items = starts.zip(&ends).map(|(start, end)| body[start..*end].trim_ascii());
    let is_whole = |item: &&[u8]| {
        let text = str::from_utf8(item).ok().filter(|text| json::check(text).is_ok());
        text.is_some_and(|text| SummaryFields::read(text).is_ok())
    };
    let whole: Vec<&[u8]> = items.filter(is_whole).collect();
    let broken = ends.len() - whole.len();
    let is_believed = broken > 0 && broken <= whole.len().max(1);
    is_believed.then(|| ([&body[..start], &whole.join(&b','), &body[end..]].concat(), broken))
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvelopeField {
    /// The instant for which the snapshot is certified.
    GeneratedAt,
    Page,
    /// The page size in effect.
    PerPage,
    /// How many listings match.
    Total,
    /// The same; but the unfiltered list does not hold as many listings as it states, or not as they are now.
    StatedTotal {
        total: u64,
        /// How many listings of the origin are not known as they are now, at least.
        unknown: u64,
    },
    TotalPages,
    Filters,
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
    /// The most listings of a page, at least 1; `None`: as many as documented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_page: Option<u16>,
}

/// `page` and `total_pages` of a list without listings, as JSON text: some origins say that it has one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyNumbers {
    /// Where page 1 is asked for.
    pub page: String,
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
        let is_empty = json::whole(text("total")?) == Some(0)
            && json::elements(text("items")?).is_ok_and(|items| items.is_empty());
        let usual = Self::default();
        let page = text("page").map_or(usual.page, str::to_owned);
        let total_pages = text("total_pages").map_or(usual.total_pages, |text| text.trim_matches('"').to_owned());
        Some(Self { page, total_pages }).filter(|numbers| is_empty && numbers.check().is_ok())
    }

    /// Checks that each is a JSON number or `null`: they are copied into answers as they are.
    pub fn check(&self) -> Result<(), String> {
        [&self.page, &self.total_pages].into_iter().try_for_each(|text| {
            let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("{text:?}: {error}"))?;
            if value.is_number() || value.is_null() { Ok(()) } else { Err(format!("{text:?} is not a number")) }
        })
    }
}

impl Default for Envelope {
    fn default() -> Self {
        let empty_numbers = EmptyNumbers::default();
        Self { fields: Vec::new(), empty_filters: "{}".to_owned(), empty_numbers, largest_page: None }
    }
}

impl Envelope {
    /// More fields than this are not an envelope of this API.
    pub const MAX_FIELDS: usize = 256;

    /// Sorts the top-level fields of an unfiltered list into an envelope.
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
                    if EMPTY_FILTERS.contains(&field.value) {
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

    /// Checks an envelope that comes from elsewhere: it is copied into answers as it is.
    pub fn check(&self) -> Result<(), String> {
        if self.fields.len() > Self::MAX_FIELDS {
            return Err(format!("{} fields are more than an envelope has", self.fields.len()));
        }
        if !EMPTY_FILTERS.contains(&&*self.empty_filters) {
            return Err(format!("{:?} does not stand for no filters", json::shorten(&self.empty_filters)));
        }
        self.empty_numbers.check()?;
        if self.largest_page == Some(0) {
            return Err("pages have no listings".to_owned());
        }
        if !self.fields.contains(&EnvelopeField::Items) {
            return Err("`items` is missing".to_owned());
        }
        self.fields.iter().enumerate().try_for_each(|(at, field)| match field {
            EnvelopeField::Carried { key, .. } | EnvelopeField::Volatile { key } if DECISIVE.contains(&&**key) => {
                Err(format!("{key:?} is a computed field"))
            }
            EnvelopeField::Carried { key, value } => json::check(value).map_err(|error| format!("{key:?}: {error}")),
            // An origin may repeat these.
            EnvelopeField::Volatile { .. } | EnvelopeField::TotalPages => Ok(()),
            field => {
                let is_repeated = self.fields[..at].contains(field);
                if is_repeated { Err("a computed field is repeated".to_owned()) } else { Ok(()) }
            }
        })
    }

    /// Removes every copied field that `other`, the envelope of another page of the same crawl, does not have with the
    /// same value. Returns the removed keys.
    pub fn agree_with(&mut self, other: &Self) -> Vec<String> {
        let mut left_out = Vec::new();
        self.fields.retain(|field| match field {
            EnvelopeField::Carried { key, .. } if !other.has(field) => {
                left_out.push(key.clone());
                false
            }
            _ => true,
        });
        left_out
    }

    /// Whether it has this field, with an equal value if that is carried.
    pub fn has(&self, field: &EnvelopeField) -> bool {
        self.fields.iter().any(|own| match (own, field) {
            (EnvelopeField::Carried { key: own, value }, EnvelopeField::Carried { key, value: other }) => {
                own == key && values::same(value, other)
            }
            _ => own == field,
        })
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
    fn parse(text: &str) -> Result<Page, PageError> {
        Page::parse(&Bytes::copy_from_slice(text.as_bytes()), &VolatileKeys::default())
    }

    #[test]
    fn an_empty_list_may_have_null_items_and_no_other_one() {
        for empty in [r#"{"total":0,"items":null}"#, r#"{"page":3,"per_page":5,"total":10,"items":null}"#] {
            assert!(parse(empty).unwrap().items.is_empty(), "{empty}");
        }
        for broken in [
            r#"{"total":0}"#,
            r#"{"total":10,"items":null}"#,
            r#"{"page":2,"per_page":5,"total":10,"items":null}"#,
            r#"{"page":0,"per_page":5,"total":10,"items":null}"#,
            r#"{"total":0,"items":{}}"#,
        ] {
            assert!(matches!(parse(broken), Err(PageError::BadField { field: "items", .. })), "{broken}");
        }
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
            (r#"{"total":"three","items":[]}"#, "`total` is \"three\""),
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

    #[test]
    fn broken_items_are_left_out() {
        let without = |body: &[u8]| {
            let (body, broken) = without_broken_items(body)?;
            Some((String::from_utf8(body).unwrap(), broken))
        };
        let left = |text: &str, broken| Some((text.to_owned(), broken));
        let body =
            br#"{"x":["items",[1,2]], "total":3, "items" : [{"id":1,"a":[1,{}]},{"id":2,"lat":NaN}, {"id":3}],"y":1}"#;
        assert_eq!(
            without(body),
            left(r#"{"x":["items",[1,2]], "total":3, "items" : [{"id":1,"a":[1,{}]},{"id":3}],"y":1}"#, 1)
        );
        let with = |item: &[u8]| without(&[br#"{"items":[{"id":1},"#, item, b"]}"].concat());
        for item in [
            &b"{\"id\":2,\"name\":\"\xff\"}"[..],
            b"{\"id\":2,\"name\":\"\0\"}",
            br#"{"id":"2"}"#,
            br#"{"name":"],}"}"#,
            br#"{"id":2,"id":3}"#,
            b"[]",
            b"",
        ] {
            assert_eq!(with(item), left(r#"{"items":[{"id":1}]}"#, 1), "{}", item.escape_ascii());
        }
        assert_eq!(without(br#"{"items":[NaN]}"#), left(r#"{"items":[]}"#, 1));
        for body in [
            &br#"{"items":[{"id":1},{"id":2}]}"#[..],
            br#"{"items":[{"id":1},{},{}]}"#,
            br#"{"rows":[NaN,{"id":1}]}"#,
            br#"{"items":[NaN,{"id":1}"#,
            br#"{"items":[{"id":1},{"a":"]}"#,
            br#"[[NaN,{"id":1}]]"#,
            b"}",
            b"",
        ] {
            assert_eq!(without(body), None, "{}", body.escape_ascii());
        }
    }

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
