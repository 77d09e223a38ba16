//! Restores the current and the newest snapshot at start, and finds kept snapshots by id, in memory or in the store.
//!
//! Callers: [`crate::app`] restores; [`super`], [`crate::answer`] and [`crate::admin`] look up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

use super::earlier::EarlierSnapshots;
use super::keeping::Notes;
use super::{KeptSnapshot, Policy, RolledBack, Snapshots, SnapshotsError, SnapshotsState};
use crate::clock::{Clock, WallTime};
use crate::snapshot::columns::{Names, Traits};
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Evidence;
use crate::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::snapshot::verdicts::Verdicts;
use crate::snapshot::verdicts::table::Table;
use crate::store::{SnapshotRecord, States, Store, StoreError, VERDICTS, Verification};

impl Snapshots {
    /// The snapshots of a store. Nothing is served before [`Snapshots::restore`].
    pub fn new(store: Arc<Store>, current: SnapshotPointer, policy: Policy, clock: Clock) -> Self {
        Self(Arc::new(SnapshotsState {
            earlier: EarlierSnapshots::default(),
            verdicts: Verdicts::default(),
            is_rolled_back: AtomicBool::default(),
            exporting: Mutex::default(),
            chained: Mutex::default(),
            sizes: Mutex::default(),
            store,
            current,
            newest: SnapshotPointer::default(),
            clock,
            policy,
            notes: Mutex::default(),
            journal: ArcSwap::default(),
            kept: ArcSwap::default(),
            showing: RwLock::default(),
        }))
    }

    /// Reads back what requests mean at the origin.
    fn read_verdicts(&self) {
        let verdicts = self.0.store.state_json::<Table>(VERDICTS).unwrap_or_else(|error| {
            tracing::warn!(%error, "what requests mean at the origin cannot be read");
            None
        });
        self.0.verdicts.change(|table| *table = verdicts.unwrap_or_default());
    }

    /// Restores the snapshot that was current, and the newest one. Fails if the current snapshot cannot be read; other
    /// unreadable data counts as absent.
    pub fn restore(&self) -> Result<(), SnapshotsError> {
        let mut notes = self.0.notes.lock();
        self.take(&mut notes, Notes::read(&self.0.store)?);
        self.read_journal()?;
        self.read_verdicts();
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
}

impl Snapshots {
    /// Whether newer data waits for the end of a rollback: then the origin's answers do not fit the current snapshot.
    pub fn is_behind(&self) -> bool {
        let id = |current: &SnapshotPointer| current.load().as_ref().map(|current| current.dataset.id.clone());
        self.0.is_rolled_back.load(Ordering::Acquire) && id(&self.0.newest) != id(&self.0.current)
    }

    /// The rollback, if there is one.
    pub fn rolled_back(&self) -> Option<RolledBack> {
        if !self.0.is_rolled_back.load(Ordering::Acquire) {
            return None;
        }
        let _whole = self.0.showing.read();
        let served = self.0.current.load().as_ref().map(|current| current.dataset.id.clone())?;
        Some(RolledBack { served, newest: self.0.newest.load().as_ref().map(|newest| newest.dataset.id.clone()) })
    }

    /// The newest kept snapshot with that id.
    pub fn find(&self, id: &str) -> Result<KeptSnapshot, SnapshotsError> {
        let kept = self.0.kept.load();
        kept.iter().find(|kept| kept.id.as_str() == id).cloned().ok_or_else(|| self.unknown(id))
    }

    /// The id of the only kept snapshot with this prefix. Fails if there is none, or several.
    pub fn resolve(&self, beginning: &str) -> Result<SnapshotId, SnapshotsError> {
        let kept = self.0.kept.load();
        let mut ids = kept.iter().map(|kept| &kept.id).filter(|id| id.as_str().starts_with(beginning));
        let first = ids.next().filter(|_| !beginning.is_empty()).ok_or_else(|| self.unknown(beginning))?;
        match ids.find(|id| *id != first) {
            None => Ok(first.clone()),
            Some(_) => Err(SnapshotsError::Ambiguous(beginning.to_owned())),
        }
    }

    pub(super) fn unknown(&self, id: &str) -> SnapshotsError {
        let current = self.0.current.load().as_ref().map(|current| current.dataset.id.to_string());
        SnapshotsError::Unknown { id: id.to_owned(), current }
    }

    /// A kept snapshot, from memory, or read and indexed.
    pub fn load(&self, id: &str) -> Result<Arc<Snapshot>, SnapshotsError> {
        let loaded = [&self.0.current, &self.0.newest].into_iter().filter_map(SnapshotPointer::get);
        if let Some(loaded) = loaded.into_iter().find(|loaded| loaded.dataset.id.as_str() == id) {
            return Ok(loaded);
        }
        let KeptSnapshot { seq, meta, .. } = self.find(id)?;
        if let Some(loaded) = self.0.earlier.get(id).filter(|loaded| loaded.seq == seq) {
            return Ok(loaded);
        }
        let record = self.0.store.snapshot(seq)?.ok_or_else(|| self.unknown(id))?;
        let dataset = self.build(&record, &self.0.store.evidence_of(seq)?).map_err(|error| match error {
            SnapshotsError::Store(StoreError::NoSuchSnapshot(_)) => self.unknown(id),
            error => error,
        })?;
        Ok(Arc::new(Snapshot::new(dataset, self.shown(meta), seq, 0)))
    }

    /// Compares every block of a kept snapshot and every detail with its hash, and the content with its id.
    pub fn verify(&self, seq: u64) -> Result<(), StoreError> {
        Verification::of(&self.0.store).check(seq)
    }

    /// The same for all kept snapshots, the newest first, and what is damaged of each. Details that several have are
    /// read once.
    pub fn verify_all(&self) -> Result<Vec<(KeptSnapshot, Option<String>)>, StoreError> {
        let mut verification = Verification::of(&self.0.store);
        let mut found = Vec::new();
        for kept in self.kept().iter().cloned() {
            match verification.check(kept.seq) {
                Ok(()) => found.push((kept, None)),
                Err(StoreError::Damaged(why)) => found.push((kept, Some(why))),
                // It was removed meanwhile.
                Err(StoreError::NoSuchSnapshot(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}
