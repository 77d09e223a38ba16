//! Load that the origin never sees: one request for many clients, and a fairly shared budget.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::{CODINGS, Use, answer, case_of, in_both, nothing, number, pass, started, target};
use crate::client::Reply;
use crate::harness::{Script, Server, Upstream, quickest, wait_until};

#[tokio::test]
async fn a_thousand_clients_at_once_on_a_cold_key_make_one_request() {
    in_both(async |uses| {
        let gate = Arc::new(Semaphore::new(0));
        let held = gate.clone();
        let upstream = Upstream::start(move |seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600"), ("etag", "\"a\"")]).held_by(&held),
        })
        .await;
        // All of them are one household.
        let setup = uses.setup(&upstream).set("limits.connections_per_client", "2000");
        let server = started(setup, uses).await;
        for case in 0..2 {
            let target = target(case);
            let clients = (0..1_000).map(|client| {
                let and = if case == 0 { "&" } else { "?" };
                let fields = vec![("accept-encoding", CODINGS[client % 4]), ("cache-control", "no-cache")];
                (format!("{target}{and}utm={client}"), fields)
            });
            let replies = server.together(clients, || gate.add_permits(1)).await;
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
        let gate = Arc::new(Semaphore::new(0));
        let held = gate.clone();
        let upstream = Upstream::start(move |seen| match case_of(seen) {
            None => nothing(),
            Some(_) => answer(seen.nth, &[]).held_by(&held),
        })
        .await;
        let (server, target) = (uses.start(&upstream).await, target(0));
        let asked = || async { upstream.count_of(&target) > 0 };
        tokio::select! {
            _ = server.get(&target) => panic!("it is answered by nobody"),
            () = wait_until("the leader's request is at the origin", asked) => {}
        }
        // It left.
        let followers = (0..20).map(|_| (target.clone(), vec![]));
        let followers = server.together(followers, || gate.add_permits(1)).await;
        assert!(followers.iter().all(|reply| number(reply) == 1), "{followers:?}");
        assert_eq!((number(&server.get(&target).await), upstream.count_of(&target)), (1, 1), "{uses:?}");
    })
    .await;
}

