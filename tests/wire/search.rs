//! `/search.json`: words, places and filters over the current snapshot, and its HTTP answers.

use http::Method;
use sample_origin::{FaultRule, Origin, Switches, World};
use serde_json::Value;

use crate::client::Reply;
use crate::compare::slugs;
use crate::harness::{self, PUBLIC, Server, Setup, edit, origin, origin_with, shared_mirror, wait_until};
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
async fn words_are_found_by_their_beginning_without_case_and_accents_and_with_one_error() {
    let origin = origin(1).await;
    let names = [
        ("Łódź Friendship Park", "kaneohe"),
        ("Peña Blanca Golf", "santa-fe"),
        ("Friendship Golf Links", "san-jose"),
        ("<script>alert(1)</script> \"Field\" & Co", "moab"),
    ];
    origin.edit(|world| {
        let first = world.ids()[0];
        for (name, city) in names {
            let id = world.insert_like(first, name).unwrap();
            assert!(world.relocate(id, city, None), "{city}");
        }
    });
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    indexed(&server).await;
    let found = |query: &'static str| {
        let server = &server;
        async move {
            let reply = server.ok(&format!("{SEARCH}?q={query}")).await.json();
            let items = reply["items"].as_array().unwrap().clone();
            items.iter().map(|item| item["listing"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        }
    };
    assert_eq!(found("lodz").await[0], names[0].0);
    assert_eq!(found("%C5%81%C3%93D%C5%B9+friend").await, [names[0].0]);
    assert_eq!(found("PENA").await, [names[1].0]);
    assert_eq!(found("golf+pe%C3%B1").await, [names[1].0], "all words must match");
    for one_error in ["freindship", "frendship", "friendshipp", "friendshib"] {
        let found = found(one_error).await;
        assert!(found.contains(&names[0].0.to_owned()) && found.contains(&names[2].0.to_owned()), "{one_error}");
    }
    assert!(found("freindshib").await.is_empty(), "that is two errors");
    for city in ["k%C4%81ne%E2%80%98ohe", "KANEOHE", "kaneo", "ohe+lodz"] {
        assert_eq!(found(city).await, [names[0].0], "{city}");
    }
    assert_eq!(found("script+fiel").await, [names[3].0]);
    assert!(found("pina").await.is_empty(), "four letters have no errors");
}

#[tokio::test]
async fn what_no_venue_has_is_left_out_and_named_and_the_order_can_be_chosen() {
    let (_origin, server) = shared_mirror(300).await;
    indexed(&server).await;
    let target = "/search.json?q=golf+in+xyzzyx";
    let (reply, golf) = (server.ok(target).await, server.ok("/search.json?q=golf").await);
    assert_eq!((reply.json()["ignored"].clone(), ids(&reply)), (serde_json::json!(["xyzzyx"]), ids(&golf)));
    assert!(golf.json().get("ignored").is_none() && golf.etag() != reply.etag(), "{golf:?}");
    let names = |query: &'static str| {
        let server = &server;
        async move {
            let reply = server.ok(&format!("{SEARCH}?{query}&per_page=100")).await.json();
            let items = reply["items"].as_array().unwrap().clone();
            items
                .iter()
                .map(|item| item["listing"]["name"].as_str().unwrap_or_default().to_lowercase())
                .collect::<Vec<_>>()
        }
    };
    let mut sorted = names("state=texas").await;
    sorted.sort();
    assert_eq!(names("state=texas&sort=name").await, sorted);
    let near = "near=30.27,-97.74&radius=20000";
    assert_eq!(
        ids(&server.ok(&format!("{SEARCH}?{near}&sort=distance")).await),
        ids(&server.ok(&format!("{SEARCH}?{near}")).await)
    );
    let by_name = server.ok(&format!("{SEARCH}?{near}&sort=name")).await.json();
    assert!(by_name["items"][0]["distance_km"].is_number(), "{by_name}");
}

