//! The admissions of one client with a large quota, counted per millisecond.
//!
//! Runs of admissions that share a millisecond, oldest first, at most 60,001 of them (16 bytes each, so 1 MiB) however
//! large the quota is. Not exact.
//!
//! DEVIATION: an admission is taken to have happened at the end of its millisecond, so it leaves the window up to 1 ms
//! late. So a client may be refused 1 ms too long; `Retry-After` may be late by as much. A quota of 100,000 per minute
//! would otherwise need 800 kB, and one of a hundred million 800 MB. Callers: `log`, for quotas above 4096.

use std::collections::VecDeque;

/// A millisecond, in nanoseconds.
const GRAIN: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct CoalescedLog {
    runs: VecDeque<Run>,
    total: u32,
}

#[derive(Debug)]
struct Run {
    time: u64,
    count: u32,
}

impl CoalescedLog {
    pub(super) const fn len(&self) -> u32 {
        self.total
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        self.runs.front().map(|run| run.time)
    }

    /// The time that so many others are older than, or as old as.
    pub(super) fn nth(&self, index: u32) -> Option<u64> {
        let mut before = 0;
        let run = self.runs.iter().find(|run| {
            before += run.count;
            index < before
        });
        run.map(|run| run.time)
    }

    /// The newest time; 0 if there is none.
    pub(super) fn newest(&self) -> u64 {
        self.runs.back().map_or(0, |run| run.time)
    }

    /// Forgets the admissions of the oldest millisecond.
    pub(super) fn pop(&mut self) {
        if let Some(run) = self.runs.pop_front() {
            self.total -= run.count;
        }
    }

    /// Adds a time not before any other; fewer than `u32::MAX` are held.
    pub(super) fn push(&mut self, time: u64) {
        let time = time.checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX);
        self.total += 1;
        match self.runs.back_mut() {
            Some(run) if run.time == time => run.count += 1,
            _ => self.runs.push_back(Run { time, count: 1 }),
        }
    }
}

#[cfg(test)]
impl CoalescedLog {
    /// How many runs are held.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }
}
