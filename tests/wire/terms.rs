//! Slugs whose terms the index lacks, indexes that collapse, and answers of the origin beside a newer snapshot.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use http::Response;
use sample_origin::{Asked, Body, Combine, FaultRule, Mishap, Switches, World};
use serde_json::Value;

use crate::harness::virtually::{mirrored, origin_with};
use crate::harness::{Setup, edit, wait_until};
use crate::open_cases::{ask, by_address};
use crate::origin_faults::{Fault, answers};

const LIST: &str = "/api/listings.json";

/// The first terms of an index: one of so many.
#[derive(Debug, Clone, Copy)]
struct CutOff(usize);

#[async_trait]
impl Mishap for CutOff {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let of = self.0;
        let cut = |right: bytes::Bytes| {
            let mut index: Value = serde_json::from_slice(&right).unwrap();
            let terms = index["items"].as_array_mut().unwrap();
            terms.truncate(terms.len() / of);
            index.to_string()
        };
        Ok(answers::rewritten(asked.right().await, cut).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_slug_that_a_cut_off_index_lacks_is_the_origins_to_answer() {
    let origin = origin_with(230, Switches { gzip: false, ..Switches::default() }).await;
    let index = origin.expected("/api/cities.json").1;
    origin.set(|switches| switches.faults = vec![FaultRule::always("/api/cities.json", CutOff(2))]);
    let server = by_address(Setup::mirror_of(&origin)).start().await;
    server.settled(&origin).await;
    let terms = index["items"].as_array().unwrap();
    for term in terms {
        let target = format!("{LIST}?city={}", term["slug"].as_str().unwrap());
        let (ours, origins) = (ask(&server, &target).await.json(), origin.expected(&target).1);
        assert!(origins["total"].as_u64() > Some(0));
        assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{target}");
    }
    let findings = server.status().await["findings"].to_string();
    assert!(findings.contains("terms-incomplete") && findings.contains("the index lacks the city of"), "{findings}");
    // Where nobody can be asked, nobody keeps the answer.
    let lacking = terms.last().unwrap()["slug"].as_str().unwrap();
    let pinned = server.ok(&format!("{LIST}?city={lacking}&snapshot={}", server.snapshot().await)).await;
    assert_eq!((pinned.total(), pinned.header("cache-control").as_deref()), (0, Some("no-store")));
    // The other indexes are whole: they know which slugs there are.
    origin.clear_log();
    assert_eq!(server.ok(&format!("{LIST}?state=nowhere")).await.total(), 0);
    assert_eq!(origin.count(), 0);
    // While the origin gives no answer, there is none.
    origin.set(|switches| switches.faults.push(FaultRule::always(LIST, Fault::Status(500))));
    let reply = server.get(&format!("{LIST}?city={lacking}&per_page=7")).await;
    assert!(reply.status == 503 && reply.header("retry-after").is_some(), "{reply:?}");
}

/// An index without some of its terms, by slug.
#[derive(Debug, Clone)]
struct Without(Vec<String>);

#[async_trait]
impl Mishap for Without {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let without = |right: bytes::Bytes| {
            let mut index: Value = serde_json::from_slice(&right).unwrap();
            let is_there = |term: &Value| self.0.iter().all(|slug| term["slug"] != **slug);
            index["items"].as_array_mut().unwrap().retain(is_there);
            index.to_string()
        };
        Ok(answers::rewritten(asked.right().await, without).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_city_that_the_index_lacks_beside_another_one_of_its_name_is_the_origins_to_answer() {
    for is_one_left in [false, true] {
        let origin = origin_with(600, Switches { gzip: false, ..Switches::default() }).await;
        let index = origin.expected("/api/cities.json").1;
        let slugs = index["items"].as_array().unwrap().iter().filter_map(|term| term["slug"].as_str());
        let springfields: Vec<String> =
            slugs.filter(|slug| slug.starts_with("springfield")).map(str::to_owned).collect();
        assert!(springfields.len() > 2, "{springfields:?}");
        let missing = if is_one_left { &springfields[1..] } else { &springfields[..1] };
        let without = Without(missing.to_vec());
        origin.set(|switches| switches.faults = vec![FaultRule::always("/api/cities.json", without)]);
        let server = Setup::mirror_of(&origin).start().await;
        server.settled(&origin).await;
        for slug in springfields {
            let target = format!("{LIST}?city={slug}");
            let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
            assert!(origins["total"].as_u64() > Some(0));
            assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{target}");
        }
        let finding = server.finding("terms-incomplete").await.unwrap();
        assert!(finding.contains("the city of"), "{finding}");
    }
}

/// Lists with a city do not have this listing yet.
#[derive(Debug)]
struct NotYet(u64);

#[async_trait]
impl Mishap for NotYet {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let has_city = asked.target.contains("city=");
        let without = |right: bytes::Bytes| {
            let mut list: Value = serde_json::from_slice(&right).unwrap();
            let items = list["items"].as_array_mut().unwrap();
            let all = items.len();
            items.retain(|item| !has_city || item["id"] != self.0);
            let missing = (all - items.len()) as u64;
            list["total"] = (list["total"].as_u64().unwrap() - missing).into();
            list.to_string()
        };
        Ok(answers::rewritten(asked.right().await, without).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_a_term_that_lagged_behind_a_change_is_asked_for_again() {
    let origin = origin_with(600, Switches { gzip: false, ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let index = origin.expected("/api/cities.json").1;
    let mut slugs = index["items"].as_array().unwrap().iter().filter_map(|term| term["slug"].as_str());
    let slug = slugs.find(|slug| slug.starts_with("springfield")).unwrap().to_owned();
    let id = origin.world(World::ids)[70];
    origin.set(|switches| switches.faults = vec![FaultRule::always(LIST, NotYet(id))]);
    edit(&origin, &server, |world| assert!(world.relocate(id, &slug, None) && world.touch(id))).await;
    let target = format!("{LIST}?city={slug}&per_page=100");
    let is_there = |list: &Value| list["items"].as_array().unwrap().iter().any(|item| item["id"] == id);
    assert!(is_there(&origin.expected(&target).1));
    wait_until("the list is asked for", || async { !is_there(&server.ok(&target).await.json()) }).await;
    origin.set(|switches| switches.faults.clear());
    let ttl = Duration::from_secs(300);
    tokio::time::sleep(4 * ttl).await;
    assert!(is_there(&server.ok(&target).await.json()));
}

#[tokio::test(start_paused = true)]
async fn terms_that_an_index_of_pages_lacks_are_read_as_often_as_other_answers() {
    let origin = origin_with(230, Switches { gzip: false, ..Switches::default() }).await;
    let index = origin.expected("/api/cities.json").1;
    let cut_off = ["/api/states.json", "/api/cities.json"].map(|path| FaultRule::always(path, CutOff(2)));
    origin.set(|switches| switches.faults = cut_off.into());
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    // All of one client.
    for term in index["items"].as_array().unwrap() {
        let target = format!("{LIST}?city={}", term["slug"].as_str().unwrap());
        let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
        assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]), "{target}");
    }
    let finding = server.finding("terms-incomplete").await.unwrap();
    assert!(finding.contains("the state of") && finding.contains("the city of"), "{finding}");
    // What is no plain slug is an odd value, and the refusal says which limit it is.
    let mut odd = ["Golf", "GOLF", "gOLF"].into_iter();
    for target in [odd.next(), odd.next()].into_iter().flatten() {
        server.get(&format!("{LIST}?city={target}")).await;
    }
    let refused = server.get(&format!("{LIST}?city={}", odd.next().unwrap())).await;
    assert!(refused.status == 503 && refused.text().contains("two a minute"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn an_index_without_terms_is_no_answer() {
    let (origin, server) = mirrored(230).await;
    let (snapshot, states) = (server.snapshot().await, server.ok("/api/states.json").await);
    let id = origin.world(World::ids)[40];
    for body in [r#"{"errors":[{"message":"timed out"}],"data":null}"#, r#"{"items":[]}"#, "[]"] {
        origin.set(|switches| switches.faults = vec![FaultRule::always("/api/states.json", Fault::Body(body.into()))]);
        server.refresh().await;
        tokio::time::sleep(Duration::from_secs(90)).await;
        let now = server.ok("/api/states.json").await;
        assert_eq!((server.snapshot().await, now.etag(), &now.body), (snapshot.clone(), states.etag(), &states.body));
        let status = server.status().await;
        assert!(status["last_error"]["message"].to_string().contains("no terms"), "{body}: {status:#}");
        assert!(server.finding("origin-fails").await.is_some_and(|told| told.contains("no terms")), "{body}");
        origin.clear_log();
        assert_eq!(server.ok(&format!("{LIST}?state=texas")).await.the("cache-status").split(';').nth(1), Some(" hit"));
        assert_eq!(origin.log().iter().filter(|seen| seen.path_and_query.contains("texas")).count(), 0);
    }
    origin.set(|switches| switches.faults.clear());
    origin.edit(|world| assert!(world.touch(id)));
    wait_until("refreshes go on", || async { server.snapshot().await != snapshot }).await;
    assert_eq!(server.finding("terms-incomplete").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_origin_is_revalidated_once_a_newer_snapshot_is_known() {
    // Two filters mean something else there, so that such queries are read from the origin.
    let origin = origin_with(230, Switches { combine: Combine::Any, ..Switches::default() }).await;
    let server = Setup::examining(&origin).start().await;
    server.settled(&origin).await;
    assert_eq!(server.disproved().await.as_array().unwrap().len(), 12);
    let id = origin.world(World::ids)[5];
    let (sport, state) = origin.world(|world| {
        let (sport, state, _) = world.slugs_of(id).unwrap();
        (sport.to_owned(), state)
    });
    let target = format!("{LIST}?sport={sport}&state={state}");
    let is_the_origins = async |asks: u64| {
        origin.clear_log();
        let (ours, origins) = (server.ok(&target).await.json(), origin.expected(&target).1);
        assert_eq!((&ours["total"], &ours["items"]), (&origins["total"], &origins["items"]));
        assert_eq!(origin.count(), asks);
    };
    is_the_origins(1).await;
    is_the_origins(0).await;
    edit(&origin, &server, |world| assert!(world.touch(id))).await;
    is_the_origins(1).await;
    is_the_origins(0).await;
}
