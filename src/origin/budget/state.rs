//! The state of the budget, and the next turn by it. Pure: time is an argument.
//!
//! Refreshes first, whose slots of the next minute stay free. Then clients, at most three quarters of the window while a
//! crawl has work: reads that a client waits for, by household, and reads of what clients got stale take turns. Then the
//! crawl, then background checks, at most a tenth, then details evenly paced.
//!
//! *Overload* means that in the last minute more than two reads per slot were refused. Then the slots of clients are given
//! out evenly over time, not all at once; and what several households were refused goes before other reads of clients, up
//! to a quarter of the window, although no client waits for it.
//!
//! Callers: [`super::dispatch`], which tells those who wait.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::clock::{Monotonic, WallTime};

use super::super::ledger::Ledger;
use super::super::window::{Class, SPAN, Window, pace};
use super::households::Households;
use super::queue::{Queue, Waiting};
use super::spare::Spare;
use super::{End, Spent, SpentReason};

/// The shortest pause after each try on a failing origin: by then its result has been judged.
const SETTLES: Duration = Duration::from_millis(100);
/// How many reads that no client waits for may have their turn between two others: a stale answer that becomes fresh serves
/// more clients.
const BEHIND_IN_A_ROW: usize = 2;
/// The most requests of a refresh that finds nothing new.
const REFRESH: usize = 5;
/// No budget has more slots.
const UNLIMITED: usize = usize::MAX / 8;

/// One kind of request, as it gets its turns; in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Refresh,
    /// What several households were refused.
    Refused,
    /// What no client waits for.
    Behind,
    /// What a client waits for.
    Awaited,
    Crawl,
    Background,
    Details,
}

impl Lane {
    const ALL: [Self; 7] =
        [Self::Refresh, Self::Refused, Self::Behind, Self::Awaited, Self::Crawl, Self::Background, Self::Details];
}

#[derive(Debug, Default)]
pub(super) struct BudgetState {
    pub(super) window: Option<Window>,
    pub(super) ledger: Option<Ledger>,
    pub(super) queue: Queue,
    pub(super) paused_until: Monotonic,
    /// The end of the longest pause that the origin asked for.
    pub(super) asked_until: Monotonic,
    pub(super) on_wire: usize,
    /// While the origin fails: the time between tries if one hangs. `None`: it works.
    pub(super) gentle: Option<Duration>,
    /// When the last request left, and when the last one ended.
    pub(super) left: Option<Monotonic>,
    pub(super) ended: Option<Monotonic>,
    last_lane: Option<Lane>,
    last_detail: Option<Monotonic>,
    pub(super) crawl_work: usize,
    /// How often there are refreshes, whose slots stay free; `None`: never.
    pub(super) refreshes: Option<Duration>,
    /// When a client last got its turn.
    last_client: Option<Monotonic>,
    /// How many reads that no client waits for had their turn since the last one that a client waited for.
    behind_in_a_row: usize,
    /// Recent turns of what clients were refused.
    refused_sent: VecDeque<Monotonic>,
    /// When reads were refused last, as many as make an overload.
    refusals: VecDeque<Monotonic>,
    /// What clients took.
    pub(super) households: Households,
    /// Requests in bytes that a client chose.
    pub(super) spare: Spare,
}

impl BudgetState {
    pub(super) fn new(window: Option<Window>, ledger: Option<Ledger>, pause: Duration, now: Monotonic) -> Self {
        Self { window, ledger, paused_until: now.plus(pause), asked_until: now.plus(pause), ..Self::default() }
    }

    fn limit(&self) -> usize {
        self.window.as_ref().map_or(UNLIMITED, Window::limit)
    }

    fn free(&mut self, now: Monotonic) -> usize {
        self.window.as_mut().map_or(UNLIMITED, |window| window.free(now))
    }

    fn used_by(&mut self, class: Class, now: Monotonic) -> usize {
        self.window.as_mut().map_or(0, |window| window.used_by(class, now))
    }

