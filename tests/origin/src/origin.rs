//! [`Origin`]: a running sample origin, and the handle to watch and change it.
//!
//! Not the serving itself (`server`). Callers: the wire tests, the unit tests, the benches.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::{HeaderMap, Method, Response};
use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use sample::dice::Dice;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::answer::Context;
use super::clock::Clock;
use super::listing;
use super::log::Seen;
use super::server::{Shared, accept};
use super::switches::Switches;
use super::wire::Body;
use super::world::World;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// The address of an origin without a socket.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
/// The client of one.
const WITHIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// Leads to an origin without a socket.
#[derive(Clone, Debug)]
pub struct Reach(Arc<Shared>);

impl Reach {
    /// The client's end of a connection in memory; the current runtime serves it.
    pub fn connect(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(64 << 10);
        tokio::spawn(super::server::answer(Arc::clone(&self.0), server, None, WITHIN));
        client
    }

    /// The origin's wall time, in milliseconds since 1970.
    pub fn now_millis(&self) -> i64 {
        self.0.clock.now().as_millisecond()
    }
}

/// A sample origin. It stops when dropped.
#[derive(Debug)]
pub struct Origin {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
    /// The address after a shutdown: bound, so that nobody else gets it, and not listened on.
    reserved: Mutex<Option<TcpSocket>>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Origin {
    /// Starts one on the current tokio runtime; port 0 takes any free port.
    #[expect(clippy::unused_async, reason = "so that it cannot be called outside of a runtime")]
    pub async fn start(listen: SocketAddr, world: World, switches: Switches) -> io::Result<Self> {
        let listener = bound(listen)?.listen(BACKLOG)?;
        let shared = Arc::new(shared(listener.local_addr()?, world, switches, Clock::system()));
        let running = Mutex::new(Some(run(&shared, listener)));
        Ok(Self { shared, running, reserved: Mutex::default() })
    }

    /// One without a socket, on the given clock, which also dates its world's edits: only [`ask`](Self::ask) and
    /// [`within_reach`](Self::within_reach) lead to it. Its address is `http://127.0.0.1:1`, where nobody listens.
    pub fn within(world: World, switches: Switches, clock: Clock) -> Self {
        let world = world.with_clock(clock);
        let shared = shared(NOWHERE, world, switches, clock);
        Self { shared: Arc::new(shared), running: Mutex::default(), reserved: Mutex::default() }
    }

    /// What a request over a socket gets: the same delays, log, limit, faults and answers. The body may be in the
    /// content coding that its header names, break off, or never end. An error means that the connection would be
    /// dropped.
    pub async fn ask(&self, method: &Method, target: &str, headers: &HeaderMap) -> io::Result<Response<Body>> {
        self.shared.exchange(WITHIN, method, target, headers, &None).await
    }

    /// How to connect to one without a socket, and its clock; `None` if it has one.
    pub fn within_reach(&self) -> Option<Reach> {
        (self.shared.addr == NOWHERE).then(|| Reach(Arc::clone(&self.shared)))
    }

    /// The base address with the path prefix, without a trailing slash.
    pub fn url(&self) -> String {
        self.shared.url(&self.shared.switches.read())
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.shared.addr
    }

    /// Stops listening and cuts all connections: clients are refused. World, switches, log, limit and CDN stay, and
    /// nobody else gets the address.
    pub async fn shutdown(&self) {
        let running = self.running.lock().take();
        if let Some(Running { stop, task }) = running {
            drop(stop);
            if let Err(error) = task.await {
                tracing::warn!(%error, "the sample origin ended with an error");
            }
            *self.reserved.lock() = bound(self.addr()).ok();
        }
    }

    /// Restarts at the same address, with everything as it was; stops first if it runs.
    pub async fn restart(&self) -> io::Result<()> {
        self.shutdown().await;
        let reserved = self.reserved.lock().take();
        let listener = reserved.map_or_else(|| bound(self.addr()), Ok)?.listen(BACKLOG)?;
        *self.running.lock() = Some(run(&self.shared, listener));
        Ok(())
    }

    /// Changes switches; requests that arrive from now on see them.
    pub fn set(&self, change: impl FnOnce(&mut Switches)) {
        change(Arc::make_mut(&mut self.shared.switches.write()));
    }

    /// The current switches, with the faults that are left.
    pub fn switches(&self) -> Switches {
        Switches::clone(&self.shared.switches.read())
    }

    /// Changes the world. CDN copies stay.
    pub fn edit<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        change(&mut self.shared.world.write())
    }

