//! Rendering of snapshot answers: bodies and entity tags, by copying slices of stored text.
//!
//! Nothing is parsed and nothing re-serialised. Callers: [`crate::edge::answer`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::facets::Facets;
use super::form::{ListForm, PageCount};
use super::hash::ContentHash;
use super::json;
use super::listing::{ListingId, Summary};
use super::page::{EmptyNumbers, Envelope, EnvelopeField};
use super::query::ListQuery;
use super::query::search::SearchQuery;

/// Part of every entity tag: raise it when the same data is rendered differently.
pub(crate) const RENDERER: u32 = 1;

/// The last values of volatile fields, as JSON text by key.
pub type VolatileValues = BTreeMap<String, String>;

/// A field of the envelope that differs from page to page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextSlot {
    Page,
    PerPage,
    Total,
    TotalPages,
    Filters,
    Items,
}

/// An envelope with gaps for the fields that differ from page to page; made once per publication.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    text: Vec<u8>,
    /// Where in `text` something is filled in, in order.
    slots: Vec<(usize, TextSlot)>,
    empty_filters: String,
    empty_numbers: EmptyNumbers,
    form: ListForm,
}

impl Frame {
    /// Writes an envelope out. `generated_at` is JSON text, quotes included. `form`: its fields are left out.
    pub fn new(envelope: &Envelope, generated_at: &str, volatile: &VolatileValues, form: ListForm) -> Self {
        let mut frame = Self {
            empty_filters: envelope.empty_filters.clone(),
            empty_numbers: envelope.empty_numbers.clone(),
            form,
            ..Self::default()
        };
        for field in &envelope.fields {
            match field {
                EnvelopeField::TotalPages if frame.form.pages == PageCount::LeftOut => continue,
                EnvelopeField::Carried { key, .. } if frame.form.without.contains(key) => continue,
                _ => {}
            }
            let (key, value) = match field {
                EnvelopeField::GeneratedAt => ("generated_at", Ok(generated_at)),
                EnvelopeField::Page => ("page", Err(TextSlot::Page)),
                EnvelopeField::PerPage => ("per_page", Err(TextSlot::PerPage)),
                EnvelopeField::Total | EnvelopeField::StatedTotal { .. } => ("total", Err(TextSlot::Total)),
                EnvelopeField::TotalPages => ("total_pages", Err(TextSlot::TotalPages)),
                EnvelopeField::Filters => ("filters", Err(TextSlot::Filters)),
                EnvelopeField::Items => ("items", Err(TextSlot::Items)),
                EnvelopeField::Carried { key, value } => (key.as_str(), Ok(value.as_str())),
                EnvelopeField::Volatile { key } => (key.as_str(), Ok(volatile.get(key).map_or("null", String::as_str))),
            };
            put_key(&mut frame.text, key);
            let quote = if frame.form.quoted.contains(key) { &b"\""[..] } else { b"" };
            frame.text.extend_from_slice(quote);
            match value {
                Ok(value) => frame.text.extend_from_slice(value.as_bytes()),
                Err(slot) => frame.slots.push((frame.text.len(), slot)),
            }
            frame.text.extend_from_slice(quote);
        }
        if frame.text.is_empty() {
            frame.text.push(b'{');
        }
        frame.text.push(b'}');
        frame
    }
}

/// Begins a field of an object; the first one also begins the object.
fn put_key(out: &mut Vec<u8>, key: &str) {
    out.push(if out.is_empty() { b'{' } else { b',' });
    json::quote_into(out, key);
    out.push(b':');
}

pub struct ListPage<'a> {
    /// The envelope around the items.
    pub frame: &'a Frame,
    /// Hash of the envelope's carried fields.
    pub envelope_hash: ContentHash,
    pub query: &'a ListQuery,
    pub total: u64,
    pub items: Vec<&'a Summary>,
}

/// An object of texts, of which there is one at least.
fn object<'a>(fields: impl Iterator<Item = (&'static str, &'a str)>) -> Vec<u8> {
    let mut text = Vec::with_capacity(128);
    for (name, value) in fields {
        put_key(&mut text, name);
        json::quote_into(&mut text, value);
    }
    text.push(b'}');
    text
}

