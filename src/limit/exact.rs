//! The admissions of one client, each with its own nanosecond.
//!
//! A ring of times, oldest first, four of them in place and more on the heap as they are needed. It knows no windows,
//! and no quota beyond its capacity. Callers: `log`, for quotas up to 4096.

/// Times that fit without an allocation: most clients send a few requests.
const IN_PLACE: usize = 4;

#[derive(Debug)]
pub(super) struct ExactLog {
    times: Times,
    head: u16,
    len: u16,
}

#[derive(Debug)]
enum Times {
    InPlace([u64; IN_PLACE]),
    OnHeap(Box<[u64]>),
}

impl ExactLog {
    pub(super) const fn new() -> Self {
        Self { times: Times::InPlace([0; IN_PLACE]), head: 0, len: 0 }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len as u32
    }

    pub(super) fn oldest(&self) -> Option<u64> {
        if self.len == 0 { None } else { self.slots().get(usize::from(self.head)).copied() }
    }

    /// The time that so many others are older than.
    pub(super) fn nth(&self, index: u32) -> Option<u64> {
        let slots = self.slots();
        (index < self.len()).then(|| slots[(usize::from(self.head) + index as usize) % slots.len()])
    }

    /// Removes the oldest time; there must be one.
    pub(super) fn pop(&mut self) {
        let next = usize::from(self.head) + 1;
        self.head = if next == self.slots().len() { 0 } else { next as u16 };
        self.len = self.len.saturating_sub(1);
    }

    /// Adds a time not before any other; `most` bounds the ring, and there must be fewer times than that.
    pub(super) fn push(&mut self, time: u64, most: u16) {
        if usize::from(self.len) == self.slots().len() {
            self.grow(most);
        }
        let (head, len) = (usize::from(self.head), usize::from(self.len));
        let slots = match &mut self.times {
            Times::InPlace(slots) => &mut slots[..],
            Times::OnHeap(slots) => &mut slots[..],
        };
        let end = head + len;
        let at = if end >= slots.len() { end - slots.len() } else { end };
        slots[at] = time;
        self.len += 1;
    }

    /// The same for a time that may lie before others.
    pub(super) fn insert(&mut self, time: u64, most: u16) {
        self.push(time, most);
        let (head, len) = (usize::from(self.head), usize::from(self.len));
        let slots = match &mut self.times {
            Times::InPlace(slots) => &mut slots[..],
            Times::OnHeap(slots) => &mut slots[..],
        };
        let size = slots.len();
        for nth in (1..len).rev() {
            let (before, this) = ((head + nth - 1) % size, (head + nth) % size);
            if slots[before] <= slots[this] {
                break;
            }
            slots.swap(before, this);
        }
    }

    fn slots(&self) -> &[u64] {
        match &self.times {
            Times::InPlace(slots) => slots,
            Times::OnHeap(slots) => slots,
        }
    }

    /// Doubles the ring, to `most` at most.
    fn grow(&mut self, most: u16) {
        let old = self.slots();
        let size = (old.len() * 2).min(usize::from(most)).max(old.len() + 1);
        let mut times = Vec::with_capacity(size);
        let (wrapped, first) = old.split_at(usize::from(self.head));
        times.extend_from_slice(first);
        times.extend_from_slice(wrapped);
        times.resize(size, 0);
        self.times = Times::OnHeap(times.into_boxed_slice());
        self.head = 0;
    }
}
