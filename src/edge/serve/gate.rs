//! Acceptance of connections within the limits, behind load balancers too, and detection of their protocol.
//!
//! It answers only refused connections: `super::connection` serves HTTP/1, and `super::http2` HTTP/2.
//! [`crate::protocol::proxy_protocol`] parses the PROXY protocol header: a connection that lacks a proper one is closed
//! without an answer, counted, and reported at most once a minute. Callers: [`crate::server`] hands it to pingora.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf as _, BytesMut};
use pingora::apps::ServerApp;
use pingora::protocols::l4::stream::Stream as Tcp;
use pingora::protocols::{ALPN, GetSocketDigest as _, SocketDigest, Stream};
use pingora::server::ShutdownWatch;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::clock::Monotonic;
use crate::edge::answer::compose::Answer;
use crate::edge::answer::write::Persistence;
use crate::protocol::problem::Problem;
use crate::protocol::proxy_protocol;
use crate::protocol::proxy_protocol::{BadHeader, Header};
use crate::telemetry::counters::ByLabels;
use crate::telemetry::throttle::LogThrottle;

use super::connection::{HEAD_DEADLINE, peer_of};
use super::connections::{Connection, Connections, Full};
use super::{Public, connection, http2, write};

/// The preface of HTTP/2 (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// For each listener, beyond the limit on connections: 64 descriptors, each for some 12 s (1 s for the request, 1 s
// for the answer, 10 s to close).
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

pub(super) struct Arrival {
    /// Its bytes, without the PROXY protocol header.
    pub stream: Stream,
    /// The TCP peer, or the client that a load balancer announced.
    pub peer: IpAddr,
    pub admitted: Result<Connection, Full>,
}

impl Gate {
    pub(crate) fn new(public: &Arc<Public>, connections: &Connections, headers: Option<Arc<ProxyHeaders>>) -> Self {
        let telling = Semaphore::new(TOLD_AT_ONCE);
        Self { public: public.clone(), connections: connections.clone(), headers, telling }
    }

    fn trusts(&self, peer: IpAddr) -> bool {
        self.public.answers.in_force.load().rules.client_ip.trusts(peer.to_canonical())
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
                Arrival { stream, peer, admitted: self.connections.admit(self.counts_for(peer)).await }
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
            headers.refuse(proxy, Refusal::Untrusted, self.public.answers.clock.now_mono());
            return None;
        }
        // It counts from now on; for a household as soon as that is known.
        let mut connection = match self.connections.admit(None).await {
            Ok(connection) => connection,
            Err(full) => return Some(Arrival { stream, peer: proxy, admitted: Err(full) }),
        };
        let Ok(mut tcp) = stream.into_any().downcast::<Tcp>() else {
            tracing::error!("a connection to a public listener is not TCP");
            return None;
        };
        let taken = tokio::select! {
            // Not cancel-safe, which does no harm: a connection that must leave is dropped.
            taken = take(&mut tcp) => taken,
            () = connection.told_to_leave() => return None,
        };
        match taken {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                headers.refuse(proxy, why, self.public.answers.clock.now_mono());
                return None;
            }
        }
        let stream: Stream = tcp;
        let peer = peer_of(&stream);
        let admitted = connection.stand_for(self.counts_for(peer)).map(|()| connection);
        Some(Arrival { stream, peer, admitted })
    }

    pub(super) async fn serve(&self, mut stream: Stream, connection: Connection) {
        let connection = Arc::new(connection);
        let mut leave = pin!(connection.told_to_leave());
        // Only TLS negotiates, and it has read the preface.
        if matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
            return http2::serve(&self.public, stream, PREFACE, &connection, leave).await;
        }
        let is_http2 = tokio::select! {
            biased;
            // First, so that a request that has arrived is answered. Bytes that were peeked at are read again.
            is_http2 = timeout(HEAD_DEADLINE, begins_http2(&mut stream)) => is_http2,
            () = leave.as_mut() => return,
        };
        match is_http2 {
            Ok(Ok(true)) => http2::serve(&self.public, stream, b"", &connection, leave).await,
            Ok(Ok(false)) => connection::serve(&self.public, stream, &connection, leave).await,
            Ok(Err(_)) | Err(_) => {}
        }
    }

    /// Answers a refused connection with 503, if it is HTTP/1 and few others are refused.
    async fn turn_away(&self, mut stream: Stream, peer: IpAddr, full: Full) {
        let Ok(_telling) = self.telling.try_acquire() else { return };
        if !matches!(timeout(ASKS_WITHIN, begins_http2(&mut stream)).await, Ok(Ok(false))) {
            return;
        }
        self.say(stream, self.public.answers.turn_away(peer, full.most()).await).await;
    }

    /// Sends an answer to a connection that then ends.
    async fn say(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: Answer) {
        let (mut head, body) = (Vec::new(), answer.body.bytes());
        self.public.answers.in_force.load().constant_headers.http1(&answer, Persistence::Close, &mut head);
        let sent = timeout(ASKS_WITHIN, async {
            stream.write_all(&head).await?;
            stream.write_all(body).await?;
            stream.flush().await
        });
        if matches!(sent.await, Ok(Ok(()))) {
            write::lingering_close(stream).await;
        }
    }

    /// Answers HTTP without TLS on a listener for HTTPS.
    pub(super) async fn refuse_plain(&self, stream: Tcp, peer: IpAddr) {
        self.say(stream, self.public.answers.refuse(peer, Problem::not_tls()).await).await;
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
    async fn process_new(self: &Arc<Self>, stream: Stream, _: &ShutdownWatch) -> Option<Stream> {
        let Arrival { stream, peer, admitted } = self.arrive(stream).await?;
        match admitted {
            Ok(connection) => self.serve(stream, connection).await,
            Err(full) => self.turn_away(stream, peer, full).await,
        }
        None
    }
}

