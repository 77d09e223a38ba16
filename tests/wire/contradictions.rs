//! An origin whose pages contradict each other although nothing changes: an order that is not unique, totals that count
//! what no list shows. The mirror serves what there is, is right wherever it answers by itself, and is not greedy.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use http::Method;
use jiff::Timestamp;
use sample_origin::{FaultRule, Origin, Quirk, Switches, World};
use serde_json::Value;

use crate::harness::nginx::OnPort;
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, quiet, wait_until};
use crate::origin_faults::Fault;

const LISTINGS: usize = 350;
const LIST: &str = "/api/listings.json";
/// Any listing is older.
const BULK: i64 = 1_760_000_000;

/// An origin on which many listings were changed at one instant, and which sorts them by that.
async fn with_ties() -> Origin {
    let origin = origin_with(LISTINGS, Switches { ties: Some(1), ..Switches::default() }).await;
    origin.edit(|world| bulk(world, BULK));
    origin
}

/// Changes three listings of eight at one instant: more than fit on a page.
fn bulk(world: &mut World, at: i64) {
    let at = Timestamp::from_second(at).unwrap();
    for id in world.ids().into_iter().filter(|id| id % 8 < 3) {
        assert!(world.touch_at(id, at));
    }
}

/// The pages of the origin that the crawl reads contradict each other.
fn contradicts_itself(origin: &Origin) -> bool {
    let pages = 1..=LISTINGS.div_ceil(100) as u64;
    let pages = pages.map(|page| origin.expected(&format!("{LIST}?page={page}&per_page=100")).1);
    let ids: Vec<u64> = pages.flat_map(|page| ids(&page)).collect();
    let total = origin.expected(LIST).1["total"].as_u64().unwrap();
    ids.iter().collect::<BTreeSet<_>>().len() as u64 != total
}

fn ids(page: &Value) -> Vec<u64> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect()
}

/// The body of a 200.
async fn body(server: &Server, path: &str) -> Value {
    server.ok(path).await.json()
}

/// Waits until a mirror has a copy, with all details, and asks nothing more.
async fn copied(server: &Server, origin: &Origin) {
    wait_until("there is a copy", || async {
        let status = server.status().await;
        let details = &status["details"];
        let is_mirrored = details["of"].as_u64().is_some_and(|of| of > 0 && details["mirrored"] == of);
        is_mirrored && status["disproved"].is_array()
    })
    .await;
    quiet(origin).await;
}

/// The total that a mirror states, and every listing on its pages.
async fn mirrored(server: &Server) -> (u64, BTreeSet<u64>) {
    let (mut found, mut total) = (BTreeSet::new(), 0);
    for page in 1..=5 {
        let page = body(server, &format!("{LIST}?per_page=100&page={page}")).await;
        total = page["total"].as_u64().unwrap();
        found.extend(ids(&page));
    }
    (total, found)
}

/// How many requests came that are no examples of open cases.
fn asked_by_itself(origin: &Origin) -> usize {
    let is_own = |target: &str| target.ends_with("per_page=100") || !target.contains('?');
    origin.log().iter().filter(|seen| is_own(&seen.path_and_query)).count()
}

async fn certificate(server: &Server) -> String {
    server.status().await["snapshot"]["certificate"].as_str().unwrap_or_default().to_owned()
}

