//! The origin's budget as a window over answers: how many requests may still be sent.
//!
//! The origin counts arrivals in its own trailing 60 s, and a request arrives at some time between being sent and being
//! answered; a slot is therefore taken when a request is sent and freed 60 s after it was *answered*. Pure: time is an
//! argument. Callers: [`super::budget`].

use std::time::Duration;

use crate::clock::Monotonic;

/// How long an answered request still counts. A little above the origin's 60 s, against rounding on its side.
pub const SPAN: Duration = Duration::from_millis(60_050);

/// Added for a request that ended without an answer: it may still be on its way.
pub const UNANSWERED: Duration = Duration::from_secs(1);

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Finding out what changed.
    Refresh,
    /// A read that a client waits for.
    Client,
    /// Pages and taxonomies of a pass.
    Crawl,
    /// Details, evenly paced.
    Details,
    /// Sweeps, revalidation of details, audits: at most a tenth of the budget.
    Background,
}

impl Class {
    /// The word for metrics and `/status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refresh => "refresh",
            Self::Client => "client",
            Self::Crawl => "crawl",
            Self::Details => "details",
            Self::Background => "background",
        }
    }
}

/// One place in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nobody uses it.
    Free,
    /// A request is on the wire.
    InFlight(Class),
    /// Counts until then.
    Until(Monotonic, Class),
}

/// The window: one slot per request that the origin admits in 60 s.
#[derive(Clone, Debug)]
pub struct Window {
    slots: Vec<Slot>,
}

impl Window {
    /// A window of `limit` free slots.
    pub fn new(limit: usize) -> Self {
        Self { slots: vec![Slot::Free; limit] }
    }

    /// How many slots there are.
    pub fn limit(&self) -> usize {
        self.slots.len()
    }

    /// Sets one slot, when a ledger is read back.
    pub fn restore(&mut self, index: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
    }

    /// Takes a free slot for a request that is about to be sent; `None` when there is none.
    pub fn take(&mut self, class: Class, now: Monotonic) -> Option<usize> {
        self.expire(now);
        let index = self.slots.iter().position(|slot| *slot == Slot::Free)?;
        self.slots[index] = Slot::InFlight(class);
        Some(index)
    }

    /// A request ended at `now`; returns until when it counts.
    pub fn answered(&mut self, index: usize, now: Monotonic, answered: bool) -> Monotonic {
        let until = now.plus(if answered { SPAN } else { SPAN + UNANSWERED });
        if let Some(slot @ Slot::InFlight(_)) = self.slots.get_mut(index) {
            let Slot::InFlight(class) = *slot else { return until };
            *slot = Slot::Until(until, class);
        }
        until
    }

    /// How many slots are free.
    pub fn free(&self, now: Monotonic) -> usize {
        self.slots.iter().filter(|slot| !counts(**slot, now)).count()
    }

    /// How many slots a class holds.
    pub fn used_by(&self, class: Class, now: Monotonic) -> usize {
        let held = self.slots.iter().filter(|slot| match slot {
            Slot::InFlight(used) => *used == class,
            Slot::Until(_, used) => *used == class && counts(**slot, now),
            Slot::Free => false,
        });
        held.count()
    }

    /// When the next slot frees, if that is already known.
    pub fn next_free(&self, now: Monotonic) -> Option<Monotonic> {
        let ends = self.slots.iter().filter_map(|slot| match slot {
            Slot::Until(until, _) if *until > now => Some(*until),
            _ => None,
        });
        ends.min()
    }

    /// When each slot can be taken again, in order, of all classes or of one: one that is on the wire as if it ended now.
    pub fn frees_at(&self, class: Option<Class>, now: Monotonic) -> Vec<Monotonic> {
        let of = |used: &Class| class.is_none_or(|class| class == *used);
        let frees = self.slots.iter().filter_map(|slot| match slot {
            Slot::Until(until, used) if *until > now => of(used).then_some(*until),
            Slot::InFlight(used) => of(used).then(|| now.plus(SPAN)),
            Slot::Free | Slot::Until(..) => class.is_none().then_some(now),
        });
        let mut frees: Vec<_> = frees.collect();
        frees.sort_unstable();
        frees
    }

    fn expire(&mut self, now: Monotonic) {
        for slot in &mut self.slots {
            if !counts(*slot, now) {
                *slot = Slot::Free;
            }
        }
    }
}

fn counts(slot: Slot, now: Monotonic) -> bool {
    match slot {
        Slot::Free => false,
        Slot::InFlight(_) => true,
        Slot::Until(until, _) => until > now,
    }
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
