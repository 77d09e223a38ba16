//! `DELETE /cache`: what a mirror makes of it, and what is refused. What is purged: `cache::sharing`.

use http::Method;

use crate::harness::{Script, Seen, Server, Setup, Upstream, origin};

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
