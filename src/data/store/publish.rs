//! Publication of a snapshot: cuts it into blocks, compresses new blocks, and switches in one transaction.
//!
//! A crash leaves the old snapshot or the new one, nothing between. [`crate::mirror`] and [`crate::data::snapshots`] decide
//! whether a content may be published. Callers: [`crate::data::snapshots`], through [`Store`].

use std::collections::HashSet;

use super::block::{self, BlockKey};
use super::coding::{Packer, check_size, damaged};
use super::details::{self, DetailStream};
use super::error::{Fault, StoreError};
use super::load::run_parallel;
use super::record::{self, Blocks, SnapshotRecord};
use super::{DetailMeta, DetailRecord, MAX_BODY, States, Store, database, positions};
use crate::api::listing::{ListingId, Summary};
use crate::data::snapshot::content::Content;
use crate::data::snapshot::meta::SnapshotMeta;

/// A block's key, and its compressed bytes if it is new.
type Encoded = (BlockKey, Option<Vec<u8>>);

/// Details that are written along with a snapshot.
pub struct Arriving<'a> {
    /// Opens the stream from its start: once per try.
    pub stream: &'a dyn Fn() -> Result<DetailStream<'a>, StoreError>,
    /// Whether the stored detail stays.
    pub stays: &'a dyn Fn(ListingId, &DetailMeta, &DetailRecord) -> bool,
}

/// Further writes in the transaction that stores a snapshot.
#[derive(Default)]
pub struct WrittenAlong<'a> {
    /// Whether the snapshot becomes the current one. If not, it waits for the end of a rollback.
    pub activate: bool,
    /// Whether blocks are written although they are stored: they may be damaged there.
    pub rewrites: bool,
    /// Details, which replace those with the same ids.
    pub details: Option<&'a Arriving<'a>>,
    /// Their approximate size in bytes.
    pub details_bytes: u64,
    pub states: States,
}

/// New blocks, compressed.
type NewBlocks = Vec<(BlockKey, Vec<u8>)>;

impl Store {
    /// Makes a content the current snapshot. If it equals the current one, only `meta` is replaced. After an error, the
    /// old snapshot stays current.
    pub fn publish(&self, content: &Content, meta: &SnapshotMeta) -> Result<SnapshotRecord, StoreError> {
        self.keep(content, meta, &WrittenAlong { activate: true, ..WrittenAlong::default() })
    }

    /// Stores a content as the newest snapshot, with `along`, in one transaction. If it equals the snapshot before, its
    /// record stays and all else is written.
    pub fn keep(
        &self,
        content: &Content,
        meta: &SnapshotMeta,
        along: &WrittenAlong<'_>,
    ) -> Result<SnapshotRecord, StoreError> {
        let _publishing = self.publishing.lock();
        let id = content.id();
        // Still true in the transaction below: blocks are dropped only under the same lock.
        let (last, mut known) = self.before(along.activate)?;
        let last = last.filter(|last| last.id == id);
        if along.rewrites {
            known.clear();
        }
        let (blocks, new) = match &last {
            Some(last) if !along.rewrites => (last.blocks.clone(), Vec::new()),
            _ => encode(content, &known).map_err(|fault| fault.into_store_error(self.path(), 0))?,
        };
        let blocks_len = new.iter().map(|(_, packed)| packed.len() as u64).sum::<u64>();
        let needed = (blocks_len + along.details_bytes) * 5 / 4 + along.states.bytes() + (1 << 20);
        let listings = content.summaries.len() as u64;
        self.handle.write(needed, |transaction| {
            let seq = match &last {
                Some(last) => last.seq,
                None => record::number(&transaction.open_table(database::META)?, database::META_NEXT)?,
            };
            let record = SnapshotRecord { seq, id: id.clone(), listings, blocks: blocks.clone() };
            if last.is_none() || along.rewrites {
                let mut table = transaction.open_table(database::BLOCKS)?;
                for (key, packed) in &new {
                    table.insert(key.as_bytes(), packed.as_slice())?;
                }
                transaction.open_table(database::SNAPSHOTS)?.insert(seq, record.encode().as_slice())?;
            }
            if last.is_none() {
                let next = seq.checked_add(1).ok_or_else(|| damaged("meta", database::META_NEXT))?;
                record::set_number(transaction, database::META_NEXT, next)?;
            }
            let sealed = record::encode_meta(seq, meta)?;
            transaction.open_table(database::VERSION_META)?.insert(seq, sealed.as_slice())?;
            if let Some(details) = along.details {
                positions::begin_epoch(transaction, self.epoch())?;
                details::write_all(transaction, (details.stream)()?, details.stays)?;
            }
            along.states.write(transaction)?;
            if along.activate {
                record::set_number(transaction, database::META_CURRENT, seq)?;
            }
            Ok(record)
        })
    }

