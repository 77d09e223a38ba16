//! The quota of an address, and the addresses that share it.
//!
//! The overrides, sorted so that the first that fits is the most specific. `table` counts what is used. Callers:
//! `limit`, once per request; overrides are few, so it looks at each.

use std::net::IpAddr;

use ipnet::IpNet;

use super::LimitConfig;
use super::key::{ClientKey, mask};
use crate::semantics::client_address;

#[derive(Debug)]
pub(super) struct Quotas {
    default: u32,
    ipv6_prefix: u8,
    overrides: Vec<Override>,
}

#[derive(Debug)]
struct Override {
    is_ipv4: bool,
    network: u128,
    /// Of 128 bits, for IPv4 too.
    prefix: u8,
    quota: u32,
}

impl Quotas {
    pub(super) fn new(config: &LimitConfig) -> Self {
        let mut overrides: Vec<Override> =
            config.overrides.iter().map(|&(net, quota)| Override::new(net, quota)).collect();
        // Stable: of equal networks the first stays first.
        overrides.sort_by_key(|candidate| std::cmp::Reverse(candidate.prefix));
        Self { default: config.requests_per_minute, ipv6_prefix: config.ipv6_prefix.min(128), overrides }
    }

    /// The address's quota (0: none) and the client that it is counted as.
    pub(super) fn look_up(&self, address: IpAddr) -> (u32, ClientKey) {
        let address = address.to_canonical();
        let (bits, is_ipv4) = (ClientKey::bits(address), address.is_ipv4());
        let group = if is_ipv4 { 128 } else { self.ipv6_prefix };
        match self.overrides.iter().find(|candidate| candidate.covers(bits, is_ipv4)) {
            // A network narrower than a client keeps its longer prefix; otherwise two quotas would share one window.
            Some(found) => (found.quota, ClientKey::new(bits, group.max(found.prefix))),
            None => (self.default, ClientKey::new(bits, group)),
        }
    }
}

impl Override {
    fn new(net: IpNet, quota: u32) -> Self {
        let net = client_address::canonical(net);
        let is_ipv4 = matches!(net, IpNet::V4(_));
        let prefix = net.prefix_len() + if is_ipv4 { 96 } else { 0 };
        Self { is_ipv4, network: ClientKey::bits(net.network()), prefix, quota }
    }

    fn covers(&self, bits: u128, is_ipv4: bool) -> bool {
        self.is_ipv4 == is_ipv4 && bits & mask(self.prefix) == self.network
    }
}
