//! Memory bounds for clients: requests that wait, and answers that their client has not taken. Bounded in bytes, for each
//! connection, for each household and for all households together, and in time.
//!
//! An answer is made only while there is room for it beside other answers. What is there is counted as it is, beyond the
//! bounds, too: then requests wait until the client has read enough. A request that waits counts with its head and little
//! more, and takes no room from answers: it has none yet. At twice the bounds, of both together, streams are refused.
//! When all households together reach their bound, each may hold one [`EXPECTED`] answer: nobody is shut out by others.
//! A trusted proxy has many clients, and no bounds in bytes. Callers: [`crate::edge::serve`], [`crate::edge::answer`].

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::protocol::problem::Problem;
use crate::tasks::at_once;

/// For each write. Every wait on the public side is bounded.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many streams a connection may have open at once.
pub(crate) const STREAMS: u32 = 128;
/// What a client must take within the deadline, in bytes: 2 KiB a second.
pub(crate) const PIECE: usize = 64 << 10;
/// How much of other streams a connection may take while one stream waits, in bytes. The streams take turns, and a
/// piece of each may be in front. Twice that, for what goes out beside the pieces.
const OTHERS: u64 = 2 * STREAMS as u64 * PIECE as u64;
// 8 MiB. Together with requests that wait it may be twice as much (`is_overdrawn`).
/// For one connection, in bytes: a piece of each stream.
pub(crate) const OF_CONNECTION: usize = STREAMS as usize * PIECE;
// 32 MiB; beyond OF_ALL only EXPECTED (256 KiB) for each household.
/// For all connections of one household.
const OF_HOUSEHOLD: usize = 4 * OF_CONNECTION;
/// For all households, in times of [`EXPECTED`]: 512 MiB.
const OF_ALL: usize = 16 * OF_HOUSEHOLD / EXPECTED;
/// An answer is begun if there is room for so much: nearly every answer is shorter.
const EXPECTED: usize = 256 << 10;

// Half a MiB for each connection.
/// How many frames of HTTP/2 wait for the client of a connection, beside the last one of each answer. One costs some 500
/// bytes beside its data, which do not count.
const FRAMES: usize = 1024;

/// The most that one body counts for each answer: other clients often share it. The rest of it counts once for its
/// household, because nobody else may hold it.
pub(crate) const OF_BODY: usize = 1 << 20;

/// The client takes too little of its answers.
#[derive(Debug)]
pub(crate) struct Slow;

impl From<Slow> for Problem {
    fn from(_: Slow) -> Self {
        Self::unavailable("Other answers to this client have not been read").after(1)
    }
}

/// The bytes that are held for a connection, or for all of a household.
#[derive(Debug)]
pub(crate) struct Quota {
    /// For answers.
    held: AtomicUsize,
    /// For requests that wait.
    waiting: AtomicUsize,
    most: usize,
    freed: Notify,
    /// `None` for a connection.
    all: Option<AllRooms>,
    /// What large bodies count beyond [`OF_BODY`], by the address of the body.
    large: Mutex<HashMap<usize, Weak<Excess>>>,
}

/// What all households hold, in times of [`EXPECTED`]: of each household only whole ones count, so that clients that
/// read never touch it.
pub(crate) type AllRooms = Arc<AtomicUsize>;

impl Quota {
    pub(crate) fn of_household(all: &AllRooms) -> Self {
        Self::new(OF_HOUSEHOLD, Some(all.clone()))
    }

