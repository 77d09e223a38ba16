//! An origin that says something of itself that its own data contradicts: the page size, the total, what a time means,
//! what has changed. The data counts, and what was said is told.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, Response, StatusCode};
use sample_origin::{Asked, BeyondLast, Body, EtagStyle, FaultRule, Mishap, Origin, Switches, World};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::compare::{detail_is_the_origins, list_is_the_origins, same_list};
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, edit, quiet, wait_until};
use crate::origin_faults::{Fault, answers};

const LISTINGS: usize = 230;
const LIST: &str = "/api/listings.json";

async fn mirrored(switches: Switches) -> (Origin, Server) {
    let origin = origin_with(LISTINGS, switches).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    (origin, server)
}

async fn lists_are_the_origins(server: &Server, origin: &Origin) {
    for query in
        ["", "?page=3", "?per_page=100", "?per_page=100&page=3", "?per_page=7&page=2", "?sport=golf&per_page=100"]
    {
        list_is_the_origins(server, origin, &format!("{LIST}{query}")).await;
    }
}

/// Changes a listing far down and waits until it shows.
async fn a_change_shows(server: &Server, origin: &Origin) {
    let id = origin.world(World::ids)[70];
    edit(origin, server, |world| assert!(world.touch(id))).await;
    detail_is_the_origins(server, origin, id).await;
}

#[tokio::test(start_paused = true)]
async fn a_page_size_that_changes_is_followed() {
    let mut switches = Switches::default();
    switches.edges.largest_page = 50;
    let (origin, server) = mirrored(switches).await;
    lists_are_the_origins(&server, &origin).await;
    a_change_shows(&server, &origin).await;
    for size in [80, 50, 100] {
        let before = server.snapshot().await;
        origin.set(|switches| switches.edges.largest_page = size);
        server.refresh().await;
        wait_until("it is followed", || async { server.snapshot().await != before }).await;
        server.settled(&origin).await;
        lists_are_the_origins(&server, &origin).await;
        a_change_shows(&server, &origin).await;
    }
}

/// No list shows these listings, which totals and pages count: rows that are hidden after a page was cut.
#[derive(Debug)]
struct Hidden(Vec<Value>);

