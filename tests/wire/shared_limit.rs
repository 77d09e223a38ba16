//! One limit for a fleet, in a real redis-server: several machines, one window for each client.

mod failures;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::Method;

use crate::client::{Reply, plain_client};
use crate::harness::redis::Redis;
use crate::harness::{PATIENCE, Server, Setup, wait_until};

/// What clients ask for. A machine without data answers 503, and counts.
const LIST: &str = "/api/listings.json";

/// A machine of the fleet, whose clients name themselves. It waits long for Redis, so that a busy machine is not taken
/// for one without Redis.
fn machine(redis: &Redis, quota: u32) -> Setup {
    Setup::offline()
        .set("rate_limit.requests_per_minute", &quota.to_string())
        .set("rate_limit.store", &redis.url())
        .set("rate_limit.store_timeout", "10s")
        .set("client_ip.trusted_proxies", r#"["127.0.0.1"]"#)
}

async fn shares(server: &Server) {
    wait_until("the limit is shared", || async { server.status().await["rate_limit"]["store"] == "shared" }).await;
}

/// Waits until a machine counts for itself; why.
async fn counts_alone(server: &Server) -> String {
    wait_until("the limit is local", || async { server.status().await["rate_limit"]["store"] == "local" }).await;
    server.status().await["rate_limit"]["why"].as_str().unwrap_or_default().to_owned()
}

/// Three machines that share.
async fn fleet(redis: &Redis, quota: u32) -> Vec<Server> {
    let servers = join_all((0..3).map(|_| machine(redis, quota).start())).await;
    join_all(servers.iter().map(shares)).await;
    servers
}

async fn ask(server: &Server, client: &str) -> Reply {
    server.get_with(LIST, &[("x-forwarded-for", client)]).await
}

/// What `RateLimit` says is left, and in how many seconds the oldest counted request leaves.
fn left(reply: &Reply) -> (u32, u64) {
    let text = reply.the("ratelimit");
    let parsed = text.strip_prefix("\"default\";r=").and_then(|rest| rest.split_once(";t="));
    let (left, seconds) = parsed.unwrap_or_else(|| panic!("RateLimit: {text}"));
    (left.parse().unwrap(), seconds.parse().unwrap())
}

fn is_refused(reply: &Reply) -> bool {
    reply.status == 429
}

async fn sample(server: &Server, series: &str) -> f64 {
    let url = format!("http://{}/metrics", server.admin);
    let text = plain_client().get(url).send().await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in\n{text}")).parse().unwrap()
}

#[tokio::test]
async fn three_machines_and_nine_clients_share_one_quota_for_each() {
    let redis = Redis::start().await;
    let servers = fleet(&redis, 20).await;
    let start = Instant::now();
    let clients: Vec<String> = (1..=9).map(|number| format!("192.0.2.{number}")).collect();
    let asked = clients.iter().flat_map(|client| {
        let of_all = servers.iter().flat_map(move |server| (0..15).map(move |_| server));
        of_all.map(move |server| async move { (client, ask(server, client).await) })
    });
    let mut replies: BTreeMap<&String, Vec<Reply>> = BTreeMap::new();
    for (client, reply) in join_all(asked).await {
        replies.entry(client).or_default().push(reply);
    }
    assert!(start.elapsed() < PATIENCE, "too slow for a verdict");
    for (client, replies) in replies {
        let (refused, passed): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| is_refused(reply));
        assert_eq!((passed.len(), refused.len()), (20, 25), "{client}");
        let told: BTreeSet<u32> = passed.iter().map(|reply| left(reply).0).collect();
        assert_eq!(told, (0..20).collect(), "each admission takes one, on whichever machine");
        for reply in &replies {
            assert_eq!(reply.the("ratelimit-policy"), "\"default\";q=20;w=60");
            assert!((1..=60).contains(&left(reply).1), "{reply:?}");
        }
        for reply in refused {
            reply.assert_problem(429, &[]);
            let wait: u64 = reply.the("retry-after").parse().unwrap();
            assert!((1..=60).contains(&wait) && left(reply) == (0, wait), "{reply:?}");
            assert!(wait + start.elapsed().as_secs() >= 59, "Retry-After: {wait} is too early");
        }
        assert_eq!(redis.stamps(client).len(), 20);
    }
}

