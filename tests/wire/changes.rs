//! `/changes.json`: what came, changed and went since a snapshot, and its HTTP answers.
//!
//! `records` has `/changes.ndjson`, which brings the listings and details along.

mod records;

use std::collections::BTreeSet;

use http::Method;
use serde_json::json;

use crate::client::Reply;
use crate::harness::{PUBLIC, Setup, edit, mirrored, mirrored_by, origin};

const LIST: &str = "/api/listings.json";

fn ids(reply: &Reply, key: &str) -> BTreeSet<u64> {
    let ids: Vec<u64> = reply.json()[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    ids.into_iter().collect()
}

#[tokio::test]
async fn since_the_served_snapshot_nothing_has_changed() {
    let (origin, server) = mirrored(60).await;
    let id = server.snapshot().await;
    origin.clear_log();
    let list = server.ok(LIST).await;
    let reply = server.ok(&format!("/changes.json?since={id}")).await;
    let document = reply.json();
    for key in ["since", "snapshot"] {
        assert_eq!(document[key], id, "{document}");
    }
    for key in ["added", "changed", "removed"] {
        assert_eq!(document[key], json!([]), "{document}");
    }
    for key in ["license", "attribution", "generated_at"] {
        assert!(!document[key].is_null(), "{document}");
        assert_eq!(document[key], list.json()[key]);
    }
    for name in ["cache-control", "vary", "mirror-snapshot", "mirror-confirmed", "content-type", "accept-ranges"] {
        assert_eq!(reply.the(name), list.the(name), "{name}");
    }
    assert!(reply.age().is_some() && reply.etag().starts_with("W/\""), "{reply:?}");
    assert_eq!(reply.links().keys().collect::<Vec<_>>(), ["license"]);
    assert!(reply.the("cache-status").starts_with("grandstand; hit"), "{reply:?}");
    assert_eq!(origin.count(), 0, "the origin has no part in it");
}

#[tokio::test]
async fn changes_obey_http_like_lists() {
    let (_origin, server) = mirrored_by(60, |setup| setup.set("public_url", &format!("{PUBLIC}/base"))).await;
    let id = server.snapshot().await;
    let target = format!("/changes.json?since={id}");
    let reply = server.ok(&target).await;
    for same in [format!("/base{target}"), format!("/change%73.json?x=1&since={id}&since={id}&snapshot=")] {
        assert_eq!(server.ok(&same).await.etag(), reply.etag(), "{same}");
    }
    let head = server.head(&target).await;
    assert_eq!((head.status, head.body.len(), head.the("content-length")), (200, 0, reply.body.len().to_string()));
    assert_eq!(head.etag(), reply.etag());
    let unchanged = server.get_with(&target, &[("if-none-match", &reply.etag())]).await;
    assert_eq!((unchanged.status, unchanged.body.len(), unchanged.header("content-type")), (304, 0, None));
    for name in ["etag", "cache-control", "vary", "age", "link", "mirror-snapshot", "cache-status"] {
        assert!(unchanged.header(name).is_some(), "{name}: {unchanged:?}");
    }
    let asked = [("origin", "https://page.example"), ("access-control-request-method", "GET")];
    assert_eq!(server.send(Method::OPTIONS, &target, &asked).await.status, 204);
    let post = server.send(Method::POST, &target, &[("content-length", "0")]).await;
    post.assert_problem(405, &[]);
    assert!(post.the("allow").contains("GET"), "{post:?}");
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

#[tokio::test]
async fn changes_count_against_the_limit() {
    let (_origin, server) = mirrored_by(20, |setup| setup.set("rate_limit.requests_per_minute", "2")).await;
    let id = server.snapshot().await;
    server.ok(&format!("/changes.json?since={id}")).await;
    server.get("/changes.json").await.assert_problem(400, &[]);
    server.get(&format!("/changes.json?since={id}")).await.assert_problem(429, &[]);
}

#[tokio::test]
async fn a_shield_has_no_changes() {
    let origin = origin(20).await;
    let server = Setup::shield_of(&origin).start().await;
    server.ready().await;
    for target in ["/changes.json", "/changes.json?since=any", "/changes.json?since=a&since=b"] {
        server.get(target).await.assert_problem(404, &[]);
    }
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn changes_tell_what_came_changed_and_went_since_any_snapshot_that_was_served() {
    let (origin, mut server) = mirrored(150).await;
    let first = server.snapshot().await;
    let (touched, removed) = origin.world(|world| (world.ids()[3], world.ids()[40]));
    let second = edit(&origin, &server, |world| assert!(world.touch(touched) && world.remove(removed))).await;
    let since_first = format!("/changes.json?since={first}");
    let early = server.ok(&since_first).await;
    assert_eq!(ids(&early, "changed"), [touched].into());
    assert_eq!(ids(&early, "removed"), [removed].into());
    assert_eq!(early.json()["snapshot"], second);

    let mut added = None;
    let third = edit(&origin, &server, |world| added = world.insert_like(touched, "Somewhere New")).await;
    let late = server.ok(&since_first).await;
    let all = [[added.unwrap()].into(), [touched].into(), [removed].into()];
    assert_eq!(["added", "changed", "removed"].map(|key| ids(&late, key)), all);
    assert_ne!(late.etag(), early.etag());
    let since_second = server.ok(&format!("/changes.json?since={second}")).await;
    assert_eq!((ids(&since_second, "added"), ids(&since_second, "changed")), (all[0].clone(), [].into()));

    server.restart().await;
    server.ready().await;
    assert_eq!(server.snapshot().await, third);
    assert_eq!(server.ok(&since_first).await.etag(), late.etag(), "the journal outlives a restart");

    let rolled_back = server.admin(Method::POST, &format!("/snapshots/{first}/rollback")).await;
    assert_eq!((rolled_back.status, server.snapshot().await), (200, first));
    let back = server.ok(&format!("/changes.json?since={third}")).await;
    let [added, changed, removed] = all;
    assert_eq!(["added", "changed", "removed"].map(|key| ids(&back, key)), [removed, changed, added]);
    assert_eq!(ids(&server.ok(&since_first).await, "changed"), [].into(), "it is what is served");
}
