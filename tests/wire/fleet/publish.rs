//! The publisher as a process: what it writes to a directory, when, and what a restart or a kill makes of it.

mod objects;
mod several;
mod signed;
mod unwell;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use http::Method;
use sample_origin::{CountStyle, Origin, Switches, World};

use super::store::{Head, Store, leads_to, leads_to_all, publishing, replica_of, told};
use crate::gap::{Desk, LIST, mirrored};
use crate::harness::{Aim, Server, Setup, edit, origin, run, wait_until};

/// Changes one listing at the origin, and waits until the mirror serves it.
async fn change(origin: &Origin, server: &Server) -> String {
    edit(origin, server, |world: &mut World| {
        let ids = world.ids();
        assert!(world.touch(ids[ids.len() / 2]));
    })
    .await
}

/// Asserts that others can read what a head names, and enter its directories.
fn is_readable_by_others(store: &Store, head: &Head) {
    let root = store.root();
    let files = head.keys().into_iter().chain(["head.json".to_owned()]).map(|key| (root.join(key), 0o644));
    let below = ["", "full", "delta", "journal"].map(|name| root.join(name));
    let directories = below.into_iter().chain([root.parent().unwrap().to_owned()]).map(|path| (path, 0o755));
    for (path, expected) in files.chain(directories) {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, expected, "{}", path.display());
    }
}

