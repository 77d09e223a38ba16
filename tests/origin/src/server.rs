//! The server: accepts connections and takes each request through delay, log, limit, fault and answer, in this order.
//!
//! HTTP/1.1 with keep-alive, and HTTP/2 with prior knowledge. `answer` decides the content, `wire` its form. Callers:
//! [`Origin`](super::Origin).

use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, RwLock};
use sample::dice::Dice;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::answer::{Answer, Context};
use super::cdn::{Copies, Copy, age_of};
use super::clock::Clock;
use super::etag::none_match_hits;
use super::fault::{Asked, Mishap, strike};
use super::limit::Limit;
use super::log::{Log, Seen};
use super::switches::{Cdn, CopyHeader, Switches};
use super::wire::{self, Body, Times};
use super::world::World;

/// Shared by all requests.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) addr: SocketAddr,
    pub(super) clock: Clock,
    pub(super) world: RwLock<World>,
    pub(super) switches: RwLock<Arc<Switches>>,
    pub(super) log: Mutex<Log>,
    pub(super) limit: Mutex<Limit>,
    pub(super) copies: Mutex<Copies>,
    pub(super) dice: Mutex<Dice>,
    pub(super) nonce: AtomicU64,
}

/// A second handle on a connection, for what the library would not send; `None` if the system gives none.
pub(super) type Twin = Option<Arc<StdStream>>;

/// The same connection twice.
fn twins(stream: TcpStream) -> io::Result<(TcpStream, Twin)> {
    let stream = stream.into_std()?;
    let twin = stream.try_clone().ok().map(Arc::new);
    Ok((TcpStream::from_std(stream)?, twin))
}

/// Accepts until told to stop, then cuts all connections.
pub(super) async fn accept(shared: Arc<Shared>, listener: TcpListener, mut stop: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    connections.spawn(serve(Arc::clone(&shared), stream, client));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: no reason to spin.
                    tracing::warn!(%error, "the sample origin cannot accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, client: SocketAddr) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let (stream, twin) = match twins(stream) {
        Ok(twins) => twins,
        Err(error) => return tracing::warn!(%error, "a connection of the sample origin failed"),
    };
    answer(shared, stream, twin, client).await;
}

