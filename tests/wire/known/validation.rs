//! Revalidation at the origin, and by clients. The scenarios are those of the public HTTP cache test suite.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::Method;

use super::{
    CODINGS, Fields, Use, answer, case_of, document, in_both, in_each_coding, nothing, number, pass, target, with,
};
use crate::harness::{Script, Upstream, wait_until};

const PAUSE: Duration = Duration::from_millis(2_100);
const OLD: &str = "Wed, 01 Jan 2020 00:00:00 GMT";

/// Validators of an answer, and those of its confirmation.
const VALIDATED: &[(Fields<'_>, &str, &str)] = &[
    (&[("etag", "\"abcd\"")], "if-none-match", "\"abcd\""),
    (&[("etag", "W/\"abcd\"")], "if-none-match", "W/\"abcd\""),
    (&[("last-modified", OLD)], "if-modified-since", OLD),
    (&[("etag", "\"abcd\""), ("last-modified", OLD)], "if-none-match", "\"abcd\""),
    (&[("etag", "\"abcd\""), ("vary", "Abc")], "if-none-match", "\"abcd\""),
];

/// Freshness that ends at once or soon.
const SHORT: [Fields<'_>; 6] = [
    &[("cache-control", "max-age=1")],
    &[("cache-control", "max-age=1, must-revalidate")],
    &[("cache-control", "no-cache")],
    &[("cache-control", "max-age=10000, no-cache"), ("expires", "@10000"), ("date", "@0")],
    &[("expires", "@1"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("cdn-cache-control", "max-age=1")],
];

#[tokio::test]
async fn what_is_kept_is_confirmed_with_the_origins_own_validator_and_never_replaced_by_the_empty_304() {
    let (many, rows) = (SHORT.len(), SHORT.len() * VALIDATED.len());
    in_both(async |uses| {
        let upstream = Upstream::start(move |seen| {
            let Some(case) = case_of(seen).filter(|case| *case < rows) else { return nothing() };
            let (validators, name, value) = VALIDATED[case / many];
            let fields = [SHORT[case % many], validators].concat();
            if seen.header(name) == Some(value) {
                return with(Script::new(304, ""), &fields);
            }
            answer(seen.nth, &fields)
        })
        .await;
        let server = uses.start(&upstream).await;
        join_all((0..rows).map(async |case| {
            let (target, what) = (target(case), (uses, VALIDATED[case / many], SHORT[case % many]));
            let first = server.get(&target).await;
            assert_eq!(first.the("cache-status"), "grandstand; fwd=uri-miss; fwd-status=200; stored", "{what:?}");
            for coding in ["gzip", "br", "zstd"] {
                pass(PAUSE).await;
                let asked = Instant::now();
                let reply = server.get_with(&target, &[("accept-encoding", coding)]).await;
                assert_eq!((number(&reply), reply.decoded()), (1, first.body.to_vec()), "{what:?}");
                assert_eq!(reply.the("cache-status"), "grandstand; fwd=stale; fwd-status=304; stored", "{what:?}");
                assert_eq!(reply.header("etag"), first.header("etag"), "{what:?}");
                assert_eq!(reply.header("last-modified"), first.header("last-modified"), "{what:?}");
                assert!(reply.age().unwrap() <= 1 + asked.elapsed().as_secs(), "{what:?}: {reply:?}");
            }
            let seen = upstream.seen_of(&target);
            assert_eq!(seen.len(), 4, "{what:?}: each time it was over, once");
            let (_, name, value) = VALIDATED[case / many];
            assert!(seen[1..].iter().all(|seen| seen.header(name) == Some(value)), "{what:?}: {seen:#?}");
        }))
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_304_renews_freshness_for_its_whole_length() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| {
            let fields: Fields<'_> = &[("cache-control", "max-age=2"), ("etag", "\"a\"")];
            match (case_of(seen), seen.header("if-none-match")) {
                (None, _) => nothing(),
                (_, Some(_)) => with(Script::new(304, ""), &fields[1..]),
                _ => answer(seen.nth, fields),
            }
        })
        .await;
        let server = uses.start(&upstream).await;
        let target = target(0);
        let start = Instant::now();
        let mut round = 0;
        // Three lifetimes and a bit: the first answer and three confirmations at most.
        while start.elapsed() < Duration::from_millis(6_500) {
            let reply = server.get_with(&target, &[("accept-encoding", CODINGS[round % 4])]).await;
            assert_eq!(number(&reply), 1, "{uses:?}");
            round += 1;
            pass(Duration::from_millis(20)).await;
        }
        let (count, span) = (upstream.count_of(&target), start.elapsed());
        let most = 1 + span.as_secs() as usize / 2;
        assert!(
            (3..=most).contains(&count),
            "{uses:?}: {count} requests in {span:?} of a lifetime of 2 s, for {round}"
        );
    })
    .await;
}

/// What a 304 changes in a kept header: all fields it names, except those about the kept bytes.
#[tokio::test]
async fn a_304_updates_the_header_but_for_what_describes_the_body() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match (case_of(seen), seen.header("if-none-match")) {
            (None, _) => nothing(),
            (_, None) => answer(
                seen.nth,
                &[
                    ("cache-control", "max-age=1"),
                    ("etag", "\"a\""),
                    ("test-header", "A"),
                    ("x-content-foo", "A"),
                    ("content-foo", "A"),
                    ("content-location", "/foo"),
                    ("x-kept", "A"),
                    ("content-language", "en"),
                    ("expires", "Fri, 01 Jan 2038 01:01:01 GMT"),
                    ("age", "1"),
                ],
            ),
            (_, Some(_)) => with(
                Script::new(304, ""),
                &[
                    ("cache-control", "max-age=3600"),
                    ("etag", "\"a\""),
                    ("test-header", "B"),
                    ("x-content-foo", "B"),
                    ("x-content-foo", "C"),
                    ("content-foo", "B"),
                    ("content-location", "/bar"),
                    ("content-type", "text/html"),
                    ("content-length", "3"),
                    ("content-encoding", "gzip"),
                    ("set-cookie", "a=b"),
                    ("connection", "x-hop"),
                    ("x-hop", "1"),
                    ("expires", "Mon, 11 Jan 2038 11:11:11 GMT"),
                    ("access-control-allow-origin", "https://evil.example"),
                ],
            ),
        })
        .await;
        let server = uses.start(&upstream).await;
        let target = target(1);
        assert_eq!(server.ok(&target).await.the("test-header"), "A");
        pass(PAUSE).await;
        let asked = Instant::now();
        let (document_number, replies) = in_each_coding(&server, &target).await;
        assert_eq!((document_number, upstream.count_of(&target)), (1, 2), "{uses:?}");
        for reply in replies {
            for (name, value) in [
                ("test-header", "B"),
                ("x-content-foo", "B, C"),
                ("content-foo", "B"),
                ("content-location", "/bar"),
                ("x-kept", "A"),
                ("content-language", "en"),
                ("cache-control", "max-age=3600"),
                ("content-type", "application/json"),
                ("etag", "W/\"a\""),
                ("expires", "Mon, 11 Jan 2038 11:11:11 GMT"),
                ("access-control-allow-origin", "*"),
            ] {
                assert_eq!(reply.the(name), value, "{uses:?} {name}");
            }
            for name in ["set-cookie", "x-hop"] {
                assert_eq!(reply.header(name), None, "{uses:?} {name}");
            }
            assert_eq!(reply.the("content-length"), reply.body.len().to_string());
            let most = 1 + asked.elapsed().as_secs();
            assert!(reply.age().unwrap() <= most, "the age of the confirmation: {reply:?}");
        }
    })
    .await;
}

