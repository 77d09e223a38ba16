//! The sample origin over real sockets: it keeps the documented contract, and its switches do what they say.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::StatusCode;
use reqwest::{Client, Response};
use serde_json::Value;

use super::*;

async fn start(listings: usize, switches: Switches) -> Origin {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Origin::start(any, World::generate(listings, 42), switches).await.unwrap()
}

fn client_builder() -> reqwest::ClientBuilder {
    // An error: it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
}

/// A client that sends `Accept-Encoding` only where a test sets it.
fn plain_client() -> Client {
    client_builder().no_proxy().no_gzip().no_brotli().no_zstd().build().unwrap()
}

async fn get(origin: &Origin, target: &str) -> Response {
    plain_client().get(format!("{}{target}", origin.url())).send().await.unwrap()
}

async fn json(origin: &Origin, target: &str) -> Value {
    let response = get(origin, target).await;
    assert_eq!(response.status(), 200, "{target}");
    response.json().await.unwrap()
}

async fn conditional(origin: &Origin, target: &str, tag: &str) -> Response {
    let request = plain_client().get(format!("{}{target}", origin.url())).header("if-none-match", tag);
    request.send().await.unwrap()
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

fn ids(body: &Value) -> Vec<u64> {
    body["items"].as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect()
}

fn without_time(mut body: Value) -> Value {
    if let Some(object) = body.as_object_mut() {
        object.remove("generated_at");
        object.remove("request_id");
    }
    body
}

#[tokio::test]
async fn pages_add_up_to_the_total_in_every_order() {
    let origin = start(457, Switches::default()).await;
    for order in [ItemOrder::ById, ItemOrder::ByModifiedDesc, ItemOrder::ByName, ItemOrder::Arbitrary(3)] {
        origin.set(|switches| switches.order = order);
        let mut seen = Vec::new();
        for page in 1..=6 {
            let body = json(&origin, &format!("/api/listings.json?page={page}&per_page=1000")).await;
            assert_eq!(
                (&body["per_page"], &body["total"], &body["total_pages"]),
                (&100.into(), &457.into(), &5.into())
            );
            seen.extend(ids(&body));
        }
        assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 457, "{order:?}");
        assert_eq!(seen.len(), 457);
        assert_eq!(seen.is_sorted(), order == ItemOrder::ById);
    }
}

#[tokio::test]
async fn filters_agree_with_the_model_and_with_the_counts() {
    let origin = start(3_000, Switches::default()).await;
    for (endpoint, parameter) in [("sports", "sport"), ("states", "state"), ("cities", "city")] {
        for term in json(&origin, &format!("/api/{endpoint}.json")).await["items"].as_array().unwrap() {
            let (slug, api_url) = (term["slug"].as_str().unwrap(), term["api_url"].as_str().unwrap());
            let (_, list) = origin.expected(api_url.strip_prefix(&origin.url()).unwrap());
            assert_eq!(list["total"], term["count"], "{slug}");
            assert_eq!(list["filters"][parameter], slug);
        }
    }
    let both = json(&origin, "/api/listings.json?state=texas&sport=baseball&per_page=100").await;
    let expected = origin.world(|world| world.listings_matching(Some("baseball"), Some("texas"), None));
    assert_eq!(ids(&both).into_iter().collect::<HashSet<_>>(), expected.iter().copied().collect());
    let either = origin.expected("/api/listings.json?state=texas&sport=baseball").1["total"].as_u64().unwrap();
    origin.set(|switches| switches.combine = Combine::Any);
    assert!(origin.expected("/api/listings.json?state=texas&sport=baseball").1["total"].as_u64().unwrap() > either);
}

