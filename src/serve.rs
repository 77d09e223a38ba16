//! The public listener, kept thin: one request through pingora's session, its answer written and recorded.
//!
//! Sockets only: [`crate::answer`] finds and makes the answers. [`gate`] accepts connections, reads what a load balancer
//! announces, and tells protocols apart; [`tls`] makes connections secure; `connection` serves HTTP/1 and limits the time
//! of clients, `http2` serves HTTP/2. [`request_head`] limits the size of heads, [`connections`] the number of connections
//! and what waits for slow clients. [`listener`] holds the sockets. Callers: [`crate::app`].

mod connection;
pub(crate) mod connections;
pub(crate) mod gate;
mod http2;
pub(crate) mod listener;
pub(crate) mod request_head;
pub(crate) mod tls;
pub(crate) mod write;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Version};
use pingora::http::RequestHeader;
use pingora::protocols::http::ServerSession;
use tokio::sync::mpsc;

use crate::answer::admit::{MAX_REQUEST_BODY, View};
use crate::answer::compose::{Answer, Asked, Outcome};
use crate::answer::{Decided, Later, RequestInfo, Responder};
use crate::dumps::DumpBody;
use crate::limit::Decision;
use crate::proxy::question::{Endpoint, Question};
use crate::proxy::spool::{CutShort, Reader};
use crate::semantics::caching::end_to_end;
use crate::semantics::framing::MOST_INTERIM;
use crate::semantics::problem::Problem;
use crate::upstream::wire::Interim;

use connections::{InFlight, carried};
use write::{Broken, PIECE, Shared, enter, head, in_time, write_body, write_head};

/// The public listener's state.
pub(crate) struct Public {
    pub answers: Responder,
    /// The requests in flight.
    pub in_flight: InFlight,
}

/// The parts of a parsed request on which the answer depends.
fn view(request: &RequestHeader, peer: IpAddr, has_body: bool) -> View<'_> {
    View {
        method: &request.method,
        target: request.raw_path(),
        headers: &request.headers,
        peer,
        has_body,
        version: request.version,
    }
}

impl Public {
    /// Answers the request whose head has been read, through pingora's session.
    ///
    /// # Errors
    /// When the connection must be closed.
    async fn exchange(&self, session: &mut ServerSession, peer: IpAddr) -> Result<(), Broken> {
        let has_body = !session.is_body_empty();
        let view = view(session.req_header(), peer, has_body);
        match self.answers.respond(&view, HeaderMap::new()).await {
            Decided::Ready { answer, info, .. } => self.send(session, info, answer, None, None).await,
            Decided::Later(later) => self.carry_out(session, later, None).await,
        }
    }

    /// Writes an answer that was not there as a whole.
    ///
    /// # Errors
    /// When the connection must be closed.
    async fn carry_out(&self, session: &mut ServerSession, later: Later, shared: Shared<'_>) -> Result<(), Broken> {
        match later {
            Later::Dump { answer, body, info } => self.send(session, info, answer, body.map(Rest::Dump), shared).await,
            Later::Passes { target, info, limit } => self.pass_through(session, target, info, limit, shared).await,
        }
    }

    /// Writes an answer, whose body may still be arriving, and records it.
    async fn send(
        &self,
        session: &mut ServerSession,
        info: RequestInfo,
        mut answer: Answer,
        rest: Option<Rest>,
        shared: Shared<'_>,
    ) -> Result<(), Broken> {
        if answer.outcome == Outcome::Problem && !is_bodyless(session.req_header()) {
            // The connection continues with a body that nobody reads (RFC 9112 §9.6).
            session.set_keepalive(None);
        }
        let body = answer.body.take();
        let rest = rest.filter(|_| body.is_some());
        if rest.is_some() && !answer.head.contains_key(http::header::CONTENT_LENGTH) && !session.is_http2() {
            if session.req_header().version == Version::HTTP_11 {
                answer.head.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            } else {
                // In HTTP/1.0 such a body ends with the connection.
                session.set_keepalive(None);
            }
        }
        let fields = std::mem::take(&mut answer.head);
        let mut bytes = body.as_ref().map_or(0, Bytes::len);
        let sent = async {
            let mut unread = enter(shared).await?;
            if let Some(unread) = &mut unread {
                unread.resize(if rest.is_some() { PIECE } else { bytes });
            }
            write_head(session, answer.status, fields).await?;
            let Some(mut rest) = rest else {
                if let Some(body) = body {
                    let body = carried(body, unread);
                    write_body(session, body, true, shared).await?;
                }
                return Ok(());
            };
            let unread = unread.map(Arc::new);
            while let Some(piece) = rest.next().await {
                let piece = piece.map_err(|broken| {
                    tracing::debug!(%broken, "an answer was sent only in part");
                    Broken
                })?;
                bytes += piece.len();
                let piece = if let Some(unread) = &unread { carried(piece, unread.clone()) } else { piece };
                write_body(session, piece, false, shared).await?;
            }
            in_time(shared, session.write_response_body(Bytes::new(), true)).await
        };
        let sent = sent.await;
        self.answers.record(&view(session.req_header(), info.client, false), info, &answer, bytes);
        sent
    }

