//! Heads of requests: their host and their length; a client that sends too much gets an answer and costs nothing, on
//! both listeners.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Reply, drip, http2_client, parse, raw, raw_and_no_more};
use crate::harness::{PATIENCE, Script, Server, Setup, Upstream};

const LIST: &str = "/api/listings.json";

/// A shield whose origin answers everything.
async fn bounded() -> (Upstream, Server) {
    let origin = Upstream::start(|_| Script::new(200, "{}").with("cache-control", "max-age=60")).await;
    let server = Setup::shield_of_url(&origin.url()).start().await;
    (origin, server)
}

async fn send(to: SocketAddr, request: &str) -> Reply {
    let start: String = request.chars().take(80).collect();
    raw(to, request.as_bytes()).await.unwrap_or_else(|| panic!("no answer to {start:?}"))
}

#[tokio::test]
async fn a_request_of_http_1_1_names_one_host_that_is_one() {
    let (origin, server) = bounded().await;
    let get = |version: &str, fields: &str| format!("GET {LIST} HTTP/{version}\r\n{fields}Connection: close\r\n\r\n");
    for (fields, named) in [
        ("", "Host"),
        ("Host:\r\n", "\"\""),
        ("Host: a b\r\n", "\"a b\""),
        ("Host: http://mirror.test\r\n", "\"http://mirror.test\""),
        ("Host: mirror.test:port\r\n", "\"mirror.test:port\""),
        ("Host: <script>\r\n", "<script>"),
        ("Host: a\r\nHost: a\r\n", ""),
        ("Host: a\r\nHost: b\r\n", ""),
        ("Host: user@mirror.test\r\n", ""),
    ] {
        send(server.public, &get("1.1", fields)).await.assert_problem(400, &[named]);
    }
    assert_eq!(origin.count(), 0, "{:?}", origin.seen());
    for host in ["mirror.test", "mirror.test:8080", "[::1]:80", "127.0.0.1", "MIRROR.test."] {
        assert_eq!(send(server.public, &get("1.1", &format!("Host: {host}\r\n"))).await.status, 200, "{host}");
    }
    assert_eq!(send(server.public, &get("1.0", "")).await.status, 200, "HTTP/1.0 need not name one");
    send(server.public, &get("1.0", "Host: a b\r\n")).await.assert_problem(400, &["a b"]);
}

/// RFC 9112 §3.2.2: clients with a proxy setting send such targets, often with another spelling in `Host`.
#[tokio::test]
async fn a_target_in_absolute_form_is_for_its_authority_whatever_host_says() {
    let (origin, server) = bounded().await;
    let ask = |method: &str, target: &str, fields: &str| {
        format!("{method} {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n")
    };
    let list = format!("http://mirror.test:8080{LIST}?page=2");
    for target in [list.as_str(), &list.replace("http:", "HTTPS:")] {
        for host in
            ["mirror.test", "mirror.test:8080", "MIRROR.test", "elsewhere.test", "a b", "http://mirror.test", ""]
        {
            let reply = send(server.public, &ask("GET", target, &format!("hOsT: {host}\r\n"))).await;
            assert_eq!(reply.status, 200, "{target} {host}: {reply:?}");
        }
    }
    assert_eq!(origin.count_of(&format!("{LIST}?page=2")), 1, "{:?}", origin.seen());
    for (method, target, status) in [
        ("GET", "http://mirror.test", 200),
        ("GET", "http://mirror.test/?x=1", 200),
        ("GET", "http://mirror.test?x=1", 200),
        ("HEAD", "http://[::1]:80/docs", 200),
        ("OPTIONS", "http://mirror.test", 204),
        ("POST", list.as_str(), 405),
        ("GET", "http://mirror.test//x", 400),
    ] {
        let reply = send(server.public, &ask(method, target, "Host: other.test\r\n")).await;
        assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
    }
    origin.forget();
    for (target, fields, named) in [
        (list.as_str(), "", "Host"),
        (list.as_str(), "Host: a\r\nHost: a\r\n", ""),
        (list.as_str(), "Host: a\r\nHost: mirror.test:8080\r\n", ""),
        (list.as_str(), "Host : a\r\n", ""),
        (list.as_str(), "Host: a\r\n b\r\n", ""),
        (list.as_str(), "Host: a\rTransfer-Encoding: chunked\r\n", ""),
        (list.as_str(), "Host: a\0b\r\n", ""),
        ("http:///api/listings.json", "Host: a\r\n", "\"\""),
        ("http://user@mirror.test/api/listings.json", "Host: a\r\n", "user@mirror.test"),
        ("http://a\\b/api/listings.json", "Host: a\r\n", "a\\b"),
        ("http://a:b/api/listings.json", "Host: a\r\n", "a:b"),
        ("http://a#b/api/listings.json", "Host: a\r\n", "a#b"),
        ("ftp://a/api/listings.json", "Host: a\r\n", ""),
        ("http:/api/listings.json", "Host: a\r\n", ""),
        ("//mirror.test/api/listings.json", "Host: mirror.test\r\n", ""),
    ] {
        send(server.public, &ask("GET", target, fields)).await.assert_problem(400, &[named]);
    }
    assert_eq!(origin.count(), 0, "{:?}", origin.seen());
    // Operators' names are those of the target, too: a web page can choose it, and not `Host`.
    let status = |authority: SocketAddr, host: &str| {
        ask("GET", &format!("http://{authority}/status"), &format!("Host: {host}\r\n"))
    };
    assert_ne!(send(server.admin, &status(server.admin, "other.test")).await.status, 403);
    let foreign = ask("GET", "http://evil.test/status", &format!("Host: {}\r\n", server.admin));
    assert_eq!(send(server.admin, &foreign).await.status, 403);
}

