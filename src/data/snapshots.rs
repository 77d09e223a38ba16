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
//! | what is kept, and until when; pins, exports, repairs | `retention` |
//! | what does a switch add to the journal | `changes` |
//! | what does a copy elsewhere lack | `checkpoints` |
//! | which earlier snapshots are in memory | [`earlier`] |
//! | how is a bundle, or a link of a chain, written | [`export`] |
//! | how does a bundle become the newest snapshot | [`import`] |
//! | where does a replica stand, and how does it take the bundles of a head | [`follow`] |
//!
//! There is one writer at a time, and one [`View`] for all readers: a writer makes the next view from the present one,
//! stores it, and then shows it as a whole.
//!
//! [`crate::mirror`] decides what may be published. All calls but the look-ups block. Callers: [`crate::mirror`]
//! publishes, [`crate::server::admin`] rolls back, pins and imports, [`crate::edge::answer`] looks kept snapshots up.

mod changes;
mod checkpoints;
pub(crate) mod earlier;
pub(crate) mod export;
pub(crate) mod follow;
pub(crate) mod import;
mod restore;
mod retention;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use parking_lot::{Mutex, MutexGuard};

use crate::api::hash::Digest;
use crate::clock::{Clock, WallTime};
use crate::config::Settings;
use crate::data::bundle::{BundleError, WriteError};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::{Dataset, DatasetError};
use crate::data::snapshot::journal::Journal;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;
pub use crate::data::snapshot::pointer::{KeptSnapshot, View};
use crate::data::snapshot::pointer::{Snapshot, SnapshotPointer};
use crate::data::snapshot::verdicts::Verdicts;
use crate::data::store::{States, Store, StoreError, WrittenAlong};
use crate::protocol::freshness;
use crate::telemetry::findings::{Finding, Kind};
use crate::words::short;

pub use import::Imported;
pub(crate) use import::{ORIGIN, SIZES};

use changes::Feed;
use earlier::EarlierSnapshots;

/// Retention policy: what is kept, and for how long.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `mirror.keep`; and `ttl`: older data is not fresh.
    pub settings: Settings,
    /// Whether this server has an origin. Then an import never replaces newer data by older data.
    pub has_origin: bool,
    pub origins: Vec<String>,
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
    /// The one lock of writers, who wait for the disk under it. Always taken before `reserved`.
    writer: Mutex<()>,
    /// Nobody waits for the disk under this lock: an export may end in a thread that must not block.
    reserved: Mutex<Reserved>,
    earlier: EarlierSnapshots,
    verdicts: Verdicts,
}

/// What is kept for others, until they have it.
#[derive(Clone, Default)]
struct Reserved {
    exporting: Vec<u64>,
    /// The snapshot that the next delta of a chain builds on, and the digest of the last bundle.
    chained: Option<(SnapshotId, Digest)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The current snapshot.
    pub served: SnapshotId,
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
    #[error("{0}")]
    Unknown(String),
    #[error("no rollback is in effect; the newest snapshot is already current")]
    NotRolledBack,
    #[error("another snapshot was imported meanwhile")]
    Moved,
    /// A bundle is invalid, its base is not kept, or it does not fit the data before it.
    #[error("{why}")]
    Bundle {
        /// Its place among several, from 0.
        at: usize,
        why: BundleError,
    },
    /// A bundle is not signed, or its signature was not verified. With the data directory.
    #[error(
        "only signed bundles are imported into {}, because its server or an earlier import had bundle.trusted_keys: name that \
         server's configuration with --config. To take unsigned ones again, start the server once without keys",
        .0.display()
    )]
    Unsigned(PathBuf),
    /// The command does not fit the data; with the reason, and what to do.
    #[error("{0}")]
    Refused(String),
    /// The store was repaired since the base of a delta was exported or published, or replaced by an older copy.
    #[error("no delta can be made: the data file was repaired meanwhile; export again")]
    Unfollowed,
    #[error(transparent)]
    Write(#[from] WriteError<StoreError>),
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    #[error("the snapshot cannot be used: {0}")]
    Dataset(#[from] DatasetError),
}

/// The instant for which stored data counts as confirmed. A stamp from the future (the clock was set back, or was
/// ahead) is ignored: then the data is as old as its publication, or too old to be fresh.
fn believable(meta: &SnapshotMeta, now: WallTime, ttl: Duration) -> i64 {
    let past = |stamp: i64| !freshness::is_from_the_future(WallTime::from_millis(stamp), now);
    let known = [meta.confirmed_ms, meta.published_ms].into_iter().find(|stamp| past(*stamp));
    let long_ago = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).saturating_mul(3).saturating_add(1000);
    known.unwrap_or_else(|| now.as_millis().saturating_sub(long_ago)).min(now.as_millis())
}

/// A change in the making, of the only writer: the next view, and what is written before it shows.
struct Change<'a, 'w> {
    view: View,
    along: WrittenAlong<'w>,
    _alone: MutexGuard<'a, ()>,
}

