//! The table of walks, and that no header stops them.

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
        map.append(HeaderName::from_str(header).unwrap(), HeaderValue::from_bytes(line).unwrap());
    }
    let found = resolve(&config, peer.parse().unwrap(), &map);
    let source = if found.source == AddressSource::Peer { "peer" } else { "header" };
    format!("{source} {}", found.ip)
}

const PROXIES: &[&str] = &["10.0.0.0/8", "fd00::/8"];

#[test]
fn a_header_from_an_untrusted_peer_is_not_believed() {
    assert_eq!(find("x-forwarded-for", &[], "10.0.0.1", &[b"1.2.3.4"]), "peer 10.0.0.1");
    assert_eq!(find("x-forwarded-for", PROXIES, "9.9.9.9", &[b"1.2.3.4"]), "peer 9.9.9.9");
    assert_eq!(find("x-forwarded-for", PROXIES, "::ffff:9.9.9.9", &[b"1.2.3.4"]), "peer 9.9.9.9");
}

#[test]
fn the_right_most_untrusted_address_is_the_client() {
    for (line, expected) in [
        ("1.2.3.4", "header 1.2.3.4"),
        ("6.6.6.6, 1.2.3.4", "header 1.2.3.4"),
        ("6.6.6.6, 1.2.3.4, 10.0.0.2, fd00::1", "header 1.2.3.4"),
        ("10.0.0.3, 10.0.0.2", "header 10.0.0.3"),
        ("1.2.3.4:8080", "header 1.2.3.4"),
        ("[2001:db8::1]:443", "header 2001:db8::1"),
        ("[2001:db8::1]", "header 2001:db8::1"),
        ("2001:db8::1", "header 2001:db8::1"),
        ("::ffff:1.2.3.4", "header 1.2.3.4"),
        ("1.2.3.4, ::ffff:10.0.0.2", "header 1.2.3.4"),
        ("1.2.3.4,, ,\t", "header 1.2.3.4"),
        ("1.2.3.4, unknown", "peer 10.0.0.1"),
        ("1.2.3.4, unknown, 10.0.0.2", "header 10.0.0.2"),
        ("1.2.3.4:", "peer 10.0.0.1"),
        ("1.2.3.4:port", "peer 10.0.0.1"),
        ("01.2.3.4", "peer 10.0.0.1"),
        ("1.2.3", "peer 10.0.0.1"),
        ("[1.2.3.4]", "peer 10.0.0.1"),
        ("[::1", "peer 10.0.0.1"),
        ("fe80::1%eth0", "peer 10.0.0.1"),
        ("\"1.2.3.4\"", "peer 10.0.0.1"),
        ("", "peer 10.0.0.1"),
    ] {
        assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[line.as_bytes()]), expected, "{line:?}");
    }
}

#[test]
fn several_lines_are_one_list() {
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[b"6.6.6.6, 1.2.3.4", b"10.0.0.2"]), "header 1.2.3.4");
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[b"1.2.3.4", b"junk", b"10.0.0.2"]), "header 10.0.0.2");
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[]), "peer 10.0.0.1");
}

#[test]
fn a_single_address_header_is_read_by_name() {
    assert_eq!(find("X-Real-IP", PROXIES, "10.0.0.1", &[b"1.2.3.4"]), "header 1.2.3.4");
    assert_eq!(find("X-Real-IP", PROXIES, "10.0.0.1", &[b"nobody"]), "peer 10.0.0.1");
    assert!("no such header".parse::<ClientIpHeader>().is_err());
    assert_eq!("Forwarded".parse(), Ok(ClientIpHeader::Forwarded));
}

#[test]
fn mapped_networks_trust_ipv4_peers() {
    assert_eq!(find("x-forwarded-for", &["::ffff:10.0.0.0/104"], "10.0.0.1", &[b"1.2.3.4"]), "header 1.2.3.4");
    assert_eq!(find("x-forwarded-for", &["10.0.0.0/8"], "::ffff:10.0.0.1", &[b"1.2.3.4"]), "header 1.2.3.4");
}

#[test]
fn forwarded_is_read_by_its_grammar() {
    for (line, expected) in [
        ("for=1.2.3.4", "header 1.2.3.4"),
        ("For=\"[2001:db8:cafe::17]:4711\"", "header 2001:db8:cafe::17"),
        ("for=1.2.3.4;proto=http;by=203.0.113.43", "header 1.2.3.4"),
        ("proto=https ; FOR= \"1.2.3.4:80\"", "peer 10.0.0.1"),
        ("proto=https;FOR=\"1.2.3.4:80\";", "header 1.2.3.4"),
        ("for=\"1.2.3.4:_p0rt\"", "header 1.2.3.4"),
        ("for=1.2.3.4:80", "header 1.2.3.4"),
        ("for=6.6.6.6, for=1.2.3.4, for=\"[fd00::1]\"", "header 1.2.3.4"),
        ("for=\"\\1.2.3.4\"", "header 1.2.3.4"),
        ("for=1.2.3.4;host=\"a,b;for=6.6.6.6\"", "header 1.2.3.4"),
        ("for=6.6.6.6;host=\"\\\", for=1.2.3.4", "header 1.2.3.4"),
        ("for=\"6.6.6.6, for=1.2.3.4", "header 1.2.3.4"),
        ("for=unknown", "peer 10.0.0.1"),
        ("for=_hidden, for=10.0.0.2", "header 10.0.0.2"),
        ("for=1.2.3.4;for=6.6.6.6", "peer 10.0.0.1"),
        ("by=1.2.3.4", "peer 10.0.0.1"),
        ("for=\"1.2.3.4", "peer 10.0.0.1"),
        ("1.2.3.4", "peer 10.0.0.1"),
    ] {
        assert_eq!(find("forwarded", PROXIES, "10.0.0.1", &[line.as_bytes()]), expected, "{line:?}");
    }
}

#[test]
fn the_walk_is_bounded() {
    let hops = |count: usize| format!("1.2.3.4{}", ", 10.0.0.2".repeat(count));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[hops(63).as_bytes()]), "header 1.2.3.4");
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[hops(64).as_bytes()]), "header 10.0.0.2");
    let far = format!("1.2.3.4,{}10.0.0.2", " ".repeat(MAX_BYTES));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[far.as_bytes()]), "peer 10.0.0.1");
    let long = format!("1.2.3.4, {}", "x".repeat(100_000));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[long.as_bytes()]), "peer 10.0.0.1");
    let full = format!("{}10.0.0.2", " ".repeat(MAX_BYTES - 8));
    assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[b"1.2.3.4", full.as_bytes()]), "header 10.0.0.2");
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
        prop_assert_eq!(find("forwarded", PROXIES, "10.0.0.1", &[line.as_bytes()]), "header 2001:db8::7");
        let line = format!("{junk}, 1.2.3.4");
        prop_assert_eq!(find("x-forwarded-for", PROXIES, "10.0.0.1", &[line.as_bytes()]), "header 1.2.3.4");
    }
}
