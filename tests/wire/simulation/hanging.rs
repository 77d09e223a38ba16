//! One page that hangs delays neither refreshes nor the other pages.
//!
//! In virtual time, so that minutes can be checked second by second.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use grandstand::clock::Clock;
use grandstand::data::snapshot::meta::Certificate;
use sample_origin::{FaultRule, Origin, Switches, World};
use tokio::time::sleep;

use super::rig::{Ground, Rig};
use super::scene::Scene;
use super::script::{BEGIN, in_virtual_time};
use super::until;
use crate::origin_faults::Fault;

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(60);

/// A mirror with `ttl = "1m"` of an origin with so many listings, without a CDN or a budget.
fn mirror(listings: usize, dir: &std::path::Path) -> (Arc<Origin>, Clock, Rig) {
    let (clock, _) = Clock::of_runtime(BEGIN);
    let (mut scene, _) = Scene::draw(1, 150);
    scene.switches = Switches { latency: Duration::from_millis(50), ..Switches::default() };
    (scene.ttl, scene.budget, scene.cache_ttl, scene.listings) = (TTL, None, SECOND, listings);
    // A sweep would meet the fault, too.
    (scene.sweep_every, scene.verify_every) = (1_000_000 * SECOND, 1_000_000 * SECOND);
    let world = World::generate(listings, 1);
    let origin = Arc::new(Origin::within(
        world,
        scene.switches.clone(),
        sample_origin::Clock::of_runtime(clock.now_wall().as_millis()),
    ));
    let ground = Ground::new(origin.clone(), clock.clone(), dir);
    let rig = Rig::start(&scene, &ground, 1);
    (origin, clock, rig)
}

fn second_page() -> FaultRule {
    FaultRule::always("/api/listings.json?page=2&", Fault::Hang)
}

#[test]
fn a_page_that_hangs_makes_no_refresh_late() {
    in_virtual_time(async {
        let dir = tempfile::tempdir().unwrap();
        let (origin, clock, rig) = mirror(450, dir.path());
        let certificate = || rig.newest.get().map(|published| published.meta.certificate);
        until("the list is certified", || certificate() == Some(Certificate::Full)).await;
        until("all details are here", || {
            rig.newest.get().is_some_and(|published| rig.details.is_complete(&published.dataset))
        })
        .await;
        origin.set(|switches| switches.faults = vec![second_page()]);
        rig.commands.pass();
        let mut oldest = 0;
        for _ in 0..1800 {
            sleep(SECOND).await;
            let confirmed = rig.newest.get().unwrap().confirmed();
            oldest = oldest.max(clock.now_wall().millis_since(confirmed));
        }
        let hung = origin.log().iter().filter(|seen| seen.path_and_query.contains("page=2&")).count();
        assert!(hung > 10, "the page is tried again and again: {hung}");
        assert!(oldest <= TTL.as_millis() as i64, "it was confirmed {oldest} ms ago");
        assert!(rig.is_alive());
        rig.abort().await;
    });
}

#[test]
fn a_page_that_hangs_keeps_no_other_page_waiting() {
    in_virtual_time(async {
        let dir = tempfile::tempdir().unwrap();
        let (origin, _clock, rig) = mirror(4_000, dir.path());
        origin.set(|switches| switches.faults = vec![second_page()]);
        sleep(120 * SECOND).await;
        let log = origin.log();
        let pages: HashSet<&str> = log.iter().map(|seen| seen.path_and_query.as_str()).collect();
        for page in 3..=40 {
            assert!(pages.contains(format!("/api/listings.json?page={page}&per_page=100").as_str()), "page {page}");
        }
        assert!(pages.contains("/api/cities.json"));
        assert!(rig.newest.get().is_none(), "a page is missing");
        origin.set(|switches| switches.faults.clear());
        until("it is published", || rig.newest.get().is_some()).await;
        rig.abort().await;
    });
}
