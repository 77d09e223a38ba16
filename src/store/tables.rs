//! The tables of the store's file. The format is these definitions and the encodings, which their users describe.
//!
//! Callers: the other modules of [`crate::store`].

use redb::TableDefinition;

/// The number of the format that this program reads and writes.
pub(crate) const FORMAT: u64 = 2;

/// Bytes, checksummed by [`super::coding::seal`] unless they are a block.
pub(super) type Sealed = &'static [u8];

/// Single numbers by name: [`META_FORMAT`], [`META_CURRENT`], [`META_NEXT`]. This table and the encoding of
/// [`META_FORMAT`] (sealed 8 bytes, little endian) are the same in every format.
pub(super) const META: TableDefinition<'static, &str, Sealed> = TableDefinition::new("meta");
/// The format number.
pub(super) const META_FORMAT: &str = "format";
/// Sequence number of the current snapshot; 0 when nothing was published yet.
pub(super) const META_CURRENT: &str = "current";
/// The sequence number that the next snapshot gets, from 1.
pub(super) const META_NEXT: &str = "next";

/// Compressed blocks by the hash of their content.
pub(super) const BLOCKS: TableDefinition<'static, &[u8; 16], Sealed> = TableDefinition::new("blocks");
/// [`super::SnapshotRecord`]s by sequence number.
pub(super) const SNAPSHOTS: TableDefinition<'static, u64, Sealed> = TableDefinition::new("versions");
/// [`crate::snapshot::meta::SnapshotMeta`] as JSON by sequence number.
pub(super) const VERSION_META: TableDefinition<'static, u64, Sealed> = TableDefinition::new("version_meta");

/// [`super::CopyMeta`] by canonical path and query.
pub(super) const COPY_META: TableDefinition<'static, &str, Sealed> = TableDefinition::new("copy_meta");
/// Bodies of copies, compressed, by canonical path and query.
pub(super) const COPY_BODY: TableDefinition<'static, &str, Sealed> = TableDefinition::new("copy_body");

/// The place of each detail by listing id. Details take the next place when they first arrive, and keep it. So new ones
/// share pages, whatever their ids, and those that arrived one after the other lie beside each other.
pub(super) const DETAIL_PLACES: TableDefinition<'static, u64, u64> = TableDefinition::new("detail_places");
/// The listing id (8 bytes, little endian) and [`super::DetailMeta`] by place; without bodies, so that reading all is
/// fast.
pub(super) const DETAIL_META: TableDefinition<'static, u64, Sealed> = TableDefinition::new("placed_detail_meta");
/// Bodies of details by place.
pub(super) const DETAILS: TableDefinition<'static, u64, Sealed> = TableDefinition::new("placed_details");

/// Format 1: [`super::DetailMeta`] by listing id.
pub(super) const DETAIL_META_1: TableDefinition<'static, u64, Sealed> = TableDefinition::new("detail_meta");
/// Format 1: bodies of details by listing id.
pub(super) const DETAILS_1: TableDefinition<'static, u64, Sealed> = TableDefinition::new("details");

/// Small JSON blobs by name.
pub(super) const STATE: TableDefinition<'static, &str, Sealed> = TableDefinition::new("state");
