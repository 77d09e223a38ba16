//! One budget for all requests to the origin: which request is sent next, and when.
//!
//! [`choice`] decides, [`dispatch`] hands out slots; this file is the interface. Callers: [`super::client`] asks for
//! slots, [`crate::proxy`] and [`crate::mirror`] judge clients, the mirror declares its work; [`crate::admin`] shows the
//! figures, [`crate::app`] opens it.

mod choice;
mod dispatch;
mod promise;
mod queue;
mod spare;
mod state;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Monotonic};
use crate::semantics::client_address;
use crate::telemetry::findings::Finding;

use dispatch::{Dispatcher, DispatcherState, QueuePlace};
use queue::Waiting;
use state::BudgetState;

use super::ledger::{LONGEST_PAUSE, Ledger, Recording};
use super::window::{Class, Window};

pub(crate) use queue::Demand;

/// The shortest time that the disk gets to record a slot.
const SHORTEST_WRITE: Duration = Duration::from_secs(1);
/// A slower disk is logged.
const SLOW_WRITE: Duration = Duration::from_secs(10);

/// Why no slot was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; try again in {} s", if *paused { "requests to the origin are paused" } else { "the request budget of the origin is used up" }, retry_after.as_secs())]
pub struct Spent {
    /// When another try makes sense.
    pub retry_after: Duration,
    /// Whether the budget pauses, because the origin asked for it or fails.
    pub paused: bool,
}

impl Spent {
    /// Another try makes sense soon.
    pub const fn soon() -> Self {
        Self { retry_after: Duration::from_secs(1), paused: false }
    }
}

/// The figures for `/status` and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetView {
    /// Requests that may be sent in 60 s; `None`: unlimited.
    pub limit: Option<usize>,
    /// How many are free now.
    pub free: usize,
    /// How many count now, by class; `None`: unlimited.
    pub used: Option<[usize; Class::ALL.len()]>,
    /// How long the budget still pauses, because the origin asked for it or fails.
    pub paused: Duration,
    /// The part of it that the origin asked for.
    pub asked: Duration,
    /// Who waits.
    pub waiting: usize,
}

/// The budget; cheap to clone.
#[derive(Clone)]
pub struct Budget {
    dispatcher: Arc<Dispatcher>,
    /// How many leading bits of an IPv6 address make a household, whose reads share their turns.
    ipv6_prefix: Arc<AtomicU8>,
}

impl Budget {
    /// A budget of `limit` requests in 60 s (`None`: unlimited) whose ledger is kept at `path` (`None`: not at all). An
    /// unfinished pause of the last process continues.
    pub fn open(limit: Option<usize>, path: Option<&Path>, clock: Clock) -> Self {
        let mut window = limit.map(Window::new);
        let (now, wall) = (clock.now_mono(), clock.now_wall());
        let (ledger, pause) = path.map(|path| Ledger::open(path, window.as_mut(), now, wall)).unzip();
        let state = BudgetState::new(window, ledger, pause.unwrap_or_default(), now);
        Self { dispatcher: Arc::new(Dispatcher::new(state, clock)), ipv6_prefix: Arc::new(AtomicU8::new(64)) }
    }

    /// From now on this many leading bits of an IPv6 address make a household (64 otherwise).
    pub fn set_ipv6_prefix(&self, bits: u8) {
        self.ipv6_prefix.store(bits, Ordering::Relaxed);
    }

    /// The address that stands for the household of a client.
    pub fn household(&self, client: IpAddr) -> IpAddr {
        client_address::household(client, self.ipv6_prefix.load(Ordering::Relaxed))
    }

    /// Waits for a slot, at most `patience` (`None`: as long as it takes). The request is sent while the permit lives.
    /// Fails at once if no slot can be promised to a client in time.
    pub async fn acquire(
        &self,
        class: Class,
        client: Option<IpAddr>,
        patience: Option<Duration>,
    ) -> Result<Permit, Spent> {
        self.acquire_for(class, client, patience, None).await
    }

