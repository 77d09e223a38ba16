//! When to kill a process: at instants spread over its run time, which is learned from earlier kills.

use std::time::Duration;

/// Parts of the time that are tried one after the other; neighbours are far apart.
const PARTS: u32 = 11;

/// The instants.
pub struct Aim {
    whole: Duration,
    round: u32,
}

impl Aim {
    /// For something that takes about so long.
    pub const fn new(whole: Duration) -> Self {
        Self { whole, round: 0 }
    }

    /// How long to wait this time.
    pub fn next(&mut self) -> Duration {
        self.round += 1;
        self.whole.mul_f64(f64::from(self.round * 7 % PARTS) / f64::from(PARTS))
    }

    /// It was done before it was killed, or was not: so it takes less than was thought, or maybe more.
    pub fn learn(&mut self, was_done: bool) {
        self.whole = self.whole.mul_f64(if was_done { 0.6 } else { 1.25 });
    }
}