#[tokio::test]
async fn modified_since_is_strict_unless_switched() {
    let origin = start(500, Switches::default()).await;
    let newest = origin.world(World::newest).unwrap();
    let target = format!("/api/listings.json?modified_since={newest}");
    assert_eq!(json(&origin, &target).await["total"], 0);
    origin.set(|switches| switches.since = Since::AtOrAfter);
    assert_eq!(json(&origin, &target).await["total"], 1);
    let body = json(&origin, "/api/listings.json?modified_since=2025-01-01&per_page=100").await;
    let midnight = "2025-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap();
    for item in body["items"].as_array().unwrap() {
        assert!(item["modified"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap() >= midnight);
    }
    assert!((100..400).contains(&body["total"].as_u64().unwrap()));
}

#[tokio::test]
async fn edges_of_the_query_are_answered_as_documented() {
    let origin = start(120, Switches::default()).await;
    let beyond = json(&origin, "/api/listings.json?page=18446744073709551615").await;
    assert_eq!((ids(&beyond).len(), &beyond["total"]), (0, &120.into()));
    assert_eq!(json(&origin, "/api/listings.json?city=atlantis").await["total"], 0);
    assert_eq!(ids(&json(&origin, "/api/listings.json").await).len(), 50);
    for (target, status) in [
        ("/api/listings.json?page=0", 400),
        ("/api/listings.json?per_page=-1", 400),
        ("/api/listings.json?modified_since=soon", 400),
        ("/api/listings/1.json", 404),
        ("/api/listings/x.json", 404),
        ("/nothing", 404),
    ] {
        let response = get(&origin, target).await;
        assert_eq!(response.status(), status, "{target}");
        assert_eq!(header(&response, "content-type"), Some("application/json"));
        assert_eq!(header(&response, "etag"), None);
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["status"], status);
    }
    let response = plain_client().post(format!("{}/api/sports.json", origin.url())).send().await.unwrap();
    assert_eq!((response.status().as_u16(), header(&response, "allow")), (405, Some("GET, HEAD")));
}

#[tokio::test]
async fn a_detail_shows_more_than_its_summary_and_says_that_it_is_synthetic() {
    let origin = start(300, Switches::default()).await;
    let mut bytes = 0;
    for id in origin.world(World::ids) {
        let (status, text) = origin.expected_text(&format!("/api/listings/{id}.json"));
        bytes += text.len();
        let detail: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &detail["id"]), (200, &id.into()));
        assert!(detail["attribution"].as_str().unwrap().starts_with("Synthetic demonstration data"));
        assert!(detail["address"]["postal_code"].is_string() && detail["updated_at"].is_string());
    }
    assert!((800..1_600).contains(&(bytes / 300)), "{} bytes on average", bytes / 300);
    let id = origin.world(World::ids)[7];
    let target = format!("/api/listings/{id}.json");
    let tag = header(&get(&origin, &target).await, "etag").unwrap().to_owned();
    let list = header(&get(&origin, "/api/listings.json?per_page=100").await, "etag").unwrap().to_owned();
    origin.edit(|world| world.change_detail(id));
    assert_eq!(conditional(&origin, &target, &tag).await.status(), 200);
    assert_eq!(conditional(&origin, "/api/listings.json?per_page=100", &list).await.status(), 304);
}

#[tokio::test]
async fn not_modified_follows_the_style_of_the_entity_tags() {
    let origin = start(200, Switches { request_id: true, ..Switches::default() }).await;
    let target = "/api/listings.json?per_page=100";
    for (style, start, hits) in
        [(EtagStyle::Strong, "\"", true), (EtagStyle::Weak, "W/\"", true), (EtagStyle::WithGeneratedAt, "\"", false)]
    {
        origin.set(|switches| switches.etags = style);
        let tag = header(&get(&origin, target).await, "etag").unwrap().to_owned();
        assert!(tag.starts_with(start), "{tag}");
        let expected = if hits { 304 } else { 200 };
        for asked in [&tag, &format!("\"x\", W/{}", tag.trim_start_matches("W/"))] {
            let response = conditional(&origin, target, asked).await;
            assert_eq!(response.status(), expected, "{style:?} {asked}");
            assert!(header(&response, "date").is_some() && header(&response, "cache-control").is_some());
        }
        assert_eq!(conditional(&origin, target, "*").await.status(), 304);
        origin.edit(|world| world.touch(world.ids()[5]));
        assert_eq!(conditional(&origin, target, &tag).await.status(), 200);
    }
    origin.set(|switches| switches.etags = EtagStyle::None);
    let response = conditional(&origin, target, "*").await;
    assert_eq!((response.status(), header(&response, "etag")), (StatusCode::OK, None));
}

