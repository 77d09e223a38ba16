//! Kept snapshots in memory, for clients that name one.
//!
//! A client that pages through a list can finish with its snapshot after a publication: the previous one stays in
//! memory while it is used. Another one is loaded on request, and takes its place. A load costs time and memory in
//! proportion to the list: there is one at a time, and a pause after it, whoever asks. It does not know where snapshots
//! are stored, nor which is current. Callers: [`super`] says what is kept, [`crate::answer`] looks snapshots up.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::snapshot::pointer::Snapshot;

/// The pause between two loads: so long a loaded snapshot has its place for sure.
const PAUSE: Duration = Duration::from_secs(10);
/// How long a client waits for a snapshot; loading continues.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a snapshot stays in memory after its last request.
const IDLE: Duration = Duration::from_secs(60);

/// Why a kept snapshot cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is not kept.
    Gone,
    /// Another one was loaded, or it takes long; it is worth another request after this time.
    Busy(Duration),
    /// It cannot be loaded; the log says why.
    Failed,
}

/// The result of a request for a snapshot.
type Outcome = Result<Arc<Snapshot>, Missing>;
type Landed = watch::Receiver<Option<Outcome>>;
type Load = dyn Fn(&str) -> Result<Arc<Snapshot>, String> + Send + Sync;

/// The snapshot in memory beside the current one, and the ids of all that may be; cheap to clone.
#[derive(Clone)]
pub struct LoadedSnapshots(Arc<SnapshotLoader>);

struct SnapshotLoader {
    load: Box<Load>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: HashSet<Box<str>>,
    /// The snapshot in memory, and its last request.
    loaded: Option<(Arc<Snapshot>, Instant)>,
    /// Whether a task waits to drop it.
    is_watched: bool,
    /// The snapshot that is loading.
    loading: Option<(Box<str>, Landed)>,
    /// The end of the pause after the last load.
    pause: Option<Instant>,
}

impl State {
    fn end_load(&mut self) {
        (self.loading, self.pause) = (None, Some(Instant::now() + PAUSE));
    }

    fn find(&self, id: &str) -> Option<&Arc<Snapshot>> {
        self.loaded.as_ref().map(|(loaded, _)| loaded).filter(|loaded| loaded.dataset.id.as_str() == id)
    }
}

impl LoadedSnapshots {
    /// `load` reads and indexes a snapshot and may block for seconds. Nothing is kept yet.
    pub fn new<E: Display>(load: impl Fn(&str) -> Result<Arc<Snapshot>, E> + Send + Sync + 'static) -> Self {
        let load = Box::new(move |id: &str| load(id).map_err(|error| error.to_string()));
        Self(Arc::new(SnapshotLoader { load, state: Mutex::default() }))
    }

    /// For where nothing is ever kept.
    pub fn none() -> Self {
        Self::new(|_| Err("nothing is kept"))
    }

