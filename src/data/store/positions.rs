//! Change positions (*places*, for short) in the order in which details change, so that what has changed since an event is
//! known.
//!
//! The place of a moment is the one that the next new or changed detail gets. What happened then is a *mark*: a snapshot
//! became current, or the details of a bundle were listed or taken. It is written with what it marks. If the same happens
//! again, the earlier place stays: from there on nothing is missed.
//!
//! An *epoch* is the part of the order that one opening of the file has written. It has a random number, so a place that is
//! remembered outside of a transaction is not taken for another one after the file was replaced by an older copy of itself.
//! A repaired file has other places, no marks, and an epoch of its own. Callers: [`crate::data::snapshots`], through
//! [`Store`] and [`States`]; [`super::details`] gives places.

use std::fmt::Display;
use std::sync::atomic::Ordering;

use redb::{ReadTransaction, ReadableTable, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::coding::{self, damaged};
use super::database::{self, Sealed};
use super::error::{Fault, StoreError};
use super::{States, Store, details, record, state};
use crate::api::listing::ListingId;
use crate::data::snapshot::content::SnapshotId;

/// The names of all blobs of this file begin so.
const PLACES: &str = "places/";
const MARK: &str = "places/mark/";
const EPOCHS: &str = "places/epochs";

/// The last epochs are kept: 1 KiB, at 16 bytes each. A place of an earlier one is not known any more.
const MOST_EPOCHS: usize = 64;

/// When something happened, and so where a copy elsewhere stands that was made then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Details that arrived or changed later lie here and behind; `None`: at the beginning.
    pub place: Option<ChangePosition>,
    /// The snapshot that was current then, or is in the bundle.
    pub snapshot: SnapshotId,
}

/// A place as it can be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChangePosition {
    pub epoch: u64,
    pub place: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum MarkAt {
    /// The place after all details that are written in the same transaction.
    End,
    /// This place; `None`: the beginning. Of another file, or of this one before a repair: nothing is marked.
    Place(Option<ChangePosition>),
}

/// A mark that is written with something else.
#[derive(Clone, Debug)]
pub(super) struct NewMark {
    name: String,
    at: MarkAt,
    snapshot: SnapshotId,
}

impl States {
    /// Marks a place as well, unless the mark of that name is earlier.
    pub(crate) fn mark(&mut self, name: impl Display, at: MarkAt, snapshot: SnapshotId) {
        self.marks.push(NewMark { name: name.to_string(), at, snapshot });
    }

    /// Forgets a mark as well.
    pub(crate) fn remove_mark(&mut self, name: &str) {
        self.remove(&format!("{MARK}{name}"));
    }
}

/// `place u64, snapshot id`.
fn decode(bytes: &[u8]) -> Option<(u64, SnapshotId)> {
    let (place, snapshot) = bytes.split_first_chunk()?;
    let snapshot = SnapshotId::parse(std::str::from_utf8(snapshot).ok()?)?;
    Some((u64::from_le_bytes(*place), snapshot))
}

pub(super) fn write_marks(transaction: &WriteTransaction, marks: &[NewMark]) -> Result<(), Fault> {
    if marks.is_empty() {
        return Ok(());
    }
    let end = next(&transaction.open_table(database::DETAIL_META)?, &transaction.open_table(database::META)?)?;
    let mut states = transaction.open_table(database::STATE)?;
    for NewMark { name, at, snapshot } in marks {
        let place = match *at {
            MarkAt::End => end,
            MarkAt::Place(None) => 0,
            MarkAt::Place(Some(at)) if is_among(&epochs(&states)?, at, end) => at.place,
            MarkAt::Place(Some(_)) => continue,
        };
        let key = format!("{MARK}{name}");
        let known = states.get(key.as_str())?;
        let known = known.and_then(|sealed| decode(coding::unseal(state::TABLE, key.as_bytes(), sealed.value()).ok()?));
        if known.is_none_or(|(known, _)| place < known) {
            let mark = [&place.to_le_bytes(), snapshot.as_str().as_bytes()].concat();
            states.insert(key.as_str(), coding::seal(state::TABLE, key.as_bytes(), mark).as_slice())?;
        }
    }
    Ok(())
}

/// Whether a blob belongs to the places of its file.
pub(super) fn is_of_places(state: &str) -> bool {
    state.starts_with(PLACES)
}

/// The next place, by the tables [`database::DETAIL_META`] and [`database::META`].
pub(super) fn next(
    metas: &impl ReadableTable<u64, Sealed>,
    numbers: &impl ReadableTable<&'static str, Sealed>,
) -> Result<u64, Fault> {
    let last = metas.last()?.map(|(last, _)| last.value());
    let next = last.map_or(Some(0), |last| last.checked_add(1)).ok_or_else(|| damaged(details::META, "key"))?;
    let name = database::META_NEXT_PLACE;
    Ok(if numbers.get(name)?.is_some() { next.max(record::number(numbers, name)?) } else { next })
}

