//! Limits of a connection: no bodies on GET, no hop-by-hop fields from the origin, short requests, HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;

use crate::client::raw;
use crate::floods;
use crate::harness::{Script, Server, Setup, Upstream, origin, shared_mirror, wait_until};

/// It is shorter than the preface of HTTP/2, for which a server could wait in vain.
#[tokio::test]
async fn a_very_short_request_is_answered() {
    let (_origin, server) = shared_mirror(20).await;
    let reply = raw(server.public, b"GET / HTTP/1.0\r\n\r\n").await.expect("an answer");
    assert_eq!(reply.status, 200);
    assert_eq!(reply.the("content-type"), "application/json");
}

#[tokio::test]
async fn connect_and_upgrades_get_answers_of_ours() {
    let (_origin, server) = shared_mirror(20).await;
    let connect = b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\nConnection: close\r\n\r\n";
    let reply = raw(server.public, connect).await.expect("an answer");
    assert!((400..500).contains(&reply.status), "{reply:?}");
    assert_eq!(reply.the("access-control-allow-origin"), "*");
    let upgrade = b"GET /api/regions.json HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
        Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n";
    let reply = raw(server.public, upgrade).await.expect("an answer");
    assert_eq!(reply.status, 200, "the upgrade is ignored (RFC 9110 section 7.8): {reply:?}");
}

/// A connection over HTTP/2.
async fn streams(server: &Server) -> h2::client::SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(server.public).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// RFC 9113 §8.1: the end of a request may come in a frame of its own.
#[tokio::test]
async fn a_get_over_http_2_may_end_with_an_empty_frame() {
    let (_origin, server) = shared_mirror(20).await;
    for (body, status) in [(&b""[..], 200), (b"x", 400)] {
        let request = http::Request::get("http://mirror.test/api/listings.json").body(()).unwrap();
        let (response, mut stream) = streams(&server).await.send_request(request, false).unwrap();
        stream.send_data(body.into(), true).unwrap();
        assert_eq!(response.await.unwrap().status(), status, "{body:?}");
    }
}

#[tokio::test]
async fn a_client_of_http_2_that_waits_for_it_is_told_to_send_its_body() {
    let origin = Upstream::start(|_| Script::new(200, "{}")).await;
    let setup = Setup::shield_of_url(&origin.url()).set("passthrough.methods", r#"["GET", "POST"]"#);
    let server = setup.start().await;
    let request = http::Request::post("http://mirror.test/api/form").header("content-length", "1");
    let request = request.header("expect", "100-continue").body(()).unwrap();
    let (mut response, mut stream) = streams(&server).await.send_request(request, false).unwrap();
    let told = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
    assert_eq!(told.unwrap().unwrap().status(), 100);
    stream.send_data(Bytes::from_static(b"x"), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
}

/// It does not say whom it asks.
#[tokio::test]
async fn a_malformed_request_over_http_2_gets_a_problem_document() {
    let (_origin, server) = shared_mirror(20).await;
    let mut stream = floods::begin(&server, &[]).await;
    stream.write_all(&floods::headless(1)).await.unwrap();
    let mut received = Vec::new();
    wait_until("a problem document", || {
        while stream.try_read_buf(&mut received).is_ok_and(|read| read > 0) {}
        let is_there = received.windows(12).any(|window| window == b"\"status\":400");
        async move { is_there }
    })
    .await;
}

#[tokio::test]
async fn an_origin_that_is_down_costs_a_client_no_connection() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.shutdown().await;
    let reply = server.get("/api/regions.json").await;
    reply.assert_problem(503, &[]);
    assert_eq!(reply.the("connection"), "keep-alive");
}

/// Old clients send HEAD over kept connections: answers without a body pile up as well.
#[tokio::test]
async fn a_client_that_reads_none_of_its_answers_is_dropped_whatever_it_speaks() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.ready().await;
    let flood = async |request: &'static str| {
        let mut stream = tokio::net::TcpStream::connect(server.public).await.unwrap();
        let requests = request.repeat(200);
        // As long as the server reads on, and then until it has had enough.
        while stream.write_all(requests.as_bytes()).await.is_ok() {}
    };
    let both = futures_util::future::join(
        flood("HEAD /api/listings.json HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
        flood("HEAD /api/listings.json HTTP/1.1\r\nHost: x\r\n\r\n"),
    );
    let dropped = tokio::time::timeout(Duration::from_secs(120), both).await;
    assert!(dropped.is_ok(), "a client that reads nothing is still connected");
}
