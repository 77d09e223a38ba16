//! What a cache miss is promised at its arrival: a slot before its patience ends; otherwise it is refused at once.
//!
//! A promise is computed from the real order of turns and from the times at which slots become free. For a request on
//! the wire that time is not known yet: it is computed as if the answer came now. A read that was promised its slot
//! goes before stale reads that come later. Only a client that was served longer ago may overtake it. If the overtaken
//! read then comes too late, it is refused at that moment, not at the end of its patience. Pure: time is an argument.
//! Callers: [`super::dispatch`].

use std::iter::zip;
use std::net::IpAddr;
use std::time::Duration;

use crate::clock::Monotonic;

use super::super::window::{Class, SPAN};
use super::Spent;
use super::choice::client_share;
use super::queue::Demand;
use super::queue::Waiting;
use super::state::BudgetState;

/// At most this many clients that were served longer ago count in an estimate. More would not lengthen it: it ends
/// after a minute at the latest, when every slot has been free once.
const MOST_IDLE: usize = 64;

/// The turn of a waiting read.
#[derive(Clone, Copy, Debug)]
struct Turn {
    ticket: u64,
    at: Monotonic,
    /// Whether its patience ends before.
    is_late: bool,
}

/// A read that gets no slot in time.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) ticket: u64,
    /// What its client is told.
    pub(super) spent: Spent,
}

impl BudgetState {
    /// Promises a slot to a read that has just entered the queue. Returns the reads that get none in time: this one, or
    /// others that it overtakes.
    pub(super) fn promise(&mut self, entered: u64, client: Option<IpAddr>, now: Monotonic) -> Vec<Late> {
        let mut late = Vec::new();
        for Turn { ticket, at, is_late } in self.turns_from(entered, now) {
            if is_late {
                late.push((ticket, at));
            } else {
                self.queue.promise(ticket, at);
            }
        }
        let tell = |(ticket, at): (u64, Monotonic)| {
            let spent = if ticket == entered { self.refusal(client, at, now) } else { self.dismissal(at, now) };
            Late { ticket, spent }
        };
        late.into_iter().map(tell).collect()
    }

    /// What a client would be told if its read entered the queue now; `None`: it would be promised a slot.
    pub(super) fn judge(&mut self, waiting: Waiting, now: Monotonic) -> Option<Spent> {
        if self.has_no_place(&waiting) {
            return Some(self.gives_up(&waiting, now));
        }
        let client = waiting.client;
        let entered = self.queue.push(waiting);
        let own = self.turns_from(entered, now).into_iter().find(|turn| turn.ticket == entered && turn.is_late);
        let refused = own.map(|turn| self.refusal(client, turn.at, now));
        self.queue.remove(entered);
        refused
    }

    /// The turns of a read that has just entered the queue, and of all reads behind it.
    fn turns_from(&mut self, entered: u64, now: Monotonic) -> Vec<Turn> {
        let order = self.queue.in_turn();
        let turns = self.awaited_turns(order.len(), now);
        // Nobody can promise more than the next turn while many others, served longer ago, may come any moment.
        let only_first = self.is_overloaded(now);
        let (mut behind, mut turn, mut is_behind) = (Vec::new(), 0, false);
        for ticket in order {
            let is_new = ticket == entered;
            is_behind |= is_new;
            let at = turns.get(turn).copied().unwrap_or(now.plus(SPAN));
            // A read that is not overtaken keeps its earlier promise.
            let is_late =
                self.queue.until(ticket).is_some_and(|until| at > until.max(now) || is_new && only_first && turn > 0);
            if is_behind {
                behind.push(Turn { ticket, at, is_late });
            }
            if !(is_behind && is_late) {
                turn += 1;
            }
        }
        behind
    }

    /// Refuses a read that has just entered the queue, whose turn would be at `at`. It is still in the queue.
    fn refusal(&mut self, client: Option<IpAddr>, at: Monotonic, now: Monotonic) -> Spent {
        let at = if self.is_overloaded(now) { self.turn_under_overload(client, now).max(at) } else { at };
        self.dismissal(at, now)
    }