#[tokio::test]
async fn gzip_is_sent_where_it_is_accepted() {
    let origin = start(200, Switches::default()).await;
    let url = format!("{}/api/cities.json", origin.url());
    let zipped = client_builder().no_proxy().build().unwrap().get(&url).send().await.unwrap();
    let plain = get(&origin, "/api/cities.json").await;
    assert_ne!(header(&zipped, "etag"), header(&plain, "etag"));
    assert_eq!(header(&plain, "vary"), Some("Accept-Encoding"));
    assert_eq!(without_time(zipped.json().await.unwrap()), without_time(plain.json().await.unwrap()));
    for (accept, coding) in [("gzip", Some("gzip")), ("br, gzip;q=0.5", Some("gzip")), ("gzip;q=0", None), ("br", None)]
    {
        let response = plain_client().get(&url).header("accept-encoding", accept).send().await.unwrap();
        assert_eq!(header(&response, "content-encoding"), coding, "{accept}");
    }
}

#[tokio::test]
async fn head_has_the_headers_of_get_over_both_versions_of_http() {
    let origin = start(200, Switches::default()).await;
    let h2 = client_builder().no_proxy().no_gzip().no_brotli().no_zstd().http2_prior_knowledge().build().unwrap();
    for (client, version) in [(plain_client(), http::Version::HTTP_11), (h2, http::Version::HTTP_2)] {
        let url = format!("{}/api/listings.json", origin.url());
        let head = client.head(&url).send().await.unwrap();
        let get = client.get(&url).send().await.unwrap();
        assert_eq!((head.version(), head.status()), (version, StatusCode::OK));
        for name in ["etag", "content-length", "content-type", "cache-control"] {
            assert!(header(&head, name).is_some() && header(&head, name) == header(&get, name), "{name}");
        }
        assert_eq!(head.bytes().await.unwrap().len(), 0);
        assert_eq!(without_time(get.json().await.unwrap()), without_time(origin.expected("/api/listings.json").1));
    }
}

#[tokio::test]
async fn the_61st_arrival_is_refused_and_counted() {
    let origin = start(10, Switches { refuse_61st: Some(60), ..Switches::default() }).await;
    let client = plain_client();
    let url = format!("{}/api/sports.json", origin.url());
    for nth in 1..=63 {
        let response = client.get(&url).send().await.unwrap();
        assert_eq!(response.status(), if nth <= 60 { 200 } else { 429 }, "{nth}");
        if nth > 60 {
            let wait: u64 = header(&response, "retry-after").unwrap().parse().unwrap();
            assert!((50..=60).contains(&wait), "{wait}");
        }
    }
    assert_eq!((origin.refused(), origin.count(), origin.busiest_minute()), (3, 63, 63));
    origin.clear_log();
    assert_eq!((origin.refused(), origin.count(), origin.log().len()), (0, 0, 0));
}

