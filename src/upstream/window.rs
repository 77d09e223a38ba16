//! The origin's budget as a window over answers: how many requests may still be sent.
//!
//! The origin counts arrivals in its own trailing 60 s, and a request arrives at some time between being sent and being
//! answered; a slot is therefore taken when a request is sent and freed 60 s after it was *answered*. Pure: time is an
//! argument. Callers: [`super::budget`].

use std::collections::BTreeSet;
use std::time::Duration;

use crate::clock::Monotonic;
use crate::words::named;

/// How long an answered request counts: a little above the origin's 60 s, against rounding on its side.
pub(crate) const SPAN: Duration = Duration::from_millis(60_050);

/// Added for a request without an answer: it may still be on its way.
pub(crate) const UNANSWERED: Duration = Duration::from_secs(1);

named! {
    /// What a slot is used for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Class, as_str {
        /// Refreshes.
        Refresh = "refresh",
        /// Reads for clients.
        Client = "client",
        /// Pages and taxonomies of a pass.
        Crawl = "crawl",
        /// Details, evenly paced.
        Details = "details",
        /// Sweeps, revalidation of details, audits: at most a tenth of the budget.
        Background = "background",
    }
}

/// One place in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// No request uses it.
    Free,
    /// A request is on the wire.
    InFlight(Class),
    /// Counts until then.
    Until(Monotonic, Class),
}

/// The window: one slot per request that the origin admits in 60 s. No operation looks at all slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    slots: Vec<Slot>,
    /// The free slots.
    free: Vec<usize>,
    /// The answered ones, by the instant at which they become free.
    ends: BTreeSet<(Monotonic, usize)>,
    /// Slots in use, and of these the ones on the wire, by class.
    used: [usize; Class::ALL.len()],
    on_wire: [usize; Class::ALL.len()],
}

impl Window {
    /// A window of `limit` free slots.
    pub(crate) fn new(limit: usize) -> Self {
        let slots = vec![Slot::Free; limit];
        Self { slots, free: (0..limit).rev().collect(), ..Self::default() }
    }

    /// How many slots there are.
    pub(crate) fn limit(&self) -> usize {
        self.slots.len()
    }

    /// Marks the next free slot as counting until then, when a ledger is read back, and returns its number.
    pub(crate) fn restore(&mut self, until: Monotonic, class: Class) -> Option<usize> {
        let index = self.free.pop()?;
        self.slots[index] = Slot::Until(until, class);
        self.ends.insert((until, index));
        self.used[class as usize] += 1;
        Some(index)
    }

    /// Takes a free slot for a request that is about to be sent; `None` when there is none.
    pub(crate) fn take(&mut self, class: Class, now: Monotonic) -> Option<usize> {
        self.expire(now);
        let index = self.free.pop()?;
        self.slots[index] = Slot::InFlight(class);
        self.used[class as usize] += 1;
        self.on_wire[class as usize] += 1;
        Some(index)
    }

    /// A request ended at `now`; returns until when it counts.
    pub(crate) fn answered(&mut self, index: usize, now: Monotonic, answered: bool) -> Monotonic {
        let until = now.plus(if answered { SPAN } else { SPAN + UNANSWERED });
        if let Some(slot @ Slot::InFlight(_)) = self.slots.get_mut(index) {
            let Slot::InFlight(class) = *slot else { return until };
            *slot = Slot::Until(until, class);
            self.ends.insert((until, index));
            self.on_wire[class as usize] -= 1;
        }
        until
    }

    /// Gives back a slot whose request was never sent.
    pub(crate) fn unused(&mut self, index: usize) {
        if let Some(slot @ Slot::InFlight(_)) = self.slots.get_mut(index) {
            let Slot::InFlight(class) = std::mem::replace(slot, Slot::Free) else { return };
            self.free.push(index);
            self.used[class as usize] -= 1;
            self.on_wire[class as usize] -= 1;
        }
    }

    /// How many slots are free.
    pub(crate) fn free(&mut self, now: Monotonic) -> usize {
        self.expire(now);
        self.free.len()
    }

    /// How many slots a class holds.
    pub(crate) fn used_by(&mut self, class: Class, now: Monotonic) -> usize {
        self.expire(now);
        self.used[class as usize]
    }

