//! The kept snapshots, and which of them is current: the only module that changes this.
//!
//! The mirror refreshes the *newest* snapshot; clients get the *current* one. They differ only during a rollback: newer
//! snapshots then wait for the release. Every switch is one transaction with the snapshot, its certificate, the
//! rollback and the entry in the journal of `/changes.json`; it is durable before it is visible. A publication says on
//! which newest snapshot it was built. If an import has replaced that snapshot meanwhile, the mirror continues with the
//! imported one.
//!
//! Details belong to no snapshot: they stay as long as a kept snapshot lists them. The origin's lists for terms (the
//! *evidence*) belong to a snapshot. A snapshot that is replaced as the newest keeps its own: they are stored with it,
//! and go into its bundles. Each switch and each export marks the place of that moment in the order in which details
//! change, so that a delta, and a copy elsewhere, can be given what has changed since.
//!
//! | question | file |
//! |---|---|
//! | what is restored at the start, and how is a kept snapshot found | `restore` |
//! | what is kept, and until when; pins, the rollback, repairs | `keeping` |
//! | what does a switch add to the journal | `changes` |
//! | what does a copy elsewhere lack | `places` |
//! | which earlier snapshots are in memory | [`earlier`] |
//! | how is a bundle, or a link of a chain, written | [`export`] |
//! | how does a bundle become the newest snapshot | [`import`] |
//! | where does a replica stand, and how does it take the bundles of a head | [`follow`] |
//!
//! [`crate::mirror`] decides what may be published. All calls but the look-ups block. Callers: [`crate::mirror`]
//! publishes, [`crate::admin`] rolls back, pins and imports, [`crate::answer`] looks kept snapshots up.

mod changes;
pub(crate) mod earlier;
pub(crate) mod export;
pub(crate) mod follow;
pub(crate) mod import;
mod keeping;
mod places;
mod restore;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};

use crate::api::hash::Digest;
use crate::clock::{Clock, WallTime};
use crate::config::Settings;
use crate::semantics::freshness;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::{Dataset, DatasetError};
use crate::snapshot::journal::Journal;
use crate::snapshot::membership::Evidence;
use crate::snapshot::meta::SnapshotMeta;
use crate::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::snapshot::verdicts::Verdicts;
use crate::store::{States, Store, StoreError, WrittenAlong};
use crate::telemetry::findings::{Finding, Kind};
use crate::words::short;

pub use import::{Imported, KnownDetails};
pub(crate) use import::{ORIGIN, SIZES};

use changes::Feed;
use earlier::EarlierSnapshots;
use keeping::Notes;

/// Retention policy: what is kept, and for how long.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `mirror.keep`, `mirror.keep_daily`; and `ttl`: older data is not fresh.
    pub settings: Settings,
    /// Whether this server has an origin. Then an import never replaces newer data by older data.
    pub has_origin: bool,
    /// The origin's addresses.
    pub origins: Vec<String>,
}

/// One kept snapshot, as shown in lists.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a mark of its own")]
pub struct KeptSnapshot {
    pub id: SnapshotId,
    /// Its sequence number: two snapshots of a store may have the same id, but not the same number.
    pub seq: u64,
    /// Number of listings.
    pub listings: u64,
    pub meta: SnapshotMeta,
    pub pinned: bool,
    /// Whether it is the base of one of the last exports.
    pub exported: bool,
    /// Whether it is the current snapshot.
    pub served: bool,
    pub newest: bool,
}

/// The kept snapshots of a store; cheap to clone.
#[derive(Clone)]
pub struct Snapshots(Arc<SnapshotsState>);

