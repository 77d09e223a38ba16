//! How often a hot request allocates, counted in the whole process while a real client asks over a real socket; and
//! whether zstd uses our allocator.
//!
//! Not how long anything takes. The mirror runs inside the test, so that its allocator can count. The client reuses its
//! buffer. What other threads allocate meanwhile only adds to a count, so rounds are repeated until one of them is quiet.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(missing_docs, reason = "nothing here is called from outside")]

use std::alloc::System;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use grandstand::config::Config;
use grandstand::server::core::Core;
use grandstand::server::{Sockets, serve};
use sample_origin::{Origin, Switches, World};
use serde_json::Value;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time counts.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
const REQUESTS: usize = 200;
/// Allocations in a whole round that no request makes: timers and the like.
const SLACK: usize = REQUESTS / 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that allocates nothing once it is built.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, buffer: vec![0; 1 << 20] }
    }

    /// Sends a request and reads its answer whole; head and body.
    fn ask(&mut self, request: &[u8]) -> (&[u8], &[u8]) {
        self.stream.write_all(request).unwrap();
        let mut have = 0;
        loop {
            have += match self.stream.read(&mut self.buffer[have..]) {
                Ok(0) => panic!("the server hung up"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => 0,
                Err(error) => panic!("{error}"),
            };
            let Some(end) = find(&self.buffer[..have], b"\r\n\r\n") else { continue };
            let whole = end + 4 + length(&self.buffer[..end]);
            if have >= whole {
                assert_eq!(have, whole, "more than one answer");
                return (&self.buffer[..end], &self.buffer[end + 4..whole]);
            }
        }
    }

    fn get(&mut self, target: &str) -> Vec<u8> {
        let (head, body) = self.ask(request(target, "").as_bytes());
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{target}: {}", String::from_utf8_lossy(head));
        body.to_vec()
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let start = head.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name))? + name.len();
    let value = &head[start..];
    Some(&value[..find(value, b"\r\n").unwrap_or(value.len())])
}

fn length(head: &[u8]) -> usize {
    let bodyless = head.starts_with(b"HTTP/1.1 304 ");
    let digits = field(head, b"\r\ncontent-length: ").filter(|_| !bodyless).unwrap_or_default();
    digits.iter().fold(0, |length, digit| length * 10 + usize::from(digit - b'0'))
}

