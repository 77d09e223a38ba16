//! Nothing that one client sends shows in another client's answer, unless `Vary` says so.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::{Wire, kept, shield};
use crate::harness::{Script, Seen};

/// Fields known from attacks on caches, and everyday fields.
const NAMES: [&str; 44] = [
    "Accept",
    "Accept-Charset",
    "Accept-Language",
    "Authorization",
    "Cache-Control",
    "CF-Connecting-IP",
    "Client-IP",
    "Content-Type",
    "Cookie",
    "DNT",
    "Forwarded",
    "From",
    "Front-End-Https",
    "If-None-Match",
    "If-Range",
    "Max-Forwards",
    "Origin",
    "Pragma",
    "Prefer",
    "Range",
    "Referer",
    "Sec-Fetch-Site",
    "TE",
    "Traceparent",
    "True-Client-IP",
    "Upgrade-Insecure-Requests",
    "User-Agent",
    "Via",
    "X-Api-Key",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Prefix",
    "X-Forwarded-Proto",
    "X-Forwarded-Scheme",
    "X-Host",
    "X-HTTP-Method-Override",
    "X-Method-Override",
    "X-Original-Host",
    "X-Original-URL",
    "X-Real-IP",
    "X-Request-ID",
    "X-Rewrite-URL",
    "X-Some-Thing",
    "x_forwarded_host",
];

/// Everything that a request says, in the head or in the body of an answer that others may have.
fn mirror(seen: &Seen) -> Script {
    let said = seen.headers.iter().filter(|(name, _)| *name != "host");
    let said: Vec<String> = said.map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect();
    let host = seen.header("host").unwrap_or_default();
    let said = format!("{} host={host}", said.join("|"));
    let answer = kept(if seen.target.contains("body") { said.clone() } else { "x".into() });
    let answer = if seen.target.contains("head") { answer.with("X-Said", said) } else { answer };
    if seen.target.contains("public") { answer.with("Cache-Control", "public").with("ETag", "\"a\"") } else { answer }
}

#[tokio::test]
async fn no_reflection_of_a_request_reaches_another_client() {
    let (origin, server) = shield(mirror).await;
    let mut dice = StdRng::seed_from_u64(42);
    let mut sent = 0;
    for case in 0..250 {
        let place = ["body", "head", "body-head", "body-public", "head-public"].choose(&mut dice).unwrap();
        let target = format!("/api/{place}/{case}");
        let evil = format!("evil{case}.example");
        let mut lines = String::new();
        for _ in 0..dice.random_range(1..4) {
            let name = match dice.random_range(0..4) {
                0 => format!("X-{}", dice.random_range(1000..9999)),
                _ => (*NAMES.choose(&mut dice).unwrap()).to_owned(),
            };
            let value = match &*name {
                "Range" => format!("bytes=0-1, {evil}"),
                "Cache-Control" => {
                    ["no-cache", "no-store", "max-age=0", ""].choose(&mut dice).unwrap().to_string() + "," + &evil
                }
                _ => [evil.clone(), format!("https://{evil}/\"><script>"), format!("a, {evil};q=1")]
                    .choose(&mut dice)
                    .unwrap()
                    .clone(),
            };
            write!(lines, "{name}: {value}\r\n").unwrap();
            if dice.random_bool(0.2) {
                write!(lines, "{name}: second-{value}\r\n").unwrap();
            }
        }
        let method = if dice.random_bool(0.2) { "HEAD" } else { "GET" };
        let (absolute, host) =
            (dice.random_bool(0.2), if dice.random_bool(0.5) { evil.as_str() } else { "mirror.test" });
        let uri = if absolute { format!("http://{evil}{target}") } else { target.clone() };
        let request = format!("{method} {uri} HTTP/1.1\r\nHost: {host}\r\n{lines}Connection: close\r\n\r\n");
        // Kept answers must not change, either.
        let before = dice.random_bool(0.3);
        if before {
            server.get(&target).await;
        }
        Wire::send(server.public, &request).await.rest().await;
        sent += 1;
        for round in 0..2 {
            let victim = server.get(&target).await;
            let shown = format!("{:?} {}", victim.headers, String::from_utf8_lossy(&victim.body));
            assert!(!shown.contains("evil"), "round {round}, {before}, after\n{request}\n{shown}");
        }
    }
    assert!(origin.count() > sent / 2, "{} of {sent} reached the origin", origin.count());
}

