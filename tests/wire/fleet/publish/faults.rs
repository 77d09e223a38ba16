//! A store that refuses, fails, is full or hangs: serving goes on, `/status` says why, and all is published afterwards.

use std::time::{Duration, Instant};

use super::change;
use crate::fleet::bucket::{Bucket, Fault};
use crate::fleet::store::told;
use crate::gap::{LIST, everything};
use crate::harness::{Setup, each, origin, wait_until};

#[tokio::test]
async fn a_store_that_fails_is_told_and_disturbs_nobody_and_gets_everything_later() {
    let cases = [
        (Fault::Forbidden, "refuses access"),
        (Fault::Unavailable, "fail"),
        (Fault::Full, "is full"),
        (Fault::HangsUp, "cannot be reached"),
        (Fault::Nonsense, "publishing to s3://bucket/one fails"),
    ];
    each(cases, async |(fault, expected)| {
        let (origin, bucket) = (origin(60).await, Bucket::start(fault).await);
        let server = bucket.publishing(Setup::mirror_of(&origin)).start().await;
        server.settled(&origin).await;
        let served = everything(&server).await;
        wait_until("the reason is told", || async {
            told(&server).await["why"].as_str().is_some_and(|why| why.contains(expected))
        })
        .await;
        let status = server.status().await;
        let why = status["publish"]["why"].as_str().unwrap();
        assert!(why.len() <= 500 && !why.contains("hunter2"), "{why}");
        assert!(why.contains("s3://bucket/one"), "{why}");
        assert_eq!(status["state"], "healthy", "{status:#}");
        assert_eq!((&status["publish"]["last_success"], bucket.head().is_some()), (&serde_json::Value::Null, false));
        wait_until("it shows that it is behind", || async { told(&server).await["behind_seconds"] != 0 }).await;
        let metrics = server.admin(http::Method::GET, "/metrics").await;
        assert!(metrics.text().contains("grandstand_publish_failures_total{reason="), "{}", metrics.text());
        assert_eq!(everything(&server).await, served);
        // A change meanwhile is served and published with the rest.
        let snapshot = change(&origin, &server).await;
        bucket.fails(Fault::None);
        wait_until("everything is published", || async {
            bucket.head().is_some_and(|head| head.snapshot() == snapshot)
                && told(&server).await["behind_seconds"] == 0
                && told(&server).await["why"].is_null()
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_hangs_holds_up_nobody_and_is_tried_again() {
    let (origin, bucket) = (origin(60).await, Bucket::start(Fault::Hangs).await);
    let server = bucket.publishing(Setup::mirror_of(&origin)).start().await;
    server.settled(&origin).await;
    wait_until("the store is asked", || async { bucket.count() > 0 }).await;
    let start = Instant::now();
    assert_eq!(server.get(LIST).await.status, 200);
    assert!(start.elapsed() < Duration::from_secs(10));
    wait_until("the reason is told", || async {
        told(&server).await["why"].as_str().is_some_and(|why| why.contains("did not answer within"))
    })
    .await;
    bucket.fails(Fault::None);
    let snapshot = server.snapshot().await;
    wait_until("everything is published", || async { bucket.head().is_some_and(|head| head.snapshot() == snapshot) })
        .await;
}

#[tokio::test]
async fn a_store_that_fails_later_keeps_its_head_and_the_chain_goes_on() {
    let (origin, bucket) = (origin(400).await, Bucket::start(Fault::None).await);
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    server.setup = bucket.publishing(server.setup.clone());
    server.restart().await;
    server.settled(&origin).await;
    let served = server.snapshot().await;
    wait_until("everything is published", || async { bucket.head().is_some_and(|head| head.snapshot() == served) })
        .await;
    let before = bucket.head().unwrap();
    bucket.fails(Fault::Unavailable);
    let snapshot = change(&origin, &server).await;
    wait_until("the reason is told", || async { told(&server).await["why"].is_string() }).await;
    assert!(bucket.head().unwrap().sequence() >= before.sequence());
    bucket.fails(Fault::None);
    wait_until("the change is published", || async { bucket.head().is_some_and(|head| head.snapshot() == snapshot) })
        .await;
    let after = bucket.head().unwrap();
    assert!(after.full() == before.full() && !after.deltas().is_empty());
    assert!(after.sequence() > before.sequence());
}

#[tokio::test]
async fn a_publisher_stops_at_once_while_its_store_hangs() {
    let (origin, bucket) = (origin(60).await, Bucket::start(Fault::Hangs).await);
    let server = bucket.publishing(Setup::mirror_of(&origin)).start().await;
    server.settled(&origin).await;
    wait_until("the store is asked", || async { bucket.count() > 0 }).await;
    let start = Instant::now();
    server.process.signal("TERM");
    let (code, said) = server.process.end().await;
    assert_eq!(code, 0, "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_list_that_cannot_be_had_is_told_and_the_head_is_written_all_the_same() {
    let (origin, bucket) = (origin(60).await, Bucket::start(Fault::Unlistable).await);
    let server = bucket.publishing(Setup::mirror_of(&origin)).start().await;
    server.settled(&origin).await;
    let served = server.snapshot().await;
    wait_until("everything is published", || async { bucket.head().is_some_and(|head| head.snapshot() == served) })
        .await;
    wait_until("the reason is told", || async {
        told(&server).await["why"].as_str().is_some_and(|why| why.contains("the objects could not be checked"))
    })
    .await;
}
