//! Slugs whose terms the index lacks, and answers of the origin beside a newer snapshot.

use std::io;

use async_trait::async_trait;
use http::Response;
use sample_origin::{Asked, Body, Combine, FaultRule, Mishap, Switches, World};
use serde_json::Value;

use crate::harness::virtually::origin_with;
use crate::harness::{Setup, wait_until};
use crate::open_cases::{ask, by_address};
use crate::origin_faults::answers;

const LIST: &str = "/api/listings.json";

/// The first half of the terms of an index.
#[derive(Debug)]
struct CutOff;

#[async_trait]
impl Mishap for CutOff {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let cut = |right: bytes::Bytes| {
            let mut index: Value = serde_json::from_slice(&right).unwrap();
            let terms = index["items"].as_array_mut().unwrap();
            terms.truncate(terms.len() / 2);
            index.to_string()
        };
        Ok(answers::rewritten(asked.right().await, cut).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_slug_that_a_cut_off_index_lacks_is_the_origins_to_answer() {
    let origin = origin_with(230, Switches { gzip: false, ..Switches::default() }).await;
    let index = origin.expected("/api/cities.json").1;
    origin.set(|switches| switches.faults = vec![FaultRule::always("/api/cities.json", CutOff)]);
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
    origin.set(|switches| switches.faults.push(FaultRule::always(LIST, crate::origin_faults::Fault::Status(500))));
    let reply = server.get(&format!("{LIST}?city={lacking}&per_page=7")).await;
    assert!(reply.status == 503 && reply.header("retry-after").is_some(), "{reply:?}");
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
    let before = server.snapshot().await;
    origin.edit(|world| assert!(world.touch(id)));
    server.refresh().await;
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    server.settled(&origin).await;
    is_the_origins(1).await;
    is_the_origins(0).await;
}
