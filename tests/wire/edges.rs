//! A mirror answers odd requests as its origin does: those that the documentation leaves open.
//!
//! What is learned of two answers, and what never is, is tested beside the code; here it is the whole way, against
//! origins of several personalities. `parity` compares a generated set of odd requests.

mod attacks;
mod parity;
mod spelled;

use std::collections::BTreeSet;

use http::Method;
use sample_origin::{Edges, Origin, Switches};
use serde_json::{Value, json};

use crate::client::Reply;
use crate::gap::Desk;
use crate::harness::{Server, Setup, edit, origin_with, quiet, until, wait_until};

const LIST: &str = "/api/listings.json";

fn switches(personality: &str) -> Switches {
    Switches { edges: Edges::named(personality).unwrap(), ..Switches::default() }
}

/// A mirror that learns, with a `ttl` that lets it do so within seconds.
fn learning(origin: &Origin) -> Setup {
    Setup::mirror_of(origin).set("mirror.edges", "origin").set("ttl", "4s").set("origin.cache_ttl", "1s")
}

/// What `/status` says of odd requests.
async fn edges(server: &Server) -> Value {
    server.status().await["edges"].clone()
}

/// An origin of this personality, and a mirror that has learned how it answers.
async fn learned(personality: &str, listings: usize) -> (Origin, Server) {
    let origin = origin_with(listings, switches(personality)).await;
    let server = learning(&origin).start().await;
    has_learned(&server).await;
    (origin, server)
}

async fn has_learned(server: &Server) {
    until("it has learned how the origin answers odd requests", || async {
        let edges = edges(server).await;
        (edges["state"] == "learned").then_some(())
    })
    .await;
}

/// The entity tag of a list.
async fn tag(server: &Server, query: &str) -> String {
    server.ok(&format!("{LIST}?{query}")).await.etag()
}

/// The same request to the origin itself.
async fn of_the_origin(origin: &Origin, target: &str) -> Reply {
    let url = format!("{}{target}", origin.url());
    Reply::of(crate::client::plain_client().get(url).send().await.unwrap()).await
}

/// The odd requests that arrived at an origin.
fn odd_requests(origin: &Origin) -> Vec<String> {
    origin.log().into_iter().map(|seen| seen.path_and_query).filter(|target| is_odd(origin, target)).collect()
}

/// Whether nothing but the questions about odd requests asks for this.
pub fn is_odd(origin: &Origin, target: &str) -> bool {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
    let known = |id: &str| id.parse().is_ok_and(|id: u64| origin.world(|world| world.venue(id).is_some()));
    let pairs: Vec<_> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let plain = pairs.iter().all(|(name, value)| match *name {
        "page" => value.parse::<u64>().is_ok_and(|page| page > 0),
        // Only what is mirrored, and terms in doubt.
        "per_page" => *value == "100",
        "modified_since" => value.starts_with("20") && !value.starts_with("2026-13"),
        _ => !value.is_empty() && !value.contains("qzvxk") && !value.contains("wjqpfh"),
    });
    let names: BTreeSet<_> = pairs.iter().map(|(name, _)| *name).collect();
    let beyond = path.ends_with("listings.json") && pairs.len() == 1 && pairs[0].0 == "page";
    !(id.is_none_or(known) && plain && names.len() == pairs.len() && !beyond)
}

#[tokio::test]
async fn the_questions_take_at_most_forty_requests_two_a_case_and_are_told() {
    let (origin, server) = learned("strict", 230).await;
    let asked = odd_requests(&origin);
    assert!((30..=40).contains(&asked.len()), "{} {asked:#?}", asked.len());
    let status = edges(&server).await;
    assert_eq!(status["probes"], 40, "{status:#}");
    assert!(status["probed_at"].as_str().unwrap().ends_with('Z'), "{status:#}");
    let cases = status["cases"].as_object().unwrap();
    assert_eq!(cases["unknown-sport"], "404 application/json");
    assert_eq!(cases["page-beyond"], "404 application/json");
    assert_eq!(cases["per-page-over"], "400 application/json");
    assert_eq!(status["own"], json!([]), "{status:#}");
    // Nothing more is asked.
    quiet(&origin).await;
    origin.clear_log();
    server.refreshed(&origin).await;
    assert_eq!(odd_requests(&origin), [] as [&str; 0]);
}