#[async_trait]
impl Mishap for Hidden {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let without = |right: bytes::Bytes| {
            let mut page: Value = serde_json::from_slice(&right).unwrap();
            page["items"].as_array_mut().unwrap().retain(|item| !self.0.contains(&item["id"]));
            page.to_string()
        };
        Ok(answers::rewritten(asked.right().await, without).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_page_that_is_short_by_itself_says_nothing_of_the_size() {
    let origin = origin_with(430, Switches { gzip: false, ..Switches::default() }).await;
    let whole = origin.expected(&format!("{LIST}?per_page=100")).1;
    let hidden = (0..3).map(|at| whole["items"][at]["id"].clone()).collect();
    origin.set(|switches| switches.faults = vec![FaultRule::always(LIST, Hidden(hidden))]);
    let server = Setup::mirror_of(&origin).start().await;
    wait_until("it lives with it", || async { server.finding("total-differs").await.is_some() }).await;
    for page in 1..=5 {
        let target = format!("{LIST}?page={page}&per_page=100");
        let (ours, (_, origins)) = (server.ok(&target).await.json(), origin.expected(&target));
        for number in ["per_page", "total", "total_pages"] {
            assert_eq!(ours[number], origins[number], "{target}");
        }
    }
    quiet(&origin).await;
    let before = origin.count();
    sleep(Duration::from_secs(60 * 60)).await;
    let asked = origin.count() - before;
    assert!(asked < 100, "{asked} requests in an hour");
}

/// Every third listing has another number of reviews at each look.
#[derive(Debug, Default)]
struct Restless(AtomicU64);

#[async_trait]
impl Mishap for Restless {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let look = self.0.fetch_add(1, Ordering::Relaxed);
        let restless = |right: bytes::Bytes| {
            let mut page: Value = serde_json::from_slice(&right).unwrap();
            for item in page["items"].as_array_mut().unwrap().iter_mut().step_by(3) {
                item["review_count"] = look.into();
            }
            page.to_string()
        };
        Ok(answers::rewritten(asked.right().await, restless).await)
    }
}

#[tokio::test(start_paused = true)]
async fn answers_that_differ_at_each_look_without_being_modified_are_told() {
    let switches = Switches { gzip: false, etags: EtagStyle::None, ..Switches::default() };
    let origin = origin_with(LISTINGS, switches).await;
    let server = Setup::mirror_of(&origin).set("ttl", "30s").start().await;
    server.settled(&origin).await;
    origin.set(|switches| switches.faults = vec![FaultRule::always(LIST, Restless::default())]);
    let told = async || server.finding("answers-unsteady").await;
    wait_until("it is told", || async { told().await.is_some() }).await;
    let text = told().await.unwrap();
    assert!(text.contains("34 listings, whose `modified` stands"), "{text}");
    origin.set(|switches| switches.faults.clear());
    let is_over = async || told().await.is_none_or(|text| text.contains("no longer"));
    wait_until("it is over", || async { is_over().await }).await;
}

#[tokio::test(start_paused = true)]
async fn listings_after_a_total_that_stops_counting_are_served() {
    for total in [200, 150, 100, 229] {
        let (origin, server) = mirrored(Switches { cached_total: Some(total), ..Switches::default() }).await;
        for id in origin.world(World::ids) {
            detail_is_the_origins(&server, &origin, id).await;
        }
        lists_are_the_origins(&server, &origin).await;
        list_is_the_origins(&server, &origin, &format!("{LIST}?page=5")).await;
        let finding = server.finding("total-differs").await.unwrap();
        assert!(finding.contains(&format!("{total} listings, but its pages show 230")), "{finding}");
        let all = server.ok("/dumps/listings.ndjson").await;
        assert_eq!(all.text().lines().count(), LISTINGS, "{total}");
        a_change_shows(&server, &origin).await;
        lists_are_the_origins(&server, &origin).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_lies_beyond_the_window_of_an_origin_is_forwarded() {
    for beyond in [BeyondLast::NotFound, BeyondLast::LastPage] {
        let mut switches = Switches { cached_total: Some(200), ..Switches::default() };
        switches.edges.beyond = beyond;
        let (origin, server) = mirrored(switches).await;
        assert_eq!(server.status().await["listings"], 200);
        for id in origin.world(World::ids) {
            detail_is_the_origins(&server, &origin, id).await;
        }
        for query in ["", "?page=4", "?sport=golf", "?state=texas&per_page=100", "?modified_since=2020-01-01&page=3"] {
            let target = format!("{LIST}{query}");
            same_list(server.ok(&target).await.text(), &origin.expected_text(&target).1, &target);
        }
        let finding = server.finding("total-differs").await.unwrap();
        assert!(finding.contains("at least 30 are not"), "{finding}");
    }
}

/// Clients see no list go back in time, unless nobody may ask for a newer one.
#[tokio::test(start_paused = true)]
async fn what_was_forwarded_before_the_newest_change_is_asked_again_or_says_that_it_is_stale() {
    let mut switches = Switches { cached_total: Some(200), ..Switches::default() };
    switches.edges.beyond = BeyondLast::NotFound;
    let origin = origin_with(LISTINGS, switches).await;
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "80").set("origin.wait", "0s");
    let server = setup.start().await;
    sleep(Duration::from_secs(400)).await;
    server.settled(&origin).await;
    let golf = format!("{LIST}?sport=golf");
    let forwarded_before_a_change = async || {
        let forwarded = server.ok(&golf).await;
        edit(&origin, &server, |world| assert!(world.touch(forwarded.ids()[0]))).await;
        forwarded
    };
    let is_current = async |why: &str| same_list(server.ok(&golf).await.text(), &origin.expected_text(&golf).1, why);
    forwarded_before_a_change().await;
    is_current("there is a slot").await;
    let forwarded = forwarded_before_a_change().await;
    let mut sizes = 1..=100;
    while server.get(&format!("{golf}&per_page={}", sizes.next().unwrap())).await.status == 200 {}
    let stale = server.ok(&golf).await;
    assert_eq!(stale.the("cache-status"), "grandstand; fwd=stale; detail=stale-if-error");
    assert_eq!(stale.body, forwarded.body);
    sleep(Duration::from_secs(60)).await;
    is_current("there is a slot again").await;
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_fails_after_the_last_page_hides_no_page_that_is_known() {
    let (origin, server) = mirrored(Switches { cached_total: Some(200), ..Switches::default() }).await;
    let third = format!("{LIST}?page=3&per_page=100");
    for fault in [Fault::Status(500), Fault::Status(503), Fault::Status(403)] {
        origin.set(|switches| switches.faults = vec![FaultRule::always(&third, fault)]);
        let id = origin.world(World::ids)[70];
        origin.edit(|world| assert!(world.touch(id)));
        server.refresh().await;
        sleep(Duration::from_secs(50)).await;
        assert_eq!(server.status().await["listings"], 230);
        origin.set(|switches| switches.faults.clear());
        server.settled(&origin).await;
    }
    lists_are_the_origins(&server, &origin).await;
}

/// The change of one listing, at each instant of a refresh: it shows with the next refresh at the latest, which is
/// neither put off nor asked in vain.
#[tokio::test(start_paused = true)]
async fn a_change_during_a_refresh_suspends_nothing() {
    for (nth, like) in (0..8).zip([true, false].into_iter().cycle()) {
        let origin = origin_with(LISTINGS, Switches::default()).await;
        origin.set(|switches| switches.latency = Duration::from_millis(100));
        let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "5m").start().await;
        server.settled(&origin).await;
        let ids = origin.world(World::ids);
        origin.edit(|world| assert!(world.touch(ids[10])));
        server.refresh().await;
        sleep(Duration::from_millis(90 * nth)).await;
        origin.edit(|world| {
            if like {
                world.insert_like(ids[70], "A New One").unwrap();
            } else {
                assert!(world.remove(ids[70]));
            }
        });
        let total = origin.world(World::len) as u64;
        let shows = || async { server.ok(LIST).await.total() == total };
        let began = Instant::now();
        while !shows().await && began.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_secs(1)).await;
        }
        let asked = origin.count();
        server.refresh().await;
        wait_until("it asks", || async { origin.count() > asked }).await;
        wait_until("the change shows", shows).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(40), "{nth}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn small_edits_in_a_row_stop_nothing() {
    let origin = origin_with(LISTINGS, Switches::default()).await;
    origin.set(|switches| switches.latency = Duration::from_millis(100));
    let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "5m").set("ttl", "3s").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    for nth in 0..9 {
        let id = origin.world(World::ids)[nth * 20];
        origin.edit(|world| assert!(world.touch(id)));
        sleep(Duration::from_millis(1300)).await;
    }
    let first = || origin.expected(LIST).1["items"][0]["name"].clone();
    wait_until("all of it shows", || async { server.ok(LIST).await.json()["items"][0]["name"] == first() }).await;
    list_is_the_origins(&server, &origin, LIST).await;
}

