//! The way to the origin: connections are reused, each step has an end, failures are reported, everything is counted.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;

use super::{PATH, kept, shield};
use crate::harness::{PATIENCE, Script, Setup, Upstream, origin, wait_until};

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let (origin, server) = shield(|seen| kept(seen.target.clone())).await;
    for number in 0..50 {
        let target = format!("/api/{number}");
        assert_eq!(server.ok(&target).await.text(), target);
    }
    // A request may come before the last connection is back in the pool.
    assert!(origin.connections() <= 3, "{} connections for {} requests", origin.connections(), origin.count());
}

#[tokio::test]
async fn a_connection_that_the_origin_closes_between_two_requests_is_not_noticed() {
    // The origin takes the second request of each connection, and closes it without an answer.
    let origin = Upstream::start(|_| kept("x")).await;
    let methods = r#"["GET", "HEAD", "POST"]"#;
    let server = Setup::shield_of_url(&origin.url()).set("passthrough.methods", methods).start().await;
    let used = Arc::new(parking_lot::Mutex::new(std::collections::HashSet::new()));
    let connection = used.clone();
    origin.answers(move |seen| if connection.lock().insert(seen.connection) { kept("x") } else { Script::hang_up() });
    for number in 0..6 {
        let reply = server.get(&format!("/api/{number}")).await;
        assert_eq!(reply.text(), "x", "{number}: {:?}", server.status().await["last_error"]);
    }
    let posts = || origin.seen().iter().filter(|seen| seen.method == "POST").count();
    // Until one meets a used connection: the last may not be back in the pool yet.
    let mut sent = 0;
    wait_until("a request meets a connection that is closed under it", || {
        sent += 1;
        let (number, server) = (sent, &server);
        async move {
            let reply = server.send(Method::POST, "/api/post", &[("content-length", "0")]).await;
            assert_eq!(posts(), number, "what may have been done is not done twice: {reply:?}");
            reply.status == 503
        }
    })
    .await;
}

#[tokio::test]
async fn an_origin_that_never_answers_is_not_asked_over_and_over() {
    let (origin, server) = shield(|_| Script::hang_up()).await;
    let reply = server.get(PATH).await;
    reply.assert_problem(503, &[]);
    assert!(reply.the("retry-after").parse::<u64>().unwrap() >= 1);
    assert!(origin.count() <= 2, "{}", origin.count());
}

/// A socket with a full queue, so that nobody can connect; keep the streams that fill it.
fn unreachable() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
    let socket = short_queue();
    let address = socket.local_addr().unwrap();
    let mut filling = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        filling.push(stream);
        assert!(filling.len() < 10_000, "the queue has no end");
    }
    (socket, filling, address)
}

fn short_queue() -> TcpListener {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    socket.listen(1).unwrap().into_std().unwrap()
}

#[tokio::test]
async fn every_step_has_an_end() {
    let (_socket, _filling, unreachable) = unreachable();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = (silent.local_addr().unwrap(), silent);
    let headless = Upstream::start(|_| kept("late").after(PATIENCE)).await;
    // Bound, so that nobody else listens there, but not listening.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let refused = deaf.local_addr().unwrap();
    for (step, url) in [
        ("connect", format!("http://{unreachable}")),
        ("handshake", format!("https://{}", silent.0)),
        ("head", headless.url()),
        ("refused", format!("http://{refused}")),
    ] {
        let server = Setup::shield_of_url(&url).set("origin.timeout", "500ms").start().await;
        let start = Instant::now();
        let reply = server.get(PATH).await;
        reply.assert_problem(503, &[]);
        assert!(start.elapsed() < Duration::from_secs(3), "{step} took {:?}", start.elapsed());
        assert!(reply.the("retry-after").parse::<u64>().unwrap() >= 1);
        let text = format!("{:?} {}", reply.headers, reply.text());
        assert!(!text.contains("127.0.0.1"), "{step}: no address of the inside shows: {text}");
        let status = server.status().await;
        let said = status["last_error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(PATH), "{step}: {status}");
        // Of timers that end at once any may show.
        let timers = &["not answer", "deadline has elapsed", "no connection after 0.5 s"][..];
        let named = if step == "refused" { &["refused"][..] } else { timers };
        assert!(named.iter().any(|text| said.contains(text)), "{step}: {said}");
    }
}

#[tokio::test]
async fn the_next_address_of_a_name_is_tried() {
    // `localhost` is ::1 first on most systems, where nobody listens.
    let origin = Upstream::start(|_| kept("x")).await;
    let url = format!("http://localhost:{}", origin.address().port());
    let server = Setup::shield_of_url(&url).start().await;
    assert_eq!(server.ok(PATH).await.text(), "x");
    assert_eq!(origin.seen()[0].header("host"), Some(&url["http://".len()..]));
}

#[tokio::test]
async fn a_mirror_passes_what_it_does_not_know_and_keeps_it_when_the_origin_is_gone() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "all").start().await;
    server.settled(&origin).await;
    origin.clear_log();
    let before = origin.expected_text(PATH).1;
    let first = server.ok(PATH).await;
    // It names the second of its making.
    let expected = [before, origin.expected_text(PATH).1];
    assert!(first.the("cache-status").ends_with("fwd=uri-miss; fwd-status=200"), "{first:?}");
    assert_eq!((first.header("mirror-snapshot"), first.header("mirror-confirmed")), (None, None));
    assert!(expected.iter().any(|text| first.text() == text), "{first:?}");
    assert_eq!(server.ok(PATH).await.body, first.body);
    assert_eq!(origin.count(), 1, "{:?}", origin.log());
    origin.shutdown().await;
    // Beyond its freshness, too: a client that insists gets what is kept.
    let reply = server.get_with(PATH, &[("cache-control", "no-cache")]).await;
    assert_eq!((reply.status, &reply.body), (200, &first.body), "{reply:?}");
    assert!(reply.the("cache-status").contains("stale-if-error"), "{reply:?}");
    server.get("/api/other.json").await.assert_problem(503, &[]);
    assert_eq!(server.ok("/api/listings.json").await.total(), 20, "the snapshot is not impressed");
}