    /// The snapshot that a new one is compared with, and the stored blocks.
    fn before(&self, current: bool) -> Result<(Option<SnapshotRecord>, HashSet<BlockKey>), StoreError> {
        self.handle.read(|transaction| {
            let mut records = record::records(&transaction.open_table(database::SNAPSHOTS)?)?;
            let known = records.iter().flat_map(SnapshotRecord::block_keys).collect();
            let last = if current {
                let seq = record::number(&transaction.open_table(database::META)?, database::META_CURRENT)?;
                records.into_iter().find(|record| record.seq == seq)
            } else {
                records.pop()
            };
            Ok((last, known))
        })
    }
}

/// The keys of a content's blocks, and the new blocks.
fn encode(content: &Content, known: &HashSet<BlockKey>) -> Result<(Blocks, NewBlocks), Fault> {
    let sorted = sorted(content)?;
    let by_id = block::cut(sorted.iter().map(|summary| (summary.id, summary.raw.len())), block::CUT_SUMMARIES);
    let in_order = block::cut(content.summaries.iter().map(|summary| (summary.id, 8)), block::CUT_ORDER);
    let worker = || -> Result<Packer, Fault> { Ok(Packer::new()?) };
    let mut packer = Packer::new()?;
    let mut encoded = vec![encode_block(&block::envelope(&content.envelope)?, known, &mut packer)?];
    for text in &content.taxonomies {
        encoded.push(encode_block(&block::taxonomy(text), known, &mut packer)?);
    }
    let summaries = run_parallel(by_id.len(), worker, |packer, n| {
        encode_block(&block::summaries(sorted[by_id[n].clone()].iter().copied()), known, packer)
    })?;
    let order = run_parallel(in_order.len(), worker, |packer, n| {
        encode_block(&block::order(&content.summaries[in_order[n].clone()]), known, packer)
    })?;
    encoded.extend(summaries);
    encoded.extend(order);
    let keys: Vec<BlockKey> = encoded.iter().map(|(key, _)| *key).collect();
    let (summaries, order) = keys[4..].split_at(by_id.len());
    let blocks = Blocks {
        envelope: keys[0],
        taxonomies: [keys[1], keys[2], keys[3]],
        summaries: summaries.to_vec(),
        order: order.to_vec(),
    };
    let new = encoded.into_iter().filter_map(|(key, packed)| packed.map(|packed| (key, packed))).collect();
    Ok((blocks, new))
}

fn encode_block(raw: &[u8], known: &HashSet<BlockKey>, packer: &mut Packer) -> Result<Encoded, Fault> {
    check_size(|| "a block".to_owned(), raw.len(), block::MAX_BLOCK)?;
    let key = BlockKey::of(raw);
    let packed = if known.contains(&key) { None } else { Some(packer.pack(raw)?) };
    Ok((key, packed))
}

/// The summaries by id; checks that each occurs once and is not too large.
fn sorted(content: &Content) -> Result<Vec<&Summary>, StoreError> {
    for summary in &content.summaries {
        check_size(|| format!("the summary of listing {}", summary.id), summary.raw.len(), MAX_BODY)?;
    }
    // Ids with their places, not references: no comparison looks elsewhere in memory.
    let mut sorted: Vec<_> = content.summaries.iter().map(|summary| summary.id).zip(0_usize..).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(StoreError::Refused(format!("listing {} occurs twice", pair[0].0))),
        None => Ok(sorted.into_iter().map(|(_, place)| &content.summaries[place]).collect()),
    }
}
