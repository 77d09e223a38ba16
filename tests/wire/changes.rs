//! `/changes.json`: what came, changed and went since a snapshot, and its HTTP answers.
//!
//! `records` has `/changes.ndjson`, which brings the listings and details along.

mod records;

use http::Method;
use serde_json::json;

use crate::answers::obeys_http_like_lists;
use crate::harness::{PUBLIC, mirrored_by};

#[tokio::test]
async fn changes_obey_http_like_lists_and_are_empty_since_the_served_snapshot() {
    let (origin, server) = mirrored_by(60, |setup| setup.set("public_url", &format!("{PUBLIC}/base"))).await;
    let id = server.snapshot().await;
    origin.clear_log();
    let (target, list) = (format!("/changes.json?since={id}"), server.ok("/api/listings.json").await.json());
    let reply = obeys_http_like_lists(&server, &target).await;
    assert_eq!(reply.links().keys().collect::<Vec<_>>(), ["license"]);
    let document = reply.json();
    for key in ["since", "snapshot"] {
        assert_eq!(document[key], id, "{document}");
    }
    for key in ["added", "changed", "removed"] {
        assert_eq!(document[key], json!([]), "{document}");
    }
    for key in ["license", "attribution", "generated_at"] {
        assert!(!document[key].is_null() && document[key] == list[key], "{document}");
    }
    assert_eq!(origin.count(), 0, "the origin has no part in it");
    for same in [format!("/base{target}"), format!("/change%73.json?x=1&since={id}&since={id}&snapshot=")] {
        assert_eq!(server.ok(&same).await.etag(), reply.etag(), "{same}");
    }
    for (query, named) in [
        ("", ["since", "missing"]),
        ("?since=", ["since", "missing"]),
        ("?since=a&since=b", ["since", "twice"]),
        ("?since=%FF", ["since", "UTF-8"]),
    ] {
        server.get(&format!("/changes.json{query}")).await.assert_problem(400, &named);
    }
    for unknown in ["nonsense", "00000000000000000000000000000000", &id.to_uppercase()] {
        let gone = server.get(&format!("/changes.json?since={unknown}")).await;
        gone.assert_problem(410, &["since", unknown, &id]);
    }
    for (target, to) in
        [("/changes.json/?since=a", "../changes.json?since=a"), ("/search.json/?q=golf", "../search.json?q=golf")]
    {
        let moved = server.get(target).await;
        assert_eq!((moved.status, moved.the("location")), (301, to.to_owned()), "{target}");
    }
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert!(metrics.text().contains("\"changes\""), "{}", metrics.text());
}