    /// Reads the world.
    pub fn world<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.shared.world.read())
    }

    /// Status and body of a GET of this path and query now, past limit, faults, CDN and log. The prefix may be left
    /// out. Number spellings are lost: see [`expected_text`](Self::expected_text).
    pub fn expected(&self, path_and_query: &str) -> (u16, serde_json::Value) {
        let (status, text) = self.expected_text(path_and_query);
        // The origin's own writer is tested to write JSON; null would fail any comparison.
        (status, serde_json::from_str(&text).unwrap_or(serde_json::Value::Null))
    }

    /// [`expected`](Self::expected), with the body as sent. `generated_at` is now, `request_id` an arbitrary one.
    pub fn expected_text(&self, path_and_query: &str) -> (u16, String) {
        let switches = self.switches();
        let mount = switches.mount();
        let target = match path_and_query.strip_prefix(&mount) {
            Some(rest) if rest.starts_with('/') => path_and_query.to_owned(),
            _ => format!("{mount}{path_and_query}"),
        };
        let (answer, _) = self.shared.make(&switches, &target, 0);
        (answer.status, answer.body.text)
    }

    /// The current summary and detail of a listing; `None` if there is no such listing. `request_id` in the detail is
    /// an arbitrary one.
    pub fn texts_of(&self, id: u64) -> Option<(String, String)> {
        let switches = self.switches();
        let world = self.shared.world.read();
        let (base, now) = (self.shared.url(&switches), Timestamp::UNIX_EPOCH);
        let context = Context { world: &world, switches: &switches, base: &base, now, nonce: 0 };
        let mut json = context.json();
        json.object(|json| world.venue(id).into_iter().for_each(|venue| listing::summary(&context, json, venue)));
        listing::detail(&context, id).map(|detail| (json.finish().text, detail.body.text))
    }

    /// The requests seen since the start or the last clearing, in order of arrival; at most the last 50,000.
    pub fn log(&self) -> Vec<Seen> {
        self.shared.log.lock().entries()
    }

    /// Number of requests seen since the start or the last clearing, refused ones included.
    pub fn count(&self) -> u64 {
        self.shared.log.lock().count()
    }

    /// Requests refused by the limit since the start or the last clearing.
    pub fn refused(&self) -> u64 {
        self.shared.log.lock().refused
    }

    /// The most requests in any 60 seconds of the log.
    pub fn busiest_minute(&self) -> usize {
        self.shared.log.lock().busiest_minute()
    }

    /// Empties the log and its counters. The limit keeps counting.
    pub fn clear_log(&self) {
        self.shared.log.lock().clear();
    }

    /// Drops all copies of the CDN.
    pub fn purge_cdn(&self) {
        self.shared.copies.lock().clear();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().take() {
            // Listener and connections live in the task and go with it.
            running.task.abort();
        }
    }
}

fn shared(addr: SocketAddr, world: World, switches: Switches, clock: Clock) -> Shared {
    Shared {
        addr,
        switches: RwLock::new(Arc::new(switches)),
        log: Mutex::default(),
        limit: Mutex::default(),
        copies: Mutex::default(),
        dice: Mutex::new(Dice::of(&[world.seed()])),
        // Not from 0: what differs in every answer must differ across restarts, too.
        nonce: AtomicU64::new(clock.now().as_millisecond().cast_unsigned().wrapping_mul(1_000_000)),
        world: RwLock::new(world),
        clock,
    }
}

fn bound(listen: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that it can come back while old connections linger.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    Ok(socket)
}

fn run(shared: &Arc<Shared>, listener: TcpListener) -> Running {
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(accept(Arc::clone(shared), listener, stopped));
    Running { stop, task }
}
