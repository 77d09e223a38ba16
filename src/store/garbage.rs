//! Dropping versions that nobody needs any more, and giving space back to the file system.
//!
//! Which versions to keep is the caller's decision. Callers: [`crate::origin`], after a publication.

use std::collections::HashSet;

use super::Store;
use super::error::StoreError;
use super::handle::{self, Usage};
use super::tables;
use super::version::{self, BlockKey, VersionRecord};

/// A file smaller than this is never compacted, in bytes.
const SMALL: u64 = 16 << 20;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many versions were dropped.
    pub versions: usize,
    /// How many blocks no kept version refers to were dropped with them.
    pub blocks: usize,
    /// Whether the file was compacted.
    pub compacted: bool,
}

impl Store {
    /// Drops every version that is neither in `keep_seqs` nor current, and the blocks that only those had; then
    /// compacts the file if it is more than 2.5 times the live data and compaction can help.
    ///
    /// Freed space is used again by later writes, so compaction is rare. It needs the database to itself: it waits for
    /// running reads, and keeps others waiting for as long as it takes to copy the live data. A crash during
    /// compaction loses nothing, but the next open walks the file.
    ///
    /// # Errors
    /// When the file is damaged or a write fails. Either all of it was dropped then, or nothing.
    pub fn collect_garbage(&self, keep_seqs: &[u64]) -> Result<Collected, StoreError> {
        let _versions = self.versions.lock();
        let mut collected = self.drop_versions(keep_seqs)?;
        let file = self.file_len()?;
        if file > SMALL && worth_compacting(file, self.handle.usage()?) {
            collected.compacted = self.compact()?;
        }
        Ok(collected)
    }

    fn drop_versions(&self, keep_seqs: &[u64]) -> Result<Collected, StoreError> {
        let (dropped, dead) = self.handle.read(|transaction| {
            let current = version::current_seq(&transaction.open_table(tables::META)?)?;
            let records = version::records(&transaction.open_table(tables::VERSIONS)?)?;
            let (kept, dropped): (Vec<_>, Vec<_>) =
                records.into_iter().partition(|record| record.seq == current || keep_seqs.contains(&record.seq));
            let live: HashSet<BlockKey> = kept.iter().flat_map(VersionRecord::block_keys).collect();
            let dead: HashSet<BlockKey> =
                dropped.iter().flat_map(VersionRecord::block_keys).filter(|key| !live.contains(key)).collect();
            Ok((dropped, dead))
        })?;
        if dropped.is_empty() {
            return Ok(Collected::default());
        }
        self.handle.write(1 << 20, |transaction| {
            let mut versions = transaction.open_table(tables::VERSIONS)?;
            let mut metas = transaction.open_table(tables::VERSION_META)?;
            for record in &dropped {
                versions.remove(record.seq)?;
                metas.remove(record.seq)?;
            }
            let mut blocks = transaction.open_table(tables::BLOCKS)?;
            for key in &dead {
                blocks.remove(key.as_bytes())?;
            }
            Ok(Collected { versions: dropped.len(), blocks: dead.len(), compacted: false })
        })
    }

    fn compact(&self) -> Result<bool, StoreError> {
        self.handle.exclusively(|database| {
            // Refused only while a transaction is open elsewhere, which cannot be while we have the database alone.
            let compacted = database.compact()?;
            // redb compacts without quick repair; a commit with it makes the next open quick again.
            handle::begin_write(database)?.commit()?;
            Ok(compacted)
        })
    }
}

/// The file is over 2.5 times the live data, and not because pages are half empty, which compaction does not change.
fn worth_compacting(file: u64, usage: Usage) -> bool {
    file / 5 > usage.live / 2 && file / 3 > usage.allocated / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_waits_until_the_file_is_two_and_a_half_times_the_data() {
        for (file, live, allocated, worth) in
            [(250, 100, 110, false), (260, 100, 110, true), (260, 100, 200, false), (1000, 100, 200, true)]
        {
            assert_eq!(worth_compacting(file, Usage { live, allocated }), worth, "{file} {live} {allocated}");
        }
    }
}
