//! One HTTP/1 connection: request after request, within deadlines, until one side ends it.
//!
//! [`super::request_head`] reads heads; pingora's session parses and checks them, reads bodies, and writes streamed
//! bodies. A complete answer is sent from here, head and body in one send without copies. Callers: [`super::gate`].

use std::future::{Future, poll_fn};
use std::io;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Version;
use pingora::ErrorType;
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use tokio::io::AsyncWriteExt;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, Sleep};

use crate::answer::Decided;
use crate::answer::head::{Lines, Persistence};
use crate::clock::WallTime;
use crate::semantics::problem::Problem;

use super::connections::Connection;
use super::request_head::{HeadBounds, Unread};
use super::write::{Broken, PIECE, WRITE_TIMEOUT};
use super::{Public, request_head, view, write};

/// How long a client may take between two reads of a request's body, and how long a write may stall.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the head of the first request may take in all.
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(15);
/// How long an idle connection is kept; the head of its next request must arrive within this time, too.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(60);

/// The state of a connection.
struct Http1<'a, 'n> {
    public: &'a Public,
    shutdown: &'a ShutdownWatch,
    peer: IpAddr,
    /// The one timer, which is reset for each wait.
    timer: Pin<&'a mut Sleep>,
    connection: &'a Connection,
    /// See [`Connection::told_to_leave`].
    leave: Pin<&'a mut Notified<'n>>,
    /// For heads.
    buffer: Vec<u8>,
    date: Date,
}

/// A head, or why there is none.
type Head = Result<BytesMut, Unread>;

/// A connection between two requests, and the first bytes of the next one.
type Between = (Stream, Option<BytesMut>);

