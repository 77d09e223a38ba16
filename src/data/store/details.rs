//! Details by listing id, beside the snapshots: a new detail publishes nothing.
//!
//! A detail takes the next place when it arrives and whenever others see a change; a mere confirmation leaves it where it
//! is. So new details share the last pages, whatever their ids: if they lay by id, each would rewrite two pages of its own.
//! And what has changed since a place ([`super::positions`]) is what lies from there on. Many are read ahead, and in the
//! order of the file, in which neighbours share a page: each by itself takes several times as long.
//!
//! Callers: [`crate::mirror`] writes batches of them, [`crate::edge::answer`] reads single ones,
//! [`crate::data::snapshots`] and the commands read many.

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::coding::{self, Packer, Reader, damaged, unpack};
use super::database::{self, Sealed};
use super::error::{Fault, StoreError};
use super::{MAX_BODY, Store, positions, record};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::data::fields::put_optional_text;

pub use crate::api::listing::DetailState;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailMeta {
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailRecord {
    pub meta: DetailMeta,
    /// The body as the origin sent it, at most [`MAX_BODY`] bytes.
    pub body: Bytes,
}

/// A detail as others have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExportedDetail {
    pub id: ListingId,
    /// [`DetailMeta::exported`].
    pub hash: ContentHash,
}

impl ExportedDetail {
    /// Whether the origin has none.
    pub(crate) fn is_gone(&self) -> bool {
        self.hash == ContentHash::default()
    }
}

pub(crate) type DetailStream<'a> = Box<dyn Iterator<Item = Result<(ListingId, DetailRecord), StoreError>> + 'a>;

/// The most details for which memory is reserved in advance: the count is read from a file that may be damaged.
const MOST_RESERVED: usize = 1 << 22;

/// What a stored detail takes beside its body, and how many at least a page of their index has.
const BESIDE_A_BODY: u64 = 1 << 10;
const LEAST_OF_A_PAGE: u64 = 64;

pub(super) const META: &str = "detail_meta";
pub(super) const BODY: &str = "details";
const ENCODING: u8 = 1;
/// A body longer than this is compressed.
const COMPRESSED_ABOVE: usize = 512;

impl DetailMeta {
    /// Whether others see no difference to the stored detail.
    fn only_confirms(&self, known: Option<&Self>) -> bool {
        known.is_some_and(|known| known.exported() == self.exported())
    }

    /// The hash of the detail, without volatile values; of an empty body if the origin has none.
    pub(crate) fn exported(&self) -> ContentHash {
        match self.state {
            DetailState::Present => self.hash,
            DetailState::Gone => ContentHash::default(),
        }
    }

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
        put_optional_text(&mut out, self.etag.as_deref());
        put_optional_text(&mut out, self.last_modified.as_deref());
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
        let [etag, last_modified] =
            [reader.optional_text()?, reader.optional_text()?].map(|text| text.map(str::to_owned));
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
        0 => Ok(Bytes::copy_from_slice(reader.rest)),
        1 => Ok(unpack(reader.rest, MAX_BODY)?.into()),
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
        let place = writer.tables.place(id)?;
        let known = writer.tables.known(id, place)?;
        if known.as_ref().is_some_and(|known| stays(id, known, &record)) {
            continue;
        }
        // A visible change takes a new place, so that a look from the last place on finds it.
        let place = place.filter(|_| record.meta.only_confirms(known.as_ref()));
        writer.put(id, place, &record.meta.encode(id), &encode_body(id, &record.body, &mut packer)?)?;
    }
    Ok(())
}

impl Store {
    /// Stores details, all or none; they replace those with the same ids. A body has at most [`MAX_BODY`] bytes.
    pub fn put_details(&self, details: &[(ListingId, DetailRecord)]) -> Result<(), StoreError> {
        if details.is_empty() {
            return Ok(());
        }
        let stored = self.handle.read(|transaction| Ok(transaction.open_table(database::DETAIL_META)?.len()?));
        let bodies: u64 = details.iter().map(|(_, detail)| detail.body.len() as u64 + BESIDE_A_BODY).sum();
        // Each may lie on a page of the index of its own, which is written again. This is an estimate: a read that
        // fails does not hinder the write.
        let pages = (details.len() as u64).min(stored.unwrap_or(u64::MAX) / LEAST_OF_A_PAGE + 1);
        let needed = bodies + pages * (8 << 10);
        self.handle.write(needed, |transaction| {
            positions::begin_epoch(transaction, self.epoch())?;
            write_all(transaction, Box::new(details.iter().cloned().map(Ok)), &|_, _, _| false)
        })
    }

