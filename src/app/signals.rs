//! Signals, the service manager (`sd_notify(3)`), and how the process stops: a drain that ends when nothing is in flight,
//! exit code 0.
//!
//! Pingora's own graceful stop sleeps its whole grace period; here the process ends as soon as possible. The service
//! manager hears that the server is ready, reloading, stopping, alive, and how it is; without `NOTIFY_SOCKET` it hears
//! nothing. Callers: [`super::serve`], [`super::reload`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::server::{ExecutionPhase, Server, ShutdownSignal, ShutdownSignalWatch};
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::admin::status::Status;
use crate::config::Settings;
use crate::mirror::details::Details;
use crate::serve::connections::Connections;
use crate::serve::connections::InFlight;
use crate::serve::gate::last_requests;
use crate::telemetry::access::InEffect;

use super::error::AppError;
use super::reload::Reload;

/// Keeps SIGHUP from ending the process, from now on: one that arrives before the server runs is a reload, too. Dropped
/// without a server, it has no effect.
///
/// # Errors
/// When signals cannot be watched.
pub(crate) fn hangups() -> Result<Signal, AppError> {
    watched("SIGHUP", [SignalKind::hangup()]).map(|[hangup]| hangup)
}

/// From now on a file that reaches the limit of its size (`ulimit -f`) is a full disk, and no longer ends the process.
///
/// # Errors
/// When signals cannot be watched.
pub(crate) fn outlive_large_files() -> Result<(), AppError> {
    watched("SIGXFSZ", [SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())]).map(drop)
}

/// From now on SIGTERM and SIGINT are remembered until the server watches them. Call this right before it runs, unless
/// something must be undone at the end: until then they end the process at once.
///
/// # Errors
/// When signals cannot be watched.
pub(crate) fn stops() -> Result<[Signal; 2], AppError> {
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

/// What a command has watched, and wants done, for a server.
#[derive(Default)]
pub struct Handover {
    /// What [`hangups`] gave.
    pub hangups: Option<Signal>,
    /// What [`stops`] gave.
    pub stops: Option<[Signal; 2]>,
    /// Done last, before the process ends.
    pub at_end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Handover {
    /// The signals, watched from now on if they were not before.
    ///
    /// # Errors
    /// When signals cannot be watched.
    pub(super) fn signals(self) -> Result<(Signal, [Signal; 2]), AppError> {
        Ok((self.hangups.map_or_else(hangups, Ok)?, self.stops.map_or_else(stops, Ok)?))
    }
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

/// Ends the process once a stop has been asked for and nothing is in flight, at the latest after `drain`; `at_end`: what
/// is done last.
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
    at_end: Option<Box<dyn FnOnce() + Send + Sync>>,
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
        let wait_while = |is_waiting: &dyn Fn() -> bool, longest: Duration| {
            while is_waiting() && began.elapsed() < longest {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        let is_asked_again = || connections.open() > 0 && began.elapsed() < last_requests(drain);
        wait_while(&|| in_flight.count() > 0 || is_asked_again(), drain);
        let left = in_flight.count();
        wait_while(&|| connections.open() > 0, drain.min(began.elapsed() + LINGER));
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
        if let Some(at_end) = at_end {
            at_end();
        }
        std::process::exit(0)
    };
    std::thread::Builder::new().name("shutdown".into()).spawn(work).map(drop)
}

/// How often the status line is looked at.
const RENEWED: Duration = Duration::from_secs(5);

/// The connection to the service manager; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Systemd {
    beats: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

impl Systemd {
    /// Connections are accepted, or a reload has ended.
    pub(super) fn ready() {
        tell(&[NotifyState::Ready]);
    }

    /// A reload begins; [`ready`](Self::ready) ends it.
    pub(super) fn reloading() {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(error) => tracing::debug!(%error, "the service manager is not told of a reload"),
        }
    }

    /// The process stops, within `drain`.
    pub(super) fn stopping(drain: Duration) {
        let microseconds = (drain + Duration::from_secs(10)).as_micros();
        let within = NotifyState::ExtendTimeoutUsec(u32::try_from(microseconds).unwrap_or(u32::MAX));
        tell(&[NotifyState::Stopping, within, NotifyState::Status("stopping: requests in flight are finished")]);
    }

    /// Shows that the threads of the service that calls this are alive, for as long as its runtime lives.
    pub(super) fn beat(&self) {
        let Some(watchdog) = watchdog() else { return };
        let beat = Arc::new(AtomicU64::new(1));
        self.beats.lock().push(beat.clone());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(watchdog / 8).await;
                beat.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Tells how the server is, and that it is alive while each of `services` services beats, in a thread of its own.
    pub(super) fn start(&self, status: Arc<Status>, services: usize) {
        if std::env::var_os("NOTIFY_SOCKET").is_none() {
            return;
        }
        let systemd = self.clone();
        let watchdog = watchdog().map(|limit| limit / 2);
        let work = move || {
            let (mut told, mut looked, mut seen) = (String::new(), None::<Instant>, Vec::new());
            loop {
                if looked.is_none_or(|looked| looked.elapsed() >= RENEWED) {
                    looked = Some(Instant::now());
                    let line = status.line();
                    if line != told {
                        tell(&[NotifyState::Status(&line)]);
                        told = line;
                    }
                }
                std::thread::sleep(watchdog.unwrap_or(RENEWED).min(RENEWED));
                if watchdog.is_some() {
                    let beats: Vec<u64> =
                        systemd.beats.lock().iter().map(|beat| beat.load(Ordering::Relaxed)).collect();
                    if all_moved(&seen, &beats, services) {
                        tell(&[NotifyState::Watchdog]);
                    } else {
                        tracing::error!(
                            "the threads that serve clients do not react; the service manager may restart the server"
                        );
                    }
                    seen = beats;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("systemd".into()).spawn(work) {
            tracing::error!(%error, "a thread could not be started, so systemd gets no messages from this server");
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager did not get a message");
    }
}

/// How long the service manager waits for a sign of life; `None`: it does not wait for one.
fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero())
}

/// Whether every one of so many services has made progress since the last look.
fn all_moved(before: &[u64], now: &[u64], services: usize) -> bool {
    let moved = |(index, beat): (usize, &u64)| before.get(index).is_none_or(|before| before != beat);
    now.len() >= services && now.iter().enumerate().all(moved)
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

    #[test]
    fn the_watchdog_hears_of_a_server_only_while_every_service_makes_progress() {
        for (before, now, moved) in [
            (&[][..], &[1, 1][..], true),
            (&[], &[1], false),
            (&[1, 1], &[2, 3], true),
            (&[1, 1], &[2, 1], false),
            (&[2, 1], &[2, 1], false),
            (&[2], &[3, 1], true),
        ] {
            assert_eq!(all_moved(before, now, 2), moved, "{before:?} {now:?}");
        }
    }
}
