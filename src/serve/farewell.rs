//! The end of a connection whose client may still be sending: it gets its answer all the same.
//!
//! A socket that is closed while something unread is left in it resets the connection, and what was sent last is lost with
//! it. So the end is announced, and what still comes is read and thrown away for a while (RFC 9112 §9.6). Callers:
//! `super::connection`, [`super::tls`], [`crate::admin::front`].

use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client may take to notice, in all.
const LINGER: Duration = Duration::from_secs(10);
/// How long it may send nothing meanwhile.
const SILENCE: Duration = Duration::from_secs(2);
/// How much it may still send, in bytes.
const MOST: usize = 16 << 20;
/// How much is read at once, in bytes.
const PIECE: usize = 16 << 10;

/// Ends a connection on which an answer was just written, and waits until the client has ended it, too, or for so long as
/// is reasonable.
pub(crate) async fn take_leave(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    // Whatever comes of it, the connection is dropped then.
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