    /// How many slots stay free for refreshes: a slot that somebody else takes is missing to all that begin within a minute.
    /// At most a quarter of a small budget; always those of the next one, which a command may begin at once.
    pub(super) fn reserve(&mut self, now: Monotonic) -> usize {
        let Some(every) = self.refreshes else { return 0 };
        let limit = self.limit();
        let begin = usize::try_from(SPAN.as_nanos().div_ceil(every.as_nanos().max(1))).unwrap_or(limit);
        let all = begin.saturating_mul(REFRESH).min(limit / 4);
        all.saturating_sub(self.used_by(Class::Refresh, now)).max(REFRESH.min(limit / 4))
    }

    /// How many slots clients may have at once.
    fn client_share(&self) -> usize {
        let limit = self.limit();
        if self.crawl_work > 0 { (limit * 3 / 4).max(1) } else { limit }
    }

    fn detail_due_at(&self) -> Option<Monotonic> {
        Some(self.last_detail?.plus(self.window.as_ref().map_or(Duration::ZERO, |window| pace(window.limit()))))
    }

    /// Whether far more is asked for than the budget has.
    pub(super) fn is_overloaded(&self, now: Monotonic) -> bool {
        self.refusals.len() > self.limit() * 2 && self.refusals.front().is_some_and(|first| first.plus(SPAN) > now)
    }

    /// A read is refused. A paused origin is no sign of too many reads.
    fn count_refusal(&mut self, now: Monotonic) {
        if self.window.is_some() && self.stopped_until(now).is_none() {
            self.refusals.push_back(now);
            let more = self.refusals.len().saturating_sub(self.limit() * 2 + 1);
            self.refusals.drain(..more);
        }
    }

    /// How many turns there were in the last minute of what clients were refused.
    fn refused_lately(&mut self, now: Monotonic) -> usize {
        while self.refused_sent.front().is_some_and(|at| at.plus(SPAN) <= now) {
            self.refused_sent.pop_front();
        }
        self.refused_sent.len()
    }

    /// The time between other turns of clients under overload: what is left of the window, spread over a minute.
    fn client_pace(&mut self, now: Monotonic) -> Duration {
        let others = self.refused_lately(now) + self.reserve(now);
        pace(self.limit().saturating_sub(others))
    }

    /// When the next client gets its turn, if client reads are spread over time.
    fn client_due_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        let last = self.last_client.filter(|_| self.is_overloaded(now))?;
        Some(last.plus(self.client_pace(now)))
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

    /// How many slots stay free when this client takes one: those of refreshes, and those of other households.
    fn kept_from(&mut self, client: Option<IpAddr>, now: Monotonic) -> usize {
        self.households.expire(now);
        self.reserve(now) + client.map_or(0, |household| self.households.kept_from(household, now))
    }

    /// When the read of this client has its turn, if so many others go before it.
    fn turn_after(&mut self, before: usize, client: Option<IpAddr>, now: Monotonic) -> Monotonic {
        let behind = BEHIND_IN_A_ROW * (before + 1) - self.behind_in_a_row.min(BEHIND_IN_A_ROW);
        let place = before + self.queue.behind().min(behind);
        let (kept, share) = (self.kept_from(client, now), self.client_share());
        let mut slot_after = |place| {
            self.window.as_mut().map_or(now, |window| {
                let own = window.free_of_share(Class::Client, share, place, now);
                window.free_after(Class::Client, place + kept, now).max(own)
            })
        };
        let (first, slot) = (slot_after(0), slot_after(place));
        let places = u32::try_from(place).unwrap_or(u32::MAX);
        // The pace begins with the first of those before it, which needs a slot itself.
        let paced =
            self.client_due_at(now).map(|due| due.max(first).plus(self.client_pace(now).saturating_mul(places)));
        [Some(slot), paced, self.stopped_until(now)].into_iter().flatten().max().unwrap_or(now)
    }

