//! Values that belong to no class that a mirror probes: other spellings of numbers, slugs, instants and ids. Only the
//! origin knows what they mean, so it is asked, within bounds.

use std::time::{Duration, Instant};

use sample_origin::{Dates, Edges, EmptyPages, Numbers, Origin, Slugs, Switches};

use super::{LIST, edges, has_learned, learned, learning, of_the_origin, tag};
use crate::client::Reply;
use crate::compare::same_list;
use crate::harness::{Server, Setup, asked, origin_with, quiet};

/// An origin of this dialect, and a mirror that has learned how it answers.
async fn speaking(change: impl FnOnce(&mut Switches)) -> (Origin, Server) {
    let mut switches = Switches::default();
    change(&mut switches);
    let origin = origin_with(230, switches).await;
    let server = learning(&origin).start().await;
    has_learned(&server).await;
    (origin, server)
}

/// Status and body are the origin's.
async fn is_the_origins(server: &Server, origin: &Origin, target: &str) -> Reply {
    let (ours, theirs) = (server.get(target).await, of_the_origin(origin, target).await);
    assert_eq!(ours.status, theirs.status, "{target}: {} instead of {}", ours.text(), theirs.text());
    if theirs.status == 200 && target.starts_with(LIST) {
        same_list(ours.text(), theirs.text(), target);
    } else {
        assert_eq!(ours.text(), theirs.text(), "{target}");
    }
    ours
}

const NUMBERS: [&str; 14] = [
    "2.0",
    "2%20",
    "%202",
    "+2",
    "%2B2",
    "2abc",
    "02",
    "1_0",
    "1__0",
    "-02",
    "0x2",
    "NaN",
    "2,5",
    "99999999999999999999",
];

/// The id of a listing, otherwise spelled.
fn ids(origin: &Origin) -> Vec<String> {
    let id = origin.world(sample_origin::World::ids)[3];
    ["0%", "+%", "%2B%", "%.0", "%20%", "%x", "%_0"]
        .map(|form| form.replace('%', "\u{1}"))
        .map(|form| {
            // A percent sign is the place of the id, but in an escape.
            form.replace("\u{1}20", "%20").replace("\u{1}2B", "%2B").replace('\u{1}', &id.to_string())
        })
        .into()
}

async fn numbers_are_the_origins(numbers: Numbers) {
    let (origin, server) = speaking(|switches| switches.numbers = numbers).await;
    for value in NUMBERS {
        is_the_origins(&server, &origin, &format!("{LIST}?page={value}")).await;
        is_the_origins(&server, &origin, &format!("{LIST}?per_page={value}&state=texas")).await;
        is_the_origins(&server, &origin, &format!("{LIST}?page={value}&per_page=0")).await;
    }
    for id in ids(&origin) {
        is_the_origins(&server, &origin, &format!("/api/listings/{id}.json")).await;
    }
}

#[tokio::test]
async fn an_origin_that_reads_numbers_as_javascript_and_php_do_is_asked_about_odd_ones() {
    numbers_are_the_origins(Numbers::ParseInt).await;
}

#[tokio::test]
async fn an_origin_that_reads_numbers_as_python_does_is_asked_about_odd_ones() {
    numbers_are_the_origins(Numbers::Python).await;
}

#[tokio::test]
async fn an_origin_that_takes_canonical_numbers_only_refuses_odd_ones_in_its_own_words() {
    numbers_are_the_origins(Numbers::Strict).await;
}

