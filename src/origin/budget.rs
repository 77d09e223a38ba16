//! One budget for all requests to the origin: which request is sent next, and when.
//!
//! [`state`] decides, [`dispatch`] hands out slots; this file is the interface. Callers: [`super::client`] asks for
//! slots, [`crate::edge::proxy`] and [`crate::mirror`] judge clients, the mirror declares its work;
//! [`crate::server::admin`] shows the figures, [`crate::server`] opens it.

mod dispatch;
mod households;
mod queue;
mod spare;
mod state;

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Monotonic};
use crate::protocol::client_address;
use crate::telemetry::findings::Finding;

use dispatch::{Dispatcher, DispatcherState, QueuePlace};
use queue::{Waiting, Wanted};
use state::BudgetState;

use super::ledger::{LONGEST_PAUSE, Ledger, Recording};
use super::window::{Class, Window};

/// The shortest time that the disk gets to record a slot.
const SHORTEST_WRITE: Duration = Duration::from_secs(1);
/// A slower disk is logged.
const SLOW_WRITE: Duration = Duration::from_secs(10);

/// How long a read that no client waits for stays in the queue.
const BEHIND: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; try again in {} s", retry_after.as_secs())]
pub struct Spent {
    /// When another try makes sense.
    pub retry_after: Duration,
    pub reason: SpentReason,
}

/// Why the origin is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpentReason {
    #[error("the request budget of the origin is used up")]
    UsedUp,
    #[error("requests to the origin are paused, because it fails or asked for a pause")]
    Paused,
    #[error("odd values are forwarded two a minute for each client, and in a tenth of the request budget")]
    Odd,
    #[error("the request got no turn in time: others wait for the origin, too")]
    NoTurn,
}

impl Spent {
    pub const fn soon() -> Self {
        Self { retry_after: Duration::from_secs(1), reason: SpentReason::NoTurn }
    }
}

