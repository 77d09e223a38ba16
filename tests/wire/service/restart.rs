//! Restarts under load: the sockets stay open in the service manager, and no request fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{Sockets, with_sockets};
use crate::client::http2_client;
use crate::harness::{Process, Setup, origin, wait_until};

const TARGET: &str = "/api/listings.json?per_page=100";

/// One request on a connection; whether the connection may be used again.
async fn exchange(stream: &mut BufReader<TcpStream>) -> Result<bool, String> {
    let failed = |error: std::io::Error| error.to_string();
    stream.write_all(format!("GET {TARGET} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.map_err(failed)?;
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

/// Clients that never stop asking, and count.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Result<(), String>>>,
}

impl Load {
    fn start(address: SocketAddr) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut clients = Vec::new();
        for number in 0..12 {
            let (stop, answered) = (stop.clone(), answered.clone());
            clients.push(match number % 3 {
                2 => tokio::spawn(http2(address, stop, answered)),
                kind => tokio::spawn(http1(address, kind == 0, stop, answered)),
            });
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
async fn http1(
    address: SocketAddr,
    keeps: bool,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
) -> Result<(), String> {
    let mut kept = None;
    while !stop.load(Ordering::Relaxed) {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => {
                BufReader::new(TcpStream::connect(address).await.map_err(|error| format!("no connection: {error}"))?)
            }
        };
        let reusable = exchange(&mut stream).await.map_err(|error| format!("keeps {keeps}: {error}"))?;
        answered.fetch_add(1, Ordering::Relaxed);
        kept = Some(stream).filter(|_| keeps && reusable);
    }
    Ok(())
}

async fn http2(address: SocketAddr, stop: Arc<AtomicBool>, answered: Arc<AtomicUsize>) -> Result<(), String> {
    let client = http2_client();
    while !stop.load(Ordering::Relaxed) {
        let reply =
            client.get(format!("http://{address}{TARGET}")).send().await.map_err(|error| format!("{error:?}"))?;
        let status = reply.status();
        reply.bytes().await.map_err(|error| format!("{error:?}"))?;
        if status != 200 {
            return Err(format!("HTTP/2: {status}"));
        }
        answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[tokio::test]
async fn no_request_fails_while_the_server_restarts_under_load() {
    let origin = origin(300).await;
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let sockets = Sockets::named(&["http", "admin"]);
    let setup = with_sockets(Setup::mirror_of(&origin).set("drain", "50s"), &sockets);
    let mut process = setup.spawn(&data);
    let ready = format!("http://{}/readyz", sockets.address(1));
    let is_ready =
        async || crate::client::plain_client().get(&ready).send().await.is_ok_and(|reply| reply.status() == 200);
    wait_until("it serves a snapshot", is_ready).await;
    let load = Load::start(sockets.address(0));
    load.more(200).await;
    for _ in 0..3 {
        process = restarted(process, &setup, &data).await;
        load.more(200).await;
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
