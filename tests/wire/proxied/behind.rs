//! What follows a header: HTTP/2 with prior knowledge, and TLS, whose first record may come in the same packet.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::{BALANCER, PATH, binary_of, get, left_after, refused, setup, text, to_end};
use crate::client::{Reply, connect_from, parse};
use crate::harness::{PATIENCE, wait_until};
use crate::tls::{address, certified, config, with_tls};

/// One request over HTTP/2 on a connection that is ready for it.
async fn over_http2(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Reply {
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = http::Request::get(format!("http://mirror.test{PATH}")).body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = tokio::time::timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
    let (parts, body) = response.into_parts();
    let reply =
        Reply { status: parts.status.as_u16(), headers: parts.headers, body: body.collect().await.unwrap().to_bytes() };
    driver.abort();
    reply
}

#[tokio::test]
async fn http2_and_tls_follow_the_header() {
    let dir = certified();
    let server = with_tls(setup(), dir.path()).start().await;
    let secure = address(&server).await;
    let mut left = (0..4).rev();
    for header in [text("192.0.2.1"), binary_of("192.0.2.1")] {
        let mut stream = connect_from(BALANCER, server.public).await;
        stream.write_all(&header).await.unwrap();
        assert_eq!(left_after(&over_http2(stream).await), left.next());
        let mut stream = connect_from(BALANCER, secure).await;
        stream.write_all(&header).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config(dir.path(), &["h2"])));
        let stream = connector.connect(ServerName::from(secure.ip()), stream).await.unwrap();
        assert_eq!(left_after(&over_http2(stream).await), left.next());
    }
    // The header and the first record of TLS in one packet.
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config(dir.path(), &["http/1.1"])));
    let mut tls = connector
        .connect(ServerName::from(secure.ip()), Together::new(connect_from(BALANCER, secure).await, text("192.0.2.2")))
        .await
        .unwrap();
    tls.write_all(&get("")).await.unwrap();
    assert_eq!(left_after(&parse(&to_end(tls).await).unwrap()), Some(3));
    // In front of TLS, not inside.
    let stream = connect_from(BALANCER, secure).await;
    assert!(connector.connect(ServerName::from(secure.ip()), stream).await.is_err());
    wait_until("it is counted", || async { refused(&server, "missing").await == 1 }).await;
}

/// A connection whose first write goes out together with bytes in front.
pub struct Together {
    stream: TcpStream,
    first: Vec<u8>,
}

impl Together {
    pub fn new(stream: TcpStream, first: Vec<u8>) -> Self {
        Self { stream, first }
    }
}

impl AsyncRead for Together {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Together {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_write(cx, buf);
        }
        let together = [&self.first[..], buf].concat();
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &together))?;
        assert_eq!(written, together.len(), "it fits into the buffer of a new connection");
        self.first.clear();
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