/// Revalidation is no different: many clients that ask for a stale answer at once make one conditional request.
#[tokio::test]
async fn many_clients_at_once_on_a_stale_key_make_one_request() {
    in_both(async |uses| {
        let gate = Arc::new(Semaphore::new(0));
        let held = gate.clone();
        let upstream = Upstream::start(move |seen| match case_of(seen) {
            None => nothing(),
            Some(_) if seen.nth == 1 => answer(1, &[("cache-control", "max-age=1"), ("etag", "\"a\"")]),
            Some(_) => Script::new(304, "").with("cache-control", "max-age=60").held_by(&held),
        })
        .await;
        // With a stale answer at hand no client waits longer than two seconds.
        let setup = uses.setup(&upstream).set("cache.stale_if_error", "0s");
        let (server, target) = (started(setup, uses).await, target(1));
        server.ok(&target).await;
        pass(Duration::from_millis(1_100)).await;
        let clients = (0..200).map(|_| (target.clone(), vec![]));
        let replies = server.together(clients, || gate.add_permits(1)).await;
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

/// Asks for some resources at once; returns the replies, and how long each took.
async fn at_once(server: &Server, cases: std::ops::Range<usize>) -> Vec<(Reply, Duration)> {
    join_all(cases.map(async |case| {
        let asked = Instant::now();
        let reply = server.get(&target(case)).await;
        (reply, asked.elapsed())
    }))
    .await
}

#[tokio::test]
async fn reads_that_get_no_slot_in_time_are_refused_at_once_and_told_when_there_is_room() {
    let upstream = Upstream::start(|seen| match case_of(seen) {
        None => nothing(),
        Some(0) => answer(seen.nth, &[("cache-control", "max-age=1"), ("etag", "\"a\"")]),
        Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600")]),
    })
    .await;
    let started = Instant::now();
    let server = spent(&upstream, 6, "10s").await;
    let replies = at_once(&server, 10..40).await;
    for (reply, _) in &replies {
        // A slot frees 60 s after its answer: a waiting client would have got it.
        reply.assert_problem(503, &["budget"]);
        let honest: u64 = reply.the("retry-after").parse().unwrap();
        let earliest = 60 - started.elapsed().as_secs().min(60);
        assert!((earliest.saturating_sub(1)..=61).contains(&honest), "{honest}, not before {earliest}");
    }
    assert_eq!(upstream.count(), 6, "none of them reached the origin");
    let waited = replies.iter().map(|(_, waited)| *waited).min().unwrap();
    assert!(waited < Duration::from_secs(2), "no slot comes within ten seconds, and the first waited {waited:?}");
    pass(Duration::from_millis(1_100)).await;
    // Kept answers are served: fresh or, without a wait, stale.
    assert!(server.ok(&target(1)).await.the("cache-status").starts_with("grandstand; hit; ttl="));
    let waited = quickest(async || {
        let stale = server.ok(&target(0)).await;
        assert_eq!(stale.the("cache-status"), "grandstand; fwd=stale; detail=stale-if-error");
    });
    assert!(waited.await < Duration::from_secs(1), "who has something at hand waits");
}

/// Lasts a minute, because the budget's window does.
#[tokio::test]
async fn as_many_reads_wait_as_slots_come_in_time() {
    let upstream = Upstream::start(|seen| match case_of(seen) {
        None => nothing(),
        Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600")]),
    })
    .await;
    let server = spent(&upstream, 3, "20s").await;
    let refused = server.get(&target(10)).await;
    refused.assert_problem(503, &["budget"]);
    let told = Duration::from_secs(refused.the("retry-after").parse().unwrap());
    pass(told.saturating_sub(Duration::from_secs(5))).await;
    let replies = at_once(&server, 20..26).await;
    let (answered, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(|(reply, _)| reply.status == 200);
    assert_eq!((answered.len(), upstream.count()), (3, 6), "{refused:?}");
    let waited = |some: &[(Reply, Duration)]| some.iter().map(|one| one.1).min().unwrap();
    assert!(waited(&answered) > Duration::from_secs(2), "they waited for their slots: {answered:?}");
    assert!(waited(&refused) < waited(&answered), "the others were not kept waiting: {refused:?}");
    assert!(refused.iter().all(|(reply, _)| reply.status == 503), "{refused:?}");
}

/// Lasts a minute, too.
#[tokio::test]
async fn what_several_households_were_refused_is_fetched_before_they_come_back() {
    let upstream = Upstream::start(|seen| match case_of(seen) {
        None => nothing(),
        Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600")]),
    })
    .await;
    let setup = Use::Shield.setup(&upstream).set("origin.requests_per_minute", "4");
    let setup = setup.set("client_ip.trusted_proxies", r#"["127.0.0.0/8"]"#).set("origin.wait", "1s");
    let server = started(setup, Use::Shield).await;
    for case in 0..4 {
        assert_eq!(number(&server.get(&target(case)).await), 1);
    }
    let refused = async |case: usize, client: &str| {
        let reply = server.get_with(&target(case), &[("x-forwarded-for", client)]).await;
        reply.assert_problem(503, &["budget"]);
    };
    for case in 20..40 {
        refused(case, "192.0.2.1").await;
    }
    for client in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        refused(10, client).await;
    }
    pass(Duration::from_secs(50)).await;
    assert_eq!(upstream.count(), 4, "no slot is free");
    let fetched = || async { upstream.count_of(&target(10)) == 1 };
    wait_until("it is fetched although nobody asks any more", fetched).await;
    let found = || async { server.get(&target(10)).await.status == 200 };
    wait_until("it is in the cache", found).await;
    let reply = server.get_with(&target(10), &[("x-forwarded-for", "192.0.2.1")]).await;
    assert!(reply.the("cache-status").starts_with("grandstand; hit; ttl="), "{reply:?}");
    let others: u64 = (20..40).map(|case| upstream.count_of(&target(case)) as u64).sum();
    assert_eq!(others, 0, "what one household was refused is fetched when it asks again");
}

/// Lasts a minute, too. One household fills the queue and shares its last read with others; a newcomer overtakes it.
#[tokio::test]
async fn no_client_is_refused_because_the_one_whose_fetch_it_shares_is() {
    let upstream = Upstream::start(|seen| match case_of(seen) {
        None => nothing(),
        Some(_) => answer(seen.nth, &[("cache-control", "max-age=3600")]),
    })
    .await;
    let setup = Use::Shield.setup(&upstream).set("origin.requests_per_minute", "12");
    let setup = setup.set("client_ip.trusted_proxies", r#"["127.0.0.0/8"]"#).set("origin.wait", "20s");
    let server = started(setup, Use::Shield).await;
    let ask = async |case: usize, client: &str| server.get_with(&target(case), &[("x-forwarded-for", client)]).await;
    for case in 0..12 {
        assert_eq!(number(&ask(case, "192.0.2.9").await), 1);
    }
    let told = ask(13, "192.0.2.9").await;
    told.assert_problem(503, &["budget"]);
    let told = Duration::from_secs(told.the("retry-after").parse().unwrap());
    pass(told.saturating_sub(Duration::from_secs(10))).await;
    let waiting = async |many: u64| {
        let waits = || async { server.status().await["origin"]["budget"]["waiting"] == many };
        wait_until("the reads wait", waits).await;
    };
    let (greedy, guest, newcomer) = ("192.0.2.1", "192.0.2.2", "192.0.2.3");
    let (_, leader, _, shares, overtakes) = tokio::join!(
        join_all((20..31).map(|case| ask(case, greedy))),
        async {
            waiting(11).await;
            ask(31, greedy).await
        },
        async {
            waiting(12).await;
            join_all((0..8).map(|_| ask(31, greedy))).await
        },
        async {
            waiting(12).await;
            ask(31, guest).await
        },
        async {
            waiting(12).await;
            // The others have joined by now, most likely; if not, they ask for themselves.
            pass(Duration::from_secs(1)).await;
            ask(32, newcomer).await
        },
    );
    leader.assert_problem(503, &["budget"]);
    assert_eq!((number(&overtakes), number(&shares)), (1, 1), "each has a place of its own");
    assert_eq!(upstream.count_of(&target(31)), 1);
}

#[tokio::test]
async fn reads_wait_while_the_origin_wants_to_be_left_alone_and_are_then_answered() {
    let upstream = Upstream::start(|seen| match (case_of(seen), seen.nth) {
        (Some(0), 1) => Script::new(429, "").with("retry-after", "2"),
        _ => answer(seen.nth, &[]),
    })
    .await;
    let server = started(Use::Shield.setup(&upstream).set("origin.wait", "30s"), Use::Shield).await;
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
        (Some(0), _) => Script::new(429, "").with("retry-after", "30"),
        _ => answer(seen.nth, &[]),
    })
    .await;
    let server = started(Use::Shield.setup(&upstream).set("origin.wait", "5s"), Use::Shield).await;
    server.get(&target(0)).await.assert_problem(503, &["429"]);
    let refused = Instant::now();
    let waited = quickest(async || {
        let reply = server.get(&target(1)).await;
        reply.assert_problem(503, &[]);
        let left = 29_u64.saturating_sub(refused.elapsed().as_secs());
        assert!((left.saturating_sub(1)..=30).contains(&reply.the("retry-after").parse().unwrap()), "{reply:?}");
    });
    let waited = waited.await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert_eq!(upstream.count(), 1, "the origin is left alone");
}
