//! The state of the budget, and the next turn by it. Pure: time is an argument.
//!
//! Callers: [`super::dispatch`], which tells those who wait.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::clock::{Monotonic, WallTime};

use super::super::ledger::Ledger;
use super::super::window::{Class, SPAN, Window};
use super::choice::{ChoiceView, ClientTurn, ProbeKind, choose, choose_probe, client_share, refresh_reserve};
use super::queue::{Queue, Waiting};
use super::spare::Spare;
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
#[derive(Debug, Default)]
pub(super) struct BudgetState {
    pub(super) window: Option<Window>,
    pub(super) ledger: Option<Ledger>,
    pub(super) queue: Queue,
    pub(super) paused_until: Monotonic,
    /// The end of the longest pause that the origin asked for.
    pub(super) asked_until: Monotonic,
    /// Requests that are on the wire.
    pub(super) on_wire: usize,
    /// While the origin fails: the time between tries if one hangs. `None`: it works.
    pub(super) gentle: Option<Duration>,
    /// When the last request left, and when the last one ended.
    pub(super) left: Option<Monotonic>,
    pub(super) ended: Option<Monotonic>,
    /// What was sent last.
    last_probe: Option<ProbeKind>,
    pub(super) last_detail: Option<Monotonic>,
    pub(super) crawl_work: usize,
    /// How often there are refreshes, whose slots stay free; `None`: never.
    pub(super) refreshes: Option<Duration>,
    /// When a client last got its turn.
    pub(super) last_client: Option<Monotonic>,
    /// How many stale reads had their turn since the last awaited one, and in all.
    pub(super) stale_in_a_row: usize,
    stale_turns: usize,
    /// Recent turns of reads that clients were refused.
    wanted_sent: VecDeque<Monotonic>,
    /// Requests in bytes that a client chose.
    pub(super) spare: Spare,
    pub(super) refusals: Refusals,
}

impl BudgetState {
    pub(super) fn new(window: Option<Window>, ledger: Option<Ledger>, pause: Duration, now: Monotonic) -> Self {
        Self { window, ledger, paused_until: now.plus(pause), asked_until: now.plus(pause), ..Self::default() }
    }

    /// How many slots there are.
    fn limit(&self) -> usize {
        self.window.as_ref().map_or(usize::MAX, Window::limit)
    }

    /// How many slots stay free for refreshes.
    pub(super) fn reserve(&mut self, now: Monotonic) -> usize {
        let Some((window, every)) = self.window.as_mut().zip(self.refreshes) else { return 0 };
        refresh_reserve(window.limit(), every, window.used_by(Class::Refresh, now))
    }

    fn pace(&self) -> Duration {
        Duration::from_secs(60) / u32::try_from(self.limit().max(1)).unwrap_or(u32::MAX)
    }

    fn detail_due(&self, now: Monotonic) -> bool {
        self.last_detail.is_none_or(|last| now >= last.plus(self.pace()))
    }

    /// Whether far more is asked for than the budget has: in the last minute, more cache misses were refused than twice
    /// its limit.
    pub(super) fn is_overloaded(&mut self, now: Monotonic) -> bool {
        self.refusals.lately(now) > self.limit().saturating_mul(2)
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
        let reserve = self.reserve(now);
        let Some(window) = &mut self.window else { return self.queue.wanted() };
        let free = window.free(now).saturating_sub(reserve + self.queue.awaited());
        let room = share_of_wanted(window.limit()).saturating_sub(self.wanted_sent.len());
        self.queue.wanted().min(room).min(free)
    }

    /// When `before` refused reads have had their turn, by their share of the window.
    pub(super) fn wanted_turn(&self, before: usize, now: Monotonic) -> Monotonic {
        let share = share_of_wanted(self.limit());
        let room = share.saturating_sub(self.wanted_sent.len());
        match before.checked_sub(room) {
            None => now,
            Some(place) => self.wanted_sent.get(place).copied().unwrap_or(now).plus(SPAN),
        }
    }

    /// The time between other turns of clients under overload: the rest of the window, spread over a minute. Otherwise
    /// all slots would be used at once.
    pub(super) fn client_pace(&mut self, now: Monotonic) -> Duration {
        let limit = self.limit();
        let wanted = (self.wanted_sent.len() + self.queue.wanted()).min(share_of_wanted(limit));
        let rest = limit.saturating_sub(wanted + self.reserve(now)).max(1);
        Duration::from_secs(60) / u32::try_from(rest).unwrap_or(u32::MAX)
    }

