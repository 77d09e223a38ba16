//! TLS handshakes, within a deadline, before [`super::gate`].
//!
//! Pingora's own TLS listener would allow a minute per handshake and any number of them, log every failing client as an
//! error, and use the process's default cryptography. Callers: [`crate::server`].

pub(crate) mod certificate;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::apps::ServerApp;
use pingora::listeners::tls::Acceptor;
use pingora::protocols::l4::stream::Stream as Tcp;
use pingora::protocols::{ALPN, Peek as _, Ssl as _, Stream};
use pingora::server::ShutdownWatch;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::server::ResolvesServerCert;
use tokio::io::AsyncReadExt as _;

use crate::tasks::at_once;
use crate::tasks::fair::FairSemaphore;

use super::gate::{Arrival, Gate, PREFACE};

/// How long a connection may take, in all, until its first bytes of HTTP.
const DEADLINE: Duration = Duration::from_secs(10);
/// Hellos that are answered at the same time; further ones wait, within the deadline. A place is held for the work alone, a few
/// milliseconds at most, and not while the server waits for the client.
const AT_ONCE: usize = 32;
/// The share of one household in it.
const SHARE: usize = 2;
/// How long a client may take from its hello to the end of the handshake.
const SECOND_FLIGHT: Duration = Duration::from_secs(3);
/// The first byte of TLS: a record of the kind "handshake" (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// The longest unencrypted record (RFC 8446 §5.1), in bytes.
const MOST_RECORD: usize = 1 << 14;
/// The cryptography of this process, for TLS in both directions.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

/// Why there is no TLS, for the log.
type Refused = Box<dyn std::error::Error + Send + Sync>;

const NOT_TLS: &str = "the client does not speak TLS";

/// Makes TLS connections and hands them to a [`Gate`].
pub(crate) struct TlsGate {
    acceptor: Acceptor,
    handshakes: FairSemaphore,
    gate: Arc<Gate>,
}

impl TlsGate {
    /// In front of `gate`, with the certificates of `resolver`. TLS 1.2 and 1.3; sessions are resumed by tickets.
    pub(crate) fn new(
        gate: Gate,
        provider: Arc<CryptoProvider>,
        resolver: Arc<dyn ResolvesServerCert>,
    ) -> Result<Self, rustls::Error> {
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = Ticketer::new()?;
        let acceptor = Acceptor::from_server_config(Arc::new(config));
        Ok(Self { acceptor, handshakes: FairSemaphore::new(AT_ONCE, SHARE), gate: Arc::new(gate) })
    }

    async fn establish(&self, mut tcp: Tcp, peer: IpAddr) -> Result<Stream, Refused> {
        let mut first = [0];
        tcp.try_peek(&mut first).await?;
        if first[0] != HANDSHAKE {
            if first[0].is_ascii_uppercase() {
                self.gate.refuse_plain(tcp, peer).await;
            }
            return Err(NOT_TLS.into());
        }
        hello(&mut tcp).await?;
        let place = self.handshakes.take(self.gate.counts_for(peer), 1).await?;
        let mut handshake = pin!(pingora_timeout::timeout(SECOND_FLIGHT, self.acceptor.tls_handshake(tcp)));
        // The hello is here, so the first poll answers it. From then on the server waits for the client.
        let answered = at_once(&mut handshake).await;
        drop(place);
        let handshake = if let Some(ended) = answered { ended } else { handshake.await };
        let mut stream = handshake.map_err(|_elapsed| "the client stopped during the handshake")??;
        if !matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
            return Ok(Box::new(stream));
        }
        // The HTTP/2 code waits for this without a deadline; the outbox lets it read it again.
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).await?;
        if preface != *PREFACE {
            return Err("the client agreed on HTTP/2, but sends something else".into());
        }
        Ok(Box::new(stream))
    }
}

#[async_trait]
impl ServerApp for TlsGate {
    async fn process_new(self: &Arc<Self>, stream: Stream, _: &ShutdownWatch) -> Option<Stream> {
        let Arrival { stream, peer, admitted } = self.gate.arrive(stream).await?;
        let Ok(connection) = admitted else { return None };
        let Ok(tcp) = stream.into_any().downcast::<Tcp>() else {
            tracing::error!("a connection to the HTTPS listener is not TCP");
            return None;
        };
        let established = {
            let leave = pin!(connection.told_to_leave());
            let handshake = pingora_timeout::timeout(DEADLINE, self.establish(*tcp, peer));
            tokio::select! {
                established = handshake => established,
                () = leave => return None,
            }
        };
        let stream = match established {
            Ok(Ok(stream)) => stream,
            Ok(Err(why)) => {
                tracing::debug!(%why, "a connection failed before TLS began");
                return None;
            }
            Err(_elapsed) => {
                tracing::debug!("a TLS handshake took too long");
                return None;
            }
        };
        self.gate.serve(stream, connection).await;
        None
    }
}

/// Waits for the whole of the first record, which is read again by the handshake.
async fn hello(tcp: &mut Tcp) -> Result<(), Refused> {
    // RFC 8446 §5.1: kind, version, length.
    let mut record = vec![0; 5];
    tcp.read_exact(&mut record).await?;
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    if length > MOST_RECORD {
        return Err(NOT_TLS.into());
    }
    // At most 16 KiB for each connection, until DEADLINE has passed.
    record.resize(5 + length, 0);
    tcp.read_exact(&mut record[5..]).await?;
    tcp.rewind(&record);
    Ok(())
}
