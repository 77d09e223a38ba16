//! Garbage collection: drops old snapshots and the details of vanished listings, and returns space to the file system.
//!
//! The caller decides which snapshots to keep. Callers: [`crate::data::snapshots`], and [`crate::mirror`] once another
//! snapshot is served, through [`Store`].

use std::collections::HashSet;
use std::path::Path;

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

/// The use of one table, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    entries: u64,
    /// Keys, values and tree overhead.
    live: u64,
    /// The allocated pages.
    allocated: u64,
}

/// The use of each table at the last walk.
#[derive(Debug)]
pub(super) struct Measured(Vec<Usage>);

impl Measured {
    /// The present size of the tables, if entries are as large as then.
    fn estimate(&self, lens: &[u64]) -> u64 {
        let now =
            |(then, now): (&Usage, &u64)| u128::from(then.live) * u128::from(*now) / u128::from(then.entries.max(1));
        self.0.iter().zip(lens).map(now).sum::<u128>().try_into().unwrap_or(u64::MAX)
    }

    /// The file is over 2.5 times the live data, and not because pages are half empty, which compaction does not change.
    fn is_worth_compacting(&self, file: u64) -> bool {
        let sum = |of: fn(&Usage) -> u64| self.0.iter().map(of).sum::<u64>();
        file / 5 > sum(|table| table.live) / 2 && file / 3 > sum(|table| table.allocated) / 2
    }
}

impl Store {
    /// Drops every snapshot that is neither in `keep_seqs` nor current, with the blocks that only they had, and returns their
    /// sequence numbers. Then compacts the file if it is more than 2.5 times the live data and compaction can help.
    ///
    /// Later writes reuse freed space, so compaction is rare. It needs room for another copy of the live data, and writers
    /// wait for it; readers do not. A crash during compaction loses nothing. If the collection fails, either everything was
    /// dropped or nothing.
    pub fn collect_garbage(&self, keep_seqs: &[u64]) -> Result<Vec<u64>, StoreError> {
        let mut measured = self.publishing.lock();
        let dropped = self.drop_snapshots(keep_seqs)?;
        let file = self.file_len()?;
        if file > SMALL
            && self.may_be_mostly_free(file, measured.as_ref())?
            && measured.insert(self.measure()?).is_worth_compacting(file)
            && let Err(error) = self.compact()
        {
            tracing::warn!(%error, "the data file was not made smaller; the next publication tries again");
        }
        Ok(dropped)
    }

    /// Whether to measure how much of the file is in use, which reads all of it.
    fn may_be_mostly_free(&self, file: u64, measured: Option<&Measured>) -> Result<bool, StoreError> {
        let Some(measured) = measured else { return Ok(true) };
        let lens = self.handle.read(|transaction| Ok(each_table!(transaction, len)))?;
        Ok(file / 2 > measured.estimate(&lens))
    }

    /// Walks the trees; writers go on meanwhile.
    fn measure(&self) -> Result<Measured, StoreError> {
        self.handle.read(|transaction| Ok(Measured(each_table!(transaction, usage).to_vec())))
    }

    fn drop_snapshots(&self, keep_seqs: &[u64]) -> Result<Vec<u64>, StoreError> {
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
            return Ok(Vec::new());
        }
        // In a second transaction: `publishing` is held, so no publication can refer to a dead block meanwhile.
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
            Ok(dropped.iter().map(|record| record.seq).collect())
        })
    }

    /// Copies the live data into a new file, which takes the place of the old one. redb's own compaction would hold up
    /// readers until the disk has done it.
    fn compact(&self) -> Result<(), StoreError> {
        let copied = |fresh: &Path| {
            database::create(fresh).map_err(|fault| fault.into_store_error(fresh, 1 << 20))?;
            // Closing a file cuts off its free end.
            let target = Handle::open(fresh.to_owned(), Box::new(database::open))?;
            self.handle.read(|from| {
                let copied = target.write(0, |to| {
                    each_table!(from, copy, to);
                    Ok(())
                });
                Ok(copied?)
            })
        };
        let place = |()| files::put_in_place(self.path()).map_err(|error| StoreError::of_io(&error, self.path(), 0));
        // A crash before the rename leaves the old file, and one behind it the new file: both have all data.
        self.handle.replace(false, copied, place)
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

fn len(table: &impl ReadableTableMetadata) -> Result<u64, Fault> {
    Ok(table.len()?)
}

fn usage(table: &impl ReadableTableMetadata) -> Result<Usage, Fault> {
    let stats = table.stats()?;
    let live = stats.stored_bytes() + stats.metadata_bytes();
    Ok(Usage { entries: table.len()?, live, allocated: live + stats.fragmented_bytes() })
}

/// Details per transaction: those that arrive meanwhile wait for one batch at most.
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
        let table = |(entries, live)| Usage { entries, live, ..Usage::default() };
        let measured = Measured([(10, 1000), (0, 0), (100, 5000)].map(table).to_vec());
        assert_eq!(measured.estimate(&[10, 0, 100]), 6000);
        assert_eq!(measured.estimate(&[20, 7, 50]), 4500);
    }

    #[test]
    fn compaction_waits_until_the_file_is_two_and_a_half_times_the_data() {
        for (file, live, allocated, worth) in
            [(250, 100, 110, false), (260, 100, 110, true), (260, 100, 200, false), (1000, 100, 200, true)]
        {
            let measured = Measured(vec![Usage { entries: 1, live, allocated }]);
            assert_eq!(measured.is_worth_compacting(file), worth, "{file} {live} {allocated}");
        }
    }
}