fn next_of(transaction: &ReadTransaction) -> Result<u64, Fault> {
    next(&transaction.open_table(database::DETAIL_META)?, &transaction.open_table(database::META)?)
}

/// The numbers of the epochs and the places at which they begin, the last one last.
fn epochs(states: &impl ReadableTable<&'static str, Sealed>) -> Result<Vec<ChangePosition>, Fault> {
    let Some(sealed) = states.get(EPOCHS)? else { return Ok(Vec::new()) };
    let (epochs, _) = coding::unseal(state::TABLE, EPOCHS.as_bytes(), sealed.value())?.as_chunks::<16>();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(epochs.iter().map(|both| ChangePosition { epoch: number(&both[..8]), place: number(&both[8..]) }).collect())
}

/// Whether a place is of these epochs, the last of which ends at `end`.
fn is_among(epochs: &[ChangePosition], at: ChangePosition, end: u64) -> bool {
    let own = epochs.iter().position(|one| one.epoch == at.epoch);
    own.is_some_and(|own| at.place <= epochs.get(own + 1).map_or(end, |next| next.place))
}

fn knows(transaction: &ReadTransaction, at: ChangePosition) -> Result<bool, Fault> {
    Ok(is_among(&epochs(&transaction.open_table(database::STATE)?)?, at, next_of(transaction)?))
}

/// Begins an epoch, unless it is the last one already.
pub(super) fn begin_epoch(transaction: &WriteTransaction, epoch: u64) -> Result<(), Fault> {
    let place = next(&transaction.open_table(database::DETAIL_META)?, &transaction.open_table(database::META)?)?;
    let mut states = transaction.open_table(database::STATE)?;
    let mut all = epochs(&states)?;
    if all.last().is_none_or(|last| last.epoch != epoch) {
        all.push(ChangePosition { epoch, place });
        let kept = &all[all.len().saturating_sub(MOST_EPOCHS)..];
        let bytes = kept.iter().flat_map(|one| [one.epoch.to_le_bytes(), one.place.to_le_bytes()]).flatten().collect();
        states.insert(EPOCHS, coding::seal(state::TABLE, EPOCHS.as_bytes(), bytes).as_slice())?;
    }
    Ok(())
}

impl Store {
    /// The listings whose details arrived or changed from a place on, or since the beginning, in this order, each once.
    /// Removed ones are not among them. `None`: the place is not of this file.
    pub(crate) fn details_since(&self, since: Option<ChangePosition>) -> Result<Option<Vec<ListingId>>, StoreError> {
        self.handle.read(|transaction| {
            let place = match since {
                Some(at) if !knows(transaction, at)? => return Ok(None),
                since => since.map_or(0, |at| at.place),
            };
            let metas = transaction.open_table(database::DETAIL_META)?;
            let ids = metas.range(place..)?.map(|entry| Ok(details::split(entry?.1.value())?.0));
            ids.collect::<Result<_, Fault>>().map(Some)
        })
    }

    /// The place of this moment; `None`: no detail has arrived since there are epochs.
    pub(crate) fn epoch_place(&self) -> Result<Option<ChangePosition>, StoreError> {
        self.handle.read(|transaction| {
            let Some(last) = epochs(&transaction.open_table(database::STATE)?)?.pop() else { return Ok(None) };
            Ok(Some(ChangePosition { place: next_of(transaction)?, ..last }))
        })
    }

    /// Whether a place that was remembered elsewhere is one of this file.
    pub(crate) fn knows_place(&self, remembered: ChangePosition) -> Result<bool, StoreError> {
        self.handle.read(|transaction| knows(transaction, remembered))
    }

    /// The mark of that name; `None` if there is none, or it is damaged.
    pub(crate) fn mark(&self, name: impl Display) -> Result<Option<Mark>, StoreError> {
        // Before the mark: no mark of a file before a repair gets an epoch from after it.
        let last = self.epoch_place()?;
        let mark = self.state_as(&format!("{MARK}{name}"), decode)?.flatten();
        Ok(mark.map(|(place, snapshot)| Mark { place: last.map(|last| ChangePosition { place, ..last }), snapshot }))
    }

    /// The names of all marks, with their places in this file and their snapshots.
    pub(crate) fn marks(&self) -> Result<Vec<(String, u64, SnapshotId)>, StoreError> {
        let named = |(key, bytes): (String, Vec<u8>)| {
            let (place, snapshot) = decode(&bytes)?;
            Some((key.strip_prefix(MARK)?.to_owned(), place, snapshot))
        };
        Ok(self.states_of(MARK)?.into_iter().filter_map(named).collect())
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// To be called while nothing is written.
    pub(super) fn begin_another_epoch(&self) {
        self.epoch.store(rand::random(), Ordering::Release);
    }
}
