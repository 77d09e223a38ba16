//! Load that the origin never sees: many clients, one request; and a budget that is shared fairly.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::{CODINGS, Use, answer, case_of, in_both, nothing, number, pass, started, target};
use crate::harness::{Server, Upstream, wait_until};

#[tokio::test]
async fn a_thousand_clients_at_once_on_a_cold_key_make_one_request() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600"), ("etag", "\"a\"")])
                .after(Duration::from_millis(1_500)),
        })
        .await;
        let server = uses.start(&upstream).await;
        for case in 0..2 {
            let target = target(case);
            let replies = join_all((0..1_000).map(|client| {
                let (server, target) = (&server, &target);
                async move {
                    let coding = [("accept-encoding", CODINGS[client % 4]), ("cache-control", "no-cache")];
                    server
                        .get_with(&format!("{target}{}utm={client}", if case == 0 { "&" } else { "?" }), &coding)
                        .await
                }
            }))
            .await;
            assert!(replies.iter().all(|reply| number(reply) == 1 && reply.etag() == "W/\"a\""));
            assert_eq!(upstream.count_of(&target), 1, "{uses:?}");
            let told = |text: &str| replies.iter().filter(|reply| reply.the("cache-status").contains(text)).count();
            assert_eq!(told("grandstand; fwd=uri-miss; fwd-status=200; stored"), told("fwd="));
            assert_eq!(told("fwd=") - told("; collapsed"), 1, "one of them asked");
            assert!(told("; stored; collapsed") > 500, "{}", told("collapsed"));
        }
    })
    .await;
}

#[tokio::test]
async fn the_client_that_asked_first_leaves_and_the_others_are_served_with_the_same_request() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.nth, &[]).after(Duration::from_millis(900)),
        })
        .await;
        let (server, target) = (uses.start(&upstream).await, target(0));
        let leader = tokio::time::timeout(Duration::from_millis(400), server.get(&target));
        let followers = join_all((0..20).map(async |_| {
            wait_until("the leader's request is at the origin", || async { upstream.count_of(&target) > 0 }).await;
            server.get(&target).await
        }));
        let (leader, followers) = tokio::join!(leader, followers);
        assert!(leader.is_err(), "it left");
        assert!(followers.iter().all(|reply| number(reply) == 1), "{followers:?}");
        assert_eq!((number(&server.get(&target).await), upstream.count_of(&target)), (1, 1), "{uses:?}");
    })
    .await;
}

/// A key that is revalidated is no different: many who ask at once for what is stale make one conditional request.
#[tokio::test]
async fn many_clients_at_once_on_a_stale_key_make_one_request() {
    in_both(async |uses| {
        let upstream = Upstream::start(|seen| match case_of(seen) {
            None => nothing(),
            Some(_) if seen.nth == 1 => answer(1, &[("cache-control", "max-age=1"), ("etag", "\"a\"")]),
            Some(_) => crate::harness::Script::new(304, "")
                .with("cache-control", "max-age=60")
                .after(Duration::from_millis(600)),
        })
        .await;
        let (server, target) = (uses.start(&upstream).await, target(1));
        server.ok(&target).await;
        pass(Duration::from_millis(1_100)).await;
        let replies = join_all((0..200).map(|_| server.get(&target))).await;
        assert!(replies.iter().all(|reply| number(reply) == 1));
        assert_eq!(upstream.count_of(&target), 2, "{uses:?}");
        let told: Vec<_> = replies.iter().map(|reply| reply.the("cache-status")).collect();
        let collapsed = "grandstand; fwd=stale; fwd-status=304; stored; collapsed";
        assert!(told.iter().filter(|told| *told == collapsed).count() > 100, "{told:?}");
        assert_eq!(told.iter().filter(|told| *told == "grandstand; fwd=stale; fwd-status=304; stored").count(), 1);
    })
    .await;
}

