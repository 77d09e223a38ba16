//! The origin fails: kept answers stand in, others are an honest error, and its return is noticed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{Use, answer, case_of, document, in_both, nothing, number, pass, started, target};
use crate::client::Reply;
use crate::harness::{Script, Upstream, soon, wait_until};

/// Reads are retried as other requests are: the connection had been idle, and nothing was done.
#[tokio::test]
async fn a_connection_that_the_origin_closes_between_two_reads_is_not_noticed() {
    let origin = Upstream::start(|_| answer(1, &[])).await;
    let server = Use::Shield.start(&origin).await;
    let used = parking_lot::Mutex::new(HashSet::new());
    origin.answers(move |seen| if used.lock().insert(seen.connection) { answer(1, &[]) } else { Script::hang_up() });
    let before = origin.count();
    let mut read = 0;
    // The last connection may not be back in the pool yet.
    wait_until("a read meets a connection that is closed under it", || {
        read += 1;
        let (read, server, origin) = (read, &server, &origin);
        async move {
            let reply = server.get(&target(read)).await;
            assert_eq!(number(&reply), 1, "{read}: {:?}", server.status().await["last_error"]);
            origin.count() - before > read
        }
    })
    .await;
}

const PAUSE: Duration = Duration::from_millis(1_200);

/// Ways to fail, and the status without a kept answer: 503 for no answer, 502 for a bad one.
fn failures() -> Vec<(&'static str, Script, u16)> {
    let json = |body: &str| Script::new(200, body.to_owned()).with("content-type", "application/json");
    let long = Duration::from_secs(20);
    vec![
        ("500", Script::new(500, document(9)).with("cache-control", "max-age=3600"), 503),
        ("502", Script::new(502, ""), 503),
        ("503", Script::new(503, "").with("cache-control", "public, max-age=3600"), 503),
        ("504", Script::new(504, ""), 503),
        ("599", Script::new(599, ""), 503),
        ("no answer", Script::hang(), 503),
        ("half a head, then nothing", Script::new(200, "").after(long), 503),
        ("a body that never ends", json("{").then(long, "}"), 503),
        ("reset", Script::reset(), 503),
        ("closed", Script::hang_up(), 503),
        ("truncated", Script::new(200, r#"{"number":9}"#).announced(5_000), 502),
        ("html", Script::new(200, "<html>maintenance</html>").with("cache-control", "max-age=3600"), 502),
        ("half a document", json("{\"number\":9,").with("cache-control", "max-age=3600"), 502),
        ("nothing", json(""), 502),
        ("no text", Script::new(200, vec![0xff, 0xfe, 0x7b]), 502),
        ("too large", json(&format!("\"{}\"", "x".repeat(2 << 20))), 502),
        ("false gzip", json("{}").with("content-encoding", "gzip"), 502),
        ("redirect elsewhere", Script::new(301, "").with("location", "http://127.0.0.1:1/"), 502),
        ("redirect here", Script::new(302, "").with("location", "/api/listings.json?sport=case-1000"), 502),
        ("redirect nowhere", Script::new(307, ""), 502),
        ("forbidden", Script::new(403, document(9)).with("cache-control", "max-age=3600"), 502),
        ("created", Script::new(201, document(9)), 502),
        ("a part", Script::new(206, document(9)).with("content-range", "bytes 0-5/6"), 502),
        ("no content", Script::new(204, ""), 502),
    ]
}

/// An origin whose case answers well once, and then fails in its way; later cases fail from the start.
async fn failing(kept: usize) -> Upstream {
    Upstream::start(move |seen| match (case_of(seen), seen.nth) {
        (None, _) => nothing(),
        (Some(1000), _) => answer(1000, &[]),
        (Some(case), 1) if case < kept => answer(1, &[("cache-control", "max-age=1"), ("etag", "\"a\"")]),
        (Some(case), _) => failures()[case % kept].1.clone(),
    })
    .await
}

/// Each way in a shield of its own: together they would be one outage, in which the origin is hardly asked.
async fn under_each_failure(uses: Use, test: impl AsyncFn(&str, &crate::harness::Server, &Upstream, usize, u16)) {
    let failures = failures();
    let many = failures.len();
    for some in failures.iter().enumerate().collect::<Vec<_>>().chunks(8) {
        join_all(some.iter().map(async |(case, (name, _, status))| {
            let upstream = failing(many).await;
            let setup = uses.setup(&upstream).set("origin.timeout", "1s").set("origin.max_body", "1MiB");
            test(name, &started(setup, uses).await, &upstream, *case, *status).await;
        }))
        .await;
    }
}

#[tokio::test]
async fn whatever_the_origin_does_a_good_answer_stands_in_and_is_never_replaced_by_a_bad_one() {
    under_each_failure(Use::Shield, async |name, server, upstream, case, status| {
        let target = target(case);
        let first = server.ok(&target).await;
        assert_eq!(number(&first), 1);
        pass(PAUSE).await;
        for coding in ["gzip", "identity", "br"] {
            let stale = server.get_with(&target, &[("accept-encoding", coding)]).await;
            assert_eq!((number(&stale), stale.decoded()), (1, first.body.to_vec()), "{name}");
            assert_eq!(stale.the("cache-control"), "max-age=1", "{name}");
            assert!(stale.age().unwrap() >= 1, "{name}: {stale:?}");
            let outcome = stale.the("cache-status");
            assert!(outcome.starts_with("grandstand; fwd=stale; "), "{name}: {outcome}");
            assert!(outcome.ends_with("detail=stale-if-error"), "{name}: {outcome}");
        }
        // A 304 stands for the good one, too.
        let unchanged = server.get_with(&target, &[("if-none-match", "\"a\"")]).await;
        assert_eq!(unchanged.status, 304, "{name}");
        // A resource never seen is an error.
        let other = super::target(case + failures().len());
        let error = server.get(&other).await;
        assert_eq!(error.status, status, "{name}: {error:?}");
        error.assert_problem(status, &[]);
        assert_eq!(status == 503, error.header("retry-after").is_some(), "{name}");
        assert!(!error.text().contains("127.0.0.1"), "{name}");
        assert_eq!(upstream.count_of("/api/listings.json?sport=case-1000"), 0, "{name}: no redirect is followed");
        // It is well again: the answer is confirmed or replaced.
        upstream.answers(|seen| answer(seen.number, &[("cache-control", "max-age=60"), ("etag", "\"b\"")]));
        soon("the return of the origin shows", || async { server.get(&target).await.etag() == "W/\"b\"" }).await;
    })
    .await;
}

#[tokio::test]
async fn in_a_mirror_that_has_no_snapshot_yet_it_is_the_same() {
    in_both(async |uses| {
        let upstream = failing(failures().len()).await;
        let setup = uses.setup(&upstream).set("origin.timeout", "1s").set("origin.max_body", "1MiB");
        let server = started(setup, uses).await;
        let cases = 0..failures().len();
        let get = async |case| server.get(&target(case)).await;
        assert!(join_all(cases.clone().map(get)).await.iter().all(|reply| number(reply) == 1));
        pass(PAUSE).await;
        for (case, reply) in join_all(cases.map(get)).await.iter().enumerate() {
            assert_eq!(number(reply), 1, "{uses:?} {}", failures()[case].0);
            assert!(reply.the("cache-status").ends_with("detail=stale-if-error"), "{reply:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn beyond_stale_if_error_a_failure_shows() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
            (None, _) => nothing(),
            (_, 1) => answer(1, &[("cache-control", "max-age=1")]),
            (Some(0), _) => Script::new(503, "").with("retry-after", "1"),
            _ => Script::new(200, "<html>"),
        })
        .await;
        let server = started(uses.setup(&upstream).set("cache.stale_if_error", "1s"), uses).await;
        for case in [1, 0] {
            assert_eq!(number(&server.get(&target(case)).await), 1);
        }
        pass(Duration::from_millis(2_100)).await;
        for (case, status) in [(1, 502), (0, 503)] {
            server.get(&target(case)).await.assert_problem(status, &[]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_429_is_heeded_and_what_is_kept_stands_in_without_a_wait() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
            (None, _) => nothing(),
            (_, 1) => answer(1, &[("cache-control", "max-age=1")]),
            _ => Script::new(429, "").with("retry-after", "3"),
        })
        .await;
        let server = uses.start(&upstream).await;
        for case in 0..4 {
            assert_eq!(number(&server.get(&target(case)).await), 1);
        }
        pass(PAUSE).await;
        // The pause ends three seconds after this, or later.
        let since = Instant::now();
        let refused = server.get(&target(0)).await;
        assert_eq!(refused.the("cache-status"), "grandstand; fwd=stale; fwd-status=429; detail=stale-if-error");
        let count = upstream.count();
        wait_until("it is asked again", || async {
            for case in 0..4 {
                let stale = server.get(&target(case)).await;
                assert_eq!(number(&stale), 1);
                let told = stale.the("cache-status");
                let waits = told == "grandstand; fwd=stale; detail=stale-if-error";
                assert!(waits || since.elapsed() >= Duration::from_secs(3), "{uses:?}: {told}");
            }
            upstream.count() > count
        })
        .await;
        let again = upstream.seen()[count].at.duration_since(since);
        assert!(again >= Duration::from_secs(3), "{uses:?}: asked again after {again:?}");
    })
    .await;
}

/// An outage under load: the origin is tried by one request at a time, and its return shows.
#[tokio::test]
async fn a_dead_origin_is_tried_gently_and_its_return_is_noticed_within_seconds() {
    in_both(async |uses| {
        let good = |seen: &crate::harness::Seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.number, &[("cache-control", "max-age=1")]),
        };
        let upstream = Upstream::start(good).await;
        let server = uses.start(&upstream).await;
        for case in 0..50 {
            assert_eq!(server.get(&target(case)).await.status, 200);
        }
        pass(PAUSE).await;
        upstream.answers(|_| Script::hang_up());
        upstream.forget();
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            // Kept and unknown ones; nobody waits for the latter here.
            let kept = join_all((0..50).map(async |case| server.get(&target(case)).await)).await;
            assert!(kept.iter().all(|reply: &Reply| reply.status == 200), "{kept:?}");
        }
        let tried = upstream.count();
        assert!(tried <= 80, "{uses:?}: {tried} tries in 4 s of outage");
        assert!(tried >= 2, "{uses:?}: it is tried");
        upstream.answers(good);
        soon("everything is fresh again", || async {
            let replies = join_all((0..50).map(async |case| server.get(&target(case)).await)).await;
            replies.iter().any(|reply| !reply.the("cache-status").contains("stale-if-error"))
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_connection_is_an_outage_like_any_other_and_the_return_is_noticed() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.number, &[("cache-control", "max-age=1")]),
        })
        .await;
        let server = uses.start(&upstream).await;
        let target = target(0);
        let first = server.ok(&target).await;
        pass(PAUSE).await;
        upstream.go_down().await;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            let stale = server.get(&target).await;
            assert_eq!(stale.body, first.body, "{uses:?}");
            assert_eq!(stale.the("cache-status"), "grandstand; fwd=stale; detail=stale-if-error");
            pass(Duration::from_millis(10)).await;
        }
        upstream.come_back();
        soon("its return shows", || async { server.get(&target).await.body != first.body }).await;
    })
    .await;
}

