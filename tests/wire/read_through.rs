//! What the snapshot does not cover is read through, once.

use std::time::{Duration, Instant};

use sample_origin::{Origin, World};

use crate::compare::detail_is_the_origins;
use crate::crash::DURABLE;
use crate::harness::{Server, Setup, origin};

async fn on_demand() -> (Origin, Server) {
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    crate::harness::quiet(&origin).await;
    origin.clear_log();
    (origin, server)
}

fn asked_for(origin: &Origin, target: &str) -> usize {
    origin.log().iter().filter(|seen| seen.path_and_query.ends_with(target)).count()
}

#[tokio::test]
async fn a_detail_that_is_asked_for_is_fetched_at_once_and_kept() {
    let (origin, mut server) = on_demand().await;
    assert_eq!(origin.count(), 0, "on demand, nobody demands");
    let id = origin.world(World::ids)[7];
    let target = format!("/api/listings/{id}.json");
    let first = server.ok(&target).await;
    assert_eq!(first.text(), origin.expected_text(&target).1);
    let outcome = first.the("cache-status");
    assert!(outcome.starts_with("grandstand; fwd=uri-miss; fwd-status=200; stored"), "{outcome}");
    for _ in 0..3 {
        let again = server.ok(&target).await;
        assert_eq!(again.body, first.body);
        assert!(again.the("cache-status").starts_with("grandstand; hit"), "{again:?}");
    }
    assert_eq!(asked_for(&origin, &target), 1);
    let tag = server.ok(&target).await.etag();
    assert_eq!(server.get_with(&target, &[("if-none-match", &tag)]).await.status, 304);
    let fetched = Instant::now();
    crate::harness::wait_until("it is durable", || async { fetched.elapsed() > DURABLE }).await;
    server.restart().await;
    server.ready().await;
    detail_is_the_origins(&server, &origin, id).await;
    assert!(origin.log().iter().filter(|seen| seen.path_and_query.ends_with(&target)).count() <= 2);
    let refetched =
        origin.log().iter().filter(|seen| seen.path_and_query.ends_with(&target)).skip(1).any(|seen| !seen.conditional);
    assert!(!refetched, "it was kept over a restart");
}

#[tokio::test]
async fn who_ask_at_once_share_one_request_whoever_leaves_and_a_detail_that_cannot_be_fetched_is_503() {
    let (origin, server) = on_demand().await;
    // Long enough for all of them to come meanwhile.
    origin.set(|switches| switches.latency = Duration::from_secs(3));
    let [target, left, missing] =
        origin.world(|world| [7, 8, 9].map(|at| format!("/api/listings/{}.json", world.ids()[at])));
    let replies = server.together((0..100).map(|_| (target.clone(), vec![])), || {}).await;
    let first = &replies[0];
    for reply in &replies {
        assert_eq!((reply.status, &reply.body), (200, &first.body), "{target}");
    }
    assert_eq!(asked_for(&origin, &target), 1, "{target}");
    let collapsed = replies.iter().filter(|reply| reply.the("cache-status").contains("collapsed")).count();
    assert!(collapsed >= 90, "{target}: {collapsed} of 100 are told that they shared a request");

    origin.set(|switches| switches.latency = Duration::from_millis(800));
    tokio::select! {
        reply = server.get(&left) => panic!("the origin is slower than that: {reply:?}"),
        () = crate::harness::wait_until("its request is at the origin", || async { asked_for(&origin, &left) > 0 }) => {}
    }
    // It left.
    let followers = futures_util::future::join_all((0..10).map(|_| server.get(&left))).await;
    assert!(followers.iter().all(|reply| reply.status == 200), "{followers:?}");
    assert!(asked_for(&origin, &left) <= 2);

    origin.shutdown().await;
    let reply = server.get(&missing).await;
    reply.assert_problem(503, &[]);
    assert!(reply.the("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(server.ok("/api/listings.json").await.total(), 120);
}

#[tokio::test]
async fn an_unknown_endpoint_passes_as_it_is() {
    for enabled in ["true", "false"] {
        let origin = origin(20).await;
        let server = Setup::mirror_of(&origin).set("mirror.enabled", enabled).start().await;
        server.ready().await;
        crate::harness::quiet(&origin).await;
        origin.clear_log();
        let query = "b=2&a=%2f%2F&a=1&&snapshot=x&page=0&c=+%20~";
        let target = format!("/api/regions.json?{query}");
        let reply = server.raw_get(&target).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["query"], query, "the raw query, byte for byte");
        let log = origin.log();
        assert_eq!((log.len(), log[0].path_and_query.as_str()), (1, target.as_str()));
        let address = reply.json()["items"][0]["api_url"].as_str().unwrap().to_owned();
        assert!(address.starts_with(&origin.url()), "the body is untouched: {address}");
        assert!(reply.etag().starts_with('"'), "the validators are the origin's: {}", reply.etag());
        assert_eq!(reply.the("cache-control"), "public, max-age=300");
        assert_eq!(reply.the("access-control-allow-origin"), "*");
        assert_eq!(reply.header("mirror-snapshot"), None);
        let outcome = reply.the("cache-status");
        assert!(outcome.contains("grandstand; fwd=uri-miss; fwd-status=200"), "{outcome}");
        assert_eq!(server.raw_get("/api/regions.json").await.json()["query"], "");
        let missing = server.get("/api/leagues.json").await;
        assert_eq!(missing.status, 404);
        assert!(missing.text().contains("no such resource"), "the origin's own 404: {missing:?}");
    }
}

#[tokio::test]
async fn nothing_about_the_client_reaches_the_origin() {
    let (origin, server) = on_demand().await;
    let id = origin.world(World::ids)[7];
    let told = [
        ("cookie", "session=secret"),
        ("authorization", "Bearer secret"),
        ("x-forwarded-for", "192.0.2.1"),
        ("forwarded", "for=192.0.2.1"),
        ("x-forwarded-host", "evil.example"),
        ("x-real-ip", "192.0.2.1"),
        ("user-agent", "a-client/1.0"),
        ("referer", "https://page.example/secret"),
        ("cache-control", "no-cache"),
        ("if-none-match", "\"x\""),
    ];
    assert_eq!(server.get_with(&format!("/api/listings/{id}.json?x=1"), &told).await.status, 200);
    let log = origin.log();
    assert_eq!(log.len(), 1);
    assert!(log[0].path_and_query.ends_with(&format!("/{id}.json")), "{}", log[0].path_and_query);
    for (name, value) in told {
        let sent = log[0].headers.get(name).map(|sent| sent.to_str().unwrap());
        assert_ne!(sent, Some(value), "{name}");
    }
    assert!(log[0].user_agent.as_ref().unwrap().starts_with("grandstand/"));
}