/// The figures for `/status` and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetView {
    /// Requests that may be sent in 60 s; `None`: unlimited.
    pub limit: Option<usize>,
    pub free: usize,
    /// How many count now, by class; `None`: unlimited.
    pub used: Option<[usize; Class::ALL.len()]>,
    /// How long the budget still pauses, because the origin asked for it or fails.
    pub paused: Duration,
    /// The part of it that the origin asked for.
    pub asked: Duration,
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
        // Relaxed: during a reload, a request may use either number.
        self.ipv6_prefix.store(bits, Ordering::Relaxed);
    }

    /// The address that stands for the household of a client.
    pub fn household(&self, client: IpAddr) -> IpAddr {
        client_address::household(client, self.ipv6_prefix.load(Ordering::Relaxed))
    }

    /// Judges a client that waited for another client's fetch, which got no slot, as if it asked now with this
    /// patience. `None`: it would get a slot in time.
    pub fn judge(&self, client: Option<IpAddr>, patience: Option<Duration>) -> Option<Spent> {
        let waiting = self.waiting(Class::Client, client, patience);
        let is_over = patience.is_some_and(|patience| patience.is_zero());
        let refusal = self.dispatcher.look(|dispatch, now| dispatch.state.refusal(&waiting, now));
        // It cannot wait any more, so a slot that is free now does not help.
        refusal.or_else(|| is_over.then(Spent::soon))
    }

    fn waiting(&self, class: Class, client: Option<IpAddr>, patience: Option<Duration>) -> Waiting {
        let client = client.map(|client| self.household(client));
        let until = patience.map(|patience| self.dispatcher.now().plus(patience));
        Waiting { class, client, wanted: None, until }
    }

    /// Whether the read of a client would be sent at once.
    pub fn has_room(&self) -> bool {
        self.dispatcher.look(|dispatch, now| dispatch.state.has_room(now))
    }

    /// Waits for a slot, at most `patience` (`None`: as long as it takes). The request is sent while the permit lives.
    /// Fails at once if a client gets no slot in time.
    pub async fn acquire(
        &self,
        class: Class,
        client: Option<IpAddr>,
        patience: Option<Duration>,
    ) -> Result<Permit, Spent> {
        let waiting = self.waiting(class, client, patience);
        let until = waiting.until;
        let permit = QueuePlace::enter(&self.dispatcher, waiting)?.turn(until).await?;
        // Recorded before it is sent: a kill -9 in between wastes a slot, and forgets no request.
        self.recorded(until).await?;
        Ok(permit.sent())
    }

    /// A place in the queue for a resource that a client gets stale meanwhile; or was refused, which counts under overload
    /// only. `None`: there is no place.
    pub(crate) fn want(&self, client: IpAddr, is_refused: bool) -> Option<WantedPlace> {
        if is_refused && !self.is_overloaded() {
            return None;
        }
        // Longer than any slot takes to become free, where nobody has the answer.
        let patience = if is_refused { 2 * BEHIND } else { BEHIND };
        let mut waiting = self.waiting(Class::Client, Some(client), Some(patience));
        let households = waiting.client.into_iter().collect();
        waiting.wanted = Some(Wanted { households, is_refused, since: self.dispatcher.now() });
        let (until, budget) = (waiting.until, self.clone());
        let place = QueuePlace::enter(&self.dispatcher, waiting).ok()?;
        Some(WantedPlace { budget, place, until })
    }

    /// One more client gets stale, or was refused, what waits with this ticket.
    pub(crate) fn vote(&self, ticket: u64, client: IpAddr) {
        let household = self.household(client);
        self.dispatcher.change(|dispatch, _| dispatch.state.queue.vote(ticket, household));
    }

    /// Whether far more cache misses are refused than the budget has slots.
    fn is_overloaded(&self) -> bool {
        self.dispatcher.look(|dispatch, now| dispatch.state.is_overloaded(now))
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
    /// a tenth of the window, those of one household two a minute. `None`: a redirect of one of them, which counts for no
    /// household.
    pub async fn acquire_spare(&self, client: Option<IpAddr>) -> Result<Permit, Spent> {
        let household = client.map(|client| self.household(client));
        let taken = self.dispatcher.look(|dispatch, now| dispatch.state.take_spare(household, now));
        let slot = taken.map_err(|retry_after| Spent { retry_after, reason: SpentReason::Odd })?;
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

/// The place in the queue of a resource that no client waits for.
pub(crate) struct WantedPlace {
    budget: Budget,
    place: QueuePlace,
    until: Option<Monotonic>,
}

impl WantedPlace {
    /// Its ticket, by which others [`Budget::vote`] for it.
    pub(crate) const fn ticket(&self) -> u64 {
        self.place.ticket()
    }

    /// Waits for its slot. The permit is unused until it is sent.
    pub(crate) async fn turn(self) -> Result<Permit, Spent> {
        let permit = self.place.turn(self.until).await?;
        self.budget.recorded(self.until).await?;
        Ok(permit)
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
    Answered,
}

impl Permit {
    fn unused(dispatcher: &Arc<Dispatcher>, slot: Option<usize>) -> Self {
        Self { dispatcher: dispatcher.clone(), slot, end: Some(End::Unused) }
    }

    /// Its request is about to be sent.
    pub(crate) fn sent(mut self) -> Self {
        self.end = Some(End::Unanswered);
        self
    }

    /// Its request is not sent yet: dropped now, it costs no slot.
    pub(crate) fn unsent(mut self) -> Self {
        self.end = Some(End::Unused);
        self
    }

    /// The answer arrived; without this call the request counts a little longer.
    pub fn answered(mut self) {
        self.end = Some(End::Answered);
    }

    fn settle(&mut self, dispatch: &mut DispatcherState, now: Monotonic) {
        if let Some(end) = self.end.take() {
            dispatch.state.ended(self.slot, end, now, self.dispatcher.clock().now_wall());
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.end.fmt(out)
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
