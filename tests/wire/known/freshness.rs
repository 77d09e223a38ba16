//! How long an answer is used: `Cache-Control`, `CDN-Cache-Control`, `Expires`, `Age`, `Date`, `Vary`, and what must
//! not be kept. The scenarios are those of the public HTTP cache test suite.

use std::time::Duration;

use futures_util::future::join_all;

use super::{CODINGS, Fields, Use, answer, case_of, in_both, in_each_coding, nothing, number, pass, target};
use crate::harness::Upstream;

/// Answers stale after this time must not be used.
const PAUSE: Duration = Duration::from_millis(2_100);

/// Answers that are used without asking again.
const REUSED: &[Fields<'_>] = &[
    // The origin states nothing: the configured lifetime.
    &[],
    &[("date", "@0")],
    &[("last-modified", "@-10")],
    &[("pragma", "no-cache")],
    &[("cache-control", "public")],
    &[("set-cookie", "a=b")],
    &[("authorization", "x"), ("www-authenticate", "Basic")],
    // cc-freshness
    &[("cache-control", "max-age=3600")],
    &[("cache-control", "max-age=2147483647")],
    &[("cache-control", "max-age=2147483648")],
    &[("cache-control", "max-age=2147483649")],
    &[("cache-control", "max-age=99999999999")],
    &[("cache-control", "max-age=3600"), ("expires", "@-7200"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("expires", "0"), ("date", "@0")],
    &[("cache-control", "foobar, max-age=3600")],
    &[("cache-control", "MaX-aGe=3600")],
    &[("cache-control", "s-maxage=3600")],
    &[("cache-control", "max-age=1, s-maxage=3600")],
    &[("cache-control", "max-age=0, s-maxage=3600"), ("expires", "@-10")],
    &[("cache-control", "max-age=3600"), ("pragma", "no-cache")],
    &[("cache-control", "max-age=3600, must-revalidate")],
    &[("cache-control", "max-age=3600"), ("set-cookie", "a=b")],
    // cc-parse
    &[("cache-control", "max-age=003600")],
    &[("cache-control", "max-age=1800, max-age=1")],
    &[("cache-control", "max-age=1800"), ("cache-control", "max-age=1")],
    // age-parse
    &[("cache-control", "max-age=3600"), ("age", "abc"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "-7200"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "7200.0"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "0, 7200"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "0"), ("age", "7200"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "0, 0"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "0"), ("age", "0"), ("date", "@0")],
    &[("cache-control", "max-age=10000"), ("age", "3600"), ("age", "3600"), ("date", "@0")],
    // expires-freshness, expires-parse
    &[("expires", "@2592000"), ("date", "@0")],
    &[("expires", "@10"), ("date", "foo")],
    &[("expires", "@3600")],
    &[("expires", "Tue, 19 Jan 2038 14:14:08 GMT"), ("date", "@0")],
    &[("expires", "Sun, 21 Nov 2286 04:46:39 GMT"), ("date", "@0")],
    &[("expires", "Thursday, 18-Aug-50 02:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu Aug  8 02:01:18 2050"), ("date", "@0")],
    &[("expires", "THU, 18 Aug 2050 02:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu, 18 AUG 2050 02:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu, 18 Aug 2050 02:01:18 gMT"), ("date", "@0")],
    // cdn-cache-control
    &[("cdn-cache-control", "max-age=3600")],
    &[("cdn-cache-control", "max-age=2147483648")],
    &[("cdn-cache-control", "max-age=99999999999")],
    &[("cdn-cache-control", "foobar, max-age=3600")],
    &[("cdn-cache-control", "max-age=3600"), ("expires", "@-10000"), ("date", "@0")],
    &[("cdn-cache-control", "max-age=3600"), ("expires", "0"), ("date", "@0")],
    &[("cdn-cache-control", "max-age=3600"), ("cache-control", "max-age=1")],
    &[("cdn-cache-control", "max-age=10000"), ("cache-control", "no-store")],
    // vary: no client field reaches the origin, so all clients are one
    &[("cache-control", "max-age=3600"), ("vary", "Foo")],
    &[("cache-control", "max-age=3600"), ("vary", "Accept-Encoding, Cookie, User-Agent")],
    &[("cache-control", "max-age=3600"), ("vary", "origin"), ("vary", "accept-language")],
];

/// Answers that are not used after some time.
const OUTLIVED: &[Fields<'_>] = &[
    // cc-freshness
    &[("cache-control", "max-age=1")],
    &[("cache-control", "max-age=0")],
    &[("cache-control", "max-age=-3600")],
    &[("cache-control", "max-age=3600"), ("age", "7200"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("date", "@-7200")],
    &[("cache-control", "max-age=0"), ("expires", "@3600"), ("date", "@0")],
    &[("cache-control", "max-age=3600, s-maxage=1")],
    &[("cache-control", "s-maxage=1, max-age=3600")],
    &[("cache-control", "max-age=3600"), ("cache-control", "s-maxage=1")],
    // cc-parse
    &[("cache-control", "extension=\"max-age=3600\", max-age=1")],
    &[("cache-control", "max-age=1, extension=\"max-age=3600\"")],
    &[("cache-control", "max-age='3600'")],
    &[("cache-control", "max-age=1, max-age=1800")],
    &[("cache-control", "max-age=1"), ("cache-control", "max-age=1800")],
    // cc-response
    &[("cache-control", "max-age=10000, no-cache"), ("expires", "@10000"), ("date", "@0")],
    &[("cache-control", "max-age=10000, No-CaChE"), ("expires", "@10000"), ("date", "@0")],
    &[("cache-control", "max-age=1, must-revalidate")],
    // age-parse
    &[("cache-control", "max-age=3600"), ("age", "2147483647"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "2147483648"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "2147483649"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "7200, 0"), ("date", "@0")],
    &[("cache-control", "max-age=3600"), ("age", "7200"), ("age", "0"), ("date", "@0")],
    // expires-freshness, expires-parse
    &[("expires", "@-2592000"), ("date", "@0")],
    &[("expires", "@0"), ("date", "@0")],
    &[("expires", "@1"), ("date", "@0")],
    &[("expires", "@300"), ("date", "@400")],
    &[("expires", "0"), ("date", "@0")],
    &[("expires", "@10"), ("age", "25"), ("date", "@-10")],
    &[("expires", "@20"), ("age", "15"), ("date", "@10")],
    &[("expires", "Thu, 18 Aug 2050 02:01:18 UTC"), ("date", "@0")],
    &[("expires", "Thu, 18 Aug 2050 02:01:18 AEST"), ("date", "@0")],
    &[("expires", "Thu, 18 Aug 50 02:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu 18 Aug 2050 02:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu, 18  Aug  2050 02:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu, 18-Aug-2050 02:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu, 18 Aug 2050 02.01.18 GMT"), ("date", "@0")],
    &[("expires", "Thu, 18 Aug 2050 2:01:18 GMT"), ("date", "@0")],
    &[("expires", "Thu, 18 Aug 2050 2:01:18 GMT"), ("expires", "Thu, 18 Aug 2050 2:01:19 GMT"), ("date", "@0")],
    // cdn-cache-control
    &[("cdn-cache-control", "max-age=3600"), ("age", "7200"), ("date", "@0")],
    &[("cdn-cache-control", "max-age=0")],
    &[("cdn-cache-control", "max-age=0"), ("expires", "@10000"), ("date", "@0")],
    &[("cdn-cache-control", "max-age=1"), ("cache-control", "max-age=3600")],
    &[("cdn-cache-control", "no-cache"), ("cache-control", "max-age=10000"), ("expires", "@10000"), ("date", "@0")],
];

/// Answers for one client only.
const NOT_KEPT: &[Fields<'_>] = &[
    &[("cache-control", "private, max-age=3600")],
    &[("cache-control", "private=\"set-cookie\", max-age=3600")],
    &[("cache-control", "no-store")],
    &[("cache-control", "No-StOrE")],
    &[("cache-control", "max-age=10000, no-store"), ("expires", "@10000"), ("date", "@0")],
    &[("cache-control", "max-age=10000"), ("cache-control", "no-store")],
    &[("cdn-cache-control", "private"), ("cache-control", "max-age=10000"), ("expires", "@10000"), ("date", "@0")],
    &[("cdn-cache-control", "no-store"), ("cache-control", "max-age=10000"), ("expires", "@10000"), ("date", "@0")],
    &[("cdn-cache-control", "max-age=10000, &&&&&"), ("cache-control", "no-store")],
    &[("cdn-cache-control", "max-age=\"10000\""), ("cache-control", "no-store")],
    &[("cache-control", "max-age=5000"), ("vary", "*")],
    &[("cache-control", "max-age=5000"), ("vary", "*, *")],
    &[("cache-control", "max-age=5000"), ("vary", "*"), ("vary", "*")],
    &[("cache-control", "max-age=5000"), ("vary", ", *")],
    &[("cache-control", "max-age=5000"), ("vary", ""), ("vary", "*")],
    &[("cache-control", "max-age=5000"), ("vary", "*, Foo")],
    &[("cache-control", "max-age=5000"), ("vary", "Foo, *")],
    &[("cache-control", "max-age=5000"), ("vary", "Foo"), ("vary", "*")],
];

/// An origin with a resource for each row, whose documents are numbered.
async fn origin_of(table: &'static [Fields<'static>]) -> Upstream {
    Upstream::start(move |seen| match case_of(seen).and_then(|case| table.get(case)) {
        Some(fields) => answer(seen.nth, &[fields, &[("etag", "\"tag\"")][..]].concat()),
        None => nothing(),
    })
    .await
}

#[tokio::test]
async fn what_is_fresh_is_used_by_clients_of_every_coding_without_asking_again() {
    in_both(async |uses| {
        let upstream = origin_of(REUSED).await;
        let server = uses.start(&upstream).await;
        join_all(REUSED.iter().enumerate().map(async |(case, fields)| {
            let target = target(case);
            let first = server.get_with(&target, &[("accept-encoding", CODINGS[case % 4])]).await;
            assert_eq!(number(&first), 1, "{uses:?} {fields:?}");
            pass(PAUSE).await;
            let (number, replies) = in_each_coding(&server, &target).await;
            assert_eq!((number, upstream.count_of(&target)), (1, 1), "{uses:?} {fields:?}");
            assert_eq!(replies[0].etag(), "W/\"tag\"", "what is recoded has a weak tag");
            for reply in &replies {
                let outcome = reply.the("cache-status");
                let ttl = outcome.strip_prefix("grandstand; hit; ttl=").map(|ttl| ttl.parse::<u64>().unwrap());
                assert!(ttl.is_some(), "{uses:?} {fields:?}: {outcome}");
            }
        }))
        .await;
    })
    .await;
}

#[tokio::test]
async fn what_has_outlived_its_freshness_is_never_used_unasked() {
    in_both(async |uses| {
        let upstream = origin_of(OUTLIVED).await;
        let server = uses.start(&upstream).await;
        join_all(OUTLIVED.iter().enumerate().map(async |(case, fields)| {
            let target = target(case);
            for round in 0..2 {
                let reply = server.get_with(&target, &[("accept-encoding", CODINGS[(case + round) % 4])]).await;
                assert_eq!(number(&reply), round as u64 + 1, "{uses:?} {fields:?}");
                pass(PAUSE).await;
            }
            assert_eq!(upstream.count_of(&target), 2, "{uses:?} {fields:?}");
        }))
        .await;
    })
    .await;
}

#[tokio::test]
async fn what_must_not_be_kept_is_asked_for_each_time() {
    in_both(async |uses| {
        let upstream = origin_of(NOT_KEPT).await;
        let server = uses.start(&upstream).await;
        join_all(NOT_KEPT.iter().enumerate().map(async |(case, fields)| {
            let target = target(case);
            for (round, coding) in CODINGS.into_iter().enumerate() {
                let reply = server.get_with(&target, &[("accept-encoding", coding)]).await;
                assert_eq!(number(&reply), round as u64 + 1, "{uses:?} {fields:?}");
                assert_eq!(
                    reply.the("cache-status"),
                    "grandstand; fwd=uri-miss; fwd-status=200",
                    "{uses:?} {fields:?}"
                );
            }
            for seen in upstream.seen_of(&target) {
                assert_eq!(seen.header("if-none-match"), None, "{uses:?} {fields:?}: nothing is kept to compare with");
            }
        }))
        .await;
    })
    .await;
}

#[tokio::test]
async fn clients_that_wait_together_for_what_must_not_be_shared_get_an_answer_each() {
    let upstream = Upstream::start(|seen| match case_of(seen) {
        Some(_) => answer(seen.nth, &[("cache-control", "private")]).after(Duration::from_millis(200)),
        None => nothing(),
    })
    .await;
    let server = Use::Shield.start(&upstream).await;
    let replies = join_all((0..8).map(|_| server.get("/api/listings.json?sport=case-0"))).await;
    let mut numbers: Vec<u64> = replies.iter().map(number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
}

#[tokio::test]
async fn freshness_is_the_configured_one_where_the_origin_states_none() {
    let upstream = origin_of(REUSED).await;
    let server = Use::Shield.setup(&upstream).set("ttl", "2s").start().await;
    server.ready().await;
    // Row 0 states nothing, row 7 an hour.
    for (case, documents) in [(0, [1, 1, 2]), (7, [1, 1, 1])] {
        let target = target(case);
        for (document, pause) in documents.into_iter().zip([Duration::ZERO, PAUSE, Duration::ZERO]) {
            let reply = server.get(&target).await;
            assert_eq!(number(&reply), document, "{case}");
            let stated = reply.the("cache-control");
            assert_eq!(stated.starts_with("public, max-age=2, "), case == 0, "{stated}");
            pass(pause).await;
        }
    }
}