/// The fields of a 304, and none that describe a body.
#[tokio::test]
async fn a_client_that_has_it_is_told_so_in_every_coding_and_nothing_of_the_body() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(case) => answer(
                seen.nth,
                &[
                    ("cache-control", "max-age=3600"),
                    ("etag", ["\"abcdef\"", "W/\"abcdef\""][case % 2]),
                    ("last-modified", OLD),
                    ("content-language", "en"),
                    ("link", "</terms>; rel=\"terms-of-service\""),
                    ("date", "@0"),
                    ("age", "7"),
                ],
            ),
        })
        .await;
        let server = started_limited(uses, &upstream).await;
        for case in 0..2 {
            let target = target(case);
            let (_, replies) = in_each_coding(&server, &target).await;
            for reply in replies {
                assert_eq!(reply.etag(), "W/\"abcdef\"");
                for coding in CODINGS {
                    for tag in [
                        "W/\"abcdef\"",
                        "\"abcdef\"",
                        "*",
                        "\"abcdef\", \"1234\", \"5678\"",
                        "\"1234\", \"abcdef\", \"5678\"",
                        "\"1234\" , \"5678\",W/\"abcdef\"",
                    ] {
                        // RFC 9110 §13.1.3: the entity tag decides, the date does not.
                        let ignored = ("if-modified-since", "Tue, 01 Jan 2019 00:00:00 GMT");
                        let asked = [("if-none-match", tag), ("accept-encoding", coding), ignored];
                        for method in [Method::GET, Method::HEAD] {
                            let unchanged = server.send(method, &target, &asked).await;
                            assert_eq!(unchanged.status, 304, "{uses:?} {tag} {coding}: {unchanged:?}");
                            assert!(unchanged.body.is_empty());
                            for name in [
                                "content-type",
                                "content-length",
                                "content-encoding",
                                "transfer-encoding",
                                "content-range",
                            ] {
                                assert_eq!(unchanged.header(name), None, "{name}: {unchanged:?}");
                            }
                            for name in ["date", "age", "ratelimit", "ratelimit-policy", "access-control-allow-origin"]
                            {
                                unchanged.the(name);
                            }
                            assert_eq!(unchanged.the("etag"), "W/\"abcdef\"");
                            assert_eq!(unchanged.the("cache-control"), "max-age=3600");
                            assert!(unchanged.the("vary").eq_ignore_ascii_case("accept-encoding"));
                            assert!(unchanged.the("link").contains("rel=\"terms-of-service\""));
                            assert!(unchanged.the("cache-status").starts_with("grandstand; hit; ttl="));
                            assert!(unchanged.age().unwrap() >= 7);
                        }
                    }
                    let other = [("if-none-match", "\"1234\", W/\"5678\""), ("accept-encoding", coding)];
                    assert_eq!(number(&server.get_with(&target, &other).await), 1);
                }
            }
            for (tag, status) in [("*", 200), ("W/\"abcdef\"", 412), ("\"abcdef\"", 412)] {
                let reply = server.get_with(&target, &[("if-match", tag)]).await;
                assert_eq!(reply.status, status, "If-Match compares strongly: {tag}");
            }
            assert_eq!(upstream.count_of(&target), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stale_answer_is_confirmed_before_a_client_is_told_that_it_has_it() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match (case_of(seen), seen.header("if-none-match")) {
            (None, _) => nothing(),
            (Some(0), Some(tag)) => with(Script::new(304, ""), &[("cache-control", "max-age=1"), ("etag", tag)]),
            _ => answer(seen.nth, &[("cache-control", "max-age=1"), ("etag", &format!("\"{}\"", seen.nth))]),
        })
        .await;
        let server = uses.start(&upstream).await;
        for (case, status) in [(0, 304), (1, 200)] {
            let target = target(case);
            let tag = server.ok(&target).await.etag();
            pass(PAUSE).await;
            let reply = server.get_with(&target, &[("if-none-match", &tag), ("accept-encoding", "br")]).await;
            assert_eq!(reply.status, status, "{uses:?} {case}: {reply:?}");
            let told = if status == 304 { "304; stored" } else { "200; stored" };
            assert_eq!(reply.the("cache-status"), format!("grandstand; fwd=stale; fwd-status={told}"));
            assert_eq!(upstream.count_of(&target), 2);
        }
    })
    .await;
}

