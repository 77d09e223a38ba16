//! Drops old snapshots and the details of vanished listings, and returns space to the file system.
//!
//! The caller decides which snapshots to keep. Callers: [`crate::snapshots`], and [`crate::mirror`] once another snapshot
//! is served, through [`Store`].

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::Ordering;

use redb::{
    Key, ReadOnlyTable, ReadableTable, ReadableTableMetadata, TableDefinition, TableHandle as _, Value,
    WriteTransaction,
};

use super::block::BlockKey;
use super::database::{self, each_table};
use super::error::{Fault, StoreError};
use super::handle::Handle;
use super::load::BlockReader;
use super::record::{self, SnapshotRecord};
use super::{Store, block, files, state};
use crate::api::listing::ListingId;

/// A file smaller than this is never compacted, in bytes.
const SMALL: u64 = 16 << 20;

/// How much of the file is in use, in bytes.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// Keys, values and tree overhead.
    live: u64,
    /// The allocated pages.
    allocated: u64,
}

/// The entries of each table and their size, at the last walk.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured(Vec<(u64, u64)>);

impl Measured {
    /// The present size of the tables, if entries are as large as then.
    fn estimate(&self, lens: &[u64]) -> u64 {
        let tables = self.0.iter().zip(lens);
        tables
            .map(|((then, bytes), now)| u128::from(*bytes) * u128::from(*now) / u128::from((*then).max(1)))
            .sum::<u128>()
            .try_into()
            .unwrap_or(u64::MAX)
    }
}

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many snapshots were dropped.
    pub snapshots: usize,
    /// How many blocks no kept snapshot refers to were dropped with them.
    pub blocks: usize,
    /// Whether the file was compacted.
    pub compacted: bool,
}

impl Store {
    /// Drops every snapshot that is neither in `keep_seqs` nor current, with the blocks that only they had. Then
    /// compacts the file if it is more than 2.5 times the live data and compaction can help.
    ///
    /// Later writes reuse freed space, so compaction is rare. It needs room for another copy of the live data, and writers
    /// wait for it; readers do not. A crash during compaction loses nothing. If the collection fails, either everything was
    /// dropped or nothing.
    pub fn collect_garbage(&self, keep_seqs: &[u64]) -> Result<Collected, StoreError> {
        let _publishing = self.publishing.lock();
        let mut collected = self.drop_snapshots(keep_seqs)?;
        if collected.snapshots > 0 {
            self.collections.fetch_add(1, Ordering::AcqRel);
        }
        let file = self.file_len()?;
        if file > SMALL && self.may_be_mostly_free(file)? && worth_compacting(file, self.usage()?) {
            match self.compact() {
                Ok(()) => collected.compacted = true,
                Err(error) => {
                    tracing::warn!(%error, "the data file was not made smaller; the next publication tries again");
                }
            }
        }
        Ok(collected)
    }

    /// How often snapshots were dropped since the start.
    pub fn collections(&self) -> u64 {
        self.collections.load(Ordering::Acquire)
    }

    /// Whether to measure how much of the file is in use, which reads all of it.
    fn may_be_mostly_free(&self, file: u64) -> Result<bool, StoreError> {
        let Some(measured) = self.measured.lock().clone() else { return Ok(true) };
        let lens = self.handle.read(|transaction| Ok(each_table!(transaction, len)))?;
        Ok(file / 2 > measured.estimate(&lens))
    }

    /// How much of the file is in use. Walks the trees; writers go on meanwhile.
    fn usage(&self) -> Result<Usage, StoreError> {
        let tables = self.handle.read(|transaction| Ok(each_table!(transaction, usage)))?;
        *self.measured.lock() = Some(Measured(tables.iter().map(|table| (table.entries, table.live)).collect()));
        let sum = |of: fn(&TableUsage) -> u64| tables.iter().map(of).sum();
        Ok(Usage { live: sum(|table| table.live), allocated: sum(|table| table.allocated) })
    }

