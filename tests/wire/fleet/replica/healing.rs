//! A publisher notices what its store has lost, and its replicas get well by that. Nobody has to do anything.

use std::fs;
use std::path::Path;

use sample_origin::World;

use super::says;
use crate::fleet::store::{Head, Store, lists, publishing};
use crate::gap::{everything, is_one_of};
use crate::harness::{Server, Setup, each, edit, wait_until};

/// What happens to an object.
#[derive(Clone, Copy, Debug)]
enum Harm {
    /// Another byte in it, and the same length.
    Altered,
    CutOff,
    Removed,
    /// Another object of ours under its name.
    Swapped,
}

fn harm(path: &Path, harm: Harm, other: &Path) {
    let mut bytes = fs::read(path).unwrap();
    match harm {
        Harm::Altered => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }
        Harm::CutOff => fs::write(path, &bytes[..bytes.len() / 3]).unwrap(),
        Harm::Removed => fs::remove_file(path).unwrap(),
        Harm::Swapped => drop(fs::copy(other, path).unwrap()),
    }
}

async fn follows(replica: &Server, publisher: &Server) {
    let snapshot = publisher.snapshot().await;
    wait_until("the replica has the publisher's snapshot", || async { replica.snapshot().await == snapshot }).await;
    is_one_of(&lists(everything(replica).await), &[&lists(everything(publisher).await)]);
}

#[tokio::test]
async fn a_delta_that_the_store_has_lost_or_altered_is_replaced_by_a_full_bundle_and_replicas_get_well() {
    each([Harm::Altered, Harm::CutOff, Harm::Removed, Harm::Swapped], async |kind| {
        let store = Store::new();
        // It looks after its objects every few seconds then.
        let (origin, publisher) = publishing(400, &store.url(), |setup| setup.set("publish.keep", "60s")).await;
        let first = store.has(&publisher).await;
        let mut replica = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms").start().await;
        follows(&replica, &publisher).await;
        let old = replica.snapshot().await;
        // The replica does not see the delta before it is harmed.
        replica.restart_with("replica.url", "file:///nowhere/at/all").await;
        edit(&origin, &publisher, |world: &mut World| assert!(world.touch(world.ids()[50]))).await;
        let second = store.has(&publisher).await;
        assert!(second.full() == first.full() && !second.deltas().is_empty());
        let key = second.deltas()[0]["key"].as_str().unwrap().to_owned();
        harm(&store.root().join(&key), kind, &store.root().join(second.full()));
        replica.restart_with("replica.url", &store.url()).await;
        let file = || Head::parse(&fs::read(store.root().join("head.json")).unwrap());
        if file().full() == first.full() {
            // It may be well already: the publisher looks often here.
            wait_until("it says which object is wrong, or is well", || async {
                let status = replica.status().await;
                let why = status["replica"]["why"].as_str().unwrap_or_default().to_owned();
                assert_eq!(replica.get("/api/listings.json").await.status, 200);
                why.contains(&key) || status["snapshot"]["id"] != old
            })
            .await;
        }
        wait_until("a full bundle takes the place of the chain", || async { file().full() != first.full() }).await;
        follows(&replica, &publisher).await;
        let said = publisher.process.said();
        assert!(said.contains("everything is written again") && said.contains(&key), "{said}");
        let healed = store.has(&publisher).await;
        assert!(healed.sequence() > second.sequence() && healed.deltas().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_full_bundle_that_was_altered_is_written_again_after_a_start_and_new_replicas_get_it() {
    let store = Store::new();
    let (_origin, mut publisher) = publishing(300, &store.url(), |setup| setup).await;
    let head = store.has(&publisher).await;
    publisher.down().await;
    harm(&store.root().join(head.full()), Harm::Altered, &store.root());
    let replica = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms").start().await;
    let why = says(&replica, "is not what the head names").await;
    assert!(why.contains(head.full()) && why.contains("restart the publisher"), "{why}");
    // It reads everything back when it starts.
    publisher.restart().await;
    follows(&replica, &publisher).await;
    let healed = store.until("a later head", |later| later.sequence() > head.sequence()).await;
    assert_eq!(healed.snapshot(), head.snapshot());
    wait_until("nothing is wrong", || async { replica.status().await["replica"]["why"].is_null() }).await;
}

#[tokio::test]
async fn a_head_that_is_a_mixture_of_two_is_refused_by_replicas_and_replaced_by_the_publisher() {
    let store = Store::new();
    let (origin, publisher) = publishing(200, &store.url(), |setup| setup).await;
    store.has(&publisher).await;
    let replica = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms").start().await;
    follows(&replica, &publisher).await;
    let old = fs::read(store.root().join("head.json")).unwrap();
    edit(&origin, &publisher, |world: &mut World| assert!(world.touch(world.ids()[5]))).await;
    let newest = store.has(&publisher).await;
    follows(&replica, &publisher).await;
    let new = fs::read(store.root().join("head.json")).unwrap();
    // Two writers in place leave one head with the end of a longer one behind it.
    let mixed = [&new[..], &old[old.len() - 20..]].concat();
    fs::write(store.root().join("head.json"), mixed).unwrap();
    says(&replica, "the head cannot be read").await;
    assert_eq!(replica.snapshot().await, newest.snapshot());
    assert_eq!(replica.get("/api/listings.json").await.status, 200);
    // The publisher looks at its head within half a minute.
    wait_until("the publisher writes a head", || async {
        let file = fs::read(store.root().join("head.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&file).is_ok()
    })
    .await;
    wait_until("nothing is wrong", || async { replica.status().await["replica"]["why"].is_null() }).await;
    follows(&replica, &publisher).await;
    assert!(store.head().unwrap().sequence() > newest.sequence());
}

#[tokio::test]
async fn an_old_head_that_is_restored_is_refused_by_replicas_and_replaced_by_the_publisher() {
    let store = Store::new();
    let (origin, publisher) = publishing(200, &store.url(), Setup::alone).await;
    store.has(&publisher).await;
    let old = fs::read(store.root().join("head.json")).unwrap();
    edit(&origin, &publisher, |world: &mut World| assert!(world.touch(world.ids()[5]))).await;
    let newest = store.has(&publisher).await;
    let replica = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms").start().await;
    follows(&replica, &publisher).await;
    // It would put its own head in place before the replica looks.
    publisher.process.signal("STOP");
    fs::write(store.root().join("head.json"), &old).unwrap();
    says(&replica, "which is older than head").await;
    publisher.process.signal("CONT");
    assert_eq!(replica.snapshot().await, newest.snapshot());
    // The publisher looks at its head within half a minute.
    let later = store.until("a later head", |head| head.sequence() > newest.sequence()).await;
    assert_eq!(later.snapshot(), newest.snapshot());
    wait_until("the replica follows again", || async {
        let status = replica.status().await;
        status["replica"]["why"].is_null() && status["replica"]["sequence"].as_u64() >= Some(later.sequence())
    })
    .await;
}
