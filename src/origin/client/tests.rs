//! Failures and pauses of the origin, and bodies that are read whole.

use std::time::Duration;

use async_trait::async_trait;
use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::clock::WallTime;
use crate::config::Proxy;
use crate::origin::health::Witness;
use crate::origin::wire::Wire;

fn client() -> OriginClient {
    let wire = Wire::new(Duration::from_secs(5), "test", None, Proxy::default()).unwrap();
    client_over(Arc::new(wire))
}

fn client_over(transport: Arc<dyn Transport>) -> OriginClient {
    let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
    let config = ClientConfig {
        base: "http://127.0.0.1:1".parse().unwrap(),
        timeout: Duration::from_secs(5),
        max_body: 1 << 20,
        longest_pause: Duration::from_secs(60),
    };
    let budget = Budget::open(Some(60), None, clock.clone());
    OriginClient::over(transport, config, budget, OriginStatus::default(), clock)
}

/// An origin whose answers to conditional requests are about another answer than the stored one.
struct Renames {
    /// The status of its other answers.
    status: u16,
    /// Whether each request was conditional.
    asked: Mutex<Vec<bool>>,
}

#[async_trait]
impl Transport for Renames {
    async fn fetch(&self, _: &Method, _: Url, headers: HeaderMap) -> Result<Arrival, TransportError> {
        let is_conditional = headers.contains_key(IF_NONE_MATCH);
        self.asked.lock().push(is_conditional);
        let headers = HeaderMap::from_iter([(ETAG, HeaderValue::from_static("\"new\""))]);
        let body = futures_util::stream::once(std::future::ready(Ok(Bytes::from_static(b"{}"))));
        Ok(Arrival { status: if is_conditional { 304 } else { self.status }, headers, body: Box::pin(body) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_304_about_another_answer_is_asked_about_once_more_and_a_second_one_is_no_answer() {
    for status in [200, 304] {
        let origin = Arc::new(Renames { status, asked: Mutex::default() });
        let client = client_over(origin.clone());
        let validators = Validators { etag: Some("\"old\"".to_owned()), last_modified: None };
        let answer = client.ask("/a", Some(&validators), Asker::mirror(Class::Refresh)).await;
        assert_eq!(*origin.asked.lock(), [true, false], "{status}");
        match answer {
            Ok(answer) => assert_eq!((answer.status, &answer.body[..]), (status, &b"{}"[..])),
            Err(error) => assert!(status == 304 && error.is_nonsense(), "{error}"),
        }
    }
}

/// An origin that leads on and on.
#[derive(Default)]
struct Leads(Mutex<usize>);

#[async_trait]
impl Transport for Leads {
    async fn fetch(&self, _: &Method, _: Url, _: HeaderMap) -> Result<Arrival, TransportError> {
        *self.0.lock() += 1;
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static("/on"))]);
        Ok(Arrival { status: 302, headers, body: Box::pin(futures_util::stream::empty()) })
    }
}

#[tokio::test(start_paused = true)]
async fn redirects_of_what_clients_spell_stay_within_the_tenth_of_the_budget_for_it() {
    let origin = Arc::new(Leads::default());
    let client = client_over(origin.clone());
    for number in 1..=8_u8 {
        let asker = Asker::client(Some([10, 0, 0, number].into()), Duration::from_secs(5));
        let error = client.ask("/odd", None, Asker { spare: true, ..asker }).await.unwrap_err();
        // The first one has all of its hops, and the second one two.
        assert_eq!(matches!(error, AskError::Redirect { .. }), number == 1, "{number}: {error}");
    }
    assert_eq!(*origin.0.lock(), 6, "of 60");
    // Of one client two requests count, and not where they lead.
    tokio::time::sleep(Duration::from_secs(61)).await;
    for _ in 0..2 {
        let asker = Asker::client(Some([10, 0, 0, 9].into()), Duration::from_secs(5));
        client.ask("/odd", None, Asker { spare: true, ..asker }).await.unwrap_err();
    }
    assert_eq!(*origin.0.lock(), 12);
}

/// An origin that never answers.
struct Silent;

#[async_trait]
impl Transport for Silent {
    async fn fetch(&self, _: &Method, _: Url, _: HeaderMap) -> Result<Arrival, TransportError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_place_on_the_wire_gives_the_slot_of_the_budget_back() {
    let client = client_over(Arc::new(Silent)).with_most_on_the_wire(1);
    let free = || client.budget().view().free;
    let all = free();
    let asker = |patience| Asker::client(None, Duration::from_secs(patience));
    let mut first = Box::pin(client.ask("/a", None, asker(60)));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    assert_eq!(free(), all - 1);
    let second = client.ask("/b", None, asker(1)).await;
    assert!(matches!(second, Err(AskError::Spent(_))), "{second:?}");
    assert_eq!(free(), all - 1);
}

/// A quarter of the places is for answers that are read whole.
#[tokio::test(start_paused = true)]
async fn streams_that_are_read_slowly_take_no_place_from_what_is_read_whole() {
    let client = client_over(Arc::new(Silent)).with_most_on_the_wire(8);
    let place = async |household: u8, is_streamed: bool| {
        let asker = Asker::client(Some([10, 0, 0, household].into()), Duration::from_secs(1));
        client.place(&asker, is_streamed, client.now_mono()).await
    };
    let mut held = Vec::new();
    for household in [1, 1, 1, 1, 2, 2] {
        held.push(place(household, true).await.unwrap());
    }
    assert!(place(3, true).await.is_err(), "six of eight are streams");
    held.push(place(3, false).await.unwrap());
    assert!(place(1, false).await.is_err(), "a household has half of all");
}

fn error(status: u16, path: &str, seconds: Option<u64>) -> AskError {
    AskError::Status { status, path: path.to_owned(), retry_after: seconds.map(Duration::from_secs) }
}

fn paused(client: &OriginClient) -> Duration {
    client.budget().view().paused
}

#[tokio::test(start_paused = true)]
async fn one_resource_that_wants_to_be_left_alone_stops_no_other() {
    for class in [Class::Client, Class::Details, Class::Background] {
        let client = client();
        let witness = Witness::mirror(class);
        for _ in 0..10 {
            client.failed(&error(503, "/a", Some(3600)), witness);
            client.failed(&error(503, "/b", Some(3600)), witness);
        }
        assert_eq!(paused(&client), Duration::ZERO, "{class:?}");
        client.failed(&error(429, "/a", Some(30)), witness);
        assert_eq!(paused(&client), Duration::from_secs(30), "{class:?}: a refusal is about everything");
    }
    for class in [Class::Refresh, Class::Crawl] {
        let client = client();
        client.failed(&error(503, "/a", Some(30)), Witness::mirror(class));
        assert_eq!(paused(&client), Duration::from_secs(30), "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_three_resources_without_an_answer_between_are_an_outage() {
    let client = client();
    for path in ["/a", "/b"] {
        client.failed(&error(500, path, None), Witness::mirror(Class::Client));
    }
    client.succeeded(true);
    for path in ["/c", "/d", "/c", "/d", "/d"] {
        client.failed(&error(500, path, None), Witness::mirror(Class::Client));
    }
    assert_eq!(paused(&client), Duration::ZERO, "two are not enough, however often");
    client.failed(&error(502, "/e", None), Witness::mirror(Class::Client));
    let mut last = Duration::ZERO;
    for _ in 0..5 {
        let pause = paused(&client);
        assert!(pause > last.mul_f64(0.9) && pause <= Duration::from_secs(5), "{pause:?} after {last:?}");
        last = pause;
        tokio::time::sleep(pause).await;
        client.failed(&error(500, "/c", None), Witness::mirror(Class::Client));
    }
    assert!(last >= Duration::from_secs(4), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_lasts_as_long_as_the_origin_says_if_it_says_so_to_everything() {
    let client = client();
    for (path, seconds) in [("/a", 3600), ("/b", 20), ("/c", 30)] {
        client.failed(&error(503, path, Some(seconds)), Witness::mirror(Class::Client));
    }
    assert_eq!(paused(&client), Duration::from_secs(20));
    let other = self::client();
    for (path, seconds) in [("/a", Some(3600)), ("/b", None), ("/c", Some(30))] {
        other.failed(&error(503, path, seconds), Witness::mirror(Class::Client));
    }
    assert!(paused(&other) < Duration::from_secs(1), "{:?}", paused(&other));
}

/// Tries during an outage leave most of the budget, whether they fail at once or hang.
#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_tries() {
    for hangs in [Duration::ZERO, Duration::from_secs(5)] {
        let client = client();
        let start = tokio::time::Instant::now();
        let mut tries = Vec::new();
        for number in 0..50 {
            let client = client.clone();
            tries.push(tokio::spawn(async move {
                let mut tries = Vec::new();
                while start.elapsed() < Duration::from_secs(240) {
                    let patience = Some(Duration::from_secs(10));
                    if let Ok(permit) = client.budget().acquire(Class::Client, None, patience).await {
                        tries.push(start.elapsed().as_secs());
                        tokio::time::sleep(hangs + Duration::from_millis(20)).await;
                        permit.answered();
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        client.failed(&error(500, &format!("/{number}"), None), Witness::mirror(Class::Client));
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                tries
            }));
        }
        let mut all = Vec::new();
        for some in tries {
            all.extend(some.await.unwrap());
        }
        for minute in 1..4 {
            let tried = all.iter().filter(|second| **second / 60 == minute).count();
            assert!((8..=16).contains(&tried), "{tried} tries in minute {minute} when each takes {hangs:?}");
        }
    }
}

proptest! {
    #[test]
    fn what_was_pushed_comes_out(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20_000), 0..30)) {
        let mut collected = Collected::default();
        for piece in &pieces {
            collected.push(piece);
        }
        prop_assert_eq!(collected.len(), pieces.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(collected.into_bytes(), pieces.concat());
    }
}
