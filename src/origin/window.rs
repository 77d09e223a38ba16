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
        Refresh = "refresh",
        Client = "client",
        /// Pages and taxonomies of a pass.
        Crawl = "crawl",
        /// Details, evenly paced.
        Details = "details",
        /// Sweeps, revalidation of details, audits: at most a tenth of the budget.
        Background = "background",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
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
    free: Vec<usize>,
    /// The answered ones, by the instant at which they become free.
    ends: BTreeSet<(Monotonic, usize)>,
    /// Slots in use, by class.
    used: [usize; Class::ALL.len()],
}

impl Window {
    pub(crate) fn new(limit: usize) -> Self {
        let slots = vec![Slot::Free; limit];
        Self { slots, free: (0..limit).rev().collect(), ..Self::default() }
    }

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
        Some(index)
    }

    /// A request ended at `now`; returns until when it counts.
    pub(crate) fn answered(&mut self, index: usize, now: Monotonic, answered: bool) -> Monotonic {
        let until = now.plus(if answered { SPAN } else { SPAN + UNANSWERED });
        if let Some(slot @ Slot::InFlight(_)) = self.slots.get_mut(index) {
            let Slot::InFlight(class) = *slot else { return until };
            *slot = Slot::Until(until, class);
            self.ends.insert((until, index));
        }
        until
    }

    /// Gives back a slot whose request was never sent.
    pub(crate) fn unused(&mut self, index: usize) {
        if let Some(slot @ Slot::InFlight(_)) = self.slots.get_mut(index) {
            let Slot::InFlight(class) = std::mem::replace(slot, Slot::Free) else { return };
            self.free.push(index);
            self.used[class as usize] -= 1;
        }
    }

    pub(crate) fn free(&mut self, now: Monotonic) -> usize {
        self.expire(now);
        self.free.len()
    }

    pub(crate) fn used_by(&mut self, class: Class, now: Monotonic) -> usize {
        self.expire(now);
        self.used[class as usize]
    }

    /// When the next slot becomes free, if that is already known.
    pub(crate) fn next_free(&mut self, now: Monotonic) -> Option<Monotonic> {
        self.expire(now);
        self.ends.first().map(|(until, _)| *until)
    }

    /// When a request of this class has its slot, if so many others go before it: exact where the answers are known that
    /// free a slot, else by the pace of the window. What a refresh frees is kept for the next one.
    pub(crate) fn free_after(&mut self, class: Class, before: usize, now: Monotonic) -> Monotonic {
        self.expire(now);
        let of_refresh = |index: &usize| matches!(self.slots[*index], Slot::Until(_, Class::Refresh));
        let is_kept = |index: &usize| class != Class::Refresh && of_refresh(index);
        let ends = self.ends.iter().filter(|(_, index)| !is_kept(index)).map(|(until, _)| *until);
        turn(before, self.free.len(), ends, self.limit(), now)
    }

    /// The same for a class that may hold `share` slots at a time.
    pub(crate) fn free_of_share(&mut self, class: Class, share: usize, before: usize, now: Monotonic) -> Monotonic {
        self.expire(now);
        let used = self.used[class as usize];
        let own = |index: &usize| matches!(self.slots[*index], Slot::Until(_, of) if of == class);
        let ends = self.ends.iter().filter(|(_, index)| own(index)).map(|(until, _)| *until);
        turn(before + used.saturating_sub(share), share.saturating_sub(used), ends, share, now)
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

/// When the place after `before` others is free, of `free` places now and one at each of `ends`; else `before` at the
/// pace of `limit` a window, which is at least a window.
fn turn(
    before: usize,
    free: usize,
    mut ends: impl Iterator<Item = Monotonic>,
    limit: usize,
    now: Monotonic,
) -> Monotonic {
    let Some(place) = before.checked_sub(free) else { return now };
    let spread = || pace(limit).saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
    ends.nth(place).unwrap_or_else(|| now.plus(spread().max(SPAN)))
}

/// The time between two requests that are spread evenly over a window of so many.
pub(crate) fn pace(limit: usize) -> Duration {
    Duration::from_secs(60) / u32::try_from(limit.max(1)).unwrap_or(u32::MAX)
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

    #[test]
    fn what_a_refresh_frees_is_for_the_next_refresh_alone() {
        let at = Monotonic::from_seconds;
        let mut window = Window::new(2);
        for (class, second) in [(Class::Refresh, 0), (Class::Client, 30)] {
            let slot = window.take(class, at(second)).unwrap();
            window.answered(slot, at(second), true);
        }
        assert_eq!(window.free_after(Class::Client, 0, at(30)), at(30).plus(SPAN));
        assert_eq!(window.free_after(Class::Refresh, 0, at(30)), at(0).plus(SPAN));
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
