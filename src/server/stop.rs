//! Stop of a server: orders to it, the end of its connections, new ones that are accepted for a while unless they wait in
//! a socket that outlives the process, and a drain that ends when nothing is in flight.
//!
//! Callers: [`super::serve`]; [`super::signals`] makes orders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::tasks::threads;

use super::error::AppError;
use super::reload::Reload;
use super::services::Services;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// SIGTERM, SIGQUIT: requests in flight are finished within `drain`, and connections have time for a last request. Where no service
    /// manager holds the sockets, new ones are accepted for a while.
    Stop,
    /// Ctrl-C: requests in flight are finished within `drain`, idle connections are closed.
    StopAtOnce,
    /// Read the configuration again, and open log files again.
    Reload,
    /// Open log files again, for programs that rotate them.
    ReopenLogs,
    /// A signal of this name, which means nothing here.
    Unknown(&'static str),
}

/// The orders to a server. Their end is an [`Order::StopAtOnce`].
pub type Orders = BoxStream<'static, Order>;

/// A connection is idle if nothing was asked on it for so long. Before, its next request may be under way.
const IDLE: Duration = Duration::from_secs(1);

/// How long connections have to write their last answers and to end, once all requests are answered.
const LINGER: Duration = Duration::from_secs(1);

/// How long the last lines of the access log may take.
pub(super) const LAST_LINES: Duration = Duration::from_secs(1);

/// How long new connections are accepted after the order to stop, where nobody else holds the socket: load balancers
/// notice a stop some time after it. A quarter of `drain`, 5 s at most.
fn accept_period(drain: Duration) -> Duration {
    (drain / 4).min(Duration::from_secs(5))
}

/// How long connections may wait for a last request: half of `drain`, 10 s at most.
fn last_request_period(drain: Duration) -> Duration {
    (drain / 2).min(Duration::from_secs(10))
}

/// Follows orders until one ends the server, which is returned, or a listener fails.
pub(super) fn run_until_stop(
    mut orders: Orders,
    reload: &Arc<Reload>,
    services: &mut Services,
) -> Result<Order, AppError> {
    let runtime = threads::runtime("orders", 1).map_err(AppError::Thread)?;
    let followed = runtime.block_on(async {
        loop {
            let order = tokio::select! {
                order = orders.next() => order,
                Some(name) = services.failed() => return Err(AppError::Listener(name)),
            };
            match order.unwrap_or(Order::StopAtOnce) {
                Order::Reload => {
                    let reload = reload.clone();
                    // Several at once take turns; each tells how it ended.
                    drop(tokio::task::spawn_blocking(move || reload.reload()));
                }
                Order::ReopenLogs => reload.reopen_logs(),
                Order::Unknown(signal) => tracing::warn!("{signal} is ignored: it has no meaning here"),
                stop @ (Order::Stop | Order::StopAtOnce) => return Ok(stop),
            }
        }
    });
    runtime.shutdown_background();
    followed
}

/// Waits until nothing is in flight, for `drain` at most. `keeps_accepting`: after [`Order::Stop`] new connections are
/// accepted for [`accept_period`], before the listeners close. `close` ends the listeners.
pub(super) fn drain(reload: &Reload, order: Order, keeps_accepting: bool, close: impl FnOnce()) {
    let (connections, in_flight) = (&reload.connections, &reload.public.in_flight);
    let (began, drain, lets_connections_finish) =
        (Instant::now(), reload.status.settings.load().drain, order == Order::Stop);
    let wait_while = |is_waiting: &dyn Fn() -> bool, longest: Duration| {
        while is_waiting() && began.elapsed() < longest {
            if lets_connections_finish && began.elapsed() < last_request_period(drain) {
                connections.close_idle(IDLE);
            } else {
                connections.close();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    connections.wind_down();
    if keeps_accepting && lets_connections_finish {
        wait_while(&|| true, accept_period(drain));
    }
    close();
    let awaits_last_requests = || connections.open() > 0 && began.elapsed() < last_request_period(drain);
    wait_while(&|| in_flight.count() > 0 || awaits_last_requests(), drain);
    let left = in_flight.count();
    connections.close();
    wait_while(&|| connections.open() > 0, drain.min(began.elapsed() + LINGER));
    if left > 0 {
        tracing::warn!(left, "the drain time is over; requests still in flight are aborted");
    }
}