impl ListPage<'_> {
    pub fn body(&self) -> Vec<u8> {
        self.filled(&self.filters(), 0, |out, at| out.extend_from_slice(&self.items[at].raw))
    }

    /// The frame filled with these filters and with the items that `put` writes: each its text, and about `beside` bytes.
    fn filled(&self, filters: &[u8], beside: usize, put: impl Fn(&mut Vec<u8>, usize)) -> Vec<u8> {
        let mut numbers = [itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new()];
        let [page, per_page, total, total_pages] = &mut numbers;
        let empty = (self.total == 0).then_some(&self.frame.empty_numbers);
        let page = match empty {
            Some(empty) if self.query.page == 1 => &empty.page,
            _ => page.format(self.query.page),
        };
        let per_page = per_page.format(self.query.per_page);
        let total_pages = match empty {
            Some(empty) => &empty.total_pages,
            None => total_pages.format(self.frame.form.total_pages(self.query, self.total)),
        };
        let total = total.format(self.total);
        let items = self.items.iter().map(|item| item.raw.len() + beside + 1).sum::<usize>();
        // The exact size if each field occurs once, so that the body is not moved afterwards.
        let variable = page.len() + per_page.len() + total.len() + total_pages.len() + filters.len() + items.max(1) + 1;
        let mut out = Vec::with_capacity(self.frame.text.len() + variable);
        let mut at = 0;
        for (end, slot) in &self.frame.slots {
            out.extend_from_slice(&self.frame.text[at..*end]);
            at = *end;
            match slot {
                TextSlot::Page => out.extend_from_slice(page.as_bytes()),
                TextSlot::PerPage => out.extend_from_slice(per_page.as_bytes()),
                TextSlot::Total => out.extend_from_slice(total.as_bytes()),
                TextSlot::TotalPages => out.extend_from_slice(total_pages.as_bytes()),
                TextSlot::Filters => out.extend_from_slice(filters),
                TextSlot::Items => {
                    out.push(b'[');
                    for at in 0..self.items.len() {
                        if at > 0 {
                            out.push(b',');
                        }
                        put(&mut out, at);
                    }
                    out.push(b']');
                }
            }
        }
        out.extend_from_slice(&self.frame.text[at..]);
        out
    }

    fn filters(&self) -> Cow<'_, [u8]> {
        if self.query.is_filtered() {
            Cow::Owned(object(self.query.filters()))
        } else {
            Cow::Borrowed(self.frame.empty_filters.as_bytes())
        }
    }

    /// The page's entity tag: a hash of everything visible that is not volatile.
    pub fn tag(&self) -> Tag {
        // Hashing one text is faster than feeding a hash in pieces.
        let mut text = Vec::with_capacity(256 + 16 * self.items.len());
        text.extend_from_slice(b"list");
        text.extend_from_slice(&RENDERER.to_le_bytes());
        text.extend_from_slice(&self.envelope_hash.to_bytes());
        text.extend_from_slice(&self.query.page.to_le_bytes());
        let [low, high] = self.query.per_page.to_le_bytes();
        text.push(low);
        if high > 0 {
            text.push(high);
        }
        text.extend_from_slice(&self.total.to_le_bytes());
        for (name, value) in self.query.filters() {
            text.extend_from_slice(&(value.len() as u64).to_le_bytes());
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(value.as_bytes());
        }
        for item in &self.items {
            text.extend_from_slice(&item.hash.to_bytes());
        }
        let empty = &self.frame.empty_numbers;
        if self.total == 0 && !empty.are_usual() {
            text.extend_from_slice([" empty", &empty.page, &empty.total_pages].join(" ").as_bytes());
        }
        let form = &self.frame.form;
        if form.pages != PageCount::Full || !form.without.is_empty() {
            text.extend_from_slice(format!(" form {} {:?}", form.pages.as_str(), form.without).as_bytes());
        }
        if !form.quoted.is_empty() {
            text.extend_from_slice(format!(" quoted {:?}", form.quoted).as_bytes());
        }
        Tag(xxh3_128(&text))
    }
}

/// A page of what a search found: a list whose items have the listing inside.
pub(crate) struct SearchPage<'a> {
    pub list: ListPage<'a>,
    pub query: &'a SearchQuery,
    /// Words of the query that were left out.
    pub ignored: &'a [Box<str>],
    /// How many results each sport and state has; `None`: not asked for.
    pub facets: Option<&'a Facets>,
    /// How far each of its listings is from `near`, in metres; `None` without `near`.
    pub metres: Vec<Option<u32>>,
}

