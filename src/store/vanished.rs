//! Details of listings that no kept version has any more.
//!
//! Callers: [`crate::mirror`], once another snapshot is served.

use std::collections::HashSet;

use redb::ReadableTable;

use super::error::StoreError;
use super::load::BlockReader;
use super::{Store, block, tables, version};
use crate::api::listing::ListingId;

/// How many are forgotten in one transaction.
const BATCH: usize = 500;

impl Store {
    /// Forgets the details of listings that no kept version has, and says whose they were. Only the order blocks of the
    /// versions are read, not the summaries; nothing is published meanwhile.
    ///
    /// # Errors
    /// When the file is damaged or a write fails. What was forgotten until then stays forgotten.
    pub fn forget_vanished(&self) -> Result<Vec<ListingId>, StoreError> {
        let _versions = self.versions.lock();
        let vanished = self.handle.read(|transaction| {
            let records = version::records(&transaction.open_table(tables::VERSIONS)?)?;
            if records.is_empty() {
                // Then nothing is known of any listing, and the details are all there is.
                return Ok(Vec::new());
            }
            let mut reader = BlockReader::new(transaction)?;
            let blocks: HashSet<_> = records.iter().flat_map(|record| record.blocks.order.iter().copied()).collect();
            let mut listed = HashSet::new();
            for key in &blocks {
                listed.extend(block::read_order(&reader.read(key)?)?);
            }
            let mut vanished = Vec::new();
            for entry in transaction.open_table(tables::DETAIL_META)?.iter()? {
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
