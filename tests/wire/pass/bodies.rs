//! Bodies pass unchanged, as they come; one that breaks off, never ends or is too large harms nobody.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::sync::Semaphore;

use super::{PATH, Wire, kept, shield};
use crate::client::{http2_client, on_the_wire, raw};
use crate::harness::{PATIENCE, Script, Server, Setup, Upstream, wait_until};

#[tokio::test]
async fn a_fragment_in_a_target_is_no_other_resource() {
    let (origin, server) = shield(|_| kept("x")).await;
    for number in 0..3 {
        server.raw_get(&format!("/api/x#{number}")).await;
    }
    assert!(origin.count() <= 1, "what the origin cannot tell apart is one entry: {:?}", origin.seen());
}

#[tokio::test]
async fn the_first_byte_reaches_the_client_while_the_origin_still_sends() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = shield({
        let gate = gate.clone();
        move |seen| {
            let control = if seen.target.contains("kept") { "max-age=60" } else { "no-store" };
            Script::new(200, "first ").with("Cache-Control", control).then_held_by(&gate, "second")
        }
    })
    .await;
    for target in ["/api/kept", "/api/passing"] {
        let mut leader = Wire::get(server.public, target).await;
        leader.until("first ").await;
        let follower = if target == "/api/kept" {
            let mut follower = Wire::get(server.public, target).await;
            assert!(follower.until("first ").await.contains("collapsed"));
            Some(follower)
        } else {
            None
        };
        gate.add_permits(1);
        for wire in [Some(leader), follower].into_iter().flatten() {
            let all = wire.rest().await;
            assert!(all.contains("first ") && all.contains("second") && all.ends_with("0\r\n\r\n"), "{all}");
        }
    }
    assert_eq!(origin.count(), 2);
    assert_eq!(server.ok("/api/kept").await.text(), "first second");
    assert_eq!(origin.count(), 2);
}

#[tokio::test]
async fn framing_is_right_for_every_kind_of_answer_and_client() {
    let (origin, server) = shield(|seen| match seen.target.split('?').next().unwrap() {
        "/api/chunked" => kept("one ").then(Duration::ZERO, "two"),
        "/api/empty" => kept(""),
        "/api/204" => Script::new(204, "").with("Cache-Control", "max-age=60"),
        "/api/until-close" => Script::raw("HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\n\r\none two"),
        "/api/trailers" => Script::raw(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
             7\r\none two\r\n0\r\nX-Sum: 7\r\nCache-Control: no-store\r\n\r\n",
        ),
        _ => kept("one two"),
    })
    .await;
    let http2 = http2_client();
    for (target, body) in [
        ("/api/length", "one two"),
        ("/api/chunked", "one two"),
        ("/api/until-close", "one two"),
        ("/api/trailers", "one two"),
        ("/api/empty", ""),
        ("/api/204", ""),
    ] {
        let status = if target == "/api/204" { 204 } else { 200 };
        // Once as it streams, once from the cache; by HTTP/1.1, HTTP/1.0 and HTTP/2.
        for round in 0..2 {
            for kind in ["HTTP/1.1", "HTTP/1.0", "HTTP/2"] {
                let fresh = format!("{target}?{kind}");
                let reply = if kind == "HTTP/2" {
                    let url = format!("http://{}{fresh}", server.public);
                    crate::client::Reply::of(http2.get(url).send().await.unwrap()).await
                } else if kind == "HTTP/1.1" {
                    server.get(&fresh).await
                } else {
                    let request = format!("GET {fresh} HTTP/1.0\r\nHost: x\r\n\r\n");
                    raw(server.public, request.as_bytes()).await.unwrap()
                };
                let context = format!("{fresh}, round {round}: {reply:?}");
                assert_eq!((reply.status, reply.text()), (status, body), "{context}");
                assert_eq!(reply.header("trailer"), None, "{context}");
                assert_eq!(reply.the("cache-status").contains("; hit"), round == 1, "{context}");
                if status == 204 {
                    assert_eq!(reply.header("content-length"), None, "RFC 9110 section 8.6: {context}");
                    assert_eq!(reply.header("transfer-encoding"), None, "{context}");
                }
                if kind == "HTTP/1.0" {
                    assert_eq!(reply.header("transfer-encoding"), None, "{context}");
                }
                let head = server.head(&fresh).await;
                assert_eq!((head.status, head.body.len()), (status, 0), "{head:?}");
                if status == 204 {
                    assert_eq!(head.header("content-length"), None, "{head:?}");
                }
            }
        }
    }
    assert!(origin.seen().iter().all(|seen| seen.body.is_empty()));
}

/// The memory that the server has in use, in bytes.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

const MEBIBYTE: usize = 1 << 20;

