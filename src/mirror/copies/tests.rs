//! Copies of the origin's answers: what replaces what, and what waits for what.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::clock::{Clock, FakeClock};
use crate::config::Proxy;
use crate::data::store::DataDir;
use crate::data::store::tests::failure::failing;
use crate::origin::budget::Budget;
use crate::origin::client::ClientConfig;
use crate::origin::status::OriginStatus;
use crate::origin::window::Class;
use crate::origin::wire::{Arrival, Transport, TransportError, Wire};
use sample_origin::{Origin, Switches, World};

use super::*;

const PATH: &str = "/api/listings.json?per_page=100";

async fn scene(limit: Option<usize>) -> (Origin, Copies, Budget, tempfile::TempDir) {
    let origin =
        Origin::start("127.0.0.1:0".parse().unwrap(), World::generate(30, 1), Switches::default()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
    let budget = Budget::open(limit, None, Clock::system());
    let config = ClientConfig {
        base: origin.url().parse().unwrap(),
        timeout: Duration::from_secs(5),
        max_body: 1 << 20,
        longest_pause: Duration::from_secs(1),
    };
    let wire = Wire::new(config.timeout, "test", None, Proxy::default()).unwrap();
    let client = OriginClient::over(Arc::new(wire), config, budget.clone(), OriginStatus::default(), Clock::system());
    (origin, Copies::new(client, store, Arc::default(), SnapshotPointer::default()), budget, dir)
}

#[tokio::test]
async fn a_background_look_that_waits_for_the_budget_does_not_hold_up_a_refresh() {
    let (_origin, copies, budget, _dir) = scene(Some(12)).await;
    // The background's tenth is one slot of twelve, and taken.
    let taken = budget.acquire(Class::Background, None, None).await.unwrap();
    let sweep = tokio::spawn({
        let copies = copies.clone();
        async move { copies.look(PATH, Asker::mirror(Class::Background)).await.map(|_| ()) }
    });
    while budget.view().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let refresh = copies.look(PATH, Asker::mirror(Class::Refresh));
    let looked = tokio::time::timeout(Duration::from_secs(10), refresh).await;
    assert!(looked.expect("the refresh goes first").is_ok());
    assert!(!sweep.is_finished());
    drop(taken);
    sweep.abort();
}

#[tokio::test]
async fn an_answer_to_an_older_question_never_takes_a_newer_copy_back() {
    let (origin, copies, _budget, _dir) = scene(None).await;
    let first = copies.look(PATH, Asker::mirror(Class::Crawl)).await.unwrap();
    // The slow look asks with the first copy's validators, and is answered 304 before the change.
    origin.set(|switches| switches.latency = Duration::from_secs(2));
    let slow = tokio::spawn({
        let copies = copies.clone();
        async move { copies.look(PATH, Asker::mirror(Class::Background)).await.unwrap() }
    });
    // The origin answers on arrival, and sends after the latency.
    while origin.count() < 2 {
        tokio::task::yield_now().await;
    }
    origin.set(|switches| switches.latency = Duration::ZERO);
    let id = origin.world(World::ids)[0];
    origin.edit(|world| assert!(world.touch(id)));
    let new = copies.look(PATH, Asker::mirror(Class::Refresh)).await.unwrap();
    assert!(new.body != first.body);
    let late = slow.await.unwrap();
    assert!(late.body == new.body, "what is known by then");
    let stored = copies.stored(PATH).unwrap().unwrap();
    assert!(stored.body == new.body);
    assert_eq!(stored.until_ms, new.until_ms);
}

/// An origin behind a CDN that never sends `Age`: it answers every request with the body that the test sets.
#[derive(Default)]
struct Silent(Mutex<String>, AtomicU64);

#[async_trait::async_trait]
impl Transport for Silent {
    async fn fetch(&self, _: &http::Method, _: url::Url, _: http::HeaderMap) -> Result<Arrival, TransportError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let body = Bytes::from(self.0.lock().clone());
        let body = Box::pin(futures_util::stream::once(std::future::ready(Ok(body))));
        Ok(Arrival { status: 200, headers: http::HeaderMap::new(), body })
    }
}

/// Copies of such an origin, with a clock that the test moves.
fn silent() -> (Arc<Silent>, FakeClock, Copies, tempfile::TempDir) {
    silent_in(stored())
}

fn stored() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&DataDir::open(dir.path()).unwrap()).unwrap();
    (dir, store)
}

fn silent_in(stored: (tempfile::TempDir, Store)) -> (Arc<Silent>, FakeClock, Copies, tempfile::TempDir) {
    let hand = Clock::fake(WallTime::from_seconds(NOW));
    let (transport, copies, dir) = copies_of(Silent::default(), hand.clock(), stored);
    (transport, hand, copies, dir)
}

