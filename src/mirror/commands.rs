//! What others may ask of the running mirror or replica, and how it hears of it.
//!
//! Callers: [`crate::admin`], [`crate::audit`] and [`super::sweep`] ask, [`super::task`] and [`crate::fleet`] take.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// What others may ask of the running mirror; cheap to clone.
#[derive(Clone, Default)]
pub struct Commands(Arc<CommandState>);

#[derive(Default)]
struct CommandState {
    wake: Notify,
    asked: Mutex<Asked>,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// A refresh now.
    pub refresh: bool,
    /// A whole pass.
    pub pass: bool,
    /// The publication of what is held back.
    pub accept: bool,
}

impl Commands {
    /// Refresh now.
    pub fn refresh(&self) {
        self.0.asked.lock().refresh = true;
        self.0.wake.notify_one();
    }

    /// Look at every page now.
    pub fn pass(&self) {
        self.0.asked.lock().pass = true;
        self.0.wake.notify_one();
    }

    /// Publish what is held back, once.
    pub fn accept(&self) {
        self.0.asked.lock().accept = true;
        self.0.wake.notify_one();
    }

    /// Takes what was asked for since the last time.
    pub(crate) fn take(&self) -> Asked {
        std::mem::take(&mut *self.0.asked.lock())
    }

    /// Waits until something is asked for.
    pub(crate) async fn wait(&self) {
        self.0.wake.notified().await;
    }
}
