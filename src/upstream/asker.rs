//! A request's purpose, client and patience.
//!
//! Values only. Callers: everyone who asks the origin.

use std::net::IpAddr;
use std::time::Duration;

use crate::semantics::hops::Trail;

use super::budget::Demand;
use super::window::Class;

#[derive(Clone, Debug)]
pub struct Asker {
    /// What the request is for.
    pub class: Class,
    /// The client that waits for it.
    pub client: Option<IpAddr>,
    /// How long to wait for the budget; `None`: as long as it takes.
    pub patience: Option<Duration>,
    /// How many clients want it, if none of them waits.
    pub demand: Option<Demand>,
    /// Whether it was answered well before: then the client cannot have caused a failure.
    pub was_well: bool,
    /// Whether the client chose the bytes of the request: it is sent only if that costs others nothing, and its failure
    /// says nothing about the origin.
    pub spare: bool,
    /// The processes of this program that the client's request passed.
    pub trail: Trail,
}

impl Asker {
    /// The mirror itself, with unlimited patience.
    pub const fn mirror(class: Class) -> Self {
        Self { class, client: None, patience: None, demand: None, was_well: false, spare: false, trail: Trail::NONE }
    }

    /// A client that waits no longer than this.
    pub const fn client(client: Option<IpAddr>, patience: Duration) -> Self {
        let (class, patience) = (Class::Client, Some(patience));
        Self { class, client, patience, demand: None, was_well: false, spare: false, trail: Trail::NONE }
    }

    /// Whether a client without a stale answer waits for it, as far as known.
    pub(super) const fn is_awaited(&self) -> bool {
        matches!(self.class, Class::Client) && self.demand.is_none() && !self.was_well
    }
}