#[tokio::test]
async fn the_two_probes_of_a_case_are_one_ttl_apart_and_differ() {
    let (origin, _server) = learned("documented", 130).await;
    let log = origin.log();
    let of = |word: &str| {
        let found: Vec<_> = log.iter().filter(|seen| seen.path_and_query.contains(word)).collect();
        assert_eq!(found.len(), 1, "{word}: {found:#?}");
        found[0].at
    };
    for (one, other) in
        [("page=-70417", "page=-80923"), ("sport=qzvxk", "sport=wjqpfh"), ("=qzvxk", "modified_since=wjqpfh")]
    {
        let one = if one == "=qzvxk" { "modified_since=qzvxk" } else { one };
        let apart = of(other).duration_since(of(one));
        assert!(apart >= std::time::Duration::from_secs(4), "{one} {apart:?}");
        let between = |at| at > of(one) && at < of(other);
        let ordinary = log.iter().any(|seen| between(seen.at) && seen.path_and_query == format!("{LIST}?per_page=100"));
        assert!(ordinary, "no ordinary question between");
    }
}

#[tokio::test]
async fn before_the_questions_are_answered_and_where_they_are_not_wanted_every_answer_is_ours() {
    let origin = origin_with(60, switches("strict")).await;
    // A `ttl` that the second probes wait for.
    let waits = Setup::mirror_of(&origin).set("mirror.edges", "origin").start().await;
    let own = Setup::mirror_of(&origin).start().await;
    let shield = Setup::shield_of(&origin).start().await;
    waits.settled(&origin).await;
    own.settled(&origin).await;
    wait_until("the first probes were sent", || async { edges(&waits).await["probes"] == 20 }).await;
    assert_eq!(edges(&waits).await["state"], "learning");
    assert_eq!(edges(&own).await["state"], "own");
    assert_eq!(edges(&own).await["own"].as_array().unwrap().len(), 20);
    for server in [&waits, &own] {
        server.get(&format!("{LIST}?page=0")).await.assert_problem(400, &["page", "0"]);
        server.get(&format!("{LIST}?sport=a&sport=b")).await.assert_problem(400, &["sport"]);
        server.get("/api/listings/x.json").await.assert_problem(404, &["x"]);
        assert_eq!(server.ok(&format!("{LIST}?sport=quidditch")).await.json()["total"], 0);
        assert_eq!(server.ok(&format!("{LIST}?per_page=101")).await.json()["per_page"], 100);
        assert_eq!(server.ok(&format!("{LIST}?page=")).await.json()["page"], 1);
        // Two at once, too.
        server.get(&format!("{LIST}?page=0&sport=quidditch")).await.assert_problem(400, &["page"]);
    }
    shield.get(&format!("{LIST}?page=0")).await.assert_problem(400, &["page", "0"]);
}

#[tokio::test]
async fn what_was_learned_outlives_a_restart_and_the_origin() {
    let (origin, mut server) = learned("html", 60).await;
    let targets = [format!("{LIST}?sport=quidditch"), format!("{LIST}?page=0"), "/api/listings/x.json".to_owned()];
    let mut before = Vec::new();
    for target in &targets {
        before.push(server.get(target).await);
    }
    origin.shutdown().await;
    server.restart().await;
    assert_eq!(edges(&server).await["state"], "learned");
    for (target, before) in targets.iter().zip(before) {
        let after = server.get(target).await;
        assert_eq!((after.status, after.text()), (before.status, before.text()), "{target}");
    }
}