/// How long a header may take, counted from accept.
const DEADLINE: Duration = Duration::from_secs(3);
/// Room for the first read, in bytes: nearly every header fits.
const FIRST: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the peer is not in client_ip.trusted_proxies")]
    Untrusted,
    #[error(transparent)]
    Bad(#[from] BadHeader),
    #[error("the connection ended within the PROXY protocol header")]
    Cut,
    #[error("the PROXY protocol header did not arrive within 3 s")]
    Late,
}

impl Refusal {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Bad(BadHeader::Missing) => "missing",
            Self::Bad(BadHeader::TooLong { .. }) => "too-long",
            Self::Bad(BadHeader::Malformed) => "malformed",
            Self::Cut => "cut",
            Self::Late => "late",
        }
    }
}

/// Reads the headers of all public listeners, and keeps the count of refused connections.
pub(crate) struct ProxyHeaders {
    refused: ByLabels<&'static str>,
    throttle: LogThrottle,
}

impl ProxyHeaders {
    pub(crate) fn new(refused: ByLabels<&'static str>) -> Self {
        Self { refused, throttle: LogThrottle::default() }
    }

    /// Counts and reports a connection that is closed.
    pub(super) fn refuse(&self, peer: IpAddr, why: Refusal, now: Monotonic) {
        self.refused.add(why.as_str(), 1);
        if let Some(connections) = self.throttle.count(now) {
            tracing::warn!(%peer, connections, %why, "connections were closed because of the PROXY protocol");
        }
    }
}

/// Reads the header of a connection, whose peer is from then on the announced client. `false`: the peer closed the
/// connection before its first byte, as health checks do. Fails when the header takes longer than [`DEADLINE`].
pub(super) async fn take(tcp: &mut Tcp) -> Result<bool, Refusal> {
    let Some((announced, rest)) = timeout(DEADLINE, read(tcp)).await.map_err(|_elapsed| Refusal::Late)?? else {
        return Ok(false);
    };
    tcp.rewind(&rest);
    if let Some(client) = announced {
        let digest = SocketDigest::from_raw_fd(tcp.as_raw_fd());
        // The cell is new and thus empty.
        let _set = digest.peer_addr.set(Some(client.into()));
        tcp.set_socket_digest(digest);
    }
    Ok(true)
}

/// The announced client, if any, and the client's own first bytes, as far as they were read with the header. `None`: there
/// was no byte at all.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<(Option<SocketAddr>, BytesMut)>, Refusal> {
    let mut bytes = BytesMut::with_capacity(FIRST);
    loop {
        if let Header::Complete { length, announced } = proxy_protocol::read(&bytes)? {
            bytes.advance(length);
            return Ok(Some((announced, bytes)));
        }
        if bytes.len() == bytes.capacity() {
            bytes.reserve(bytes.len());
        }
        match stream.read_buf(&mut bytes).await {
            Ok(1..) => {}
            Ok(0) | Err(_) if bytes.is_empty() => return Ok(None),
            Ok(0) | Err(_) => return Err(Refusal::Cut),
        }
    }
}

