//! Behind a load balancer that speaks the PROXY protocol: whose request it is, and what becomes of connections that do not
//! begin as they must.
//!
//! The load balancer is 127.0.0.1, played by raw sockets here and by a real one in [`balancer`]. Every other address of
//! loopback is somebody who is not trusted.

mod balancer;
mod behind;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use http::Method;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Reply, connect_from, drip, parse};
use crate::harness::{PATIENCE, Server, Setup, each, wait_until};
use crate::tls::{address, certified, with_tls};

/// An unknown path: it counts against the limit and needs no data.
const PATH: &str = "/nothing";
const BALANCER: Ipv4Addr = Ipv4Addr::LOCALHOST;
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// A server that trusts the load balancer and a network of others, and admits four requests of each client.
fn setup() -> Setup {
    Setup::offline()
        .set("client_ip.proxy_protocol", "true")
        .set("client_ip.trusted_proxies", r#"["127.0.0.1", "10.0.0.0/8"]"#)
        .set("rate_limit.requests_per_minute", "4")
}

/// Version 1 of the header, for this client.
fn text(client: &str) -> Vec<u8> {
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let own = if client.contains(':') { "2001:db8:ffff::1" } else { "198.51.100.1" };
    format!("PROXY {family} {client} {own} 40000 80\r\n").into_bytes()
}

/// Version 2 of the header.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, rest].concat()
}

/// The same for this client, with a field behind the addresses.
fn binary_of(client: &str) -> Vec<u8> {
    let ports_and_field = [156, 64, 0, 80, 0x04, 0, 2, 0, 0];
    match client.parse().unwrap() {
        IpAddr::V4(ip) => binary(0x21, 0x11, &[&ip.octets()[..], &[198, 51, 100, 1], &ports_and_field].concat()),
        IpAddr::V6(ip) => binary(
            0x21,
            0x21,
            &[ip.octets(), ip.octets()].concat().iter().chain(&ports_and_field).copied().collect::<Vec<u8>>(),
        ),
    }
}

fn get(fields: &str) -> Vec<u8> {
    format!("GET {PATH} HTTP/1.1\r\nHost: mirror.test\r\n{fields}Connection: close\r\n\r\n").into_bytes()
}

/// Writes these bytes in one piece and reads to the end; `None`: closed without an answer.
async fn tell(from: Ipv4Addr, to: SocketAddr, bytes: &[u8]) -> Option<Reply> {
    let mut stream = connect_from(from, to).await;
    // The server may hang up before it has everything.
    let _ = stream.write_all(bytes).await;
    parse(&to_end(stream).await)
}

/// Everything up to the end, however it comes.
async fn to_end(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut answer = Vec::new();
    let read = async {
        // Bytes that the server did not read turn its end into a reset.
        while stream.read_buf(&mut answer).await.is_ok_and(|read| read > 0) {}
    };
    tokio::time::timeout(PATIENCE, read).await.expect("the connection ends");
    answer
}

/// What is left to the client that this header announces, after this request; `None` if it was refused.
async fn left(server: &Server, header: &[u8], fields: &str) -> Option<u32> {
    let reply = tell(BALANCER, server.public, &[header, &get(fields)].concat()).await.expect("an answer");
    left_after(&reply)
}

fn left_after(reply: &Reply) -> Option<u32> {
    if reply.status == 429 {
        return None;
    }
    assert_eq!(reply.status, 404, "{reply:?}");
    let text = reply.the("ratelimit");
    let left = text.strip_prefix("\"default\";r=").and_then(|rest| rest.split_once(';'));
    Some(left.unwrap_or_else(|| panic!("RateLimit: {text}")).0.parse().unwrap())
}

/// How many connections were closed for this reason.
async fn refused(server: &Server, reason: &str) -> u64 {
    let metrics = server.admin(Method::GET, "/metrics").await;
    let series = format!("grandstand_proxy_protocol_refused_total{{reason=\"{reason}\"}} ");
    metrics.text().lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().unwrap())
}

/// How many lines of the log tell of such connections.
fn warnings(server: &Server) -> usize {
    let said = server.process.said();
    assert!(!said.contains("ERROR"), "{said}");
    said.lines().filter(|line| line.contains("PROXY protocol")).count()
}

/// Waits until so many were closed for this reason, and none for another.
async fn only_refused(server: &Server, reason: &str, count: u64) {
    wait_until("connections are counted as closed", || async { refused(server, reason).await == count }).await;
    let metrics = server.admin(Method::GET, "/metrics").await;
    let all = metrics.text().lines().filter(|line| line.starts_with("grandstand_proxy_protocol_refused_total{"));
    assert_eq!(all.count(), 1, "{}", metrics.text());
}

