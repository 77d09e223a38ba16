//! Restores the current and the newest snapshot at start.
//!
//! Callers: [`crate::app`] and the commands that work without a server.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

use super::changes::JOURNAL;
use super::loaded::LoadedSnapshots;
use super::notes::Notes;
use super::{Policy, Snapshots, SnapshotsError, SnapshotsState};
use crate::api::edges::lesson::Learned;
use crate::clock::{Clock, WallTime};
use crate::semantics::freshness;
use crate::snapshot::columns::{Names, Traits};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::edges::Edges;
use crate::snapshot::journal::{Entry, Journal};
use crate::snapshot::membership::Evidence;
use crate::snapshot::meta::SnapshotMeta;
use crate::snapshot::pointer::SnapshotPointer;
use crate::store::{LEARNED, SnapshotRecord, States, Store, StoreError};

impl Snapshots {
    /// The snapshots of a store. Nothing is served before [`Snapshots::restore`].
    pub fn new(store: Arc<Store>, current: SnapshotPointer, policy: Policy, clock: Clock) -> Self {
        Self(Arc::new_cyclic(|own: &Weak<SnapshotsState>| SnapshotsState {
            loaded: loaded(own.clone()),
            edges: Edges::default(),
            is_rolled_back: AtomicBool::default(),
            exporting: Mutex::default(),
            chained: Mutex::default(),
            store,
            current,
            newest: SnapshotPointer::default(),
            clock,
            policy,
            notes: Mutex::default(),
            journal: ArcSwap::default(),
            oldest: Mutex::default(),
            kept: ArcSwap::default(),
            showing: RwLock::default(),
        }))
    }

    /// Reads back what was learned of the origin's answers to odd requests.
    fn read_learned(&self) {
        let learned = self.0.store.state_json::<Learned>(LEARNED).unwrap_or_else(|error| {
            tracing::warn!(%error, "what was learned of odd requests cannot be read");
            None
        });
        let is_usable = |learned: &Learned| {
            let checked = learned.check();
            checked.inspect_err(|why| tracing::warn!(why, "what was learned of odd requests cannot be used")).is_ok()
        };
        self.0.edges.set(learned.filter(is_usable).map(Arc::new));
    }

    /// Restores the snapshot that was current, and the newest one.
    ///
    /// # Errors
    /// When the current snapshot cannot be read. Other unreadable data counts as absent.
    pub fn restore(&self) -> Result<(), SnapshotsError> {
        let mut notes = self.0.notes.lock();
        self.take(&mut notes, Notes::read(&self.0.store)?);
        self.read_journal()?;
        self.read_learned();
        self.set_kept(Some(self.list(&notes, None)?));
        // Earlier snapshots are known even if this one is lost.
        let current = self.0.store.current()?;
        let served = current.as_ref().map(|(record, _)| record.seq);
        if notes.rolled_back.is_some() && notes.rolled_back != served {
            tracing::error!("the snapshot of the rollback is lost; the newest snapshot is current again");
            let read = Notes { rolled_back: None, ..notes.clone() };
            let mut states = States::default();
            read.write_rollback(&mut states)?;
            if let Err(error) = self.0.store.put_states(&states) {
                tracing::warn!(%error, "the end of the rollback could not be stored");
            }
            self.take(&mut notes, read);
        }
        if let Some(newest) = self.0.kept.load().first().filter(|newest| served != Some(newest.seq)) {
            // The mirror fetches it again if necessary.
            let read = self.0.store.snapshot(newest.seq);
            let read = read.and_then(|record| record.ok_or(StoreError::NoSuchSnapshot(newest.seq)));
            let built =
                read.map_err(SnapshotsError::from).and_then(|record| self.build(&record, &self.evidence(record.seq)));
            match built {
                Ok(dataset) => drop(self.0.newest.swap(dataset, self.believed(newest.meta.clone()), newest.seq)),
                Err(error) => tracing::error!(%error, snapshot = %newest.id, "the newest snapshot cannot be read"),
            }
            if let Some(newest) = self.0.newest.get().filter(|_| notes.rolled_back.is_none()) {
                // The note that it had to wait is lost.
                self.0.store.activate(newest.seq, &States::default())?;
                self.0.current.swap(newest.dataset.clone(), newest.meta.clone(), newest.seq);
                self.set_kept(Some(self.list(&notes, Some(newest.seq))?));
                return Ok(());
            }
        }
        let Some((record, meta)) = current else { return Ok(()) };
        let (dataset, meta) = (self.build(&record, &self.evidence(record.seq))?, self.believed(meta));
        tracing::info!(
            snapshot = %dataset.id,
            listings = dataset.len(),
            confirmed = %WallTime::from_millis(meta.confirmed_ms),
            rolled_back = notes.rolled_back,
            "serving the stored snapshot"
        );
        if self.0.newest.load().is_none() {
            self.0.newest.swap(dataset.clone(), meta.clone(), record.seq);
        }
        self.0.current.swap(dataset, meta, record.seq);
        self.set_kept(Some(self.list(&notes, Some(record.seq))?));
        Ok(())
    }

