//! What a fleet needs of a real object store, whichever it is. `tests/stores/run.py` starts one and runs these tests.

mod real;

use http::Method;
use sample_origin::{Origin, World};

use crate::fleet::relay::Line;
use crate::fleet::store::{follows, lists, says};
use crate::gap::everything;
use crate::harness::{PATIENCE, Server, Setup, edit, origin, quiet, until, wait_until};

use real::Real;

/// Changes one listing at the origin, and waits until the publisher serves it.
async fn change(origin: &Origin, publisher: &Server, which: usize) {
    edit(origin, publisher, |world: &mut World| {
        let id = world.ids()[which];
        assert!(world.touch(id));
    })
    .await;
}

async fn is_well(server: &Server, section: &str) {
    wait_until("nothing is behind", || async {
        let told = server.status().await[section].clone();
        told["why"].is_null() && told["behind_seconds"] == 0
    })
    .await;
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_carries_a_fleet() {
    let real = Real::at("carries").await;
    let (origin, mut publisher) = real.publishing(400, |setup| setup).await;
    let first = real.has(&publisher).await;
    let early = real.following(Setup::offline()).start().await;
    follows(&early, &publisher).await;
    for round in 1..=2 {
        change(&origin, &publisher, round).await;
        let head = real.has(&publisher).await;
        assert!(head.full() == first.full() && head.deltas().len() >= round);
        follows(&early, &publisher).await;
    }
    publisher.restart().await;
    publisher.settled(&origin).await;
    change(&origin, &publisher, 3).await;
    let head = real.has(&publisher).await;
    assert!(head.full() == first.full() && head.deltas().len() >= 3, "the chain goes on after a restart");
    let late = real.following(Setup::offline()).start().await;
    let back = first.snapshot();
    for replica in [&early, &late] {
        follows(replica, &publisher).await;
    }
    assert_eq!(publisher.admin(Method::POST, &format!("/snapshots/{back}/rollback")).await.status, 200);
    for replica in [&early, &late] {
        follows(replica, &publisher).await;
        assert_eq!(replica.snapshot().await, back);
        is_well(replica, "replica").await;
        assert!(!real.is_told_by(&replica.process.said()), "no secret is logged");
    }
    is_well(&publisher, "publish").await;
    assert!(!real.is_told_by(&publisher.process.said()), "no secret is logged");
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_that_loses_or_alters_objects_is_healed_and_old_objects_are_removed() {
    let real = Real::at("heals").await;
    // It looks after its objects every few seconds then.
    let (origin, publisher) = real.publishing(400, |setup| setup.set("publish.keep", "60s")).await;
    let replica = real.following(Setup::offline()).start().await;
    let first = real.has(&publisher).await;
    follows(&replica, &publisher).await;
    real.put("notes.txt", b"mine".to_vec()).await;
    for round in 0..4 {
        change(&origin, &publisher, round).await;
        let head = real.has(&publisher).await;
        let key = head.keys()[head.chain().len() - 1].clone();
        let bytes = real.get(&key).await.unwrap();
        let whole = bytes.clone();
        match round {
            0 => {
                let mut bytes = bytes;
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                real.put(&key, bytes).await;
            }
            1 => real.put(&key, bytes[..bytes.len() / 3].to_vec()).await,
            2 => real.delete(&key).await,
            _ => real.put(&key, real.get(head.full()).await.unwrap()).await,
        }
        wait_until("everything is written again", || async {
            // A head alone may be that of details that follow.
            let is_another = real.head().await.is_some_and(|later| later.full() != head.full());
            (is_another || real.get(&key).await.as_ref() == Some(&whole)) && publisher.process.said().contains(&key)
        })
        .await;
        real.has(&publisher).await;
        follows(&replica, &publisher).await;
        is_well(&replica, "replica").await;
    }
    let start = std::time::Instant::now();
    while real.get(first.full()).await.is_some() {
        assert!(start.elapsed() < 3 * PATIENCE, "{} is not removed", first.full());
        // Ages count up to the last write of the head, which follows each refresh.
        publisher.refresh().await;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    }
    real.has(&publisher).await;
    assert_eq!(real.get("notes.txt").await.unwrap(), b"mine");
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_with_an_old_head_is_not_followed_back() {
    let real = Real::at("stale").await;
    let (origin, publisher) = real.publishing(200, |setup| setup).await;
    real.has(&publisher).await;
    let old = real.get("head.json").await.unwrap();
    change(&origin, &publisher, 5).await;
    let newest = real.has(&publisher).await;
    let replica = real.following(Setup::offline()).start().await;
    follows(&replica, &publisher).await;
    real.put("head.json", old).await;
    says(&replica, "replica", "which is older than head").await;
    assert_eq!(replica.snapshot().await, newest.snapshot());
    wait_until("the publisher writes a later head", || async {
        real.head().await.is_some_and(|head| head.sequence() > newest.sequence())
    })
    .await;
    is_well(&replica, "replica").await;
    follows(&replica, &publisher).await;
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_that_is_away_or_hangs_disturbs_nobody() {
    let real = Real::at("away").await;
    let (origin, publisher) = real.publishing(200, |setup| setup).await;
    real.has(&publisher).await;
    let replica = real.following(Setup::offline()).start().await;
    follows(&replica, &publisher).await;
    for (line, named) in [(Line::Cut, "cannot be reached"), (Line::Hangs, "did not answer within")] {
        real.line.set(line);
        change(&origin, &publisher, usize::from(line == Line::Hangs)).await;
        says(&publisher, "publish", named).await;
        says(&replica, "replica", named).await;
        assert_eq!(replica.get("/api/listings.json").await.status, 200);
        assert_eq!(publisher.status().await["state"], "healthy");
        real.line.set(Line::Open);
        is_well(&publisher, "publish").await;
        follows(&replica, &publisher).await;
    }
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_that_refuses_is_told() {
    let real = Real::at("refuses").await;
    let Some((name, value)) = Real::wrong() else {
        eprintln!("this store takes everybody: not tried");
        return;
    };
    let origin = origin(60).await;
    let publisher = real.publishes(Setup::mirror_of(&origin)).set(&format!("publish.options.{name}"), &value);
    let publisher = publisher.start().await;
    publisher.settled(&origin).await;
    let replica = real.following(Setup::offline()).set(&format!("replica.options.{name}"), &value).start().await;
    says(&publisher, "publish", "refuses access").await;
    says(&replica, "replica", "refuses access").await;
    assert_eq!(publisher.status().await["state"], "healthy");
    assert!(!publisher.process.said().contains(&value) && !replica.process.said().contains(&value));
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn two_publishers_at_once_on_a_real_store_do_no_harm() {
    let real = Real::at("two").await;
    let (one, two) = (origin(60).await, origin(90).await);
    let mut servers = Vec::new();
    for origin in [&one, &two] {
        let server = real.publishes(Setup::mirror_of(origin)).start().await;
        server.settled(origin).await;
        servers.push(server);
    }
    let replica = real.following(Setup::offline()).start().await;
    let taken = || async { replica.status().await["replica"]["sequence"].as_u64() };
    let (mut last, mut followed) = (0, until("the replica has taken a head", taken).await);
    for round in 0..4 {
        for (origin, server) in [&one, &two].into_iter().zip(&servers) {
            origin.edit(|world| {
                let id = world.ids()[round];
                assert!(world.touch(id));
            });
            server.refresh().await;
        }
        let head = until("a later head", || async { real.head().await.filter(|head| head.sequence() > last) }).await;
        last = head.sequence();
        for key in head.keys() {
            assert!(real.get(&key).await.is_some(), "{key}");
        }
        // The replica serves what one of them has published, and never goes back.
        let shown = replica.snapshot().await;
        wait_until("it is of one of the publishers, by their logs", || async {
            servers.iter().any(|server| server.process.said().contains(&shown))
        })
        .await;
        let before = std::mem::replace(&mut followed, taken().await.unwrap());
        assert!(followed >= before, "{followed} after {before}");
    }
    for (origin, server) in [&one, &two].into_iter().zip(&servers) {
        quiet(origin).await;
        is_well(server, "publish").await;
    }
    // Each refresh writes a head, with a higher number than the last one of either.
    servers[0].refresh().await;
    wait_until("the replica has taken the last head", || async {
        let head = real.head().await.unwrap();
        Some(head.sequence()) == taken().await && head.snapshot() == replica.snapshot().await
    })
    .await;
    is_well(&replica, "replica").await;
    // The refresh may have found another change.
    wait_until("the replica serves all that one of the publishers does", || async {
        let found = lists(everything(&replica).await);
        found == lists(everything(&servers[0]).await) || found == lists(everything(&servers[1]).await)
    })
    .await;
}