#[tokio::test]
async fn a_mirror_writes_what_it_serves_then_the_changes_and_goes_on_after_restarts_and_rollbacks() {
    let store = Store::new();
    // As under the shipped unit, whose umask keeps everything private: a web server of another user hands the files out.
    let private = |setup: Setup| setup.under(&["bash", "-c", r#"umask 077; exec "$0" "$@""#]);
    let (origin, mut server) = publishing(400, &store.url(), private).await;
    let first = store.has(&server).await;
    assert_eq!((first.deltas().len(), &first.outer["signature"]), (0, &serde_json::Value::Null));
    assert_eq!(store.keys(), first.keys(), "nothing else lies there");
    leads_to_all(&store, &first, &server).await;
    // Origins date their answers to the second. A refresh that finds nothing new is a new head alone.
    let confirmed = |head: &Head| head.inner["confirmed_ms"].as_i64().unwrap();
    wait_until("a later confirmation", || async {
        server.refreshed(&origin).await;
        store.head().is_some_and(|head| confirmed(&head) > confirmed(&first))
    })
    .await;
    assert_eq!(store.keys(), first.keys());

    let mut before = first.clone();
    for round in 1..=2 {
        change(&origin, &server).await;
        let head = store.has(&server).await;
        assert!(head.full() == first.full() && head.deltas().len() >= round && head.sequence() > before.sequence());
        leads_to(&store, &head, &server).await;
        before = head;
    }
    wait_until("all is told", || async { told(&server).await["behind_seconds"] == 0 }).await;
    let status = told(&server).await;
    assert_eq!(status["sequence"], store.head().unwrap().sequence());
    assert!(status["last_success"].is_string() && status["why"].is_null(), "{status}");
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert!(metrics.text().contains("grandstand_publish_objects_total{kind=\"full\"} 1\n"), "{}", metrics.text());

    let old = before.snapshot().to_owned();
    server.restart().await;
    server.settled(&origin).await;
    change(&origin, &server).await;
    let after = store.has(&server).await;
    assert!(after.full() == first.full() && after.deltas().len() > before.deltas().len());
    assert_eq!(server.admin(Method::POST, &format!("/snapshots/{old}/rollback")).await.status, 200);
    let back = store.until("the rollback", |head| head.snapshot() == old).await;
    leads_to(&store, &back, &server).await;
    assert_eq!(server.admin(Method::POST, "/snapshots/release").await.status, 200);
    let released = store.until("the release", |head| head.snapshot() == after.snapshot()).await;
    leads_to(&store, &released, &server).await;
    let sequences = [&before, &after, &back, &released].map(Head::sequence);
    assert!(sequences.is_sorted_by(|before, after| before < after), "{sequences:?}");
    is_readable_by_others(&store, &released);
}

#[tokio::test]
async fn a_mirror_publishes_before_its_first_crawl_is_certified_and_new_details_within_seconds() {
    let (store, origin) = (Store::new(), origin(60).await);
    let server = Setup::mirror_of(&origin).set("publish.url", &store.url()).start().await;
    server.ready().await;
    store.until("a head", |_| true).await;
    server.settled(&origin).await;
    let head = store.until("the certificate", |head| head.inner["certificate"] != "provisional").await;
    assert_eq!(head.snapshot(), server.snapshot().await);
    let replica = replica_of(&store.url()).start().await;
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
        // Other details may come a minute later, which is longer than this waits.
        wait_until("the replica has the detail", || async { replica.get(&detail).await.text() == new }).await;
    }
}

#[tokio::test]
async fn evidence_travels_with_the_full_bundle_and_again_when_it_has_changed() {
    let (store, desk) = (Store::new(), Desk::new());
    // Without counts only the origin's lists say which listings have a city.
    let (origin, mut server) = mirrored(260, Switches { counts: CountStyle::Absent, ..Switches::default() }).await;
    server.restart_with("publish.url", &store.url()).await;
    server.settled(&origin).await;
    store.has(&server).await;
    let replica = replica_of(&store.url()).start().await;
    let keeps_evidence = async |from: usize| {
        let mut keeps = Vec::new();
        for delta in store.has(&server).await.deltas().iter().skip(from) {
            fs::write(desk.path("delta.gsb"), store.read(delta["key"].as_str().unwrap())).unwrap();
            keeps.push(desk.inspect("delta.gsb").await["manifest"]["keeps_evidence"] == true);
        }
        keeps
    };
    let of_slugs = async |server: &Server| {
        let mut lists = Vec::new();
        for slug in crate::compare::slugs(&origin, "cities") {
            let reply = server.get(&format!("{LIST}?city={slug}&per_page=100")).await;
            lists.push((slug, reply.status, (reply.status == 200).then(|| reply.json()["items"].clone())));
        }
        lists
    };
    let alike =
        async || wait_until("lists are alike", || async { of_slugs(&replica).await == of_slugs(&server).await }).await;
    alike().await;
    let before = store.head().unwrap().deltas().len();
    change(&origin, &server).await;
    let keeps = keeps_evidence(before).await;
    assert!(!keeps.is_empty() && keeps.iter().all(|keeps| *keeps), "{keeps:?}");
    alike().await;
    edit(&origin, &server, |world| {
        let ids = world.ids();
        assert!(ids.iter().step_by(3).all(|id| world.relocate(*id, "texarkana", Some("texas")) && world.touch(*id)));
    })
    .await;
    // Evidence alone would follow after a minute.
    change(&origin, &server).await;
    alike().await;
    let keeps = keeps_evidence(before).await;
    assert!(keeps.iter().any(|keeps| !keeps) || store.head().unwrap().deltas().is_empty(), "{keeps:?}");
}

#[tokio::test]
async fn a_publisher_that_is_killed_at_any_instant_leaves_a_head_whose_objects_are_all_there() {
    const ROUNDS: u32 = 12;
    let store = Store::new();
    let (origin, mut server) = publishing(300, &store.url(), Setup::alone).await;
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
async fn keys_and_options_that_cannot_be_used_are_found_by_check() {
    let dir = tempfile::tempdir().unwrap();
    let (file, bucket) = (("publish.url", "file:///x"), ("publish.url", "s3://b/x"));
    let [no_key, key] = ["no.key", "k.key"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    fs::write(&no_key, "no key\n").unwrap();
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/encrypted.key"), &key).unwrap();
    for (sets, code, expected) in [
        ([bucket, ("publish.sign_key", "/none")], 64, "\"/none\" cannot be opened"),
        ([bucket, ("publish.options.aws_allow_http", "hunter2")], 64, "publish.options: "),
        ([file, ("publish.sign_key", &no_key)], 64, "is not a minisign secret key"),
        ([file, ("publish.sign_key", &key)], 64, "publish.sign_key: needs a password: set publish.sign_password_file"),
        ([bucket, ("publish.options.aws_region", "hunter2")], 0, "aws_region"),
    ] {
        let setup = sets.iter().fold(Setup::offline(), |setup, (key, value)| setup.set(key, value));
        let (found, said) = run(&setup.arguments(&["check"], &dir.path().join("data"))).await;
        assert!(found == code && said.contains(expected) && !said.contains("hunter2"), "{sets:?}: {found} {said}");
    }
}
