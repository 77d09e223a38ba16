//! A body with several readers while it still arrives.
//!
//! A body to be cached is held whole to its end, as long as there is room. Any other is dropped behind the slowest
//! reader, and the writer waits for that reader when it lags. Without room, the lag is one piece. Callers:
//! [`super::streamed`] writes, [`crate::serve`] reads.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::upstream::room::{Held, Room};

/// How far the slowest reader of a body that is not cached may lag, in bytes, while there is room.
const WINDOW: u64 = 256 * 1024;

/// The body broke off: readers did not get all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the origin's answer ended early")]
pub struct Broken;

/// No client reads any more, and the body is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

#[derive(Debug, Default)]
struct State {
    /// The held pieces, beginning with piece number `gone`; each with whether room was taken for it.
    pieces: VecDeque<(Bytes, bool)>,
    gone: u64,
    /// Bytes of the held pieces.
    held: u64,
    /// The room for these.
    room: Held,
    end: Option<Result<(), Broken>>,
    keeps: bool,
    /// The next piece of each reader.
    readers: HashMap<u64, u64>,
    next_reader: u64,
}

impl State {
    /// Drops what every reader has had.
    fn trim(&mut self) {
        if self.keeps {
            return;
        }
        let slowest = self.readers.values().copied().min().unwrap_or(u64::MAX);
        while self.gone < slowest
            && let Some((piece, has_room)) = self.pieces.pop_front()
        {
            self.gone += 1;
            self.held -= piece.len() as u64;
            if has_room {
                self.room.give_back(piece.len() as u64);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A piece has come, or the end.
    came: Notify,
    /// A reader went on, or left.
    went: Notify,
}

/// The writing end; one that is dropped before [`finish`](Self::finish) leaves a broken body.
#[derive(Debug)]
pub(crate) struct Spool(Arc<Shared>, Room);

/// Creates new readers; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Tap(Arc<Shared>);

/// One reader.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    id: u64,
}

impl Spool {
    /// An empty body that is held whole if it `keeps`, as long as there is room.
    pub(crate) fn new(keeps: bool, room: Room) -> Self {
        let shared = Shared::default();
        shared.state.lock().keeps = keeps;
        Self(Arc::new(shared), room)
    }

    /// Creates new readers.
    pub(crate) fn tap(&self) -> Tap {
        Tap(self.0.clone())
    }

    /// Adds a piece, when the slowest reader is near enough.
    ///
    /// # Errors
    /// When nobody wants the rest.
    pub(crate) async fn push(&self, piece: Bytes) -> Result<(), Abandoned> {
        if piece.is_empty() {
            return Ok(());
        }
        loop {
            let went = self.0.went.notified();
            let mut went = std::pin::pin!(went);
            // Registered before the state is read, so that no change is missed.
            went.as_mut().enable();
            {
                let mut state = self.0.state.lock();
                if !state.keeps && state.readers.is_empty() {
                    return Err(Abandoned);
                }
                let is_near = state.keeps || state.held < WINDOW;
                let has_room = is_near && self.1.try_take(&mut state.room, piece.len() as u64);
                if state.keeps && !has_room {
                    // There is no room to cache it: from here on it is only passed on.
                    state.keeps = false;
                    state.trim();
                    continue;
                }
                if has_room || state.held == 0 {
                    state.held += piece.len() as u64;
                    state.pieces.push_back((piece, has_room));
                    drop(state);
                    self.0.came.notify_waiters();
                    return Ok(());
                }
            }
            went.await;
        }
    }

    /// From here on the body is only passed on.
    pub(crate) fn stop_keeping(&self) {
        let mut state = self.0.state.lock();
        state.keeps = false;
        state.trim();
    }

    /// Whether it is still held whole.
    pub(crate) fn keeps(&self) -> bool {
        self.0.state.lock().keeps
    }

    /// Ends the body with its `last` piece, which may be empty. A held body goes to `keep` before any reader sees the
    /// end: a client that has read all of an answer finds it cached. If `keep` stores it, the readers go on with the
    /// stored bytes, and the room is given back.
    pub(crate) fn finish(self, last: Bytes, keep: impl FnOnce(Bytes) -> bool) {
        let mut state = self.0.state.lock();
        let whole = state.keeps.then(|| match (state.pieces.len(), state.pieces.front()) {
            (0, _) => last.clone(),
            (1, Some((only, _))) if last.is_empty() => only.clone(),
            _ => {
                let length = usize::try_from(state.held).unwrap_or(0) + last.len();
                let mut whole = BytesMut::with_capacity(length);
                let pieces = state.pieces.iter().map(|(piece, _)| piece);
                pieces.chain([&last]).for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        });
        drop(state);
        let stored = whole.filter(|whole| keep(whole.clone()));
        state = self.0.state.lock();
        if !last.is_empty() {
            state.held += last.len() as u64;
            state.pieces.push_back((last, false));
        }
        if let Some(mut rest) = stored {
            for (piece, has_room) in &mut state.pieces {
                (*piece, *has_room) = (rest.split_to(piece.len()), false);
            }
            state.room = Held::default();
        }
        state.end = Some(Ok(()));
        drop(state);
        self.0.came.notify_waiters();
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if state.end.is_none() {
            state.end = Some(Err(Broken));
            drop(state);
            self.0.came.notify_waiters();
        }
    }
}

impl Tap {
    /// A reader from the first byte; `None` when that was dropped.
    pub(crate) fn reader(&self) -> Option<Reader> {
        let mut state = self.0.state.lock();
        if state.gone > 0 {
            return None;
        }
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(id, 0);
        Some(Reader { shared: self.0.clone(), id })
    }
}

impl Reader {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            let came = self.shared.came.notified();
            let mut came = std::pin::pin!(came);
            came.as_mut().enable();
            {
                let mut state = self.shared.state.lock();
                let at = state.readers.get(&self.id).copied().unwrap_or(state.gone);
                let index = usize::try_from(at.saturating_sub(state.gone)).unwrap_or(usize::MAX);
                if let Some((piece, _)) = state.pieces.get(index).cloned() {
                    state.readers.insert(self.id, at + 1);
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
    use super::*;

    fn room() -> Room {
        Room::new(16 << 20, 1 << 20).for_streams()
    }

    async fn all(mut reader: Reader) -> Result<Vec<u8>, Broken> {
        let mut out = Vec::new();
        while let Some(piece) = reader.next().await {
            out.extend_from_slice(&piece?);
        }
        Ok(out)
    }

    #[tokio::test]
    async fn late_readers_of_what_is_kept_get_all_of_it() {
        let spool = Spool::new(true, room());
        let tap = spool.tap();
        let early = tokio::spawn(all(tap.reader().unwrap()));
        spool.push(Bytes::from_static(b"one ")).await.unwrap();
        let late = tokio::spawn(all(tap.reader().unwrap()));
        spool.push(Bytes::from_static(b"two")).await.unwrap();
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
            let spool = Spool::new(true, room());
            let mut reader = spool.tap().reader().unwrap();
            spool.push(Bytes::from_static(b"one ")).await.unwrap();
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
        let spool = Spool::new(false, room());
        let reader = spool.tap().reader().unwrap();
        spool.finish(Bytes::new(), |_| panic!("there is nothing to keep"));
        assert_eq!(all(reader).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn what_is_not_kept_waits_for_its_reader_and_ends_with_it() {
        let spool = Spool::new(false, room());
        let mut reader = spool.tap().reader().unwrap();
        let piece = Bytes::from(vec![7; WINDOW as usize]);
        spool.push(piece.clone()).await.unwrap();
        let mut lagging = Box::pin(spool.push(piece.clone()));
        assert!(futures_util::poll!(&mut lagging).is_pending(), "the reader lags");
        assert_eq!(reader.next().await.unwrap().unwrap().len(), piece.len());
        lagging.await.unwrap();
        assert!(spool.tap().reader().is_none(), "the start is gone");
        drop(reader);
        assert_eq!(spool.push(piece).await, Err(Abandoned));
        assert_eq!(spool.0.state.lock().held, 0);
    }

    #[tokio::test]
    async fn without_room_nothing_is_kept_and_pieces_pass_one_by_one() {
        let room = Room::new(1 << 20, 1 << 10).for_streams();
        let mut full = Held::default();
        while room.try_take(&mut full, 4096) {}
        let spool = Spool::new(true, room.clone());
        let mut reader = spool.tap().reader().unwrap();
        let piece = Bytes::from_static(b"piece");
        spool.push(piece.clone()).await.unwrap();
        assert!(!spool.keeps());
        let mut next = Box::pin(spool.push(piece.clone()));
        assert!(futures_util::poll!(&mut next).is_pending());
        assert_eq!(reader.next().await.unwrap().unwrap(), "piece");
        next.await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap(), "piece");
        drop(reader);
        assert_eq!(spool.push(piece.clone()).await, Err(Abandoned));
        // A body to be cached gives its room back when no reader needs it any more.
        drop((full, spool));
        let spool = Spool::new(true, room.clone());
        let reader = spool.tap().reader().unwrap();
        while spool.keeps() {
            let all = futures_util::poll!(Box::pin(spool.push(Bytes::from(vec![7; 4096]))));
            assert!(all.is_ready() || !spool.keeps());
        }
        assert!(!room.try_take(&mut Held::default(), 64 << 10));
        drop((spool, reader));
        assert!(room.try_take(&mut Held::default(), 64 << 10));
    }

    #[tokio::test]
    async fn who_reads_slowly_holds_no_room_of_a_stored_body() {
        for stored in [true, false] {
            let room = Room::new(1 << 20, 1 << 10).for_streams();
            let spool = Spool::new(true, room.clone());
            let reader = spool.tap().reader().unwrap();
            let body = Bytes::from(vec![7; 100 << 10]);
            spool.push(body.clone()).await.unwrap();
            spool.push(body.clone()).await.unwrap();
            assert!(spool.keeps(), "there is room");
            let has_room = || room.try_take(&mut Held::default(), 250 << 10);
            spool.finish(Bytes::from_static(b"end"), |_| stored);
            assert_eq!(has_room(), stored);
            assert_eq!(all(reader).await.unwrap(), [&body[..], &body[..], b"end"].concat());
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_says_so() {
        let spool = Spool::new(true, room());
        let mut reader = spool.tap().reader().unwrap();
        spool.push(Bytes::from_static(b"half")).await.unwrap();
        drop(spool);
        assert_eq!(reader.next().await.unwrap().unwrap(), "half");
        assert_eq!(reader.next().await.unwrap(), Err(Broken));
    }
}
