//! A snapshot in the store: its sequence number, its snapshot id, and its blocks.
//!
//! Not the content ([`crate::data::snapshot::content`]) and not its metadata ([`crate::data::snapshot::meta`]), which
//! changes while the record never does. Callers: [`crate::data::snapshots`], and the other modules of
//! [`crate::data::store`].

use redb::{ReadableTable, WriteTransaction};

use super::block::BlockKey;
use super::coding::{self, Reader, damaged};
use super::error::{Fault, StoreError};
use super::{States, Store, database};
use crate::data::fields::put_text;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::meta::SnapshotMeta;

/// One kept snapshot. Never changes once it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// Its place in the sequence of snapshots of this store, from 1; never used twice.
    pub seq: u64,
    pub id: SnapshotId,
    pub listings: u64,
    pub(super) blocks: Blocks,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub envelope: BlockKey,
    /// The taxonomies by [`crate::api::taxonomy::TaxonomyKind::index`].
    pub taxonomies: [BlockKey; 3],
    /// By id.
    pub summaries: Vec<BlockKey>,
    /// In the origin's order.
    pub order: Vec<BlockKey>,
}

const TABLE: &str = "versions";
const META_TABLE: &str = "version_meta";
const ENCODING: u8 = 1;

impl SnapshotRecord {
    /// The keys of all its blocks. Two snapshots differ in the keys that they do not share.
    pub fn block_keys(&self) -> impl Iterator<Item = BlockKey> + '_ {
        let Blocks { envelope, taxonomies, summaries, order } = &self.blocks;
        [*envelope].into_iter().chain(*taxonomies).chain(summaries.iter().copied()).chain(order.iter().copied())
    }

    /// `1`, id, listings u64, number of summary blocks u32, number of order blocks u32, block keys.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![ENCODING];
        put_text(&mut out, self.id.as_str().as_bytes());
        out.extend_from_slice(&self.listings.to_le_bytes());
        out.extend_from_slice(&(self.blocks.summaries.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.blocks.order.len() as u32).to_le_bytes());
        self.block_keys().for_each(|key| out.extend_from_slice(key.as_bytes()));
        coding::seal(TABLE, &self.seq.to_le_bytes(), out)
    }

    pub(super) fn decode(seq: u64, sealed: &[u8]) -> Result<Self, StoreError> {
        let payload = coding::unseal(TABLE, &seq.to_le_bytes(), sealed)?;
        let mut reader = Reader::new(TABLE, payload);
        reader.version(ENCODING)?;
        let id = SnapshotId::parse(reader.text()?).ok_or_else(|| damaged(TABLE, "id"))?;
        let listings = reader.u64()?;
        let (summaries, order) = (reader.count(16)?, reader.count(16)?);
        let mut key = || reader.array().map(BlockKey::stored);
        let blocks = Blocks {
            envelope: key()?,
            taxonomies: [key()?, key()?, key()?],
            summaries: (0..summaries).map(|_| key()).collect::<Result<_, _>>()?,
            order: (0..order).map(|_| key()).collect::<Result<_, _>>()?,
        };
        reader.end()?;
        Ok(Self { seq, id, listings, blocks })
    }
}

pub(super) fn encode_meta(seq: u64, meta: &SnapshotMeta) -> Result<Vec<u8>, StoreError> {
    let json = serde_json::to_vec(meta).map_err(|_| damaged(META_TABLE, "JSON"))?;
    Ok(coding::seal(META_TABLE, &seq.to_le_bytes(), json))
}

pub(super) fn decode_meta(seq: u64, sealed: &[u8]) -> Result<SnapshotMeta, StoreError> {
    let json = coding::unseal(META_TABLE, &seq.to_le_bytes(), sealed)?;
    serde_json::from_slice(json).map_err(|_| damaged(META_TABLE, "JSON"))
}

/// One number of the table `meta`. All are written when the file is created, so a missing one means damage.
pub(super) fn number(meta: &impl ReadableTable<&'static str, database::Sealed>, name: &str) -> Result<u64, Fault> {
    let sealed = meta.get(name)?.ok_or_else(|| damaged("meta", name))?;
    let payload = coding::unseal("meta", name.as_bytes(), sealed.value())?;
    Ok(payload.try_into().map(u64::from_le_bytes).map_err(|_| damaged("meta", "length"))?)
}