#[tokio::test]
async fn one_resource_that_hangs_is_no_outage_of_the_others() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(0) => Script::hang(),
            Some(_) => answer(seen.nth, &[]),
        })
        .await;
        // Without patience: a read that waits for anything is answered 503.
        let setup = uses.setup(&upstream).set("origin.timeout", "2s").set("origin.wait", "0s");
        let server = started(setup, uses).await;
        let hangs = AtomicBool::new(true);
        let hanging = async {
            for _ in 0..3 {
                server.get(&target(0)).await.assert_problem(503, &[]);
                pass(Duration::from_millis(100)).await;
            }
            hangs.store(false, Ordering::SeqCst);
        };
        let others = async {
            let mut case = 0;
            while hangs.load(Ordering::SeqCst) || case < 50 {
                case += 1;
                assert_eq!(number(&server.get(&target(case)).await), 1, "{uses:?}");
                pass(Duration::from_millis(100)).await;
            }
        };
        tokio::join!(hanging, others);
        let tried = upstream.count_of(&target(0));
        assert!((2..=3).contains(&tried), "{uses:?}: {tried}");
    })
    .await;
}

#[tokio::test]
async fn one_resource_that_wants_to_be_left_alone_stops_no_other() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(0) => Script::new(503, "").with("retry-after", "3600"),
            Some(_) => answer(seen.nth, &[]),
        })
        .await;
        let server = uses.start(&upstream).await;
        for case in 1..20 {
            let refused = server.get(&target(0)).await;
            refused.assert_problem(503, &[]);
            assert!(refused.the("retry-after").parse::<u64>().unwrap() > 200, "{uses:?}: {refused:?}");
            assert_eq!(number(&server.get(&target(case)).await), 1, "{uses:?}");
        }
        assert_eq!(upstream.count_of(&target(0)), 1, "{uses:?}: that one is left alone");
    })
    .await;
}

