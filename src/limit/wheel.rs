//! The windows whose oldest admission left.
//!
//! A timing wheel with ticks of about 4 ms, in which each window waits for the tick in which its oldest admission
//! leaves. It does not decide on admission, which a window does by its own times: a wheel that lags only tidies up
//! late. Callers: `table`.

use super::index::Slot;
use super::lists::Lists;

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
mod tests {
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
