//! The fields of an answer: the origin's, ours, and what `Age` and `Date` say.

use std::time::{Duration, Instant};

use http::Method;

use super::{Fields, answer, case_of, document, in_both, in_each_coding, nothing, number, pass, started, target, with};
use crate::harness::{Script, Upstream};

/// Fields of the origin that clients get unchanged.
const KEPT: Fields<'_> = &[
    ("x-foo", "bar"),
    ("test-header", "a"),
    ("content-foo", "b"),
    ("content-language", "en"),
    ("content-location", "/foo"),
    ("content-security-policy", "default-src 'self'"),
    ("x-frame-options", "deny"),
    ("x-xss-protection", "1"),
    ("clear-site-data", "cache"),
    ("last-modified", "Wed, 01 Jan 2020 00:00:00 GMT"),
    ("expires", "Fri, 01 Jan 2038 01:01:01 GMT"),
    ("server", "the-origin"),
];

/// Fields of the origin's connection or listener, or for one client.
const DROPPED: Fields<'_> = &[
    ("connection", "a, B"),
    ("a", "1"),
    ("b", "2"),
    ("keep-alive", "timeout=77"),
    ("proxy-authenticate", "Basic"),
    ("proxy-authentication-info", "x"),
    ("proxy-authorization", "x"),
    ("proxy-connection", "x"),
    ("te", "x"),
    ("upgrade", "x"),
    ("set-cookie", "a=b"),
    ("set-cookie2", "a=b"),
    ("alt-svc", "h3=\":443\""),
    ("strict-transport-security", "max-age=1"),
    ("nel", "{}"),
    ("report-to", "{}"),
    ("ratelimit-remaining", "7"),
    ("access-control-allow-credentials", "true"),
    ("access-control-max-age", "5"),
    ("access-control-allow-methods", "PUT"),
    ("mirror-snapshot", "forged"),
    ("mirror-confirmed", "forged"),
];

/// Fields that we replace.
const REPLACED: Fields<'_> = &[
    ("ratelimit", "\"default\";r=7;t=7"),
    ("ratelimit-policy", "\"default\";q=7;w=7"),
    ("access-control-allow-origin", "https://evil.example"),
    ("access-control-expose-headers", "secret"),
    ("accept-ranges", "bytes"),
    ("vary", "cookie"),
];

#[tokio::test]
async fn fields_are_kept_dropped_replaced_or_appended_to_as_promised() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| {
            let ours: Fields<'_> = &[
                ("cache-control", "max-age=3600"),
                ("etag", "\"strong\""),
                ("link", "</terms>; rel=\"terms-of-service\""),
                ("cache-status", "edge; hit; ttl=5"),
            ];
            let fields = [KEPT, DROPPED, REPLACED, ours].concat();
            if case_of(seen).is_some() { answer(seen.nth, &fields) } else { nothing() }
        })
        .await;
        let server = started(uses.setup(&upstream).set("rate_limit.requests_per_minute", "1000"), uses).await;
        for case in 0..2 {
            let target = target(case);
            let miss = server.get(&target).await;
            let (_, mut replies) = in_each_coding(&server, &target).await;
            replies.push(miss.clone());
            replies.push(server.head(&target).await);
            replies.push(server.get_with(&target, &[("if-none-match", "\"strong\"")]).await);
            assert_eq!(replies.last().unwrap().status, 304);
            for reply in &replies {
                for (name, value) in KEPT {
                    assert_eq!(reply.the(name), *value, "{uses:?} {name}: {reply:?}");
                }
                for (name, value) in DROPPED {
                    assert_ne!(reply.header(name).as_deref(), Some(*value), "{uses:?} {name}: {reply:?}");
                    // The connection to the client has its own.
                    if !["connection", "keep-alive"].contains(name) {
                        assert_eq!(reply.header(name), None, "{uses:?} {name}: {reply:?}");
                    }
                }
                for (name, value) in REPLACED {
                    assert!(!reply.the(name).contains(value), "{uses:?} {name}: {reply:?}");
                }
                assert_eq!(reply.etag(), "W/\"strong\"", "weakened: it is recoded");
                assert!(reply.the("link").starts_with("</terms>; rel=\"terms-of-service\""));
                let outcome = reply.the("cache-status");
                assert!(outcome.starts_with("edge; hit; ttl=5, grandstand; "), "appended to: {outcome}");
                assert_eq!(reply.the("access-control-allow-origin"), "*");
                assert_eq!(reply.the("accept-ranges"), "none");
                assert!(reply.the("vary").eq_ignore_ascii_case("accept-encoding"));
                assert!(reply.the("ratelimit-policy").contains("q=1000"));
            }
            assert_eq!(upstream.count_of(&target), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn digests_and_lengths_of_a_body_that_is_recoded_are_not_passed_on() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(
                seen.nth,
                &[("content-md5", "x"), ("digest", "x"), ("content-digest", "x"), ("repr-digest", "x")],
            ),
        })
        .await;
        let server = uses.start(&upstream).await;
        let (_, replies) = in_each_coding(&server, &target(0)).await;
        for reply in replies {
            for name in ["content-md5", "digest", "content-digest", "repr-digest"] {
                assert_eq!(reply.header(name), None, "{name}");
            }
            assert_eq!(reply.the("content-length"), reply.body.len().to_string());
        }
    })
    .await;
}

