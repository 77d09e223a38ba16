//! PROXY protocol headers: the table of them, and what holds for any bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// Version 2, of these two bytes and this rest.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [BINARY, &[command, family], &length, rest].concat()
}

fn four(client: Ipv4Addr, port: u16) -> Vec<u8> {
    [&client.octets()[..], &[198, 51, 100, 1], &port.to_be_bytes(), &[0, 80]].concat()
}

fn six(client: Ipv6Addr, port: u16) -> Vec<u8> {
    [&client.octets()[..], &Ipv6Addr::LOCALHOST.octets(), &port.to_be_bytes(), &[0, 80]].concat()
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

#[test]
fn version_1_announces_a_client_or_nobody() {
    for (line, announced) in [
        ("TCP4 192.0.2.7 198.51.100.1 56324 443", Some("192.0.2.7:56324")),
        ("TCP4 255.255.255.255 255.255.255.255 65535 65535", Some("255.255.255.255:65535")),
        ("TCP6 2001:db8::7 ::1 1 2", Some("[2001:db8::7]:1")),
        ("TCP6 ::ffff:192.0.2.7 ::1 1 2", Some("192.0.2.7:1")),
        ("UNKNOWN", None),
        ("UNKNOWN ", None),
        ("UNKNOWN ffff::1 ffff::2 65535 65535", None),
        ("UNKNOWN one two three four five six seven", None),
        ("UNKNOWN \r \x01\u{e9}", None),
    ] {
        let text = format!("PROXY {line}\r\nGET / HTTP/1.1\r\n");
        let length = line.len() + 8;
        let announced = announced.map(|announced| announced.parse().unwrap());
        assert_eq!(read(text.as_bytes()), Ok(Header::Complete { length, announced }), "{line}");
    }
}

#[test]
fn what_is_not_version_1_is_refused() {
    for line in [
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2\r\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 2 \r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n",
        "PROXY TCP4 192.0.2.7\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 1 65536\r\n",
        "PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n",
        "PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n",
        "PROXY TCP4 2001:db8::7 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        "PROXY  TCP4 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY tcp4 192.0.2.7 198.51.100.1 1 2\r\n",
        "PROXY UNKNOWN\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY \r\n",
        "PROXY \u{e9}\r\n",
    ] {
        assert_eq!(read(line.as_bytes()), Err(BadHeader::Malformed), "{line:?}");
    }
    for line in ["GET / HTTP/1.1\r\n", "proxy UNKNOWN\r\n", "PROXYING\r\n", "\x16\x03\x01", "\r\n\r\nGET", "PRI * "] {
        assert_eq!(read(line.as_bytes()), Err(BadHeader::Missing), "{line:?}");
    }
}

#[test]
fn version_1_has_107_bytes_at_most() {
    let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(107 - 16));
    assert_eq!(read(longest.as_bytes()), Ok(Header::Complete { length: 107, announced: None }));
    let longer = format!("PROXY UNKNOWN {}\r\n", "x".repeat(107 - 15));
    assert_eq!(read(longer.as_bytes()), Err(BadHeader::TooLong { limit: 107 }));
    assert_eq!(read(&longer.as_bytes()[..107]), Err(BadHeader::TooLong { limit: 107 }), "without its end");
}

#[test]
fn version_2_announces_a_client_or_nobody() {
    let mapped = CLIENT.to_ipv6_mapped();
    let network = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    let unix = [b'x'; 216];
    for (command, family, rest, announced) in [
        (0x21, 0x11, four(CLIENT, 56324), Some("192.0.2.7:56324")),
        (0x21, 0x21, six(network, 1), Some("[2001:db8::7]:1")),
        (0x21, 0x21, six(mapped, 1), Some("192.0.2.7:1")),
        // With fields behind the addresses, also broken ones.
        (0x21, 0x11, [four(CLIENT, 1), vec![1, 0, 2, b'h', b'2']].concat(), Some("192.0.2.7:1")),
        (0x21, 0x11, [four(CLIENT, 1), vec![1, 255]].concat(), Some("192.0.2.7:1")),
        (0x21, 0x11, [four(CLIENT, 1), vec![0; 4096 - 28]].concat(), Some("192.0.2.7:1")),
        // Neither TCP nor UDP over IP, and not TCP.
        (0x21, 0x31, unix.to_vec(), None),
        (0x21, 0x32, unix.to_vec(), None),
        (0x21, 0x12, four(CLIENT, 1), None),
        (0x21, 0x22, six(network, 1), None),
        (0x21, 0x00, vec![], None),
        (0x21, 0x00, four(CLIENT, 1), None),
        (0x20, 0x00, vec![], None),
        (0x20, 0x11, four(CLIENT, 1), None),
        (0x20, 0x11, vec![], None),
        (0x20, 0xff, vec![9; 3], None),
    ] {
        let header = binary(command, family, &rest);
        let length = header.len();
        let announced = announced.map(|announced| announced.parse().unwrap());
        let bytes = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(read(&bytes), Ok(Header::Complete { length, announced }), "{command:x} {family:x} {rest:?}");
    }
}

