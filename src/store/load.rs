//! Reading a version back: every block verified, on all cores, and the whole verified by its id.
//!
//! Callers: [`crate::app`] at the start, [`crate::admin`] for a rollback, through [`Store`].

use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction};

use super::coding::damaged;
use super::error::StoreError;
use super::handle::Fault;
use super::packing::Unpacker;
use super::tables::{self, Sealed};
use super::version::{BlockKey, VersionRecord};
use super::{Store, block, parallel};
use crate::api::listing::{ListingId, Summary};
use crate::snapshot::content::Content;

impl Store {
    /// Reads a version's content. Texts are slices of the blocks, about 80 kB each, that hold them.
    ///
    /// # Errors
    /// When the version is no longer kept, cannot be read, or is damaged.
    pub fn load(&self, record: &VersionRecord) -> Result<Content, StoreError> {
        self.handle.read(|transaction| {
            if transaction.open_table(tables::VERSIONS)?.get(record.seq)?.is_none() {
                return Err(StoreError::NoSuchVersion(record.seq).into());
            }
            let content = content(transaction, record)?;
            if content.id() != record.id || content.summaries.len() as u64 != record.listings {
                return Err(damaged("version", "snapshot id").into());
            }
            Ok(content)
        })
    }
}

/// Reads and verifies blocks.
pub(super) struct BlockReader {
    table: ReadOnlyTable<&'static [u8; 16], Sealed>,
    unpacker: Unpacker,
}

impl BlockReader {
    pub fn new(transaction: &ReadTransaction) -> Result<Self, Fault> {
        Ok(Self { table: transaction.open_table(tables::BLOCKS)?, unpacker: Unpacker::new()? })
    }

    pub fn read(&mut self, key: &BlockKey) -> Result<Bytes, Fault> {
        let packed = self.table.get(key.as_bytes())?.ok_or_else(|| damaged("block", "key"))?;
        Ok(block::open(key, packed.value(), &mut self.unpacker)?)
    }
}

/// What one block gives.
enum Part {
    Summaries(Vec<Summary>),
    Order(Vec<ListingId>),
}

fn content(transaction: &ReadTransaction, record: &VersionRecord) -> Result<Content, Fault> {
    let blocks = &record.blocks;
    let mut reader = BlockReader::new(transaction)?;
    let envelope = block::read_envelope(&reader.read(&blocks.envelope)?)?;
    let mut taxonomy = |kind: usize| -> Result<Arc<str>, Fault> {
        Ok(block::read_taxonomy(&reader.read(&blocks.taxonomies[kind])?)?.into())
    };
    let taxonomies = [taxonomy(0)?, taxonomy(1)?, taxonomy(2)?];
    let summary_blocks = blocks.summaries.len();
    let parts = parallel::run(
        summary_blocks + blocks.order.len(),
        || BlockReader::new(transaction),
        |reader, n| match n.checked_sub(summary_blocks) {
            None => Ok(Part::Summaries(block::read_summaries(&reader.read(&blocks.summaries[n])?)?)),
            Some(n) => Ok(Part::Order(block::read_order(&reader.read(&blocks.order[n])?)?)),
        },
    )?;
    let (mut by_id, mut order) = (Vec::with_capacity(summary_blocks), Vec::new());
    for part in parts {
        match part {
            Part::Summaries(some) => by_id.push(some),
            Part::Order(some) => order.extend(some),
        }
    }
    Ok(Content { envelope, taxonomies, summaries: arrange(by_id, &order)? })
}

/// Puts the summaries of blocks, which are sorted by id, into the origin's order. Each block is let go as soon as its
/// summaries are in their places: memory that is never touched need not be cleared.
fn arrange(by_id: Vec<Vec<Summary>>, order: &[ListingId]) -> Result<Vec<Summary>, StoreError> {
    let wrong = || damaged("version", "order");
    if by_id.iter().map(Vec::len).sum::<usize>() != order.len() {
        return Err(wrong());
    }
    let mut places: Vec<(ListingId, u32)> = order.iter().zip(0..).map(|(id, place)| (*id, place)).collect();
    places.sort_unstable();
    let mut arranged: Vec<Option<Summary>> = vec![None; order.len()];
    for (summary, (id, place)) in by_id.into_iter().flatten().zip(places) {
        if summary.id != id {
            return Err(wrong());
        }
        arranged[place as usize] = Some(summary);
    }
    // In place: an `Option` is no larger than what it may hold.
    arranged.into_iter().collect::<Option<_>>().ok_or_else(wrong)
}
