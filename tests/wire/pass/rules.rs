//! RFC 9111 on unknown paths, as clients and the origin see it: requests, their number, and answers.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::{PATH, asked, kept, shield};
use crate::harness::{PATIENCE, Script, Server, Setup, Upstream, each, soon, wait_until};

/// An answer with this `Cache-Control` and a validator.
fn tagged(control: &str, body: &str) -> Script {
    Script::new(200, body.to_owned()).with("Cache-Control", control).with("ETag", format!("\"{body}\""))
}

async fn all_at_once(server: &Server, count: usize, headers: &[(&str, &str)]) -> Vec<crate::client::Reply> {
    join_all((0..count).map(|_| server.get_with(PATH, headers))).await
}

#[tokio::test]
async fn two_hundred_clients_on_a_cold_key_make_one_request() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = shield({
        let gate = gate.clone();
        move |_| kept("here").held_by(&gate)
    })
    .await;
    let clients = async {
        asked(&origin, 1).await;
        gate.add_permits(1);
    };
    let (replies, ()) = tokio::join!(all_at_once(&server, 200, &[]), clients);
    assert!(replies.iter().all(|reply| reply.status == 200 && reply.text() == "here"));
    assert_eq!(origin.count(), 1);
    let collapsed = replies.iter().filter(|reply| reply.the("cache-status").contains("collapsed")).count();
    let hits = replies.iter().filter(|reply| reply.the("cache-status").contains("; hit")).count();
    assert!(collapsed > 0 && collapsed + hits == 199, "{collapsed} collapsed, {hits} hits");
}

#[tokio::test]
async fn what_says_nothing_of_its_freshness_is_shared_by_those_who_wait_and_stands_in_for_a_failing_origin() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = shield({
        let gate = gate.clone();
        move |_| Script::new(200, "bare").held_by(&gate)
    })
    .await;
    let replies = server.together((0..60).map(|_| (PATH.to_owned(), vec![])), || gate.add_permits(100)).await;
    assert!(replies.iter().all(|reply| reply.text() == "bare"));
    assert!(origin.count() <= 3, "{} requests: one that has been read may miss the first", origin.count());
    let before = origin.count();
    server.ok(PATH).await;
    assert_eq!(origin.count(), before + 1, "never used again without asking");
    origin.go_down().await;
    let reply = server.ok(PATH).await;
    assert_eq!(reply.text(), "bare");
    assert!(reply.the("cache-status").contains("stale-if-error"), "{reply:?}");
}