#[tokio::test(start_paused = true)]
async fn two_versions_in_turns_are_followed_more_and_more_seldom() {
    const FEW: usize = 130;
    let origin = origin_with(FEW, Switches::default()).await;
    let server = Setup::mirror_of(&origin).set("ttl", "30s").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    wait_until("every detail is there", || async { server.status().await["details"]["current"] == FEW }).await;
    origin.set(|switches| switches.rolling = true);
    origin.clear_log();
    sleep(Duration::from_secs(10 * 60)).await;
    // Between two looks, too.
    for _ in 0..15 * 60 / 7 {
        sleep(Duration::from_secs(7)).await;
        let finding = server.finding("answers-flip").await;
        assert!(finding.is_some_and(|text| text.contains("back and forth")), "{:#}", server.status().await);
    }
    // Five questions each twelve seconds at most; a few times every page; and every detail twice, as no cache says its age,
    // until it is seen that they flip.
    let (refreshes, followed) = (25 * 60 / 12 * 5, 10 * 40 + 2 * 2 * FEW as u64);
    assert!(origin.count() < refreshes + followed, "{} requests", origin.count());
    assert_eq!(server.admin(Method::GET, "/readyz").await.status, 200);
    origin.set(|switches| switches.rolling = false);
    let (began, expected) = (Instant::now(), origin.expected_text(LIST).1);
    let items = |text: &str| text.split_once("\"items\"").unwrap().1.to_owned();
    while items(server.ok(LIST).await.text()) != items(&expected) {
        assert!(began.elapsed() < Duration::from_secs(11 * 60), "it follows again");
        sleep(Duration::from_secs(5)).await;
    }
    quiet(&origin).await;
}

