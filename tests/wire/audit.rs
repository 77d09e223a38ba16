//! The mirror beside its origin, request by request: equal when all is well; every difference found, reported and
//! mended.

use std::time::Duration;

use http::Method;
use sample_origin::{Cdn, EmptyFilters, EtagStyle, ItemOrder, Origin, Switches, TaxonomyShape, World};
use serde_json::{Value, json};

use crate::client::plain_client;
use crate::compare::{detail_is_the_origins, list_is_the_origins};
use crate::dialects::Dialect;
use crate::gap::mirrored;
use crate::harness::{Server, Setup, each, origin, origin_with, quiet, run, wait_until};

const LIST: &str = "/api/listings.json";

/// The same, with every shape of a query confirmed.
async fn examined(listings: usize) -> (Origin, Server) {
    let origin = origin(listings).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!((server.disproved().await, &server.status().await["unproved"]), (json!([]), &json!([])));
    (origin, server)
}

/// `grandstand audit` on the server's data directory: exit code and output.
async fn audit(server: &Server, samples: u32) -> (i32, String) {
    let samples = samples.to_string();
    run(&server.setup.arguments(&["audit", "--samples", &samples], &server.data_dir())).await
}

/// Has no difference among this many samples.
async fn is_equal(server: &Server, samples: u32) {
    let (code, said) = audit(server, samples).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(" equal (100 %); skipped: "), "{said}");
    assert!(said.contains("0 unanswered"), "{said}");
}

#[tokio::test]
async fn a_mirror_is_equal_in_each_dialect_where_it_answers_itself() {
    let dialects: [Dialect; 4] = [
        ("the defaults", |_| {}),
        ("indented bodies under a prefix", |s| {
            (s.pretty, s.prefix, s.taxonomy_shape) = (true, "/v1".into(), TaxonomyShape::Nested);
        }),
        ("a request id, no tags, no order", |s| {
            (s.request_id, s.etags, s.taxonomy_shape) = (true, EtagStyle::None, TaxonomyShape::Array);
            (s.order, s.empty_filters) = (ItemOrder::Arbitrary(7), EmptyFilters::Array);
        }),
        ("terms in doubt", |s| s.count_skew = 3),
    ];
    each(dialects, async |(_, change)| {
        let mut switches = Switches::default();
        change(&mut switches);
        let (_origin, server) = mirrored(230, switches).await;
        is_equal(&server, 60).await;
    })
    .await;
}

#[tokio::test]
async fn a_silent_change_beyond_the_first_page_is_found_told_and_mended_with_a_server_and_alone() {
    let (origin, mut server) = mirrored(330, Switches::default()).await;
    let last = *server.ok(&format!("{LIST}?page=4&per_page=100")).await.ids().last().unwrap();
    origin.edit(|world| assert!(world.silent_change(last)));
    let before = server.snapshot().await;
    // The last page is among any 20 samples.
    let (code, said) = audit(&server, 20).await;
    assert_eq!(code, 1, "{said}");
    let line =
        said.lines().find(|line| line.contains(&format!("listing {last}, "))).unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.starts_with("GET /api/listings.json?") && line.contains("the mirror has") && line.contains('№'),
        "{line}"
    );
    assert!(!said.contains("(100 %)"), "{said}");
    wait_until("what differed is mirrored anew", || async { server.snapshot().await != before }).await;
    server.settled(&origin).await;
    list_is_the_origins(&server, &origin, &format!("{LIST}?page=4&per_page=100")).await;
    is_equal(&server, 40).await;

    server.down().await;
    is_equal(&server, 40).await;
    origin.edit(|world| assert!(world.silent_change(last)));
    let (code, said) = audit(&server, 20).await;
    assert!(code == 1 && said.contains(&format!("listing {last}, ")), "{code}: {said}");
    is_equal(&server, 40).await;
    server.restart().await;
    list_is_the_origins(&server, &origin, &format!("{LIST}?page=4&per_page=100")).await;
}

