//! The server without sockets, on the test's runtime: with `#[tokio::test(start_paused = true)]` it lives in virtual time, in
//! which a wait costs nothing and no busy machine delays anything.
//!
//! The origin is in memory, too (`virtually`). Callers: `super`.

use std::sync::Arc;

use bytes::Bytes;
use grandstand::clock::{Clock, FakeClock, WallTime};
use grandstand::config::Config;
use grandstand::origin::connector::Pipe;
use grandstand::server::in_memory::InMemory as Running;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::task::JoinSet;

use super::within::Lines;
use crate::client::Reply;

/// A server in memory.
pub struct InMemory {
    running: Option<Running>,
    hand: FakeClock,
    host: HeaderValue,
    said: Arc<Mutex<String>>,
}

impl std::fmt::Debug for InMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InMemory")
    }
}

impl InMemory {
    /// Starts it with these values of `--set`; its clock shows `now`, in milliseconds since 1970.
    pub fn start(sets: &[String], adjust: fn(&mut Config), now: i64, pipe: Option<Pipe>) -> Self {
        let loaded = Config::load(None, std::iter::empty(), sets).unwrap_or_else(|errors| panic!("{errors}"));
        let mut config = loaded.config;
        adjust(&mut config);
        let (clock, hand) = Clock::of_runtime(WallTime::from_millis(now));
        let host = HeaderValue::try_from(config.public_url.as_str().split('/').nth(2).unwrap()).unwrap();
        let said = Arc::<Mutex<String>>::default();
        let lines = Lines(said.clone());
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || lines.clone()).finish();
        let running = Running::start(&config, clock, pipe, &log.into()).unwrap_or_else(|error| panic!("{error}"));
        Self { running: Some(running), hand, host, said }
    }

    /// The log so far.
    pub fn said(&self) -> String {
        self.said.lock().clone()
    }

    /// What moves its clock.
    pub const fn hand(&self) -> &FakeClock {
        &self.hand
    }

    /// Whether a mirror has nothing left to copy.
    pub fn is_settled(&self) -> bool {
        self.running().probe().is_settled()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it was taken down")
    }

    /// The client's end of a connection to the public listener.
    pub fn connect(&self) -> DuplexStream {
        self.running().connect()
    }

    pub async fn send(&self, method: Method, target: &str, headers: HeaderMap) -> Reply {
        self.attempt(method, target, headers).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same of what may break off.
    pub async fn attempt(&self, method: Method, target: &str, headers: HeaderMap) -> Result<Reply, String> {
        ask(self.connect(), method, target, self.host.clone(), headers).await
    }

    pub async fn admin(&self, method: Method, target: &str) -> Reply {
        let host = HeaderValue::from_static("localhost");
        let answer = ask(self.running().connect_admin(), method, target, host, HeaderMap::new()).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Ends it anywhere, as a kill would; what had arrived is durable.
    pub async fn down(&mut self) {
        if let Some(running) = self.running.take() {
            assert_eq!(running.ended(), 0, "a task of the server has ended");
            assert!(running.flush());
            running.abort().await;
        }
    }
}

/// One request over a connection of its own.
async fn ask(
    pipe: DuplexStream,
    method: Method,
    target: &str,
    host: HeaderValue,
    headers: HeaderMap,
) -> Result<Reply, String> {
    let failed = |error: hyper::Error| format!("{target}: {error:?}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(pipe)).await.map_err(failed)?;
    // It ends with this request, also when nobody waits for the answer any more.
    let mut running = JoinSet::new();
    running.spawn(connection);
    let mut request = Request::builder().method(method).uri(target).body(Full::<Bytes>::default()).unwrap();
    *request.headers_mut() = headers;
    request.headers_mut().entry(HOST).or_insert(host);
    let (parts, body) = sender.send_request(request).await.map_err(failed)?.into_parts();
    let body = body.collect().await.map_err(failed)?.to_bytes();
    Ok(Reply { status: parts.status.as_u16(), headers: parts.headers, body })
}
