//! kill -9 at random instants of crawl, publish, refresh and start, while the origin's data changes all the time.
//!
//! After each kill: the store opens, the last published snapshot is served, whole, and never changes under its id; a
//! committed detail is not fetched again. The short test is part of the suite; the long one is `cargo test --test wire
//! two_hundred_kills -- --ignored --nocapture`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sample_origin::{Origin, World};
use serde_json::Value;

use crate::crash::{dead, nothing_was_fetched_twice};
use crate::harness::{Body, Server, Setup, origin, wait_until};

/// A small generator: the same seed kills at the same instants.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The moment of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum During {
    Crawl,
    Publish,
    Refresh,
    Start,
}

/// What was seen of the snapshots, by id: the ids of their listings in order, and a hash of the items.
#[derive(Default)]
struct Seen {
    contents: HashMap<String, (Vec<u64>, u64)>,
    /// Every id that was served or told.
    known: HashSet<String>,
    /// The one that was served or told last.
    last: Option<String>,
}

fn digest(texts: &[String]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(texts.concat().as_bytes())
}

/// Reads every page of what is served, all of one snapshot; `None` while nothing is published.
async fn read_all(server: &Server) -> Option<(String, Vec<u64>, u64)> {
    // A client's request would reach the origin then, and the crawl may ask the same at the same time.
    if server.snapshot().await.is_empty() {
        return None;
    }
    'again: loop {
        let first = server.get("/api/listings.json?per_page=100").await;
        let id = first.header("mirror-snapshot")?;
        let (total, pages) = (first.total(), first.json()["total_pages"].as_u64().unwrap());
        let (mut ids, mut texts) = (Vec::new(), Vec::new());
        for page in 1..=pages {
            let reply = server.get(&format!("/api/listings.json?per_page=100&page={page}&snapshot={id}")).await;
            if reply.status == 410 {
                continue 'again;
            }
            assert_eq!((reply.status, reply.total()), (200, total), "page {page} of {id}");
            assert_eq!(reply.the("mirror-snapshot"), id);
            ids.extend(reply.ids());
            let body = reply.json();
            texts.extend(body["items"].as_array().unwrap().iter().map(Value::to_string));
        }
        let mut distinct = ids.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((ids.len() as u64, distinct.len() as u64), (total, total), "the pages of {id}");
        return Some((id, ids, digest(&texts)));
    }
}

/// The last snapshot that a process logged.
fn published(said: &str) -> Option<String> {
    let line = said.lines().rfind(|line| line.contains("published snapshot="))?;
    let id = line.split("published snapshot=").nth(1)?.split(' ').next()?;
    Some(id.to_owned())
}

impl Seen {
    fn saw(&mut self, (id, ids, items): (String, Vec<u64>, u64)) {
        let before = self.contents.insert(id.clone(), (ids.clone(), items));
        assert!(before.is_none_or(|before| before == (ids, items)), "{id} is not what it was");
        self.told(Some(id));
    }

    /// A process has told of this one.
    fn told(&mut self, id: Option<String>) {
        self.known.extend(id.clone());
        self.last = id.or(self.last.take());
    }
}

/// Changes the origin a little, all the time, and remembers every order of ids that it listed.
async fn edit(origin: Arc<Origin>, seed: u64, states: Arc<parking_lot::Mutex<Vec<Vec<u64>>>>) {
    let mut dice = Dice(seed);
    loop {
        origin.edit(|world| {
            let ids = world.ids();
            let id = ids[dice.below(ids.len() as u64) as usize];
            match dice.below(4) {
                0 if ids.len() < 260 => drop(world.insert_like(id, &format!("New {}", dice.below(1000)))),
                1 if ids.len() > 210 => drop(world.remove(id)),
                _ => drop(world.touch(id)),
            }
        });
        states.lock().push(listed(&origin));
        tokio::time::sleep(Duration::from_millis(200 + dice.below(900))).await;
    }
}

/// The ids in the origin's order.
fn listed(origin: &Origin) -> Vec<u64> {
    let page = |page: u64| origin.expected(&format!("/api/listings.json?per_page=100&page={page}")).1;
    let ids =
        |body: &Value| body["items"].as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect();
    let first = page(1);
    let more = (2..=first["total_pages"].as_u64().unwrap()).map(|n| ids(&page(n)));
    std::iter::once(ids(&first)).chain(more).collect::<Vec<Vec<u64>>>().concat()
}

