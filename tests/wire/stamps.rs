//! An origin whose `generated_at` is no time of generation: it stands still, or runs ahead of the origin's `Date`.
//!
//! Such a stamp dates nothing. The mirror confirms and follows the origin by `Date`, and `/status` names the stamp.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use sample_origin::{Cdn, CopyHeader, EtagStyle, Generated, GeneratedAt, Origin, Switches, World};

use crate::compare::{detail_is_the_origins, list_is_the_origins, taxonomies_are_the_origins};
use crate::harness::virtually::{self, origin_with};
use crate::harness::{Server, Setup, edit, wait_until};

const LIST: &str = "/api/listings.json";
const DAY: i64 = 86_400;

/// Months old.
fn months_ago() -> GeneratedAt {
    GeneratedAt::StandsStill(virtually::begin().as_seconds() - 100 * DAY)
}

fn taxonomies(says: GeneratedAt) -> Generated {
    Generated { taxonomies: says, ..Generated::default() }
}

/// A mirror with the default age of CDN copies that refreshes often.
async fn mirrored(generated: Generated, etags: EtagStyle) -> (Origin, Server) {
    let origin = origin_with(230, Switches { generated, etags, ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "5m").start().await;
    server.settled(&origin).await;
    (origin, server)
}

/// The data is confirmed for an instant of this test, and the mirror is healthy.
async fn is_confirmed_just_now(server: &Server) {
    let reply = server.admin(Method::GET, "/status").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let status = reply.json();
    let at: Timestamp = status["confirmed_at"].as_str().unwrap().parse().unwrap();
    let age = server.wall().as_seconds() - at.as_second();
    assert!((-1..120).contains(&age), "confirmed {age} s ago: {status:#}");
    let stated = server.ok(LIST).await.json()["generated_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(stated.as_second(), at.as_second(), "the list names the same instant");
}

/// Changes the counts, a summary and its detail, and waits until all of it shows.
async fn changes_are_followed(origin: &Origin, server: &Server) {
    for round in 0..3 {
        let id = origin.world(World::ids)[100 + round];
        edit(origin, server, |world| {
            assert!(world.change_sport(id, "curling") && world.touch(id) && world.change_detail(id));
        })
        .await;
        list_is_the_origins(server, origin, LIST).await;
        taxonomies_are_the_origins(server, origin).await;
        detail_is_the_origins(server, origin, id).await;
        is_confirmed_just_now(server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stamp_in_the_taxonomies_that_stands_still_dates_nothing() {
    let (origin, server) = mirrored(taxonomies(months_ago()), EtagStyle::Strong).await;
    is_confirmed_just_now(&server).await;
    assert_eq!(server.status().await["snapshot"]["certificate"], "full");
    let stamps = server.status().await["origin"]["stamps"].clone();
    assert_eq!(stamps["sports"], "too-old", "{stamps}");
    changes_are_followed(&origin, &server).await;
    let stamps = server.status().await["origin"]["stamps"].clone();
    assert_eq!(stamps["sports"], "stands-still", "{stamps}");
    assert_eq!(stamps["lists"], "used", "{stamps}");
    assert_eq!(stamps["details"], serde_json::Value::Null, "there is none: {stamps}");
}

#[tokio::test(start_paused = true)]
async fn a_stamp_that_stands_still_everywhere_dates_nothing_whatever_the_entity_tags() {
    let far_future = GeneratedAt::StandsStill(virtually::begin().as_seconds() + 1000 * DAY);
    let (origin, server) = mirrored(Generated::everywhere(far_future), EtagStyle::Strong).await;
    changes_are_followed(&origin, &server).await;
    for etags in [EtagStyle::Strong, EtagStyle::None, EtagStyle::WithGeneratedAt] {
        let (origin, mut server) = mirrored(Generated::everywhere(months_ago()), etags).await;
        is_confirmed_just_now(&server).await;
        changes_are_followed(&origin, &server).await;
        let stamps = server.status().await["origin"]["stamps"].clone();
        for place in ["lists", "sports", "details"] {
            assert_eq!(stamps[place], "stands-still", "{etags:?}: {stamps}");
        }
        if etags == EtagStyle::None {
            // A restart forgets nothing that such a stamp needs.
            server.restart().await;
            server.settled(&origin).await;
            is_confirmed_just_now(&server).await;
            changes_are_followed(&origin, &server).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stamp_that_runs_ahead_dates_nothing_beyond_the_date() {
    for etags in [EtagStyle::Strong, EtagStyle::None] {
        let (origin, server) = mirrored(Generated::everywhere(GeneratedAt::Ahead(3 * DAY)), etags).await;
        is_confirmed_just_now(&server).await;
        changes_are_followed(&origin, &server).await;
        let stamps = server.status().await["origin"]["stamps"].clone();
        for place in ["lists", "cities", "details"] {
            assert_eq!(stamps[place], "ahead", "{etags:?}: {stamps}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cdn_whose_nodes_disagree_and_a_standing_stamp_behind_it_delay_nothing_beyond_the_cdns_own_age() {
    for (generated, nodes) in [(Generated::default(), 3), (Generated::everywhere(months_ago()), 2)] {
        let stands = nodes == 2;
        let origin = origin_with(230, Switches { generated, ..Switches::default() }).await;
        origin.set(|switches| switches.cdn = Some(Cdn { max_age: Duration::from_secs(2), nodes }));
        let server = Setup::mirror_of(&origin).set("ttl", "3s").set("origin.cache_ttl", "2s").start().await;
        server.ready().await;
        let id = origin.world(World::ids)[100];
        for total in 231..=233 {
            origin.edit(|world| world.insert_like(id, &format!("Number {total}")).unwrap());
            wait_until("the new listing shows", || async {
                let seen = server.ok(LIST).await.total();
                assert!(seen >= total - 1, "the data went backwards: {seen} after {}", total - 1);
                seen == total
            })
            .await;
        }
        if stands {
            is_confirmed_just_now(&server).await;
        }
    }
}

/// A client that goes on from the `generated_at` of a list misses no change.
#[tokio::test(start_paused = true)]
async fn once_a_change_came_late_a_list_claims_no_instant_that_a_silent_cache_may_hide() {
    let generated = Generated::everywhere(months_ago());
    let origin = origin_with(230, Switches { generated, ..Switches::default() }).await;
    origin.set(|switches| {
        switches.cdn = Some(Cdn { max_age: Duration::from_secs(100), nodes: 1 });
        switches.copy_header = CopyHeader::Silent { updating: false, says_so: false };
    });
    let server = Setup::mirror_of(&origin).set("ttl", "200s").set("origin.cache_ttl", "100s").start().await;
    server.settled(&origin).await;
    let id = origin.world(World::ids)[100];
    for round in 0..3 {
        // Just before, so that the cache has a copy.
        server.refreshed(&origin).await;
        let before = server.snapshot().await;
        origin.edit(|world| assert!(world.touch(id)));
        let modified = server.wall().as_seconds();
        tokio::time::sleep(Duration::from_secs(50)).await;
        server.refreshed(&origin).await;
        assert_eq!(server.snapshot().await, before, "the cache hides it");
        let stated = server.ok(LIST).await.json()["generated_at"].as_str().unwrap().parse::<Timestamp>().unwrap();
        assert_eq!(stated.as_second() < modified, round > 0, "in round {round}: {stated}");
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(30)).await;
            server.refreshed(&origin).await;
        }
        assert_ne!(server.snapshot().await, before, "the copy has expired");
    }
}