#[tokio::test]
async fn head_has_the_header_of_get_and_one_request_serves_both() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600"), ("etag", "\"a\""), ("x-foo", "bar")]),
        })
        .await;
        let server = uses.start(&upstream).await;
        for coding in ["identity", "gzip"] {
            let target = target(usize::from(coding == "gzip"));
            // The first is a miss: HEAD fills the cache, too.
            let accepted = [("accept-encoding", coding)];
            server.send(Method::HEAD, &target, &accepted).await;
            let head = server.send(Method::HEAD, &target, &accepted).await;
            let get = server.get_with(&target, &accepted).await;
            assert!(head.body.is_empty() && head.status == 200);
            for (name, value) in &get.headers {
                if !["age", "cache-status", "date", "x-accel-expires"].contains(&name.as_str()) {
                    assert_eq!(head.headers.get(name), Some(value), "{uses:?} {name}");
                }
            }
            assert_eq!(head.headers.len(), get.headers.len(), "{uses:?}: {head:?} {get:?}");
            let seen = upstream.seen_of(&target);
            assert_eq!((seen.len(), seen[0].method.as_str()), (1, "GET"));
        }
    })
    .await;
}

#[tokio::test]
async fn age_is_that_of_the_origins_copy_and_the_time_since() {
    // The fields, the age on arrival, and how long it is fresh.
    const CASES: [(Fields<'_>, u64, u64); 7] = [
        (&[("cache-control", "max-age=100000"), ("date", "@0")], 0, 100_000),
        (&[("cache-control", "max-age=100000"), ("date", "@0"), ("age", "30")], 30, 100_000),
        (&[("cache-control", "max-age=100000"), ("date", "@-50"), ("age", "30")], 50, 100_000),
        (&[("cache-control", "max-age=100000"), ("date", "@50"), ("age", "30")], 30, 100_000),
        (&[("expires", "@2592000"), ("date", "@0"), ("age", "30")], 30, 2_592_000),
        (&[("cache-control", "max-age=60"), ("age", "30")], 30, 60),
        (&[("age", "30")], 30, 600),
    ];
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(case) => answer(seen.nth, CASES[case].0),
        })
        .await;
        let server = uses.start(&upstream).await;
        let start = Instant::now();
        for (case, (fields, age, _)) in CASES.iter().enumerate() {
            let asked = Instant::now();
            let reply = server.get(&target(case)).await;
            assert!(
                (*age..=age + 1 + asked.elapsed().as_secs()).contains(&reply.age().unwrap()),
                "{uses:?} {fields:?}: {reply:?}"
            );
        }
        pass(Duration::from_millis(2_100)).await;
        for (case, (fields, age, lifetime)) in CASES.iter().enumerate() {
            let reply = server.get_with(&target(case), &[("accept-encoding", "br")]).await;
            let now = reply.age().unwrap();
            let most = age + 2 + start.elapsed().as_secs();
            assert!((age + 2..=most).contains(&now), "{uses:?} {fields:?}: {reply:?}");
            let ttl: u64 = reply.the("cache-status").strip_prefix("grandstand; hit; ttl=").unwrap().parse().unwrap();
            assert!((lifetime - 1..=*lifetime).contains(&(ttl + now)), "{fields:?}: ttl {ttl}, Age {now}");
            assert_eq!(number(&reply), 1);
        }
    })
    .await;
}

/// The origin's links have addresses that clients cannot or should not reach.
#[tokio::test]
async fn the_links_of_a_taxonomy_are_rewritten_and_those_of_a_list_are_not() {
    in_both(async |uses| {
        let upstream = Upstream::start(|_| nothing()).await;
        let url = upstream.url();
        upstream.answers(move |seen| {
            let body =
                format!(r#"{{"a":[{{"slug":"x","name":"X","count":1,"api_url":"{url}/api/listings.json?sport=x"}}]}}"#);
            let answers = seen.target == "/api/sports.json" || case_of(seen).is_some();
            if answers { crate::harness::Script::new(200, body).with("etag", "\"a\"") } else { nothing() }
        });
        let server = uses.start(&upstream).await;
        let taxonomy = server.ok("/api/sports.json").await;
        assert!(taxonomy.text().contains("\"http://mirror.test/api/listings.json?sport=x\""), "{}", taxonomy.text());
        assert_eq!(taxonomy.etag(), "W/\"a\"");
        let list = server.ok(&target(0)).await;
        assert!(list.text().contains(&upstream.url()), "{uses:?}: {}", list.text());
    })
    .await;
}

/// Any media type of the origin becomes JSON: a browser would run what a page contains.
#[tokio::test]
async fn documents_are_called_json_whatever_the_origin_calls_them() {
    const OURS: &str = "application/json";
    let kinds: [(Fields<'_>, &str); 9] = [
        (&[], OURS),
        (&[("content-type", "text/html")], OURS),
        (&[("content-type", "image/svg+xml")], OURS),
        (&[("content-type", "application/javascript")], OURS),
        (&[("content-type", "application/jsonp")], OURS),
        (&[("content-type", "text/html; application/json")], OURS),
        (&[("content-type", "application/json"), ("content-type", "text/html")], OURS),
        (&[("content-type", "application/json; charset=utf-8")], "application/json; charset=utf-8"),
        (&[("content-type", "Application/JSON ;x=y")], "Application/JSON ;x=y"),
    ];
    in_both(async |uses| {
        let upstream = Upstream::start(move |seen| match case_of(seen) {
            None => nothing(),
            Some(case) => with(Script::new(200, document(case)), kinds[case].0),
        })
        .await;
        let server = uses.start(&upstream).await;
        for (case, (sent, expected)) in kinds.iter().enumerate() {
            for reply in in_each_coding(&server, &target(case)).await.1 {
                assert_eq!(reply.the("content-type"), *expected, "{uses:?} {sent:?}");
                assert_eq!(reply.the("x-content-type-options"), "nosniff", "{uses:?} {sent:?}");
            }
        }
    })
    .await;
}
