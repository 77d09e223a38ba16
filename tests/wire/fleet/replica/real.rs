//! A real publisher and its replicas: over a directory, over a real S3 server, and over one another.

use std::fs;

use http::Method;
use sample_origin::{Origin, World};

use super::super::s3::{S3, with_options};
use super::super::store::{Store, lost, publishing};
use crate::gap::{Everything, everything, is_one_of};
use crate::harness::{Server, Setup, edit, origin, soon, wait_until};

const CHANGES: [&str; 3] = ["added", "changed", "removed"];

fn replica_of(url: &str) -> Setup {
    Setup::offline().set("replica.url", url).set("replica.poll", "200ms")
}

/// Waits until a replica serves what its publisher serves, and compares lists and taxonomies.
async fn follows(replica: &Server, publisher: &Server) {
    let snapshot = publisher.snapshot().await;
    soon("the replica has the publisher's snapshot", || async { replica.snapshot().await == snapshot }).await;
    is_one_of(&all_lists(replica).await, &[&all_lists(publisher).await]);
}

async fn all_lists(server: &Server) -> Everything {
    let mut all = everything(server).await;
    all.retain(|target, _| !target.starts_with("/api/listings/"));
    all
}

/// Changes something at the origin that the mirror then serves; the new snapshot.
async fn change(origin: &Origin, publisher: &Server, round: usize) -> String {
    edit(origin, publisher, |world: &mut World| {
        let ids = world.ids();
        assert!(world.touch(ids[10 + round]) && world.remove(ids[40]));
        world.insert_like(ids[60], &format!("Round {round}")).unwrap();
    })
    .await
}

/// What changed since each of these is told alike.
async fn tell_alike(replica: &Server, publisher: &Server, snapshots: &[String]) {
    for since in snapshots {
        let target = format!("/changes.json?since={since}");
        let [ours, theirs] = [replica.ok(&target).await.json(), publisher.ok(&target).await.json()];
        for key in CHANGES {
            assert_eq!(ours[key], theirs[key], "{target} {key}");
        }
    }
}

#[tokio::test]
async fn replicas_follow_through_changes_rollbacks_restarts_and_the_loss_of_the_store() {
    let store = Store::new();
    let (origin, mut publisher) = publishing(300, &store.url(), |setup| setup).await;
    let mut snapshots = vec![publisher.snapshot().await];
    let early = replica_of(&store.url()).start().await;
    follows(&early, &publisher).await;
    for round in 0..3 {
        snapshots.push(change(&origin, &publisher, round).await);
        follows(&early, &publisher).await;
    }
    // One that was not there from the start.
    let mut late = replica_of(&store.url()).start().await;
    for replica in [&early, &late] {
        follows(replica, &publisher).await;
        tell_alike(replica, &publisher, &snapshots).await;
    }
    let back = &snapshots[1];
    assert_eq!(publisher.admin(Method::POST, &format!("/snapshots/{back}/rollback")).await.status, 200);
    for replica in [&early, &late] {
        follows(replica, &publisher).await;
        let said = replica.process.said();
        assert_eq!(said.matches("the publisher's data went back in time").count(), 1, "{said}");
    }
    assert_eq!(publisher.admin(Method::POST, "/snapshots/release").await.status, 200);
    late.down().await;
    publisher.restart().await;
    snapshots.push(change(&origin, &publisher, 3).await);
    late.restart().await;
    for replica in [&early, &late] {
        follows(replica, &publisher).await;
        tell_alike(replica, &publisher, &snapshots).await;
    }
    for name in crate::gap::names(&store.root()) {
        let path = store.root().join(name);
        if path.is_dir() { lost(&path).await } else { fs::remove_file(path).unwrap() }
    }
    publisher.refreshed(&origin).await;
    change(&origin, &publisher, 4).await;
    for replica in [&early, &late] {
        follows(replica, &publisher).await;
        assert_eq!(replica.admin(Method::GET, "/status").await.status, 200);
    }
}

#[tokio::test]
async fn details_that_come_later_reach_the_replica_without_another_snapshot() {
    let store = Store::new();
    let (_origin, publisher) = publishing(120, &store.url(), |setup| setup).await;
    let replica = replica_of(&store.url()).start().await;
    follows(&replica, &publisher).await;
    // They are published a minute apart at most.
    let start = std::time::Instant::now();
    let all = everything(&publisher).await;
    while everything(&replica).await != all {
        assert!(start.elapsed() < std::time::Duration::from_secs(180), "the details do not come");
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn over_a_real_s3_server() {
    let (s3, origin) = (S3::start().await, origin(300).await);
    let publisher = s3.publishing(Setup::mirror_of(&origin), "some/fleet").start().await;
    publisher.settled(&origin).await;
    let replica = with_options(replica_of(&S3::place("some/fleet")), "replica", s3.url()).start().await;
    follows(&replica, &publisher).await;
    for round in 0..2 {
        change(&origin, &publisher, round).await;
        follows(&replica, &publisher).await;
    }
    assert!(!replica.process.said().contains("hunter2"));
    wait_until("nothing is behind", || async { replica.status().await["replica"]["behind_seconds"] == 0 }).await;
}

#[tokio::test]
async fn a_replica_that_publishes_has_replicas_of_its_own() {
    let (first, second) = (Store::new(), Store::new());
    let (origin, publisher) = publishing(200, &first.url(), |setup| setup).await;
    let middle = replica_of(&first.url()).set("publish.url", &second.url()).start().await;
    let last = replica_of(&second.url()).start().await;
    for round in 0..2 {
        change(&origin, &publisher, round).await;
        follows(&middle, &publisher).await;
        follows(&last, &publisher).await;
    }
}
