//! Shared body with several readers while it still arrives.
//!
//! A body to be cached is held whole, at the origin's pace. Without room, and when it is too large, it is only passed on:
//! pieces that all readers have had are dropped, and the writer waits for readers that lag. Of several readers, those
//! that others have waited for too long are left behind. Callers: [`super::streamed`] writes, [`crate::edge::serve`] reads.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::origin::body_memory::{Held, Room};

use super::LARGE;

/// How far the slowest reader of a body that is only passed on may lag, in bytes, while there is room.
const WINDOW: u64 = 256 * 1024;

/// The least that a held piece counts, in bytes: its place and its allocation cost as much.
const SLOT: u64 = 256;
/// A shorter piece is copied, in bytes: it may keep a far larger buffer of the wire in memory, which nobody counts.
const COPIED: usize = 16 << 10;

/// How long, in all, the other readers of a body that is only passed on wait for one.
const GRACE: Duration = Duration::from_secs(1);

/// The reader did not get all of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CutShort {
    #[error("the origin's answer ended early")]
    Early,
    #[error("the client reads more slowly than others that get the same answer")]
    LeftBehind,
}

/// No client reads any more, and the body is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

#[derive(Debug, Default)]
struct SpoolState {
    /// The held pieces, beginning with piece number `gone`; each with whether room was taken for it.
    pieces: VecDeque<(Bytes, bool)>,
    gone: u64,
    /// All of a body that has ended, in the place of its pieces.
    whole: Option<Bytes>,
    /// What the held pieces count.
    held: u64,
    room: Held,
    end: Option<Result<(), CutShort>>,
    /// Whether it is held whole, so that further readers get all of it.
    keeps: bool,
    readers: HashMap<u64, Position>,
    next_reader: u64,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    /// The number of the next piece.
    next: u64,
    /// How many bytes it has had.
    had: usize,
    /// How long the other readers may still wait for this one.
    grace: Duration,
}

/// What a piece counts, in bytes.
fn weight(piece: &Bytes) -> u64 {
    SLOT.max(piece.len() as u64)
}

impl SpoolState {
    fn push(&mut self, mut piece: Bytes, has_room: bool) {
        self.held += weight(&piece);
        if piece.len() < COPIED {
            piece = Bytes::copy_from_slice(&piece);
        }
        self.pieces.push_back((piece, has_room));
    }

    /// What a reader must have had, not to hold up those that had more: half of what is held.
    fn enough(&self) -> u64 {
        let most = self.readers.values().map(|reader| reader.next).max().unwrap_or(0);
        most.min(self.gone + self.pieces.len() as u64 / 2 + 1)
    }

    /// From here on the body is only passed on: drops what every reader has had.
    fn pass(&mut self) {
        self.keeps = false;
        self.trim();
    }

    fn trim(&mut self) {
        if self.keeps {
            return;
        }
        let slowest = self.readers.values().map(|reader| reader.next).min().unwrap_or(u64::MAX);
        while self.gone < slowest
            && let Some((piece, has_room)) = self.pieces.pop_front()
        {
            self.gone += 1;
            self.held -= weight(&piece);
            if has_room {
                self.room.give_back(weight(&piece));
            }
        }
    }
}

#[derive(Debug, Default)]
struct SharedSpool {
    state: Mutex<SpoolState>,
    /// A piece has come, or the end.
    came: Notify,
    /// A reader went on, or left.
    went: Notify,
}

/// The writing end; one that is dropped before [`finish`](Self::finish) leaves a broken body.
#[derive(Debug)]
pub(crate) struct Spool {
    shared: Arc<SharedSpool>,
    room: Room,
}

/// Creates new readers; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Tap(Arc<SharedSpool>);

#[derive(Debug)]
pub struct Reader {
    shared: Arc<SharedSpool>,
    id: u64,
}