#[tokio::test]
async fn what_is_hidden_in_a_request_does_not_choose_what_others_get() {
    // Nothing is reflected: the field has an effect.
    let (_origin, server) = shield(|seen| {
        let chosen = ["x-original-url", "x-rewrite-url", "x-http-method-override", "x-forwarded-host", "x-host"];
        let chosen = chosen.iter().filter_map(|name| seen.header(name)).count();
        kept(if chosen == 0 { "right" } else { "wrong" })
    })
    .await;
    for (case, more) in
        ["", "Range: bytes=0-1\r\n", "Cache-Control: no-store\r\n", "Cache-Control: no-cache\r\n"].iter().enumerate()
    {
        for name in ["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-Forwarded-Host", "X-Host"] {
            let target = format!("/api/{name}/{case}");
            let request =
                format!("GET {target} HTTP/1.1\r\nHost: x\r\n{more}{name}: /evil\r\nConnection: close\r\n\r\n");
            Wire::send(server.public, &request).await.rest().await;
            assert_eq!(server.ok(&target).await.text(), "right", "{request}");
        }
    }
}

#[tokio::test]
async fn the_origin_is_asked_in_its_own_name_whatever_the_client_says() {
    let (origin, server) = shield(|_| kept("x")).await;
    let request = "GET http://evil.example/api/x HTTP/1.1\r\nHost: evil.example\r\nForwarded: host=evil.example\r\n\
        X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: evil.example\r\nX-Real-IP: 192.0.2.1\r\nVia: 1.1 x\r\n\
        TE: trailers\r\nProxy-Authorization: Basic x\r\nX-Nominated: x\r\nConnection: close, X-Nominated\r\n\r\n";
    let all = Wire::send(server.public, request).await.rest().await;
    assert!(all.starts_with("HTTP/1.1 200"), "{all}");
    let seen = origin.seen().pop().unwrap();
    assert_eq!((seen.target.as_str(), seen.header("host")), ("/api/x", Some(&*origin.address().to_string())));
    for name in [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-real-ip",
        "te",
        "proxy-authorization",
        "x-nominated",
        "connection",
        "keep-alive",
    ] {
        assert_eq!(seen.header(name), None, "{name}");
    }
    assert!(seen.header("user-agent").unwrap().starts_with("grandstand/"));
}

#[tokio::test]
async fn what_fails_for_the_fields_of_one_client_fails_for_nobody_else() {
    for headers in [
        &[("cache-control", "no-store")][..],
        &[("range", "bytes=0-1")],
        &[("authorization", "Bearer x")],
        &[("cookie", "a=b")],
        &[("x-odd", "1")],
        &[("accept-language", "xx")],
    ] {
        let (origin, server) = shield(move |seen| {
            let odd = headers.iter().any(|(name, value)| seen.header(name) == Some(value));
            if odd { Script::new(500, "broken") } else { kept("whole") }
        })
        .await;
        for _ in 0..6 {
            assert!(server.get_with("/api/x", headers).await.status >= 500, "{headers:?}");
        }
        assert_eq!(origin.count(), 6, "{headers:?}: asked each time");
        assert_eq!(server.ok("/api/x").await.text(), "whole", "{headers:?}");
    }
}

#[tokio::test]
async fn an_error_that_the_fields_of_one_client_brought_about_is_not_kept_for_others() {
    let statuses = [
        400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 413, 414, 415, 417, 421, 422, 425, 426, 428, 429,
        431, 451, 499, 500, 501, 502, 503, 504, 505, 599,
    ];
    let (origin, server) = shield(move |seen| {
        let status = seen.target.rsplit('/').next().unwrap().parse().unwrap();
        let odd = ["x-odd", "x-search", "accept-language"].iter().any(|name| seen.header(name).is_some());
        let answer = if odd { Script::new(status, "odd") } else { kept("all right") };
        answer.with("Cache-Control", "public, max-age=60").with("ETag", "\"a\"")
    })
    .await;
    let attacks = [("x-odd", "1"), ("x-search", "<script>alert(1)</script>"), ("accept-language", "x-'--")];
    for status in statuses {
        for (name, value) in attacks {
            let target = format!("/api/{name}/{status}");
            for _ in 0..2 {
                assert_ne!(server.get_with(&target, &[(name, value)]).await.status, 200, "{target}");
            }
            assert_eq!(server.ok(&target).await.text(), "all right", "{target}");
        }
    }
    assert!(origin.count() >= 2 * attacks.len() * statuses.len());
}