/// The head of a `GET` with so many bytes in all.
fn head_of(length: usize) -> String {
    let (start, end) = (format!("GET {LIST} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nx: "), "\r\n\r\n");
    format!("{start}{}{end}", "y".repeat(length - start.len() - end.len()))
}

fn line_of(length: usize) -> String {
    let (start, end) = (format!("GET {LIST}?x="), " HTTP/1.1");
    let line = format!("{start}{}{end}", "y".repeat(length - start.len() - end.len()));
    format!("{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

fn fields(count: usize) -> String {
    let others = "x: y\r\n".repeat(count - 2);
    format!("GET {LIST} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{others}\r\n")
}

#[tokio::test]
async fn what_is_too_long_is_told_so_at_the_bound_on_both_listeners() {
    let (origin, server) = bounded().await;
    for to in [server.public, server.admin] {
        let expected = if to == server.public { 200 } else { 404 };
        for fits in [head_of(49_152), line_of(49_000), fields(255)] {
            assert_eq!(send(to, &fits).await.status, expected, "{} bytes", fits.len());
        }
        for (request, status) in [
            (head_of(49_153), 431),
            (head_of(1 << 20), 431),
            (line_of(49_153), 414),
            (line_of(70_000), 414),
            (line_of(1 << 20), 414),
            (fields(256), 431),
            (fields(600), 431),
        ] {
            let reply = send(to, &request).await;
            assert_eq!(reply.status, status, "{} bytes: {reply:?}", request.len());
            assert_eq!(reply.the("content-type"), "application/problem+json");
            assert_eq!(reply.json()["status"], status);
            assert_eq!(reply.the("connection"), "close");
        }
    }
    send(server.public, &line_of(50_000)).await.assert_problem(414, &["49152"]);
    send(server.public, &head_of(50_000)).await.assert_problem(431, &["49152"]);
    send(server.public, &fields(300)).await.assert_problem(431, &["255"]);
    assert_eq!(origin.count_of(LIST), 1, "{:?}", origin.seen());
}

/// A client that writes everything before it reads would see a reset instead of its answer.
#[tokio::test]
async fn whoever_sends_too_much_gets_the_answer_and_then_the_end() {
    let (_origin, server) = bounded().await;
    for to in [server.public, server.admin] {
        for request in [head_of(1 << 20), line_of(3 << 20)] {
            for _ in 0..10 {
                let mut stream = TcpStream::connect(to).await.unwrap();
                stream.write_all(request.as_bytes()).await.expect("all of it is taken");
                let mut answer = Vec::new();
                let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
                read.expect("an end").expect("no reset");
                assert!(parse(&answer).is_some_and(|reply| matches!(reply.status, 414 | 431)), "{answer:?}");
            }
        }
    }
}

/// How much memory the process holds, in MiB.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn unfinished_heads_occupy_no_memory_worth_speaking_of() {
    let origin = Upstream::start(|_| Script::new(200, "{}")).await;
    let server = Setup::shield_of_url(&origin.url()).alone().start().await;
    let megabyte = format!("GET {LIST} HTTP/1.1\r\nHost: a\r\nx: {}", "y".repeat(1 << 20));
    for to in [server.public, server.admin] {
        let before = resident(&server);
        let mut open = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(to).await.unwrap();
            // As much as the server takes; it may have had enough at any time.
            let _ = tokio::time::timeout(Duration::from_secs(5), stream.write_all(megabyte.as_bytes())).await;
            open.push(stream);
        }
        let held = resident(&server).saturating_sub(before);
        assert!(held < 24, "{held} MiB for 100 unfinished heads of 1 MiB each");
        for stream in &mut open {
            let mut answer = [0; 12];
            tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.unwrap().unwrap();
            assert_eq!(&answer, b"HTTP/1.1 431");
        }
    }
}