#[tokio::test]
async fn an_origin_that_compares_slugs_without_case_is_asked_about_other_spellings_of_a_slug() {
    for personality in ["documented", "strict"] {
        let (origin, server) = speaking(|switches| {
            switches.slugs = Slugs::Loose;
            switches.edges = Edges::named(personality).unwrap();
        })
        .await;
        for query in [
            "sport=Golf",
            "sport=GOLF&page=2&per_page=3",
            "state=TEXAS",
            "state=t%C3%A9xas",
            "state=texas%20",
            "state=+Texas",
            "sport=Golf&state=Texas",
            "sport=golf&sport=Golf",
            "sport=Golf&page=0",
            "sport=Golf&per_page=101",
        ] {
            is_the_origins(&server, &origin, &format!("{LIST}?{query}")).await;
        }
        assert!(server.ok(&format!("{LIST}?state=TEXAS")).await.total() > 0);
        // A slug that no term has, in whatever case, is of a class that was probed.
        quiet(&origin).await;
        origin.clear_log();
        is_the_origins(&server, &origin, &format!("{LIST}?sport=Quidditch")).await;
        assert_eq!(origin.log().len(), 1, "{:?}", origin.log());
    }
}

const DATES: [&str; 12] = [
    "20250601",
    "20250601T000000Z",
    "20250601T000000%2B0200",
    "2025-W22-7",
    "2025-W22",
    "2025-06-01T00:00:00,5Z",
    "2025-06-01T00:00:00.1234567890123Z",
    "2025-06-01T00:00",
    "2025-06-01T00:00:00%2B25:00",
    "2025-06-01T23:59:60Z",
    "2026-13-45",
    "1748736000",
];

