//! One client asks for many large answers, and reads none of them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use sample_origin::{FaultRule, World};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::held::{HEADERS, RST_STREAM, begun};
use crate::floods::{END_HEADERS, END_STREAM, begin, begin_from, frame, peak, request, resets_in};
use crate::harness::{Body, Script, Seen, Setup, Upstream, each, origin, pipe, virtually, wait_until};
use crate::origin_faults::Fault;

/// What a client may make the server hold, in MiB: 32 of answers, and what making them takes.
const MOST: u64 = 96;

/// Each of these pages is another one, and nobody keeps it: all bytes are held for this client alone.
#[tokio::test]
async fn pages_that_a_client_does_not_read_are_not_made() {
    each(["/explore?city=", "/explore?sort=name&q="], async |start| {
        let origin = origin(700).await;
        let server = Setup::mirror_of(&origin).alone().start().await;
        server.settled(&origin).await;
        let size = server.ok(&format!("{start}nowhere")).await.body.len();
        let before = peak(&server);
        let mut held = Vec::new();
        for connection in 0..8 {
            let mut stream = begin(&server, &[0, 4, 0, 0, 0, 0]).await;
            for nth in 0..128 {
                let path = format!("{start}x{connection}-{nth}");
                stream.write_all(&request(2 * nth + 1, &path, END_STREAM | END_HEADERS)).await.unwrap();
            }
            held.push((stream, Vec::new()));
        }
        // Which it is after 30 s; until then it holds all that it ever gets.
        wait_until("a stream is given up", || {
            let mut resets = 0;
            for (stream, received) in &mut held {
                while stream.try_read_buf(received).is_ok_and(|read| read > 0) {}
                resets += resets_in(received);
            }
            async move { resets > 0 }
        })
        .await;
        let held = peak(&server).saturating_sub(before);
        assert!(held < MOST, "{held} MiB for 1,024 pages of {size} bytes");
        let ready = tokio::time::timeout(Duration::from_secs(20), server.get("/api/listings.json")).await;
        assert_eq!(ready.unwrap().status, 200);
        assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
    })
    .await;
}

/// Over HTTP/1.1 each connection holds one answer, of which it reads just enough.
#[tokio::test(start_paused = true)]
async fn a_household_that_reads_hardly_anything_gets_503_over_http1_too() {
    /// So many times a mebibyte are a household's room.
    const ANSWERS: usize = 32;
    const PIECE: usize = 64 << 10;
    let (_origin, server) = virtually::mirrored(20).await;
    let docs = server.ok("/docs").await;
    let script = docs.text().split('"').find(|text| text.contains("swagger-ui-bundle")).unwrap();
    let script = format!("/{script}");
    assert!(server.ok(&script).await.body.len() > 1 << 20);
    let Body::Memory(memory) = &server.process else { panic!("it is in memory") };
    let request = format!("GET {script} HTTP/1.1\r\nhost: mirror.test\r\n\r\n");
    let mut held: Vec<_> = (0..ANSWERS).map(|_| memory.connect()).collect();
    let mut piece = vec![0; PIECE];
    for pipe in &mut held {
        pipe.write_all(request.as_bytes()).await.unwrap();
        pipe.read_exact(&mut piece).await.unwrap();
    }
    let began = Instant::now();
    let read = async {
        sleep(Duration::from_secs(20)).await;
        for pipe in &mut held {
            pipe.read_exact(&mut piece).await.unwrap();
        }
    };
    let (refused, ()) = futures_util::join!(server.get("/api/listings.json"), read);
    refused.assert_problem(503, &["have not been read"]);
    assert_eq!((refused.the("retry-after").as_str(), began.elapsed().as_secs()), ("1", 30));
    drop(held);
    server.ok("/api/listings.json").await;
}

