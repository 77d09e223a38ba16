//! Details by listing id, beside the snapshots: a new detail publishes nothing.
//!
//! Callers: [`crate::mirror`] writes batches of them, [`crate::answer`] reads single ones.

use std::cell::RefCell;

use bytes::Bytes;
use redb::{ReadableTable, ReadableTableMetadata, WriteTransaction};

use super::coding::{self, Reader, damaged};
use super::error::StoreError;
use super::fault::Fault;
use super::packing::{Packer, unpack};
use super::placed::{Tables, Writer, split};
use super::{MAX_BODY, Store, tables};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;

pub use crate::api::listing::DetailState;

/// The metadata of a detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailMeta {
    /// Whether the origin has the detail.
    pub state: DetailState,
    /// The origin's entity tag, as sent.
    pub etag: Option<String>,
    /// The origin's `Last-Modified`, as sent.
    pub last_modified: Option<String>,
    /// The instant for which the origin last confirmed it, in the origin's time; milliseconds since 1970.
    pub origin_time_ms: i64,
    /// When the answer arrived here; milliseconds since the epoch.
    pub fetched_ms: i64,
    /// Hash of the summary for which it was fetched or last confirmed.
    pub summary_hash: ContentHash,
    /// Hash of the body as the caller sees fit (without volatile values, say); not checked here.
    pub hash: ContentHash,
}

/// A detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailRecord {
    /// Its metadata.
    pub meta: DetailMeta,
    /// The body as the origin sent it, at most [`MAX_BODY`] bytes.
    pub body: Bytes,
}

/// A stream of details.
pub(crate) type DetailStream<'a> = Box<dyn Iterator<Item = Result<(ListingId, DetailRecord), StoreError>> + 'a>;

/// The most details for which memory is reserved in advance.
const MOST_RESERVED: usize = 1 << 22;

pub(super) const META: &str = "detail_meta";
pub(super) const BODY: &str = "details";
const ENCODING: u8 = 1;
/// A body longer than this is compressed.
const COMPRESSED_ABOVE: usize = 512;

impl DetailMeta {
    /// `1`, state u8, origin time i64, fetched i64, summary hash, hash, entity tag, last modified.
    fn encode(&self, id: ListingId) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.push(ENCODING);
        out.push(match self.state {
            DetailState::Present => 0,
            DetailState::Gone => 1,
        });
        out.extend_from_slice(&self.origin_time_ms.to_le_bytes());
        out.extend_from_slice(&self.fetched_ms.to_le_bytes());
        out.extend_from_slice(&self.summary_hash.to_bytes());
        out.extend_from_slice(&self.hash.to_bytes());
        coding::put_optional_text(&mut out, self.etag.as_deref());
        coding::put_optional_text(&mut out, self.last_modified.as_deref());
        coding::seal(META, &id.0.to_le_bytes(), out)
    }

    pub(super) fn decode(id: ListingId, sealed: &[u8]) -> Result<Self, StoreError> {
        let mut reader = Reader::new(META, coding::unseal(META, &id.0.to_le_bytes(), sealed)?);
        reader.version(ENCODING)?;
        let state = match reader.u8()? {
            0 => DetailState::Present,
            1 => DetailState::Gone,
            _ => return Err(damaged(META, "state")),
        };
        let (origin_time_ms, fetched_ms) = (reader.i64()?, reader.i64()?);
        let (summary_hash, hash) = (reader.hash()?, reader.hash()?);
        let (etag, last_modified) = (reader.optional_text()?, reader.optional_text()?);
        reader.end()?;
        Ok(Self { state, etag, last_modified, origin_time_ms, fetched_ms, summary_hash, hash })
    }
}

/// `1`, `0` and the bytes, or `1` and the compressed bytes.
fn encode_body(id: ListingId, body: &[u8], packer: &mut Packer) -> Result<Vec<u8>, StoreError> {
    coding::check_size(|| format!("the detail of listing {id}"), body.len(), MAX_BODY)?;
    let compressed = body.len() > COMPRESSED_ABOVE;
    let mut out = vec![ENCODING, u8::from(compressed)];
    if compressed {
        out.extend_from_slice(&packer.pack(body)?);
    } else {
        out.extend_from_slice(body);
    }
    Ok(coding::seal(BODY, &id.0.to_le_bytes(), out))
}

pub(super) fn decode_body(id: ListingId, sealed: &[u8]) -> Result<Bytes, StoreError> {
    let mut reader = Reader::new(BODY, coding::unseal(BODY, &id.0.to_le_bytes(), sealed)?);
    reader.version(ENCODING)?;
    match reader.u8()? {
        0 => Ok(Bytes::copy_from_slice(reader.rest())),
        1 => Ok(unpack(reader.rest(), MAX_BODY)?.into()),
        _ => Err(damaged(BODY, "tag")),
    }
}

