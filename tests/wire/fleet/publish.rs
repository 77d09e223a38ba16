//! The publisher on a directory: what is written, when, and what a restart makes of it.

mod faults;
mod forged;
mod google;
mod objects;
mod real;
mod several;
mod signed;

use std::time::Duration;

use sample_origin::{CountStyle, Switches, World};

use super::store::{Store, leads_to, leads_to_all, publishing, told};
use crate::clocks::Hand;
use crate::gap::Desk;
use crate::harness::{Aim, Server, Setup, edit, origin, run, wait_until};

/// Changes one listing at the origin, and waits until the mirror serves it.
async fn change(origin: &sample_origin::Origin, server: &Server) -> String {
    edit(origin, server, |world: &mut World| {
        let ids = world.ids();
        assert!(world.touch(ids[ids.len() / 2]));
    })
    .await
}

#[tokio::test]
async fn a_mirror_writes_what_it_serves_and_then_the_changes() {
    let store = Store::new();
    let (origin, server) = publishing(400, &store.url(), |setup| setup).await;
    let first = store.has(&server).await;
    assert_eq!((first.deltas().len(), &first.outer["signature"]), (0, &serde_json::Value::Null));
    assert_eq!(store.keys(), first.keys(), "nothing else lies there");
    leads_to_all(&store, &first, &server).await;

    for round in 1..=3 {
        change(&origin, &server).await;
        let head = store.has(&server).await;
        assert!(head.full() == first.full() && head.deltas().len() >= round);
        assert!(head.sequence() > first.sequence());
        leads_to(&store, &head, &server).await;
    }
    wait_until("all is told", || async { told(&server).await["behind_seconds"] == 0 }).await;
    let told = told(&server).await;
    assert_eq!(told["sequence"], store.head().unwrap().sequence());
    assert!(told["last_success"].is_string() && told["why"].is_null(), "{told}");
}

#[tokio::test]
async fn evidence_travels_with_the_full_bundle_and_again_when_it_has_changed() {
    let (store, desk) = (Store::new(), Desk::new());
    // Without counts only the origin's lists say which listings have a city.
    let (origin, mut server) =
        crate::gap::mirrored(260, Switches { counts: CountStyle::Absent, ..Switches::default() }).await;
    server.restart_with("publish.url", &store.url()).await;
    server.settled(&origin).await;
    store.has(&server).await;
    let replica = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms").start().await;
    let manifests = async |head: &super::store::Head| {
        let mut manifests = Vec::new();
        for delta in head.deltas() {
            std::fs::write(desk.path("delta.gsb"), store.read(delta["key"].as_str().unwrap())).unwrap();
            manifests.push(desk.inspect("delta.gsb").await);
        }
        manifests
    };
    let alike = async |what: &str| {
        store.has(&server).await;
        let of_slugs = async |server: &Server| {
            let mut lists = Vec::new();
            for slug in crate::compare::slugs(&origin, "cities") {
                let reply = server.get(&format!("{}?city={slug}&per_page=100", crate::gap::LIST)).await;
                lists.push((slug, reply.status, (reply.status == 200).then(|| reply.json()["items"].clone())));
            }
            lists
        };
        wait_until(what, || async { of_slugs(&replica).await == of_slugs(&server).await }).await;
    };
    alike("the full bundle has the evidence").await;
    let before = store.head().unwrap().deltas().len();
    change(&origin, &server).await;
    let inspected = manifests(&store.has(&server).await).await;
    assert!(inspected.len() > before && !inspected[before..].is_empty(), "{inspected:?}");
    for delta in &inspected[before..] {
        assert_eq!(delta["manifest"]["keeps_evidence"], true, "{delta}");
    }
    alike("the replica keeps the evidence").await;
    edit(&origin, &server, |world| {
        let ids = world.ids();
        assert!(ids.iter().step_by(3).all(|id| world.relocate(*id, "texarkana", Some("texas")) && world.touch(*id)));
    })
    .await;
    // Evidence alone would follow after a minute.
    change(&origin, &server).await;
    alike("the replica has the new evidence").await;
    let inspected = manifests(&store.head().unwrap()).await;
    let own = inspected.iter().skip(before).filter(|delta| delta["manifest"]["keeps_evidence"].is_null());
    assert!(own.count() > 0 || store.head().unwrap().deltas().is_empty(), "{inspected:?}");
}

