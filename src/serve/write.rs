//! Writes to a client through pingora's session, each within a deadline, and ends a connection whose client may still be
//! sending.
//!
//! Callers: [`super`], [`super::connection`], [`super::http2`], [`super::tls`], [`crate::admin::front`].

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::tasks::at_once;

use super::connections::{Connection, Unread};

/// For each write. Every wait on the public side is bounded.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How many streams a connection may have open at once.
pub(super) const STREAMS: u32 = 128;
/// What a client must take within the deadline, in bytes: 2 KiB a second.
pub(super) const PIECE: usize = 64 << 10;
/// How much of other streams a connection may take while one stream waits, in bytes. The streams take turns, and a
/// piece of each may be in front. Twice that, for what goes out beside the pieces.
const OTHERS: u64 = 2 * STREAMS as u64 * PIECE as u64;

/// The connection of a write, if it has other streams to which it may give its time; `None`: it has none.
pub(super) type Shared<'a> = Option<&'a Connection>;

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

/// What a client must take of its connection within the deadline, in bytes: all that waits within 16 minutes.
pub(super) fn due(connection: &Connection) -> u64 {
    PIECE.max(connection.unread() / 32) as u64
}

/// A write of pingora's session, which has no deadline for heads and flushes of its own. The write of a stream goes on
/// after the deadline while its connection takes enough of the others, but not for ever.
pub(super) async fn in_time<T>(
    shared: Shared<'_>,
    write: impl Future<Output = pingora::Result<T>>,
) -> Result<T, Broken> {
    Ok(while_taken(shared, OTHERS, write).await??)
}

/// Waits for room for an answer, as long as the client reads others; `None`: it needs none.
pub(super) async fn enter(shared: Shared<'_>) -> Result<Option<Unread>, Broken> {
    let Some(connection) = shared else { return Ok(None) };
    while_taken(shared, u64::MAX, connection.room()).await
}

/// Waits while the client takes enough of its connection, until it has taken `most` bytes.
async fn while_taken<T>(shared: Shared<'_>, most: u64, work: impl Future<Output = T>) -> Result<T, Broken> {
    let taken = || shared.map_or(0, Connection::taken);
    let (mut work, began) = (pin!(work), taken());
    // No timer is made for what is done at once.
    if let Some(done) = at_once(&mut work).await {
        return Ok(done);
    }
    let mut last = began;
    loop {
        let due = shared.map_or(u64::MAX, due);
        if let Ok(done) = tokio::time::timeout(WRITE_TIMEOUT, work.as_mut()).await {
            return Ok(done);
        }
        let now = taken();
        if now - last < due || now - began > most {
            tracing::debug!("a client does not read its answer");
            return Err(Broken);
        }
        last = now;
    }
}

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