/// Answers the requests of one connection.
pub(super) async fn answer(
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    twin: Twin,
    client: SocketAddr,
) {
    let service = service_fn(move |request| handle(Arc::clone(&shared), client, twin.clone(), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    // Here, errors come from faults and impatient clients.
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!(error = %error, "a connection ended early");
    }
}

async fn handle(
    shared: Arc<Shared>,
    client: SocketAddr,
    twin: Twin,
    request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    shared.exchange(client, request.method(), target, request.headers(), &twin).await
}

impl Shared {
    /// One request from arrival to the head of its answer: delay, log, limit, fault, answer, delay.
    pub(super) async fn exchange(
        &self,
        client: SocketAddr,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        twin: &Twin,
    ) -> io::Result<Response<Body>> {
        self.jitter().await;
        let now = Instant::now();
        let entry = self.log.lock().arrived(seen(now, client, method, target, headers));
        let switches = Arc::clone(&*self.switches.read());
        let admitted = switches.refuse_61st.map_or(Ok(()), |most| self.limit.lock().admit(client.ip(), most, now));
        let response = if let Err(wait) = admitted {
            self.log.lock().refused += 1;
            Ok(wire::too_many(method, Some(wait.as_secs_f64().ceil().max(1.0) as u64)))
        } else {
            match self.strike(&switches, target) {
                None => Ok(self.answer(&switches, method, target, headers).await),
                Some(mishap) => {
                    let connection = twin.as_deref();
                    let asked = Asked { shared: self, switches: &switches, method, target, headers, connection };
                    mishap.befall(&asked).await
                }
            }
        };
        self.jitter().await;
        if let Ok(response) = &response {
            self.log.lock().answered(entry, response.status().as_u16());
        }
        response
    }

    fn origin_time(&self, switches: &Switches) -> Timestamp {
        let ahead = SignedDuration::from_secs(switches.clock_ahead);
        self.clock.now().saturating_add(ahead).unwrap_or(Timestamp::MAX)
    }

    /// The base address, with prefix.
    pub(super) fn url(&self, switches: &Switches) -> String {
        format!("http://{}{}", self.addr, switches.mount())
    }

    /// Answer and origin time for `target`, from the world as it is now.
    pub(super) fn make(&self, switches: &Switches, target: &str, nonce: u64) -> (Answer, Timestamp) {
        let base = self.url(switches);
        // Taken before the world is read: the answer speaks for this instant or a later one.
        let now = self.origin_time(switches);
        let world = self.world.read();
        (Context { world: &world, switches, base: &base, now, nonce }.answer(target), now)
    }

    /// The text of the right answer now, past the CDN.
    pub(super) fn text(&self, switches: &Switches, target: &str) -> String {
        self.make(switches, target, self.nonce.fetch_add(1, Ordering::Relaxed)).0.body.text
    }

    /// The right answer.
    pub(super) async fn answer(
        &self,
        switches: &Switches,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
    ) -> Response<Body> {
        if method != Method::GET && method != Method::HEAD {
            return wire::not_allowed(method);
        }
        let gzip = switches.gzip && accepts_gzip(headers);
        let (copy, times) = match &switches.cdn {
            None => {
                let copy = self.copy(switches, target, gzip);
                let times = Times { date: http_date(copy.made_at), age: None, hit: None };
                (copy, times)
            }
            Some(cdn) => self.copy_of_cdn(switches, cdn, target, gzip),
        };
        let asked = text_of(headers, &IF_NONE_MATCH);
        let not_modified = match (asked, &copy.etag) {
            (Some(asked), Some(tag)) => none_match_hits(&asked, tag),
            _ => false,
        };
        if !switches.latency.is_zero() {
            tokio::time::sleep(switches.latency).await;
        }
        wire::respond(method, &copy, not_modified, switches, &times)
    }

    fn copy(&self, switches: &Switches, target: &str, gzip: bool) -> Copy {
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed);
        let made = Instant::now();
        let (answer, made_at) = self.make(switches, target, nonce);
        Copy::of(&answer, gzip, switches.etags, nonce, made, made_at)
    }

    fn copy_of_cdn(&self, switches: &Switches, cdn: &Cdn, target: &str, gzip: bool) -> (Copy, Times) {
        let node = self.dice.lock().below(u64::from(cdn.nodes.max(1))) as u32;
        let key = (node, target.to_owned(), gzip);
        let header = switches.copy_header;
        let kept = self.copies.lock().get(&key, cdn.max_age, Instant::now());
        let fetch = || {
            let copy = self.copy(switches, target, gzip);
            self.copies.lock().put(key, &copy, cdn.max_age);
            copy
        };
        let (copy, hit) = match kept {
            Some((copy, true)) => (copy, true),
            Some((copy, false)) if matches!(header, CopyHeader::Silent { updating: true, .. }) => {
                fetch();
                (copy, true)
            }
            _ => (fetch(), false),
        };
        // `Date` before `Age`: then `Date - Age` is never later than the truth.
        let date = if header == CopyHeader::OriginDate { copy.made_at } else { self.origin_time(switches) };
        let (has_age, says_so) = match header {
            CopyHeader::Silent { says_so, .. } => (false, says_so),
            CopyHeader::OwnDate | CopyHeader::OriginDate => (true, true),
        };
        let age = has_age.then(|| if hit { age_of(&copy, Instant::now()) } else { 0 });
        (copy, Times { date: http_date(date), age, hit: says_so.then_some(hit) })
    }

    fn strike(&self, switches: &Switches, target: &str) -> Option<Arc<dyn Mishap>> {
        if switches.faults.is_empty() {
            return None;
        }
        let target = target.strip_prefix(switches.mount().as_str()).unwrap_or(target);
        let mut current = self.switches.write();
        strike(&mut Arc::make_mut(&mut current).faults, target, &mut self.dice.lock())
    }

    async fn jitter(&self) {
        let (least, most) = self.switches.read().jitter_ms;
        if most > 0 {
            let span = most.saturating_sub(least).saturating_add(1);
            let millis = least.saturating_add(self.dice.lock().below(span));
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }
}

fn seen(at: Instant, client: SocketAddr, method: &Method, target: &str, headers: &HeaderMap) -> Seen {
    Seen {
        at: at.into_std(),
        client,
        method: method.to_string(),
        path_and_query: target.to_owned(),
        conditional: headers.contains_key(IF_NONE_MATCH),
        status: 0,
        accept_encoding: text_of(headers, &ACCEPT_ENCODING),
        user_agent: text_of(headers, &USER_AGENT),
        headers: headers.clone(),
    }
}

/// The value of a header, its lines joined; `None` if absent or no text.
fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines: Vec<_> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// Whether `Accept-Encoding` names gzip with a weight above 0. No finer: the origin has nothing else.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let Some(codings) = text_of(headers, &ACCEPT_ENCODING) else { return false };
    codings.to_ascii_lowercase().split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
        matches!(name.trim(), "gzip" | "x-gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

fn http_date(at: Timestamp) -> String {
    DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap_or_default()
}
