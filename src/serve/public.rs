//! One request on the public listener: admitted, found, answered, recorded.
//!
//! It decides nothing itself: [`crate::pipeline`] does. Connections are the business of [`super::gate`], which calls it.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::ServerSession;

use crate::api::route::Route;
use crate::clock::{self, Clock, WallTime};
use crate::limit::Decision;
use crate::pipeline::admit::{self, Admission, Admitted, Rules, Target, View};
use crate::pipeline::answer::{Answer, Asked, FromSnapshot, Standing};
use crate::pipeline::head::Head;
use crate::proxy::pass_through::PassThrough;
use crate::proxy::spool::Reader;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::problem::Problem;
use crate::telemetry::{ForwardLabels, Telemetry};

use super::connection::WRITE_TIMEOUT;
use super::connections::Full;
use super::find::{Finder, Found};
use super::in_flight::InFlight;

/// After how many seconds somebody for whom there was no room may try again.
const NO_ROOM_FOR: u64 = 5;

/// The public listener's state.
pub(crate) struct Public {
    /// What decides.
    pub rules: Rules,
    /// What finds.
    pub finder: Finder,
    /// What every answer repeats.
    pub standing: Standing,
    /// What counts.
    pub telemetry: Telemetry,
    /// What is being answered.
    pub in_flight: InFlight,
    /// Where unknown endpoints go; `None` offline.
    pub pass: Option<PassThrough>,
    /// The clock.
    pub clock: Clock,
}

/// The connection cannot be used any more: the client is gone, or got only a part of its answer.
#[derive(Debug)]
pub(crate) struct Broken;

impl From<Box<pingora::Error>> for Broken {
    fn from(error: Box<pingora::Error>) -> Self {
        tracing::debug!(%error, "a connection broke");
        Self
    }
}

/// What becomes of a request whose head has been read.
pub(super) enum Decided<H> {
    /// It is answered, and the whole answer is there.
    Ready {
        /// The answer.
        answer: Answer<H>,
        /// Whose it is.
        of: Of,
        /// When it was made.
        now: WallTime,
    },
    /// The origin answers it.
    Passes {
        /// Path and raw query to send.
        target: Bytes,
        /// Whose it is.
        of: Of,
        /// What the limiter says.
        limit: Decision,
    },
}

/// Whose request it is, and what for: for logs and counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Of {
    /// The word for the endpoint.
    pub route: &'static str,
    /// The client.
    pub client: IpAddr,
}

impl Public {
    /// Decides on a request, and makes the answer in `head` where there is one.
    pub(super) async fn decide<H: Head>(
        &self,
        request: &RequestHeader,
        peer: IpAddr,
        has_body: bool,
        mut head: H,
    ) -> Decided<H> {
        let view = View {
            method: &request.method,
            target: request.raw_path(),
            headers: &request.headers,
            peer,
            has_body,
            version: request.version,
        };
        let admitted = admit::admit(&view, &self.rules, self.clock.now_mono());
        let Admitted { admission, route, client, limit, conditional } = admitted;
        let passes = route == Route::Unknown.as_str() && self.pass.is_some();
        let mut asked =
            Asked { method: view.method, headers: view.headers, limit, coding: Coding::Identity, conditional, passes };
        let of = Of { route, client };
        let answer = match admission {
            Admission::Preflight(methods) => self.standing.preflight(methods, limit, head),
            Admission::Options(methods) => self.standing.options(methods, limit, head),
            Admission::Refused(problem) => self.standing.problem(asked, &problem, None, head),
            Admission::Admitted { target: Target::PassThrough { target }, .. } => {
                if passes {
                    return Decided::Passes { target: target.into(), of, limit };
                }
                self.standing.problem(asked, &Problem::unknown_path(&target[..]), None, head)
            }
            Admission::Admitted { target, coding } => {
                asked.coding = coding;
                match self.finder.find(target, coding, client).await {
                    Found::Snapshot { reply, published, forwarded, pinned } => {
                        let now = self.clock.now_wall();
                        let found = FromSnapshot { reply: &reply, published: &published, forwarded, pinned };
                        let answer = self.standing.snapshot(asked, found, now, head);
                        return Decided::Ready { answer, of, now };
                    }
                    Found::Through { stored, outcome } => {
                        let answer = self.standing.through(asked, &stored, outcome, self.clock.now_mono());
                        let Answer { status, head: fields, body, outcome, cache } = answer;
                        head.adopt(status, fields);
                        Answer { status, head, body, outcome, cache }
                    }
                    Found::Problem { problem, retry_after } => {
                        self.standing.problem(asked, &problem, retry_after, head)
                    }
                }
            }
        };
        Decided::Ready { answer, of, now: self.clock.now_wall() }
    }

