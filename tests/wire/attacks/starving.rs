//! One client tries to keep the origin from everybody else.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;

use sample_origin::FaultRule;

use crate::harness::{Script, Setup, Upstream, breath, origin, wait_until};
use crate::origin_faults::Fault;

fn from(address: &str) -> (&str, &str) {
    ("x-forwarded-for", address)
}

fn paused(status: &serde_json::Value) -> u64 {
    status["origin"]["budget"]["paused_seconds"].as_u64().unwrap()
}

/// An API key may have an allowance of its own: its end says nothing about other clients.
#[tokio::test]
async fn a_429_to_the_key_of_one_client_stops_nobody_else_not_even_after_a_restart() {
    let upstream = Upstream::start(|seen| {
        if seen.header("authorization").is_some() {
            return Script::new(429, "").with("retry-after", "3600");
        }
        Script::new(200, "{}").with("content-type", "application/json").with("cache-control", "no-store")
    })
    .await;
    let mut server = Setup::shield_of_url(&upstream.url()).start().await;
    for number in 0..12 {
        let refused = server.get_with(&format!("/api/mine/{number}"), &[("authorization", "Bearer x")]).await;
        assert_eq!((refused.status, refused.the("retry-after").as_str()), (429, "3600"), "the origin's own words");
    }
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        assert_eq!(paused(&server.status().await), 0, "restarted: {restarted}");
        for target in ["/api/mine/1", "/api/other", "/api/listings.json", "/api/listings/1.json"] {
            assert_eq!(server.get(target).await.status, 200, "{target}, restarted: {restarted}");
        }
    }
}

/// A refusal without a key pauses the resource, and everything if several households get it for several resources.
#[tokio::test]
async fn a_429_to_an_unknown_path_rests_that_path_until_several_households_hear_it() {
    let upstream = Upstream::start(|seen| {
        if seen.target.starts_with("/api/busy/") {
            return Script::new(429, "").with("retry-after", "600");
        }
        Script::new(200, "{}").with("content-type", "application/json").with("cache-control", "no-store")
    })
    .await;
    let setup = Setup::shield_of_url(&upstream.url()).set("client_ip.trusted_proxies", r#"["127.0.0.0/8"]"#);
    let server = setup.start().await;
    for number in 0..5 {
        let target = format!("/api/busy/{number}");
        let first = server.get_with(&target, &[from("192.0.2.1")]).await;
        assert_eq!((first.status, first.the("retry-after").as_str()), (429, "600"));
        let again = server.get_with(&target, &[from("192.0.2.2")]).await;
        assert!(again.the("retry-after").parse::<u64>().unwrap() > 200, "{again:?}");
        assert_eq!(upstream.count_of(&target), 1, "it rests");
    }
    assert_eq!(paused(&server.status().await), 0);
    assert_eq!(server.get_with("/api/other", &[from("192.0.2.3")]).await.status, 200);
    for number in 5..8 {
        server.get_with(&format!("/api/busy/{number}"), &[from(&format!("198.51.100.{number}"))]).await;
    }
    wait_until("it is left alone", || async { paused(&server.status().await) > 0 }).await;
    let longest = paused(&server.status().await);
    assert!(longest <= 10, "{longest} s: clients choose no longer pause");
    // A request of ours is answered: what clients hear there is not about it.
    wait_until("it is asked again", || async { server.get("/api/sports.json").await.status == 200 }).await;
    for number in 8..12 {
        server.get_with(&format!("/api/busy/{number}"), &[from(&format!("198.51.100.{number}"))]).await;
    }
    assert_eq!(paused(&server.status().await), 0);
}

/// A client within its limit asks for many unknown paths, and each of them fails.
#[tokio::test]
async fn unknown_paths_that_fail_do_not_keep_the_mirror_from_its_crawl() {
    let origin = origin(120).await;
    origin.set(|switches| switches.faults = vec![FaultRule::always("/api/attack", Fault::Status(503))]);
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "60").set("origin.wait", "2s");
    let server = setup.set("mirror.details", "on-demand").start().await;
    let asked = AtomicU64::new(0);
    let attack = async {
        loop {
            let next = |_| asked.fetch_add(1, Ordering::Relaxed);
            let targets: Vec<_> = (0..4).map(next).map(|number| format!("/api/attack/{number}")).collect();
            join_all(targets.iter().map(|target| server.get(target))).await;
            breath().await;
        }
    };
    let published = async {
        server.ready().await;
        // A refresh has its turn, too.
        let of_the_mirror = || origin.log().iter().filter(|seen| !seen.path_and_query.contains("/attack/")).count();
        let before = of_the_mirror();
        server.refresh().await;
        wait_until("the mirror asks again", || async { of_the_mirror() > before }).await;
    };
    tokio::select! {
        () = attack => unreachable!(),
        () = published => {}
    }
    assert!(asked.load(Ordering::Relaxed) >= 8, "there was an attack");
    assert_eq!(paused(&server.status().await), 0, "nothing says that the origin fails");
    assert_eq!(server.ok("/api/listings.json").await.total(), 120);
}

/// The same with failing known endpoints: a single household is no witness.
#[tokio::test]
async fn known_endpoints_that_fail_for_one_household_stop_nobody_else() {
    let upstream = Upstream::start(|seen| {
        if seen.target.contains("sport=broken") {
            return Script::new(500, "");
        }
        Script::new(200, "{}").with("content-type", "application/json").with("cache-control", "no-store")
    })
    .await;
    let setup = Setup::shield_of_url(&upstream.url()).set("client_ip.trusted_proxies", r#"["127.0.0.0/8"]"#);
    let server = setup.start().await;
    for number in 0..20 {
        let target = format!("/api/listings.json?sport=broken-{number}");
        let failed = server.get_with(&target, &[from(&format!("2001:db8:1:2::{number:x}"))]).await;
        assert_eq!(failed.status, 503);
    }
    assert_eq!(upstream.count(), 20, "each of them was asked for, none of them waited");
    assert_eq!(paused(&server.status().await), 0);
    assert_eq!(server.get_with("/api/listings.json?sport=fine", &[from("192.0.2.1")]).await.status, 200);
}
