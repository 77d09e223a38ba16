//! A mirror with an empty disk takes its first data from a store, and then asks its origin whether it is true.

use sample_origin::{Switches, World};

use super::Shelf;
use crate::compare::{detail_is_the_origins, list_is_the_origins};
use crate::gap::{LIST, mirrored};
use crate::harness::{Setup, edit, origin, wait_until};

#[tokio::test]
async fn a_mirror_begins_with_the_data_of_a_store_and_confirms_it() {
    let (origin, mirror) = mirrored(700, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    edit(&origin, &mirror, |world| assert!(world.touch(world.ids()[5]))).await;
    shelf.delta(&mirror).await;
    shelf.publish();
    drop(mirror);
    origin.clear_log();
    let mut seeded = Setup::mirror_of(&origin).set("replica.url", &shelf.url()).start().await;
    seeded.settled(&origin).await;
    let status = seeded.status().await;
    assert!(status["use"] == "mirror" && status["replica"].is_null(), "{status:#}");
    let log = origin.log();
    let details = log.iter().filter(|seen| seen.path_and_query.starts_with("/api/listings/") && seen.status == 200);
    assert_eq!(details.count(), 0, "no detail was fetched anew");
    assert!(log.len() <= 2 * 7 + 8 + 10, "{} requests", log.len());
    // From now on the store is not asked.
    std::fs::remove_dir_all(shelf.root()).unwrap();
    let ids = origin.world(World::ids);
    edit(&origin, &seeded, |world| assert!(world.touch(ids[3]) && world.remove(ids[50]))).await;
    list_is_the_origins(&seeded, &origin, &format!("{LIST}?page=1")).await;
    detail_is_the_origins(&seeded, &origin, ids[3]).await;
    seeded.restart().await;
    seeded.ready().await;
}

#[tokio::test]
async fn a_mirror_whose_store_has_nothing_for_it_crawls() {
    let (_other, mirror) = mirrored(40, Switches::default()).await;
    let mut shelf = Shelf::new();
    let origin = origin(60).await;
    // Data of another origin.
    shelf.full(&mirror).await;
    shelf.publish();
    let server = Setup::mirror_of(&origin).set("replica.url", &shelf.url()).start().await;
    server.settled(&origin).await;
    wait_until("it has its own origin's data", || async { server.ok(LIST).await.total() == 60 }).await;
    assert!(server.process.said().contains("neither origin.url nor"), "{}", server.process.said());
}