#[tokio::test]
async fn an_error_that_is_due_to_the_resource_is_kept() {
    let (origin, server) = shield(|seen| {
        let status = seen.target.rsplit('/').next().unwrap().parse().unwrap();
        Script::new(status, "no").with("Cache-Control", "max-age=60")
    })
    .await;
    for status in [404, 410, 403, 451] {
        for accept in ["*/*", "application/json"] {
            let reply = server.get_with(&format!("/api/{status}"), &[("accept", accept)]).await;
            assert_eq!(reply.status, status);
        }
    }
    assert_eq!(origin.count(), 4, "each is asked for once");
}

/// An answer in English that shows what was asked; a 403 to what a firewall would refuse.
fn in_english(seen: &Seen) -> Script {
    let asked = seen.header("accept-language").unwrap_or("none");
    let answer = if asked.contains("union select") { Script::new(403, "no") } else { kept(format!("for {asked}")) };
    answer.with("Cache-Control", "max-age=60").with("Vary", "Accept-Language").with("Content-Language", "en")
}

#[tokio::test]
async fn an_odd_accept_language_chooses_for_nobody_else() {
    let (origin, server) = shield(in_english).await;
    let attacks = ["en;q=1, <script>;q=0.1", "en, union select;q=0.1", "en;q=1.0", "fr;q=0.1, en"];
    for (case, attack) in attacks.into_iter().enumerate() {
        for before in [false, true] {
            let target = format!("/api/{case}/{before}");
            let said = async |language: &str| {
                server.get_with(&target, &[("accept-language", language)]).await.text().to_owned()
            };
            if before {
                assert_eq!(said("en").await, "for en");
            }
            said(attack).await;
            assert_eq!(said("en").await, "for en", "{attack}");
            assert_eq!(said("EN").await, "for en", "{attack}");
        }
    }
    let said =
        async |language: &str| server.get_with("/api/order", &[("accept-language", language)]).await.text().to_owned();
    assert_eq!(said("fr, en").await, "for fr, en");
    assert_eq!(said("en, fr").await, "for en, fr");
    assert_eq!(said("fr,en").await, "for fr, en");
    // What one plain request got in its language is for everybody who wants that most.
    let count = origin.count();
    assert_eq!(said("en").await, "for en");
    assert_eq!(said("de;q=0.5, en;q=0.9").await, "for en");
    assert_eq!(origin.count(), count + 1);
    // Unless it has a field of its own.
    server.get_with("/api/own", &[("accept-language", "en"), ("x-odd", "1")]).await;
    let count = origin.count();
    server.get_with("/api/own", &[("accept-language", "en;q=0.9")]).await;
    assert_eq!(origin.count(), count + 1);
}

#[tokio::test]
async fn variants_that_are_asked_for_once_displace_none_that_is_used() {
    let (origin, server) = shield(|seen| {
        let accept = seen.header("accept").unwrap_or("none").to_owned();
        kept(accept).with("Vary", "Accept")
    })
    .await;
    let get = async |accept: &str| server.get_with("/api/x", &[("accept", accept)]).await.text().to_owned();
    for _ in 0..2 {
        assert_eq!(get("text/csv").await, "text/csv");
    }
    for round in 0..3 {
        for number in 0..40 {
            assert_eq!(get(&format!("x/{round}-{number}")).await, format!("x/{round}-{number}"));
        }
        let count = origin.count();
        assert_eq!(get("text/csv").await, "text/csv");
        assert_eq!(origin.count(), count, "round {round}: it is still cached");
    }
    // All places are used: a new one gets its place when it comes again.
    for number in 0..15 {
        get(&format!("y/{number}")).await;
        get(&format!("y/{number}")).await;
    }
    let asked = async |accept: &str| {
        let count = origin.count();
        assert_eq!(get(accept).await, accept);
        origin.count() - count
    };
    assert_eq!(asked("text/csv").await, 0);
    assert_eq!([asked("z/z").await, asked("z/z").await, asked("z/z").await], [1, 1, 0]);
    assert_eq!([asked("text/csv").await, asked("y/0").await], [0, 1], "the one that was used longest ago went");
}
