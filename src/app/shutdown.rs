//! How the process stops: signals, a drain that ends when nothing is in flight, exit code 0.
//!
//! Pingora's own graceful stop sleeps its whole grace period; here the process ends as soon as possible. Callers:
//! [`super::serve`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::{ExecutionPhase, Server, ShutdownSignal, ShutdownSignalWatch};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Settings;
use crate::mirror::details::Details;
use crate::serve::connections::Connections;
use crate::serve::connections::InFlight;
use crate::serve::gate::last_requests;
use crate::telemetry::access::InEffect;

use super::error::AppError;
use super::reload::Reload;
use super::systemd::Systemd;

/// Keeps SIGHUP from ending the process, from now on: one that arrives before the server runs is a reload, too. Dropped
/// without a server, it has no effect.
///
/// # Errors
/// When signals cannot be watched.
pub(crate) fn hangups() -> Result<Signal, AppError> {
    watched("SIGHUP", [SignalKind::hangup()]).map(|[hangup]| hangup)
}

/// From now on SIGTERM and SIGINT are remembered until the server watches them. Call this right before it runs: until
/// then they end the process at once.
///
/// # Errors
/// When signals cannot be watched.
pub(super) fn stops() -> Result<[Signal; 2], AppError> {
    watched("SIGTERM and SIGINT", [SignalKind::terminate(), SignalKind::interrupt()])
}

/// Watches signals from now on; the handlers stay when this runtime is gone.
fn watched<const N: usize>(signals: &'static str, kinds: [SignalKind; N]) -> Result<[Signal; N], AppError> {
    let watch = || -> std::io::Result<[Signal; N]> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let watched = runtime.block_on(async { kinds.into_iter().map(signal).collect::<Result<Vec<_>, _>>() })?;
        watched.try_into().map_err(|_| std::io::ErrorKind::Other.into())
    };
    watch().map_err(|source| AppError::Signals { signals, source })
}

/// SIGTERM and SIGINT drain; SIGHUP reloads the configuration.
pub(super) struct Signals {
    pub reload: Arc<Reload>,
    pub connections: Connections,
    /// What [`hangups`] and [`stops`] gave; `None`: the server watches them.
    pub watched: Mutex<Option<(Signal, [Signal; 2])>>,
}

#[async_trait]
impl ShutdownSignalWatch for Signals {
    async fn recv(&self) -> ShutdownSignal {
        let watched = self.watched.lock().take();
        let Some((mut hangup, [mut terminate, mut interrupt])) = watched else { return std::future::pending().await };
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => {
                    // A user waits at a terminal.
                    self.connections.close();
                    break;
                }
                _ = hangup.recv() => {
                    let reload = self.reload.clone();
                    // Several at once take turns; each tells how it ended.
                    drop(tokio::task::spawn_blocking(move || reload.reload()));
                }
            }
        }
        tracing::info!("stopping: no new connections, requests in flight are finished");
        ShutdownSignal::GracefulTerminate
    }
}

/// How long connections have to write their last answers and to end, once all requests are answered.
const LINGER: Duration = Duration::from_secs(1);

/// How long the last lines of the access log may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Ends the process once a stop has been asked for and nothing is in flight, at the latest after `drain`.
///
/// # Errors
/// When there is no thread for it.
pub(super) fn watch(
    server: &Server,
    in_flight: InFlight,
    connections: Connections,
    settings: Settings,
    details: Option<Details>,
    access: InEffect,
) -> std::io::Result<()> {
    let mut phases = server.watch_execution_phase();
    let work = move || {
        loop {
            match phases.blocking_recv() {
                Ok(ExecutionPhase::Running) => Systemd::ready(),
                Ok(ExecutionPhase::ShutdownGracePeriod) => break,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
                Ok(_) | Err(_) => {}
            }
        }
        let (began, drain) = (Instant::now(), settings.load().drain);
        Systemd::stopping(drain);
        let is_waiting = || in_flight.count() > 0 || (connections.open() > 0 && began.elapsed() < last_requests(drain));
        while is_waiting() && began.elapsed() < drain {
            std::thread::sleep(Duration::from_millis(10));
        }
        let left = in_flight.count();
        let linger = drain.min(began.elapsed() + LINGER);
        while connections.open() > 0 && began.elapsed() < linger {
            std::thread::sleep(Duration::from_millis(10));
        }
        if left > 0 {
            tracing::warn!(left, "the drain time is over; requests still in flight are aborted");
        }
        if let Some(details) = details {
            details.flush();
        }
        if let Some(access) = access.load_full() {
            access.flush(LAST_LINES);
        }
        tracing::info!("stopped");
        std::process::exit(0)
    };
    std::thread::Builder::new().name("shutdown".into()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_cannot_be_watched_is_named_with_the_reason_and_what_to_do() {
        // No process can watch SIGKILL.
        let error = watched("SIGKILL", [SignalKind::from_raw(9)]).err().unwrap().to_string();
        assert!(error.starts_with("SIGKILL cannot be watched: "), "{error}");
        assert!(error.contains("register signal 9") && error.contains("start again"), "{error}");
    }
}
