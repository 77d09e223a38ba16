//! The shield: crawls nothing, fetches each resource once, and keeps serving when the origin fails.

use std::time::{Duration, Instant};

use http::Method;
use sample_origin::{FaultRule, Origin, World};

use crate::client::Reply;
use crate::compare::{same_list, taxonomy_is_the_origins};
use crate::harness::{PUBLIC, Script, Server, Setup, Upstream, each, origin, quiet, run, wait_until};
use crate::origin_faults::Fault;

const LIST: &str = "/api/listings.json";

async fn shielded() -> (Origin, Server) {
    let origin = origin(120).await;
    let server = Setup::shield_of(&origin).start().await;
    server.ready().await;
    (origin, server)
}

#[tokio::test]
async fn a_shield_is_ready_at_once_and_asks_for_nothing_by_itself() {
    let (origin, server) = shielded().await;
    quiet(&origin).await;
    assert_eq!(origin.count(), 0);
    assert_eq!(server.status().await["use"], "shield");
}

#[tokio::test]
async fn each_resource_is_fetched_once_and_then_hit() {
    let (origin, server) = shielded().await;
    let detail = format!("/api/listings/{}.json", origin.world(World::ids)[3]);
    for target in [LIST, "/api/listings.json?sport=golf", "/api/sports.json", "/api/states.json", &detail] {
        origin.clear_log();
        let first = server.ok(target).await;
        let outcome = first.the("cache-status");
        assert!(outcome.contains("grandstand; fwd=uri-miss; fwd-status=200; stored"), "{outcome}");
        assert_eq!(first.the("cache-control"), "public, max-age=300", "{target}: the origin's");
        assert_eq!((first.header("mirror-snapshot"), first.header("mirror-confirmed")), (None, None));
        for _ in 0..3 {
            let again = server.ok(target).await;
            assert_eq!((&again.body, again.etag()), (&first.body, first.etag()));
            assert!(again.the("cache-status").contains("grandstand; hit; ttl="), "{again:?}");
            assert!(again.age().unwrap() < 60);
        }
        let tag = first.etag();
        assert_eq!(server.get_with(target, &[("if-none-match", &tag)]).await.status, 304, "{target}");
        for coding in ["gzip", "br", "zstd"] {
            let coded = server.get_with(target, &[("accept-encoding", coding)]).await;
            assert_eq!(coded.decoded(), first.body, "{target} {coding}");
        }
        assert_eq!(origin.count(), 1, "{target}: {:#?}", origin.log());
    }
    let list = server.ok(LIST).await;
    same_list(list.text(), &origin.expected_text(LIST).1, LIST);
    taxonomy_is_the_origins(&server, &origin, "cities", PUBLIC).await;
    assert!(server.ok("/api/cities.json").await.etag().starts_with("W/"), "what is rewritten has a weak tag");
}