impl Spool {
    /// An empty body that is held whole if it `keeps`, as long as there is room: from the start if its `length` is known.
    pub(crate) fn new(keeps: bool, length: Option<u64>, room: Room) -> Self {
        let shared = SharedSpool::default();
        {
            let mut state = shared.state.lock();
            state.keeps = keeps && length.is_none_or(|length| room.try_reserve(&mut state.room, length));
        }
        Self { shared: Arc::new(shared), room }
    }

    /// Whether it is held whole, so far.
    pub(crate) fn keeps(&self) -> bool {
        self.shared.state.lock().keeps
    }

    pub(crate) fn tap(&self) -> Tap {
        Tap(self.shared.clone())
    }

    /// Adds a piece to a body that is held whole; `false`: there is no room for it.
    pub(crate) fn keep(&self, piece: &Bytes) -> bool {
        let mut state = self.shared.state.lock();
        let has_room = state.keeps && self.room.try_take(&mut state.room, weight(piece));
        if has_room {
            state.push(piece.clone(), true);
            drop(state);
            self.shared.came.notify_waiters();
        }
        has_room
    }

    /// Adds a piece to a body that is only passed on from here, when the slowest reader is near enough.
    pub(crate) async fn pass(&self, piece: Bytes) -> Result<(), Abandoned> {
        loop {
            let went = self.shared.went.notified();
            let mut went = std::pin::pin!(went);
            // Registered before the state is read, so that no change is missed.
            went.as_mut().enable();
            let (enough, patience) = {
                let mut state = self.shared.state.lock();
                state.pass();
                if state.readers.is_empty() {
                    return Err(Abandoned);
                }
                let has_room = state.held < WINDOW && self.room.try_take(&mut state.room, weight(&piece));
                // Without room one piece at a time goes on: a full memory slows answers, but stops none.
                if has_room || state.held == 0 {
                    state.push(piece, has_room);
                    drop(state);
                    self.shared.came.notify_waiters();
                    return Ok(());
                }
                let enough = state.enough();
                let lagging = state.readers.values().filter(|reader| reader.next < enough);
                (enough, lagging.map(|reader| reader.grace).min())
            };
            let Some(patience) = patience else {
                went.await;
                continue;
            };
            let begun = Instant::now();
            let _ = timeout(patience, went).await;
            let waited = begun.elapsed();
            // One slow reader costs the others at most GRACE in all. Then it is left behind.
            self.shared.state.lock().readers.retain(|_, reader| {
                if reader.next < enough {
                    reader.grace = reader.grace.saturating_sub(waited);
                }
                reader.next >= enough || !reader.grace.is_zero()
            });
        }
    }

    /// Ends the body with its `last` piece, which may be empty. A body held whole goes to `keep` before any reader sees
    /// the end: a client that has read all of an answer finds it cached. If `keep` stores it, the readers go on with the
    /// stored bytes, and the room is given back.
    pub(crate) fn finish(self, last: Bytes, keep: impl FnOnce(Bytes) -> bool) {
        let mut state = self.shared.state.lock();
        if !last.is_empty() && !state.keeps {
            state.push(last, false);
        } else if state.keeps {
            // Without the lock, because it takes time. Readers wait for the pieces.
            let mut pieces = std::mem::take(&mut state.pieces);
            drop(state);
            pieces.push_back((last, true));
            pieces.retain(|(piece, _)| !piece.is_empty());
            let whole = if pieces.len() < 2 {
                pieces.pop_back().map(|(piece, _)| piece).unwrap_or_default()
            } else {
                let mut whole = BytesMut::with_capacity(pieces.iter().map(|(piece, _)| piece.len()).sum());
                // Each is dropped as soon as it is copied.
                for (piece, _) in pieces {
                    whole.extend_from_slice(&piece);
                }
                whole.freeze()
            };
            let is_stored = keep(whole.clone());
            state = self.shared.state.lock();
            if is_stored {
                state.room = Held::default();
            } else {
                let beside = state.held.saturating_sub(whole.len() as u64);
                state.room.give_back(beside);
                state.keeps = false;
            }
            state.whole = Some(whole);
        }
        state.end = Some(Ok(()));
        drop(state);
        self.shared.came.notify_waiters();
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if state.end.is_none() {
            state.end = Some(Err(CutShort::Early));
            // Nobody gets all of it, so only what fits into the window waits for its readers.
            state.pass();
            while state.held > WINDOW {
                let slowest = state.gone;
                state.readers.retain(|_, reader| reader.next > slowest);
                state.trim();
            }
            drop(state);
            self.shared.came.notify_waiters();
        }
    }
}

