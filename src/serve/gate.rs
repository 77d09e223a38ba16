//! The way in: tells protocols apart, and holds clients to deadlines.
//!
//! It answers nothing. Callers: [`crate::app`] hands it to pingora, in front of [`super::public`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::proxy::HttpProxy;
use pingora::server::ShutdownWatch;

use super::public::Public;

/// How long a client may take between two reads of a request's head, and how long a write may stall.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept.
pub(super) const KEEPALIVE_SECONDS: u64 = 60;
const KEEPALIVE: Duration = Duration::from_secs(KEEPALIVE_SECONDS);
/// How long the head of a request may take in all.
const HEAD_DEADLINE: Duration = Duration::from_secs(15);

/// Set when the head of a request has been read.
pub(super) struct HeadRead(Arc<AtomicBool>);

impl HeadRead {
    /// The head has been read: its deadline is met.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Left with a connection that has had a request: the next one may be long in coming.
pub(super) struct Reused;

/// Pingora's proxy behind deadlines: its own are per read, so that a client that drips bytes could stay for ever.
pub struct Front {
    proxy: Arc<HttpProxy<Public>>,
    options: HttpServerOptions,
}

impl Front {
    fn new(proxy: Arc<HttpProxy<Public>>, h2c: bool) -> Self {
        let mut options = HttpServerOptions::default();
        options.h2c = h2c;
        options.h2_idle_timeout = Some(KEEPALIVE);
        Self { proxy, options }
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
        if session.is_http2() {
            return self.proxy.process_new_http(session, shutdown).await;
        }
        session.set_pipelining_enabled(true);
        let reused = session.take_connection_user_context().is_some();
        let deadline = if reused { KEEPALIVE + HEAD_DEADLINE } else { HEAD_DEADLINE };
        let read = Arc::new(AtomicBool::new(false));
        session.set_connection_user_context(Some(Box::new(HeadRead(read.clone()))));
        let process = self.proxy.process_new_http(session, shutdown);
        let mut process = std::pin::pin!(process);
        tokio::select! {
            biased;
            done = &mut process => return done,
            () = pingora_timeout::sleep(deadline) => {}
        }
        if !read.load(Ordering::Acquire) {
            // Dropping the session closes the connection.
            return None;
        }
        process.await
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
        self.proxy.http_cleanup().await;
    }
}

/// Tells HTTP/2 with prior knowledge from HTTP/1 by the first bytes of a connection, within a deadline: pingora's own
/// look waits for 24 bytes, which a short request never sends and an idle client never will.
pub struct Gate {
    http1: Arc<Front>,
    http2: Arc<Front>,
}

impl Gate {
    /// A gate before a proxy.
    pub fn new(proxy: HttpProxy<Public>) -> Self {
        let proxy = Arc::new(proxy);
        Self { http1: Arc::new(Front::new(proxy.clone(), false)), http2: Arc::new(Front::new(proxy, true)) }
    }
}

#[async_trait]
impl ServerApp for Gate {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let mut start = [0; 3];
        let peeked = pingora_timeout::timeout(HEAD_DEADLINE, stream.try_peek(&mut start)).await.ok()?.ok()?;
        if !peeked || start != *b"PRI" {
            return self.http1.process_new(stream, shutdown).await;
        }
        let mut preface = [0; 24];
        pingora_timeout::timeout(HEAD_DEADLINE, stream.try_peek(&mut preface)).await.ok()?.ok()?;
        self.http2.process_new(stream, shutdown).await
    }

    async fn cleanup(&self) {
        self.http1.http_cleanup().await;
    }
}
