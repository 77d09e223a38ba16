//! Times that are shown in whole seconds hide fractions: whoever asks for what changed since the last time that it saw gets
//! the origin's answer, or more, but never misses a change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sample_origin::{Cdn, ItemOrder, ModifiedStyle, Origin, Switches};
use serde_json::{Value, json};

use crate::gap::Desk;
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup};

const LIST: &str = "/api/listings.json";

/// An origin that shows whole seconds. Of its listings every third was changed within one of a few seconds.
async fn hiding(switches: Switches) -> Origin {
    let origin = origin_with(300, Switches { modified: ModifiedStyle::Second, ..switches }).await;
    origin.edit(|world| {
        for (id, at) in world.ids().into_iter().step_by(3).zip(0_i64..) {
            let second = Timestamp::from_second(1_763_000_000 + at % 25).unwrap();
            assert!(world.touch_at(id, second + SignedDuration::from_millis(at * 97 % 1000)));
        }
    });
    origin
}

async fn examined(origin: &Origin, setup: Setup) -> Server {
    let server = setup.start().await;
    server.settled(origin).await;
    assert_eq!(server.disproved().await, json!([]));
    server
}

/// Every shown time, once.
fn shown(origin: &Origin) -> BTreeSet<String> {
    let pages = (1..=3).map(|page| origin.expected(&format!("{LIST}?per_page=100&page={page}")).1);
    let times = |page: Value| page["items"].as_array().unwrap().iter().map(time).collect::<Vec<_>>();
    pages.flat_map(times).collect()
}

fn time(item: &Value) -> String {
    let text = item["modified"].as_str().unwrap();
    text.parse::<Timestamp>().unwrap().to_string()
}

/// Total and listings.
fn list(answer: &Value) -> (u64, Vec<u64>) {
    let ids = answer["items"].as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap());
    (answer["total"].as_u64().unwrap(), ids.collect())
}

#[tokio::test(start_paused = true)]
async fn one_request_tells_for_all_filters_what_the_origin_counts_of_a_second() {
    for order in [ItemOrder::ByModifiedDesc, ItemOrder::ById] {
        let origin = hiding(Switches { order, ..Switches::default() }).await;
        let server = examined(&origin, Setup::examining(&origin)).await;
        let mut times: Vec<String> = shown(&origin).into_iter().rev().step_by(4).take(25).collect();
        times.push("2025-11-13T02:13:21+00:00".replace('+', "%2B"));
        origin.clear_log();
        for time in &times {
            for filters in ["", "&sport=golf", "&state=texas&per_page=7&page=2", "&sport=tennis&state=florida"] {
                let target = format!("{LIST}?modified_since={time}{filters}");
                let reply = server.ok(&target).await;
                assert_eq!(list(&reply.json()), list(&origin.expected(&target).1), "{target} {order:?}");
                assert!(!reply.header("cache-control").unwrap().contains("no-store"), "{target}");
            }
        }
        // An instant that no listing shows is not asked about: what may be after it is in the answer.
        let target = format!("{LIST}?modified_since=2025-11-13T02:13:25.250Z&per_page=100");
        let reply = server.ok(&target).await;
        let (ours, origins) = (list(&reply.json()), list(&origin.expected(&target).1));
        assert!(ours.0 >= origins.0 && origins.1.iter().all(|id| ours.1.contains(id)), "{ours:?} {origins:?}");
        assert!(reply.header("cache-control").unwrap().contains("no-store"));
        let asked = origin.log().iter().filter(|seen| seen.path_and_query.contains("modified_since")).count();
        // One for each, and for the second of the last one.
        assert!((5..=times.len() + 1).contains(&asked), "{asked} of {}", times.len());
    }
}

/// What a client has that asks again and again for what changed after the last time that it saw.
#[derive(Default)]
struct Follower {
    seen: BTreeMap<u64, Value>,
    cursor: String,
}