/// Serves a connection to its end. `leave` ends when it must close as soon as it is idle.
pub(super) async fn serve(
    public: &Public,
    stream: Stream,
    connection: &Connection,
    leave: Pin<&mut Notified<'_>>,
    shutdown: &ShutdownWatch,
) {
    let peer = peer_of(&stream);
    let timer = pin!(tokio::time::sleep(HEAD_DEADLINE));
    let mut connection =
        Http1 { public, shutdown, peer, timer, connection, leave, buffer: Vec::new(), date: Date::default() };
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
        let head = match self.wait_for_head(&mut stream, begun, patience).await {
            Some(Ok(head)) => head,
            Some(Err(Unread::Refused(refusal))) => {
                tracing::debug!(?refusal, "a request head was refused");
                self.refuse(stream, refusal).await;
                return Ok(None);
            }
            Some(Err(Unread::Gone)) | None => {
                // TLS clients take an unannounced end for an attack.
                let _announced = within(self.timer.as_mut(), READ_TIMEOUT, AsyncWriteExt::shutdown(&mut stream)).await;
                return Ok(None);
            }
        };
        let mut session = ServerSession::new_http1(stream);
        // Pingora's own timer would restart with each byte.
        session.set_keepalive(Some(0));
        session.set_pipelining_enabled(true);
        session.set_pipelined_prefix(head);
        if !self.parse_head(&mut session).await {
            return Ok(None);
        }
        let _busy = self.public.in_flight.enter();
        if self.shutdown.has_changed().unwrap_or(true) {
            // The client opens a new connection for its next request.
            session.set_keepalive(None);
        }
        let lasts = session.get_keepalive().is_some() && session.req_header().version == Version::HTTP_11;
        if lasts && session.is_body_done() {
            self.answer(session).await
        } else {
            session.set_read_timeout(Some(READ_TIMEOUT));
            session.set_write_timeout(Some(WRITE_TIMEOUT));
            session.set_total_drain_timeout(Some(READ_TIMEOUT));
            self.public.exchange(&mut session, self.peer).await?;
            self.finish(session).await
        }
    }

    /// The next head; `None` if it did not arrive in time, or the connection must close.
    async fn wait_for_head(
        &mut self,
        stream: &mut Stream,
        begun: Option<BytesMut>,
        patience: Duration,
    ) -> Option<Head> {
        let mut read = pin!(request_head::read(stream, begun, HeadBounds::new(self.public.answers.rules.load().head)));
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

    /// Lets pingora parse a complete head; `false`: close the connection.
    async fn parse_head(&mut self, session: &mut ServerSession) -> bool {
        // Pingora waits if it finds no end of the head.
        let error = match within(self.timer.as_mut(), HEAD_DEADLINE, session.read_request()).await {
            Some(Ok(read)) if read => return true,
            Some(Err(error)) => Some(error),
            Some(Ok(_)) | None => None,
        };
        if let Some(error) = error {
            // Not the error itself, which shows the request with its secrets.
            tracing::debug!(error = error.etype().as_str(), "a request cannot be read");
            if matches!(error.etype(), ErrorType::InvalidHTTPHeader) {
                self.public.unreadable(session, self.peer).await;
            }
        }
        let _announced = within(self.timer.as_mut(), READ_TIMEOUT, session.shutdown()).await;
        false
    }

    /// Refuses a head, and makes sure that the client gets the answer.
    async fn refuse(&mut self, mut stream: Stream, problem: Problem) {
        let busy = self.public.in_flight.enter();
        let head = Lines::new(std::mem::take(&mut self.buffer));
        let (mut answer, now) = self.public.answers.refuse(self.peer, problem, head).await;
        let body = answer.body.take().unwrap_or_default();
        answer.head.end(self.date.at(now), Persistence::Close);
        let sent = send(self.timer.as_mut(), &mut stream, answer.head.as_bytes(), &body).await;
        drop(busy);
        if sent.is_ok() {
            self.connection.set_idle(Instant::now());
            tokio::select! {
                () = write::lingering_close(stream) => {}
                () = self.leave.as_mut() => {}
            }
        }
    }

    /// Answers a request without a body on a persistent connection.
    async fn answer(&mut self, mut session: ServerSession) -> Result<Option<Between>, Broken> {
        let head = Lines::new(std::mem::take(&mut self.buffer));
        let decided = self.public.answers.respond(&view(session.req_header(), self.peer, false), head).await;
        let (mut answer, info, now) = match decided {
            Decided::Ready { answer, info, now } => (answer, info, now),
            Decided::Later(later) => {
                session.set_write_timeout(Some(WRITE_TIMEOUT));
                self.public.carry_out(&mut session, later, None).await?;
                return self.finish(session).await;
            }
        };
        let body = answer.body.take().unwrap_or_default();
        self.public.answers.record(&view(session.req_header(), self.peer, false), info, &answer, body.len());
        answer.head.end(self.date.at(now), Persistence::KeepAlive);
        let Some((mut stream, begun)) = self.finish(session).await? else { return Ok(None) };
        let sent = send(self.timer.as_mut(), &mut stream, answer.head.as_bytes(), &body).await;
        self.buffer = answer.head.into_buffer();
        sent.map_err(|error| {
            tracing::debug!(%error, "a connection failed");
            Broken
        })?;
        Ok(Some((stream, begun)))
    }

    /// Takes the stream back from a session after its request; `None` if the connection has ended.
    async fn finish(&mut self, session: ServerSession) -> Result<Option<Between>, Broken> {
        let finished = within(self.timer.as_mut(), WRITE_TIMEOUT, session.finish()).await;
        Ok(finished.ok_or(Broken)??.map(pingora::protocols::http::ReusableHttpStream::into_parts))
    }
}

/// Writes head and body together. A client must take a [`PIECE`] within each deadline, or the rest.
async fn send(mut timer: Pin<&mut Sleep>, stream: &mut Stream, head: &[u8], body: &Bytes) -> io::Result<()> {
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    let mut slices = [IoSlice::new(head), IoSlice::new(body)];
    let mut left = &mut slices[..];
    let (mut limit, mut taken) = (None, 0);
    while !left.is_empty() {
        let patience = limit.map_or(WRITE_TIMEOUT, |limit: Instant| limit.saturating_duration_since(Instant::now()));
        let written = within(timer.as_mut(), patience, stream.write_vectored(left)).await.ok_or_else(late)??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        taken += written;
        IoSlice::advance_slices(&mut left, written);
        if limit.is_none() || taken >= PIECE {
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

/// The address at the other end of a connection.
pub(super) fn peer_of(stream: &Stream) -> IpAddr {
    let peer = stream.get_socket_digest().and_then(|digest| digest.peer_addr()?.as_inet().map(SocketAddr::ip));
    peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// `Date`, written out once a second.
#[derive(Default)]
struct Date {
    second: Option<i64>,
    text: Option<String>,
}

impl Date {
    fn at(&mut self, now: WallTime) -> Option<&[u8]> {
        if self.second != Some(now.as_seconds()) {
            (self.second, self.text) = (Some(now.as_seconds()), now.http_date());
        }
        self.text.as_deref().map(str::as_bytes)
    }
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
            let sent = send(timer, &mut stream, b"head", &vec![b'x'; 1 << 20].into()).await;
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
