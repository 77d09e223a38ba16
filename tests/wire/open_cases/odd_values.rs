//! Values in no row: other spellings of numbers, slugs, instants and ids. Only the origin knows what they mean, so it is
//! asked, within bounds.

use std::time::Duration;

use sample_origin::{Dates, FaultRule, Numbers, Origin, Slugs, Switches};

use super::{LIST, ask, by_address, examined, of_ours, of_the_origin};
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup};
use crate::origin_faults::Fault;

const MINUTE: Duration = Duration::from_secs(61);

async fn speaking(change: impl FnOnce(&mut Switches)) -> (Origin, Server) {
    let mut switches = Switches::default();
    change(&mut switches);
    let origin = origin_with(230, switches).await;
    let server = examined(&origin).await;
    (origin, server)
}

async fn are_the_origins(server: &Server, origin: &Origin, targets: impl IntoIterator<Item = String>) {
    for target in targets {
        let before = origin.count();
        let ours = ask(server, &target).await;
        assert_eq!(of_ours(&ours), of_the_origin(origin, &target), "{target}: {ours:?}");
        assert!(origin.count() > before, "{target} was not asked for");
    }
}

const NUMBERS: [&str; 12] =
    ["2.0", "2%20", "%202", "+2", "%2B2", "2abc", "02", "1_0", "-02", "NaN", "2,5", "99999999999999999999"];

