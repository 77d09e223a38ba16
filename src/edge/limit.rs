//! The limit on clients: an exact trailing window per client address.
//!
//! It decides whether an address is admitted now, and gives the counts for the answer's headers. It is not shared
//! between processes (see [`super::shared_limit`]), and not stored. [`crate::protocol::client_address`] finds the address;
//! [`crate::protocol::problem`] writes the refusal.
//!
//! **The promise.** With a quota of `q` no client is admitted more than `q` times in any half-open interval of 60 s,
//! and it is never refused otherwise: an admission at `t` counts at every instant of `[t, t + 60 s)` and no longer at
//! `t + 60 s`, to the nanosecond. Refused requests don't count. The promise holds while at most
//! [`LimitConfig::max_clients`] windows are in use. Beyond that a newcomer takes the place of the window with the
//! fewest counted admissions, whose client starts with a full quota. So errors admit too much, never too little, and
//! are counted.
//!
//! **The cost.** A decision is amortised O(1): one probe of an index, one ring. Rings grow with use, so a client that
//! came once costs about 140 bytes and one that spends a quota of 60 about 600; `max_clients` bounds the whole. Callers:
//! [`crate::edge::answer::admit`], before method and path; [`crate::edge::shared_limit`].

pub(crate) mod backlog;
pub(crate) mod refused;
mod slots;
mod table;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use parking_lot::Mutex;

use crate::clock::Monotonic;
use crate::protocol::client_address;

use refused::Refusals;
use table::WindowTable;

/// The length of the window, in seconds.
pub(crate) const WINDOW_SECONDS: u32 = 60;
/// The length of the window, in nanoseconds.
const WINDOW: u64 = WINDOW_SECONDS as u64 * 1_000_000_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitConfig {
    /// Admissions per client in 60 s; 0: no limit.
    pub requests_per_minute: u32,
    /// How many leading bits of an IPv6 address make a client, at most 128.
    pub ipv6_prefix: u8,
    /// How many windows are kept at once: at least 1.
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
    table: Mutex<WindowTable>,
    /// Noted by the code that refuses.
    pub(crate) refused: Refusals,
}

impl Limiter {
    pub fn new(config: &LimitConfig) -> Self {
        let quotas = ArcSwap::from_pointee(Quotas::new(config));
        let table = Mutex::new(WindowTable::new(config.max_clients.max(1)));
        Self { quotas, table, refused: Refusals::default() }
    }

    /// Replaces the quotas, also for admissions that are counted already; `max_clients` stays. With another
    /// `ipv6_prefix`, IPv6 clients start at zero.
    pub(crate) fn set_quotas(&self, config: &LimitConfig) {
        self.quotas.store(Arc::new(Quotas::new(config)));
    }

    /// Decides on one request of `address`, and counts it if it is admitted. Should `now` lie before the `now` of an
    /// earlier decision, as two threads may cause, that one counts for both.
    pub fn admit(&self, address: IpAddr, now: Monotonic) -> Decision {
        self.decide(address, Wish::Admit, now)
    }

    /// The rest of the quota, without counting: for answers that are exempt from the limit but report it.
    pub fn peek(&self, address: IpAddr, now: Monotonic) -> Decision {
        self.decide(address, Wish::Peek, now)
    }

    pub(crate) fn decide(&self, address: IpAddr, wish: Wish, now: Monotonic) -> Decision {
        let (quota, key) = self.client_of(address);
        if quota == 0 {
            return Decision::Unlimited;
        }
        let now = now.as_nanos();
        match wish {
            // The quota was read before the lock: a decision during a reload may be by the old one.
            Wish::Admit => self.table.lock().admit(key, quota, now),
            Wish::Peek => self.table.lock().peek(key, quota, now),
        }
    }

    /// The quota of an address (0: no limit), and the client that it counts as.
    pub(crate) fn client_of(&self, address: IpAddr) -> (u32, ClientKey) {
        self.quotas.load().look_up(address)
    }

