//! Connections over TCP and TLS, verified by [`super::trust`], directly or through an HTTP proxy.
//!
//! A proxy is asked for http in absolute form, and for https by CONNECT (RFC 9110 §9.3.6, RFC 9112 §3.2.2).
//! Callers: [`super::wire`]; [`crate::fleet`] for object stores; [`crate::cli`] for requests to a running server.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Context, Poll};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt as _, TryFutureExt as _};
use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::DuplexStream;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_service::Service;

use crate::config::{Proxy, proxy_name};

use super::ask::SPEAKS_TLS;

/// How long a connection may be silent before the system checks that its peer is there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How many names of servers are looked up at once.
const LOOKUPS: usize = 16;

type BoxError = Box<dyn Error + Send + Sync>;

/// Connects over TCP, with TLS where the URL asks for it, within a time.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<Route>,
    timeout: Duration,
    proxy: Proxy,
}

impl Connector {
    /// Over TLS as in `tls`; without protocols in it, HTTP/1.1 alone is spoken.
    pub(crate) fn new(timeout: Duration, tls: ClientConfig, proxy: Proxy) -> Self {
        Self::over(None, timeout, tls, proxy)
    }

    /// The same; with a pipe, every connection is one of it.
    pub(super) fn over(pipe: Option<Pipe>, timeout: Duration, tls: ClientConfig, proxy: Proxy) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::default());
        tcp.set_connect_timeout(Some(timeout));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let mut tls_to_proxy = tls.clone();
        // A tunnel is not asked for over HTTP/2.
        tls_to_proxy.alpn_protocols.clear();
        let to_proxy = HttpsConnector::from((tcp.clone(), tls_to_proxy));
        let route = Route { pipe, tcp, to_proxy, proxy: proxy.clone() };
        Self { https: HttpsConnector::from((route, tls)), timeout, proxy }
    }

    pub(super) const fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<MarkedStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, limit) = (self.https.call(uri), self.timeout);
        Box::pin(async move {
            let late = |_elapsed| {
                let why = format!("there is no connection after {} s", limit.as_secs_f32());
                Err(io::Error::new(ErrorKind::TimedOut, why).into())
            };
            timeout(limit, connecting).await.unwrap_or_else(late)
        })
    }
}

/// Whether a connection gave an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Arc<AtomicBool>);

impl Answers {
    pub(super) fn came(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Why a proxy does not lead anywhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    #[error("the proxy {proxy} cannot be reached")]
    Unreached { proxy: String, source: BoxError },
    #[error(
        "the proxy {proxy} requires a user name and a password; write its address as http://USER:PASSWORD@HOST:PORT"
    )]
    Anonymous { proxy: String },
    #[error("the proxy {proxy} refuses the user name and the password in its address")]
    Forbidden { proxy: String },
    #[error("the proxy {proxy} does not connect to {to}")]
    Refused { proxy: String, to: String, source: BoxError },
}

impl ProxyError {
    /// It answered 407.
    pub(super) fn unauthorized(proxy: &Intercept) -> Self {
        let name = proxy_name(proxy);
        if proxy.basic_auth().is_some() { Self::Forbidden { proxy: name } } else { Self::Anonymous { proxy: name } }
    }

    fn unreached(proxy: &Intercept, source: impl Into<BoxError>) -> Self {
        Self::Unreached { proxy: proxy_name(proxy), source: source.into() }
    }
}

/// Looks up names as the system does. While the DNS servers are silent, each lookup occupies a thread, also when nobody
/// waits for it any more; so there are only a few at a time.
#[derive(Clone)]
struct Resolver {
    system: GaiResolver,
    running: Arc<Semaphore>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self { system: GaiResolver::new(), running: Arc::new(Semaphore::new(LOOKUPS)) }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (mut system, running) = (self.system.clone(), self.running.clone());
        Box::pin(async move {
            let turn = running.acquire_owned().await?;
            let looking_up = tokio::spawn(async move {
                let _until_done = turn;
                system.call(name).await
            });
            Ok(looking_up.await??.collect::<Vec<_>>().into_iter())
        })
    }
}

type Tcp = HttpConnector<Resolver>;

/// Opens a connection to an origin in the same process: its end of a pipe.
pub type Pipe = Arc<dyn Fn() -> DuplexStream + Send + Sync>;

