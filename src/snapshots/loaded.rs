//! Kept snapshots in memory, for clients that name one; loaded on request.
//!
//! A client that pages through a list can finish with its snapshot after a publication: the previous one stays in
//! memory, and older ones are loaded. A load costs time and memory in proportion to the list. So one is loaded at a
//! time, once for all waiting clients, and a household may cause only a few loads ([`allowance`]). Two in all stay in
//! memory, by use ([`usage`]), and one more while it is used. It does not know where snapshots are stored, nor which is
//! current. Callers: [`super`] says what is kept, [`crate::answer`] looks snapshots up.

mod allowance;
mod usage;

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::snapshot::pointer::Snapshot;

use allowance::Allowances;
use usage::{ALL_CLIENTS, Usage};

/// Snapshots that stay in memory beside the current one.
const LOADED: usize = 2;
/// The most snapshots that are loading or queued.
const LOADING: usize = 4;
/// The most of them for one household.
const LOADING_EACH: usize = 2;
/// How long a client waits for a snapshot; loading continues.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an extra snapshot stays in memory after its last request.
const IDLE: Duration = Duration::from_secs(30);

/// Why a kept snapshot cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is not kept.
    Gone,
    /// Others are loading, or it takes long.
    Busy,
    /// It cannot be loaded; the log says why.
    Failed,
    /// The household caused many loads recently; the next one is allowed after this time.
    Spent(Duration),
}

/// The result of a request for a snapshot.
type Outcome = Result<Arc<Snapshot>, Missing>;
type Load = dyn Fn(&str) -> Result<Arc<Snapshot>, String> + Send + Sync;

/// The loaded snapshots; cheap to clone.
#[derive(Clone)]
pub struct LoadedSnapshots(Arc<SnapshotLoader>);

struct SnapshotLoader {
    load: Box<Load>,
    state: Mutex<State>,
    /// One load at a time: it takes all cores.
    turn: Semaphore,
}

#[derive(Default)]
struct State {
    /// The kept snapshots, and who requested them.
    kept: HashMap<Box<str>, Usage>,
    loaded: Vec<Arc<Snapshot>>,
    /// The extra snapshot, and its last request.
    passing: Option<(Arc<Snapshot>, Instant)>,
    /// Whether a task waits to drop the extra snapshot.
    is_watched: bool,
    /// Snapshots that are loading or queued.
    loading: HashMap<Box<str>, Loading>,
    allowances: Allowances,
}

struct Loading {
    landed: watch::Receiver<Option<Outcome>>,
    /// The household of the first request.
    household: IpAddr,
}

fn has_id(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.dataset.id.as_str() == id
}

impl State {
    fn find(&self, id: &str) -> Option<Arc<Snapshot>> {
        let passing = self.passing.iter().map(|(passing, _)| passing);
        self.loaded.iter().chain(passing).find(|snapshot| has_id(snapshot, id)).cloned()
    }

    /// Records the request of a household; the extra snapshot may become a staying one.
    fn note(&mut self, id: &str, household: IpAddr, now: Instant) {
        if let Some(usage) = self.kept.get_mut(id) {
            usage.note(household, now);
        }
        let Some((passing, _)) = self.passing.take_if(|(passing, _)| has_id(passing, id)) else { return };
        self.passing = self.place(passing, household, now).map(|passing| (passing, now));
    }

    /// The snapshot to drop first for a request of a household; `None`: there is room.
    fn first(&self, household: IpAddr, now: Instant) -> Option<usize> {
        let rank = |at: &usize| self.usage(&self.loaded[*at]).rank(household, now);
        (0..self.loaded.len()).min_by_key(rank).filter(|_| self.loaded.len() >= LOADED)
    }

    /// The snapshot to drop for another one, if necessary and allowed.
    fn leaving(&self, id: &str, household: IpAddr, now: Instant) -> Option<usize> {
        let other = self.kept.get(id).cloned().unwrap_or_default();
        let first = self.first(household, now)?;
        self.usage(&self.loaded[first]).gives_way(&other, household, now).then_some(first)
    }