    fn new(most: usize, all: Option<AllRooms>) -> Self {
        let (held, waiting, large) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::default());
        Self { held, waiting, most, freed: Notify::new(), all, large }
    }

    fn fits(&self, held: usize) -> bool {
        held + EXPECTED <= self.most && !self.is_too_much(held)
    }

    /// Whether so much is too much because of what other households hold.
    fn is_too_much(&self, held: usize) -> bool {
        // Relaxed: a bound on memory, which answers that are begun at the same moment may pass by a little.
        held >= EXPECTED && self.all.as_ref().is_some_and(|all| all.load(Ordering::Relaxed) >= OF_ALL)
    }

    fn is_overdrawn(&self) -> bool {
        let both = self.held.load(Ordering::Acquire) + self.waiting.load(Ordering::Acquire);
        both >= 2 * self.most || self.is_too_much(both)
    }

    fn add(&self, bytes: usize, waits: bool) {
        let before = (if waits { &self.waiting } else { &self.held }).fetch_add(bytes, Ordering::AcqRel);
        self.tell_all(before, before.wrapping_add(bytes));
    }

    /// Counts a change for all households. Whether there was one.
    fn tell_all(&self, before: usize, after: usize) -> bool {
        let (before, after) = (before / EXPECTED, after / EXPECTED);
        let all = self.all.as_ref().filter(|_| before != after);
        all.map(|all| all.fetch_add(after.wrapping_sub(before), Ordering::Relaxed)).is_some()
    }

    /// Counts what a body has beyond [`OF_BODY`], once for all answers of a household that hold it.
    fn hold_large(self: &Arc<Self>, body: &Bytes) -> Option<Arc<Excess>> {
        let bytes = body.len().checked_sub(OF_BODY).filter(|more| *more > 0)?;
        let mut large = self.large.lock();
        large.retain(|_, held| held.strong_count() > 0);
        let address = body.as_ptr().addr();
        let counted = large.get(&address).and_then(Weak::upgrade).filter(|held| held.bytes >= bytes);
        Some(counted.unwrap_or_else(|| {
            self.add(bytes, false);
            let held = Arc::new(Excess { household: self.clone(), bytes });
            large.insert(address, Arc::downgrade(&held));
            held
        }))
    }

    fn is_free(&self) -> bool {
        self.fits(self.held.load(Ordering::Acquire))
    }

    fn give_back(&self, bytes: usize, waits: bool) {
        let before = (if waits { &self.waiting } else { &self.held }).fetch_sub(bytes, Ordering::AcqRel);
        let after = before.wrapping_sub(bytes);
        // Only this room is woken. A household that waits because of what others hold is over EXPECTED itself, and is
        // woken when its own clients read.
        let may_fit = self.tell_all(before, after) || before + EXPECTED > self.most;
        if !waits && may_fit && self.fits(after) {
            self.freed.notify_one();
        }
    }

    /// Waits until it is free. One of those that wait wakes the next one, so that not all wake for each answer.
    async fn free(&self) {
        while !self.is_free() {
            // `notify_one` leaves a permit: room that came between the look and this line is not missed.
            self.freed.notified().await;
            if self.is_free() {
                self.freed.notify_one();
            }
        }
    }
}

/// What is held for a connection and its household.
#[derive(Debug)]
pub(crate) struct Backlog {
    connection: Quota,
    /// `None` for a proxy.
    household: Option<Arc<Quota>>,
    /// How many bytes the client has taken. Only HTTP/2 counts them.
    taken: AtomicU64,
    /// For the frames that may still wait.
    frames: Arc<Semaphore>,
}

impl Backlog {
    /// Nothing, for a connection of this household; `None`: of a proxy.
    pub(crate) fn of(household: Option<Arc<Quota>>) -> Self {
        let frames = Arc::new(Semaphore::new(FRAMES));
        Self { connection: Quota::new(OF_CONNECTION, None), household, taken: AtomicU64::new(0), frames }
    }

    /// How many bytes of answers are held for the connection; 0 for a proxy.
    pub(crate) fn held(&self) -> usize {
        self.connection.held.load(Ordering::Acquire)
    }

    pub(crate) fn has_room(&self) -> bool {
        // Looked at and not taken: all answers that see room at the same moment are begun, and count from then on.
        self.household.as_ref().is_none_or(|household| self.connection.is_free() && household.is_free())
    }

