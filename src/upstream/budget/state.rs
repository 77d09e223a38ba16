//! Who waits for the budget, what is used and what stops it: plain data, time is an argument.
//!
//! Callers: [`super::dispatch`], which tells those who wait.

use std::iter::zip;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use crate::clock::{Monotonic, WallTime};

use super::super::ledger::Ledger;
use super::super::window::{Class, Window};
use super::choice::{ClientTurn, Probe, View, choose, choose_probe, client_share};
use super::queue::{Deadlines, Queue, Waiting};
use super::{End, Spent};

/// The shortest pause after each try on a failing origin: by then its result has been judged.
const SETTLES: Duration = Duration::from_millis(100);

/// Everything that decides the next turn.
#[derive(Debug)]
pub(super) struct State {
    pub(super) window: Option<Window>,
    pub(super) ledger: Option<Ledger>,
    pub(super) queue: Queue,
    pub(super) paused_until: Monotonic,
    /// Requests that are on the wire.
    pub(super) on_wire: usize,
    /// How far apart tries are while the origin fails and a try hangs; one at a time otherwise.
    pub(super) gentle: Option<Duration>,
    /// When the last request left, and when the last one ended.
    pub(super) left: Option<Monotonic>,
    pub(super) ended: Option<Monotonic>,
    /// What was sent last.
    last_probe: Option<Probe>,
    pub(super) last_detail: Option<Monotonic>,
    pub(super) crawl_work: usize,
    /// When a client last got its turn, and whether nobody waited for it.
    pub(super) last_client: Option<Monotonic>,
    pub(super) refreshed_last: bool,
    /// When the patience of a client last ended.
    pub(super) refused: Option<Monotonic>,
}

impl State {
    pub(super) fn new(window: Option<Window>, ledger: Option<Ledger>, pause: Duration, now: Monotonic) -> Self {
        Self {
            window,
            ledger,
            queue: Queue::default(),
            paused_until: now.plus(pause),
            on_wire: 0,
            gentle: None,
            left: None,
            ended: None,
            last_probe: None,
            last_detail: None,
            crawl_work: 0,
            last_client: None,
            refreshed_last: false,
            refused: None,
        }
    }

    fn pace(&self) -> Duration {
        let limit = self.window.as_ref().map_or(usize::MAX, Window::limit);
        Duration::from_secs(60) / u32::try_from(limit.max(1)).unwrap_or(u32::MAX)
    }

    fn detail_due(&self, now: Monotonic) -> bool {
        self.last_detail.is_none_or(|last| now >= last.plus(self.pace()))
    }

