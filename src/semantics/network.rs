//! Networks and the addresses in them, with IPv4-mapped IPv6 as IPv4 everywhere.
//!
//! The one place where `::ffff:10.0.0.1` and `10.0.0.1` are one address. Not a set of networks: callers have few and
//! check each. Callers: `client_address`, `limit` and `serve`.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// The network with IPv4-mapped IPv6 (`::ffff:10.0.0.0/104`) as IPv4 (`10.0.0.0/8`) and host bits cleared. A network
/// wider than `::ffff:0:0/96` stays IPv6 and holds no IPv4 address.
pub(crate) fn canonical(network: IpNet) -> IpNet {
    let network = network.trunc();
    let IpNet::V6(six) = network else {
        return network;
    };
    let mapped = six.network().to_ipv4_mapped().zip(six.prefix_len().checked_sub(96));
    match mapped.map(|(four, prefix)| Ipv4Net::new(four, prefix)) {
        Some(Ok(four)) => IpNet::V4(four),
        _ => network,
    }
}

/// Whether the address lies in the network, both taken as [`canonical`].
pub(crate) fn covers(network: IpNet, address: IpAddr) -> bool {
    canonical(network).contains(&address.to_canonical())
}

/// The first address of the network that counts as one client with this address: an IPv4 address itself, or the first
/// `ipv6_prefix` bits of an IPv6 address.
pub(crate) fn household(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(ipv6_prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & mask))
        }
        four @ IpAddr::V4(_) => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mapped_networks_are_ipv4_networks() {
        for (network, expected) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:1.2.3.4/128", "1.2.3.4/32"),
            ("::/0", "::/0"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
            ("2001:db8::1/32", "2001:db8::/32"),
        ] {
            assert_eq!(canonical(network.parse().unwrap()), expected.parse().unwrap(), "{network}");
        }
    }

    #[test]
    fn an_address_is_in_its_network_however_it_is_written() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "::ffff:10.255.0.1", true),
            ("::ffff:10.0.0.0/104", "10.255.0.1", true),
            ("::ffff:10.0.0.0/104", "11.0.0.1", false),
            ("::/0", "10.0.0.1", false),
            ("::/0", "2001:db8::1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
        ] {
            assert_eq!(covers(network.parse().unwrap(), address.parse().unwrap()), inside, "{network} {address}");
        }
    }

    #[test]
    fn a_household_is_an_ipv4_address_or_an_ipv6_network() {
        for (address, prefix, expected) in [
            ("10.1.2.3", 64, "10.1.2.3"),
            ("::ffff:10.1.2.3", 64, "10.1.2.3"),
            ("2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::"),
            ("2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"),
            ("2001:db8:1:2:3:4:5:6", 48, "2001:db8:1::"),
            ("2001:db8::1", 0, "::"),
            ("2001:db8::1", 255, "2001:db8::1"),
        ] {
            assert_eq!(household(address.parse().unwrap(), prefix), expected.parse::<IpAddr>().unwrap(), "{address}");
        }
    }

    proptest! {
        #[test]
        fn every_network_has_a_canonical_form(bits: u128, prefix in 0_u8..=128) {
            let network = IpNet::new(IpAddr::V6(bits.into()), prefix).unwrap();
            prop_assert_eq!(canonical(canonical(network)), canonical(network));
        }
    }
}
