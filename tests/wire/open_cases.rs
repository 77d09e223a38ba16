//! Open cases: what the documentation leaves open is answered by the meaning that the origin was found to have, or by the
//! origin itself. Offline, the meaning that was found counts.

mod attacks;
mod odd_values;

use std::collections::BTreeSet;
use std::time::Duration;

use sample_origin::{BadNumber, BeyondLast, Edges, FaultRule, Origin, Quirk, Switches, TooMany};
use serde_json::{Value, json};

use crate::client::Reply;
use crate::gap::Desk;
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, each};
use crate::origin_faults::Fault;

const LIST: &str = "/api/listings.json";

fn switches(personality: &str) -> Switches {
    Switches { edges: Edges::named(personality).unwrap(), ..Switches::default() }
}

/// Takes each client by the address that it names.
pub fn by_address(setup: Setup) -> Setup {
    // In virtual time connections have no address.
    let setup = setup.set("client_ip.trusted_proxies", "[\"127.0.0.1\", \"0.0.0.0\"]");
    setup.set("client_ip.header", "x-forwarded-for")
}

/// A mirror that has examined its origin.
async fn examined(origin: &Origin) -> Server {
    let server = by_address(Setup::examining(origin)).start().await;
    server.settled(origin).await;
    server.disproved().await;
    server
}

/// A request of a client of its own: each has two odd ones a minute.
pub async fn ask(server: &Server, target: &str) -> Reply {
    let number = xxhash_rust::xxh3::xxh3_64(target.as_bytes());
    let [.., second, third, last] = number.to_be_bytes();
    server.get_with(target, &[("x-forwarded-for", &format!("10.{second}.{third}.{last}"))]).await
}

/// What of an answer must be the origin's: a list's numbers and listings, else the status.
fn of_list(status: u16, list: &Value) -> (u16, Value) {
    let ids =
        |items: &Value| items.as_array().map(|items| items.iter().map(|item| item["id"].clone()).collect::<Vec<_>>());
    match status {
        200 => (200, json!([list["total"], ids(&list["items"])])),
        other => (other, Value::Null),
    }
}

fn of_ours(reply: &Reply) -> (u16, Value) {
    let list = if reply.status == 200 { reply.json() } else { Value::Null };
    of_list(reply.status, &list)
}

fn of_the_origin(origin: &Origin, target: &str) -> (u16, Value) {
    let (status, list) = origin.expected(target);
    of_list(status, &list)
}

/// Requests of each row, with the row's name.
fn rows(origin: &Origin) -> Vec<(&'static str, String)> {
    let total = origin.world(|world| world.ids().len());
    let next = total.div_ceil(50) + 1;
    let list = [
        ("page-next", format!("page={next}")),
        ("page-next", "page=2&state=texas&per_page=100".to_owned()),
        ("page-beyond", format!("page={}", next + 1)),
        ("page-beyond", "page=9999&per_page=7".to_owned()),
        ("page-zero", "page=0".to_owned()),
        ("page-zero", "page=0&sport=golf".to_owned()),
        ("page-negative", "page=-1".to_owned()),
        ("page-word", "page=last&per_page=7".to_owned()),
        ("per-page-over", "per_page=101".to_owned()),
        ("per-page-over", "per_page=1000&page=2".to_owned()),
        ("per-page-zero", "per_page=0".to_owned()),
        ("per-page-negative", "per_page=-5&page=2".to_owned()),
        ("per-page-word", "per_page=all".to_owned()),
        ("repeated-number", "page=2&page=3&per_page=10".to_owned()),
        ("repeated-filter", "sport=golf&sport=baseball".to_owned()),
        ("since-malformed", "modified_since=yesterday".to_owned()),
        ("since-future", "modified_since=2345-06-07".to_owned()),
        ("unknown-sport", "sport=quidditch".to_owned()),
        ("unknown-state", "state=atlantis&per_page=7".to_owned()),
        ("unknown-city", "city=atlantis".to_owned()),
        ("empty-number", "page=&per_page=7".to_owned()),
        ("empty-filter", "sport=&page=2".to_owned()),
        ("empty-since", "modified_since=".to_owned()),
    ];
    let ids = [("id-word", "/api/listings/quidditch.json".to_owned())];
    list.into_iter().map(|(row, query)| (row, format!("{LIST}?{query}"))).chain(ids).collect()
}

