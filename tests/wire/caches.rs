//! Caches in front of the origin, each with its own idea of `Date` and `Age`; and origins whose clock differs from ours.
//!
//! Details follow a change although a silent cache has their old copies, and no age is counted twice.

use std::time::Duration;

use tokio::time::Instant;

use http::Method;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use jiff::Timestamp;
use sample_origin::{Cdn, CopyHeader, FaultRule, Origin, Switches, World};

use crate::compare::{detail_is_the_origins, list_is_the_origins, taxonomies_are_the_origins};
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, each, edit, quiet, until, wait_until};
use crate::origin_faults::Fault;

const LIST: &str = "/api/listings.json";

fn behind(copy_header: CopyHeader, max_age: u64) -> Switches {
    let cdn = Some(Cdn { max_age: Duration::from_secs(max_age), nodes: 1 });
    Switches { cdn, copy_header, ..Switches::default() }
}

/// What the mirror asks, asked by somebody else: the cache keeps the answer.
async fn read_by_others(origin: &Origin, ids: &[u64]) {
    let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
    for id in ids {
        origin.ask(&Method::GET, &format!("/api/listings/{id}.json"), &headers).await.unwrap();
    }
}

fn details_asked(origin: &Origin) -> Vec<bool> {
    let log = origin.log();
    log.iter().filter(|seen| seen.path_and_query.contains("/listings/")).map(|seen| seen.conditional).collect()
}

