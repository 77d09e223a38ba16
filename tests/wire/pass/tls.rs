//! Unknown paths of an origin behind TLS: verified, named by SNI, over HTTP/2 where it is offered.
//!
//! The certificates are made for the test by `openssl`; the origin is hyper over rustls.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::PATH;
use crate::harness::openssl::{certificate, config, signed};
use crate::harness::{Server, Setup, wait_until};

/// The agreement of a connection: server name and protocol.
type Agreed = (Option<String>, Option<String>);

/// An origin behind TLS.
struct TlsOrigin {
    address: SocketAddr,
    acceptor: Arc<Mutex<TlsAcceptor>>,
    running: Arc<Mutex<JoinSet<()>>>,
    connections: Arc<Mutex<Vec<Agreed>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TlsOrigin {
    async fn start(dir: &Path, protocols: &[&str]) -> Self {
        let acceptor = Arc::new(Mutex::new(offering(dir, protocols)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let running = Arc::<Mutex<JoinSet<()>>>::default();
        let origin = Self { address, acceptor, running, connections: Arc::default(), requests: Arc::default() };
        let (connections, requests) = (origin.connections.clone(), origin.requests.clone());
        let (current, running) = (origin.acceptor.clone(), origin.running.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (connections, requests, acceptor) = (connections.clone(), requests.clone(), current.lock().clone());
                running.lock().spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let tls = stream.get_ref().1;
                    let protocol = tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
                    connections.lock().push((tls.server_name().map(str::to_owned), protocol));
                    let answer = service_fn(move |request: http::Request<_>| {
                        let host = request.uri().authority().map(ToString::to_string);
                        let host = host.or_else(|| Some(request.headers().get("host")?.to_str().ok()?.to_owned()));
                        requests.lock().push(host.unwrap_or_default());
                        std::future::ready(Ok::<_, Infallible>(answer(&request)))
                    });
                    drop(auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        origin
    }

    /// From now on it has the certificate in this directory.
    fn renew(&self, dir: &Path) {
        *self.acceptor.lock() = offering(dir, &["h2", "http/1.1"]);
    }

    /// Closes all connections.
    async fn hang_up(&self) {
        let mut running = std::mem::take(&mut *self.running.lock());
        running.shutdown().await;
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.address.port())
    }
}

fn offering(dir: &Path, protocols: &[&str]) -> TlsAcceptor {
    let mut config = config(dir);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

fn answer(request: &http::Request<hyper::body::Incoming>) -> http::Response<Full<Bytes>> {
    let taxonomy = request.uri().path() == "/api/sports.json";
    let body = if taxonomy { r#"{"items":[]}"#.to_owned() } else { request.uri().to_string() };
    let answer = http::Response::builder().header("cache-control", "max-age=60");
    let kind = if taxonomy { "application/json" } else { "text/plain" };
    answer.header("content-type", kind).body(Full::new(body.into())).unwrap()
}

#[tokio::test]
async fn http2_is_spoken_where_it_is_offered_and_one_connection_carries_all() {
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), "DNS:localhost,IP:127.0.0.1", &["-days", "2"]);
    let ca = dir.path().join("ca.pem").to_string_lossy().into_owned();
    for (offered, spoken, most) in
        [(&["h2", "http/1.1"][..], Some("h2"), 1), (&["http/1.1"], Some("http/1.1"), 40), (&[], None, 40)]
    {
        let origin = TlsOrigin::start(dir.path(), offered).await;
        let server = Setup::shield_of_url(&origin.url("localhost")).set("origin.ca_file", &ca).start().await;
        server.ok(PATH).await;
        let targets: Vec<_> = (0..40).map(|number| format!("/api/{number}")).collect();
        let replies = join_all(targets.iter().map(|target| server.get(target))).await;
        for reply in &replies {
            assert_eq!(reply.status, 200, "{reply:?}");
            assert!(reply.text().contains("/api/"), "{reply:?}");
        }
        let connections = origin.connections.lock().clone();
        assert!(connections.len() <= most, "{spoken:?}: {}", connections.len());
        let expected = (Some("localhost".to_owned()), spoken.map(str::to_owned));
        assert!(connections.iter().all(|agreed| *agreed == expected), "{connections:?}");
        let authority = format!("localhost:{}", origin.address.port());
        assert!(origin.requests.lock().iter().all(|host| *host == authority), "{:?}", origin.requests.lock());
        assert_eq!(origin.requests.lock().len(), 41);
        // Known endpoints go the same way.
        assert_eq!(server.ok("/api/sports.json").await.text(), r#"{"items":[]}"#);
    }
}

#[tokio::test]
async fn the_systems_authorities_are_read_with_the_first_certificate() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    certificate(dir.path(), "IP:127.0.0.1", &["-days", "2"]);
    certificate(other.path(), "IP:127.0.0.1", &["-days", "2"]);
    let origin = TlsOrigin::start(dir.path(), &["http/1.1"]).await;
    let authorities = other.path().join("ca.pem");
    let variable = format!("SSL_CERT_FILE={}", authorities.display());
    let server = Setup::shield_of_url(&origin.url("127.0.0.1")).under(&["env", &variable]).start().await;
    // The server runs, and this authority comes only now.
    std::fs::copy(dir.path().join("ca.pem"), &authorities).unwrap();
    assert_eq!(server.get(PATH).await.status, 200);
}

#[tokio::test]
async fn a_bad_certificate_is_named_without_a_request_and_disturbs_no_kept_answer() {
    let (dir, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    certificate(dir.path(), "IP:127.0.0.1", &["-days", "2"]);
    certificate(other.path(), "IP:127.0.0.1", &["-days", "2"]);
    let origin = TlsOrigin::start(dir.path(), &["h2", "http/1.1"]).await;
    let fails = async |server: &Server, path: &str, named: &str| {
        let asked = origin.requests.lock().len();
        // The first request may meet the end of the kept connection.
        wait_until(&format!("the failure names {named:?}"), || async {
            let reply = server.get(path).await;
            reply.assert_problem(503, &[]);
            assert!(!reply.text().contains("127.0.0.1") && !reply.text().contains("certificate"), "{reply:?}");
            let status = server.status().await;
            let said = status["last_error"]["message"].as_str().unwrap_or_default().to_lowercase();
            said.contains("certificate") && said.contains(named)
        })
        .await;
        assert_eq!(origin.requests.lock().len(), asked, "{named}");
    };
    let setup = Setup::shield_of_url(&origin.url("127.0.0.1"));
    fails(&setup.clone().start().await, PATH, "unknownissuer").await;
    let server = setup.set("origin.ca_file", &dir.path().join("ca.pem").to_string_lossy()).start().await;
    server.ok(PATH).await;
    let past = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"];
    let cases: [(&str, &[&str], &str); 4] = [
        ("IP:127.0.0.1", &past, "expired at 2020-02-01t00:00:00z; see whether the clock of this machine is right"),
        (
            "IP:127.0.0.1",
            &["-startdate", "20990101000000Z", "-enddate", "20990201000000Z"],
            "is not valid before 2099-01-01t00:00:00z",
        ),
        ("DNS:elsewhere.example", &["-days", "2"], "not valid for name"),
        // Of another authority with the same name.
        ("", &[], "badsignature"),
    ];
    for (number, (name, days, named)) in cases.into_iter().enumerate() {
        if name.is_empty() {
            origin.renew(other.path());
        } else {
            signed(dir.path(), name, days);
            origin.renew(dir.path());
        }
        origin.hang_up().await;
        fails(&server, &format!("/api/bad/{number}"), named).await;
        server.ok(PATH).await;
        // Good again: no restart, no reload.
        signed(dir.path(), "IP:127.0.0.1", &["-days", "2"]);
        origin.renew(dir.path());
        let good = format!("/api/good/{number}");
        wait_until("the origin is asked again", || async { server.get(&good).await.status == 200 }).await;
    }
}