/// Filtered lists have the origin's ids and totals.
async fn filters_agree(server: &Server, origin: &Origin) {
    let ids_and_total = |page: &Value| (ids(page).into_iter().collect::<BTreeSet<_>>(), page["total"].clone());
    for query in [
        "sport=golf",
        "state=texas&per_page=100",
        "city=austin",
        "sport=tennis&state=california",
        "modified_since=2025-10-01&per_page=100",
        "modified_since=2023-01-01T00:00:00Z&state=florida",
    ] {
        let path = format!("{LIST}?{query}");
        let (ours, origins) = (body(server, &path).await, origin.expected(&path).1);
        let whole = origins["total_pages"] == 1;
        if whole {
            assert_eq!(ids_and_total(&ours), ids_and_total(&origins), "{query}");
        } else {
            assert_eq!(ours["total"], origins["total"], "{query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_copy_of_pages_that_repeat_listings_is_published_and_complete() {
    let origin = with_ties().await;
    assert!(contradicts_itself(&origin));
    let server = Setup::examining(&origin).start().await;
    wait_until("there is a copy", || async { server.get(LIST).await.header("mirror-snapshot").is_some() }).await;
    assert_eq!(certificate(&server).await, "best-effort");
    let all: BTreeSet<u64> = origin.world(World::ids).into_iter().collect();
    assert_eq!(mirrored(&server).await, (LISTINGS as u64, all));
    filters_agree(&server, &origin).await;
    wait_until("it is healthy", || async { server.admin(Method::GET, "/status").await.status == 200 }).await;
    // What is known to contradict itself is not read again and again.
    copied(&server, &origin).await;
    let served = server.snapshot().await;
    for _ in 0..3 {
        origin.clear_log();
        server.refreshed(&origin).await;
        quiet(&origin).await;
        assert!(asked_by_itself(&origin) <= 5, "{:?}", origin.log());
    }
    assert_eq!(server.snapshot().await, served);
}

#[tokio::test(start_paused = true)]
async fn a_search_that_the_origin_does_not_answer_ends_and_what_is_missing_is_forwarded() {
    let origin = with_ties().await;
    let pages = (2..=4).map(|page| format!("page={page}&per_page=9"));
    let refused = ["sport=", "state=", "city=", "per_page=9"].map(str::to_owned).into_iter().chain(pages);
    let refused = refused.map(|query| FaultRule::always(&format!("{LIST}?{query}"), Fault::Status(400)));
    origin.set(|switches| switches.faults = refused.collect());
    let server = Setup::examining(&origin).start().await;
    copied(&server, &origin).await;
    assert_eq!(certificate(&server).await, "best-effort");
    let (total, found) = mirrored(&server).await;
    let all: BTreeSet<u64> = origin.world(World::ids).into_iter().collect();
    assert!(total == LISTINGS as u64 && found.len() < LISTINGS && found.is_subset(&all), "{}", found.len());
    for id in all.difference(&found) {
        let path = format!("/api/listings/{id}.json");
        assert_eq!(body(&server, &path).await, origin.expected(&path).1);
    }
    let since = format!("{LIST}?modified_since=2023-01-01&per_page=1");
    assert_eq!(body(&server, &since).await["total"], origin.expected(&since).1["total"]);
}

#[tokio::test(start_paused = true)]
async fn another_order_of_equal_listings_publishes_nothing() {
    let origin = with_ties().await;
    let server = Setup::examining(&origin).start().await;
    copied(&server, &origin).await;
    let served = server.snapshot().await;
    for seed in 2..4 {
        origin.set(|switches| switches.ties = Some(seed));
        origin.clear_log();
        server.refreshed(&origin).await;
        wait_until("it was looked into", || async {
            let log = origin.log();
            log.iter().any(|seen| seen.path_and_query.contains("per_page=99")) || log.len() > 20
        })
        .await;
        quiet(&origin).await;
        assert_eq!(server.snapshot().await, served);
        assert_eq!(mirrored(&server).await.1.len(), LISTINGS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bulk_change_that_makes_pages_contradict_each_other_reaches_the_mirror() {
    let origin = origin_with(LISTINGS, Switches { ties: Some(1), ..Switches::default() }).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    let before = server.snapshot().await;
    origin.edit(|world| bulk(world, BULK));
    assert!(contradicts_itself(&origin));
    let id = origin.world(World::ids)[0];
    origin.edit(|world| assert!(world.remove(id)));
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    let all: BTreeSet<u64> = origin.world(World::ids).into_iter().collect();
    assert_eq!(mirrored(&server).await, (LISTINGS as u64 - 1, all));
    for id in origin.world(World::ids).into_iter().step_by(17) {
        let (_, detail) = origin.expected(&format!("/api/listings/{id}.json"));
        let path = format!("/api/listings/{id}.json");
        wait_until("the detail is current", || async { body(&server, &path).await == detail }).await;
    }
    filters_agree(&server, &origin).await;
}

#[tokio::test(start_paused = true)]
async fn a_total_that_counts_what_no_list_shows_is_served_as_it_is() {
    let origin = origin_with(LISTINGS, Switches::default()).await;
    let hidden: Vec<u64> = origin.world(World::ids).into_iter().step_by(90).collect();
    origin.set(|switches| switches.hidden = hidden.clone());
    let server = Setup::examining(&origin).start().await;
    wait_until("there is a copy", || async { server.get(LIST).await.header("mirror-snapshot").is_some() }).await;
    let shown: BTreeSet<u64> = origin.world(World::ids).into_iter().filter(|id| !hidden.contains(id)).collect();
    assert_eq!(mirrored(&server).await, (LISTINGS as u64, shown));
    filters_agree(&server, &origin).await;
    for page in [1, 4, 7, 8] {
        let path = format!("{LIST}?page={page}");
        let (ours, origins) = (body(&server, &path).await, origin.expected(&path).1);
        assert_eq!((ids(&ours), &ours["total_pages"]), (ids(&origins), &origins["total_pages"]), "{path}");
    }
    copied(&server, &origin).await;
    for _ in 0..3 {
        origin.clear_log();
        server.refreshed(&origin).await;
        quiet(&origin).await;
        assert!(asked_by_itself(&origin) <= 5, "{:?}", origin.log());
    }
    // It follows changes as any other mirror does.
    let before = server.snapshot().await;
    let touched = origin.world(World::ids)[7];
    origin.edit(|world| assert!(world.touch(touched)));
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    assert_eq!(ids(&body(&server, LIST).await)[0], touched);
    // And fits again when the origin does.
    origin.set(|switches| switches.hidden.clear());
    server.refresh().await;
    wait_until("all is there", || async { mirrored(&server).await.1.len() == LISTINGS }).await;
    wait_until("it is proven", || async { certificate(&server).await != "best-effort" }).await;
}

#[tokio::test(start_paused = true)]
async fn a_total_that_lags_behind_delays_nothing_for_ever() {
    let origin = origin_with(LISTINGS, Switches::default()).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    // Pages beyond the last are read through until it is known what they mean.
    server.disproved().await;
    let before = server.snapshot().await;
    origin.set(|switches| switches.cached_total = Some(LISTINGS as u64));
    let like = origin.world(World::ids)[3];
    let new = origin.edit(|world| world.insert_like(like, "New").unwrap());
    server.refresh().await;
    wait_until("the new one shows", || async { server.snapshot().await != before }).await;
    let (total, found) = mirrored(&server).await;
    assert!(total == LISTINGS as u64 && found.contains(&new) && found.len() == LISTINGS + 1, "{total}");
    origin.set(|switches| switches.cached_total = None);
    server.refresh().await;
    wait_until("the total is right", || async { mirrored(&server).await.0 == LISTINGS as u64 + 1 }).await;
}

#[tokio::test(start_paused = true)]
async fn copies_that_disagree_are_not_asked_for_again_and_again() {
    const TTL: Duration = Duration::from_secs(8);
    let listings = 450;
    let origin = origin_with(listings, Switches { cache_control: None, ..Switches::default() }).await;
    let seconds = TTL.as_secs();
    let cache = OnPort::cache_of(origin.addr(), &format!("proxy_cache_valid 200 {seconds}s;")).await;
    let setup = Setup::examining(&origin).set("origin.url", &cache.url());
    let server = setup.set("origin.cache_ttl", &format!("{seconds}s")).start().await;
    copied(&server, &origin).await;
    wait_until("the copy is proven", || async { certificate(&server).await == "full" }).await;
    let before = server.snapshot().await;
    let list_requests = || cache.requests().into_iter().filter(|path| !path.contains("/listings/")).count();
    // The copies of some pages are older than those of others.
    server.refresh().await;
    wait_until("the first page was asked for", || async { origin.count() > 0 }).await;
    let sent = list_requests();
    let ids = origin.world(World::ids);
    origin.edit(|world| {
        for id in ids.iter().step_by(50) {
            assert!(world.touch(*id) && world.insert_like(*id, "New").is_some());
        }
        assert!(world.remove(ids[1]));
    });
    let start = Instant::now();
    server.refresh().await;
    let (mut within, mut told) = (0, 0);
    wait_until("all of it shows", || {
        if start.elapsed() < TTL {
            within = list_requests() - sent;
        }
        told = server.process.said().matches("do not fit").count();
        async {
            let shown =
                server.snapshot().await != before && mirrored(&server).await.1.len() == origin.world(World::len);
            shown && !server.status().await["snapshot"]["id"].is_null()
        }
    })
    .await;
    let most = 2 * listings.div_ceil(100) + 20;
    assert!(within <= most, "{within} requests: {:#?}", &cache.requests()[sent..]);
    assert!(told < 5, "{told}");
}

#[tokio::test(start_paused = true)]
async fn most_of_what_the_origin_refuses_to_show_beyond_a_window_is_found_in_lists_of_terms() {
    for status in [400, 404] {
        let window = Some(Quirk::Window(200, status));
        let origin = origin_with(LISTINGS, Switches { quirk: window, ..Switches::default() }).await;
        let server = Setup::examining(&origin).start().await;
        wait_until("there is a copy", || async { server.get(LIST).await.header("mirror-snapshot").is_some() }).await;
        // As many as a bounded search finds; that some are unknown is told.
        wait_until("most is found", || async {
            let mut found = BTreeSet::new();
            for page in 1..=4 {
                found.extend(ids(&body(&server, &format!("{LIST}?per_page=100&page={page}")).await));
            }
            found.len() > 300
        })
        .await;
        assert!(server.finding("total-differs").await.is_some());
    }
}