#[tokio::test]
async fn the_log_tells_what_came_and_what_was_answered() {
    let origin = start(10, Switches { prefix: "/v1/".to_owned(), ..Switches::default() }).await;
    assert!(origin.url().ends_with("/v1"));
    let url = format!("{}/api/regions.json?a=%7e&a", origin.url());
    let request = plain_client().get(&url).header("user-agent", "probe").header("accept-encoding", "br");
    let body: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(body["query"], "a=%7e&a");
    assert_eq!(conditional(&origin, "/api/sports.json", "*").await.status(), 304);
    let outside = format!("http://{}/api/sports.json", origin.addr());
    assert_eq!(plain_client().get(outside).send().await.unwrap().status(), 404);
    let log = origin.log();
    assert_eq!(
        (&*log[0].path_and_query, log[0].status, log[0].conditional),
        ("/v1/api/regions.json?a=%7e&a", 200, false)
    );
    assert_eq!((log[0].user_agent.as_deref(), log[0].accept_encoding.as_deref()), (Some("probe"), Some("br")));
    assert_eq!((log[1].status, log[1].conditional, log[2].status), (304, true, 404));
    assert_eq!(origin.expected("/api/sports.json").0, 200);
    assert_eq!(origin.expected("/v1/api/sports.json").0, 200);
    assert_eq!(origin.count(), 3, "expected values are not logged");
}

