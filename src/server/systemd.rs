//! Notifications to the service manager (`sd_notify(3)`): that the server is ready, reloading, stopping, alive, and how
//! it is.
//!
//! Without `NOTIFY_SOCKET` it hears nothing. Callers: [`super::serve`], [`super::reload`], [`super::stop`].

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sd_notify::NotifyState;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::server::admin::status::Status;
use crate::tasks::threads::Periodic;

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
        // After `drain` come the last details, 1 s for lines of the access log, 1 s for the runtimes, and 1 s for each
        // periodic thread.
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
                tokio::time::sleep(beats_every(watchdog)).await;
                beat.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Tells how the server is, and that it is alive while each of `services` services beats; `None`: nobody hears it.
    pub(super) fn start(&self, status: Arc<Status>, services: usize) -> Option<io::Result<Periodic>> {
        std::env::var_os("NOTIFY_SOCKET")?;
        let systemd = self.clone();
        let watchdog = watchdog();
        let (mut told, mut looked, mut seen) = (String::new(), None::<Instant>, None::<Vec<u64>>);
        let work = move || {
            if looked.is_none_or(|looked| looked.elapsed() >= RENEWED) {
                looked = Some(Instant::now());
                let line = status.line();
                if line != told {
                    tell(&[NotifyState::Status(&line)]);
                    told = line;
                }
            }
            if watchdog.is_none() {
                return;
            }
            let beats: Vec<u64> = systemd.beats.lock().iter().map(|beat| beat.load(Ordering::Relaxed)).collect();
            match &seen {
                // At the first look the services may not have begun.
                None => seen = Some(Vec::new()),
                Some(before) => {
                    if all_moved(before, &beats, services) {
                        tell(&[NotifyState::Watchdog]);
                    } else {
                        tracing::error!(
                            "the threads that serve clients do not react; the service manager may restart the server"
                        );
                    }
                    seen = Some(beats);
                }
            }
        };
        Some(Periodic::start("systemd", looks_every(watchdog), work))
    }
}

/// How often the status line and the beats are looked at, given the limit of the watchdog.
fn looks_every(watchdog: Option<Duration>) -> Duration {
    watchdog.map_or(RENEWED, |limit| (limit / 2).min(RENEWED))
}

/// How often a service beats: several times between two looks.
fn beats_every(watchdog: Duration) -> Duration {
    looks_every(Some(watchdog)) / 4
}

fn tell(states: &[NotifyState<'_>]) {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let lines = states.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n") + "\n";
    if let Err(error) = send(&address, &lines) {
        tracing::debug!(%error, "the service manager did not get a message");
    }
}

/// Sends a datagram to a path, or to an abstract address, which begins with `@`.
fn send(address: &OsStr, text: &str) -> io::Result<()> {
    let path = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => [b"\0", name].concat(),
        None => address.as_bytes().to_owned(),
    };
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    socket.send_to(text.as_bytes(), &SockAddr::unix(OsStr::from_bytes(&path))?).map(drop)
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

    #[test]
    fn the_watchdog_is_told_twice_within_its_limit_and_the_status_line_is_never_old() {
        let seconds = Duration::from_secs;
        for (limit, looks) in [(None, 5), (Some(seconds(60)), 5), (Some(seconds(3600)), 5), (Some(seconds(8)), 4)] {
            assert_eq!(looks_every(limit), seconds(looks), "{limit:?}");
            assert!(limit.is_none_or(|limit| 2 * beats_every(limit) <= looks_every(Some(limit))), "{limit:?}");
        }
    }
}
