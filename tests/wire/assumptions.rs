//! Undocumented behaviour is asked for, and what a refresh cannot see is found. Offline, only mirrored data exists.

use grandstand::sample::{Combine, ItemOrder, Since, Switches, World};
use serde_json::Value;

use crate::compare::{detail_is_the_origins, list_is_the_origins, taxonomy_is_the_origins};
use crate::harness::{PUBLIC, Setup, edit, origin, origin_with, wait_until};

const LIST: &str = "/api/listings.json";

#[tokio::test]
async fn an_origin_that_filters_otherwise_is_read_through() {
    let dialects = [
        (Switches { combine: Combine::Any, ..Switches::default() }, "and"),
        (Switches { since: Since::AtOrAfter, ..Switches::default() }, "strict"),
        (Switches { filtered_order: Some(ItemOrder::ByName), ..Switches::default() }, "order"),
    ];
    for (switches, word) in dialects {
        let origin = origin_with(300, switches).await;
        let server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        wait_until("the origin was asked what filters mean", || async {
            server.status().await["disproved"].as_array().is_some()
        })
        .await;
        assert_eq!(server.status().await["disproved"], Value::from(vec![word]));
        let at = origin.world(|world| world.venue(world.ids()[150]).unwrap().modified.at);
        for query in ["sport=baseball&state=texas".to_owned(), format!("modified_since={at}")] {
            let target = format!("{LIST}?{query}");
            let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
            assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{word}: {target}");
        }
        let target = format!("{LIST}?sport=baseball");
        let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
        assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{word}: {target}");
    }
}

/// Each probe is answered unfiltered, so that no answer of a refresh tells a change.
#[tokio::test]
async fn an_origin_that_ignores_modified_since_is_read_through_also_with_one_sport_alone() {
    for only_one_sport in [true, false] {
        let origin = origin_with(240, Switches { since: Since::Ignored, ..Switches::default() }).await;
        if only_one_sport {
            let all = |world: &mut World| world.ids().into_iter().all(|id| world.change_sport(id, "baseball"));
            assert!(origin.edit(all));
        }
        let server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        wait_until("the origin was asked what filters mean", || async {
            server.status().await["disproved"].as_array().is_some()
        })
        .await;
        let disproved = server.status().await["disproved"].clone();
        assert!(disproved.as_array().unwrap().contains(&"strict".into()), "{only_one_sport}: {disproved}");
        let at = origin.world(|world| world.venue(world.ids()[120]).unwrap().modified.at);
        for query in [
            format!("modified_since={at}"),
            "modified_since=2999-01-01".to_owned(),
            format!("sport=baseball&modified_since={at}"),
            "sport=baseball&state=texas".to_owned(),
            "sport=baseball".to_owned(),
        ] {
            let target = format!("{LIST}?{query}");
            let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
            assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{target}");
        }
        // Later changes are found, too, though no probe shows them.
        let id = origin.world(|world| world.ids()[7]);
        edit(&origin, &server, |world| assert!(world.touch(id))).await;
        let target = format!("{LIST}?modified_since={at}");
        assert_eq!(server.ok(&target).await.json()["total"], origin.expected(&target).1["total"]);
    }
}

#[tokio::test]
async fn an_origin_that_filters_as_assumed_disproves_nothing_and_is_not_asked_again() {
    let origin = origin(300).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    wait_until("the origin was asked", || async { server.status().await["disproved"].is_array() }).await;
    assert_eq!(server.status().await["disproved"], serde_json::json!([]));
    server.restart().await;
    assert_eq!(server.status().await["disproved"], serde_json::json!([]), "remembered");
}

#[tokio::test]
async fn a_change_that_no_refresh_can_see_is_found_by_the_sweep() {
    let origin = origin(330).await;
    let server = Setup::mirror_of(&origin).set("mirror.sweep_every", "1s").start().await;
    server.settled(&origin).await;
    let before = server.snapshot().await;
    // On the last page, and `modified` stays.
    let last = server.ok(&format!("{LIST}?page=4&per_page=100")).await.ids()[20];
    origin.edit(|world: &mut World| assert!(world.silent_change(last)));
    wait_until("the sweep finds it", || async { server.snapshot().await != before }).await;
    list_is_the_origins(&server, &origin, &format!("{LIST}?page=4&per_page=100")).await;
}

#[tokio::test]
async fn an_offline_replica_answers_everything_from_what_was_mirrored() {
    let origin = origin(130).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.clear_log();
    server.setup = Setup::offline();
    server.restart().await;
    list_is_the_origins(&server, &origin, &format!("{LIST}?per_page=100&page=2")).await;
    for name in ["sports", "states", "cities"] {
        taxonomy_is_the_origins(&server, &origin, name, PUBLIC).await;
    }
    for id in origin.world(World::ids) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    let reply = server.ok(LIST).await;
    assert_eq!(reply.header("age"), None, "nothing confirms it any more");
    assert!(reply.header("mirror-confirmed").is_some());
    server.get("/api/regions.json").await.assert_problem(404, &[]);
    assert_eq!(origin.count(), 0, "offline is offline");
}
