//! One HTTP/1 connection: request after request, within deadlines, until one side ends it.
//!
//! [`super::request_head`] reads heads; pingora's session parses and checks them, and reads bodies. Answers are sent from
//! here, head and body in one send without copies. Callers: [`super::gate`].

use std::future::{Future, poll_fn};
use std::io;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use arc_swap::{ArcSwap, Cache};
use bytes::BytesMut;
use http::Version;
use pingora::ErrorType;
use pingora::protocols::Stream;
use pingora::protocols::http::v1::server::HttpSession;
use tokio::io::AsyncWriteExt;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, Sleep};

use crate::edge::answer::compose::{Body, Rest};
use crate::edge::answer::write::Persistence;
use crate::edge::answer::{Decided, InForce};
use crate::edge::limit::backlog::{PIECE, Slow, WRITE_TIMEOUT};
use crate::protocol::problem::Problem;
use crate::tasks::at_once;

use super::connections::Connection;
use super::request_head::UnreadHead;
use super::write::{Ahead, Broken};
use super::{Incoming, Public, request_head, view, weight, write};

/// How long a client may take between two reads of a request's body; also for draining it, and for closing.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the head of the first request may take in all.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(15);
/// How long an idle connection is kept; the head of its next request must arrive within this time, too.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(60);

struct Http1<'a, 'n> {
    public: &'a Public,
    /// Without an atomic write for each look, which a load costs.
    in_force: Cache<&'a ArcSwap<InForce>, Arc<InForce>>,
    peer: IpAddr,
    /// The one timer, which is reset for each wait.
    timer: Pin<&'a mut Sleep>,
    connection: &'a Connection,
    /// See [`Connection::told_to_leave`].
    leave: Pin<&'a mut Notified<'n>>,
    /// For heads.
    buffer: Vec<u8>,
}

type Head = Result<BytesMut, UnreadHead>;

/// A connection between two requests, and the first bytes of the next one.
type Between = (Stream, Option<BytesMut>);

enum Then {
    Next(Between),
    Close(Stream),
    /// The same, after its client has had time to read the answer: it may still be sending.
    Linger(Stream),
}

/// Serves a connection to its end. `leave` ends when it must close as soon as it is idle.
pub(super) async fn serve(public: &Public, stream: Stream, connection: &Connection, leave: Pin<&mut Notified<'_>>) {
    let peer = peer_of(&stream);
    let timer = pin!(tokio::time::sleep(HEAD_DEADLINE));
    let in_force = Cache::new(&public.answers.in_force);
    let mut connection = Http1 { public, in_force, peer, timer, connection, leave, buffer: Vec::new() };
    let mut between = Some((stream, None));
    let mut patience = HEAD_DEADLINE;
    while let Some((stream, begun)) = between {
        between = connection.request(stream, begun, patience).await.unwrap_or_default();
        patience = KEEPALIVE;
    }
}

impl Http1<'_, '_> {
    /// Waits for one request and answers it; `None` at the end of the connection.
    async fn request(
        &mut self,
        mut stream: Stream,
        begun: Option<BytesMut>,
        patience: Duration,
    ) -> Result<Option<Between>, Broken> {
        let then = match self.wait_for_head(&mut stream, begun, patience).await {
            Some(Ok(head)) => self.answer(stream, head).await?,
            Some(Err(UnreadHead::Refused(refusal))) => {
                tracing::debug!(?refusal, "a request head was refused");
                self.refuse(stream, refusal).await?
            }
            Some(Err(UnreadHead::Gone)) | None => Then::Close(stream),
        };
        let (lingers, mut stream) = match then {
            Then::Next(next) => return Ok(Some(next)),
            Then::Close(stream) => (false, stream),
            Then::Linger(stream) => (true, stream),
        };
        // Its client has the answer: while the connection ends, it may be closed for a new one.
        self.connection.set_idle(Instant::now());
        let timer = self.timer.as_mut();
        let ending = async {
            if lingers {
                write::lingering_close(stream).await;
            } else {
                // TLS clients take an unannounced end for an attack.
                let _announced = within(timer, READ_TIMEOUT, AsyncWriteExt::shutdown(&mut stream)).await;
            }
        };
        tokio::select! {
            biased;
            () = ending => {}
            () = self.leave.as_mut() => {}
        }
        Ok(None)
    }