/// Each of them is another one, and far larger than what clients have in common.
#[tokio::test(start_paused = true)]
async fn large_answers_count_in_full_for_a_household_that_does_not_read_them() {
    const LARGE: usize = 5 << 20;
    let origin = virtually::origin(20).await;
    // 35 of 32 MiB.
    let ids: Vec<u64> = origin.world(World::ids).into_iter().take(7).collect();
    let path = |id: &u64| format!("/api/listings/{id}.json");
    let body = |id: &u64| format!("{{\"id\":{id},\"name\":\"{}\"}}", "x".repeat(LARGE));
    let faults = ids.iter().map(|id| FaultRule::always(&path(id), Fault::Body(body(id)))).collect();
    origin.set(|switches| switches.faults = faults);
    let server = Setup::shield_of(&origin).start().await;
    let Body::Memory(memory) = &server.process else { panic!("it is in memory") };
    let mut held: Vec<_> = ids.iter().map(|_| memory.connect()).collect();
    let mut piece = vec![0; 64 << 10];
    for (pipe, id) in held.iter_mut().zip(&ids) {
        let request = format!("GET {} HTTP/1.1\r\nhost: mirror.test\r\n\r\n", path(id));
        pipe.write_all(request.as_bytes()).await.unwrap();
        pipe.read_exact(&mut piece).await.unwrap();
        assert!(piece.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&piece[..200]));
    }
    let read = async {
        sleep(Duration::from_secs(20)).await;
        for pipe in &mut held {
            pipe.read_exact(&mut piece).await.unwrap();
        }
    };
    let (refused, ()) = futures_util::join!(server.get("/api/listings.json"), read);
    refused.assert_problem(503, &["have not been read"]);
    drop(held);
    server.ok("/api/listings.json").await;
}

/// There was room for each when it was asked for.
#[tokio::test(start_paused = true)]
async fn large_answers_that_come_at_once_are_refused_beyond_twice_the_bound() {
    const ANSWERS: usize = 20;
    let (gate, body) = (Arc::new(Semaphore::new(0)), format!("{{\"name\":\"{}\"}}", "x".repeat(5 << 20)));
    let held = gate.clone();
    let origin = move |_: &Seen| Script::new(200, body.clone()).with("content-type", "application/json").held_by(&held);
    let server = Setup::shield_of_pipe(pipe(origin)).set("origin.timeout", "60s").start().await;
    let Body::Memory(memory) = &server.process else { panic!("it is in memory") };
    let mut open = Vec::new();
    for nth in 0..ANSWERS {
        let mut pipe = memory.connect();
        let request = format!("GET /api/listings/{}.json HTTP/1.1\r\nhost: mirror.test\r\n\r\n", nth + 1);
        pipe.write_all(request.as_bytes()).await.unwrap();
        open.push(pipe);
    }
    sleep(Duration::from_secs(1)).await;
    gate.add_permits(ANSWERS);
    let mut statuses = Vec::new();
    for pipe in &mut open {
        let mut start = [0; 12];
        pipe.read_exact(&mut start).await.unwrap();
        statuses.push(String::from_utf8_lossy(&start[9..]).into_owned());
    }
    let of = |status: &str| statuses.iter().filter(|one| *one == status).count();
    assert_eq!((of("200"), of("503")), (13, 7), "65 of 64 MiB");
}

/// Each may be a mebibyte long, and is in memory until its last byte has come.
#[tokio::test(start_paused = true)]
async fn bodies_of_requests_count_for_a_household_over_http1() {
    let document = || Script::new(200, "{}").with("content-type", "application/json");
    let methods = r#"["GET", "HEAD", "POST"]"#;
    let server = Setup::shield_of_pipe(pipe(move |_| document())).set("passthrough.methods", methods).start().await;
    let Body::Memory(memory) = &server.process else { panic!("it is in memory") };
    let request =
        "POST /api/x HTTP/1.1\r\nhost: mirror.test\r\nexpect: 100-continue\r\ncontent-length: 1048576\r\n\r\n";
    let (mut open, mut accepted) = (Vec::new(), 0);
    for _ in 0..40 {
        let mut pipe = memory.connect();
        pipe.write_all(request.as_bytes()).await.unwrap();
        open.push(pipe);
    }
    let mut start = [0; 12];
    for pipe in &mut open {
        accepted += usize::from(timeout(Duration::from_secs(1), pipe.read_exact(&mut start)).await.is_ok());
    }
    assert_eq!((accepted, &start), (32, b"HTTP/1.1 100"), "32 MiB");
    drop(open);
    assert_eq!(server.send(Method::POST, "/api/x", &[]).await.status, 200);
}

/// The HTTP/2 code keeps the trailers of a request that nobody reads, as long as its answer waits.
#[tokio::test]
async fn requests_that_may_have_trailers_count_with_them() {
    let server = Setup::offline().start().await;
    let mut stream = begin(&server, &[0, 4, 0, 0, 0, 0]).await;
    let mut received = Vec::new();
    // Bodies are refused here.
    for nth in 0..128 {
        stream.write_all(&heavy(2 * nth + 1)).await.unwrap();
    }
    // Each may take 256 KiB of 16 MiB.
    wait_until("half of the streams are refused", || {
        while stream.try_read_buf(&mut received).is_ok_and(|read| read > 0) {}
        let resets = resets_in(&received);
        async move { (60..=80).contains(&resets) }
    })
    .await;
    assert_eq!(server.get("/livez").await.status, 200);
}

