//! Notes about snapshots: pins, the rollback, and exports.
//!
//! Small blobs of the store. Callers: [`super`].

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::store::{DetailMeta, DetailState, States, Store, StoreError};

/// How many exports can be the base of a delta.
pub(crate) const EXPORTS: usize = 3;

const PINS: &str = "versions/pins";
const ROLLBACK: &str = "versions/rollback";
const EXPORTED: &str = "versions/exports";
const EXPORT_DETAILS: &str = "versions/export/";

/// Pins, the rollback and the exports.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// Ids of pinned snapshots.
    pub pins: BTreeSet<String>,
    /// The sequence number of the snapshot that a rollback made current.
    pub rolled_back: Option<u64>,
    /// Ids of the last exports, the newest last; each once.
    pub exports: Vec<String>,
}

/// A record of a detail in an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportedDetail {
    pub id: ListingId,
    /// The hash of its detail, without volatile values; of an empty body if the origin has none.
    pub hash: ContentHash,
}

/// [`ExportedDetail::hash`] of a stored detail.
pub(super) fn exported(meta: &DetailMeta) -> ContentHash {
    match meta.state {
        DetailState::Present => meta.hash,
        DetailState::Gone => ContentHash::default(),
    }
}

impl ExportedDetail {
    /// Whether it is one of these, which are sorted by id.
    pub(super) fn is_in(&self, sorted: &[Self]) -> bool {
        sorted.binary_search_by_key(&self.id, |detail| detail.id).is_ok_and(|at| sorted[at] == *self)
    }

    /// Whether the origin has none.
    pub(super) fn is_gone(&self) -> bool {
        self.hash == ContentHash::default()
    }
}

/// Bytes of one [`ExportedDetail`].
const DETAIL_BYTES: usize = 24;

impl Notes {
    /// Reads the notes. Unreadable ones count as absent.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) fn read(store: &Store) -> Result<Self, StoreError> {
        Ok(Self { pins: list(store, PINS)?, rolled_back: list(store, ROLLBACK)?, exports: list(store, EXPORTED)? })
    }

    /// Adds the pins to a write.
    ///
    /// # Errors
    /// When they are too many.
    pub(super) fn write_pins(&self, states: &mut States) -> Result<(), StoreError> {
        states.put_json(PINS, &self.pins)
    }

    /// Adds the rollback to a write.
    ///
    /// # Errors
    /// Never in practice: it is a few bytes.
    pub(super) fn write_rollback(&self, states: &mut States) -> Result<(), StoreError> {
        if let Some(seq) = self.rolled_back {
            return states.put_json(ROLLBACK, &seq);
        }
        states.remove(ROLLBACK);
        Ok(())
    }

    /// Adds all notes to a write.
    ///
    /// # Errors
    /// When it is too large.
    pub(super) fn write_all(&self, states: &mut States) -> Result<(), StoreError> {
        self.write_pins(states)?;
        self.write_rollback(states)?;
        states.put_json(EXPORTED, &self.exports)
    }

    /// Records an export with the details that its receiver certainly has, and drops all but the last few. The base of
    /// a delta counts as exported again.
    ///
    /// # Errors
    /// When the details are too many.
    pub(super) fn exported(
        &mut self,
        id: &str,
        base: Option<&str>,
        details: &[ExportedDetail],
        states: &mut States,
    ) -> Result<(), StoreError> {
        let again = base.filter(|base| self.exports.iter().any(|own| own == base));
        for id in again.into_iter().chain([id]) {
            self.exports.retain(|other| other != id);
            self.exports.push(id.to_owned());
        }
        while self.exports.len() > EXPORTS {
            states.remove(&format!("{EXPORT_DETAILS}{}", self.exports.remove(0)));
        }
        states.put_json(EXPORTED, &self.exports)?;
        let mut bytes = Vec::with_capacity(details.len() * DETAIL_BYTES);
        for detail in details {
            bytes.extend_from_slice(&detail.id.0.to_le_bytes());
            bytes.extend_from_slice(&detail.hash.to_bytes());
        }
        states.put(&format!("{EXPORT_DETAILS}{id}"), bytes)
    }
}

/// The details of the last export of a snapshot; `None`: no record.
///
/// # Errors
/// When the store cannot be read.
pub(crate) fn exported_details(store: &Store, id: &str) -> Result<Option<Vec<ExportedDetail>>, StoreError> {
    let read = |entry: &[u8; DETAIL_BYTES]| {
        let (id, hash) = entry.split_at(8);
        let id = ListingId(u64::from_le_bytes(id.try_into().ok()?));
        Some(ExportedDetail { id, hash: ContentHash::from_bytes(hash.try_into().ok()?) })
    };
    let all = |bytes: &[u8]| {
        let (entries, rest) = bytes.as_chunks::<DETAIL_BYTES>();
        if rest.is_empty() { entries.iter().map(read).collect() } else { None }
    };
    Ok(store.state_as(&format!("{EXPORT_DETAILS}{id}"), all)?.flatten())
}

fn list<T: Default + for<'a> Deserialize<'a>>(store: &Store, key: &str) -> Result<T, StoreError> {
    let Some(bytes) = store.state(key)? else { return Ok(T::default()) };
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
        tracing::warn!(key, %error, "a record of pins or exports cannot be read; it counts as empty");
        T::default()
    }))
}
