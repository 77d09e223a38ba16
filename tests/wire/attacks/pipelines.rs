//! Requests that a client sends at once on one connection: answered in order, never mixed, and bounded.

use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{Script, Setup, Upstream, each};

/// A client of its own numbers in each path: an answer to another request would show.
fn echo(seen: &crate::harness::Seen) -> Script {
    let body = format!("<{} {} {}>", seen.method, seen.target, String::from_utf8_lossy(&seen.body));
    let kept = if seen.target.contains("hit") { "max-age=600" } else { "no-store" };
    let answer = Script::new(200, body).with("cache-control", kept);
    if seen.target.contains("slow") { answer.after(Duration::from_millis(50)) } else { answer }
}

async fn all(to: std::net::SocketAddr, pieces: &[&str]) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    for piece in pieces {
        // The server may have hung up after a broken one.
        let _sent = stream.write_all(piece.as_bytes()).await;
        tokio::task::yield_now().await;
    }
    let mut answer = Vec::new();
    let read = async { while stream.read_buf(&mut answer).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(Duration::from_secs(40), read).await.expect("an end of the connection");
    String::from_utf8(answer).unwrap()
}

/// The status of each answer, and what it shows of its request.
fn answers(text: &str) -> Vec<(u16, &str)> {
    let mut found = Vec::new();
    for answer in text.split("HTTP/1.1 ").skip(1) {
        let shown = answer.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(shown, _)| shown);
        found.push((answer[..3].parse().unwrap(), shown));
    }
    found
}

#[tokio::test]
async fn hits_misses_and_bodies_are_answered_in_order_and_nothing_follows_a_broken_request() {
    let upstream = Upstream::start(echo).await;
    let setup = Setup::shield_of_url(&upstream.url()).set("passthrough.methods", r#"["GET", "HEAD", "POST"]"#);
    let server = setup.start().await;
    for number in 0..3 {
        server.ok(&format!("/api/hit/{number}")).await;
    }
    let (mut requests, mut expected) = (String::new(), Vec::new());
    for number in 0..30 {
        let (method, path, body, status) = match number % 6 {
            0 => ("GET", format!("/api/slow/{number}"), "", 200),
            1 => ("GET", format!("/api/hit/{}", number % 3), "", 200),
            2 => ("POST", format!("/api/post/{number}"), "GET /api/smuggled HTTP/1.1\r\nHost: x\r\n\r\n", 200),
            3 => ("HEAD", format!("/api/head/{number}"), "", 200),
            4 => ("GET", "/api/%zz".to_owned(), "", 400),
            _ => ("GET", format!("/api/miss/{number}"), "", 200),
        };
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        write!(requests, "{method} {path} HTTP/1.1\r\nHost: x\r\n{length}\r\n{body}").unwrap();
        let shown = match (method, status) {
            ("HEAD", _) | (_, 400) => String::new(),
            _ => format!("{method} {path} {body}"),
        };
        expected.push((status, shown));
    }
    let broken = ["GET /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "\0\0\r\n\r\n"];
    each(broken, async |broken| {
        let rest = "GET /api/after HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        for whole in [true, false] {
            let text = if whole {
                all(server.public, &[&requests, broken, rest]).await
            } else {
                let pieces: Vec<&str> =
                    requests.as_bytes().chunks(37).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
                all(server.public, &[&pieces[..], &[broken, rest]].concat()).await
            };
            let got = answers(&text);
            assert!(got.len() == expected.len() || got.len() == expected.len() + 1, "{got:?}");
            for (nth, (got, (status, shown))) in got.iter().zip(&expected).enumerate() {
                // `>` of a body never comes: bodies have none.
                assert_eq!((got.0, got.1), (*status, shown.as_str()), "request {nth}");
            }
            assert!(got[expected.len()..].iter().all(|(status, _)| *status == 400), "{got:?}");
        }
    })
    .await;
    let seen = upstream.seen();
    assert!(seen.iter().all(|seen| !["/api/smuggled", "/api/after", "/api/x"].contains(&seen.target.as_str())));
    assert_eq!(server.send(Method::GET, "/api/hit/1", &[]).await.status, 200);
}

/// Heads in absolute form are written anew; what follows them is not.
#[tokio::test]
async fn requests_in_absolute_form_hide_no_other_request() {
    let upstream = Upstream::start(echo).await;
    let setup = Setup::shield_of_url(&upstream.url()).set("passthrough.methods", r#"["GET", "HEAD", "POST"]"#);
    let server = setup.start().await;
    let smuggled = "GET /api/smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    let (mut requests, mut expected) = (String::new(), Vec::new());
    for number in 0..20 {
        let (method, body) = if number % 2 == 0 { ("POST", smuggled) } else { ("GET", "") };
        let (path, length) = (format!("/api/{number}"), body.len());
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {length}\r\n") };
        write!(requests, "{method} http://a.test{path} HTTP/1.1\r\n{length}Host: b.test:1\r\n\r\n{body}").unwrap();
        expected.push((200, format!("{method} {path} {body}")));
    }
    let last = "GET http://a.test/api/last HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n";
    expected.push((200, "GET /api/last ".to_owned()));
    let pieces: Vec<&str> = requests.as_bytes().chunks(37).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
    for pieces in [vec![requests.as_str(), last], [&pieces[..], &[last]].concat()] {
        let text = all(server.public, &pieces).await;
        let got: Vec<(u16, String)> =
            answers(&text).into_iter().map(|(status, shown)| (status, shown.to_owned())).collect();
        assert_eq!(got, expected);
    }
    for framing in ["Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Content-Length: 1\r\nContent-Length: 2\r\n"]
    {
        let broken = format!("POST http://a.test/api/x HTTP/1.1\r\nHost: b\r\n{framing}\r\n0\r\n\r\n{smuggled}");
        let text = all(server.public, &[&broken]).await;
        assert_eq!(answers(&text).iter().map(|(status, _)| *status).collect::<Vec<_>>(), [400], "{text}");
    }
    let seen = upstream.seen();
    assert!(seen.iter().all(|seen| seen.target != "/api/smuggled" && seen.target != "/api/x"), "{seen:?}");
}

/// A client that sends without end and reads nothing is held up by its first unread answers.
#[tokio::test]
async fn a_pipeline_that_nobody_reads_stops_being_read() {
    let body = "x".repeat(256 << 10);
    let upstream = Upstream::start(move |_| Script::new(200, body.clone()).with("cache-control", "max-age=600")).await;
    let server = Setup::shield_of_url(&upstream.url()).start().await;
    server.ok("/api/hit").await;
    let mut stream = TcpStream::connect(server.public).await.unwrap();
    let requests = "GET /api/hit HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let mut sent = 0;
    // 400 kB of requests at least are not taken, or the client is dropped.
    while sent < 64 << 20 {
        match tokio::time::timeout(Duration::from_secs(3), stream.write_all(requests.as_bytes())).await {
            Ok(Ok(())) => sent += requests.len(),
            Ok(Err(_)) | Err(_) => break,
        }
    }
    assert!(sent < 64 << 20, "{sent} bytes of requests were read");
    assert_eq!(server.get("/api/hit").await.status, 200);
}
