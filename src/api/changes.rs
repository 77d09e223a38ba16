//! The document of `/changes.json`: which listings came, changed and went between two snapshots.
//!
//! [`crate::snapshot::journal`] finds the changes. Callers: `answer::render`.

use xxhash_rust::xxh3::Xxh3Default;

use super::json;
use super::listing::ListingId;
use super::render::{RENDERER, Tag};

/// The visible fields.
pub(crate) struct ChangesDocument<'a> {
    /// The id of the earlier snapshot, as the client named it.
    pub since: &'a str,
    /// The id of the current snapshot.
    pub snapshot: &'a str,
    /// The instant for which the current snapshot is confirmed: JSON text with quotes. Not part of the tag.
    pub generated_at: &'a str,
    /// JSON text; `None`: the origin's lists have none.
    pub license: Option<&'a str>,
    /// JSON text; `None`: the origin's lists have none.
    pub attribution: Option<&'a str>,
    /// Listings that only the current snapshot has.
    pub added: &'a [ListingId],
    /// Listings that differ.
    pub changed: &'a [ListingId],
    /// Listings that only the earlier snapshot has.
    pub removed: &'a [ListingId],
}

impl ChangesDocument<'_> {
    fn lists(&self) -> [(&'static str, &[ListingId]); 3] {
        [("added", self.added), ("changed", self.changed), ("removed", self.removed)]
    }

    /// The JSON text.
    pub(crate) fn body(&self) -> Vec<u8> {
        let ids = self.added.len() + self.changed.len() + self.removed.len();
        let carried = [self.license, self.attribution].into_iter().flatten().map(str::len).sum::<usize>();
        let mut out = Vec::with_capacity(256 + carried + 8 * ids);
        out.extend_from_slice(b"{\"since\":");
        json::quote_into(&mut out, self.since);
        out.extend_from_slice(b",\"snapshot\":");
        json::quote_into(&mut out, self.snapshot);
        out.extend_from_slice(b",\"generated_at\":");
        out.extend_from_slice(self.generated_at.as_bytes());
        for (key, value) in [("license", self.license), ("attribution", self.attribution)] {
            if let Some(value) = value {
                out.push(b',');
                json::quote_into(&mut out, key);
                out.push(b':');
                out.extend_from_slice(value.as_bytes());
            }
        }
        let mut number = itoa::Buffer::new();
        for (key, ids) in self.lists() {
            out.push(b',');
            json::quote_into(&mut out, key);
            out.extend_from_slice(b":[");
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
