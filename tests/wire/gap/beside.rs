//! Importing beside a running replica: no request fails meanwhile, and everything shows at once.

use std::collections::BTreeSet;

use sample_origin::World;

use super::{LIST, Load, Two, everything, is_one_of, none_failed, targets, two};
use crate::harness::{Server, Setup, wait_until};

/// One listing is touched, another removed.
fn few(world: &mut World, ids: &[u64]) {
    assert!(world.touch(ids[7]) && world.remove(ids[ids.len() / 2]) && world.change_detail(ids[7]));
}

async fn changes(server: &Server, since: &str) -> [BTreeSet<u64>; 3] {
    let told = server.ok(&format!("/changes.json?since={since}")).await.json();
    let ids = |key: &str| told[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
    ["added", "changed", "removed"].map(ids)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_beside_a_replica_under_load_switches_and_fails_nobody() {
    let Two { desk, ids, old, new } = two(300, few).await;
    let (touched, removed) = (ids[7], ids[150]);
    let server = Setup::offline().start().await;
    // Unready, and told so, until there is something.
    assert_eq!(server.admin(http::Method::GET, "/readyz").await.status, 503);
    let data = server.data_dir();
    let said = desk.does(&server.setup, &data, &["import"], "old.gsb").await;
    assert!(said.contains(&old.0), "{said}");
    server.ready().await;
    is_one_of(&everything(&server).await, &[&old.1]);

    let hot = format!("/api/listings/{touched}.json");
    for _ in 0..5 {
        server.ok(&hot).await;
    }
    let known: Vec<u64> = ids.iter().copied().filter(|id| *id != removed).collect();
    let load = Load::on(&server, 8, &targets(&known[..60]));
    let said = desk.does(&server.setup, &data, &["import"], "new.gsb").await;
    assert!(said.contains(&new.0) && said.contains(&old.0) && said.contains("rollback"), "{said}");
    let at_once = server.ok(&hot).await;
    assert_eq!(at_once.text(), new.1[&hot].2, "a detail that was hot before");
    is_one_of(&everything(&server).await, &[&new.1]);
    let replies = load.stop().await;
    none_failed(&replies, &[&old.0, &new.0]);
    let both =
        [&old.0, &new.0].map(|id| replies.iter().flatten().any(|(_, reply)| reply.the("mirror-snapshot") == *id));
    assert_eq!(both, [true, true], "the load saw the switch");
    for (target, reply) in replies.iter().flatten().filter(|(target, _)| new.1.contains_key(target)) {
        let body = reply.text();
        assert!([&old.1, &new.1].iter().any(|state| state.get(target).is_some_and(|told| told.2 == body)), "{target}");
    }
    assert_eq!(changes(&server, &old.0).await, [[].into(), [touched].into(), [removed].into()]);

    // Once more changes nothing.
    let tag = server.ok(LIST).await.etag();
    let said = desk.does(&server.setup, &data, &["import"], "new.gsb").await;
    assert!(!said.contains("warning"), "{said}");
    assert_eq!(server.ok(LIST).await.etag(), tag);
    is_one_of(&everything(&server).await, &[&new.1]);
    let list = server.admin(http::Method::GET, "/snapshots").await.json();
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 2, "{list}");
    assert_eq!(changes(&server, &old.0).await[1], [touched].into());
}

#[tokio::test]
async fn an_older_bundle_is_refused_unless_it_is_wanted() {
    let Two { desk, ids, old, new } = two(130, few).await;
    let removed = ids[65];
    let mut server = Setup::offline().start().await;
    let data = server.data_dir();
    desk.does(&server.setup, &data, &["import"], "new.gsb").await;
    is_one_of(&everything(&server).await, &[&new.1]);
    desk.refuses(&server.setup, &data, &["import"], "old.gsb", &[&old.0, "--allow-older"]).await;
    let bundle = || std::fs::read(desk.path("old.gsb")).unwrap();
    for (query, status) in [("", 409), ("?allow_older=false", 409), ("?allow_older=yes", 400)] {
        let url = format!("http://{}/bundle{query}", server.admin);
        let reply = crate::client::plain_client().post(url).body(bundle()).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), status, "{query}");
    }
    is_one_of(&everything(&server).await, &[&new.1]);
    let said = desk.does(&server.setup, &data, &["import", "--allow-older"], "old.gsb").await;
    assert!(said.contains("warning") && said.contains("older than"), "{said}");
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        let list = server.ok(&format!("{LIST}?per_page=100")).await;
        assert_eq!(list.text(), old.1[&format!("{LIST}?per_page=100&page=1")].2);
        let was_removed = format!("/api/listings/{removed}.json");
        assert_eq!(server.ok(&was_removed).await.text(), old.1[&was_removed].2);
        assert_eq!(changes(&server, &new.0).await[0], [removed].into());
    }
    // Without a server it is the same.
    server.down().await;
    desk.does(&server.setup, &data, &["import"], "new.gsb").await;
    desk.refuses(&server.setup, &data, &["import"], "old.gsb", &[&old.0, "--allow-older"]).await;
    let said = desk.does(&server.setup, &data, &["import", "--allow-older"], "old.gsb").await;
    assert!(said.contains("warning") && said.contains("older than"), "{said}");
    server.restart().await;
    assert_eq!(server.snapshot().await, old.0);
    desk.does(&server.setup, &data, &["import"], "new.gsb").await;
    is_one_of(&everything(&server).await, &[&new.1]);
}

