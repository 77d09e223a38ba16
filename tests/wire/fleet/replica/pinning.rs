//! Rollbacks, the publisher's and the replica's own, and imports by hand.

use http::Method;
use sample_origin::{Origin, Switches, World};

use super::{Shelf, all_of, follows, replica_of};
use crate::gap::{Desk, LIST, is_one_of, mirrored};
use crate::harness::{Server, edit, soon};

/// A mirror with two snapshots, the older of which is on the shelf; its id.
async fn two() -> (Origin, Server, Shelf, String) {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let old = shelf.snapshot();
    edit(&origin, &mirror, |world| {
        let ids = world.ids();
        assert!(world.touch(ids[4]) && world.change_detail(ids[4]) && world.remove(ids[9]));
    })
    .await;
    (origin, mirror, shelf, old)
}

#[tokio::test]
async fn a_rollback_of_the_publisher_reaches_the_replica() {
    let (origin, mirror, mut shelf, old) = two().await;
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    let replica = replica_of(&shelf).start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    for by_delta in [true, false] {
        assert_eq!(mirror.admin(Method::POST, &format!("/snapshots/{old}/rollback")).await.status, 200);
        if by_delta {
            shelf.delta(&mirror).await;
        } else {
            shelf.full(&mirror).await;
        }
        assert_eq!(shelf.snapshot(), old);
        let sequence = shelf.publish();
        follows(&replica, &old, sequence).await;
        is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
        assert_eq!(mirror.admin(Method::POST, "/snapshots/release").await.status, 200);
        // The same delta as before has no second place in a chain.
        shelf.full(&mirror).await;
        let sequence = shelf.publish();
        follows(&replica, &shelf.snapshot(), sequence).await;
        is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    }
    assert!(origin.world(World::ids).len() == 119);
}

#[tokio::test]
async fn a_rollback_on_a_replica_holds_there_and_newer_heads_wait() {
    let (_origin, mirror, mut shelf, old) = two().await;
    let sequence = shelf.publish();
    let mut replica = replica_of(&shelf).start().await;
    follows(&replica, &old, sequence).await;
    assert_eq!(replica.admin(Method::POST, &format!("/snapshots/{old}/rollback")).await.status, 200);
    shelf.delta(&mirror).await;
    let (new, sequence) = (shelf.snapshot(), shelf.publish());
    follows(&replica, &old, sequence).await;
    replica.restart().await;
    let status = replica.status().await;
    assert_eq!((&status["rollback"]["served"], &status["rollback"]["newest"]), (&old[..].into(), &new[..].into()));
    assert_eq!(replica.admin(Method::POST, "/snapshots/release").await.status, 200);
    follows(&replica, &new, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
}

#[tokio::test]
async fn what_an_operator_imports_gives_way_to_the_store() {
    let (_origin, mirror, mut shelf, old) = two().await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "new.gsb").await;
    let sequence = shelf.publish();
    let replica = replica_of(&shelf).set("replica.poll", "1h").start().await;
    follows(&replica, &old, sequence).await;
    desk.does(&replica.setup, &replica.data_dir(), &["import", "--allow-older"], "new.gsb").await;
    assert_ne!(replica.snapshot().await, old);
    // The same head again: its data is not here any more.
    replica.refresh().await;
    follows(&replica, &old, sequence).await;
    soon("nothing is behind", || async { replica.status().await["replica"]["behind_seconds"] == 0 }).await;
    assert_eq!(replica.ok(LIST).await.total(), 120);
}