#[tokio::test]
async fn a_tag_that_comes_with_two_bodies_is_believed_until_an_audit_shows_it() {
    let fixed = || Switches { etags: EtagStyle::Fixed, ..Switches::default() };
    let (origin, server) = mirrored(120, fixed()).await;
    let (ids, target) = (server.ok(LIST).await.ids(), format!("{LIST}?per_page=100"));
    origin.edit(|world| assert!(world.silent_change(ids[0])));
    let (code, said) = audit(&server, 20).await;
    assert!(code == 1 && said.contains(&format!("listing {}, ", ids[0])), "{code}: {said}");
    // From now on bodies are compared.
    for id in [ids[0], ids[2]] {
        wait_until("it is as at the origin", || async {
            server.ok(&target).await.json()["items"] == origin.expected(&target).1["items"]
        })
        .await;
        origin.edit(|world| assert!(world.touch(id)));
        server.refresh().await;
    }

    let (origin, server) = mirrored(30, fixed()).await;
    origin.edit(|world| assert!(world.ids().into_iter().all(|id| world.change_detail(id))));
    let (code, said) = audit(&server, 20).await;
    let different = said.lines().find_map(|line| line.strip_prefix("GET /api/listings/")?.split_once(".json: "));
    let (id, _) = different.unwrap_or_else(|| panic!("{code}: {said}"));
    detail_is_the_origins(&server, &origin, id.parse().unwrap()).await;
}

#[tokio::test]
async fn a_filter_that_comes_to_mean_something_else_is_forwarded_once_it_is_found_twice() {
    let (origin, server) = examined(330).await;
    origin.set(|switches| switches.dropped = vec!["state"]);
    // Each shape is among any 60 samples, and what differs in a whole is asked of its parts.
    let (code, said) = audit(&server, 60).await;
    assert_eq!(code, 1, "{said}");
    let is_disproved = async || server.status().await["disproved"].as_array().unwrap().contains(&json!("state"));
    wait_until("the filter is disproved", is_disproved).await;
    for query in ["state=texas", "state=ohio&per_page=100", "state=california&sport=baseball"] {
        let target = format!("{LIST}?{query}");
        let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
        assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{target}");
    }
}

#[tokio::test]
async fn a_silent_change_of_what_filters_select_disproves_nothing() {
    let (origin, server) = examined(330).await;
    let before = server.snapshot().await;
    // No `modified` moves, so that no refresh shows it.
    origin.edit(|world| {
        let ids: Vec<u64> = world.ids().into_iter().step_by(2).collect();
        assert!(ids.into_iter().all(|id| world.relocate(id, "texarkana", Some("texas"))));
    });
    let (_, said) = audit(&server, 60).await;
    wait_until("what differed is mirrored anew", || async { server.snapshot().await != before }).await;
    server.settled(&origin).await;
    // By now every difference was looked at again.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(server.status().await["disproved"], json!([]), "{said}");
    is_equal(&server, 40).await;
}

#[tokio::test]
async fn a_detail_that_changed_silently_is_found_told_and_mended() {
    let (origin, server) = mirrored(60, Switches::default()).await;
    origin.edit(|world| world.ids().into_iter().for_each(|id| assert!(world.change_detail(id))));
    let (code, said) = audit(&server, 20).await;
    assert_eq!(code, 1, "{said}");
    let differing = said.lines().filter_map(|line| line.strip_prefix("GET /api/listings/")?.split_once(".json: "));
    let ids: Vec<u64> = differing.map(|(id, _)| id.parse().unwrap()).collect();
    assert!(!ids.is_empty(), "{said}");
    for id in ids {
        detail_is_the_origins(&server, &origin, id).await;
    }
}

#[tokio::test]
async fn a_change_since_the_last_refresh_is_no_difference() {
    let (origin, server) = mirrored(230, Switches::default()).await;
    let before = server.snapshot().await;
    origin.edit(|world| world.ids().into_iter().for_each(|id| assert!(world.touch(id))));
    is_equal(&server, 20).await;
    assert_ne!(server.snapshot().await, before, "the audit has asked for a refresh");
}

#[tokio::test]
async fn old_copies_of_a_cdn_are_no_difference() {
    let cdn = Cdn { max_age: Duration::from_secs(2), nodes: 3 };
    let origin = origin_with(130, Switches { cdn: Some(cdn), ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "2s").start().await;
    wait_until("every page is proven", || async {
        let certificate = server.status().await["snapshot"]["certificate"].clone();
        // Three rounds may not suffice, with a cache that answers by turns.
        if certificate == "best-effort" {
            server.admin(Method::POST, "/sync").await;
        }
        certificate == "full"
    })
    .await;
    server.settled(&origin).await;
    for _ in 0..2 {
        origin.edit(|world| world.ids().into_iter().for_each(|id| assert!(world.touch(id))));
        let (_, said) = audit(&server, 20).await;
        assert!(!said.contains("the mirror has"), "{said}");
        assert!(said.contains(" equal (100 %); skipped: "), "{said}");
    }
}

#[tokio::test]
async fn without_an_answer_of_the_origin_there_is_no_parity() {
    let (origin, mut server) = mirrored(60, Switches::default()).await;
    origin.shutdown().await;
    for beside_a_server in [true, false] {
        let (code, said) = audit(&server, 20).await;
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("no sample could be compared") && said.contains("20 unanswered"), "{said}");
        assert!(said.contains("the origin is unreachable"), "{said}");
        if beside_a_server {
            assert_eq!(server.status().await["parity"], Value::Null);
            server.down().await;
        }
    }
}

