//! Clocks that differ between publisher and replica.

use sample_origin::Switches;

use super::{Shelf, follows, health, replica_of};
use crate::gap::{LIST, mirrored};

#[tokio::test]
async fn a_publisher_a_little_ahead_counts_as_now_and_one_far_ahead_confirms_nothing() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    shelf.shift_ms = 45_000;
    let sequence = shelf.publish();
    let mut replica = replica_of(&shelf).start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    for _ in 0..2 {
        let list = replica.ok(LIST).await;
        assert!(list.age().is_some_and(|age| age < 40), "{list:?}");
        assert_eq!(health(&replica).await.0, 200);
        replica.restart().await;
        replica.ready().await;
    }
    shelf.shift_ms = 600_000;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    let (code, status) = health(&replica).await;
    assert!(code == 503 && status["unconfirmed"] == true, "{status:#}");
    shelf.shift_ms = -1_000;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    assert_eq!(health(&replica).await.0, 200);
}
