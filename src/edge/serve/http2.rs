//! One HTTP/2 connection. The loop that accepts its streams also gives the answers that are ready, and sends them
//! together.
//!
//! The `h2` crate, which pingora brings, splits the connection into streams. Pingora's session is not between: it would
//! copy the head of each answer. A stream whose answer must wait goes on in a task of its own. How long a client may take
//! to read its answers: [`crate::edge::limit::backlog`] says it for each stream, and [`outbox`] for the connection. Callers:
//! [`super::gate`].

mod outbox;

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Method, Request, Response};
use pingora::http::RequestHeader;
use pingora::protocols::Stream;
use pingora::protocols::http::authority::{RawTargetAuthority, raw_target_authority, validate_request_authority};
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, timeout};

use crate::edge::answer::admit::MOST_HEAD;
use crate::edge::answer::compose::{Answer, Body, Rest};
use crate::edge::answer::{Decided, RequestInfo};
use crate::edge::limit::backlog::{Backlog, PIECE, STREAMS};
use crate::protocol::problem::Problem;
use crate::tasks::at_once;

use super::connection::{HEAD_DEADLINE, KEEPALIVE, READ_TIMEOUT, peer_of};
use super::connections::Connection;
use super::write::{Ahead, Broken, pieces};
use super::{Incoming, Public, WAITS, connections, view, weight};
use outbox::Outbox;

/// How many requests of a connection may be in work at once. More than its open streams, because the request of a reset
/// stream goes on for a while.
const IN_WORK: usize = 2 * STREAMS as usize;
/// How many malformed requests end a connection once its answers are sent: as many as in pingora's own loop.
/// [`STREAMS`] more, which may be under way then, end it at once.
const MALFORMED: usize = 32;
/// How often to check whether a busy connection has become idle.
const LOOKS_AGAIN: Duration = Duration::from_secs(1);

/// Serves a connection to its end. `begun`: what was read of it before. When the server begins to stop, it answers its
/// open streams and then closes; when `leave` completes, it closes as soon as it is idle.
pub(super) async fn serve(
    public: &Arc<Public>,
    stream: Stream,
    begun: &'static [u8],
    admitted: &Arc<Connection>,
    leave: Pin<&mut Notified<'_>>,
) {
    let peer = peer_of(&stream);
    let outbox = Outbox::new(stream, begun, admitted, &public.in_flight);
    let answers = |exchange, works| answer(public.clone(), exchange, peer, works);
    streams(outbox, options(), admitted, leave, answers).await;
}