    /// Answers the request whose head has been read, through pingora's session.
    ///
    /// # Errors
    /// When the connection must be given up.
    pub(super) async fn exchange(&self, session: &mut ServerSession, peer: IpAddr) -> Result<(), Broken> {
        let has_body = !session.is_body_empty();
        match self.decide(session.req_header(), peer, has_body, HeaderMap::new()).await {
            Decided::Ready { answer, of, .. } => self.send(session, of, answer, None).await,
            Decided::Passes { target, of, limit } => self.pass_through(session, target, of, limit).await,
        }
    }

    /// Writes an answer, the rest of whose body may be on its way, and records it.
    pub(super) async fn send(
        &self,
        session: &mut ServerSession,
        of: Of,
        mut answer: Answer,
        rest: Option<Reader>,
    ) -> Result<(), Broken> {
        if answer.outcome == "problem" && !is_bodyless(session.req_header()) {
            // What follows on the connection is a body that nobody reads (RFC 9112 §9.6).
            session.set_keepalive(None);
        }
        let body = answer.body.take();
        let rest = rest.filter(|_| body.is_some());
        if rest.is_some() && !answer.head.contains_key(http::header::CONTENT_LENGTH) && !session.is_http2() {
            if session.req_header().version == Version::HTTP_11 {
                answer.head.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            } else {
                // HTTP/1.0 knows the end of such a body by the end of the connection.
                session.set_keepalive(None);
            }
        }
        let fields = std::mem::take(&mut answer.head);
        let mut bytes = body.as_ref().map_or(0, Bytes::len);
        let sent = async {
            write_head(session, answer.status, fields).await?;
            let Some(mut rest) = rest else {
                if let Some(body) = body {
                    write_body(session, body, true).await?;
                }
                return Ok(());
            };
            while let Some(piece) = rest.next().await {
                let piece = piece.map_err(|broken| {
                    tracing::debug!(%broken, "a client got a part of an answer");
                    Broken
                })?;
                bytes += piece.len();
                write_body(session, piece, false).await?;
            }
            in_time(session.write_response_body(Bytes::new(), true)).await
        };
        let sent = sent.await;
        self.record(session.req_header(), of, &answer, bytes);
        sent
    }

    /// Counts an answer, and logs it where that is wanted.
    pub(super) fn record<H>(&self, request: &RequestHeader, of: Of, answer: &Answer<H>, bytes: usize) {
        let Answer { status, outcome, cache, .. } = *answer;
        self.telemetry.answered(of.route, outcome, status.as_u16(), bytes);
        if let Some(asked) = cache.and_then(CacheOutcome::forwarded) {
            let word = |flag: bool| if flag { "true" } else { "false" };
            let (stored, collapsed) = (word(asked.stored), word(asked.collapsed));
            let fwd_status = asked.fwd_status;
            self.telemetry.forwarded(&ForwardLabels { fwd: outcome, fwd_status, stored, collapsed });
        }
        tracing::debug!(
            target: "access",
            client = %of.client,
            method = %request.method,
            path = %String::from_utf8_lossy(request.raw_path()),
            status = status.as_u16(),
            bytes,
            outcome,
            cache = cache.map(|cache| String::from_utf8_lossy(cache.to_header_value().as_bytes()).into_owned()),
        );
    }

    /// The answer, in `head`, to a request whose fields cannot be told, and when it was made; it is recorded.
    pub(super) fn refuse<H: Head>(&self, peer: IpAddr, problem: Problem, head: H) -> (Answer<H>, WallTime) {
        let limit = admit::admit_unread(peer, &self.rules, self.clock.now_mono());
        let problem = match limit {
            Decision::Refused { quota, retry_after_seconds } => Problem::rate_limited(quota, retry_after_seconds),
            _ => problem,
        };
        self.unasked(limit, &problem, None, head)
    }

    /// The answer, in `head`, to somebody for whom there is no room, and when it was made; it is recorded.
    pub(super) fn turn_away<H: Head>(&self, peer: IpAddr, full: Full, head: H) -> (Answer<H>, WallTime) {
        let limit = admit::peek_unread(peer, &self.rules, self.clock.now_mono());
        let most = match full {
            Full::Household(most) => Some(most),
            Full::All => None,
        };
        self.unasked(limit, &Problem::too_many_connections(most), Some(NO_ROOM_FOR), head)
    }

