//! The mirror talks to an origin behind TLS only if it trusts the certificate.
//!
//! The certificates are made for the test.

use std::net::SocketAddr;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::harness::openssl::{certificate, in_front_of};
use crate::harness::{Script, Server, Setup, Upstream, origin, run, until, wait_until};
use crate::tls::{DAYS, address, certified, with_tls};

/// Starts a mirror that names a failure.
async fn tells(setup: Setup, named: &str) -> Server {
    let server = setup.set("ttl", "1s").start().await;
    wait_until(&format!("the failure is told and names {named:?}"), || async {
        let status = server.status().await;
        let error = status["last_error"]["message"].as_str().unwrap_or_default().to_lowercase();
        let state = status["origin"]["state"].as_str().unwrap_or_default();
        ["could-not-be-asked", "nonsense"].contains(&state) && error.contains(named)
    })
    .await;
    assert_eq!(server.admin(http::Method::GET, "/readyz").await.status, 503);
    server
}

async fn refuses(setup: Setup, named: &str) {
    let server = tells(setup, named).await;
    server.get("/api/listings.json").await.assert_problem(503, &[]);
}

#[tokio::test]
async fn tls_to_a_port_without_it_is_refused() {
    let origin = origin(20).await;
    let https = Setup::mirror_of(&origin).set("origin.url", &format!("https://{}", origin.addr()));
    refuses(https, "that port does not speak tls: set origin.url to http://").await;
    assert_eq!(origin.count(), 0);
}

#[tokio::test]
async fn http_to_a_port_that_speaks_tls_is_told_in_words() {
    let dir = certified();
    let told = "that port speaks tls: set origin.url to https://";
    // It answers 400, as nginx does.
    let tls = with_tls(Setup::offline(), dir.path()).start().await;
    tells(Setup::offline().set("origin.url", &format!("http://{}", address(&tls).await)), told).await;
    // It answers with an alert: 21, 3 and the version, length 2, fatal, and why.
    let alert = raw(b"\x15\x03\x03\x00\x02\x02\x46").await;
    refuses(Setup::offline().set("origin.url", &format!("http://{alert}")), told).await;
}

#[tokio::test]
async fn an_origin_that_fails_otherwise_is_not_taken_for_one_that_speaks_tls() {
    let refuses = Upstream::start(|_| Script::new(400, "no HTTPS here")).await;
    let others = [raw(b"").await, raw(b"SSH-2.0-OpenSSH_9.2\r\n").await, raw(b"\x15\x04").await];
    for url in others.map(|other| format!("http://{other}")).into_iter().chain([refuses.url()]) {
        let server = tells(Setup::offline().set("origin.url", &url), "/api/listings.json").await;
        assert!(!server.process.said().to_lowercase().contains("tls"), "{}", server.process.said());
    }
}

/// A server that sends these bytes to whoever sends something, and closes the connection.
async fn raw(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            // A client may have gone.
            let _ = client.read(&mut [0; 1024]).await;
            let _ = client.write_all(bytes).await;
        }
    });
    address
}

#[tokio::test]
async fn an_origin_that_was_never_reached_is_named_by_the_url_that_was_asked() {
    let down = origin(20).await;
    down.shutdown().await;
    let asked = format!("{}/api/listings.json?per_page=100", down.url());
    let server = Setup::mirror_of(&down).start().await;
    wait_until("the log tells it", || async { server.process.said().contains(&asked) }).await;
    wait_until("/status tells it", || async { server.status().await["last_error"].to_string().contains(&asked) }).await;
    let told = until("it is a finding", || server.finding("origin-fails")).await;
    assert!(told.starts_with("the first crawl") && told.contains("the origin cannot be reached"), "{told}");

    let origin = origin(20).await;
    let twice = Setup::mirror_of(&origin).set("origin.url", &format!("{}/api", origin.url()));
    let (code, said) = run(&twice.arguments(&["check"], &server.data_dir())).await;
    assert!(
        code == 0 && said.contains("origin.url: ") && said.contains(&format!("write \"{}\"", origin.url())),
        "{said}"
    );
    tells(twice, "/api/api/listings.json?per_page=100; origin.url must end before /api").await;
}

#[tokio::test]
async fn an_address_at_which_there_is_no_such_api_is_told_so() {
    for (status, body) in [(404, "gone"), (200, "<!DOCTYPE html><title>Welcome</title>"), (200, "<HTML>")] {
        let other = Upstream::start(move |_| Script::new(status, body).with("content-type", "text/html")).await;
        let setup = Setup::shield_of_url(&other.url()).without("mirror.enabled");
        tells(setup, "check origin.url: /api/listings.json is added to it").await;
    }
}

#[tokio::test]
async fn certificates_decide_whether_an_origin_is_talked_to() {
    let origin = origin(20).await;
    let (dir, own, other) = (certified(), certified(), TempDir::new().unwrap());
    certificate(other.path(), "DNS:elsewhere.example", &DAYS);
    // `openssl req -x509` makes the certificate of an authority.
    for (from, to) in [("ca.pem", "cert.pem"), ("ca.key", "key.pem")] {
        std::fs::copy(own.path().join(from), own.path().join(to)).unwrap();
    }
    let of = async |dir: &TempDir| {
        let address = in_front_of(origin.addr(), dir.path()).await;
        Setup::mirror_of(&origin).set("origin.url", &format!("https://{address}"))
    };
    let trusting =
        |setup: Setup, dir: &TempDir| setup.set("origin.ca_file", &dir.path().join("ca.pem").to_string_lossy());
    let setup = of(&dir).await;
    refuses(setup.clone(), "certificate").await;
    refuses(trusting(of(&other).await, &other), "certificate").await;
    let named = "the certificate of an authority (ca:true) as its own; give the server a certificate with";
    let server = tells(trusting(of(&own).await, &own), named).await;
    let said = until("it is a finding", || server.finding("origin-fails")).await;
    assert!(said.contains("(origin.ca_file for the origin;") && !said.contains("CaUsed"), "{said}");

    // Behind a byte order mark, as some editors write it.
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, ["\u{feff}".as_bytes(), &std::fs::read(&ca).unwrap()].concat()).unwrap();
    let server = trusting(setup, &dir).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    assert_eq!(server.ok("/api/listings.json").await.total(), 20);
}
