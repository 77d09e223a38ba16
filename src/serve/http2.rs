//! One HTTP/2 connection. The loop that accepts its streams also gives the answers that are ready, and sends them
//! together.
//!
//! The `h2` crate, which pingora brings, splits the connection into streams. Pingora's session is not between: it would
//! copy the head of each answer. A stream whose answer must wait goes on in a task of its own. How long a client may take
//! to read its answers: [`super::write`] says it for each stream, and [`outbox`] for the connection. Callers:
//! [`super::gate`].

mod outbox;

use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use pingora::http::RequestHeader;
use pingora::protocols::Stream;
use pingora::protocols::http::authority::{RawTargetAuthority, raw_target_authority, validate_request_authority};
use pingora::protocols::http::v2::write_body;
use pingora::server::ShutdownWatch;
use tokio::sync::futures::Notified;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::answer::compose::{Answer, Body};
use crate::answer::{Decided, RequestInfo};
use crate::tasks::at_once;

use super::connection::{HEAD_DEADLINE, KEEPALIVE, peer_of};
use super::connections::{Connection, Unread, carried};
use super::write::{Broken, PIECE, STREAMS, enter, in_time, pieces};
use super::{Incoming, Public, connections, view};
use outbox::Outbox;

/// How long a connection that was told to leave may take to finish its streams. When the server stops, this limit does
/// not apply.
const LAST_STREAMS: Duration = Duration::from_secs(5);
/// How many requests of a connection may be in work at once. More than its open streams, because the request of a reset
/// stream goes on for a while.
const IN_WORK: usize = 2 * STREAMS as usize;
/// How many malformed requests end a connection: as many as in pingora's own loop.
const MALFORMED: usize = 32;
/// How often to check whether a busy connection has become idle.
const LOOKS_AGAIN: Duration = Duration::from_secs(1);

/// Serves a connection to its end. `begun`: what was read of it before. When `leave` completes or the server stops, the connection answers its open streams
/// and then closes.
pub(super) async fn serve(
    public: &Arc<Public>,
    stream: Stream,
    begun: &'static [u8],
    admitted: &Arc<Connection>,
    leave: Pin<&mut Notified<'_>>,
    shutdown: &ShutdownWatch,
) {
    let mut shutdown = shutdown.clone();
    let (stop, stopping) = watch::channel(*shutdown.borrow());
    let peer = peer_of(&stream);
    let answers = |exchange, works| answer(public.clone(), exchange, peer, works);
    let mut serving = pin!(streams(
        Outbox::new(stream, begun, admitted, &public.in_flight),
        options(public),
        admitted,
        stopping,
        answers
    ));
    tokio::select! {
        () = serving.as_mut() => return,
        () = leave => {}
        _changed = shutdown.changed() => {}
    }
    // Its streams are answered, and the client is told that no more are accepted. `serving` has the receiver and has
    // not ended, so `send` does not fail.
    let _told = stop.send(true);
    if admitted.is_closing() || *shutdown.borrow() {
        serving.await;
    } else {
        let _ended = timeout(LAST_STREAMS, serving).await;
    }
}