    /// Sets the kept snapshots; another one is dropped.
    pub fn keep_only<'a>(&self, ids: impl IntoIterator<Item = &'a str>) {
        let kept = ids.into_iter().map(Box::from).collect();
        let mut state = self.0.state.lock();
        state.kept = kept;
        let State { kept, loaded, .. } = &mut *state;
        // Dropping a snapshot takes a while: never under the lock, here and below.
        let gone = loaded.take_if(|(loaded, _)| !kept.contains(loaded.dataset.id.as_str()));
        drop(state);
        drop(gone);
    }

    /// Records a switch: the previous snapshot stays in memory if it is kept, and the current one need not.
    pub fn switched(&self, was: Arc<Snapshot>, now: &str) {
        let mut state = self.0.state.lock();
        let id = was.dataset.id.as_str();
        let gone = if id != now && state.kept.contains(id) {
            state.loaded.replace((was, Instant::now()))
        } else {
            state.loaded.take_if(|(loaded, _)| loaded.dataset.id.as_str() == now)
        };
        drop(state);
        drop(gone);
        // The commands switch without a runtime, and end soon.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.clone().drop_when_idle());
        }
    }

    /// A kept snapshot, for a client. The store is never searched for snapshots that are not kept.
    pub async fn get(&self, id: &str) -> Outcome {
        let mut landed = match self.look_up(id) {
            Ok(outcome) => return outcome,
            Err(loading) => loading,
        };
        let landed = timeout(PATIENCE, landed.wait_for(Option::is_some)).await;
        match landed {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or(Err(Missing::Failed)),
            Ok(Err(_lost)) => Err(Missing::Failed),
            Err(_elapsed) => Err(Missing::Busy(PATIENCE)),
        }
    }

    /// A snapshot in memory.
    pub fn at_hand(&self, id: &str) -> Option<Arc<Snapshot>> {
        self.0.state.lock().find(id).cloned()
    }

    /// The result, or a channel for it. The first request starts the load in its own task, so that it continues if the
    /// client leaves.
    fn look_up(&self, id: &str) -> Result<Outcome, Landed> {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        if !state.kept.contains(id) {
            return Ok(Err(Missing::Gone));
        }
        if let Some((loaded, asked)) = &mut state.loaded
            && loaded.dataset.id.as_str() == id
        {
            *asked = now;
            return Ok(Ok(loaded.clone()));
        }
        match &state.loading {
            Some((loading, landed)) if **loading == *id => return Err(landed.clone()),
            Some(_) => return Ok(Err(Missing::Busy(PAUSE))),
            None => {}
        }
        if let Some(pause) = state.pause.filter(|pause| *pause > now) {
            return Ok(Err(Missing::Busy(pause - now)));
        }
        let (landing, landed) = watch::channel(None);
        state.loading = Some((id.into(), landed.clone()));
        drop(state);
        let (kept, id) = (self.clone(), Box::<str>::from(id));
        tokio::spawn(async move {
            let loader = kept.clone();
            let outcome = tokio::task::spawn_blocking(move || loader.load(&id)).await;
            kept.0.state.lock().end_load();
            // There may be no receiver any more.
            landing.send_replace(Some(outcome.unwrap_or(Err(Missing::Failed))));
            drop(landing);
            kept.drop_when_idle().await;
        });
        Err(landed)
    }

    fn load(&self, id: &str) -> Outcome {
        let mut state = self.0.state.lock();
        if let Some(found) = state.find(id) {
            return Ok(found.clone());
        }
        // Room is made first: there are never two in memory.
        let before = state.loaded.take();
        drop(state);
        drop(before);
        let loaded = (self.0.load)(id);
        let mut state = self.0.state.lock();
        // It may have been dropped meanwhile, or put at hand by a switch.
        if !state.kept.contains(id) {
            return Err(Missing::Gone);
        }
        if let Some(found) = state.find(id) {
            return Ok(found.clone());
        }
        let loaded = loaded.map_err(|error| {
            tracing::error!(error, snapshot = id, "a kept snapshot cannot be loaded");
            Missing::Failed
        })?;
        let before = state.loaded.replace((loaded.clone(), Instant::now()));
        drop(state);
        drop(before);
        Ok(loaded)
    }

    /// Drops the snapshot in memory after a while without requests.
    async fn drop_when_idle(self) {
        if std::mem::replace(&mut self.0.state.lock().is_watched, true) {
            return;
        }
        while let Some(asked) = self.last_request() {
            sleep_until(asked + IDLE).await;
            let gone = self.0.state.lock().loaded.take_if(|(_, at)| *at == asked);
            drop(gone);
        }
    }

    /// The last request for the snapshot in memory; `None`: there is none, and the watch ends.
    fn last_request(&self) -> Option<Instant> {
        let mut state = self.0.state.lock();
        let asked = state.loaded.as_ref().map(|(_, at)| *at);
        state.is_watched = asked.is_some();
        asked
    }
}

#[cfg(test)]
mod tests;