/// Opens connections to servers, or to the proxies on the way to them.
#[derive(Clone)]
struct Route {
    /// Where every connection goes, if set.
    pipe: Option<Pipe>,
    tcp: Tcp,
    to_proxy: HttpsConnector<Tcp>,
    proxy: Proxy,
}

/// The library does not export the name.
type TunnelError = <Tunnel<HttpsConnector<Tcp>> as Service<Uri>>::Error;

impl Service<Uri> for Route {
    type Response = MarkedStream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<MarkedStream, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let is_plain = uri.scheme() != Some(&Scheme::HTTPS);
        let marked = move |stream, is_proxied| {
            let answers = Answers::default();
            MarkedStream { stream, is_proxied, is_new_and_plain: is_plain, answers }
        };
        let tcp = |stream| Bytes::Tcp(Box::new(stream));
        if let Some(pipe) = &self.pipe {
            return ready(Ok(marked(Bytes::Memory(TokioIo::new(pipe())), false))).boxed();
        }
        let Some(proxy) = self.proxy.on_the_way_to(&uri) else {
            let direct = self.tcp.call(uri);
            return direct.map_ok(move |stream| marked(tcp(MaybeHttpsStream::Http(stream)), false)).err_into().boxed();
        };
        if is_plain {
            let connecting = self.to_proxy.call(proxy.uri().clone());
            let failed = move |error| ProxyError::unreached(&proxy, error).into();
            return connecting.map_ok(move |stream| marked(tcp(stream), true)).map_err(failed).boxed();
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.to_proxy.clone());
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let to = uri.authority().map(ToString::to_string).unwrap_or_default();
        let failed = move |error| {
            let why = match error {
                TunnelError::ConnectFailed(source) => ProxyError::unreached(&proxy, source),
                TunnelError::ProxyAuthRequired => ProxyError::unauthorized(&proxy),
                error => ProxyError::Refused { proxy: proxy_name(&proxy), to, source: error.into() },
            };
            why.into()
        };
        tunnel.call(uri).map_ok(move |stream| marked(tcp(stream), false)).map_err(failed).boxed()
    }
}

pub(crate) struct MarkedStream {
    stream: Bytes,
    /// Whether a proxy takes requests from it, in absolute form.
    is_proxied: bool,
    /// Whether nothing was read yet from a connection without TLS.
    is_new_and_plain: bool,
    answers: Answers,
}

/// What carries the bytes of a connection.
enum Bytes {
    Tcp(Box<MaybeHttpsStream<TokioIo<TcpStream>>>),
    /// A pipe to an origin in the same process.
    Memory(TokioIo<DuplexStream>),
}

impl Bytes {
    fn pinned(&mut self) -> Pin<&mut (dyn ReadWrite + '_)> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Memory(pipe) => Pin::new(pipe),
        }
    }
}

trait ReadWrite: Read + Write + Unpin {}
impl<T: Read + Write + Unpin> ReadWrite for T {}

impl Connection for MarkedStream {
    fn connected(&self) -> Connected {
        let connected = match &self.stream {
            Bytes::Tcp(stream) => stream.connected(),
            Bytes::Memory(_) => Connected::new(),
        };
        connected.proxy(self.is_proxied).extra(self.answers.clone())
    }
}

impl Read for MarkedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_new_and_plain || buffer.remaining() < 2 {
            return self.stream.pinned().poll_read(context, buffer);
        }
        // Alone, to look at them: the HTTP library does not show what it cannot parse.
        let mut first = [0; 2];
        let mut read = ReadBuf::new(&mut first);
        task::ready!(self.stream.pinned().poll_read(context, read.unfilled()))?;
        self.is_new_and_plain = false;
        // An alert or a handshake, of any version (RFC 8446 §5.1).
        if matches!(read.filled(), [21 | 22, 3]) {
            return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, SPEAKS_TLS)));
        }
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for MarkedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.pinned().poll_write(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        // Without this, the HTTP library copies the bodies of requests, and nobody counts the copies.
        match &self.stream {
            Bytes::Tcp(stream) => stream.is_write_vectored(),
            Bytes::Memory(pipe) => pipe.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.pinned().poll_write_vectored(context, parts)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.pinned().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.pinned().poll_shutdown(context)
    }
}
