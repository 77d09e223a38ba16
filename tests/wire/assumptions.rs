//! Undocumented behaviour is asked for, and what a refresh cannot see is found. Offline, only mirrored data exists.

use std::time::Duration;

use sample_origin::{Cdn, Combine, ItemOrder, Origin, Reading, Since, Switches, World};
use serde_json::{Value, json};

use crate::compare::{detail_is_the_origins, list_is_the_origins, taxonomies_are_the_origins};
use crate::harness::virtually::{origin, origin_with};
use crate::harness::{Server, Setup, each, edit, run, wait_until};

const LIST: &str = "/api/listings.json";

/// Waits until the origin was asked what filters mean, and returns what is disproved.
async fn disproved(server: &Server) -> Value {
    wait_until("the origin was asked what filters mean", || async { server.status().await["disproved"].is_array() })
        .await;
    server.status().await["disproved"].clone()
}

/// A few dozen ordinary queries of every kind: filters alone and together, dates and times in every spelling.
fn ordinary(origin: &Origin) -> Vec<String> {
    origin.world(|world| {
        let mut queries = Vec::new();
        for id in world.ids().into_iter().step_by(37) {
            let (sport, state, city) = world.slugs_of(id).unwrap();
            let at = world.venue(id).unwrap().modified.at;
            let day = at.strftime("%F");
            queries.extend([
                format!("sport={sport}"),
                format!("state={state}&per_page=100"),
                format!("city={city}"),
                format!("sport={sport}&state={state}"),
                format!("sport={sport}&city={city}"),
                format!("state={state}&city={city}"),
                format!("modified_since={day}"),
                format!("modified_since={at}"),
                format!("modified_since={}", at.strftime("%FT%T")),
                format!("modified_since={}", at.strftime("%FT%T%%2B00:00")),
                format!("sport={sport}&modified_since={day}"),
                format!("state={state}&modified_since={at}"),
            ]);
        }
        // Dates on which listings were modified near midnight, in both halves of the year.
        let all: Vec<_> = world.ids().into_iter().map(|id| world.venue(id).unwrap().modified.at).collect();
        for hours in [-1_i64, 1, 6, -10] {
            let near = all.iter().filter(|at| {
                let within = at.as_second().rem_euclid(86_400);
                if hours > 0 { within < hours * 3600 } else { within >= 86_400 + hours * 3600 }
            });
            queries.extend(near.take(12).map(|at| {
                let day = at.as_second() + if hours > 0 { 0 } else { 86_400 };
                format!("modified_since={}", jiff::Timestamp::from_second(day).unwrap().strftime("%F"))
            }));
        }
        queries
    })
}

/// Every answer of the server has the origin's data.
async fn is_the_origins(server: &Server, origin: &Origin, what: &str) {
    for query in ordinary(origin) {
        let target = format!("{LIST}?{query}");
        let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
        assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{what}: {target}");
    }
}

