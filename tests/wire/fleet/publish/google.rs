//! Google Cloud Storage: heads are written over the generation that was read.

use super::change;
use crate::fleet::bucket::{Bucket, Dialect, Fault};
use crate::fleet::store::{lists, told};
use crate::gap::{everything, is_one_of};
use crate::harness::{Server, Setup, origin, wait_until};

async fn follows(replica: &Server, publisher: &Server) {
    let snapshot = publisher.snapshot().await;
    wait_until("the replica has the publisher's snapshot", || async { replica.snapshot().await == snapshot }).await;
    is_one_of(&lists(everything(replica).await), &[&lists(everything(publisher).await)]);
}

#[tokio::test]
async fn a_google_store_carries_a_fleet_and_its_generations_keep_heads_apart() {
    let (origin, bucket) = (origin(400).await, Bucket::speaking(Dialect::Google, Fault::None).await);
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    server.setup = bucket.publishing(server.setup.clone());
    server.restart().await;
    server.settled(&origin).await;
    let served = server.snapshot().await;
    wait_until("everything is published", || async { bucket.head().is_some_and(|head| head.snapshot() == served) })
        .await;
    let first = bucket.head().unwrap();
    let replica = bucket.following(Setup::offline()).start().await;
    follows(&replica, &server).await;
    change(&origin, &server).await;
    follows(&replica, &server).await;
    let second = bucket.head().unwrap();
    assert!(second.full() == first.full() && !second.deltas().is_empty());
    let seen = bucket.seen();
    let heads = seen.iter().filter(|seen| seen.method == "PUT" && seen.target.contains("head"));
    let conditions: Vec<&str> =
        heads.map(|seen| seen.header("x-goog-if-generation-match").expect("each head has a condition")).collect();
    // First the probe, and then the head where there is none; later ones over a generation.
    assert!(conditions.len() >= 3 && conditions[..2] == ["1", "0"], "{conditions:?}");
    assert!(conditions[2..].iter().all(|condition| condition.parse::<u64>().unwrap() > 1000), "{conditions:?}");
    assert!(seen.iter().any(|seen| seen.target.contains("list-type=2")), "the objects are looked after");
}

#[tokio::test]
async fn two_publishers_at_once_on_a_google_store_do_no_harm() {
    let bucket = Bucket::speaking(Dialect::Google, Fault::None).await;
    let (one, two) = (origin(60).await, origin(90).await);
    let mut servers = Vec::new();
    for origin in [&one, &two] {
        let server = bucket.publishing(Setup::mirror_of(origin)).start().await;
        server.settled(origin).await;
        servers.push(server);
    }
    for round in 0..4 {
        let last = bucket.head().map_or(0, |head| head.sequence());
        for (origin, server) in [&one, &two].into_iter().zip(&servers) {
            origin.edit(|world| {
                let id = world.ids()[round];
                assert!(world.touch(id));
            });
            server.refresh().await;
        }
        // All objects of each head are there.
        wait_until("a later head", || async { bucket.head().is_some_and(|head| head.sequence() > last) }).await;
    }
    super::several::one_has_won(&servers).await;
}

#[tokio::test]
async fn a_google_store_that_refuses_or_is_full_is_told() {
    for (fault, expected) in [(Fault::Forbidden, "refuses access"), (Fault::Full, "is full")] {
        let (origin, bucket) = (origin(60).await, Bucket::speaking(Dialect::Google, fault).await);
        let server = bucket.publishing(Setup::mirror_of(&origin)).start().await;
        server.settled(&origin).await;
        wait_until("the reason is told", || async {
            told(&server).await["why"].as_str().is_some_and(|why| why.contains(expected))
        })
        .await;
        assert_eq!(server.status().await["state"], "healthy");
        bucket.fails(Fault::None);
        let snapshot = server.snapshot().await;
        wait_until("everything is published", || async {
            bucket.head().is_some_and(|head| head.snapshot() == snapshot)
        })
        .await;
    }
}