struct SnapshotsState {
    store: Arc<Store>,
    current: SnapshotPointer,
    newest: SnapshotPointer,
    clock: Clock,
    policy: Policy,
    /// The one lock for switches.
    notes: Mutex<Notes>,
    /// Held for a short time while a durable switch becomes visible, so that administrators see the state before or
    /// after it.
    showing: RwLock<()>,
    journal: ArcSwap<Journal>,
    kept: ArcSwap<Vec<KeptSnapshot>>,
    earlier: EarlierSnapshots,
    /// What requests mean at the origin.
    verdicts: Verdicts,
    /// Whether a rollback is in effect. A field of its own, so that readers need not wait for the lock of a switch.
    is_rolled_back: AtomicBool,
    /// The snapshots that are being exported: they are kept meanwhile.
    exporting: Mutex<Vec<u64>>,
    /// The snapshot that the next delta of a chain builds on, and the digest of the last bundle: both are kept.
    chained: Mutex<Option<(SnapshotId, Digest)>>,
    /// By sequence number, what [`Snapshots::bytes_of`] found: a snapshot never changes.
    sizes: Mutex<HashMap<u64, u64>>,
}

/// A rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The current snapshot.
    pub served: SnapshotId,
    /// The newest snapshot.
    pub newest: Option<SnapshotId>,
}

impl RolledBack {
    pub(crate) fn finding(&self) -> Finding {
        let newest = self.newest.as_ref().filter(|newest| **newest != self.served);
        let newest =
            newest.map_or_else(String::new, |newest| format!("; the newest one, {}, waits", short(newest.as_str())));
        let served = short(self.served.as_str());
        Finding::new(Kind::RolledBack, format!("a rollback is in effect: clients get snapshot {served}{newest}"))
    }
}

/// Why a command was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotsError {
    /// No such snapshot is kept.
    #[error(
        "no snapshot {id} is kept{}; `grandstand snapshot list` shows the kept ones{}",
        current_text(current.as_deref()),
        if SnapshotId::parse(id).is_some() { "" } else { "; the complete id is needed here" }
    )]
    Unknown {
        /// The requested id.
        id: String,
        /// The current snapshot.
        current: Option<String>,
    },
    /// Several are kept.
    #[error("{0} matches several kept snapshots; `grandstand snapshot list` shows them")]
    Ambiguous(String),
    /// No rollback is in effect.
    #[error("no rollback is in effect; the newest snapshot is already current")]
    NotRolledBack,
    /// The newest snapshot has changed meanwhile.
    #[error("another snapshot was imported meanwhile")]
    Moved,
    /// The import is older than the data from the origin.
    #[error(
        "the bundle's snapshot {bundle} was confirmed at {bundle_confirmed}, but the mirror already has {newest}, \
         confirmed at {newest_confirmed}; to go back to a kept snapshot, use `grandstand snapshot rollback`"
    )]
    Backwards {
        /// The bundle's snapshot.
        bundle: String,
        bundle_confirmed: String,
        /// The mirror's newest snapshot.
        newest: String,
        newest_confirmed: String,
    },
    /// The import is older than an earlier import.
    #[error(
        "the bundle's snapshot {bundle} was confirmed at {bundle_confirmed}, but newer data, confirmed at {highest}, was \
         imported before; to import it anyway, use `grandstand bundle import --allow-older`"
    )]
    Older {
        /// The bundle's snapshot.
        bundle: String,
        bundle_confirmed: String,
        /// The latest confirmed instant of all imports.
        highest: String,
    },
    /// The import comes from another origin.
    #[error(
        "the bundle's data comes from {theirs}, but this mirror's data from {ours}. If both are the same origin, add {theirs} \
         to origin.aliases. If not, use another data directory"
    )]
    Foreign {
        /// The bundle's origin.
        theirs: String,
        /// The mirror's.
        ours: String,
    },
    /// The store fails.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// A kept snapshot cannot be served.
    #[error("the snapshot cannot be used: {0}")]
    Dataset(#[from] DatasetError),
}

fn current_text(current: Option<&str>) -> String {
    current.map_or_else(String::new, |current| format!(" (current: {current})"))
}

/// The instant for which stored data counts as confirmed. A stamp from the future (the clock was set back, or was
/// ahead) is ignored: then the data is as old as its publication, or too old to be fresh.
fn believable(meta: &SnapshotMeta, now: WallTime, ttl: Duration) -> i64 {
    let past = |stamp: i64| !freshness::is_from_the_future(WallTime::from_millis(stamp), now);
    let known = [meta.confirmed_ms, meta.published_ms].into_iter().find(|stamp| past(*stamp));
    let long_ago = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).saturating_mul(3).saturating_add(1000);
    known.unwrap_or_else(|| now.as_millis().saturating_sub(long_ago)).min(now.as_millis())
}