#[tokio::test]
async fn a_header_of_either_version_says_whose_request_it_is() {
    let server = setup().set("log.level", "debug").start().await;
    for (nth, header) in
        [text("192.0.2.1"), binary_of("192.0.2.1"), text("::ffff:192.0.2.1"), binary_of("::ffff:192.0.2.1")]
            .iter()
            .enumerate()
    {
        assert_eq!(left(&server, header, "").await, Some(3 - nth as u32), "one client, however it is written");
    }
    assert_eq!(left(&server, &text("192.0.2.1"), "").await, None);
    assert_eq!(left(&server, &text("192.0.2.2"), "").await, Some(3), "another client");
    assert_eq!(left(&server, &text("2001:db8:1:2::1"), "").await, Some(3));
    assert_eq!(left(&server, &binary_of("2001:db8:1:2::ffff"), "").await, Some(2), "one network is one household");
    wait_until("the access log names the client", || async { server.process.said().contains("192.0.2.1") }).await;
    assert_eq!(warnings(&server), 0);
}

#[tokio::test]
async fn the_header_field_is_believed_only_if_the_announced_address_is_trusted() {
    let server = setup().start().await;
    assert_eq!(left(&server, &text("192.0.2.1"), "X-Forwarded-For: 203.0.113.1\r\n").await, Some(3));
    assert_eq!(
        left(&server, &text("192.0.2.1"), "X-Forwarded-For: 203.0.113.2\r\n").await,
        Some(2),
        "it is not believed"
    );
    assert_eq!(
        left(&server, &text("10.0.0.7"), "X-Forwarded-For: 203.0.113.1\r\n").await,
        Some(3),
        "a proxy behind it"
    );
    assert_eq!(left(&server, &binary_of("10.0.0.8"), "X-Forwarded-For: 203.0.113.1\r\n").await, Some(2));
    assert_eq!(left(&server, &text("203.0.113.1"), "").await, Some(1), "the same client without that proxy");
}

#[tokio::test]
async fn a_proxy_that_names_nobody_is_the_client_itself() {
    let server = setup().start().await;
    let unix = binary(0x21, 0x31, &[b'x'; 216]);
    let local_with_address = [&binary_of("192.0.2.1")[..12], &[0x20], &binary_of("192.0.2.1")[13..]].concat();
    let nobody = [b"PROXY UNKNOWN\r\n".to_vec(), binary(0x20, 0, &[]), unix, local_with_address];
    for (nth, header) in nobody.iter().enumerate() {
        assert_eq!(left(&server, header, "").await, Some(3 - nth as u32), "{header:?}");
        let field = format!("X-Forwarded-For: 203.0.113.{nth}\r\n");
        assert_eq!(left(&server, header, &field).await, Some(3), "a trusted peer may name the client in the field");
    }
    assert_eq!(left(&server, &text("127.0.0.1"), "").await, None, "announced by its address it is the same");
    assert_eq!(left(&server, &text("192.0.2.1"), "").await, Some(3));
}