#[tokio::test]
async fn a_mirror_publishes_before_its_first_crawl_is_certified() {
    let (store, origin) = (Store::new(), origin(120).await);
    let server = Setup::mirror_of(&origin).set("publish.url", &store.url()).start().await;
    server.ready().await;
    store.until("a head", |_| true).await;
    server.settled(&origin).await;
    let head = store.until("the certificate", |head| head.inner["certificate"] != "provisional").await;
    assert_eq!(head.snapshot(), server.snapshot().await);
}

#[tokio::test]
async fn each_refresh_that_finds_nothing_new_is_a_new_head_alone() {
    let store = Store::new();
    let (origin, server) = publishing(60, &store.url(), |setup| setup).await;
    let before = store.has(&server).await;
    // Origins date their answers to the second.
    let confirmed_at = || async { server.status().await["confirmed_at"].clone() };
    let old = confirmed_at().await;
    wait_until("the origin confirms the data for a later second", || async {
        server.refreshed(&origin).await;
        confirmed_at().await != old
    })
    .await;
    let confirmed = |head: &super::store::Head| head.inner["confirmed_ms"].as_i64().unwrap();
    let after = store.until("a later confirmation", |head| confirmed(head) > confirmed(&before)).await;
    assert!(after.sequence() > before.sequence());
    assert_eq!((after.keys(), store.keys()), (before.keys(), before.keys()));
}

#[tokio::test]
async fn a_restart_continues_the_chain_and_the_sequence() {
    let store = Store::new();
    let (origin, mut server) = publishing(400, &store.url(), |setup| setup).await;
    let before = store.has(&server).await;
    server.restart().await;
    server.settled(&origin).await;
    change(&origin, &server).await;
    let after = store.has(&server).await;
    assert!(after.full() == before.full() && !after.deltas().is_empty());
    assert!(after.sequence() > before.sequence());
    leads_to(&store, &after, &server).await;
}

#[tokio::test]
async fn details_alone_follow_after_a_minute_as_a_delta() {
    let (store, hand) = (Store::new(), Hand::new());
    let origin = crate::harness::origin(40).await;
    let setup = Setup::mirror_of(&origin).set("mirror.details", "on-demand").set("publish.url", &store.url());
    let server = hand.on(setup).start().await;
    server.ready().await;
    let before = store.has(&server).await;
    let detail = format!("/api/listings/{}.json", origin.world(World::ids)[7]);
    let arrived = server.ok(&detail).await;
    hand.set(120);
    let after = store.until("a delta of details", |head| head.deltas().len() > before.deltas().len()).await;
    assert_eq!(after.snapshot(), before.snapshot(), "the snapshot has not changed");
    let end = after.chain();
    assert_ne!(end[end.len() - 1]["digest"], end[end.len() - 2]["digest"]);
    assert_eq!(store.imported(&after).await.get(&detail).unwrap().2, arrived.text());
}

#[tokio::test]
async fn details_of_a_changed_and_of_a_new_listing_follow_soon() {
    let store = Store::new();
    let (origin, server) = publishing(60, &store.url(), |setup| setup).await;
    let replica = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms").start().await;
    let (changed, mut added) = (origin.world(World::ids)[7], None);
    edit(&origin, &server, |world| {
        assert!(world.touch(changed) && world.change_detail(changed));
        added = world.insert_like(changed, "Somewhere New");
    })
    .await;
    wait_until("the publisher has the details", || async { server.status().await["details"]["current"] == 61 }).await;
    for id in [changed, added.unwrap()] {
        let detail = format!("/api/listings/{id}.json");
        let new = server.ok(&detail).await.text().to_owned();
        // A minute is longer than that.
        wait_until("the replica has the detail", || async { replica.get(&detail).await.text() == new }).await;
    }
}

#[tokio::test]
async fn a_rollback_is_a_new_head_with_the_old_data() {
    let store = Store::new();
    let (origin, server) = publishing(400, &store.url(), |setup| setup).await;
    let old = server.snapshot().await;
    store.has(&server).await;
    change(&origin, &server).await;
    let newest = store.has(&server).await;
    let done = server.admin(http::Method::POST, &format!("/snapshots/{old}/rollback")).await;
    assert_eq!(done.status, 200, "{done:?}");
    let back = store.until("the rollback", |head| head.snapshot() == old).await;
    assert!(back.sequence() > newest.sequence());
    leads_to(&store, &back, &server).await;
    let done = server.admin(http::Method::POST, "/snapshots/release").await;
    assert_eq!(done.status, 200, "{done:?}");
    let released = store.until("the release", |head| head.snapshot() == newest.snapshot()).await;
    assert!(released.sequence() > back.sequence());
    leads_to(&store, &released, &server).await;
}