#[tokio::test]
async fn a_304_that_nobody_asked_for_is_no_answer() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
            (None, _) => nothing(),
            // Without a validator there is nothing to confirm.
            (Some(1), 1) => answer(1, &[("cache-control", "max-age=1")]),
            (Some(3), 1) => Script::new(404, "").with("cache-control", "max-age=1"),
            _ => Script::new(304, ""),
        })
        .await;
        let server = uses.start(&upstream).await;
        server.get(&target(0)).await.assert_problem(502, &[]);
        for (case, status) in [(1, 200), (3, 404)] {
            let first = server.get(&target(case)).await;
            assert_eq!(first.status, status);
            pass(PAUSE).await;
            let reply = server.get(&target(case)).await;
            assert_eq!((reply.status, &reply.body), (status, &first.body));
            assert_eq!(reply.the("cache-status"), "grandstand; fwd=stale; detail=stale-if-error", "{uses:?} {case}");
        }
    })
    .await;
}

/// The origin changed under its old name: its new body replaces the kept one, in every coding.
#[tokio::test]
async fn a_new_body_replaces_the_old_one_in_every_coding_at_once() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| {
            if case_of(seen).is_none() {
                return nothing();
            }
            // Fresh for as long as asking in each coding takes.
            let control = if seen.nth == 1 { "max-age=4" } else { "max-age=60" };
            answer(seen.nth, &[("cache-control", control), ("etag", &format!("\"{}\"", seen.nth))])
        })
        .await;
        let server = uses.start(&upstream).await;
        let target = target(0);
        let (first, replies) = in_each_coding(&server, &target).await;
        assert_eq!((first, replies[0].etag()), (1, "W/\"1\"".into()));
        wait_until("it is replaced", || async { number(&server.get(&target).await) == 2 }).await;
        let (second, replies) = in_each_coding(&server, &target).await;
        assert_eq!((second, replies[0].etag()), (2, "W/\"2\"".into()), "{uses:?}");
        assert_eq!(replies[0].decoded(), document(2).as_bytes());
    })
    .await;
}

async fn started_limited(uses: Use, upstream: &Upstream) -> crate::harness::Server {
    super::started(uses.setup(upstream).set("rate_limit.requests_per_minute", "100000"), uses).await
}
