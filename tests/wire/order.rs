//! A learned order places changes without reading every page, and is given up when a page contradicts it.

use sample_origin::{ItemOrder, Origin, Switches, World};

use crate::compare::{list_is_the_origins, taxonomies_are_the_origins};
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, each, wait_until};

const LIST: &str = "/api/listings.json";
/// Enough pages for a whole reading to show in the counts.
const LISTINGS: usize = 2_000;
const PAGES: usize = LISTINGS / 100;

async fn mirrored(order: ItemOrder) -> (Origin, Server) {
    let origin = origin_with(LISTINGS, Switches { order, ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    settled(&server, &origin).await;
    server.refreshed(&origin).await;
    (origin, server)
}

async fn settled(server: &Server, origin: &Origin) {
    wait_until("the list is certified", || async {
        matches!(server.status().await["snapshot"]["certificate"].as_str(), Some("full" | "incremental"))
    })
    .await;
    crate::harness::quiet(origin).await;
}

/// Lets the mirror notice a change; the paths of lists that were asked for.
async fn noticed(server: &Server, origin: &Origin) -> Vec<String> {
    let before = server.snapshot().await;
    origin.clear_log();
    server.refresh().await;
    wait_until("the change is published", || async { server.snapshot().await != before }).await;
    settled(server, origin).await;
    let log = origin.log().into_iter();
    let is_term = |path: &str| ["sport=", "state=", "city="].iter().any(|filter| path.contains(filter));
    log.map(|seen| seen.path_and_query).filter(|path| path.contains("listings.json") && !is_term(path)).collect()
}

async fn everything_is_the_origins(server: &Server, origin: &Origin) {
    let pages = origin.world(World::len).div_ceil(100);
    for page in 1..=pages {
        list_is_the_origins(server, origin, &format!("{LIST}?per_page=100&page={page}")).await;
    }
    taxonomies_are_the_origins(server, origin).await;
}

/// Changes, insertions and a deletion, each noticed on its own; at most so many list requests each.
async fn changes_cost(order: ItemOrder, most: usize) {
    let (origin, server) = mirrored(order).await;
    let ids = origin.world(World::ids);
    let mut costs = Vec::new();
    origin.edit(|world| assert!(world.touch(ids[777]) && world.touch(ids[1_500])));
    costs.push(("two changes", noticed(&server, &origin).await));
    origin.edit(|world| world.insert_like(ids[100], "Äpfel & Birnen").unwrap());
    costs.push(("an insertion", noticed(&server, &origin).await));
    origin.edit(|world| assert!(world.remove(ids[1_234])));
    costs.push(("a deletion", noticed(&server, &origin).await));
    for (what, paths) in costs {
        println!("{order:?}: {what} cost {} requests for lists", paths.len());
        assert!(paths.len() <= most, "{what} cost {} requests for lists, at most {most}: {paths:#?}", paths.len());
    }
    everything_is_the_origins(&server, &origin).await;
}

#[tokio::test(start_paused = true)]
async fn changes_are_placed_without_reading_every_page_in_an_order_that_something_explains() {
    let few = PAGES / 2;
    let orders = [
        (ItemOrder::ById, few),
        (ItemOrder::ByModifiedDesc, few),
        (ItemOrder::ByName, few),
        (ItemOrder::Arbitrary(5), PAGES + 10),
    ];
    each(orders, async |(order, most)| changes_cost(order, most).await).await;
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_contradicted_is_not_trusted_again() {
    let (origin, server) = mirrored(ItemOrder::ById).await;
    let ids = origin.world(World::ids);
    origin.edit(|world| assert!(world.touch(ids[777])));
    assert!(noticed(&server, &origin).await.len() <= PAGES / 2, "placed");
    // From now on it is otherwise; the first page alone would tell.
    origin.set(|switches| switches.order = ItemOrder::ByName);
    noticed(&server, &origin).await;
    everything_is_the_origins(&server, &origin).await;
    origin.edit(|world| assert!(world.touch(ids[1_777])));
    noticed(&server, &origin).await;
    everything_is_the_origins(&server, &origin).await;
}
