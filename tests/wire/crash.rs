//! kill -9 at any instant loses neither published nor fetched data.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sample_origin::{Origin, World};

use crate::compare::{detail_is_the_origins, list_is_the_origins, taxonomies_are_the_origins};
use crate::harness::{Setup, origin, wait_until};

const LIST: &str = "/api/listings.json";
/// An answer that came this long before a kill has to be durable. A second is promised; the rest is for a busy machine.
pub const DURABLE: Duration = Duration::from_secs(6);

/// When a killed process was surely dead: when the origin, which runs beside the test, has handled what was still on
/// the wire.
pub async fn dead() -> Instant {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Instant::now()
}

/// Asserts that no request was unconditional once its answer was durable.
pub fn nothing_was_fetched_twice(origin: &Origin, kills: &[Instant]) {
    let mut answered: HashMap<String, Instant> = HashMap::new();
    for seen in origin.log() {
        if let Some(&before) = answered.get(&seen.path_and_query)
            && !seen.conditional
        {
            let lost = kills.iter().any(|&kill| before <= kill && kill <= seen.at && kill < before + DURABLE);
            let path = &seen.path_and_query;
            assert!(lost, "{path} was fetched again {:?} after its answer", seen.at - before);
        }
        if seen.status == 200 || seen.status == 304 {
            answered.insert(seen.path_and_query, seen.at);
        }
    }
}

#[tokio::test]
async fn a_first_crawl_that_is_killed_again_and_again_goes_on_where_it_was() {
    let origin = origin(700).await;
    // So slow that each round lasts longer than `DURABLE`: no younger answer is judged.
    origin.set(|switches| switches.jitter_ms = (200, 1_000));
    let mut server = Setup::mirror_of(&origin).alone().start().await;
    let mut kills = Vec::new();
    for round in 0..5_u64 {
        let enough = origin.count() + if round == 0 { 4 } else { 110 };
        wait_until("the crawl has got on", || async { origin.count() >= enough }).await;
        server.process.kill();
        kills.push(dead().await);
        server.restart().await;
    }
    origin.set(|switches| switches.jitter_ms = (0, 0));
    server.settled(&origin).await;
    assert!(kills.windows(2).all(|kills| kills[1] - kills[0] > DURABLE), "nothing was judged: {kills:?}");
    nothing_was_fetched_twice(&origin, &kills);
    for page in 1..=14 {
        list_is_the_origins(&server, &origin, &format!("{LIST}?page={page}")).await;
    }
    taxonomies_are_the_origins(&server, &origin).await;
    for id in origin.world(World::ids) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    assert!(origin.log().iter().filter(|seen| seen.status == 200).count() < 2 * 700, "most was fetched once");
}

#[tokio::test]
async fn a_restart_without_the_origin_serves_the_last_snapshot_whole() {
    let origin = origin(300).await;
    let mut server = Setup::mirror_of(&origin).alone().start().await;
    server.settled(&origin).await;
    let (page, snapshot) = (server.ok(LIST).await, server.snapshot().await);
    // The last details become durable within a second of their arrival; silence does not prove it.
    let arrived = origin.log().last().unwrap().at;
    wait_until("the last arrival is durable", || async { arrived.elapsed() > DURABLE }).await;
    server.process.kill();
    origin.shutdown().await;
    server.restart().await;
    let start = Instant::now();
    server.ready().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let again = server.ok(LIST).await;
    assert_eq!((again.etag(), again.ids()), (page.etag(), page.ids()));
    assert_eq!(again.the("mirror-snapshot"), snapshot);
    for page in 1..=6 {
        list_is_the_origins(&server, &origin, &format!("{LIST}?page={page}")).await;
    }
    for id in origin.world(World::ids) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    let details = server.status().await["details"].clone();
    assert_eq!((&details["mirrored"], &details["of"]), (&300.into(), &300.into()), "{details}");
}

#[tokio::test]
async fn a_kill_during_a_refresh_leaves_the_old_snapshot_or_the_new_one() {
    let origin = origin(230).await;
    let mut server = Setup::mirror_of(&origin).alone().start().await;
    server.settled(&origin).await;
    for round in 0..6_u64 {
        let old = (server.snapshot().await, server.ok(LIST).await.total());
        let like = origin.world(World::ids)[round as usize];
        origin.edit(|world| world.insert_like(like, &format!("Round {round}")).unwrap());
        origin.clear_log();
        server.refresh().await;
        let enough = 1 + 2 * round;
        let start = Instant::now();
        wait_until("the refresh has begun", || async {
            origin.count() >= enough || start.elapsed() > Duration::from_secs(3)
        })
        .await;
        server.process.kill();
        server.restart().await;
        server.ready().await;
        let reply = server.ok(LIST).await;
        let now = (reply.the("mirror-snapshot"), reply.total());
        assert!(now == old || (now.0 != old.0 && now.1 == old.1 + 1), "{old:?} became {now:?}");
        server.refresh().await;
        wait_until("the change shows", || async { server.ok(LIST).await.total() == old.1 + 1 }).await;
        server.settled(&origin).await;
        list_is_the_origins(&server, &origin, LIST).await;
    }
}

#[tokio::test]
async fn a_restart_asks_conditionally_and_fetches_nothing_again() {
    let origin = origin(130).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    // So that every question was asked once.
    server.refreshed(&origin).await;
    let arrived = origin.log().last().unwrap().at;
    wait_until("the last arrival is durable", || async { arrived.elapsed() > DURABLE }).await;
    origin.clear_log();
    server.restart().await;
    server.ready().await;
    server.refreshed(&origin).await;
    let log = origin.log();
    let asked: Vec<_> = log.iter().map(|seen| (&seen.path_and_query, seen.status)).collect();
    assert!(log.iter().all(|seen| seen.conditional && seen.status == 304), "{asked:#?}");
    assert!(log.len() <= 10, "{asked:#?}");
}