    /// A detail; `None` when it was never fetched. Fails if it is damaged.
    pub fn detail(&self, id: ListingId) -> Result<Option<DetailRecord>, StoreError> {
        self.handle.read(|transaction| {
            let tables = ReadTables::open(transaction)?;
            tables.place(id)?.map(|place| tables.detail(id, place)).transpose()
        })
    }

    /// `of` applied to the metadata of each detail, by id. Bodies are not read. Damaged ones are left out: all on a
    /// damaged page.
    pub fn detail_index<T>(&self, of: impl Fn(DetailMeta) -> T) -> Result<Vec<(ListingId, T)>, StoreError> {
        let count = self.handle.read(|transaction| Ok(transaction.open_table(database::DETAIL_META)?.len()?));
        let mut found = Vec::with_capacity(usize::try_from(count.unwrap_or(0)).unwrap_or(0).min(MOST_RESERVED));
        let mut wrong = None;
        let lost = self.handle.reach(database::DETAIL_META, &mut |_, value| match split(value)
            .and_then(|(id, sealed)| Ok((id, DetailMeta::decode(id, sealed)?)))
        {
            Ok((id, meta)) => found.push((id, of(meta))),
            Err(error) => wrong = Some(error),
        })?;
        found.sort_unstable_by_key(|(id, _)| *id);
        found.dedup_by_key(|(id, _)| *id);
        let wrong = wrong.map(|error| self.handle.noted(error).to_string());
        if let Some(detail) = lost.or(wrong) {
            tracing::warn!(detail, left = found.len(), "stored details are damaged; they are treated as not mirrored");
        }
        Ok(found)
    }

    /// The metadata of these details; absent and damaged ones are left out.
    pub fn detail_metas_of(&self, ids: &[ListingId]) -> Result<Vec<(ListingId, DetailMeta)>, StoreError> {
        self.handle.read(|transaction| {
            let tables = ReadTables::open(transaction)?;
            let mut found = Vec::with_capacity(ids.len());
            for id in ids {
                found.extend(tables.known(*id, tables.place(*id)?)?.map(|meta| (*id, meta)));
            }
            Ok(found)
        })
    }

    /// Removes details; absent ones are skipped.
    pub fn remove_details(&self, ids: &[ListingId]) -> Result<(), StoreError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.handle.write(1 << 20, |transaction| {
            let mut writer = Writer::open(transaction)?;
            ids.iter().try_for_each(|id| writer.remove(*id))?;
            // The last ones may have been removed, and no place is used twice.
            record::set_number(transaction, database::META_NEXT_PLACE, writer.next)
        })
    }
}

pub(super) struct Tables<P, S> {
    places: P,
    metas: S,
    bodies: S,
}

type ReadTables = Tables<ReadOnlyTable<u64, u64>, ReadOnlyTable<u64, Sealed>>;

impl ReadTables {
    fn open(transaction: &ReadTransaction) -> Result<Self, Fault> {
        Ok(Self {
            places: transaction.open_table(database::DETAIL_PLACES)?,
            metas: transaction.open_table(database::DETAIL_META)?,
            bodies: transaction.open_table(database::DETAILS)?,
        })
    }
}

impl<P: ReadableTable<u64, u64>, S: ReadableTable<u64, Sealed>> Tables<P, S> {
    /// Where a detail lies; `None` when it was never fetched.
    fn place(&self, id: ListingId) -> Result<Option<u64>, Fault> {
        Ok(self.places.get(id.0)?.map(|place| place.value()))
    }

    fn meta(&self, id: ListingId, place: u64) -> Result<DetailMeta, Fault> {
        let value = self.metas.get(place)?.ok_or_else(|| damaged(META, "key"))?;
        let (found, sealed) = split(value.value())?;
        if found == id { Ok(DetailMeta::decode(id, sealed)?) } else { Err(damaged(META, "id").into()) }
    }

    /// The metadata at a place, if there is one; damaged metadata counts as absent.
    fn known(&self, id: ListingId, place: Option<u64>) -> Result<Option<DetailMeta>, Fault> {
        match place.map(|place| self.meta(id, place)).transpose() {
            Err(Fault::Store(StoreError::Damaged(_))) => Ok(None),
            meta => meta,
        }
    }

    fn detail(&self, id: ListingId, place: u64) -> Result<DetailRecord, Fault> {
        let meta = self.meta(id, place)?;
        let sealed = self.bodies.get(place)?.ok_or_else(|| damaged(BODY, "key"))?;
        Ok(DetailRecord { meta, body: decode_body(id, sealed.value())? })
    }
}