#[tokio::test]
async fn facets_count_the_results_of_each_sport_and_state() {
    let (_origin, server) = shared_mirror(300).await;
    indexed(&server).await;
    let (plain, reply) = (server.ok("/search.json?q=field").await, server.ok("/search.json?q=field&facets=1").await);
    assert!(plain.json().get("facets").is_none() && plain.etag() != reply.etag(), "{plain:?}");
    assert_eq!((ids(&reply), reply.json()["filters"].clone()), (ids(&plain), plain.json()["filters"].clone()));
    for kind in ["sport", "state"] {
        let terms = reply.json()["facets"][kind].as_array().unwrap().clone();
        let counts: Vec<u64> = terms.iter().map(|term| term["count"].as_u64().unwrap()).collect();
        assert!(counts.is_sorted_by(|one, other| one >= other) && !counts.is_empty(), "{terms:?}");
        assert_eq!(counts.iter().sum::<u64>(), reply.total(), "each result has one {kind}");
        let term = &terms[0];
        assert!(term["name"].is_string(), "{term}");
        let one = server.ok(&format!("{SEARCH}?q=field&{kind}={}", term["slug"].as_str().unwrap())).await;
        assert_eq!(one.total(), counts[0], "{term}");
    }
    let next = server.ok("/search.json?q=field&facets=1&per_page=2").await.links()["next"].clone();
    assert!(next.ends_with("q=field&facets=1&page=2&per_page=2"), "{next}");
    server.get("/search.json?q=field&facets=yes").await.assert_problem(400, &["\"facets\"", "1, or absent"]);
}

#[tokio::test]
async fn near_means_within_the_radius_and_nearest_first() {
    let (_origin, server) = shared_mirror(600).await;
    indexed(&server).await;
    let metres = |lat: f64, lng: f64| {
        let (lat1, lat2): (f64, f64) = (30.27_f64.to_radians(), lat.to_radians());
        let turn = (lng + 97.74).to_radians();
        let cosine = lat1.sin() * lat2.sin() + lat1.cos() * lat2.cos() * turn.cos();
        6_371_008.8 * cosine.clamp(-1.0, 1.0).acos()
    };
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let everything = listings(&server, "").await;
    for radius in [50.0, 400.0, 3000.0, 20_000.0] {
        let query = format!("near=30.27,-97.74&radius={radius}");
        let found = all(&server, &query).await;
        let mut expected: Vec<(f64, u64)> = everything
            .iter()
            .filter_map(|listing| {
                let metres = metres(number(&listing["lat"])?, number(&listing["lng"])?);
                (metres <= radius * 1000.0).then_some((metres, listing["id"].as_u64()?))
            })
            .collect();
        // Two formulas may differ by some metres.
        expected.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert_eq!(found.len(), expected.len(), "{radius}");
        let page = server.ok(&format!("{SEARCH}?{query}&per_page=100")).await.json();
        for (item, (metres, _)) in page["items"].as_array().unwrap().iter().zip(&expected) {
            let shown = item["distance_km"].as_f64().unwrap() * 1000.0;
            assert!((shown - metres).abs() < 5.0, "{item} and {metres}");
        }
    }
    let half = server.ok("/search.json?near=30.27,-97.74").await;
    assert_eq!(ids(&half), ids(&server.ok("/search.json?near=30.27,-97.74&radius=50").await), "50 km by default");
}