impl Snapshots {
    /// Without data before [`Snapshots::restore`]. `current`: what clients get.
    pub fn new(store: Arc<Store>, current: SnapshotPointer, policy: Policy, clock: Clock) -> Self {
        let newest = current.to_newest();
        let (writer, reserved, earlier, verdicts) = Default::default();
        Self(Arc::new(SnapshotsState { store, current, newest, clock, policy, writer, reserved, earlier, verdicts }))
    }

    pub fn current(&self) -> &SnapshotPointer {
        &self.0.current
    }

    pub fn newest(&self) -> &SnapshotPointer {
        &self.0.newest
    }

    pub fn view(&self) -> Guard<Arc<View>> {
        self.0.current.view()
    }

    /// The store that all snapshots are in.
    pub fn store(&self) -> &Arc<Store> {
        &self.0.store
    }

    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    pub fn earlier(&self) -> &EarlierSnapshots {
        &self.0.earlier
    }

    /// What requests mean at the origin.
    pub fn verdicts(&self) -> &Verdicts {
        &self.0.verdicts
    }

    pub fn journal(&self) -> Arc<Journal> {
        self.view().journal.clone()
    }

    pub fn rolled_back(&self) -> Option<RolledBack> {
        let view = self.view();
        let served = view.current.as_ref().filter(|_| view.rolled_back.is_some())?.dataset.id.clone();
        Some(RolledBack { served, newest: view.newest.as_ref().map(|newest| newest.dataset.id.clone()) })
    }

