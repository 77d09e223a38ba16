//! Our answers behind a real nginx with `proxy_cache`. It ignores `Age` and would keep each answer for all of
//! `max-age`, however old the data is; `X-Accel-Expires` tells it what is left. All its clients share one limit until it
//! is trusted; the operator hears of that.

use std::time::{Duration, Instant};

use http::Method;

use crate::client::Reply;
use crate::harness::nginx::Nginx;
use crate::harness::{PATIENCE, Server, Setup, origin, until, wait_until};

const LIST: &str = "/api/listings.json?per_page=3";
/// Freshness of the servers here, in seconds.
const TTL: u64 = 10;

/// How old the data was when nginx sent an answer, by nginx's own clock, in seconds.
fn age_when_sent(reply: &Reply) -> u64 {
    let date = |name: &str| httpdate::parse_http_date(&reply.the(name)).unwrap();
    date("date").duration_since(date("mirror-confirmed")).unwrap().as_secs()
}

/// Asks until nginx no longer answers by itself: that answer, and the data's age in those before.
async fn kept_until(nginx: &Nginx) -> (Reply, Vec<u64>) {
    let mut kept = Vec::new();
    let start = Instant::now();
    loop {
        let reply = nginx.get(LIST).await;
        if reply.the("x-cache") != "HIT" {
            return (reply, kept);
        }
        kept.push(age_when_sent(&reply));
        assert!(start.elapsed() < PATIENCE, "nginx never asks again");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

#[tokio::test]
async fn nginx_keeps_no_answer_for_longer_than_we_promise() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).set("ttl", &format!("{TTL}s")).start().await;
    server.settled(&origin).await;
    let nginx = Nginx::before(server.public, "").await;
    let other = Nginx::before(server.public, "proxy_ignore_headers X-Accel-Expires;").await;
    // From now on the data only gets older.
    origin.shutdown().await;
    wait_until("it is some seconds old", || async { server.ok(LIST).await.age().unwrap() >= TTL / 2 }).await;
    let first = nginx.get(LIST).await;
    assert_eq!((first.status, first.the("x-cache").as_str()), (200, "MISS"), "{first:?}");
    assert_eq!(first.header("x-accel-expires"), None, "that is between us and nginx");
    other.get(LIST).await;
    let (next, kept) = kept_until(&nginx).await;
    assert!(!kept.is_empty(), "it is kept for what is left");
    // Both count whole seconds.
    assert!(kept.iter().all(|age| *age <= TTL + 1), "kept when {kept:?} seconds old");
    assert_eq!(next.the("x-cache"), "EXPIRED");
    let (_, kept) = kept_until(&other).await;
    assert!(kept.iter().any(|age| *age > TTL + 1), "without it, nginx keeps for longer: {kept:?}");
    // Stale answers stay for a moment, to stand in for us should we fail.
    wait_until("nginx stores what is stale", || async { nginx.get(LIST).await.the("x-cache") == "HIT" }).await;
}

#[tokio::test]
async fn nginx_revalidates_what_has_grown_old_and_keeps_it_for_what_is_left_then() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).set("ttl", "2s").start().await;
    server.settled(&origin).await;
    let nginx = Nginx::before(server.public, "proxy_cache_revalidate on;").await;
    let first = nginx.get(LIST).await;
    for _ in 0..2 {
        let (next, _) = kept_until(&nginx).await;
        assert_eq!((next.status, next.the("x-cache").as_str()), (200, "REVALIDATED"), "{next:?}");
        assert_eq!((next.etag(), next.body), (first.etag(), first.body.clone()));
        wait_until("it is kept again", || async { nginx.get(LIST).await.the("x-cache") == "HIT" }).await;
    }
}

/// Asks through nginx until the mirror finds what is wrong; its findings.
async fn found(server: &Server, nginx: &Nginx) -> String {
    until("it is found", || async {
        for _ in 0..20 {
            let status = nginx.get(LIST).await.status;
            assert!(matches!(status, 200 | 429), "{status}");
        }
        let findings = server.status().await["findings"].to_string();
        findings.contains("refused").then_some(findings)
    })
    .await
}

#[tokio::test]
async fn a_forgotten_nginx_is_found_with_the_setting_that_mends_it() {
    let origin = origin(20).await;
    let setup = Setup::mirror_of(&origin).without("rate_limit.requests_per_minute");
    let server = setup.clone().start().await;
    server.settled(&origin).await;
    let nginx = Nginx::proxying(server.public, "proxy_set_header X-Forwarded-For 192.0.2.77;").await;
    let findings = found(&server, &nginx).await;
    for named in ["127.0.0.1", "x-forwarded-for", "client_ip.trusted_proxies"] {
        assert!(findings.contains(named), "{findings}");
    }
    let status = server.admin(Method::GET, "/status").await;
    assert_eq!(status.status, 200, "it is healthy");
    assert!(status.json()["findings"][0]["todo"].as_str().unwrap().contains("client_ip.trusted_proxies"));
    nginx.get(LIST).await;
    let said = server.process.said();
    assert_eq!((said.matches("proxy-untrusted").count(), said.matches("share one limit").count()), (1, 1), "{said}");
    assert!(!said.contains("192.0.2.77") && !status.text().contains("192.0.2.77"), "{said}");

    // With default settings nginx does not say that it is a proxy.
    let silent = setup.start().await;
    silent.settled(&origin).await;
    let nginx = Nginx::proxying(silent.public, "").await;
    let findings = found(&silent, &nginx).await;
    assert!(findings.contains("the limit refused 127.0.0.1 at least 1"), "{findings}");
    let todo = silent.status().await["findings"][0]["todo"].as_str().unwrap().to_owned();
    assert!(todo.contains("client_ip.trusted_proxies") && todo.contains("rate_limit.override"), "{todo}");
}
