//! What a replica takes, and what its clients get.

use std::fs;

use http::Method;
use sample_origin::{Switches, World};

use super::{Shelf, all_of, follows, health, polled, replica_of, says};
use crate::client::plain_client;
use crate::gap::{LIST, is_one_of, mirrored};
use crate::harness::nginx::OnPort;
use crate::harness::{Setup, edit, run, soon, wait_until};

#[tokio::test]
async fn a_replica_answers_as_its_publisher_does_and_follows_each_change() {
    let (origin, mirror) = mirrored(230, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let first = shelf.snapshot();
    let sequence = shelf.publish();
    let replica = replica_of(&shelf).start().await;
    follows(&replica, &first, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    let status = replica.status().await;
    assert_eq!((&status["use"], &status["state"]), (&"replica".into(), &"healthy".into()), "{status:#}");
    assert_eq!(
        (&status["replica"]["behind_seconds"], &status["replica"]["why"]),
        (&0.into(), &().into()),
        "{status:#}"
    );
    assert!(status["replica"]["last_poll"].is_string() && mirror.status().await["replica"].is_null());

    let ids = origin.world(World::ids);
    edit(&origin, &mirror, |world| {
        assert!(world.touch(ids[3]) && world.change_detail(ids[3]) && world.remove(ids[50]));
        world.insert_like(ids[80], "The New Park").unwrap();
    })
    .await;
    shelf.delta(&mirror).await;
    edit(&origin, &mirror, |world| assert!(world.touch(ids[7]))).await;
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    for target in ["/dumps/listings.csv", "/dumps/listings.ndjson", "/dumps/listings.geojson", "/api/sports.json"] {
        let [ours, theirs] = [replica.ok(target).await, mirror.ok(target).await];
        assert_eq!((ours.etag(), ours.text()), (theirs.etag(), theirs.text()), "{target}");
    }
    // Also of the snapshot between, which it never served.
    for since in [&first, shelf.chain[1]["snapshot"].as_str().unwrap()] {
        let target = format!("/changes.json?since={since}");
        let [ours, theirs] = [replica.ok(&target).await.json(), mirror.ok(&target).await.json()];
        for key in ["added", "changed", "removed"] {
            assert_eq!(ours[key], theirs[key], "{target}");
        }
    }
    // Snapshots that it followed answer, no others.
    assert_eq!(replica.ok(&format!("{LIST}?snapshot={first}")).await.the("mirror-snapshot"), first);
    replica.get(&format!("{LIST}?snapshot={}", "0".repeat(32))).await.assert_problem(410, &[&shelf.snapshot()]);
    assert_eq!(replica.get("/api/venues.json").await.status, 404, "nothing is passed through");
    assert!(names(&replica.data_dir()).iter().all(|name| !name.contains("follow-")), "nothing unfinished is left");
}

fn names(directory: &std::path::Path) -> Vec<String> {
    crate::gap::names(directory)
}

#[tokio::test]
async fn a_head_that_only_confirms_moves_the_age_and_no_entity_tag() {
    let (_origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    shelf.shift_ms = -500_000;
    let sequence = shelf.publish();
    let replica = replica_of(&shelf).start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    let before = replica.ok(LIST).await;
    assert!(before.age().is_some_and(|age| (500..560).contains(&age)), "{before:?}");
    shelf.shift_ms = -100_000;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    let after = replica.ok(LIST).await;
    assert!(after.age().is_some_and(|age| (100..160).contains(&age)), "{after:?}");
    assert_eq!(before.etag(), after.etag());
    assert_ne!(before.the("mirror-confirmed"), after.the("mirror-confirmed"));
    assert_ne!(before.json()["generated_at"], after.json()["generated_at"]);
}

#[tokio::test]
async fn without_its_store_a_replica_starts_and_serves_and_then_says_that_it_is_stale() {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
    let mut replica = replica_of(&shelf).set("ttl", "2s").start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    let all = all_of(&replica).await;
    let aside = shelf.root().with_extension("aside");
    fs::rename(shelf.root(), &aside).unwrap();
    replica.restart().await;
    assert_eq!(replica.admin(Method::GET, "/readyz").await.status, 200, "it serves its own data at once");
    is_one_of(&all_of(&replica).await, &[&all]);
    says(&replica, "there is no head.json in the object store").await;
    wait_until("it is unhealthy", || async { health(&replica).await.0 == 503 }).await;
    let (_, status) = health(&replica).await;
    let reason = status["reasons"][0].as_str().unwrap();
    assert!(
        reason.contains("(limit 6 s): there is no head.json") && status["replica"]["sequence"] == sequence,
        "{reason}"
    );
    replica.ok(LIST).await;
    // The store is back, with news.
    fs::rename(&aside, shelf.root()).unwrap();
    edit(&origin, &mirror, |world| assert!(world.touch(world.ids()[5]))).await;
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
}

#[tokio::test]
async fn a_store_that_stands_still_is_noticed_although_it_answers() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
    let replica = replica_of(&shelf).set("ttl", "1s").start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    says(&replica, "either the publisher does not write, or the object store shows an old state").await;
    let (code, status) = health(&replica).await;
    assert!(
        code == 503
            && status["reasons"][0].as_str().unwrap().contains("the newest head in the object store was written at")
    );
    polled(&replica, "unchanged").await;
    assert_eq!(replica.ok(LIST).await.total(), 60);
    shelf.publish();
    soon("a new head makes it healthy", || async { health(&replica).await.0 == 200 }).await;
}

#[tokio::test]
async fn before_there_is_a_head_a_replica_waits_and_says_so() {
    let shelf = Shelf::new();
    let replica = replica_of(&shelf).start().await;
    says(&replica, "no publisher has written there yet").await;
    let ready = replica.admin(Method::GET, "/readyz").await;
    assert!(ready.status == 503 && ready.text().contains("there is no head.json in the object store"), "{ready:?}");
    let list = replica.get(LIST).await;
    list.assert_problem(503, &["no data from its publisher yet"]);
    assert!(list.header("retry-after").is_some());
}

#[tokio::test]
async fn a_detail_that_the_publisher_did_not_have_is_503_until_it_comes() {
    let origin = crate::harness::origin(40).await;
    let mirror = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    mirror.ready().await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
    let replica = replica_of(&shelf).start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    let id = replica.ok(LIST).await.ids()[0];
    let target = format!("/api/listings/{id}.json");
    let missing = replica.get(&target).await;
    missing.assert_problem(503, &["its publisher did not have it yet"]);
    assert_eq!(missing.the("retry-after"), "60");
    // Behind a load balancer the publisher answers. A replica without data does no harm there, either.
    let empty = Setup::offline().set("replica.url", "file:///nowhere").start().await;
    let all = OnPort::balancing(&[replica.public, empty.public, mirror.public]).await;
    for id in replica.ok(LIST).await.ids() {
        let url = format!("{}/api/listings/{id}.json", all.url());
        assert_eq!(plain_client().get(url).send().await.unwrap().status(), 200, "{id}");
    }
    let theirs = mirror.ok(&target).await;
    // The same snapshot on both ends.
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    assert_eq!(replica.ok(&target).await.etag(), theirs.etag());
}

#[tokio::test]
async fn a_restart_forgets_neither_where_the_replica_stands_nor_the_highest_head() {
    let (origin, mirror) = mirrored(400, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
    let mut replica = replica_of(&shelf).start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    replica.restart().await;
    edit(&origin, &mirror, |world| assert!(world.touch(world.ids()[5]))).await;
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    let metrics = replica.admin(Method::GET, "/metrics").await;
    let received =
        metrics.text().lines().find_map(|line| line.strip_prefix("grandstand_replica_received_bytes_total "));
    let (received, full) = (received.unwrap().parse::<u64>().unwrap(), shelf.chain[0]["bytes"].as_u64().unwrap());
    assert!((1..full / 2).contains(&received), "{received} bytes since the restart; the full bundle has {full}");
    replica.restart().await;
    let mut older = shelf.head();
    older["sequence"] = (sequence - 1).into();
    shelf.write(&older);
    says(&replica, "is older than head").await;
    assert_eq!(replica.snapshot().await, shelf.snapshot());
}

#[tokio::test]
async fn a_reload_changes_how_often_a_replica_looks() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    shelf.publish();
    let file = shelf.root().with_extension("toml");
    fs::write(&file, "replica.poll = \"1h\"\n").unwrap();
    let setup = replica_of(&shelf).without("replica.poll").serving(&["--config", file.to_str().unwrap()]);
    let replica = setup.start().await;
    replica.ready().await;
    let sequence = shelf.publish();
    fs::write(&file, "replica.poll = \"200ms\"\n").unwrap();
    let report = replica.admin(Method::POST, "/reload").await.json();
    assert_eq!(report["applied"], serde_json::json!(["replica.poll"]), "{report}");
    follows(&replica, &shelf.snapshot(), sequence).await;
}

#[tokio::test]
async fn a_replica_holds_nothing_back_that_its_publisher_serves() {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
    let replica = replica_of(&shelf).start().await;
    follows(&replica, &shelf.snapshot(), sequence).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(4)));
    mirror.refresh().await;
    wait_until("the publisher holds it back", || async { !mirror.status().await["held"].is_null() }).await;
    assert_eq!(mirror.admin(Method::POST, "/snapshots/accept").await.status, 202);
    wait_until("it is accepted", || async { mirror.snapshot().await != shelf.snapshot() }).await;
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    let (code, status) = health(&replica).await;
    assert!(code == 200 && status["held"].is_null(), "{status:#}");
    assert_eq!(replica.ok(LIST).await.total(), mirror.ok(LIST).await.total());
}

