//! Reads many details in any order: ahead, and in the order of the file, in which neighbours share a page. Each by itself
//! takes several times as long.
//!
//! Callers: [`crate::snapshots`], [`crate::mirror`] and the commands, through [`Store`]; [`super::verify`].

use bytes::Bytes;

use super::error::StoreError;
use super::fault::Fault;
use super::placed::Tables;
use super::{DetailRecord, Store};
use crate::api::listing::ListingId;

/// Details that are read ahead at most, in one transaction: one that stays keeps the pages that writers free.
const PIECE: usize = 4096;
/// Bytes that are read ahead at most, and one detail. The others are read when it is their turn.
const AHEAD: usize = 16 << 20;

/// Details in turn, and the error of each that cannot be read. `None`: it was never fetched.
pub(crate) struct InTurn<'a, T> {
    store: &'a Store,
    read: fn(&Tables, ListingId, u64) -> Result<T, Fault>,
    size: fn(&T) -> usize,
    left: &'a [ListingId],
    piece: std::vec::IntoIter<(ListingId, Ahead<T>)>,
}

/// What was read ahead of one detail.
enum Ahead<T> {
    Read(Option<T>),
    /// It is read when it is its turn.
    Nothing,
}

impl Store {
    /// Details with their metadata, in the order of the ids.
    pub(crate) fn details_in_turn<'a>(&'a self, ids: &'a [ListingId]) -> InTurn<'a, DetailRecord> {
        let size = |record: &DetailRecord| record.body.len();
        InTurn { store: self, read: Tables::detail, size, left: ids, piece: Vec::new().into_iter() }
    }

    /// Those of these details that are stored, in the order of the file.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub(super) fn in_file_order(&self, ids: &[ListingId]) -> Result<Vec<ListingId>, StoreError> {
        self.handle.read(|transaction| {
            let tables = Tables::open(transaction)?;
            let mut placed = Vec::with_capacity(ids.len());
            for id in ids {
                placed.extend(tables.place(*id)?.map(|place| (place, *id)));
            }
            placed.sort_unstable();
            Ok(placed.into_iter().map(|(_, id)| id).collect())
        })
    }

    /// The bodies alone; that of a detail which the origin does not have is empty.
    pub(crate) fn bodies_in_turn<'a>(&'a self, ids: &'a [ListingId]) -> InTurn<'a, Bytes> {
        InTurn { store: self, read: Tables::body, size: Bytes::len, left: ids, piece: Vec::new().into_iter() }
    }
}

impl<T> InTurn<'_, T> {
    /// Reads ahead: nothing if one of them cannot be read.
    fn read_ahead(&mut self) {
        let (ids, left) = self.left.split_at(self.left.len().min(PIECE));
        self.left = left;
        let nothing = || ids.iter().map(|id| (*id, Ahead::Nothing)).collect::<Vec<_>>();
        let read = self.store.handle.read(|transaction| {
            let tables = Tables::open(transaction)?;
            let (mut read, mut bytes) = (nothing(), 0);
            let places = ids.iter().zip(0..).map(|(id, n)| Ok((tables.place(*id)?, *id, n)));
            let mut places = places.collect::<Result<Vec<(Option<u64>, ListingId, usize)>, Fault>>()?;
            places.sort_unstable();
            for (place, id, n) in places {
                let found = place.map(|place| (self.read)(&tables, id, place)).transpose()?;
                bytes += found.as_ref().map_or(0, self.size);
                read[n].1 = Ahead::Read(found);
                if bytes > AHEAD {
                    break;
                }
            }
            Ok(read)
        });
        self.piece = read.unwrap_or_else(|_| nothing()).into_iter();
    }
}

impl<T> Iterator for InTurn<'_, T> {
    type Item = (ListingId, Result<Option<T>, StoreError>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.piece.len() == 0 {
            self.read_ahead();
        }
        let (id, read) = self.piece.next()?;
        let read = match read {
            Ahead::Read(found) => Ok(found),
            Ahead::Nothing => self.store.handle.read(|transaction| {
                let tables = Tables::open(transaction)?;
                tables.place(id)?.map(|place| (self.read)(&tables, id, place)).transpose()
            }),
        };
        Some((id, read))
    }
}