#[tokio::test]
async fn a_filter_means_what_it_means_in_a_list_and_a_box_may_cross_the_date_line() {
    let (_origin, server) = shared_mirror(600).await;
    indexed(&server).await;
    let sorted = |mut ids: Vec<u64>| {
        ids.sort_unstable();
        ids
    };
    for query in
        ["sport=golf", "state=texas", "sport=golf&state=texas", "modified_since=2020-06-01T12:00:00Z&sport=golf"]
    {
        let expected: Vec<u64> = listings(&server, query).await.iter().map(|one| one["id"].as_u64().unwrap()).collect();
        assert_eq!(all(&server, query).await, expected, "{query}: in the origin's order");
        let with_words = all(&server, &format!("q=a&{query}")).await;
        assert!(sorted(with_words).iter().all(|id| expected.contains(id)), "{query}");
    }
    let everywhere = sorted(all(&server, "bbox=-180,-90,180,90").await);
    let (east, west) =
        (all(&server, "bbox=-100,-90,180,90").await, all(&server, "bbox=-180,-90,-100.0000001,90").await);
    assert_eq!(sorted([east.clone(), west].concat()), everywhere);
    assert_eq!(sorted(all(&server, "bbox=-100,-90,-170,90").await).len(), {
        let far = all(&server, "bbox=-180,-90,-170,90").await;
        sorted([east, far].concat()).len()
    });
    assert!(all(&server, "bbox=179,-1,-179,1").await.is_empty());
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
    let (list, reply) = (server.ok("/api/listings.json").await, server.ok(target).await);
    for name in [
        "content-type",
        "cache-control",
        "vary",
        "mirror-snapshot",
        "mirror-confirmed",
        "accept-ranges",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "x-content-type-options",
    ] {
        assert_eq!(reply.the(name), list.the(name), "{name}");
    }
    assert!(reply.age().is_some() && reply.the("cache-status").starts_with("grandstand; hit"), "{reply:?}");
    assert!(reply.etag().starts_with("W/\""), "{reply:?}");
    let links = reply.links();
    assert_eq!(links["prev"], format!("{PUBLIC}/base/search.json?q=field&per_page=5"));
    assert_eq!(links["next"], format!("{PUBLIC}/base/search.json?q=field&page=3&per_page=5"));
    assert_eq!(links["license"], list.links()["license"]);
    for same in [format!("/base{target}"), "/search.js%6Fn?page=2&per_page=5&city=&q=field".to_owned()] {
        assert_eq!(server.ok(&same).await.etag(), reply.etag(), "{same}");
    }
    for other in ["q=field&per_page=5", "q=Field&per_page=5&page=2", "q=fields&per_page=5&page=2"] {
        assert_ne!(server.ok(&format!("{SEARCH}?{other}")).await.etag(), reply.etag(), "{other}");
    }
    let head = server.head(target).await;
    assert_eq!((head.status, head.body.len(), head.etag()), (200, 0, reply.etag()));
    assert_eq!(head.the("content-length"), reply.body.len().to_string());
    let unchanged = server.get_with(target, &[("if-none-match", &reply.etag())]).await;
    assert_eq!((unchanged.status, unchanged.body.len(), unchanged.header("content-type")), (304, 0, None));
    for name in ["etag", "cache-control", "vary", "age", "link", "mirror-snapshot", "cache-status"] {
        assert!(unchanged.header(name).is_some(), "{name}: {unchanged:?}");
    }
    server.get_with(target, &[("if-match", &reply.etag())]).await.assert_problem(412, &["If-Match"]);
    for coding in ["gzip", "br", "zstd"] {
        let coded = server.get_with(target, &[("accept-encoding", coding)]).await;
        assert_eq!((coded.the("content-encoding").as_str(), coded.etag()), (coding, reply.etag()));
        assert_eq!(coded.decoded(), reply.body, "{coding}");
    }
    let asked = [("origin", "https://page.example"), ("access-control-request-method", "GET")];
    assert_eq!(server.send(Method::OPTIONS, target, &asked).await.status, 204);
    server.send(Method::POST, target, &[("content-length", "0")]).await.assert_problem(405, &[]);
    assert_eq!(origin.count(), 0, "the origin has no part in it");
    // It is cached from its second request on, and says the same.
    assert_eq!(server.ok(target).await.body, reply.body);
    let beyond = server.ok("/search.json?q=field&page=1000").await;
    assert_eq!((ids(&beyond).len(), beyond.total()), (0, reply.total()));
    assert_eq!(server.ok("/search.json?q=zzzzzz").await.total(), 0);
}

#[tokio::test]
async fn what_cannot_be_searched_is_refused() {
    let (_origin, server) = shared_mirror(20).await;
    indexed(&server).await;
    let long = format!("q={}", "a".repeat(201));
    for (query, named) in [
        ("", "bbox"),
        ("page=2", "near"),
        ("q=", "bbox"),
        (long.as_str(), "200 characters"),
        ("q=a&sort=age", "\"sort\""),
        ("q=a&sort=distance", "together with near"),
        ("q=%22%22", "\"q\""),
        ("near=north", "\"near\""),
        ("near=1,2&radius=-1", "\"radius\""),
        ("q=a&radius=5", "together with near"),
        ("bbox=1,2,3", "\"bbox\""),
        ("q=a&q=b", "twice"),
        ("q=a&per_page=0", "\"per_page\""),
        ("q=a&snapshot=1", "\"snapshot\""),
        ("q=%ff", "\"q\""),
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

#[tokio::test]
async fn there_is_a_search_wherever_there_are_snapshots() {
    let offline = Setup::offline().start().await;
    let reply = offline.get("/search.json?q=golf").await;
    reply.assert_problem(503, &["snapshot"]);
    assert!(reply.the("retry-after").parse::<u32>().unwrap() > 0);
    let origin = origin(20).await;
    let shield = Setup::shield_of(&origin).start().await;
    shield.get("/search.json?q=golf").await.assert_problem(404, &["/search.json"]);
    let off = Setup::offline().set("pages.enabled", "false").start().await;
    off.get("/search.json?q=golf").await.assert_problem(404, &["/search.json"]);
    assert_eq!(origin.count(), 0);
    let (_origin, server) = mirrored_by(20, |setup| setup.set("rate_limit.requests_per_minute", "1000")).await;
    let left = |reply: &Reply| {
        let (_, rest) = reply.the("ratelimit").split_once("r=").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        rest.split(';').next().unwrap().parse::<u32>().unwrap()
    };
    let before = left(&server.ok("/api/sports.json").await);
    assert!(left(&server.ok("/search.json?q=golf").await) < before, "it counts in the limit of the API");
}