    /// Begins a change; other writers wait until it is shown or dropped.
    fn change<'w>(&self) -> Change<'_, 'w> {
        let alone = self.0.writer.lock();
        Change { view: View::clone(&self.view()), along: WrittenAlong::default(), _alone: alone }
    }

    /// Shows a change that is durable. A snapshot that was current until now stays in memory for clients that page through
    /// it.
    fn show(&self, change: Change<'_, '_>) {
        let (was, next) = (self.0.current.get(), change.view.current.clone());
        let replaced = was.zip(next).filter(|(was, next)| was.dataset.id != next.dataset.id);
        let next = replaced.map(|(was, next)| {
            // Before the next one shows: a client that names this one finds it at any time.
            self.0.earlier.will_be_replaced(was);
            next
        });
        self.0.current.show(change.view);
        if let Some(next) = next {
            self.0.earlier.shown(next.dataset.id.as_str());
        }
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
        let mut change = self.change();
        unless_moved(&change.view, seen)?;
        change.along.states = states;
        self.put(change, dataset, meta, Feed::Own, &|| {})
    }

    /// Stores a data set as the newest snapshot, with further writes, and makes it current unless a rollback is in
    /// effect. `feed` says what goes into the journal. `committed` is called when it is durable but not yet visible.
    fn put(
        &self,
        mut change: Change<'_, '_>,
        dataset: &Arc<Dataset>,
        meta: SnapshotMeta,
        feed: Feed,
        committed: &dyn Fn(),
    ) -> Result<u64, SnapshotsError> {
        let Change { view, along, .. } = &mut change;
        if view.rolled_back.is_some() && view.current.is_none() {
            tracing::warn!("the snapshot of the rollback is lost; the newest snapshot is current again");
            view.rolled_back = None;
            retention::write_rollback(view, &mut along.states)?;
        }
        along.activate = view.rolled_back.is_none();
        retention::keep_evidence(view, dataset, &mut along.states);
        if along.activate {
            self.feed(view, feed, dataset, &mut along.states)?;
        }
        // Durable, then the details in memory, then visible: a crash between loses nothing that a client has seen.
        let record = self.0.store.keep(&dataset.content, &meta, along)?;
        committed();
        view.kept.retain(|kept| kept.seq != record.seq);
        view.kept.insert(0, Arc::new(retention::kept(record, meta.clone())));
        let shown = view.snapshot(dataset.clone(), self.believed(meta), view.kept[0].seq);
        if along.activate {
            view.current = Some(shown.clone());
        }
        let epoch = shown.epoch;
        view.newest = Some(shown);
        self.show(change);
        Ok(epoch)
    }

    /// The metadata with a possible instant of confirmation, if the stored one is in the future.
    fn believed(&self, mut meta: SnapshotMeta) -> SnapshotMeta {
        let now = self.0.clock.now_wall();
        if freshness::is_from_the_future(WallTime::from_millis(meta.confirmed_ms), now) {
            meta.claimed_ms = Some(meta.confirmed_ms);
            meta.confirmed_ms = believable(&meta, now, self.0.policy.settings.load().ttl);
        }
        meta
    }

    /// Renews the newest snapshot: another certificate, or a later confirmation.
    pub fn renew(&self, seen: u64, meta: SnapshotMeta) -> Result<u64, SnapshotsError> {
        let change = self.change();
        let newest = unless_moved(&change.view, seen)?.ok_or(SnapshotsError::Moved)?;
        match self.0.store.update_meta(newest.seq, &meta, &States::default()) {
            // The snapshot was lost with a damaged part of the file.
            Err(StoreError::NoSuchSnapshot(_)) => self.put(change, &newest.dataset, meta, Feed::Own, &|| {}),
            updated => Ok(updated.map(|()| self.show_renewed(change, &newest, newest.dataset.clone(), meta))?),
        }
    }

    /// Replaces the newest snapshot by the same data, indexed with more evidence, and stores the evidence. If it cannot
    /// be stored, the new index is in use nevertheless.
    pub fn reindexed(&self, seen: u64, dataset: &Arc<Dataset>, evidence: &Evidence) -> Result<u64, SnapshotsError> {
        let mut change = self.change();
        let newest = unless_moved(&change.view, seen)?.ok_or(SnapshotsError::Moved)?;
        let states = &mut change.along.states;
        let stored = states.put_evidence(None, evidence).and_then(|()| self.0.store.put_states(states));
        if let Err(error) = stored {
            tracing::warn!(%error, "the lists of ambiguous terms could not be stored");
        }
        Ok(self.show_renewed(change, &newest, dataset.clone(), newest.meta.clone()))
    }

    /// Shows the newest snapshot with the same data, indexed again perhaps, and other metadata; as the current one, too, if
    /// that has the same data.
    fn show_renewed(
        &self,
        mut change: Change<'_, '_>,
        newest: &Snapshot,
        dataset: Arc<Dataset>,
        meta: SnapshotMeta,
    ) -> u64 {
        let view = &mut change.view;
        if let Some(own) = view.kept.iter_mut().find(|own| own.seq == newest.seq) {
            *own = Arc::new(KeptSnapshot { meta: meta.clone(), ..KeptSnapshot::clone(own) });
        }
        let shown = view.snapshot(dataset.clone(), meta.clone(), newest.seq);
        let epoch = shown.epoch;
        let current = view.current.as_ref().map(|current| (current.dataset.id == dataset.id, current.seq));
        match current {
            // The same data was stored twice.
            Some((true, seq)) if seq != newest.seq => view.current = Some(view.snapshot(dataset, meta, seq)),
            Some((false, _)) => {}
            _ => view.current = Some(shown.clone()),
        }
        view.newest = Some(shown);
        self.show(change);
        epoch
    }

    /// Makes a kept snapshot current until [`Snapshots::release`].
    pub fn rollback(&self, id: &str) -> Result<RolledBack, SnapshotsError> {
        // Loaded before the lock, so that publication continues meanwhile.
        let target = self.load(id)?;
        let mut change = self.change();
        // It may have been confirmed or indexed again meanwhile.
        let target = change.view.shown(|shown| shown.seq == target.seq).cloned().unwrap_or(target);
        change.view.rolled_back = Some(target.seq);
        let newest = change.view.newest.as_ref().map(|newest| newest.dataset.id.clone());
        self.activate(change, &target)?;
        tracing::warn!(served = %target.dataset.id, newest = newest.as_ref().map(tracing::field::display), "rolled back");
        Ok(RolledBack { served: target.dataset.id.clone(), newest })
    }

    pub fn release(&self) -> Result<SnapshotId, SnapshotsError> {
        let mut change = self.change();
        let is_rolled_back = change.view.rolled_back.take().is_some();
        let newest = change.view.newest.clone().filter(|_| is_rolled_back).ok_or(SnapshotsError::NotRolledBack)?;
        self.activate(change, &newest)?;
        tracing::warn!(served = %newest.dataset.id, "rollback ended");
        Ok(newest.dataset.id.clone())
    }

    fn activate(&self, mut change: Change<'_, '_>, target: &Snapshot) -> Result<(), SnapshotsError> {
        let Change { view, along: WrittenAlong { states, .. }, .. } = &mut change;
        retention::write_rollback(view, states)?;
        self.feed(view, Feed::Own, &target.dataset, states)?;
        // Durable before it shows, with the rollback and the journal: a restart serves what clients saw last.
        self.0.store.activate(target.seq, states).map_err(|error| match error {
            StoreError::NoSuchSnapshot(_) => self.unknown(target.dataset.id.as_str()),
            error => error.into(),
        })?;
        view.current = Some(view.snapshot(target.dataset.clone(), target.meta.clone(), target.seq));
        self.show(change);
        Ok(())
    }
}

/// The newest snapshot. Fails if it has changed since `seen`.
fn unless_moved(view: &View, seen: u64) -> Result<Option<Arc<Snapshot>>, SnapshotsError> {
    let newest = view.newest.clone();
    if newest.as_ref().map_or(0, |newest| newest.epoch) == seen { Ok(newest) } else { Err(SnapshotsError::Moved) }
}