/// The right answer with another status in the place of 200.
#[derive(Debug)]
struct InsteadOf200(u16);

#[async_trait]
impl Mishap for InsteadOf200 {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let mut right = asked.right().await;
        if right.status() == StatusCode::OK {
            *right.status_mut() = StatusCode::from_u16(self.0).unwrap();
        }
        Ok(right)
    }
}

/// RFC 9110 §15.3.4 and §15: 203 is a 200 through a proxy that changed it, and a 2xx that nobody knows is a 200.
#[tokio::test(start_paused = true)]
async fn statuses_that_mean_200_are_taken_as_200() {
    for status in [203, 218, 299] {
        let origin = origin_with(LISTINGS, Switches::default()).await;
        origin.set(|switches| switches.faults = vec![FaultRule::always("/", InsteadOf200(status))]);
        let mut server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        lists_are_the_origins(&server, &origin).await;
        a_change_shows(&server, &origin).await;
        server.down().await;
        let shield = Setup::shield_of(&origin).start().await;
        same_list(shield.ok(LIST).await.text(), &origin.expected_text(LIST).1, LIST);
        shield.ok("/api/states.json").await;
    }
    for status in [201, 202, 206] {
        let origin = origin_with(LISTINGS, Switches::default()).await;
        origin.set(|switches| switches.faults = vec![FaultRule::always("/", InsteadOf200(status))]);
        let shield = Setup::shield_of(&origin).start().await;
        assert_eq!(shield.get(LIST).await.status, 502, "{status}");
    }
}

/// One of two machines answers, as if by chance: the other one lacks three listings and has ten others otherwise.
struct Turns {
    asked: AtomicU64,
    other: Origin,
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Turns")
    }
}

#[async_trait]
impl Mishap for Turns {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let is_other = self.asked.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
        let right = asked.right().await;
        if !is_other {
            return Ok(right);
        }
        let text = self.other.expected_text(asked.target).1;
        Ok(answers::rewritten(right, |_| text).await)
    }
}

#[tokio::test(start_paused = true)]
async fn two_machines_with_other_data_are_one_finding() {
    for cache_ttl in ["0s", "10s", "5m"] {
        let switches = Switches { gzip: false, etags: EtagStyle::None, ..Switches::default() };
        let [origin, other] = [origin_with(130, switches.clone()).await, origin_with(130, switches).await];
        other.edit(|world| {
            let ids = world.ids();
            assert!(ids[20..23].iter().all(|id| world.remove(*id)) && ids[40..50].iter().all(|id| world.touch(*id)));
        });
        let server = Setup::mirror_of(&origin).set("ttl", "15s").set("origin.cache_ttl", cache_ttl).start().await;
        server.settled(&origin).await;
        let turns = Turns { asked: AtomicU64::new(0), other };
        origin.set(|switches| switches.faults = vec![FaultRule::always("/", turns)]);
        let told = async || server.finding("answers-flip").await.filter(|text| !text.contains("no longer"));
        let began = Instant::now();
        wait_until("it is told", || async { told().await.is_some() }).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(45), "{took:?}");
        for _ in 0..240 {
            sleep(Duration::from_secs(1)).await;
            let status = server.status().await;
            let mut findings = status["findings"].as_array().unwrap().clone();
            findings.retain(|finding| finding["unhealthy"] == true && finding["name"] != "answers-flip");
            assert!(findings.is_empty(), "{cache_ttl}: {findings:#?}");
        }
        origin.set(|switches| switches.faults.clear());
        let began = Instant::now();
        while told().await.is_some() {
            assert!(began.elapsed() < Duration::from_secs(12 * 60), "it is over");
            sleep(Duration::from_secs(5)).await;
        }
        list_is_the_origins(&server, &origin, LIST).await;
    }
}
