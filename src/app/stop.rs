//! Orders to a server, and how it stops: no new connections, then a drain that ends when nothing is in flight.
//!
//! Callers: [`super::serve`]; [`super::signals`] makes orders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::config::Settings;
use crate::serve::connections::{Connections, InFlight};
use crate::serve::gate::last_requests;
use crate::tasks::threads;

use super::error::AppError;
use super::reload::Reload;
use super::services::Services;

/// What a server is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop: requests in flight are finished within `drain`, and connections have time for a last request.
    Stop,
    /// Stop: requests in flight are finished within `drain`, idle connections are closed.
    StopAtOnce,
    /// Read the configuration again, and open log files again.
    Reload,
    /// Open log files again, for programs that rotate them.
    ReopenLogs,
    /// A signal of this name, which means nothing here.
    Unknown(&'static str),
}

/// The orders to a server. Their end is an [`Order::Stop`].
pub type Orders = BoxStream<'static, Order>;

/// How long connections have to write their last answers and to end, once all requests are answered.
const LINGER: Duration = Duration::from_secs(1);

/// How long the last lines of the access log may take.
pub(super) const LAST_LINES: Duration = Duration::from_secs(1);

/// Follows orders until one ends the server, or a listener fails.
pub(super) fn follow(mut orders: Orders, reload: &Arc<Reload>, services: &mut Services) -> Result<(), AppError> {
    let runtime = threads::runtime("orders", 1).map_err(AppError::Thread)?;
    let followed = runtime.block_on(async {
        loop {
            let order = tokio::select! {
                order = orders.next() => order,
                Some(name) = services.failed() => return Err(AppError::Listener(name)),
            };
            match order {
                Some(Order::Reload) => {
                    let reload = reload.clone();
                    // Several at once take turns; each tells how it ended.
                    drop(tokio::task::spawn_blocking(move || reload.reload()));
                }
                Some(Order::ReopenLogs) => reload.reopen_logs(),
                Some(Order::Unknown(signal)) => tracing::warn!("{signal} is ignored: it has no meaning here"),
                Some(Order::StopAtOnce) => {
                    reload.connections.close();
                    return Ok(());
                }
                Some(Order::Stop) | None => return Ok(()),
            }
        }
    });
    runtime.shutdown_background();
    followed
}

/// Waits until nothing is in flight, for `drain` at most.
pub(super) fn drain(settings: &Settings, in_flight: &InFlight, connections: &Connections) {
    let (began, drain) = (Instant::now(), settings.load().drain);
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
}