#[tokio::test]
async fn a_body_beyond_the_bounds_passes_without_being_kept_or_held() {
    let piece = vec![b'x'; MEBIBYTE];
    let origin = Upstream::start(move |seen| {
        let answer = kept("");
        let answer = if seen.target.contains("chunked") { answer.then(Duration::ZERO, "") } else { answer };
        answer.repeating(piece.clone(), 64)
    })
    .await;
    for (key, value) in [("origin.max_body", "1MiB"), ("cache.max_bytes", "8MiB")] {
        let server = Setup::shield_of_url(&origin.url()).alone().set(key, value).start().await;
        server.head("/api/warm").await;
        let before = resident(&server);
        for target in ["/api/length", "/api/chunked"] {
            // A client that reads nothing delays the origin; no memory grows.
            let passed = origin.repeated();
            let mut slow = Wire::get(server.public, target).await;
            slow.until("\r\n\r\n").await;
            let mut last = u64::MAX;
            wait_until("the origin is held up", || {
                let now = origin.repeated();
                let still = std::mem::replace(&mut last, now) == now;
                async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    still
                }
            })
            .await;
            // The kernel may hold as much as it likes: dozens of MiB.
            let on_the_wire = on_the_wire(server.public) + on_the_wire(origin.address());
            let ahead = (origin.repeated() - passed).saturating_sub(on_the_wire);
            assert!(ahead < 40 * MEBIBYTE as u64, "{key} {target}: {ahead} bytes left the origin for nobody");
            let grown = resident(&server).saturating_sub(before);
            assert!(grown < 24 * MEBIBYTE as u64, "{key} {target}: {grown} bytes more");
            drop(slow);
            let reply = server.ok(target).await;
            assert_eq!(reply.body.len(), 64 * MEBIBYTE, "{key} {target}");
            let asked = origin.count();
            assert_eq!(server.head(target).await.status, 200);
            assert_eq!(origin.count(), asked + 1, "{key} {target} was kept");
        }
        let grown = resident(&server).saturating_sub(before);
        assert!(grown < 32 * MEBIBYTE as u64, "{key}: {grown} bytes more");
    }
}

#[tokio::test]
async fn downloads_that_are_too_large_to_be_kept_leave_room_for_others() {
    let origin = Upstream::start(|seen| {
        let large = || vec![b'x'; 3 * MEBIBYTE / 2];
        if seen.target.contains("large") {
            // More than may be kept, and then nothing for longer than this test takes.
            kept("").then(Duration::ZERO, large()).then(Duration::ZERO, "mark").then(10 * PATIENCE, "end")
        } else {
            kept("small")
        }
    })
    .await;
    // Bodies up to 1 MiB are kept, and 2 MiB of them may arrive at once.
    let setup = Setup::shield_of_url(&origin.url()).set("cache.max_bytes", "8MiB").set("origin.timeout", "5m");
    let server = setup.start().await;
    let mut slow = Vec::new();
    for target in ["/api/large/1", "/api/large/2"] {
        let mut wire = Wire::get(server.public, target).await;
        wire.until("mark").await;
        slow.push(wire);
    }
    for number in 0..3 {
        let target = format!("/api/small/{number}");
        assert_eq!(server.ok(&target).await.text(), "small");
        let again = server.ok(&target).await;
        assert!(again.the("cache-status").contains("; hit"), "{target} is not kept: {again:?}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_only_what_is_not_kept_with_it() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = shield({
        let gate = gate.clone();
        move |seen| match seen.target.as_str() {
            "/api/kept" => kept("first ").then_held_by(&gate, "second"),
            _ => Script::new(200, "first ").with("Cache-Control", "no-store").repeating(vec![b'x'; MEBIBYTE], 100_000),
        }
    })
    .await;
    let mut leaving = Wire::get(server.public, "/api/kept").await;
    leaving.until("first ").await;
    drop(leaving);
    gate.add_permits(1);
    wait_until("the kept body is complete", || async {
        server.ok("/api/kept").await.the("cache-status").contains("; hit")
    })
    .await;
    assert_eq!(server.ok("/api/kept").await.text(), "first second");
    assert_eq!(origin.count(), 1);

    let mut leaving = Wire::get(server.public, "/api/endless").await;
    leaving.until("first ").await;
    assert_eq!(origin.broken(), 0);
    drop(leaving);
    wait_until("the connection to the origin is dropped", || async { origin.broken() == 1 }).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_never_kept_and_everybody_sees_it_break() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = shield({
        let gate = gate.clone();
        move |seen| match seen.target.as_str() {
            "/api/length" => kept("half").announced(100),
            _ => kept("half").then_held_by(&gate, "more").announced(100),
        }
    })
    .await;
    let cut = server.raw_get("/api/length").await;
    assert_eq!((cut.the("content-length").as_str(), cut.text()), ("100", "half"), "the announced length is not met");
    let mut wires = Vec::new();
    for _ in 0..3 {
        let mut wire = Wire::get(server.public, "/api/chunked").await;
        wire.until("half").await;
        wires.push(wire);
    }
    let url = format!("http://{}/api/chunked", server.public);
    let http2 = http2_client().get(url).send().await.unwrap();
    assert_eq!(origin.count(), 2);
    gate.add_permits(1);
    for wire in wires {
        let all = wire.rest().await;
        assert!(all.contains("half") && !all.ends_with("0\r\n\r\n"), "a complete answer: {all}");
    }
    assert!(http2.bytes().await.is_err(), "over HTTP/2 the stream is reset");
    gate.add_permits(10);
    for target in ["/api/length", "/api/chunked"] {
        let before = origin.count();
        server.raw_get(target).await;
        assert_eq!(origin.count(), before + 1, "{target} was kept");
    }
}