    fn unasked<H: Head>(
        &self,
        limit: Decision,
        problem: &Problem,
        retry_after: Option<u64>,
        head: H,
    ) -> (Answer<H>, WallTime) {
        let (method, headers) = (Method::GET, HeaderMap::new());
        let asked = Asked {
            method: &method,
            headers: &headers,
            limit,
            coding: Coding::Identity,
            conditional: false,
            passes: false,
        };
        let answer = self.standing.problem(asked, problem, retry_after, head);
        let bytes = answer.body.as_ref().map_or(0, Bytes::len);
        self.telemetry.answered(Route::Unknown.as_str(), answer.outcome, answer.status.as_u16(), bytes);
        (answer, self.clock.now_wall())
    }

    /// Says that a request cannot be read, where the client can still be told.
    pub(super) async fn unreadable(&self, session: &mut ServerSession, peer: IpAddr) {
        let (answer, _) = self.refuse(peer, Problem::unreadable(), HeaderMap::new());
        session.set_keepalive(None);
        let sent = write_head(session, answer.status, answer.head).await;
        if let (Ok(()), Some(body)) = (sent, answer.body) {
            // Who left before it was sent is not told.
            let _sent = in_time(session.write_response_body(body, true)).await;
        }
    }
}

/// Writes the head of a final answer. Before 1970 pingora would panic: the connection ends instead. What the fast way
/// answers, it does not write.
async fn write_head(session: &mut ServerSession, status: StatusCode, fields: HeaderMap) -> Result<(), Broken> {
    if clock::is_before_1970() {
        tracing::debug!("the system clock shows a time before 1970; a connection is closed without an answer");
        return Err(Broken);
    }
    in_time(session.write_response_header(Box::new(head(status, fields)))).await
}

/// Writes a part of a body, and the end of all of it if `ends`. The deadline is around progress: a client that reads
/// slowly but steadily gets everything, however much that is.
async fn write_body(session: &mut ServerSession, mut body: Bytes, ends: bool) -> Result<(), Broken> {
    /// What a client must take within the deadline: 2 KiB a second.
    const PIECE: usize = 64 << 10;
    while body.len() > PIECE {
        in_time(session.write_response_body(body.split_to(PIECE), false)).await?;
    }
    in_time(session.write_response_body(body, ends)).await
}

/// A write of pingora's session, which has no deadline for heads and flushes of its own.
pub(super) async fn in_time<T>(write: impl Future<Output = pingora::Result<T>>) -> Result<T, Broken> {
    match tokio::time::timeout(WRITE_TIMEOUT, write).await {
        Ok(written) => Ok(written?),
        Err(_elapsed) => {
            tracing::debug!("a client does not read its answer");
            Err(Broken)
        }
    }
}

/// A head for pingora. The fields are moved in as they are: setting them one by one would spell each name anew.
pub(super) fn head(status: StatusCode, headers: HeaderMap) -> ResponseHeader {
    let (mut parts, ()) = http::Response::new(()).into_parts();
    (parts.status, parts.headers) = (status, headers);
    parts.into()
}

fn is_bodyless(request: &RequestHeader) -> bool {
    let length = request.headers.get(http::header::CONTENT_LENGTH);
    !request.headers.contains_key(TRANSFER_ENCODING)
        && length.is_none_or(|length| length == HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const SIZE: usize = 12 << 20;

    /// Sends a large body to a client that reads so much of it each second, and then no more.
    async fn sent_to_a_client_that_reads(each_second: u64, seconds: usize) -> (Result<(), Broken>, usize) {
        let (mut client, server) = tokio::io::duplex(16 << 10);
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let writes = async {
            let mut session = ServerSession::new_http1(Box::new(server));
            session.read_request().await.unwrap();
            let fields = HeaderMap::from_iter([(http::header::CONTENT_LENGTH, HeaderValue::from(SIZE))]);
            write_head(&mut session, StatusCode::OK, fields).await?;
            write_body(&mut session, vec![b'x'; SIZE].into(), true).await
        };
        let reads = async {
            let mut got = Vec::new();
            for _ in 0..seconds {
                (&mut client).take(each_second).read_to_end(&mut got).await.unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            // It holds the connection open, and reads nothing more until that has ended.
            tokio::time::sleep(WRITE_TIMEOUT * 2).await;
            client.read_to_end(&mut got).await.unwrap();
            got.len()
        };
        tokio::join!(writes, reads)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_but_steadily_gets_all_of_a_large_body() {
        let (sent, got) = sent_to_a_client_that_reads(100 << 10, 130).await;
        assert!(sent.is_ok() && got > SIZE, "{got} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_is_given_up() {
        let (sent, got) = sent_to_a_client_that_reads(100 << 10, 20).await;
        assert!(sent.is_err() && got < SIZE, "{got} bytes");
    }
}