    /// Whether far more cache misses are refused than the budget has slots.
    pub fn is_overloaded(&self) -> bool {
        self.dispatcher.look(|dispatch, now| dispatch.state.is_overloaded(now))
    }

    /// Judges a client that waited for another client's fetch, which got no slot, as if it asked now with this
    /// patience. `None`: it would be promised a slot.
    pub fn judge(&self, client: Option<IpAddr>, patience: Option<Duration>) -> Option<Spent> {
        let waiting = self.waiting(client, patience);
        self.dispatcher.look(|dispatch, now| dispatch.judge(waiting, now))
    }

    /// Lets a background fetch take the place of a client that asks for it, if that brings a slot
    /// within its patience. `Some`: the client is refused, and told when the fetch has its turn.
    pub fn take_over(&self, demand: &Demand, client: IpAddr, patience: Duration) -> Option<Spent> {
        let waiting = self.waiting(Some(client), Some(patience));
        self.dispatcher.change(|dispatch, now| dispatch.take_over(demand, waiting, now))
    }

    fn waiting(&self, client: Option<IpAddr>, patience: Option<Duration>) -> Waiting {
        let client = client.map(|client| self.household(client));
        let until = patience.map(|patience| self.dispatcher.now().plus(patience));
        Waiting { class: Class::Client, client, demand: None, until }
    }

    /// Whether the read of a client would be sent at once.
    pub fn has_room(&self) -> bool {
        self.dispatcher.look(|dispatch, now| dispatch.state.has_room(now))
    }

    /// [`acquire`](Self::acquire) for a resource that clients get stale, or are refused, meanwhile.
    pub async fn acquire_for(
        &self,
        class: Class,
        client: Option<IpAddr>,
        patience: Option<Duration>,
        demand: Option<Demand>,
    ) -> Result<Permit, Spent> {
        // A fetch for several households counts against none of them.
        let is_refused = demand.as_ref().is_some_and(Demand::is_refused);
        let client = client.filter(|_| !is_refused).map(|client| self.household(client));
        let until = patience.map(|patience| self.dispatcher.now().plus(patience));
        let place = QueuePlace::enter(&self.dispatcher, Waiting { class, client, demand, until })?;
        let permit = place.turn(until).await?;
        self.recorded(until).await?;
        Ok(permit.sent())
    }

