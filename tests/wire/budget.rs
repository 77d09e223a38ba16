//! An origin that refuses the 61st arrival in any 60 seconds never has to, whatever happens to the mirror.

use std::time::{Duration, Instant};

use crate::crash::dead;
use crate::harness::{Setup, each, origin, wait_until};

/// The longest test of all: about 70 seconds, because the budget's window is a minute.
#[tokio::test]
async fn the_budget_holds_over_kills_restarts_and_impatient_clients() {
    let origin = origin(300).await;
    origin.set(|switches| {
        switches.refuse_61st = Some(60);
        switches.jitter_ms = (0, 500);
    });
    let mut server = Setup::mirror_of(&origin).alone().set("origin.requests_per_minute", "60").start().await;
    let start = Instant::now();
    let mut next_kill = Duration::from_secs(2);
    let mut ids = origin.world(sample_origin::World::ids).into_iter().cycle();
    while start.elapsed() < Duration::from_secs(68) {
        if start.elapsed() >= next_kill && next_kill < Duration::from_secs(50) {
            server.process.kill();
            server.restart().await;
            next_kill += Duration::from_secs(5);
        }
        // Clients ask for missing details, at most one at a time, and fifty times a second where they are refused at once.
        let target = format!("/api/listings/{}.json", ids.next().unwrap());
        let asked = tokio::time::timeout(Duration::from_millis(700), server.get(&target)).await;
        if let Ok(reply) = asked {
            assert!(matches!(reply.status, 200 | 503), "{reply:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(origin.refused(), 0, "the origin had to refuse; its busiest minute: {}", origin.busiest_minute());
    assert!(origin.log().iter().all(|seen| seen.status != 429));
    assert!(origin.busiest_minute() <= 60, "{}", origin.busiest_minute());
    assert!(origin.count() > 50, "the budget was hardly used: {} requests", origin.count());
    server.ready().await;
    assert_eq!(server.ok("/api/listings.json").await.total(), 300);
}

#[tokio::test]
async fn a_client_is_not_kept_waiting_for_a_spent_budget() {
    let origin = origin(60).await;
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "12").set("origin.wait", "1s");
    let server = setup.set("mirror.details", "on-demand").start().await;
    server.ready().await;
    let ids = origin.world(sample_origin::World::ids);
    let start = Instant::now();
    let mut last = None;
    for id in ids {
        let reply = server.get(&format!("/api/listings/{id}.json")).await;
        let status = reply.status;
        last = Some(reply);
        if status != 200 {
            break;
        }
    }
    let last = last.unwrap();
    last.assert_problem(503, &[]);
    let wait: u64 = last.the("retry-after").parse().unwrap();
    assert!((1..=70).contains(&wait), "Retry-After: {wait}");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(origin.count() <= 12, "{} requests on a budget of 12", origin.count());
    wait_until("/status shows the budget", || async { !server.status().await["origin"]["budget"].is_null() }).await;
    assert_eq!(server.ok("/api/listings.json").await.total(), 60, "what is mirrored needs no budget");
}

/// The slots of the next refresh are kept free, whatever clients want.
#[tokio::test]
async fn a_client_that_takes_all_it_can_get_delays_no_refresh() {
    let origin = origin(120).await;
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "60").set("origin.wait", "1s");
    let server = setup.set("mirror.details", "on-demand").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    for id in origin.world(sample_origin::World::ids) {
        if server.get(&format!("/api/listings/{id}.json")).await.status != 200 {
            break;
        }
    }
    let (sent, refreshed) =
        (origin.count(), || async { server.status().await["origin"]["requests"]["refresh"].as_u64() });
    assert!(sent > 50, "the client took {sent}");
    let before = refreshed().await;
    let start = Instant::now();
    server.refresh().await;
    wait_until("all five requests of a refresh are sent", || async {
        refreshed().await.unwrap_or(0) >= before.unwrap_or(0) + 5
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(15), "only after {:?}", start.elapsed());
}

/// With a short `ttl`, several refreshes begin within the minute for which the request of a client takes its slot.
#[tokio::test(start_paused = true)]
async fn clients_take_no_slot_of_the_refreshes_of_a_minute() {
    use crate::harness::virtually;
    use crate::origin_faults::Fault;
    use sample_origin::{FaultRule, Switches};
    let faults = vec![FaultRule::always("/api/none", Fault::Status(500))];
    let origin = virtually::origin_with(60, Switches { faults, ..Switches::default() }).await;
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "600").set("ttl", "5s");
    let server = setup.set("origin.cache_ttl", "0s").start().await;
    server.settled(&origin).await;
    let (before, mut oldest) = (origin.count(), 0);
    for second in 0..90 {
        let paths: Vec<String> = (0..40).map(|n| format!("/api/none{second}-{n}")).collect();
        futures_util::future::join_all(paths.iter().map(|path| server.get(path))).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        oldest = oldest.max(server.status().await["age_seconds"].as_u64().unwrap());
    }
    let asked = origin.count() - before;
    assert!(oldest <= 10, "the data was not confirmed for {oldest} s, with {asked} requests");
    assert!(asked > 500, "clients use what is left: {asked}");
}

/// `Retry-After: 0` is an invitation. A busy machine delays some tries, a built-in pause delays all.
#[tokio::test]
async fn an_origin_that_wants_no_pause_is_asked_again_at_once() {
    use crate::origin_faults::Fault;
    use sample_origin::FaultRule;
    for path in ["/api/listings.json", "/api/listings/"] {
        let mut shortest = Duration::MAX;
        for _ in 0..4 {
            let origin = origin(20).await;
            let rule = FaultRule::times(path, 1, Fault::TooManyRequests(Some(0)));
            origin.set(|switches| switches.faults = vec![rule]);
            let server = Setup::mirror_of(&origin).start().await;
            server.settled(&origin).await;
            let log = origin.log();
            let refused = log.iter().find(|seen| seen.status == 429).expect("a refusal");
            let again = log.iter().find(|seen| seen.status == 200 && seen.path_and_query == refused.path_and_query);
            shortest = shortest.min(again.unwrap().at - refused.at);
        }
        assert!(shortest < Duration::from_millis(400), "{path}: asked again after {shortest:?}");
    }
}

#[tokio::test]
async fn a_pause_that_the_origin_asked_for_survives_a_kill() {
    use crate::origin_faults::Fault;
    use sample_origin::FaultRule;
    each(["0", "60"], async |per_minute| {
        let origin = origin(20).await;
        let mut server = Setup::mirror_of(&origin).alone().set("origin.requests_per_minute", per_minute).start().await;
        server.settled(&origin).await;
        origin.set(|switches| switches.faults = vec![FaultRule::times("", 1, Fault::TooManyRequests(Some(20)))]);
        server.refresh().await;
        wait_until("the origin refuses", || async { origin.log().iter().any(|seen| seen.status == 429) }).await;
        let refused = origin.log().into_iter().find(|seen| seen.status == 429).unwrap().at;
        wait_until("it has read that", || async {
            server.status().await["origin"]["budget"]["paused_seconds"].as_u64() > Some(0)
        })
        .await;
        // What it had sent before it knew.
        server.process.kill();
        dead().await;
        let sent = origin.count() as usize;
        for _ in 0..3 {
            server.restart().await;
            let paused = server.status().await["origin"]["budget"]["paused_seconds"].as_u64().unwrap();
            assert!((1..=20).contains(&paused), "{paused}");
        }
        wait_until("it goes on", || async { origin.count() as usize > sent }).await;
        let next = origin.log()[sent].at - refused;
        assert!(next > Duration::from_millis(19_800), "asked again after {next:?}");
    })
    .await;
}
