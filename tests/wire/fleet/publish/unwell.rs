//! A store that refuses, fails, is full or hangs: serving goes on, `/status` says why, and all is published afterwards.

use std::time::{Duration, Instant};

use super::change;
use crate::fleet::bucket::{Bucket, Fault};
use crate::fleet::store::{Head, says, told};
use crate::gap::{LIST, everything};
use crate::harness::{Server, Setup, origin, wait_until};

/// Waits until the bucket has what the server serves.
async fn has(bucket: &Bucket, server: &Server) -> Head {
    let snapshot = server.snapshot().await;
    wait_until("everything is published", || async { bucket.head().is_some_and(|head| head.snapshot() == snapshot) })
        .await;
    bucket.head().unwrap()
}

#[tokio::test]
async fn a_store_that_fails_is_told_and_disturbs_nobody_and_gets_everything_later() {
    let (origin, bucket) = (origin(200).await, Bucket::start(Fault::Forbidden).await);
    // Its objects are looked after every five seconds.
    let mut server = bucket.publishing(Setup::mirror_of(&origin)).set("publish.keep", "80s").start().await;
    server.settled(&origin).await;
    says(&server, "publish", "refuses access").await;
    wait_until("it shows that it is behind", || async { told(&server).await["behind_seconds"] != 0 }).await;
    assert!(told(&server).await["last_success"].is_null() && bucket.head().is_none());
    // The head is written although the objects cannot be looked after.
    bucket.fails(Fault::Unlistable);
    let mut before = has(&bucket, &server).await;
    says(&server, "publish", "the objects could not be checked").await;
    for (fault, expected) in [
        (Fault::Unavailable, "fail"),
        (Fault::Full, "is full"),
        (Fault::HangsUp, "cannot be reached"),
        (Fault::Nonsense, "publishing to s3://bucket/one fails"),
    ] {
        bucket.fails(Fault::None);
        wait_until("nothing is wrong", || async { told(&server).await["why"].is_null() }).await;
        bucket.fails(fault);
        // A change meanwhile is served, and published later.
        change(&origin, &server).await;
        let served = everything(&server).await;
        says(&server, "publish", expected).await;
        let status = server.status().await;
        let why = status["publish"]["why"].as_str().unwrap();
        assert!(why.len() <= 500 && !why.contains("hunter2") && why.contains("s3://bucket/one"), "{why}");
        assert_eq!(status["state"], "healthy", "{status:#}");
        assert_eq!(everything(&server).await, served);
        bucket.fails(Fault::None);
        let after = has(&bucket, &server).await;
        assert!(after.sequence() > before.sequence());
        // What answers for the store with a page of its own may have been read back as an object.
        assert!(fault == Fault::Nonsense || after.full() == before.full() && !after.deltas().is_empty(), "{fault:?}");
        before = after;
    }
    let metrics = server.admin(http::Method::GET, "/metrics").await;
    assert!(metrics.text().contains("grandstand_publish_failures_total{reason=\"full\"}"), "{}", metrics.text());
    bucket.fails(Fault::Hangs);
    let asked = bucket.count();
    change(&origin, &server).await;
    wait_until("the store is asked", || async { bucket.count() > asked }).await;
    let start = Instant::now();
    assert_eq!(server.get(LIST).await.status, 200);
    server.process.signal("TERM");
    assert_eq!(server.process.exit().await, 0);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
