//! The way in: admits connections within the limits, and detects their protocol.
//!
//! It answers only refused connections: `super::connection` serves HTTP/1, pingora splits HTTP/2 into streams, and
//! [`super::public`] answers. Callers: [`crate::app`] hands it to pingora.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::H2Options;
use pingora::protocols::{ALPN, Stream};
use pingora::server::ShutdownWatch;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::futures::Notified;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::answer::head::{Lines, Persistence};

use super::connection::{self, HEAD_DEADLINE, KEEPALIVE, READ_TIMEOUT, peer_of};
use super::connections::{Connections, Full, Guest};
use super::farewell;
use super::public::Public;
use super::write::WRITE_TIMEOUT;

/// The preface of HTTP/2 (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long a closing HTTP/2 connection may take to finish its streams.
const LAST_STREAMS: Duration = Duration::from_secs(5);
/// How many refused connections get an answer at once; others are closed.
const TOLD_AT_ONCE: usize = 64;
/// How long a refused connection may take to send a request.
const ASKS_WITHIN: Duration = Duration::from_secs(1);

/// One HTTP/2 stream after the other, of one connection: [`Public`] answers each through pingora's session.
struct Http2 {
    public: Arc<Public>,
    options: HttpServerOptions,
    guest: Arc<Guest>,
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
        let _works = self.guest.stream();
        if !session.read_request().await.ok()? {
            return None;
        }
        let _busy = self.public.in_flight.enter();
        let peer = session.client_addr().and_then(|address| address.as_inet());
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SocketAddr::ip);
        self.public.exchange(&mut session, peer).await.ok()?;
        if let Err(error) = session.finish().await {
            tracing::debug!(%error, "a stream failed");
        }
        None
    }

    fn h2_options(&self) -> Option<H2Options> {
        let mut options = pingora::protocols::http::v2::server::default_h2_options();
        options.max_concurrent_streams(128);
        // A slightly too large header gets our own answer.
        let head = u32::try_from(self.public.answers.rules.head).unwrap_or(u32::MAX);
        options.max_header_list_size(head.saturating_add(16 << 10));
        Some(options)
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }
}

/// Detects HTTP/2 with prior knowledge by the first bytes of a connection, within a deadline: pingora would wait for 24
/// bytes, which a short request never sends. Over TLS the protocol is negotiated ([`super::tls`]).
pub(crate) struct Gate {
    public: Arc<Public>,
    /// Of all public listeners.
    connections: Connections,
    telling: Semaphore,
}

impl Gate {
    /// A gate before the public listener's state.
    pub(crate) fn new(public: &Arc<Public>, connections: &Connections) -> Self {
        let telling = Semaphore::new(TOLD_AT_ONCE);
        Self { public: public.clone(), connections: connections.clone(), telling }
    }

    /// The household of a connection from this address; `None` for a trusted proxy.
    pub(super) fn counts_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let trusted = self.public.answers.rules.client_ip.trusts(peer.to_canonical());
        self.connections.household(Some(peer).filter(|_| !trusted))
    }

    /// Admits a connection.
    ///
    /// # Errors
    /// At the limit.
    pub(super) fn admit(&self, peer: IpAddr) -> Result<Guest, Full> {
        let admitted = self.connections.admit(self.counts_for(peer));
        if let Err(full) = &admitted {
            tracing::debug!(%peer, limit = full.as_str(), "a connection was refused: the limit is reached");
        }
        admitted
    }

    /// Serves an admitted connection.
    pub(super) async fn serve(&self, mut stream: Stream, guest: Guest, shutdown: &ShutdownWatch) {
        let guest = Arc::new(guest);
        let mut leave = pin!(guest.told_to_leave());
        if matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
            return self.http2(stream, &guest, leave, shutdown).await;
        }
        let is_http2 = tokio::select! {
            biased;
            is_http2 = timeout(HEAD_DEADLINE, begins_http2(&mut stream)) => is_http2,
            () = leave.as_mut() => return,
        };
        match is_http2 {
            Ok(Ok(true)) => self.http2(stream, &guest, leave, shutdown).await,
            Ok(Ok(false)) => connection::serve(&self.public, stream, &guest, leave, shutdown).await,
            Ok(Err(_)) | Err(_) => {}
        }
    }

    async fn http2(&self, stream: Stream, guest: &Arc<Guest>, leave: Pin<&mut Notified<'_>>, shutdown: &ShutdownWatch) {
        let _open = self.public.in_flight.connect();
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        options.h2_idle_timeout = Some(KEEPALIVE);
        let app = Arc::new(Http2 { public: self.public.clone(), options, guest: guest.clone() });
        let mut shutdown = shutdown.clone();
        let (stop, stopping) = watch::channel(*shutdown.borrow());
        let mut serving = pin!(app.process_new(stream, &stopping));
        tokio::select! {
            _ended = serving.as_mut() => return,
            () = leave => {}
            _changed = shutdown.changed() => {}
        }
        // Its streams are answered, and the client is told that no more are accepted. The receiver may be gone.
        let _told = stop.send(true);
        if guest.is_closing() || *shutdown.borrow() {
            serving.await;
        } else {
            let _ended = timeout(LAST_STREAMS, serving).await;
        }
    }

    /// Answers a refused connection with 503, if it is HTTP/1 and few others are refused.
    async fn turn_away(&self, mut stream: Stream, peer: IpAddr, full: Full) {
        let Ok(_telling) = self.telling.try_acquire() else { return };
        if !matches!(timeout(ASKS_WITHIN, begins_http2(&mut stream)).await, Ok(Ok(false))) {
            return;
        }
        let (answer, now) = self.public.answers.turn_away(peer, full.most(), Lines::default()).await;
        let mut head = answer.head;
        head.end(now.http_date().as_deref().map(str::as_bytes), Persistence::Close);
        let sent = timeout(ASKS_WITHIN, async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&answer.body.unwrap_or_default()).await?;
            stream.flush().await
        });
        if matches!(sent.await, Ok(Ok(()))) {
            farewell::take_leave(stream).await;
        }
    }
}

/// Whether a connection begins like HTTP/2; the bytes are read again.
async fn begins_http2(stream: &mut Stream) -> std::io::Result<bool> {
    let mut start = [0; 3];
    if !stream.try_peek(&mut start).await? || start != PREFACE[..3] {
        return Ok(false);
    }
    // Pingora would serve a similar beginning as HTTP/1, without our bounds.
    let mut preface = [0; PREFACE.len()];
    stream.try_peek(&mut preface).await?;
    Ok(preface == *PREFACE)
}

#[async_trait]
impl ServerApp for Gate {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let peer = peer_of(&stream);
        match self.admit(peer) {
            Ok(guest) => self.serve(stream, guest, shutdown).await,
            Err(full) => self.turn_away(stream, peer, full).await,
        }
        None
    }

    async fn cleanup(&self) {
        self.connections.close();
    }
}