pub(super) struct Writer<'t> {
    tables: Tables<Table<'t, u64, u64>, Table<'t, u64, Sealed>>,
    /// The place that the next new or changed detail gets.
    next: u64,
}

impl<'t> Writer<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, Fault> {
        let metas = transaction.open_table(database::DETAIL_META)?;
        let next = positions::next(&metas, &transaction.open_table(database::META)?)?;
        let places = transaction.open_table(database::DETAIL_PLACES)?;
        Ok(Self { tables: Tables { places, metas, bodies: transaction.open_table(database::DETAILS)? }, next })
    }

    /// Writes a detail as it is encoded: at the place where it stays, or else at the next one.
    pub(super) fn put(&mut self, id: ListingId, stays: Option<u64>, meta: &[u8], body: &[u8]) -> Result<(), Fault> {
        let place = stays.unwrap_or(self.next);
        if stays.is_none() {
            self.next = place.checked_add(1).ok_or_else(|| damaged(META, "key"))?;
            let left = self.tables.places.insert(id.0, place)?.map(|left| left.value());
            self.clear(left)?;
        }
        self.tables.metas.insert(place, [&id.0.to_le_bytes(), meta].concat().as_slice())?;
        self.tables.bodies.insert(place, body)?;
        Ok(())
    }

    fn remove(&mut self, id: ListingId) -> Result<(), Fault> {
        let left = self.tables.places.remove(id.0)?.map(|left| left.value());
        self.clear(left)
    }

    /// Removes what lies at a place.
    fn clear(&mut self, place: Option<u64>) -> Result<(), Fault> {
        if let Some(place) = place {
            self.tables.metas.remove(place)?;
            self.tables.bodies.remove(place)?;
        }
        Ok(())
    }
}

/// The id and the encoded metadata of a value of [`database::DETAIL_META`].
pub(super) fn split(value: &[u8]) -> Result<(ListingId, &[u8]), StoreError> {
    let (id, sealed) = value.split_first_chunk().ok_or_else(|| damaged(META, "length"))?;
    Ok((ListingId(u64::from_le_bytes(*id)), sealed))
}

/// Details that are read ahead at most, in one transaction: one that stays keeps the pages that writers free.
const PIECE: usize = 4096;
/// Bytes that are read ahead at most, and one detail: 48 MiB at worst ([`MAX_BODY`]). The others are read when it is their
/// turn.
const AHEAD: usize = 16 << 20;

/// Details in turn, and the error of each that cannot be read. `None`: it was never fetched.
pub(crate) struct InTurn<'a> {
    store: &'a Store,
    left: &'a [ListingId],
    piece: std::vec::IntoIter<(ListingId, Ahead)>,
}

/// What was read ahead of one detail; outer `None`: it is read when it is its turn.
type Ahead = Option<Option<DetailRecord>>;

impl Store {
    /// Details with their metadata, in the order of the ids.
    pub(crate) fn details_in_turn<'a>(&'a self, ids: &'a [ListingId]) -> InTurn<'a> {
        InTurn { store: self, left: ids, piece: Vec::new().into_iter() }
    }
}

impl InTurn<'_> {
    /// Reads ahead: nothing if one of them cannot be read.
    fn read_ahead(&mut self) {
        let (ids, left) = self.left.split_at(self.left.len().min(PIECE));
        self.left = left;
        let nothing = || ids.iter().map(|id| (*id, None)).collect::<Vec<_>>();
        let read = self.store.handle.read(|transaction| {
            let tables = ReadTables::open(transaction)?;
            let (mut read, mut bytes) = (nothing(), 0);
            let places = ids.iter().zip(0..).map(|(id, n)| Ok((tables.place(*id)?, *id, n)));
            let mut places = places.collect::<Result<Vec<(Option<u64>, ListingId, usize)>, Fault>>()?;
            places.sort_unstable();
            for (place, id, n) in places {
                let found = place.map(|place| tables.detail(id, place)).transpose()?;
                bytes += found.as_ref().map_or(0, |record| record.body.len());
                read[n].1 = Some(found);
                if bytes > AHEAD {
                    break;
                }
            }
            Ok(read)
        });
        self.piece = read.unwrap_or_else(|_| nothing()).into_iter();
    }
}

impl Iterator for InTurn<'_> {
    type Item = (ListingId, Result<Option<DetailRecord>, StoreError>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.piece.len() == 0 && !self.left.is_empty() {
            self.read_ahead();
        }
        let (id, read) = self.piece.next()?;
        let read = read.map_or_else(|| self.store.detail(id), Ok);
        Some((id, read))
    }
}
