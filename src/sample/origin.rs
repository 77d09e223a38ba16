//! [`Origin`]: a running sample origin and the handle by which it is watched and tampered with.
//!
//! Not the serving itself (`server`). Called by `grandstand demo`, `grandstand origin`, the wire tests and the
//! benches.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::dice::Dice;
use super::log::Seen;
use super::server::{Shared, accept};
use super::switches::Switches;
use super::world::World;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// A sample origin. It stops when dropped.
#[derive(Debug)]
pub struct Origin {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Origin {
    /// Starts one on the current tokio runtime; port 0 takes any free port.
    ///
    /// # Errors
    ///
    /// When it cannot listen there.
    #[expect(clippy::unused_async, reason = "so that it cannot be called outside of a runtime")]
    pub async fn start(listen: SocketAddr, world: World, switches: Switches) -> io::Result<Self> {
        let listener = bind(listen)?;
        let seed = world.seed();
        let shared = Arc::new(Shared {
            addr: listener.local_addr()?,
            world: RwLock::new(world),
            switches: RwLock::new(Arc::new(switches)),
            log: Mutex::default(),
            limit: Mutex::default(),
            copies: Mutex::default(),
            dice: Mutex::new(Dice::of(&[seed])),
            // Not from 0: what must differ from answer to answer must differ across restarts, too.
            nonce: AtomicU64::new(Timestamp::now().as_nanosecond() as u64),
        });
        let running = Mutex::new(Some(run(&shared, listener)));
        Ok(Self { shared, running })
    }

    /// The base address with the path prefix, without a trailing slash.
    pub fn url(&self) -> String {
        self.shared.url(&self.shared.switches.read())
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.shared.addr
    }

    /// Stops listening and cuts all connections. World, switches, log, limit and CDN stay.
    pub async fn shutdown(&self) {
        let running = self.running.lock().take();
        if let Some(Running { stop, task }) = running {
            drop(stop);
            if let Err(error) = task.await {
                tracing::warn!(%error, "the sample origin ended badly");
            }
        }
    }

    /// Comes back at the same address, with everything as it was; stops first if it runs.
    ///
    /// # Errors
    ///
    /// When the address is taken by now.
    pub async fn restart(&self) -> io::Result<()> {
        self.shutdown().await;
        let listener = bind(self.addr())?;
        *self.running.lock() = Some(run(&self.shared, listener));
        Ok(())
    }

    /// Changes switches; requests that arrive from now on see them.
    pub fn set(&self, change: impl FnOnce(&mut Switches)) {
        change(Arc::make_mut(&mut self.shared.switches.write()));
    }

    /// The switches as they are, with what is left of the faults.
    pub fn switches(&self) -> Switches {
        Switches::clone(&self.shared.switches.read())
    }

    /// Changes the world. Copies on the CDN stay.
    pub fn edit<R>(&self, change: impl FnOnce(&mut World) -> R) -> R {
        change(&mut self.shared.world.write())
    }

    /// Looks at the world.
    pub fn world<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.shared.world.read())
    }

    /// Status and body that a GET of this path and query gets now, past limit, faults and CDN and without being
    /// logged. The prefix may be left out. Number spellings are lost: see [`expected_text`](Self::expected_text).
    pub fn expected(&self, path_and_query: &str) -> (u16, serde_json::Value) {
        let (status, text) = self.expected_text(path_and_query);
        // The origin's own writer is tested to write JSON; null would fail any comparison.
        (status, serde_json::from_str(&text).unwrap_or(serde_json::Value::Null))
    }

    /// [`expected`](Self::expected), with the body as it is sent. `generated_at` is now, `request_id` an arbitrary one.
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

    /// The requests seen since the start or the last clearing, in order of arrival; at most the last 50,000.
    pub fn log(&self) -> Vec<Seen> {
        self.shared.log.lock().entries()
    }

    /// Number of requests seen since the start or the last clearing, refused ones included.
    pub fn count(&self) -> u64 {
        self.shared.log.lock().count()
    }

    /// Number of requests refused by the limit since the start or the last clearing.
    pub fn refused(&self) -> u64 {
        self.shared.log.lock().refused
    }

    /// The most requests in any 60 seconds of the log.
    pub fn busiest_minute(&self) -> usize {
        self.shared.log.lock().busiest_minute()
    }

    /// Empties the log and its counters. The limit goes on counting.
    pub fn clear_log(&self) {
        self.shared.log.lock().clear();
    }

    /// Throws away all copies of the CDN.
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

fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that it can come back while connections of its former life linger.
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

fn run(shared: &Arc<Shared>, listener: TcpListener) -> Running {
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(accept(Arc::clone(shared), listener, stopped));
    Running { stop, task }
}