/// A shield with a budget of so many requests a minute, all of them spent.
async fn spent(upstream: &Upstream, budget: usize, wait: &str) -> Server {
    let setup = Use::Shield.setup(upstream).set("origin.requests_per_minute", &budget.to_string());
    let server = started(setup.set("origin.wait", wait), Use::Shield).await;
    for case in 0..budget {
        assert_eq!(number(&server.get(&target(case)).await), 1);
    }
    server
}

#[tokio::test]
async fn reads_past_the_budget_wait_for_a_bounded_time_and_are_told_when_there_is_room() {
    let upstream = Upstream::start(|seen| match case_of(seen) {
        None => nothing(),
        Some(0) => answer(seen.nth, &[("cache-control", "max-age=1"), ("etag", "\"a\"")]),
        Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600")]),
    })
    .await;
    let started = Instant::now();
    let server = spent(&upstream, 6, "2s").await;
    let asked = Instant::now();
    let replies = join_all((10..40).map(async |case| {
        let reply = server.get(&target(case)).await;
        (reply, asked.elapsed())
    }))
    .await;
    for (reply, waited) in &replies {
        reply.assert_problem(503, &["budget"]);
        assert!((Duration::from_millis(1_900)..Duration::from_secs(4)).contains(waited), "{waited:?}");
        // A slot frees 60 s after its answer, and not before.
        let honest: u64 = reply.the("retry-after").parse().unwrap();
        let earliest = 60 - started.elapsed().as_secs().min(60);
        assert!((earliest.saturating_sub(1)..=60).contains(&honest), "{honest}, not before {earliest}");
    }
    assert_eq!(upstream.count(), 6, "none of them reached the origin");
    // What is kept is served all the same: fresh or, without a wait, stale.
    let asked = Instant::now();
    assert!(server.ok(&target(1)).await.the("cache-status").starts_with("grandstand; hit; ttl="));
    let stale = server.ok(&target(0)).await;
    assert_eq!(stale.the("cache-status"), "grandstand; fwd=stale; detail=stale-if-error");
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn reads_wait_while_the_origin_wants_to_be_left_alone_and_are_then_answered() {
    let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
        (Some(0), 1) => crate::harness::Script::new(429, "").with("retry-after", "2"),
        _ => answer(seen.nth, &[]),
    })
    .await;
    let server = started(Use::Shield.setup(&upstream).set("origin.wait", "8s"), Use::Shield).await;
    let refused = Instant::now();
    let reply = server.get(&target(0)).await;
    reply.assert_problem(503, &["429"]);
    assert_eq!(reply.the("retry-after"), "2", "what the origin says");
    let replies = join_all((1..6).map(async |case| {
        // One after the other, in this order.
        pass(Duration::from_millis(60 * case as u64)).await;
        server.get(&target(case)).await
    }))
    .await;
    assert!(replies.iter().all(|reply| number(reply) == 1), "they waited for it: {replies:?}");
    assert!(refused.elapsed() >= Duration::from_millis(1_900), "the origin was left alone as long as it asked");
    let at: Vec<_> = upstream.seen().iter().skip(1).map(|seen| seen.at).collect();
    assert!(at.iter().all(|at| at.duration_since(refused) >= Duration::from_millis(1_900)), "{at:?}");
    assert_eq!(at.len(), 5, "one request each");
}

/// A wait that could not end in time is not begun.
#[tokio::test]
async fn nobody_waits_for_a_pause_that_is_longer_than_their_patience() {
    let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
        (Some(0), _) => crate::harness::Script::new(429, "").with("retry-after", "30"),
        _ => answer(seen.nth, &[]),
    })
    .await;
    let server = started(Use::Shield.setup(&upstream).set("origin.wait", "5s"), Use::Shield).await;
    server.get(&target(0)).await.assert_problem(503, &["429"]);
    let asked = Instant::now();
    let reply = server.get(&target(1)).await;
    reply.assert_problem(503, &[]);
    assert!((28..=30).contains(&reply.the("retry-after").parse::<u64>().unwrap()), "{reply:?}");
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!(upstream.count(), 1, "the origin is left alone");
}
