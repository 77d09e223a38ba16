//! Heads that somebody else writes: forged, stripped, altered, removed. The publisher does not refresh meanwhile.

use std::fs;
use std::path::Path;

use http::Method;
use sample_origin::Switches;
use serde_json::{Value, json};

use super::signed::{key, public, signing};
use crate::clocks::Hand;
use crate::fleet::store::{Head, Store, told};
use crate::gap::{Desk, mirrored};
use crate::harness::{Server, Setup, run, soon, wait_until};

/// The highest number but one that a head can have.
const HIGHEST: u64 = (1 << 53) - 2;

/// An offline server with a bundle, which publishes to this store and never refreshes.
async fn publisher(store: &Store, change: impl FnOnce(Setup) -> Setup) -> (Desk, Server) {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "all.gsb").await;
    desk.does(&Setup::offline(), &desk.data(), &["import"], "all.gsb").await;
    let server = desk.serve_copy(change(Setup::offline().set("publish.url", &store.url()))).await;
    (desk, server)
}

fn replace(root: &Path, outer: &Value) {
    let beside = root.join("unfinished");
    fs::write(&beside, outer.to_string()).unwrap();
    fs::rename(&beside, root.join("head.json")).unwrap();
}

/// The head with another number, without a signature.
fn numbered(head: &Head, sequence: u64) -> Value {
    let mut inner = head.inner.clone();
    inner["sequence"] = sequence.into();
    json!({ "head": inner.to_string(), "signature": null })
}

#[tokio::test]
async fn a_head_that_no_trusted_key_signed_is_replaced_within_seconds() {
    let (store, dir) = (Store::new(), tempfile::tempdir().unwrap());
    key(dir.path());
    let (_desk, server) = publisher(&store, signing(dir.path())).await;
    let mut before = store.has(&server).await;
    let stripped = json!({ "head": before.outer["head"], "signature": null });
    let altered = json!({ "head": before.outer["head"].as_str().unwrap().replace("\"full\"", "\"incremental\""),
        "signature": before.outer["signature"] });
    for forged in [
        Some(stripped),
        Some(altered),
        Some(numbered(&before, before.sequence() + 1000)),
        Some(numbered(&before, HIGHEST)),
        Some(json!({ "head": "{\"format\":2}", "signature": null })),
        Some(json!(1)),
        None,
    ] {
        match &forged {
            Some(forged) => replace(&store.root(), forged),
            None => fs::remove_file(store.root().join("head.json")).unwrap(),
        }
        wait_until(&format!("it is written again: {forged:?}"), || async {
            fs::read(store.root().join("head.json"))
                .is_ok_and(|file| forged.as_ref().is_none_or(|forged| file != forged.to_string().as_bytes()))
        })
        .await;
        let after = store.head().unwrap();
        assert!(after.outer["signature"].is_string());
        assert!(after.sequence() > before.sequence() && after.sequence() < HIGHEST / 2, "{forged:?}");
        before = after;
    }
    assert!(server.process.said().contains("head.json is not believed and is replaced"), "{}", server.process.said());
    soon("nothing is wrong", || async { told(&server).await["why"].is_null() }).await;
}

#[tokio::test]
async fn a_head_with_the_highest_number_ends_nothing_where_nobody_signs() {
    let store = Store::new();
    let (_desk, mut server) = publisher(&store, |setup| setup).await;
    let before = store.has(&server).await;
    for _ in 0..2 {
        replace(&store.root(), &numbered(&before, HIGHEST));
        store.until("it is replaced", |head| head.sequence() < HIGHEST / 2).await;
        assert!(server.process.said().contains("more than a day ahead of this machine's clock"));
        server.restart().await;
    }
}

#[tokio::test]
async fn a_later_head_of_another_trusted_publisher_stays() {
    let (store, ours, theirs) = (Store::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    key(ours.path());
    key(theirs.path());
    let trusting = |own: &Path, other: &Path| {
        let (signing, other) = (signing(own), format!("[\"{}\"]", public(other)));
        move |setup| signing(setup).set("bundle.trusted_keys", &other)
    };
    let (_desk, one) = publisher(&store, trusting(ours.path(), theirs.path())).await;
    let first = store.has(&one).await;
    let (_desk, two) = publisher(&store, trusting(theirs.path(), ours.path())).await;
    let second = store.until("the other one has written", |head| head.sequence() > first.sequence()).await;
    soon("nothing fails", || async { told(&one).await["why"].is_null() && told(&two).await["behind_seconds"] == 0 })
        .await;
    // The first one looks at it several times. A head that it does not believe would be gone within that time.
    tokio::time::sleep(std::time::Duration::from_secs(22)).await;
    assert_eq!(store.head().unwrap().outer, second.outer);
    let findings = one.status().await["findings"].to_string();
    assert!(findings.contains("another publisher writes to "), "{findings}");
    assert_eq!(two.status().await["findings"], serde_json::json!([]), "an earlier head is no other publisher's work");
}

#[tokio::test]
async fn from_numbers_far_ahead_there_is_a_way_back_for_publisher_and_replicas() {
    let (store, hand) = (Store::new(), Hand::new());
    hand.set(3 * 86_400);
    let (_desk, mut server) = publisher(&store, |setup| hand.on(setup)).await;
    let ahead = store.has(&server).await;
    let following = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms");
    let mut replica = hand.on(following).start().await;
    let took = async |replica: &Server, sequence: u64| replica.status().await["replica"]["sequence"] == sequence;
    wait_until("the replica has it", || took(&replica, ahead.sequence())).await;
    hand.set(0);
    server.restart().await;
    replica.restart().await;
    let says = async |server: &Server, part: &str, named: &str| {
        server.status().await[part]["why"].as_str().is_some_and(|why| why.contains(named))
    };
    wait_until("the publisher says so", || says(&server, "publish", "grandstand snapshot release")).await;
    assert!(server.finding("publish-fails").await.unwrap().contains("grandstand snapshot release"));
    wait_until("the replica says so", || says(&replica, "replica", "more than a day ahead of this machine's clock"))
        .await;
    assert_eq!(store.head().unwrap().outer, ahead.outer, "it does not write");
    assert_eq!(server.process.said().matches("is more than a day ahead").count(), 1, "told once while it stays");
    let (code, said) = run(&server.setup.arguments(&["snapshot", "release"], &server.data_dir())).await;
    assert!(code == 0 && said.contains("the publisher begins again at the clock"), "{code} {said}");
    let back = store.until("a head at the clock", |head| head.sequence() < ahead.sequence()).await;
    assert!(back.deltas().is_empty() && ahead.sequence() - back.sequence() > 86_400_000);
    soon("nothing is wrong", || async { told(&server).await["why"].is_null() }).await;
    assert_eq!(server.admin(Method::POST, "/snapshots/release").await.status, 409, "there is nothing to release");
    assert_eq!(server.admin(Method::POST, "/refresh?forget=sequence").await.status, 409, "it is no replica");
    wait_until("the replica tells what helps", || says(&replica, "replica", "grandstand refresh --forget-sequence"))
        .await;
    assert_eq!(replica.admin(Method::POST, "/refresh?forget=sequences").await.status, 400);
    let (code, said) = run(&replica.setup.arguments(&["refresh", "--forget-sequence"], &replica.data_dir())).await;
    assert_eq!(code, 0, "{said}");
    wait_until("the replica follows", || async {
        let status = replica.status().await;
        status["replica"]["sequence"] == store.head().unwrap().sequence() && status["replica"]["why"].is_null()
    })
    .await;
}
