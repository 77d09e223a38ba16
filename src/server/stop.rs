//! Stop of a server: orders to it, the end of its connections, new ones that are accepted for a while unless they wait in
//! a socket that outlives the process, and a drain that ends when nothing is in flight.
//!
//! Callers: [`super::serve`]; [`super::signals`] makes orders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::config::Settings;
use crate::edge::serve::connections::{Connections, InFlight};
use crate::tasks::threads;

use super::error::AppError;
use super::reload::Reload;
use super::services::Services;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop: requests in flight are finished within `drain`, and connections have time for a last request. Where no service
    /// manager holds the sockets, new ones are accepted for a while.
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

/// The orders to a server. Their end is an [`Order::StopAtOnce`].
pub type Orders = BoxStream<'static, Order>;

/// A connection is idle if nothing was asked on it for so long. Before, its next request may be under way.
const IDLE: Duration = Duration::from_secs(1);

/// How long connections have to write their last answers and to end, once all requests are answered.
const LINGER: Duration = Duration::from_secs(1);

/// How long the last lines of the access log may take.
pub(super) const LAST_LINES: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Connections have time for a last request.
    Gentle,
    /// Idle connections are closed.
    AtOnce,
}

/// How long new connections are accepted after the order to stop, where nobody else holds the socket: load balancers
/// notice a stop some time after it. A quarter of `drain`, 5 s at most.
fn accepts_for(drain: Duration) -> Duration {
    (drain / 4).min(Duration::from_secs(5))
}

/// How long connections may wait for a last request: half of `drain`, 10 s at most.
fn last_requests(drain: Duration) -> Duration {
    (drain / 2).min(Duration::from_secs(10))
}

/// Follows orders until one ends the server, or a listener fails.
pub(super) fn follow(mut orders: Orders, reload: &Arc<Reload>, services: &mut Services) -> Result<Ending, AppError> {
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
                Some(Order::StopAtOnce) | None => return Ok(Ending::AtOnce),
                Some(Order::Stop) => return Ok(Ending::Gentle),
            }
        }
    });
    runtime.shutdown_background();
    followed
}

pub(super) struct Drain<'a> {
    pub settings: &'a Settings,
    pub in_flight: &'a InFlight,
    pub connections: &'a Connections,
}

impl Drain<'_> {
    /// Waits until nothing is in flight, for `drain` at most. `accepts`: not before a while, in which new connections are
    /// accepted. `close` ends the listeners.
    pub(super) fn run(&self, ending: Ending, accepts: bool, close: impl FnOnce()) {
        let (began, drain) = (Instant::now(), self.settings.load().drain);
        let wait_while = |is_waiting: &dyn Fn() -> bool, longest: Duration| {
            while is_waiting() && began.elapsed() < longest {
                if ending == Ending::AtOnce || began.elapsed() >= last_requests(drain) {
                    self.connections.close();
                } else {
                    self.connections.close_idle(IDLE);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        self.connections.wind_down();
        if accepts && ending == Ending::Gentle {
            wait_while(&|| true, accepts_for(drain));
        }
        close();
        let is_asked_again = || self.connections.open() > 0 && began.elapsed() < last_requests(drain);
        wait_while(&|| self.in_flight.count() > 0 || is_asked_again(), drain);
        let left = self.in_flight.count();
        self.connections.close();
        wait_while(&|| self.connections.open() > 0, drain.min(began.elapsed() + LINGER));
        if left > 0 {
            tracing::warn!(left, "the drain time is over; requests still in flight are aborted");
        }
    }
}
