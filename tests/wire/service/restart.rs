//! Restarts under load: the sockets stay open in the service manager, and no request fails, with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::{Sockets, with_sockets};
use crate::client::{http2_client, raw};
use crate::harness::{Process, Setup, breath, origin, wait_until};
use crate::tls;

const TARGET: &str = "/api/listings.json?per_page=100";

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection of HTTP/1.1.
type Connection = BufReader<Box<dyn Bytes>>;

/// One request on a connection; whether the connection may be used again.
async fn exchange(stream: &mut Connection) -> Result<bool, String> {
    let failed = |error: io::Error| error.to_string();
    stream.write_all(format!("GET {TARGET} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.map_err(failed)?;
    stream.flush().await.map_err(failed)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.map_err(|error| format!("{error} after {} bytes of a head", head.len()))?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    if !head.starts_with("http/1.1 200 ") {
        return Err(head);
    }
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut body = vec![0; field("content-length").unwrap().parse().unwrap()];
    stream.read_exact(&mut body).await.map_err(|error| format!("{error} in a body"))?;
    Ok(field("connection") != Some("close"))
}

/// Where clients ask.
#[derive(Clone)]
struct Place {
    address: SocketAddr,
    /// The directory of the authority that they trust; `None`: without TLS.
    authority: Option<PathBuf>,
}

impl Place {
    async fn connect(&self) -> io::Result<Connection> {
        let tcp = TcpStream::connect(self.address).await?;
        let stream: Box<dyn Bytes> = match &self.authority {
            None => Box::new(tcp),
            Some(authority) => {
                let connector = TlsConnector::from(Arc::new(tls::config(authority, &["http/1.1"])));
                Box::new(connector.connect(ServerName::from(self.address.ip()), tcp).await?)
            }
        };
        Ok(BufReader::new(stream))
    }

    fn http2_client(&self) -> reqwest::Client {
        self.authority.as_deref().map_or_else(http2_client, |authority| tls::client(authority).build().unwrap())
    }

    fn url(&self) -> String {
        let scheme = if self.authority.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{TARGET}", self.address)
    }
}

/// What a client does with its connections.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// HTTP/1.1, on one connection until the server says that it ends.
    Keeps,
    /// HTTP/1.1, on a connection for each request.
    Opens,
    /// HTTP/2, on one connection.
    Shares,
    /// HTTP/2, on a connection for each request.
    OpensHttp2,
}

/// Clients that never stop asking, and count.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Result<(), String>>>,
}

impl Load {
    fn start(place: &Place) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut clients = Vec::new();
        for manner in [Manner::Keeps, Manner::Opens, Manner::Shares, Manner::OpensHttp2] {
            for _ in 0..2 {
                let (place, stop, answered) = (place.clone(), stop.clone(), answered.clone());
                clients.push(tokio::spawn(async move {
                    let asked = match manner {
                        Manner::Keeps => http1(&place, true, &stop, &answered).await,
                        Manner::Opens => http1(&place, false, &stop, &answered).await,
                        Manner::Shares => http2(&place, true, &stop, &answered).await,
                        Manner::OpensHttp2 => http2(&place, false, &stop, &answered).await,
                    };
                    asked.map_err(|error| format!("{manner:?}: {error}"))
                }));
            }
        }
        Self { stop, answered, clients }
    }

    /// Waits for so many more answers.
    async fn more(&self, answers: usize) {
        let before = self.answered.load(Ordering::Relaxed);
        wait_until("more is answered", || async { self.answered.load(Ordering::Relaxed) >= before + answers }).await;
    }

    /// The failures.
    async fn stop(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for client in self.clients {
            failures.extend(client.await.unwrap().err());
        }
        failures
    }
}

/// A client that gives up at the first failure. One that `keeps` its connection opens another one only when the server has
/// said that it ends.
async fn http1(place: &Place, keeps: bool, stop: &AtomicBool, answered: &AtomicUsize) -> Result<(), String> {
    let mut kept = None;
    while !stop.load(Ordering::Relaxed) {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => place.connect().await.map_err(|error| format!("no connection: {error}"))?,
        };
        let reusable = exchange(&mut stream).await?;
        answered.fetch_add(1, Ordering::Relaxed);
        kept = Some(stream).filter(|_| keeps && reusable);
        breath().await;
    }
    Ok(())
}

