//! Changes at the origin show here soon.

use http::Method;
use sample_origin::{ItemOrder, Origin, Switches, World};

use crate::compare::{detail_is_the_origins, list_is_the_origins, slugs, taxonomy_is_the_origins};
use crate::harness::virtually::{mirrored, origin, origin_with};
use crate::harness::{PUBLIC, Server, Setup, edit, wait_until};

const LIST: &str = "/api/listings.json";

fn detail(id: u64) -> String {
    format!("/api/listings/{id}.json")
}

/// Every page, and each filter's first.
async fn all_is_the_origins(server: &Server, origin: &Origin) {
    let pages = origin.world(World::len).div_ceil(50).max(1);
    for page in 1..=pages {
        list_is_the_origins(server, origin, &format!("{LIST}?page={page}")).await;
    }
    for (name, parameter) in [("sports", "sport"), ("states", "state"), ("cities", "city")] {
        taxonomy_is_the_origins(server, origin, name, PUBLIC).await;
        for slug in slugs(origin, name) {
            list_is_the_origins(server, origin, &format!("{LIST}?{parameter}={slug}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_listing_shows_after_the_next_refresh() {
    let (origin, server) = mirrored(230).await;
    let id = origin.world(World::ids)[100];
    let old = server.ok(&detail(id)).await;
    origin.clear_log();
    edit(&origin, &server, |world| assert!(world.touch(id))).await;
    let log = origin.log();
    let most = 230_usize.div_ceil(100) + 10 + 1;
    assert!(log.len() <= most, "{:#?}", log.iter().map(|seen| &seen.path_and_query).collect::<Vec<_>>());
    let details: Vec<_> = log.iter().filter(|seen| seen.path_and_query.contains("/listings/")).collect();
    assert_eq!(details.len(), 1, "one detail for one change");
    assert!(details[0].path_and_query.ends_with(&detail(id)) && details[0].conditional);
    all_is_the_origins(&server, &origin).await;
    detail_is_the_origins(&server, &origin, id).await;
    assert_ne!(server.ok(&detail(id)).await.etag(), old.etag());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_hidden_by_an_insertion_is_found() {
    let switches = Switches { order: ItemOrder::ById, ..Switches::default() };
    let origin = origin_with(230, switches).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let (gone, like) = origin.world(|world| (world.ids()[150], world.ids()[20]));
    let mut new = 0;
    edit(&origin, &server, |world| {
        assert!(world.remove(gone));
        new = world.insert_like(like, "In Its Place").unwrap();
    })
    .await;
    assert_eq!(server.get(&detail(gone)).await.status, 404);
    detail_is_the_origins(&server, &origin, new).await;
    all_is_the_origins(&server, &origin).await;
}

#[tokio::test(start_paused = true)]
async fn many_changes_at_once_show_together() {
    let (origin, server) = mirrored(230).await;
    let (gone, mut new, before) = (origin.world(World::ids)[30], 0, server.snapshot().await);
    server.ok(&detail(gone)).await;
    origin.edit(|world| {
        let ids = world.ids();
        for id in &ids[10..25] {
            assert!(world.touch(*id));
        }
        for id in &ids[30..35] {
            assert!(world.remove(*id));
        }
        for id in &ids[40..50] {
            assert!(world.change_sport(*id, "curling") && world.touch(*id));
        }
        for id in &ids[60..64] {
            assert!(world.relocate(*id, "texarkana", Some("texas")) && world.touch(*id));
        }
        for id in &ids[100..130] {
            new = world.insert_like(*id, &format!("New beside {id}")).unwrap();
        }
    });
    assert_eq!(server.get(&detail(new)).await.status, 404);
    server.refresh().await;
    wait_until("the changes show", || async { server.snapshot().await != before }).await;
    server.settled(&origin).await;
    assert_eq!(server.ok(LIST).await.total(), 230 - 5 + 30);
    assert_eq!(server.get(&detail(gone)).await.status, 404);
    detail_is_the_origins(&server, &origin, new).await;
    all_is_the_origins(&server, &origin).await;
    for id in origin.world(World::ids).into_iter().step_by(7) {
        detail_is_the_origins(&server, &origin, id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_does_not_move_modified_is_found_by_the_sweep() {
    let (origin, server) = mirrored(230).await;
    // Neither on the first page nor in a taxonomy: only reading every page can find it.
    let id = server.ok(&format!("{LIST}?page=5")).await.ids()[3];
    origin.edit(|world| assert!(world.silent_change(id)));
    let before = server.snapshot().await;
    let reply = server.admin(Method::POST, "/sync").await;
    assert!((200..300).contains(&reply.status), "{reply:?}");
    wait_until("the sweep has found it", || async { server.snapshot().await != before }).await;
    server.settled(&origin).await;
    all_is_the_origins(&server, &origin).await;
    detail_is_the_origins(&server, &origin, id).await;
}

#[tokio::test(start_paused = true)]
async fn a_detail_that_is_older_than_its_listing_does_not_count_as_current() {
    let origin = origin(200).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let ids = origin.world(World::ids);
    let before = server.snapshot().await;
    origin.edit(|world| assert!(ids.iter().all(|id| world.touch(*id) && world.change_detail(*id))));
    server.refresh().await;
    wait_until("the lists have changed", || async { server.snapshot().await != before }).await;
    wait_until("all details are current", || async {
        let details = server.status().await["details"].clone();
        assert_eq!(details["mirrored"], 200, "the old ones are served meanwhile");
        details["current"] == 200
    })
    .await;
    for id in ids {
        assert_eq!(server.ok(&detail(id)).await.text(), origin.expected_text(&detail(id)).1);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_show_without_being_told_within_the_ttl() {
    let origin = origin(130).await;
    let server = Setup::mirror_of(&origin).set("ttl", "2s").start().await;
    server.settled_often().await;
    let id = origin.world(World::ids)[50];
    for _ in 0..3 {
        origin.edit(|world| assert!(world.touch(id)));
        let expected = origin.expected(&detail(id)).1["name"].clone();
        wait_until("the change shows", || async { server.ok(&detail(id)).await.json()["name"] == expected }).await;
        // A detail that was late for the last change may be ahead of the list.
        let shows =
            |list: serde_json::Value| list["items"].as_array().unwrap().iter().any(|item| item["name"] == expected);
        wait_until("the list shows it", || async { shows(server.ok(LIST).await.json()) }).await;
        list_is_the_origins(&server, &origin, LIST).await;
    }
    let first = server.ok(LIST).await.the("mirror-confirmed");
    wait_until("the confirmation advances by itself", || async {
        server.ok(LIST).await.the("mirror-confirmed") != first
    })
    .await;
    wait_until("it is young", || async { server.ok(LIST).await.age().unwrap() <= 3 }).await;
}

impl Server {
    /// [`settled`](Self::settled) for a server that never leaves the origin alone.
    async fn settled_often(&self) {
        wait_until("everything is mirrored and certified", || async {
            let status = self.status().await;
            matches!(status["snapshot"]["certificate"].as_str(), Some("full" | "incremental"))
                && status["details"]["current"] == status["details"]["of"]
        })
        .await;
    }
}
