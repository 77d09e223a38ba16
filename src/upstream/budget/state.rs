//! The state of the budget, and the next turn by it. Pure: time is an argument.
//!
//! Callers: [`super::dispatch`], which tells those who wait.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::{Monotonic, WallTime};

use super::super::ledger::Ledger;
use super::super::window::{Class, SPAN, Window};
use super::choice::{ClientTurn, Probe, View, choose, choose_probe, client_share, refresh_reserve};
use super::queue::{Queue, Waiting};
use super::refusals::Refusals;
use super::{End, Spent};

/// The shortest pause after each try on a failing origin: by then its result has been judged.
const SETTLES: Duration = Duration::from_millis(100);
/// Every so many stale reads, the one that has waited longest has its turn, so that none waits for ever behind popular
/// ones.
const OLDEST_OF: usize = 8;
/// How many reads with a waiting client there may be, and how many behind a stale answer; and of one household.
const MOST: usize = 4096;
const MOST_OF_ONE: usize = 256;
/// How many reads of what clients were refused there may be.
pub(super) const MOST_WANTED: usize = 1024;

/// Everything that decides the next turn.
#[derive(Debug)]
pub(super) struct State {
    pub(super) window: Option<Window>,
    pub(super) ledger: Option<Ledger>,
    pub(super) queue: Queue,
    pub(super) paused_until: Monotonic,
    /// Requests that are on the wire.
    pub(super) on_wire: usize,
    /// While the origin fails: the time between tries if one hangs. `None`: it works.
    pub(super) gentle: Option<Duration>,
    /// When the last request left, and when the last one ended.
    pub(super) left: Option<Monotonic>,
    pub(super) ended: Option<Monotonic>,
    /// What was sent last.
    last_probe: Option<Probe>,
    pub(super) last_detail: Option<Monotonic>,
    pub(super) crawl_work: usize,
    /// Whether there are refreshes: their next slots stay free.
    pub(super) refreshes: bool,
    /// When a client last got its turn.
    pub(super) last_client: Option<Monotonic>,
    /// How many stale reads had their turn since the last awaited one, and in all.
    pub(super) stale_in_a_row: usize,
    stale_turns: usize,
    /// Recent turns of reads that clients were refused.
    wanted_sent: VecDeque<Monotonic>,
    /// Recent requests in bytes that a client chose.
    spare_sent: VecDeque<Monotonic>,
    pub(super) refusals: Refusals,
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
            refreshes: false,
            last_client: None,
            stale_in_a_row: 0,
            stale_turns: 0,
            wanted_sent: VecDeque::new(),
            spare_sent: VecDeque::new(),
            refusals: Refusals::default(),
        }
    }

    /// How many slots stay free for the next refresh.
    pub(super) fn reserve(&self) -> usize {
        let limit = self.window.as_ref().filter(|_| self.refreshes).map(Window::limit);
        limit.map_or(0, refresh_reserve)
    }

    fn pace(&self) -> Duration {
        let limit = self.window.as_ref().map_or(usize::MAX, Window::limit);
        Duration::from_secs(60) / u32::try_from(limit.max(1)).unwrap_or(u32::MAX)
    }

    fn detail_due(&self, now: Monotonic) -> bool {
        self.last_detail.is_none_or(|last| now >= last.plus(self.pace()))
    }

    /// Whether far more is asked for than the budget has: in the last minute, more cache misses were refused than twice
    /// its limit.
    pub(super) fn is_overloaded(&mut self, now: Monotonic) -> bool {
        let limit = self.window.as_ref().map(Window::limit);
        limit.is_some_and(|limit| self.refusals.lately(now) > 2 * limit)
    }

    /// How many stale reads may have their turn between two awaited ones. Under overload those who wait are a few of
    /// many, and a stale answer that becomes fresh serves more clients.
    pub(super) fn most_stale_in_a_row(&mut self, now: Monotonic) -> usize {
        if self.is_overloaded(now) { 2 } else { 1 }
    }

    /// How many refused reads may go now: up to a quarter of the window, less a slot for each client that waits.
    pub(super) fn wanted_at_once(&mut self, now: Monotonic) -> usize {
        while self.wanted_sent.front().is_some_and(|at| at.plus(SPAN) <= now) {
            self.wanted_sent.pop_front();
        }
        let reserve = self.reserve();
        let Some(window) = &mut self.window else { return self.queue.wanted() };
        let free = window.free(now).saturating_sub(reserve + self.queue.awaited());
        let room = share_of_wanted(window.limit()).saturating_sub(self.wanted_sent.len());
        self.queue.wanted().min(room).min(free)
    }

    /// When `before` refused reads have had their turn, by their share of the window.
    pub(super) fn wanted_turn(&self, before: usize, now: Monotonic) -> Monotonic {
        let share = share_of_wanted(self.window.as_ref().map_or(usize::MAX, Window::limit));
        let room = share.saturating_sub(self.wanted_sent.len());
        match before.checked_sub(room) {
            None => now,
            Some(place) => self.wanted_sent.get(place).copied().unwrap_or(now).plus(SPAN),
        }
    }

    /// The time between other turns of clients under overload: the rest of the window, spread over a minute. Otherwise
    /// all slots would be used at once.
    pub(super) fn client_pace(&self) -> Duration {
        let limit = self.window.as_ref().map_or(usize::MAX, Window::limit);
        let wanted = (self.wanted_sent.len() + self.queue.wanted()).min(share_of_wanted(limit));
        let rest = limit.saturating_sub(wanted + self.reserve()).max(1);
        Duration::from_secs(60) / u32::try_from(rest).unwrap_or(u32::MAX)
    }

    /// When the next client gets its turn, if client reads are spread over time.
    pub(super) fn client_due_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        if !self.is_overloaded(now) {
            return None;
        }
        Some(self.last_client?.plus(self.client_pace()))
    }

    fn client_turn(&mut self, now: Monotonic) -> ClientTurn {
        if self.client_due_at(now).is_some_and(|due| now < due) {
            ClientTurn::Later
        } else if self.is_promised_by(now) || self.stale_in_a_row >= self.most_stale_in_a_row(now) {
            ClientTurn::Awaited
        } else if self.stale_turns % OLDEST_OF == OLDEST_OF - 1 {
            ClientTurn::OldestStale
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
        // Under overload every read waits for a turn.
        if self.stopped_until(now).is_some() || self.is_overloaded(now) {
            return false;
        }
        // Waiting reads get their slots before this one.
        let (before, crawls, reserve) = (self.queue.clients(), self.crawl_work > 0, self.reserve());
        self.window.as_mut().is_none_or(|window| {
            let share = client_share(window.limit(), crawls);
            window.free(now) > before + reserve && window.used_by(Class::Client, now) + before < share
        })
    }

    /// Takes a slot that nobody needs now, for a request in bytes that a client chose; `None`: there is none. Inside: the
    /// slot of the window, if there is a window.
    #[expect(clippy::option_option, reason = "a slot without a window has no number")]
    pub(super) fn take_spare(&mut self, now: Monotonic) -> Option<Option<usize>> {
        // A request that may fail by its own bytes is no test of whether the origin answers again.
        if self.gentle.is_some() || !self.has_room(now) {
            return None;
        }
        let kept_free = self.queue.len() + self.reserve();
        let slot = match &mut self.window {
            None => None,
            Some(window) => {
                let limit = window.limit();
                while self.spare_sent.front().is_some_and(|at| at.plus(SPAN) <= now) {
                    self.spare_sent.pop_front();
                }
                let is_full = self.spare_sent.len() >= (limit / 10).max(1);
                if is_full || window.free(now) <= kept_free {
                    return None;
                }
                self.spare_sent.push_back(now);
                Some(window.take(Class::Client, now)?)
            }
        };
        (self.left, self.on_wire) = (Some(now), self.on_wire + 1);
        if let (Some(ledger), Some(slot)) = (&self.ledger, slot) {
            ledger.sent(slot);
        }
        Some(slot)
    }

    /// The next ticket; `None` when none may go.
    pub(super) fn chosen(&mut self, now: Monotonic) -> Option<u64> {
        if self.stopped_until(now).is_some() {
            return None;
        }
        let (clients, detail_due) = (self.client_turn(now), self.detail_due(now));
        let wanted = self.wanted_at_once(now) > 0 && !self.is_promised_by(now);
        let probes = self.gentle.is_some();
        let limit = self.window.as_ref().map(Window::limit);
        if limit.is_none() && !probes {
            return self.queue.first();
        }
        let mut used = |class| self.window.as_mut().map_or(0, |window| window.used_by(class, now));
        let (client_used, background_used) = (used(Class::Client), used(Class::Background));
        let view = View {
            queue: &self.queue,
            free: self.window.as_mut().map_or(usize::MAX, |window| window.free(now)),
            limit: limit.unwrap_or(usize::MAX / 3),
            client_used,
            reserve: self.reserve(),
            background_used,
            detail_due,
            clients,
            crawl_has_work: self.crawl_work > 0,
            wanted,
            now,
        };
        if probes { choose_probe(&view, self.last_probe) } else { choose(&view) }
    }

    /// Gives the chosen one its turn; returns its slot of the window.
    pub(super) fn give(&mut self, ticket: u64, now: Monotonic) -> Option<usize> {
        let chosen = self.queue.remove(ticket)?;
        (self.left, self.on_wire) = (Some(now), self.on_wire + 1);
        self.last_probe = Some(Probe::of(&chosen));
        match (chosen.class, &chosen.demand) {
            (Class::Client, Some(demand)) => {
                demand.sent();
                if demand.is_refused() {
                    self.wanted_sent.push_back(now);
                } else {
                    (self.stale_in_a_row, self.stale_turns) = (self.stale_in_a_row + 1, self.stale_turns + 1);
                    self.last_client = Some(now);
                }
            }
            (Class::Client, None) => {
                (self.stale_in_a_row, self.last_client) = (0, Some(now));
                // Without a client, it is nobody's turn.
                if let Some(client) = chosen.client {
                    self.queue.had_turn(client);
                }
            }
            (Class::Details, _) => self.last_detail = Some(now),
            _ => {}
        }
        let slot = self.window.as_mut().and_then(|window| window.take(chosen.class, now))?;
        if let Some(ledger) = &self.ledger {
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
        if let Some(ledger) = &self.ledger {
            ledger.answered(slot, wall.plus(until.since(now)));
        }
    }

    /// Whether a request gets no place: as many of its kind wait as may wait, in all or for its household, or its
    /// patience ends before a pause does. Each kind has its own bounds: reads that nobody waits for must not push out
    /// those that a client waits for. The mirror's own requests are not bounded, so clients cannot lock them out.
    pub(super) fn has_no_place(&self, waiting: &Waiting) -> bool {
        let (awaited, stale) = self.queue.reads_of(waiting.client);
        let is_full = match &waiting.demand {
            _ if waiting.class != Class::Client => false,
            Some(demand) if demand.is_refused() => self.queue.wanted() >= MOST_WANTED,
            Some(_) => self.queue.stale() >= MOST || stale >= MOST_OF_ONE,
            None => self.queue.awaited() >= MOST || awaited >= MOST_OF_ONE,
        };
        is_full || waiting.until.is_some_and(|until| until < self.paused_until)
    }

    /// A request's patience ends; returns its error.
    pub(super) fn gives_up(&mut self, waiting: &Waiting, now: Monotonic) -> Spent {
        if waiting.class == Class::Client && waiting.demand.is_none() {
            self.count_refusal(now);
        }
        self.spent(waiting.class, now)
    }

    /// A cache miss is refused.
    pub(super) fn count_refusal(&mut self, now: Monotonic) {
        // A paused origin is no sign of too many reads.
        if self.stopped_until(now).is_none() {
            self.refusals.note(now);
        }
    }

    /// When time alone may change something.
    pub(super) fn wake_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        let gone = self.queue.next_gone();
        if let Some(until) = self.stopped_until(now) {
            return Some(gone.map_or(until, |gone| gone.min(until)));
        }
        let slot = self.window.as_mut().and_then(|window| window.next_free(now));
        let detail = self.last_detail.map(|last| last.plus(self.pace())).filter(|due| *due > now);
        let client = self.client_due_at(now).filter(|due| *due > now);
        [slot, detail, client, gone].into_iter().flatten().min()
    }
}

/// How many slots of a window go at once to what clients were refused.
fn share_of_wanted(limit: usize) -> usize {
    (limit / 4).max(1)
}