/// Kills a server `rounds` times on one data directory; how often during what.
async fn kill_again_and_again(seed: u64, rounds: u64) -> HashMap<During, u64> {
    let origin = Arc::new(origin(230).await);
    origin.set(|switches| switches.jitter_ms = (0, 12));
    let states = Arc::new(parking_lot::Mutex::new(vec![listed(&origin)]));
    let editing = tokio::spawn(edit(Arc::clone(&origin), seed, Arc::clone(&states)));
    let setup = Setup::mirror_of(&origin).alone().set("ttl", "5s").set("mirror.sweep_every", "5m");
    let mut dice = Dice(seed ^ 0x5eed);
    let mut counts = HashMap::new();
    let (mut seen, mut kills) = (Seen::default(), Vec::new());
    let mut server = setup.start().await;
    for round in 0..rounds {
        // The first rounds hit the first crawl; afterwards everything in turn.
        let during = match (round, dice.below(4)) {
            (0..3, _) | (_, 0) => During::Crawl,
            (_, 1) => During::Publish,
            (_, 2) => During::Refresh,
            _ => During::Start,
        };
        match during {
            During::Crawl => {
                if round >= 3 {
                    assert!(server.admin(http::Method::POST, "/sync").await.status < 300);
                }
                tokio::time::sleep(Duration::from_millis(dice.below(900))).await;
            }
            During::Refresh => {
                server.refresh().await;
                tokio::time::sleep(Duration::from_millis(dice.below(200))).await;
            }
            During::Publish => {
                // Just before a commit: the change is known, its pages are being read.
                server.refresh().await;
                let start = Instant::now();
                while !server.process.said().contains("the origin has changed") && start.elapsed().as_millis() < 1500 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                tokio::time::sleep(Duration::from_millis(dice.below(120))).await;
            }
            During::Start => {
                server.process.kill();
                kills.push(dead().await);
                seen.told(published(&server.process.said()));
                server.process = Body::Child(server.setup.spawn(&server.data_dir()));
                tokio::time::sleep(Duration::from_millis(dice.below(400))).await;
            }
        }
        // Noted when it is dead: until then it may ask and be answered.
        server.process.kill();
        kills.push(dead().await);
        *counts.entry(during).or_default() += 1;
        let said = server.process.said();
        assert!(!said.contains("panicked") && !said.contains("damaged"), "{said}");
        seen.told(published(&said));
        server.restart().await;
        match read_all(&server).await {
            Some(content) => {
                let known: Vec<_> = states.lock().iter().flatten().copied().collect();
                assert!(content.1.iter().all(|id| known.contains(id)), "ids that the origin never had");
                let status = server.status().await;
                let certificate = status["snapshot"]["certificate"].as_str().unwrap_or_default().to_owned();
                if status["snapshot"]["id"] == content.0.as_str() && certificate == "full" {
                    assert!(states.lock().contains(&content.1), "{certificate}, but no state that the origin ever had");
                }
                // Data committed before it was logged, or published since the start, was never seen before.
                let lost = seen.last.as_ref() != Some(&content.0) && seen.known.contains(&content.0);
                assert!(!lost, "{:?} was published last, but an older one is served: {}", seen.last, content.0);
                seen.saw(content);
            }
            None => assert_eq!(seen.last, None, "what was published is gone"),
        }
    }
    editing.abort();
    origin.set(|switches| switches.jitter_ms = (0, 0));
    server.refresh().await;
    server.settled(&origin).await;
    nothing_was_fetched_twice(&origin, &kills);
    wait_until("everything is the origin's", || async {
        read_all(&server).await.is_some_and(|(_, ids, _)| ids == listed(&origin))
    })
    .await;
    for id in origin.world(World::ids).into_iter().step_by(7) {
        crate::compare::detail_is_the_origins(&server, &origin, id).await;
    }
    counts
}

#[tokio::test]
async fn kills_at_random_instants_lose_nothing() {
    kill_again_and_again(1, 14).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "some minutes; the test above is a part of it"]
async fn two_hundred_kills_at_random_instants_lose_nothing() {
    let start = Instant::now();
    let lanes: Vec<_> = (0..4).map(|seed| tokio::spawn(kill_again_and_again(100 + seed, 55))).collect();
    let mut counts: HashMap<During, u64> = HashMap::new();
    for lane in lanes {
        for (during, count) in lane.await.unwrap() {
            *counts.entry(during).or_default() += count;
        }
    }
    println!("{} kills in {:?}: {counts:?}", counts.values().sum::<u64>(), start.elapsed());
}