/// An origin that answers only errors is as dead as one that does not answer: the budget is not spent on it.
#[tokio::test]
async fn an_origin_that_answers_errors_to_everything_is_tried_gently_and_its_return_is_noticed() {
    let good = |seen: &crate::harness::Seen| answer(seen.number, &[("cache-control", "max-age=1")]);
    let upstream = Upstream::start(good).await;
    let setup = Use::Shield.setup(&upstream).set("origin.requests_per_minute", "60").set("origin.wait", "1s");
    let server = started(setup, Use::Shield).await;
    for case in 0..20 {
        assert_eq!(server.get(&target(case)).await.status, 200);
    }
    pass(PAUSE).await;
    let state = async || server.status().await["origin"]["state"].as_str().unwrap().to_owned();
    assert_eq!(state().await, "answering");
    upstream.answers(|_| Script::new(500, ""));
    upstream.forget();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(15) {
        let kept = join_all((0..20).map(async |case| server.get(&target(case)).await)).await;
        assert!(kept.iter().all(|reply: &Reply| reply.status == 200), "{kept:?}");
        pass(Duration::from_millis(20)).await;
    }
    let tried = upstream.count();
    assert_eq!(state().await, "could-not-be-asked");
    // Up to twenty may be on the wire before the first of them has failed.
    assert!((4..=26).contains(&tried), "{tried} tries in 15 s of outage");
    upstream.answers(good);
    soon("something is fresh again", || async {
        let replies = join_all((0..20).map(async |case| server.get(&target(case)).await)).await;
        replies.iter().any(|reply| !reply.the("cache-status").contains("stale-if-error"))
    })
    .await;
    assert_eq!(state().await, "answering");
}