#[tokio::test]
async fn interim_answers_are_passed_on_and_not_kept() {
    let (origin, server) = shield(|_| {
        kept("final")
            .announcing(102, &[])
            .announcing(103, &[("Link", "</style.css>; rel=preload"), ("Keep-Alive", "x")])
    })
    .await;
    let all = Wire::get(server.public, PATH).await.rest().await;
    let at = |text: &str| all.find(text).unwrap_or_else(|| panic!("no {text:?} in {all}"));
    assert!(at("HTTP/1.1 102") < at("HTTP/1.1 103") && at("HTTP/1.1 103") < at("HTTP/1.1 200"), "{all}");
    assert!(at("style.css") < at("HTTP/1.1 200") && !all.to_lowercase().contains("keep-alive: x"), "{all}");
    assert!(all.ends_with("final"));
    let again = Wire::get(server.public, PATH).await.rest().await;
    assert!(again.starts_with("HTTP/1.1 200") && again.ends_with("final"), "{again}");
    for request in [format!("GET {PATH}?1 HTTP/1.0\r\n\r\n"), format!("GET {PATH}?2 HTTP/1.0\r\nHost: x\r\n\r\n")] {
        let all = Wire::send(server.public, &request).await.rest().await;
        assert!(all.contains(" 200 ") && !all.contains(" 103 "), "HTTP/1.0 knows no interim answers: {all}");
    }
    let url = format!("http://{}{PATH}?3", server.public);
    assert_eq!(http2_client().get(url).send().await.unwrap().text().await.unwrap(), "final");
    assert_eq!(origin.count(), 4);
}

#[tokio::test]
async fn heads_of_any_size_do_no_harm() {
    let (_origin, server) = shield(|seen| match seen.target.as_str() {
        "/api/wide" => kept("x").with("X-Wide", "w".repeat(60_000)),
        "/api/endless" => Script::raw(format!("HTTP/1.1 200 OK\r\nX-Wide: {}", "w".repeat(2 * MEBIBYTE))),
        "/api/many" => (0..90).fold(kept("x"), |answer, number| answer.with(&format!("X-{number}"), number)),
        "/api/garbage" => Script::raw("this is no HTTP at all\r\n\r\n"),
        _ => Script::raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"),
    })
    .await;
    let wide = server.ok("/api/wide").await;
    assert_eq!((wide.text(), wide.the("x-wide").len()), ("x", 60_000));
    assert_eq!(server.ok("/api/many").await.the("x-89"), "89");
    for target in ["/api/endless", "/api/garbage", "/api/two-lengths"] {
        let reply = server.send(Method::GET, target, &[]).await;
        reply.assert_problem(502, &[]);
    }
}

#[tokio::test]
async fn the_length_of_an_answer_is_told_once_and_right() {
    let (_origin, server) = shield(|seen| {
        Script::raw(match seen.target.as_str() {
            "/api/both" => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\nCache-Control: max-age=60\r\n\r\n\
                 5\r\nwhole\r\n0\r\n\r\n"
            }
            "/api/204" => "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\nCache-Control: max-age=60\r\n\r\n",
            "/api/205" => {
                "HTTP/1.1 205 Reset Content\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\n\r\nhello"
            }
            _ => "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        })
    })
    .await;
    for round in 0..2 {
        for (target, status, body, length) in
            [("/api/both", 200, "whole", None), ("/api/204", 204, "", None), ("/api/205", 205, "", Some("0"))]
        {
            let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            let all = Wire::send(server.public, &request).await.rest().await;
            assert!(all.starts_with(&format!("HTTP/1.1 {status} ")), "{round}: {all}");
            let (head, rest) = all.split_once("\r\n\r\n").unwrap();
            assert!(rest.contains(body) && (!body.is_empty() || rest.is_empty()), "{round}: {all}");
            let lengths: Vec<_> = head
                .lines()
                .filter_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
                .collect();
            let expected = length.or((round == 1 && status == 200).then_some("5"));
            assert_eq!(lengths, expected.into_iter().collect::<Vec<_>>(), "{round}: {all}");
        }
        server.get("/api/101").await.assert_problem(502, &[]);
    }
}