#[tokio::test]
async fn the_canonical_query_is_the_key_and_exactly_what_is_sent() {
    let (origin, server) = shielded().await;
    for query in [
        "sport=golf&state=texas",
        "state=texas&sport=golf",
        "state=texas&sport=golf&page=1&per_page=50",
        "utm_source=x&sport=g%6Flf&state=texas&city=",
        "sport=golf&sport=golf&state=texas&callback=evil",
    ] {
        server.ok(&format!("{LIST}?{query}")).await;
    }
    let log = origin.log();
    let asked: Vec<_> = log.iter().map(|seen| seen.path_and_query.as_str()).collect();
    assert_eq!(asked, ["/api/listings.json?sport=golf&state=texas"]);
    origin.clear_log();
    server.ok(&format!("{LIST}?per_page=5000")).await;
    assert_eq!(origin.log()[0].path_and_query, "/api/listings.json?per_page=100");
    assert_eq!(server.ok(&format!("{LIST}?per_page=100")).await.json()["per_page"], 100);
    server.ok("/api/sports.json?x=1").await;
    server.ok("/api/sports.json").await;
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn what_is_ours_to_refuse_never_reaches_the_origin() {
    let (origin, server) = shielded().await;
    for query in ["page=0", "per_page=x", "modified_since=yesterday", "sport=a&sport=b"] {
        server.get(&format!("{LIST}?{query}")).await.assert_problem(400, &[]);
    }
    let post = server.send(http::Method::POST, LIST, &[("content-length", "0")]).await;
    post.assert_problem(405, &[]);
    server.get(&format!("{LIST}?snapshot=any")).await.assert_problem(410, &[]);
    assert_eq!(server.get("/changes.json?since=any").await.status, 404);
    assert_eq!(origin.count(), 0, "{:#?}", origin.log());
    let unknown = server.ok(&format!("{LIST}?sport=chess")).await;
    assert_eq!((unknown.total(), origin.count()), (0, 1), "what a slug means is the origin's to say");
    let missing = server.get("/api/listings/1.json").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_304_renews_freshness() {
    let origin = origin(120).await;
    origin.set(|switches| switches.cache_control = None);
    let server = Setup::shield_of(&origin).set("ttl", "1s").start().await;
    server.ready().await;
    let start = Instant::now();
    let first = server.ok(LIST).await;
    assert!(first.the("cache-control").starts_with("public, max-age=1,"), "ours, where the origin sends none");
    let mut asked = 0_u32;
    while start.elapsed() < Duration::from_millis(4_500) {
        let reply = server.ok(LIST).await;
        assert_eq!((&reply.body, reply.etag()), (&first.body, first.etag()));
        asked += 1;
    }
    let (log, span) = (origin.log(), start.elapsed());
    let with = |status| log.iter().filter(|seen| seen.status == status).count();
    assert_eq!(with(200), 1, "one body");
    let most = span.as_secs() as usize;
    assert!((2..=most).contains(&with(304)), "{} revalidations in {span:?} of a ttl of 1 s for {asked}", with(304));
    assert!(log[1..].iter().all(|seen| seen.conditional));
}

#[tokio::test]
async fn a_change_shows_after_revalidation() {
    let origin = origin(120).await;
    origin.set(|switches| switches.cache_control = Some("public, max-age=1".into()));
    let server = Setup::shield_of(&origin).start().await;
    server.ready().await;
    let (first, id) = (server.ok(LIST).await, origin.world(World::ids)[5]);
    origin.edit(|world| assert!(world.touch(id)));
    wait_until("the change shows", || async { server.ok(LIST).await.ids()[0] == id }).await;
    assert_ne!(server.ok(LIST).await.etag(), first.etag());
}

/// A shield with one list, stale at once.
async fn holding_a_stale_list() -> (Origin, Server, Reply) {
    let origin = origin(120).await;
    origin.set(|switches| switches.cache_control = None);
    let setup = Setup::shield_of(&origin).set("ttl", "1s").set("cache.stale_while_revalidate", "0s");
    let server = setup.set("origin.timeout", "1s").start().await;
    server.ready().await;
    let first = server.ok(LIST).await;
    (origin, server, first)
}

#[tokio::test]
async fn what_is_kept_is_served_stale_when_the_origin_fails() {
    let faults = [
        None,
        Some(Fault::Status(503)),
        Some(Fault::Status(500)),
        Some(Fault::TooManyRequests(Some(1))),
        Some(Fault::HtmlWith200),
        Some(Fault::Redirect("http://127.0.0.1:1/".into())),
        Some(Fault::Hang),
    ];
    each(faults, async |fault| {
        let (origin, server, first) = holding_a_stale_list().await;
        match &fault {
            None => origin.shutdown().await,
            Some(fault) => origin.set(|switches| switches.faults = vec![FaultRule::always("", fault.clone())]),
        }
        wait_until(&format!("it is served stale under {fault:?}"), || async {
            let reply = server.ok(LIST).await;
            assert_eq!(reply.body, first.body, "{fault:?}");
            let outcome = reply.the("cache-status");
            let stale = outcome.contains("grandstand; fwd=stale") && outcome.contains("detail=stale-if-error");
            if stale && matches!(fault, Some(Fault::Status(503))) {
                // Later requests may not reach the origin while it is paused.
                assert!(outcome.contains("fwd-status=503") || origin.count() > 2, "{outcome}");
            }
            stale
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn what_is_not_kept_is_503_or_502_when_the_origin_fails() {
    let faults = [
        (Fault::Status(503), 503),
        (Fault::Status(500), 503),
        (Fault::TooManyRequests(Some(2)), 503),
        (Fault::Hang, 503),
        (Fault::Reset, 503),
        (Fault::HtmlWith200, 502),
        (Fault::Body("[1,2".into()), 502),
        (Fault::Redirect("http://127.0.0.1:1/".into()), 502),
        (Fault::EndlessBody, 502),
    ];
    each(faults, async |(fault, status)| {
        let origin = origin(20).await;
        origin.set(|switches| switches.faults = vec![FaultRule::always("", fault.clone())]);
        let setup = Setup::shield_of(&origin).set("origin.timeout", "1s").set("origin.max_body", "1MiB");
        let server = setup.start().await;
        server.ready().await;
        let reply = server.get(LIST).await;
        assert_eq!(reply.status, status, "{fault:?}: {reply:?}");
        reply.assert_problem(status, &[]);
        if status == 503 {
            assert!(reply.the("retry-after").parse::<u64>().unwrap() >= 1);
        }
        assert!(!reply.text().contains("127.0.0.1:1/"), "no address of the inside shows");
    })
    .await;
}

#[tokio::test]
async fn a_shield_with_one_client_says_how_its_origin_fails() {
    for (status, content_type, how) in [
        (500, "text/plain", "the origin answers with errors"),
        (403, "text/plain", "the origin refuses requests"),
        (200, "text/html", "the answers of the origin cannot be used"),
    ] {
        let fails = move |_: &_| Script::new(status, "<html>").with("content-type", content_type);
        let origin = Upstream::start(fails).await;
        let server = Setup::shield_of_url(&origin.url()).start().await;
        for id in 1..5 {
            assert!(server.get(&format!("/api/listings/{id}.json")).await.status >= 500);
            let told = server.finding("origin-fails").await.unwrap_or_default();
            assert!(told.starts_with(how) && told.contains(&origin.url()), "{status} {id}: {told}");
            assert!(told.contains("; it was last asked at "), "{told}");
        }
        let reply = server.admin(Method::GET, "/status").await;
        assert!(reply.status == 200 && reply.json()["origin"]["failing_seconds"].is_u64(), "{}", reply.text());
        origin.answers(|_| Script::new(200, "{}"));
        server.ok("/api/listings/9.json").await;
        assert!(server.status().await["origin"]["failing_seconds"].is_null());
    }
}

#[tokio::test]
async fn a_shield_that_may_store_nothing_says_so() {
    for forbids in ["private", "max-age=0, private, must-revalidate", "no-store"] {
        let origin = Upstream::start(move |_| Script::new(200, "{}").with("cache-control", forbids)).await;
        let server = Setup::shield_of_url(&origin.url()).start().await;
        let findings = || async { server.status().await["findings"].clone() };
        assert_eq!(findings().await, serde_json::json!([]));
        for _ in 0..3 {
            server.ok("/api/sports.json").await;
            server.ok("/api/listings/7.json").await;
        }
        assert_eq!(origin.count(), 6, "none may be stored");
        let told = findings().await;
        let told = told.as_array().unwrap();
        assert!(told.len() == 1 && told[0]["text"].as_str().unwrap().contains("Cache-Control"), "{told:?}");
        assert!(told[0]["todo"].as_str().unwrap().contains("run a mirror"), "{told:?}");
        assert_eq!(server.admin(Method::GET, "/status").await.status, 200);
        let url = format!("http://{}", server.admin);
        let (code, said) = run(&["status".to_owned(), "--admin".to_owned(), url]).await;
        assert!(code == 0 && said.contains("  finding    ") && said.contains("Cache-Control"), "{said}");
    }
}