#[tokio::test]
async fn other_spellings_of_instants_are_the_origins_to_read() {
    for dates in [Dates::Iso, Dates::Documented] {
        let (origin, server) = speaking(|switches| switches.dates = dates).await;
        for since in DATES {
            is_the_origins(&server, &origin, &format!("{LIST}?modified_since={since}")).await;
            is_the_origins(&server, &origin, &format!("{LIST}?modified_since={since}&page=2&per_page=7")).await;
        }
        quiet(&origin).await;
        origin.clear_log();
        for since in
            ["2025-06-01", "2025-06-01T00:00:00Z", "2025-06-01T02:00:00+02:00", "2025-06-01T00:00:00.5", "9999-12-31"]
        {
            is_the_origins(&server, &origin, &format!("{LIST}?modified_since={since}")).await;
        }
        for never in ["9999-12-31", "9999-12-31T23:59:59-23:59"] {
            assert_eq!(server.ok(&format!("{LIST}?modified_since={never}")).await.total(), 0, "{never}");
        }
        // Only what was compared.
        assert_eq!(asked(&origin).len(), 5, "{:#?}", origin.log());
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_other_spellings_of_iso_8601_are_read_and_all_else_is_refused() {
    let (origin, server) = speaking(|_| {}).await;
    let own = Setup::mirror_of(&origin).start().await;
    own.settled(&origin).await;
    let desk = crate::gap::Desk::new();
    desk.does(&server.setup, &server.data_dir(), &["export"], "all.gsb").await;
    let offline = desk.serve_bundle(Setup::offline(), "all.gsb").await;
    offline.ready().await;
    assert_eq!(edges(&offline).await["state"], "learned");
    quiet(&origin).await;
    origin.clear_log();
    for server in [&own, &offline] {
        for (one, usual) in [
            ("20250601", "2025-06-01"),
            ("20250601T000000Z", "2025-06-01"),
            ("2025-W22-7", "2025-06-01"),
            ("2025-W22", "2025-05-26"),
            ("2025-06-01T00:00:00,0Z", "2025-06-01"),
            ("2025-06-01T00:00:00.0000000009Z", "2025-06-01"),
        ] {
            let ours = server.ok(&format!("{LIST}?modified_since={one}")).await;
            assert_eq!(ours.total(), server.ok(&format!("{LIST}?modified_since={usual}")).await.total(), "{one}");
            assert_eq!(ours.json()["filters"]["modified_since"], one);
            assert_ne!(ours.the("cache-control"), "no-store", "{one}");
        }
        for refused in ["2025-06-01T00:00:00%2B25:00", "1748736000", "2026-13-45"] {
            server.get(&format!("{LIST}?modified_since={refused}")).await.assert_problem(400, &["modified_since"]);
        }
        for refused in ["2.0", "02", "+2", "99999999999999999999"] {
            server.get(&format!("{LIST}?page={refused}")).await.assert_problem(400, &["page"]);
            server.get(&format!("{LIST}?per_page={refused}")).await.assert_problem(400, &["per_page"]);
        }
        let none = server.ok(&format!("{LIST}?sport=Golf")).await;
        assert_eq!(none.total(), 0, "slugs are compared exactly");
        assert_ne!(none.the("cache-control"), "no-store");
        let id = origin.world(sample_origin::World::ids)[0];
        let missing = server.get(&format!("/api/listings/0{id}.json")).await;
        assert_eq!((missing.status, missing.the("cache-control")), (404, "public, max-age=60".to_owned()));
    }
    assert_eq!(asked(&origin), [""; 0]);
    // A shield asks its origin whatever its own table does not refuse.
    let shield = Setup::shield_of(&origin).start().await;
    shield.get(&format!("{LIST}?page=02")).await.assert_problem(400, &["page", "02"]);
    origin.set(|switches| switches.dates = Dates::Iso);
    is_the_origins(&shield, &origin, &format!("{LIST}?modified_since=20250601")).await;
}

#[tokio::test]
async fn an_odd_value_is_asked_for_once_in_the_bytes_of_the_client_and_poisons_no_other() {
    let (origin, server) = speaking(|switches| switches.numbers = Numbers::ParseInt).await;
    quiet(&origin).await;
    origin.clear_log();
    for (target, sent) in [
        ("?page=+2", "?page=+2"),
        ("?page=%202", "?page=%202"),
        ("?utm=1&page=2.0&state=te%78as&per_page=50", "?state=texas&page=2.0"),
    ] {
        let first = server.ok(&format!("{LIST}{target}")).await;
        assert!(first.the("cache-status").contains("fwd=uri-miss"), "{first:?}");
        let again = server.ok(&format!("{LIST}{target}")).await;
        assert!(again.the("cache-status").contains("hit"), "{again:?}");
        assert_eq!(asked(&origin), [format!("{LIST}{sent}")]);
        origin.clear_log();
    }
    // The ordinary spelling is the snapshot's.
    assert!(server.ok(&format!("{LIST}?page=2")).await.header("mirror-snapshot").is_some());
    // Others cannot be asked for: these values could become markup, or are too long.
    for value in ["%3Cb%3E2", "2%22", "2/3", "2%00", "2%0A", "2%26page=3", &"2".repeat(65)] {
        server.get(&format!("{LIST}?page={value}")).await.assert_problem(400, &["page"]);
    }
    assert_eq!(server.get("/api/listings/%3C7.json").await.status, 404);
    let current = server.snapshot().await;
    server.get(&format!("{LIST}?page=2.0&snapshot={current}")).await.assert_problem(400, &["page"]);
    assert_eq!(asked(&origin), [""; 0]);
}

#[tokio::test]
async fn where_the_origin_fails_the_answer_to_an_odd_value_is_ours_and_not_kept() {
    let (origin, server) = speaking(|switches| {
        (switches.numbers, switches.slugs) = (Numbers::ParseInt, Slugs::Loose);
    })
    .await;
    let id = origin.world(sample_origin::World::ids)[0];
    origin.shutdown().await;
    for (target, status) in [
        (format!("{LIST}?page=2.0"), 400),
        (format!("{LIST}?page=0&per_page=x"), 400),
        (format!("{LIST}?sport=Golf"), 200),
        (format!("{LIST}?sport=Golf&per_page=200"), 200),
        (format!("{LIST}?modified_since=20250601"), 200),
        (format!("/api/listings/0{id}.json"), 404),
        ("/api/listings/7.0.json".to_owned(), 404),
    ] {
        let ours = server.get(&target).await;
        assert_eq!((ours.status, ours.the("cache-control")), (status, "no-store".to_owned()), "{target}: {ours:?}");
        assert!(ours.header("x-accel-expires").is_none_or(|left| left == "0"), "{target}: {ours:?}");
    }
    let ours = server.ok(&format!("{LIST}?sport=Golf")).await;
    assert_eq!(ours.total(), 0);
    // What is no odd value is kept as ever.
    assert_ne!(server.ok(&format!("{LIST}?sport=golf")).await.the("cache-control"), "no-store");
}

#[tokio::test]
async fn odd_values_take_a_tenth_of_the_budget_never_wait_and_leave_the_rest_to_others() {
    let switches = Switches { numbers: Numbers::ParseInt, ..Switches::default() };
    let origin = origin_with(60, switches).await;
    let server = learning(&origin).set("origin.requests_per_minute", "600").start().await;
    has_learned(&server).await;
    quiet(&origin).await;
    origin.clear_log();
    let (began, mut ours) = (Instant::now(), 0);
    for number in 0..100 {
        let reply = server.get(&format!("{LIST}?page=1.{number}")).await;
        if reply.status == 400 {
            assert_eq!(reply.the("cache-control"), "no-store");
            ours += 1;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let odd = |origin: &Origin| origin.log().iter().filter(|seen| seen.path_and_query.contains("page=1.")).count();
    assert_eq!((odd(&origin), ours), (60, 40), "a tenth of 600");
    // Another client finds what was asked for, and others go on.
    assert!(server.ok(&format!("{LIST}?page=1.0")).await.the("cache-status").contains("hit"));
    server.refreshed(&origin).await;
    server.get("/api/regions.json").await;
    assert!(origin.log().iter().any(|seen| seen.path_and_query == "/api/regions.json"));
}

#[tokio::test]
async fn a_page_size_below_zero_is_a_case() {
    let (origin, server) = learned("lenient", 130).await;
    let told = edges(&server).await["cases"]["per-page-negative"].clone();
    assert_eq!(told, "clamped to 50");
    quiet(&origin).await;
    origin.clear_log();
    let ours = server.ok(&format!("{LIST}?per_page=-1&page=2")).await;
    assert_eq!(ours.json()["per_page"], 50);
    assert_eq!(asked(&origin), [""; 0]);
}

#[tokio::test]
async fn an_empty_list_has_the_origins_number_of_pages_and_unknown_slugs_are_learned() {
    let (origin, server) = speaking(|switches| switches.empty_pages = EmptyPages::One).await;
    let status = edges(&server).await;
    for case in ["unknown-sport", "unknown-state", "unknown-city", "since-future", "page-beyond"] {
        assert_eq!(status["cases"][case], "as ours", "{status:#}");
    }
    quiet(&origin).await;
    origin.clear_log();
    for query in ["sport=quidditch", "city=atlantis&per_page=7", "modified_since=2999-01-01", "page=9999"] {
        let ours = is_the_origins(&server, &origin, &format!("{LIST}?{query}")).await;
        if !query.starts_with("page") {
            assert_eq!(ours.json()["total_pages"], 1, "{query}");
        }
    }
    assert_eq!(asked(&origin).len(), 4, "only what was compared: {:#?}", origin.log());
    // It shows in the tags of empty lists alone, and travels.
    let usual = origin_with(230, Switches::default()).await;
    let other = Setup::mirror_of(&usual).start().await;
    other.settled(&usual).await;
    for (query, same) in [("sport=golf", true), ("sport=quidditch", false)] {
        assert_eq!(tag(&server, query).await == tag(&other, query).await, same, "{query}");
    }
    let desk = crate::gap::Desk::new();
    desk.does(&server.setup, &server.data_dir(), &["export"], "all.gsb").await;
    assert_eq!(desk.bytes("all.gsb")[8], 3);
    let offline = desk.serve_bundle(Setup::offline(), "all.gsb").await;
    offline.ready().await;
    assert_eq!(offline.snapshot().await, server.snapshot().await);
    assert_eq!(offline.ok(&format!("{LIST}?sport=quidditch")).await.json()["total_pages"], 1);
}
