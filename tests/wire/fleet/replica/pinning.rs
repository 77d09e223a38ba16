//! Rollbacks on a replica, imports by hand, and lists that its publisher held back.

use http::Method;
use sample_origin::Switches;

use super::{Shelf, all_of, follows, health, replica_of};
use crate::gap::{Desk, LIST, is_one_of, mirrored};
use crate::harness::{edit, soon, wait_until};

#[tokio::test]
async fn a_rollback_on_a_replica_holds_there_and_what_is_imported_by_hand_gives_way_to_the_store() {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let (old, sequence) = (shelf.snapshot(), shelf.publish());
    let mut replica = replica_of(&shelf).start().await;
    follows(&replica, &old, sequence).await;
    assert_eq!(replica.admin(Method::POST, &format!("/snapshots/{old}/rollback")).await.status, 200);
    // The publisher holds a list back that lost most listings, until it is accepted; a replica holds nothing back.
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(4)));
    mirror.refresh().await;
    wait_until("the publisher holds it back", || async { !mirror.status().await["held"].is_null() }).await;
    assert_eq!(mirror.admin(Method::POST, "/snapshots/accept").await.status, 202);
    wait_until("it is accepted", || async { mirror.snapshot().await != old }).await;
    shelf.delta(&mirror).await;
    let (new, sequence) = (shelf.snapshot(), shelf.publish());
    follows(&replica, &old, sequence).await;
    replica.restart().await;
    let status = replica.status().await;
    assert_eq!((&status["rollback"]["served"], &status["rollback"]["newest"]), (&old[..].into(), &new[..].into()));
    assert_eq!(replica.admin(Method::POST, "/snapshots/release").await.status, 200);
    follows(&replica, &new, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    let (code, status) = health(&replica).await;
    assert!(code == 200 && status["held"].is_null(), "{status:#}");

    let desk = Desk::new();
    edit(&origin, &mirror, |world| assert!(world.touch(world.ids()[4]))).await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "newer.gsb").await;
    replica.restart_with("replica.poll", "1h").await;
    follows(&replica, &new, sequence).await;
    desk.does(&replica.setup, &replica.data_dir(), &["import", "--allow-older"], "newer.gsb").await;
    assert_ne!(replica.snapshot().await, new);
    // The same head again: its data is not here any more.
    replica.refresh().await;
    follows(&replica, &new, sequence).await;
    soon("nothing is behind", || async { replica.status().await["replica"]["behind_seconds"] == 0 }).await;
    assert_eq!(replica.ok(LIST).await.total(), mirror.ok(LIST).await.total());
}
