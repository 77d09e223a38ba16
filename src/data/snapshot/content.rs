//! The logical content of a snapshot, and the id that names it.
//!
//! No index, no fetch times, no certificate, no volatile value, no details. Callers: [`crate::mirror`] builds it,
//! [`crate::data::store`] keeps it, [`crate::data::snapshot::dataset`] indexes it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;
use crate::api::taxonomy::TaxonomyKind;

/// Id and hash of a summary.
const ENTRY: usize = 8 + 16;
/// So many of them are hashed at once: the hash likes long pieces.
const ENTRIES: usize = 1024;

/// The content, equal in two mirrors of equal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub envelope: Envelope,
    /// The taxonomies' texts by [`TaxonomyKind::index`], volatile values blanked.
    pub taxonomies: [Arc<str>; 3],
    /// The summaries in the origin's order.
    pub summaries: Vec<Summary>,
}

/// Names a snapshot's logical content: equal data has equal ids on every node, in every version of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(Box<str>);

impl SnapshotId {
    /// Reads an id: 32 hexadecimal digits in lower case; `None` otherwise.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == 32 && is_hex).then(|| Self(text.into()))
    }

    /// The id as hexadecimal text, 32 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Content {
    pub fn taxonomy(&self, kind: TaxonomyKind) -> &str {
        &self.taxonomies[kind.index()]
    }

    pub fn id(&self) -> SnapshotId {
        let listed = self.summaries.iter().map(|summary| (summary.id, summary.hash));
        SnapshotId::of(&self.envelope, &self.taxonomies, listed)
    }
}

impl SnapshotId {
    /// The id of a content: BLAKE3 over a version word, the envelope, the taxonomies, and id and hash of every summary
    /// in order.
    pub fn of(
        envelope: &Envelope,
        taxonomies: &[Arc<str>; 3],
        listed: impl Iterator<Item = (ListingId, ContentHash)>,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut part = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        part(b"grandstand snapshot 1");
        let mut text = envelope_text(envelope);
        let empty = &envelope.empty_numbers;
        if !empty.are_usual() {
            put(&mut text, ["e", &empty.page, &empty.total_pages]);
        }
        if let Some(size) = envelope.largest_page {
            put(&mut text, ["m", &size.to_string(), ""]);
        }
        part(&text);
        for taxonomy in taxonomies {
            part(taxonomy.as_bytes());
        }
        // They are the last part, and each is as long as the others: no length stands before them.
        let mut piece = Vec::with_capacity(ENTRIES * ENTRY);
        for (id, hash) in listed {
            piece.extend_from_slice(&id.0.to_le_bytes());
            piece.extend_from_slice(&hash.to_bytes());
            if piece.len() == ENTRIES * ENTRY {
                hasher.update(&piece);
                piece.clear();
            }
        }
        hasher.update(&piece);
        let hex = hasher.finalize().to_hex();
        Self(hex[..32].into())
    }
}

/// An envelope as bytes to hash, without the numbers of an empty list: they show in such lists alone.
pub(super) fn envelope_text(envelope: &Envelope) -> Vec<u8> {
    // Written field by field, because debug output is not a stable format.
    let mut text = envelope.empty_filters.clone().into_bytes();
    for field in &envelope.fields {
        use crate::api::page::EnvelopeField as F;
        let stated;
        let (tag, key, value) = match field {
            F::StatedTotal { total, unknown } => {
                stated = format!("{total} {unknown}");
                ("s", "", stated.as_str())
            }
            F::GeneratedAt => ("g", "", ""),
            F::Page => ("p", "", ""),
            F::PerPage => ("q", "", ""),
            F::Total => ("t", "", ""),
            F::TotalPages => ("u", "", ""),
            F::Filters => ("f", "", ""),
            F::Items => ("i", "", ""),
            F::Carried { key, value } => ("c", key.as_str(), value.as_str()),
            // A volatile field takes no part in the id, not even by its presence.
            F::Volatile { .. } => continue,
        };
        put(&mut text, [tag, key, value]);
    }
    text
}

fn put(text: &mut Vec<u8>, pieces: [&str; 3]) {
    for piece in pieces {
        text.extend_from_slice(&(piece.len() as u64).to_le_bytes());
        text.extend_from_slice(piece.as_bytes());
    }
}
