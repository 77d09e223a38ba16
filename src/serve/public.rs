//! One request of pingora's session: writes its answer and records it.
//!
//! [`crate::answer::respond`] decides. Callers: `super::connection` and `super::http2`.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, HeaderValue, Version};
use pingora::http::RequestHeader;
use pingora::protocols::http::ServerSession;

use crate::answer::admit::View;
use crate::answer::compose::{Answer, Outcome};
use crate::answer::respond::{Decided, RequestInfo, Responder};
use crate::semantics::problem::Problem;

use super::in_flight::InFlight;
use super::rest::Rest;
use super::unread::carried;
use super::write::{Broken, PIECE, Shared, enter, in_time, write_body, write_head};

/// The public listener's state.
pub(crate) struct Public {
    pub answers: Responder,
    /// The requests in flight.
    pub in_flight: InFlight,
}

/// The parts of a parsed request on which the answer depends.
pub(super) fn view(request: &RequestHeader, peer: IpAddr, has_body: bool) -> View<'_> {
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
    pub(super) async fn exchange(&self, session: &mut ServerSession, peer: IpAddr) -> Result<(), Broken> {
        let has_body = !session.is_body_empty();
        let view = view(session.req_header(), peer, has_body);
        let decided = self.answers.respond(&view, HeaderMap::new()).await;
        self.carry_out(session, decided, None).await
    }

    /// Writes the answer that was decided on.
    ///
    /// # Errors
    /// When the connection must be closed.
    pub(super) async fn carry_out(
        &self,
        session: &mut ServerSession,
        decided: Decided<HeaderMap>,
        shared: Shared<'_>,
    ) -> Result<(), Broken> {
        match decided {
            Decided::Ready { answer, info, .. } => self.send(session, info, answer, None, shared).await,
            Decided::Dump { answer, part, info } => {
                self.send(session, info, answer, part.map(Rest::File), shared).await
            }
            Decided::Passes { target, info, limit } => self.pass_through(session, target, info, limit, shared).await,
        }
    }

    /// Writes an answer, whose body may still be arriving, and records it.
    pub(super) async fn send(
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
    pub(super) async fn unreadable(&self, session: &mut ServerSession, peer: IpAddr) {
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
