//! Wall clocks that jump, under the running binary and between two of its runs; a process that is stopped.
//!
//! The binary runs under libfaketime, which moves its wall clock and leaves its monotonic clock alone. Without that
//! library these tests fail and say so: `setup.sh` installs it.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::Method;
use tempfile::TempDir;

use crate::client::{Reply, raw};
use crate::harness::{Server, Setup, origin, quiet, wait_until};

const LIST: &str = "/api/listings.json";
const HOUR: i64 = 3600;

/// The hand on a server's wall clock.
pub struct Hand {
    dir: TempDir,
}

fn library() -> PathBuf {
    let found = fs::read_dir("/usr/lib").unwrap().filter_map(Result::ok).map(|entry| entry.path());
    let mut found = found.chain([PathBuf::from("/usr/lib")]).map(|dir| dir.join("faketime/libfaketime.so.1"));
    found.find(|file| file.exists()).expect("libfaketime is missing; setup.sh installs it")
}

impl Hand {
    pub fn new() -> Self {
        let hand = Self { dir: tempfile::tempdir().unwrap() };
        hand.set(0);
        hand
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("offset")
    }

    /// Sets the clock so many seconds ahead of the true time, or behind it.
    pub fn set(&self, seconds: i64) {
        let unfinished = self.dir.path().join("new");
        fs::write(&unfinished, format!("{seconds:+}")).unwrap();
        fs::rename(unfinished, self.file()).unwrap();
    }

    /// A setup that uses this clock.
    pub fn on(&self, setup: Setup) -> Setup {
        let (library, file) = (library(), self.file());
        setup.under(&[
            "env",
            &format!("LD_PRELOAD={}", library.display()),
            &format!("FAKETIME_TIMESTAMP_FILE={}", file.display()),
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        ])
    }
}

async fn list(server: &Server) -> Reply {
    let reply = server.ok(LIST).await;
    // `age` fails on what is no number from 0 on.
    assert!(reply.age().is_some());
    reply
}

async fn young(server: &Server, what: &str, most: u64) {
    wait_until(what, || async {
        let (age, status) = (list(server).await.age().unwrap(), server.admin(Method::GET, "/status").await);
        age <= most && status.status == 200 && status.json()["age_seconds"].as_u64().is_some_and(|age| age <= most)
    })
    .await;
}

#[tokio::test]
async fn a_clock_that_jumps_forward_shows_for_no_longer_than_a_refresh_takes() {
    let (hand, origin) = (Hand::new(), origin(60).await);
    let setup = hand.on(Setup::mirror_of(&origin).set("ttl", "4s"));
    let server = setup.start().await;
    server.settled(&origin).await;
    // Everybody's clock jumps.
    hand.set(HOUR);
    origin.set(|switches| switches.clock_ahead = HOUR);
    let looks = || origin.log().iter().filter(|seen| seen.path_and_query == "/api/sports.json").count();
    let before = looks();
    young(&server, "the age is that of a refresh after the jump", 8).await;
    // One may have been on its way, and one may have come since.
    assert!(looks() <= before + 3, "{} refreshes", looks() - before);
    let confirmed = server.status().await["confirmed_at"].as_str().unwrap().to_owned();
    let ahead = jiff::Timestamp::now().duration_until(confirmed.parse::<jiff::Timestamp>().unwrap());
    assert!(ahead.as_secs() > HOUR - 60, "{confirmed}");
}

#[tokio::test]
async fn a_clock_that_jumps_back_leaves_a_stamp_that_confirms_nothing_also_after_a_restart_and_refreshes_go_on() {
    let (hand, origin) = (Hand::new(), origin(60).await);
    hand.set(24 * HOUR);
    origin.set(|switches| switches.clock_ahead = 24 * HOUR);
    let mut server = hand.on(Setup::mirror_of(&origin).set("ttl", "4s").set("origin.timeout", "3s")).start().await;
    server.settled(&origin).await;
    // No refresh comes between the jump and its effects.
    origin.shutdown().await;
    hand.set(0);
    origin.set(|switches| switches.clock_ahead = 0);
    for restarts in [true, false] {
        let reply = list(&server).await;
        assert!(reply.age().unwrap() >= 4, "how old it is cannot be known, so it is not fresh: {reply:?}");
        let status = server.admin(Method::GET, "/status").await;
        assert_eq!(status.status, 503, "a stamp from the future confirms nothing");
        assert_eq!(status.json()["unconfirmed"], true);
        if restarts {
            server.process.kill();
            server.restart().await;
        }
    }
    origin.restart().await.unwrap();
    // Neither a page nor a detail is frozen by its old stamp.
    let id = origin.world(sample_origin::World::ids)[7];
    origin.edit(|world| world.touch(id) && world.insert_like(id, "After the jump").is_some());
    let name = origin.world(|world| world.venue(id).unwrap().name.to_string());
    wait_until("the changes show", || async {
        let page = server.ok("/api/listings.json?per_page=100").await.json();
        let touched = |item: &serde_json::Value| item["id"] == id && item["name"] == name.as_str();
        page["total"] == 61 && page["items"].as_array().unwrap().iter().any(touched)
    })
    .await;
    let path = format!("/api/listings/{id}.json");
    let blank = |mut detail: serde_json::Value| {
        detail.as_object_mut().unwrap().retain(|key, _| key != "generated_at");
        detail
    };
    wait_until("its detail follows", || async {
        blank(server.ok(&path).await.json()) == blank(origin.expected(&path).1)
    })
    .await;
    wait_until("what is served is confirmed again", || async {
        let status = server.admin(Method::GET, "/status").await;
        status.status == 200 && status.json()["unconfirmed"] == false
    })
    .await;
    young(&server, "after the jump", 4).await;
}

