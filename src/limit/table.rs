//! The windows of all clients, and the decision.
//!
//! Windows lie in a slab. an index finds them, a wheel ([`super::slots`]) says when to tidy them up, and those with the fewest admissions
//! are evicted first. The table is not thread-safe, and knows no addresses.
//!
//! **Eviction.** Windows are ranked by their number of admissions. An admission does not move a window in the ranking,
//! so its rank can be too low. When eviction finds such a window, it moves it up. When admissions leave, the window
//! moves down within a tick of the wheel, about 4 ms. So the hot path touches no list, the window with the fewest
//! admissions is still found first, and each move is paid for by earlier admissions. Of windows with equally few
//! admissions, the one that was ranked there first goes first. Callers: `limit`, under its lock, with times in
//! nanoseconds.

use std::time::Duration;

use crate::clock::ceil_seconds;

use super::slots::{Index, Lists, Slot, Wheel};
use super::{ClientKey, Decision, WINDOW};

/// How many windows a decision tidies up. An admission adds one window to tidy up later, so two keep up with any load,
/// and no decision pays for a minute of silence.
const TIDY_PER_DECISION: usize = 2;
/// Room for this many windows is reserved at once; the memory is the operating system's until it is touched.
const RESERVED: usize = 1 << 20;
/// Windows with more admissions share the last rank.
const RANKS: u32 = 4096;

#[derive(Debug)]
pub(super) struct WindowTable {
    most: usize,
    windows: Vec<Window>,
    free: Vec<Slot>,
    index: Index,
    ranks: Lists,
    /// No rank below this has a window.
    lowest: usize,
    wheel: Wheel,
    /// The latest `now` that was seen.
    latest: u64,
    evicted: u64,
}

#[derive(Debug)]
struct Window {
    log: Log,
    key: ClientKey,
    hash: u32,
}

