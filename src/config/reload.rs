//! Merge of two configurations at a reload into the one that takes effect, and the tasks that hear of it.
//!
//! Which keys a reload takes is declared with them ([`super::keys`]). Callers: every room that reads a key that a reload
//! can change; [`crate::server`] changes it.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use crate::protocol::client_address::household;

use super::Config;
use super::declaration::{DeclaresKeys as _, Reload};

/// The report of a reload that finds nothing new. A process keeps the variables and the arguments of its start.
pub(crate) const UNCHANGED: &str = "reloaded: the configuration has not changed (variables of a unit or a container, and \
                                    --set, change with a restart)";

/// The dotted keys that differ between two configurations, in alphabetical order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyChanges {
    /// Those that take effect now.
    pub applied: Vec<String>,
    /// Those that take effect at the next start.
    pub needs_restart: Vec<String>,
}

/// Why a reload changes nothing, although `wanted` has no mistakes; `None`: it may take effect.
///
/// An editor may be about to write a file that is empty at this instant.
pub(crate) fn refusal(running: &Config, wanted: &Config) -> Option<String> {
    let (now, then) = (running.usage().as_str(), wanted.usage().as_str());
    let todo = "or restart the server, if it is meant";
    if running.file_has_keys && !wanted.file_has_keys {
        return Some(format!("the configuration file has no keys any more: write it completely and reload, {todo}"));
    }
    let why = || {
        format!(
            "the use would change from {now} to {then}, which a reload cannot do: correct origin.url, mirror.enabled and \
             replica.url and reload, {todo}"
        )
    };
    (now != then).then(why)
}

/// The configuration that takes effect when `running` is to become `wanted`, and what changes. Both as they were read:
/// without the ports that the system chose.
pub(crate) fn merge(running: &Config, wanted: &Config) -> (Config, KeyChanges) {
    let (keys, mut next) = (Config::own_declarations(), running.clone());
    let mut changes = KeyChanges::default();
    next.file_has_keys |= wanted.file_has_keys;
    for key in keys.iter().filter(|key| (key.differs)(running, wanted)) {
        let is_live = match key.about.reload {
            Reload::Live => true,
            Reload::Restart => false,
            Reload::If(is_live) => is_live(running, wanted),
        };
        if is_live {
            (key.adopt)(&mut next, wanted);
        }
        let list = if (key.differs)(&next, wanted) { &mut changes.needs_restart } else { &mut changes.applied };
        list.push(key.about.path());
    }
    changes.applied.sort();
    changes.needs_restart.sort();
    (next, changes)
}

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

    /// The address that stands for all addresses of a client's household.
    pub(crate) fn household(&self, client: IpAddr) -> IpAddr {
        household(client, self.load().rate_limit.ipv6_prefix)
    }

    /// Tells of each change from now on. A task that sleeps for a configured time waits for this, too.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    pub(crate) fn store(&self, config: Config) {
        // In this order: a task that hears of a change loads the new configuration.
        self.0.config.store(Arc::new(config));
        self.0.changes.send_replace(());
    }
}
