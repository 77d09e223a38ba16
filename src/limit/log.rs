//! The counted admissions of one client.
//!
//! The choice between the exact and the coalesced record, and the window's edge. `table` decides.
//! Callers: `table`, with times in nanoseconds.

use super::WINDOW;
use super::coalesced::CoalescedLog;
use super::exact::ExactLog;

/// The largest quota whose admissions are kept one by one: 32 KiB for a client that spends it.
pub(super) const MOST_EXACT: u32 = 4096;

#[derive(Debug)]
pub(super) enum Log {
    Exact(ExactLog),
    Coalesced(Box<CoalescedLog>),
}

impl Log {
    /// An empty log, which grows with use.
    pub(super) fn new(quota: u32) -> Self {
        if quota <= MOST_EXACT { Self::Exact(ExactLog::new()) } else { Self::Coalesced(Box::default()) }
    }

    /// How many admissions are counted; call [`Self::expire`] first.
    pub(super) const fn live(&self) -> u32 {
        match self {
            Self::Exact(log) => log.len(),
            Self::Coalesced(log) => log.len(),
        }
    }

    /// The instant at which the oldest admission leaves; `None` when there is none.
    pub(super) fn next_leaves(&self) -> Option<u64> {
        let oldest = match self {
            Self::Exact(log) => log.oldest(),
            Self::Coalesced(log) => log.oldest(),
        };
        oldest.map(|time| time.saturating_add(WINDOW))
    }

    /// The instant at which fewer than `quota` admissions are left; `None` when there are fewer now. After a quota was
    /// lowered, that is later than the next one leaves.
    pub(super) fn leaves_room(&self, quota: u32) -> Option<u64> {
        let index = self.live().checked_sub(quota)?;
        let time = match self {
            Self::Exact(log) => log.nth(index),
            Self::Coalesced(log) => log.nth(index),
        };
        time.map(|time| time.saturating_add(WINDOW))
    }

    /// Removes old admissions: an admission at `t` counts in `[t, t + 60 s)`.
    pub(super) fn expire(&mut self, now: u64) {
        while self.next_leaves().is_some_and(|leaves| leaves <= now) {
            match self {
                Self::Exact(log) => log.pop(),
                Self::Coalesced(log) => log.pop(),
            }
        }
    }

    /// Counts in steps from now on if the quota is too large to count exactly.
    fn fit(&mut self, quota: u32) {
        if quota > MOST_EXACT
            && let Self::Exact(exact) = self
        {
            let mut coalesced = CoalescedLog::default();
            while let Some(time) = exact.oldest() {
                coalesced.push(time);
                exact.pop();
            }
            *self = Self::Coalesced(Box::new(coalesced));
        }
    }

    /// Counts an admission that may be older than others; there must be fewer than `quota`.
    pub(super) fn insert(&mut self, time: u64, quota: u32) {
        self.fit(quota);
        match self {
            Self::Exact(log) => log.insert(time, quota as u16),
            Self::Coalesced(log) => log.push(time.max(log.newest())),
        }
    }

    /// Counts an admission; there must be fewer than `quota`, which may be another one than at the last time.
    pub(super) fn push(&mut self, now: u64, quota: u32) {
        self.fit(quota);
        match self {
            Self::Exact(log) => log.push(now, quota as u16),
            Self::Coalesced(log) => log.push(now),
        }
    }
}
