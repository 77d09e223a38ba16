//! One budget for everything that is sent to the origin: who goes next, and when.
//!
//! [`choice`] decides; the rest waits and wakes. Callers: [`super::client`], [`crate::proxy::upstream`].

pub mod choice;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{Clock, Monotonic};

pub use choice::Demand;
use choice::{ClientTurn, View, Waiting, choose, client_share};

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

struct State {
    window: Option<Window>,
    ledger: Option<Ledger>,
    waiting: Vec<Waiting>,
    next_ticket: u64,
    /// Turns given to clients. Not tickets: a client with many old ones would have every turn until they are used up.
    turns: u64,
    served: HashMap<IpAddr, u64>,
    paused_until: Monotonic,
    /// Requests that are on the wire.
    on_wire: usize,
    /// Whether the origin has failed so often that one request at a time tries it.
    gentle: bool,
    last_detail: Option<Monotonic>,
    crawl_work: usize,
    /// When a client last got its turn, and whether nobody waited for it.
    last_client: Option<Monotonic>,
    refreshed_last: bool,
    /// When the patience of a client last ended.
    refused: Option<Monotonic>,
}

impl State {
    fn pace(&self) -> Duration {
        let limit = self.window.as_ref().map_or(usize::MAX, Window::limit);
        Duration::from_secs(60) / u32::try_from(limit.max(1)).unwrap_or(u32::MAX)
    }

    fn detail_due(&self, now: Monotonic) -> bool {
        self.last_detail.is_none_or(|last| now >= last.plus(self.pace()))
    }

    /// When the next client gets its turn, if their reads are spread over time: only while more of them wait than there
    /// are slots, and somebody's patience has ended lately. All slots at once would be a minute of answers in a second,
    /// and then none for a minute.
    fn client_due_at(&self, now: Monotonic) -> Option<Monotonic> {
        const OVERLOADED_FOR: Duration = Duration::from_secs(120);
        let window = self.window.as_ref()?;
        let refused = self.refused.is_some_and(|at| now.since(at) < OVERLOADED_FOR);
        let free = window.free(now);
        let waiting = self.waiting.iter().filter(|waiting| waiting.class == Class::Client).count();
        let last = self.last_client.filter(|_| refused && waiting > free && free > 0)?;
        // The fewer are left, the more slowly they go: there is always one, and half of them are used in half a minute.
        Some(last.plus(Duration::from_secs(30) / u32::try_from(free).unwrap_or(u32::MAX)))
    }

    fn client_turn(&self, now: Monotonic) -> ClientTurn {
        if self.client_due_at(now).is_some_and(|due| now < due) {
            ClientTurn::Later
        } else if self.refreshed_last {
            ClientTurn::Awaited
        } else {
            ClientTurn::Stale
        }
    }

    /// Whether the read of a client would be sent at once.
    fn has_room(&self, now: Monotonic) -> bool {
        let stopped = now < self.paused_until || (self.gentle && self.on_wire > 0);
        let window = self.window.as_ref().is_none_or(|window| {
            // Those who wait have their slots before this one.
            let before = self.waiting.iter().filter(|waiting| waiting.class == Class::Client).count();
            let share = client_share(window.limit(), self.crawl_work > 0);
            let used = window.used_by(Class::Client, now);
            window.free(now) > before && used + before < share && self.client_turn(now) != ClientTurn::Later
        });
        !stopped && window
    }

    fn chosen(&self, now: Monotonic) -> Option<u64> {
        if now < self.paused_until || (self.gentle && self.on_wire > 0) {
            return None;
        }
        let Some(window) = &self.window else {
            return self.waiting.iter().map(|waiting| waiting.ticket).min();
        };
        choose(&View {
            waiting: &self.waiting,
            free: window.free(now),
            limit: window.limit(),
            client_used: window.used_by(Class::Client, now),
            refresh_used: window.used_by(Class::Refresh, now),
            background_used: window.used_by(Class::Background, now),
            detail_due: self.detail_due(now),
            clients: self.client_turn(now),
            crawl_has_work: self.crawl_work > 0,
            served: &self.served,
        })
    }

    /// Gives the chosen one its turn; returns its slot of the window.
    fn give(&mut self, ticket: u64, class: Class, client: Option<IpAddr>, now: Monotonic) -> Option<usize> {
        let chosen = self.waiting.iter().position(|waiting| waiting.ticket == ticket);
        let chosen = chosen.map(|index| self.waiting.remove(index));
        if class == Class::Client {
            self.refreshed_last = chosen.is_some_and(|waiting| waiting.demand.is_some());
            self.last_client = Some(now);
        }
        if let Some(client) = client {
            const MOST_REMEMBERED: usize = 4096;
            if self.served.len() >= MOST_REMEMBERED {
                self.served.clear();
            }
            self.turns += 1;
            self.served.insert(client, self.turns);
        }
        if class == Class::Details {
            self.last_detail = Some(now);
        }
        self.window.as_mut().and_then(|window| window.take(class, now))
    }

    /// When something may change without anybody saying so.
    fn wake_at(&self, now: Monotonic) -> Option<Monotonic> {
        if now < self.paused_until {
            return Some(self.paused_until);
        }
        let slot = self.window.as_ref().and_then(|window| window.next_free(now));
        let detail = self.last_detail.map(|last| last.plus(self.pace())).filter(|due| *due > now);
        let client = self.client_due_at(now).filter(|due| *due > now);
        [slot, detail, client].into_iter().flatten().min()
    }
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
            gentle: false,
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
        const MOST_WAITING: usize = 4096;
        let deadline = patience.map(|patience| self.0.clock.now_mono().plus(patience));
        let (mut place, awaited) = {
            let mut state = self.0.state.lock();
            if state.waiting.len() >= MOST_WAITING {
                return Err(Spent { retry_after: Duration::from_secs(60), paused: false });
            }
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            let awaited = demand.is_none();
            state.waiting.push(Waiting { ticket, class, client, demand });
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
            if let Some(deadline) = deadline.filter(|deadline| now >= *deadline || paused_until > *deadline) {
                let wait = wake.unwrap_or(deadline).since(now);
                if class == Class::Client && awaited {
                    self.0.state.lock().refused = Some(now);
                }
                return Err(Spent { retry_after: wait.max(Duration::from_secs(1)), paused: now < paused_until });
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

    /// Whether one request at a time is enough for an origin that fails again and again: its return shows all the same.
    pub fn try_gently(&self, gentle: bool) {
        let mut state = self.0.state.lock();
        let changed = state.gentle != gentle;
        state.gentle = gentle;
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