/// How an origin differs, and what it disproves.
type Situation = (&'static str, fn(&mut Switches), &'static [&'static str]);

const EVERY_FILTER: [&str; 4] = ["sport", "state", "city", "modified_since"];

/// A reading of dates, or of times without offset, in a zone.
fn dates_of(rule: &str) -> Reading {
    Reading { times: jiff::tz::TimeZone::UTC, ..Reading::local(rule).unwrap() }
}

fn times_of(rule: &str) -> Reading {
    Reading { dates: jiff::tz::TimeZone::UTC, ..Reading::local(rule).unwrap() }
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_wrong_whatever_the_origins_filters_mean() {
    let situations: [Situation; 15] = [
        ("dates in Central Standard Time", |s| s.reading = dates_of("<-06>6"), &["midnight"]),
        ("dates in Darwin", |s| s.reading = dates_of("<+0930>-9:30"), &["midnight"]),
        ("dates in Chicago", |s| s.reading = dates_of("CST6CDT,M3.2.0,M11.1.0"), &["midnight"]),
        ("dates in London", |s| s.reading = dates_of("GMT0BST,M3.5.0/1,M10.5.0"), &["midnight"]),
        ("dates in the Azores", |s| s.reading = dates_of("<-01>1<+00>,M3.5.0/0,M10.5.0/1"), &["midnight"]),
        ("dates in Kathmandu", |s| s.reading = dates_of("<+0545>-5:45"), &["midnight"]),
        ("times without offset in Chicago", |s| s.reading = times_of("CST6CDT,M3.2.0,M11.1.0"), &["offset"]),
        ("times without offset in Berlin", |s| s.reading = times_of("CET-1CEST,M3.5.0,M10.5.0/3"), &["offset"]),
        (
            "all that is local in Chicago",
            |s| s.reading = Reading::local("CST6CDT,M3.2.0,M11.1.0").unwrap(),
            &["midnight", "offset"],
        ),
        ("only the date of a time counts", |s| s.reading.only_dates = true, &["time"]),
        ("a gateway drops the city", |s| s.dropped = vec!["city"], &["city-heeded"]),
        ("a gateway drops the sport", |s| s.dropped = vec!["sport"], &["sport-heeded"]),
        ("a gateway drops modified_since", |s| s.dropped = vec!["modified_since"], &["since-heeded"]),
        ("a gateway drops every filter", |s| s.dropped = EVERY_FILTER.to_vec(), &["city-heeded", "state-heeded"]),
        (
            "a gateway drops every slug and dates are local",
            |s| (s.dropped, s.reading) = (EVERY_FILTER[..3].to_vec(), dates_of("<-06>6")),
            &["sport-heeded", "state-heeded", "city-heeded", "midnight"],
        ),
    ];
    each(situations, async |(what, change, words)| {
        let mut switches = Switches::default();
        change(&mut switches);
        let origin = origin_with(400, switches).await;
        let mut server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        let found = disproved(&server).await;
        assert!(words.iter().all(|word| found.as_array().unwrap().contains(&json!(word))), "{what}: {found}");
        is_the_origins(&server, &origin, what).await;
        server.restart().await;
        assert_eq!(disproved(&server).await, found, "{what}: remembered");
        is_the_origins(&server, &origin, what).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_origin_bears_out_every_assumption_with_at_most_ten_questions() {
    let origin = origin(400).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(disproved(&server).await, json!([]));
    assert_eq!(server.status().await["unproved"], json!([]));
    let log = origin.log();
    let questions = log.iter().filter(|seen| seen.path_and_query.contains("modified_since=") && !seen.conditional);
    assert!((4..=10).contains(&questions.count()), "{log:#?}");
    is_the_origins(&server, &origin, "the defaults").await;
}

#[tokio::test(start_paused = true)]
async fn what_the_data_cannot_show_stays_unproved() {
    let origin = origin(1).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(disproved(&server).await, json!([]));
    let unproved = server.status().await["unproved"].clone();
    for word in ["city-heeded", "and", "strict", "midnight", "order"] {
        assert!(unproved.as_array().unwrap().contains(&json!(word)), "{word}: {unproved}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_or_an_old_copy_between_question_and_answer_disproves_nothing() {
    let cdn = Some(Cdn { max_age: Duration::from_secs(2), nodes: 2 });
    for cdn in [None, cdn] {
        let origin = origin_with(300, Switches { cdn, ..Switches::default() }).await;
        let server = Setup::mirror_of(&origin).set("origin.cache_ttl", "2s").start().await;
        wait_until("the list is certified", || async {
            server.status().await["snapshot"]["certificate"] == json!("full")
        })
        .await;
        // The origin changes while it is asked.
        for edit in 0..6 {
            origin.edit(|world| {
                let ids = world.ids();
                assert!(world.touch(ids[edit]) && world.remove(ids[ids.len() - 1]));
            });
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        server.refresh().await;
        server.settled(&origin).await;
        assert_eq!(disproved(&server).await, json!([]), "{cdn:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_filters_otherwise_is_read_through() {
    let dialects = [
        (Switches { combine: Combine::Any, ..Switches::default() }, "and"),
        (Switches { since: Since::AtOrAfter, ..Switches::default() }, "strict"),
        (Switches { filtered_order: Some(ItemOrder::ByName), ..Switches::default() }, "order"),
    ];
    for (switches, word) in dialects {
        let origin = origin_with(300, switches).await;
        let server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        wait_until("the origin was asked what filters mean", || async {
            server.status().await["disproved"].as_array().is_some()
        })
        .await;
        assert_eq!(server.status().await["disproved"], Value::from(vec![word]));
        assert!(server.finding("shape-disproved").await.unwrap().ends_with(word));
        let at = origin.world(|world| world.venue(world.ids()[150]).unwrap().modified.at);
        for query in ["sport=baseball&state=texas".to_owned(), format!("modified_since={at}")] {
            let target = format!("{LIST}?{query}");
            let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
            assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{word}: {target}");
        }
        let target = format!("{LIST}?sport=baseball");
        let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
        assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{word}: {target}");
    }
}

/// Each probe is answered unfiltered, so that no answer of a refresh tells a change.
#[tokio::test(start_paused = true)]
async fn an_origin_that_ignores_modified_since_is_read_through_also_with_one_sport_alone() {
    for only_one_sport in [true, false] {
        let origin = origin_with(240, Switches { since: Since::Ignored, ..Switches::default() }).await;
        if only_one_sport {
            let all = |world: &mut World| world.ids().into_iter().all(|id| world.change_sport(id, "baseball"));
            assert!(origin.edit(all));
        }
        let server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        wait_until("the origin was asked what filters mean", || async {
            server.status().await["disproved"].as_array().is_some()
        })
        .await;
        let disproved = server.status().await["disproved"].clone();
        assert!(disproved.as_array().unwrap().contains(&"strict".into()), "{only_one_sport}: {disproved}");
        let at = origin.world(|world| world.venue(world.ids()[120]).unwrap().modified.at);
        for query in [
            format!("modified_since={at}"),
            "modified_since=2999-01-01".to_owned(),
            format!("sport=baseball&modified_since={at}"),
            "sport=baseball&state=texas".to_owned(),
            "sport=baseball".to_owned(),
        ] {
            let target = format!("{LIST}?{query}");
            let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
            assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{target}");
        }
        // Later changes are found, too, though no probe shows them.
        let id = origin.world(|world| world.ids()[7]);
        edit(&origin, &server, |world| assert!(world.touch(id))).await;
        let target = format!("{LIST}?modified_since={at}");
        assert_eq!(server.ok(&target).await.json()["total"], origin.expected(&target).1["total"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_filters_as_assumed_disproves_nothing_and_is_not_asked_again() {
    let origin = origin(300).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    wait_until("the origin was asked", || async { server.status().await["disproved"].is_array() }).await;
    assert_eq!(server.status().await["disproved"], serde_json::json!([]));
    server.restart().await;
    assert_eq!(server.status().await["disproved"], serde_json::json!([]), "remembered");
}

#[tokio::test(start_paused = true)]
async fn a_change_that_no_refresh_can_see_is_found_by_the_sweep() {
    let origin = origin(330).await;
    let server = Setup::mirror_of(&origin).set("mirror.sweep_every", "1s").start().await;
    server.settled(&origin).await;
    let before = server.snapshot().await;
    // On the last page, and `modified` stays.
    let last = server.ok(&format!("{LIST}?page=4&per_page=100")).await.ids()[20];
    origin.edit(|world: &mut World| assert!(world.silent_change(last)));
    wait_until("the sweep finds it", || async { server.snapshot().await != before }).await;
    list_is_the_origins(&server, &origin, &format!("{LIST}?page=4&per_page=100")).await;
}

#[tokio::test]
async fn an_offline_replica_answers_everything_from_what_was_mirrored() {
    let origin = crate::harness::origin(130).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.clear_log();
    server.setup = Setup::offline();
    server.restart().await;
    list_is_the_origins(&server, &origin, &format!("{LIST}?per_page=100&page=2")).await;
    taxonomies_are_the_origins(&server, &origin).await;
    for id in origin.world(World::ids) {
        detail_is_the_origins(&server, &origin, id).await;
    }
    let reply = server.ok(LIST).await;
    assert_eq!(reply.header("age"), None, "nothing confirms it any more");
    assert!(reply.header("mirror-confirmed").is_some());
    server.get("/api/regions.json").await.assert_problem(404, &[]);
    assert_eq!(origin.count(), 0, "offline is offline");
}

#[tokio::test]
async fn what_is_disproved_crosses_the_gap_and_is_named_where_nobody_can_be_asked() {
    let origin = crate::harness::origin_with(300, Switches { dropped: vec!["city"], ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(disproved(&server).await, json!(["city-heeded"]));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.gsb");
    let export = server.setup.arguments(&["bundle", "export", file.to_str().unwrap()], &server.data_dir());
    let (code, said) = run(&export).await;
    assert_eq!(code, 0, "{said}");
    let offline = Setup::offline().start().await;
    for (command, expected) in [("inspect", "format 3"), ("import", "imported")] {
        let words = ["bundle", command, file.to_str().unwrap()];
        let (code, said) = run(&offline.setup.arguments(&words, &offline.data_dir())).await;
        assert!(code == 0 && said.contains(expected), "{said}");
    }
    assert_eq!(disproved(&offline).await, json!(["city-heeded"]));
    let (sport, _, city) = origin.world(|world| {
        let (sport, state, city) = world.slugs_of(world.ids()[5]).unwrap();
        (sport.to_owned(), state, city.to_owned())
    });
    let reply = offline.get(&format!("{LIST}?city={city}")).await;
    reply.assert_problem(503, &["city-heeded", "offline"]);
    assert!(reply.header("retry-after").is_some());
    list_is_the_origins(&offline, &origin, &format!("{LIST}?sport={sport}")).await;
}

#[tokio::test]
async fn an_origin_that_is_mended_is_asked_again_and_answered_for() {
    let origin = crate::harness::origin_with(300, Switches { dropped: vec!["city"], ..Switches::default() }).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(disproved(&server).await, json!(["city-heeded"]));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.gsb");
    for command in ["export", "import"] {
        let words = ["bundle", command, file.to_str().unwrap()];
        let (code, said) = run(&server.setup.arguments(&words, &server.data_dir())).await;
        assert_eq!(code, 0, "{said}");
        // The first copy of the origin's data that is imported has to be asked about again, as after a week.
        server.down().await;
        server.setup = Setup::offline();
    }
    origin.set(|switches| switches.dropped.clear());
    server.setup = Setup::mirror_of(&origin);
    server.restart().await;
    wait_until("the origin was asked again", || async { server.status().await["disproved"] == json!([]) }).await;
    assert_eq!(server.status().await["unproved"], json!([]));
    let city = origin.world(|world| world.slugs_of(world.ids()[5]).unwrap().2.to_owned());
    list_is_the_origins(&server, &origin, &format!("{LIST}?city={city}")).await;
}
