//! The signals of the process as [`Order`]s to a server, watched before it runs, so that an early one is not lost. What an
//! order to stop does is in [`super::stop`].
//!
//! Callers: the commands that serve.

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::AppError;
use super::stop::{Order, Orders};

/// Keeps SIGHUP, SIGUSR1 and SIGUSR2 from ending the process, from now on: one that arrives before the server runs is an
/// order to it, too. Dropped without a server, they have no effect.
pub(crate) fn hangups() -> Result<[Signal; 3], AppError> {
    let kinds = [SignalKind::hangup(), SignalKind::user_defined1(), SignalKind::user_defined2()];
    watched("SIGHUP, SIGUSR1 and SIGUSR2", kinds)
}

/// From now on a file that reaches the limit of its size (`ulimit -f`) is a full disk, and no longer ends the process.
pub(crate) fn outlive_large_files() -> Result<(), AppError> {
    watched("SIGXFSZ", [SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())]).map(drop)
}

/// From now on SIGTERM, SIGQUIT and SIGINT are remembered until the server takes them as orders. Call this right before it
/// runs, unless something must be undone at the end: until then they end the process at once.
pub(crate) fn stops() -> Result<[Signal; 3], AppError> {
    let kinds = [SignalKind::terminate(), SignalKind::quit(), SignalKind::interrupt()];
    watched("SIGTERM, SIGQUIT and SIGINT", kinds)
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

/// What the signals order: SIGTERM, SIGQUIT and SIGINT stop, SIGHUP reloads, SIGUSR1 opens log files again.
pub(crate) fn orders(hangups: [Signal; 3], stops: [Signal; 3]) -> Orders {
    let next = |mut signals: ([Signal; 3], [Signal; 3])| async move {
        let ([hangup, user1, user2], [terminate, quit, interrupt]) = &mut signals;
        let order = tokio::select! {
            _ = terminate.recv() => Order::Stop,
            _ = quit.recv() => Order::Stop,
            // A user waits at a terminal.
            _ = interrupt.recv() => Order::StopAtOnce,
            _ = hangup.recv() => Order::Reload,
            _ = user1.recv() => Order::ReopenLogs,
            _ = user2.recv() => Order::Unknown("SIGUSR2"),
        };
        Some((order, signals))
    };
    stream::unfold((hangups, stops), next).boxed()
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