    /// Refuses a read whose turn would be at `at`.
    fn dismissal(&mut self, at: Monotonic, now: Monotonic) -> Spent {
        self.count_refusal(now);
        self.told(at, now)
    }

    /// Whether the time has come at which an awaited read was promised its slot.
    pub(super) fn is_promised_by(&self, now: Monotonic) -> bool {
        self.queue.first_promise().is_some_and(|at| at <= now)
    }

    /// The next turns of reads that clients wait for, as things stand.
    pub(super) fn awaited_turns(&mut self, many: usize, now: Monotonic) -> Vec<Monotonic> {
        let from = self.stopped_until(now).unwrap_or(now).max(now);
        let (mut due, pace) = (self.client_due_at(now), self.client_pace(now));
        let (mut stale, most_stale) = (self.queue.stale(), self.most_stale_in_a_row(now));
        let mut wanted = self.wanted_at_once(now);
        let (mut in_a_row, reserve) = (self.stale_in_a_row, self.reserve(now));
        let Some(window) = &mut self.window else { return vec![from; many] };
        window.expire(now);
        let share = client_share(window.limit(), self.crawl_work > 0);
        let slots = zip(window.frees(reserve, now), window.frees_of(Class::Client, share, now));
        let mut turns = Vec::with_capacity(many);
        for slot in slots.map(|(any, own)| any.max(own).max(from)) {
            if turns.len() == many {
                break;
            }
            if wanted > 0 {
                wanted -= 1;
                continue;
            }
            let at = due.map_or(slot, |due| slot.max(due));
            due = due.map(|_| at.plus(pace));
            if stale > 0 && in_a_row < most_stale {
                (stale, in_a_row) = (stale - 1, in_a_row + 1);
            } else {
                in_a_row = 0;
                turns.push(at);
            }
        }
        turns
    }

    /// When a client that is refused under overload would have its turn: after the reads that wait, and after the
    /// clients that were served longer ago, as if all of those asked again.
    fn turn_under_overload(&mut self, client: Option<IpAddr>, now: Monotonic) -> Monotonic {
        let before = self.queue.idle_before(client, MOST_IDLE) + self.queue.awaited().saturating_sub(1);
        let turns = self.awaited_turns(before.min(MOST_IDLE) + 1, now);
        turns.last().copied().unwrap_or(now).min(now.plus(SPAN))
    }

    /// `Retry-After` for a refused resource that is fetched in the background: the turn of that fetch. Resources that
    /// more households were refused go first.
    pub(super) fn told_of(&mut self, demand: &Demand, now: Monotonic) -> Spent {
        let before = self.queue.refused_more(demand.votes());
        let stopped = self.stopped_until(now).unwrap_or(now);
        let turn = self.wanted_turn(before, now);
        let reserve = self.reserve(now);
        let slot = self.window.as_ref().and_then(|window| window.frees(reserve, now).nth(before)).unwrap_or(now);
        self.told(slot.max(turn).max(stopped), now)
    }

    /// When a request that gets no slot may come back, by the window and the pause.
    pub(super) fn comes_back_at(&mut self, class: Class, now: Monotonic) -> Monotonic {
        let paused_until = self.paused_until;
        if class == Class::Client {
            let turns = self.awaited_turns(self.queue.awaited() + 1, now);
            return turns.last().map_or(now.plus(SPAN), |at| (*at).max(paused_until));
        }
        let reserve = if class == Class::Refresh { 0 } else { self.reserve(now) };
        let Some(window) = &mut self.window else { return paused_until.max(now) };
        window.expire(now);
        window.frees(reserve, now).next().unwrap_or(now).max(paused_until)
    }

    /// What a request that gets no slot is told.
    pub(super) fn spent(&mut self, class: Class, now: Monotonic) -> Spent {
        let at = self.comes_back_at(class, now);
        self.told(at, now)
    }

    fn told(&self, at: Monotonic, now: Monotonic) -> Spent {
        let retry_after = at.since(now).max(Duration::from_secs(1));
        Spent { retry_after, paused: now < self.paused_until }
    }
}
