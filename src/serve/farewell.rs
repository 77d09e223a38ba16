//! Ends a connection whose client may still be sending, so that the client gets its answer.
//!
//! Closing a socket with unread bytes resets the connection, and the last answer is lost. So the end is announced, and
//! further bytes are read and dropped for a while (RFC 9112 §9.6). Callers: `super::connection`, [`super::tls`],
//! [`crate::admin::front`].

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may take to end the connection, in all.
const LINGER: Duration = Duration::from_secs(10);
/// The longest silence of the client meanwhile.
const SILENCE: Duration = Duration::from_secs(2);
/// The most bytes that are read meanwhile.
const MOST: usize = 16 << 20;
/// How much is read at once, in bytes.
const PIECE: usize = 16 << 10;

/// Ends a connection after an answer, and waits a limited time until the client has ended it, too.
pub(crate) async fn lingering_close(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    // The connection is dropped in any case.
    let _ended = timeout(LINGER, async {
        AsyncWriteExt::shutdown(&mut stream).await?;
        let (mut thrown_away, mut piece) = (0, BytesMut::with_capacity(PIECE));
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
