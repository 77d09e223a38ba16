//! A replica behind the gap answers as the origin does and as its mirror did.

use sample_origin::{CountStyle, Origin, Switches, TaxonomyShape, World};

use super::{Desk, LIST, edit, everything, is_one_of, mirrored};
use crate::compare::{detail_is_the_origins, same_list, slugs, taxonomy_is_the_origins};
use crate::harness::{Server, Setup};

const ELSEWHERE: &str = "http://replica.test/base";

/// Every page, every slug, pairs of filters, taxonomies and details are the origin's, without its help.
async fn is_the_origins(server: &Server, origin: &Origin, public_url: &str) {
    let kinds = [("sports", "sport"), ("states", "state"), ("cities", "city")];
    let mut queries: Vec<String> = (1..=9).map(|page| format!("page={page}")).collect();
    for (name, parameter) in kinds {
        queries.extend(slugs(origin, name).iter().map(|slug| format!("{parameter}={slug}&per_page=100")));
    }
    for state in slugs(origin, "states").iter().step_by(4) {
        queries.push(format!("sport=baseball&state={state}"));
    }
    queries.push("city=texarkana&state=texas".into());
    queries.push("city=texarkana&state=arkansas&modified_since=2024-02-29".into());
    queries.push("modified_since=2025-06-01&per_page=7&page=2".into());
    for query in queries {
        let target = format!("{LIST}?{query}");
        let ours = server.ok(&target).await;
        same_list(ours.text(), &origin.expected_text(&target).1, &target);
        assert_eq!(ours.age(), None, "{target}");
    }
    for (name, _) in kinds {
        taxonomy_is_the_origins(server, origin, name, public_url).await;
    }
    for id in origin.world(World::ids) {
        detail_is_the_origins(server, origin, id).await;
    }
}

/// Healthy, ready, with the mirror's snapshot and instant.
async fn tells_what_the_mirror_told(server: &Server, mirror: &Server) {
    server.ready().await;
    let status = server.admin(http::Method::GET, "/status").await;
    assert_eq!((status.status, &status.json()["use"]), (200, &"offline".into()), "{status:?}");
    assert_eq!(status.json()["details"]["mirrored"], status.json()["details"]["of"]);
    let id = mirror.ok(LIST).await.ids()[0];
    for target in [LIST, "/api/cities.json", &format!("/api/listings/{id}.json")] {
        let (ours, theirs) = (server.ok(target).await, mirror.ok(target).await);
        for name in ["mirror-snapshot", "mirror-confirmed"] {
            assert_eq!(ours.the(name), theirs.the(name), "{target}");
        }
        assert_eq!(ours.age(), None, "{target}");
    }
}

async fn whole_way(switches: Switches) {
    let (origin, mirror) = mirrored(230, switches).await;
    edit(&origin, &mirror, |world| {
        let ids = world.ids();
        assert!(world.touch(ids[20]) && world.remove(ids[40]) && world.relocate(ids[60], "texarkana", Some("texas")));
        assert!(world.touch(ids[60]));
    })
    .await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "all.gsb").await;
    let offline = Setup::offline();
    desk.does(&offline, &desk.path("none"), &["verify"], "all.gsb").await;
    let told = desk.inspect("all.gsb").await;
    assert_eq!(told["manifest"]["snapshot"], mirror.snapshot().await.as_str(), "{told}");
    assert_eq!((&told["manifest"]["listings"], &told["manifest"]["coverage"]["present"]), (&229.into(), &229.into()));
    desk.does(&offline, &desk.data(), &["import"], "all.gsb").await;

    let here = desk.serve_copy(offline.clone()).await;
    tells_what_the_mirror_told(&here, &mirror).await;
    let (ours, mirrors) = (everything(&here).await, everything(&mirror).await);
    is_one_of(&ours, &[&mirrors]);

    let mut elsewhere = desk.serve_copy(offline.set("public_url", ELSEWHERE)).await;
    origin.clear_log();
    tells_what_the_mirror_told(&elsewhere, &mirror).await;
    is_the_origins(&elsewhere, &origin, ELSEWHERE).await;
    let tag = |state: &super::Everything, target: &str| state[target].1.clone();
    let others = everything(&elsewhere).await;
    for target in mirrors.keys().filter(|target| !target.ends_with("s.json")) {
        assert_eq!(tag(&others, target), tag(&mirrors, target), "{target}");
    }
    elsewhere.restart().await;
    is_one_of(&everything(&elsewhere).await, &[&others]);
    assert_eq!(origin.count(), 0, "the replica has no origin");
}

#[tokio::test]
async fn a_replica_answers_as_the_origin_and_the_mirror() {
    whole_way(Switches::default()).await;
}

#[tokio::test]
async fn terms_without_counts_are_answered_from_the_evidence_in_the_bundle() {
    whole_way(Switches { counts: CountStyle::Absent, request_id: true, ..Switches::default() }).await;
}

#[tokio::test]
async fn a_nested_dialect_under_a_prefix_crosses_the_gap() {
    let (shape, skewed) = (TaxonomyShape::Nested, Some("california".to_owned()));
    let switches = Switches { prefix: "/v1".into(), taxonomy_shape: shape, skewed_term: skewed, ..Switches::default() };
    whole_way(switches).await;
}

#[tokio::test]
async fn an_import_takes_a_bundle_that_confirms_the_same_data_for_a_later_instant() {
    let (origin, mirror) = mirrored(60, Switches::default()).await;
    let desk = Desk::new();
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "early.gsb").await;
    let confirmed = mirror.ok(LIST).await.the("mirror-confirmed");
    crate::harness::wait_until("it is confirmed again", || async {
        mirror.refreshed(&origin).await;
        mirror.ok(LIST).await.the("mirror-confirmed") != confirmed
    })
    .await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "late.gsb").await;
    assert_eq!(desk.inspect("early.gsb").await["manifest"]["snapshot"], mirror.snapshot().await.as_str());
    let server = desk.serve_bundle(Setup::offline(), "early.gsb").await;
    assert_eq!(server.ok(LIST).await.the("mirror-confirmed"), confirmed);
    desk.does(&Setup::offline(), &server.data_dir(), &["import"], "late.gsb").await;
    assert_eq!(server.ok(LIST).await.the("mirror-confirmed"), mirror.ok(LIST).await.the("mirror-confirmed"));
}

#[tokio::test]
async fn bundles_imported_one_after_the_other_are_kept_as_many_as_configured() {
    let (origin, mirror) = mirrored(40, Switches::default()).await;
    let desk = Desk::new();
    let few = Setup::offline().set("mirror.keep", "1");
    let server = few.clone().start().await;
    for round in 0..3_usize {
        edit(&origin, &mirror, |world| assert!(world.touch(world.ids()[round]))).await;
        let name = format!("{round}.gsb");
        desk.does(&mirror.setup, &mirror.data_dir(), &["export"], &name).await;
        desk.does(&few, &server.data_dir(), &["import"], &name).await;
    }
    crate::harness::wait_until("one is kept", || async {
        let list = server.admin(http::Method::GET, "/snapshots").await.json();
        list["snapshots"].as_array().unwrap().len() == 1
    })
    .await;
}
