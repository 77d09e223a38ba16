//! Loads a snapshot on all cores: verifies every block, and the result by its id.
//!
//! Callers: [`crate::snapshots`], through [`Store`].

use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction};

use super::coding::damaged;
use super::error::StoreError;
use super::fault::Fault;
use super::record::{BlockKey, Blocks, SnapshotRecord};
use super::tables::{self, Sealed};
use super::{Store, block, parallel};
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;
use crate::snapshot::content::Content;

impl Store {
    /// Reads a snapshot's content. Texts are slices of the blocks, about 80 kB each, that hold them.
    ///
    /// # Errors
    /// When the snapshot is no longer kept, cannot be read, or is damaged.
    pub fn load(&self, record: &SnapshotRecord) -> Result<Content, StoreError> {
        self.load_and_read(record, |summaries| vec![(); summaries.len()]).map(|(content, _)| content)
    }

    /// The same, with the result of `read` for each summary, by position. `read` runs while the block is in the CPU's
    /// cache.
    ///
    /// # Errors
    /// As for [`Store::load`].
    pub fn load_and_read<T: Clone + Default + Send>(
        &self,
        record: &SnapshotRecord,
        read: impl Fn(&[Summary]) -> Vec<T> + Sync,
    ) -> Result<(Content, Vec<T>), StoreError> {
        self.handle.read(|transaction| {
            if transaction.open_table(tables::SNAPSHOTS)?.get(record.seq)?.is_none() {
                return Err(StoreError::NoSuchSnapshot(record.seq).into());
            }
            let (content, read) = content(transaction, record, &read)?;
            if content.id() != record.id || content.summaries.len() as u64 != record.listings {
                return Err(damaged("snapshot", "id").into());
            }
            Ok((content, read))
        })
    }
}

/// Reads and verifies blocks.
pub(super) struct BlockReader {
    table: ReadOnlyTable<&'static [u8; 16], Sealed>,
}

impl BlockReader {
    pub(super) fn new(transaction: &ReadTransaction) -> Result<Self, Fault> {
        Ok(Self { table: transaction.open_table(tables::BLOCKS)? })
    }

    pub(super) fn read(&self, key: &BlockKey) -> Result<Bytes, Fault> {
        let packed = self.table.get(key.as_bytes())?.ok_or_else(|| damaged("block", "key"))?;
        Ok(block::open(key, packed.value())?)
    }

    /// The envelope and the taxonomies of a snapshot.
    pub(super) fn frame(&self, blocks: &Blocks) -> Result<(Envelope, [Arc<str>; 3]), Fault> {
        let taxonomy = |kind: usize| -> Result<Arc<str>, Fault> {
            Ok(block::read_taxonomy(&self.read(&blocks.taxonomies[kind])?)?.into())
        };
        let envelope = block::read_envelope(&self.read(&blocks.envelope)?)?;
        Ok((envelope, [taxonomy(0)?, taxonomy(1)?, taxonomy(2)?]))
    }
}

/// The content of one block.
enum Part<T> {
    Summaries(Vec<Summary>, Vec<T>),
    Order(Vec<ListingId>),
}

fn content<T: Clone + Default + Send>(
    transaction: &ReadTransaction,
    record: &SnapshotRecord,
    read: &(impl Fn(&[Summary]) -> Vec<T> + Sync),
) -> Result<(Content, Vec<T>), Fault> {
    let blocks = &record.blocks;
    let (envelope, taxonomies) = BlockReader::new(transaction)?.frame(blocks)?;
    let summary_blocks = blocks.summaries.len();
    let parts = parallel::run(
        summary_blocks + blocks.order.len(),
        || BlockReader::new(transaction),
        |reader, n| match n.checked_sub(summary_blocks) {
            None => {
                let summaries = block::read_summaries(&reader.read(&blocks.summaries[n])?)?;
                let read = read(&summaries);
                Ok(Part::Summaries(summaries, read))
            }
            Some(n) => Ok(Part::Order(block::read_order(&reader.read(&blocks.order[n])?)?)),
        },
    )?;
    let (mut by_id, mut order) = (Vec::with_capacity(summary_blocks), Vec::new());
    for part in parts {
        match part {
            Part::Summaries(some, read) => by_id.push((some, read)),
            Part::Order(some) => order.extend(some),
        }
    }
    let (summaries, read) = arrange(by_id, &order)?;
    Ok((Content { envelope, taxonomies, summaries }, read))
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