/// Accepts streams and gives them to `answers`, until one side ends the connection, the client does not read, or the
/// connection has been idle for too long.
async fn streams<A: Future<Output = ()> + Send + 'static>(
    outbox: Outbox,
    options: Builder,
    admitted: &Arc<Connection>,
    mut leave: Pin<&mut Notified<'_>>,
    answers: impl Fn(Exchange, connections::Stream) -> A,
) {
    let begun = tokio::select! {
        begun = timeout(HEAD_DEADLINE, options.handshake(outbox.clone())) => begun,
        () = leave.as_mut() => return,
    };
    let mut connection = match begun {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection does not speak HTTP/2");
            return;
        }
        Err(_elapsed) => {
            tracing::debug!("a connection was closed: it did not begin in time");
            return;
        }
    };
    // Sees a stop from here on, even before it is polled. A connection that begins during one is told to leave once it
    // is idle.
    let mut closes = pin!(admitted.closes());
    let (mut stops, mut leaves, mut malformed, mut patience) = (false, false, 0, HEAD_DEADLINE);
    // Streams that come together count as one: the time is read once when the connection is idle again.
    let mut batch = None;
    let mut idle = pin!(sleep(patience));
    loop {
        tokio::select! {
            biased;
            // Every branch keeps its state outside of its future: none loses anything when another one is taken.
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    if !leaves {
                        patience = KEEPALIVE;
                    }
                    batch.get_or_insert_with(|| admitted.stream());
                    let exchange = Exchange::checked(request, respond);
                    let is_malformed = exchange.as_ref().is_none_or(|exchange| exchange.is_malformed);
                    // A proxy has many clients: one of them must not end the connection of the others.
                    malformed += usize::from(is_malformed && !admitted.is_of_proxy());
                    if malformed >= MALFORMED + STREAMS as usize {
                        tracing::debug!("a connection was closed: too many of its requests were malformed");
                        return;
                    }
                    if let Some(exchange) = exchange {
                        begin(exchange, admitted, &answers).await;
                    }
                    // The order to stop came before this connection listened for it.
                    if !stops && admitted.is_closing() {
                        connection.graceful_shutdown();
                        stops = true;
                    }
                }
                None => return,
                Some(Err(error)) => {
                    tracing::debug!(%error, "a connection failed");
                    return;
                }
            },
            // No more streams are ready: what was answered is sent.
            error = async { drop(batch.take()); outbox.send().await } => {
                tracing::debug!(%error, "a connection failed");
                return;
            }
            () = closes.as_mut(), if !stops => {
                connection.graceful_shutdown();
                stops = true;
            }
            () = async { if malformed < MALFORMED { leave.as_mut().await } }, if !leaves => {
                if admitted.idle_since().is_some() {
                    break;
                }
                connection.graceful_shutdown();
                (stops, leaves, patience) = (true, true, Duration::ZERO);
                idle.as_mut().reset(Instant::now() + LOOKS_AGAIN);
            }
            () = idle.as_mut() => match next_look(admitted.idle_since(), patience, Instant::now()) {
                Some(next) => idle.as_mut().reset(next),
                None => break,
            }
        }
    }
    // The client may ask again what it has just asked (RFC 9113 §6.8). It may read nothing: only what the connection
    // takes at once is sent.
    connection.abrupt_shutdown(Reason::NO_ERROR);
    let _sent = at_once(&mut pin!(connection.accept())).await;
}

/// When to look again whether a connection has been idle for long enough to close; `None`: it has. `since`: `None` while
/// it is busy.
fn next_look(since: Option<Instant>, patience: Duration, now: Instant) -> Option<Instant> {
    let next = since.map_or(now + LOOKS_AGAIN, |since| since + patience);
    (next > now).then_some(next)
}

fn options() -> Builder {
    let mut options = Builder::new();
    options.max_concurrent_streams(STREAMS);
    // For each stream: 128 x 64 KiB are OF_CONNECTION.
    options.max_send_buffer_size(PIECE);
    options.max_header_list_size(MOST_FIELDS as u32);
    options
}

/// The largest header list that is read, in bytes: a slightly too large header gets our own answer.
const MOST_FIELDS: usize = MOST_HEAD + (16 << 10);

/// How many bytes the trailers of a request may take. The HTTP/2 code keeps them while the stream is open, also when
/// nobody reads the request any more.
fn trailers(request: &RecvStream) -> usize {
    // Short fields take about four times what they count in the list.
    if request.is_end_stream() { 0 } else { 4 * MOST_FIELDS }
}

/// A request on a stream, and the way back.
struct Exchange {
    request: RequestHeader,
    body: RecvStream,
    respond: SendResponse<Bytes>,
    /// It has no reading, and is refused.
    is_malformed: bool,
}

