//! Accepts connections within the limits, behind load balancers too, and detects their protocol.
//!
//! It answers only refused connections: `super::connection` serves HTTP/1, and `super::http2` HTTP/2. Callers:
//! [`crate::app`] hands it to pingora.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::protocols::l4::stream::Stream as Tcp;
use pingora::protocols::{ALPN, Stream};
use pingora::server::ShutdownWatch;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::answer::head::{Lines, Persistence};

use super::connection::{self, HEAD_DEADLINE, peer_of};
use super::connections::{Connection, Connections, Full};
use super::proxy_header::{self, ProxyHeaders, Refusal};
use super::public::Public;
use super::{farewell, http2};

/// The preface of HTTP/2 (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How many refused connections get an answer at once; others are closed.
const TOLD_AT_ONCE: usize = 64;
/// How long a refused connection may take to send the request that gets the refusal.
const ASKS_WITHIN: Duration = Duration::from_secs(1);

/// Detects HTTP/2 with prior knowledge by the first bytes of a connection, within a deadline: pingora would wait for 24
/// bytes, which a short request never sends. Over TLS the protocol is negotiated ([`super::tls`]).
pub(crate) struct Gate {
    public: Arc<Public>,
    /// Of all public listeners.
    connections: Connections,
    /// Set if connections begin with a PROXY protocol header.
    headers: Option<Arc<ProxyHeaders>>,
    telling: Semaphore,
}

/// A connection that was accepted.
pub(super) struct Arrival {
    /// Its bytes, without the PROXY protocol header.
    pub stream: Stream,
    /// The TCP peer, or the client that a load balancer announced.
    pub peer: IpAddr,
    pub admitted: Result<Connection, Full>,
}

impl Gate {
    /// A gate before the public listener's state.
    pub(crate) fn new(public: &Arc<Public>, connections: &Connections, headers: Option<Arc<ProxyHeaders>>) -> Self {
        let telling = Semaphore::new(TOLD_AT_ONCE);
        Self { public: public.clone(), connections: connections.clone(), headers, telling }
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        self.public.answers.rules.load().client_ip.trusts(peer.to_canonical())
    }

    /// The household of a connection from this address; `None` for a trusted proxy.
    pub(super) fn counts_for(&self, peer: IpAddr) -> Option<IpAddr> {
        self.connections.household(Some(peer).filter(|peer| !self.trusts(*peer)))
    }

    /// Admits a connection within the limits, after its PROXY protocol header if there must be one. `None`: it is closed.
    pub(super) async fn arrive(&self, stream: Stream) -> Option<Arrival> {
        let arrival = match &self.headers {
            None => {
                let peer = peer_of(&stream);
                Arrival { stream, peer, admitted: self.connections.admit(self.counts_for(peer)) }
            }
            Some(headers) => self.arrive_announced(headers, stream).await?,
        };
        if let Err(full) = &arrival.admitted {
            tracing::debug!(peer = %arrival.peer, limit = full.as_str(), "a connection was refused: the limit is reached");
        }
        Some(arrival)
    }

    async fn arrive_announced(&self, headers: &ProxyHeaders, stream: Stream) -> Option<Arrival> {
        let proxy = peer_of(&stream);
        if !self.trusts(proxy) {
            headers.refuse(proxy, Refusal::Untrusted);
            return None;
        }
        // It counts from now on; for a household as soon as that is known.
        let mut connection = match self.connections.admit(None) {
            Ok(connection) => connection,
            Err(full) => return Some(Arrival { stream, peer: proxy, admitted: Err(full) }),
        };
        let Ok(mut tcp) = stream.into_any().downcast::<Tcp>() else {
            tracing::error!("a connection to a public listener is not TCP");
            return None;
        };
        let taken = tokio::select! {
            taken = proxy_header::take(&mut tcp) => taken,
            () = connection.told_to_leave() => return None,
        };
        match taken {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                headers.refuse(proxy, why);
                return None;
            }
        }
        let stream: Stream = tcp;
        let peer = peer_of(&stream);
        let admitted = connection.stand_for(self.counts_for(peer)).map(|()| connection);
        Some(Arrival { stream, peer, admitted })
    }

    /// Serves an admitted connection.
    pub(super) async fn serve(&self, mut stream: Stream, connection: Connection, shutdown: &ShutdownWatch) {
        let connection = Arc::new(connection);
        let mut leave = pin!(connection.told_to_leave());
        if matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
            return http2::serve(&self.public, stream, &connection, leave, shutdown).await;
        }
        let is_http2 = tokio::select! {
            biased;
            is_http2 = timeout(HEAD_DEADLINE, begins_http2(&mut stream)) => is_http2,
            () = leave.as_mut() => return,
        };
        match is_http2 {
            Ok(Ok(true)) => http2::serve(&self.public, stream, &connection, leave, shutdown).await,
            Ok(Ok(false)) => connection::serve(&self.public, stream, &connection, leave, shutdown).await,
            Ok(Err(_)) | Err(_) => {}
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
            farewell::lingering_close(stream).await;
        }
    }
}

/// How long idle connections stay open after a stop, for requests that are under way: half of `drain`, 10 s at most.
pub(crate) fn last_requests(drain: Duration) -> Duration {
    (drain / 2).min(Duration::from_secs(10))
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
        let Arrival { stream, peer, admitted } = self.arrive(stream).await?;
        match admitted {
            Ok(connection) => self.serve(stream, connection, shutdown).await,
            Err(full) => self.turn_away(stream, peer, full).await,
        }
        None
    }

    async fn cleanup(&self) {
        // A request may be under way on a connection that looks idle. Its answer says that the connection ends.
        tokio::time::sleep(last_requests(self.public.answers.finder.settings.load().drain)).await;
        self.connections.close();
    }
}