/// A connection whose packets leave at once.
async fn direct(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

#[tokio::test]
async fn a_head_that_drips_in_is_given_up_unless_its_lines_end_in_time() {
    let (origin, server) = bounded().await;
    for to in [server.public, server.admin] {
        let endless = || std::iter::repeat_n("yy", 4000);
        let reply = drip(direct(to).await, ["GET /?"].into_iter().chain(endless())).await;
        assert_eq!(reply.status, 400, "{reply:?}");
        assert_eq!(reply.the("content-type"), "application/problem+json");
        let reply = drip(direct(to).await, ["GET / HTTP/1.1\r\n", "x: "].into_iter().chain(endless())).await;
        assert_eq!(reply.status, 400, "{reply:?}");
    }
    let slow = fields(40);
    let bytes = (0..slow.len()).map(|at| &slow[at..=at]);
    assert_eq!(drip(direct(server.public).await, bytes).await.status, 200, "a byte at a time is slow and no attack");
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn whoever_speaks_something_else_is_told_at_once() {
    let (_origin, server) = bounded().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..],
        b"GET /\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n",
        b"PRIVATE / HTTP/1.1\r\nHost: a\r\nbroken line\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(server.public).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // Sooner than any deadline for heads.
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "{bytes:?}: {:?}", String::from_utf8_lossy(&answer));
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{bytes:?}: {:?}", String::from_utf8_lossy(&answer));
    }
    // A start like HTTP/2 that is none keeps to the bounds of HTTP/1.
    let long = format!("PRIVATE /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(1 << 20));
    assert_eq!(send(server.public, &long).await.status, 414);
    for odd in ["\r\n\r\n\r\n", "GET\r\n\r\n", "GET /api/listings.json HTTP/9.9\r\nHost: a\r\n\r\n"] {
        let reply = raw_and_no_more(server.public, odd.as_bytes()).await;
        assert!(reply.is_none_or(|reply| (400..600).contains(&reply.status)), "{odd:?}");
    }
    assert_eq!(send(server.public, &line_of(100)).await.status, 200, "it goes on serving");
}

#[tokio::test]
async fn refused_heads_count_against_the_limit() {
    let setup = Setup::offline().set("rate_limit.requests_per_minute", "3");
    let server = setup.start().await;
    for (request, status, left) in
        [(line_of(50_000), 414, "r=2"), (head_of(50_000), 431, "r=1"), (fields(300), 431, "r=0")]
    {
        let reply = send(server.public, &request).await;
        assert_eq!(reply.status, status);
        assert!(reply.the("ratelimit").contains(left), "{reply:?}");
    }
    let reply = send(server.public, &head_of(1 << 20)).await;
    reply.assert_problem(429, &[]);
    reply.the("retry-after");
}

#[tokio::test]
async fn over_http_2_the_same_is_too_long() {
    let (origin, server) = bounded().await;
    let client = http2_client();
    let url = format!("http://{}{LIST}", server.public);
    let long = client.get(format!("{url}?x={}", "y".repeat(50_000))).send().await.unwrap();
    Reply::of(long).await.assert_problem(414, &["49152"]);
    let large = client.get(&url).header("x", "y".repeat(50_000)).send().await.unwrap();
    Reply::of(large).await.assert_problem(431, &["49152"]);
    let mut many = client.get(&url);
    for number in 0..256 {
        many = many.header(format!("x{number}"), "y");
    }
    Reply::of(many.send().await.unwrap()).await.assert_problem(431, &["255"]);
    let larger = client.get(&url).header("x", "y".repeat(80_000)).send().await.unwrap();
    assert_eq!(larger.status().as_u16(), 431);
    assert_eq!(origin.count(), 0);
    assert_eq!(client.get(&url).send().await.unwrap().status().as_u16(), 200);
}
