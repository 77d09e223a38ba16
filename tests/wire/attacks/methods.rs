//! What the origin says to another method, or to an unusual field, says nothing about the resource for others.

use http::Method;

use crate::harness::{Script, Setup, Upstream};

fn document() -> Script {
    Script::new(200, "{}").with("content-type", "application/json").with("cache-control", "max-age=60")
}

#[tokio::test]
async fn a_head_that_the_origin_does_not_support_stops_no_get() {
    let upstream = Upstream::start(|seen| match seen.method.as_str() {
        "GET" => document(),
        _ => Script::new(501, "").with("retry-after", "3600"),
    })
    .await;
    let setup = Setup::shield_of_url(&upstream.url()).set("passthrough.methods", r#"["GET", "HEAD", "POST"]"#);
    let server = setup.start().await;
    for (number, method) in [Method::HEAD, Method::POST].into_iter().enumerate() {
        for target in [format!("/api/one/{number}"), format!("/api/two/{number}"), format!("/api/three/{number}")] {
            for _ in 0..4 {
                assert_eq!(server.send(method.clone(), &target, &[]).await.status, 501, "{method} {target}");
            }
            assert_eq!(server.get(&target).await.status, 200, "{method} {target}");
            assert_eq!(server.send(method.clone(), &target, &[]).await.status, if number == 0 { 200 } else { 501 });
        }
    }
}

#[tokio::test]
async fn an_answer_to_head_ends_no_pause() {
    let upstream =
        Upstream::start(
            |seen| {
                if seen.method == "GET" { Script::new(503, "").with("retry-after", "60") } else { document() }
            },
        )
        .await;
    let server = Setup::shield_of_url(&upstream.url()).start().await;
    let target = "/api/failing";
    assert_eq!(server.get(target).await.status, 503);
    assert_eq!(server.head(target).await.status, 200);
    for _ in 0..3 {
        assert_eq!(server.get(target).await.status, 503);
    }
    assert_eq!(upstream.count(), 2, "the origin asked for a pause of a minute");
}

/// An origin may limit expensive methods on their own.
#[tokio::test]
async fn a_429_to_head_pauses_nothing_for_others_however_many_hear_it() {
    let upstream = Upstream::start(|seen| match seen.method.as_str() {
        "GET" => document(),
        _ => Script::new(429, "").with("retry-after", "3600"),
    })
    .await;
    let setup = Setup::shield_of_url(&upstream.url()).set("client_ip.trusted_proxies", r#"["127.0.0.0/8"]"#);
    let server = setup.start().await;
    for number in 0..6 {
        let (target, client) = (format!("/api/{number}"), format!("192.0.2.{number}"));
        let headers = [("x-forwarded-for", client.as_str())];
        assert_eq!(server.send(Method::HEAD, &target, &headers).await.status, 429);
        assert_eq!(server.get(&target).await.status, 200, "{target}");
    }
    assert_eq!(server.status().await["origin"]["budget"]["paused_seconds"], 0);
}
