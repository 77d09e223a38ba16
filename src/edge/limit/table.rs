//! Table of all clients' windows, and the decision.
//!
//! Windows lie in a slab. An index finds them, a wheel ([`super::slots`]) says when to tidy them up, and those with the
//! fewest admissions are evicted first. The table is not thread-safe, and knows no addresses.
//!
//! **Eviction.** Windows are ranked by their number of admissions. An admission does not move a window in the ranking,
//! so its rank can be too low. When eviction finds such a window, it moves it up. When admissions leave, the window
//! moves down within a tick of the wheel, about 4 ms. So the hot path touches no list, the window with the fewest
//! admissions is still found first, and each move is paid for by earlier admissions. Of windows with equally few
//! admissions, the one that was ranked there first goes first. Callers: [`super`], under its lock, with times in
//! nanoseconds.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use foldhash::quality::RandomState;

use crate::clock::ceil_seconds;

use super::slots::{Lists, Slot, Wheel};
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
    /// Its hash is seeded: clients choose their addresses, and could make them collide.
    index: HashMap<ClientKey, Slot, RandomState>,
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
}

impl WindowTable {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            windows: Vec::with_capacity(most.min(RESERVED)),
            free: Vec::new(),
            index: HashMap::with_capacity_and_hasher(most.min(RESERVED), RandomState::default()),
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

    pub(super) fn admit(&mut self, key: ClientKey, quota: u32, now: u64) -> Decision {
        let now = self.move_to(now);
        let Some(slot) = self.find(key) else {
            self.open(key, now);
            return admitted(quota, 1, now.saturating_add(WINDOW), now);
        };
        let log = &mut self.windows[slot as usize].log;
        log.expire(now);
        let live = log.live();
        if live >= quota {
            return refused(log, quota, now);
        }
        log.push(now);
        admitted(quota, live + 1, log.next_leaves().unwrap_or(now), now)
    }

    /// Counts an admission that was asked for at `asked` and decided elsewhere by `now`, unless the window is full.
    pub(super) fn note(&mut self, key: ClientKey, quota: u32, asked: u64, now: u64) -> Result<(), Decision> {
        let now = self.move_to(now);
        let asked = asked.min(now);
        let Some(slot) = self.find(key) else {
            self.open(key, asked);
            return Ok(());
        };
        let log = &mut self.windows[slot as usize].log;
        log.expire(now);
        if log.live() >= quota {
            return Err(refused(log, quota, now));
        }
        log.insert(asked);
        Ok(())
    }

    pub(super) fn peek(&mut self, key: ClientKey, quota: u32, now: u64) -> Decision {
        let now = self.move_to(now);
        let Some(slot) = self.find(key) else {
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

    fn find(&self, key: ClientKey) -> Option<Slot> {
        self.index.get(&key).copied()
    }

    fn open(&mut self, key: ClientKey, now: u64) {
        if self.windows() >= self.most {
            self.make_room();
        }
        let window = Window { log: Log(VecDeque::from([now])), key };
        let slot = if let Some(slot) = self.free.pop() {
            self.windows[slot as usize] = window;
            slot
        } else {
            self.windows.push(window);
            (self.windows.len() - 1) as Slot
        };
        self.index.insert(key, slot);
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
        // Ends: each window that is due is dropped, or scheduled for a later instant. The admission that scheduled it
        // has paid for that.
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
        window.log = Log::default();
        self.index.remove(&window.key);
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

/// The times of a client's admissions, the oldest first. It grows with use.
#[derive(Debug, Default)]
struct Log(VecDeque<u64>);

impl Log {
    /// How many admissions are counted; call [`Self::expire`] first.
    fn live(&self) -> u32 {
        self.0.len() as u32
    }

    /// Counts an admission that is not older than any other.
    fn push(&mut self, time: u64) {
        self.0.push_back(time);
    }

    /// The same for an admission that may be older than others.
    fn insert(&mut self, time: u64) {
        let before = self.0.iter().rposition(|other| *other <= time);
        self.0.insert(before.map_or(0, |before| before + 1), time);
    }

    /// The instant at which the oldest admission leaves; `None` when there is none.
    fn next_leaves(&self) -> Option<u64> {
        self.0.front().map(|time| time.saturating_add(WINDOW))
    }

    /// The instant at which fewer than `quota` admissions are left; `None` when there are fewer now. After a quota was
    /// lowered, that is later than the next one leaves.
    fn leaves_room(&self, quota: u32) -> Option<u64> {
        let index = self.live().checked_sub(quota)?;
        self.0.get(index as usize).map(|time| time.saturating_add(WINDOW))
    }

    /// Removes old admissions: an admission at `t` counts in `[t, t + 60 s)`.
    fn expire(&mut self, now: u64) {
        while self.next_leaves().is_some_and(|leaves| leaves <= now) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod invariants {
    use super::*;

    impl WindowTable {
        pub(in crate::edge::limit) fn check(&self) {
            let free: std::collections::HashSet<_> = self.free.iter().copied().collect();
            assert!(self.windows() <= self.most);
            for (number, window) in self.windows.iter().enumerate() {
                let slot = number as Slot;
                let rank = self.ranks.list_of(slot);
                assert_eq!(rank.is_none(), free.contains(&slot));
                if let Some(rank) = rank {
                    assert_eq!(self.find(window.key), Some(slot));
                    assert!(self.lowest <= rank);
                }
            }
        }
    }
}