#[cfg(test)]
mod proxy_header_tests {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use tokio::io::ReadBuf;

    use super::*;

    /// A connection whose bytes arrive in these pieces, and which then ends or stays silent.
    struct Pieces {
        pieces: Vec<Vec<u8>>,
        ends: bool,
    }

    impl AsyncRead for Pieces {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.pieces.retain(|piece| !piece.is_empty());
            let Some(piece) = self.pieces.first_mut() else {
                return if self.ends { Poll::Ready(Ok(())) } else { Poll::Pending };
            };
            let taken = piece.len().min(buf.remaining());
            buf.put_slice(&piece[..taken]);
            piece.drain(..taken);
            cx.waker().wake_by_ref();
            Poll::Ready(Ok(()))
        }
    }

    type Outcome = Result<Option<(Option<SocketAddr>, Vec<u8>)>, Refusal>;

    /// What is made of these pieces; the rest includes what was not read yet.
    fn read_pieces(pieces: Vec<Vec<u8>>, ends: bool) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let mut stream = Pieces { pieces, ends };
        let outcome = runtime.block_on(async { timeout(DEADLINE, read(&mut stream)).await });
        let outcome = outcome.map_err(|_elapsed| Refusal::Late)??;
        Ok(outcome.map(|(announced, rest)| (announced, [&rest[..], &stream.pieces.concat()].concat())))
    }

    fn split(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
    }

    fn starts() -> impl Strategy<Value = Vec<u8>> {
        let binary = |rest: &[u8]| [&b"\r\n\r\n\0\r\nQUIT\n"[..], rest].concat();
        prop_oneof![
            Just(b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2\r\n".to_vec()),
            Just(b"PROXY UNKNOWN\r\n".to_vec()),
            Just(b"PROXY TCP4 192.0.2.1 nonsense\r\n".to_vec()),
            Just(binary(b"\x20\0\0\0")),
            Just(binary(b"\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x01\0\x01\0\x02")),
            (0usize..4080).prop_map(move |length| {
                let fields = [&[0x21, 0][..], &u16::try_from(length).unwrap().to_be_bytes(), &vec![7; length]].concat();
                binary(&fields)
            }),
            prop::collection::vec(any::<u8>(), 0..20),
            Just(Vec::new()),
        ]
    }

    proptest! {
        #[test]
        fn how_bytes_are_split_changes_nothing_and_none_are_lost(
            start in starts(),
            after in prop::collection::vec(any::<u8>(), 0..600),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            ends: bool,
        ) {
            let bytes = [&start[..], &after].concat();
            let whole = read_pieces(vec![bytes.clone()], ends);
            prop_assert_eq!(&read_pieces(split(&bytes, &cuts), ends), &whole);
            prop_assert_eq!(&read_pieces(bytes.iter().map(|byte| vec![*byte]).collect(), ends), &whole);
            if let Ok(Some((_, rest))) = whole {
                prop_assert!(bytes.ends_with(&rest));
                if start.starts_with(b"PROXY UNKNOWN") {
                    prop_assert_eq!(rest, after, "exactly the header is taken away");
                }
            }
        }
    }

    #[test]
    fn an_end_before_the_first_byte_is_a_health_check_and_one_within_the_header_is_not() {
        assert_eq!(read_pieces(vec![], true), Ok(None));
        for part in ["P", "PROXY", "PROXY TCP4 192.0.2.1", "\r\n\r\n\0\r\nQUIT\n\x20"] {
            assert_eq!(read_pieces(vec![part.into()], true), Err(Refusal::Cut), "{part:?}");
            assert_eq!(read_pieces(vec![part.into()], false), Err(Refusal::Late), "{part:?}");
        }
        assert_eq!(read_pieces(vec![], false), Err(Refusal::Late));
        assert_eq!(read_pieces(vec!["GET".into()], false), Err(Refusal::Bad(BadHeader::Missing)), "at once");
    }

    #[test]
    fn refused_connections_are_reported_once_a_minute_with_their_number() {
        let throttle = LogThrottle::default();
        let told: Vec<_> = [0, 1, 59, 60, 61, 200].map(|at| throttle.count(Monotonic::from_seconds(at))).into();
        assert_eq!(told, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