    /// Answers an unreadable request with 400, if still possible.
    async fn unreadable(&self, session: &mut ServerSession, peer: IpAddr) {
        let (answer, _) = self.answers.refuse(peer, Problem::unreadable(), HeaderMap::new()).await;
        session.set_keepalive(None);
        let sent = write_head(session, answer.status, answer.head).await;
        if let (Ok(()), Some(body)) = (sent, answer.body) {
            // The client may be gone.
            let _sent = in_time(None, session.write_response_body(body, true)).await;
        }
    }
}

fn is_bodyless(request: &RequestHeader) -> bool {
    let length = request.headers.get(http::header::CONTENT_LENGTH);
    !request.headers.contains_key(TRANSFER_ENCODING)
        && length.is_none_or(|length| length == HeaderValue::from_static("0"))
}

/// How long the body of a request may take in all.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

impl Public {
    async fn pass_through(
        &self,
        session: &mut ServerSession,
        target: Bytes,
        mut info: RequestInfo,
        limit: Decision,
        shared: Shared<'_>,
    ) -> Result<(), Broken> {
        let request = session.req_header();
        let (method, fields, version) = (request.method.clone(), request.headers.clone(), request.version);
        let asked = Asked { conditional: true, passes: true, ..Asked::of(&method, &fields, limit) };
        let Some(proxy) = &self.answers.proxy else {
            let problem = Problem::unknown_path(&target[..]);
            let answer = self.answers.constant_headers.load().problem(asked, &problem, None, HeaderMap::new());
            return self.send(session, info, answer, None, shared).await;
        };
        let body = if session.is_body_empty() {
            Bytes::new()
        } else {
            match tokio::time::timeout(BODY_DEADLINE, body(session)).await {
                Ok(body) => body?,
                Err(_elapsed) => return Err(Broken),
            }
        };
        let client = info.client;
        let question = Question {
            method: method.clone(),
            target,
            fields: fields.clone(),
            body,
            client,
            for_many: self.answers.rules.load().client_ip.trusts(client),
            version,
            endpoint: Endpoint::Unknown,
        };
        let (tell, mut told) = mpsc::channel::<Interim>(MOST_INTERIM);
        let asking = proxy.ask(question, Some(Arc::new(move |interim| drop(tell.try_send(interim)))));
        let mut asking = std::pin::pin!(asking);
        let passed = loop {
            tokio::select! {
                biased;
                Some(interim) = told.recv() => interim_answer(session, version, interim).await?,
                passed = &mut asking => break passed,
            }
        };
        // The last of them may have come together with the answer.
        while let Ok(interim) = told.try_recv() {
            interim_answer(session, version, interim).await?;
        }
        let (mut answer, rest) = self.answers.passed(asked, proxy, passed);
        self.answers.identify(&fields, &mut info, &mut answer);
        self.send(session, info, answer, rest.map(Rest::Origin), shared).await
    }
}

/// An interim answer, for HTTP/1.1 clients only (pingora sends none over HTTP/2).
async fn interim_answer(
    session: &mut ServerSession,
    version: Version,
    (status, fields): Interim,
) -> Result<(), Broken> {
    if version == Version::HTTP_11 && status != http::StatusCode::CONTINUE {
        let fields = end_to_end(&fields, false);
        in_time(None, session.write_response_header(Box::new(head(status, fields)))).await?;
    }
    Ok(())
}

/// The whole body of a request, whose announced length is within bounds.
async fn body(session: &mut ServerSession) -> Result<Bytes, Broken> {
    if session.req_header().headers.contains_key(EXPECT) {
        in_time(None, session.write_continue_response()).await?;
    }
    let mut body = BytesMut::new();
    while let Some(piece) = session.read_request_body().await? {
        if (body.len() + piece.len()) as u64 > MAX_REQUEST_BODY {
            return Err(Broken);
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// Where the rest comes from.
enum Rest {
    /// It still arrives.
    Origin(Reader),
    /// It is read or rendered here.
    Dump(DumpBody),
}

/// Why there is no more of it.
#[derive(Debug, thiserror::Error)]
enum Unfinished {
    #[error(transparent)]
    Origin(#[from] CutShort),
    #[error("the dump cannot be read: {0}")]
    Dump(#[from] io::Error),
}

impl Rest {
    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Option<Result<Bytes, Unfinished>> {
        Some(match self {
            Self::Origin(reader) => reader.next().await?.map_err(Unfinished::from),
            Self::Dump(body) => body.next().await?.map_err(Unfinished::from),
        })
    }
}
