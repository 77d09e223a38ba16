//! Retention of kept snapshots: which stay, and until when. Pins, exports, the rollback; repairs.
//!
//! [`staying`] decides, [`Snapshots::tidy`] drops the others. Callers: [`crate::server::admin`] pins, [`super::export`]
//! exports, [`crate::mirror`] tidies after a publication.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::OnceLock;

use super::{Change, KeptSnapshot, Reserved, Snapshots, SnapshotsError, View};
use crate::config::MirrorConfig;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::data::store::{ChangePosition, Healed, MarkAt, SnapshotRecord, States, StoreError};

/// How many exports can be the base of a delta.
const EXPORTS: usize = 3;

const PINS: &str = "versions/pins";
const ROLLBACK: &str = "versions/rollback";
const EXPORTED: &str = "versions/exports";

/// Milliseconds in a day, which begins at 00:00 UTC.
const DAY_MS: i64 = 86_400_000;

/// The sequence numbers of the snapshots that stay: the newest ones, at least one, the last of each day, and needed ones. Of
/// several with the same content, the newest is enough.
fn staying(view: &View, reserved: &Reserved, policy: &MirrorConfig) -> Vec<u64> {
    let chained = reserved.chained.as_ref().map(|(snapshot, _)| snapshot.as_str());
    let is_named = |id: &str| view.pins.contains(id) || view.exports.iter().any(|own| own == id) || chained == Some(id);
    let (mut ids, mut days, mut staying) = (HashSet::new(), HashSet::new(), Vec::new());
    for kept in &view.kept {
        let is_first = ids.insert(&kept.id);
        let place = ids.len();
        let is_needed =
            view.is_current(kept) || reserved.exporting.contains(&kept.seq) || is_first && is_named(kept.id.as_str());
        let day = kept.meta.published_ms.div_euclid(DAY_MS);
        let is_last_of_day = is_first && days.len() < policy.keep_daily as usize && days.insert(day);
        if is_needed || is_last_of_day || is_first && place <= policy.keep.max(1) as usize {
            staying.push(kept.seq);
        }
    }
    staying
}

/// A stored snapshot, as readers see it.
pub(super) fn kept(record: SnapshotRecord, meta: SnapshotMeta) -> KeptSnapshot {
    KeptSnapshot { id: record.id, seq: record.seq, listings: record.listings, meta, bytes: OnceLock::new() }
}

/// Stores the evidence of the newest snapshot when another one replaces it: later lists of the origin do not apply to it.
pub(super) fn keep_evidence(view: &View, next: &Dataset, states: &mut States) {
    let Some(newest) = view.newest.as_ref().filter(|newest| newest.dataset.id != next.id) else { return };
    let evidence = newest.dataset.evidence();
    if evidence.is_empty() {
        return;
    }
    if let Err(error) = states.put_evidence(Some(newest.seq), &evidence) {
        tracing::warn!(%error, snapshot = %newest.dataset.id, "some terms of a kept snapshot are in doubt now");
    }
}

/// Adds the rollback to a write.
pub(super) fn write_rollback(view: &View, states: &mut States) -> Result<(), StoreError> {
    if let Some(seq) = view.rolled_back {
        return states.put_json(ROLLBACK, &seq);
    }
    states.remove(ROLLBACK);
    Ok(())
}

/// The name of the mark of an export.
pub(super) fn exported(snapshot: impl Display) -> String {
    format!("export/{snapshot}")
}

impl Snapshots {
    /// Reads pins, rollback and exports. Unreadable ones count as absent.
    pub(super) fn read_notes(&self, view: &mut View) -> Result<(), StoreError> {
        view.pins = self.0.store.state_json(PINS)?.unwrap_or_default();
        view.rolled_back = self.0.store.state_json(ROLLBACK)?;
        view.exports = self.0.store.state_json(EXPORTED)?.unwrap_or_default();
        Ok(())
    }

    /// Keeps a snapshot until it is unpinned.
    pub fn pin(&self, id: &str) -> Result<(), SnapshotsError> {
        let mut change = self.change();
        self.find(id)?;
        change.view.pins.insert(id.to_owned());
        self.write_pins(change)
    }

    /// Unpins a snapshot, so that normal retention applies again.
    pub fn unpin(&self, id: &str) -> Result<(), SnapshotsError> {
        let mut change = self.change();
        if !change.view.pins.remove(id) {
            self.find(id)?;
        }
        self.write_pins(change)
    }

    fn write_pins(&self, mut change: Change<'_, '_>) -> Result<(), SnapshotsError> {
        change.along.states.put_json(PINS, &change.view.pins)?;
        self.write(change)
    }

    /// Writes the states of a change, and shows it.
    fn write(&self, change: Change<'_, '_>) -> Result<(), SnapshotsError> {
        self.0.store.put_states(&change.along.states)?;
        self.show(change);
        Ok(())
    }

