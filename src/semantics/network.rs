//! Networks and the addresses in them, with IPv4-mapped IPv6 as IPv4 everywhere.
//!
//! What it is: the one place that knows that `::ffff:10.0.0.1` and `10.0.0.1` are one address, and so their networks.
//! What it is not: a set of networks; its callers have few and look at each. Who calls it: `client_address` and
//! `limit`.

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

/// The address that stands for all addresses of a household: an IPv4 address itself, an IPv6 address cut to its first
/// `ipv6_prefix` bits (at most 128).
pub(crate) fn household(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let others = u128::MAX.checked_shr(ipv6_prefix.into()).unwrap_or(0);
            Ipv6Addr::from_bits(six.to_bits() & !others).into()
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
    fn a_household_is_a_network_of_ipv6_or_an_address_of_ipv4() {
        let of = |text: &str, prefix| household(text.parse().unwrap(), prefix);
        assert_eq!(of("2001:db8:1:2:3:4:5:6", 64), of("2001:db8:1:2:ffff::1", 64));
        assert_ne!(of("2001:db8:1:2::1", 64), of("2001:db8:1:3::1", 64));
        assert_eq!(of("2001:db8:1:2::1", 48), of("2001:db8:1:3::1", 48));
        assert_ne!(of("2001:db8::1", 128), of("2001:db8::2", 128));
        assert_eq!(of("2001:db8::1", 0), of("fe80::2", 0));
        assert_eq!(of("::ffff:192.0.2.1", 64), of("192.0.2.1", 64));
        assert_ne!(of("::ffff:192.0.2.1", 64), of("::ffff:192.0.2.2", 64));
    }

    proptest! {
        #[test]
        fn every_network_has_a_canonical_form(bits: u128, prefix in 0_u8..=128) {
            let network = IpNet::new(IpAddr::V6(bits.into()), prefix).unwrap();
            prop_assert_eq!(canonical(canonical(network)), canonical(network));
        }
    }
}