impl SearchPage<'_> {
    pub(crate) fn body(&self) -> Vec<u8> {
        const BESIDE: usize = r#"{"listing":,"distance_km":12345.678}"#.len();
        let mut out = self.list.filled(&object(self.query.filters()), BESIDE, |out, at| {
            out.extend_from_slice(b"{\"listing\":");
            out.extend_from_slice(&self.list.items[at].raw);
            if let Some(metres) = self.metres[at] {
                out.extend_from_slice(b",\"distance_km\":");
                put_kilometres(out, metres);
            }
            out.push(b'}');
        });
        if let Some(facets) = self.facets {
            out.pop_if(|end| *end == b'}');
            out.extend_from_slice(b",\"facets\":");
            facets.put(&mut out);
            out.push(b'}');
        }
        if !self.ignored.is_empty() && out.pop_if(|end| *end == b'}').is_some() {
            out.extend_from_slice(b",\"ignored\":");
            for (at, word) in self.ignored.iter().enumerate() {
                out.push(if at == 0 { b'[' } else { b',' });
                json::quote_into(&mut out, word);
            }
            out.extend_from_slice(b"]}");
        }
        out
    }

    /// The page's entity tag: that of the list, and what is shown beyond it.
    pub(crate) fn tag(&self) -> Tag {
        let mut text = b"search".to_vec();
        text.extend_from_slice(&self.list.tag().0.to_le_bytes());
        text.extend_from_slice(&object(self.query.filters()));
        for metres in self.metres.iter().flatten() {
            text.extend_from_slice(&metres.to_le_bytes());
        }
        for word in self.ignored {
            text.extend_from_slice(word.as_bytes());
            text.push(0);
        }
        if let Some(facets) = self.facets {
            facets.put(&mut text);
        }
        Tag(xxh3_128(&text))
    }
}

/// Appends metres as kilometres, to the metre: `1.2`, `0.035`, `7.0`.
fn put_kilometres(out: &mut Vec<u8>, metres: u32) {
    out.extend_from_slice(itoa::Buffer::new().format(metres / 1000).as_bytes());
    let thousandths = format!(".{:03}", metres % 1000);
    let digits = thousandths.trim_end_matches('0').len().max(2);
    out.extend_from_slice(&thousandths.as_bytes()[..digits]);
}

/// The opaque part of an entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub u128);

impl Tag {
    pub fn of(kind: &str, content: ContentHash, public_url: &str) -> Self {
        let mut hasher = Xxh3Default::new();
        hasher.update(kind.as_bytes());
        hasher.update(&RENDERER.to_le_bytes());
        hasher.update(&content.to_bytes());
        hasher.update(public_url.as_bytes());
        Self(hasher.digest128())
    }

    /// The entity tag for the header: weak, because all content codings share it.
    pub fn to_header(self) -> String {
        format!("W/\"{:032x}\"", self.0)
    }
}

/// The document of `/changes.json`: which listings came, changed and went between two snapshots.
/// [`crate::data::snapshot::journal`] finds the changes.
pub(crate) struct ChangesDocument<'a> {
    /// The id of the earlier snapshot, as the client named it.
    pub since: &'a str,
    pub snapshot: &'a str,
    /// The instant for which the current snapshot is confirmed: JSON text with quotes. Not part of the tag.
    pub generated_at: &'a str,
    /// JSON text; `None`: the origin's lists have none.
    pub license: Option<&'a str>,
    /// JSON text; `None`: the origin's lists have none.
    pub attribution: Option<&'a str>,
    /// Listings that only the current snapshot has.
    pub added: &'a [ListingId],
    pub changed: &'a [ListingId],
    /// Listings that only the earlier snapshot has.
    pub removed: &'a [ListingId],
}

