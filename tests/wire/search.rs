//! `/search.json`: words, places and filters over the current snapshot, and its HTTP answers.

use sample_origin::{FaultRule, Origin, Switches, World};
use serde_json::Value;

use crate::answers::obeys_http_like_lists;
use crate::client::Reply;
use crate::compare::slugs;
use crate::harness::{self, PUBLIC, Server, Setup, edit, origin_with, shared_mirror, wait_until};
use crate::origin_faults::Fault;

const SEARCH: &str = "/search.json";

async fn mirrored(listings: usize) -> (Origin, Server) {
    mirrored_by(listings, |setup| setup).await
}

async fn mirrored_by(listings: usize, change: impl FnOnce(Setup) -> Setup) -> (Origin, Server) {
    let (origin, server) = harness::mirrored_by(listings, change).await;
    indexed(&server).await;
    (origin, server)
}

/// The index follows after the swap.
pub async fn indexed(server: &Server) {
    let snapshot = server.snapshot().await;
    wait_until("the index of the current snapshot", || async {
        let reply = server.get("/search.json?bbox=-180,-90,180,90").await;
        reply.status == 200 && reply.the("mirror-snapshot") == snapshot
    })
    .await;
}

fn ids(reply: &Reply) -> Vec<u64> {
    let items = reply.json()["items"].as_array().unwrap().clone();
    items.iter().map(|item| item["listing"]["id"].as_u64().unwrap()).collect()
}

/// All ids that a search finds, in order.
async fn all(server: &Server, query: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for page in 1.. {
        let reply = server.ok(&format!("{SEARCH}?{query}&per_page=100&page={page}")).await;
        let ids = ids(&reply);
        if ids.is_empty() {
            assert_eq!(found.len() as u64, reply.total(), "{query}");
            return found;
        }
        found.extend(ids);
    }
    found
}

async fn listings(server: &Server, query: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for page in 1.. {
        let reply = server.ok(&format!("/api/listings.json?{query}&per_page=100&page={page}")).await;
        let items = reply.json()["items"].as_array().unwrap().clone();
        if items.is_empty() {
            break;
        }
        found.extend(items);
    }
    found
}

#[tokio::test]
async fn an_answer_is_a_list_whose_items_have_each_listing_as_it_was_sent() {
    let (origin, server) = shared_mirror(300).await;
    indexed(&server).await;
    let list = server.ok("/api/listings.json?per_page=7").await.json();
    let reply = server.ok("/search.json?near=39.5,-98.35&radius=5000&per_page=7&page=2").await;
    let answer = reply.json();
    for key in ["@context", "license", "attribution", "docs", "generated_at", "@type"] {
        assert_eq!(answer[key], list[key], "{key}");
    }
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&answer), keys(&list));
    assert_eq!((answer["page"].as_u64(), answer["per_page"].as_u64()), (Some(2), Some(7)));
    assert_eq!(answer["total_pages"].as_u64().unwrap(), answer["total"].as_u64().unwrap().div_ceil(7));
    let filters = serde_json::json!({"near": "39.5,-98.35", "radius": "5000"});
    assert_eq!(answer["filters"], filters);
    for id in ids(&reply) {
        let (summary, _) = origin.texts_of(id).unwrap();
        assert!(reply.text().contains(&format!("{{\"listing\":{summary},\"distance_km\":")), "{summary}");
    }
    let without = server.ok("/search.json?sport=golf").await;
    let (summary, _) = origin.texts_of(ids(&without)[0]).unwrap();
    assert!(without.text().contains(&format!("{{\"listing\":{summary}}}")), "{summary}");
    assert_eq!(server.ok("/search.json?sport=golf&per_page=1000").await.json()["per_page"], 100);
}

#[tokio::test]
async fn what_no_venue_has_is_left_out_and_named_and_the_order_can_be_chosen() {
    let (_origin, server) = shared_mirror(300).await;
    indexed(&server).await;
    let target = "/search.json?q=golf+in+xyzzyx";
    let (reply, golf) = (server.ok(target).await, server.ok("/search.json?q=golf").await);
    assert_eq!((reply.json()["ignored"].clone(), ids(&reply)), (serde_json::json!(["xyzzyx"]), ids(&golf)));
    assert!(golf.json().get("ignored").is_none() && golf.etag() != reply.etag(), "{golf:?}");
    let near = "near=30.27,-97.74&radius=20000";
    let by_name = server.ok(&format!("{SEARCH}?{near}&sort=name")).await;
    assert!(by_name.json()["items"][0]["distance_km"].is_number(), "{by_name:?}");
    assert_ne!(ids(&by_name), ids(&server.ok(&format!("{SEARCH}?{near}")).await), "the order is heard");
}

#[tokio::test]
async fn a_filter_means_what_it_means_in_a_list() {
    let (_origin, server) = shared_mirror(600).await;
    indexed(&server).await;
    for query in
        ["sport=golf", "state=texas", "sport=golf&state=texas", "modified_since=2020-06-01T12:00:00Z&sport=golf"]
    {
        let expected: Vec<u64> = listings(&server, query).await.iter().map(|one| one["id"].as_u64().unwrap()).collect();
        assert_eq!(all(&server, query).await, expected, "{query}: in the origin's order");
        let with_words = all(&server, &format!("q=a&{query}")).await;
        assert!(with_words.iter().all(|id| expected.contains(id)), "{query}");
    }
    for (query, named) in [("city=nowhere-at-all", "nowhere-at-all"), ("q=golf&sport=Golf", "Golf")] {
        server.get(&format!("{SEARCH}?{query}")).await.assert_problem(400, &[named, "must be a slug of /api/"]);
    }
}