impl Snapshots {
    /// The current snapshot.
    pub fn current(&self) -> &SnapshotPointer {
        &self.0.current
    }

    /// The newest snapshot.
    pub fn newest(&self) -> &SnapshotPointer {
        &self.0.newest
    }

    /// The store that all snapshots are in.
    pub fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    /// Which snapshots stay.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Every kept snapshot, the newest first.
    pub fn kept(&self) -> Arc<Vec<KeptSnapshot>> {
        let _whole = self.0.showing.read();
        self.0.kept.load_full()
    }

    /// The size of a kept snapshot in the store, in bytes, with what it shares with other snapshots, and without details.
    /// Reads all of it once.
    pub fn bytes_of(&self, kept: &KeptSnapshot) -> Result<u64, StoreError> {
        if let Some(bytes) = self.0.sizes.lock().get(&kept.seq) {
            return Ok(*bytes);
        }
        let bytes = self.0.store.bytes_of(kept.seq)?;
        self.0.sizes.lock().insert(kept.seq, bytes);
        Ok(bytes)
    }

    /// Earlier snapshots in memory, for clients that name one.
    pub fn earlier(&self) -> &EarlierSnapshots {
        &self.0.earlier
    }

    /// What requests mean at the origin.
    pub fn verdicts(&self) -> &Verdicts {
        &self.0.verdicts
    }

    /// The journal of changes.
    pub fn journal(&self) -> Arc<Journal> {
        self.0.journal.load_full()
    }

    /// Publishes a data set as the newest snapshot, together with `states`. `seen` is the epoch (the number of the
    /// switch) of the newest snapshot on which it builds; returns the next epoch. It becomes current unless a rollback
    /// is in effect. Fails if the newest snapshot has changed since `seen`.
    pub fn publish(
        &self,
        seen: u64,
        dataset: &Arc<Dataset>,
        meta: SnapshotMeta,
        states: States,
    ) -> Result<u64, SnapshotsError> {
        let mut notes = self.0.notes.lock();
        self.unless_moved(seen)?;
        let along = WrittenAlong { states, ..WrittenAlong::default() };
        self.put(&mut notes, dataset, meta, along, Feed::Own, &|| {})
    }

    /// Stores a data set as the newest snapshot, with further writes, and makes it current unless a rollback is in
    /// effect. `feed` says what goes into the journal. `committed` is called when it is durable but not yet visible.
    fn put(
        &self,
        notes: &mut Notes,
        dataset: &Arc<Dataset>,
        meta: SnapshotMeta,
        mut along: WrittenAlong<'_>,
        feed: Feed,
        committed: &dyn Fn(),
    ) -> Result<u64, SnapshotsError> {
        let mut next = notes.clone();
        if notes.rolled_back.is_some() && self.0.current.load().is_none() {
            tracing::warn!("the snapshot of the rollback is lost; the newest snapshot is current again");
            next.rolled_back = None;
            next.write_rollback(&mut along.states)?;
        }
        along.activate = next.rolled_back.is_none();
        self.keep_evidence(dataset, &mut along.states);
        let change = if along.activate { self.fed(feed, dataset, &mut along.states)? } else { None };
        let record = self.0.store.keep(&dataset.content, &meta, &along)?;
        committed();
        let served = if along.activate { Some(record.seq) } else { self.served() };
        let kept = self.list_or_say(&next, served);
        let shown = self.shown(meta);
        let _whole = self.0.showing.write();
        self.take(notes, next);
        self.set_kept(kept);
        let epoch = self.0.newest.swap(dataset.clone(), shown.clone(), record.seq);
        if along.activate {
            self.serve(dataset, shown, record.seq, change);
        }
        Ok(epoch)
    }

    /// Takes over the notes that were written.
    fn take(&self, notes: &mut Notes, written: Notes) {
        *notes = written;
        self.0.is_rolled_back.store(notes.rolled_back.is_some(), Ordering::Release);
    }