    /// The next head; `None` if it did not arrive in time, or the connection must close.
    async fn wait_for_head(
        &mut self,
        stream: &mut Stream,
        begun: Option<BytesMut>,
        patience: Duration,
    ) -> Option<Head> {
        let mut read = pin!(request_head::read(stream, begun));
        let (connection, leave) = (self.connection, &mut self.leave);
        let read = poll_fn(|cx| match read.as_mut().poll(cx) {
            // A request that has arrived is answered, even if the connection must close.
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => leave.as_mut().poll(cx).map(|()| None),
        });
        let read = within_from(self.timer.as_mut(), patience, read, |now| connection.set_idle(now)).await;
        connection.set_busy();
        read.flatten()
    }

    /// Lets pingora parse a complete head. The error is the answer for the client; `None`: it gets none.
    async fn parse_head(&mut self, session: &mut HttpSession) -> Result<(), Option<Problem>> {
        // Pingora waits if it finds no end of the head.
        match within(self.timer.as_mut(), HEAD_DEADLINE, session.read_request()).await {
            Some(Ok(Some(_))) => Ok(()),
            Some(Err(error)) => {
                // Not the error itself, which shows the request with its secrets.
                tracing::debug!(error = error.etype().as_str(), "a request cannot be read");
                Err(matches!(error.etype(), ErrorType::InvalidHTTPHeader).then(Problem::unreadable))
            }
            Some(Ok(None)) | None => Err(None),
        }
    }

    /// Refuses a head, and makes sure that the client gets the answer.
    async fn refuse(&mut self, mut stream: Stream, problem: Problem) -> Result<Then, Broken> {
        let _busy = self.public.in_flight.enter();
        let answer = self.public.answers.refuse(self.peer, problem).await;
        self.in_force.load().constant_headers.http1(&answer, Persistence::Close, &mut self.buffer);
        let mut parts = [&self.buffer[..], answer.body.bytes()].map(IoSlice::new);
        send(self.timer.as_mut(), &mut stream, &mut parts).await?;
        Ok(Then::Linger(stream))
    }