impl WindowTable {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            windows: Vec::with_capacity(most.min(RESERVED)),
            free: Vec::new(),
            index: Index::new(most),
            ranks: Lists::new(RANKS as usize + 1),
            lowest: 1,
            wheel: Wheel::new(),
            latest: 0,
            evicted: 0,
        }
    }

    pub(super) const fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(super) const fn windows(&self) -> usize {
        self.windows.len() - self.free.len()
    }

    pub(super) fn admit(&mut self, key: ClientKey, hash: u32, quota: u32, now: u64) -> Decision {
        let now = self.move_to(now);
        let Some(slot) = self.find(key, hash) else {
            self.open(key, hash, quota, now);
            return admitted(quota, 1, now.saturating_add(WINDOW), now);
        };
        let log = &mut self.windows[slot as usize].log;
        log.expire(now);
        let live = log.live();
        if live >= quota {
            return refused(log, quota, now);
        }
        log.push(now, quota);
        admitted(quota, live + 1, log.next_leaves().unwrap_or(now), now)
    }

    /// Counts an admission that was asked for at `asked` and decided elsewhere by `now`, unless the window is full.
    pub(super) fn note(&mut self, key: ClientKey, hash: u32, quota: u32, asked: u64, now: u64) -> Result<(), Decision> {
        let now = self.move_to(now);
        let asked = asked.min(now);
        let Some(slot) = self.find(key, hash) else {
            self.open(key, hash, quota, asked);
            return Ok(());
        };
        let log = &mut self.windows[slot as usize].log;
        log.expire(now);
        if log.live() >= quota {
            return Err(refused(log, quota, now));
        }
        log.insert(asked, quota);
        Ok(())
    }

    pub(super) fn peek(&mut self, key: ClientKey, hash: u32, quota: u32, now: u64) -> Decision {
        let now = self.move_to(now);
        let Some(slot) = self.find(key, hash) else {
            return admitted(quota, 0, now, now);
        };
        let log = &mut self.windows[slot as usize].log;
        log.expire(now);
        admitted(quota, log.live(), log.next_leaves().unwrap_or(now), now)
    }

    /// Makes time monotonic across threads.
    fn move_to(&mut self, now: u64) -> u64 {
        self.latest = self.latest.max(now);
        for _ in 0..TIDY_PER_DECISION {
            if self.tidy_one().is_none() {
                break;
            }
        }
        self.latest
    }

    fn find(&self, key: ClientKey, hash: u32) -> Option<Slot> {
        self.index.find(hash, |slot| self.windows[slot as usize].key == key)
    }

    /// Opens a window with one admission.
    fn open(&mut self, key: ClientKey, hash: u32, quota: u32, now: u64) {
        if self.windows() >= self.most {
            self.make_room();
        }
        let mut log = Log::new();
        log.push(now, quota);
        let window = Window { log, key, hash };
        let slot = if let Some(slot) = self.free.pop() {
            self.windows[slot as usize] = window;
            slot
        } else {
            self.windows.push(window);
            (self.windows.len() - 1) as Slot
        };
        self.index.insert(hash, slot);
        self.rank(slot, 1);
        self.wheel.wait(slot, now.saturating_add(WINDOW));
    }

    /// Tidies a window whose oldest admission left: drops it if it is empty, else schedules it again. `None`: no such
    /// window; else whether it was dropped.
    fn tidy_one(&mut self) -> Option<bool> {
        let slot = self.wheel.next_due(self.latest)?;
        let log = &mut self.windows[slot as usize].log;
        log.expire(self.latest);
        let (live, leaves) = (log.live(), log.next_leaves());
        let Some(leaves) = leaves else {
            self.close(slot);
            return Some(true);
        };
        self.wheel.wait(slot, leaves);
        if self.ranks.list_of(slot).is_some_and(|rank| rank > rank_of(live)) {
            self.rank(slot, rank_of(live));
        }
        Some(false)
    }

    /// Drops a window: an idle one if there is any, else one with the fewest admissions.
    fn make_room(&mut self) {
        while let Some(dropped) = self.tidy_one() {
            if dropped {
                return;
            }
        }
        while self.lowest <= RANKS as usize {
            let Some(slot) = self.ranks.first(self.lowest) else {
                self.lowest += 1;
                continue;
            };
            let log = &mut self.windows[slot as usize].log;
            log.expire(self.latest);
            let live = log.live();
            if rank_of(live) > self.lowest {
                self.rank(slot, rank_of(live));
                continue;
            }
            self.evicted += u64::from(live > 0);
            return self.close(slot);
        }
    }

    fn rank(&mut self, slot: Slot, rank: usize) {
        self.ranks.remove(slot);
        self.ranks.push(rank, slot);
        self.lowest = self.lowest.min(rank);
    }

    fn close(&mut self, slot: Slot) {
        let window = &mut self.windows[slot as usize];
        // Gives back the memory of a long ring now rather than when the slot is used again.
        window.log = Log::new();
        self.index.remove(window.hash, slot);
        self.ranks.remove(slot);
        self.wheel.forget(slot);
        self.free.push(slot);
    }
}

/// The rank of a window with that many admissions; windows with very many share one rank.
fn rank_of(live: u32) -> usize {
    live.clamp(1, RANKS) as usize
}

fn admitted(quota: u32, live: u32, leaves: u64, now: u64) -> Decision {
    let remaining = quota.saturating_sub(live);
    Decision::Admitted { quota, remaining, reset_seconds: seconds_until(leaves, now) }
}

/// The refusal of a window that is full; call [`Log::expire`] first.
fn refused(log: &Log, quota: u32, now: u64) -> Decision {
    let retry_after_seconds = seconds_until(log.leaves_room(quota).unwrap_or(now), now).max(1);
    Decision::Refused { quota, retry_after_seconds }
}

/// Whole seconds, rounded up.
fn seconds_until(then: u64, now: u64) -> u32 {
    ceil_seconds(Duration::from_nanos(then.saturating_sub(now))) as u32
}

/// Times that fit without an allocation: most clients send a few requests.
const IN_PLACE: usize = 4;

#[derive(Debug)]
struct Log {
    times: Times,
    head: u32,
    len: u32,
}

#[derive(Debug)]
enum Times {
    InPlace([u64; IN_PLACE]),
    OnHeap(Box<[u64]>),
}

impl Log {
    /// An empty log, which grows with use.
    pub(super) const fn new() -> Self {
        Self { times: Times::InPlace([0; IN_PLACE]), head: 0, len: 0 }
    }

