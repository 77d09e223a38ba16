//! Compares kept snapshots and their details with their hashes, without holding their texts: each block and each detail
//! once, however many snapshots have it.
//!
//! Callers: [`crate::snapshots`].

use std::collections::HashMap;
use std::sync::Arc;

use super::coding::damaged;
use super::error::StoreError;
use super::fault::Fault;
use super::load::BlockReader;
use super::record::{BlockKey, SnapshotRecord};
use super::{Store, block, parallel};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::snapshot::content::SnapshotId;
use crate::words::counted;

/// The listings of a block, by id.
type Listed = Arc<[(ListingId, ContentHash)]>;

/// A check of one snapshot after the other.
pub(crate) struct Verification<'a> {
    store: &'a Store,
    /// The blocks of the snapshot before.
    blocks: HashMap<BlockKey, Listed>,
    /// Listings whose details were read, by id.
    read: Vec<ListingId>,
    /// The damaged ones of them, by id, and what is wrong.
    damaged: Vec<(ListingId, String)>,
}

/// What was read of one block.
enum Part {
    Summaries(BlockKey, Listed),
    Order(Vec<ListingId>),
}

impl<'a> Verification<'a> {
    pub(crate) fn of(store: &'a Store) -> Self {
        Self { store, blocks: HashMap::new(), read: Vec::new(), damaged: Vec::new() }
    }

    /// Compares every block of a kept snapshot and every detail with its hash, and the content with its id.
    ///
    /// # Errors
    /// When it is not kept, damaged or unreadable.
    pub(crate) fn check(&mut self, seq: u64) -> Result<(), StoreError> {
        let record = self.store.snapshot(seq)?.ok_or(StoreError::NoSuchSnapshot(seq))?;
        let listed = self.listed(&record)?;
        self.read_details(&listed)?;
        let mut damaged = self.damaged.iter().filter(|(id, _)| listed.binary_search(id).is_ok());
        let Some((first, why)) = damaged.next() else { return Ok(()) };
        let all = counted(1 + damaged.count() as u64, "damaged detail");
        Err(StoreError::Damaged(format!("{all}, the first of listing {first}: {why}")))
    }

    /// Reads the blocks of a snapshot that the one before does not have, and compares the content with its id. Returns
    /// the ids of its listings, ascending.
    fn listed(&mut self, record: &SnapshotRecord) -> Result<Vec<ListingId>, StoreError> {
        let blocks = &record.blocks;
        let (ids, read) = self.store.handle.read(|transaction| {
            let (envelope, taxonomies) = BlockReader::new(transaction)?.frame(blocks)?;
            let read = |reader: &mut BlockReader, n: usize| -> Result<Part, Fault> {
                let Some(key) = blocks.summaries.get(n) else {
                    let key = &blocks.order[n - blocks.summaries.len()];
                    return Ok(Part::Order(block::read_order(&reader.read(key)?)?));
                };
                if let Some(listed) = self.blocks.get(key) {
                    return Ok(Part::Summaries(*key, listed.clone()));
                }
                let summaries = block::read_summaries(&reader.read(key)?)?;
                Ok(Part::Summaries(*key, summaries.iter().map(|summary| (summary.id, summary.hash)).collect()))
            };
            let count = blocks.summaries.len() + blocks.order.len();
            let parts = parallel::run(count, || BlockReader::new(transaction), read)?;
            let (mut read, mut order) = (Vec::new(), Vec::new());
            for part in parts {
                match part {
                    Part::Order(some) => order.extend(some),
                    Part::Summaries(key, some) => read.push((key, some)),
                }
            }
            // The blocks are in the order of their ids, and so are the listings of each.
            let found = |id: &ListingId| {
                let block = read.partition_point(|(_, listed)| listed.last().is_some_and(|(last, _)| last < id));
                let listed = &read.get(block)?.1;
                listed.binary_search_by_key(id, |(id, _)| *id).ok().map(|found| listed[found])
            };
            if !order.iter().all(|id| found(id).is_some()) {
                return Err(damaged("snapshot", "order").into());
            }
            let id = SnapshotId::of(&envelope, &taxonomies, order.iter().filter_map(found));
            let count = read.iter().map(|(_, listed)| listed.len()).sum::<usize>();
            if id != record.id || count != order.len() || count as u64 != record.listings {
                return Err(damaged("snapshot", "id").into());
            }
            order.sort_unstable();
            Ok((order, read))
        })?;
        self.blocks = read.into_iter().collect();
        Ok(ids)
    }

    /// Reads the details of those listings that were not read yet.
    fn read_details(&mut self, listed: &[ListingId]) -> Result<(), StoreError> {
        let new: Vec<ListingId> = listed.iter().filter(|id| self.read.binary_search(id).is_err()).copied().collect();
        // If the places cannot be read, each detail gives the error.
        let stored = self.store.in_file_order(&new).unwrap_or_else(|_| new.clone());
        for (id, read) in self.store.details_in_turn(&stored) {
            match read {
                Err(StoreError::Damaged(why)) => self.damaged.push((id, why)),
                read => drop(read?),
            }
        }
        self.damaged.sort_unstable_by_key(|(id, _)| *id);
        self.read.extend(new);
        self.read.sort_unstable();
        Ok(())
    }
}