    /// Reads a snapshot and indexes it.
    pub(super) fn build(&self, record: &SnapshotRecord, evidence: &Evidence) -> Result<Arc<Dataset>, SnapshotsError> {
        let names = Arc::<Names>::default();
        let (content, traits) = self.0.store.load_and_read(record, |summaries| {
            let mut traits = vec![Traits::UNREAD; summaries.len()];
            names.read(summaries, &mut traits);
            traits
        })?;
        Ok(Arc::new(Dataset::of(content, names, traits, evidence)?))
    }

    /// The evidence for a snapshot.
    fn evidence(&self, seq: u64) -> Evidence {
        self.0.store.evidence_of(seq).unwrap_or_else(|error| {
            tracing::warn!(%error, "the stored lists of ambiguous terms cannot be read; a mirror fetches them again");
            Evidence::new()
        })
    }

    /// The same, with a possible instant of confirmation if the stored one is in the future.
    pub(super) fn shown(&self, meta: SnapshotMeta) -> SnapshotMeta {
        let confirmed = WallTime::from_millis(meta.confirmed_ms);
        if freshness::is_from_the_future(confirmed, self.0.clock.now_wall()) { self.believed(meta) } else { meta }
    }

    fn believed(&self, mut meta: SnapshotMeta) -> SnapshotMeta {
        let (now, stamp) = (self.0.clock.now_wall(), meta.confirmed_ms);
        meta.claimed_ms = freshness::is_from_the_future(WallTime::from_millis(stamp), now).then_some(stamp);
        meta.confirmed_ms = believable(&meta, now, self.0.policy.settings.load().ttl);
        meta
    }

    /// Reads the journal. Entries before a lost one are dropped.
    pub(super) fn read_journal(&self) -> Result<(), StoreError> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut oldest, mut next) = (0, None);
        let mut names: Vec<(u64, String)> = Vec::new();
        for (key, bytes) in self.0.store.states_of(JOURNAL)? {
            let Some(number) = key.strip_prefix(JOURNAL).and_then(|number| number.parse::<u64>().ok()) else {
                continue;
            };
            let entry = Entry::decode(&bytes)
                .inspect_err(
                    |error| tracing::warn!(key, %error, "a stored entry of the journal of changes cannot be read"),
                )
                .ok();
            let follows = entry.as_ref().is_some_and(|entry| entries.last().is_none_or(|last| last.to == entry.from));
            if !follows || next != Some(number) {
                (entries, oldest) = (Vec::new(), number + u64::from(entry.is_none()));
            }
            entries.extend(entry);
            next = Some(number + 1);
            names.push((number, key));
        }
        let mut useless = States::default();
        names.iter().filter(|(number, _)| *number < oldest).for_each(|(_, key)| useless.remove(key));
        if names.first().is_some_and(|(number, _)| *number < oldest)
            && let Err(error) = self.0.store.put_states(&useless)
        {
            tracing::warn!(%error, "old entries of the journal of changes could not be removed");
        }
        self.0.journal.store(Arc::new(Journal::new(entries)));
        *self.0.oldest.lock() = oldest;
        Ok(())
    }
}

/// Kept snapshots, loaded through [`Snapshots`] while that exists.
fn loaded(snapshots: Weak<SnapshotsState>) -> LoadedSnapshots {
    LoadedSnapshots::new(move |id| match snapshots.upgrade() {
        Some(inner) => Snapshots(inner).load(id),
        None => Err(SnapshotsError::Unknown { id: id.to_owned(), current: None }),
    })
}

/// The instant for which stored data counts as confirmed. A stamp from the future (the clock was set back, or was
/// ahead) is ignored: then the data is as old as its publication, or too old to be fresh.
fn believable(meta: &SnapshotMeta, now: WallTime, ttl: std::time::Duration) -> i64 {
    let past = |stamp: i64| !freshness::is_from_the_future(WallTime::from_millis(stamp), now);
    let known = [meta.confirmed_ms, meta.published_ms].into_iter().find(|stamp| past(*stamp));
    let long_ago = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).saturating_mul(3).saturating_add(1000);
    known.unwrap_or_else(|| now.as_millis().saturating_sub(long_ago)).min(now.as_millis())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stamp_from_the_future_confirms_nothing() {
        let ttl = Duration::from_secs(300);
        let now = WallTime::from_seconds(1_000_000);
        let meta = |confirmed: i64, published: i64| SnapshotMeta {
            published_ms: published * 1000,
            ..SnapshotMeta::full(confirmed * 1000)
        };
        for (confirmed, published, age) in
            [(999_990, 999_000, 10), (1_000_003, 999_000, 0), (1_003_600, 999_000, 1000), (1_003_600, 1_003_500, 901)]
        {
            let believed = believable(&meta(confirmed, published), now, ttl);
            assert_eq!(now.seconds_since(WallTime::from_millis(believed)), age, "{confirmed} {published}");
        }
    }
}