#[tokio::test]
async fn a_reflected_value_never_becomes_markup() {
    let (_origin, server) = learned("html", 60).await;
    let plain = server.get(&format!("{LIST}?sport=quidditch")).await;
    assert_eq!((plain.status, plain.the("content-type")), (404, "text/html; charset=utf-8".to_owned()));
    assert!(plain.text().contains("quidditch"), "{plain:?}");
    assert_eq!(plain.the("content-security-policy"), "sandbox; default-src 'none'");
    assert_eq!(plain.the("x-content-type-options"), "nosniff");
    assert_eq!(plain.the("cache-control"), "public, max-age=60");
    for name in ["etag", "set-cookie", "mirror-snapshot", "last-modified", "vary"] {
        assert_eq!(plain.header(name), None, "{name}");
    }
    let bad = server.get(&format!("{LIST}?page=x")).await;
    assert_eq!((bad.status, bad.the("cache-control")), (400, "no-store".to_owned()));
    let head = server.head(&format!("{LIST}?page=x")).await;
    assert_eq!((head.status, head.body.len(), head.the("content-length")), (400, 0, bad.body.len().to_string()));
    for value in
        ["%3Cscript%3Ealert(1)%3C/script%3E", "%22onload=%22", "a%3Cb", "a%2Fb", "caf%C3%A9%3B", &"x".repeat(65)]
    {
        let ours = server.get(&format!("{LIST}?sport={value}")).await;
        assert_eq!((ours.status, ours.the("content-type")), (200, "application/json".to_owned()), "{value}");
        assert_eq!(ours.json()["total"], 0);
        let ours = server.get(&format!("{LIST}?page={value}")).await;
        assert_eq!((ours.status, ours.the("content-type")), (400, "application/problem+json".to_owned()), "{value}");
        // Two at once are not read through either.
        let ours = server.get(&format!("{LIST}?page=0&sport={value}")).await;
        assert_eq!((ours.status, ours.the("content-type")), (400, "application/problem+json".to_owned()), "{value}");
        if value.contains('/') {
            // Another path, whose answer is the origin's.
            continue;
        }
        let ours = server.get(&format!("/api/listings/{value}.json")).await;
        assert_ne!(ours.the("content-type"), "text/html; charset=utf-8", "{value}");
    }
    // The origin is asked about values without any markup, and what it repeats of them is in a sandbox.
    for value in ["a%20b", "caf%C3%A9"] {
        for target in [format!("{LIST}?page={value}"), format!("/api/listings/{value}.json")] {
            let theirs = server.get(&target).await;
            assert_eq!(theirs.the("content-type"), "text/html; charset=utf-8", "{target}");
            assert_eq!(theirs.the("content-security-policy"), "sandbox; default-src 'none'", "{target}");
        }
        let ours = server.get(&format!("{LIST}?sport={value}")).await;
        assert_eq!((ours.status, ours.the("content-type")), (200, "application/json".to_owned()), "{value}");
    }
}

#[tokio::test]
async fn two_odd_parameters_at_once_are_read_through_while_the_origin_answers() {
    let (origin, server) = learned("strict", 60).await;
    let target = format!("{LIST}?page=0&sport=quidditch");
    quiet(&origin).await;
    origin.clear_log();
    let (ours, theirs) = (server.get(&target).await, of_the_origin(&origin, &target).await);
    assert_eq!((ours.status, ours.text()), (theirs.status, theirs.text()));
    let asked = odd_requests(&origin);
    assert_eq!(asked.first().map(String::as_str), Some("/api/listings.json?sport=quidditch&page=0"), "{asked:#?}");
    // What one client asks for is asked for once.
    server.get(&target).await;
    assert_eq!(odd_requests(&origin).len(), 2, "{:#?}", odd_requests(&origin));
    origin.shutdown().await;
    let other = format!("{LIST}?page=0&state=atlantis");
    server.get(&other).await.assert_problem(400, &["page", "0"]);
}

#[tokio::test]
async fn lessons_travel_in_bundles_of_format_3_and_bundles_without_them_are_of_format_1() {
    let (origin, server) = learned("html", 60).await;
    let without = Setup::mirror_of(&origin).start().await;
    without.settled(&origin).await;
    let desk = Desk::new();
    for (server, file, format) in [(&server, "with.gsb", 3), (&without, "without.gsb", 1)] {
        desk.does(&server.setup, &server.data_dir(), &["export"], file).await;
        assert_eq!(desk.bytes(file)[8], format, "{file}");
    }
    let asked =
        [format!("{LIST}?sport=quidditch&page=1"), format!("{LIST}?page=9999"), "/api/listings/x.json".to_owned()];
    for (file, has) in [("with.gsb", true), ("without.gsb", false)] {
        let offline = desk.serve_bundle(Setup::offline(), file).await;
        offline.ready().await;
        assert_eq!(edges(&offline).await["state"], if has { "learned" } else { "own" });
        for target in &asked {
            let (ours, theirs) = (offline.get(target).await, of_the_origin(&origin, target).await);
            assert_eq!(ours.text() == theirs.text() && ours.status == theirs.status, has, "{file} {target}: {ours:?}");
        }
        // Nobody can be asked about two at once.
        offline.get(&format!("{LIST}?page=0&sport=quidditch")).await.assert_problem(400, &["page"]);
    }
    let own = Setup::offline().set("mirror.edges", "own");
    let own = desk.serve_bundle(own, "with.gsb").await;
    own.ready().await;
    assert_eq!(own.ok(&asked[0]).await.json()["total"], 0);
}