    fn usage(&self, snapshot: &Snapshot) -> Usage {
        self.kept.get(snapshot.dataset.id.as_str()).cloned().unwrap_or_default()
    }

    /// Lets a snapshot stay if it may; returns the one that does not stay.
    fn place(&mut self, snapshot: Arc<Snapshot>, household: IpAddr, now: Instant) -> Option<Arc<Snapshot>> {
        if self.loaded.len() < LOADED {
            self.loaded.push(snapshot);
            return None;
        }
        match self.leaving(snapshot.dataset.id.as_str(), household, now) {
            Some(leaving) => Some(std::mem::replace(&mut self.loaded[leaving], snapshot)),
            None => Some(snapshot),
        }
    }

    /// Makes room for a snapshot. Returns the snapshots to drop, which takes a while, outside the lock.
    fn make_room(&mut self, id: &str, household: IpAddr, now: Instant) -> Vec<Arc<Snapshot>> {
        let leaving = self.leaving(id, household, now).map(|leaving| self.loaded.swap_remove(leaving));
        leaving.into_iter().chain(self.passing.take().map(|(passing, _)| passing)).collect()
    }

    fn forget(&mut self, gone: impl Fn(&str) -> bool) -> Vec<Arc<Snapshot>> {
        let gone = |snapshot: &Snapshot| gone(snapshot.dataset.id.as_str());
        let passing = self.passing.take_if(|(passing, _)| gone(passing)).map(|(passing, _)| passing);
        self.loaded.extract_if(.., |loaded| gone(loaded)).chain(passing).collect()
    }
}

impl LoadedSnapshots {
    /// `load` reads and indexes a snapshot and may block for seconds. Nothing is kept yet.
    pub fn new<E: Display>(load: impl Fn(&str) -> Result<Arc<Snapshot>, E> + Send + Sync + 'static) -> Self {
        let load = Box::new(move |id: &str| load(id).map_err(|error| error.to_string()));
        Self(Arc::new(SnapshotLoader { load, state: Mutex::default(), turn: Semaphore::new(1) }))
    }

    /// For where nothing is ever kept.
    pub fn none() -> Self {
        Self::new(|_| Err("nothing is kept"))
    }

