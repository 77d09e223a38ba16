//! `/changes.json` across publications, rollbacks and releases: always the difference of two listings, or 410.

use std::collections::BTreeMap;

use sample_origin::World;

use super::{content, edit, grow, mirrored, release, roll_back, tells_the_difference};
use crate::clocks::Hand;
use crate::harness::{Server, wait_until};

type Contents = BTreeMap<String, BTreeMap<u64, String>>;

/// What changed since each of these is told rightly.
async fn all_are_told(server: &Server, contents: &Contents, what: &str) {
    let served = server.snapshot().await;
    let now = &contents[&served];
    for (id, then) in contents {
        let reply = server.ok(&format!("/changes.json?since={id}")).await;
        assert_eq!((&reply.json()["since"], &reply.json()["snapshot"]), (&id[..].into(), &served[..].into()), "{what}");
        tells_the_difference(&reply, then, now);
    }
}

#[tokio::test]
async fn what_is_told_over_several_switches_is_the_difference_of_the_listings() {
    let (origin, mut server) = mirrored(120, |setup| setup.set("mirror.keep", "20")).await;
    let ids = origin.world(World::ids);
    let first = server.snapshot().await;
    let mut contents = Contents::from([(first.clone(), content(&server, &first).await)]);
    let mut inserted = 0;
    for step in 0..5 {
        let id = edit(&origin, &server, |world| {
            for at in 0..3 {
                assert!(world.touch(ids[50 + 5 * step + at]));
            }
            // One that was changed before, and one that came before.
            assert!(world.remove(ids[if step == 0 { 0 } else { 46 + 5 * step }]));
            if step == 2 {
                assert!(world.remove(inserted));
            }
            inserted = world.insert_like(ids[3], &format!("Step {step}")).unwrap();
        })
        .await;
        contents.insert(id.clone(), content(&server, &id).await);
        all_are_told(&server, &contents, &format!("step {step}")).await;
    }
    let last = server.snapshot().await;
    let middle = contents.keys().find(|id| **id != first && **id != last).unwrap().clone();
    for (step, target) in [&first, &middle, &first].into_iter().enumerate() {
        roll_back(&server, target).await;
        all_are_told(&server, &contents, &format!("rollback {step}")).await;
    }
    // The waiting snapshot was never served: followers do not know it.
    let waiting = grow(&origin, &server, "Waits").await;
    server.get(&format!("/changes.json?since={waiting}")).await.assert_problem(410, &["since", &waiting, &first]);
    all_are_told(&server, &contents, "something waits").await;
    for killed in [false, true] {
        if killed {
            server.down().await;
            server.restart().await;
        }
        all_are_told(&server, &contents, &format!("killed: {killed}")).await;
        if !killed {
            release(&server).await;
            contents.insert(waiting.clone(), content(&server, &waiting).await);
            all_are_told(&server, &contents, "rollback ended").await;
        }
    }
    let next = grow(&origin, &server, "Afterwards").await;
    contents.insert(next.clone(), content(&server, &next).await);
    all_are_told(&server, &contents, "afterwards").await;
}

#[tokio::test]
async fn changes_are_forgotten_in_time_even_if_nothing_is_published_any_more() {
    let hand = Hand::new();
    let (origin, mut server) = mirrored(60, |setup| hand.on(setup)).await;
    let first = server.snapshot().await;
    let second = grow(&origin, &server, "Second").await;
    let target = format!("/changes.json?since={first}");
    server.ok(&target).await;
    hand.set(31 * 86_400);
    wait_until("it is forgotten", || async { server.get(&target).await.status == 410 }).await;
    server.get(&target).await.assert_problem(410, &["since", &first, &second]);
    server.ok(&format!("/changes.json?since={second}")).await;
    server.restart().await;
    server.get(&target).await.assert_problem(410, &[&first]);
    // Later changes are told all the same.
    server.settled(&origin).await;
    let third = grow(&origin, &server, "Third").await;
    let reply = server.ok(&format!("/changes.json?since={second}")).await;
    assert_eq!((reply.json()["added"].as_array().unwrap().len(), &reply.json()["snapshot"]), (1, &third[..].into()));
    server.get(&target).await.assert_problem(410, &[&first]);
}
