//! One budget for everything that is sent to the origin: who goes next, and when.
//!
//! [`choice`] decides; the rest waits and wakes. Callers: [`super::client`], [`crate::proxy::upstream`].

pub mod choice;
mod state;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{Clock, Monotonic};

pub use choice::Demand;
use choice::Waiting;
use state::State;

use super::ledger::{LONGEST_PAUSE, Ledger};
use super::window::{Class, Window};

/// Why no slot was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; try again in {} s", if *paused { "the origin is left alone" } else { "the origin's budget is spent" }, retry_after.as_secs())]
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
pub struct Budget(Arc<Inner>);

struct Inner {
    clock: Clock,
    state: Mutex<State>,
    changed: Notify,
}

impl Budget {
    /// A budget of `limit` requests in 60 s (`None`: unlimited) whose ledger is kept at `path` (`None`: not at all). A
    /// pause that was not over when the last process ended goes on.
    pub fn open(limit: Option<usize>, path: Option<&Path>, clock: Clock) -> Self {
        let mut window = limit.map(Window::new);
        let (now, wall) = (clock.now_mono(), clock.now_wall());
        let (ledger, pause) = path.map(|path| Ledger::open(path, window.as_mut(), now, wall)).unzip();
        let state = State {
            window,
            ledger,
            waiting: Vec::new(),
            next_ticket: 1,
            turns: 0,
            served: HashMap::new(),
            paused_until: now.plus(pause.unwrap_or_default()),
            on_wire: 0,
            gentle: None,
            left: None,
            ended: None,
            last_detail: None,
            crawl_work: 0,
            last_client: None,
            refreshed_last: false,
            refused: None,
        };
        Self(Arc::new(Inner { clock, state: Mutex::new(state), changed: Notify::new() }))
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
        self.0.state.lock().has_room(self.0.clock.now_mono())
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
        let client = client.map(household);
        let deadline = patience.map(|patience| self.0.clock.now_mono().plus(patience));
        let (mut place, awaited) = {
            let mut state = self.0.state.lock();
            // Clients only: whatever they do, the mirror itself is not locked out.
            if class == Class::Client && state.is_full_for(client) {
                return Err(state.spent(class, None, self.0.clock.now_mono()));
            }
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            let awaited = demand.is_none();
            state.waiting.push(Waiting { ticket, class, client, demand, until: deadline });
            (Place { budget: self.clone(), ticket, left: false }, awaited)
        };
        loop {
            let changed = self.0.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Registered before the state is looked at, so that no change is missed.
            changed.as_mut().enable();
            let now = self.0.clock.now_mono();
            let (wake, paused_until) = {
                let mut state = self.0.state.lock();
                if state.chosen(now) == Some(place.ticket) {
                    let permit = self.grant(&mut state, place.ticket, class, client, now);
                    place.left = true;
                    drop(state);
                    self.0.changed.notify_waiters();
                    return Ok(permit);
                }
                (state.wake_at(now), state.paused_until)
            };
            // There is no use in waiting for the end of a pause that comes too late.
            if deadline.is_some_and(|deadline| now >= deadline || paused_until > deadline) {
                let mut state = self.0.state.lock();
                // An origin that is left alone is no sign of too many reads.
                if class == Class::Client && awaited && state.stopped_until(now).is_none() {
                    state.refused = Some(now);
                }
                return Err(state.spent(class, Some(place.ticket), now));
            }
            let until = [wake, deadline].into_iter().flatten().min();
            match until {
                Some(until) => {
                    let wait = until.since(now).max(Duration::from_millis(1));
                    let _ = tokio::time::timeout(wait, changed).await;
                }
                None => changed.await,
            }
        }
    }

    fn grant(&self, state: &mut State, ticket: u64, class: Class, client: Option<IpAddr>, now: Monotonic) -> Permit {
        let slot = state.give(ticket, class, client, now);
        state.on_wire += 1;
        if let (Some(slot), Some(ledger)) = (slot, &mut state.ledger) {
            ledger.sent(slot);
        }
        Permit { budget: self.clone(), slot, answered: false }
    }

    /// Sends nothing for `span`, because the origin asked for it or fails; a restart changes nothing about that.
    pub fn pause(&self, span: Duration) {
        let (now, wall) = (self.0.clock.now_mono(), self.0.clock.now_wall());
        let span = span.min(LONGEST_PAUSE);
        let mut state = self.0.state.lock();
        let mut unsynced = None;
        if now.plus(span) > state.paused_until {
            state.paused_until = now.plus(span);
            unsynced = state.ledger.as_mut().and_then(|ledger| ledger.paused(span, wall));
        }
        drop(state);
        self.0.changed.notify_waiters();
        if let Some(file) = unsynced {
            // A slow disk must hold up neither who waits for the budget nor the task that was told of the pause.
            let sync = move || drop(file.sync_data());
            let _ = std::thread::Builder::new().name("ledger".into()).spawn(sync);
        }
    }

    /// Whether one request at a time is enough, for an origin that fails again and again: its return shows all the same.
    /// One that hangs holds up the next for as long as is said here.
    pub fn try_gently(&self, spacing: Option<Duration>) {
        let mut state = self.0.state.lock();
        let changed = state.gentle != spacing;
        state.gentle = spacing;
        drop(state);
        if changed {
            self.0.changed.notify_waiters();
        }
    }

    /// Says that crawl work is open for as long as the value lives: then clients leave it a quarter of the window.
    pub fn crawl_work(&self) -> CrawlWork {
        self.0.state.lock().crawl_work += 1;
        CrawlWork(self.clone())
    }

    /// The picture now.
    pub fn view(&self) -> BudgetView {
        let now = self.0.clock.now_mono();
        let state = self.0.state.lock();
        BudgetView {
            limit: state.window.as_ref().map(Window::limit),
            free: state.window.as_ref().map_or(usize::MAX, |window| window.free(now)),
            paused: state.paused_until.since(now),
            waiting: state.waiting.len(),
        }
    }
}

/// Whose turn it is: an IPv6 network of 64 bits is one client, like an address of IPv4.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & (u128::MAX << 64)).into(),
        four @ IpAddr::V4(_) => four,
    }
}

/// Crawl work that is open.
pub struct CrawlWork(Budget);

impl Drop for CrawlWork {
    fn drop(&mut self) {
        let inner = &self.0.0;
        let mut state = inner.state.lock();
        state.crawl_work = state.crawl_work.saturating_sub(1);
        drop(state);
        inner.changed.notify_waiters();
    }
}

/// A place in the queue that is left when its holder gives up, even by being dropped.
struct Place {
    budget: Budget,
    ticket: u64,
    left: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.left {
            self.budget.0.state.lock().waiting.retain(|waiting| waiting.ticket != self.ticket);
            self.budget.0.changed.notify_waiters();
        }
    }
}

/// The right to have one request on the wire.
pub struct Permit {
    budget: Budget,
    slot: Option<usize>,
    answered: bool,
}

impl Permit {
    /// The answer arrived; without this call the request counts a little longer.
    pub fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let inner = &self.budget.0;
        let (now, wall) = (inner.clock.now_mono(), inner.clock.now_wall());
        let mut state = inner.state.lock();
        state.on_wire = state.on_wire.saturating_sub(1);
        state.ended = Some(now);
        if let Some(slot) = self.slot
            && let Some(window) = &mut state.window
        {
            let until = window.answered(slot, now, self.answered);
            if let Some(ledger) = &mut state.ledger {
                ledger.answered(slot, wall.plus(until.since(now)));
            }
        }
        drop(state);
        inner.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