    async fn answer(&mut self, stream: Stream, head: BytesMut) -> Result<Then, Broken> {
        // A session is large: it stays here from its beginning to its end, and is not moved from function to function.
        let mut session = HttpSession::new(stream);
        // Pingora's own timer would restart with each byte.
        session.set_server_keepalive(Some(0));
        session.set_pipelining_enabled(true);
        session.set_pipelined_prefix(head);
        match self.parse_head(&mut session).await {
            Ok(()) => {}
            Err(Some(problem)) => return self.refuse(session.into_inner(), problem).await,
            Err(None) => return Ok(Then::Close(session.into_inner())),
        }
        let _busy = self.public.in_flight.enter();
        let (answers, in_force) = (&self.public.answers, self.in_force.load());
        if self.connection.is_closing() {
            // The client opens a new connection for its next request.
            session.set_server_keepalive(None);
        }
        let has_body = !session.is_body_empty();
        let (asked, backlog) = (view(session.req_header(), self.peer, has_body), self.connection.backlog());
        let (mut answer, info) = match answers.respond(in_force, &asked, backlog).await {
            // It came too late: too much waits for the client by now.
            Ok(Decided::Answered { answer, .. }) if answer.body.bytes().len() > PIECE && backlog.is_overdrawn() => {
                return self.refuse(session.into_inner(), Slow.into()).await;
            }
            Ok(Decided::Answered { answer, info }) => (answer, info),
            Err(slow) => return self.refuse(session.into_inner(), slow.into()).await,
            Ok(Decided::Passes { proxy, target, mut info, limit }) => {
                let _waits = backlog.wait(weight(session.req_header()));
                if backlog.is_overdrawn() {
                    return self.refuse(session.into_inner(), Slow.into()).await;
                }
                session.set_read_timeout(Some(READ_TIMEOUT));
                session.set_write_timeout(Some(WRITE_TIMEOUT));
                session.set_total_drain_timeout(Some(READ_TIMEOUT));
                let incoming = Incoming::Http1(&mut session);
                let passed = self.public.pass_through(incoming, &proxy, target, limit, &mut info, backlog);
                (Box::pin(passed).await?, info)
            }
        };
        let has_read = session.is_body_done();
        let is_http11 = session.req_header().version == Version::HTTP_11;
        // A body in HTTP/1.0 that nobody knows the length of ends with the connection.
        let is_chunked = matches!(answer.body, Body::Rest(_)) && !answer.has_length();
        let lasts = has_read && session.get_keepalive_timeout().is_some() && (is_http11 || !is_chunked);
        if is_chunked && is_http11 {
            answer.fields.put_chunked();
        }
        let persistence = if lasts { Persistence::KeepAlive } else { Persistence::Close };
        in_force.constant_headers.http1(&answer, persistence, &mut self.buffer);
        let body = std::mem::take(&mut answer.body);
        // The session ends before the answer.
        let rest = if let Body::Rest(_) = &body {
            Some(session.req_header().clone())
        } else {
            answers.record(&view(session.req_header(), self.peer, false), info, &answer, body.bytes().len());
            None
        };
        let (mut stream, begun) = if lasts {
            // Nothing is left to read, and nothing was written that is not flushed.
            let mut ending = pin!(session.reuse());
            let ended = within(self.timer.as_mut(), WRITE_TIMEOUT, ending.as_mut()).await;
            ended.ok_or(Broken)??.ok_or(Broken)?.into_parts()
        } else {
            (session.into_inner(), None)
        };
        match (body, rest) {
            (Body::Rest(rest), Some(request)) => {
                let (bytes, sent) = Box::pin(self.send_rest(&mut stream, rest, is_chunked && is_http11)).await;
                answers.record(&view(&request, self.peer, false), info, &answer, bytes);
                sent?;
            }
            (body, _) => {
                // Less is bounded by the number of connections.
                let _held = match &body {
                    Body::Whole(bytes) if bytes.len() > PIECE => backlog.hold_body(bytes),
                    _ => None,
                };
                let mut parts = [&self.buffer[..], body.bytes()].map(IoSlice::new);
                send(self.timer.as_mut(), &mut stream, &mut parts).await?;
            }
        }
        Ok(if lasts {
            Then::Next((stream, begun))
        } else if has_read {
            Then::Close(stream)
        } else {
            // The body of the request still comes (RFC 9112 §9.6).
            Then::Linger(stream)
        })
    }

