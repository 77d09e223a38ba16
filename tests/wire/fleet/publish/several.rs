//! Stores with conditions, a real S3 server and one that speaks Google's API: a fleet on them, and two publishers at once, which do
//! no harm: no head is torn, the sequence only rises, and one of them stops.

use sample_origin::Origin;

use super::change;
use crate::fleet::bucket::{Bucket, Dialect, Fault};
use crate::fleet::s3::{S3, with_options};
use crate::fleet::store::{Head, follows, lists, told};
use crate::gap::{Desk, everything, is_one_of};
use crate::harness::{Server, Setup, origin, until, wait_until};

/// Both write at once for a while. `head`: the head in the store, with all its objects.
async fn compete(servers: &[(&Origin, &Server)], head: impl AsyncFn() -> Option<Head>) {
    for round in 0..4 {
        let last = head().await.map_or(0, |head| head.sequence());
        for (origin, server) in servers {
            origin.edit(|world| {
                let id = world.ids()[round];
                assert!(world.touch(id));
            });
            server.refresh().await;
        }
        wait_until("a later head", || async { head().await.is_some_and(|head| head.sequence() > last) }).await;
    }
    wait_until("one has won, and the other one says that it has lost", || async {
        let mut lost = 0;
        for (_, server) in servers {
            let (told, has_lost) = (told(server).await, server.finding("publish-rival").await.is_some());
            lost += usize::from(has_lost);
            let is_ahead = told["why"].is_null() && told["behind_seconds"] == 0;
            if !has_lost && !is_ahead {
                return false;
            }
        }
        lost + 1 == servers.len()
    })
    .await;
}

/// The head, and its objects in the order of its keys.
async fn stored(s3: &S3) -> Option<(Head, Vec<Vec<u8>>)> {
    let reply = s3.get("a/b", "head.json").await;
    let head = (reply.status == 200).then(|| Head::parse(&reply.body))?;
    let mut objects = Vec::new();
    for key in head.keys() {
        let reply = s3.get("a/b", &key).await;
        assert_eq!(reply.status, 200, "{key}");
        objects.push(reply.body.to_vec());
    }
    head.check(|key| objects[head.keys().iter().position(|own| own == key).unwrap()].clone());
    Some((head, objects))
}

#[tokio::test]
async fn a_real_s3_server_carries_a_fleet_and_two_publishers_at_once_do_no_harm() {
    let (s3, origin) = (S3::start().await, origin(400).await);
    let has = async |server: &Server| {
        let snapshot = server.snapshot().await;
        until("the store has what is served", || async {
            stored(&s3).await.filter(|(head, _)| head.snapshot() == snapshot)
        })
        .await
    };
    // Credentials and endpoint come from the usual environment.
    let endpoint = format!("AWS_ENDPOINT={}", s3.url());
    let usual: [&str; 5] =
        ["env", &endpoint, "AWS_ACCESS_KEY_ID=tester", "AWS_SECRET_ACCESS_KEY=hunter2", "AWS_REGION=us-east-1"];
    let mut server = Setup::mirror_of(&origin).under(&usual).start().await;
    server.settled(&origin).await;
    server.restart_with("publish.url", &S3::place("a/b")).await;
    server.settled(&origin).await;
    let (first, _) = has(&server).await;
    let following = Setup::offline().set("replica.url", &S3::place("a/b")).set("replica.poll", "200ms");
    let replica = with_options(following, "replica", s3.url()).start().await;
    follows(&replica, &server).await;
    change(&origin, &server).await;
    let (second, objects) = has(&server).await;
    assert!(second.full() == first.full() && !second.deltas().is_empty());
    follows(&replica, &server).await;
    let desk = Desk::new();
    for (nth, object) in objects[..second.chain().len()].iter().enumerate() {
        let name = format!("{nth}.gsb");
        std::fs::write(desk.path(&name), object).unwrap();
        desk.does(&Setup::offline(), &desk.data(), &["import"], &name).await;
    }
    let imported = everything(&desk.serve_copy(Setup::offline()).await).await;
    is_one_of(&lists(imported), &[&lists(everything(&server).await)]);

    s3.delete("a/b", "head.json").await;
    server.refreshed(&origin).await;
    let (third, _) = has(&server).await;
    assert!(third.sequence() > second.sequence() && third.deltas().is_empty());
    wait_until("nothing is behind", || async {
        told(&server).await["behind_seconds"] == 0 && replica.status().await["replica"]["behind_seconds"] == 0
    })
    .await;
    let other_origin = crate::harness::origin(90).await;
    let other = s3.publishing(Setup::mirror_of(&other_origin), "a/b").start().await;
    other.settled(&other_origin).await;
    compete(&[(&origin, &server), (&other_origin, &other)], async || stored(&s3).await.map(|(head, _)| head)).await;
    assert!([&server, &replica, &other].iter().all(|server| !server.process.said().contains("hunter2")));
}

#[tokio::test]
async fn a_google_store_carries_a_fleet_and_its_generations_keep_heads_apart() {
    let (origin, bucket) = (origin(400).await, Bucket::speaking(Dialect::Google, Fault::Forbidden).await);
    let server = bucket.publishing(Setup::mirror_of(&origin)).start().await;
    server.settled(&origin).await;
    for (fault, expected) in [(Fault::Forbidden, "refuses access"), (Fault::Full, "is full")] {
        bucket.fails(fault);
        wait_until(expected, || async {
            told(&server).await["why"].as_str().is_some_and(|why| why.contains(expected))
        })
        .await;
        assert_eq!(server.status().await["state"], "healthy");
    }
    let before = bucket.count();
    bucket.fails(Fault::None);
    let has = async || {
        let snapshot = server.snapshot().await;
        until("everything is published", || async { bucket.head().filter(|head| head.snapshot() == snapshot) }).await
    };
    let first = has().await;
    let replica = bucket.following(Setup::offline()).start().await;
    follows(&replica, &server).await;
    change(&origin, &server).await;
    let second = has().await;
    assert!(second.full() == first.full() && !second.deltas().is_empty());
    follows(&replica, &server).await;
    let seen = bucket.seen().split_off(before);
    let heads = seen.iter().filter(|seen| seen.method == "PUT" && seen.target.contains("head"));
    let conditions: Vec<&str> =
        heads.map(|seen| seen.header("x-goog-if-generation-match").expect("each head has a condition")).collect();
    // First the probe, and then the head where there is none; later ones over a generation.
    assert!(conditions.len() >= 3 && conditions[..2] == ["1", "0"], "{conditions:?}");
    assert!(conditions[2..].iter().all(|condition| condition.parse::<u64>().unwrap() > 1000), "{conditions:?}");
    assert!(seen.iter().any(|seen| seen.target.contains("list-type=2")), "the objects are looked after");
    let other_origin = crate::harness::origin(90).await;
    let other = bucket.publishing(Setup::mirror_of(&other_origin)).start().await;
    other.settled(&other_origin).await;
    compete(&[(&origin, &server), (&other_origin, &other)], async || bucket.head()).await;
}
