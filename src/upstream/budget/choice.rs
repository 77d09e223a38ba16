//! Who goes next: the pure decision.
//!
//! Refresh first, whose slots of the next minute stay free. Then clients (cache misses and stale resources take turns, and so do
//! households; at most three quarters of the window while a crawl has work), then the crawl, then background checks a
//! little (a twentieth), then details evenly paced, then the rest of the background's tenth. What several households were refused goes before
//! other reads of clients, up to a quarter of the window. Callers: [`super::state`], [`super::promise`].

use std::time::Duration;

use super::super::window::{Class, SPAN};
use super::queue::{Queue, Waiting};
use crate::clock::Monotonic;

/// The most requests of a refresh that finds nothing new.
const REFRESH: usize = 5;

/// Which read of a client would go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientTurn {
    /// No read now: they are spread over time.
    Later,
    /// One that a client waits for, if there is one.
    Awaited,
    /// One behind a stale answer, if there is one: the most wanted.
    Stale,
    /// The same, but that which has waited longest.
    OldestStale,
}

/// The inputs of [`choose`].
#[derive(Debug)]
pub(super) struct ChoiceView<'a> {
    /// All who wait.
    pub queue: &'a Queue,
    /// Free slots.
    pub free: usize,
    /// All slots.
    pub limit: usize,
    /// Slots held by clients.
    pub client_used: usize,
    /// Slots that stay free for the next refresh.
    pub reserve: usize,
    /// Slots held by background checks.
    pub background_used: usize,
    /// Whether the pace allows one more detail now.
    pub detail_due: bool,
    /// Whether any crawl work is open, waiting or not.
    pub crawl_has_work: bool,
    /// Which read of a client would go next.
    pub clients: ClientTurn,
    /// Whether a refused read may be sent now.
    pub wanted: bool,
    pub now: Monotonic,
}

/// The next ticket; `None` when none may go.
pub(super) fn choose(view: &ChoiceView<'_>) -> Option<u64> {
    if view.free == 0 {
        return None;
    }
    let first = |class: Class| view.queue.first_of(class);
    if let Some(ticket) = first(Class::Refresh) {
        return Some(ticket);
    }
    if view.free <= view.reserve {
        return None;
    }
    let client_share = client_share(view.limit, view.crawl_has_work);
    if view.client_used < client_share {
        let refused = || view.queue.most_refused();
        if let Some(ticket) = view.wanted.then(refused).flatten() {
            return Some(ticket);
        }
        let awaited = || view.queue.first_awaited();
        let stale = || view.queue.most_wanted(view.now);
        // In turns: a stale answer must become fresh again, and a cache miss has a client waiting.
        let next = match view.clients {
            ClientTurn::Later => None,
            ClientTurn::Awaited => awaited().or_else(stale).or_else(refused),
            ClientTurn::Stale => stale().or_else(awaited).or_else(refused),
            ClientTurn::OldestStale => view.queue.oldest_stale().or_else(awaited).or_else(refused),
        };
        if next.is_some() {
            return next;
        }
    }
    if let Some(ticket) = first(Class::Crawl) {
        return Some(ticket);
    }
    // Background checks always get a little, or a million details would keep them waiting for ever; and no more while
    // something else needs the rest.
    let little = (view.limit / 20).max(1);
    let share = if view.crawl_has_work { little } else { (view.limit / 10).max(1) };
    if view.background_used < little
        && let Some(ticket) = first(Class::Background)
    {
        return Some(ticket);
    }
    if view.detail_due
        && let Some(ticket) = first(Class::Details)
    {
        return Some(ticket);
    }
    let background = view.background_used < share;
    background.then(|| first(Class::Background)).flatten()
}

/// A request's kind, as a test of whether a failing origin answers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeKind {
    Refresh,
    Crawl,
    /// A read behind a stale answer: the origin has answered it before.
    Stale,
    Awaited,
    Details,
    Background,
}

impl ProbeKind {
    const ALL: [Self; 6] = [Self::Refresh, Self::Crawl, Self::Stale, Self::Awaited, Self::Details, Self::Background];

    /// The kind of waiting request.
    pub(super) fn of(waiting: &Waiting) -> Self {
        match (waiting.class, &waiting.demand) {
            (Class::Refresh, _) => Self::Refresh,
            (Class::Crawl, _) => Self::Crawl,
            (Class::Client, Some(demand)) if !demand.is_refused() => Self::Stale,
            (Class::Client, _) => Self::Awaited,
            (Class::Details, _) => Self::Details,
            (Class::Background, _) => Self::Background,
        }
    }
}

/// Who tests whether a failing origin answers again: all kinds in turns, because one kind may fail although everything
/// else works.
pub(super) fn choose_probe(view: &ChoiceView<'_>, last: Option<ProbeKind>) -> Option<u64> {
    if view.free == 0 {
        return None;
    }
    let spare = view.free > view.reserve;
    let clients = spare && view.client_used < client_share(view.limit, view.crawl_has_work);
    let first = |class: Class| spare.then(|| view.queue.first_of(class)).flatten();
    let after = last.map_or(0, |last| last as usize + 1);
    let mut turns = ProbeKind::ALL.iter().cycle().skip(after).take(ProbeKind::ALL.len());
    turns.find_map(|probe| match probe {
        ProbeKind::Refresh => view.queue.first_of(Class::Refresh),
        ProbeKind::Crawl => first(Class::Crawl),
        ProbeKind::Stale => clients.then(|| view.queue.most_wanted(view.now))?,
        ProbeKind::Awaited => clients.then(|| view.queue.first_awaited().or_else(|| view.queue.most_refused()))?,
        ProbeKind::Details => first(Class::Details),
        ProbeKind::Background => first(Class::Background),
    })
}

/// How many slots stay free for refreshes that come every `every`, if they hold `used` now: a slot that somebody else takes
/// is missing to all that begin within a minute. At most a quarter of a small budget; always those of the next one, which a
/// command may begin at once.
pub(super) fn refresh_reserve(limit: usize, every: Duration, used: usize) -> usize {
    let begin = SPAN.as_nanos().div_ceil(every.as_nanos().max(1));
    let all = usize::try_from(begin).unwrap_or(limit).saturating_mul(REFRESH).min(limit / 4);
    all.saturating_sub(used).max(REFRESH.min(limit / 4))
}

/// How many slots clients may have at once.
pub(super) const fn client_share(limit: usize, crawl_has_work: bool) -> usize {
    let most = limit * 3 / 4;
    if !crawl_has_work {
        limit
    } else if most == 0 {
        1
    } else {
        most
    }
}
