//! A day of edits on an origin whose pages contradict each other: what the mirror answers by itself is right, it does
//! not stay behind, and it is not greedy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use grandstand::api::query::ListQuery;
use grandstand::clock::Clock;
use jiff::Timestamp;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use sample_origin::{Cdn, Origin, Switches, World};
use tokio::time::sleep;

use super::rig::{Ground, Rig};
use super::scene::Scene;
use super::script::{BEGIN, in_virtual_time};
use super::until;

const HOUR: Duration = Duration::from_secs(3600);
const TTL: Duration = Duration::from_secs(300);
const COPIES: Duration = Duration::from_secs(120);
const LIST: &str = "/api/listings.json";

#[test]
fn a_mirror_of_pages_that_contradict_each_other_is_right_where_it_answers_by_itself() {
    for seed in 0..4 {
        in_virtual_time(play(seed));
    }
}

async fn play(seed: u64) {
    let mut dice = SmallRng::seed_from_u64(seed);
    let (clock, _) = Clock::of_runtime(BEGIN);
    let (mut scene, _) = Scene::draw(1, 150);
    let mut world = World::generate(330, seed + 1);
    bulk(&mut world, BEGIN.as_seconds() - 86_400, &mut dice);
    let mut switches =
        Switches { latency: Duration::from_millis(50), ties: Some(seed), jitter_ms: (0, 0), ..Switches::default() };
    if seed % 2 == 1 {
        switches.hidden = world.ids().into_iter().step_by(70).collect();
    }
    switches.cdn = (seed > 1).then_some(Cdn { max_age: COPIES, nodes: 1 });
    (scene.ttl, scene.cache_ttl, scene.budget) = (TTL, COPIES, None);
    (scene.sweep_every, scene.verify_every) = (6 * HOUR, 1000 * HOUR);
    let origin = Arc::new(Origin::within(
        world,
        switches.clone(),
        sample_origin::Clock::of_runtime(clock.now_wall().as_millis()),
    ));
    scene.switches = switches;
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::new(origin.clone(), clock.clone(), dir.path());
    let rig = Rig::start(&scene, &ground, 1);
    until("there is a copy", || rig.newest.get().is_some()).await;
    for step in 0..3 {
        for _ in 0..dice.random_range(1..5) {
            edit(&origin, &clock, &mut dice);
            sleep(Duration::from_secs(dice.random_range(0..600))).await;
        }
        sleep(2 * HOUR).await;
        check(&origin, &rig, &format!("seed {seed}, step {step}"));
        let confirmed = rig.newest.get().unwrap().confirmed();
        let age = Duration::from_millis(clock.now_wall().millis_since(confirmed).unsigned_abs());
        assert!(age <= 3 * TTL, "seed {seed}, step {step}: confirmed {age:?} ago");
        origin.clear_log();
        sleep(HOUR).await;
        let refreshes = (HOUR.as_secs_f64() / (0.4 * TTL.as_secs_f64())).ceil() as u64;
        // The rest is for the first examples, and for a sweep.
        assert!(origin.count() <= 5 * refreshes + 70, "seed {seed}, step {step}: {} requests", origin.count());
        assert!(rig.is_alive());
    }
    rig.abort().await;
}

/// Changes more listings at one instant than fit on a page.
fn bulk(world: &mut World, second: i64, dice: &mut SmallRng) {
    let (at, rest) = (Timestamp::from_second(second).unwrap(), dice.random_range(0..5));
    for id in world.ids().into_iter().filter(|id| id % 5 == rest || id % 5 == (rest + 1) % 5) {
        assert!(world.touch_at(id, at));
    }
}

fn edit(origin: &Origin, clock: &Clock, dice: &mut SmallRng) {
    let ids = origin.world(World::ids);
    let visible: Vec<u64> = ids.into_iter().filter(|id| !origin.switches().hidden.contains(id)).collect();
    let one = *visible.choose(dice).unwrap();
    match dice.random_range(0..5) {
        0 => origin.edit(|world| bulk(world, clock.now_wall().as_seconds(), dice)),
        1 => origin.edit(|world| assert!(world.touch(one))),
        2 => origin.edit(|world| assert!(world.insert_like(one, "New").is_some())),
        3 => origin.edit(|world| assert!(world.remove(one))),
        _ => origin.set(|switches| switches.ties = Some(dice.random())),
    }
}

fn check(origin: &Origin, rig: &Rig, what: &str) {
    let newest = rig.newest.get().unwrap();
    let (dataset, hidden) = (&newest.dataset, origin.switches().hidden);
    let visible: BTreeSet<u64> = origin.world(World::ids).into_iter().filter(|id| !hidden.contains(id)).collect();
    let here: BTreeSet<u64> = dataset.content.summaries.iter().map(|summary| summary.id.0).collect();
    let gone: Vec<_> = here.difference(&visible).collect();
    assert!(gone.is_empty(), "{what}: {gone:?} are gone");
    if !dataset.is_incomplete() {
        assert_eq!(here, visible, "{what}");
        for summary in &dataset.content.summaries {
            let (text, _) = origin.texts_of(summary.id.0).unwrap();
            assert_eq!(std::str::from_utf8(&summary.raw).unwrap(), text, "{what}");
        }
    }
    let mut queries = vec![ListQuery::default()];
    for id in visible.iter().step_by(18) {
        let (sport, state, city) = origin.world(|world| {
            let (sport, state, city) = world.slugs_of(*id).unwrap();
            (sport.to_owned(), state, city.to_owned())
        });
        for slugs in [[Some(&sport), Some(&state), None], [None, Some(&state), None], [None, None, Some(&city)]] {
            let slugs = slugs.map(|slug| slug.map(|slug| slug.as_str().into()));
            queries.push(ListQuery { slugs, per_page: 100, ..ListQuery::default() });
        }
    }
    let mut answered = 0;
    for query in queries {
        let Ok(found) = dataset.find(&query) else { continue };
        let (_, theirs) = origin.expected(&query.path_and_query());
        assert_eq!(found.total, theirs["total"].as_u64().unwrap(), "{what}: {}", query.path_and_query());
        answered += 1;
    }
    assert!(answered > 0, "{what}: {LIST} is always answered");
}
