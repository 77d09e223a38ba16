//! A list that may become the newest snapshot: consistent in itself, indexed, and waiting for its confirmation.
//!
//! Callers: [`super`] and its parts.

use crate::api::render::VolatileValues;

use super::term_evidence::Indexed;

/// An indexed list, and what else its pages hold.
#[derive(Clone)]
pub(super) struct IndexedList {
    pub(super) list: Indexed,
    /// Envelope fields that differ between the pages.
    pub(super) left_out: Vec<String>,
    /// The last values of volatile fields.
    pub(super) volatile_values: VolatileValues,
}

/// A list that is consistent in itself and awaits its confirmation.
pub(super) struct Candidate {
    pub(super) indexed: IndexedList,
    /// The orders by which changed listings were placed; empty: every page was read.
    pub(super) placed_by: Vec<String>,
    /// The latest instant for which all its parts are confirmed.
    pub(super) until_ms: i64,
    /// How often it could not be confirmed, because copies were of different instants.
    pub(super) tries: u32,
}

impl Candidate {
    /// From reading every page.
    pub(super) const fn read(indexed: IndexedList, until_ms: i64) -> Self {
        Self::amended(indexed, Vec::new(), until_ms)
    }

    pub(super) const fn amended(indexed: IndexedList, placed_by: Vec<String>, until_ms: i64) -> Self {
        Self { indexed, placed_by, until_ms, tries: 0 }
    }
}