    /// Counts an admission that another window decided on: it was asked at `asked`, and answered by `now`. If the
    /// client has had its whole quota from this process alone, nothing is counted, and the error is the refusal.
    pub(crate) fn note(
        &self,
        (quota, key): (u32, ClientKey),
        asked: Monotonic,
        now: Monotonic,
    ) -> Result<(), Decision> {
        self.table.lock().note(key, quota, asked.as_nanos(), now.as_nanos())
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// It is counted if it is admitted.
    Admit,
    /// The answer only tells what is left.
    Peek,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// No limit applies to the address: not counted, no headers.
    Unlimited,
    /// The request is admitted and was counted.
    Admitted {
        /// Admissions in 60 s that the client may have.
        quota: u32,
        /// How many of them are left at this instant.
        remaining: u32,
        /// Seconds, rounded up, until the oldest counted admission leaves; 0 if there is none (only from a peek).
        reset_seconds: u32,
    },
    /// The request is refused and was not counted.
    Refused {
        /// Admissions in 60 s that the client may have.
        quota: u32,
        /// Whole seconds after which the next request is admitted: never early, less than 1 s late, at least 1.
        retry_after_seconds: u32,
    },
}

impl Decision {
    pub const fn is_admitted(self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// Admissions in 60 s; `None` without a limit.
    pub const fn quota(self) -> Option<u32> {
        match self {
            Self::Unlimited => None,
            Self::Admitted { quota, .. } | Self::Refused { quota, .. } => Some(quota),
        }
    }

    /// For `Retry-After`; `None` unless refused.
    pub const fn retry_after_seconds(self) -> Option<u32> {
        match self {
            Self::Refused { retry_after_seconds, .. } => Some(retry_after_seconds),
            _ => None,
        }
    }

    /// Appends the value of `RateLimit`, `"default";r=59;t=60` for example; nothing without a limit.
    pub fn write_rate_limit(self, out: &mut Vec<u8>) {
        let (remaining, reset) = match self {
            Self::Unlimited => return,
            Self::Admitted { remaining, reset_seconds, .. } => (remaining, reset_seconds),
            Self::Refused { retry_after_seconds, .. } => (0, retry_after_seconds),
        };
        write(out, b"\"default\";r=", remaining);
        write(out, b";t=", reset);
    }

    /// Appends the value of `RateLimit-Policy`, `"default";q=60;w=60` for example; nothing without a limit.
    pub fn write_policy(self, out: &mut Vec<u8>) {
        if let Some(quota) = self.quota() {
            write(out, b"\"default\";q=", quota);
            write(out, b";w=", WINDOW_SECONDS);
        }
    }
}

fn write(out: &mut Vec<u8>, name: &[u8], value: u32) {
    out.extend_from_slice(name);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[derive(Debug)]
struct Quotas {
    default: u32,
    ipv6_prefix: u8,
    overrides: Vec<(IpNet, u32)>,
}

impl Quotas {
    fn new(config: &LimitConfig) -> Self {
        let overrides = config.overrides.iter().map(|(net, quota)| (client_address::canonical(*net), *quota));
        let mut overrides: Vec<(IpNet, u32)> = overrides.collect();
        // Stable: of equal networks the first stays first.
        overrides.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Self { default: config.requests_per_minute, ipv6_prefix: config.ipv6_prefix.min(128), overrides }
    }

    /// The address's quota (0: none) and the client that it is counted as.
    fn look_up(&self, address: IpAddr) -> (u32, ClientKey) {
        let address = address.to_canonical();
        let (bits, group) = (ClientKey::bits(address), if address.is_ipv4() { 128 } else { self.ipv6_prefix });
        match self.overrides.iter().find(|(net, _)| net.contains(&address)) {
            // A network narrower than a client keeps its longer prefix; otherwise two quotas would share one window.
            Some((net, quota)) => (*quota, ClientKey::new(bits, group.max(net.prefix_len()))),
            None => (self.default, ClientKey::new(bits, group)),
        }
    }
}

/// A client: an IPv4 address, or an IPv6 network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ClientKey {
    high: u64,
    low: u64,
    /// Of two networks with the same first address (`2001:db8::/64`, `2001:db8::/80`) each is its own client.
    prefix: u8,
}

impl ClientKey {
    /// The address as 128 bits, IPv4 as IPv4-mapped.
    fn bits(address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(four) => four.to_ipv6_mapped().to_bits(),
            IpAddr::V6(six) => six.to_bits(),
        }
    }

    /// The first `prefix` bits of an address.
    fn new(bits: u128, prefix: u8) -> Self {
        let bits = bits & mask(prefix);
        Self { high: (bits >> 64) as u64, low: bits as u64, prefix }
    }
}

/// The address or the network: `192.0.2.7`, `2001:db8::/64`. Different keys have different texts.
impl fmt::Display for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(u128::from(self.high) << 64 | u128::from(self.low));
        match address.to_ipv4_mapped() {
            Some(address) if self.prefix == 128 => write!(f, "{address}"),
            _ => write!(f, "{address}/{}", self.prefix),
        }
    }
}

/// 128 bits of which the first `prefix` are set.
fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod decision_tests {
    use super::*;

    #[test]
    fn headers_repeat_the_decision() {
        for (decision, limit, policy) in [
            (Decision::Unlimited, "", ""),
            (
                Decision::Admitted { quota: 60, remaining: 59, reset_seconds: 60 },
                "\"default\";r=59;t=60",
                "\"default\";q=60;w=60",
            ),
            (Decision::Refused { quota: 600, retry_after_seconds: 7 }, "\"default\";r=0;t=7", "\"default\";q=600;w=60"),
        ] {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            decision.write_rate_limit(&mut first);
            decision.write_policy(&mut second);
            assert_eq!((first.as_slice(), second.as_slice()), (limit.as_bytes(), policy.as_bytes()));
        }
    }
}

#[cfg(test)]
mod key_tests {
    use super::*;

    #[test]
    fn masks_have_as_many_bits_as_the_prefix_says() {
        assert_eq!((mask(0), mask(128), mask(255)), (0, u128::MAX, u128::MAX));
        assert_eq!(mask(64), u128::from(u64::MAX) << 64);
    }

    #[test]
    fn a_key_is_written_as_the_address_or_network_that_it_is() {
        let text = |address: &str, prefix| {
            ClientKey::new(ClientKey::bits(address.parse().expect("an address")), prefix).to_string()
        };
        assert_eq!(text("192.0.2.7", 128), "192.0.2.7");
        assert_eq!(text("2001:db8::7", 64), "2001:db8::/64");
        assert_eq!(text("2001:db8::7", 128), "2001:db8::7/128");
        assert_eq!(text("::1", 64), "::/64");
    }
}