    /// Records that a snapshot was exported with all changes of details before a place, so that a delta can build on it.
    /// After several exports the first place counts: the receiver may have any of them.
    pub(super) fn remember_export(
        &self,
        id: &SnapshotId,
        base: Option<&SnapshotId>,
        place: Option<ChangePosition>,
    ) -> Result<(), SnapshotsError> {
        let mut change = self.change();
        // A delta needs a kept base.
        self.find(id.as_str())?;
        let (exports, states) = (&mut change.view.exports, &mut change.along.states);
        // A repair has lost the place of an earlier export: its receiver may lack anything.
        let is_lost = exports.iter().any(|own| own == id.as_str()) && self.0.store.mark(exported(id))?.is_none();
        states.mark(exported(id), MarkAt::Place(place.filter(|_| !is_lost)), id.clone());
        // The base of a delta counts as exported again.
        let again = base.filter(|base| exports.iter().any(|own| own == base.as_str()));
        for id in again.into_iter().chain([id]) {
            exports.retain(|other| other != id.as_str());
            exports.push(id.to_string());
        }
        exports.drain(..exports.len().saturating_sub(EXPORTS));
        states.put_json(EXPORTED, exports)?;
        self.write(change)
    }

    /// Repairs a damaged file, and writes the current snapshot to it.
    pub fn heal(&self) -> Result<Healed, StoreError> {
        // No switch meanwhile.
        let mut change = self.change();
        let view = &mut change.view;
        let current = view.current.as_ref().map(|served| (served.seq, &served.dataset.content, &served.meta));
        let healed = self.0.store.heal(current)?;
        // Notes that could not be read before may be readable now.
        let mut readable = View::default();
        self.read_notes(&mut readable)?;
        view.pins.append(&mut readable.pins);
        if view.exports.is_empty() {
            view.exports = readable.exports;
        }
        if let Err(error) = self.write_back(view) {
            tracing::error!(%error, "the record of pins, rollback and exports could not be stored");
        }
        if view.journal.is_empty() {
            view.journal = self.read_journal()?;
        }
        match self.read_kept() {
            Ok(kept) => view.kept = kept,
            Err(error) => tracing::error!(%error, "the kept snapshots cannot be listed"),
        }
        self.show(change);
        Ok(healed)
    }

    /// Writes notes that may have been lost, and the rollback if its snapshot was saved.
    fn write_back(&self, view: &View) -> Result<(), StoreError> {
        let mut states = States::default();
        states.put_json(PINS, &view.pins)?;
        states.put_json(EXPORTED, &view.exports)?;
        write_rollback(view, &mut states)?;
        // Details may be lost: a replica fetches all again.
        super::follow::forget_in(&mut states);
        match view.rolled_back.map(|seq| self.0.store.activate(seq, &states)) {
            None | Some(Err(StoreError::NoSuchSnapshot(_))) => self.0.store.put_states(&states),
            Some(activated) => activated,
        }
    }

    /// Drops snapshots and journal entries by the policy.
    pub fn tidy(&self) -> Result<(), StoreError> {
        let mut change = self.change();
        // An export that begins later has its snapshot in memory. If that is dropped here, only its record fails.
        let reserved = self.0.reserved.lock().clone();
        let staying = staying(&change.view, &reserved, &self.0.policy.settings.load().mirror);
        // `reserved` is free again: the collection waits for the disk.
        let dropped = self.0.store.collect_garbage(&staying)?;
        change.view.kept.retain(|kept| !dropped.contains(&kept.seq));
        let forgotten = self.forget_changes(&mut change);
        self.show(change);
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;

    /// These snapshots (their number, the day of their publication, whether they are pinned), oldest first.
    fn view(all: &[(u64, i64, bool)]) -> View {
        let id = |seq: u64| SnapshotId::parse(&format!("{seq:032x}")).unwrap();
        let kept = |&(seq, day, _): &(u64, i64, bool)| KeptSnapshot {
            id: id(seq),
            seq,
            listings: 0,
            meta: SnapshotMeta { published_ms: day * DAY_MS + seq.cast_signed(), ..SnapshotMeta::full(0) },
            bytes: OnceLock::new(),
        };
        let pins = all.iter().filter(|(.., pinned)| *pinned).map(|(seq, ..)| id(*seq).to_string()).collect();
        View { kept: all.iter().rev().map(|one| Arc::new(kept(one))).collect(), pins, ..View::default() }
    }

    fn staying_of(all: &[(u64, i64, bool)], keep: u32, keep_daily: u32) -> Vec<u64> {
        let mut policy = Config::default().mirror;
        (policy.keep, policy.keep_daily) = (keep, keep_daily);
        let mut staying = staying(&view(all), &Reserved::default(), &policy);
        staying.reverse();
        staying
    }

    #[test]
    fn the_newest_the_last_of_each_day_and_what_is_needed_stay() {
        let days = [0, 0, 1, 1, 1, 2, 4, 4, 4, 4].into_iter().zip(1..);
        let all: Vec<_> = days.map(|(day, seq)| (seq, day, seq == 1)).collect();
        let staying = |keep, keep_daily| staying_of(&all, keep, keep_daily);
        assert_eq!(staying(2, 0), [1, 9, 10]);
        assert_eq!(staying(0, 0), [1, 10], "one always stays");
        assert_eq!(staying(1, 3), [1, 5, 6, 10], "the last of days 4, 2 and 1");
        assert_eq!(staying(3, 9), [1, 2, 5, 6, 8, 9, 10]);
        assert_eq!(staying(99, 0).len(), 10);
        assert!(staying_of(&[], 1, 1).is_empty());
    }

    #[test]
    fn a_clock_that_was_set_back_drops_no_newer_snapshot() {
        let all = [(1, 9, false), (2, 9, false), (3, 5, false), (4, 5, false)];
        assert_eq!(staying_of(&all, 1, 2), [2, 4]);
    }
}
