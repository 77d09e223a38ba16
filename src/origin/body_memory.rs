//! Room for the bodies of the origin's answers: how many bytes, in total, may be received, decoded or judged at once.
//!
//! `origin.max_body` bounds one body; this bounds their sum by 128 MiB, in three parts. A quarter is for
//! the start of bodies that are read whole, so that many small ones never wait for large ones. More than a start is
//! taken piece by piece from free room. Without free room a body waits its turn for a reserve that is large enough for
//! any body, and has it to its end: nobody waits while holding something that another one waits for. Streamed bodies
//! have neither a start nor the reserve, and those of one household at most half of the free room. Callers:
//! [`super::client`], [`crate::edge::proxy::spool`].

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tasks::fair::{FairPermit, FairSemaphore};
use crate::tasks::{Aborted, blocking};

/// The unit, in bytes: smaller pieces cost as much.
const UNIT: u64 = 4096;

/// A body that is read whole takes this many times its size: once as arriving pieces, once as a whole, or as its
/// result. A streamed one takes its size.
const TIMES: u64 = 2;

/// The start of a body, in bytes.
const START: u64 = 256 << 10;

/// The room; cheap to clone.
#[derive(Clone, Debug)]
pub struct Room {
    /// For starts; `None` for streamed bodies.
    starts: Option<Arc<Semaphore>>,
    free: FairSemaphore,
    /// The household that takes a share of the free room; `None`: no household.
    household: Option<IpAddr>,
    /// [`TIMES`], or 1 for streamed bodies.
    times: u64,
    /// Turns at the reserve.
    reserve: Arc<Semaphore>,
    /// How many large bodies may be parsed at once: half of the cores, so that clients are served meanwhile.
    parsing: Arc<Semaphore>,
    largest: u64,
}

/// The room of one body; given back when it is dropped.
#[derive(Debug, Default)]
pub struct Held {
    start: Option<OwnedSemaphorePermit>,
    taken: Option<FairPermit>,
    /// Bytes of these permits, and how many are in use.
    bytes: u64,
    used: u64,
    /// The units for a byte of those taken, as a multiple of its size.
    times: u64,
    reserve: Option<OwnedSemaphorePermit>,
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

impl Room {
    /// Room for so many bytes, for bodies of at most `max_body`.
    pub fn new(bytes: u64, max_body: u64) -> Self {
        let largest = max_body.min(bytes / 2 / TIMES).max(UNIT);
        let semaphore = |bytes: u64| Arc::new(Semaphore::new((units(bytes) as usize).min(Semaphore::MAX_PERMITS)));
        let starts = bytes / 4;
        // Starts, reserve and free room are `bytes` together, however many bodies there are.
        let free = bytes.saturating_sub(largest * TIMES + starts);
        let free = FairSemaphore::new(units(free) as usize, units(free / 2) as usize);
        let (starts, reserve) = (Some(semaphore(starts)), Arc::new(Semaphore::new(1)));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let parsing = Arc::new(Semaphore::new((cores / 2).max(1)));
        Self { starts, free, household: None, times: TIMES, reserve, parsing, largest }
    }

    /// The same room for the streamed bodies of a household; `None`: of a proxy, which speaks for many. Slow clients must
    /// not take it from bodies that are read whole, nor one household from the others.
    #[must_use]
    pub fn for_streams(&self, household: Option<IpAddr>) -> Self {
        Self { starts: None, household, times: 1, ..self.clone() }
    }

    /// Parses or searches a large body on a blocking thread, when it is its turn.
    pub async fn parse<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Aborted> {
        // Never closed.
        let turn = self.parsing.clone().acquire_owned().await.ok();
        blocking(move || {
            let _turn = turn;
            Ok(work())
        })
        .await
    }

    /// The largest body that there is ever room for, in bytes.
    pub const fn largest(&self) -> u64 {
        self.largest
    }

    /// Takes room for `more` bytes of a body, if there is any.
    pub fn try_take(&self, held: &mut Held, more: u64) -> bool {
        if held.reserve.is_some() || held.used + more <= held.bytes {
            held.used += more;
            return true;
        }
        if held.bytes == 0
            && more <= START
            && let Some(starts) = &self.starts
            && let Ok(permit) = starts.clone().try_acquire_many_owned(units(START * TIMES))
        {
            (held.start, held.bytes, held.used) = (Some(permit), START, more);
            return true;
        }
        // Some ahead, so that not each piece must ask.
        let ahead = (held.used + more).next_power_of_two().max(4 * UNIT) - held.bytes;
        let has_room = [ahead, held.used + more - held.bytes].into_iter().any(|bytes| self.try_reserve(held, bytes));
        if has_room {
            held.used += more;
        }
        has_room
    }

    /// Takes room for so many bytes before they come, if there is any.
    pub fn try_reserve(&self, held: &mut Held, bytes: u64) -> bool {
        let Some(portion) = self.free.try_take(self.household, units(bytes * self.times)) else { return false };
        match &mut held.taken {
            Some(taken) => taken.merge(portion),
            None => held.taken = Some(portion),
        }
        held.times = self.times;
        held.bytes += bytes;
        true
    }