    /// When the next slot becomes free, if that is already known.
    pub(crate) fn next_free(&mut self, now: Monotonic) -> Option<Monotonic> {
        self.expire(now);
        self.ends.first().map(|(until, _)| *until)
    }

    /// When slots become free, in order and without end, after [`expire`](Self::expire). Requests on the wire count as
    /// answered now; each slot repeats a window later. The first `reserve` of them stay free.
    pub(crate) fn frees(&self, reserve: usize, now: Monotonic) -> impl Iterator<Item = Monotonic> {
        let ends = self.ends.iter().map(|(until, _)| *until);
        in_turns(now, self.free.len(), ends, self.on_wire.iter().sum(), reserve)
    }

    /// The same for a class that may hold `share` slots at a time.
    pub(crate) fn frees_of(&self, class: Class, share: usize, now: Monotonic) -> impl Iterator<Item = Monotonic> {
        let used = self.used[class as usize];
        let slots = &self.slots;
        let ends =
            self.ends.iter().filter(move |(_, index)| matches!(slots[*index], Slot::Until(_, of) if of == class));
        let ends = ends.map(|(until, _)| *until);
        in_turns(now, share.saturating_sub(used), ends, self.on_wire[class as usize], used.saturating_sub(share))
    }

    /// Frees the slots that no longer count.
    pub(crate) fn expire(&mut self, now: Monotonic) {
        while let Some((until, index)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            self.ends.remove(&(until, index));
            if let Slot::Until(_, class) = std::mem::replace(&mut self.slots[index], Slot::Free) {
                self.used[class as usize] -= 1;
            }
            self.free.push(index);
        }
    }
}

/// `free` slots now, then one at each of `ends`, then those on the wire, without the first `skipped` of all these; and
/// again and again a window later.
fn in_turns<'a>(
    now: Monotonic,
    free: usize,
    ends: impl Iterator<Item = Monotonic> + Clone + 'a,
    on_wire: usize,
    skipped: usize,
) -> impl Iterator<Item = Monotonic> + 'a {
    let once = std::iter::repeat_n(now, free).chain(ends).chain(std::iter::repeat_n(now.plus(SPAN), on_wire));
    let once = once.skip(skipped);
    // Without a single slot there is no turn.
    let turns = if once.clone().next().is_some() { u32::MAX } else { 0 };
    (0..turns).flat_map(move |turn| once.clone().map(move |at| at.plus(SPAN.saturating_mul(turn))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slot_frees_sixty_seconds_after_the_answer_not_after_the_departure() {
        let at = Monotonic::from_seconds;
        let mut window = Window::new(1);
        let slot = window.take(Class::Crawl, at(0)).unwrap();
        assert_eq!(window.take(Class::Crawl, at(1000)), None, "still on the wire");
        window.answered(slot, at(1000), true);
        assert_eq!(window.take(Class::Crawl, at(1060)), None);
        assert_eq!(window.next_free(at(1000)), Some(at(1000).plus(SPAN)));
        assert!(window.take(Class::Crawl, at(1061)).is_some());
    }

    proptest! {
        /// Whatever the delays, no 60 s of the origin's time see more arrivals than the limit.
        #[test]
        fn the_origin_never_sees_more_than_the_limit(
            limit in 1_usize..6,
            steps in proptest::collection::vec((0_u64..30_000, 0_u64..2_000, 0_u64..2_000), 1..120),
        ) {
            let mut window = Window::new(limit);
            let (mut now, mut arrivals, mut pending) = (0_u64, Vec::new(), Vec::<(u64, usize)>::new());
            let ms = |ms: u64| Monotonic::from_nanos(ms * 1_000_000);
            for (pause, there, back) in steps {
                now += pause;
                pending.sort_unstable();
                while let Some((end, slot)) = pending.first().copied().filter(|(end, _)| *end <= now) {
                    window.answered(slot, ms(end), true);
                    pending.remove(0);
                }
                if let Some(slot) = window.take(Class::Crawl, ms(now)) {
                    arrivals.push(now + there);
                    pending.push((now + there + back, slot));
                }
            }
            arrivals.sort_unstable();
            for (index, first) in arrivals.iter().enumerate() {
                let within = arrivals[index..].iter().filter(|at| **at - first < 60_000).count();
                prop_assert!(within <= limit, "{within} arrivals in 60 s from {first}");
            }
        }
    }
}