    fn drop_snapshots(&self, keep_seqs: &[u64]) -> Result<Collected, StoreError> {
        let (dropped, dead) = self.handle.read(|transaction| {
            let current = record::number(&transaction.open_table(database::META)?, database::META_CURRENT)?;
            let records = record::records(&transaction.open_table(database::SNAPSHOTS)?)?;
            let (kept, dropped): (Vec<_>, Vec<_>) =
                records.into_iter().partition(|record| record.seq == current || keep_seqs.contains(&record.seq));
            let live: HashSet<BlockKey> = kept.iter().flat_map(SnapshotRecord::block_keys).collect();
            let dead: HashSet<BlockKey> =
                dropped.iter().flat_map(SnapshotRecord::block_keys).filter(|key| !live.contains(key)).collect();
            Ok((dropped, dead))
        })?;
        if dropped.is_empty() {
            return Ok(Collected::default());
        }
        self.handle.write(1 << 20, |transaction| {
            let mut snapshots = transaction.open_table(database::SNAPSHOTS)?;
            let mut metas = transaction.open_table(database::VERSION_META)?;
            let mut states = transaction.open_table(database::STATE)?;
            for record in &dropped {
                snapshots.remove(record.seq)?;
                metas.remove(record.seq)?;
                states.remove(state::own_evidence(record.seq).as_str())?;
            }
            let mut blocks = transaction.open_table(database::BLOCKS)?;
            for key in &dead {
                blocks.remove(key.as_bytes())?;
            }
            Ok(Collected { snapshots: dropped.len(), blocks: dead.len(), compacted: false })
        })
    }

    /// Copies the live data into a new file, which takes the place of the old one. redb's own compaction would hold up
    /// readers until the disk has done it.
    fn compact(&self) -> Result<(), StoreError> {
        let fresh = files::unfinished(self.path());
        let open = || Handle::open(fresh.clone(), Box::new(database::open)).map_err(StoreError::from);
        let compacted = self.handle.renew(|| {
            database::create(&fresh).map_err(|fault| fault.into_store_error(&fresh, 1 << 20))?;
            let target = open()?;
            self.handle.read(|from| {
                let copied = target.write(0, |to| {
                    each_table!(from, copy, to);
                    Ok(())
                });
                Ok(copied?)
            })?;
            // Closing a file cuts off its free end.
            drop(target);
            open()
        });
        compacted.inspect_err(|_| drop(fs::remove_file(&fresh)))
    }
}

fn copy<K: Key, V: Value>(from: &ReadOnlyTable<K, V>, to: &WriteTransaction) -> Result<(), Fault> {
    let mut copied = to.open_table(TableDefinition::<K, V>::new(from.name()))?;
    for entry in from.iter()? {
        let (key, value) = entry?;
        copied.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// One table's.
struct TableUsage {
    entries: u64,
    live: u64,
    allocated: u64,
}

fn len(table: &impl ReadableTableMetadata) -> Result<u64, Fault> {
    Ok(table.len()?)
}

fn usage(table: &impl ReadableTableMetadata) -> Result<TableUsage, Fault> {
    let stats = table.stats()?;
    let live = stats.stored_bytes() + stats.metadata_bytes();
    Ok(TableUsage { entries: table.len()?, live, allocated: live + stats.fragmented_bytes() })
}

/// The file is over 2.5 times the live data, and not because pages are half empty, which compaction does not change.
fn worth_compacting(file: u64, usage: Usage) -> bool {
    file / 5 > usage.live / 2 && file / 3 > usage.allocated / 2
}

/// Details per transaction.
const BATCH: usize = 500;

impl Store {
    /// Removes the details of listings that are in no kept snapshot, and returns their ids. Only the order blocks of
    /// the snapshots are read; nothing is published meanwhile. After an error, details removed until then
    /// stay removed.
    pub fn forget_vanished(&self) -> Result<Vec<ListingId>, StoreError> {
        let _publishing = self.publishing.lock();
        let vanished = self.handle.read(|transaction| {
            let records = record::records(&transaction.open_table(database::SNAPSHOTS)?)?;
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
            for entry in transaction.open_table(database::DETAIL_PLACES)?.iter()? {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_is_in_use_is_guessed_from_the_number_of_entries() {
        let measured = Measured(vec![(10, 1000), (0, 0), (100, 5000)]);
        assert_eq!(measured.estimate(&[10, 0, 100]), 6000);
        assert_eq!(measured.estimate(&[20, 7, 50]), 4500);
    }

    #[test]
    fn compaction_waits_until_the_file_is_two_and_a_half_times_the_data() {
        for (file, live, allocated, worth) in
            [(250, 100, 110, false), (260, 100, 110, true), (260, 100, 200, false), (1000, 100, 200, true)]
        {
            assert_eq!(worth_compacting(file, Usage { live, allocated }), worth, "{file} {live} {allocated}");
        }
    }
}