/// Accepts streams and gives them to `answers`, until one side ends the connection, the client does not read, or the
/// connection has been idle for too long.
async fn streams<A: Future<Output = ()> + Send + 'static>(
    outbox: Outbox,
    options: Builder,
    admitted: &Arc<Connection>,
    mut stopping: watch::Receiver<bool>,
    answers: impl Fn(Exchange, connections::Stream) -> A,
) {
    let mut connection = match timeout(HEAD_DEADLINE, options.handshake(outbox.clone())).await {
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
    let mut told_to_stop = pin!(stopping.changed());
    let (mut stops, mut malformed) = (false, 0);
    // Streams that come together count as one: the time is read once when the connection is idle again.
    let mut batch = None;
    let mut idle = pin!(sleep(KEEPALIVE));
    loop {
        tokio::select! {
            biased;
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    batch.get_or_insert_with(|| admitted.stream());
                    if let Some(exchange) = Exchange::checked(request, respond) {
                        begin(exchange, admitted, &answers).await;
                        continue;
                    }
                    malformed += 1;
                    if malformed >= MALFORMED {
                        tracing::debug!("a connection was closed: too many of its requests were malformed");
                        return;
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
            _told = told_to_stop.as_mut(), if !stops => {
                connection.graceful_shutdown();
                stops = true;
            }
            () = idle.as_mut() => match next_look(admitted.idle_since(), Instant::now()) {
                Some(next) => idle.as_mut().reset(next),
                None => return,
            }
        }
    }
}

/// When to look again whether a connection has been idle for too long; `None`: it has. `since`: `None` while it is
/// busy.
fn next_look(since: Option<Instant>, now: Instant) -> Option<Instant> {
    let next = since.map_or(now + LOOKS_AGAIN, |since| since + KEEPALIVE);
    (next > now).then_some(next)
}

fn options(public: &Public) -> Builder {
    let mut options = Builder::new();
    options.max_concurrent_streams(STREAMS);
    options.max_send_buffer_size(PIECE);
    // A slightly too large header gets our own answer.
    let head = u32::try_from(public.answers.in_force.load().rules.head).unwrap_or(u32::MAX);
    options.max_header_list_size(head.saturating_add(16 << 10));
    options
}

/// A request on a stream, and the way back.
struct Exchange {
    request: RequestHeader,
    body: RecvStream,
    respond: SendResponse<Bytes>,
}

impl Exchange {
    /// Checks that a request has one reading, as pingora's session does. `None`: it has not, and its stream is reset or
    /// answered.
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
        if !has_authority || is_absolute || validate_request_authority(&request).is_err() {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::BAD_REQUEST;
            // The client may have reset the stream.
            let _sent = respond.send_response(response, true);
            return None;
        }
        Some(Self { request, body, respond })
    }

    /// Hands the head of an answer to the HTTP/2 code.
    fn begin(&mut self, public: &Public, answer: &Answer, ends: bool) -> Result<SendStream<Bytes>, Broken> {
        let mut response = Response::new(());
        *response.status_mut() = answer.status;
        *response.headers_mut() = public.answers.in_force.load().constant_headers.http2(answer);
        Ok(self.respond.send_response(response, ends)?)
    }

    /// Sends an answer that is complete, and records it.
    async fn send(
        &mut self,
        public: &Public,
        info: RequestInfo,
        mut answer: Answer,
        room: Option<Unread>,
        admitted: &Connection,
    ) -> Result<(), Broken> {
        let body = if let Body::Whole(body) = std::mem::take(&mut answer.body) { Some(body) } else { None };
        let bytes = body.as_ref().map_or(0, Bytes::len);
        let sent = match (self.begin(public, &answer, body.is_none()), body) {
            (Ok(mut stream), Some(body)) => write(&mut stream, body, room, admitted).await,
            (begun, _) => begun.map(drop),
        };
        public.answers.record(&view(&self.request, info.client, false), info, &answer, bytes);
        sent
    }
}

/// Answers a stream if its answer is ready; otherwise a task does that later.
async fn begin<A: Future<Output = ()> + Send + 'static>(
    exchange: Exchange,
    admitted: &Arc<Connection>,
    answers: &impl Fn(Exchange, connections::Stream) -> A,
) {
    let works = admitted.stream();
    if admitted.streams() > IN_WORK {
        // The client opens streams and resets them, again and again. Dropping the exchange resets this stream.
        tracing::debug!("a stream was refused: too many reset streams of its connection are still being answered");
        return;
    }
    let mut answering = Box::pin(answers(exchange, works));
    if at_once(&mut answering).await.is_none() {
        tokio::spawn(answering);
    }
}

/// Answers one stream, as soon as its client has taken enough of the others.
async fn answer(public: Arc<Public>, mut exchange: Exchange, peer: IpAddr, works: connections::Stream) {
    let _busy = public.in_flight.enter();
    let admitted = works.connection();
    let Ok(room) = enter(Some(admitted)).await else { return };
    let view = view(&exchange.request, peer, !exchange.body.is_end_stream());
    let in_force = public.answers.in_force.load_full();
    let decided = public.answers.respond(&in_force, &view).await;
    drop(in_force);
    let answered = match decided {
        Decided::Answered { answer, info } if !matches!(answer.body, Body::Rest(_)) => {
            exchange.send(&public, info, answer, room, admitted).await
        }
        decided => {
            // It takes room when its body begins.
            drop(room);
            // In a box, because most streams need no room for it.
            Box::pin(answer_later(&public, exchange, decided, admitted)).await
        }
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
    admitted: &Connection,
) -> Result<(), Broken> {
    let (mut answer, info) = match decided {
        Decided::Answered { answer, info } => (answer, info),
        Decided::Passes { proxy, target, mut info, limit } => {
            let incoming = Incoming::Http2(&exchange.request, &mut exchange.body);
            let answer = public.pass_through(incoming, &proxy, target, limit, &mut info).await?;
            (answer, info)
        }
    };
    let mut room = enter(Some(admitted)).await?;
    let mut rest = match std::mem::take(&mut answer.body) {
        Body::Rest(rest) => rest,
        whole => {
            answer.body = whole;
            return exchange.send(public, info, answer, room, admitted).await;
        }
    };
    if let Some(room) = &mut room {
        room.resize(PIECE);
    }
    let (mut bytes, room) = (0, room.map(Arc::new));
    let begun = exchange.begin(public, &answer, false);
    let sent = async {
        let mut stream = begun?;
        while let Some(piece) = rest.next().await {
            let piece = piece.map_err(|broken| {
                tracing::debug!(%broken, "an answer was sent only in part");
                Broken
            })?;
            bytes += piece.len();
            let piece = if let Some(room) = &room { carried(piece, room.clone()) } else { piece };
            for (piece, _) in pieces(piece) {
                in_time(Some(admitted), write_body(&mut stream, piece, false, None)).await?;
            }
        }
        Ok(stream.send_data(Bytes::new(), true)?)
    };
    let sent = sent.await;
    public.answers.record(&view(&exchange.request, info.client, false), info, &answer, bytes);
    sent
}

/// Hands a body to the HTTP/2 code, as far as that takes it.
async fn write(
    stream: &mut SendStream<Bytes>,
    body: Bytes,
    mut room: Option<Unread>,
    admitted: &Connection,
) -> Result<(), Broken> {
    if let Some(room) = &mut room {
        room.resize(body.len());
    }
    for (piece, ends) in pieces(carried(body, room)) {
        in_time(Some(admitted), write_body(stream, piece, ends, None)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
