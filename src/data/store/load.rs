//! Loading of snapshots, on all cores; and verification of kept ones and their details by their hashes.
//!
//! Every block is verified, and the result by its id. A verification loads one snapshot after the other, and reads each
//! detail once, however many snapshots list it. Callers: [`crate::data::snapshots`], through [`Store`].

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::Bytes;
use parking_lot::Mutex;
use redb::{ReadOnlyTable, ReadTransaction};

use super::block::BlockKey;
use super::coding::damaged;
use super::database::{self, Sealed};
use super::error::{Fault, StoreError, guarded};
use super::record::{Blocks, SnapshotRecord};
use super::{Store, block};
use crate::api::listing::{ListingId, Summary};
use crate::data::snapshot::content::Content;
use crate::tasks::threads::together;
use crate::words::counted;

impl Store {
    /// Reads a snapshot's content. Texts are slices of the blocks, about 80 kB each, that hold them.
    pub fn load(&self, record: &SnapshotRecord) -> Result<Content, StoreError> {
        self.load_and_read(record, |summaries| vec![(); summaries.len()]).map(|(content, _)| content)
    }

    /// The same, with the result of `read` for each summary, by position. `read` runs while the block is in the CPU's
    /// cache.
    pub fn load_and_read<T: Clone + Default + Send>(
        &self,
        record: &SnapshotRecord,
        read: impl Fn(&[Summary]) -> Vec<T> + Sync,
    ) -> Result<(Content, Vec<T>), StoreError> {
        self.handle.read(|transaction| {
            if transaction.open_table(database::SNAPSHOTS)?.get(record.seq)?.is_none() {
                return Err(StoreError::NoSuchSnapshot(record.seq).into());
            }
            let Blocks { envelope, taxonomies, summaries, order } = &record.blocks;
            let reader = BlockReader::new(transaction)?;
            let envelope = block::read_envelope(&reader.read(envelope)?)?;
            let taxonomy = |kind: usize| -> Result<Arc<str>, Fault> {
                Ok(block::read_taxonomy(&reader.read(&taxonomies[kind])?)?.into())
            };
            let taxonomies = [taxonomy(0)?, taxonomy(1)?, taxonomy(2)?];
            let worker = || BlockReader::new(transaction);
            let order =
                run_parallel(order.len(), worker, |reader, n| Ok(block::read_order(&reader.read(&order[n])?)?))?;
            let by_id = run_parallel(summaries.len(), worker, |reader, n| {
                let summaries = block::read_summaries(&reader.read(&summaries[n])?)?;
                let read = read(&summaries);
                Ok((summaries, read))
            })?;
            let (summaries, read) = arrange(by_id, &order.concat())?;
            let content = Content { envelope, taxonomies, summaries };
            if content.id() != record.id || content.summaries.len() as u64 != record.listings {
                return Err(damaged("snapshot", "id").into());
            }
            Ok((content, read))
        })
    }
}

pub(super) struct BlockReader {
    table: ReadOnlyTable<&'static [u8; 16], Sealed>,
}

impl BlockReader {
    pub(super) fn new(transaction: &ReadTransaction) -> Result<Self, Fault> {
        Ok(Self { table: transaction.open_table(database::BLOCKS)? })
    }

    pub(super) fn read(&self, key: &BlockKey) -> Result<Bytes, Fault> {
        let packed = self.table.get(key.as_bytes())?.ok_or_else(|| damaged("block", "key"))?;
        Ok(block::open(key, packed.value())?)
    }
}

/// Puts the summaries of blocks, which are sorted by id, into the origin's order. Each block is dropped as soon as its
/// summaries are placed.
fn arrange<T: Clone + Default>(
    by_id: Vec<(Vec<Summary>, Vec<T>)>,
    order: &[ListingId],
) -> Result<(Vec<Summary>, Vec<T>), StoreError> {
    let wrong = || damaged("snapshot", "order");
    if by_id.iter().map(|(summaries, _)| summaries.len()).sum::<usize>() != order.len() {
        return Err(wrong());
    }
    let mut places: Vec<(ListingId, u32)> = order.iter().zip(0..).map(|(id, place)| (*id, place)).collect();
    places.sort_unstable();
    let mut arranged: Vec<Option<Summary>> = vec![None; order.len()];
    let mut arranged_read = vec![T::default(); order.len()];
    let by_id = by_id.into_iter().flat_map(|(summaries, read)| summaries.into_iter().zip(read));
    for ((summary, read), (id, place)) in by_id.zip(places) {
        if summary.id != id {
            return Err(wrong());
        }
        arranged[place as usize] = Some(summary);
        arranged_read[place as usize] = read;
    }
    // In place: an `Option` is no larger than its value.
    let arranged = arranged.into_iter().collect::<Option<_>>().ok_or_else(wrong)?;
    Ok((arranged, arranged_read))
}

