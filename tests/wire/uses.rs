//! What there is in each use of the server: without data, in a shield, without pages; and in which window of the limit it
//! counts.

use http::Method;

use crate::dumps::ALL;
use crate::harness::{Setup, mirrored_by, origin};

const HTML: (&str, &str) = ("accept", "text/html");

#[tokio::test]
async fn what_shows_data_is_503_without_any_and_404_in_a_shield_and_without_pages() {
    let origin = origin(20).await;
    let (offline, shield) = (Setup::offline().start().await, Setup::shield_of(&origin).start().await);
    let (_mirrored, plain) = mirrored_by(20, |setup| setup.set("pages.enabled", "false")).await;
    let pages = ["/explore", "/explore?state=texas", "/explore?q=a", "/embed", "/explore/points.json", "/venues/1"];
    let documents = ["/schema/listing.json", "/schema/detail.json", "/llms.txt", "/search.json?q=golf"];
    let changes =
        ["/changes.json?since=any", "/changes.ndjson", "/changes.ndjson?since=any", "/changes.ndjson?since=a&since=b"];
    for target in pages.into_iter().chain(documents).chain(ALL).chain(changes) {
        let path = target.split('?').next().unwrap();
        let early = offline.get(target).await;
        early.assert_problem(503, &["snapshot"]);
        assert!(early.the("retry-after").parse::<u64>().unwrap() > 0, "{target}");
        shield.get(target).await.assert_problem(404, &[path]);
        if !changes.contains(&target) {
            plain.get(target).await.assert_problem(404, &[path]);
        }
    }
    for target in ["/", "/docs", "/openapi.json", "/robots.txt", "/favicon.svg", "/favicon.ico"] {
        let reply = offline.get_with(target, &[HTML]).await;
        assert_eq!((reply.status, reply.header("mirror-snapshot")), (200, None), "{target}");
        assert_eq!(shield.get_with(target, &[HTML]).await.status, 200, "{target}");
        plain.get_with(target, &[HTML]).await.assert_problem(404, &[target]);
    }
    assert!(offline.get_with("/", &[HTML]).await.text().contains("no copy of the data yet"));
    let front = shield.get_with("/", &[HTML]).await;
    assert!(!front.text().contains("dumps/") && !front.text().contains("changes.json"), "it has none");
    for target in ["/changes.json", "/changes.json?since=a&since=b"] {
        shield.get(target).await.assert_problem(404, &[]);
    }
    assert_eq!(origin.count(), 0, "a path of ours is nothing to ask an origin for");
    // Exports by the command and changes are no pages.
    let exported = plain.admin(Method::GET, "/bundle?format=ndjson").await;
    assert_eq!((exported.status, exported.text().lines().count()), (200, 20));
    plain.ok(&format!("/changes.ndjson?since={}", plain.snapshot().await)).await;
}

#[tokio::test]
async fn what_is_of_the_api_counts_in_its_window_and_pages_do_not() {
    let (_origin, server) = mirrored_by(20, |setup| setup.set("rate_limit.requests_per_minute", "7")).await;
    for target in ["/openapi.json", "/docs", "/explore?q=golf", "/explore?q=golf+course"] {
        assert_eq!(server.get_with(target, &[HTML]).await.status, 200, "{target}");
    }
    let (dump, snapshot) = (ALL[1], server.snapshot().await);
    let [changes, records] = ["/changes.json", "/changes.ndjson"].map(|path| format!("{path}?since={snapshot}"));
    let tag = server.ok(dump).await.etag();
    let asked = [
        (dump, Some(&*tag), 304),
        // Its index may still be made: that counts as well.
        ("/search.json?q=golf", None, 200),
        (&changes, None, 200),
        ("/changes.json", None, 400),
        (&records, None, 200),
        ("/changes.ndjson", None, 400),
    ];
    for ((target, tag, status), left) in asked.into_iter().zip((0..6).rev()) {
        let fields: Vec<_> = tag.map(|tag| ("if-none-match", tag)).into_iter().collect();
        let reply = server.get_with(target, &fields).await;
        assert!(reply.status == status || target.starts_with("/search") && reply.status == 503, "{target}: {reply:?}");
        assert_eq!(reply.the("ratelimit-policy"), "\"default\";q=7;w=60", "{target}");
        assert!(reply.the("ratelimit").starts_with(&format!("\"default\";r={left};")), "{target}: {reply:?}");
    }
    for (target, ..) in asked {
        let refused = server.get(target).await;
        refused.assert_problem(429, &["7"]);
        assert!(refused.header("retry-after").is_some(), "{target}");
    }
}
