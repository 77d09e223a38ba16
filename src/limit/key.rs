//! The identity of a client, as a key that is cheap to compare and to hash.
//!
//! Addresses cut to their network, and a keyed hash of them. `quotas` chooses the network's length.
//! Callers: `quotas`, `limit` and `table`.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

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
    pub(super) fn bits(address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(four) => four.to_ipv6_mapped().to_bits(),
            IpAddr::V6(six) => six.to_bits(),
        }
    }

    /// The first `prefix` bits of an address.
    pub(super) fn new(bits: u128, prefix: u8) -> Self {
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
pub(super) fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0)
}

/// The key of the hash. Clients choose their addresses: without a secret they could all be made to collide in the
/// index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed([u64; 3]);

impl Seed {
    /// From the standard library's source of random hash keys.
    pub(super) fn random() -> Self {
        let source = RandomState::new();
        Self([0_u8, 1, 2].map(|part| source.hash_one(part)))
    }

    /// Two rounds of multiplication folded to 64 bits, of which the upper 32 are returned.
    pub(super) fn hash(&self, key: ClientKey) -> u32 {
        let [first, second, third] = self.0;
        let once = fold(key.high ^ first, key.low ^ second);
        (fold(once ^ u64::from(key.prefix), third | 1) >> 32) as u32
    }
}

/// The 128-bit product's halves, xored: every bit of the result depends on every bit of both.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::Ipv4Addr;

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

    #[test]
    fn neighbouring_addresses_hash_apart_and_differently_in_each_process() {
        let (one, other) = (Seed::random(), Seed::random());
        let key = |n: u32| ClientKey::new(ClientKey::bits(IpAddr::V4(Ipv4Addr::from_bits(n))), 128);
        let low_bits: HashSet<u32> = (0..4096).map(|n| one.hash(key(n)) & 0xFFF).collect();
        // 4096 balls thrown into 4096 urns leave about 63 % of them occupied.
        assert!((2300..2900).contains(&low_bits.len()), "{}", low_bits.len());
        assert!((0..8).any(|n| one.hash(key(n)) != other.hash(key(n))));
    }
}