/// The stamps are Redis' own: what the machines admitted, exactly when.
#[tokio::test]
async fn the_window_of_the_fleet_slides_and_is_never_overfull() {
    const QUOTA: usize = 5;
    let redis = Redis::start().await;
    let servers = fleet(&redis, QUOTA as u32).await;
    let (servers, redis) = (&servers, &redis);
    let start = Instant::now();
    // Each asks until it is admitted again, by Redis' clock 60 s after it was first admitted.
    let clients = (1..=9).map(|number| async move {
        let client = format!("198.51.100.{number}");
        let (mut stamps, mut promised) = (BTreeMap::new(), None);
        for turn in 0.. {
            let reply = ask(&servers[(turn + number) % servers.len()], &client).await;
            stamps.extend(redis.stamps(&client));
            match (is_refused(&reply), stamps.len()) {
                (true, _) => {
                    let wait = reply.the("retry-after").parse().unwrap();
                    let until = Instant::now() + Duration::from_secs(wait);
                    promised = Some(promised.map_or(until, |promised: Instant| promised.max(until)));
                }
                (false, admitted) if admitted > QUOTA => break,
                (false, _) => assert!(turn < QUOTA, "admitted, but nothing was counted"),
            }
            assert!(start.elapsed() < 3 * PATIENCE, "{client} is never admitted again");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let mut times: Vec<u64> = stamps.into_values().collect();
        times.sort_unstable();
        for (older, newer) in times.iter().zip(&times[QUOTA..]) {
            assert!(newer - older >= 60_000_000, "{client}: {times:?}");
        }
        promised
    });
    for promised in join_all(clients).await {
        assert!(promised.is_some(), "nobody was refused in between");
    }
}

#[tokio::test]
async fn a_refusal_that_is_known_needs_no_round_trip() {
    let redis = Redis::start().await;
    let server = machine(&redis, 3).start().await;
    shares(&server).await;
    for _ in 0..4 {
        ask(&server, "192.0.2.1").await;
    }
    let (start, before) = (Instant::now(), redis.scripts());
    for _ in 0..200 {
        assert!(is_refused(&ask(&server, "192.0.2.1").await));
    }
    // Once a second the connection itself is tried.
    let own = start.elapsed().as_secs() + 2;
    assert!(redis.scripts() - before <= own, "{} scripts in {own} s", redis.scripts() - before);
    assert!(sample(&server, "grandstand_limit_decisions_total{by=\"memory\"}").await >= 200.0);
    // Another machine asks once.
    let other = machine(&redis, 3).start().await;
    shares(&other).await;
    assert!(is_refused(&ask(&other, "192.0.2.1").await));
}

#[tokio::test]
async fn preflights_count_nothing_and_pages_and_the_unlimited_never_ask() {
    let redis = Redis::start().await;
    let overrides = r#"[{network = "10.0.0.0/8", requests_per_minute = 0}]"#;
    let server = machine(&redis, 3).set("rate_limit.override", overrides).start().await;
    shares(&server).await;
    assert_eq!(left(&ask(&server, "192.0.2.1").await).0, 2);
    let preflight =
        [("x-forwarded-for", "192.0.2.1"), ("origin", "https://a.test"), ("access-control-request-method", "GET")];
    for _ in 0..5 {
        let reply = server.send(Method::OPTIONS, LIST, &preflight).await;
        assert_eq!((reply.status, left(&reply).0), (204, 2));
    }
    let page = server.get_with("/robots.txt", &[("x-forwarded-for", "192.0.2.2")]).await;
    assert_eq!(page.status, 200);
    for _ in 0..5 {
        let page = server.get_with("/", &[("x-forwarded-for", "192.0.2.3"), ("accept", "text/html")]).await;
        assert!(page.status != 429 && page.the("ratelimit-policy") == "\"default\";q=30;w=60", "{page:?}");
        assert_eq!(ask(&server, "10.1.2.3").await.header("ratelimit"), None);
    }
    assert_eq!(redis.stamps("192.0.2.1").len(), 1);
    assert_eq!((redis.stamps("192.0.2.3").len(), redis.stamps("10.1.2.3").len()), (0, 0));
    // A head that nobody can read counts too; the test itself is a trusted proxy, and is not counted.
    assert_eq!(redis.stamps("127.0.0.1").len(), 0);
}

#[tokio::test]
async fn households_share_a_window_and_states_in_redis_expire() {
    let redis = Redis::start().await;
    let servers = fleet(&redis, 2).await;
    for (server, client) in servers.iter().zip(["2001:db8::1", "2001:db8::2", "2001:db8::3"]) {
        let reply = ask(server, client).await;
        assert_eq!(is_refused(&reply), client.ends_with('3'), "{client}: {reply:?}");
    }
    assert_eq!(redis.stamps("2001:db8::/64").len(), 2);
    let lasts: i64 = redis.ask(&["PTTL", "grandstand:limit:2001:db8::/64"]);
    assert!((1..=61_000).contains(&lasts), "{lasts}");
    let bytes: u64 = redis.ask(&["MEMORY", "USAGE", "grandstand:limit:2001:db8::/64"]);
    assert!(bytes < 250, "{bytes}");
}
