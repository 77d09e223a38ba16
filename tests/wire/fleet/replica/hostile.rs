//! Objects that are not what the head names, and heads that must not be taken: nothing of them reaches the data.

use std::fs;

use sample_origin::Switches;
use serde_json::{Value, json};

use super::{Shelf, all_of, follows, polled, replica_of, says};
use crate::gap::{LIST, is_one_of, mirrored};
use crate::harness::{Server, edit, soon};

/// A mirror, a shelf with its first snapshot, and a replica that has taken it; then a delta lies there without a head.
async fn prepared() -> (Server, Shelf, Server, String) {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let (old, sequence) = (shelf.snapshot(), shelf.publish());
    let replica = replica_of(&shelf).start().await;
    follows(&replica, &old, sequence).await;
    edit(&origin, &mirror, |world| assert!(world.ids().iter().take(20).all(|id| world.touch(*id)))).await;
    shelf.delta(&mirror).await;
    (mirror, shelf, replica, old)
}

#[tokio::test]
async fn an_object_that_is_not_the_named_one_changes_nothing_until_the_right_one_is_there() {
    let (mirror, mut shelf, replica, old) = prepared().await;
    let before = all_of(&replica).await;
    let key = shelf.key_of(1).to_owned();
    let good = fs::read(shelf.file(&key)).unwrap();
    let full = fs::read(shelf.file(shelf.key_of(0))).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut longer = good.clone();
    longer.push(0);
    shelf.put(&key, &flipped);
    let sequence = shelf.publish();
    for (bytes, named) in [
        (Some(flipped), "is not what the head names"),
        (Some(good[..good.len() / 2].to_vec()), "bytes, not"),
        (Some(longer), "bytes, not"),
        (Some(full), "bytes, not"),
        (Some(vec![0; good.len()]), "is not what the head names: not a bundle"),
        (None, "is not in the object store"),
    ] {
        match &bytes {
            Some(bytes) => shelf.put(&key, bytes),
            None => fs::remove_file(shelf.file(&key)).unwrap(),
        }
        // What is known to be bad is not fetched again at once, unless somebody asks.
        soon(named, || async {
            replica.refresh().await;
            let status = replica.status().await;
            status["replica"]["why"].as_str().is_some_and(|why| why.contains(named) && why.contains(&key))
        })
        .await;
        assert_eq!(replica.snapshot().await, old);
        is_one_of(&all_of(&replica).await, &[&before]);
    }
    shelf.put(&key, &good);
    follows(&replica, &shelf.snapshot(), sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
}

#[tokio::test]
async fn an_empty_disk_takes_what_can_be_taken_when_the_last_delta_is_broken() {
    let (mirror, mut shelf, _replica, old) = prepared().await;
    let key = shelf.key_of(1).to_owned();
    let good = fs::read(shelf.file(&key)).unwrap();
    shelf.put(&key, &good[1..]);
    let sequence = shelf.publish();
    let fresh = replica_of(&shelf).start().await;
    fresh.ready().await;
    assert_eq!(fresh.snapshot().await, old, "the full bundle alone");
    let status = fresh.status().await;
    assert!(status["replica"]["sequence"].is_null(), "the head is not taken: {status:#}");
    shelf.put(&key, &good);
    follows(&fresh, &shelf.snapshot(), sequence).await;
    is_one_of(&all_of(&fresh).await, &[&all_of(&mirror).await]);
}

#[tokio::test]
async fn heads_that_are_older_or_no_heads_are_refused() {
    let (_mirror, mut shelf, replica, old) = prepared().await;
    let taken = shelf.head()["sequence"].as_u64().unwrap();
    let good = |sequence: u64| {
        let mut head = shelf.head();
        head["sequence"] = sequence.into();
        head
    };
    let with = |key: &str, value: Value| {
        let mut head = good(taken + 9);
        head[key] = value;
        head
    };
    let mut gap = good(taken + 9);
    gap["deltas"][0]["base_digest"] = "0".repeat(64).into();
    let mut foreign = good(taken + 9);
    foreign["full"]["key"] = "../secret".into();
    for (head, named) in [
        (good(taken - 1), "is older than head"),
        (good(0), "is older than head"),
        (good(taken), "differs from the head"),
        (with("format", 2.into()), "format 2"),
        (with("more", 1.into()), "unknown field"),
        (with("snapshot", old.clone().into()), "chain ends with"),
        (with("confirmed_ms", i64::MAX.into()), "is no instant"),
        (gap, "must be"),
        (foreign, "must be"),
    ] {
        shelf.write(&head);
        says(&replica, named).await;
        polled(&replica, "refused").await;
        assert_eq!(replica.snapshot().await, old, "{named}");
    }
    for (text, named) in [
        (json!({ "head": good(taken + 9).to_string() }).to_string(), "missing field `signature`"),
        (json!({ "head": good(taken + 9).to_string(), "signature": null, "x": 1 }).to_string(), "unknown field"),
        ("<html>".to_owned(), "the head cannot be read"),
        (" ".repeat(300_000), "more than"),
    ] {
        shelf.put("head.json", text.as_bytes());
        says(&replica, named).await;
    }
    assert_eq!(replica.snapshot().await, old);
    replica.ok(LIST).await;
    shelf.sequence = taken + 20;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
}

#[tokio::test]
async fn with_trusted_keys_only_their_heads_are_taken() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let key = shelf.make_key("ours");
    shelf.make_key("other");
    shelf.publish();
    let trusting = replica_of(&shelf).set("bundle.trusted_keys", &format!("[\"{key}\"]"));
    let replica = trusting.start().await;
    says(&replica, "is not signed, but bundle.trusted_keys requires").await;
    shelf.key = Some("other");
    shelf.publish();
    says(&replica, "which is not trusted").await;
    assert!(replica.finding("signature-refused").await.unwrap().contains("which is not trusted"));
    assert_eq!(replica.get(LIST).await.status, 503);
    shelf.key = Some("ours");
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    // A signature of another head.
    let signed: Value = serde_json::from_slice(&fs::read(shelf.file("head.json")).unwrap()).unwrap();
    shelf.sequence += 1;
    let forged = json!({ "head": shelf.head().to_string(), "signature": signed["signature"] });
    shelf.put("head.json", forged.to_string().as_bytes());
    says(&replica, "was altered").await;
    assert_eq!(replica.status().await["replica"]["sequence"], sequence);
}

#[tokio::test]
async fn a_bundle_beyond_the_bound_is_not_fetched() {
    let (_origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    shelf.sequence += 1;
    let mut head = shelf.head();
    head["full"]["bytes"] = json!((4_u64 << 30) + 1);
    shelf.write(&head);
    let replica = replica_of(&shelf).start().await;
    says(&replica, "has 4294967297 bytes; a bundle may have 4294967296").await;
    let status = replica.admin(http::Method::GET, "/metrics").await;
    assert!(status.text().contains("grandstand_replica_received_bytes_total 0\n"), "{}", status.text());
}
