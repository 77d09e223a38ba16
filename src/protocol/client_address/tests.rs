//! Client addresses: the table of walks, and that no header stops them.

use super::*;
use http::HeaderValue;
use proptest::prelude::*;

fn find(header: &str, trusted: &[&str], peer: &str, lines: &[&[u8]]) -> String {
    let config = ClientIpConfig {
        trusted_proxies: trusted.iter().map(|network| network.parse().unwrap()).collect(),
        header: header.parse().unwrap(),
    };
    let mut map = HeaderMap::new();
    for line in lines {
        map.append(HeaderName::from_bytes(header.as_bytes()).unwrap(), HeaderValue::from_bytes(line).unwrap());
    }
    resolve(&config, peer.parse().unwrap(), &map).to_string()
}

const PROXIES: &[&str] = &["10.0.0.0/8", "fd00::/8"];

#[test]
fn a_header_from_an_untrusted_peer_is_not_believed() {
    assert_eq!(find("x-forwarded-for", &[], "10.0.0.1", &[b"1.2.3.4"]), "10.0.0.1");
    assert_eq!(find("x-forwarded-for", PROXIES, "9.9.9.9", &[b"1.2.3.4"]), "9.9.9.9");
    assert_eq!(find("x-forwarded-for", PROXIES, "::ffff:9.9.9.9", &[b"1.2.3.4"]), "9.9.9.9");
}

#[test]
fn the_right_most_untrusted_address_is_the_client() {
    for (line, expected) in [
        ("1.2.3.4", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4, 10.0.0.2, fd00::1", "1.2.3.4"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("1.2.3.4:8080", "1.2.3.4"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("1.2.3.4, ::ffff:10.0.0.2", "1.2.3.4"),
        ("1.2.3.4,, ,\t", "1.2.3.4"),
        ("1.2.3.4, unknown", "10.0.0.1"),
        ("1.2.3.4, unknown, 10.0.0.2", "10.0.0.2"),
        ("1.2.3.4:", "10.0.0.1"),
        ("1.2.3.4:port", "10.0.0.1"),
        ("01.2.3.4", "10.0.0.1"),
        ("1.2.3", "10.0.0.1"),
        ("[1.2.3.4]", "10.0.0.1"),
        ("[::1", "10.0.0.1"),
        ("fe80::1%eth0", "10.0.0.1"),
        ("\"1.2.3.4\"", "10.0.0.1"),
        ("", "10.0.0.1"),
    ] {
        assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[line.as_bytes()]), expected, "{line:?}");
    }
}

#[test]
fn several_lines_are_one_list() {
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[b"6.6.6.6, 1.2.3.4", b"10.0.0.2"]), "1.2.3.4");
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[b"1.2.3.4", b"junk", b"10.0.0.2"]), "10.0.0.2");
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[]), "10.0.0.1");
}

#[test]
fn a_single_address_header_is_read_by_name() {
    assert_eq!(find("X-Real-IP", PROXIES, "10.0.0.1", &[b"1.2.3.4"]), "1.2.3.4");
    assert_eq!(find("X-Real-IP", PROXIES, "10.0.0.1", &[b"nobody"]), "10.0.0.1");
    assert_eq!(find("Forwarded", PROXIES, "10.0.0.1", &[b"for=1.2.3.4"]), "1.2.3.4");
}

#[test]
fn mapped_networks_trust_ipv4_peers() {
    assert_eq!(find("x-forwarded-for", &["::ffff:10.0.0.0/104"], "10.0.0.1", &[b"1.2.3.4"]), "1.2.3.4");
    assert_eq!(find("x-forwarded-for", &["10.0.0.0/8"], "::ffff:10.0.0.1", &[b"1.2.3.4"]), "1.2.3.4");
}

#[test]
fn forwarded_is_read_by_its_grammar() {
    for (line, expected) in [
        ("for=1.2.3.4", "1.2.3.4"),
        ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
        ("for=1.2.3.4;proto=http;by=203.0.113.43", "1.2.3.4"),
        ("proto=https ; FOR= \"1.2.3.4:80\"", "10.0.0.1"),
        ("proto=https;FOR=\"1.2.3.4:80\";", "1.2.3.4"),
        ("for=\"1.2.3.4:_p0rt\"", "1.2.3.4"),
        ("for=1.2.3.4:80", "1.2.3.4"),
        ("for=6.6.6.6, for=1.2.3.4, for=\"[fd00::1]\"", "1.2.3.4"),
        ("for=\"\\1.2.3.4\"", "1.2.3.4"),
        ("for=1.2.3.4;host=\"a,b;for=6.6.6.6\"", "1.2.3.4"),
        ("for=6.6.6.6;host=\"\\\", for=1.2.3.4", "1.2.3.4"),
        ("for=\"6.6.6.6, for=1.2.3.4", "1.2.3.4"),
        ("for=unknown", "10.0.0.1"),
        ("for=_hidden, for=10.0.0.2", "10.0.0.2"),
        ("for=1.2.3.4;for=6.6.6.6", "10.0.0.1"),
        ("by=1.2.3.4", "10.0.0.1"),
        ("for=\"1.2.3.4", "10.0.0.1"),
        ("1.2.3.4", "10.0.0.1"),
    ] {
        assert_eq!(find("forwarded", PROXIES, "10.0.0.1", &[line.as_bytes()]), expected, "{line:?}");
    }
}

#[test]
fn the_walk_is_bounded() {
    let hops = |count: usize| format!("1.2.3.4{}", ", 10.0.0.2".repeat(count));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[hops(63).as_bytes()]), "1.2.3.4");
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[hops(64).as_bytes()]), "10.0.0.2");
    let far = format!("1.2.3.4,{}10.0.0.2", " ".repeat(MAX_BYTES));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[far.as_bytes()]), "10.0.0.1");
    let long = format!("1.2.3.4, {}", "x".repeat(100_000));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[long.as_bytes()]), "10.0.0.1");
    let full = format!("{}10.0.0.2", " ".repeat(MAX_BYTES - 8));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[b"1.2.3.4", full.as_bytes()]), "10.0.0.2");
}

proptest! {
    #[test]
    fn resolution_is_total(lines in prop::collection::vec("[for=\"\\\\,;:.\\[\\]0-9a_ \\x80-\\xff]{0,40}", 0..4), named: bool) {
        let header = if named { "x-forwarded-for" } else { "forwarded" };
        let lines: Vec<_> = lines.iter().map(String::as_bytes).collect();
        let _ = find(header, PROXIES, "10.0.0.1", &lines);
    }

    #[test]
    fn what_a_trusted_proxy_appends_decides_whatever_came_before(junk in "[for=\"\\\\,;:.\\[\\]0-9a_ ]{0,40}") {
        let line = format!("{junk}, for=\"[2001:db8::7]:80\";proto=http");
        prop_assert_eq!(find("forwarded", PROXIES, "10.0.0.1", &[line.as_bytes()]), "2001:db8::7");
        let line = format!("{junk}, 1.2.3.4");
        prop_assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[line.as_bytes()]), "1.2.3.4");
    }
}

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
        let config = ClientIpConfig { trusted_proxies: vec![network.parse().unwrap()], ..ClientIpConfig::default() };
        assert_eq!(config.trusts(address.parse().unwrap()), inside, "{network} {address}");
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
