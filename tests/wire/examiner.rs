//! What queries mean is asked of the origin, one example of each shape; what a refresh cannot see is found. Offline, only
//! mirrored data exists.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use http::Response;
use sample_origin::{
    Asked, Body, Cdn, Combine, FaultRule, ItemOrder, ListStyle, Mishap, Origin, Quirk, Reading, Since, Slugs, Switches,
    World,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::compare::{detail_is_the_origins, list_is_the_origins, taxonomies_are_the_origins};
use crate::gap::Desk;
use crate::harness::virtually::{origin, origin_with};
use crate::harness::{Server, Setup, each, edit, quiet, wait_until};
use crate::origin_faults::answers;

const LIST: &str = "/api/listings.json";

/// A few dozen ordinary queries of every kind: filters alone and together, dates and times in every spelling.
fn ordinary(origin: &Origin) -> Vec<String> {
    origin.world(|world| {
        let mut queries = Vec::new();
        for id in world.ids().into_iter().step_by(73) {
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

/// Lists with a term still have this listing as it was: their index is made at night.
#[derive(Debug)]
struct OldUnderTerms(u64, String);

/// Where a listing stands in a list.
fn place_of(id: u64, list: &str) -> Option<Range<usize>> {
    let at = list.find(&format!("\"id\":{id},"))?;
    Some(list[..at].rfind('{')?..at + list[at..].find('}')? + 1)
}

#[async_trait]
impl Mishap for OldUnderTerms {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let has_term = ["sport=", "state=", "city="].iter().any(|filter| asked.target.contains(filter));
        let old = |right: bytes::Bytes| {
            let mut list = String::from_utf8(right.to_vec()).unwrap();
            if let Some(place) = place_of(self.0, &list).filter(|_| has_term) {
                list.replace_range(place, &self.1);
            }
            list
        };
        Ok(answers::rewritten(asked.right().await, old).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_lags_behind_a_change_is_found() {
    let origin = origin_with(600, Switches { gzip: false, ..Switches::default() }).await;
    let server = examined(&origin).await;
    let (_, list) = origin.expected_text(&format!("{LIST}?per_page=100&page=3"));
    let id = origin.expected(&format!("{LIST}?per_page=100&page=3")).1["items"][42]["id"].as_u64().unwrap();
    let old = OldUnderTerms(id, list[place_of(id, &list).unwrap()].to_owned());
    origin.set(|switches| switches.faults = vec![FaultRule::always(LIST, old)]);
    let before = server.snapshot().await;
    origin.edit(|world| assert!(world.touch(id)));
    server.refresh().await;
    wait_until("the change is followed", || async { server.snapshot().await != before }).await;
    // No client asks for such lists meanwhile.
    sleep(Duration::from_secs(4 * 3600)).await;
    let (sport, state, city) = origin.world(|world| {
        let (sport, state, city) = world.slugs_of(id).unwrap();
        (sport.to_owned(), state, city.to_owned())
    });
    for filter in [format!("sport={sport}"), format!("state={state}"), format!("city={city}")] {
        let list = server.ok(&format!("{LIST}?{filter}")).await;
        assert!(!list.the("cache-status").contains("; hit"), "{filter} {list:?}");
    }
}

/// A mirror that has examined its origin, and has lists alone.
async fn examined(origin: &Origin) -> Server {
    let server = Setup::examining(origin).set("mirror.details", "on-demand").start().await;
    server.disproved().await;
    quiet(origin).await;
    server
}

/// Every answer of the server has the origin's data.
async fn is_the_origins(server: &Server, origin: &Origin, what: &str) {
    are_the_origins(server, origin, what, ordinary(origin)).await;
}

async fn are_the_origins(server: &Server, origin: &Origin, what: &str, queries: impl IntoIterator<Item = String>) {
    for query in queries {
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

const DATE: &str = "modified_since(date)";
const ZONED: &str = "modified_since(zoned)";
const LOCAL: &str = "modified_since(local)";

#[tokio::test(start_paused = true)]
async fn no_answer_is_wrong_whatever_the_origins_filters_mean() {
    let situations: [Situation; 14] = [
        ("dates in Central Standard Time", |s| s.reading = dates_of("<-06>6"), &[DATE]),
        ("dates in Chicago", |s| s.reading = dates_of("CST6CDT,M3.2.0,M11.1.0"), &[DATE]),
        ("dates in Kathmandu", |s| s.reading = dates_of("<+0545>-5:45"), &[DATE]),
        ("times without offset in Berlin", |s| s.reading = times_of("CET-1CEST,M3.5.0,M10.5.0/3"), &[LOCAL]),
        (
            "all that is local in Chicago",
            |s| s.reading = Reading::local("CST6CDT,M3.2.0,M11.1.0").unwrap(),
            &[DATE, LOCAL],
        ),
        ("only the date of a time counts", |s| s.reading.only_dates = true, &[ZONED, LOCAL]),
        ("the second itself counts", |s| s.since = Since::AtOrAfter, &[]),
        (
            "the second itself counts beside terms",
            |s| s.since = Since::AtOrAfterOfTerms,
            &["sport+modified_since(zoned)", "state+modified_since(zoned)", "city+modified_since(zoned)"],
        ),
        ("a gateway drops the city", |s| s.dropped = vec!["city"], &["city"]),
        ("a gateway drops every filter", |s| s.dropped = EVERY_FILTER.to_vec(), &SINGLES),
        (
            "a gateway drops every slug and dates are local",
            |s| (s.dropped, s.reading) = (EVERY_FILTER[..3].to_vec(), dates_of("<-06>6")),
            &["sport", "state", "city", DATE],
        ),
        ("the sport is ignored beside a state", |s| s.dropped_beside = vec![("sport", "state")], &["sport+state"]),
        ("one filter suffices", |s| s.combine = Combine::Any, &PAIRS),
        ("filtered lists are in another order", |s| s.filtered_order = Some(ItemOrder::ByName), &SINGLES),
    ];
    each(situations, async |(what, change, words)| {
        let mut switches = Switches::default();
        change(&mut switches);
        let origin = origin_with(400, switches).await;
        let mut server = examined(&origin).await;
        let found = server.disproved().await;
        assert_eq!(found, json!(words), "{what}");
        let told = server.finding("shape-disproved").await;
        assert_eq!(told.is_some(), !words.is_empty(), "{what}");
        assert!(told.is_none_or(|told| told.ends_with(words.last().unwrap())), "{what}");
        is_the_origins(&server, &origin, what).await;
        server.restart().await;
        assert_eq!(server.disproved().await, found, "{what}: remembered");
        // Of each kind some: what is answered follows from what is remembered.
        are_the_origins(&server, &origin, what, ordinary(&origin).into_iter().step_by(5)).await;
    })
    .await;
}

/// Ordinary queries with several page sizes, of the largest terms, and without any listing.
fn of_every_size(origin: &Origin) -> Vec<String> {
    origin.world(|world| {
        let slugs: Vec<_> = world.ids().into_iter().map(|id| world.slugs_of(id).unwrap()).collect();
        let sport = slugs.iter().map(|(sport, ..)| *sport);
        let sport = sport.max_by_key(|sport| world.listings_matching(Some(sport), None, None).len()).unwrap();
        let state = slugs.iter().map(|(_, state, _)| state.as_str());
        let state = state.max_by_key(|state| world.listings_matching(None, Some(state), None).len()).unwrap();
        let city = slugs.iter().map(|(.., city)| *city);
        let city = city.max_by_key(|city| world.listings_matching(None, None, Some(city)).len()).unwrap();
        let mut queries = Vec::new();
        for filters in ["a=b".to_owned(), format!("sport={sport}"), format!("state={state}"), format!("city={city}")] {
            queries
                .extend(["", "&per_page=7", "&per_page=7&page=2", "&per_page=100"].map(|size| filters.clone() + size));
        }
        for (sport, _, city) in slugs.iter().step_by(67) {
            for (_, state, other) in slugs.iter().step_by(31) {
                let has_none = |sport, state, city| world.listings_matching(sport, state, city).is_empty();
                if has_none(Some(sport), Some(state), None) {
                    queries.push(format!("sport={sport}&state={state}"));
                }
                if has_none(Some(sport), None, Some(other)) {
                    queries.push(format!("sport={sport}&city={other}"));
                }
                if has_none(None, Some(state), Some(city)) {
                    queries.push(format!("state={state}&city={city}"));
                }
            }
        }
        let oldest = world.ids().into_iter().map(|id| world.venue(id).unwrap().modified.at).min().unwrap();
        let times = ["%F", "%FT23:00:00Z", "%FT22:59:59"].map(|form| oldest.strftime(form).to_string());
        queries.extend(times.map(|time| format!("modified_since={time}")));
        queries
    })
}

/// What an origin does otherwise, and what that disproves at least.
type QuirkSituation = (Quirk, &'static [&'static str]);

#[tokio::test(start_paused = true)]
async fn no_answer_is_wrong_whatever_the_origin_does_with_sizes_empty_lists_and_old_times() {
    let situations: [QuirkSituation; 9] = [
        (Quirk::SmallFilteredPages, &["sport", "state"]),
        (Quirk::MenuOfSizes, &["list"]),
        (Quirk::LargePagesById, &["list", "sport", "state", "city", DATE, ZONED, LOCAL]),
        (Quirk::EmptyIsNotFound, &["sport+state", "sport+city", "state+city", DATE, ZONED]),
        (Quirk::FallsBack, &["sport+state", "sport+city", "state+city"]),
        (Quirk::RefusesBefore(i64::MIN), &[DATE, ZONED, LOCAL]),
        (Quirk::EndsAfter(40), &[]),
        (Quirk::NullIfEmpty, &[]),
        (Quirk::WholeHours, &[ZONED, LOCAL]),
    ];
    each(situations, async |(quirk, words)| {
        let origin = origin_with(400, Switches { quirk: Some(quirk), ..Switches::default() }).await;
        if let Quirk::RefusesBefore(_) = quirk {
            let times = |world: &World| world.ids().into_iter().map(|id| world.venue(id).unwrap().modified.at).min();
            let soon = origin.world(times).unwrap().as_second() + 30 * 86_400;
            origin.set(|switches| switches.quirk = Some(Quirk::RefusesBefore(soon)));
        }
        let server = examined(&origin).await;
        let found: BTreeSet<String> = serde_json::from_value(server.disproved().await).unwrap();
        assert!(words.iter().all(|word| found.contains(*word)), "{quirk:?}: {found:?}");
        assert!(quirk != Quirk::NullIfEmpty || found.is_empty(), "{found:?}");
        if quirk == Quirk::MenuOfSizes {
            assert_eq!(found.len(), 1, "{found:?}");
            origin.clear_log();
            for size in ["", "?page=3", "?per_page=100&page=2"] {
                list_is_the_origins(&server, &origin, &format!("{LIST}{size}")).await;
            }
            assert!(origin.log().is_empty(), "what is as here is not forwarded: {:?}", origin.log());
        }
        for query in of_every_size(&origin) {
            let target = format!("{LIST}?{query}");
            let (ours, (status, origins)) = (server.get(&target).await, origin.expected(&target));
            assert_eq!(ours.status, status, "{quirk:?}: {target}");
            if status == 200 {
                let shown =
                    |list: &Value| (list["total"].clone(), list["items"].as_array().cloned().unwrap_or_default());
                assert_eq!(shown(&ours.json()), shown(&origins), "{quirk:?}: {target}");
            }
        }
    })
    .await;
}

/// Such a field disproves the lists that have it, once.
#[tokio::test(start_paused = true)]
async fn a_field_that_listings_have_under_a_filter_alone_disproves_that_filter_and_costs_no_more() {
    let origin = origin_with(400, Switches { quirk: Some(Quirk::Ranks), ..Switches::default() }).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(server.disproved().await, json!(["state"]));
    assert!(server.finding("shape-disproved").await.is_some());
    is_the_origins(&server, &origin, "ranks").await;
    // What was suspected is settled.
    tokio::time::sleep(Duration::from_secs(600)).await;
    origin.clear_log();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let of_states = origin.log().iter().filter(|seen| seen.path_and_query.contains("state=")).count();
    assert!(of_states <= 40, "{:?}", origin.log());
}

/// The order of listings with equal times is another one on each page: that is no other meaning of the page size.
#[tokio::test(start_paused = true)]
async fn ties_do_not_disprove_the_list() {
    let origin = origin_with(400, Switches { ties: Some(1), ..Switches::default() }).await;
    origin.edit(|world| {
        let at = jiff::Timestamp::from_second(1_760_000_000).unwrap();
        for id in world.ids().into_iter().step_by(6) {
            assert!(world.touch_at(id, at));
        }
    });
    let server = Setup::examining(&origin).start().await;
    wait_until("the origin is examined", || async { server.status().await["disproved"].is_array() }).await;
    assert!(!server.disproved().await.as_array().unwrap().contains(&json!("list")));
}

/// After so long the origin was asked in a shape that clients asked in: six hours after the last time, with the next
/// example, of which there is one every 20 minutes.
const AGAIN: Duration = Duration::from_secs(390 * 60);

const SINGLES: [&str; 6] = ["sport", "state", "city", DATE, ZONED, LOCAL];

const PAIRS: [&str; 12] = [
    "sport+state",
    "sport+city",
    "state+city",
    "sport+modified_since(date)",
    "state+modified_since(date)",
    "city+modified_since(date)",
    "sport+modified_since(zoned)",
    "state+modified_since(zoned)",
    "city+modified_since(zoned)",
    "sport+modified_since(local)",
    "state+modified_since(local)",
    "city+modified_since(local)",
];

#[tokio::test(start_paused = true)]
async fn an_ordinary_origin_confirms_every_shape_with_one_example_each() {
    let origin = origin(400).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(server.disproved().await, json!([]));
    let status = server.status().await;
    assert_eq!((&status["unproved"], status["confirmed"].as_array().unwrap().len()), (&json!([]), 31));
    // Those with several filters; lists of terms and the probe have one.
    let examples = || {
        let has_several =
            |asked: &str| EVERY_FILTER.iter().filter(|filter| asked.contains(&format!("{filter}="))).count() > 1;
        origin.log().iter().filter(|seen| has_several(&seen.path_and_query)).count()
    };
    // One for each of the 25 shapes, for eight a city outside the state, for three an empty list, for three the very second
    // of a listing; and open cases.
    assert_eq!(examples(), 45);
    is_the_origins(&server, &origin, "the defaults").await;
    assert_eq!(examples(), 45, "nothing is read through");
}

#[tokio::test(start_paused = true)]
async fn what_clients_ask_is_examined_first() {
    let origin = origin(400).await;
    let server = examined(&origin).await;
    origin.clear_log();
    let is_it = |asked: &str| asked.contains("state=texas") && asked.contains("per_page=13");
    let count = || origin.log().iter().filter(|seen| is_it(&seen.path_and_query)).count();
    // The second time it would not be its turn yet.
    for (expected, asked) in [(1, "state=texas&per_page=13"), (2, "per_page=13&state=texas")] {
        server.ok(&format!("{LIST}?{asked}")).await;
        tokio::time::sleep(AGAIN).await;
        assert_eq!(count(), expected, "once for each time that a client asked");
    }
    // An answer without listings as well.
    let empty = origin.world(|world| {
        let slugs: Vec<_> = world.ids().into_iter().map(|id| world.slugs_of(id).unwrap()).collect();
        let mut pairs =
            slugs.iter().flat_map(|(sport, ..)| slugs.iter().map(move |(_, state, city)| (*sport, state, *city)));
        let is_empty = |(sport, state, city): &(&str, &String, &str)| {
            world.listings_matching(Some(sport), Some(state), Some(city)).is_empty()
                && !world.listings_matching(None, Some(state), Some(city)).is_empty()
        };
        let (sport, state, city) = pairs.find(is_empty).unwrap();
        format!("{LIST}?sport={sport}&state={state}&city={city}&per_page=13")
    });
    assert_eq!(server.ok(&empty).await.total(), 0);
    tokio::time::sleep(AGAIN).await;
    assert!(origin.log().iter().any(|seen| seen.path_and_query == empty), "{:?}", origin.log());
}

#[tokio::test(start_paused = true)]
async fn without_examples_everything_is_answered_as_documented() {
    let origin = origin_with(300, Switches { dropped: vec!["city"], ..Switches::default() }).await;
    let mut server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(server.disproved().await, json!(["city"]));
    server.restart_with("mirror.examine_per_hour", "0").await;
    server.settled(&origin).await;
    origin.clear_log();
    let city = origin.world(|world| world.slugs_of(world.ids()[5]).unwrap().2.to_owned());
    assert!(server.ok(&format!("{LIST}?city={city}")).await.total() < 300);
    assert!(origin.log().iter().all(|seen| !seen.path_and_query.contains("city=")));
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_matches_parts_of_slugs_is_wrong_for_these_slugs_alone() {
    let origin = origin_with(400, Switches { slugs: Slugs::Part, ..Switches::default() }).await;
    let mut server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    let in_doubt = async |server: &Server| {
        let told = server.status().await["terms"]["state"]["in_doubt"].clone();
        serde_json::from_value::<BTreeSet<String>>(told).unwrap()
    };
    for restarts in [true, false] {
        let disproved = server.disproved().await;
        assert!(!disproved.as_array().unwrap().contains(&json!("state")), "{disproved}");
        assert_eq!(in_doubt(&server).await, ["kansas", "virginia"].map(str::to_owned).into());
        let told = server.finding("shape-disproved").await.unwrap();
        assert!(told.contains("state=kansas") && told.contains("state=virginia"), "{told}");
        is_the_origins(&server, &origin, "parts").await;
        if restarts {
            server.restart().await;
        }
    }
    origin.clear_log();
    server.ok(&format!("{LIST}?state=virginia&page=2")).await;
    server.ok(&format!("{LIST}?state=texas&page=2")).await;
    let asked = |slug: &str| origin.log().iter().any(|seen| seen.path_and_query.contains(slug));
    assert!(asked("state=virginia") && !asked("state=texas"), "{:?}", origin.log());
}

#[tokio::test(start_paused = true)]
async fn an_edit_or_an_old_copy_between_question_and_answer_disproves_nothing() {
    let cdn = Some(Cdn { max_age: Duration::from_secs(2), nodes: 2 });
    for cdn in [None, cdn] {
        let origin = origin_with(300, Switches { cdn, ..Switches::default() }).await;
        let server = Setup::examining(&origin).set("origin.cache_ttl", "2s").start().await;
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
        assert_eq!(server.disproved().await, json!([]), "{cdn:?}");
    }
}

/// What lists look like disproves nothing, and is followed.
#[tokio::test(start_paused = true)]
async fn another_form_of_lists_is_followed_and_told() {
    let documented = ListStyle::default();
    let styles = [
        (ListStyle { page_size: 20, ..documented }, "20 listings"),
        (ListStyle { page_size: 100, ..documented }, "100 listings"),
        (ListStyle { one_more: true, ..documented }, "one more"),
        (ListStyle { facets: true, ..documented }, "facets"),
        (ListStyle { page_size: 25, one_more: true, facets: true, echoes_all: true, ..documented }, "facets"),
        (ListStyle { quotes_totals: true, ..documented }, "in quotes"),
    ];
    each(styles, async |(style, word)| {
        let origin = origin_with(300, Switches { style, ..Switches::default() }).await;
        let mut server = examined(&origin).await;
        assert_eq!(server.disproved().await, json!([]), "{style:?}");
        wait_until("the form is known", || async {
            server.finding("form-differs").await.is_some_and(|finding| finding.contains(word))
        })
        .await;
        for restarted in [false, true] {
            if restarted {
                server.restart().await;
            }
            is_the_origins(&server, &origin, word).await;
            for query in [
                "",
                "?page=2",
                "?per_page=50",
                "?per_page=30",
                "?sport=golf",
                "?page=2&per_page=10&state=texas",
                "?modified_since=2999-01-01",
            ] {
                let target = format!("{LIST}{query}");
                let (mut ours, mut origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
                let is_filtered = ["sport", "state", "since"].iter().any(|name| query.contains(name));
                for volatile in ["generated_at", if is_filtered { "facets" } else { "" }, "filters"] {
                    for document in [&mut ours, &mut origins] {
                        document.as_object_mut().unwrap().remove(volatile);
                    }
                }
                assert_eq!(ours, origins, "{style:?} {target}");
            }
            assert!(server.ok(&format!("{LIST}?sport=golf")).await.json()["facets"].is_null());
        }
    })
    .await;
}

/// What differs in pages of another size is form, once the list itself has shown it.
#[tokio::test(start_paused = true)]
async fn a_size_of_pages_that_changes_disproves_nothing_for_long() {
    let origin = origin_with(300, Switches::default()).await;
    let mut server = examined(&origin).await;
    server.restart_with("mirror.examine_per_hour", "3600").await;
    assert_eq!(server.disproved().await, json!([]));
    origin.set(|switches| switches.style.page_size = 25);
    sleep(Duration::from_secs(900)).await;
    assert!(server.finding("form-differs").await.is_some_and(|form| form.contains("25 listings")));
    assert_eq!(server.disproved().await, json!([]));
    for query in ["", "?sport=golf", "?state=texas&page=2"] {
        list_is_the_origins(&server, &origin, &format!("{LIST}{query}")).await;
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
        let server = Setup::examining(&origin).start().await;
        server.settled(&origin).await;
        let disproved = server.disproved().await;
        assert!(disproved.as_array().unwrap().contains(&ZONED.into()), "{only_one_sport}: {disproved}");
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
async fn what_is_disproved_crosses_the_gap_and_an_origin_that_is_mended_is_asked_again() {
    let origin = crate::harness::origin_with(300, Switches { dropped: vec!["city"], ..Switches::default() }).await;
    let mut server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(server.disproved().await, json!(["city"]));
    let desk = Desk::new();
    desk.does(&server.setup, &server.data_dir(), &["export"], "all.gsb").await;
    let said = desk.does(&Setup::offline(), &desk.data(), &["inspect"], "all.gsb").await;
    assert!(said.contains("format 5"), "{said}");
    let offline = desk.serve_bundle(Setup::offline(), "all.gsb").await;
    assert_eq!(offline.disproved().await, json!(["city"]));
    let (sport, _, city) = origin.world(|world| {
        let (sport, state, city) = world.slugs_of(world.ids()[5]).unwrap();
        (sport.to_owned(), state, city.to_owned())
    });
    let of_city = format!("{LIST}?city={city}");
    let reply = offline.get(&of_city).await;
    reply.assert_problem(503, &["(city)", "offline"]);
    assert!(reply.header("retry-after").is_some());
    list_is_the_origins(&offline, &origin, &format!("{LIST}?sport={sport}")).await;

    // What a bundle brought is asked again.
    server.down().await;
    desk.does(&Setup::offline(), &server.data_dir(), &["import"], "all.gsb").await;
    origin.set(|switches| switches.dropped.clear());
    server.restart().await;
    wait_until("the origin was asked again", || async { server.status().await["disproved"] == json!([]) }).await;
    assert_eq!(server.status().await["unproved"], json!([]));
    list_is_the_origins(&server, &origin, &of_city).await;
}
