//! Links of read-through lists, bounds of heads, and how fetches are counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::harness::{PUBLIC, Script, Setup, Upstream, origin, wait_until};

const LIST: &str = "/api/listings.json";

#[tokio::test]
async fn a_list_that_is_read_through_links_to_its_neighbours() {
    let origin = origin(120).await;
    let server = Setup::shield_of(&origin).start().await;
    server.ready().await;
    let target = format!("{LIST}?page=2&per_page=25");
    for _ in 0..2 {
        let link = server.ok(&target).await.the("link");
        for (page, rel) in [(1, "first"), (1, "prev"), (3, "next"), (5, "last")] {
            let page = if page == 1 { String::new() } else { format!("page={page}&") };
            let expected = format!("<{PUBLIC}{LIST}?{page}per_page=25>; rel=\"{rel}\"");
            assert!(link.contains(&expected), "{expected} in {link}");
        }
        assert!(link.contains("rel=\"license\""), "{link}");
    }
    let tag = server.ok(&target).await.etag();
    let unchanged = server.get_with(&target, &[("if-none-match", &tag)]).await;
    assert!(unchanged.status == 304 && unchanged.the("link").contains("rel=\"next\""), "{unchanged:?}");
    let detail = format!("/api/listings/{}.json", origin.world(sample_origin::World::ids)[1]);
    for target in ["/api/sports.json", &detail] {
        let link = server.ok(target).await.header("link");
        assert!(link.is_none_or(|link| link.contains("license") && !link.contains("first")), "{target}");
    }
}

#[tokio::test]
async fn what_a_head_may_weigh_is_bounded_and_a_long_one_costs_nothing() {
    let upstream = Upstream::start(|_| Script::new(200, "{}").with("cache-control", "max-age=60")).await;
    let server = Setup::shield_of_url(&upstream.url()).start().await;
    server.ready().await;
    let start = Instant::now();
    for target in [LIST, "/api/regions.json"] {
        let long = format!("{target}?x={}", "y".repeat(49_200));
        server.get(&long).await.assert_problem(414, &[]);
        server.get_with(target, &[("x-long", &"y".repeat(49_200))]).await.assert_problem(431, &[]);
        assert_eq!(upstream.count(), 0, "{target}");
    }
    // Each member of `Connection` names a field of this hop; there may be many.
    let nominated = "a,".repeat(12_000);
    let fields: Vec<(String, String)> = (0..150).map(|number| (format!("x-field-{number}"), "1".into())).collect();
    let mut headers: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    headers.push(("connection", &nominated));
    assert_eq!(server.get_with("/api/regions.json", &headers).await.status, 200);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_came_of_asking_the_origin_is_counted_in_the_words_of_cache_status() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let upstream =
        Upstream::start(move |_| Script::new(200, "{}").with("cache-control", "max-age=60").held_by(&held)).await;
    let server = Setup::shield_of_url(&upstream.url()).start().await;
    server.ready().await;
    let replies = server.together((0..10).map(|_| (LIST.to_owned(), vec![])), || gate.add_permits(1)).await;
    assert!(replies.iter().all(|reply| reply.status == 200), "{replies:?}");
    let count = async |collapsed: &str| {
        let metrics = server.admin(http::Method::GET, "/metrics").await.text().to_owned();
        let labels = ["fwd=\"uri-miss\"", "fwd_status=\"200\"", "stored=\"true\"", collapsed];
        let line = metrics.lines().find(|line| {
            line.starts_with("grandstand_forwards_total") && labels.iter().all(|label| line.contains(label))
        });
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
    };
    // An answer is counted when it has left.
    wait_until("all are counted", || async { count("collapsed=\"true\"").await == 9 }).await;
    assert_eq!(count("collapsed=\"false\"").await, 1);
    let ratio = server.status().await["hit_ratio"].as_f64().unwrap();
    assert!((ratio - 0.9).abs() < 0.001, "{ratio}: who shared a request needed none");
}
