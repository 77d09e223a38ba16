//! Writes to a client through pingora's session, each within a deadline, and the end of a connection whose client may
//! still be sending.
//!
//! Callers: [`super`], [`super::connection`], [`super::http2`], [`super::tls`], [`crate::server::admin::front`].

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::Fuse;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::edge::answer::compose::Rest;
use crate::edge::limit::backlog::{Backlog, OF_BODY, PIECE, Slow, WRITE_TIMEOUT};

/// The connection cannot be used any more: the client is gone, or got an incomplete answer.
#[derive(Debug)]
pub(super) struct Broken;

impl From<Box<pingora::Error>> for Broken {
    fn from(error: Box<pingora::Error>) -> Self {
        tracing::debug!(%error, "a connection failed");
        Self
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        tracing::debug!(%error, "a connection failed");
        Self
    }
}

impl From<Slow> for Broken {
    fn from(Slow: Slow) -> Self {
        Self
    }
}

impl From<h2::Error> for Broken {
    fn from(error: h2::Error) -> Self {
        tracing::debug!(%error, "a stream failed");
        Self
    }
}

/// The pieces of a body, one at least, and whether each is the last.
pub(super) fn pieces(mut body: Bytes) -> impl Iterator<Item = (Bytes, bool)> {
    let mut is_last = false;
    std::iter::from_fn(move || {
        if is_last {
            return None;
        }
        let piece = body.split_to(body.len().min(PIECE));
        is_last = body.is_empty();
        Some((piece, is_last))
    })
}

/// A body that still comes. What has come while the client reads counts as unread.
pub(super) struct Ahead {
    rest: Fuse<Rest>,
    here: VecDeque<io::Result<Bytes>>,
}

impl Ahead {
    pub(super) fn of(rest: Rest, backlog: &Arc<Backlog>) -> Self {
        let backlog = backlog.clone();
        let counted = rest.map(move |piece| piece.map(|piece| backlog.carry(piece)));
        Self { rest: counted.boxed().fuse(), here: VecDeque::new() }
    }

    /// The next piece; `None`: it has ended.
    pub(super) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.here.is_empty() { self.rest.next().await } else { self.here.pop_front() }
    }

    /// A write. Meanwhile takes in what comes: others may forget it, and then it is held for this client alone.
    pub(super) async fn during<T>(&mut self, write: impl Future<Output = T>) -> T {
        let mut write = pin!(write);
        loop {
            let bytes: usize = self.here.iter().flatten().map(Bytes::len).sum();
            tokio::select! {
                biased;
                written = write.as_mut() => return written,
                // Cancel-safe: a stream's `next` holds nothing between two polls. At most one piece more than the bound
                // is held.
                Some(piece) = self.rest.next(), if bytes < OF_BODY && self.here.len() < AHEAD => self.here.push_back(piece),
            }
        }
    }
}

/// A write of pingora's session, which has no deadline for heads and flushes of its own.
pub(super) async fn in_time<T>(write: impl Future<Output = pingora::Result<T>>) -> Result<T, Broken> {
    Ok(timeout(WRITE_TIMEOUT, write).await.map_err(|_elapsed| Broken)??)
}

/// How many pieces are taken in while a client reads: small ones cost more than their bytes.
pub(super) const AHEAD: usize = 64;

/// How long a client may take to end the connection, in all.
const LINGER: Duration = Duration::from_secs(10);
/// The longest silence of the client meanwhile.
const SILENCE: Duration = Duration::from_secs(2);
/// The most bytes that are read meanwhile.
const MOST: usize = 16 << 20;
/// How much is read at once, in bytes.
const READ_AT_ONCE: usize = 16 << 10;

/// Ends a connection after an answer, and waits a limited time until the client has ended it, too.
pub(crate) async fn lingering_close(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    // The connection is dropped in any case.
    let _ended = timeout(LINGER, async {
        // RFC 9112 §9.6: a socket that is closed while bytes arrive is reset, and the client may lose the answer.
        AsyncWriteExt::shutdown(&mut stream).await?;
        let (mut thrown_away, mut piece) = (0, BytesMut::with_capacity(READ_AT_ONCE));
        while thrown_away < MOST {
            piece.clear();
            match timeout(SILENCE, stream.read_buf(&mut piece)).await {
                Ok(Ok(read)) if read > 0 => thrown_away += read,
                _ => break,
            }
        }
        std::io::Result::Ok(())
    })
    .await;
}
