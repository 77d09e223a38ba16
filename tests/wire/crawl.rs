//! The mirror answers as the origin does, at a bounded cost.

use std::collections::HashSet;

use sample_origin::World;

use crate::compare::{detail_is_the_origins, list_is_the_origins, slugs, taxonomies_are_the_origins};
use crate::harness::virtually::origin;
use crate::harness::{Setup, quiet};

#[tokio::test(start_paused = true)]
async fn every_page_and_every_filter_is_the_origins() {
    let origin = origin(2_000).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    wait_for_terms(&server, &origin).await;
    for per_page in [1, 7, 33, 50, 99, 100] {
        let pages = 2_000_u64.div_ceil(per_page);
        for page in (1..=pages).filter(|page| per_page >= 33 || page % 97 < 2 || *page >= pages - 1) {
            let target = format!("/api/listings.json?per_page={per_page}&page={page}");
            list_is_the_origins(&server, &origin, &target).await;
        }
    }
    for target in ["?page=41", "?page=21&per_page=100", "?page=999999", "?sport=golf&page=50", "", "?per_page=100"] {
        list_is_the_origins(&server, &origin, &format!("/api/listings.json{target}")).await;
    }
    for (name, parameter) in [("sports", "sport"), ("states", "state"), ("cities", "city")] {
        for slug in slugs(&origin, name) {
            let mut page = 1;
            loop {
                let target = format!("/api/listings.json?{parameter}={slug}&per_page=100&page={page}");
                list_is_the_origins(&server, &origin, &target).await;
                if page >= origin.expected(&target).1["total_pages"].as_u64().unwrap() {
                    break;
                }
                page += 1;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn filters_combine_as_at_the_origin() {
    let origin = origin(2_000).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    wait_for_terms(&server, &origin).await;
    let sports = slugs(&origin, "sports");
    for (nth, state) in slugs(&origin, "states").iter().enumerate() {
        for sport in [&sports[nth % sports.len()], &sports[0]] {
            let target = format!("/api/listings.json?state={state}&sport={sport}");
            list_is_the_origins(&server, &origin, &target).await;
        }
    }
    let ids = origin.world(World::ids);
    for id in ids.iter().step_by(97) {
        let (sport, state, city) =
            origin.world(|world| world.slugs_of(*id).map(|slugs| (slugs.0, slugs.1, slugs.2.to_owned()))).unwrap();
        for target in [
            format!("?city={city}&state={state}&sport={sport}"),
            format!("?city={city}&state=alaska"),
            format!("?city={city}&sport={sport}&per_page=3&page=2"),
        ] {
            list_is_the_origins(&server, &origin, &format!("/api/listings.json{target}")).await;
        }
        // Its own instant is the sharpest: strictly after.
        let modified = origin.world(|world| world.venue(*id).unwrap().modified);
        let spelled = modified.text().replace('+', "%2B");
        let day = &modified.at.to_string()[..10];
        for target in [
            format!("?modified_since={spelled}&per_page=100"),
            format!("?modified_since={}&per_page=100", modified.at),
            format!("?modified_since={day}"),
            format!("?modified_since={day}&sport={sport}"),
            format!("?modified_since={day}&state={state}&page=2&per_page=5"),
        ] {
            list_is_the_origins(&server, &origin, &format!("/api/listings.json{target}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_detail_and_every_taxonomy_is_the_origins() {
    let origin = origin(2_000).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.clear_log();
    for id in origin.world(World::ids) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    taxonomies_are_the_origins(&server, &origin).await;
    assert_eq!(origin.count(), 0, "the origin was asked for what is mirrored");
}

#[tokio::test(start_paused = true)]
async fn the_first_mirror_costs_no_more_than_promised() {
    const LISTINGS: usize = 457;
    let origin = origin(LISTINGS).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let log = origin.log();
    let is_page_of_term = |path: &str| ["sport=", "state=", "city="].iter().any(|filter| path.contains(filter));
    let most = 2 * LISTINGS.div_ceil(100) + 8 + LISTINGS;
    // The meaning of filters is asked for beside that; the probes of refreshes have times with `Z` and no other filter.
    let is_question = |path: &str| {
        let since = path.split_once("modified_since=").map(|(_, since)| since.split('&').next().unwrap_or_default());
        since.is_some_and(|since| !since.ends_with('Z') || is_page_of_term(path))
    };
    let questions = log.iter().filter(|seen| is_question(&seen.path_and_query)).count();
    assert!(questions <= 10, "{questions} questions");
    let is_counted = |path: &str| !is_page_of_term(path) && !is_question(path);
    let counted = log.iter().filter(|seen| is_counted(&seen.path_and_query)).count();
    let list = || log.iter().map(|seen| seen.path_and_query.as_str()).filter(|path| !path.contains("/listings/"));
    assert!(counted <= most, "{counted} requests, at most {most}: {:#?}", list().collect::<Vec<_>>());
    // Terms are only asked for where the evidence is ambiguous, each page of them once.
    let pages: Vec<_> = list().filter(|path| is_page_of_term(path)).collect();
    assert_eq!(pages.iter().collect::<HashSet<_>>().len(), pages.len(), "{pages:#?}");
    assert!(pages.len() < slugs(&origin, "cities").len() / 2, "{pages:#?}");
    assert!(log.iter().all(|seen| matches!(seen.status, 200 | 304)), "{log:#?}");
    let details: Vec<_> = log.iter().filter(|seen| seen.path_and_query.contains("/listings/")).collect();
    assert_eq!(details.len(), LISTINGS, "each detail is asked for once");
}

/// Waits until the mirror knows what each term holds.
async fn wait_for_terms(server: &crate::harness::Server, origin: &sample_origin::Origin) {
    crate::harness::wait_until("the list is certified and the terms are known", || async {
        let status = server.status().await;
        let certified = matches!(status["snapshot"]["certificate"].as_str(), Some("full" | "incremental"));
        certified && matches!(status["origin"]["state"].as_str(), Some("changed" | "unchanged"))
    })
    .await;
    quiet(origin).await;
}
