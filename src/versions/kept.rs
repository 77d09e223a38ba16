//! Kept versions in memory, for clients that name one: a few, loaded when somebody asks.
//!
//! Whoever pages through a list while another snapshot is published goes on with the one that it began with: what was
//! served until a moment ago is at hand, and older ones are read back. That costs time and memory in proportion to the
//! whole list. So they are read one at a time, each once for everybody who waits for it, and a household causes a few of
//! these loads only ([`allowance`]). Two stay in memory, those that most households use ([`usage`]); another one is there
//! while it is asked for and no other is loaded. It does not know where versions are stored, nor which is served.
//! Callers: [`super`] says what is kept, [`crate::serve`] looks versions up.

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

use crate::snapshot::live::Published;

use allowance::Allowances;
use usage::{ALL_CLIENTS, Usage};

/// Versions that stay in memory beside the served one.
const LOADED: usize = 2;
/// Different versions that are being loaded or wait for it.
const LOADING: usize = 4;
/// Those of them that one household waits for.
const LOADING_EACH: usize = 2;
/// How long a client waits for a version; it is loaded all the same.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a version that does not stay is in memory after it was last asked for.
const IDLE: Duration = Duration::from_secs(30);

/// Why a version is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is not kept, or not any more.
    Gone,
    /// Others are being loaded, or it takes long.
    Busy,
    /// It cannot be loaded; the log says why.
    Failed,
    /// The household caused many loads of late; it may cause the next one after this time.
    Spent(Duration),
}

/// What came of asking for a version.
type Outcome = Result<Arc<Published>, Missing>;
type Load = dyn Fn(&str) -> Result<Arc<Published>, String> + Send + Sync;

/// The loaded versions; cheap to clone.
#[derive(Clone)]
pub struct Kept(Arc<Inner>);

struct Inner {
    load: Box<Load>,
    state: Mutex<State>,
    /// One is loaded at a time: it takes all cores.
    turn: Semaphore,
}

#[derive(Default)]
struct State {
    /// What is kept, and who asked for it.
    kept: HashMap<Box<str>, Usage>,
    loaded: Vec<Arc<Published>>,
    /// The one that was loaded last, if it does not stay, and when it was last asked for.
    passing: Option<(Arc<Published>, Instant)>,
    /// Whether somebody waits to let that one go.
    is_watched: bool,
    /// What is being loaded or waits for its turn, and what comes of it.
    loading: HashMap<Box<str>, Loading>,
    allowances: Allowances,
}

struct Loading {
    landed: watch::Receiver<Option<Outcome>>,
    /// The household that asked first.
    household: IpAddr,
}

fn has_id(version: &Published, id: &str) -> bool {
    version.dataset.id.as_str() == id
}

impl State {
    fn find(&self, id: &str) -> Option<Arc<Published>> {
        let passing = self.passing.iter().map(|(passing, _)| passing);
        self.loaded.iter().chain(passing).find(|version| has_id(version, id)).cloned()
    }

    /// Remembers that a household asked for a kept version: the one that passes by may stay from now on.
    fn note(&mut self, id: &str, household: IpAddr, now: Instant) {
        if let Some(usage) = self.kept.get_mut(id) {
            usage.note(household, now);
        }
        let Some((passing, _)) = self.passing.take_if(|(passing, _)| has_id(passing, id)) else { return };
        self.passing = self.place(passing, household, now).map(|passing| (passing, now));
    }

    /// The version that goes first for one that a household asks for; `None`: there is room.
    fn first(&self, household: IpAddr, now: Instant) -> Option<usize> {
        let rank = |at: &usize| self.usage(&self.loaded[*at]).rank(household, now);
        (0..self.loaded.len()).min_by_key(rank).filter(|_| self.loaded.len() >= LOADED)
    }

    /// The version that goes for another one, if one does and there is no room without that.
    fn leaving(&self, id: &str, household: IpAddr, now: Instant) -> Option<usize> {
        let other = self.kept.get(id).cloned().unwrap_or_default();
        let first = self.first(household, now)?;
        self.usage(&self.loaded[first]).gives_way(&other, household, now).then_some(first)
    }

    fn usage(&self, version: &Published) -> Usage {
        self.kept.get(version.dataset.id.as_str()).cloned().unwrap_or_default()
    }

