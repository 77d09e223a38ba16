//! `DELETE /cache`: purged resources are fetched again; answers on their way are not kept.

use std::sync::Arc;

use http::Method;
use tokio::sync::Semaphore;

use crate::harness::{Script, Seen, Server, Setup, Upstream, origin, wait_until};

const LIST: &str = "/api/listings.json";

/// A shield of an origin whose every answer is fresh for an hour.
async fn shield() -> (Upstream, Server) {
    let fresh =
        |seen: &Seen| Script::new(200, format!(r#"{{"n":{}}}"#, seen.number)).with("cache-control", "max-age=3600");
    let upstream = Upstream::start(fresh).await;
    let server = Setup::shield_of_url(&upstream.url()).start().await;
    server.ready().await;
    (upstream, server)
}

async fn purge(server: &Server, query: &str) -> u64 {
    let reply = server.admin(Method::DELETE, &format!("/cache{query}")).await;
    assert_eq!(reply.status, 200, "{query}: {reply:?}");
    reply.json()["purged"].as_u64().unwrap()
}

/// Whether the answer to a target is kept.
async fn is_kept(server: &Server, target: &str) -> bool {
    server.ok(target).await.the("cache-status").contains("hit")
}

#[tokio::test]
async fn a_path_is_purged_with_all_its_queries() {
    let (_upstream, server) = shield().await;
    let targets = [
        LIST.to_owned(),
        format!("{LIST}?sport=golf"),
        format!("{LIST}?sport=golf&state=texas"),
        "/api/listings/7.json".to_owned(),
        "/api/sports.json".to_owned(),
        "/api/regions.json".to_owned(),
        "/api/regions.json?b=2&a=1".to_owned(),
        "/api/caf%C3%A9.json?x=%2F".to_owned(),
    ];
    for (query, purged) in [
        ("?path=/api/listings.json", &[0, 1, 2][..]),
        ("?path=%2Fapi%2Flistings.json", &[0, 1, 2]),
        ("?path=/api/listings/7.json", &[3]),
        ("?path=/api/sports.json", &[4]),
        ("?path=/api/regions.json", &[5, 6]),
        ("?path=/api/caf%C3%A9.json", &[7]),
        ("", &[0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        for target in &targets {
            server.ok(target).await;
            wait_until("it is kept", || is_kept(&server, target)).await;
        }
        let count = purge(&server, query).await;
        assert_eq!(count, purged.len() as u64, "{query}");
        for (index, target) in targets.iter().enumerate() {
            assert_eq!(is_kept(&server, target).await, !purged.contains(&index), "{target} after {query:?}");
        }
    }
    assert_eq!(purge(&server, "?path=/api/nothing.json").await, 0);
}

#[tokio::test]
async fn what_was_asked_before_a_purge_is_not_kept_after_it() {
    let (upstream, server) = shield().await;
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    upstream.answers(move |seen| {
        let answer = Script::new(200, format!(r#"{{"n":{}}}"#, seen.number)).with("cache-control", "max-age=3600");
        if seen.number == 1 { answer.held_by(&held) } else { answer }
    });
    for target in [LIST, "/api/regions.json"] {
        upstream.forget();
        let (old, new) = tokio::join!(server.get(target), async {
            wait_until("it is at the origin", || async { upstream.count() == 1 }).await;
            purge(&server, &format!("?path={target}")).await;
            // A client must not get an answer requested before.
            let new = server.get(target).await;
            gate.add_permits(1);
            new
        });
        assert_eq!((old.json()["n"].clone(), new.json()["n"].clone()), (1.into(), 2.into()), "{target}");
        assert!(!old.the("cache-status").contains("stored") || target != LIST, "{target}: {old:?}");
        assert_eq!(server.ok(target).await.json()["n"], 2, "{target}: the old answer does not come back");
    }
}

#[tokio::test]
async fn a_mirror_renders_anew_what_is_purged() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.clear_log();
    server.ok(LIST).await;
    // Kept again since that request.
    let page = server.ok(LIST).await;
    assert!(purge(&server, "").await >= 1);
    let again = server.ok(LIST).await;
    assert_eq!((again.body.clone(), again.etag()), (page.body.clone(), page.etag()));
    assert_eq!(origin.count(), 0, "the snapshot is not in the cache");
}

#[tokio::test]
async fn a_purge_that_names_nothing_or_comes_from_elsewhere_is_refused() {
    let (_upstream, server) = shield().await;
    server.ok(LIST).await;
    for query in ["?paths=/x", "?path=", "?path=relative", "?path=/a/../b", "?path=/api/listings.json?page=0"] {
        let reply = server.admin(Method::DELETE, &format!("/cache{query}")).await;
        assert_eq!(reply.status, 400, "{query}: {reply:?}");
    }
    let url = format!("http://{}/cache", server.admin);
    let foreign = crate::client::client_builder()
        .build()
        .unwrap()
        .delete(url)
        .header("host", "evil.example")
        .send()
        .await
        .unwrap();
    assert_eq!(foreign.status(), 403);
    assert!(is_kept(&server, LIST).await);
}
