//! The output of an HTTP/2 connection: answers that are ready together are sent together.
//!
//! The HTTP/2 code flushes after each frame with data: a system call, and over TLS a record, for each answer. Here such a
//! flush does nothing; [`Outbox::send`] flushes when no more answers are ready. Callers: [`super`].

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora::protocols::raw_connect::ProxyDigest;
use pingora::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// How many bytes may wait. Further ones push them out: a client that does not read stops the HTTP/2 code then.
const MOST: usize = 64 << 10;
/// Room for the first bytes that wait: a few small answers.
const FIRST: usize = 16 << 10;

/// A connection whose output waits until it is sent; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Outbox(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    stream: Stream,
    waiting: Vec<u8>,
    /// How many bytes of `waiting` were sent.
    sent: usize,
}

impl Outbox {
    /// Around a connection.
    pub(super) fn new(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(Inner { stream, waiting: Vec::new(), sent: 0 })))
    }

    /// Sends what waits, whenever it is polled. Ends only with an error of the connection.
    pub(super) async fn send(&self) -> io::Error {
        poll_fn(|cx| match self.0.lock().poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        })
        .await
    }
}

impl Inner {
    /// Hands what waits to the connection, which may hold it in a small buffer of its own.
    fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.waiting.len() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.waiting[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.waiting.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_empty(cx))?;
        // Most connections are idle most of the time.
        self.waiting = Vec::new();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_add(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if self.waiting.len() + length > MOST {
            ready!(self.poll_empty(cx))?;
            if length > MOST {
                return Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
            }
        }
        if self.waiting.capacity() == 0 {
            self.waiting.reserve(FIRST.max(length));
        }
        for piece in pieces {
            self.waiting.extend_from_slice(piece);
        }
        Poll::Ready(Ok(length))
    }
}

impl AsyncRead for Outbox {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buf)
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

#[async_trait]
impl Shutdown for Outbox {
    async fn shutdown(&mut self) {
        // The connection is dropped in any case.
        let _announced = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for Outbox {
    fn id(&self) -> UniqueIDType {
        self.0.lock().stream.id()
    }
}

// What is known of a connection is asked before it gets here.

impl Ssl for Outbox {}

impl Peek for Outbox {}

impl GetTimingDigest for Outbox {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Outbox {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Outbox {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;

    /// A connection of which the peer's side holds so many bytes.
    fn connection(room: usize) -> (Outbox, DuplexStream) {
        let (ours, theirs) = duplex(room);
        (Outbox::new(Box::new(ours)), theirs)
    }

    /// The bytes that have arrived.
    fn arrived(theirs: &mut DuplexStream) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let read = theirs.read(&mut bytes).now_or_never().map_or(0, Result::unwrap);
        bytes.truncate(read);
        bytes
    }

    #[tokio::test]
    async fn what_is_written_and_flushed_waits_until_it_is_sent() {
        let (outbox, mut theirs) = connection(1 << 20);
        let mut io = outbox.clone();
        for piece in [&b"one "[..], b"two "] {
            io.write_all(piece).await.unwrap();
            io.flush().await.unwrap();
        }
        assert_eq!(io.write_vectored(&[IoSlice::new(b"three "), IoSlice::new(b"four")]).await.unwrap(), 10);
        assert_eq!(arrived(&mut theirs), b"");
        assert!(outbox.send().now_or_never().is_none());
        assert_eq!(arrived(&mut theirs), b"one two three four");
        assert_eq!(outbox.0.lock().waiting.capacity(), 0, "an idle connection holds no room");
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_stays_in_order() {
        let (outbox, mut theirs) = connection(1 << 20);
        let mut io = outbox.clone();
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * MOST + MOST / 2).collect();
        let (small, large) = bytes.split_at(MOST / 2);
        io.write_all(small).await.unwrap();
        io.write_all(large).await.unwrap();
        assert!(outbox.0.lock().waiting.len() <= MOST);
        assert!(arrived(&mut theirs) == bytes, "larger writes push out what waits, and go out at once");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_holds_up_the_writer() {
        let (outbox, mut theirs) = connection(1000);
        let mut io = outbox.clone();
        let mut written = 0;
        while let Some(done) = io.write(&[7; 500]).now_or_never() {
            written += done.unwrap();
            assert!(written <= MOST + 1500, "{written} bytes");
        }
        assert!(written > MOST - 500, "{written} bytes");
        let reads = async {
            let mut all = vec![0; written];
            theirs.read_exact(&mut all).await.unwrap();
            all
        };
        tokio::select! {
            error = outbox.send() => panic!("{error}"),
            all = reads => assert!(all.iter().all(|byte| *byte == 7)),
        }
    }

    #[tokio::test]
    async fn the_end_of_a_connection_sends_what_waits() {
        let (outbox, mut theirs) = connection(1000);
        let mut io = outbox;
        io.write_all(b"goodbye").await.unwrap();
        AsyncWriteExt::shutdown(&mut io).await.unwrap();
        assert_eq!(arrived(&mut theirs), b"goodbye");
    }

    #[tokio::test]
    async fn a_broken_connection_is_an_error() {
        let (outbox, theirs) = connection(1000);
        drop(theirs);
        outbox.clone().write_all(b"lost").await.unwrap();
        assert_eq!(outbox.send().await.kind(), io::ErrorKind::BrokenPipe);
    }
}
