//! The threads of a server: a runtime for each listener and each background task, which end together.
//!
//! pingora's own `Server` exits the process or sleeps a grace period at a stop, and its runtimes cannot be given a log.
//! Here a stop tells listeners and connections at once; [`Services::end`] ends the runtimes. Callers: [`super::serve`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pingora::apps::ServerApp;
use pingora::server::Fds;
use pingora::services::Service as _;
use pingora::services::listening::Service;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::serve::listener::Bound;
use crate::tasks::threads;

use super::error::AppError;

/// How long the runtimes have to end. Work that blocks may take longer; it goes on until the process ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// What runs until a stop.
pub(super) struct Services {
    runtimes: Vec<Runtime>,
    stop: watch::Sender<bool>,
}

impl Services {
    pub(super) fn new() -> Self {
        Self { runtimes: Vec::new(), stop: watch::Sender::new(false) }
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
        runtime.spawn(async move {
            starts();
            service.start_service(Some(fds), stop, 1).await;
        });
        self.runtimes.push(runtime);
        Ok(())
    }

    /// Runs a task until it ends or the server stops.
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

    /// Ends listeners and tasks. Connections end after their last answer.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Ends the runtimes with all that still runs in them.
    pub(super) fn end(self) {
        let deadline = Instant::now() + PATIENCE;
        for runtime in self.runtimes {
            runtime.shutdown_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}
