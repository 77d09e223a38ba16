//! Bodies and entity tags of snapshot answers, by copying slices of stored text.
//!
//! Nothing is parsed and nothing re-serialised. Callers: [`crate::pipeline`].

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3Default;

use super::envelope::{Envelope, EnvelopeField};
use super::hash::ContentHash;
use super::json;
use super::listing::Summary;
use super::query::ListQuery;

/// Part of every entity tag: raise it when the same data is rendered differently.
pub const RENDERER: u32 = 1;

/// The last values of volatile fields, as JSON text by key.
pub type VolatileValues = BTreeMap<String, String>;

/// Everything that shows in a page of a list.
pub struct ListPage<'a> {
    /// The fields around the items.
    pub envelope: &'a Envelope,
    /// Hash of the envelope's carried fields.
    pub envelope_hash: ContentHash,
    /// The query that is answered.
    pub query: &'a ListQuery,
    /// How many listings match.
    pub total: u64,
    /// The page's listings in order.
    pub items: Vec<&'a Summary>,
}

impl ListPage<'_> {
    /// The page's JSON text. `generated_at` is JSON text too, quotes included.
    pub fn body(&self, generated_at: &str, volatile: &VolatileValues) -> Vec<u8> {
        let size = self.items.iter().map(|item| item.raw.len() + 1).sum::<usize>();
        let mut out = Vec::with_capacity(size + 2048);
        let mut number = itoa::Buffer::new();
        out.push(b'{');
        for (position, field) in self.envelope.fields.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            let mut put = |key: &str, value: &str| {
                if key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'@' | b'-'))
                {
                    out.push(b'"');
                    out.extend_from_slice(key.as_bytes());
                    out.push(b'"');
                } else {
                    out.extend_from_slice(json::quote(key).as_bytes());
                }
                out.push(b':');
                out.extend_from_slice(value.as_bytes());
            };
            match field {
                EnvelopeField::GeneratedAt => put("generated_at", generated_at),
                EnvelopeField::Page => put("page", number.format(self.query.page)),
                EnvelopeField::PerPage => put("per_page", number.format(self.query.per_page)),
                EnvelopeField::Total => put("total", number.format(self.total)),
                EnvelopeField::TotalPages => put("total_pages", number.format(self.query.total_pages(self.total))),
                EnvelopeField::Filters => put("filters", &self.filters()),
                EnvelopeField::Carried { key, value } => put(key, value),
                EnvelopeField::Volatile { key } => put(key, volatile.get(key).map_or("null", String::as_str)),
                EnvelopeField::Items => {
                    put("items", "[");
                    for (index, item) in self.items.iter().enumerate() {
                        if index > 0 {
                            out.push(b',');
                        }
                        out.extend_from_slice(&item.raw);
                    }
                    out.push(b']');
                }
            }
        }
        out.push(b'}');
        out
    }

    fn filters(&self) -> String {
        if !self.query.is_filtered() {
            return self.envelope.empty_filters.clone();
        }
        let fields: Vec<String> =
            self.query.filters().map(|(name, value)| format!("{}:{}", json::quote(name), json::quote(value))).collect();
        format!("{{{}}}", fields.join(","))
    }

    /// The page's entity tag: a hash of everything that shows, and of nothing volatile.
    pub fn tag(&self) -> Tag {
        let mut hasher = Xxh3Default::new();
        hasher.update(b"list");
        hasher.update(&RENDERER.to_le_bytes());
        hasher.update(&self.envelope_hash.to_bytes());
        hasher.update(&self.query.page.to_le_bytes());
        hasher.update(&[self.query.per_page]);
        hasher.update(&self.total.to_le_bytes());
        for (name, value) in self.query.filters() {
            hasher.update(&(value.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
            hasher.update(value.as_bytes());
        }
        for item in &self.items {
            hasher.update(&item.hash.to_bytes());
        }
        Tag(hasher.digest128())
    }
}

/// The opaque part of an entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub u128);

impl Tag {
    /// The tag of a body that is served as it is: a taxonomy or a detail.
    pub fn of(kind: &str, content: ContentHash, public_url: &str) -> Self {
        let mut hasher = Xxh3Default::new();
        hasher.update(kind.as_bytes());
        hasher.update(&RENDERER.to_le_bytes());
        hasher.update(&content.to_bytes());
        hasher.update(public_url.as_bytes());
        Self(hasher.digest128())
    }

    /// The entity tag as it stands in a header: weak, because all content codings share it.
    pub fn to_header(self) -> String {
        format!("W/\"{:032x}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::listing::ListingId;
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
        let page = ListPage {
            envelope: &envelope,
            envelope_hash: ContentHash::default(),
            query: &query,
            total: 3,
            items: vec![&one],
        };
        let body = String::from_utf8(page.body("\"now\"", &VolatileValues::new())).unwrap();
        assert_eq!(
            body,
            r#"{"@context":"x\/y","generated_at":"now","page":2,"per_page":1,"total":3,"total_pages":3,"filters":[],"note":4.50,"items":[{"id":1,"lat":-97.1230}]}"#
        );
    }

    #[test]
    fn the_tag_changes_with_whatever_shows_and_with_nothing_else() {
        let (envelope, one, two) = (envelope(), summary(r#"{"id":1}"#), summary(r#"{"id":1,"x":2}"#));
        let tag = |query: &ListQuery, total, item| {
            ListPage { envelope: &envelope, envelope_hash: ContentHash::default(), query, total, items: vec![item] }
                .tag()
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
        assert_eq!(base.to_header().len(), 36);
    }
}
