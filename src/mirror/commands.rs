//! Commands to the running mirror or replica, and how it receives them.
//!
//! Callers: [`crate::admin`], [`crate::audit`] and [`super::sweep`] ask, [`super::task`] and [`crate::fleet`] take.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::snapshot::meta::Assumption;

/// Commands to the running mirror; cheap to clone.
#[derive(Clone, Default)]
pub struct Commands(Arc<CommandState>);

#[derive(Default)]
struct CommandState {
    wake: Notify,
    asked: Mutex<Asked>,
}

/// Pending commands.
#[expect(clippy::struct_excessive_bools, reason = "each is a command of its own")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// A refresh now.
    pub refresh: bool,
    /// Forget the number of the last head, in a replica.
    pub forget_sequence: bool,
    /// A whole pass.
    pub pass: bool,
    /// Publish the held list.
    pub accept: bool,
    /// What the origin's answers to an audit disprove.
    pub disproved: Vec<Assumption>,
}

impl Commands {
    /// Refresh now.
    pub fn refresh(&self) {
        self.0.asked.lock().refresh = true;
        self.0.wake.notify_one();
    }

    /// Refresh now, and take a head with whatever number. Only a replica heeds that.
    pub(crate) fn refresh_forgetting(&self) {
        self.0.asked.lock().forget_sequence = true;
        self.refresh();
    }

    /// Read every page now.
    pub fn pass(&self) {
        self.0.asked.lock().pass = true;
        self.0.wake.notify_one();
    }

    /// Publish the held list, once.
    pub fn accept(&self) {
        self.0.asked.lock().accept = true;
        self.0.wake.notify_one();
    }

    /// Forward queries that use these assumptions from now on.
    pub(crate) fn disprove(&self, assumptions: &[Assumption]) {
        self.0.asked.lock().disproved.extend(assumptions);
        self.0.wake.notify_one();
    }

    /// Takes the commands since the last call.
    pub(crate) fn take(&self) -> Asked {
        std::mem::take(&mut *self.0.asked.lock())
    }

    /// Waits for a command.
    pub(crate) async fn wait(&self) {
        self.0.wake.notified().await;
    }
}