#[tokio::test]
async fn no_jump_of_the_wall_clock_moves_the_limit_or_the_budget() {
    let (hand, origin) = (Hand::new(), origin(60).await);
    origin.set(|switches| switches.refuse_61st = Some(20));
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "20").set("ttl", "5s");
    let server = hand.on(setup.set("rate_limit.requests_per_minute", "10")).start().await;
    server.ready().await;
    wait_until("the budget is spent", || async { server.status().await["origin"]["budget"]["free"] == 0 }).await;
    quiet(&origin).await;
    for n in 0..10 {
        assert_eq!(server.get(LIST).await.status, 200, "request {n}");
    }
    let sent = origin.count();
    for offset in [HOUR, -HOUR, 0, 86_400, -86_400] {
        hand.set(offset);
        let refused = server.get(LIST).await;
        refused.assert_problem(429, &[]);
        let wait: u64 = refused.the("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        quiet(&origin).await;
        let budget = server.status().await["origin"]["budget"].clone();
        assert_eq!(budget["free"], 0, "{budget}");
    }
    assert_eq!((origin.count(), origin.refused()), (sent, 0));
}

#[tokio::test]
async fn a_process_that_stood_still_tells_its_age_and_goes_on_at_once() {
    let origin = origin(60).await;
    origin.set(|switches| switches.refuse_61st = Some(300));
    let setup = Setup::mirror_of(&origin).alone().set("ttl", "4s").set("origin.requests_per_minute", "300");
    let server = setup.start().await;
    server.settled(&origin).await;
    let before = list(&server).await.age().unwrap();
    server.process.signal("STOP");
    let stopped = Instant::now();
    wait_until("seven seconds are over", || async { stopped.elapsed() > Duration::from_secs(7) }).await;
    let (sent, resumed) = (origin.count(), Instant::now());
    server.process.signal("CONT");
    let first = list(&server).await;
    // Either the true age, or a refresh came before the question.
    assert!(first.age().unwrap() >= 6 || origin.count() > sent, "{before} before, then {first:?}");
    young(&server, "it is refreshed", 4).await;
    let next = origin.log()[sent as usize].at.duration_since(resumed);
    assert!(next < Duration::from_secs(4), "at once, not after another ttl: {next:?}");
    assert_eq!(origin.refused(), 0);
}

/// Seconds from now beyond the last year that an HTTP-date can say.
const BEYOND_9999: i64 = 252_000_000_000;

#[tokio::test]
async fn a_clock_beyond_9999_stops_nobody_and_is_not_shown_as_1970() {
    let (hand, origin) = (Hand::new(), origin(60).await);
    hand.set(BEYOND_9999);
    let server = hand.on(Setup::mirror_of(&origin)).start().await;
    server.ready().await;
    let reply = server.ok(LIST).await;
    assert!(reply.total() == 60 && reply.age().is_some(), "{reply:?}");
    let not_modified = server.get_with(LIST, &[("if-none-match", "*")]).await;
    assert_eq!(not_modified.status, 304);
    for (name, value) in &reply.headers {
        assert!(!value.to_str().unwrap().contains("1970"), "{name}: {value:?}");
    }
    assert_eq!(reply.header("date"), None);
    // Several of them: the first may find the thread's own clock not made yet.
    for target in ["/livez", "/readyz", "/status", "/snapshots", "/metrics", "/status"] {
        let told = server.admin(Method::GET, target).await;
        assert!(told.status == 200 || told.status == 503, "{target}: {told:?}");
        let text = told.text().replace("in seconds since 1970", "");
        assert!(!text.contains("1970"), "{target}: {text}");
    }
    // What only pingora could write ends this connection, and no other.
    let _ended = raw(server.public, b"POST /api/listings.json HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx").await;
    assert_eq!(server.ok(LIST).await.total(), 60);
}
