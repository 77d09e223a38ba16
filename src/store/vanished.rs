//! Removes details of listings that are in no kept snapshot.
//!
//! Callers: [`crate::mirror`], once another snapshot is served.

use std::collections::HashSet;

use redb::ReadableTable;

use super::error::StoreError;
use super::load::BlockReader;
use super::{Store, block, record, tables};
use crate::api::listing::ListingId;

/// Details per transaction.
const BATCH: usize = 500;

impl Store {
    /// Removes the details of listings that are in no kept snapshot, and returns their ids. Only the order blocks of
    /// the snapshots are read; nothing is published meanwhile.
    ///
    /// # Errors
    /// When the file is damaged or a write fails. Details removed until then stay removed.
    pub fn forget_vanished(&self) -> Result<Vec<ListingId>, StoreError> {
        let _publishing = self.publishing.lock();
        let vanished = self.handle.read(|transaction| {
            let records = record::records(&transaction.open_table(tables::SNAPSHOTS)?)?;
            if records.is_empty() {
                // Without snapshots no listing is known, and the details are all data.
                return Ok(Vec::new());
            }
            let reader = BlockReader::new(transaction)?;
            let blocks: HashSet<_> = records.iter().flat_map(|record| record.blocks.order.iter().copied()).collect();
            let mut listed = HashSet::new();
            for key in &blocks {
                listed.extend(block::read_order(&reader.read(key)?)?);
            }
            let mut vanished = Vec::new();
            for entry in transaction.open_table(tables::DETAIL_PLACES)?.iter()? {
                let id = ListingId(entry?.0.value());
                if !listed.contains(&id) {
                    vanished.push(id);
                }
            }
            Ok(vanished)
        })?;
        for batch in vanished.chunks(BATCH) {
            self.remove_details(batch)?;
        }
        Ok(vanished)
    }
}
