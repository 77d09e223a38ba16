//! Certificates behind a CDN that sends old copies from nodes that disagree: each says the truth.

use std::time::Duration;

use http::{HeaderMap, Method};
use sample_origin::{Cdn, ItemOrder, Origin, Switches, World};

use crate::compare::{list_is_the_origins, taxonomies_are_the_origins};
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, each, wait_until};

const LIST: &str = "/api/listings.json";
const MAX_AGE: Duration = Duration::from_secs(2);

/// A mirror of an origin behind three nodes, in an order that nothing explains.
async fn behind_a_cdn(order: ItemOrder) -> (Origin, Server) {
    let cdn = Some(Cdn { max_age: MAX_AGE, nodes: 3 });
    let origin = origin_with(450, Switches { cdn, order, ..Switches::default() }).await;
    // So that the first pass already meets copies.
    for _ in 0..6 {
        origin.ask(&Method::GET, &format!("{LIST}?per_page=100"), &HeaderMap::new()).await.unwrap();
    }
    let setup = Setup::mirror_of(&origin).set("origin.cache_ttl", "2s").set("ttl", "4s");
    let server = setup.set("mirror.details", "on-demand").start().await;
    server.ready().await;
    (origin, server)
}

async fn certificate(server: &Server) -> String {
    server.status().await["snapshot"]["certificate"].as_str().unwrap_or_default().to_owned()
}

async fn settles(server: &Server) {
    wait_until("it is certified", || async { matches!(certificate(server).await.as_str(), "full" | "incremental") })
        .await;
}

/// Whether all pages equal the origin's answers now.
async fn shows_the_same(server: &Server, origin: &Origin) -> bool {
    for page in 1..=origin.world(World::len).div_ceil(100) {
        let target = format!("{LIST}?per_page=100&page={page}");
        if server.ok(&target).await.json()["items"] != origin.expected(&target).1["items"] {
            return false;
        }
    }
    true
}

async fn is_the_origins(server: &Server, origin: &Origin) {
    for page in 1..=origin.world(World::len).div_ceil(100) {
        list_is_the_origins(server, origin, &format!("{LIST}?per_page=100&page={page}")).await;
    }
    taxonomies_are_the_origins(server, origin).await;
}

#[tokio::test(start_paused = true)]
async fn a_provisional_list_is_served_at_once_and_a_full_one_follows_when_the_copies_have_gone() {
    let (origin, server) = behind_a_cdn(ItemOrder::Arbitrary(3)).await;
    let first = certificate(&server).await;
    // Its closing round waits until the CDN has dropped its copies, so there is time to see it.
    assert_eq!(first, "provisional");
    assert_eq!(server.ok(LIST).await.total(), 450);
    settles(&server).await;
    is_the_origins(&server, &origin).await;
}

#[tokio::test(start_paused = true)]
async fn an_incremental_list_is_what_a_refresh_can_see_in_any_order() {
    each([ItemOrder::Arbitrary(3), ItemOrder::ById, ItemOrder::ByModifiedDesc], async |order| {
        let (origin, server) = behind_a_cdn(order).await;
        settles(&server).await;
        let ids = origin.world(World::ids);
        origin.edit(|world| {
            assert!(world.touch(ids[70]) && world.touch(ids[300]) && world.remove(ids[200]));
            world.insert_like(ids[10], "Behind the CDN").unwrap();
        });
        wait_until("the change shows on every page", || shows_the_same(&server, &origin)).await;
        settles(&server).await;
        is_the_origins(&server, &origin).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_holds_still_is_served_with_what_is_open_and_settles_when_it_does() {
    let (origin, server) = behind_a_cdn(ItemOrder::Arbitrary(3)).await;
    settles(&server).await;
    let ids = origin.world(World::ids);
    let before = server.snapshot().await;
    let mut round = 0;
    wait_until("it is published although it changes all the time", || {
        origin.edit(|world| assert!(world.touch(ids[round * 37 % 450])));
        round += 1;
        // The next one may follow at once.
        async { server.process.said().contains("best-effort") }
    })
    .await;
    let status = server.status().await;
    if status["snapshot"]["certificate"] == "best-effort" {
        assert!(!status["snapshot"]["open_points"].as_array().unwrap().is_empty(), "{status:#}");
    }
    assert_ne!(server.snapshot().await, before);
    assert_eq!(server.ok(LIST).await.total(), 450);
    wait_until("it settles when the origin holds still", || async {
        matches!(certificate(&server).await.as_str(), "full" | "incremental")
    })
    .await;
    wait_until("and is the origin's", || shows_the_same(&server, &origin)).await;
    settles(&server).await;
    is_the_origins(&server, &origin).await;
}