/// Waits until the mirror has all of the origin's details.
async fn details_follow(server: &Server, origin: &Origin, ids: &[u64]) {
    for id in ids {
        let path = format!("/api/listings/{id}.json");
        let there = origin.expected(&path).1;
        wait_until(&format!("the detail of {id} follows"), || async { server.ok(&path).await.json() == there }).await;
        detail_is_the_origins(server, origin, *id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn changed_details_follow_behind_a_cache_that_sends_no_age() {
    each([false, true].map(|updating| CopyHeader::Silent { updating, says_so: false }), async |header| {
        let origin = origin_with(230, behind(header, 2)).await;
        let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "2s").set("ttl", "4s").start().await;
        server.settled(&origin).await;
        assert_eq!(details_asked(&origin).len(), 230, "{header:?}: each detail of the first copy is asked for once");
        let ids: Vec<u64> = origin.world(World::ids).into_iter().skip(90).step_by(11).take(10).collect();
        for round in 0..2 {
            let before = server.snapshot().await;
            read_by_others(&origin, &ids).await;
            let asked = details_asked(&origin).len();
            origin.edit(|world| assert!(ids.iter().all(|id| world.touch(*id) && world.change_detail(*id))));
            server.refresh().await;
            wait_until("the change shows", || async { server.snapshot().await != before }).await;
            details_follow(&server, &origin, &ids).await;
            server.settled(&origin).await;
            let asked = details_asked(&origin).split_off(asked);
            assert!(asked.len() <= 2 * ids.len() && asked.iter().all(|asked| *asked), "{header:?} {round}: {asked:?}");
        }
        list_is_the_origins(&server, &origin, LIST).await;
        taxonomies_are_the_origins(&server, &origin).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_a_client_asked_for_before_it_was_known_follows_too() {
    // A fresh copy of its detail is in the cache, so that the mirror's first request does not wake it up.
    let faults = vec![FaultRule::always("/api/listings.json", Fault::Status(500))];
    let switches = behind(CopyHeader::Silent { updating: true, says_so: false }, 3);
    let origin = origin_with(230, Switches { faults, ..switches }).await;
    let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "6s").set("ttl", "6s").start().await;
    let id = origin.world(World::ids)[100];
    let path = format!("/api/listings/{id}.json");
    let before = origin.expected(&path).1;
    let read_through =
        until("it is read through", async || Some(server.get(&path).await).filter(|reply| reply.status == 200));
    assert_eq!(read_through.await.json(), before);
    origin.edit(|world| assert!(world.touch(id) && world.change_detail(id)));
    assert_ne!(origin.expected(&path).1, before);
    origin.set(|switches| switches.faults.clear());
    server.refresh().await;
    server.settled(&origin).await;
    detail_is_the_origins(&server, &origin, id).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_old_copies_says_until_when_and_a_refresh_asks_at_once() {
    let origin = origin_with(230, behind(CopyHeader::Silent { updating: false, says_so: false }, 20)).await;
    let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "20s").set("ttl", "10s").start().await;
    wait_until("the first copy is certified", || async {
        assert_eq!(server.finding("waits-for-copies").await, None, "a first copy takes that long");
        let certificate = server.status().await["snapshot"]["certificate"].clone();
        ["full", "incremental"].contains(&certificate.as_str().unwrap_or_default())
    })
    .await;
    server.settled(&origin).await;
    origin.edit(|world| assert!(world.ids().iter().step_by(3).all(|id| world.touch(*id))));
    let told = until("it is told", || server.finding("waits-for-copies")).await;
    assert!(told.starts_with("until 20") && told.contains("caches before the origin"), "{told}");
    let refreshes = || origin.log().iter().filter(|seen| seen.path_and_query == "/api/sports.json").count();
    let (before, began) = (refreshes(), Instant::now());
    server.refresh().await;
    wait_until("a refresh is asked", || async { refreshes() > before }).await;
    assert!(began.elapsed() < Duration::from_secs(3), "at once: {:?}", began.elapsed());
    server.settled(&origin).await;
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(server.finding("waits-for-copies").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_ttl_that_is_too_short_for_the_cache_before_the_origin_is_told_as_that_and_steadily() {
    // Data is too old now and then, or always.
    each([CopyHeader::OwnDate, CopyHeader::Silent { updating: false, says_so: true }], async |header| {
        let origin = origin_with(60, behind(header, 60)).await;
        let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "60s").set("ttl", "20s").start().await;
        server.ready().await;
        tokio::time::sleep(Duration::from_secs(150)).await;
        let told = server.finding("ttl-too-short").await.unwrap_or_default();
        assert!(told.contains("ttl is 20s") && told.contains("caches before the origin"), "{header:?}: {told}");
        let mut is_unhealthy = false;
        for _ in 0..300 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let status = server.admin(Method::GET, "/status").await;
            let findings = status.json()["findings"].clone();
            let names: Vec<_> = findings.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
            assert!(names.contains(&"ttl-too-short") && !names.contains(&"unconfirmed"), "{header:?}: {findings:#}");
            let todo = findings.to_string();
            assert!(todo.contains("Set ttl to origin.cache_ttl or more."), "{header:?}: {findings:#}");
            is_unhealthy |= status.status == 503;
        }
        assert!(is_unhealthy, "{header:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_detail_that_shows_no_trace_of_the_change_is_asked_for_once_more_also_after_a_restart() {
    // The detail does not change at all: nothing but time tells that it is no old copy.
    let origin = origin_with(60, Switches::default()).await;
    let mut server = Setup::mirror_of(&origin).set("origin.cache_ttl", "20s").set("ttl", "4s").start().await;
    server.settled(&origin).await;
    let id = origin.world(World::ids)[30];
    let path = format!("/api/listings/{id}.json");
    let asked = |origin: &Origin| origin.log().iter().filter(|seen| seen.path_and_query == path).count();
    assert_eq!(asked(&origin), 1);
    let before = server.snapshot().await;
    // A change of the summary that does not move `modified`, on the first page: the next refresh sees it.
    origin.edit(|world| world.alter(id, |venue| venue.review_count += 1));
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    wait_until("its detail is asked for", || async { asked(&origin) == 2 }).await;
    let first = Instant::now();
    // What was fetched is durable within a second.
    wait_until("it is durable", || async { first.elapsed() > Duration::from_secs(2) }).await;
    assert_eq!(server.status().await["details"]["current"], 59, "it may be an old copy");
    server.restart().await;
    server.ready().await;
    wait_until("it is asked for once more", || async { asked(&origin) == 3 }).await;
    assert!(first.elapsed() > Duration::from_secs(18), "only after {:?} an old copy has expired", first.elapsed());
    server.settled(&origin).await;
    assert_eq!((asked(&origin), server.status().await["details"]["current"].as_u64()), (3, Some(60)));
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_forbids_caches_is_asked_for_each_changed_detail_once() {
    let cache_control = Some("no-store".to_owned());
    let origin = origin_with(60, Switches { cache_control, ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let before = server.snapshot().await;
    let id = origin.world(World::ids)[30];
    origin.clear_log();
    origin.edit(|world| world.alter(id, |venue| venue.review_count += 1));
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    server.settled(&origin).await;
    // Longer than `cache_ttl` and the worker's pause.
    let since = Instant::now();
    wait_until("time has passed", || async { since.elapsed() > Duration::from_secs(8) }).await;
    quiet(&origin).await;
    assert_eq!(details_asked(&origin).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn terms_that_stay_in_doubt_are_told_once_the_origin_was_asked() {
    let refuses = FaultRule::always("/api/listings.json?city=", Fault::Status(404));
    let origin = origin_with(120, Switches { count_skew: 3, faults: vec![refuses], ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.ready().await;
    assert_eq!(server.finding("terms-incomplete").await, None);
    tokio::time::sleep(Duration::from_secs(601)).await;
    let told = server.finding("terms-incomplete").await;
    assert!(told.is_some_and(|told| told.contains("which listings")), "{}", server.status().await["terms"]);
}

/// `Age` of the mirror's answers for a while: the largest.
async fn oldest(server: &Server, span: Duration) -> u64 {
    let (began, mut oldest) = (Instant::now(), 0);
    while began.elapsed() < span {
        oldest = oldest.max(server.ok(LIST).await.age().unwrap());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    oldest
}

#[tokio::test(start_paused = true)]
async fn no_age_is_counted_twice_whichever_date_the_cache_sends_and_whatever_the_origins_clock_says() {
    /// How old copies become, and the time from one refresh to the next, in seconds.
    const KEPT: u64 = 8;
    const TTL: u64 = 3;
    let headers = [CopyHeader::OwnDate, CopyHeader::OriginDate];
    let cases = headers.into_iter().flat_map(|header| [0, 300, -300].map(|ahead| (header, ahead)));
    each(cases, async |(header, ahead)| {
        let origin = origin_with(60, Switches { clock_ahead: ahead, ..behind(header, KEPT) }).await;
        let setup = Setup::mirror_of(&origin).set("origin.cache_ttl", "8s").set("ttl", &format!("{TTL}s"));
        let server = setup.start().await;
        server.settled(&origin).await;
        let age = oldest(&server, Duration::from_secs(2 * KEPT)).await;
        assert!((KEPT / 2..=KEPT + TTL + 2).contains(&age), "{header:?} {ahead}: {age} s");
        let stamps = server.status().await["origin"]["stamps"].clone();
        assert_eq!(stamps["lists"], "used", "{header:?} {ahead}: {stamps}");
        let said = server.process.said();
        assert!(!said.contains("generated_at is later"), "{header:?} {ahead}: {said}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_origin_whose_clock_is_minutes_off_has_fresh_data_and_is_healthy() {
    each([300_i64, -300, -86_400], async |ahead| {
        let origin = origin_with(60, Switches { clock_ahead: ahead, ..Switches::default() }).await;
        let mut server = Setup::mirror_of(&origin).set("ttl", "4s").start().await;
        for life in 0..2 {
            server.settled(&origin).await;
            let is_young = async || {
                let status = server.admin(Method::GET, "/status").await;
                let young = server.ok(LIST).await.age().is_some_and(|age| age <= 6);
                young && status.status == 200 && status.json()["unconfirmed"] == false
            };
            wait_until("the data is fresh", is_young).await;
            let status = server.status().await;
            let confirmed: Timestamp = status["confirmed_at"].as_str().unwrap().parse().unwrap();
            let origins = server.wall().as_seconds() + ahead;
            // Never in our future, and never later than the origin's own clock says.
            assert!(confirmed.as_second() <= server.wall().as_seconds().min(origins + 1), "{life} {ahead}: {status:#}");
            // After the restart there may be no body to read.
            let stamp = &status["origin"]["stamps"]["lists"];
            assert!(stamp == "used" || (life == 1 && stamp.is_null()), "{life} {ahead}: {stamp}");
            let differs = server.finding("clocks-differ").await.unwrap();
            let how = if ahead > 0 { "behind that of the origin" } else { "ahead of that of the origin" };
            assert!(differs.contains(how), "{life} {ahead}: {differs}");
            let id = origin.world(World::ids)[30];
            origin.edit(|world| assert!(world.touch(id) && world.change_detail(id)));
            server.refresh().await;
            details_follow(&server, &origin, &[id]).await;
            server.restart().await;
        }
    })
    .await;
}

/// An origin that is behind is asked about a term, and about a second, as often as one that is not.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_behind_makes_no_answer_older_than_what_it_explains() {
    each([0_i64, -120, -7200], async |ahead| {
        let origin = origin_with(230, Switches { clock_ahead: ahead, count_skew: 3, ..Switches::default() }).await;
        let server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        edit(&origin, &server, |world| assert!(world.touch(world.ids()[30]))).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let about_terms = || origin.log().iter().filter(|seen| seen.path_and_query.contains("city=")).count();
        let asked = about_terms();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(about_terms(), asked, "{ahead}");
        let terms = server.status().await["terms"].clone();
        let doubtful: u64 = terms.as_object().unwrap().values().map(|of| of["doubtful"].as_u64().unwrap()).sum();
        assert_eq!(doubtful, 0, "{ahead}: {terms:#}");
    })
    .await;
}