#[tokio::test]
async fn a_rollback_waits_out_an_import_of_data_that_is_older_than_max_age_and_unhealthy() {
    let Two { desk, old, new, .. } = two(60, few).await;
    let server = Setup::offline().set("bundle.max_age", "1s").start().await;
    let data = server.data_dir();
    for name in ["old.gsb", "new.gsb"] {
        desk.does(&server.setup, &data, &["import"], name).await;
    }
    let reply = server.admin(http::Method::POST, &format!("/snapshots/{}/rollback", old.0)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let said = desk.does(&server.setup, &data, &["import"], "new.gsb").await;
    assert!(said.contains("not current yet") && said.contains("release"), "{said}");
    assert_eq!(server.snapshot().await, old.0);
    assert_eq!(server.admin(http::Method::POST, "/snapshots/release").await.status, 200);
    wait_until("it is unhealthy", || async { server.admin(http::Method::GET, "/status").await.status == 503 }).await;
    let reason = server.status().await["reasons"][0].as_str().unwrap().to_owned();
    assert!(reason.starts_with("data not confirmed for ") && reason.ends_with(" s (limit 1 s)"), "{reason}");
    is_one_of(&everything(&server).await, &[&new.1]);
}

#[tokio::test]
async fn imports_and_exports_at_once_are_done_one_after_the_other() {
    let Two { desk, old, new, .. } = two(300, few).await;
    let server = Setup::offline().start().await;
    let (setup, data) = (&server.setup, server.data_dir());
    desk.does(setup, &data, &["import"], "old.gsb").await;
    let since = ["export", "--since", &old.0];
    let (one, two, export, delta) = tokio::join!(
        desk.does(setup, &data, &["import"], "new.gsb"),
        desk.does(setup, &data, &["import"], "new.gsb"),
        desk.does(setup, &data, &["export"], "meanwhile.gsb"),
        desk.does(setup, &data, &since, "delta.gsb"),
    );
    assert!([&one, &two].iter().all(|said| said.contains(&new.0)), "{one} {two}");
    assert!([&export, &delta].iter().all(|said| said.contains(&old.0) || said.contains(&new.0)), "{export} {delta}");
    is_one_of(&everything(&server).await, &[&new.1]);
    let meanwhile = desk.bytes("meanwhile.gsb");
    assert!(["old.gsb", "new.gsb"].iter().any(|name| desk.bytes(name) == meanwhile), "it is one of the two");
    desk.does(setup, &data, &["verify"], "delta.gsb").await;
    // Without a server, one command comes first, and the other waits or names it.
    drop(server);
    let offline = Setup::offline();
    desk.does(&offline, &desk.data(), &["import"], "old.gsb").await;
    let here = desk.data();
    let both = tokio::join!(
        desk.bundle(&offline, &here, &["import"], "new.gsb"),
        desk.bundle(&offline, &here, &["import"], "new.gsb"),
    );
    for (code, said) in [&both.0, &both.1] {
        assert!(*code == 0 || (*code == 1 && said.contains("process")), "{code} {said}");
    }
    assert!(both.0.0 == 0 || both.1.0 == 0, "{both:?}");
    let server = desk.serve_copy(offline).await;
    is_one_of(&everything(&server).await, &[&new.1]);
}