    /// Takes room for `more` bytes of a body; without free room, waits for its turn.
    pub async fn take(&self, held: &mut Held, more: u64) {
        if !self.try_take(held, more) {
            // Never closed.
            // The owner of the reserve takes room without asking, so it waits for nobody.
            held.reserve = self.reserve.clone().acquire_owned().await.ok();
            held.used += more;
        }
    }
}

impl Held {
    /// Gives back the room of bytes that are freed.
    pub fn give_back(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
        if self.used == 0 {
            *self = Self::default();
            return;
        }
        // Only large amounts: giving back and taking again costs more.
        let start = if self.start.is_some() { START } else { 0 };
        let keep = self.used.next_power_of_two().clamp(start, self.bytes.max(start));
        if keep <= self.bytes / 2 {
            let give = units((self.bytes - start) * self.times).saturating_sub(units((keep - start) * self.times));
            if let Some(taken) = &mut self.taken {
                taken.give_back(give as usize);
            }
            self.bytes = keep;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MEBIBYTE: u64 = 1 << 20;

    fn is_full(room: &Room) -> bool {
        !room.try_take(&mut Held::default(), MEBIBYTE)
    }

    #[tokio::test]
    async fn bodies_take_what_is_free_and_then_wait_for_the_reserve_in_order() {
        let room = Room::new(32 * MEBIBYTE, 4 * MEBIBYTE).for_streams(None);
        assert_eq!(room.largest(), 4 * MEBIBYTE);
        let mut bodies: Vec<Held> = Vec::new();
        for _ in 0..16 {
            let mut held = Held::default();
            assert!(room.try_take(&mut held, MEBIBYTE));
            bodies.push(held);
        }
        assert!(is_full(&room), "a quarter is the reserve, and one is for starts");
        let mut first = Held::default();
        room.take(&mut first, MEBIBYTE).await;
        room.take(&mut first, 3 * MEBIBYTE).await;
        // The reserve's holder needs no more room.
        let waiting = tokio::spawn({
            let room = room.clone();
            async move {
                let mut second = Held::default();
                room.take(&mut second, 4 * MEBIBYTE).await;
            }
        });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        drop(first);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
        bodies.clear();
        assert!(!is_full(&room));
    }

    #[test]
    fn what_is_let_go_of_is_given_back() {
        let room = Room::new(32 * MEBIBYTE, 4 * MEBIBYTE).for_streams(None);
        let free = || room.free.free() as u64 * UNIT;
        let mut held = Held::default();
        for _ in 0..256 {
            assert!(room.try_take(&mut held, 64 << 10));
        }
        assert!(is_full(&room));
        held.give_back(15 * MEBIBYTE);
        assert!(!is_full(&room));
        held.give_back(MEBIBYTE);
        assert_eq!(free(), 16 * MEBIBYTE);
        assert!(room.try_take(&mut held, 16 * MEBIBYTE));
        drop(held);
        assert_eq!(free(), 16 * MEBIBYTE);
    }

    #[test]
    fn streams_of_one_household_take_half_of_what_is_free() {
        let room = Room::new(32 * MEBIBYTE, 4 * MEBIBYTE);
        let [one, other] = [1, 2].map(|number| room.for_streams(Some([10, 0, 0, number].into())));
        let (mut held, mut others) = (Held::default(), Held::default());
        assert!(!one.try_reserve(&mut held, 9 * MEBIBYTE));
        assert!(one.try_reserve(&mut held, 8 * MEBIBYTE) && is_full(&one));
        assert!(one.try_take(&mut held, 8 * MEBIBYTE), "reserved");
        assert!(other.try_take(&mut others, 8 * MEBIBYTE) && is_full(&room.for_streams(None)));
        held.give_back(8 * MEBIBYTE);
        assert!(!is_full(&one) && is_full(&other));
    }

    #[test]
    fn small_bodies_find_room_beside_large_ones() {
        let room = Room::new(32 * MEBIBYTE, 4 * MEBIBYTE);
        let mut large = Held::default();
        while room.try_take(&mut large, MEBIBYTE) {}
        let mut small: Vec<Held> = Vec::new();
        for _ in 0..16 {
            let mut held = Held::default();
            assert!(room.try_take(&mut held, 1000) && room.try_take(&mut held, START - 1000));
            assert!(!room.try_take(&mut held, 1), "it is no small one any more");
            small.push(held);
        }
        assert!(!room.try_take(&mut Held::default(), 1));
        small[0].give_back(START);
        assert!(room.try_take(&mut Held::default(), 1));
        assert!(!room.for_streams(None).try_take(&mut Held::default(), 1));
    }

    #[tokio::test]
    async fn many_that_grow_never_wait_for_one_another() {
        let room = Room::new(8 * MEBIBYTE, 4 * MEBIBYTE);
        assert_eq!(room.largest(), 2 * MEBIBYTE, "the reserve is at most half");
        let growing: Vec<_> = (0..50)
            .map(|_| {
                let room = room.clone();
                tokio::spawn(async move {
                    let mut held = Held::default();
                    for _ in 0..32 {
                        room.take(&mut held, 64 << 10).await;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for body in growing {
            tokio::time::timeout(Duration::from_secs(20), body).await.unwrap().unwrap();
        }
        assert_eq!(room.free.free() as u64 * UNIT, 2 * MEBIBYTE);
    }
}
