//! Who asks the origin: what for, for whom, and how patiently.
//!
//! Values only. Callers: everyone who asks the origin.

use std::net::IpAddr;
use std::time::Duration;

use crate::semantics::hops::Trail;

use super::budget::Demand;
use super::window::Class;

/// Who asks, and how patiently.
#[derive(Clone, Debug)]
pub struct Asker {
    /// What the request is for.
    pub class: Class,
    /// The client that waits for it.
    pub client: Option<IpAddr>,
    /// How long to wait for the budget; `None`: as long as it takes.
    pub patience: Option<Duration>,
    /// How much it is wanted, where nobody waits because something stale is served meanwhile.
    pub demand: Option<Demand>,
    /// Whether it was answered well before: that it fails is then no doing of the client.
    pub was_well: bool,
    /// Which processes of this program the client's request came through.
    pub trail: Trail,
}

impl Asker {
    /// The mirror itself, which has all the time in the world.
    pub const fn mirror(class: Class) -> Self {
        Self { class, client: None, patience: None, demand: None, was_well: false, trail: Trail::NONE }
    }

    /// A client that waits no longer than this.
    pub const fn client(client: Option<IpAddr>, patience: Duration) -> Self {
        let (class, patience) = (Class::Client, Some(patience));
        Self { class, client, patience, demand: None, was_well: false, trail: Trail::NONE }
    }

    /// Whether a client waits for it that can be served nothing else, as far as is known: the mirror has patience, and what
    /// is kept stands in for the rest.
    pub(super) const fn is_awaited(&self) -> bool {
        matches!(self.class, Class::Client) && self.demand.is_none() && !self.was_well
    }
}
