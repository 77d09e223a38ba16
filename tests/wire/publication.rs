//! The effect of a publication on cached answers: only changed ones are made again, and none is wrong.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use http::Method;
use sample_origin::World;

use crate::client::{Reply, header_map, plain_client};
use crate::harness::{Server, Setup, breath, origin, wait_until};

const LIST: &str = "/api/listings.json";

async fn entries(server: &Server) -> u64 {
    server.status().await["cache"]["entries"].as_u64().unwrap()
}

/// One counter of `/metrics`.
async fn counter(server: &Server, name: &str, outcome: &str) -> u64 {
    let metrics = server.admin(Method::GET, "/metrics").await;
    let text = metrics.text();
    let start = format!("grandstand_{name}_total{{outcome=\"{outcome}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("{start}: {text}")).parse().unwrap()
}

#[tokio::test]
async fn a_query_that_is_asked_once_leaves_nothing_in_the_cache() {
    let origin = origin(230).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let before = entries(&server).await;
    for page in 1..=100 {
        server.ok(&format!("{LIST}?page={page}&per_page=2")).await;
    }
    for id in origin.world(World::ids).iter().take(100) {
        server.ok(&format!("/api/listings/{id}.json")).await;
    }
    assert_eq!(entries(&server).await, before, "nobody asked again");
    for page in 1..=3 {
        server.ok(&format!("{LIST}?page={page}&per_page=2")).await;
    }
    assert_eq!(entries(&server).await, before + 3, "somebody did");
    assert_eq!(counter(&server, "cache_replies", "passing").await, 200);
}

#[tokio::test]
async fn a_mirror_renders_anew_what_is_purged() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.clear_log();
    server.ok(LIST).await;
    // Kept again since that request.
    let page = server.ok(LIST).await;
    let purged = server.admin(Method::DELETE, "/cache").await;
    assert!(purged.status == 200 && purged.json()["purged"].as_u64() >= Some(1), "{purged:?}");
    let again = server.ok(LIST).await;
    assert_eq!((again.body.clone(), again.etag()), (page.body.clone(), page.etag()));
    assert_eq!(origin.count(), 0, "the snapshot is not in the cache");
}

/// Everything seen, and whether it fits together.
#[derive(Default)]
struct Witness {
    /// The body of each tag, without the time.
    bodies: HashMap<(String, String), Vec<u8>>,
    /// The tag of a target in each snapshot.
    tags: HashMap<(String, String), String>,
    answers: u64,
}

impl Witness {
    fn hear(&mut self, target: &str, reply: &Reply) {
        assert_eq!(reply.status, 200, "{target}: {reply:?}");
        assert!(reply.the("cache-status").contains("hit"), "{target}: {reply:?}");
        let text = String::from_utf8(reply.decoded()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (tag, snapshot) = (reply.the("etag"), reply.the("mirror-snapshot"));
        let mut timeless = text.clone();
        if let Some(generated_at) = value["generated_at"].as_str() {
            let at: jiff::Timestamp = generated_at.parse().unwrap();
            let confirmed = httpdate::parse_http_date(&reply.the("mirror-confirmed")).unwrap();
            let confirmed = jiff::Timestamp::try_from(confirmed).unwrap();
            if target.starts_with(LIST) {
                assert_eq!(at, confirmed, "{target}: {generated_at}");
            }
            timeless = text.replacen(generated_at, "", 1);
        }
        let known = self.bodies.entry((target.to_owned(), tag.clone())).or_insert_with(|| timeless.clone().into());
        assert_eq!(*known, timeless.into_bytes(), "{target}: two bodies with the tag {tag}");
        // A detail is no part of the snapshot.
        if !target.contains("/listings/") {
            let known = self.tags.entry((target.to_owned(), snapshot.clone())).or_insert_with(|| tag.clone());
            assert_eq!(*known, tag, "{target}: two tags in the snapshot {snapshot}");
        }
        self.answers += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hot_answers_under_load_survive_publications_and_never_contradict_each_other() {
    const PUBLICATIONS: u64 = 4;
    let origin = origin(230).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let ids = origin.world(World::ids);
    let pages = (1..=5).map(|page| format!("{LIST}?page={page}"));
    let details = ids[..5].iter().map(|id| format!("/api/listings/{id}.json"));
    let others = ["/api/sports.json", "/api/cities.json", "/api/listings.json?sport=golf&per_page=20"];
    let targets: Arc<[String]> = pages.chain(details).chain(others.map(str::to_owned)).collect();
    let (witness, stop) = (Arc::<Mutex<Witness>>::default(), Arc::<AtomicBool>::default());
    let clients = ["zstd", "gzip", "identity", "br"].map(|coding| {
        let (targets, witness, stop, public) = (targets.clone(), witness.clone(), stop.clone(), server.public);
        tokio::spawn(async move {
            let client = plain_client();
            while !stop.load(Ordering::Relaxed) {
                for target in &*targets {
                    let request = client.get(format!("http://{public}{target}"));
                    let request = request.headers(header_map(&[("accept-encoding", coding)]));
                    let reply = Reply::of(request.send().await.unwrap()).await;
                    witness.lock().unwrap().hear(target, &reply);
                    breath().await;
                }
            }
        })
    });
    let answered = || witness.lock().unwrap().answers;
    let heard = async |more: u64| {
        let enough = answered() + more * targets.len() as u64;
        wait_until("the clients have heard more", || async { answered() >= enough }).await;
    };
    heard(20).await;
    assert!(counter(&server, "cache_codings", "recoded").await > 0, "hot ones are compressed well");
    let warm = entries(&server).await;
    assert!(warm >= targets.len() as u64, "{warm}");
    let (kept, passing) =
        (counter(&server, "cache_replies", "kept").await, counter(&server, "cache_replies", "passing").await);
    let renewed = counter(&server, "cache_replies", "renewed").await;
    let confirmed = counter(&server, "cache_replies", "confirmed").await;
    for round in 0..PUBLICATIONS {
        let before = server.snapshot().await;
        origin.edit(|world| assert!(world.touch(ids[100 + round as usize])));
        server.refresh().await;
        wait_until("another snapshot is served", || async { server.snapshot().await != before }).await;
        heard(8).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(entries(&server).await, warm, "the hot set is what it was");
    assert_eq!(counter(&server, "cache_replies", "kept").await, kept, "nothing had to come back");
    assert_eq!(counter(&server, "cache_replies", "passing").await, passing);
    let renewed = counter(&server, "cache_replies", "renewed").await - renewed;
    assert!(renewed >= PUBLICATIONS * 6, "each page of the list tells of another instant: {renewed}");
    let confirmed = counter(&server, "cache_replies", "confirmed").await - confirmed;
    assert!(confirmed >= PUBLICATIONS * 5, "details stay as they are: {confirmed}");
    let witness = witness.lock().unwrap();
    assert!(witness.bodies.len() > targets.len(), "something did change");
}