#[tokio::test]
async fn an_audit_uses_a_tenth_of_the_budget() {
    let (origin, mut server) = mirrored(120, Switches::default()).await;
    server.restart_with("origin.requests_per_minute", "20").await;
    server.settled(&origin).await;
    origin.clear_log();
    let before = origin.count();
    let accepted = server.admin(Method::POST, "/audit?samples=20").await;
    assert_eq!((accepted.status, accepted.the("location").as_str()), (202, "/audit"));
    wait_until("the audit has used its share", || async { origin.count() - before >= 2 }).await;
    for _ in 0..4 {
        quiet(&origin).await;
    }
    let asked: Vec<_> = origin.log().into_iter().map(|seen| seen.path_and_query).collect();
    assert_eq!(asked.len(), 2, "a tenth of 20 in a minute: {asked:#?}");
    let job = server.admin(Method::GET, "/audit").await.json();
    assert_eq!((&job["phase"], &job["samples"]), (&"sampling".into(), &20.into()), "{job:#}");
    let joined = server.admin(Method::POST, "/audit?samples=3").await.json();
    assert_eq!((&joined["joined"], &joined["samples"]), (&true.into(), &20.into()), "{joined:#}");
    assert_eq!(server.status().await["origin"]["requests"]["background"], 2);
}

#[tokio::test]
async fn samples_in_the_background_keep_the_score() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("mirror.examine_per_hour", "3600").start().await;
    server.ready().await;
    wait_until("all details are mirrored", || async { server.status().await["details"]["mirrored"] == 60 }).await;
    wait_until("samples were compared", || async {
        server.status().await["parity"]["compared"].as_u64().is_some_and(|compared| compared >= 3)
    })
    .await;
    let parity = server.status().await["parity"].clone();
    assert_eq!((&parity["percent"], &parity["differences"]), (&100.0.into(), &Value::Array(vec![])), "{parity:#}");
    assert!(parity["last_at"].is_string());
    origin.edit(|world: &mut World| world.ids().into_iter().for_each(|id| assert!(world.change_detail(id))));
    wait_until("a difference shows", || async { server.status().await["parity"]["percent"] != 100.0 }).await;
    let parity = server.status().await["parity"].clone();
    assert!(parity["differences"][0].as_str().unwrap().contains("GET /api/listings/"), "{parity:#}");
    let metrics = server.admin(Method::GET, "/metrics").await.text().to_owned();
    for line in [r#"grandstand_audit_samples_total{outcome="different"} "#, "grandstand_parity_ratio 0."] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let (_, screen) = run(&server.setup.arguments(&["status"], &server.data_dir())).await;
    assert!(screen.lines().any(|line| line.contains("parity") && line.contains("compared")), "{screen}");
}

#[tokio::test]
async fn where_nothing_is_mirrored_there_is_nothing_to_audit() {
    let origin = origin(10).await;
    let dir = tempfile::tempdir().unwrap();
    for (setup, why) in [
        (Setup::offline(), (64, "origin.url: is not set")),
        (Setup::shield_of(&origin), (64, "mirror.enabled: is false, but `audit` needs a mirror")),
        (Setup::mirror_of(&origin), (1, "data does not exist; set ")),
    ] {
        let (code, said) = run(&setup.arguments(&["audit"], &dir.path().join("data"))).await;
        assert!(code == why.0 && said.contains(why.1), "{code} {said}");
    }
    let shield = Setup::shield_of(&origin).start().await;
    assert_eq!(shield.admin(Method::POST, "/audit").await.status, 409);
    assert_eq!(shield.admin(Method::GET, "/audit").await.status, 404);
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn an_audit_is_only_started_by_who_may_and_within_bounds() {
    let (origin, server) = mirrored(10, Switches::default()).await;
    let before = origin.count();
    for samples in ["0", "1001", "x"] {
        assert_eq!(server.admin(Method::POST, &format!("/audit?samples={samples}")).await.status, 400);
    }
    let url = format!("http://{}/audit", server.admin);
    let foreign = plain_client().post(url).header("origin", "http://evil.test").send().await.unwrap();
    assert_eq!(foreign.status(), 403);
    assert_eq!(server.admin(Method::GET, "/audit").await.json()["phase"], "none");
    assert_eq!(origin.count(), before);
}