    /// Sets the kept snapshots; others are dropped.
    pub fn keep_only<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        let mut state = self.0.state.lock();
        let mut known = std::mem::take(&mut state.kept);
        let kept = ids.into_iter().map(|id| (Box::from(id), known.remove(id).unwrap_or_default()));
        let kept: HashMap<Box<str>, Usage> = kept.collect();
        let gone = state.forget(|id| !kept.contains_key(id));
        state.kept = kept;
        drop(state);
        drop(gone);
    }

    /// Records a switch: the previous snapshot stays in memory if it is kept, and the current one need not.
    pub fn switched(&self, was: Arc<Snapshot>, now: &str) {
        let (id, at) = (was.dataset.id.clone(), Instant::now());
        let mut state = self.0.state.lock();
        let mut gone = state.forget(|id| id == now);
        if id.as_str() != now && state.kept.contains_key(id.as_str()) {
            gone.extend(state.forget(|other| other == id.as_str()));
            state.note(id.as_str(), ALL_CLIENTS, at);
            // It stays, however the others are used.
            let first = state.first(ALL_CLIENTS, at);
            gone.extend(first.map(|first| state.loaded.swap_remove(first)));
            state.loaded.push(was);
        }
        drop(state);
        drop(gone);
    }

    /// A kept snapshot, for a client of a household.
    ///
    /// # Errors
    /// When it cannot be used now. The store is never searched for snapshots that are not kept.
    pub async fn get(&self, id: &str, household: IpAddr) -> Outcome {
        let mut landed = match self.look_up(id, household) {
            Ok(outcome) => return outcome,
            Err(loading) => loading,
        };
        let landed = timeout(PATIENCE, landed.wait_for(Option::is_some)).await;
        match landed {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or(Err(Missing::Failed)),
            Ok(Err(_lost)) => Err(Missing::Failed),
            Err(_elapsed) => Err(Missing::Busy),
        }
    }

    /// A snapshot in memory.
    pub fn at_hand(&self, id: &str) -> Option<Arc<Snapshot>> {
        self.0.state.lock().find(id)
    }

    /// The result, or a channel for it. The first request starts the load in its own task, so that it continues if the
    /// client leaves.
    fn look_up(&self, id: &str, household: IpAddr) -> Result<Outcome, watch::Receiver<Option<Outcome>>> {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        if !state.kept.contains_key(id) {
            return Ok(Err(Missing::Gone));
        }
        state.note(id, household, now);
        if let Some(found) = state.find(id) {
            return Ok(Ok(found));
        }
        if let Some(loading) = state.loading.get(id) {
            return Err(loading.landed.clone());
        }
        let own = state.loading.values().filter(|loading| loading.household == household).count();
        if state.loading.len() >= LOADING || own >= LOADING_EACH {
            return Ok(Err(Missing::Busy));
        }
        if let Err(wait) = state.allowances.take(household, now) {
            return Ok(Err(Missing::Spent(wait)));
        }
        let (landing, landed) = watch::channel(None);
        state.loading.insert(id.into(), Loading { landed: landed.clone(), household });
        drop(state);
        let (kept, id) = (self.clone(), Box::<str>::from(id));
        tokio::spawn(async move {
            let outcome = kept.take_turn(id, household).await;
            // There may be no receiver any more.
            landing.send_replace(Some(outcome));
            drop(landing);
            kept.see_off().await;
        });
        Err(landed)
    }

    /// Drops the extra snapshot after a while without requests.
    async fn see_off(&self) {
        if std::mem::replace(&mut self.0.state.lock().is_watched, true) {
            return;
        }
        while let Some(asked) = self.last_passing() {
            sleep_until(asked + IDLE).await;
            let gone = self.0.state.lock().passing.take_if(|(_, at)| *at == asked);
            drop(gone);
        }
    }

    /// The last request for the extra snapshot; `None`: there is none, and the watch ends.
    fn last_passing(&self) -> Option<Instant> {
        let mut state = self.0.state.lock();
        let asked = state.passing.as_ref().map(|(_, at)| *at);
        state.is_watched = asked.is_some();
        asked
    }

    /// Loads a snapshot when its turn has come.
    async fn take_turn(&self, id: Box<str>, household: IpAddr) -> Outcome {
        let _turn = self.0.turn.acquire().await;
        let (kept, own) = (self.clone(), id.clone());
        let loaded = tokio::task::spawn_blocking(move || kept.load(&own, household)).await;
        self.0.state.lock().loading.remove(&id);
        loaded.unwrap_or(Err(Missing::Failed))
    }

    fn load(&self, id: &str, household: IpAddr) -> Outcome {
        let mut state = self.0.state.lock();
        // It may have been dropped meanwhile, or become current.
        if !state.kept.contains_key(id) {
            return Err(Missing::Gone);
        }
        if let Some(found) = state.find(id) {
            return Ok(found);
        }
        // Room is made first: there is never more than one extra snapshot in memory.
        let gone = state.make_room(id, household, Instant::now());
        drop(state);
        drop(gone);
        let loaded = (self.0.load)(id);
        let now = Instant::now();
        let mut state = self.0.state.lock();
        if !state.kept.contains_key(id) {
            return Err(Missing::Gone);
        }
        let loaded = loaded.map_err(|error| {
            tracing::error!(error, snapshot = id, "a kept snapshot cannot be loaded");
            Missing::Failed
        })?;
        let gone = state.forget(|other| other == id);
        let passing = state.place(loaded.clone(), household, now).map(|passing| (passing, now));
        let before = std::mem::replace(&mut state.passing, passing);
        drop(state);
        drop((gone, before));
        Ok(loaded)
    }
}

#[cfg(test)]
mod tests;