/// A request that is refused for its body, and may have trailers: it counts 256 KiB while nobody reads the refusal.
fn heavy(stream: u32) -> Vec<u8> {
    [request(stream, "/livez", END_HEADERS), frame(0, 0, stream, b"x")].concat()
}

/// Each household stays within its own bound.
#[tokio::test]
async fn many_households_that_read_nothing_are_bounded_together() {
    const STREAMS: u32 = 54;
    let server = Setup::offline().start().await;
    // Without a window, its answers do not end: how many of its streams get an answer, and how many are refused.
    let opens = async |household: u8, streams: u32| {
        let mut open =
            [(begin_from(Ipv4Addr::new(127, 0, 0, household), &server, &[0, 4, 0, 0, 0, 0]).await, Vec::new())];
        let all: Vec<u8> = (0..streams).flat_map(|nth| heavy(2 * nth + 1)).collect();
        open[0].0.write_all(&all).await.unwrap();
        begun(streams as usize, &[HEADERS, RST_STREAM], &mut open).await;
        let [(stream, received)] = open;
        (stream, streams as usize - resets_in(&received))
    };
    let mut held = Vec::new();
    for household in 0..40 {
        held.push(opens(10 + household / 4, STREAMS).await);
    }
    assert_eq!(held[0].1, STREAMS as usize);
    let (last, answers) = opens(100, 20).await;
    assert_eq!(answers, 1, "one answer for each household, whatever the others hold");
    assert_eq!(server.get("/livez").await.status, 200);
    drop((held, last));
    wait_until("there is room again", || async { opens(102, 20).await.1 == 20 }).await;
}

/// The cache forgets them: then they are held for these streams alone.
#[tokio::test]
async fn bodies_that_the_cache_takes_count_for_those_who_do_not_read_them() {
    const STREAMS: u32 = 120;
    let gate = Arc::new(Semaphore::new(0));
    let closed = gate.clone();
    let origin = Upstream::start(move |_| {
        Script::new(200, vec![b'x'; 1 << 20]).with("cache-control", "max-age=600").held_by(&closed)
    })
    .await;
    let setup = Setup::shield_of_url(&origin.url()).set("cache.max_bytes", "8MiB").set("origin.timeout", "60s");
    let server = setup.set("origin.requests_per_minute", "0").set("origin.wait", "60s").start().await;
    let mut open = Vec::new();
    for connection in 0..2 {
        let mut stream = begin(&server, &[0, 4, 0, 0, 0, 0]).await;
        for nth in 0..STREAMS {
            let path = if nth + 1 < STREAMS { format!("/api/x/{connection}/{nth}") } else { "/livez".to_owned() };
            stream.write_all(&request(2 * nth + 1, &path, END_STREAM | END_HEADERS)).await.unwrap();
        }
        open.push((stream, Vec::new()));
    }
    // The streams before were accepted, too, while there was room for each.
    begun(open.len(), &[HEADERS], &mut open).await;
    for come in (4..=2 * STREAMS as usize).step_by(4) {
        gate.add_permits(4);
        begun(come, &[HEADERS, RST_STREAM], &mut open).await;
    }
    let refused: usize = open.iter().map(|(_, received)| resets_in(received)).sum();
    assert!(refused > STREAMS as usize, "{refused} of {} are refused, with 16 MiB for each connection", 2 * STREAMS);
    assert_eq!(server.get("/livez").await.status, 200);
}

#[tokio::test]
async fn all_pages_beyond_the_last_are_one() {
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    for filter in ["", "state=texas&", "city=nowhere&"] {
        let tag = async |page: &str| server.ok(&format!("/explore?{filter}page={page}")).await.etag();
        let far = tag("18446744073709551615").await;
        assert_eq!(tag("1000000").await, far, "{filter}");
        assert_eq!(tag("4").await, far, "{filter}");
    }
    let last = server.ok("/explore?page=3").await;
    assert_eq!(server.ok("/explore?page=99").await.etag(), last.etag(), "the last one");
    assert_ne!(server.ok("/explore?page=2").await.etag(), last.etag());
}