    /// The same, with a possible instant of confirmation if the stored one is in the future.
    fn shown(&self, meta: SnapshotMeta) -> SnapshotMeta {
        let confirmed = WallTime::from_millis(meta.confirmed_ms);
        if freshness::is_from_the_future(confirmed, self.0.clock.now_wall()) { self.believed(meta) } else { meta }
    }

    fn believed(&self, mut meta: SnapshotMeta) -> SnapshotMeta {
        let (now, stamp) = (self.0.clock.now_wall(), meta.confirmed_ms);
        meta.claimed_ms = freshness::is_from_the_future(WallTime::from_millis(stamp), now).then_some(stamp);
        meta.confirmed_ms = believable(&meta, now, self.0.policy.settings.load().ttl);
        meta
    }

    /// Makes a durable snapshot current; the one before stays in memory for clients that page through it.
    fn serve(&self, dataset: &Arc<Dataset>, meta: SnapshotMeta, seq: u64, change: Option<Journal>) {
        if let Some(was) = self.0.current.get() {
            self.0.earlier.replaced(was, dataset.id.as_str());
        }
        self.note(change);
        self.0.current.swap(dataset.clone(), meta, seq);
    }

    fn served(&self) -> Option<u64> {
        self.0.current.load().as_ref().map(|current| current.seq)
    }

    /// Renews the newest snapshot: another certificate, or a later confirmation.
    pub fn renew(&self, seen: u64, meta: SnapshotMeta) -> Result<u64, SnapshotsError> {
        let mut notes = self.0.notes.lock();
        self.unless_moved(seen)?;
        let Some(newest) = self.0.newest.get() else { return Err(SnapshotsError::Moved) };
        match self.0.store.update_meta(newest.seq, &meta, &States::default()) {
            // The snapshot was lost with a damaged part of the file.
            Err(StoreError::NoSuchSnapshot(_)) => {
                self.put(&mut notes, &newest.dataset, meta, WrittenAlong::default(), Feed::Own, &|| {})
            }
            updated => updated.map(|()| self.show(&newest.dataset, &meta, newest.seq)).map_err(SnapshotsError::from),
        }
    }

    /// Replaces the newest snapshot by the same data, indexed with more evidence, and stores the evidence. If it cannot
    /// be stored, the new index is in use nevertheless.
    pub fn reindexed(&self, seen: u64, dataset: &Arc<Dataset>, evidence: &Evidence) -> Result<u64, SnapshotsError> {
        let _switching = self.0.notes.lock();
        self.unless_moved(seen)?;
        let Some(newest) = self.0.newest.get() else { return Err(SnapshotsError::Moved) };
        let epoch = self.show(dataset, &newest.meta, newest.seq);
        let mut states = States::default();
        let stored = states.put_evidence(None, evidence).and_then(|()| self.0.store.put_states(&states));
        if let Err(error) = stored {
            tracing::warn!(%error, "the lists of ambiguous terms could not be stored");
        }
        Ok(epoch)
    }

    /// Replaces the newest snapshot in memory, and the current one if it has the same data.
    fn show(&self, dataset: &Arc<Dataset>, meta: &SnapshotMeta, seq: u64) -> u64 {
        let _whole = self.0.showing.write();
        let epoch = self.0.newest.swap(dataset.clone(), meta.clone(), seq);
        let served =
            self.0.current.load().as_ref().map(|current| (current.dataset.id == dataset.id).then_some(current.seq));
        match served {
            None => drop(self.0.current.swap(dataset.clone(), meta.clone(), seq)),
            Some(Some(served)) => drop(self.0.current.swap(dataset.clone(), meta.clone(), served)),
            Some(None) => {}
        }
        let mut kept = Vec::clone(&self.0.kept.load());
        if let Some(own) = kept.iter_mut().find(|own| own.seq == seq) {
            own.meta = meta.clone();
        }
        self.0.kept.store(Arc::new(kept));
        epoch
    }