#[tokio::test]
async fn a_term_in_doubt_is_503_and_named() {
    // Which listings belong to namesakes is not known until the origin's own lists are.
    let refuses = FaultRule::always("/api/listings.json?city=", Fault::Status(404));
    let origin = origin_with(600, Switches { faults: vec![refuses], ..Switches::default() }).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.ready().await;
    indexed(&server).await;
    let (mut known, mut doubtful) = (0, 0);
    for term in server.ok("/api/cities.json").await.json()["items"].as_array().unwrap() {
        let slug = term["slug"].as_str().unwrap();
        let reply = server.get(&format!("{SEARCH}?q=a&city={slug}")).await;
        if reply.status == 200 {
            known += 1;
            continue;
        }
        reply.assert_problem(503, &["city", slug]);
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
        doubtful += 1;
    }
    assert!(doubtful > 0 && known > doubtful, "{known} are known, {doubtful} are not");
}

#[tokio::test]
async fn a_search_obeys_http_like_lists() {
    let (origin, server) = mirrored_by(300, |setup| setup.set("public_url", &format!("{PUBLIC}/base"))).await;
    origin.clear_log();
    let target = "/search.json?q=field&per_page=5&page=2";
    let reply = obeys_http_like_lists(&server, target).await;
    let links = reply.links();
    assert_eq!(links["prev"], format!("{PUBLIC}/base/search.json?q=field&per_page=5"));
    assert_eq!(links["next"], format!("{PUBLIC}/base/search.json?q=field&page=3&per_page=5"));
    for same in [format!("/base{target}"), "/search.js%6Fn?page=2&per_page=5&city=&q=field".to_owned()] {
        assert_eq!(server.ok(&same).await.etag(), reply.etag(), "{same}");
    }
    for other in ["q=field&per_page=5", "q=Field&per_page=5&page=2", "q=fields&per_page=5&page=2"] {
        assert_ne!(server.ok(&format!("{SEARCH}?{other}")).await.etag(), reply.etag(), "{other}");
    }
    for coding in ["gzip", "br", "zstd"] {
        let coded = server.get_with(target, &[("accept-encoding", coding)]).await;
        assert_eq!((coded.the("content-encoding").as_str(), coded.etag()), (coding, reply.etag()));
        assert_eq!(coded.decoded(), reply.body, "{coding}");
    }
    assert_eq!(origin.count(), 0, "the origin has no part in it");
    // It is cached from its second request on, and says the same.
    assert_eq!(server.ok(target).await.body, reply.body);
    let beyond = server.ok("/search.json?q=field&page=1000").await;
    assert_eq!((ids(&beyond).len(), beyond.total()), (0, reply.total()));
    assert_eq!(server.ok("/search.json?q=zzzzzz").await.total(), 0);
    for (query, named) in [
        ("", "bbox"),
        ("q=", "bbox"),
        ("page=2", "near"),
        ("q=%22%22", "\"q\""),
        ("q=%ff", "\"q\""),
        ("near=north", "\"near\""),
        ("q=a&per_page=0", "\"per_page\""),
        ("q=a&facets=yes", "1, or absent"),
    ] {
        server.get(&format!("{SEARCH}?{query}")).await.assert_problem(400, &[named]);
    }
}

#[tokio::test]
async fn a_search_looks_around_a_city_by_its_slug() {
    let (origin, server) = shared_mirror(300).await;
    indexed(&server).await;
    let slug = slugs(origin, "cities").into_iter().next().unwrap();
    let there = server.ok(&format!("{SEARCH}?city={slug}&near={slug}&radius=20038")).await.json();
    let all = server.ok(&format!("{SEARCH}?city={slug}")).await.json();
    assert!(there["total"].as_u64() > Some(0) && there["total"].as_u64() <= all["total"].as_u64(), "{there}");
    assert_eq!(there["filters"], serde_json::json!({"near": slug, "radius": "20038", "city": slug}));
    let found = server.ok(&format!("{SEARCH}?near={slug}&radius=40")).await.json();
    let away: Vec<f64> =
        found["items"].as_array().unwrap().iter().map(|item| item["distance_km"].as_f64().unwrap()).collect();
    assert!(away.is_sorted() && away.iter().all(|km| *km <= 40.0), "{away:?}");
    let file = server.ok(&format!("/dumps/listings.ndjson?near={slug}&radius=40")).await;
    assert_eq!(Some(file.text().lines().count() as u64), found["total"].as_u64());
    for target in [format!("{SEARCH}?near=atlantis"), "/dumps/listings.csv?near=atlantis".to_owned()] {
        server.get(&target).await.assert_problem(400, &["\"near\"", "atlantis", "/api/cities.json"]);
    }
}

#[tokio::test]
async fn a_new_snapshot_is_searched_as_soon_as_it_has_an_index() {
    let (origin, server) = mirrored(60).await;
    let target = "/search.json?q=brandnew";
    for _ in 0..2 {
        assert_eq!(server.ok(target).await.total(), 0);
    }
    let before = server.snapshot().await;
    let now = edit(&origin, &server, |world: &mut World| {
        let first = world.ids()[0];
        world.insert_like(first, "Brandnew Arena").unwrap();
    })
    .await;
    wait_until("the new listing is found", || async {
        let reply = server.ok(target).await;
        let (named, total) = (reply.the("mirror-snapshot"), reply.total());
        // What it says fits the snapshot that it names.
        assert!((named == before && total == 0) || (named == now && total == 1), "{named}: {total}");
        total == 1
    })
    .await;
}