impl Follower {
    async fn poll(&mut self, server: &Server) {
        let mut page = 1;
        let mut cursor = self.cursor.clone();
        loop {
            let answer =
                server.ok(&format!("{LIST}?per_page=100&page={page}&modified_since={}", self.cursor)).await.json();
            for item in answer["items"].as_array().unwrap() {
                cursor = cursor.max(time(item));
                self.seen.insert(item["id"].as_u64().unwrap(), item.clone());
            }
            if page >= answer["total_pages"].as_u64().unwrap() {
                break;
            }
            page += 1;
        }
        self.cursor = cursor;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_cursor_is_the_last_time_that_it_saw_sees_each_change() {
    let cdn = Some(Cdn { max_age: Duration::from_secs(20), nodes: 2 });
    for (limit, cdn) in [("0", None), ("60", None), ("20", None), ("0", cdn)] {
        let origin = hiding(Switches { cdn, ..Switches::default() }).await;
        let setup = Setup::examining(&origin).set("origin.requests_per_minute", limit);
        let setup = if cdn.is_some() { setup.set("origin.cache_ttl", "20s") } else { setup };
        let setup = setup.set("ttl", "5s");
        let server = setup.start().await;
        server.ready().await;
        let mut follower = Follower { cursor: "2020-01-01T00:00:00Z".to_owned(), ..Follower::default() };
        follower.poll(&server).await;
        for round in 0..25_u64 {
            // Several within one second, before and after the client looks.
            origin.edit(|world| {
                let ids = world.ids();
                let id = ids[(round * 7 % 50) as usize];
                assert!(world.touch_now(id));
            });
            tokio::time::sleep(Duration::from_millis(170 + round * 131 % 700)).await;
            if round % 3 != 0 {
                follower.poll(&server).await;
            }
        }
        // Everything has arrived.
        let newest = format!("{LIST}?per_page=100");
        let has_last = async || server.ok(&newest).await.json()["items"] == origin.expected(&newest).1["items"];
        let began = tokio::time::Instant::now();
        while !has_last().await {
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(900), "limit {limit}, {cdn:?}: {:#}", server.status().await);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        follower.poll(&server).await;
        let all = (1..=3).flat_map(|page| {
            let page = origin.expected(&format!("{LIST}?per_page=100&page={page}")).1;
            page["items"].as_array().unwrap().clone()
        });
        for item in all {
            assert_eq!(follower.seen.get(&item["id"].as_u64().unwrap()), Some(&item), "limit {limit}, {cdn:?}");
        }
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_second_itself_is_in_the_answer_and_nobody_keeps_it() {
    let switches = Switches { modified: ModifiedStyle::Second, ..Switches::default() };
    let origin = crate::harness::origin_with(120, switches).await;
    let second = Timestamp::from_second(1_763_000_000).unwrap();
    origin.edit(|world| {
        for (id, millis) in world.ids().into_iter().take(3).zip([100, 500, 0]) {
            assert!(world.touch_at(id, second + SignedDuration::from_millis(millis)));
        }
    });
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    let desk = Desk::new();
    desk.does(&server.setup, &server.data_dir(), &["export"], "all.gsb").await;
    let offline = desk.serve_bundle(Setup::offline(), "all.gsb").await;
    let is_kept = |reply: &crate::client::Reply| !reply.header("cache-control").unwrap().contains("no-store");
    let later = origin.expected(&format!("{LIST}?modified_since=2025-11-13T02:13:21Z")).1["total"].as_u64().unwrap();
    for (time, of_second, kept) in [
        ("2025-11-13T02:13:20Z", 3, false),
        ("2025-11-13T02:13:20.300Z", 3, false),
        ("2025-11-13T02:13:19Z", 3, true),
        ("2025-11-13T02:13:21Z", 0, true),
    ] {
        let reply = offline.ok(&format!("{LIST}?modified_since={time}")).await;
        assert_eq!((reply.total(), is_kept(&reply)), (later + of_second, kept), "{time}");
    }
    let target = format!("{LIST}?modified_since=2025-11-13T02:13:20Z");
    // All pages of a named snapshot have one meaning, whatever is learned between them.
    let named = server.ok(&format!("{target}&snapshot={}", server.snapshot().await)).await;
    assert_eq!((named.total(), is_kept(&named)), (later + 3, false));
    let reply = server.ok(&target).await;
    assert_eq!((reply.total(), is_kept(&reply)), (later + 2, true));
    assert_eq!(list(&reply.json()), list(&origin.expected(&target).1));
}
