//! The threads of a server: a runtime for each listener and each background task, which end together.
//!
//! pingora's own `Server` exits the process or sleeps a grace period at a stop, and its runtimes cannot be given a log.
//! Here a stop tells listeners at once (connections hear it from `Connections::wind_down`); [`Services::end`] ends the
//! runtimes. Callers: [`super::serve`], [`super::hosted`].

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _};
use parking_lot::Mutex;
use pingora::apps::ServerApp;
use pingora::protocols::l4::stream::Stream as L4Stream;
use pingora::server::Fds;
use pingora::services::Service as _;
use pingora::services::listening::Service;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::edge::serve::listener::Bound;
use crate::tasks::threads;

use super::error::AppError;

/// How long the runtimes have to end. Work that blocks may take longer; it goes on until the process ends.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two looks at whether they have.
const TICK: Duration = Duration::from_millis(2);

/// What runs until a stop.
pub(super) struct Services {
    runtimes: Vec<Runtime>,
    stop: watch::Sender<bool>,
    /// How many listeners accept connections.
    accepting: Arc<AtomicUsize>,
    /// The names of listeners that ended before the stop.
    failed: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
}

impl Services {
    pub(super) fn new() -> Self {
        Self {
            runtimes: Vec::new(),
            stop: watch::Sender::new(false),
            accepting: Arc::default(),
            failed: mpsc::unbounded_channel(),
        }
    }

    /// Accepts connections on `sockets`, for each of which `service` has an endpoint. `starts` runs on the service's threads
    /// first.
    pub(super) fn listen<A: ServerApp + Send + Sync + 'static>(
        &mut self,
        mut service: Service<A>,
        sockets: Vec<Bound>,
        threads: usize,
        starts: impl FnOnce() + Send + 'static,
    ) -> Result<(), AppError> {
        let mut fds = Fds::new();
        for socket in sockets {
            socket.hand_to(&mut fds);
        }
        let (fds, stop) = (Arc::new(Mutex::new(fds)), self.stop.subscribe());
        let runtime = threads::runtime(service.name(), threads).map_err(AppError::Thread)?;
        let (name, failed, stops) = (service.name().to_owned(), self.failed.0.clone(), stop.clone());
        let accepting = self.accepting.clone();
        accepting.fetch_add(1, Ordering::AcqRel);
        let serving = runtime.spawn(async move {
            starts();
            service.start_service(Some(fds), stop, 1).await;
        });
        runtime.spawn(async move {
            // It panics, or its loop that accepts connections does.
            let _ended = serving.await;
            accepting.fetch_sub(1, Ordering::AcqRel);
            if !*stops.borrow() {
                let _stopped = failed.send(name);
            }
        });
        self.runtimes.push(runtime);
        Ok(())
    }

    /// Serves these connections until they end or the server stops.
    pub(super) fn accept<A: ServerApp + Send + Sync + 'static>(
        &mut self,
        name: &str,
        app: Arc<A>,
        connections: impl Stream<Item = UnixStream> + Send + 'static,
    ) -> Result<(), AppError> {
        let stop = self.stop.subscribe();
        self.run(name, async move {
            let mut connections = pin!(connections);
            while let Some(connection) = connections.next().await {
                let (app, stop) = (app.clone(), stop.clone());
                let stream = L4Stream::from(connection);
                // It serves all requests of a connection.
                tokio::spawn(async move { app.process_new(Box::new(stream), &stop).await.map(drop) });
            }
        })
    }

    pub(super) fn run(&mut self, name: &str, task: impl Future<Output = ()> + Send + 'static) -> Result<(), AppError> {
        let mut stop = self.stop.subscribe();
        let runtime = threads::runtime(name, 1).map_err(AppError::Thread)?;
        runtime.spawn(async move {
            tokio::select! {
                () = task => {}
                _stopped = stop.wait_for(|stops| *stops) => {}
            }
        });
        self.runtimes.push(runtime);
        Ok(())
    }

    /// Waits until a listener fails. Returns its name.
    pub(super) async fn failed(&mut self) -> Option<String> {
        self.failed.1.recv().await
    }

    /// Ends listeners and tasks. Connections end after their last answer.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
        let deadline = Instant::now() + PATIENCE;
        // What a listener has accepted by now has begun when this returns, so that nobody is accepted and forgotten.
        while self.accepting.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(TICK);
        }
        std::thread::sleep(TICK);
    }

    /// Ends the runtimes with all that still runs in them.
    pub(super) fn end(self) {
        // One deadline for all: a stop takes no longer with more runtimes.
        let deadline = Instant::now() + PATIENCE;
        for runtime in self.runtimes {
            runtime.shutdown_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use pingora::protocols::Stream;
    use pingora::server::ShutdownWatch;

    use super::*;

    struct Silent;

    #[async_trait]
    impl ServerApp for Silent {
        async fn process_new(self: &Arc<Self>, _: Stream, _: &ShutdownWatch) -> Option<Stream> {
            None
        }
    }

    #[tokio::test]
    async fn a_listener_that_panics_is_named_and_one_that_is_stopped_is_not() {
        let mut services = Services::new();
        services.listen(Service::new("deaf".to_owned(), Silent), Vec::new(), 1, || panic!("as it must")).unwrap();
        assert_eq!(services.failed().await.as_deref(), Some("deaf"));
        services.stop();
        services.listen(Service::new("stopped".to_owned(), Silent), Vec::new(), 1, || ()).unwrap();
        let Services { runtimes, failed: (failed, mut names), .. } = services;
        drop((failed, tokio::task::spawn_blocking(|| drop(runtimes)).await.unwrap()));
        assert_eq!(names.recv().await, None);
    }
}