/// Headers as an attacker would write them, with requests behind.
fn attempts() -> impl Strategy<Value = Vec<u8>> {
    let client = any::<u32>().prop_map(|bits| Ipv4Addr::from(bits).to_string());
    let header = prop_oneof![
        client.clone().prop_map(|client| text(&client)),
        client.prop_map(|client| binary_of(&client)),
        Just(text("127.0.0.1")),
        Just(text("10.0.0.1")),
        Just(binary(0x20, 0, &[])),
        Just(b"PROXY UNKNOWN\r\n".to_vec()),
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let fields = prop_oneof![Just(""), Just("X-Forwarded-For: 192.0.2.1\r\n")];
    (prop::collection::vec(header, 1..3), fields).prop_map(|(headers, fields)| [headers.concat(), get(fields)].concat())
}

#[tokio::test]
async fn nothing_that_an_untrusted_peer_sends_makes_it_anybodys_request() {
    let server = setup().start().await;
    let mut runner = TestRunner::deterministic();
    let attempts: Vec<_> = (0..100).map(|_| attempts().new_tree(&mut runner).unwrap().current()).collect();
    let count = attempts.len() as u64;
    each(attempts, async |attempt| {
        let told = tell(STRANGER, server.public, &attempt).await;
        assert!(told.is_none(), "{told:?}");
    })
    .await;
    only_refused(&server, "untrusted", count).await;
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert!(metrics.text().contains("grandstand_limit_windows 0\n"), "nobody's window has changed: {}", metrics.text());
    assert!((1..=2).contains(&warnings(&server)), "one a minute: {}", server.process.said());
    assert!(server.process.said().contains("127.0.0.9"), "{}", server.process.said());
}

#[tokio::test]
async fn a_header_may_come_in_pieces_and_together_with_requests() {
    let server = setup().start().await;
    for (nth, header) in [text("192.0.2.1"), binary_of("192.0.2.1")].iter().enumerate() {
        let whole = [&header[..], &get("")].concat();
        let stream = connect_from(BALANCER, server.public).await;
        stream.set_nodelay(true).unwrap();
        // Every byte by itself, of the header and of the request; as bytes are no text, in their own way.
        let reply = in_pieces(stream, whole.chunks(1)).await;
        assert_eq!(left_after(&reply), Some(3 - nth as u32));
    }
    for (header, left) in [(text("192.0.2.2"), [3, 2]), (binary_of("192.0.2.2"), [1, 0])] {
        let request = format!("GET {PATH} HTTP/1.1\r\nHost: mirror.test\r\n\r\n").into_bytes();
        let all = [&header[..], &request, &get("")].concat();
        let mut stream = connect_from(BALANCER, server.public).await;
        stream.write_all(&all).await.unwrap();
        let answers = String::from_utf8(to_end(stream).await).unwrap();
        for left in left {
            assert!(answers.contains(&format!("\"default\";r={left};")), "{answers}");
        }
        assert_eq!(answers.matches("HTTP/1.1 404").count(), 2, "{answers}");
    }
}

async fn in_pieces<'a>(mut stream: TcpStream, pieces: impl Iterator<Item = &'a [u8]>) -> Reply {
    for piece in pieces {
        stream.write_all(piece).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    drip(stream, []).await
}

#[tokio::test]
async fn a_connection_without_a_proper_header_is_closed_without_an_answer() {
    let endless = format!("PROXY TCP4 {}", "1".repeat(200)).into_bytes();
    let long = binary(0x21, 0x11, &vec![0; 4096 - 15]);
    let just = binary(0x21, 0x11, &[&[192, 0, 2, 1][..], &vec![0; 4096 - 16 - 4]].concat());
    let cases = [
        ("missing", get("")),
        ("missing", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("missing", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc".to_vec()),
        ("missing", b"\r\n\r\nGET".to_vec()),
        ("malformed", b"PROXY TCP4 192.0.2.1\r\n".to_vec()),
        ("malformed", [text("192.0.2.1")[..20].to_vec(), get("")].concat()),
        ("malformed", binary(0x31, 0x11, &[0; 12])),
        ("malformed", binary(0x21, 0x11, &[0; 11])),
        ("too-long", endless),
        ("too-long", [&long[..], &get("")].concat()),
        ("too-long", long[..16].to_vec()),
    ];
    let server = setup().start().await;
    for (reason, bytes) in cases {
        let before = refused(&server, reason).await;
        let told = tell(BALANCER, server.public, &bytes).await;
        assert!(told.is_none(), "{bytes:?}: {told:?}");
        let counted = async || refused(&server, reason).await == before + 1;
        wait_until(&format!("{bytes:?} is counted as {reason}"), || async { counted().await }).await;
    }
    let mut cut = connect_from(BALANCER, server.public).await;
    cut.write_all(b"PROXY TCP4 192").await.unwrap();
    drop(cut);
    wait_until("it is counted as cut", || async { refused(&server, "cut").await == 1 }).await;
    let told = tell(BALANCER, server.public, &[just, get("")].concat()).await.expect("an answer");
    assert_eq!(left_after(&told), Some(3), "a long header is one, too");
    assert!((1..=2).contains(&warnings(&server)), "one a minute: {}", server.process.said());
}

/// Whatever stands behind the addresses, in fields with lengths that lie too: they name the client, and nothing else does.
#[tokio::test]
async fn fields_behind_the_addresses_change_nothing() {
    let addresses = |last| [192, 0, 2, last, 198, 51, 100, 1, 156, 64, 0, 80];
    let field = |kind: u8, length: u16, value: &[u8]| [&[kind][..], &length.to_be_bytes(), value].concat();
    let ssl = [&[0x07, 0, 0, 0, 0][..], &field(0x21, 7, b"TLSv1.3"), &field(0x22, 9, b"127.0.0.1")].concat();
    let cases = [
        field(0x20, u16::try_from(ssl.len()).unwrap(), &ssl),
        field(0x20, 2, &[1, 0]),
        field(0x05, 200, &[b'x'; 200]),
        field(0xee, 3000, &[0xff; 3000]),
        field(0x04, u16::MAX, b"short"),
        field(0x04, 1, b"").repeat(100),
        vec![0x20],
        vec![0xff; 4000],
        vec![0; 4068],
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0GET / HTTP/1.1\r\n\r\n".to_vec(),
    ];
    let server = setup().start().await;
    each((1..).zip(cases), async |(last, fields)| {
        let header = binary(0x21, 0x11, &[&addresses(last)[..], &fields].concat());
        for taken in 1..=4 {
            let pieces = header.chunks(if taken == 1 { 7 } else { 5000 });
            let stream = connect_from(BALANCER, server.public).await;
            let reply = in_pieces(stream, pieces.chain([&get("")[..]])).await;
            assert_eq!((reply.status, left_after(&reply)), (404, Some(4 - taken)), "a client of its own: {last}");
        }
        assert_eq!(tell(BALANCER, server.public, &[&header[..], &get("")].concat()).await.unwrap().status, 429);
    })
    .await;
}

#[tokio::test]
async fn a_header_has_three_seconds() {
    let dir = certified();
    let server = with_tls(setup(), dir.path()).start().await;
    let secure = address(&server).await;
    let start = Instant::now();
    let cases = [
        (server.public, &b""[..]),
        (server.public, b"PROXY TCP4"),
        (secure, b""),
        (secure, b"\r\n\r\n\0\r\nQUIT\n\x21"),
    ];
    let (count, start) = (cases.len() as u64, &start);
    each(cases, async |(to, bytes)| {
        let mut stream = connect_from(BALANCER, to).await;
        stream.write_all(bytes).await.unwrap();
        assert_eq!(to_end(stream).await, b"");
        let waited = start.elapsed();
        assert!(waited > Duration::from_secs(2), "closed after {waited:?}");
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(12), "closed after {:?}", start.elapsed());
    only_refused(&server, "late", count).await;
}

#[tokio::test]
async fn a_health_check_that_closes_is_no_error() {
    let dir = certified();
    let server = with_tls(setup(), dir.path()).start().await;
    for to in [server.public, address(&server).await] {
        for bytes in [&b""[..], &binary(0x20, 0, &[]), b"PROXY UNKNOWN\r\n"] {
            let mut stream = connect_from(BALANCER, to).await;
            stream.write_all(bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(to_end(stream).await, b"");
            // By a reset, as HAProxy ends its checks.
            let stream = connect_from(BALANCER, to).await;
            reset_after(stream, bytes).await;
        }
    }
    assert_eq!(left(&server, &text("192.0.2.1"), "").await, Some(3), "it goes on");
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert!(!metrics.text().contains("grandstand_proxy_protocol_refused_total{"), "{}", metrics.text());
    assert_eq!(warnings(&server), 0, "{}", server.process.said());
}

/// Sends bytes, and ends the connection by a reset.
async fn reset_after(mut stream: TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    stream.set_zero_linger().unwrap();
}

#[tokio::test]
async fn an_announced_household_has_so_many_connections() {
    let server =
        setup().set("limits.connections_per_client", "2").set("rate_limit.requests_per_minute", "0").start().await;
    let open = async |client: &str| {
        let mut stream = connect_from(BALANCER, server.public).await;
        let request = format!("GET {PATH} HTTP/1.1\r\nHost: mirror.test\r\n\r\n");
        stream.write_all(&[text(client), request.into_bytes()].concat()).await.unwrap();
        let mut status = [0; 12];
        tokio::time::timeout(PATIENCE, stream.read_exact(&mut status)).await.unwrap().unwrap();
        (stream, String::from_utf8(status.to_vec()).unwrap())
    };
    let mut held = Vec::new();
    for client in ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1", "2001:db8::2"] {
        let (stream, status) = open(client).await;
        assert_eq!(status, "HTTP/1.1 404", "{client}");
        held.push(stream);
    }
    for client in ["192.0.2.1", "2001:db8::3"] {
        let (stream, status) = open(client).await;
        assert_eq!(status, "HTTP/1.1 503", "{client}");
        drop(stream);
    }
    let proxies = futures_util::future::join_all((0..4).map(|_| open("10.0.0.1"))).await;
    assert!(proxies.iter().all(|(_, status)| status == "HTTP/1.1 404"), "a trusted proxy speaks for many");
    drop(held.remove(0));
    wait_until("there is room again", || async { open("192.0.2.1").await.1 == "HTTP/1.1 404" }).await;
}

#[tokio::test]
async fn without_the_setting_a_header_is_no_http() {
    let server = setup().set("client_ip.proxy_protocol", "false").start().await;
    for header in [text("192.0.2.1"), binary_of("192.0.2.1")] {
        let told = tell(BALANCER, server.public, &[header, get("")].concat()).await.expect("an answer");
        told.assert_problem(400, &[]);
    }
    assert_eq!(left(&server, b"", "").await, Some(3), "nobody's requests: a trusted proxy sent them");
}