/// What a browser's library would send, with some more fields.
fn request(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nAccept: */*\r\n{fields}\r\n")
}

/// A client of HTTP/2 that allocates nothing once it is built: one stream after the other, frames written by hand
/// (RFC 9113).
struct Streams {
    stream: TcpStream,
    buffer: Vec<u8>,
    next: u32,
}

impl Streams {
    fn new(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Settings, and windows that hold nothing up.
        let settings = frame(4, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
        let start = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings, &frame(8, 0, 0, &[0x7f, 0, 0, 0])];
        stream.write_all(&start.concat()).unwrap();
        Self { stream, buffer: vec![0; 1 << 20], next: 1 }
    }

    /// Sends a request and reads its answer whole; the first byte of the head, which says the status.
    fn ask(&mut self, request: &mut [u8]) -> u8 {
        let number = self.next.to_be_bytes();
        self.next += 2;
        request[5..9].copy_from_slice(&number);
        self.stream.write_all(request).unwrap();
        let (mut have, mut seen, mut status) = (0, 0, None);
        loop {
            have += self.stream.read(&mut self.buffer[have..]).unwrap();
            while let [high, middle, low, kind, flags, stream @ ..] = &self.buffer[seen..have] {
                let length = 9 + u32::from_be_bytes([0, *high, *middle, *low]) as usize;
                if seen + length > have {
                    break;
                }
                // Heads have the kind 1; bit 0 ends a stream.
                if stream[..4] == number {
                    if *kind == 1 {
                        status = Some(stream[4]);
                    }
                    if flags & 1 != 0 {
                        return status.expect("a head");
                    }
                }
                seen += length;
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request for [`Streams`]: `GET` and `http` as indexed fields, then literal ones and these (RFC 7541).
fn stream_request(target: &str, fields: &[u8]) -> Vec<u8> {
    let literal = |index: u8, text: &str| [&[index, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let block = [&[0x82, 0x86][..], &literal(1, "localhost"), &literal(4, target), fields].concat();
    frame(1, 4 | 1, 0, &block)
}

/// Starts an origin and a mirror of it in this process: the public and the operator's address.
fn start() -> (SocketAddr, SocketAddr, tempfile::TempDir) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let origin = Origin::start(any, World::generate(300, 42), Switches::default()).await.unwrap();
            sender.send(origin.url()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let origin = receiver.recv().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let sets = [
        "listen=[\"127.0.0.1:0\"]".to_owned(),
        "admin.listen=\"127.0.0.1:0\"".to_owned(),
        "public_url=\"http://mirror.test\"".to_owned(),
        // So long that no refresh comes in between.
        "ttl=\"1h\"".to_owned(),
        format!("data_dir={:?}", directory.path().to_str().unwrap()),
        format!("origin.url={origin:?}"),
        "origin.requests_per_minute=0".to_owned(),
        "origin.cache_ttl=\"100ms\"".to_owned(),
        "mirror.examine_per_hour=0".to_owned(),
        "rate_limit.requests_per_minute=100000000".to_owned(),
    ];
    let config = Config::load(None, std::iter::empty(), &sets).unwrap().config;
    let sockets = Sockets::bind(&config).unwrap();
    let (public, admin) = (sockets.public()[0], sockets.admin());
    let core = Core::open(&config).unwrap();
    std::thread::spawn(move || {
        serve(&config, sockets, core, None, |_| Ok(Box::pin(futures_util::stream::pending()))).unwrap();
    });
    (public, admin, directory)
}

/// Waits until everything is mirrored and certified, so that nothing goes on but what is asked for.
fn settle(admin: SocketAddr) {
    let began = Instant::now();
    loop {
        // 503 before the first snapshot.
        let mut client = Client::new(admin);
        let (_, body) = client.ask(request("/status", "").as_bytes());
        let status: Value = serde_json::from_slice(body).unwrap();
        let certified = matches!(status["snapshot"]["certificate"].as_str(), Some("full" | "incremental"));
        if certified && status["details"]["current"] == status["details"]["of"] {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "not settled: {status:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Allocations for [`REQUESTS`] equal requests on one connection, in the quietest round; growing a block counts as one.
/// A round with at most `known` ends it: more rounds could only find fewer.
fn count(known: usize, mut ask: impl FnMut()) -> usize {
    let mut round = || {
        let region = Region::new(ALLOCATOR);
        for _ in 0..REQUESTS {
            ask();
        }
        let change = region.change();
        change.allocations + change.reallocations
    };
    // One round to warm up.
    round();
    let (began, mut fewest) = (Instant::now(), usize::MAX);
    while fewest > known && began.elapsed() < PATIENCE {
        fewest = fewest.min(round());
    }
    fewest
}

#[test]
fn zstd_has_its_memory_from_our_allocator() {
    let alone = ALONE.lock();
    let region = Region::new(ALLOCATOR);
    // An encoder of this level needs 11 MiB for such a text.
    zstd::bulk::Compressor::new(12).unwrap().compress(&vec![7; 1 << 20]).unwrap();
    let taken = region.change().bytes_allocated;
    drop(alone);
    assert!(taken > 8 << 20, "{taken} bytes: is `with-rust-allocator` on in Cargo.toml?");
}

#[test]
fn a_hot_answer_allocates_no_more_often_than_is_known() {
    let _alone = ALONE.lock();
    let (public, admin, _directory) = start();
    settle(admin);
    let mut client = Client::new(public);
    let list: Value = serde_json::from_slice(&client.get("/api/listings.json")).unwrap();
    let detail = format!("/api/listings/{}.json", list["items"][0]["id"]);
    let (head, _) = client.ask(request("/api/listings.json", "").as_bytes());
    let tag = String::from_utf8(field(head, b"\r\netag: ").unwrap().to_vec()).unwrap();
    let gzip = "Accept-Encoding: gzip, deflate\r\n";
    // Lower a bound when the number falls; raise it only with a reason.
    let cases = [
        ("a detail", request(&detail, ""), b"200", 12),
        ("a page of a list, gzip", request("/api/listings.json", gzip), b"200", 12),
        ("a page of a list, 304", request("/api/listings.json", &format!("If-None-Match: {tag}\r\n")), b"304", 12),
    ];
    let counted = cases.map(|(name, request, status, bound)| {
        let known = bound * REQUESTS + SLACK;
        (name, known, count(known, || assert_eq!(&client.ask(request.as_bytes()).0[9..12], status)))
    });
    let mut streams = Streams::new(public);
    let known_tag = [&[0x0f, 41 - 15, u8::try_from(tag.len()).unwrap()], tag.as_bytes()].concat();
    // One of them lets the body carry its room. The first byte of a head is the indexed field `:status`: 200 or 304.
    let over_http2 = [
        ("HTTP/2, a detail", stream_request(&detail, &[]), 0x88, 7),
        ("HTTP/2, a page of a list, gzip", stream_request("/api/listings.json", &[0x90]), 0x88, 9),
        ("HTTP/2, a page of a list, 304", stream_request("/api/listings.json", &known_tag), 0x8b, 9),
    ]
    .map(|(name, mut request, status, bound)| {
        let known = bound * REQUESTS + SLACK;
        (name, known, count(known, || assert_eq!(streams.ask(&mut request), status)))
    });
    for (name, known, counted) in counted.into_iter().chain(over_http2) {
        println!("{name}: {counted} allocations for {REQUESTS} requests");
        assert!(counted <= known, "{name}: {counted} allocations for {REQUESTS} requests, {known} are known");
        assert!(counted >= REQUESTS, "{name}: nothing was counted");
    }
}
