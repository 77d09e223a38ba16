//! In-memory server without sockets and threads: connections are pipes, and all of it runs on the caller's runtime.
//!
//! Where that runtime's time is paused, the whole server lives in virtual time. Not for production: nothing repairs the
//! store, and nothing reloads. Callers: tests.

use std::sync::Arc;

use parking_lot::Mutex;
use pingora::apps::ServerApp;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Dispatch;

use crate::clock::Clock;
use crate::config::Config;
use crate::data::details::Details;
use crate::edge::serve::gate::Gate;
use crate::origin::connector::Pipe;
use crate::server::admin::front::AdminFront;
use crate::tasks::threads;

use super::core::Core;
use super::error::AppError;
use super::{Probe, Server};

/// What a pipe holds, in bytes.
const ROOM: usize = 64 << 10;

/// A server that runs until it is dropped, which ends it anywhere, as a kill would.
pub struct InMemory {
    gate: Arc<Gate>,
    operators: Arc<AdminFront>,
    details: Option<Details>,
    probe: Probe,
    /// Connections listen to it.
    stop: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
    connections: Mutex<JoinSet<()>>,
}

impl InMemory {
    /// Starts it on this thread's runtime, whose clock `clock` should follow. With a pipe, connections to the origin are
    /// pipes. From now on this thread logs to `log`.
    pub fn start(config: &Config, clock: Clock, pipe: Option<Pipe>, log: &Dispatch) -> Result<Self, AppError> {
        threads::log_to(log);
        let server = Server::build(config, Core::open_with(config, clock, pipe)?, None)?;
        let Server { gate, operators, tasks, status, .. } = server;
        let tasks = tasks.into_iter().fold(JoinSet::new(), |mut running, (_name, task)| {
            running.spawn(task);
            running
        });
        Ok(Self {
            gate: Arc::new(gate),
            operators: Arc::new(operators),
            details: status.details.clone(),
            probe: Probe(Arc::downgrade(&status)),
            stop: watch::Sender::new(false),
            tasks: Mutex::new(tasks),
            connections: Mutex::default(),
        })
    }

    /// The client's end of a connection to the public listener.
    pub fn connect(&self) -> DuplexStream {
        self.serve(self.gate.clone())
    }

    /// The client's end of a connection to the admin listener.
    pub fn connect_admin(&self) -> DuplexStream {
        self.serve(self.operators.clone())
    }

    fn serve(&self, app: Arc<impl ServerApp + Send + Sync + 'static>) -> DuplexStream {
        let ((ours, theirs), stop) = (duplex(ROOM), self.stop.subscribe());
        self.connections.lock().spawn(async move {
            let mut stream = Some(Box::new(theirs) as _);
            while let Some(open) = stream {
                stream = app.process_new(open, &stop).await;
            }
        });
        ours
    }

    pub const fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Makes all details that have arrived durable; `false` if the disk does not accept them.
    pub fn flush(&self) -> bool {
        self.details.as_ref().is_none_or(Details::flush)
    }

    /// How many of its tasks have ended. None should.
    pub fn ended(&self) -> usize {
        let mut tasks = self.tasks.lock();
        std::iter::from_fn(|| tasks.try_join_next()).count()
    }

    /// Ends its tasks anywhere, and waits until they have ended.
    pub async fn abort(self) {
        self.tasks.into_inner().shutdown().await;
        self.connections.into_inner().shutdown().await;
    }
}
