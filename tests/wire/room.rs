//! An origin whose bodies are bombs: together they take a bounded part of the memory, and others are served.

use std::io::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::harness::{Script, Seen, Server, Setup, Upstream, wait_until};

const MEBIBYTE: u64 = 1 << 20;
/// The room for all bodies together, in MiB.
const ROOM: u64 = 128;
/// So many bodies want twice that room.
const CROWD: usize = 40;
/// The pause of the client that asks for a good resource all the while.
const BETWEEN: Duration = Duration::from_millis(50);
/// The largest body, in MiB: large enough to tell, small enough that a test takes seconds.
const LARGEST: usize = 4;
/// The most that the server may ever use: the room, its other needs (more without optimisation), and the allocator's
/// short-lived reserve.
const MOST: u64 = (2 * ROOM + 48) * MEBIBYTE;

/// The most memory that the server had in use at any time, in bytes.
fn most_resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn gzip(pieces: impl Iterator<Item = &'static str>) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    pieces.for_each(|piece| encoder.write_all(piece.as_bytes()).unwrap());
    Bytes::from(encoder.finish().unwrap())
}

/// Bodies that just fit and are a few dozen kilobytes on the wire, by their content.
fn bombs() -> Vec<(&'static str, Bytes)> {
    let many = |start: &'static str, piece: &'static str, end: &'static str| {
        let times = (LARGEST * (1 << 20) - 4096) / piece.len();
        gzip([start].into_iter().chain(std::iter::repeat_n(piece, times)).chain([end]))
    };
    let open = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[";
    let close = "0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]";
    vec![
        ("elements", many("[", "0,", "0]")),
        ("fields", many("{", "\"\":0,", "\"\":0}")),
        ("objects", many("[", "{},", "{}]")),
        ("terms", many("[", "{\"slug\":\"a\"},", "{}]")),
        ("addresses", many("[", "{\"api_url\":\"/api/x\"},", "{}]")),
        ("depth", many(open, "0,", close)),
        ("escapes", many("{\"a\":\"", "\\u0061", "\"}")),
    ]
}

/// A shield of an origin that answers so, and well under other paths.
async fn shield(answer: impl Fn(&Seen) -> Option<Script> + Send + Sync + 'static) -> (Upstream, Server) {
    let origin = Upstream::start(move |seen| {
        let well = || Script::new(200, r#"{"total":1,"items":[{"id":1}]}"#).with("Cache-Control", "no-store");
        answer(seen).unwrap_or_else(well)
    })
    .await;
    // Kept answers count apart: here they are few.
    let setup = Setup::shield_of_url(&origin.url())
        .alone()
        .set("origin.timeout", "20s")
        .set("cache.max_bytes", "8MiB")
        .set("origin.max_body", &format!("{LARGEST}MiB"));
    let server = setup.start().await;
    server.ok("/api/listings.json?page=9").await;
    (origin, server)
}

/// Asks for all of these at once, and for a good resource all the while; the longest wait for the latter.
async fn attack(server: &Server, targets: &[String]) -> Duration {
    let all = futures_util::future::join_all(targets.iter().map(|target| server.get(target)));
    let mut all = std::pin::pin!(all);
    let mut longest = Duration::ZERO;
    loop {
        let good = async {
            let begun = Instant::now();
            let reply = server.get("/api/listings.json?page=9").await;
            assert_eq!(reply.status, 200, "{reply:?}");
            let waited = begun.elapsed();
            // The processors are for the attack, which goes on meanwhile.
            tokio::time::sleep(BETWEEN).await;
            waited
        };
        tokio::select! {
            replies = &mut all => {
                for (target, reply) in targets.iter().zip(replies) {
                    assert!(matches!(reply.status, 200 | 502 | 503), "{target}: {}", reply.status);
                }
                return longest;
            }
            waited = good => longest = longest.max(waited),
        }
    }
}

#[tokio::test]
async fn bodies_that_unpack_to_bombs_take_a_bounded_part_of_the_memory() {
    let bombs = bombs();
    let names: Vec<&str> = bombs.iter().map(|(name, _)| *name).collect();
    let (_origin, server) = shield(move |seen| {
        let (_, bomb) = bombs.iter().find(|(name, _)| seen.target.contains(name))?;
        Some(Script::new(200, bomb.clone()).with("Content-Encoding", "gzip").with("Content-Type", "application/json"))
    })
    .await;
    let before = most_resident(&server);
    for (nth, name) in names.into_iter().enumerate() {
        // A crowd of one kind at once: the whole crowd of those that take the most beyond their bytes.
        let crowd = if nth < 3 { CROWD } else { CROWD / 2 };
        let targets: Vec<String> =
            (0..crowd).map(|number| format!("/api/listings.json?sport={name}&page=1{number}")).collect();
        let longest = attack(&server, &targets).await;
        println!("{name}: {} MiB at most, others waited {longest:?}", most_resident(&server) / MEBIBYTE);
    }
    let most = most_resident(&server);
    println!("{} MiB before, {} MiB at most", before / MEBIBYTE, most / MEBIBYTE);
    assert!(most < MOST, "{} MiB", most / MEBIBYTE);
}

#[tokio::test]
async fn taxonomies_that_are_bombs_take_a_bounded_part_of_the_memory_and_no_thread_for_long() {
    for (name, bomb) in bombs() {
        let (_origin, server) = shield(move |seen| {
            let taxonomy = ["sports", "states", "cities"].iter().any(|kind| seen.target.contains(kind));
            let gzip = Script::new(200, bomb.clone()).with("Content-Encoding", "gzip");
            taxonomy.then(|| gzip.with("Content-Type", "application/json"))
        })
        .await;
        let targets = ["sports", "states", "cities"].map(|kind| format!("/api/{kind}.json"));
        let longest = attack(&server, &targets).await;
        let most = most_resident(&server);
        println!("{name}: {} MiB at most, others waited {longest:?}", most / MEBIBYTE);
        assert!(most < MOST, "{name}: {} MiB", most / MEBIBYTE);
    }
}

#[tokio::test]
async fn bodies_without_end_take_a_bounded_part_of_the_memory() {
    let (origin, server) = shield(|seen| {
        let endless = seen.target.contains("endless") || seen.target.contains("sport=");
        endless.then(|| {
            let start = Script::new(200, "[").with("Cache-Control", "max-age=60").then(Duration::ZERO, "0");
            start.repeating(vec![b','; 1 << 20], 10_000)
        })
    })
    .await;
    // Ten that are read whole, and ten that are streamed to clients that read nothing.
    let targets: Vec<String> = (0..10).map(|number| format!("/api/listings.json?sport=a&page=1{number}")).collect();
    let mut silent = Vec::new();
    for number in 0..10 {
        let mut stream = tokio::net::TcpStream::connect(server.public).await.unwrap();
        let request = format!("GET /api/endless/{number} HTTP/1.1\r\nHost: x\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    let longest = attack(&server, &targets).await;
    let mut last = u64::MAX;
    wait_until("the origin is held up", || {
        let now = origin.repeated();
        let still = std::mem::replace(&mut last, now) == now;
        async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            still
        }
    })
    .await;
    let most = most_resident(&server);
    println!("{} MiB at most, others waited {longest:?}", most / MEBIBYTE);
    assert!(most < MOST, "{} MiB", most / MEBIBYTE);
    drop(silent);
    // Departed clients gave room back.
    let reply = server.ok("/api/listings.json?page=9").await;
    assert_eq!(reply.total(), 1);
}