/// Writes details one by one in the caller's transaction, except where the stored one `stays`.
pub(super) fn write_all(
    transaction: &WriteTransaction,
    details: DetailStream<'_>,
    stays: &dyn Fn(ListingId, &DetailMeta, &DetailRecord) -> bool,
) -> Result<(), Fault> {
    let mut writer = Writer::open(transaction)?;
    let mut packer = Packer::new()?;
    for detail in details {
        let (id, record) = detail?;
        let place = writer.place(id)?;
        let known = place.map(|place| writer.meta(id, place)).transpose()?.flatten();
        if known.is_some_and(|known| stays(id, &known, &record)) {
            continue;
        }
        writer.put_at(id, place, &record.meta.encode(id), &encode_body(id, &record.body, &mut packer)?)?;
    }
    Ok(())
}

impl Store {
    /// Stores details, all or none; they replace those with the same ids.
    ///
    /// # Errors
    /// When a body is larger than [`MAX_BODY`], or the write fails.
    pub fn put_details(&self, details: &[(ListingId, DetailRecord)]) -> Result<(), StoreError> {
        if details.is_empty() {
            return Ok(());
        }
        let mut packer = Packer::new()?;
        let encoded = details
            .iter()
            .map(|(id, detail)| Ok((*id, detail.meta.encode(*id), encode_body(*id, &detail.body, &mut packer)?)))
            .collect::<Result<Vec<_>, StoreError>>()?;
        let needed: usize = encoded.iter().map(|(_, meta, body)| meta.len() + body.len() + 8192).sum();
        self.handle.write(needed as u64, |transaction| {
            let mut writer = Writer::open(transaction)?;
            encoded.iter().try_for_each(|(id, meta, body)| writer.put(*id, meta, body))
        })
    }

    /// A detail; `None` when it was never fetched.
    ///
    /// # Errors
    /// When the file cannot be read or the detail is damaged.
    pub fn detail(&self, id: ListingId) -> Result<Option<DetailRecord>, StoreError> {
        self.handle.read(|transaction| {
            let tables = Tables::open(transaction)?;
            tables.place(id)?.map(|place| tables.detail(id, place)).transpose()
        })
    }

    /// `of` applied to the metadata of each detail, by id. Bodies are not read. Damaged ones are left out: all on a
    /// damaged page.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn detail_index<T>(&self, of: impl Fn(DetailMeta) -> T) -> Result<Vec<(ListingId, T)>, StoreError> {
        let walk = |back: bool| {
            let found = RefCell::new(Vec::new());
            let walked = self.handle.read(|transaction| {
                let table = transaction.open_table(tables::DETAIL_META)?;
                let mut entries = table.iter()?;
                let mut wrong = None;
                let mut found = found.borrow_mut();
                found.clear();
                if !back {
                    found.reserve(usize::try_from(table.len()?).unwrap_or(0).min(MOST_RESERVED));
                }
                while let Some(entry) = if back { entries.next_back() } else { entries.next() } {
                    let (_, value) = entry?;
                    let decoded =
                        split(value.value()).and_then(|(id, sealed)| Ok((id, DetailMeta::decode(id, sealed)?)));
                    match decoded {
                        Ok((id, meta)) => found.push((id, of(meta))),
                        Err(error) => wrong = Some(error),
                    }
                }
                wrong.map_or(Ok(()), |error| Err(error.into()))
            });
            (found.into_inner(), walked)
        };
        let (mut found, walked) = walk(false);
        match walked {
            Err(StoreError::Damaged(detail)) => {
                // Details that cannot be reached from the back either count as not mirrored.
                found.extend(walk(true).0);
                found.sort_by_key(|(id, _)| *id);
                found.dedup_by_key(|(id, _)| *id);
                tracing::warn!(
                    detail,
                    left = found.len(),
                    "stored details are damaged; they are treated as not mirrored"
                );
            }
            walked => {
                walked?;
                found.sort_unstable_by_key(|(id, _)| *id);
            }
        }
        Ok(found)
    }

    /// The metadata of these details; absent and damaged ones are left out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn detail_metas_of(&self, ids: &[ListingId]) -> Result<Vec<(ListingId, DetailMeta)>, StoreError> {
        self.handle.read(|transaction| {
            let tables = Tables::open(transaction)?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                let Some(place) = tables.place(*id)? else { continue };
                match tables.meta(*id, place) {
                    Err(Fault::Store(StoreError::Damaged(_))) => {}
                    meta => found.push((*id, meta?)),
                }
            }
            Ok(found)
        })
    }

    /// The metadata of all details, by id: see [`Store::detail_index`].
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn detail_metas(&self) -> Result<Vec<(ListingId, DetailMeta)>, StoreError> {
        self.detail_index(|meta| meta)
    }

    /// Removes details; absent ones are skipped.
    ///
    /// # Errors
    /// When the write fails.
    pub fn remove_details(&self, ids: &[ListingId]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.handle.write(1 << 20, |transaction| {
            let mut writer = Writer::open(transaction)?;
            ids.iter().try_for_each(|id| writer.remove(*id))
        })
    }
}
