//! The configuration in effect: what a reload changes, and how tasks hear of it.
//!
//! Not the decision which keys can change ([`super::reload`]). Callers: every room that reads a key that a reload can
//! change; [`crate::app`] changes it.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use super::Config;

/// The configuration in effect; cheap to clone. Reading takes no lock.
#[derive(Clone, Debug)]
pub struct Settings(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: ArcSwap<Config>,
    changes: watch::Sender<()>,
}

impl Settings {
    /// Settings that begin with `config`.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(Shared { config: ArcSwap::from_pointee(config), changes: watch::Sender::new(()) }))
    }

    /// The configuration at this instant. Not to be held across an await: load it again instead.
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.0.config.load()
    }

    /// Tells of each change from now on. A task that sleeps for a configured time waits for this, too.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Puts another configuration into effect.
    pub(crate) fn store(&self, config: Config) {
        self.0.config.store(Arc::new(config));
        self.0.changes.send_replace(());
    }
}