    fn unless_moved(&self, seen: u64) -> Result<(), SnapshotsError> {
        if self.0.newest.epoch() == seen { Ok(()) } else { Err(SnapshotsError::Moved) }
    }

    /// Makes a kept snapshot current until [`Snapshots::release`].
    pub fn rollback(&self, id: &str) -> Result<RolledBack, SnapshotsError> {
        // Loaded before the lock, so that publication continues meanwhile.
        let target = self.load(id)?;
        let mut notes = self.0.notes.lock();
        // It may have been confirmed or indexed again meanwhile.
        let now = [&self.0.current, &self.0.newest].into_iter().filter_map(SnapshotPointer::get);
        let target = now.into_iter().find(|now| now.seq == target.seq).unwrap_or(target);
        let next = Notes { rolled_back: Some(target.seq), ..notes.clone() };
        self.activate(&mut notes, next, &target)?;
        let newest = self.0.newest.load().as_ref().map(|newest| newest.dataset.id.clone());
        tracing::warn!(served = %target.dataset.id, newest = newest.as_ref().map(tracing::field::display), "rolled back");
        Ok(RolledBack { served: target.dataset.id.clone(), newest })
    }

    /// Makes the newest snapshot current again.
    pub fn release(&self) -> Result<SnapshotId, SnapshotsError> {
        let mut notes = self.0.notes.lock();
        let newest =
            self.0.newest.get().filter(|_| notes.rolled_back.is_some()).ok_or(SnapshotsError::NotRolledBack)?;
        let next = Notes { rolled_back: None, ..notes.clone() };
        self.activate(&mut notes, next, &newest)?;
        tracing::warn!(served = %newest.dataset.id, "rollback ended");
        Ok(newest.dataset.id.clone())
    }

    fn activate(&self, notes: &mut Notes, next: Notes, target: &Snapshot) -> Result<(), SnapshotsError> {
        let mut states = States::default();
        next.write_rollback(&mut states)?;
        let change = self.fed(Feed::Own, &target.dataset, &mut states)?;
        self.0.store.activate(target.seq, &states).map_err(|error| match error {
            StoreError::NoSuchSnapshot(_) => self.unknown(target.dataset.id.as_str()),
            error => error.into(),
        })?;
        let kept = self.list_or_say(&next, Some(target.seq));
        let _whole = self.0.showing.write();
        self.take(notes, next);
        self.set_kept(kept);
        self.serve(&target.dataset, target.meta.clone(), target.seq, change);
        Ok(())
    }

    /// The kept snapshots, after a successful write; `None` if they cannot be listed.
    fn list_or_say(&self, notes: &Notes, served: Option<u64>) -> Option<Vec<KeptSnapshot>> {
        let listed = self.list(notes, served);
        listed.inspect_err(|error| tracing::error!(%error, "the kept snapshots cannot be listed")).ok()
    }

    /// Publishes the list of kept snapshots, if it could be read.
    fn set_kept(&self, kept: Option<Vec<KeptSnapshot>>) {
        let Some(kept) = kept else { return };
        self.0.sizes.lock().retain(|seq, _| kept.iter().any(|kept| kept.seq == *seq));
        self.0.kept.store(Arc::new(kept));
    }

    /// Reads which snapshots are kept.
    fn list(&self, notes: &Notes, served: Option<u64>) -> Result<Vec<KeptSnapshot>, StoreError> {
        let mut newest = true;
        let snapshots = match self.0.store.snapshots() {
            Err(error @ StoreError::Damaged(_)) => {
                tracing::error!(%error, "some kept snapshots cannot be listed");
                self.0.store.snapshots_left()?
            }
            snapshots => snapshots?,
        };
        let snapshots = snapshots.into_iter().rev().map(|(record, meta)| KeptSnapshot {
            pinned: notes.pins.contains(record.id.as_str()),
            exported: notes.exports.iter().any(|id| id == record.id.as_str()),
            served: served == Some(record.seq),
            newest: std::mem::take(&mut newest),
            id: record.id,
            seq: record.seq,
            listings: record.listings,
            meta,
        });
        Ok(snapshots.collect())
    }
}