#[test]
fn what_is_not_version_2_is_refused() {
    for (command, family, rest) in [
        (0x11, 0x11, four(CLIENT, 1)),
        (0x31, 0x11, four(CLIENT, 1)),
        (0x22, 0x11, four(CLIENT, 1)),
        (0x2f, 0x00, vec![]),
        (0x21, 0x41, four(CLIENT, 1)),
        (0x21, 0x13, four(CLIENT, 1)),
        (0x21, 0x11, vec![0; 11]),
        (0x21, 0x21, vec![0; 35]),
        (0x21, 0x31, vec![0; 215]),
    ] {
        let header = binary(command, family, &rest);
        assert_eq!(read(&header), Err(BadHeader::Malformed), "{command:x} {family:x} {rest:?}");
    }
    for short in 0..12 {
        let header = binary(0x21, 0x11, &four(CLIENT, 1)[..short]);
        assert_eq!(read(&[&header[..], b"GET / HTTP/1.1\r\n"].concat()), Err(BadHeader::Malformed), "{short}");
    }
    let long = binary(0x21, 0x11, &vec![0; 4096 - 15]);
    assert_eq!(read(&long), Err(BadHeader::TooLong { limit: 4096 }));
    assert_eq!(read(&long[..16]), Err(BadHeader::TooLong { limit: 4096 }), "as soon as it says so");
    let endless = [BINARY, &[0x20, 0, 255, 255]].concat();
    assert_eq!(read(&endless), Err(BadHeader::TooLong { limit: 4096 }), "LOCAL, too");
}

fn addresses() -> impl Strategy<Value = (IpAddr, u16)> {
    let address = prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())),
        any::<u128>().prop_map(|bits| IpAddr::V6(bits.into()))
    ];
    (address, any::<u16>())
}

/// A header of either version that announces a client, and the client.
fn headers() -> impl Strategy<Value = (Vec<u8>, SocketAddr)> {
    let fields = prop::collection::vec(any::<u8>(), 0..60);
    (addresses(), any::<bool>(), fields).prop_map(|((ip, port), in_text, fields)| {
        let header = match (ip, in_text) {
            (IpAddr::V4(ip), true) => format!("PROXY TCP4 {ip} 198.51.100.1 {port} 80\r\n").into_bytes(),
            (IpAddr::V6(ip), true) => format!("PROXY TCP6 {ip} ::1 {port} 80\r\n").into_bytes(),
            (IpAddr::V4(ip), false) => binary(0x21, 0x11, &[four(ip, port), fields].concat()),
            (IpAddr::V6(ip), false) => binary(0x21, 0x21, &[six(ip, port), fields].concat()),
        };
        (header, SocketAddr::new(ip.to_canonical(), port))
    })
}

/// Bytes that look like a header for a while.
fn nearly_headers() -> impl Strategy<Value = Vec<u8>> {
    let junk = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        junk(),
        junk().prop_map(|rest| [TEXT, &rest].concat()),
        "(UNKNOWN|TCP4|TCP6|TCP)?[ 0-9a-f.:\r\n]{0,120}".prop_map(|rest| [TEXT, rest.as_bytes()].concat()),
        junk().prop_map(|rest| [BINARY, &rest].concat()),
        (0x1fu8..0x23, 0u8..0x40, 0u16..300, junk()).prop_map(|(command, family, length, rest)| {
            [BINARY, &[command, family], &length.to_be_bytes(), &rest].concat()
        }),
    ]
}

proptest! {
    /// The client's own bytes come behind the header: they must not change whom the proxy announced.
    #[test]
    fn a_header_announces_its_client_whatever_follows(
        (header, client) in headers(),
        after in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let expected = Ok(Header::Complete { length: header.len(), announced: Some(client) });
        prop_assert_eq!(read(&header), expected);
        prop_assert_eq!(read(&[header, after].concat()), expected);
    }

    #[test]
    fn no_part_of_a_header_is_a_header((header, _client) in headers(), at in any::<prop::sample::Index>()) {
        prop_assert_eq!(read(&header[..at.index(header.len())]), Ok(Header::Unfinished));
    }

    /// Any bytes, given in any pieces: once there is a result, more bytes do not change it, and it comes within bounds.
    #[test]
    fn more_bytes_never_change_a_result(bytes in nearly_headers()) {
        let results: Vec<_> = (0..=bytes.len()).map(|end| read(&bytes[..end])).collect();
        let first = results.iter().position(|result| *result != Ok(Header::Unfinished)).unwrap_or(results.len());
        prop_assert!(results[first..].windows(2).all(|pair| pair[0] == pair[1]), "{:?}", results);
        prop_assert!(first <= LONGEST_BINARY);
        if let Some(Ok(Header::Complete { length, .. })) = results.last() {
            prop_assert_eq!(first, *length, "not sooner and not later than the header's end");
        }
    }
}
