//! One budget for everything that is sent to the origin: who goes next, and when.
//!
//! [`choice`] decides, [`dispatch`] hands slots over; this file is what its users see. Callers: [`super::client`],
//! [`crate::upstream::wire`].

mod choice;
mod dispatch;
mod queue;
mod state;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Monotonic};
use crate::semantics::network;

use dispatch::{Desk, Dispatcher, Place};
use queue::Waiting;
use state::State;

use super::ledger::{LONGEST_PAUSE, Ledger};
use super::window::{Class, Window};

pub(crate) use queue::Demand;

/// Why no slot was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; try again in {} s", if *paused { "requests to the origin are paused" } else { "the request budget of the origin is used up" }, retry_after.as_secs())]
pub struct Spent {
    /// After how long another try makes sense.
    pub retry_after: Duration,
    /// Whether nothing is sent because the origin asked for that, or fails.
    pub paused: bool,
}

impl Spent {
    /// Another try makes sense soon.
    pub const fn soon() -> Self {
        Self { retry_after: Duration::from_secs(1), paused: false }
    }
}

/// A numeric picture for `/status` and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetView {
    /// Requests that may be sent in 60 s; `None`: unlimited.
    pub limit: Option<usize>,
    /// How many are free now.
    pub free: usize,
    /// For how long nothing is sent at all, because the origin said so or fails.
    pub paused: Duration,
    /// Who waits.
    pub waiting: usize,
}

/// The budget; cheap to clone.
#[derive(Clone)]
pub struct Budget {
    dispatcher: Arc<Dispatcher>,
    /// How many bits of an address of IPv6 make a household: its reads have their turns together.
    ipv6_prefix: Arc<AtomicU8>,
}

impl Budget {
    /// A budget of `limit` requests in 60 s (`None`: unlimited) whose ledger is kept at `path` (`None`: not at all). A
    /// pause that was not over when the last process ended goes on.
    pub fn open(limit: Option<usize>, path: Option<&Path>, clock: Clock) -> Self {
        let mut window = limit.map(Window::new);
        let (now, wall) = (clock.now_mono(), clock.now_wall());
        let (ledger, pause) = path.map(|path| Ledger::open(path, window.as_mut(), now, wall)).unzip();
        let state = State::new(window, ledger, pause.unwrap_or_default(), now);
        Self { dispatcher: Arc::new(Dispatcher::new(state, clock)), ipv6_prefix: Arc::new(AtomicU8::new(64)) }
    }

    /// From now on a household has so many bits of an address of IPv6 in common (64 otherwise).
    pub fn set_ipv6_prefix(&self, bits: u8) {
        self.ipv6_prefix.store(bits, Ordering::Relaxed);
    }

    /// The address that stands for the household of a client.
    pub fn household(&self, client: IpAddr) -> IpAddr {
        network::household(client, self.ipv6_prefix.load(Ordering::Relaxed))
    }

    /// Waits for a slot, at most `patience` (`None`: as long as it takes). The request is sent while the permit lives.
    ///
    /// # Errors
    /// When patience ran out.
    pub async fn acquire(
        &self,
        class: Class,
        client: Option<IpAddr>,
        patience: Option<Duration>,
    ) -> Result<Permit, Spent> {
        self.acquire_for(class, client, patience, None).await
    }

    /// Whether the read of a client would be sent at once.
    pub fn has_room(&self) -> bool {
        self.dispatcher.look(|desk, now| desk.state.has_room(now))
    }

    /// [`acquire`](Self::acquire) for something that clients are served stale meanwhile.
    ///
    /// # Errors
    /// When patience ran out.
    pub async fn acquire_for(
        &self,
        class: Class,
        client: Option<IpAddr>,
        patience: Option<Duration>,
        demand: Option<Demand>,
    ) -> Result<Permit, Spent> {
        let client = client.map(|client| self.household(client));
        let until = patience.map(|patience| self.dispatcher.now().plus(patience));
        let place = Place::enter(&self.dispatcher, Waiting { class, client, demand, until })?;
        place.turn(until).await.map(Permit::sent)
    }

    /// Sends nothing for `span`, because the origin asked for it or fails; a restart changes nothing about that.
    pub fn pause(&self, span: Duration) {
        let span = span.min(LONGEST_PAUSE);
        let wall = self.dispatcher.clock().now_wall();
        let unsynced = self.dispatcher.change(|desk, now| {
            let until = now.plus(span);
            if until <= desk.state.paused_until {
                return None;
            }
            desk.state.paused_until = until;
            // There is no use in waiting for the end of a pause that comes too late.
            desk.dismiss_gone_by(until, now);
            desk.state.ledger.as_mut().and_then(|ledger| ledger.paused(span, wall))
        });
        if let Some(file) = unsynced {
            // A slow disk must hold up neither who waits for the budget nor the task that was told of the pause.
            let sync = move || drop(file.sync_data());
            let _ = std::thread::Builder::new().name("ledger".into()).spawn(sync);
        }
    }

    /// Whether one request at a time is enough, for an origin that fails again and again: its return shows all the same.
    /// One that hangs holds up the next for as long as is said here.
    pub fn try_gently(&self, spacing: Option<Duration>) {
        self.dispatcher.change(|desk, _| desk.state.gentle = spacing);
    }

    /// Says that crawl work is open for as long as the value lives: then clients leave it a quarter of the window.
    pub fn crawl_work(&self) -> CrawlWork {
        self.dispatcher.look(|desk, _| desk.state.crawl_work += 1);
        CrawlWork(self.dispatcher.clone())
    }

    /// The picture now.
    pub fn view(&self) -> BudgetView {
        self.dispatcher.look(|Desk { state, .. }, now| BudgetView {
            limit: state.window.as_ref().map(Window::limit),
            free: state.window.as_mut().map_or(usize::MAX, |window| window.free(now)),
            paused: state.paused_until.since(now),
            waiting: state.queue.len(),
        })
    }
}

/// Crawl work that is open.
pub struct CrawlWork(Arc<Dispatcher>);

impl Drop for CrawlWork {
    fn drop(&mut self) {
        self.0.change(|desk, _| desk.state.crawl_work = desk.state.crawl_work.saturating_sub(1));
    }
}

/// The right to have one request on the wire.
pub struct Permit {
    dispatcher: Arc<Dispatcher>,
    slot: Option<usize>,
    /// `None`: the desk knows already.
    end: Option<End>,
}

/// How far a request with a permit came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Nobody took the permit.
    Unused,
    /// It was sent.
    Unanswered,
    /// Its answer arrived.
    Answered,
}

impl Permit {
    fn unused(dispatcher: &Arc<Dispatcher>, slot: Option<usize>) -> Self {
        Self { dispatcher: dispatcher.clone(), slot, end: Some(End::Unused) }
    }

    fn sent(mut self) -> Self {
        self.end = Some(End::Unanswered);
        self
    }

    /// The answer arrived; without this call the request counts a little longer.
    pub fn answered(mut self) {
        self.end = Some(End::Answered);
    }

    /// Tells the desk how it ended, once.
    fn settle(&mut self, desk: &mut Desk, now: Monotonic) {
        if let Some(end) = self.end.take() {
            desk.state.ended(self.slot, end, now, self.dispatcher.clock().now_wall());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.end.is_some() {
            let dispatcher = self.dispatcher.clone();
            dispatcher.change(|desk, now| self.settle(desk, now));
        }
    }
}

#[cfg(test)]
mod tests;
