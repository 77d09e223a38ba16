//! Maintenance of the data directory while the server runs: repairs a damaged store, notices when a disk is writable
//! again, writes the holder's id to the lock, and drops old changes.
//!
//! A thread of its own, because all of it blocks. Callers: [`super::serve`], [`super::core`] at the start.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::Use;
use crate::data::snapshots::Snapshots;
use crate::data::store::DataDir;
use crate::server::admin::status::Status;
use crate::tasks::threads::Periodic;

const INTERVAL: Duration = Duration::from_millis(500);
/// The pause after a repair: a failed one may fail again, and a successful one has rewritten everything.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Keeper {
    pub data_dir: DataDir,
    pub status: Arc<Status>,
}

impl Keeper {
    pub(crate) fn start(self) -> io::Result<Periodic> {
        let mut is_named = None;
        let mut tried: Option<Instant> = None;
        let work = move || {
            if is_named != Some(true) {
                is_named = Some(self.name(is_named.is_none()));
            }
            if let Some(budget) = self.status.budget() {
                budget.try_writing();
            }
            let Some(snapshots) = self.status.snapshots.as_ref() else { return };
            let store = snapshots.store();
            // A failure shows in `/status`.
            let _ = store.try_writing();
            let _ = snapshots.forget_old_changes();
            let may_try = tried.is_none_or(|at| at.elapsed() > PATIENCE);
            // Lost data can be fetched again.
            let heals = self.status.usage != Use::Offline;
            // On this thread, which is made for work that blocks: a repair reads the whole store.
            if may_try && heals && store.damage().is_some() {
                heal(snapshots);
                tried = Some(Instant::now());
            }
        };
        Periodic::start("keeper", INTERVAL, work)
    }

    fn name(&self, warns: bool) -> bool {
        let signed = self.data_dir.sign();
        if let Err(error) = &signed
            && warns
        {
            tracing::warn!(%error, "the id of this process could not be written into the lock of the data directory; trying again");
        }
        signed.is_ok()
    }
}

pub(crate) fn heal(snapshots: &Snapshots) {
    let store = snapshots.store();
    let detail = store.damage().unwrap_or_default();
    match snapshots.heal() {
        Ok(healed) => store.tell_repaired(healed.text(store.path(), &detail)),
        Err(error) => {
            tracing::debug!(%error, "the store could not be repaired yet");
            store.tell_unrepaired(error);
        }
    }
}