    /// Whether so much waits that nothing more may.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.connection.is_overdrawn() || self.household.as_deref().is_some_and(Quota::is_overdrawn)
    }

    /// Waits until there is room for one more answer, as long as the client reads others.
    pub(crate) async fn room(&self) -> Result<(), Slow> {
        let Some(household) = self.household.as_deref().filter(|_| !self.has_room()) else { return Ok(()) };
        let free = async {
            while !self.has_room() {
                self.connection.free().await;
                household.free().await;
            }
        };
        self.while_taken(u64::MAX, free).await
    }

    /// Counts so many bytes of an answer until the value is dropped; `None` for a proxy.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        self.count(bytes, false, None)
    }

    /// Counts so many bytes of a request that waits.
    pub(crate) fn wait(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        self.count(bytes, true, None)
    }

    fn count(self: &Arc<Self>, bytes: usize, waits: bool, large: Option<Arc<Excess>>) -> Option<Held> {
        let household = self.household.as_ref()?;
        for room in [&self.connection, household] {
            room.add(bytes, waits);
        }
        Some(Held { backlog: self.clone(), bytes, waits, _large: large })
    }

    /// Counts the body of an answer until the value is dropped; `None` for a proxy.
    pub(crate) fn hold_body(self: &Arc<Self>, body: &Bytes) -> Option<Held> {
        let large = self.household.as_ref()?.hold_large(body);
        self.count(body.len().min(OF_BODY), false, large)
    }

    /// These bytes of an answer, which count until they are dropped.
    pub(crate) fn carry(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        match self.hold_body(&bytes) {
            Some(held) if held.bytes > 0 => Bytes::from_owner(Carried { bytes, _counted: held }),
            _ => bytes,
        }
    }

    /// These bytes as a frame, which counts until it is dropped. Waits while too many frames wait.
    pub(crate) async fn frame(&self, bytes: Bytes) -> Bytes {
        // Never closed.
        let counted = self.frames.clone().acquire_owned().await.ok();
        Bytes::from_owner(Carried { bytes, _counted: counted })
    }

    /// The client has taken so many more bytes of its answers.
    pub(crate) fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many bytes of its answers the client has taken, on a connection with streams.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// What the client must take within the deadline, in bytes: all that waits within 16 minutes.
    pub(crate) fn due(&self) -> u64 {
        PIECE.max(self.held().min(OF_CONNECTION) / 32) as u64
    }

    /// A write of a stream. It goes on after the deadline while the client takes enough of the others, but not for ever.
    pub(crate) async fn in_time<T>(&self, write: impl Future<Output = T>) -> Result<T, Slow> {
        self.while_taken(OTHERS, write).await
    }

    /// Waits while the client takes enough of its connection, until it has taken `most` bytes.
    async fn while_taken<T>(&self, most: u64, work: impl Future<Output = T>) -> Result<T, Slow> {
        let (mut work, began) = (pin!(work), self.taken());
        // No timer is made for what is done at once.
        if let Some(done) = at_once(&mut work).await {
            return Ok(done);
        }
        let mut last = began;
        loop {
            let due = self.due();
            if let Ok(done) = tokio::time::timeout(WRITE_TIMEOUT, work.as_mut()).await {
                return Ok(done);
            }
            let now = self.taken();
            if now - last < due || now - began > most {
                tracing::debug!("a client does not read its answer");
                return Err(Slow);
            }
            last = now;
        }
    }
}

/// Bytes that count.
#[derive(Debug)]
pub(crate) struct Held {
    backlog: Arc<Backlog>,
    bytes: usize,
    waits: bool,
    /// The rest of a large body.
    _large: Option<Arc<Excess>>,
}

/// The bytes of a large body that count once for its household.
#[derive(Debug)]
struct Excess {
    household: Arc<Quota>,
    bytes: usize,
}

impl Drop for Excess {
    fn drop(&mut self) {
        self.household.give_back(self.bytes, false);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for room in [Some(&self.backlog.connection), self.backlog.household.as_deref()].into_iter().flatten() {
            room.give_back(self.bytes, self.waits);
        }
    }
}

struct Carried<T> {
    bytes: Bytes,
    _counted: T,
}

