//! One HTTP/2 connection. The loop that accepts its streams also gives the answers that are ready, and sends them
//! together.
//!
//! Pingora splits the connection into streams and checks their heads. A stream whose answer must wait goes on in a task
//! of its own. How long a client may take to read its answers: [`super::write`] says it for each stream, and [`outbox`]
//! for the connection. Callers: [`super::gate`].

mod outbox;

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server;
use pingora::protocols::http::v2::server::{H2Accept, H2Options, HttpSession};
use pingora::protocols::{Digest, Stream};
use pingora::server::ShutdownWatch;
use tokio::sync::futures::Notified;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::answer::compose::{Answer, Body};
use crate::answer::{Decided, RequestInfo};
use crate::clock;

use super::connection::{HEAD_DEADLINE, KEEPALIVE, peer_of};
use super::connections::{Connection, Unread, carried};
use super::write::{Broken, PIECE, STREAMS, enter, head, in_time, pieces};
use super::{Public, connections, view};
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
    let answers = |session, works| answer(public.clone(), session, peer, works);
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
    options: H2Options,
    admitted: &Arc<Connection>,
    mut stopping: watch::Receiver<bool>,
    answers: impl Fn(HttpSession, connections::Stream) -> A,
) {
    let handshake = server::handshake(Box::new(outbox.clone()), Some(options));
    let mut connection = match timeout(HEAD_DEADLINE, handshake).await {
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
    // pingora asks the digest for the peer's address. We know it already, so an empty digest is enough.
    let digest = Arc::new(Digest::default());
    let mut told_to_stop = pin!(stopping.changed());
    let (mut stops, mut malformed) = (false, 0);
    let mut idle = pin!(sleep(KEEPALIVE));
    loop {
        tokio::select! {
            biased;
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => match accepted {
                Ok(Some(H2Accept::Session(session))) => begin(session, admitted, &answers).await,
                Ok(Some(H2Accept::Rejected)) => {
                    malformed += 1;
                    if malformed >= MALFORMED {
                        tracing::debug!("a connection was closed: too many of its requests were malformed");
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "a connection failed");
                    return;
                }
            },
            // No more streams are ready: what was answered is sent.
            error = outbox.send() => {
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

fn options(public: &Public) -> H2Options {
    let mut options = server::default_h2_options();
    options.max_concurrent_streams(STREAMS);
    options.max_send_buffer_size(PIECE);
    // A slightly too large header gets our own answer.
    let head = u32::try_from(public.answers.rules.load().head).unwrap_or(u32::MAX);
    options.max_header_list_size(head.saturating_add(16 << 10));
    options
}

/// Answers a stream if its answer is ready; otherwise a task does that later.
async fn begin<A: Future<Output = ()> + Send + 'static>(
    session: HttpSession,
    admitted: &Arc<Connection>,
    answers: &impl Fn(HttpSession, connections::Stream) -> A,
) {
    let works = admitted.stream();
    if admitted.streams() > IN_WORK {
        // The client opens streams and resets them, again and again. Dropping the session resets this stream.
        tracing::debug!("a stream was refused: too many reset streams of its connection are still being answered");
        return;
    }
    let mut answering = Box::pin(answers(session, works));
    if poll_fn(|cx| Poll::Ready(answering.as_mut().poll(cx))).await.is_pending() {
        tokio::spawn(answering);
    }
}

/// Answers one stream, as soon as its client has taken enough of the others.
async fn answer(public: Arc<Public>, mut session: HttpSession, peer: IpAddr, works: connections::Stream) {
    let _busy = public.in_flight.enter();
    let admitted = works.connection();
    let Ok(room) = enter(Some(admitted)).await else { return };
    let view = view(session.req_header(), peer, !session.is_body_empty());
    let answered = match public.answers.respond(&view).await {
        Decided::Answered { answer, info } if !matches!(answer.body, Body::Rest(_)) => {
            send(&public, &mut session, info, answer, room, admitted).await
        }
        decided => {
            // It takes room when its body begins.
            drop(room);
            // In a box, because most streams need no room for it.
            Box::pin(answer_later(&public, session, decided, admitted)).await
        }
    };
    if answered.is_err() {
        tracing::debug!("a stream failed");
    }
}

/// Answers a stream whose answer is not there as a whole.
async fn answer_later(
    public: &Public,
    mut session: HttpSession,
    decided: Decided,
    admitted: &Connection,
) -> Result<(), Broken> {
    let (mut answer, info) = match decided {
        Decided::Answered { answer, info } => (answer, info),
        Decided::Passes { proxy, target, mut info, limit } => {
            let mut passing = ServerSession::new_http2(session);
            let answer = public.pass_through(&mut passing, &proxy, target, limit, &mut info).await?;
            let ServerSession::H2(passed) = passing else { return Err(Broken) };
            session = passed;
            (answer, info)
        }
    };
    let mut room = enter(Some(admitted)).await?;
    let mut rest = match std::mem::take(&mut answer.body) {
        Body::Rest(rest) => rest,
        whole => {
            answer.body = whole;
            return send(public, &mut session, info, answer, room, admitted).await;
        }
    };
    if let Some(room) = &mut room {
        room.resize(PIECE);
    }
    let (mut bytes, room) = (0, room.map(Arc::new));
    let begun = write_head(public, &mut session, &answer, false);
    let sent = async {
        begun?;
        while let Some(piece) = rest.next().await {
            let piece = piece.map_err(|broken| {
                tracing::debug!(%broken, "an answer was sent only in part");
                Broken
            })?;
            bytes += piece.len();
            let piece = if let Some(room) = &room { carried(piece, room.clone()) } else { piece };
            for (piece, _) in pieces(piece) {
                in_time(Some(admitted), session.write_body(piece, false)).await?;
            }
        }
        in_time(Some(admitted), session.write_body(Bytes::new(), true)).await
    };
    let sent = sent.await;
    public.answers.record(&view(session.req_header(), info.client, false), info, &answer, bytes);
    sent
}

/// Sends an answer that is complete, and records it.
async fn send(
    public: &Public,
    session: &mut HttpSession,
    info: RequestInfo,
    mut answer: Answer,
    room: Option<Unread>,
    admitted: &Connection,
) -> Result<(), Broken> {
    let body = if let Body::Whole(body) = std::mem::take(&mut answer.body) { Some(body) } else { None };
    let bytes = body.as_ref().map_or(0, Bytes::len);
    let sent = match (write_head(public, session, &answer, body.is_none()), body) {
        (Ok(()), Some(body)) => write(session, body, room, admitted).await,
        (sent, _) => sent,
    };
    public.answers.record(&view(session.req_header(), info.client, false), info, &answer, bytes);
    sent
}

/// Hands the head of an answer to the HTTP/2 code. Before 1970 pingora would panic: the connection ends instead.
fn write_head(public: &Public, session: &mut HttpSession, answer: &Answer, ends: bool) -> Result<(), Broken> {
    if clock::is_before_1970() {
        tracing::debug!("the system clock shows a time before 1970; a stream is closed without an answer");
        return Err(Broken);
    }
    let fields = public.answers.constant_headers.load().http2(answer);
    Ok(session.write_response_header(Box::new(head(answer.status, fields)), ends)?)
}

/// Hands a body to the HTTP/2 code, as far as that takes it.
async fn write(
    session: &mut HttpSession,
    body: Bytes,
    mut room: Option<Unread>,
    admitted: &Connection,
) -> Result<(), Broken> {
    if let Some(room) = &mut room {
        room.resize(body.len());
    }
    for (piece, ends) in pieces(carried(body, room)) {
        in_time(Some(admitted), session.write_body(piece, ends)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