#[tokio::test]
async fn data_older_than_the_bound_for_bundles_makes_a_replica_unhealthy() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    shelf.shift_ms = -300_000;
    let sequence = shelf.publish();
    let strict = replica_of(&shelf).set("bundle.max_age", "1m").start().await;
    let lax = replica_of(&shelf).start().await;
    for replica in [&strict, &lax] {
        follows(replica, &shelf.snapshot(), sequence).await;
        assert_eq!(replica.ok(LIST).await.total(), 60, "it serves all the same");
    }
    assert_eq!((health(&strict).await.0, health(&lax).await.0), (503, 200));
    let reasons = health(&strict).await.1["reasons"].to_string();
    assert!(reasons.contains("(limit 60 s)"), "{reasons}");
}

#[tokio::test]
async fn commands_that_need_an_origin_are_refused() {
    let shelf = Shelf::new();
    let replica = replica_of(&shelf).set("replica.poll", "1h").start().await;
    let desk = crate::gap::Desk::new();
    for command in ["sync", "audit"] {
        let (code, said) = run(&replica_of(&shelf).arguments(&[command], &desk.data())).await;
        assert!(code == 64 && said.contains("replica.url") && said.contains("needs a mirror"), "{command}: {said}");
    }
    assert_eq!(replica.admin(Method::POST, "/sync").await.status, 409);
    assert_eq!(replica.admin(Method::POST, "/snapshots/accept").await.status, 409);
    // Polls are an hour apart: only the request makes it look again.
    says(&replica, "no head.json").await;
    let before = super::polls(&replica, "failed").await;
    assert_eq!(replica.admin(Method::POST, "/refresh").await.status, 202);
    soon("it looks", || async { super::polls(&replica, "failed").await > before }).await;
}