    /// When the next client gets its turn, if client reads are spread over time.
    pub(super) fn client_due_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        if !self.is_overloaded(now) {
            return None;
        }
        Some(self.last_client?.plus(self.client_pace(now)))
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
        let (before, crawls, reserve) = (self.queue.clients(), self.crawl_work > 0, self.reserve(now));
        self.window.as_mut().is_none_or(|window| {
            let share = client_share(window.limit(), crawls);
            window.free(now) > before + reserve && window.used_by(Class::Client, now) + before < share
        })
    }

    /// Takes a slot that nobody needs now, for a request in bytes that a client of this household chose; else says how long
    /// it has to wait. Inside: the slot of the window, if there is a window.
    pub(super) fn take_spare(&mut self, household: Option<IpAddr>, now: Monotonic) -> Result<Option<usize>, Duration> {
        const SOON: Duration = Duration::from_secs(1);
        self.spare.may(household, (self.limit() / 10).max(1), now)?;
        // A request that may fail by its own bytes is no test of whether the origin answers again.
        if self.gentle.is_some() || !self.has_room(now) {
            return Err(SOON);
        }
        let kept_free = self.queue.len() + self.reserve(now);
        let slot = match &mut self.window {
            None => None,
            Some(window) => {
                if window.free(now) <= kept_free {
                    return Err(SOON);
                }
                Some(window.take(Class::Client, now).ok_or(SOON)?)
            }
        };
        self.spare.sent(household, now);
        (self.left, self.on_wire) = (Some(now), self.on_wire + 1);
        if let (Some(ledger), Some(slot)) = (&self.ledger, slot) {
            ledger.sent(slot);
        }
        Ok(slot)
    }

    /// The next ticket; `None` when none may go.
    pub(super) fn chosen(&mut self, now: Monotonic) -> Option<u64> {
        if self.stopped_until(now).is_some() {
            return None;
        }
        let (clients, detail_due) = (self.client_turn(now), self.detail_due(now));
        let wanted = self.wanted_at_once(now) > 0 && !self.is_promised_by(now);
        let (probes, reserve) = (self.gentle.is_some(), self.reserve(now));
        let limit = self.window.as_ref().map(Window::limit);
        if limit.is_none() && !probes {
            return self.queue.first();
        }
        let mut used = |class| self.window.as_mut().map_or(0, |window| window.used_by(class, now));
        let (client_used, background_used) = (used(Class::Client), used(Class::Background));
        let view = ChoiceView {
            queue: &self.queue,
            free: self.window.as_mut().map_or(usize::MAX, |window| window.free(now)),
            limit: limit.unwrap_or(usize::MAX / 3),
            client_used,
            reserve,
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
        self.last_probe = Some(ProbeKind::of(&chosen));
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

/// One bucket counts five seconds, all of them a minute.
const BUCKET: u64 = 5_000_000_000;
const BUCKETS: u64 = 12;

/// The refusals of the last minute, to five seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    counts: [usize; BUCKETS as usize],
    /// The number of the newest bucket since the clock began.
    newest: u64,
}

impl Refusals {
    /// One more.
    pub(super) fn note(&mut self, now: Monotonic) {
        self.advance(now);
        self.counts[(self.newest % BUCKETS) as usize] += 1;
    }

    /// How many there were in the last minute.
    pub(super) fn lately(&mut self, now: Monotonic) -> usize {
        self.advance(now);
        self.counts.iter().sum()
    }

    /// Empties the buckets that begin again.
    fn advance(&mut self, now: Monotonic) {
        let newest = (now.as_nanos() / BUCKET).max(self.newest);
        let passed = (newest - self.newest).min(BUCKETS);
        for bucket in newest - passed..newest {
            self.counts[((bucket + 1) % BUCKETS) as usize] = 0;
        }
        self.newest = newest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_count_for_a_minute() {
        let at = Monotonic::from_seconds;
        let mut refusals = Refusals::default();
        assert_eq!(refusals.lately(at(1_000)), 0);
        (0..30).for_each(|second| refusals.note(at(1_000 + second)));
        assert_eq!(refusals.lately(at(1_030)), 30);
        assert_eq!(refusals.lately(at(1_054)), 30);
        assert_eq!(refusals.lately(at(1_070)), 15, "the first fifteen seconds are over");
        assert_eq!(refusals.lately(at(1_500)), 0);
        refusals.note(at(1_400));
        assert_eq!(refusals.lately(at(1_500)), 1, "a clock that seems to go back does no harm");
    }
}