/// A check of one snapshot after the other.
pub(crate) struct Verification<'a> {
    store: &'a Store,
    /// Listings whose details were read, by id.
    read: Vec<ListingId>,
    /// The damaged ones of them, by id, and what is wrong.
    damaged: Vec<(ListingId, String)>,
}

impl<'a> Verification<'a> {
    pub(crate) fn of(store: &'a Store) -> Self {
        Self { store, read: Vec::new(), damaged: Vec::new() }
    }

    /// Compares every block of a kept snapshot and every detail with its hash, and the content with its id.
    pub(crate) fn check(&mut self, seq: u64) -> Result<(), StoreError> {
        let record = self.store.snapshot(seq)?.ok_or(StoreError::NoSuchSnapshot(seq))?;
        // Its texts are dropped before the details are read.
        let mut listed: Vec<ListingId> = self.store.load(&record)?.summaries.iter().map(|summary| summary.id).collect();
        listed.sort_unstable();
        self.read_details(&listed)?;
        let mut damaged = self.damaged.iter().filter(|(id, _)| listed.binary_search(id).is_ok());
        let Some((first, why)) = damaged.next() else { return Ok(()) };
        let all = counted(1 + damaged.count() as u64, "damaged detail");
        Err(StoreError::Damaged(format!("{all}, the first of listing {first}: {why}")))
    }

    /// Reads the details of those listings that were not read yet.
    fn read_details(&mut self, listed: &[ListingId]) -> Result<(), StoreError> {
        let new: Vec<ListingId> = listed.iter().filter(|id| self.read.binary_search(id).is_err()).copied().collect();
        for (id, read) in self.store.details_in_turn(&new) {
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

/// Runs `job` for `0..count` on several threads, each with a worker of its own, and returns the results in order.
/// An error of a job, or of making a worker, stops the other threads.
pub(super) fn run_parallel<W, T: Send>(
    count: usize,
    worker: impl Fn() -> Result<W, Fault> + Sync,
    job: impl Fn(&mut W, usize) -> Result<T, Fault> + Sync,
) -> Result<Vec<T>, Fault> {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, 8).min(count.max(1));
    let parts = Mutex::new(Vec::new());
    together(threads, &|| {
        let part = guarded(|| {
            let mut worker = worker()?;
            // Relaxed: it only hands out numbers; the results come through the lock of `parts`.
            let items = iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|item| *item < count));
            items.map(|item| Ok((item, job(&mut worker, item)?))).collect::<Result<Vec<_>, Fault>>()
        });
        if part.is_err() {
            next.store(count, Ordering::Relaxed);
        }
        parts.lock().push(part);
    });
    let parts = parts.into_inner().into_iter().collect::<Result<Vec<_>, Fault>>()?;
    let mut results: Vec<_> = parts.into_iter().flatten().collect();
    results.sort_unstable_by_key(|(item, _)| *item);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_and_an_error_stops() {
        let squares = run_parallel(1000, || Ok(()), |(), n| Ok(n * n)).unwrap();
        assert!(squares.iter().enumerate().all(|(n, square)| *square == n * n) && squares.len() == 1000);
        let fail = |(): &mut (), n| if n == 7 { Err(StoreError::NoSuchSnapshot(7).into()) } else { Ok(n) };
        assert!(matches!(run_parallel(1000, || Ok(()), fail), Err(Fault::Store(StoreError::NoSuchSnapshot(7)))));
        assert!(run_parallel(0, || Ok(()), |(), n| Ok(n)).unwrap().is_empty());
    }
}
