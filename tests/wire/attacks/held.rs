//! One client makes requests wait over HTTP/2: for the limit, and for the origin.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::client::connect_from;
use crate::floods::{END_HEADERS, END_STREAM, begin, begin_from, frame, frames, peak, request};
use crate::harness::{Script, Setup, Upstream, wait_until};

const LIST: &str = "/api/listings.json";
/// Kinds of frames (RFC 9113 §6).
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;

/// Waits until so many frames of these kinds have come on these connections.
pub(super) async fn begun(count: usize, kinds: &[u8], connections: &mut [(TcpStream, Vec<u8>)]) {
    wait_until(&format!("{count} answers have begun"), || {
        let mut begun = 0;
        for (stream, received) in &mut *connections {
            while stream.try_read_buf(received).is_ok_and(|read| read > 0) {}
            begun += frames(received).filter(|(kind, _)| kinds.contains(kind)).count();
        }
        async move { begun >= count }
    })
    .await;
}

/// A request whose head has 32 KB.
fn large_request(stream: u32) -> Vec<u8> {
    let field = [&[0, 1, b'x', 127, 0x81, 0x7c][..], &[b'y'; 16_000]].concat();
    let more = |flags| frame(CONTINUATION, flags, stream, &field);
    [request(stream, LIST, END_STREAM), more(0), more(END_HEADERS)].concat()
}

/// The client has no room for any body, so that neither its answers nor its refusals end.
#[tokio::test]
async fn requests_beyond_the_limit_are_refused_at_once_and_hold_no_heads() {
    const CONNECTIONS: usize = 64;
    const LIMIT: usize = 60;
    let origin = Upstream::start(|_| {
        let body = format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20));
        Script::new(200, body).with("cache-control", "max-age=600").with("content-type", "application/json")
    })
    .await;
    let setup = Setup::shield_of_url(&origin.url()).set("rate_limit.requests_per_minute", &LIMIT.to_string());
    let server = setup.alone().start().await;
    server.ok(LIST).await;
    let (before, mut open) = (peak(&server), Vec::new());
    for _ in 0..CONNECTIONS {
        let mut stream = begin(&server, &[0, 4, 0, 0, 0, 0]).await;
        for nth in 0..128 {
            stream.write_all(&large_request(2 * nth + 1)).await.unwrap();
        }
        open.push((stream, Vec::new()));
    }
    // Beyond 4,096 streams that wait, further ones are refused as streams.
    begun(CONNECTIONS * 128 - LIMIT, &[HEADERS, RST_STREAM], &mut open).await;
    let held = peak(&server).saturating_sub(before);
    assert!(held < 128, "{held} MiB for 256 MiB of heads");
    assert_eq!(server.get(LIST).await.status, 429);
}

#[tokio::test]
async fn requests_that_wait_for_the_origin_stop_no_others() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let origin = Upstream::start(move |seen| {
        let answer = Script::new(200, r#"{"id":1}"#).with("cache-control", "max-age=600");
        if seen.target.starts_with("/api/listings/") { answer.held_by(&held) } else { answer }
    })
    .await;
    let server = Setup::shield_of_url(&origin.url()).set("origin.timeout", "60s").start().await;
    server.ok(LIST).await;
    let mut open = Vec::new();
    for connection in 0..2 {
        let mut stream = begin(&server, &[]).await;
        for nth in 0..100 {
            let path = format!("/api/listings/{}.json", connection * 100 + nth + 1);
            stream.write_all(&request(2 * nth + 1, &path, END_STREAM | END_HEADERS)).await.unwrap();
        }
        open.push((stream, Vec::new()));
    }
    wait_until("all are at the origin", || async { origin.count() == 201 }).await;
    for (nth, path) in [LIST, "/livez"].into_iter().enumerate() {
        for (stream, _) in &mut open {
            let stream_id = 201 + 2 * u32::try_from(nth).unwrap();
            stream.write_all(&request(stream_id, path, END_STREAM | END_HEADERS)).await.unwrap();
        }
    }
    begun(4, &[HEADERS], &mut open).await;
    gate.add_permits(200);
    begun(204, &[HEADERS], &mut open).await;
}

/// So long is a target, in bytes: `/api/x/yyy...` and a number.
const LONG: usize = 40_000;

fn long_target(number: u32) -> String {
    format!("/api/x/{number:y>width$}", width = LONG - "/api/x/".len())
}

fn long_request(stream: u32) -> Vec<u8> {
    // `:path` as a literal, its length in the form of RFC 7541 §5.1.
    let length = LONG - 127;
    let path = [4, 127, 128 | (length % 128) as u8, 128 | (length / 128 % 128) as u8, (length / 16_384) as u8];
    let target = long_target(stream);
    let [first, second, third] = [0, 16_000, 32_000].map(|at| &target.as_bytes()[at..LONG.min(at + 16_000)]);
    let head = [&[0x82, 0x86, 1, 11][..], b"mirror.test", &path, first].concat();
    [
        frame(HEADERS, END_STREAM, stream, &head),
        frame(CONTINUATION, 0, stream, second),
        frame(CONTINUATION, END_HEADERS, stream, third),
    ]
    .concat()
}

/// They take several times their length, and are for paths that no snapshot covers.
#[tokio::test]
async fn long_targets_that_wait_for_the_origin_count_for_their_household() {
    /// 139 of them are the 64 MiB of a household.
    const CLIENTS: u32 = 180;
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let origin = Upstream::start(move |_| Script::new(200, "late").held_by(&held)).await;
    let server = Setup::shield_of_url(&origin.url()).set("origin.timeout", "60s").alone().start().await;
    let mut open = Vec::new();
    for number in 0..CLIENTS {
        let mut stream = connect_from(Ipv4Addr::LOCALHOST, server.public).await;
        let request = format!("GET {} HTTP/1.1\r\nhost: mirror.test\r\n\r\n", long_target(number));
        stream.write_all(request.as_bytes()).await.unwrap();
        open.push((stream, Vec::new()));
    }
    let mut answered = async |count: usize| {
        let mut refused = 0;
        wait_until(&format!("{count} are answered"), || {
            for (stream, received) in &mut open {
                while stream.try_read_buf(received).is_ok_and(|read| read > 0) {}
            }
            let is_refused =
                |(_, received): &&(_, Vec<u8>)| String::from_utf8_lossy(received).contains("have not been read");
            refused = open.iter().filter(is_refused).count();
            let answered = open.iter().filter(|(_, received)| !received.is_empty()).count();
            async move { answered >= count }
        })
        .await;
        refused
    };
    answered(20).await;
    gate.add_permits(CLIENTS as usize);
    let refused = answered(CLIENTS as usize).await;
    assert!((20..60).contains(&refused), "{refused} were refused");
    gate.forget_permits(CLIENTS as usize);
    let mut stream = begin_from(Ipv4Addr::new(127, 0, 0, 2), &server, &[]).await;
    for nth in 0..128 {
        stream.write_all(&long_request(2 * nth + 1)).await.unwrap();
    }
    // 34 of them are the 16 MiB of a connection.
    begun(70, &[RST_STREAM], &mut [(stream, Vec::new())]).await;
    server.ok("/livez").await;
}