fn copies_of<T: Transport + 'static>(
    origin: T,
    clock: Clock,
    (dir, store): (tempfile::TempDir, Store),
) -> (Arc<T>, Copies, tempfile::TempDir) {
    let second = Duration::from_secs(1);
    let base = "http://origin.test".parse().unwrap();
    let config = ClientConfig { base, timeout: second, max_body: 1 << 20, longest_pause: second };
    let budget = Budget::open(None, None, clock.clone());
    let transport = Arc::new(origin);
    let client = OriginClient::over(transport.clone(), config, budget, OriginStatus::default(), clock);
    (transport, Copies::new(client, Arc::new(store), Arc::default(), SnapshotPointer::default()), dir)
}

#[tokio::test]
async fn while_nothing_can_be_stored_the_origin_is_asked_more_and_more_seldom() {
    let (dir, store, fails) = failing(std::io::ErrorKind::ReadOnlyFilesystem);
    let (origin, hand, copies, _dir) = silent_in((dir, store));
    let asked = || origin.1.load(Ordering::Relaxed);
    let looks = async || {
        let looks = (0..12).map(|_| copies.look("/api/sports.json", Asker::mirror(Class::Crawl)));
        futures_util::future::join_all(looks).await
    };
    *origin.0.lock() = body(NOW, 1);
    assert!(looks().await.iter().all(Result::is_ok));
    fails.store(true, Ordering::Relaxed);
    let before = asked();
    for second in 0..210 {
        *origin.0.lock() = body(NOW, second);
        // What does not become durable is lost.
        assert!(copies.store.sync().is_err() || second > 0);
        let refused = looks().await.into_iter().filter_map(Result::err).collect::<Vec<_>>();
        assert!(refused.len() >= 11, "{refused:?}");
        assert!(refused.iter().all(|error| matches!(error, CopyError::Store(StoreError::ReadOnly { .. }))));
        hand.advance(Duration::from_secs(1));
    }
    let tries = asked() - before;
    assert!((10..=20).contains(&tries), "{tries}");
    // It is noticed that it can be written again.
    fails.store(false, Ordering::Relaxed);
    copies.store.try_writing().unwrap();
    let before = asked();
    assert!(looks().await.iter().all(Result::is_ok));
    assert_eq!(asked() - before, 12);
}

const NOW: i64 = 1_795_176_000;

/// An origin that knows `Last-Modified` only: the second of the last edit, in seconds since the epoch, and the text.
struct Dated {
    clock: Clock,
    content: Mutex<(i64, String)>,
    /// Whether conditions are ignored.
    always_in_full: AtomicBool,
    /// How many requests were answered 304.
    confirmed: AtomicU64,
}

#[async_trait::async_trait]
impl Transport for Dated {
    async fn fetch(&self, _: &http::Method, _: url::Url, asked: http::HeaderMap) -> Result<Arrival, TransportError> {
        let (modified, text) = self.content.lock().clone();
        let date = |at: WallTime| http::HeaderValue::try_from(at.http_date().unwrap()).unwrap();
        let modified = date(WallTime::from_seconds(modified));
        let is_known =
            asked.get("if-modified-since") == Some(&modified) && !self.always_in_full.load(Ordering::Relaxed);
        self.confirmed.fetch_add(u64::from(is_known), Ordering::Relaxed);
        let headers = [("date", date(self.clock.now_wall())), ("last-modified", modified)];
        let headers = headers.map(|(name, value)| (http::HeaderName::from_static(name), value)).into_iter().collect();
        let text = Bytes::from(if is_known { String::new() } else { text });
        let body = Box::pin(futures_util::stream::once(std::future::ready(Ok(text))));
        Ok(Arrival { status: if is_known { 304 } else { 200 }, headers, body })
    }
}

#[tokio::test]
async fn a_date_that_may_stand_for_two_bodies_validates_nothing() {
    let hand = Clock::fake(WallTime::from_seconds(NOW));
    let clock = hand.clock();
    let content = Mutex::new((NOW, "[1]".to_owned()));
    let origin = Dated { clock: clock.clone(), content, always_in_full: AtomicBool::new(false), confirmed: 0.into() };
    let (origin, copies, _dir) = copies_of(origin, clock, stored());
    let look = async |content: &str, confirmed| {
        content.clone_into(&mut origin.content.lock().1);
        let copy = copies.look("/api/sports.json", Asker::mirror(Class::Crawl)).await.unwrap();
        assert_eq!((copy.body, origin.confirmed.load(Ordering::Relaxed)), (content.to_owned().into(), confirmed));
        hand.advance(Duration::from_secs(300));
    };
    look("[1]", 0).await;
    // The second edit was in the second of the first answer.
    look("[2]", 0).await;
    look("[2]", 1).await;
    look("[2]", 2).await;
    origin.always_in_full.store(true, Ordering::Relaxed);
    look("[3]", 2).await;
    origin.always_in_full.store(false, Ordering::Relaxed);
    look("[4]", 2).await;
    look("[4]", 2).await;
}