    /// Sends the head in the buffer, and a body in pieces. Returns how many bytes of the body there were.
    async fn send_rest(&mut self, stream: &mut Stream, rest: Rest, in_chunks: bool) -> (usize, Result<(), Broken>) {
        let (mut bytes, mut rest) = (0, Ahead::of(rest, self.connection.backlog()));
        let sent = async {
            let mut head = &self.buffer[..];
            loop {
                let piece = if let Some(piece) = at_once(&mut pin!(rest.next())).await {
                    piece
                } else {
                    // The head does not wait for the body.
                    send(self.timer.as_mut(), stream, &mut [IoSlice::new(head)]).await?;
                    head = &[];
                    rest.next().await
                };
                let piece = match piece {
                    Some(Ok(piece)) if piece.is_empty() => continue,
                    Some(Ok(piece)) => piece,
                    Some(Err(broken)) => {
                        tracing::debug!(%broken, "an answer was sent only in part");
                        // A client that gets no byte takes that for a restart of the server, and asks again.
                        send(self.timer.as_mut(), stream, &mut [IoSlice::new(head)]).await?;
                        return Err(Broken);
                    }
                    None => break,
                };
                bytes += piece.len();
                let (size, end) = if in_chunks {
                    (format!("{:x}\r\n", piece.len()), &b"\r\n"[..])
                } else {
                    (String::new(), &b""[..])
                };
                let mut parts = [head, size.as_bytes(), &piece, end].map(IoSlice::new);
                rest.during(send(self.timer.as_mut(), stream, &mut parts)).await?;
                head = &[];
            }
            let last = if in_chunks { &b"0\r\n\r\n"[..] } else { b"" };
            send(self.timer.as_mut(), stream, &mut [head, last].map(IoSlice::new)).await?;
            Ok(())
        };
        let sent = sent.await;
        (bytes, sent)
    }
}

/// Writes the parts of an answer together. A client must take a [`PIECE`] within each deadline, or the rest.
async fn send(mut timer: Pin<&mut Sleep>, stream: &mut Stream, mut left: &mut [IoSlice<'_>]) -> io::Result<()> {
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    let (mut limit, mut taken) = (None, 0);
    // Empty parts at the front count as written.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let patience = limit.map_or(WRITE_TIMEOUT, |limit: Instant| limit.saturating_duration_since(Instant::now()));
        let written = within(timer.as_mut(), patience, stream.write_vectored(left)).await.ok_or_else(late)??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        taken += written;
        IoSlice::advance_slices(&mut left, written);
        if !left.is_empty() && (limit.is_none() || taken >= PIECE) {
            (limit, taken) = (Some(Instant::now() + WRITE_TIMEOUT), 0);
        }
    }
    within(timer, WRITE_TIMEOUT, stream.flush()).await.ok_or_else(late)?
}

/// The result of `work`, unless it takes longer than `limit`. The timer is touched only for a wait.
async fn within<T>(timer: Pin<&mut Sleep>, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    within_from(timer, limit, work, |_now| {}).await
}

/// [`within`]; `waits` hears from when on something is waited for.
async fn within_from<T>(
    mut timer: Pin<&mut Sleep>,
    limit: Duration,
    work: impl Future<Output = T>,
    waits: impl Fn(Instant),
) -> Option<T> {
    let (mut work, mut set) = (pin!(work), false);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        if !set {
            let now = Instant::now();
            waits(now);
            timer.as_mut().reset(now + limit);
            set = true;
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}

pub(super) fn peer_of(stream: &Stream) -> IpAddr {
    let peer = stream.get_socket_digest().and_then(|digest| digest.peer_addr()?.as_inet().map(SocketAddr::ip));
    peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    /// How long a client is served that reads so much every 20 seconds; `None`: it gets everything.
    async fn served(reads: usize) -> Option<Duration> {
        let (ours, mut theirs) = duplex(4 << 10);
        let (mut stream, began): (Stream, _) = (Box::new(ours), Instant::now());
        let sending = tokio::spawn(async move {
            let timer = pin!(tokio::time::sleep(Duration::ZERO));
            let body = vec![b'x'; 1 << 20];
            let sent = send(timer, &mut stream, &mut [&b"head"[..], &body].map(IoSlice::new)).await;
            sent.is_err().then(|| began.elapsed())
        });
        let mut piece = vec![0; reads];
        while !sending.is_finished() && theirs.read_exact(&mut piece).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        sending.await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_must_read_two_kibibytes_a_second() {
        assert_eq!(served(64 << 10).await, None);
        for reads in [1, 1 << 10, 20 << 10] {
            let took = served(reads).await.expect("cut off");
            assert!(took >= WRITE_TIMEOUT && took <= 4 * WRITE_TIMEOUT, "{reads} bytes: {took:?}");
        }
    }
}
