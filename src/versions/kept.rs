//! Kept versions in memory, for clients that name one: a few, loaded when somebody asks.
//!
//! Whoever pages through a list while another snapshot is published goes on with the one that it began with: what was
//! served until a moment ago is at hand, and older ones are read back. That costs time and memory in proportion to the
//! whole list, so that they are read one at a time, each once whoever waits for it, and few stay. It does not know where
//! versions are stored, nor which is served. Callers: [`super`] says what is kept, [`crate::serve`] looks versions up.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::snapshot::live::Published;

/// Versions in memory beside the served one.
const LOADED: usize = 2;
/// Different versions that are being loaded or wait for it.
const LOADING: usize = 4;
/// How long a client waits for a version; it is loaded all the same.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a version is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is not kept, or not any more.
    Gone,
    /// Others are being loaded, or it takes long.
    Busy,
    /// It cannot be loaded; the log says why.
    Failed,
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
    kept: HashSet<Box<str>>,
    /// The one that was asked for last is last.
    loaded: Vec<Arc<Published>>,
    /// What is being loaded or waits for its turn, and what comes of it.
    loading: HashMap<Box<str>, watch::Receiver<Option<Outcome>>>,
}

impl State {
    fn find(&mut self, id: &str) -> Option<Arc<Published>> {
        let at = self.loaded.iter().position(|loaded| loaded.dataset.id.as_str() == id)?;
        self.loaded[at..].rotate_left(1);
        self.loaded.last().cloned()
    }

    /// Takes a version in. What has to go for it is returned, to be dropped without the lock: that takes a while.
    fn take_in(&mut self, version: Arc<Published>) -> Vec<Arc<Published>> {
        let mut gone = self.forget(version.dataset.id.as_str());
        gone.extend(self.leave(LOADED - 1));
        self.loaded.push(version);
        gone
    }

    fn forget(&mut self, id: &str) -> Vec<Arc<Published>> {
        self.loaded.extract_if(.., |loaded| loaded.dataset.id.as_str() == id).collect()
    }

    /// Leaves this many.
    fn leave(&mut self, count: usize) -> Vec<Arc<Published>> {
        self.loaded.drain(..self.loaded.len().saturating_sub(count)).collect()
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
        let kept: HashSet<Box<str>> = ids.into_iter().map(Box::from).collect();
        let mut state = self.0.state.lock();
        let gone: Vec<_> = state.loaded.extract_if(.., |loaded| !kept.contains(loaded.dataset.id.as_str())).collect();
        state.kept = kept;
        drop(state);
        drop(gone);
    }

    /// Says that another version is served: the one that was is at hand if it is kept, and the one that is need not be.
    pub fn switched(&self, was: Arc<Published>, now: &str) {
        let id = was.dataset.id.as_str();
        let mut state = self.0.state.lock();
        let mut gone = state.forget(now);
        if id != now && state.kept.contains(id) {
            gone.extend(state.take_in(was));
        }
        drop(state);
        drop(gone);
    }

    /// A kept version.
    ///
    /// # Errors
    /// When it is not to be had. What is not kept is never looked for in the store.
    pub async fn get(&self, id: &str) -> Outcome {
        let mut landed = match self.look_up(id) {
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
    fn look_up(&self, id: &str) -> Result<Outcome, watch::Receiver<Option<Outcome>>> {
        let mut state = self.0.state.lock();
        if !state.kept.contains(id) {
            return Ok(Err(Missing::Gone));
        }
        if let Some(found) = state.find(id) {
            return Ok(Ok(found));
        }
        if let Some(loading) = state.loading.get(id) {
            return Err(loading.clone());
        }
        if state.loading.len() >= LOADING {
            return Ok(Err(Missing::Busy));
        }
        let (landing, landed) = watch::channel(None);
        state.loading.insert(id.into(), landed.clone());
        drop(state);
        let (kept, id) = (self.clone(), Box::from(id));
        tokio::spawn(async move {
            let outcome = kept.take_turn(id).await;
            // Nobody may be waiting any more.
            landing.send_replace(Some(outcome));
        });
        Err(landed)
    }

    /// Loads a version when its turn has come.
    async fn take_turn(&self, id: Box<str>) -> Outcome {
        let _turn = self.0.turn.acquire().await;
        let (kept, own) = (self.clone(), id.clone());
        let loaded = tokio::task::spawn_blocking(move || kept.load(&own)).await;
        self.0.state.lock().loading.remove(&id);
        loaded.unwrap_or(Err(Missing::Failed))
    }

    fn load(&self, id: &str) -> Outcome {
        let mut state = self.0.state.lock();
        // It may have been dropped meanwhile, or served.
        if !state.kept.contains(id) {
            return Err(Missing::Gone);
        }
        if let Some(found) = state.find(id) {
            return Ok(found);
        }
        // Room is made first: there are never more in memory than there may be.
        let gone = state.leave(LOADED - 1);
        drop(state);
        drop(gone);
        let loaded = (self.0.load)(id);
        let mut state = self.0.state.lock();
        if !state.kept.contains(id) {
            return Err(Missing::Gone);
        }
        let loaded = loaded.map_err(|error| {
            tracing::error!(error, snapshot = id, "a kept snapshot cannot be loaded");
            Missing::Failed
        })?;
        let gone = state.take_in(loaded.clone());
        drop(state);
        drop(gone);
        Ok(loaded)
    }
}

#[cfg(test)]
mod tests;
