//! The limit on clients: an exact trailing window per client address.
//!
//! It decides whether an address is admitted now, and gives the counts for the answer's headers. It is not shared
//! between processes (see `shared_limit`), and not stored. `semantics::client_address` finds the address;
//! `semantics::problem` writes the refusal.
//!
//! **The promise.** With a quota of `q` no client is admitted more than `q` times in any half-open interval of 60 s,
//! and it is never refused otherwise: an admission at `t` counts at every instant of `[t, t + 60 s)` and no longer at
//! `t + 60 s`, to the nanosecond. Refused requests don't count. The promise holds while at most
//! [`LimitConfig::max_clients`] windows are in use. Beyond that a newcomer takes the place of the window with the
//! fewest counted admissions, whose client starts with a full quota. So errors admit too much, never too little, and
//! are counted.
//!
//! **The cost.** A decision is amortised O(1): one probe of an index, one ring. Rings grow with use, so a client that
//! came once costs about 130 bytes and one that spends a quota of 60 about 600; `max_clients` bounds the whole. Callers:
//! [`crate::answer::admit`], before method and path; [`crate::shared_limit`].

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::clock::Monotonic;

mod decision;
mod index;
mod key;
mod lists;
mod log;
mod quotas;
pub(crate) mod shares;
mod table;
mod wheel;

pub(crate) use decision::Decision;
pub(crate) use key::ClientKey;

use key::Seed;
use quotas::Quotas;
use table::Table;

/// The length of the window, in seconds.
pub(crate) const WINDOW_SECONDS: u32 = 60;
/// The length of the window, in nanoseconds.
const WINDOW: u64 = WINDOW_SECONDS as u64 * 1_000_000_000;
/// The upper bound of `max_clients`.
const MOST_CLIENTS: usize = 1 << 26;

/// The configuration of the limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitConfig {
    /// Admissions per client in 60 s; 0: no limit.
    pub requests_per_minute: u32,
    /// How many leading bits of an IPv6 address make a client, at most 128.
    pub ipv6_prefix: u8,
    /// How many windows are kept at once: 1 to 67,108,864.
    pub max_clients: usize,
    /// Other quotas for the addresses of a network (0: no limit). The most specific network wins, of equal ones the
    /// first. Each client in it has its own window. A network narrower than `ipv6_prefix` is one client of its own.
    pub overrides: Vec<(IpNet, u32)>,
}

impl Default for LimitConfig {
    /// 60 requests per minute, IPv6 by /64, 200,000 clients.
    fn default() -> Self {
        Self { requests_per_minute: 60, ipv6_prefix: 64, max_clients: 200_000, overrides: Vec::new() }
    }
}

/// The limiter of one process. Shared by reference; every decision takes one short lock.
#[derive(Debug)]
pub struct Limiter {
    quotas: ArcSwap<Quotas>,
    seed: Seed,
    table: Mutex<Table>,
}

impl Limiter {
    /// A limiter that has admitted nobody yet.
    pub fn new(config: &LimitConfig) -> Self {
        let clients = config.max_clients.clamp(1, MOST_CLIENTS);
        let quotas = ArcSwap::from_pointee(Quotas::new(config));
        Self { quotas, seed: Seed::random(), table: Mutex::new(Table::new(clients)) }
    }

    /// Replaces the quotas, also for admissions that are counted already; `max_clients` stays. With another
    /// `ipv6_prefix`, IPv6 clients start at zero.
    pub(crate) fn set_quotas(&self, config: &LimitConfig) {
        self.quotas.store(Arc::new(Quotas::new(config)));
    }

    /// Decides on one request of `address`, and counts it if it is admitted. Should `now` lie before the `now` of an
    /// earlier decision, as two threads may cause, that one counts for both.
    pub fn admit(&self, address: IpAddr, now: Monotonic) -> Decision {
        let (quota, key) = self.quotas.load().look_up(address);
        if quota == 0 {
            return Decision::Unlimited;
        }
        let hash = self.seed.hash(key);
        self.table.lock().admit(key, hash, quota, now.as_nanos())
    }

    /// The rest of the quota, without counting: for answers that are exempt from the limit but report it.
    pub fn peek(&self, address: IpAddr, now: Monotonic) -> Decision {
        let (quota, key) = self.quotas.load().look_up(address);
        if quota == 0 {
            return Decision::Unlimited;
        }
        let hash = self.seed.hash(key);
        self.table.lock().peek(key, hash, quota, now.as_nanos())
    }

    /// The quota of an address (0: no limit), and the client that it counts as.
    pub(crate) fn client_of(&self, address: IpAddr) -> (u32, ClientKey) {
        self.quotas.load().look_up(address)
    }

    /// Counts an admission that another window decided on: it was asked at `asked`, and answered by `now`.
    ///
    /// # Errors
    /// With the refusal when the client has had its whole quota from this process alone; then nothing is counted.
    pub(crate) fn note(
        &self,
        (quota, key): (u32, ClientKey),
        asked: Monotonic,
        now: Monotonic,
    ) -> Result<(), Decision> {
        let hash = self.seed.hash(key);
        self.table.lock().note(key, hash, quota, asked.as_nanos(), now.as_nanos())
    }

    /// How many windows with live admissions had to make room since the start.
    pub fn evicted(&self) -> u64 {
        self.table.lock().evicted()
    }

    /// How many windows are kept now, some of which may be idle.
    pub fn windows(&self) -> usize {
        self.table.lock().windows()
    }
}

#[cfg(test)]
mod tests;
