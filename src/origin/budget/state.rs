//! Who waits for the budget, what is used of it and what stops it: plain data, time is an argument.
//!
//! Callers: [`super`], which wakes those who wait.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::clock::Monotonic;

use super::super::ledger::Ledger;
use super::super::window::{Class, SPAN, Window};
use super::Spent;
use super::choice::{ClientTurn, View, Waiting, choose, client_share};

/// How long an origin that fails is left alone after each try at least: whether it failed has then been judged.
const SETTLES: Duration = Duration::from_millis(100);

/// Everything that is behind the lock.
pub(super) struct State {
    pub(super) window: Option<Window>,
    pub(super) ledger: Option<Ledger>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) next_ticket: u64,
    /// Turns given to clients. Not tickets: a client with many old ones would have every turn until they are used up.
    pub(super) turns: u64,
    pub(super) served: HashMap<IpAddr, u64>,
    pub(super) paused_until: Monotonic,
    /// Requests that are on the wire.
    pub(super) on_wire: usize,
    /// How far apart it is tried while the origin fails and a try hangs; one at a time otherwise.
    pub(super) gentle: Option<Duration>,
    /// When the last request left, and when the last one ended.
    pub(super) left: Option<Monotonic>,
    pub(super) ended: Option<Monotonic>,
    pub(super) last_detail: Option<Monotonic>,
    pub(super) crawl_work: usize,
    /// When a client last got its turn, and whether nobody waited for it.
    pub(super) last_client: Option<Monotonic>,
    pub(super) refreshed_last: bool,
    /// When the patience of a client last ended.
    pub(super) refused: Option<Monotonic>,
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
        Some(last.plus(self.pace()))
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

    /// Until when nothing is sent whoever waits, if nothing else happens.
    pub(super) fn stopped_until(&self, now: Monotonic) -> Option<Monotonic> {
        let pause = (now < self.paused_until).then_some(self.paused_until);
        let gently = self.gentle.and_then(|spacing| match self.on_wire {
            0 => Some(self.ended?.plus(SETTLES)),
            _ => Some(self.left?.plus(spacing)),
        });
        pause.max(gently.filter(|until| now < *until))
    }

    /// Whether the read of a client would be sent at once.
    pub(super) fn has_room(&self, now: Monotonic) -> bool {
        let window = self.window.as_ref().is_none_or(|window| {
            // Those who wait have their slots before this one.
            let before = self.waiting.iter().filter(|waiting| waiting.class == Class::Client).count();
            let share = client_share(window.limit(), self.crawl_work > 0);
            let used = window.used_by(Class::Client, now);
            window.free(now) > before && used + before < share && self.client_turn(now) != ClientTurn::Later
        });
        self.stopped_until(now).is_none() && window
    }

    pub(super) fn chosen(&self, now: Monotonic) -> Option<u64> {
        if self.stopped_until(now).is_some() {
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
    pub(super) fn give(&mut self, ticket: u64, class: Class, client: Option<IpAddr>, now: Monotonic) -> Option<usize> {
        self.left = Some(now);
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

    /// When somebody who leaves may come back, as far as the window and a pause show. Before the read of a client go those
    /// that will still wait then; what nobody waits for takes every other turn.
    pub(super) fn comes_back_at(&self, class: Class, ticket: Option<u64>, now: Monotonic) -> Monotonic {
        let Some(window) = &self.window else { return self.paused_until.max(now) };
        let all = window.frees_at(None, now);
        if class != Class::Client {
            return nth(&all, 0).unwrap_or(now).max(self.paused_until);
        }
        let share = client_share(window.limit(), self.crawl_work > 0);
        let mut own = window.frees_at(Some(Class::Client), now);
        own.drain(..own.len().saturating_sub(share));
        own.splice(..0, std::iter::repeat_n(now, share.saturating_sub(own.len())));
        let slot = |number| nth(&all, number).max(nth(&own, number)).unwrap_or(now).max(self.paused_until);
        let others = || self.waiting.iter().filter(|one| one.class == class && Some(one.ticket) != ticket);
        let (mut awaited, mut stale) = (0, 0);
        for other in others().filter(|other| other.demand.is_none()) {
            awaited += usize::from(other.until.is_none_or(|until| until >= slot(awaited)));
        }
        for other in others().filter(|other| other.demand.is_some()) {
            let goes = stale <= awaited && other.until.is_none_or(|until| until >= slot(awaited + stale));
            stale += usize::from(goes);
        }
        slot(awaited + stale)
    }

    /// What somebody is told who leaves.
    pub(super) fn spent(&self, class: Class, ticket: Option<u64>, now: Monotonic) -> Spent {
        let retry_after = self.comes_back_at(class, ticket, now).since(now).max(Duration::from_secs(1));
        Spent { retry_after, paused: now < self.paused_until }
    }

    /// Whether as many reads of clients wait, in all or of this one, as may.
    pub(super) fn is_full_for(&self, client: Option<IpAddr>) -> bool {
        const MOST: usize = 4096;
        const MOST_OF_ONE: usize = 256;
        let clients = || self.waiting.iter().filter(|waiting| waiting.class == Class::Client);
        clients().count() >= MOST || clients().filter(|waiting| waiting.client == client).count() >= MOST_OF_ONE
    }

    /// When something may change without anybody saying so.
    pub(super) fn wake_at(&self, now: Monotonic) -> Option<Monotonic> {
        if let Some(until) = self.stopped_until(now) {
            return Some(until);
        }
        let slot = self.window.as_ref().and_then(|window| window.next_free(now));
        let detail = self.last_detail.map(|last| last.plus(self.pace())).filter(|due| *due > now);
        let client = self.client_due_at(now).filter(|due| *due > now);
        [slot, detail, client].into_iter().flatten().min()
    }
}

/// When the slot with this number frees, of slots that are taken again as soon as they do.
fn nth(frees: &[Monotonic], number: usize) -> Option<Monotonic> {
    let rounds = u32::try_from(number.checked_div(frees.len())?).unwrap_or(u32::MAX);
    Some(frees.get(number % frees.len())?.plus(SPAN.saturating_mul(rounds)))
}
