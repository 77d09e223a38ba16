//! Commands to the running mirror or replica, and how it receives them.
//!
//! Callers: [`crate::server::admin`], [`super::examiner`] and [`super::sweep`] ask, [`super::task`] and
//! [`crate::fleet`] take.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::api::form::ListForm;

/// Commands to the running mirror; cheap to clone.
#[derive(Clone, Default)]
pub struct Commands(Arc<CommandState>);

#[derive(Default)]
struct CommandState {
    wake: Notify,
    asked: Mutex<PendingCommands>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a command of its own")]
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingCommands {
    pub refresh: bool,
    /// Forget the number of the last head, in a replica.
    pub forget_sequence: bool,
    pub pass: bool,
    /// Publish the held list.
    pub accept: bool,
    /// The form of the origin's lists is this one.
    pub form: Option<ListForm>,
}

impl Commands {
    fn ask(&self, change: impl FnOnce(&mut PendingCommands)) {
        change(&mut self.0.asked.lock());
        // After the change. It is remembered, so a command that comes while nobody waits is not lost.
        self.0.wake.notify_one();
    }

    pub fn refresh(&self) {
        self.ask(|asked| asked.refresh = true);
    }

    /// Refresh now, and take a head with whatever number. Only a replica heeds that.
    pub(crate) fn refresh_forgetting(&self) {
        self.ask(|asked| (asked.refresh, asked.forget_sequence) = (true, true));
    }

    pub fn pass(&self) {
        self.ask(|asked| asked.pass = true);
    }

    pub(crate) fn form(&self, form: ListForm) {
        self.ask(|asked| asked.form = Some(form));
    }

    /// Publish the held list, once.
    pub fn accept(&self) {
        self.ask(|asked| asked.accept = true);
    }

    /// Takes the commands since the last call.
    pub(crate) fn take(&self) -> PendingCommands {
        std::mem::take(&mut *self.0.asked.lock())
    }

    pub(crate) async fn wait(&self) {
        self.0.wake.notified().await;
    }
}
