//! Answers that are ready together share the records of TLS, and the writes of the server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use sample_origin::World;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::{BOUND, address, certified, config, with_tls};
use crate::floods::{END_HEADERS, END_STREAM, frame, frames, request};
use crate::harness::{Setup, origin};

/// The kind of a record whose content is encrypted (RFC 8446 §5.1).
const APPLICATION_DATA: u8 = 23;

/// A connection that notes what it reads.
struct Tap {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl AsyncRead for Tap {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.seen.extend_from_slice(&buf.filled()[before..]);
        read
    }
}

impl AsyncWrite for Tap {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// How many records with encrypted content there are in these bytes.
fn records(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let [kind, _, _, high, low, ..] = *bytes {
        count += usize::from(kind == APPLICATION_DATA);
        bytes = bytes.get(5 + usize::from(u16::from_be_bytes([high, low]))..).unwrap_or_default();
    }
    count
}

#[tokio::test]
async fn ready_answers_over_http2_share_records_of_tls() {
    const REQUESTS: u32 = 40;
    let dir = certified();
    let origin = origin(20).await;
    let server = with_tls(Setup::mirror_of(&origin), dir.path()).start().await;
    server.settled(&origin).await;
    let address = address(&server).await;
    let detail = format!("/api/listings/{}.json", origin.world(World::ids)[3]);
    // From the second request on it is cached.
    server.ok(&detail).await;
    let size = server.ok(&detail).await.body.len();
    let tap = Tap { stream: TcpStream::connect(address).await.unwrap(), seen: Vec::new() };
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config(dir.path(), &["h2"])));
    let mut tls = connector.connect(ServerName::from(address.ip()), tap).await.unwrap();
    tls.get_mut().0.seen.clear();
    // Windows that hold nothing up.
    let mut sent =
        [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[]), &frame(8, 0, 0, &[0, 16, 0, 0])].concat();
    for number in 0..REQUESTS {
        sent.extend(request(2 * number + 1, &detail, END_STREAM | END_HEADERS));
    }
    tls.write_all(&sent).await.unwrap();
    tls.flush().await.unwrap();
    let (mut received, mut ended) = (Vec::new(), 0);
    while ended < REQUESTS as usize {
        let read = tokio::time::timeout(BOUND, tls.read_buf(&mut received)).await.expect("an answer").unwrap();
        assert!(read > 0, "the server hung up");
        ended = frames(&received).filter(|(kind, flags)| *kind == 0 && flags & END_STREAM != 0).count();
    }
    assert!(received.len() > REQUESTS as usize * size, "they are whole");
    let (used, least) = (records(&tls.get_ref().0.seen), received.len().div_ceil(1 << 14));
    // The settings of both sides and session tickets take some more.
    assert!(used <= least + 8, "{used} records for {REQUESTS} answers of {size} bytes, which fit into {least}");
}
