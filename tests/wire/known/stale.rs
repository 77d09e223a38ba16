//! When a stale answer may be served: while a new one is fetched, and when none can be had.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::{Fields, answer, case_of, in_both, in_each_coding, nothing, number, pass, started, target, with};
use crate::harness::{Script, Upstream, wait_until};

const PAUSE: Duration = Duration::from_millis(2_100);
const STALE: &str = "grandstand; fwd=stale; detail=stale-if-error";

#[tokio::test]
async fn a_stale_answer_stands_in_for_a_closed_connection_unless_the_origin_forbids_it() {
    const CASES: [(&str, bool); 10] = [
        ("max-age=1", true),
        ("s-maxage=1", true),
        // DEVIATION: not in the meaning of proxy-revalidate.
        ("max-age=1, s-maxage=1", true),
        ("max-age=1, stale-if-error=60", true),
        ("max-age=1, stale-if-error=0", false),
        ("max-age=1, must-revalidate", false),
        ("max-age=1, proxy-revalidate", false),
        ("max-age=1, must-revalidate, stale-if-error=60", false),
        ("max-age=3600, no-cache", false),
        ("no-cache", false),
    ];
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
            (None, _) => nothing(),
            (Some(case), 1) => answer(1, &[("cache-control", CASES[case].0), ("etag", "\"a\"")]),
            _ => Script::hang_up(),
        })
        .await;
        let server = uses.start(&upstream).await;
        join_all((0..CASES.len()).map(async |case| assert_eq!(number(&server.get(&target(case)).await), 1))).await;
        pass(PAUSE).await;
        join_all(CASES.iter().enumerate().map(async |(case, (control, stands_in))| {
            if *stands_in {
                let (number, replies) = in_each_coding(&server, &target(case)).await;
                assert_eq!((number, replies[0].etag()), (1, "W/\"a\"".into()), "{uses:?} {control}");
                assert!(replies.iter().all(|reply| reply.the("cache-status") == STALE), "{control}: {replies:?}");
                assert!(replies[0].age().unwrap() >= 2, "its true age");
            } else {
                let reply = server.get(&target(case)).await;
                assert_eq!(reply.status, 503, "{uses:?} {control}: {reply:?}");
                assert!(reply.the("retry-after").parse::<u64>().unwrap() >= 1);
                reply.assert_problem(503, &[]);
            }
        }))
        .await;
    })
    .await;
}

#[tokio::test]
async fn one_background_refresh_serves_whoever_asks_and_they_get_the_stale_answer_at_once() {
    in_both(async |uses| {
        let gate = Arc::new(Semaphore::new(0));
        let refreshed = gate.clone();
        let upstream = Upstream::start(move |seen| match (case_of(seen), seen.nth) {
            (None, _) => nothing(),
            (_, 1) => answer(1, &[("cache-control", "max-age=1"), ("etag", "\"1\"")]),
            _ => answer(2, &[("cache-control", "max-age=60"), ("etag", "\"2\"")]).held_by(&refreshed),
        })
        .await;
        let setup = uses.setup(&upstream).set("cache.stale_while_revalidate", "1m");
        let (server, target) = (started(setup, uses).await, target(0));
        let first = Instant::now();
        assert_eq!(number(&server.get(&target).await), 1);
        pass(PAUSE).await;
        // Nobody waits: the origin answers after all have been served.
        let replies = join_all((0..100).map(|_| server.get(&target))).await;
        let oldest = -i64::try_from(first.elapsed().as_secs()).unwrap();
        for reply in &replies {
            assert_eq!(number(reply), 1, "{uses:?}");
            let outcome = reply.the("cache-status");
            let ttl = outcome.strip_prefix("grandstand; hit; ttl=").unwrap_or_else(|| panic!("{outcome}"));
            assert!((oldest..0).contains(&ttl.parse::<i64>().unwrap()), "{outcome}");
        }
        gate.add_permits(1);
        wait_until("the refresh lands", || async { number(&server.get(&target).await) == 2 }).await;
        let (number, _) = in_each_coding(&server, &target).await;
        assert_eq!((number, upstream.count_of(&target)), (2, 2), "{uses:?}: one refresh, whoever asked");
        let seen = &upstream.seen_of(&target)[1];
        assert_eq!(seen.header("if-none-match"), Some("\"1\""));
    })
    .await;
}