    /// Whether the read of a client would be sent at once.
    pub(super) fn has_room(&mut self, now: Monotonic) -> bool {
        // Under overload every read waits for a turn.
        !self.is_overloaded(now) && self.turn_after(self.queue.awaited(), None, now) <= now
    }

    /// Takes a slot that nobody needs now, for a request in bytes that a client of this household chose; else says how long
    /// it has to wait. Inside: the slot of the window, if there is a window.
    pub(super) fn take_spare(&mut self, household: Option<IpAddr>, now: Monotonic) -> Result<Option<usize>, Duration> {
        const SOON: Duration = Duration::from_secs(1);
        self.spare.may(household, (self.limit() / 10).max(1), now)?;
        let kept_free = self.queue.len() + self.reserve(now);
        // A request that may fail by its own bytes is no test of whether the origin answers again.
        if self.gentle.is_some() || !self.has_room(now) || self.free(now) <= kept_free {
            return Err(SOON);
        }
        // It counts for the household even if it then finds no place on the wire.
        self.spare.sent(household, now);
        Ok(self.take(Class::Client, now))
    }

    /// The next request, and its kind; `None` when none may go.
    pub(super) fn chosen(&mut self, now: Monotonic) -> Option<(Lane, u64)> {
        if self.stopped_until(now).is_some() || self.free(now) == 0 {
            return None;
        }
        let mut lanes = Lane::ALL;
        if self.gentle.is_some() {
            // Whoever tests whether a failing origin answers again: all kinds in turns, because one kind may fail although
            // everything else works.
            lanes.rotate_left(self.last_lane.map_or(0, |last| (last as usize + 1) % Lane::ALL.len()));
        } else if self.behind_in_a_row >= BEHIND_IN_A_ROW || self.queue.is_awaited_first() {
            lanes.swap(Lane::Behind as usize, Lane::Awaited as usize);
        }
        lanes.into_iter().find_map(|lane| Some((lane, self.first_of(lane, now)?)))
    }

    /// The first request of a kind, if one may go.
    fn first_of(&mut self, lane: Lane, now: Monotonic) -> Option<u64> {
        let kept_free = if lane == Lane::Refresh { 0 } else { self.reserve(now) };
        if self.free(now) <= kept_free {
            return None;
        }
        let may_client = |this: &mut Self| this.used_by(Class::Client, now) < this.client_share();
        let is_due = |this: &mut Self| this.client_due_at(now).is_none_or(|due| due <= now);
        match lane {
            Lane::Refresh => self.queue.first_of(Class::Refresh),
            Lane::Refused
                if self.is_overloaded(now)
                    && may_client(self)
                    && self.refused_lately(now) < (self.limit() / 4).max(1) =>
            {
                self.queue.most_wanted(true, now)
            }
            Lane::Behind if may_client(self) && is_due(self) => self.queue.most_wanted(false, now),
            Lane::Awaited if may_client(self) && is_due(self) => {
                let left = self.free(now) - kept_free;
                self.households.expire(now);
                let households = &self.households;
                self.queue.first_awaited(|client| client.is_none_or(|client| left > households.kept_from(client, now)))
            }
            Lane::Crawl => self.queue.first_of(Class::Crawl),
            Lane::Background => {
                // Before details, or a million of them would keep them waiting for ever.
                let part = if self.crawl_work > 0 { 20 } else { 10 };
                let may = self.used_by(Class::Background, now) < (self.limit() / part).max(1);
                may.then(|| self.queue.first_of(Class::Background)).flatten()
            }
            Lane::Details if self.gentle.is_some() || self.detail_due_at().is_none_or(|due| due <= now) => {
                self.queue.first_of(Class::Details)
            }
            _ => None,
        }
    }