#[tokio::test]
async fn what_was_learned_is_in_the_entity_tags_that_it_affects_and_not_in_the_snapshot_id() {
    let (origin, lenient) = learned("lenient", 230).await;
    let own = Setup::mirror_of(&origin).start().await;
    own.settled(&origin).await;
    assert_eq!(own.snapshot().await, lenient.snapshot().await);
    for same in ["page=2", "sport=baseball", "per_page=100"] {
        assert_eq!(tag(&own, same).await, tag(&lenient, same).await, "{same}");
    }
    for other in ["page=9999", "per_page=200", "sport=quidditch"] {
        assert_ne!(tag(&own, other).await, tag(&lenient, other).await, "{other}");
    }
    // A page that an ordinary request has, too, has its tag.
    assert_eq!(tag(&lenient, "page=0").await, tag(&lenient, "page=1").await);
    assert_eq!(tag(&lenient, "page=9999").await, tag(&lenient, "page=5").await);
    let known = tag(&lenient, "per_page=200").await;
    let reply = lenient.get_with(&format!("{LIST}?per_page=200"), &[("if-none-match", &known)]).await;
    assert_eq!(reply.status, 304);
}

#[tokio::test]
async fn learned_lists_follow_the_data() {
    let (origin, server) = learned("lenient", 60).await;
    let target = format!("{LIST}?page=9999&per_page=50");
    let first = server.ok(&target).await;
    assert_eq!(first.json()["page"], 2, "the last page");
    let id = edit(&origin, &server, |world| {
        let ids = world.ids();
        ids[..11].iter().for_each(|id| assert!(world.remove(*id)));
    })
    .await;
    let second = server.ok(&target).await;
    assert_eq!((second.json()["page"].clone(), second.the("mirror-snapshot")), (json!(1), id));
}

#[tokio::test]
async fn a_kept_snapshot_is_answered_by_the_same_lessons() {
    let (_origin, server) = learned("strict", 60).await;
    let id = server.snapshot().await;
    let reply = server.get(&format!("{LIST}?sport=quidditch&snapshot={id}")).await;
    assert_eq!(reply.status, 404);
    let reply = server.get(&format!("{LIST}?page=0&snapshot={id}")).await;
    assert_eq!((reply.status, reply.the("content-type")), (400, "application/json".to_owned()));
    server.get(&format!("{LIST}?page=0&snapshot=0000")).await.assert_problem(410, &["0000"]);
    let status = server.admin(Method::GET, "/status").await;
    assert_eq!(status.json()["edges"]["state"], "learned");
}

#[tokio::test]
async fn status_says_how_each_odd_request_is_answered_and_why() {
    let (_origin, server) = learned("lenient", 230).await;
    let told = edges(&server).await;
    assert_eq!((&told["requests"], &told["state"]), (&json!(44), &json!("learned")));
    assert!(told["probed_at"].as_str().is_some_and(|at| at.starts_with("20")), "{told}");
    for (case, answer) in [
        ("page-beyond", "clamped to the last page"),
        ("per-page-over", "clamped to 250"),
        ("unknown-sport", "ignored"),
        ("repeated-filter", "the first value counts"),
        ("city-outside-state", "read through"),
        ("comma-list", "read through"),
    ] {
        assert!(told["cases"][case].as_str().is_some_and(|told| told.starts_with(answer)), "{case}: {told}");
    }
    let own = Setup::offline().set("mirror.edges", "own").start().await;
    let told = edges(&own).await;
    assert_eq!((&told["state"], &told["cases"], &told["requests"]), (&json!("own"), &json!({}), &json!(0)));
}
