//! A snapshot that lost too much is held back until it is accepted.

use grandstand::sample::World;
use http::Method;

use crate::compare::list_is_the_origins;
use crate::harness::{Setup, origin, wait_until};

const LIST: &str = "/api/listings.json";

#[tokio::test]
async fn a_collapse_is_held_back_until_it_is_accepted() {
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let before = server.ok(LIST).await;
    let all = origin.world(World::clone);
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    let left = origin.world(World::len);
    assert!((30..90).contains(&left));
    server.refresh().await;
    wait_until("/status tells what is held back", || async { !server.status().await["held"].is_null() }).await;
    let reply = server.admin(Method::GET, "/status").await;
    assert_eq!(reply.status, 503, "held back is unhealthy");
    let held = reply.json()["held"].clone();
    assert_eq!((held["listings"].as_u64(), held["serving"].as_u64()), (Some(left as u64), Some(120)), "{held:#}");
    for _ in 0..2 {
        let reply = server.ok(LIST).await;
        assert_eq!((reply.etag(), reply.total()), (before.etag(), 120));
        server.refreshed(&origin).await;
    }

    // The origin comes to its senses: judged anew, nothing is held any more.
    origin.edit(|world| *world = all);
    server.refresh().await;
    wait_until("nothing is held back", || async { server.status().await["held"].is_null() }).await;
    assert_eq!(server.ok(LIST).await.etag(), before.etag());

    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    server.refresh().await;
    wait_until("it is held back again", || async { !server.status().await["held"].is_null() }).await;
    let accepted = server.admin(Method::POST, "/snapshots/accept").await;
    assert!((200..300).contains(&accepted.status), "{accepted:?}");
    wait_until("it is published", || async { server.ok(LIST).await.total() == left as u64 }).await;
    wait_until("and healthy", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;
    list_is_the_origins(&server, &origin, LIST).await;
}

#[tokio::test]
async fn a_loss_below_the_bound_is_published() {
    let origin = origin(120).await;
    let server = Setup::mirror_of(&origin).set("mirror.max_shrink", "0.5").start().await;
    server.settled(&origin).await;
    let few: Vec<u64> = origin.world(World::ids).into_iter().take(40).collect();
    origin.edit(|world| world.retain(|venue| !few.contains(&venue.id)));
    server.refresh().await;
    wait_until("the loss shows", || async { server.ok(LIST).await.total() == 80 }).await;
    assert!(server.status().await["held"].is_null());
}
