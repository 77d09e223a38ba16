//! Each side frames its messages itself; an answer whose end is ambiguous is none.

use std::time::{Duration, Instant};

use super::{PATH, Wire, shield, talkative};
use crate::harness::{Script, Setup, Upstream};

const KNOWN: &str = "/api/sports.json";

/// An answer of these lines and a body of JSON.
fn lines(first: &str) -> Script {
    Script::raw(format!("{first}\r\nCache-Control: max-age=60\r\nContent-Type: application/json\r\n\r\n[]"))
}

#[tokio::test]
async fn an_answer_with_two_lengths_or_an_odd_one_is_502() {
    for length in [
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2\r\nContent-Length: 2",
        "Content-Length: 2, 2",
        "Content-Length: 2, 3",
        "Content-Length: +2",
        "Content-Length: -2",
        "Content-Length: 0x2",
        "Content-Length: ",
        "Content-Length: 99999999999999999999999999",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ] {
        let (_origin, server) = shield(move |_| lines(&format!("HTTP/1.1 200 OK\r\n{length}"))).await;
        for target in [PATH, KNOWN] {
            let reply = server.get(target).await;
            assert_eq!(reply.status, 502, "{length:?} of {target}: {reply:?}");
            reply.assert_problem(502, &[]);
        }
    }
}

#[tokio::test]
async fn a_status_that_is_none_of_an_answer_is_502() {
    let (_origin, server) = shield(|seen| {
        let status = seen.target.split('=').next_back().unwrap().parse().unwrap();
        Script::new(status, "[]").with("Cache-Control", "max-age=60").with("Content-Type", "application/json")
    })
    .await;
    for status in [101, 600, 999] {
        for target in [format!("/api/x?s={status}"), format!("/api/listings.json?sport={status}")] {
            server.get(&target).await.assert_problem(502, &[]);
        }
    }
    // An interim answer has no body, and is not the last.
    server.get("/api/x?s=199").await.assert_problem(502, &[]);
    let (_origin, server) = shield(|_| Script::raw("HTTP/1.1 199 Odd\r\n\r\n")).await;
    server.get(PATH).await.assert_problem(502, &[]);
}

#[tokio::test]
async fn interim_answers_without_end_are_cut() {
    let (origin, server) = shield(|seen| {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let times = seen.target.rsplit('/').next().unwrap().parse().unwrap();
        Script::raw(interim.repeat(times) + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
    })
    .await;
    let all = Wire::get(server.public, "/api/16").await.rest().await;
    assert_eq!((all.matches("HTTP/1.1 103").count(), all.ends_with('x')), (16, true), "{all}");
    for target in ["/api/17", "/api/100000"] {
        let all = Wire::get(server.public, target).await.rest().await;
        assert!(all.matches("HTTP/1.1 103").count() <= 16 && all.contains("HTTP/1.1 502"), "{all}");
    }
    assert_eq!(origin.count(), 3, "none is asked for again");
}

/// An origin that sends interim answers for ever.
#[tokio::test]
async fn an_origin_that_never_comes_to_its_answer_is_left_at_once() {
    let origin = Upstream::start(|_| Script::raw("HTTP/1.1 102 Processing\r\n\r\n".repeat(1_000_000))).await;
    let server = Setup::shield_of_url(&origin.url()).set("origin.timeout", "50s").start().await;
    for target in [PATH, "/api/listings.json"] {
        let start = Instant::now();
        server.get(target).await.assert_problem(502, &[]);
        assert!(start.elapsed() < Duration::from_secs(25), "{target}: {:?}", start.elapsed());
    }
}

#[tokio::test]
async fn nothing_that_frames_a_message_is_copied_from_one_side_to_the_other() {
    let origin = Upstream::start(|_| {
        Script::raw(
            "HTTP/1.1 200 OK\r\nContent-Length: 0005\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=77\r\n\
             TE: trailers\r\nTrailer: X-Sum\r\nUpgrade: h2c\r\nProxy-Connection: keep-alive\r\n\r\nwhole",
        )
    })
    .await;
    let setup = talkative(&origin).set("passthrough.methods", r#"["GET", "HEAD", "POST", "DELETE"]"#);
    let server = setup.start().await;
    let hops = "Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=77\r\nTE: trailers\r\nTrailer: X-Sum\r\n\
                Upgrade: websocket\r\nProxy-Connection: keep-alive\r\n";
    for (method, length, body, announced) in [
        ("GET", "", "", None),
        ("GET", "Content-Length: 0\r\n", "", None),
        ("POST", "Content-Length: 0\r\n", "", Some("0")),
        ("POST", "Content-Length: 003\r\n", "abc", Some("3")),
        ("DELETE", "", "", None),
    ] {
        let request = format!("{method} /api/{method} HTTP/1.1\r\nHost: x\r\n{length}{hops}\r\n{body}");
        let all = Wire::send(server.public, &request).await.rest().await;
        let (head, rest) = all.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && rest == "whole", "{request}\n{all}");
        let head = head.to_ascii_lowercase();
        assert_eq!(head.matches("content-length: 5\r\n").count(), 1, "{all}");
        for name in ["x-hop", "keep-alive: timeout=77", "te: ", "trailer", "upgrade", "proxy-connection"] {
            assert!(!head.contains(&format!("\r\n{name}")), "{name}: {all}");
        }
        let seen = origin.seen().pop().unwrap();
        assert_eq!((seen.header("content-length"), &seen.body[..]), (announced, body.as_bytes()), "{}", seen.head);
        assert!(seen.headers.get_all("content-length").iter().count() <= 1);
        for name in ["x-hop", "keep-alive", "te", "trailer", "upgrade", "proxy-connection", "transfer-encoding"] {
            assert_eq!(seen.header(name), None, "{name}: {}", seen.head);
        }
    }
}
