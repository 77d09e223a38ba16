//! A mirror before its first snapshot: it answers at once, with priority over its own crawl, and from the snapshot as
//! soon as there is one.

use std::time::Duration;

use futures_util::future::join_all;
use sample_origin::{FaultRule, Origin, World};

use crate::compare::{detail_is_the_origins, same_list};
use crate::harness::{Server, Setup, each, origin, wait_until};
use crate::origin_faults::Fault;

const LIST: &str = "/api/listings.json";

/// A mirror whose crawl is stopped by this fault.
async fn held_up(fault: Fault, paths: &[&str]) -> (Origin, Server) {
    let origin = origin(250).await;
    let rules = paths.iter().map(|path| FaultRule::always(path, fault.clone())).collect();
    origin.set(|switches| switches.faults = rules);
    let server = Setup::mirror_of(&origin).start().await;
    (origin, server)
}

#[tokio::test]
async fn it_answers_from_the_first_second_and_from_the_snapshot_once_there_is_one() {
    let held_up_by = [
        (Fault::Hang, "/api/cities.json"),
        (Fault::Status(500), "/api/cities.json"),
        (Fault::HtmlWith200, "/api/cities.json"),
        (Fault::Hang, "/api/listings.json?page=2&per_page=100"),
    ];
    each(held_up_by, async |(fault, path)| {
        let (origin, server) = held_up(fault.clone(), &[path]).await;
        let id = origin.world(World::ids)[5];
        let detail = format!("/api/listings/{id}.json");
        for target in
            ["/api/listings.json?sport=golf", "/api/listings.json?state=texas&page=2", "/api/sports.json", &detail]
        {
            let reply = server.ok(target).await;
            assert!(
                reply.the("cache-status").contains("grandstand; fwd=uri-miss; fwd-status=200; stored"),
                "{reply:?}"
            );
            for name in ["mirror-snapshot", "mirror-confirmed"] {
                assert_eq!(reply.header(name), None, "{fault:?} {target}");
            }
            assert_eq!(reply.the("cache-control"), "public, max-age=300", "the origin's");
            let hit = server.get_with(target, &[("accept-encoding", "br")]).await;
            assert_eq!(hit.decoded(), reply.body);
            assert!(hit.the("cache-status").starts_with("grandstand; hit; ttl="), "{hit:?}");
            assert_eq!(server.get_with(target, &[("if-none-match", &reply.etag())]).await.status, 304);
        }
        // The crawl stands still while the fault lasts: nothing above has waited for it.
        let golf = server.ok("/api/listings.json?sport=golf").await;
        same_list(golf.text(), &origin.expected_text("/api/listings.json?sport=golf").1, "golf");
        for target in ["/api/listings.json?snapshot=any", "/api/sports.json?snapshot=any"] {
            server.get(target).await.assert_problem(410, &["any"]);
        }
        for target in ["/changes.json?since=any", "/changes.ndjson?since=any", "/changes.json"] {
            let early = server.get(target).await;
            early.assert_problem(503, &["no snapshot yet"]);
            assert_eq!((early.the("retry-after"), early.the("cache-control")), ("30".into(), "no-store".into()));
        }
        let is_held_up = || origin.log().iter().any(|seen| seen.path_and_query == path);
        wait_until("the crawl is held up", || async { is_held_up() }).await;
        origin.set(|switches| switches.faults.clear());
        wait_until("it is published", || async { server.ok(LIST).await.header("mirror-snapshot").is_some() }).await;
        for target in ["/api/listings.json?sport=golf", "/api/sports.json"] {
            let reply = server.ok(target).await;
            assert!(reply.header("mirror-snapshot").is_some(), "{fault:?} {target}: what was read through is not used");
            assert!(reply.the("cache-status").starts_with("grandstand; hit"));
        }
        assert_eq!(server.ok("/api/listings.json?sport=golf").await.ids(), golf.ids());
        detail_is_the_origins(&server, &origin, id).await;
    })
    .await;
}

/// The origin is slow and its budget is small: a client's read does not wait for the whole crawl.
#[tokio::test]
async fn a_clients_read_has_priority_over_the_crawl() {
    let origin = origin(3_000).await;
    origin.set(|switches| switches.latency = Duration::from_millis(200));
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "24").set("origin.wait", "5s");
    let server = setup.start().await;
    wait_until("the crawl is under way", || async { origin.count() >= 3 }).await;
    // 30 pages and more do not fit into the budget of the first minute: clients must get a part of it.
    let ids = origin.world(World::ids);
    let replies = join_all(ids[..6].iter().map(async |id| server.get(&format!("/api/listings/{id}.json")).await)).await;
    for reply in &replies {
        // Who had waited longer than `origin.wait` would have got 503.
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("mirror-snapshot"), None);
    }
    assert!(origin.count() <= 24, "in the first minute of the budget: {}", origin.count());
}

/// The whole first crawl fails: the mirror is no worse than a shield.
#[tokio::test]
async fn when_the_origin_goes_away_before_the_first_snapshot_what_was_read_stands_in() {
    let (origin, server) = held_up(Fault::Hang, &["/api/cities.json"]).await;
    let golf = server.ok(&format!("{LIST}?sport=golf")).await;
    origin.shutdown().await;
    for _ in 0..5 {
        let reply = server.get_with(&format!("{LIST}?sport=golf"), &[("accept-encoding", "gzip")]).await;
        assert_eq!((reply.status, reply.decoded()), (200, golf.body.to_vec()));
    }
    let missing = server.get(&format!("{LIST}?sport=baseball")).await;
    missing.assert_problem(503, &[]);
    assert!(missing.the("retry-after").parse::<u64>().unwrap() >= 1);
}

/// One resource that the crawl cannot get is no outage: all other reads are answered as usual.
#[tokio::test]
async fn a_crawl_that_gets_stuck_does_not_hold_up_the_reads_of_clients() {
    let faults = [Fault::Hang, Fault::Reset, Fault::Status(503), Fault::Redirect("/x".into())];
    each(faults, async |fault| {
        let origin = origin(250).await;
        origin.set(|switches| switches.faults = vec![FaultRule::always("/api/cities.json", fault.clone())]);
        // Without patience: a read that waits for anything is answered 503.
        let setup = Setup::mirror_of(&origin).set("origin.timeout", "2s").set("origin.wait", "0s");
        let server = setup.start().await;
        let tried = || origin.log().iter().filter(|seen| seen.path_and_query.ends_with("cities.json")).count();
        wait_until("the crawl has been stuck for a while", || async { tried() >= 4 }).await;
        let (before, mut page) = (tried(), 0);
        wait_until("the crawl was stuck again, twice", || {
            page += 1;
            let (target, server) = (format!("{LIST}?sport=golf&per_page=1&page={page}"), &server);
            async move {
                let reply = server.get(&target).await;
                assert_eq!(reply.status, 200, "{reply:?}");
                page >= 20 && tried() >= before + 2
            }
        })
        .await;
        assert_eq!(server.ok(LIST).await.header("mirror-snapshot"), None);
    })
    .await;
}