#[tokio::test(start_paused = true)]
async fn other_spellings_are_answered_by_the_origin() {
    for numbers in [Numbers::ParseInt, Numbers::Python, Numbers::Strict] {
        let (origin, server) = speaking(|switches| switches.numbers = numbers).await;
        let pages = NUMBERS.map(|value| format!("{LIST}?page={value}"));
        let sizes = NUMBERS.map(|value| format!("{LIST}?per_page={value}&state=texas"));
        are_the_origins(&server, &origin, pages.into_iter().chain(sizes)).await;
        let id = origin.world(sample_origin::World::ids)[3];
        let ids = [format!("0{id}"), format!("+{id}"), format!("%2B{id}"), format!("{id}.0"), format!("{id}x")];
        are_the_origins(&server, &origin, ids.map(|id| format!("/api/listings/{id}.json"))).await;
    }
    let (origin, server) = speaking(|switches| switches.slugs = Slugs::Loose).await;
    let slugs = [
        "sport=Golf",
        "sport=GOLF&page=2&per_page=3",
        "state=texas%20",
        "state=+Texas",
        "sport=golf&sport=Golf",
        "sport=golf,baseball",
    ];
    are_the_origins(&server, &origin, slugs.map(|query| format!("{LIST}?{query}"))).await;
    assert!(ask(&server, &format!("{LIST}?state=TEXAS")).await.total() > 0);
    // A name in the place of its slug, too, is the origin's to answer.
    for name in ["New%20York", "new_york", "N.%20Carolina"] {
        let before = origin.count();
        ask(&server, &format!("{LIST}?state={name}")).await;
        assert_eq!(origin.count() > before, name != "N.%20Carolina", "{name}");
    }
    for dates in [Dates::Iso, Dates::Documented] {
        let (origin, server) = speaking(|switches| switches.dates = dates).await;
        let dates = ["20250601", "20250601T000000Z", "2025-W22-7", "2025-06-01T00:00", "2026-13-45", "1748736000"];
        are_the_origins(&server, &origin, dates.map(|since| format!("{LIST}?modified_since={since}"))).await;
        for never in ["9999-12-31", "9999-12-31T23:59:59-23:59"] {
            assert_eq!(server.ok(&format!("{LIST}?modified_since={never}")).await.total(), 0, "{never}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_rows_at_once_are_the_origins_and_what_nobody_may_ask_is_refused() {
    let (origin, server) = speaking(|_| {}).await;
    let both = ["page=0&sport=quidditch", "page=0&per_page=0", "sport=quidditch&page=2", "per_page=101&page=9999"];
    are_the_origins(&server, &origin, both.map(|query| format!("{LIST}?{query}"))).await;
    origin.clear_log();
    for value in ["2%22", "2/3", "2%00", "caf%C3%A9", "%3Cb%3E2", &"2".repeat(33)] {
        ask(&server, &format!("{LIST}?page={value}")).await.assert_problem(400, &["page"]);
        ask(&server, &format!("{LIST}?page=1&page={value}&page=3")).await.assert_problem(400, &["page"]);
    }
    assert_eq!(ask(&server, "/api/listings/%3C7.json").await.status, 404);
    let current = server.snapshot().await;
    ask(&server, &format!("{LIST}?page=2.0&snapshot={current}")).await.assert_problem(400, &["page"]);
    assert!(
        origin.log().iter().all(|seen| seen.path_and_query.contains("per_page=100") || seen.path_and_query.len() < 30)
    );
}

#[tokio::test(start_paused = true)]
async fn an_odd_value_is_asked_for_once_in_the_bytes_of_the_client_and_of_its_fields_only_the_type_is_passed_on() {
    let (origin, server) = speaking(|switches| switches.numbers = Numbers::ParseInt).await;
    for (target, sent) in [
        ("?page=+2", "?page=+2"),
        ("?page=%202", "?page=%202"),
        ("?utm=1&page=2.0&state=te%78as", "?state=texas&page=2.0"),
    ] {
        origin.clear_log();
        let first = ask(&server, &format!("{LIST}{target}")).await;
        assert!(first.status == 200 && first.the("cache-status").contains("fwd=uri-miss"), "{first:?}");
        for name in ["etag", "last-modified", "set-cookie", "server", "x-request-id-of-the-origin"] {
            assert_eq!(first.header(name), None, "{name}");
        }
        let again = server.ok(&format!("{LIST}{target}")).await;
        assert!(again.the("cache-status").contains("hit"), "another client: {again:?}");
        let asked = origin.log().iter().filter(|seen| seen.path_and_query == format!("{LIST}{sent}")).count();
        assert_eq!(asked, 1, "{:#?}", origin.log());
    }
    // The ordinary spelling is the snapshot's.
    assert!(server.ok(&format!("{LIST}?page=2")).await.header("mirror-snapshot").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_redirect_on_the_same_host_is_followed_and_another_one_is_not_passed_on() {
    let (origin, server) = speaking(|switches| switches.numbers = Numbers::ParseInt).await;
    let elsewhere = "http://elsewhere.test/api/listings.json".to_owned();
    let rules = [("2a", format!("{}{LIST}?page=2", origin.url())), ("2b", elsewhere)];
    let rules = rules.map(|(value, to)| FaultRule::always(&format!("{LIST}?page={value}"), Fault::Redirect(to)));
    origin.set(|switches| switches.faults = rules.to_vec());
    let followed = ask(&server, &format!("{LIST}?page=2a")).await;
    assert_eq!(of_ours(&followed), of_the_origin(&origin, &format!("{LIST}?page=2")), "{followed:?}");
    let refused = ask(&server, &format!("{LIST}?page=2b")).await;
    assert!(refused.status == 502 && refused.header("location").is_none(), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn one_client_has_two_a_minute_and_what_is_stored_stands_in() {
    let (origin, server) = speaking(|switches| switches.numbers = Numbers::ParseInt).await;
    let get = async |number: u32| server.get(&format!("{LIST}?page=1.{number}")).await;
    assert_eq!((get(0).await.status, get(1).await.status), (200, 200));
    let refused = get(2).await;
    refused.assert_problem(503, &[]);
    let wait: u64 = refused.the("retry-after").parse().unwrap();
    assert!((50..=61).contains(&wait), "{wait}");
    // Others go on, and so does this one with what is there.
    assert_eq!(ask(&server, &format!("{LIST}?page=1.7")).await.status, 200);
    assert_eq!(get(0).await.status, 200);
    tokio::time::sleep(MINUTE).await;
    assert_eq!(get(2).await.status, 200);
    // The origin fails.
    origin.set(|switches| switches.faults = vec![FaultRule::always("", Fault::Status(503))]);
    tokio::time::sleep(20 * MINUTE).await;
    let stale = get(0).await;
    assert!(stale.status == 200 && stale.the("cache-status").contains("fwd=stale"), "{stale:?}");
    get(9).await.assert_problem(503, &[]);
    // Two minutes after it is back, all is as before.
    origin.set(|switches| switches.faults.clear());
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(get(0).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn two_refusals_that_are_about_us_end_reading_through_for_an_hour() {
    for status in [401, 403, 406, 451, 500] {
        let (origin, server) = speaking(|switches| switches.numbers = Numbers::ParseInt).await;
        let faults =
            ["x", "y"].map(|letter| FaultRule::always(&format!("{LIST}?page=2{letter}"), Fault::Status(status)));
        origin.set(|switches| switches.faults = faults.to_vec());
        for letter in ["x", "y"] {
            let refused = ask(&server, &format!("{LIST}?page=2{letter}")).await;
            assert!(matches!(refused.status, 502 | 503), "{status}: {refused:?}");
        }
        origin.clear_log();
        ask(&server, &format!("{LIST}?page=2z")).await.assert_problem(503, &[]);
        assert!(origin.log().iter().all(|seen| !seen.path_and_query.contains("2z")), "{status}");
        assert!(server.finding("open-cases-ended").await.is_some_and(|text| text.contains(&status.to_string())));
        assert_eq!(server.ok(LIST).await.total(), 230, "{status}: everything else goes on");
        // The hour is one for all of them.
        if !matches!(status, 401 | 500) {
            continue;
        }
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!(ask(&server, &format!("{LIST}?page=2z")).await.status, 200, "{status}");
        let over = server.finding("open-cases-ended").await;
        assert!(over.is_none_or(|text| text.starts_with("no longer")), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn odd_values_take_a_tenth_of_the_budget_and_never_wait() {
    let switches = Switches { numbers: Numbers::ParseInt, ..Switches::default() };
    let origin = origin_with(60, switches).await;
    let setup = Setup::examining(&origin).set("origin.requests_per_minute", "600");
    let server = by_address(setup).start().await;
    server.settled(&origin).await;
    server.disproved().await;
    tokio::time::sleep(MINUTE).await;
    let (began, mut answered) = (server.wall(), 0);
    for number in 0..100 {
        let reply = ask(&server, &format!("{LIST}?page=1.{number}")).await;
        assert!(matches!(reply.status, 200 | 503), "{reply:?}");
        answered += usize::from(reply.status == 200);
    }
    assert!(server.wall().millis_since(began) < 10_000);
    assert_eq!(answered, 60, "a tenth of 600");
}
