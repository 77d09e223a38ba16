//! Nothing that one client sends shows in another client's answer, unless `Vary` says so.

use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::{Wire, kept, shield};
use crate::client::Reply;
use crate::harness::{Script, Seen, Setup, Upstream};

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

/// What an origin may make of something that a client said.
const FORMS: [fn(&str) -> String; 9] = [
    str::to_owned,
    str::to_lowercase,
    str::to_uppercase,
    |said| said.chars().take(6).collect(),
    |said| said.split([',', ';']).map(str::trim).next_back().unwrap_or_default().to_owned(),
    |said| said.replace('<', "&lt;").replace('"', "&quot;"),
    |said| said.chars().flat_map(char::escape_unicode).collect(),
    |said| said.chars().rev().collect(),
    |said| said.len().to_string(),
];

/// What a request says of its client, in the head or in the body of an answer that others may have.
fn mirror(seen: &Seen) -> Script {
    let is_ordinary = |name: &str| matches!(seen.header(name), Some("*/*" | "\"a\""));
    let names = seen.headers.keys().filter(|name| *name != "host" && !is_ordinary(name.as_str()));
    let mut said: Vec<_> =
        names.map(|name| format!("{name}={:?}", seen.headers.get_all(name).iter().collect::<Vec<_>>())).collect();
    said.sort();
    let form: usize = seen.target.rsplit('/').nth(1).unwrap().parse().unwrap();
    let said: String = FORMS[form](&said.join("|")).chars().filter(char::is_ascii).collect();
    let answer = kept(if seen.target.contains("body") { said.clone() } else { "x".into() });
    let answer = if seen.target.contains("head") { answer.with("X-Said", said) } else { answer };
    if seen.target.contains("tag") { answer.with("ETag", "\"a\"") } else { answer }
}

#[tokio::test]
async fn no_reflection_of_a_request_reaches_another_client() {
    let origin = Upstream::start(mirror).await;
    let server = Setup::shield_of_url(&origin.url()).start().await;
    let mut dice = StdRng::seed_from_u64(42);
    let mut sent = 0;
    for case in 0..250 {
        let place = ["body", "head", "body-head", "body-tag", "head-tag"].choose(&mut dice).unwrap();
        let form = dice.random_range(0..FORMS.len());
        let target = format!("/api/{place}/{form}/{case}");
        let untouched = server.get(&format!("/api/{place}/{form}/untouched")).await;
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
            let shown = |reply: &Reply| (reply.text().to_owned(), reply.header("x-said"));
            assert_eq!(shown(&victim), shown(&untouched), "round {round}, {before}, after\n{request}");
        }
    }
    assert!(origin.count() > sent / 2, "{} of {sent} reached the origin", origin.count());
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
