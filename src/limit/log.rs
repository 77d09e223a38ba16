//! The counted admissions of one client, each with its own nanosecond, and the window's edge.
//!
//! A ring of times, oldest first, four of them in place and more on the heap as they are needed. Callers: `table`, with
//! times in nanoseconds.

use super::WINDOW;

/// Times that fit without an allocation: most clients send a few requests.
const IN_PLACE: usize = 4;

#[derive(Debug)]
pub(super) struct Log {
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
    pub(super) fn next_leaves(&self) -> Option<u64> {
        self.oldest().map(|time| time.saturating_add(WINDOW))
    }

    /// The instant at which fewer than `quota` admissions are left; `None` when there are fewer now. After a quota was
    /// lowered, that is later than the next one leaves.
    pub(super) fn leaves_room(&self, quota: u32) -> Option<u64> {
        let index = self.live().checked_sub(quota)?;
        self.nth(index).map(|time| time.saturating_add(WINDOW))
    }

    /// Removes old admissions: an admission at `t` counts in `[t, t + 60 s)`.
    pub(super) fn expire(&mut self, now: u64) {
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