    /// Has a version stay if it may; what does not: this one or another.
    fn place(&mut self, version: Arc<Published>, household: IpAddr, now: Instant) -> Option<Arc<Published>> {
        if self.loaded.len() < LOADED {
            self.loaded.push(version);
            return None;
        }
        match self.leaving(version.dataset.id.as_str(), household, now) {
            Some(leaving) => Some(std::mem::replace(&mut self.loaded[leaving], version)),
            None => Some(version),
        }
    }

    /// Makes room for a version that a household asks for. What goes for it is returned, to be dropped without the lock:
    /// that takes a while.
    fn make_room(&mut self, id: &str, household: IpAddr, now: Instant) -> Vec<Arc<Published>> {
        let leaving = self.leaving(id, household, now).map(|leaving| self.loaded.swap_remove(leaving));
        leaving.into_iter().chain(self.passing.take().map(|(passing, _)| passing)).collect()
    }

    fn forget(&mut self, gone: impl Fn(&str) -> bool) -> Vec<Arc<Published>> {
        let gone = |version: &Published| gone(version.dataset.id.as_str());
        let passing = self.passing.take_if(|(passing, _)| gone(passing)).map(|(passing, _)| passing);
        self.loaded.extract_if(.., |loaded| gone(loaded)).chain(passing).collect()
    }
}

impl Kept {
    /// For versions that `load` reads and indexes, which may block for seconds. Nothing is kept yet.
    pub fn new<E: Display>(load: impl Fn(&str) -> Result<Arc<Published>, E> + Send + Sync + 'static) -> Self {
        let load = Box::new(move |id: &str| load(id).map_err(|error| error.to_string()));
        Self(Arc::new(Inner { load, state: Mutex::default(), turn: Semaphore::new(1) }))
    }

    /// For where nothing is ever kept.
    pub fn none() -> Self {
        Self::new(|_| Err("nothing is kept"))
    }

    /// Says which versions are kept from now on; the others are forgotten.
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

    /// Says that another version is served: the one that was is at hand if it is kept, and the one that is need not be.
    pub fn switched(&self, was: Arc<Published>, now: &str) {
        let (id, at) = (was.dataset.id.clone(), Instant::now());
        let mut state = self.0.state.lock();
        let mut gone = state.forget(|id| id == now);
        if id.as_str() != now && state.kept.contains_key(id.as_str()) {
            gone.extend(state.forget(|other| other == id.as_str()));
            state.note(id.as_str(), ALL_CLIENTS, at);
            // It stays, whatever the others are used for.
            let first = state.first(ALL_CLIENTS, at);
            gone.extend(first.map(|first| state.loaded.swap_remove(first)));
            state.loaded.push(was);
        }
        drop(state);
        drop(gone);
    }

    /// A kept version, for a client of a household.
    ///
    /// # Errors
    /// When it is not to be had. What is not kept is never looked for in the store.
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

    /// A version that is in memory.
    pub fn at_hand(&self, id: &str) -> Option<Arc<Published>> {
        self.0.state.lock().find(id)
    }

    /// What can be said at once, or else what will tell: whoever asks first has it loaded, by a task of its own, so that a
    /// client that leaves takes nobody with it.
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
            // Nobody may be waiting any more.
            landing.send_replace(Some(outcome));
            drop(landing);
            kept.see_off().await;
        });
        Err(landed)
    }

    /// Lets a version go that does not stay, once nobody has asked for it for a while.
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

    /// When the version that does not stay was last asked for; `None`: there is none, and nobody watches it any more.
    fn last_passing(&self) -> Option<Instant> {
        let mut state = self.0.state.lock();
        let asked = state.passing.as_ref().map(|(_, at)| *at);
        state.is_watched = asked.is_some();
        asked
    }

    /// Loads a version when its turn has come.
    async fn take_turn(&self, id: Box<str>, household: IpAddr) -> Outcome {
        let _turn = self.0.turn.acquire().await;
        let (kept, own) = (self.clone(), id.clone());
        let loaded = tokio::task::spawn_blocking(move || kept.load(&own, household)).await;
        self.0.state.lock().loading.remove(&id);
        loaded.unwrap_or(Err(Missing::Failed))
    }

    fn load(&self, id: &str, household: IpAddr) -> Outcome {
        let mut state = self.0.state.lock();
        // It may have been dropped meanwhile, or served.
        if !state.kept.contains_key(id) {
            return Err(Missing::Gone);
        }
        if let Some(found) = state.find(id) {
            return Ok(found);
        }
        // Room is made first: there is never more than one in memory beside those that stay.
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