pub(super) fn set_number(to: &WriteTransaction, name: &str, number: u64) -> Result<(), Fault> {
    let sealed = coding::seal("meta", name.as_bytes(), number.to_le_bytes().to_vec());
    to.open_table(database::META)?.insert(name, sealed.as_slice())?;
    Ok(())
}

/// Every snapshot's record, oldest first.
pub(super) fn records(snapshots: &impl ReadableTable<u64, database::Sealed>) -> Result<Vec<SnapshotRecord>, Fault> {
    let mut records = Vec::new();
    for entry in snapshots.iter()? {
        let (seq, sealed) = entry?;
        records.push(SnapshotRecord::decode(seq.value(), sealed.value())?);
    }
    Ok(records)
}

impl Store {
    /// The current snapshot, served after a restart. `None` before the first publication.
    pub fn current(&self) -> Result<Option<(SnapshotRecord, SnapshotMeta)>, StoreError> {
        self.handle.read(|transaction| {
            let seq = number(&transaction.open_table(database::META)?, database::META_CURRENT)?;
            if seq == 0 {
                return Ok(None);
            }
            let snapshots = transaction.open_table(database::SNAPSHOTS)?;
            let sealed = snapshots.get(seq)?.ok_or_else(|| damaged(TABLE, "current snapshot"))?;
            let metas = transaction.open_table(database::VERSION_META)?;
            let meta = metas.get(seq)?.ok_or_else(|| damaged(META_TABLE, "sequence number"))?;
            Ok(Some((SnapshotRecord::decode(seq, sealed.value())?, decode_meta(seq, meta.value())?)))
        })
    }

    /// The record of a snapshot; `None` when it is not kept.
    pub fn snapshot(&self, seq: u64) -> Result<Option<SnapshotRecord>, StoreError> {
        self.handle.read(|transaction| {
            let snapshots = transaction.open_table(database::SNAPSHOTS)?;
            let sealed = snapshots.get(seq)?;
            Ok(sealed.map(|sealed| SnapshotRecord::decode(seq, sealed.value())).transpose()?)
        })
    }

    /// The bytes of a snapshot's blocks as they are stored. Other snapshots may share them.
    pub fn bytes_of(&self, seq: u64) -> Result<u64, StoreError> {
        let record = self.snapshot(seq)?.ok_or(StoreError::NoSuchSnapshot(seq))?;
        self.handle.read(|transaction| {
            let blocks = transaction.open_table(database::BLOCKS)?;
            record.block_keys().try_fold(0, |bytes, key| {
                let packed = blocks.get(key.as_bytes())?.ok_or_else(|| damaged("block", "key"))?;
                Ok(bytes + packed.value().len() as u64)
            })
        })
    }

    /// Replaces the metadata of a snapshot (a better certificate, a later confirmation), and writes `states` with it.
    pub fn update_meta(&self, seq: u64, meta: &SnapshotMeta, states: &States) -> Result<(), StoreError> {
        let sealed = encode_meta(seq, meta)?;
        self.write_of(seq, states, sealed.len() as u64, |transaction| {
            transaction.open_table(database::VERSION_META)?.insert(seq, sealed.as_slice())?;
            Ok(())
        })
    }

    /// Makes a kept snapshot the current one (rollback or release), and writes `states` with it.
    pub fn activate(&self, seq: u64, states: &States) -> Result<(), StoreError> {
        let _publishing = self.publishing.lock();
        self.write_of(seq, states, 0, |transaction| set_number(transaction, database::META_CURRENT, seq))
    }

    /// Writes something of a kept snapshot, with `states`.
    fn write_of(
        &self,
        seq: u64,
        states: &States,
        needed: u64,
        write: impl Fn(&WriteTransaction) -> Result<(), Fault>,
    ) -> Result<(), StoreError> {
        self.handle.write(needed + states.bytes(), |transaction| {
            if transaction.open_table(database::SNAPSHOTS)?.get(seq)?.is_none() {
                return Err(StoreError::NoSuchSnapshot(seq).into());
            }
            write(transaction)?;
            states.write(transaction)
        })
    }
}
