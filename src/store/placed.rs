//! The tables of the details, and where each lies.
//!
//! A detail takes the next place when it first arrives, and keeps it until it is removed. So new details share the last
//! pages, whatever their ids. If they lay by id, each would rewrite two pages of its own. Callers: [`super::details`], [`super::in_turn`], [`super::heal`], [`super::migration`].

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, Table, WriteTransaction};

use super::coding::damaged;
use super::details::{BODY, DetailMeta, DetailRecord, META, decode_body};
use super::error::StoreError;
use super::fault::Fault;
use super::tables::{self, Sealed};
use crate::api::listing::ListingId;

/// The tables, for writing.
pub(super) struct Writer<'t> {
    places: Table<'t, u64, u64>,
    metas: Table<'t, u64, Sealed>,
    bodies: Table<'t, u64, Sealed>,
    /// The place that the next new detail gets.
    next: u64,
}

impl<'t> Writer<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, Fault> {
        let metas = transaction.open_table(tables::DETAIL_META)?;
        let last = metas.last()?.map(|(last, _)| last.value());
        let next = last.map_or(Some(0), |last| last.checked_add(1)).ok_or_else(|| damaged(META, "key"))?;
        let places = transaction.open_table(tables::DETAIL_PLACES)?;
        Ok(Self { places, metas, bodies: transaction.open_table(tables::DETAILS)?, next })
    }

    /// Where a detail lies; `None` when it was never fetched.
    pub(super) fn place(&self, id: ListingId) -> Result<Option<u64>, Fault> {
        Ok(self.places.get(id.0)?.map(|place| place.value()))
    }

    /// The metadata of the detail at a place; a damaged one counts as absent.
    pub(super) fn meta(&self, id: ListingId, place: u64) -> Result<Option<DetailMeta>, Fault> {
        let sealed = self.metas.get(place)?;
        Ok(sealed.and_then(|sealed| decode(id, sealed.value()).ok()))
    }

    /// Writes a detail as it is encoded.
    pub(super) fn put(&mut self, id: ListingId, meta: &[u8], body: &[u8]) -> Result<(), Fault> {
        let place = self.place(id)?;
        self.put_at(id, place, meta, body)
    }

    /// Writes a detail as it is encoded, at its place if it has one.
    pub(super) fn put_at(&mut self, id: ListingId, place: Option<u64>, meta: &[u8], body: &[u8]) -> Result<(), Fault> {
        let place = match place {
            Some(place) => place,
            None => self.take_place(id)?,
        };
        self.metas.insert(place, [&id.0.to_le_bytes(), meta].concat().as_slice())?;
        self.bodies.insert(place, body)?;
        Ok(())
    }

    fn take_place(&mut self, id: ListingId) -> Result<u64, Fault> {
        let place = self.next;
        self.places.insert(id.0, place)?;
        self.next = place.checked_add(1).ok_or_else(|| damaged(META, "key"))?;
        Ok(place)
    }

    pub(super) fn remove(&mut self, id: ListingId) -> Result<(), Fault> {
        let place = self.places.remove(id.0)?.map(|place| place.value());
        if let Some(place) = place {
            self.metas.remove(place)?;
            self.bodies.remove(place)?;
        }
        Ok(())
    }
}

/// The id and the encoded metadata of a value of [`tables::DETAIL_META`].
pub(super) fn split(value: &[u8]) -> Result<(ListingId, &[u8]), StoreError> {
    let (id, sealed) = value.split_first_chunk().ok_or_else(|| damaged(META, "length"))?;
    Ok((ListingId(u64::from_le_bytes(*id)), sealed))
}

fn decode(id: ListingId, value: &[u8]) -> Result<DetailMeta, StoreError> {
    let (found, sealed) = split(value)?;
    if found == id { DetailMeta::decode(id, sealed) } else { Err(damaged(META, "id")) }
}

/// The tables, for reading.
pub(super) struct Tables {
    places: ReadOnlyTable<u64, u64>,
    metas: ReadOnlyTable<u64, Sealed>,
    bodies: ReadOnlyTable<u64, Sealed>,
}

impl Tables {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, Fault> {
        Ok(Self {
            places: transaction.open_table(tables::DETAIL_PLACES)?,
            metas: transaction.open_table(tables::DETAIL_META)?,
            bodies: transaction.open_table(tables::DETAILS)?,
        })
    }

    /// Where a detail lies; `None` when it was never fetched.
    pub(super) fn place(&self, id: ListingId) -> Result<Option<u64>, Fault> {
        Ok(self.places.get(id.0)?.map(|place| place.value()))
    }

    pub(super) fn meta(&self, id: ListingId, place: u64) -> Result<DetailMeta, Fault> {
        let value = self.metas.get(place)?.ok_or_else(|| damaged(META, "key"))?;
        Ok(decode(id, value.value())?)
    }

    pub(super) fn detail(&self, id: ListingId, place: u64) -> Result<DetailRecord, Fault> {
        Ok(DetailRecord { meta: self.meta(id, place)?, body: self.body(id, place)? })
    }

    pub(super) fn body(&self, id: ListingId, place: u64) -> Result<Bytes, Fault> {
        let sealed = self.bodies.get(place)?.ok_or_else(|| damaged(BODY, "key"))?;
        Ok(decode_body(id, sealed.value())?)
    }
}
