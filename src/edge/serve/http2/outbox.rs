//! Output of an HTTP/2 connection: answers that are ready together are sent together.
//!
//! The HTTP/2 code flushes after each frame with data: a system call, and over TLS a record, for each answer. Here such
//! a flush does nothing; [`Outbox::send`] flushes when no more answers are ready.
//!
//! Answers count as sent for the HTTP/2 code once they are here. So the outbox watches how the client takes them: until
//! it has taken all of them, its connection is busy, and a client that takes too little in time is given up. Callers:
//! [`super`].

use std::future::{Future, poll_fn};
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use pingora::protocols::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::edge::limit::backlog::WRITE_TIMEOUT;
use crate::edge::serve::connections;
use crate::edge::serve::connections::{Busy, Connection, InFlight};

/// How many bytes may wait. Further ones push them out: a client that does not read stops the HTTP/2 code then.
const MOST: usize = 64 << 10;
/// How many bytes are read in one turn. Then other connections take theirs: short fields cost much time. Hundreds of
/// ordinary requests are shorter.
const TURN: usize = 16 << 10;
/// Room for the first bytes that wait: a few small answers.
const FIRST: usize = 16 << 10;

// Never contended: one task polls both the HTTP/2 code and `send`. Not held between two polls.
/// A connection whose output waits until it is sent; cheap to clone.
#[derive(Clone)]
pub(super) struct Outbox(Arc<Mutex<OutboxState>>);

struct OutboxState {
    /// What was read before, and is read again.
    begun: &'static [u8],
    /// How many bytes were read in this turn.
    read: usize,
    stream: Stream,
    connection: Arc<Connection>,
    in_flight: InFlight,
    waiting: Vec<u8>,
    /// How many bytes of `waiting` were sent.
    sent: usize,
    /// Set while the connection takes no more.
    held_up: Option<HeldUp>,
}

/// A connection that takes no more bytes for now. It is busy, and a stop of the server waits for it.
struct HeldUp {
    /// When the client is given up.
    limit: Pin<Box<Sleep>>,
    /// How many bytes the client must have taken by then, on the whole connection.
    due: u64,
    _busy: connections::Stream,
    _in_flight: Busy<Arc<AtomicUsize>>,
}

impl Outbox {
    /// Around a connection, of which `begun` was read before.
    pub(super) fn new(
        stream: Stream,
        begun: &'static [u8],
        connection: &Arc<Connection>,
        in_flight: &InFlight,
    ) -> Self {
        let (connection, in_flight) = (connection.clone(), in_flight.clone());
        Self(Arc::new(Mutex::new(OutboxState {
            begun,
            read: 0,
            stream,
            connection,
            in_flight,
            waiting: Vec::new(),
            sent: 0,
            held_up: None,
        })))
    }

    /// Sends what waits, and begins another turn of reading, whenever it is polled. Ends only with an error of the
    /// connection, or when the client has taken neither what was due ([`crate::edge::limit::backlog`]) nor all that
    /// waited within [`WRITE_TIMEOUT`].
    pub(super) async fn send(&self) -> io::Error {
        poll_fn(|cx| match self.0.lock().poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl OutboxState {
    /// Hands what waits to the connection, which may hold it in a small buffer of its own.
    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.waiting[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => {
                    self.sent += written;
                    self.connection.backlog().took(written);
                }
            }
        }
        self.waiting.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// [`Self::poll_empty`], and empties the buffer of the connection.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_empty(cx))?;
        // Most connections are idle most of the time.
        self.waiting = Vec::new();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.read = 0;
        let out = self.poll_out(cx);
        if out.is_ready() {
            self.held_up = None;
            return out;
        }
        let backlog = self.connection.backlog();
        let taken = backlog.taken();
        // A few bytes now and then are no progress: a client could hold its connection with them for ever.
        let waits = (self.waiting.len() - self.sent).max(1).max(backlog.held()) as u64;
        let due = taken + waits.min(backlog.due());
        let held_up = self.held_up.get_or_insert_with(|| HeldUp {
            limit: Box::pin(sleep(WRITE_TIMEOUT)),
            due,
            _busy: self.connection.stream(),
            _in_flight: self.in_flight.enter_for_long(),
        });
        if taken >= held_up.due {
            held_up.due = due;
            held_up.limit.as_mut().reset(Instant::now() + WRITE_TIMEOUT);
        }
        let given_up = || io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answers");
        held_up.limit.as_mut().poll(cx).map(|()| Err(given_up()))
    }

    fn poll_add(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        // More than there is ever room for is added in parts.
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>().min(MOST);
        if self.waiting.len() + length > MOST {
            ready!(self.poll_empty(cx))?;
        }
        if self.waiting.capacity() == 0 {
            self.waiting.reserve(FIRST.max(length));
        }
        let mut left = length;
        for piece in pieces {
            let part = &piece[..piece.len().min(left)];
            self.waiting.extend_from_slice(part);
            left -= part.len();
        }
        Poll::Ready(Ok(length))
    }
}

impl AsyncRead for Outbox {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        if !inner.begun.is_empty() {
            return Pin::new(&mut inner.begun).poll_read(cx, buf);
        }
        if inner.read >= TURN {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut inner.stream).poll_read(cx, buf);
        inner.read += buf.filled().len() - before;
        read
    }
}

impl AsyncWrite for Outbox {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().poll_add(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_add(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        ready!(inner.poll_empty(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