    /// Gives the chosen one its turn; returns its slot of the window.
    pub(super) fn give(&mut self, (lane, ticket): (Lane, u64), now: Monotonic) -> Option<usize> {
        let chosen = self.queue.remove(ticket)?;
        self.last_lane = Some(lane);
        match lane {
            Lane::Refused => self.refused_sent.push_back(now),
            Lane::Behind => (self.behind_in_a_row, self.last_client) = (self.behind_in_a_row + 1, Some(now)),
            Lane::Awaited => {
                (self.behind_in_a_row, self.last_client) = (0, Some(now));
                // Without a client, it is nobody's turn.
                if let Some(client) = chosen.client {
                    self.queue.had_turn(client);
                    if self.window.is_some() {
                        self.households.took(client, now);
                    }
                }
            }
            Lane::Details => self.last_detail = Some(now),
            _ => {}
        }
        self.take(chosen.class, now)
    }

    /// Takes a slot for a request that is about to be sent.
    fn take(&mut self, class: Class, now: Monotonic) -> Option<usize> {
        (self.left, self.on_wire) = (Some(now), self.on_wire + 1);
        let slot = self.window.as_mut()?.take(class, now)?;
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

    /// Why a request gets no place in the queue: as many of its kind wait as may wait, its patience ends before a pause
    /// does, or it is the read of a client and has no turn in time.
    pub(super) fn refusal(&mut self, waiting: &Waiting, now: Monotonic) -> Option<Spent> {
        let is_paused = waiting.until.is_some_and(|until| until < self.paused_until);
        if is_paused || self.queue.is_full_for(waiting) {
            return Some(self.gives_up(waiting, now));
        }
        if waiting.class != Class::Client || waiting.wanted.is_some() {
            return None;
        }
        let at = self.turn_after(self.queue.before(waiting.client), waiting.client, now);
        let is_late = waiting.until.is_some_and(|until| at > until.max(now));
        is_late.then(|| self.refused(at, now))
    }

    /// An awaited read that has no turn in time any more, because another one has come that goes before it, or because there
    /// are too many requests now. Only the last ones are looked at: where more wait, a slot comes soon.
    pub(super) fn late(&mut self, now: Monotonic) -> Option<(u64, Spent)> {
        const LAST: usize = 64;
        let order = self.queue.awaited_in_turn();
        for (before, ticket) in order.into_iter().enumerate().rev().take(LAST) {
            let Some((client, until)) = self.queue.patience(ticket) else { continue };
            let at = self.turn_after(before, client, now);
            if at > until.max(now) {
                return Some((ticket, self.refused(at, now)));
            }
        }
        None
    }

    /// A request's patience ends; returns its error.
    pub(super) fn gives_up(&mut self, waiting: &Waiting, now: Monotonic) -> Spent {
        match (waiting.class, &waiting.wanted) {
            (Class::Client, None) => {
                let at = self.turn_after(self.queue.before(waiting.client), waiting.client, now);
                self.refused(at, now)
            }
            (class, _) => {
                let kept_free = if class == Class::Refresh { 0 } else { self.reserve(now) };
                let slot = self.window.as_mut().map_or(now, |window| window.free_after(class, kept_free, now));
                self.told(slot.max(self.paused_until), now)
            }
        }
    }

    /// The refusal of a client read that would have its turn then.
    fn refused(&mut self, at: Monotonic, now: Monotonic) -> Spent {
        self.count_refusal(now);
        self.told(at, now)
    }

    fn told(&self, at: Monotonic, now: Monotonic) -> Spent {
        let retry_after = at.since(now).max(Duration::from_secs(1));
        Spent { retry_after, reason: if now < self.paused_until { SpentReason::Paused } else { SpentReason::UsedUp } }
    }

    /// When time alone may change something.
    pub(super) fn wake_at(&mut self, now: Monotonic) -> Option<Monotonic> {
        if let Some(until) = self.stopped_until(now) {
            return Some(until);
        }
        let slot = self.window.as_mut().and_then(|window| window.next_free(now));
        let detail = self.detail_due_at().filter(|due| *due > now);
        let client = self.client_due_at(now).filter(|due| *due > now);
        let refused = self.refused_sent.front().map(|at| at.plus(SPAN)).filter(|until| *until > now);
        let household = self.households.next_change(now);
        [slot, detail, client, refused, household].into_iter().flatten().min()
    }
}