fn body(stamp: i64, content: u32) -> String {
    format!(r#"{{"generated_at":"{}","content":[{content}]}}"#, WallTime::from_seconds(stamp))
}

#[tokio::test]
async fn an_old_copy_that_only_its_stamp_betrays_never_takes_data_back() {
    let (origin, hand, copies, _dir) = silent();
    let look = || copies.look("/api/sports.json", Asker::mirror(Class::Crawl));
    for minute in 0..5 {
        *origin.0.lock() = body(NOW + 60 * minute, 1);
        look().await.unwrap();
        hand.advance(Duration::from_secs(60));
    }
    *origin.0.lock() = body(NOW + 300, 2);
    assert_eq!(look().await.unwrap().body, body(NOW + 300, 2));
    // Hours later, while the origin is down: another node of the CDN still has the old copy.
    hand.advance(Duration::from_secs(7200));
    *origin.0.lock() = body(NOW + 240, 1);
    let old = look().await.unwrap();
    assert_eq!((old.body, old.until_ms), (body(NOW + 300, 2).into(), (NOW + 300) * 1000));
}

#[tokio::test]
async fn a_stamp_that_never_changes_neither_ages_data_nor_holds_it_up() {
    let (origin, hand, copies, _dir) = silent();
    let look = || copies.look("/api/sports.json", Asker::mirror(Class::Crawl));
    let deployed = NOW - 60;
    *origin.0.lock() = body(deployed, 1);
    let first = look().await.unwrap();
    assert_eq!(first.until_ms, deployed * 1000, "perhaps it is the age of a copy");
    assert!(first.since_ms > NOW * 1000, "and perhaps it is not");
    assert!(copies.saw_aged());
    for minutes in [15, 30] {
        hand.advance(Duration::from_secs(900));
        *origin.0.lock() = body(deployed, minutes);
        let next = look().await.unwrap();
        let now_ms = (NOW + 60 * i64::from(minutes)) * 1000;
        assert_eq!((next.body, next.until_ms), (body(deployed, minutes).into(), now_ms), "no copy is so old");
    }
    assert!(!copies.saw_aged());
    assert!(!copies.client.stamps().has_seen_silent_copies(), "what it said of the CDN is forgotten");
    assert_eq!(copies.client.status().picture().stamps["sports"], "stands-still");
}

#[tokio::test]
async fn one_answer_with_an_absurd_age_is_no_reason_to_wait() {
    let (_origin, hand, copies, _dir) = silent();
    let ttl = copies.cache_ttl();
    let saw = |age| copies.longest_age.lock().saw(age, hand.clock().now_wall().as_millis());
    saw(u32::MAX);
    saw(1 << 31);
    assert_eq!(copies.apart(), ttl, "no copy is so old");
    saw(400);
    saw(30);
    assert_eq!(copies.apart(), ttl + Duration::from_secs(400));
    hand.advance(Duration::from_secs(3000));
    saw(86_400);
    assert_eq!(copies.apart(), ttl + Duration::from_secs(3600), "longer helps nobody");
    hand.advance(Duration::from_secs(3599));
    saw(20);
    assert_eq!(copies.apart(), ttl + Duration::from_secs(3600));
    hand.advance(Duration::from_secs(2));
    assert_eq!(copies.apart(), ttl, "the cache may be gone");
}

#[tokio::test]
async fn a_look_while_the_disk_stands_still_holds_up_nobody_else() {
    let (origin, _hand, copies, _dir) = silent();
    *origin.0.lock() = body(NOW, 1);
    let (held, is_held) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel();
    let store = copies.store.clone();
    let disk = std::thread::spawn(move || {
        store.stands_still(|| {
            held.send(()).unwrap();
            released.recv_timeout(Duration::from_secs(20)).expect("the thread that looks was blocked");
        });
    });
    is_held.await.unwrap();
    let looking = tokio::spawn({
        let copies = copies.clone();
        async move { copies.look("/api/sports.json", Asker::mirror(Class::Crawl)).await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!looking.is_finished());
    release.send(()).unwrap();
    assert_eq!(looking.await.unwrap().unwrap().body, body(NOW, 1));
    disk.join().unwrap();
}
