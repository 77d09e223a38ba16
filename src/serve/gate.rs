//! The way in: tells protocols apart.
//!
//! It answers nothing: `super::connection` serves HTTP/1, pingora takes HTTP/2 apart into streams, and
//! [`super::public`] knows the answers. Callers: [`crate::app`] hands it to pingora.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::protocols::{ALPN, Stream};
use pingora::server::ShutdownWatch;
use tokio::sync::Notify;

use super::connection::{self, HEAD_DEADLINE, KEEPALIVE, READ_TIMEOUT, WRITE_TIMEOUT};
use super::public::Public;

/// What HTTP/2 begins with (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One HTTP/2 stream after the other: [`Public`] answers each through pingora's session.
struct Http2 {
    public: Arc<Public>,
    options: HttpServerOptions,
}

#[async_trait]
impl HttpServerApp for Http2 {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        _shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        session.set_read_timeout(Some(READ_TIMEOUT));
        session.set_write_timeout(Some(WRITE_TIMEOUT));
        session.set_total_drain_timeout(Some(READ_TIMEOUT));
        if !session.read_request().await.ok()? {
            return None;
        }
        let _busy = self.public.in_flight.enter();
        let peer = session.client_addr().and_then(|address| address.as_inet());
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SocketAddr::ip);
        self.public.exchange(&mut session, peer).await.ok()?;
        if let Err(error) = session.finish().await {
            tracing::debug!(%error, "a stream broke");
        }
        None
    }

    fn h2_options(&self) -> Option<H2Options> {
        let mut options = pingora::protocols::http::v2::server::default_h2_options();
        options.max_concurrent_streams(128);
        // A header that is only a little too large is answered with our own words.
        let head = u32::try_from(self.public.rules.head).unwrap_or(u32::MAX);
        options.max_header_list_size(head.saturating_add(16 << 10));
        Some(options)
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }
}

/// Tells HTTP/2 with prior knowledge from HTTP/1 by the first bytes of a connection, within a deadline: pingora's own
/// look waits for 24 bytes, which a short request never sends and an idle client never will. Under TLS the two sides
/// have agreed already ([`super::tls`]).
pub(crate) struct Gate {
    http2: Arc<Http2>,
    /// Tells idle connections of HTTP/1 that no request of theirs would be answered any more.
    closing: Notify,
}

impl Gate {
    /// A gate before the public listener's state.
    pub(crate) fn new(public: &Arc<Public>) -> Self {
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        options.h2_idle_timeout = Some(KEEPALIVE);
        Self { http2: Arc::new(Http2 { public: public.clone(), options }), closing: Notify::new() }
    }

    async fn http2(&self, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let _open = self.http2.public.in_flight.connect();
        self.http2.process_new(stream, shutdown).await
    }
}

#[async_trait]
impl ServerApp for Gate {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        if matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
            return self.http2(stream, shutdown).await;
        }
        let mut start = [0; 3];
        let peeked = pingora_timeout::timeout(HEAD_DEADLINE, stream.try_peek(&mut start)).await.ok()?.ok()?;
        if !peeked || start != *b"PRI" {
            connection::serve(&self.http2.public, stream, &self.closing, shutdown).await;
            return None;
        }
        let mut preface = [0; PREFACE.len()];
        pingora_timeout::timeout(HEAD_DEADLINE, stream.try_peek(&mut preface)).await.ok()?.ok()?;
        if preface != *PREFACE {
            // Pingora would serve it as HTTP/1, without our bounds.
            connection::serve(&self.http2.public, stream, &self.closing, shutdown).await;
            return None;
        }
        self.http2(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.closing.notify_waiters();
    }
}
