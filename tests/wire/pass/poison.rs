//! Nothing that one client sends shows in another client's answer, unless `Vary` says so.

use std::fmt::Write as _;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Semaphore;

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
async fn clients_with_wishes_of_their_own_share_what_an_ordinary_request_gets() {
    let origin = Upstream::start(|seen| {
        let said = format!("for {}", seen.header("accept-language").unwrap_or("all"));
        let control = if seen.target.contains("stale") { "max-age=0" } else { "max-age=60" };
        Script::new(200, said).with("Cache-Control", control)
    })
    .await;
    let server = Setup::shield_of_url(&origin.url()).start().await;
    let said = async |target: &str, language: &str| {
        server.get_with(target, &[("accept-language", language), ("via", language)]).await.text().to_owned()
    };
    assert_eq!(said("/api/x", "de").await, "for de");
    assert_eq!(said("/api/x", "de").await, "for de");
    assert_eq!(origin.count(), 1, "the same request has the same answer");
    for language in ["fr", "en, de", "de", "xx"] {
        assert_eq!(said("/api/x", language).await, "for all");
    }
    assert_eq!(origin.count(), 2, "an answer that is cached without Vary is for all");
    let seen = origin.seen().pop().unwrap();
    assert!(!seen.header("via").unwrap().contains("fr"), "{}", seen.head);
    for language in ["de", "fr", "en"] {
        said("/api/stale", language).await;
    }
    let languages: Vec<_> =
        origin.seen_of("/api/stale").iter().map(|seen| seen.header("accept-language").is_some()).collect();
    assert_eq!(languages, [true, false, false]);
}

#[tokio::test]
async fn a_resource_that_begins_to_vary_is_asked_again_with_what_it_varies_by() {
    let varies = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now = varies.clone();
    let origin = Upstream::start(move |seen| {
        let said = seen.header("accept-language").unwrap_or("all").to_owned();
        let script = Script::new(200, said).with("Cache-Control", "max-age=0");
        if now.load(std::sync::atomic::Ordering::Relaxed) { script.with("Vary", "Accept-Language") } else { script }
    })
    .await;
    let server = Setup::shield_of_url(&origin.url()).start().await;
    let said = async |fields: &[(&str, &str)]| server.get_with("/api/x", fields).await.text().to_owned();
    assert_eq!(said(&[]).await, "all");
    assert_eq!(said(&[("accept-language", "de")]).await, "all");
    varies.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(said(&[("accept-language", "de")]).await, "de");
    assert_eq!((said(&[("accept-language", "fr")]).await, origin.count()), ("fr".to_owned(), 5));
}

#[tokio::test]
async fn a_crowd_with_wishes_of_their_own_makes_few_requests() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let origin = Upstream::start(move |_| kept("here").held_by(&held)).await;
    let server = Setup::shield_of_url(&origin.url()).start().await;
    let languages: Vec<String> = (0..60).map(|number| format!("x-{number}")).collect();
    let asks = languages.iter().map(|language| ("/api/x".to_owned(), vec![("accept-language", &**language)]));
    let replies = server.together(asks, || gate.add_permits(100)).await;
    assert!(replies.iter().all(|reply| reply.text() == "here"));
    assert!(origin.count() <= 4, "{} requests: one's own, one for all, and those of late ones", origin.count());
}

#[tokio::test]
async fn a_listed_field_that_no_vary_names_is_part_of_the_key() {
    let origin = Upstream::start(|seen| {
        let said = format!("for {}", seen.header("x-tenant").unwrap_or("all"));
        Script::new(200, said).with("Cache-Control", "max-age=0").with("ETag", "\"a\"")
    })
    .await;
    let listed = r#"["Accept", "X-Tenant"]"#;
    let server = Setup::shield_of_url(&origin.url()).set("passthrough.request_headers", listed).start().await;
    for _ in 0..2 {
        for tenant in ["one", "two"] {
            let reply = server.get_with("/api/x", &[("x-tenant", tenant)]).await;
            assert_eq!(reply.text(), format!("for {tenant}"));
        }
        assert_eq!(server.ok("/api/x").await.text(), "for all");
    }
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