#[tokio::test]
async fn what_is_missing_is_not_asked_for_again_at_once() {
    let (origin, server) = shield(|_| Script::new(404, "nothing here")).await;
    for _ in 0..5 {
        let reply = server.get(PATH).await;
        assert_eq!((reply.status, reply.text()), (404, "nothing here"));
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn a_failure_is_shared_by_all_who_waited_for_it() {
    for stale in [true, false] {
        let gate = Arc::new(Semaphore::new(0));
        let (origin, server) = shield(|_| tagged("max-age=0", "good")).await;
        if stale {
            server.ok(PATH).await;
        }
        origin.answers({
            let gate = gate.clone();
            move |_| Script::new(503, "down").held_by(&gate)
        });
        origin.forget();
        let clients = (0..50).map(|_| (PATH.to_owned(), vec![]));
        let replies = server.together(clients, || gate.add_permits(1000)).await;
        if stale {
            assert!(replies.iter().all(|reply| reply.text() == "good"));
        } else {
            assert!(replies.iter().all(|reply| reply.status == 503), "{replies:?}");
        }
        // One that has been read may miss the first.
        assert!(origin.count() <= 3, "{} requests to an origin that fails", origin.count());
    }
}

#[tokio::test]
async fn a_clients_no_cache_is_heeded_once_per_resource_in_a_while() {
    let (origin, server) = shield(|seen| match seen.header("if-none-match") {
        Some(_) => Script::new(304, "").with("Cache-Control", "max-age=3600"),
        None => tagged("max-age=3600", "one"),
    })
    .await;
    server.ok(PATH).await;
    for (number, headers) in
        [("cache-control", "no-cache"), ("cache-control", "max-age=0"), ("pragma", "no-cache")].iter().enumerate()
    {
        let target = format!("{PATH}?{number}");
        server.ok(&target).await;
        origin.forget();
        let get = || server.get_with(&target, std::slice::from_ref(headers));
        let replies = join_all((0..50).map(|_| get())).await;
        assert!(replies.iter().all(|reply| reply.status == 200 && reply.text() == "one"), "{replies:?}");
        assert_eq!(origin.count(), 1, "{headers:?}: one revalidation for all of them");
        assert_eq!(origin.seen()[0].header("if-none-match"), Some("\"one\""));
        let requested = replies.iter().filter(|reply| reply.the("cache-status").contains("fwd=request")).count();
        assert!(requested >= 1, "{replies:?}");
        get().await;
        assert_eq!(origin.count(), 1, "{headers:?}: not again so soon");
    }
    server.get_with(PATH, &[("cache-control", "no-cache")]).await;
    assert_eq!(origin.count(), 2, "another resource has its own");
}

#[tokio::test]
async fn only_if_cached_never_reaches_the_origin() {
    let (origin, server) = shield(|_| kept("x")).await;
    let only = [("cache-control", "only-if-cached")];
    server.get_with(PATH, &only).await.assert_problem(504, &[]);
    assert_eq!(origin.count(), 0);
    server.ok(PATH).await;
    assert_eq!(server.get_with(PATH, &only).await.text(), "x");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn max_stale_takes_what_is_stale_unless_the_origin_forbids_it() {
    for (control, taken) in [("max-age=0", true), ("max-age=0, must-revalidate", false), ("s-maxage=0", false)] {
        let (origin, server) = shield(move |seen| match seen.header("if-none-match") {
            Some(_) => Script::new(304, ""),
            None => tagged(control, "old"),
        })
        .await;
        server.ok(PATH).await;
        let reply = server.get_with(PATH, &[("cache-control", "max-stale")]).await;
        assert_eq!(reply.text(), "old");
        assert_eq!(origin.count(), if taken { 1 } else { 2 }, "{control}: {reply:?}");
        server.ok(PATH).await;
        assert_eq!(origin.count(), if taken { 2 } else { 3 }, "{control}: others still ask");
    }
}

#[tokio::test]
async fn a_request_with_no_store_leaves_nothing_behind_and_spoils_nothing() {
    let (origin, server) = shield(|_| kept("x")).await;
    let no_store = [("cache-control", "no-store")];
    for _ in 0..2 {
        server.get_with(PATH, &no_store).await;
    }
    assert_eq!(origin.count(), 2, "not kept");
    let replies = all_at_once(&server, 50, &[]).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!(origin.count(), 3, "others still share one fetch");
}

#[tokio::test]
async fn what_one_client_asks_for_alone_does_not_make_the_resource_private() {
    for headers in [
        &[("range", "bytes=0-1")][..],
        &[("cookie", "session=1")],
        &[("authorization", "Bearer secret")],
        &[("cache-control", "no-store")],
    ] {
        let gate = Arc::new(Semaphore::new(1));
        let (origin, server) = shield({
            let gate = gate.clone();
            move |seen| match seen.header("range") {
                Some(_) => Script::new(206, "no").with("Content-Range", "bytes 0-1/4").held_by(&gate),
                None => kept("none").held_by(&gate),
            }
        })
        .await;
        server.get_with(PATH, headers).await;
        let release = async {
            asked(&origin, 2).await;
            gate.add_permits(1000);
        };
        let (replies, ()) = tokio::join!(all_at_once(&server, 50, &[]), release);
        assert!(replies.iter().all(|reply| reply.text() == "none"), "{headers:?}");
        assert_eq!(origin.count(), 2, "{headers:?}: the others still share one fetch");
    }
}

#[tokio::test]
async fn an_answer_that_is_private_for_the_fields_of_one_client_changes_nothing_for_others() {
    for field in [("cookie", "session=1"), ("authorization", "Bearer secret"), ("x-odd", "1")] {
        for control in ["private, max-age=60", "no-store"] {
            let gate = Arc::new(Semaphore::new(1));
            let (origin, server) = shield({
                let gate = gate.clone();
                move |seen| match seen.header(field.0) {
                    Some(_) => tagged(control, "mine").held_by(&gate),
                    None => tagged("max-age=3600", "good").held_by(&gate),
                }
            })
            .await;
            let own = [field, ("cache-control", "no-cache")];
            assert_eq!(server.get_with(PATH, &own).await.text(), "mine");
            let release = async {
                asked(&origin, 2).await;
                gate.add_permits(1000);
            };
            let (replies, ()) = tokio::join!(all_at_once(&server, 30, &[]), release);
            assert!(replies.iter().all(|reply| reply.text() == "good"), "{own:?}, {control}");
            assert_eq!(origin.count(), 2, "{own:?}, {control}: the others share one fetch");
            let reply = server.get_with(PATH, &own).await;
            assert_eq!((reply.text(), origin.count()), ("mine", 3), "{own:?}, {control}");
            assert_eq!(server.ok(PATH).await.text(), "good");
            assert_eq!(origin.count(), 3, "{own:?}, {control}: what is kept stays");
        }
    }
}

#[tokio::test]
async fn a_304_that_is_private_for_the_fields_of_one_client_changes_nothing_for_others() {
    for field in [("cookie", "session=1"), ("authorization", "Bearer secret"), ("x-odd", "1")] {
        let (origin, server) = shield(move |seen| match seen.header(field.0) {
            Some(_) => Script::new(304, "").with("Cache-Control", "private").with("ETag", "\"good\""),
            None => tagged("max-age=3600", "good"),
        })
        .await;
        server.ok(PATH).await;
        assert_eq!(server.get_with(PATH, &[field, ("cache-control", "no-cache")]).await.text(), "good");
        assert_eq!((server.ok(PATH).await.text(), origin.count()), ("good", 2), "{field:?}: what is kept stays");
    }
}

#[tokio::test]
async fn a_client_that_gets_something_of_its_own_does_not_take_the_stale_copy_of_the_others() {
    for headers in [[("cache-control", "no-store")], [("cookie", "session=1")], [("authorization", "Bearer secret")]] {
        for revalidates in [true, false] {
            let (origin, server) = shield(move |seen| match seen.header("if-none-match").filter(|_| revalidates) {
                Some(_) => Script::new(304, "").with("Cache-Control", "max-age=0"),
                None => tagged("max-age=0", "good"),
            })
            .await;
            server.ok(PATH).await;
            assert_eq!(server.get_with(PATH, &headers).await.text(), "good");
            origin.answers(|_| Script::new(503, "down"));
            let reply = server.ok(PATH).await;
            assert_eq!(reply.text(), "good", "{headers:?}, {revalidates}");
            assert!(reply.the("cache-status").contains("stale-if-error"), "{reply:?}");
        }
    }
}

#[tokio::test]
async fn a_private_resource_is_asked_for_by_each_at_once_and_shared_with_nobody() {
    for control in ["private, max-age=60", "no-store"] {
        let gate = Arc::new(Semaphore::new(0));
        let (origin, server) = shield({
            let gate = gate.clone();
            move |seen| {
                let answer = Script::new(200, format!("{}", seen.number)).with("Cache-Control", control);
                answer.with("Set-Cookie", format!("id={}", seen.number)).held_by(&gate)
            }
        })
        .await;
        gate.add_permits(1);
        server.ok(PATH).await;
        // All requests precede the first answer.
        let release = async {
            asked(&origin, 21).await;
            gate.add_permits(20);
        };
        let (replies, ()) = tokio::join!(all_at_once(&server, 20, &[]), release);
        let mut bodies: Vec<_> =
            replies.iter().map(|reply| (reply.text().to_owned(), reply.the("set-cookie"))).collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), 20, "{control}: an answer was shared");
        assert!(bodies.iter().all(|(body, cookie)| *cookie == format!("id={body}")));
        assert_eq!(origin.count(), 21, "{control}");

        // Even before it is known to be private, it takes no more than two turns.
        gate.add_permits(1000);
        let cold = join_all((0..20).map(|_| server.get("/api/cold"))).await;
        let mut bodies: Vec<_> = cold.iter().map(|reply| reply.text().to_owned()).collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!((bodies.len(), origin.count()), (20, 41), "{control}");
    }
}

#[tokio::test]
async fn cookies_and_authorization_need_the_origins_leave_to_share() {
    for (name, value) in [("authorization", "Bearer one"), ("cookie", "id=one")] {
        for (control, shared) in [("max-age=60", false), ("public, max-age=60", true), ("s-maxage=60", true)] {
            let (origin, server) =
                shield(move |seen| Script::new(200, format!("answer {}", seen.number)).with("Cache-Control", control))
                    .await;
            let first = server.get_with(PATH, &[(name, value)]).await;
            assert_eq!(origin.seen()[0].header(name), Some(value), "it reaches the origin");
            let second = server.get(PATH).await;
            assert_eq!(first.body == second.body, shared, "{name} {control}");
        }
    }
}

#[tokio::test]
async fn set_cookie_is_passed_and_kept_only_where_the_origin_says_that_it_is_public() {
    let (origin, server) = shield(|seen| {
        let answer = Script::new(200, "x").with("Set-Cookie", "a=1").with("Set-Cookie", "b=2").with("ETag", "\"x\"");
        match seen.target.as_str() {
            "/api/none" => answer,
            "/api/lifetime" => answer.with("Cache-Control", "max-age=60"),
            "/api/shared" => answer.with("Cache-Control", "s-maxage=60"),
            _ => answer.with("Cache-Control", "public, max-age=60"),
        }
    })
    .await;
    for (target, kept) in
        [("/api/lifetime", false), ("/api/none", false), ("/api/shared", false), ("/api/public", true)]
    {
        origin.forget();
        for _ in 0..2 {
            assert_eq!(server.ok(target).await.the("set-cookie"), "a=1, b=2", "{target}");
        }
        assert_eq!(origin.count() == 1, kept, "{target}");
    }
}

#[tokio::test]
async fn stale_while_revalidate_is_the_origins_to_allow() {
    let gate = Arc::new(Semaphore::new(0));
    for (control, allowed) in [("max-age=0, stale-while-revalidate=60", true), ("max-age=0", false)] {
        let (origin, server) = shield({
            let gate = gate.clone();
            move |seen| match seen.header("if-none-match") {
                Some(_) => tagged("max-age=3600", "new").held_by(&gate),
                None => tagged(control, "old"),
            }
        })
        .await;
        server.ok(PATH).await;
        if allowed {
            let replies = all_at_once(&server, 20, &[]).await;
            assert!(replies.iter().all(|reply| reply.text() == "old"), "at once, while the origin thinks");
            asked(&origin, 2).await;
            gate.add_permits(1);
            wait_until("the refresh shows", || async { server.ok(PATH).await.text() == "new" }).await;
        } else {
            gate.add_permits(1);
            assert_eq!(server.ok(PATH).await.text(), "new");
        }
        assert_eq!(origin.count(), 2, "{control}");
    }
}

#[tokio::test]
async fn a_failing_origin_is_stood_in_for_and_its_failures_replace_nothing() {
    type Failing = fn() -> Script;
    let failures: [(&str, Failing); 5] = [
        ("503", || Script::new(503, "down").with("Cache-Control", "max-age=60")),
        ("500", || Script::new(500, "down")),
        ("429", || Script::new(429, "slow down").with("Retry-After", 1)),
        ("reset", Script::hang_up),
        ("silence", || Script::new(200, "late").after(PATIENCE)),
    ];
    each(failures, async |(name, failing)| {
        let origin = Upstream::start(|seen| match seen.target.as_str() {
            "/api/strict" => tagged("max-age=0, must-revalidate", "good"),
            "/api/window" => tagged("max-age=0, stale-if-error=0", "good"),
            _ => tagged("max-age=0", "good"),
        })
        .await;
        let server = Setup::shield_of_url(&origin.url()).set("origin.timeout", "1s").start().await;
        for target in [PATH, "/api/strict", "/api/window"] {
            assert_eq!(server.ok(target).await.text(), "good");
        }
        origin.answers(move |_| failing());
        for _ in 0..3 {
            let reply = server.ok(PATH).await;
            assert_eq!(reply.text(), "good", "{name}");
            assert!(reply.the("cache-status").contains("detail=stale-if-error"), "{name}: {reply:?}");
            assert!(reply.header("age").is_some());
        }
        for target in ["/api/strict", "/api/window"] {
            let reply = server.get(target).await;
            assert!(reply.status >= 429, "{name} {target}: {reply:?}");
        }
        origin.answers(|_| tagged("max-age=0", "better"));
        soon("the origin's return shows", || async { server.ok(PATH).await.text() == "better" }).await;
    })
    .await;
}

#[tokio::test]
async fn a_304_with_another_tag_confirms_nothing_and_the_answer_is_asked_for_again() {
    let (origin, server) = shield(|seen| match (seen.nth, seen.header("if-none-match")) {
        (1, _) => tagged("max-age=0", "1"),
        (_, Some(_)) => Script::new(304, "").with("ETag", "\"2\""),
        (_, None) => tagged("max-age=60", "2"),
    })
    .await;
    for target in [PATH, "/api/sports.json"] {
        assert_eq!(server.ok(target).await.text(), "1", "{target}");
        for _ in 0..2 {
            assert_eq!(server.ok(target).await.text(), "2", "{target}");
        }
        assert_eq!(origin.count_of(target), 3, "{target}");
    }
}

#[tokio::test]
async fn a_tag_that_came_with_two_bodies_is_not_used() {
    let (origin, server) = shield(|seen| {
        let control = if seen.nth == 3 { "max-age=60" } else { "max-age=0" };
        Script::new(200, seen.nth.to_string()).with("Cache-Control", control).with("ETag", "\"same\"")
    })
    .await;
    for body in ["1", "2", "3"] {
        assert_eq!(server.ok(PATH).await.text(), body);
    }
    assert_eq!(origin.seen()[2].header("if-none-match"), None);
    let reply = server.get_with(PATH, &[("if-none-match", "\"same\"")]).await;
    assert_eq!((reply.status, reply.text()), (200, "3"));
    assert_eq!(origin.count(), 3);
}
