//! Commands to the running mirror or replica, and how it receives them.
//!
//! Callers: [`crate::admin`], [`crate::audit`] and [`super::sweep`] ask, [`super::task`] and [`crate::fleet`] take.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::api::query::ListQuery;

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
    /// Lists that the origin answered to an audit in another way.
    pub doubted: Vec<ListQuery>,
}

impl Commands {
    /// The next audit finds the others again.
    pub(super) const MOST_DOUBTED: usize = 16;

    fn ask(&self, change: impl FnOnce(&mut Asked)) {
        change(&mut self.0.asked.lock());
        self.0.wake.notify_one();
    }

    /// Refresh now.
    pub fn refresh(&self) {
        self.ask(|asked| asked.refresh = true);
    }

    /// Refresh now, and take a head with whatever number. Only a replica heeds that.
    pub(crate) fn refresh_forgetting(&self) {
        self.ask(|asked| (asked.refresh, asked.forget_sequence) = (true, true));
    }

    /// Read every page now.
    pub fn pass(&self) {
        self.ask(|asked| asked.pass = true);
    }

    /// Publish the held list, once.
    pub fn accept(&self) {
        self.ask(|asked| asked.accept = true);
    }

    /// Ask the origin again what its filters mean, with this query.
    pub(crate) fn doubt(&self, query: ListQuery) {
        self.ask(|asked| {
            if asked.doubted.len() < Self::MOST_DOUBTED && !asked.doubted.contains(&query) {
                asked.doubted.push(query);
            }
        });
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
