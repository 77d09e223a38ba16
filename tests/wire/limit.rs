//! The limit for clients: exactly so many in a minute, never refused otherwise. Who is one client: `client_address`.

use std::time::Instant;

use http::Method;
use sample_origin::Origin;

use crate::client::Reply;
use crate::harness::{Server, Setup, origin};

const LIST: &str = "/api/listings.json?per_page=1";

async fn limited(requests: u32) -> (Origin, Server) {
    let origin = origin(20).await;
    let setup = Setup::mirror_of(&origin).set("rate_limit.requests_per_minute", &requests.to_string());
    let server = setup.start().await;
    server.settled(&origin).await;
    origin.clear_log();
    (origin, server)
}

/// What `RateLimit` says is left, and in how many seconds the oldest counted request leaves.
fn left(reply: &Reply) -> (u32, u32) {
    let text = reply.the("ratelimit");
    let parsed = text.strip_prefix("\"default\";r=").and_then(|rest| rest.split_once(";t="));
    let (left, seconds) = parsed.unwrap_or_else(|| panic!("RateLimit: {text}"));
    (left.parse().unwrap(), seconds.parse().unwrap())
}

#[tokio::test]
async fn exactly_60_of_100_rapid_requests_pass() {
    let (_origin, server) = limited(60).await;
    let start = Instant::now();
    let replies = futures_util::future::join_all((0..100).map(|_| server.get(LIST))).await;
    assert!(start.elapsed().as_secs() < 50, "too slow for a verdict");
    let (passed, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
    assert_eq!((passed.len(), refused.len()), (60, 40));
    let mut counted: Vec<u32> = passed.iter().map(|reply| left(reply).0).collect();
    counted.sort_unstable();
    assert_eq!(counted, (0..60).collect::<Vec<_>>(), "each admission takes one");
    for reply in &replies {
        assert_eq!(reply.the("ratelimit-policy"), "\"default\";q=60;w=60");
        assert!((1..=60).contains(&left(reply).1), "{reply:?}");
        let exposed = reply.the("access-control-expose-headers").to_lowercase();
        assert!(exposed.contains("retry-after") && exposed.contains("ratelimit"));
    }
    for reply in refused {
        reply.assert_problem(429, &[]);
        assert_eq!(left(reply).0, 0);
        let wait: u64 = reply.the("retry-after").parse().unwrap();
        assert!((1..=60).contains(&wait), "Retry-After: {wait}");
        // The first admission leaves 60 s after it came, which was after `start`.
        assert!(wait + start.elapsed().as_secs() >= 59, "Retry-After: {wait} is too early");
    }
}

#[tokio::test]
async fn every_kind_of_answer_counts_but_preflights_and_refusals() {
    let (_origin, server) = limited(10).await;
    let first = server.ok(LIST).await;
    let unchanged = server.get_with(LIST, &[("if-none-match", &first.etag())]).await;
    assert_eq!((left(&first).0, unchanged.status, left(&unchanged).0), (9, 304, 8));
    assert_eq!(unchanged.the("ratelimit-policy"), "\"default\";q=10;w=60");
    let options = server.send(Method::OPTIONS, LIST, &[]).await;
    assert_eq!((options.status, left(&options).0), (204, 7));
    assert_eq!(server.get("/api/listings/1.json").await.status, 404);
    assert_eq!(server.get("/api/listings.json?page=0").await.status, 400);
    assert_eq!(server.get("/nothing").await.status, 404);
    assert_eq!(server.raw_get("/api//listings.json").await.status, 400);
    assert_eq!(server.head(LIST).await.status, 200);
    let preflight = [("origin", "https://page.example"), ("access-control-request-method", "GET")];
    for _ in 0..20 {
        assert_eq!(server.send(Method::OPTIONS, LIST, &preflight).await.status, 204);
    }
    let post = server.send(Method::POST, LIST, &[("content-length", "0")]).await;
    assert_eq!((post.status, left(&post).0), (405, 1));
    let last = server.get(LIST).await;
    assert_eq!((last.status, left(&last).0), (200, 0), "ten admissions");
    let first_wait: u64 = server.get(LIST).await.the("retry-after").parse().unwrap();
    for _ in 0..30 {
        let reply = server.get(LIST).await;
        assert_eq!(reply.status, 429);
        let wait: u64 = reply.the("retry-after").parse().unwrap();
        assert!(wait <= first_wait, "a refusal counts: {wait} after {first_wait}");
    }
    for _ in 0..5 {
        assert_eq!(server.send(Method::OPTIONS, LIST, &preflight).await.status, 204, "preflights still pass");
    }
    for target in ["//", "/api/%2e%2e/x", "/api/listings.json?page=0", "/nothing", "/api/regions.json", "/api/%zz"] {
        server.raw_get(target).await.assert_problem(429, &[]);
    }
    for method in [Method::POST, Method::DELETE, Method::HEAD, Method::OPTIONS] {
        assert_eq!(server.send(method, LIST, &[("content-length", "0")]).await.status, 429);
    }
    for _ in 0..20 {
        assert_eq!(server.admin(Method::GET, "/livez").await.status, 200, "operators have no limit");
    }
    server.ready().await;
}

#[tokio::test]
async fn without_a_limit_nothing_speaks_of_one() {
    let (_origin, server) = limited(0).await;
    for _ in 0..150 {
        let reply = server.ok(LIST).await;
        assert_eq!((reply.header("ratelimit"), reply.header("ratelimit-policy")), (None, None));
    }
}

/// Whoever has a network of addresses can be as many clients as it likes. The windows of those that have used most of
/// their requests stay.
#[tokio::test]
async fn rotation_through_many_networks_frees_nobody_from_the_limit() {
    let setup = Setup::offline()
        .set("client_ip.trusted_proxies", r#"["127.0.0.1"]"#)
        .set("rate_limit.requests_per_minute", "20");
    let server = setup.start().await;
    let start = Instant::now();
    let ask = async |address: &str| server.get_with("/nothing", &[("x-forwarded-for", address)]).await;
    for _ in 0..20 {
        assert_eq!(ask("2001:db8:1::7").await.status, 404);
    }
    for round in 0_u32..50 {
        // Other hosts of one network are one client; each of these networks is another.
        let networks = (0..60).map(|nth| format!("2001:db8:{:x}:{nth:x}::{round:x}", 100 + round));
        let replies = futures_util::future::join_all(networks.map(async |address| ask(&address).await)).await;
        assert!(replies.iter().all(|reply| reply.status == 404 && left(reply).0 == 19));
        if start.elapsed().as_secs() > 45 {
            break;
        }
        assert_eq!(ask(&format!("2001:db8:1::{round:x}")).await.status, 429, "after {round} rounds");
    }
}