impl Tap {
    /// A reader from the first byte; `None` when it would not get all of the body.
    pub(crate) fn reader(&self) -> Option<Reader> {
        let mut state = self.0.state.lock();
        if !state.keeps && state.next_reader > 0 {
            return None;
        }
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(id, Position { next: 0, had: 0, grace: GRACE });
        Some(Reader { shared: self.0.clone(), id })
    }
}

impl Reader {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, CutShort>> {
        loop {
            let came = self.shared.came.notified();
            let mut came = std::pin::pin!(came);
            // Registered before the state is read, as in `pass`.
            came.as_mut().enable();
            {
                let mut state = self.shared.state.lock();
                let Some(position) = state.readers.get(&self.id).copied() else {
                    let broken = state.end.and_then(Result::err);
                    return Some(Err(broken.unwrap_or(CutShort::LeftBehind)));
                };
                let index = usize::try_from(position.next - state.gone).unwrap_or(usize::MAX);
                let rest = |whole: &Bytes| whole.slice(position.had..whole.len().min(position.had + LARGE as usize));
                let piece = match &state.whole {
                    Some(whole) => Some(rest(whole)).filter(|rest| !rest.is_empty()),
                    None => state.pieces.get(index).map(|(piece, _)| piece.clone()),
                };
                if let Some(piece) = piece {
                    let had = position.had + piece.len();
                    state.readers.insert(self.id, Position { next: position.next + 1, had, ..position });
                    state.trim();
                    drop(state);
                    self.shared.went.notify_waiters();
                    return Some(Ok(piece));
                }
                match state.end {
                    Some(Ok(())) => return None,
                    Some(Err(broken)) => return Some(Err(broken)),
                    None => {}
                }
            }
            came.await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.readers.remove(&self.id);
        state.trim();
        drop(state);
        self.shared.went.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn room() -> Room {
        Room::new(16 << 20, 1 << 20).for_streams(None)
    }

    async fn all(mut reader: Reader) -> Result<Vec<u8>, CutShort> {
        let mut out = Vec::new();
        while let Some(piece) = reader.next().await {
            out.extend_from_slice(&piece?);
        }
        Ok(out)
    }

    #[tokio::test]
    async fn late_readers_of_what_is_kept_get_all_of_it() {
        let spool = Spool::new(true, None, room());
        let tap = spool.tap();
        let early = tokio::spawn(all(tap.reader().unwrap()));
        assert!(spool.keep(&Bytes::from_static(b"one ")));
        let late = tokio::spawn(all(tap.reader().unwrap()));
        assert!(spool.keep(&Bytes::from_static(b"two")));
        let mut kept = Bytes::new();
        spool.finish(Bytes::new(), |whole| {
            kept = whole;
            true
        });
        assert_eq!(kept, "one two");
        assert_eq!(early.await.unwrap().unwrap(), b"one two");
        assert_eq!(late.await.unwrap().unwrap(), b"one two");
    }

    #[tokio::test]
    async fn a_body_is_kept_before_its_last_piece_and_its_end_show() {
        for last in [Bytes::new(), Bytes::from_static(b"two")] {
            let spool = Spool::new(true, None, room());
            let mut reader = spool.tap().reader().unwrap();
            assert!(spool.keep(&Bytes::from_static(b"one ")));
            assert_eq!(reader.next().await.unwrap().unwrap(), "one ");
            let mut kept = false;
            spool.finish(last.clone(), |whole| {
                assert_eq!(whole, [b"one ", &last[..]].concat());
                assert_eq!(futures_util::FutureExt::now_or_never(reader.next()), None, "the reader waits");
                kept = true;
                true
            });
            assert!(kept);
            assert_eq!(all(reader).await.unwrap(), last);
        }
        let spool = Spool::new(false, None, room());
        let reader = spool.tap().reader().unwrap();
        spool.finish(Bytes::new(), |_| panic!("there is nothing to keep"));
        assert_eq!(all(reader).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn what_is_not_kept_waits_for_its_reader_and_ends_with_it() {
        let spool = Spool::new(false, None, room());
        let (tap, shared) = (spool.tap(), spool.shared.clone());
        let mut reader = tap.reader().unwrap();
        let piece = Bytes::from(vec![7; WINDOW as usize]);
        spool.pass(piece.clone()).await.unwrap();
        {
            let mut lagging = Box::pin(spool.pass(piece.clone()));
            assert!(futures_util::poll!(&mut lagging).is_pending(), "the reader lags");
            assert_eq!(reader.next().await.unwrap().unwrap().len(), piece.len());
            lagging.await.unwrap();
        }
        assert!(tap.reader().is_none(), "the start is gone");
        drop(reader);
        assert_eq!(spool.pass(piece).await, Err(Abandoned));
        assert_eq!(shared.state.lock().held, 0);
    }

    #[tokio::test]
    async fn without_room_nothing_is_kept_and_pieces_pass_one_by_one() {
        let room = Room::new(1 << 20, 1 << 10).for_streams(None);
        let mut full = Held::default();
        while room.try_take(&mut full, 4096) {}
        assert!(!Spool::new(true, Some(4096), room.clone()).keeps(), "its length is known");
        let spool = Spool::new(true, None, room.clone());
        let mut reader = spool.tap().reader().unwrap();
        let piece = Bytes::from_static(b"piece");
        assert!(!spool.keep(&piece));
        spool.pass(piece.clone()).await.unwrap();
        assert!(!spool.keeps() && spool.tap().reader().is_none());
        {
            let mut next = Box::pin(spool.pass(piece.clone()));
            assert!(futures_util::poll!(&mut next).is_pending());
            assert_eq!(reader.next().await.unwrap().unwrap(), "piece");
            next.await.unwrap();
        }
        assert_eq!(reader.next().await.unwrap().unwrap(), "piece");
        drop(reader);
        assert_eq!(spool.pass(piece.clone()).await, Err(Abandoned));
        // A body to be cached gives its room back when no reader needs it any more.
        drop((full, spool));
        let spool = Spool::new(true, None, room.clone());
        let reader = spool.tap().reader().unwrap();
        while spool.keep(&Bytes::from(vec![7; 4096])) {}
        assert!(!room.try_take(&mut Held::default(), 64 << 10));
        drop((spool, reader));
        assert!(room.try_take(&mut Held::default(), 64 << 10));
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_others_waiting_for_too_long_is_left_behind() {
        for lagging in 1..4 {
            let spool = Spool::new(true, None, room());
            let tap = spool.tap();
            let mut slow: Vec<Reader> = (0..lagging).map(|_| tap.reader().unwrap()).collect();
            assert!(spool.keep(&Bytes::from_static(b"start")));
            let fast = tokio::spawn(all(tap.reader().unwrap()));
            for _ in 0..4 {
                spool.pass(Bytes::from(vec![7; WINDOW as usize])).await.unwrap();
            }
            spool.finish(Bytes::from_static(b"end"), |_| panic!("it is not kept"));
            assert_eq!(fast.await.unwrap().unwrap().len(), 8 + 4 * WINDOW as usize);
            for reader in &mut slow {
                assert_eq!(reader.next().await, Some(Err(CutShort::LeftBehind)));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_alone_may_be_as_slow_as_it_likes() {
        let spool = Spool::new(true, None, room());
        let mut reader = spool.tap().reader().unwrap();
        assert!(spool.keep(&Bytes::from_static(b"start")));
        let writing = tokio::spawn(async move {
            for _ in 0..4 {
                spool.pass(Bytes::from(vec![7; WINDOW as usize])).await.unwrap();
            }
            spool.finish(Bytes::new(), |_| panic!("it is not kept"));
        });
        let mut got = 0;
        while let Some(piece) = reader.next().await {
            got += piece.unwrap().len();
            tokio::time::sleep(10 * GRACE).await;
        }
        assert_eq!(got, 5 + 4 * WINDOW as usize);
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn who_reads_slowly_holds_no_room_of_a_stored_body() {
        for stored in [true, false] {
            let room = Room::new(1 << 20, 1 << 10).for_streams(None);
            let spool = Spool::new(true, None, room.clone());
            let reader = spool.tap().reader().unwrap();
            let body = Bytes::from(vec![7; 100 << 10]);
            assert!(spool.keep(&body) && spool.keep(&body), "there is room");
            let has_room = || room.try_take(&mut Held::default(), 600 << 10);
            spool.finish(Bytes::from_static(b"end"), |_| stored);
            assert_eq!(has_room(), stored);
            assert_eq!(all(reader).await.unwrap(), [&body[..], &body[..], b"end"].concat());
            assert!(has_room(), "nobody needs it any more");
        }
    }

    #[tokio::test]
    async fn small_pieces_count_more_than_their_bytes_and_end_as_large_ones() {
        let byte = Bytes::from_static(b"1");
        let spool = Spool::new(true, None, room());
        let tap = spool.tap();
        let (mut first, second) = (tap.reader().unwrap(), tap.reader().unwrap());
        for _ in 0..1000 {
            assert!(spool.keep(&byte));
        }
        for _ in 0..300 {
            first.next().await.unwrap().unwrap();
        }
        spool.finish(byte.clone(), |_| true);
        assert_eq!(all(first).await.unwrap(), b"1".repeat(701));
        assert_eq!(all(second).await.unwrap(), b"1".repeat(1001));
        assert_eq!(all(tap.reader().unwrap()).await.unwrap(), b"1".repeat(1001));

        let (spool, large) = (Spool::new(true, None, room()), Bytes::from(vec![7; COPIED]));
        assert!(spool.keep(&large.slice(1..)) && large.is_unique(), "a piece holds on to nothing that is not counted");

        let spool = Spool::new(true, None, Room::new(1 << 20, 1 << 10).for_streams(None));
        let _reader = spool.tap().reader().unwrap();
        let kept = (0..10_000).take_while(|_| spool.keep(&byte)).count();
        assert!(kept < 4096, "{kept} pieces are kept");
        let spool = Spool::new(false, None, room());
        let _reader = spool.tap().reader().unwrap();
        let passed = (0..10_000).take_while(|_| spool.pass(byte.clone()).now_or_never().is_some()).count();
        assert!((512..4096).contains(&passed), "{passed} pieces wait");
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_says_so() {
        let spool = Spool::new(true, None, room());
        let mut reader = spool.tap().reader().unwrap();
        assert!(spool.keep(&Bytes::from_static(b"half")));
        drop(spool);
        assert_eq!(reader.next().await.unwrap().unwrap(), "half");
        assert_eq!(reader.next().await.unwrap(), Err(CutShort::Early));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_holds_no_room_for_readers_that_lag_far_behind() {
        let spool = Spool::new(true, None, room());
        let (shared, tap) = (spool.shared.clone(), spool.tap());
        let (mut near, mut far) = (tap.reader().unwrap(), tap.reader().unwrap());
        let piece = Bytes::from(vec![7; WINDOW as usize]);
        assert!(spool.keep(&piece) && spool.keep(&piece));
        assert!(near.next().await.unwrap().is_ok());
        drop(spool);
        assert_eq!(far.next().await.unwrap(), Err(CutShort::Early));
        assert_eq!(shared.state.lock().held, WINDOW);
        assert!(near.next().await.unwrap().is_ok());
        assert_eq!(near.next().await.unwrap(), Err(CutShort::Early));
    }
}