impl ChangesDocument<'_> {
    fn lists(&self) -> [(&'static str, &[ListingId]); 3] {
        [("added", self.added), ("changed", self.changed), ("removed", self.removed)]
    }

    pub(crate) fn body(&self) -> Vec<u8> {
        let ids = self.added.len() + self.changed.len() + self.removed.len();
        let carried = [self.license, self.attribution].into_iter().flatten().map(str::len).sum::<usize>();
        let mut out = Vec::with_capacity(256 + carried + 8 * ids);
        let (since, snapshot) = (json::quote(self.since), json::quote(self.snapshot));
        let texts = [
            ("since", Some(since.as_str())),
            ("snapshot", Some(&snapshot)),
            ("generated_at", Some(self.generated_at)),
            ("license", self.license),
            ("attribution", self.attribution),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                put_key(&mut out, key);
                out.extend_from_slice(text.as_bytes());
            }
        }
        let mut number = itoa::Buffer::new();
        for (key, ids) in self.lists() {
            put_key(&mut out, key);
            out.push(b'[');
            for (at, id) in ids.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(number.format(id.0).as_bytes());
            }
            out.push(b']');
        }
        out.push(b'}');
        out
    }

    /// The entity tag: a hash of all visible fields but the instant.
    pub(crate) fn tag(&self) -> Tag {
        let mut hasher = Xxh3Default::new();
        hasher.update(b"changes");
        hasher.update(&RENDERER.to_le_bytes());
        // An absent text has a length of its own.
        for text in [Some(self.since), Some(self.snapshot), self.license, self.attribution] {
            hasher.update(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
            hasher.update(text.unwrap_or_default().as_bytes());
        }
        for (_, ids) in self.lists() {
            hasher.update(&(ids.len() as u64).to_le_bytes());
            for id in ids {
                hasher.update(&id.0.to_le_bytes());
            }
        }
        Tag(hasher.digest128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::taxonomy::VolatileKeys;
    use bytes::Bytes;
    fn summary(raw: &'static str) -> Summary {
        Summary { id: ListingId(1), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from_static(raw.as_bytes()) }
    }

    fn envelope() -> Envelope {
        let text = r#"{"@context":"x\/y","generated_at":"","page":1,"per_page":50,"total":0,"total_pages":0,"filters":[],"note":4.50,"items":[]}"#;
        Envelope::of(&json::fields(text).unwrap(), &VolatileKeys::default()).unwrap()
    }

    #[test]
    fn a_page_is_the_origins_envelope_around_the_origins_bytes() {
        let (envelope, one) = (envelope(), summary(r#"{"id":1,"lat":-97.1230}"#));
        let query = ListQuery { page: 2, per_page: 1, ..ListQuery::default() };
        let frame = Frame::new(&envelope, "\"now\"", &VolatileValues::new(), ListForm::default());
        let envelope_hash = ContentHash::default();
        let page = ListPage { frame: &frame, envelope_hash, query: &query, total: 3, items: vec![&one] };
        let body = page.body();
        assert_eq!(body.len(), body.capacity(), "nothing is moved later");
        let body = String::from_utf8(body).unwrap();
        assert_eq!(
            body,
            r#"{"@context":"x\/y","generated_at":"now","page":2,"per_page":1,"total":3,"total_pages":3,"filters":[],"note":4.50,"items":[{"id":1,"lat":-97.1230}]}"#
        );
    }

    #[test]
    fn an_empty_list_has_the_origins_numbers_and_they_show_in_its_tag_alone() {
        let one = summary(r#"{"id":1}"#);
        let empty_numbers = EmptyNumbers { page: "0".to_owned(), total_pages: "1".to_owned() };
        let [usual, other] = [envelope(), Envelope { empty_numbers, ..envelope() }]
            .map(|envelope| Frame::new(&envelope, "\"now\"", &VolatileValues::new(), ListForm::default()));
        let page = |frame, page, items: &[&'static str]| {
            let query = ListQuery { page, ..ListQuery::default() };
            let (envelope_hash, total) = (ContentHash::default(), items.len() as u64);
            let items = items.iter().map(|_| &one).collect();
            let page = ListPage { frame, envelope_hash, query: &query, total, items };
            (String::from_utf8(page.body()).unwrap(), page.tag())
        };
        for (number, numbers) in [(1, r#""page":0,"per_page":50,"total":0,"total_pages":1,"#), (2, r#""page":2,"#)] {
            let ((_, before), (body, tag)) = (page(&usual, number, &[]), page(&other, number, &[]));
            assert!(body.contains(numbers) && body.contains(r#""total_pages":1,"#), "{body}");
            assert_ne!(tag, before);
        }
        assert_eq!(page(&usual, 1, &["x"]), page(&other, 1, &["x"]));
    }

    #[test]
    fn the_tag_changes_with_whatever_shows_and_with_nothing_else() {
        let frame = Frame::new(&envelope(), "\"now\"", &VolatileValues::new(), ListForm::default());
        let (one, two) = (summary(r#"{"id":1}"#), summary(r#"{"id":1,"x":2}"#));
        let tag = |query: &ListQuery, total, item| {
            ListPage { frame: &frame, envelope_hash: ContentHash::default(), query, total, items: vec![item] }.tag()
        };
        let plain = ListQuery::default();
        let mut golf = plain.clone();
        golf.slugs[0] = Some("golf".into());
        let base = tag(&plain, 1, &one);
        assert_eq!(base, tag(&plain, 1, &one));
        for other in
            [tag(&plain, 2, &one), tag(&plain, 1, &two), tag(&plain.with_page(2), 1, &one), tag(&golf, 1, &one)]
        {
            assert_ne!(base, other);
        }
        assert_eq!(base.to_header(), format!("W/\"{:032x}\"", base.0));
    }

    #[test]
    fn the_tag_is_the_hash_that_it_always_was() {
        let frame = Frame::new(&envelope(), "\"now\"", &VolatileValues::new(), ListForm::default());
        let one = summary(r#"{"id":1}"#);
        let mut query = ListQuery { page: 3, per_page: 7, ..ListQuery::default() };
        query.slugs = [Some("golf".into()), None, Some("a \"b\"".into())];
        let items = vec![&one; 40];
        let tag = ListPage { frame: &frame, envelope_hash: one.hash, query: &query, total: 99, items }.tag();
        let mut hasher = Xxh3Default::new();
        hasher.update(b"list\x01\0\0\0");
        hasher.update(&one.hash.to_bytes());
        hasher.update(b"\x03\0\0\0\0\0\0\0\x07\x63\0\0\0\0\0\0\0");
        hasher.update(b"\x04\0\0\0\0\0\0\0sportgolf\x05\0\0\0\0\0\0\0citya \"b\"");
        (0..40).for_each(|_| hasher.update(&one.hash.to_bytes()));
        assert_eq!(tag, Tag(hasher.digest128()));
    }

    const NONE: &[ListingId] = &[];

    fn document() -> ChangesDocument<'static> {
        ChangesDocument {
            since: "a",
            snapshot: "b",
            generated_at: r#""now""#,
            license: Some(r#""CC\/BY""#),
            attribution: None,
            added: &[ListingId(3), ListingId(u64::MAX)],
            changed: NONE,
            removed: &[ListingId(0)],
        }
    }

    #[test]
    fn the_document_has_what_the_origin_says_of_its_lists_as_it_says_it() {
        assert_eq!(
            String::from_utf8(document().body()).unwrap(),
            r#"{"since":"a","snapshot":"b","generated_at":"now","license":"CC\/BY","added":[3,18446744073709551615],"changed":[],"removed":[0]}"#
        );
        let credited = ChangesDocument { license: None, attribution: Some(r#"{"by":1}"#), ..document() };
        let parsed: serde_json::Value = serde_json::from_slice(&credited.body()).unwrap();
        assert_eq!((parsed.get("license"), &parsed["attribution"]["by"]), (None, &1.into()));
    }

    #[test]
    fn the_tag_changes_with_whatever_shows_but_the_instant() {
        let base = document().tag();
        assert_eq!(base, ChangesDocument { generated_at: r#""later""#, ..document() }.tag());
        let license = document().license;
        for other in [
            ChangesDocument { since: "c", ..document() },
            ChangesDocument { snapshot: "c", ..document() },
            ChangesDocument { license: None, ..document() },
            ChangesDocument { license: None, attribution: license, ..document() },
            ChangesDocument { added: &[ListingId(3)], ..document() },
            ChangesDocument { changed: &[ListingId(7)], ..document() },
            ChangesDocument { added: NONE, changed: document().added, ..document() },
            ChangesDocument { removed: NONE, ..document() },
        ] {
            assert_ne!(base, other.tag());
        }
    }
}
