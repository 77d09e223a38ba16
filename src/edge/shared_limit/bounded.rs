//! Bound on what Redis sends: more than the answers to the decisions that wait ends the connection.
//!
//! The library reads an answer of any length into memory. Callers: [`super::link`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that may arrive before an answer is complete, and further ones for each decision that waits. An answer of our
/// scripts has fewer than 100, an error of Redis a few hundred.
const MOST: usize = 64 << 10;
// With MOST_WAITING decisions 8 MiB.
const EACH: usize = 512;

pub(super) struct Bounded<S> {
    pub stream: S,
    /// How many decisions wait.
    pub waiting: Arc<AtomicUsize>,
    /// How many bytes have arrived since the last answer was taken, which sets it to 0.
    pub unanswered: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let read = into.filled().len() - before;
        let all = self.unanswered.fetch_add(read, Ordering::Relaxed) + read;
        if all > MOST + EACH * self.waiting.load(Ordering::Relaxed) {
            into.set_filled(before);
            let why = "it sends more than the answer to any command of grandstand; is it another program?";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn what_has_no_end_is_cut_off_and_many_short_answers_are_not() {
        let bounded = |waiting: usize| Bounded {
            stream: tokio::io::repeat(b'x'),
            waiting: Arc::new(AtomicUsize::new(waiting)),
            unanswered: Arc::default(),
        };
        for waiting in [0, 1000] {
            let mut text = Vec::new();
            let error = bounded(waiting).read_to_end(&mut text).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(text.len() <= MOST + EACH * waiting, "{}", text.len());
        }
        let (mut stream, mut answer) = (bounded(0), [0; 100]);
        for _ in 0..10 * MOST / answer.len() {
            stream.read_exact(&mut answer).await.unwrap();
            stream.unanswered.store(0, Ordering::Relaxed);
        }
    }
}