impl Exchange {
    /// Checks that a request has one reading, as pingora's session does. `None`: it has not, and its stream is reset.
    fn checked(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Option<Self> {
        let (parts, body) = request.into_parts();
        let request = RequestHeader::from(parts);
        let (target, fields) = (request.raw_path(), &request.headers);
        // RFC 9113 §8.1.1, §8.2.2: such bytes and fields would frame another request over HTTP/1.
        if target.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r' | b' '))
            || fields.contains_key(TRANSFER_ENCODING)
            || fields.get_all(CONTENT_LENGTH).iter().nth(1).is_some()
        {
            respond.send_reset(Reason::PROTOCOL_ERROR);
            return None;
        }
        // RFC 9113 §8.3.1.
        let has_authority = request.uri.authority().is_some() || fields.contains_key(HOST);
        let is_absolute = !matches!(raw_target_authority(target), RawTargetAuthority::None);
        let is_malformed = !has_authority || is_absolute || validate_request_authority(&request).is_err();
        Some(Self { request, body, respond, is_malformed })
    }

    /// Hands the head of an answer to the HTTP/2 code. A body of so many `bytes` came too late if it is large and too
    /// much waits for the client by now.
    fn begin(
        &mut self,
        public: &Public,
        answer: &Answer,
        backlog: &Backlog,
        bytes: usize,
        ends: bool,
    ) -> Result<SendStream<Bytes>, Broken> {
        if bytes > PIECE && backlog.is_overdrawn() {
            self.respond.send_reset(Reason::REFUSED_STREAM);
            return Err(Broken);
        }
        let mut response = Response::new(());
        *response.status_mut() = answer.status;
        *response.headers_mut() = public.answers.in_force.load().constant_headers.http2(answer);
        Ok(self.respond.send_response(response, ends)?)
    }

    /// Whether a body follows the head: one that ends without a byte is none.
    async fn has_body(&mut self) -> bool {
        let has_length = self.request.headers.contains_key(CONTENT_LENGTH);
        let may_look = match self.request.method {
            Method::GET | Method::HEAD => true,
            Method::OPTIONS => !has_length,
            _ => false,
        };
        let is_told = self.body.is_end_stream() || !may_look;
        if !is_told && let Ok(first) = timeout(READ_TIMEOUT, self.body.data()).await {
            return first
                .is_some_and(|first| first.map_or(true, |first| !first.is_empty() || !self.body.is_end_stream()));
        }
        !self.body.is_end_stream()
    }

    /// What it counts while it waits, in bytes.
    fn weight(&self) -> usize {
        weight(&self.request) + trailers(&self.body)
    }

    /// Sends an answer that is complete, and records it; `info`: `None` if it is recorded.
    async fn send(
        mut self,
        public: &Public,
        info: Option<RequestInfo>,
        mut answer: Answer,
        backlog: &Arc<Backlog>,
    ) -> Result<(), Broken> {
        let body = if let Body::Whole(body) = std::mem::take(&mut answer.body) { Some(body) } else { None };
        let bytes = body.as_ref().map_or(0, Bytes::len);
        let begun = self.begin(public, &answer, backlog, bytes, body.is_none());
        if let Some(info) = info {
            public.answers.record(&view(&self.request, info.client, false), info, &answer, bytes);
        }
        // The client may take its time for the body: the head of its request does not wait for that.
        drop((self.request, self.respond, answer));
        let waits = move || WAITS + trailers(&self.body);
        match (begun, body) {
            (Ok(mut stream), Some(body)) => write(&mut stream, body, backlog, waits).await,
            (begun, _) => begun.map(drop),
        }
    }
}

/// Answers a stream if its answer is ready; otherwise a task does that later.
async fn begin<A: Future<Output = ()> + Send + 'static>(
    mut exchange: Exchange,
    admitted: &Arc<Connection>,
    answers: &impl Fn(Exchange, connections::Stream) -> A,
) {
    let works = admitted.stream();
    if admitted.streams() > IN_WORK || admitted.backlog().is_overdrawn() {
        // The client opens streams and resets them, again and again, or reads none of its answers.
        tracing::debug!("a stream was refused: too much of its connection or client is still being answered");
        exchange.respond.send_reset(Reason::REFUSED_STREAM);
        return;
    }
    // Polled once here, so that an answer from memory costs no task.
    let mut answering = Box::pin(answers(exchange, works));
    if at_once(&mut answering).await.is_none() {
        tokio::spawn(answering);
    }
}

async fn answer(public: Arc<Public>, mut exchange: Exchange, peer: IpAddr, works: connections::Stream) {
    let _busy = public.in_flight.enter();
    let backlog = works.connection().backlog();
    if exchange.is_malformed {
        let _waits = backlog.wait(exchange.weight());
        let answer = Box::pin(public.answers.refuse(peer, Problem::unreadable())).await;
        // The client may have reset the stream.
        let _sent = exchange.send(&public, None, answer, backlog).await;
        return;
    }
    let has_body = !exchange.body.is_end_stream() && {
        let _waits = backlog.wait(exchange.weight());
        Box::pin(exchange.has_body()).await
    };
    let in_force = public.answers.in_force.load_full();
    let decided = {
        let view = view(&exchange.request, peer, has_body);
        let mut deciding = pin!(public.answers.respond(&in_force, &view, backlog));
        if let Some(decided) = at_once(&mut deciding).await {
            decided
        } else {
            let _waits = backlog.wait(exchange.weight());
            deciding.await
        }
    };
    drop(in_force);
    let answered = match decided {
        Ok(Decided::Answered { answer, info }) if !matches!(answer.body, Body::Rest(_)) => {
            exchange.send(&public, Some(info), answer, backlog).await
        }
        // In a box, because most streams need no room for it.
        Ok(decided) => Box::pin(answer_later(&public, exchange, decided, backlog)).await,
        Err(slow) => Err(slow.into()),
    };
    if answered.is_err() {
        tracing::debug!("a stream failed");
    }
}

