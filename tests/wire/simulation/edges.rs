//! Learning how the origin answers odd requests, in virtual time: within the background's share, and at most forty times.
//!
//! What comes of it is compared in `edges`.

use std::sync::Arc;
use std::time::Duration;

use grandstand::clock::Clock;
use sample_origin::{Edges, Origin, Switches, World};
use tokio::time::sleep;

use super::rig::{Ground, Rig};
use super::scene::Scene;
use super::script::{BEGIN, in_virtual_time};
use super::until;
use crate::edges::is_odd;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(300);

fn mirror(personality: &str, dir: &std::path::Path) -> (Arc<Origin>, Ground, Scene) {
    let (clock, _) = Clock::of_runtime(BEGIN);
    let (mut scene, _) = Scene::draw(1, 150);
    let edges = Edges::named(personality).unwrap();
    let latency = Duration::from_millis(50);
    scene.switches = Switches { latency, edges, refuse_61st: Some(60), ..Switches::default() };
    (scene.ttl, scene.budget, scene.cache_ttl, scene.listings) = (TTL, Some(60), SECOND, 100);
    // What else is in the background would take its slots.
    (scene.sweep_every, scene.verify_every, scene.examples) = (1_000_000 * SECOND, 1_000_000 * SECOND, 0);
    let world = World::generate(scene.listings, 1);
    let origin = Arc::new(Origin::within(
        world,
        scene.switches.clone(),
        sample_origin::Clock::of_runtime(clock.now_wall().as_millis()),
    ));
    let ground = Ground::new(origin.clone(), clock, dir);
    (origin, ground, scene)
}

async fn learned(rig: &Rig) {
    until("it has learned", || rig.edges.are_learned()).await;
}

#[test]
fn the_probes_are_forty_at_most_and_stay_within_the_share_of_the_background() {
    for personality in Edges::NAMES {
        in_virtual_time(async move {
            let dir = tempfile::tempdir().unwrap();
            let (origin, ground, scene) = mirror(personality, dir.path());
            let rig = Rig::start(&scene, &ground, 1);
            learned(&rig).await;
            // An hour in which nothing is asked again.
            sleep(60 * MINUTE).await;
            let log = origin.log();
            let odd: Vec<_> = log.iter().filter(|seen| is_odd(&origin, &seen.path_and_query)).collect();
            assert!((35..=40).contains(&odd.len()), "{personality}: {} probes", odd.len());
            for (at, first) in odd.iter().enumerate() {
                let minute = odd[at..].iter().filter(|seen| seen.at.duration_since(first.at) < MINUTE).count();
                assert!(minute <= 6, "{personality}: {minute} probes in a minute");
            }
            // The first crawl and its details came before.
            let before = log.iter().take_while(|seen| seen.path_and_query != odd[0].path_and_query);
            assert!(before.filter(|seen| seen.path_and_query.starts_with("/api/listings/")).count() >= 100);
            assert_eq!(origin.refused(), 0);
            assert!(rig.is_alive());
            rig.abort().await;
        });
    }
}

#[test]
fn a_mirror_that_is_aborted_while_it_learns_goes_on_where_it_was() {
    in_virtual_time(async {
        let dir = tempfile::tempdir().unwrap();
        let (origin, ground, scene) = mirror("strict", dir.path());
        let odd = || origin.log().iter().filter(|seen| is_odd(&origin, &seen.path_and_query)).count();
        for life in 1..=5 {
            let rig = Rig::start(&scene, &ground, life);
            until("it has asked more", || odd() >= 7 * life as usize).await;
            rig.abort().await;
        }
        let rig = Rig::start(&scene, &ground, 6);
        learned(&rig).await;
        // A probe that was cut off counts all the same.
        assert!((35..=40).contains(&odd()), "{}", odd());
        rig.abort().await;
    });
}