    /// When the next client gets its turn, if client reads are spread over time: only while more of them wait than
    /// there are slots, and a client's patience ended lately. All slots at once would be a minute of answers in a
    /// second, then none for a minute.
    fn client_due_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        const OVERLOADED_FOR: Duration = Duration::from_secs(120);
        let refused = self.refused.is_some_and(|at| now.since(at) < OVERLOADED_FOR);
        let free = self.window.as_mut()?.free(now);
        let last = self.last_client.filter(|_| refused && self.queue.clients() > free && free > 0)?;
        Some(last.plus(self.pace()))
    }

    fn client_turn(&mut self, now: Monotonic) -> ClientTurn {
        if self.client_due_at(now).is_some_and(|due| now < due) {
            ClientTurn::Later
        } else if self.refreshed_last {
            ClientTurn::Awaited
        } else {
            ClientTurn::Stale
        }
    }

    /// Until when nothing is sent, if nothing else happens.
    pub(super) fn stopped_until(&self, now: Monotonic) -> Option<Monotonic> {
        let pause = (now < self.paused_until).then_some(self.paused_until);
        let gently = self.gentle.and_then(|spacing| match self.on_wire {
            0 => Some(self.ended?.plus(SETTLES)),
            _ => Some(self.left?.plus(spacing)),
        });
        pause.max(gently.filter(|until| now < *until))
    }

    /// Whether the read of a client would be sent at once.
    pub(super) fn has_room(&mut self, now: Monotonic) -> bool {
        if self.stopped_until(now).is_some() {
            return false;
        }
        let later = self.client_turn(now) == ClientTurn::Later;
        // Waiting reads get their slots before this one.
        let (before, crawls) = (self.queue.clients(), self.crawl_work > 0);
        self.window.as_mut().is_none_or(|window| {
            let share = client_share(window.limit(), crawls);
            window.free(now) > before && window.used_by(Class::Client, now) + before < share && !later
        })
    }

    /// The next ticket; `None` when none may go.
    pub(super) fn chosen(&mut self, now: Monotonic) -> Option<u64> {
        if self.stopped_until(now).is_some() {
            return None;
        }
        let (clients, detail_due) = (self.client_turn(now), self.detail_due(now));
        let probes = self.gentle.is_some();
        let limit = self.window.as_ref().map(Window::limit);
        if limit.is_none() && !probes {
            return self.queue.first();
        }
        let mut used = |class| self.window.as_mut().map_or(0, |window| window.used_by(class, now));
        let (client_used, refresh_used) = (used(Class::Client), used(Class::Refresh));
        let background_used = used(Class::Background);
        let view = View {
            queue: &self.queue,
            free: self.window.as_mut().map_or(usize::MAX, |window| window.free(now)),
            limit: limit.unwrap_or(usize::MAX / 3),
            client_used,
            refresh_used,
            background_used,
            detail_due,
            clients,
            crawl_has_work: self.crawl_work > 0,
        };
        if probes { choose_probe(&view, self.last_probe) } else { choose(&view) }
    }

    /// Gives the chosen one its turn; returns its slot of the window.
    pub(super) fn give(&mut self, ticket: u64, now: Monotonic) -> Option<usize> {
        let chosen = self.queue.remove(ticket)?;
        (self.left, self.on_wire) = (Some(now), self.on_wire + 1);
        self.last_probe = Some(Probe::of(&chosen));
        match chosen.class {
            Class::Client => (self.refreshed_last, self.last_client) = (chosen.demand.is_some(), Some(now)),
            Class::Details => self.last_detail = Some(now),
            _ => {}
        }
        if let Some(client) = chosen.client {
            self.queue.had_turn(client);
        }
        let slot = self.window.as_mut().and_then(|window| window.take(chosen.class, now))?;
        if let Some(ledger) = &mut self.ledger {
            ledger.sent(slot);
        }
        Some(slot)
    }

    /// A request that had its turn ends.
    pub(super) fn ended(&mut self, slot: Option<usize>, end: End, now: Monotonic, wall: WallTime) {
        self.on_wire = self.on_wire.saturating_sub(1);
        let (Some(slot), Some(window)) = (slot, &mut self.window) else {
            self.ended = Some(now);
            return;
        };
        let until = if end == End::Unused {
            window.unused(slot);
            now
        } else {
            self.ended = Some(now);
            window.answered(slot, now, end == End::Answered)
        };
        if let Some(ledger) = &mut self.ledger {
            ledger.answered(slot, wall.plus(until.since(now)));
        }
    }

    /// When a request that leaves may come back, judging by window and pause. Before a client's read go those that will
    /// still wait then; reads that nobody waits for take every other turn.
    pub(super) fn comes_back_at(&mut self, class: Class, now: Monotonic) -> Monotonic {
        let paused_until = self.paused_until;
        let Some(window) = &mut self.window else { return paused_until.max(now) };
        window.expire(now);
        if class != Class::Client {
            return window.frees(now).next().unwrap_or(now).max(paused_until);
        }
        let share = client_share(window.limit(), self.crawl_work > 0);
        let slots = zip(window.frees(now), window.frees_of(Class::Client, share, now));
        let mut slots = slots.map(|(any, own)| any.max(own).max(paused_until));
        let mut slot = slots.next().unwrap_or(now);
        let (mut awaited, mut stale) = (Ahead::of(self.queue.awaited()), Ahead::of(self.queue.behind()));
        let mut taken = 0;
        while awaited.takes(slot) {
            taken += 1;
            slot = slots.next().unwrap_or(slot);
        }
        for _ in 0..=taken {
            if !stale.takes(slot) {
                break;
            }
            slot = slots.next().unwrap_or(slot);
        }
        slot
    }

    /// The error for a request that leaves.
    pub(super) fn spent(&mut self, class: Class, now: Monotonic) -> Spent {
        let retry_after = self.comes_back_at(class, now).since(now).max(Duration::from_secs(1));
        Spent { retry_after, paused: now < self.paused_until }
    }

    /// Whether the most reads of clients wait, in all or of this household.
    pub(super) fn is_full_for(&self, client: Option<IpAddr>) -> bool {
        const MOST: usize = 4096;
        const MOST_OF_ONE: usize = 256;
        self.queue.clients() >= MOST || self.queue.reads_of(client) >= MOST_OF_ONE
    }

    /// A request's patience ends; returns its error.
    pub(super) fn gives_up(&mut self, waiting: &Waiting, now: Monotonic) -> Spent {
        // A paused origin is no sign of too many reads.
        if waiting.class == Class::Client && waiting.demand.is_none() && self.stopped_until(now).is_none() {
            self.refused = Some(now);
        }
        self.spent(waiting.class, now)
    }

    /// When time alone may change something.
    pub(super) fn wake_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        if let Some(until) = self.stopped_until(now) {
            return Some(until);
        }
        let slot = self.window.as_mut().and_then(|window| window.next_free(now));
        let detail = self.last_detail.map(|last| last.plus(self.pace())).filter(|due| *due > now);
        let client = self.client_due_at(now).filter(|due| *due > now);
        [slot, detail, client].into_iter().flatten().min()
    }
}

/// The waiting reads, one by one, as slots come up for them.
struct Ahead<'a> {
    deadlines: &'a Deadlines,
    last: Bound<(Monotonic, u64)>,
}

impl<'a> Ahead<'a> {
    const fn of(deadlines: &'a Deadlines) -> Self {
        Self { deadlines, last: Bound::Unbounded }
    }

    /// Whether another of them still waits when this slot comes up, no earlier than the last.
    fn takes(&mut self, slot: Monotonic) -> bool {
        let from = match self.last {
            Bound::Excluded(last) if last.0 >= slot => Bound::Excluded(last),
            _ => Bound::Included((slot, 0)),
        };
        let next = self.deadlines.range((from, Bound::Unbounded)).next();
        if let Some(next) = next {
            self.last = Bound::Excluded(*next);
        }
        next.is_some()
    }
}