#[tokio::test]
async fn a_publisher_that_is_killed_at_any_instant_leaves_a_head_whose_objects_are_all_there() {
    const ROUNDS: u32 = 12;
    let store = Store::new();
    let (origin, mut server) = publishing(300, &store.url(), |setup| setup).await;
    store.has(&server).await;
    let (mut aim, mut last) = (Aim::new(Duration::from_millis(400)), 0);
    for round in 0..ROUNDS {
        let before = server.snapshot().await;
        origin.edit(|world| {
            let id = world.ids()[round as usize];
            assert!(world.touch(id));
        });
        server.refresh().await;
        wait_until("the change is served", || async { server.snapshot().await != before }).await;
        tokio::time::sleep(aim.next()).await;
        server.down().await;
        // It and all its objects are checked as they are read.
        let head = store.head().unwrap();
        assert!(head.sequence() >= last, "round {round}");
        aim.learn(head.snapshot() != before);
        last = head.sequence();
        server.restart().await;
        let head = store.has(&server).await;
        assert!(head.sequence() >= last, "round {round}");
        last = head.sequence();
    }
    leads_to(&store, &store.has(&server).await, &server).await;
}

#[tokio::test]
async fn an_offline_server_publishes_what_it_has_imported() {
    let (store, desk) = (Store::new(), Desk::new());
    let (_origin, mirror) = crate::gap::mirrored(80, sample_origin::Switches::default()).await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "all.gsb").await;
    desk.does(&Setup::offline(), &desk.data(), &["import"], "all.gsb").await;
    let server = desk.serve_copy(Setup::offline().set("publish.url", &store.url())).await;
    let head = store.has(&server).await;
    leads_to(&store, &head, &mirror).await;
}

#[tokio::test]
async fn mistakes_in_the_configuration_are_found_by_check() {
    let dir = tempfile::tempdir().unwrap();
    for (sets, expected) in [
        (vec![("publish.url", "https://example.org/x")], "publish.url: \"https://example.org/x\" is not"),
        (vec![("publish.url", "s3://me:hunter2@b/x")], "publish.url: "),
        (vec![("publish.sign_password_file", "/none")], "publish.sign_password_file: "),
        (vec![("publish.url", "s3://b/x"), ("publish.sign_key", "/none")], "\"/none\" cannot be opened"),
        (vec![("publish.url", "s3://b/x"), ("publish.options.nonsense", "hunter2")], "publish.options.nonsense: "),
        (vec![("publish.url", "s3://b/x"), ("publish.options.aws_allow_http", "hunter2")], "publish.options: "),
        (vec![("publish.url", "file:///x"), ("publish.options.aws_region", "hunter2")], "publish.options.aws_region"),
        (vec![("publish.keep", "1s")], "publish.keep: "),
    ] {
        let setup = sets.iter().fold(Setup::offline(), |setup, (key, value)| setup.set(key, value));
        let (code, said) = run(&setup.arguments(&["check"], &dir.path().join("data"))).await;
        assert!(code == 64 && said.contains(expected), "{sets:?}: {code} {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let key = dir.path().join("k.key");
    let encrypted = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encrypted.key");
    for (text, expected) in [
        ("no key\n".to_owned(), "is not a minisign secret key"),
        (
            std::fs::read_to_string(encrypted).unwrap(),
            "publish.sign_key: needs a password: set publish.sign_password_file",
        ),
    ] {
        std::fs::write(&key, text).unwrap();
        let setup = Setup::offline().set("publish.url", "file:///x").set("publish.sign_key", key.to_str().unwrap());
        let (code, said) = run(&setup.arguments(&["check"], &dir.path().join("data"))).await;
        assert!(code == 64 && said.contains(expected), "{code} {said}");
    }
    let good = Setup::offline().set("publish.url", "s3://b/x").set("publish.options.aws_region", "hunter2");
    let (code, said) = run(&good.arguments(&["check"], &dir.path().join("data"))).await;
    assert!(code == 0 && said.contains("aws_region") && !said.contains("hunter2"), "{code} {said}");
}
