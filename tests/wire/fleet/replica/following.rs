//! What a replica takes, and what its clients get.

use std::collections::BTreeSet;
use std::fs;

use http::Method;
use sample_origin::{Switches, World};

use super::{Shelf, all_of, counted, follows, health, polled, replica_of, says};
use crate::gap::{LIST, is_one_of, mirrored, names};
use crate::harness::{edit, run, soon, wait_until};

#[tokio::test]
async fn a_replica_answers_as_its_publisher_does_and_follows_each_change_with_its_deltas_alone() {
    let (origin, mirror) = mirrored(400, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let first = shelf.snapshot();
    let sequence = shelf.publish();
    let mut replica = replica_of(&shelf).start().await;
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

    // A restart forgets neither where the replica stands nor the highest head.
    replica.restart().await;
    edit(&origin, &mirror, |world| assert!(world.touch(ids[5]))).await;
    shelf.delta(&mirror).await;
    let sequence = shelf.publish();
    follows(&replica, &shelf.snapshot(), sequence).await;
    let (received, full) =
        (counted(&replica, "grandstand_replica_received_bytes_total").await, &shelf.chain[0]["bytes"]);
    assert!(
        (1..full.as_u64().unwrap() / 2).contains(&received),
        "{received} bytes since the restart; the full bundle has {full}"
    );
    replica.restart().await;
    let mut older = shelf.head();
    older["sequence"] = (sequence - 1).into();
    shelf.write(&older);
    says(&replica, "is older than head").await;
    assert_eq!(replica.snapshot().await, shelf.snapshot());
}

#[tokio::test]
async fn a_head_that_only_confirms_moves_the_age_and_health_and_no_entity_tag() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let mut replica = replica_of(&shelf).start().await;
    let strict = replica_of(&shelf).set("bundle.max_age", "3m").start().await;
    let (mut tags, mut stamps) = (BTreeSet::new(), BTreeSet::new());
    // The publisher's clock may be a little ahead: that counts as now, also after a restart.
    for (shift_s, ages, codes) in [
        (-300, 300..360, (200, 503)),
        (-90, 90..150, (200, 200)),
        (45, 0..40, (200, 200)),
        (600, 0..0, (503, 503)),
        (-1, 1..40, (200, 200)),
    ] {
        shelf.shift_ms = shift_s * 1000;
        let sequence = shelf.publish();
        follows(&replica, &shelf.snapshot(), sequence).await;
        follows(&strict, &shelf.snapshot(), sequence).await;
        for _ in 0..2 {
            let list = replica.ok(LIST).await;
            assert!(ages.is_empty() || list.age().is_some_and(|age| ages.contains(&age)), "{shift_s}: {list:?}");
            tags.insert(list.etag());
            stamps.insert((list.header("mirror-confirmed"), list.json()["generated_at"].to_string()));
            let ((code, status), (strict_code, strict)) = (health(&replica).await, health(&strict).await);
            assert_eq!((code, strict_code), codes, "{shift_s}: {status:#}");
            // Further ahead it confirms nothing.
            assert_eq!(status["unconfirmed"] == true, code == 503, "{status:#}");
            assert!(shift_s != -300 || strict["reasons"].to_string().contains("(limit 180 s)"), "{strict:#}");
            replica.restart().await;
            replica.ready().await;
        }
    }
    assert_eq!(tags.len(), 1);
    assert!(stamps.len() >= 4, "{stamps:?}");
}

#[tokio::test]
async fn a_store_that_is_empty_away_or_stands_still_is_told_and_the_replica_serves_what_it_has() {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let mut shelf = Shelf::new();
    let mut replica = replica_of(&shelf).set("ttl", "2s").start().await;
    says(&replica, "no publisher has written there, the head was removed").await;
    let ready = replica.admin(Method::GET, "/readyz").await;
    assert!(ready.status == 503 && ready.text().contains("there is no head.json in the object store"), "{ready:?}");
    let list = replica.get(LIST).await;
    list.assert_problem(503, &["no data from its publisher yet"]);
    assert!(list.header("retry-after").is_some());
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
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
    // It stands still: it answers, and nobody writes.
    says(
        &replica,
        "or it does not write, or its clock differs from the one here, or the object store shows an old state",
    )
    .await;
    let (code, status) = health(&replica).await;
    let reason = status["reasons"][0].as_str().unwrap();
    assert!(code == 503 && reason.contains("the newest head in the object store was written at"), "{reason}");
    polled(&replica, "unchanged").await;
    assert_eq!(replica.ok(LIST).await.total(), 120);
    shelf.publish();
    soon("a new head makes it healthy", || async { health(&replica).await.0 == 200 }).await;
}

#[tokio::test]
async fn a_replica_looks_when_it_is_asked_or_reconfigured_and_refuses_what_needs_an_origin() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    let file = shelf.root().with_extension("toml");
    fs::write(&file, "replica.poll = \"1h\"\n").unwrap();
    let setup = replica_of(&shelf).without("replica.poll").serving(&["--config", file.to_str().unwrap()]);
    let replica = setup.start().await;
    let desk = crate::gap::Desk::new();
    for command in ["sync", "audit"] {
        let (code, said) = run(&replica_of(&shelf).arguments(&[command], &desk.data())).await;
        assert!(code == 64 && said.contains("replica.url") && said.contains("needs a mirror"), "{command}: {said}");
    }
    assert_eq!(replica.admin(Method::POST, "/sync").await.status, 409);
    assert_eq!(replica.admin(Method::POST, "/snapshots/accept").await.status, 409);
    // Polls are an hour apart: only the request makes it look again.
    says(&replica, "no head.json").await;
    shelf.full(&mirror).await;
    let sequence = shelf.publish();
    assert_eq!(replica.admin(Method::POST, "/refresh").await.status, 202);
    follows(&replica, &shelf.snapshot(), sequence).await;
    let sequence = shelf.publish();
    fs::write(&file, "replica.poll = \"200ms\"\n").unwrap();
    let report = replica.admin(Method::POST, "/reload").await.json();
    assert_eq!(report["applied"], serde_json::json!(["replica.poll"]), "{report}");
    follows(&replica, &shelf.snapshot(), sequence).await;
}