/// Answers a stream whose answer is not there as a whole.
async fn answer_later(
    public: &Public,
    mut exchange: Exchange,
    decided: Decided,
    backlog: &Arc<Backlog>,
) -> Result<(), Broken> {
    let waits = backlog.wait(exchange.weight());
    let (mut answer, info) = match decided {
        Decided::Answered { answer, info } => (answer, info),
        Decided::Passes { proxy, target, mut info, limit } => {
            let incoming = Incoming::Http2(&exchange.request, &mut exchange.body, &mut exchange.respond);
            let answer = public.pass_through(incoming, &proxy, target, limit, &mut info, backlog).await?;
            (answer, info)
        }
    };
    let rest = match std::mem::take(&mut answer.body) {
        Body::Rest(rest) => rest,
        whole => {
            answer.body = whole;
            drop(waits);
            return exchange.send(public, Some(info), answer, backlog).await;
        }
    };
    let mut bytes = 0;
    let sent = match exchange.begin(public, &answer, backlog, usize::MAX, false) {
        Ok(mut stream) => write_rest(&mut stream, rest, backlog, &mut bytes).await,
        Err(broken) => Err(broken),
    };
    public.answers.record(&view(&exchange.request, info.client, false), info, &answer, bytes);
    sent
}

/// Hands a body to the HTTP/2 code while it comes, and counts its bytes.
async fn write_rest(
    stream: &mut SendStream<Bytes>,
    rest: Rest,
    backlog: &Arc<Backlog>,
    bytes: &mut usize,
) -> Result<(), Broken> {
    let mut rest = Ahead::of(rest, backlog);
    while let Some(piece) = rest.next().await {
        let piece = piece.map_err(|broken| {
            tracing::debug!(%broken, "an answer was sent only in part");
            Broken
        })?;
        *bytes += piece.len();
        for (piece, _) in pieces(piece) {
            rest.during(backlog.in_time(write_piece(stream, piece, false, backlog))).await??;
        }
    }
    Ok(stream.send_data(Bytes::new(), true)?)
}

/// Hands a body to the HTTP/2 code, as far as that takes it.
/// `waits`: what the stream counts beside the body while it waits for its client, in bytes.
async fn write(
    stream: &mut SendStream<Bytes>,
    body: Bytes,
    backlog: &Arc<Backlog>,
    waits: impl FnOnce() -> usize,
) -> Result<(), Broken> {
    let body = backlog.carry(body);
    let mut writing = pin!(async {
        for (piece, ends) in pieces(body) {
            backlog.in_time(write_piece(stream, piece, ends, backlog)).await??;
        }
        Ok(())
    });
    if let Some(written) = at_once(&mut writing).await {
        return written;
    }
    let _waits = backlog.wait(waits());
    writing.await
}

/// Hands a piece to the HTTP/2 code, as far as the windows of the client are open.
async fn write_piece(
    stream: &mut SendStream<Bytes>,
    mut piece: Bytes,
    ends: bool,
    backlog: &Backlog,
) -> Result<(), Broken> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let capacity = poll_fn(|cx| stream.poll_capacity(cx)).await.ok_or(Broken)??;
        if ends && capacity >= piece.len() {
            break;
        }
        // A client that opens its windows byte by byte makes small frames of a large piece.
        let frame = backlog.frame(piece.split_to(capacity.min(piece.len()))).await;
        stream.send_data(frame, false)?;
    }
    if ends {
        stream.send_data(piece, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