/// The personalities, and the rows that have none of the five meanings there.
fn personalities() -> Vec<(&'static str, Switches, Vec<&'static str>)> {
    let mixed = Edges {
        bad_number: BadNumber::Default,
        too_many: TooMany::Refused,
        beyond: BeyondLast::NotFound,
        ..Edges::default()
    };
    let counting = Edges { beyond: BeyondLast::NoTotal, ..Edges::default() };
    vec![
        ("documented", switches("documented"), vec!["repeated-number", "repeated-filter"]),
        ("counting", Switches { edges: counting, ..Switches::default() }, vec!["repeated-number", "repeated-filter"]),
        ("strict", switches("strict"), vec![]),
        ("html", switches("html"), vec![]),
        ("lenient", switches("lenient"), vec!["per-page-over", "repeated-number", "repeated-filter"]),
        ("mixed", Switches { edges: mixed, ..Switches::default() }, vec!["repeated-number", "repeated-filter"]),
        (
            "ends where filters select",
            Switches { quirk: Some(Quirk::EndsFiltered), ..Switches::default() },
            vec!["page-next", "page-beyond", "repeated-number", "repeated-filter"],
        ),
        (
            "nanoseconds in 64 bits",
            Switches { quirk: Some(Quirk::RefusesAfter(i64::MAX / 1_000_000_000)), ..Switches::default() },
            vec!["since-future", "repeated-number", "repeated-filter"],
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn each_row_is_answered_by_the_meaning_that_the_origin_has_and_another_one_is_read_through() {
    each(personalities().into_iter().map(|(name, _, _)| name), async |name| {
        let (_, switches, others) = personalities().into_iter().find(|(named, _, _)| *named == name).unwrap();
        let origin = origin_with(330, switches).await;
        let mut server = examined(&origin).await;
        let known = server.status().await["open_cases"].clone();
        let forwarded = known.as_object().unwrap().iter().filter(|(_, told)| **told == "forwarded").map(|(row, _)| row);
        let expected: BTreeSet<&str> = others.iter().copied().collect();
        assert_eq!(forwarded.map(String::as_str).collect::<BTreeSet<_>>(), expected, "{name}: {known:#}");
        let is_found = |row: &str| !others.contains(&row);
        origin.clear_log();
        for (row, target) in rows(&origin) {
            let before = origin.count();
            let ours = ask(&server, &target).await;
            assert_eq!(of_ours(&ours), of_the_origin(&origin, &target), "{name} {row} {target}: {ours:?}");
            assert_eq!(origin.count() > before, !is_found(row), "{name} {row} {target}");
            if is_found(row) && ours.status >= 400 {
                ours.assert_problem(ours.status, &[]);
            }
        }
        // A client that reads until a page is empty, or refused, gets what the origin would give.
        for size in ["", "&per_page=100", "&per_page=250", "&per_page=7&sport=golf"] {
            for page in 1..=12 {
                let target = format!("{LIST}?page={page}{size}");
                assert_eq!(of_ours(&ask(&server, &target).await), of_the_origin(&origin, &target), "{name} {target}");
            }
        }
        // A client that names the snapshot gets the meaning, too.
        let pin = server.snapshot().await;
        for (row, target) in rows(&origin).into_iter().filter(|(row, _)| is_found(row) && *row != "id-word") {
            let pinned = ask(&server, &format!("{target}&snapshot={pin}")).await;
            assert_eq!(of_ours(&pinned), of_the_origin(&origin, &target), "{name} {row} {target}, pinned");
        }
        // Found is found: for whoever comes when the origin fails, after a restart, and for earlier snapshots.
        origin.set(|switches| switches.faults = vec![FaultRule::always("", Fault::Status(503))]);
        server.restart().await;
        for (row, target) in rows(&origin) {
            let target = target.replace("per_page=7", "per_page=9");
            let ours = ask(&server, &target).await;
            if is_found(row) {
                assert_eq!(of_ours(&ours), of_the_origin(&origin, &target), "{name} {row} {target}");
            } else if ours.status != 200 {
                assert!(ours.status == 503 && ours.header("retry-after").is_some(), "{name} {row} {target}: {ours:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_meanings_travel_in_bundles_and_without_them_the_table_counts() {
    let origin = crate::harness::origin_with(130, switches("strict")).await;
    let server = examined(&origin).await;
    let without = Setup::mirror_of(&origin).start().await;
    without.settled(&origin).await;
    origin.clear_log();
    assert_eq!(without.ok(&format!("{LIST}?sport=quidditch")).await.total(), 0);
    assert_eq!(without.ok(&format!("{LIST}?page=9999")).await.json()["items"], json!([]));
    assert_eq!(without.ok(&format!("{LIST}?per_page=101")).await.json()["per_page"], 100);
    for query in ["page=0", "page=2.0", "sport=a&sport=b", "modified_since=yesterday"] {
        let refused = without.get(&format!("{LIST}?{query}")).await;
        assert_eq!((refused.status, refused.the("cache-control").as_str()), (400, "no-store"), "{query}");
    }
    assert_eq!(without.get("/api/listings/x.json").await.status, 404);
    assert!(origin.log().iter().all(|seen| !seen.path_and_query.contains("quidditch")));
    let desk = Desk::new();
    for (server, file) in [(&server, "with.gsb"), (&without, "without.gsb")] {
        desk.does(&server.setup, &server.data_dir(), &["export"], file).await;
    }
    for (file, has) in [("with.gsb", true), ("without.gsb", false)] {
        let offline = desk.serve_bundle(Setup::offline(), file).await;
        offline.ready().await;
        let cached = if has { "public, max-age=60" } else { "no-store" };
        let unknown = offline.get(&format!("{LIST}?sport=quidditch")).await;
        assert_eq!(
            (unknown.status, unknown.the("cache-control").as_str()),
            (if has { 404 } else { 200 }, cached),
            "{file}"
        );
        assert_eq!(offline.get(&format!("{LIST}?page=9999")).await.status, if has { 404 } else { 200 });
        assert_eq!(offline.get(&format!("{LIST}?per_page=500")).await.status, if has { 400 } else { 200 });
        // An odd value: nobody can be asked.
        offline.get(&format!("{LIST}?page=2.0")).await.assert_problem(400, &["page", "2.0"]);
        let respelled = offline.ok(&format!("{LIST}?sport=Golf")).await;
        assert_eq!((respelled.total(), respelled.the("cache-control").as_str()), (0, "no-store"));
    }
}

#[tokio::test(start_paused = true)]
async fn who_enumerates_slugs_gets_lists_and_what_the_origin_means_by_the_others_at_once() {
    for personality in ["documented", "strict", "lenient"] {
        let origin = origin_with(330, switches(personality)).await;
        let server = examined(&origin).await;
        let known: Vec<String> = origin.world(|world| {
            let mut cities: Vec<_> =
                world.ids().into_iter().map(|id| world.slugs_of(id).unwrap().2.to_owned()).collect();
            cities.sort();
            cities.dedup();
            cities
        });
        origin.clear_log();
        let began = server.wall();
        for number in 0..200 {
            let other = format!("{LIST}?city=nowhere-{number}");
            assert_eq!(of_ours(&server.get(&other).await), of_the_origin(&origin, &other), "{personality}");
            let city = format!("{LIST}?city={}", known[number % known.len()]);
            assert_eq!(of_ours(&server.get(&city).await), of_the_origin(&origin, &city), "{personality}");
        }
        assert!(server.wall().millis_since(began) < 1000, "{personality}: nothing waits");
        assert!(origin.log().iter().all(|seen| !seen.path_and_query.contains("city=")), "{personality}");
    }
}

/// The page after the last, in the origin's own list, and a page far beyond it are two rows.
#[tokio::test(start_paused = true)]
async fn a_window_that_ends_with_an_error_is_told_from_the_last_page() {
    let faults = ["7", "8", "9"].map(|digit| FaultRule::always(&format!("{LIST}?page={digit}000"), Fault::Status(400)));
    let origin = origin_with(330, Switches { faults: faults.to_vec(), ..Switches::default() }).await;
    let server = examined(&origin).await;
    assert_eq!(ask(&server, &format!("{LIST}?page=8")).await.status, 200);
    for page in [9, 70, 7000] {
        assert_eq!(ask(&server, &format!("{LIST}?page={page}")).await.status, 200, "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_meaning_that_changes_is_found_and_meanwhile_read_through() {
    let origin = origin_with(330, switches("documented")).await;
    // Each shape within two hours.
    let setup = Setup::examining(&origin).set("mirror.examine_per_hour", "60");
    let server = setup.start().await;
    server.settled(&origin).await;
    server.disproved().await;
    let target = format!("{LIST}?page=0");
    ask(&server, &target).await.assert_problem(400, &["page", "0"]);
    origin.set(|switches| switches.edges.bad_number = BadNumber::Default);
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    let ours = ask(&server, &target).await;
    assert_eq!(of_ours(&ours), of_the_origin(&origin, &target), "{ours:?}");
    origin.clear_log();
    assert_eq!(ask(&server, &format!("{LIST}?page=0&per_page=3")).await.status, 200);
    assert!(origin.log().iter().all(|seen| !seen.path_and_query.contains("per_page=3")), "it is found");
}