impl<T> AsRef<[u8]> for Carried<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_waits_goes_on_one_after_the_other_when_there_is_room() {
        let household = Arc::new(Quota::of_household(&AllRooms::default()));
        let [one, other] = [(); 2].map(|()| Arc::new(Backlog::of(Some(household.clone()))));
        let large = one.hold(OF_HOUSEHOLD);
        assert!(!other.has_room() && !other.is_overdrawn(), "because of the household");
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(other.room())).collect();
        assert!(waiting.iter_mut().all(|room| room.now_or_never().is_none()));
        drop(large);
        assert!(waiting.iter_mut().all(|room| room.now_or_never().is_some_and(|room| room.is_ok())));
        assert_eq!((one.held(), other.held()), (0, 0));
    }

    #[test]
    fn requests_that_wait_take_no_room_from_answers_and_are_bounded_with_them() {
        let household = Arc::new(Quota::of_household(&AllRooms::default()));
        let open: Vec<_> = (0..8).map(|_| Arc::new(Backlog::of(Some(household.clone())))).collect();
        let mut waiting: Vec<_> = open.iter().map(|backlog| backlog.wait(OF_CONNECTION)).collect();
        assert!(open.iter().all(|backlog| backlog.has_room() && backlog.is_overdrawn() && backlog.held() == 0));
        waiting.pop();
        assert!(!open[0].is_overdrawn());
        let large = open[0].hold(OF_CONNECTION);
        assert!(open[1].is_overdrawn() && open[1].has_room() && !open[0].has_room());
        drop((waiting, large));
        assert!(open.iter().all(|backlog| backlog.has_room() && !backlog.is_overdrawn()));
    }

    #[test]
    fn a_large_body_counts_in_full_and_once_for_each_household() {
        const LARGE: usize = OF_HOUSEHOLD / 2;
        let new = || Arc::new(Quota::of_household(&AllRooms::default()));
        let (household, neighbour) = (new(), new());
        let held = |of: &Arc<Quota>| of.held.load(Ordering::Acquire);
        let open = |of: &Arc<Quota>| Arc::new(Backlog::of(Some(of.clone())));
        let (one, other, third) = (open(&household), open(&household), open(&neighbour));
        let shared = Bytes::from(vec![0; LARGE]);
        let first = one.hold_body(&shared);
        let second = other.carry(shared.clone());
        let far = third.hold_body(&shared);
        assert_eq!((held(&household), held(&neighbour)), (LARGE + OF_BODY, LARGE));
        assert_eq!((one.held(), other.held()), (OF_BODY, OF_BODY), "a connection can read others meanwhile");
        drop(first);
        assert_eq!(held(&household), LARGE, "until the last one has read it");
        let own = one.hold_body(&Bytes::from(vec![0; LARGE]));
        assert!(!other.has_room() && third.has_room());
        drop((second, own, far));
        assert_eq!((held(&household), held(&neighbour)), (0, 0));
        let _small = one.hold_body(&Bytes::from_static(b"small"));
        assert_eq!(held(&household), 5);
        assert!(Arc::new(Backlog::of(None)).hold_body(&shared).is_none());
    }

    #[test]
    fn what_is_there_counts_beyond_the_bounds_and_until_its_last_part_is_gone() {
        let backlog = Arc::new(Backlog::of(Some(Arc::new(Quota::of_household(&AllRooms::default())))));
        let mut body = backlog.carry(Bytes::from(vec![0; 2 * OF_HOUSEHOLD]));
        assert!(!backlog.has_room() && backlog.is_overdrawn());
        let part = body.split_to(1);
        drop(body);
        assert_eq!(backlog.held(), OF_BODY);
        drop(part);
        assert!(backlog.has_room() && backlog.held() == 0);
        let full = backlog.hold(2 * OF_CONNECTION);
        assert!(!backlog.has_room() && backlog.is_overdrawn());
        assert_eq!(backlog.due(), (OF_CONNECTION / 32) as u64, "no more than for a full connection");
        drop(full);
        let proxy = Arc::new(Backlog::of(None));
        let _all = proxy.hold(usize::MAX);
        assert!(proxy.has_room() && !proxy.is_overdrawn(), "a proxy has many clients");
    }
}
