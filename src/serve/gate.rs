//! The way in: tells protocols apart, and holds clients to deadlines.
//!
//! It answers nothing. Callers: [`crate::app`] hands it to pingora, in front of [`super::public`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::ErrorType;
use pingora::apps::{HttpPersistentSettings, HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::protocols::{ALPN, Stream};
use pingora::server::ShutdownWatch;
use tokio::sync::Notify;

use super::public::Public;

/// How long a client may take between two reads of a request's head, and how long a write may stall.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept.
pub(super) const KEEPALIVE_SECONDS: u64 = 60;
const KEEPALIVE: Duration = Duration::from_secs(KEEPALIVE_SECONDS);
/// How long the head of a request may take in all.
const HEAD_DEADLINE: Duration = Duration::from_secs(15);

/// Left with a connection that has had a request: the next one may be long in coming.
struct Reused;

/// Connections of one kind: reads heads within deadlines, and lets [`Public`] answer.
///
/// Pingora's own deadlines are per read, so that a client that drips bytes could stay for ever.
pub struct Front {
    public: Arc<Public>,
    options: HttpServerOptions,
    closing: Arc<Notify>,
}

impl Front {
    fn new(public: Arc<Public>, closing: Arc<Notify>, h2c: bool) -> Self {
        let mut options = HttpServerOptions::default();
        options.h2c = h2c;
        options.h2_idle_timeout = Some(KEEPALIVE);
        Self { public, options, closing }
    }

    /// Reads the head of the next request; `false` when the connection is to be given up.
    async fn read_head(&self, session: &mut ServerSession, deadline: Duration) -> bool {
        let read = tokio::select! {
            // A request that is there is answered, even when the server is about to end.
            biased;
            read = pingora_timeout::timeout(deadline, session.read_request()) => read,
            () = self.closing.notified() => return false,
        };
        match read {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a request cannot be read");
                if matches!(error.etype(), ErrorType::InvalidHTTPHeader) {
                    self.public.unreadable(session).await;
                }
                session.shutdown().await;
                false
            }
            Err(_elapsed) => false,
        }
    }
}

#[async_trait]
impl HttpServerApp for Front {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        session.set_read_timeout(Some(READ_TIMEOUT));
        session.set_write_timeout(Some(WRITE_TIMEOUT));
        session.set_total_drain_timeout(Some(READ_TIMEOUT));
        session.set_pipelining_enabled(true);
        let reused = session.take_connection_user_context().is_some();
        let deadline = if reused { KEEPALIVE + HEAD_DEADLINE } else { HEAD_DEADLINE };
        if !self.read_head(&mut session, deadline).await {
            return None;
        }
        if *shutdown.borrow() {
            // The client goes elsewhere with its next request.
            session.set_keepalive(None);
        }
        // Dropping the session closes the connection.
        self.public.exchange(&mut session).await.ok()?;
        let mut settings = HttpPersistentSettings::for_session(&session);
        settings.set_user_context(Box::new(Reused));
        match session.finish().await {
            Ok(stream) => stream.map(|stream| ReusedHttpStream::from_reusable_stream(stream, settings)),
            Err(error) => {
                tracing::debug!(%error, "a connection broke");
                None
            }
        }
    }

    fn h2_options(&self) -> Option<H2Options> {
        let mut options = pingora::protocols::http::v2::server::default_h2_options();
        options.max_concurrent_streams(128);
        options.max_header_list_size(64 * 1024);
        Some(options)
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }

    async fn http_cleanup(&self) {
        // Idle connections wait for a request that would not be answered any more.
        self.closing.notify_waiters();
    }
}

/// Tells HTTP/2 with prior knowledge from HTTP/1 by the first bytes of a connection, within a deadline: pingora's own
/// look waits for 24 bytes, which a short request never sends and an idle client never will. Under TLS the two sides
/// have agreed already ([`super::tls`]).
pub struct Gate {
    http1: Arc<Front>,
    http2: Arc<Front>,
}

impl Gate {
    /// A gate before the public listener's state.
    pub fn new(public: &Arc<Public>) -> Self {
        let closing = Arc::new(Notify::new());
        let front = |h2c| Arc::new(Front::new(public.clone(), closing.clone(), h2c));
        Self { http1: front(false), http2: front(true) }
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
            return self.http1.process_new(stream, shutdown).await;
        }
        let mut preface = [0; 24];
        pingora_timeout::timeout(HEAD_DEADLINE, stream.try_peek(&mut preface)).await.ok()?.ok()?;
        self.http2(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.http1.http_cleanup().await;
    }
}
