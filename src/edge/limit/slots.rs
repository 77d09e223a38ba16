//! Structures over numbered windows: lists of windows, and a timing wheel.
//!
//! They know neither keys nor admissions, and all memory is reserved once. Callers: [`super::table`].

/// A window's number in the slab.
pub(super) type Slot = u32;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Lists {
    ends: Vec<Ends>,
    links: Vec<Neighbours>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: Slot,
    last: Slot,
}

#[derive(Clone, Copy, Debug)]
struct Neighbours {
    before: Slot,
    after: Slot,
    list: u32,
}

impl Lists {
    /// That many empty lists, numbered from 0.
    pub(super) fn new(lists: usize) -> Self {
        Self { ends: vec![Ends { first: NONE, last: NONE }; lists], links: Vec::new() }
    }

    /// The list that the window is in; `None` for none.
    pub(super) fn list_of(&self, slot: Slot) -> Option<usize> {
        self.links.get(slot as usize).map(|link| link.list).filter(|&list| list != NONE).map(|list| list as usize)
    }

    /// The window that has been in the list for longest.
    pub(super) fn first(&self, list: usize) -> Option<Slot> {
        Some(self.ends[list].first).filter(|&slot| slot != NONE)
    }

    /// Adds a window that is in no list.
    pub(super) fn push(&mut self, list: usize, slot: Slot) {
        let needed = slot as usize + 1;
        if self.links.len() < needed {
            self.links.resize(needed, Neighbours { before: NONE, after: NONE, list: NONE });
        }
        let last = std::mem::replace(&mut self.ends[list].last, slot);
        match self.links.get_mut(last as usize) {
            Some(link) => link.after = slot,
            None => self.ends[list].first = slot,
        }
        self.links[slot as usize] = Neighbours { before: last, after: NONE, list: list as u32 };
    }

    /// Takes the window out of the list that it is in, if any.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(list) = self.list_of(slot) else {
            return;
        };
        let Neighbours { before, after, .. } = self.links[slot as usize];
        match self.links.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => self.ends[list].first = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => self.ends[list].last = before,
        }
        self.links[slot as usize].list = NONE;
    }
}

/// A tick is 2^22 ns, 4.2 ms.
const TICK_BITS: u32 = 22;
/// More ticks than a window of 60 s has (14,306).
const TICKS: u64 = 1 << 14;

#[derive(Debug)]
pub(super) struct Wheel {
    lists: Lists,
    /// The first tick that was not processed. Every window waits for one of the `TICKS` from here.
    cursor: u64,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self { lists: Lists::new(TICKS as usize), cursor: 0 }
    }

    /// Schedules an unscheduled window for the instant, or for an earlier one if the wheel lags by more than the
    /// difference between its size and a window.
    pub(super) fn wait(&mut self, slot: Slot, until: u64) {
        let tick = (until >> TICK_BITS).clamp(self.cursor, self.cursor + TICKS - 1);
        self.lists.push((tick % TICKS) as usize, slot);
    }

    /// Takes a window out of the schedule.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.lists.remove(slot);
    }

    /// Takes a window whose tick lies wholly before `now`; `None` if there is none.
    pub(super) fn next_due(&mut self, now: u64) -> Option<Slot> {
        let tick = now >> TICK_BITS;
        // One turn visits every list, after any pause.
        self.cursor = self.cursor.max(tick.saturating_sub(TICKS));
        while self.cursor < tick {
            if let Some(slot) = self.lists.first((self.cursor % TICKS) as usize) {
                self.lists.remove(slot);
                return Some(slot);
            }
            self.cursor += 1;
        }
        None
    }
}

#[cfg(test)]
mod lists_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_queues(steps in prop::collection::vec((0_usize..3, 0_u32..8), 0..100)) {
            let (mut lists, mut model) = (Lists::new(3), vec![Vec::new(); 3]);
            for (list, slot) in steps {
                if lists.list_of(slot).is_some() {
                    lists.remove(slot);
                    for queue in &mut model {
                        queue.retain(|&other| other != slot);
                    }
                } else {
                    lists.push(list, slot);
                    model[list].push(slot);
                }
                for (list, queue) in model.iter().enumerate() {
                    prop_assert_eq!(lists.first(list), queue.first().copied());
                    prop_assert!(queue.iter().all(|&slot| lists.list_of(slot) == Some(list)));
                }
            }
        }
    }
}

#[cfg(test)]
mod wheel_tests {
    use super::*;

    #[test]
    fn windows_come_due_in_the_order_of_their_ticks() {
        let mut wheel = Wheel::new();
        let tick = 1 << TICK_BITS;
        wheel.wait(1, 5 * tick);
        wheel.wait(2, 3 * tick + 7);
        wheel.wait(3, 3 * tick);
        assert_eq!(wheel.next_due(4 * tick - 1), None);
        assert_eq!(wheel.next_due(4 * tick), Some(2));
        wheel.forget(3);
        assert_eq!(wheel.next_due(5 * tick), None);
        assert_eq!(wheel.next_due(6 * tick), Some(1));
    }

    #[test]
    fn a_wheel_that_stood_still_for_long_finds_everything() {
        let mut wheel = Wheel::new();
        for slot in 0..100 {
            wheel.wait(slot, u64::from(slot) * 600_000_000);
        }
        let hour = 3_600_000_000_000;
        let mut due: Vec<_> = std::iter::from_fn(|| wheel.next_due(hour)).collect();
        due.sort_unstable();
        assert_eq!(due, (0..100).collect::<Vec<_>>());
        wheel.wait(7, hour + 60_000_000_000);
        assert_eq!(wheel.next_due(hour + 59_000_000_000), None);
        assert_eq!(wheel.next_due(hour + 61_000_000_000), Some(7));
    }
}