async fn http2(place: &Place, keeps: bool, stop: &AtomicBool, answered: &AtomicUsize) -> Result<(), String> {
    let (mut client, url) = (place.http2_client(), place.url());
    while !stop.load(Ordering::Relaxed) {
        let reply = client.get(&url).send().await.map_err(|error| format!("{error:?}"))?;
        let (status, version) = (reply.status(), reply.version());
        reply.bytes().await.map_err(|error| format!("{error:?}"))?;
        if status != 200 || version != http::Version::HTTP_2 {
            return Err(format!("{version:?}: {status}"));
        }
        answered.fetch_add(1, Ordering::Relaxed);
        if !keeps {
            client = place.http2_client();
        }
        breath().await;
    }
    Ok(())
}

#[tokio::test]
async fn no_request_fails_while_the_server_restarts_under_load() {
    restarts_under_load("http", None).await;
}

#[tokio::test]
async fn no_request_over_tls_fails_while_the_server_restarts_under_load() {
    let certificate = tls::certified();
    restarts_under_load("https", Some(certificate.path())).await;
}

/// Restarts three times under load on the socket with this name. `certificate`: the directory of certificate and authority.
async fn restarts_under_load(kind: &'static str, certificate: Option<&Path>) {
    let origin = origin(300).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let sockets = Sockets::named(&[kind, "admin"]);
    let setup = Setup::mirror_of(&origin).set("drain", "50s");
    let setup = certificate.iter().fold(setup, |setup, dir| tls::with_tls(setup, dir));
    let setup = with_sockets(setup, &sockets);
    let mut process = setup.spawn(&data);
    let ready = format!("http://{}/readyz", sockets.address(1));
    let is_ready =
        async || crate::client::plain_client().get(&ready).send().await.is_ok_and(|reply| reply.status() == 200);
    wait_until("it serves a snapshot", is_ready).await;
    let place = Place { address: sockets.address(0), authority: certificate.map(Path::to_owned) };
    let load = Load::start(&place);
    load.more(120).await;
    for _ in 0..3 {
        process = restarted(process, &setup, &data).await;
        load.more(120).await;
    }
    let answered = load.answered.load(Ordering::Relaxed);
    let failures = load.stop().await;
    assert!(failures.is_empty(), "{} of {answered}: {failures:?}", failures.len());
    println!("{answered} requests answered over 3 restarts, none failed");
    process.signal("TERM");
    assert_eq!(process.end().await.0, 0);
}

/// Stops the process as a service manager does, and starts the next one when it has ended.
async fn restarted(process: Process, setup: &Setup, data: &std::path::Path) -> Process {
    process.signal("TERM");
    let (code, said) = process.end().await;
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("aborted"), "{said}");
    setup.spawn(data)
}

/// A connection, and whether the answer to its first request says that it ends.
async fn asked(address: SocketAddr) -> io::Result<(TcpStream, bool)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n").await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 404 "), "{head}");
    Ok((stream, head.contains("connection: close")))
}

/// Load balancers notice a stop some time after it.
#[tokio::test]
async fn a_server_that_stops_accepts_connections_for_a_while_and_says_that_each_ends() {
    let mut server = Setup::offline().set("drain", "10m").start().await;
    let (mut kept, ends) = asked(server.public).await.unwrap();
    let _silent = TcpStream::connect(server.public).await.unwrap();
    assert!(!ends);
    server.process.signal("TERM");
    // The first that is told so may have been accepted before.
    let mut told = 0;
    while told < 2 {
        told += usize::from(asked(server.public).await.expect("it still accepts").1);
    }
    let ready = raw(server.public, b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!((ready.status, ready.text()), (503, "stopping\n"), "a load balancer that asks looks elsewhere");
    assert_eq!(kept.read(&mut [0]).await.unwrap(), 0, "an idle connection is closed");
    assert_eq!(server.process.exit().await, 0);
    assert!(TcpStream::connect(server.public).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_passed_socket_is_left_to_the_next_server() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let sockets = Sockets::named(&["http", "admin"]);
    let setup = with_sockets(Setup::offline().set("drain", "10m"), &sockets);
    let process = setup.spawn(&data);
    let (mut kept, ends) = asked(sockets.address(0)).await.unwrap();
    assert!(!ends);
    let told = Instant::now();
    process.signal("TERM");
    let (code, said) = process.end().await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(kept.read(&mut [0]).await.unwrap(), 0, "an idle connection is closed");
    // Half of `drain`, 10 s at most, is for connections that are in use.
    assert!(told.elapsed() < Duration::from_secs(8), "new connections waited for an idle one: {:?}", told.elapsed());
    // It waits in the socket.
    let waits = tokio::spawn(asked(sockets.address(0)));
    let next = setup.spawn(&data);
    let (_stream, ends) = waits.await.unwrap().unwrap();
    assert!(!ends);
    next.signal("INT");
    assert_eq!(next.end().await.0, 0);
}
