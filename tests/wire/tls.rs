//! The public HTTPS listener: the same answers as without TLS, to clients that keep to deadlines.
//!
//! The certificates are made for the test by `openssl`. [`files`] and [`renewal`] test unusable and new files.

mod files;
mod records;
mod renewal;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::Version;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sample_origin::World;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::{Reply, drip};
use crate::harness::openssl::certificate;
use crate::harness::{Script, Server, Setup, Upstream, origin, quickest, run, wait_until};
use crate::process::reserved_port;

const NAME: &str = "DNS:localhost,IP:127.0.0.1";
pub const DAYS: [&str; 2] = ["-days", "2"];
/// Longer than the deadline for a handshake, with room for a busy machine.
const BOUND: Duration = Duration::from_secs(25);

pub fn certified() -> TempDir {
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), NAME, &DAYS);
    dir
}

pub fn with_tls(setup: Setup, dir: &Path) -> Setup {
    setup
        .set("tls.listen", r#"["127.0.0.1:0"]"#)
        .set("tls.cert", dir.join("cert.pem").to_str().unwrap())
        .set("tls.key", dir.join("key.pem").to_str().unwrap())
}

pub async fn address(server: &Server) -> SocketAddr {
    server.status().await["tls"]["listen"][0].as_str().unwrap().parse().unwrap()
}

/// A client that trusts the authority of `dir` only.
pub fn client(dir: &Path) -> reqwest::ClientBuilder {
    let authority = reqwest::Certificate::from_pem(&std::fs::read(dir.join("ca.pem")).unwrap()).unwrap();
    crate::client::client_builder().no_proxy().no_gzip().no_brotli().no_zstd().tls_certs_only([authority])
}

/// A bare TLS connection that offers these protocols.
async fn connect(address: SocketAddr, dir: &Path, protocols: &[&str]) -> TlsStream<TcpStream> {
    let tcp = TcpStream::connect(address).await.unwrap();
    let name = ServerName::from(address.ip());
    TlsConnector::from(Arc::new(config(dir, protocols))).connect(name, tcp).await.unwrap()
}

/// What a client that trusts the authority of `dir` only offers.
pub fn config(dir: &Path, protocols: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(dir.join("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// Everything that a client is told but for the instant.
fn told(reply: &Reply) -> Vec<(String, String)> {
    let mut told: Vec<_> =
        reply.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    told.retain(|(name, _)| {
        !["date", "age", "cache-status", "x-accel-expires", "connection", "keep-alive", "x-request-id"]
            .contains(&name.as_str())
    });
    told.sort();
    told
}

#[tokio::test]
async fn https_gives_the_same_answers_over_both_protocols() {
    let dir = certified();
    let origin = origin(60).await;
    let server = with_tls(Setup::mirror_of(&origin), dir.path()).start().await;
    server.settled(&origin).await;
    let address = address(&server).await;
    let id = origin.world(World::ids)[3];
    for (client, version) in [
        (client(dir.path()).http1_only().build().unwrap(), Version::HTTP_11),
        (client(dir.path()).build().unwrap(), Version::HTTP_2),
        (client(dir.path()).tls_version_max(reqwest::tls::Version::TLS_1_2).build().unwrap(), Version::HTTP_2),
        (client(dir.path()).tls_version_min(reqwest::tls::Version::TLS_1_3).build().unwrap(), Version::HTTP_2),
    ] {
        for target in [
            "/api/listings.json?per_page=100".to_owned(),
            format!("/api/listings/{id}.json"),
            "/api/cities.json".into(),
            "/api/regions.json".into(),
            "/api/listings.json?page=0".into(),
        ] {
            let url = format!("https://{address}{target}");
            let plain = server.get(&target).await;
            let response = client.get(&url).send().await.unwrap();
            assert_eq!(response.version(), version);
            let reply = Reply::of(response).await;
            assert_eq!((reply.status, &reply.body), (plain.status, &plain.body), "{target}");
            assert_eq!(told(&reply), told(&plain), "{target}");
            let head = client.head(&url).send().await.unwrap();
            assert_eq!(head.headers()["content-length"].to_str().unwrap(), plain.body.len().to_string(), "{target}");
            if plain.header("etag").is_some() {
                let reply = client.get(&url).header("if-none-match", plain.etag()).send().await.unwrap();
                let reply = Reply::of(reply).await;
                assert_eq!((reply.status, reply.etag()), (304, plain.etag()), "{target}");
                assert!(reply.body.is_empty());
            }
        }
    }
}

#[tokio::test]
async fn a_client_has_one_limit_over_all_listeners() {
    let dir = certified();
    let origin = origin(20).await;
    let setup = Setup::mirror_of(&origin).set("rate_limit.requests_per_minute", "4");
    let server = with_tls(setup, dir.path()).start().await;
    server.settled(&origin).await;
    let url = format!("https://{}/api/sports.json", address(&server).await);
    let (first, second) = (client(dir.path()).build().unwrap(), client(dir.path()).http1_only().build().unwrap());
    for left in [3, 1] {
        assert_eq!(server.ok("/api/sports.json").await.the("ratelimit").split(';').nth(1), Some(&*format!("r={left}")));
        assert_eq!(first.get(&url).send().await.unwrap().status(), 200);
    }
    for client in [&first, &second] {
        let reply = Reply::of(client.get(&url).send().await.unwrap()).await;
        assert_eq!(reply.status, 429);
        reply.the("retry-after");
    }
}

#[tokio::test]
async fn a_client_that_never_gets_to_http_is_dropped_and_holds_up_nobody() {
    let dir = certified();
    let setup = Setup::offline().set("limits.connections_per_client", "2000");
    let server = with_tls(setup, dir.path()).start().await;
    let address = address(&server).await;
    let start = Instant::now();
    let silent = TcpStream::connect(address).await.unwrap();
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]).await.unwrap();
    let agreed = connect(address, dir.path(), &["h2"]).await;
    let mut agreed_half = connect(address, dir.path(), &["h2"]).await;
    agreed_half.write_all(b"PRI * HTTP").await.unwrap();
    let mut others = Vec::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&[22, 3, 1]).await.unwrap();
        others.push(stream);
    }
    let url = format!("https://{address}/nothing");
    let waited = quickest(async || {
        assert_eq!(client(dir.path()).build().unwrap().get(&url).send().await.unwrap().status(), 404);
    });
    let waited = waited.await;
    drop(others);
    let ended = async |mut stream: Box<dyn tokio::io::AsyncRead + Unpin>| {
        // Any end will do; TLS reports an error if the other side said no farewell.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    let all: [Box<dyn tokio::io::AsyncRead + Unpin>; 4] =
        [Box::new(silent), Box::new(half), Box::new(agreed), Box::new(agreed_half)];
    let all = join_all(all.map(ended));
    assert!(tokio::time::timeout(BOUND, all).await.is_ok(), "still connected after {:?}", start.elapsed());
    assert!(waited < Duration::from_secs(5), "somebody else waited for {waited:?}");
}

#[tokio::test]
async fn plain_http_on_the_https_port_is_told_so_and_nonsense_is_dropped() {
    let dir = certified();
    let server = with_tls(Setup::offline(), dir.path()).start().await;
    let address = address(&server).await;
    let begun = server.process.said().len();
    let reply =
        crate::client::raw(address, b"GET /api/sports.json HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("an answer");
    reply.assert_problem(400, &["HTTPS"]);
    for nonsense in
        [&b"\x80\x2e\x01\x03\x01"[..], b"\0\0\0\0", b"\x16\x03\x01\x00\x05hello", b"\x16GET / HTTP/1.1\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(nonsense).await.unwrap();
        let ended = tokio::time::timeout(BOUND, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "{nonsense:?} is still connected");
    }
    let url = format!("https://{address}/nothing");
    assert_eq!(client(dir.path()).build().unwrap().get(url).send().await.unwrap().status(), 404);
    let said = server.process.said().split_off(begun);
    assert!(!said.contains("ERROR") && !said.contains("WARN"), "clients fill the log: {said}");
}

#[tokio::test]
async fn a_stop_finishes_what_is_in_flight_over_http2_and_closes_the_connection() {
    let dir = certified();
    let origin = origin(20).await;
    // A stop that waits in vain would take minutes.
    let setup = Setup::mirror_of(&origin).set("drain", "10m");
    let mut server = with_tls(setup, dir.path()).start().await;
    server.settled(&origin).await;
    let address = address(&server).await;
    let mut idle = connect(address, dir.path(), &["h2"]).await;
    idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    origin.clear_log();
    origin.set(|switches| switches.latency = Duration::from_millis(1_500));
    let client = client(dir.path()).build().unwrap();
    let in_flight: Vec<_> = (0..20)
        .map(|number| {
            let request = client.get(format!("https://{address}/api/regions.json?{number}"));
            tokio::spawn(async move { Reply::of(request.send().await.unwrap()).await })
        })
        .collect();
    wait_until("the requests are at the origin", || async { origin.count() >= 20 }).await;
    server.process.signal("TERM");
    for reply in in_flight {
        let reply = reply.await.unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.text().contains("northeast"));
    }
    let mut seen = Vec::new();
    let _ = idle.read_to_end(&mut seen).await;
    // The type of a frame is its fourth byte: GOAWAY is 7 (RFC 9113 section 6.8).
    let (mut rest, mut goaway) = (&seen[..], false);
    while rest.len() >= 9 {
        let length = usize::from(rest[1]) << 8 | usize::from(rest[2]);
        goaway |= rest[3] == 7;
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    assert!(goaway, "an idle connection is told: {seen:?}");
    assert_eq!(server.process.exit().await, 0);
    let said = server.process.said();
    assert!(!said.contains("ERROR"), "connections that a client gives up are no errors: {said}");
}

#[tokio::test]
async fn heads_have_the_same_bounds_over_tls_and_whoever_sends_too_much_gets_to_know_it() {
    let dir = certified();
    let server = with_tls(Setup::offline(), dir.path()).start().await;
    let address = address(&server).await;
    let sent = format!("GET /api/listings.json HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    for _ in 0..5 {
        let mut stream = connect(address, dir.path(), &["http/1.1"]).await;
        stream.write_all(sent.as_bytes()).await.expect("all of it is taken");
        let mut answer = Vec::new();
        let read = tokio::time::timeout(BOUND, stream.read_to_end(&mut answer)).await;
        read.expect("an end").expect("an end that is announced");
        crate::client::parse(&answer).expect("an answer").assert_problem(431, &["49152"]);
    }
    let stream = connect(address, dir.path(), &["http/1.1"]).await;
    drip(stream, std::iter::repeat_n("yy", 4000)).await.assert_problem(400, &["pieces"]);
    let plain = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(1 << 20));
    crate::client::raw(address, plain.as_bytes()).await.expect("an answer").assert_problem(400, &["HTTPS"]);
}

/// RFC 9112 §3.2.2: clients with a proxy setting send such targets over TLS, too.
#[tokio::test]
async fn a_target_in_absolute_form_is_for_its_authority_over_tls() {
    let dir = certified();
    let origin = Upstream::start(|_| Script::new(200, "{}")).await;
    let server = with_tls(Setup::shield_of_url(&origin.url()), dir.path()).start().await;
    let address = address(&server).await;
    let ask = async |protocols: &[&str], authority: &str, fields: &str| {
        let start = format!("GET https://{authority}/api/listings.json?page=2 HTTP/1.1\r\n{fields}");
        let stream = connect(address, dir.path(), protocols).await;
        drip(stream, [start.as_str(), "Connection: close\r\n", "\r\n"]).await
    };
    for protocols in [&["http/1.1"][..], &[]] {
        for host in ["mirror.test", "MIRROR.test:8443", "elsewhere.test", "a b", ""] {
            let reply = ask(protocols, "mirror.test:8443", &format!("Host: {host}\r\n")).await;
            assert_eq!((reply.status, reply.text()), (200, "{}"), "{host:?}: {reply:?}");
        }
    }
    assert_eq!(origin.seen_of("/api/listings.json?page=2").len(), origin.count(), "{:?}", origin.seen());
    origin.forget();
    for (authority, fields, named) in [
        ("mirror.test", "", "Host"),
        ("mirror.test", "Host: mirror.test\r\nHost: mirror.test\r\n", ""),
        ("mirror.test", "Host: mirror.test\r\nHost: b\r\n", ""),
        ("", "Host: mirror.test\r\n", "\"\""),
        ("user@mirror.test", "Host: mirror.test\r\n", "user@mirror.test"),
    ] {
        ask(&["http/1.1"], authority, fields).await.assert_problem(400, &[named]);
    }
    assert_eq!(origin.count(), 0, "{:?}", origin.seen());
}

/// The first record of a client, which says nothing after it.
fn hello(dir: &Path, address: SocketAddr) -> Vec<u8> {
    let name = ServerName::from(address.ip());
    let mut client = rustls::ClientConnection::new(Arc::new(config(dir, &[])), name).unwrap();
    let mut record = Vec::new();
    client.write_tls(&mut record).unwrap();
    record
}

#[tokio::test]
async fn a_hello_is_answered_however_many_others_say_nothing_more() {
    let dir = certified();
    let server = with_tls(Setup::offline(), dir.path()).start().await;
    let address = address(&server).await;
    let hello = hello(dir.path(), address);
    let mut silent = Vec::new();
    for _ in 0..80 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        silent.push(stream);
    }
    let mut byte = [0];
    for stream in &mut silent {
        let read = tokio::time::timeout(BOUND, stream.read(&mut byte)).await.expect("an answer").unwrap();
        assert_eq!(read, 1, "given up without an answer");
    }
    let name = ServerName::from(address.ip());
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config(dir.path(), &["http/1.1"])));
    let other = TcpStream::connect(address).await.unwrap();
    tokio::time::timeout(BOUND, connector.connect(name, other)).await.expect("a handshake").unwrap();
    // No other handshake was ended for that.
    let mut rest = vec![0; 1 << 16];
    loop {
        match silent[0].try_read(&mut rest) {
            Ok(read) => assert_ne!(read, 0, "the first was given up before the last was answered"),
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let end = async { while silent[0].read(&mut rest).await.is_ok_and(|read| read > 0) {} };
    tokio::time::timeout(BOUND, end).await.expect("an end");
}

#[tokio::test]
async fn a_household_with_too_many_connections_is_not_shaken_hands_with() {
    let dir = certified();
    let setup = Setup::offline().set("limits.connections_per_client", "1");
    let server = with_tls(setup, dir.path()).start().await;
    let address = address(&server).await;
    let first = connect(address, dir.path(), &["http/1.1"]).await;
    let mut second = TcpStream::connect(address).await.unwrap();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(BOUND, second.read_to_end(&mut answer)).await.expect("an end");
    assert_eq!(answer, b"");
    let url = format!("http://{}/nothing", server.public);
    let plain = crate::client::client_builder().no_proxy().build().unwrap();
    assert_eq!(plain.get(&url).send().await.unwrap().status(), 503, "one bound for all listeners");
    drop(first);
    wait_until("there is room again", || async { plain.get(&url).send().await.unwrap().status() == 404 }).await;
}

#[tokio::test]
async fn https_addresses_are_bound_like_others() {
    let dir = certified();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let setup = with_tls(Setup::offline(), dir.path());
    let data = dir.path().join("data");
    let (code, said) =
        run(&setup.clone().set("tls.listen", &format!("[{address:?}]")).arguments(&["serve"], &data)).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("tls.listen: cannot listen on {address}")), "{said}");
    let (port, _reserved) = reserved_port();
    let both = [format!("0.0.0.0:{port}"), format!("[::]:{port}")];
    let server = setup.clone().set("tls.listen", &format!("{both:?}")).start().await;
    assert_eq!(server.status().await["tls"]["listen"], serde_json::json!(both));
    let (connector, name) =
        (TlsConnector::from(Arc::new(config(dir.path(), &[]))), ServerName::try_from("127.0.0.1").unwrap());
    for host in ["127.0.0.1", "::1"] {
        let tcp = TcpStream::connect((host, port)).await.unwrap();
        connector.connect(name.clone(), tcp).await.unwrap();
    }
    drop(server);
    let server = setup.set("tls.listen", r#"["127.0.0.1:0", "127.0.0.1:0"]"#).start().await;
    let status = server.status().await;
    for address in status["tls"]["listen"].as_array().unwrap() {
        let address = address.as_str().unwrap();
        let url = format!("https://{address}/nothing");
        assert_eq!(client(dir.path()).build().unwrap().get(url).send().await.unwrap().status(), 404);
        assert!(
            server.process.said().contains(&format!("serving HTTPS address={address}")),
            "{}",
            server.process.said()
        );
    }
    let metrics = server.admin(http::Method::GET, "/metrics").await;
    assert!(metrics.text().contains("grandstand_certificate_seconds 17"), "two days: {}", metrics.text());
}
