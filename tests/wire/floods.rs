//! Floods over HTTP/2: what one connection may cost, whatever frames it sends. The frames are written by hand (RFC 9113).

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::client::{connect_from, http2_client};
use crate::harness::{Script, Server, Setup, Upstream, each, wait_until};

const LIST: &str = "/api/listings.json";
/// What a flood may add to the memory of the server, in MiB.
const MOST: u64 = 32;
/// A flood has failed when the server still takes it after so many bytes.
const BYTES: usize = 16 << 20;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request with this path: indexed fields for `GET` and `http`, then literal ones (RFC 7541).
pub fn request(stream: u32, path: &str, flags: u8) -> Vec<u8> {
    let block = [vec![0x82, 0x86], literal(1, "mirror.test"), literal(4, path)].concat();
    frame(1, flags, stream, &block)
}

/// A request that does not say whom it asks.
pub fn headless(stream: u32) -> Vec<u8> {
    frame(1, END_STREAM | END_HEADERS, stream, &[vec![0x82, 0x86], literal(4, LIST)].concat())
}

fn literal(index: u8, text: &str) -> Vec<u8> {
    [&[index, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn reset(stream: u32) -> Vec<u8> {
    frame(3, 0, stream, &8u32.to_be_bytes())
}

/// A connection that has sent the preface and settings.
pub async fn begin(server: &Server, settings: &[u8]) -> TcpStream {
    begin_from(Ipv4Addr::LOCALHOST, server, settings).await
}

/// The same, from one of the addresses of loopback.
pub async fn begin_from(address: Ipv4Addr, server: &Server, settings: &[u8]) -> TcpStream {
    let mut stream = connect_from(address, server.public).await;
    let start = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, settings)].concat();
    stream.write_all(&start).await.unwrap();
    stream
}

async fn shield() -> (Upstream, Server) {
    let origin = Upstream::start(|_| Script::new(200, "{}").with("cache-control", "max-age=600")).await;
    let server = Setup::shield_of_url(&origin.url()).alone().start().await;
    server.ok(LIST).await;
    (origin, server)
}

/// How much memory the server holds, in MiB.
fn resident(server: &Server) -> u64 {
    memory(server, "VmRSS:")
}

/// How much memory the server has held at most, in MiB.
pub fn peak(server: &Server) -> u64 {
    memory(server, "VmHWM:")
}

fn memory(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
}

/// Whether the server ends a connection that sends this again and again, before it has taken [`BYTES`]. A server that
/// stops reading holds the flood up, which is as good. `reads`: whether the client reads what it is sent.
async fn is_stopped(mut stream: TcpStream, reads: bool, mut next: impl FnMut(u32) -> Vec<u8>) -> bool {
    let (mut sent, mut turn) = (0, 0);
    let mut thrown_away = vec![0; 1 << 16];
    while sent < BYTES {
        let piece: Vec<u8> = (0..200).flat_map(|nth| next(turn * 200 + nth)).collect();
        match tokio::time::timeout(Duration::from_secs(3), stream.write_all(&piece)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return true,
        }
        if reads {
            while stream.try_read(&mut thrown_away).is_ok_and(|read| read > 0) {}
        }
        (sent, turn) = (sent + piece.len(), turn + 1);
    }
    false
}

#[tokio::test]
async fn floods_that_serve_no_purpose_end_their_connection() {
    let (_origin, server) = shield().await;
    let before = resident(&server);
    let odd = |nth: u32| 2 * nth + 1;
    let cases =
        ["resets", "malformed", "empty data", "data bytes", "continuations", "header fields", "zero increments"];
    each(cases, async |case| {
        let mut stream = begin(&server, &[]).await;
        let stopped = match case {
            "resets" => {
                let both = |nth| [request(odd(nth), LIST, END_STREAM | END_HEADERS), reset(odd(nth))].concat();
                is_stopped(stream, true, both).await
            }
            "malformed" => is_stopped(stream, true, |nth| headless(odd(nth))).await,
            "empty data" | "data bytes" => {
                stream.write_all(&request(1, LIST, END_HEADERS)).await.unwrap();
                let bytes: &[u8] = if case == "data bytes" { b"x" } else { b"" };
                is_stopped(stream, true, |_| frame(0, 0, 1, bytes)).await
            }
            "continuations" => {
                stream.write_all(&request(1, LIST, END_STREAM)).await.unwrap();
                is_stopped(stream, true, |_| frame(9, 0, 1, b"")).await
            }
            "header fields" => {
                stream.write_all(&request(1, LIST, END_STREAM)).await.unwrap();
                let field = [&[0, 1, b'x', 127, 129, 127][..], &[b'y'; 16_384 - 128]].concat();
                is_stopped(stream, true, |_| frame(9, 0, 1, &field)).await
            }
            // Each makes the server reset a stream.
            _ => {
                let wrong = |nth| [request(odd(nth), LIST, END_HEADERS), frame(8, 0, odd(nth), &[0; 4])].concat();
                is_stopped(stream, true, wrong).await
            }
        };
        assert!(stopped, "{case}");
    })
    .await;
    assert_eq!(server.get(LIST).await.status, 200);
    let held = resident(&server).saturating_sub(before);
    assert!(held < MOST, "{held} MiB");
}

#[tokio::test]
async fn floods_that_ask_for_answers_are_held_up_by_them() {
    let (_origin, server) = shield().await;
    let before = resident(&server);
    let mut held = Vec::new();
    for flood in [frame(6, 0, 0, &[7; 8]), frame(4, 0, 0, &[0, 3, 0, 0, 0, 100])] {
        let stream = begin(&server, &[]).await;
        assert!(is_stopped(stream, false, |_| flood.clone()).await, "a client that reads nothing is not read");
        // A client that does read may go on: nothing piles up.
        held.push((begin(&server, &[]).await, flood));
    }
    each(held, async |(stream, flood)| {
        let _taken = is_stopped(stream, true, |_| flood.clone()).await;
    })
    .await;
    assert_eq!(http2_client().get(format!("http://{}{LIST}", server.public)).send().await.unwrap().status(), 200);
    let held = resident(&server).saturating_sub(before);
    assert!(held < MOST, "{held} MiB");
}

#[tokio::test]
async fn answers_that_nobody_lets_through_are_given_up() {
    let origin = Upstream::start(|_| {
        let body = format!("{{\"x\":\"{}\"}}", "y".repeat(1 << 20));
        Script::new(200, body).with("cache-control", "max-age=600").with("content-type", "application/json")
    })
    .await;
    let server = Setup::shield_of_url(&origin.url()).alone().start().await;
    server.ok(LIST).await;
    let before = resident(&server);
    let mut streams = Vec::new();
    // A window of no bytes, and as many requests as are allowed.
    for _ in 0..20 {
        let mut stream = begin(&server, &[0, 4, 0, 0, 0, 0]).await;
        for nth in 0..100 {
            stream.write_all(&request(2 * nth + 1, LIST, END_STREAM | END_HEADERS)).await.unwrap();
        }
        streams.push(stream);
    }
    let mut received = vec![Vec::new(); streams.len()];
    wait_until("nearly all of them are given up", || {
        let mut resets = 0;
        for (stream, received) in streams.iter().zip(&mut received) {
            while stream.try_read_buf(received).is_ok_and(|read| read > 0) {}
            resets += resets_in(received);
        }
        async move { resets >= 1800 }
    })
    .await;
    let held = resident(&server).saturating_sub(before);
    assert!(held < MOST, "{held} MiB for 2,000 answers of 1 MiB");
    assert_eq!(server.get(LIST).await.status, 200);
}

/// A request goes on when its client has reset the stream. A client that resets each of them must not have ever more.
#[tokio::test]
async fn requests_whose_streams_are_reset_do_not_pile_up() {
    let gate = std::sync::Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let origin = Upstream::start(move |_| Script::new(200, "{}").held_by(&held)).await;
    let setup = Setup::shield_of_url(&origin.url()).set("origin.timeout", "60s");
    let server = setup.start().await;
    let mut stream = begin(&server, &[]).await;
    let (mut opened, mut received) = (0, Vec::new());
    for turn in 0..12 {
        let streams = || (0..50).map(|nth| 2 * (turn * 50 + nth) + 1);
        for number in streams() {
            let piece = request(number, &format!("/api/x/{number}"), END_STREAM | END_HEADERS);
            stream.write_all(&piece).await.unwrap();
        }
        opened += 50;
        // Each was accepted: what is reset before that, HTTP/2 itself bounds.
        wait_until("each is at the origin or refused", || {
            while stream.try_read_buf(&mut received).is_ok_and(|read| read > 0) {}
            let all = origin.count() + resets_in(&received) >= opened;
            async move { all }
        })
        .await;
        for number in streams() {
            stream.write_all(&reset(number)).await.unwrap();
        }
    }
    assert!((250..=256).contains(&origin.count()), "{} of {opened} requests in work", origin.count());
    // The connection still lives.
    gate.add_permits(10_000);
    let before = received.len();
    stream.write_all(&frame(6, 0, 0, &[1; 8])).await.unwrap();
    wait_until("a ping is answered", || {
        while stream.try_read_buf(&mut received).is_ok_and(|read| read > 0) {}
        let answered = received[before..].windows(8).any(|window| window == [1; 8]);
        async move { answered }
    })
    .await;
}

/// How many frames that reset a stream there are in these bytes.
pub fn resets_in(bytes: &[u8]) -> usize {
    frames(bytes).filter(|(kind, _)| *kind == 3).count()
}

/// Kind and flags of the complete frames in these bytes.
pub fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (u8, u8)> + '_ {
    std::iter::from_fn(move || {
        let [high, middle, low, kind, flags, ..] = *bytes else { return None };
        let length = 9 + u32::from_be_bytes([0, high, middle, low]) as usize;
        bytes = bytes.get(length..)?;
        Some((kind, flags))
    })
}