/// The origin says how long a stale answer is served at once; the configuration, if it does not.
#[tokio::test]
async fn the_window_of_stale_while_revalidate_is_the_origins_or_the_configured_one() {
    // Two seconds after an answer that is fresh for one: is it served before a new one is there?
    const CASES: [(&str, bool, bool); 7] = [
        ("max-age=1", false, true),
        ("max-age=1, stale-while-revalidate=60", true, true),
        ("max-age=1, stale-while-revalidate=0", false, false),
        ("max-age=1, stale-while-revalidate=60, must-revalidate", false, false),
        ("max-age=1, stale-while-revalidate=60, proxy-revalidate", false, false),
        ("max-age=1, stale-while-revalidate=60, s-maxage=1", false, false),
        ("max-age=60, stale-while-revalidate=60, no-cache", false, false),
    ];
    in_both(async |uses| {
        let by_configuration = async |configured: &str, stale: fn(&(&str, bool, bool)) -> bool| {
            let upstream = Upstream::start(|seen| match case_of(seen) {
                None => nothing(),
                Some(case) => answer(seen.nth, &[("cache-control", CASES[case].0), ("etag", "\"a\"")]),
            })
            .await;
            let setup = uses.setup(&upstream).set("cache.stale_while_revalidate", configured);
            let server = started(setup, uses).await;
            join_all((0..CASES.len()).map(async |case| assert_eq!(number(&server.get(&target(case)).await), 1))).await;
            pass(PAUSE).await;
            for (case, row) in CASES.iter().enumerate() {
                let reply = server.get(&target(case)).await;
                assert_eq!(number(&reply) == 1, stale(row), "{uses:?} {configured} {row:?}: {reply:?}");
                let told = if stale(row) { "grandstand; hit; ttl=-" } else { "grandstand; fwd=stale; fwd-status=200" };
                assert!(reply.the("cache-status").starts_with(told), "{row:?}: {reply:?}");
            }
        };
        tokio::join!(by_configuration("0s", |row| row.1), by_configuration("1m", |row| row.2));
    })
    .await;
}

/// A failed background refresh changes no kept answer, and is not retried by everybody.
#[tokio::test]
async fn a_background_refresh_that_fails_never_replaces_what_is_kept() {
    fn failures() -> [Script; 5] {
        [
            Script::new(500, "oops"),
            Script::new(200, "<html>not it</html>").with("cache-control", "max-age=3600"),
            Script::new(200, "{\"number\":7").with("cache-control", "max-age=3600"),
            Script::new(302, "").with("location", "/elsewhere"),
            Script::hang_up(),
        ]
    }
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
            (None, _) => nothing(),
            (_, 1) => answer(1, &[("cache-control", "max-age=1")]),
            (Some(case), _) => failures()[case].clone(),
        })
        .await;
        let setup = uses.setup(&upstream).set("cache.stale_while_revalidate", "1m");
        let server = started(setup, uses).await;
        join_all((0..failures().len()).map(async |case| {
            let target = target(case);
            assert_eq!(number(&server.get(&target).await), 1);
            pass(PAUSE).await;
            for _ in 0..40 {
                let reply = server.get(&target).await;
                assert_eq!(number(&reply), 1, "{uses:?} {case}");
                assert!(reply.the("cache-status").starts_with("grandstand; hit; ttl=-"), "{uses:?} {case}: {reply:?}");
                pass(Duration::from_millis(25)).await;
            }
            let count = upstream.count_of(&target);
            assert!((2..=5).contains(&count), "{uses:?} {case}: {count} requests in a second of failures");
        }))
        .await;
    })
    .await;
}

/// The `Age` of a stand-in grows past its freshness, and its confirmation resets it.
#[tokio::test]
async fn what_stood_in_is_confirmed_when_the_origin_is_back() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| {
            let fields: Fields<'_> = &[("cache-control", "max-age=1"), ("etag", "\"a\"")];
            match (case_of(seen), seen.nth) {
                (None, _) => nothing(),
                (_, 1) => answer(1, fields),
                (_, 2) => Script::new(503, ""),
                _ if seen.header("if-none-match") == Some("\"a\"") => with(Script::new(304, ""), fields),
                _ => Script::new(500, "no condition"),
            }
        })
        .await;
        let (server, target) = (uses.start(&upstream).await, target(0));
        assert_eq!(number(&server.get(&target).await), 1);
        pass(PAUSE).await;
        let stale = server.get(&target).await;
        assert_eq!(stale.the("cache-status"), "grandstand; fwd=stale; fwd-status=503; detail=stale-if-error");
        assert!(stale.age().unwrap() >= 2);
        let confirmed = server.get(&target).await;
        assert_eq!(confirmed.the("cache-status"), "grandstand; fwd=stale; fwd-status=304; stored", "{uses:?}");
        assert_eq!((number(&confirmed), confirmed.age()), (1, Some(0)));
    })
    .await;
}