    /// Why its ledger cannot be written, and why open cases are not sent.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.dispatcher.look(|dispatch, now| {
            let ledger = dispatch.state.ledger.as_ref().and_then(Ledger::finding);
            ledger.into_iter().chain(dispatch.state.spare.finding(now)).collect()
        })
    }

    /// Tries again to write its ledger, if it could not be written. Blocks.
    pub(crate) fn try_writing(&self) {
        if let Some(recording) = self.recording() {
            recording.retry();
        }
    }

    fn recording(&self) -> Option<Recording> {
        self.dispatcher.look(|dispatch, _| Some(dispatch.state.ledger.as_ref()?.recording()))
    }

    /// Waits until all slots given so far are in the ledger, at most `until`.
    async fn recorded(&self, until: Option<Monotonic>) -> Result<(), Spent> {
        let Some(recording) = self.recording() else { return Ok(()) };
        let left = until.map(|until| until.since(self.dispatcher.now()).max(SHORTEST_WRITE));
        while !recording.is_done(left.unwrap_or(SLOW_WRITE)).await {
            if until.is_some() {
                return Err(Spent::soon());
            }
        }
        Ok(())
    }

    /// A slot that nobody needs now, for a request in bytes that a client chose. All such requests together take at most
    /// a tenth of the window, those of one household two a minute.
    pub async fn acquire_spare(&self, client: Option<IpAddr>) -> Result<Permit, Spent> {
        let household = client.map(|client| self.household(client));
        let taken = self.dispatcher.look(|dispatch, now| dispatch.state.take_spare(household, now));
        let slot = taken.map_err(|retry_after| Spent { retry_after, paused: false })?;
        let permit = Permit::unused(&self.dispatcher, slot);
        self.recorded(Some(self.dispatcher.now())).await?;
        Ok(permit.sent())
    }

    /// Sends nothing for `span`, because the origin asked for it or fails; survives a restart.
    pub fn pause(&self, span: Duration) {
        let span = span.min(LONGEST_PAUSE);
        let wall = self.dispatcher.clock().now_wall();
        self.dispatcher.change(|dispatch, now| {
            let until = now.plus(span);
            if until <= dispatch.state.paused_until {
                return;
            }
            dispatch.state.paused_until = until;
            // Waiting for the end of a pause that comes too late is useless.
            dispatch.dismiss_gone_by(until, now);
            if let Some(ledger) = &dispatch.state.ledger {
                ledger.paused(span, wall);
            }
        });
    }

    /// The origin refused a request in bytes that a client chose, with a status that is about us.
    pub fn refused_spare(&self, status: u16) {
        self.dispatcher.look(|dispatch, now| dispatch.state.spare.refused(status, now));
    }

    /// The origin asked for this part of the pause.
    pub fn asked_to_pause(&self, span: Duration) {
        let asked = |state: &mut BudgetState, now: Monotonic| state.asked_until = state.asked_until.max(now.plus(span));
        self.dispatcher.look(|dispatch, now| asked(&mut dispatch.state, now));
    }

    /// Allows one request at a time while the origin fails again and again. So it is still noticed when the origin is
    /// back. A hanging request delays the next one by `spacing`.
    pub fn try_gently(&self, spacing: Option<Duration>) {
        self.dispatcher.change(|dispatch, _| dispatch.state.gentle = spacing);
    }

    /// From now on the slots of refreshes that come every `every` stay free: this is a mirror.
    pub fn expect_refreshes(&self, every: Duration) {
        self.dispatcher.look(|dispatch, _| dispatch.state.refreshes = Some(every));
    }

    /// Declares crawl work open while the value lives: clients then leave it a quarter of the window.
    pub fn crawl_work(&self) -> CrawlWork {
        self.dispatcher.look(|dispatch, _| dispatch.state.crawl_work += 1);
        CrawlWork(self.dispatcher.clone())
    }

    /// The figures now.
    pub fn view(&self) -> BudgetView {
        self.dispatcher.look(|DispatcherState { state, .. }, now| BudgetView {
            limit: state.window.as_ref().map(Window::limit),
            free: state.window.as_mut().map_or(usize::MAX, |window| window.free(now)),
            used: state.window.as_mut().map(|window| Class::ALL.map(|class| window.used_by(class, now))),
            paused: state.paused_until.since(now),
            asked: state.asked_until.min(state.paused_until).since(now),
            waiting: state.queue.len(),
        })
    }
}

/// Crawl work that is open.
pub struct CrawlWork(Arc<Dispatcher>);

impl Drop for CrawlWork {
    fn drop(&mut self) {
        self.0.change(|dispatch, _| dispatch.state.crawl_work = dispatch.state.crawl_work.saturating_sub(1));
    }
}

/// The right to have one request on the wire.
pub struct Permit {
    dispatcher: Arc<Dispatcher>,
    slot: Option<usize>,
    /// `None`: the end was already reported.
    end: Option<End>,
}

/// How far the request of a permit came.
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

    /// Reports the end, once.
    fn settle(&mut self, dispatch: &mut DispatcherState, now: Monotonic) {
        if let Some(end) = self.end.take() {
            dispatch.state.ended(self.slot, end, now, self.dispatcher.clock().now_wall());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.end.is_some() {
            let dispatcher = self.dispatcher.clone();
            dispatcher.change(|dispatch, now| self.settle(dispatch, now));
        }
    }
}

#[cfg(test)]
mod tests;