    /// How many admissions are counted; call [`Self::expire`] first.
    pub(super) const fn live(&self) -> u32 {
        self.len
    }

    fn oldest(&self) -> Option<u64> {
        if self.len == 0 { None } else { self.slots().get(self.head as usize).copied() }
    }

    /// The time that so many others are older than.
    fn nth(&self, index: u32) -> Option<u64> {
        let slots = self.slots();
        (index < self.len).then(|| slots[(self.head as usize + index as usize) % slots.len()])
    }

    /// Removes the oldest time; there must be one.
    fn pop(&mut self) {
        let next = self.head as usize + 1;
        self.head = if next == self.slots().len() { 0 } else { next as u32 };
        self.len = self.len.saturating_sub(1);
    }

    /// Counts an admission that is not older than any other; there must be fewer than `quota`, which may be another one
    /// than at the last time.
    pub(super) fn push(&mut self, time: u64, quota: u32) {
        if self.len as usize == self.slots().len() {
            self.grow(quota);
        }
        let (head, len) = (self.head as usize, self.len as usize);
        let slots = self.slots_mut();
        let end = head + len;
        let at = if end >= slots.len() { end - slots.len() } else { end };
        slots[at] = time;
        self.len += 1;
    }

    /// The same for an admission that may be older than others.
    pub(super) fn insert(&mut self, time: u64, quota: u32) {
        self.push(time, quota);
        let (head, len) = (self.head as usize, self.len as usize);
        let slots = self.slots_mut();
        let size = slots.len();
        for nth in (1..len).rev() {
            let (before, this) = ((head + nth - 1) % size, (head + nth) % size);
            if slots[before] <= slots[this] {
                break;
            }
            slots.swap(before, this);
        }
    }

    /// The instant at which the oldest admission leaves; `None` when there is none.
    fn next_leaves(&self) -> Option<u64> {
        self.oldest().map(|time| time.saturating_add(WINDOW))
    }

    /// The instant at which fewer than `quota` admissions are left; `None` when there are fewer now. After a quota was
    /// lowered, that is later than the next one leaves.
    fn leaves_room(&self, quota: u32) -> Option<u64> {
        let index = self.live().checked_sub(quota)?;
        self.nth(index).map(|time| time.saturating_add(WINDOW))
    }

    /// Removes old admissions: an admission at `t` counts in `[t, t + 60 s)`.
    fn expire(&mut self, now: u64) {
        while self.next_leaves().is_some_and(|leaves| leaves <= now) {
            self.pop();
        }
    }

    fn slots(&self) -> &[u64] {
        match &self.times {
            Times::InPlace(slots) => slots,
            Times::OnHeap(slots) => slots,
        }
    }

    fn slots_mut(&mut self) -> &mut [u64] {
        match &mut self.times {
            Times::InPlace(slots) => slots,
            Times::OnHeap(slots) => slots,
        }
    }

    /// Doubles the ring, to `most` at most.
    fn grow(&mut self, most: u32) {
        let old = self.slots();
        let size = (old.len() * 2).min(most as usize).max(old.len() + 1);
        let mut times = Vec::with_capacity(size);
        let (wrapped, first) = old.split_at(self.head as usize);
        times.extend_from_slice(first);
        times.extend_from_slice(wrapped);
        times.resize(size, 0);
        self.times = Times::OnHeap(times.into_boxed_slice());
        self.head = 0;
    }
}

#[cfg(test)]
mod invariants {
    use super::*;

    impl WindowTable {
        /// The invariants of the table.
        pub(in crate::limit) fn check(&self) {
            let free: std::collections::HashSet<_> = self.free.iter().copied().collect();
            assert!(self.windows() <= self.most);
            for (number, window) in self.windows.iter().enumerate() {
                let slot = number as Slot;
                let rank = self.ranks.list_of(slot);
                assert_eq!(rank.is_none(), free.contains(&slot));
                if let Some(rank) = rank {
                    assert_eq!(self.find(window.key, window.hash), Some(slot));
                    assert!(self.lowest <= rank);
                }
            }
        }
    }
}
