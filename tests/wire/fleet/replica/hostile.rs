//! Heads that must not be taken, and objects that are not what a head names: nothing of them reaches the data. All kinds of
//! them are rows in `src/fleet`: `replica/tests.rs` and `head/tests.rs`.

use std::fs;

use sample_origin::Switches;

use super::{Shelf, all_of, follows, polled, replica_of, says};
use crate::gap::{LIST, is_one_of, mirrored};
use crate::harness::{Server, edit, soon};

#[tokio::test]
async fn with_trusted_keys_only_their_heads_are_taken_and_no_older_one_and_no_altered_bundle() {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let key = shelf.make_key("ours");
    shelf.make_key("other");
    shelf.publish();
    let replica = replica_of(&shelf).set("bundle.trusted_keys", &format!("[\"{key}\"]")).start().await;
    says(&replica, "is not signed, but bundle.trusted_keys requires").await;
    shelf.key = Some("other");
    shelf.publish();
    says(&replica, "which is not trusted").await;
    assert!(replica.finding("signature-refused").await.unwrap().contains("which is not trusted"));
    assert_eq!(replica.get(LIST).await.status, 503);
    shelf.key = Some("ours");
    let (old, sequence) = (shelf.snapshot(), shelf.publish());
    follows(&replica, &old, sequence).await;
    let before = all_of(&replica).await;
    let mut older = shelf.head();
    older["sequence"] = (sequence - 1).into();
    shelf.write(&older);
    says(&replica, "is older than head").await;
    polled(&replica, "refused").await;

    edit(&origin, &mirror, |world| assert!(world.ids().iter().take(20).all(|id| world.touch(*id)))).await;
    shelf.delta(&mirror).await;
    let key = shelf.key_of(1).to_owned();
    let good = fs::read(shelf.file(&key)).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    shelf.put(&key, &flipped);
    let sequence = shelf.publish();
    let why = says(&replica, "is not what the head names").await;
    assert!(why.contains(&key), "{why}");
    polled(&replica, "failed").await;
    is_one_of(&all_of(&replica).await, &[&before]);
    shelf.put(&key, &good);
    // What is known to be bad is fetched again when somebody asks.
    soon("it takes the right one", || async {
        replica.refresh().await;
        replica.status().await["replica"]["sequence"] == sequence
    })
    .await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
}

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

/// To open a FIFO waits until somebody writes to it: no error would ever come.
#[tokio::test]
async fn what_is_no_file_is_refused_before_it_is_opened() {
    let (_mirror, mut shelf, replica, old) = prepared().await;
    let turn_into_fifo = |shelf: &Shelf, name: &str| {
        let (path, bytes) = (shelf.file(name), fs::read(shelf.file(name)).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        bytes
    };
    let refused = async |name: &str| {
        let named = format!("{name} is not a regular file");
        soon(&named, || async {
            replica.refresh().await;
            let status = replica.status().await;
            status["replica"]["why"].as_str().is_some_and(|why| why.contains(&named))
        })
        .await;
        assert_eq!(replica.snapshot().await, old);
    };
    let key = shelf.key_of(1).to_owned();
    let delta = turn_into_fifo(&shelf, &key);
    let sequence = shelf.publish();
    refused(&key).await;
    let head = turn_into_fifo(&shelf, "head.json");
    refused("head.json").await;
    shelf.put(&key, &delta);
    shelf.put("head.json", &head);
    follows(&replica, &shelf.snapshot(), sequence).await;
}
