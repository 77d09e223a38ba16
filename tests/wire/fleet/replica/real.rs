//! A real publisher and its replicas, one of which publishes itself.

use std::fs;

use http::Method;
use sample_origin::{Origin, World};

use super::super::store::{Store, lost, publishing, replica_of};
use crate::gap::{Everything, everything, is_one_of};
use crate::harness::{Server, edit, soon};

const CHANGES: [&str; 3] = ["added", "changed", "removed"];

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
async fn replicas_and_their_replicas_follow_through_changes_rollbacks_restarts_and_the_loss_of_the_store() {
    let (store, second) = (Store::new(), Store::new());
    let (origin, mut publisher) = publishing(300, &store.url(), |setup| setup).await;
    let mut snapshots = vec![publisher.snapshot().await];
    let early = replica_of(&store.url()).set("publish.url", &second.url()).start().await;
    follows(&early, &publisher).await;
    let last = replica_of(&second.url()).start().await;
    for round in 0..3 {
        snapshots.push(change(&origin, &publisher, round).await);
        follows(&early, &publisher).await;
        follows(&last, &publisher).await;
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
    // The same steps again: their bundles have the same content.
    for step in ["release", &format!("{back}/rollback"), "release", &format!("{back}/rollback"), "release"] {
        assert_eq!(publisher.admin(Method::POST, &format!("/snapshots/{step}")).await.status, 200);
        for replica in [&early, &late] {
            follows(replica, &publisher).await;
        }
    }
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
    for replica in [&early, &late, &last] {
        follows(replica, &publisher).await;
        assert_eq!(replica.admin(Method::GET, "/status").await.status, 200);
    }
}