#[tokio::test]
async fn taxonomies_take_every_shape() {
    let origin = start(500, Switches { prefix: "/v1".to_owned(), ..Switches::default() }).await;
    let first = |body: &Value| body["items"][0].clone();
    let plain = first(&json(&origin, "/api/states.json").await);
    let url = format!("{}/api/listings.json?state={}", origin.url(), plain["slug"].as_str().unwrap());
    assert_eq!(plain["api_url"], url.as_str());
    origin.set(|switches| {
        switches.api_url = ApiUrlStyle::EscapedSlashes;
        switches.field_names = TermFields::TitleListingsCount;
        switches.count_skew = 2;
        switches.pretty = true;
    });
    let text = get(&origin, "/api/states.json").await.text().await.unwrap();
    assert!(text.contains(&format!("\"{}\"", url.replace('/', "\\/"))) && text.contains("\n    \"docs\": "), "{text}");
    let escaped = first(&serde_json::from_str(&text).unwrap());
    assert_eq!(escaped["api_url"], url.as_str());
    assert_eq!(escaped["title"], plain["name"]);
    assert_eq!(escaped["listings_count"].as_u64().unwrap(), plain["count"].as_u64().unwrap() + 2);
    origin.set(|switches| {
        switches.api_url = ApiUrlStyle::Relative;
        switches.taxonomy_shape = TaxonomyShape::Array;
    });
    let bare = json(&origin, "/api/states.json").await;
    assert!(bare[0]["api_url"].as_str().unwrap().starts_with("/v1/api/listings.json?state="));
    origin.set(|switches| {
        switches.api_url = ApiUrlStyle::Alias("https://alias.example".to_owned());
        switches.taxonomy_shape = TaxonomyShape::Nested;
        switches.field_names = TermFields::LabelTotal;
        switches.empty_filters = EmptyFilters::Array;
    });
    let nested = json(&origin, "/api/states.json").await;
    let term = &nested["data"]["groups"][0]["terms"][0];
    assert!(term["api_url"].as_str().unwrap().starts_with("https://alias.example/api/listings.json?state="));
    assert_eq!(term["label"], plain["name"]);
    assert_eq!(json(&origin, "/api/listings.json").await["filters"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn numbers_and_names_keep_unusual_spellings() {
    let origin = start(5_000, Switches::default()).await;
    let mut text = String::new();
    for page in 1..=50 {
        text += &origin.expected_text(&format!("/api/listings.json?per_page=100&page={page}")).1;
    }
    for spelling in
        ["e-6,", "\"rating\":null", ".50,", "\\/", "\\u00", "\\\"", "\\t", "Peña", "⚾", "+00:00\"", "-05:00\"", "Z\""]
    {
        assert!(text.contains(spelling), "{spelling}");
    }
    let decimals = text.split("\"lat\":").skip(1).filter_map(|rest| rest.split(',').next()).map(str::len);
    assert!(decimals.max().unwrap() > 20);
}

#[tokio::test]
async fn the_cdn_hands_out_old_copies_with_their_age() {
    let cdn = Cdn { max_age: Duration::from_secs(3), nodes: 1 };
    let origin = start(50, Switches { cdn: Some(cdn), ..Switches::default() }).await;
    let target = "/api/listings.json";
    let first = get(&origin, target).await;
    let tag = header(&first, "etag").unwrap().to_owned();
    let before = first.json::<Value>().await.unwrap();
    origin.edit(|world| world.touch(world.ids()[3]));
    let second = get(&origin, target).await;
    assert_eq!(header(&second, "x-cache"), Some("HIT"));
    assert!(header(&second, "age").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(second.json::<Value>().await.unwrap(), before, "an old copy, generated_at included");
    assert_eq!(conditional(&origin, target, &tag).await.status(), 304);
    let gzip = plain_client().get(format!("{}{target}", origin.url())).header("accept-encoding", "gzip");
    let zipped = gzip.send().await.unwrap();
    assert_eq!(header(&zipped, "x-cache"), Some("MISS"), "the gzip copy is another one");
    let deadline = Instant::now() + Duration::from_secs(20);
    while conditional(&origin, target, &tag).await.status() == 304 {
        assert!(Instant::now() < deadline, "copies do not expire");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_ne!(without_time(json(&origin, target).await), without_time(before));
}

#[tokio::test]
async fn two_nodes_of_the_cdn_disagree_after_an_edit() {
    let cdn = Cdn { nodes: 2, ..Cdn::default() };
    let origin = start(50, Switches { cdn: Some(cdn), ..Switches::default() }).await;
    json(&origin, "/api/listings.json").await;
    origin.edit(|world| world.remove(world.ids()[3]));
    let mut totals = HashSet::new();
    for _ in 0..40 {
        totals.insert(json(&origin, "/api/listings.json").await["total"].as_u64().unwrap());
    }
    assert_eq!(totals, HashSet::from([49, 50]));
    origin.purge_cdn();
    assert_eq!(json(&origin, "/api/listings.json").await["total"], 49);
}

#[tokio::test]
async fn jitter_latency_and_a_clock_that_is_ahead_show() {
    let switches =
        Switches { jitter_ms: (20, 30), latency: Duration::from_millis(50), clock_ahead: 7_200, ..Switches::default() };
    let origin = start(10, switches).await;
    let start = Instant::now();
    let body = json(&origin, "/api/listings.json").await;
    assert!(start.elapsed() >= Duration::from_millis(90));
    let generated: jiff::Timestamp = body["generated_at"].as_str().unwrap().parse().unwrap();
    let ahead = generated.duration_since(jiff::Timestamp::now()).as_secs();
    assert!((7_100..=7_200).contains(&ahead), "{ahead}");
}

/// No answer, ever.
#[derive(Debug)]
struct Hang;

#[async_trait::async_trait]
impl Mishap for Hang {
    async fn befall(&self, _asked: &Asked<'_>) -> std::io::Result<http::Response<Body>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn an_origin_that_is_shut_down_looks_dead_and_can_come_back() {
    let origin = start(10, Switches::default()).await;
    let (client, url) = (plain_client(), format!("{}/api/sports.json", origin.url()));
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    origin.set(|switches| switches.faults = vec![FaultRule::times("", 1, Hang)]);
    let hanging = tokio::spawn(client.get(&url).send());
    while origin.count() < 2 {
        tokio::task::yield_now().await;
    }
    origin.shutdown().await;
    assert!(hanging.await.unwrap().is_err(), "open connections are cut");
    assert!(client.get(&url).send().await.is_err());
    origin.restart().await.unwrap();
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    assert_eq!(origin.count(), 3, "the log goes on");
    let addr = origin.addr();
    origin.shutdown().await;
    drop(origin);
    let second = Origin::start(addr, World::generate(5, 1), Switches::default()).await.unwrap();
    assert_eq!(second.addr(), addr);
}
