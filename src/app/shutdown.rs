//! How the process stops: signals, a drain that ends when nothing is in flight, exit code 0.
//!
//! Pingora's own graceful stop sleeps its whole grace period; here the process ends as soon as possible. Callers:
//! [`super::serve`].

use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora::server::{ExecutionPhase, Server, ShutdownSignal, ShutdownSignalWatch};
use tokio::signal::unix::{SignalKind, signal};

use crate::mirror::details::Details;
use crate::serve::in_flight::InFlight;
use crate::serve::tls::renewal::Nudge;
use crate::telemetry::access::AccessLog;

/// SIGTERM and SIGINT drain; SIGHUP reloads the certificate, if any.
pub(crate) struct Signals {
    /// Reloads the certificate; `None` without HTTPS.
    pub certificate: Option<Nudge>,
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [Ok(mut terminate), Ok(mut interrupt), Ok(mut hangup)] = kinds.map(signal) else {
            tracing::error!("signals cannot be watched; stopping");
            return ShutdownSignal::FastShutdown;
        };
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => {
                    tracing::info!("SIGHUP reloads only the certificate; restart to reload the configuration");
                    self.certificate.iter().for_each(Nudge::look);
                }
            }
        }
        tracing::info!("stopping: no new connections, requests in flight are finished");
        ShutdownSignal::GracefulTerminate
    }
}

/// How long HTTP/2 connections have to write their last answers and to end, once all requests are answered.
const LINGER: Duration = Duration::from_secs(1);

/// How long the last lines of the access log may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Ends the process once a stop has been asked for and nothing is in flight, at the latest after `drain`.
pub(crate) fn watch(
    server: &Server,
    in_flight: InFlight,
    drain: Duration,
    details: Option<Details>,
    access: Option<AccessLog>,
) {
    let mut phases = server.watch_execution_phase();
    let work = move || {
        loop {
            match phases.blocking_recv() {
                Ok(ExecutionPhase::ShutdownGracePeriod) => break,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                Ok(_) | Err(_) => {}
            }
        }
        let deadline = Instant::now() + drain;
        while in_flight.count() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = in_flight.count();
        let linger = deadline.min(Instant::now() + LINGER);
        while in_flight.connections() > 0 && Instant::now() < linger {
            std::thread::sleep(Duration::from_millis(10));
        }
        if left > 0 {
            tracing::warn!(left, "the drain time is over; requests still in flight are aborted");
        }
        if let Some(details) = details {
            details.flush();
        }
        if let Some(access) = access {
            access.flush(LAST_LINES);
        }
        tracing::info!("stopped");
        std::process::exit(0)
    };
    if let Err(error) = std::thread::Builder::new().name("shutdown".into()).spawn(work) {
        tracing::error!(%error, "no thread for the drain; a stop takes its whole grace period");
    }
}
