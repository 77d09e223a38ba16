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

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Version;
use http::header::EXPECT;
use pingora::http::RequestHeader;
use pingora::protocols::http::ServerSession;
use tokio::sync::mpsc;

use crate::answer::admit::{MAX_REQUEST_BODY, View};
use crate::answer::compose::Answer;
use crate::answer::{RequestInfo, Responder};
use crate::limit::Decision;
use crate::proxy::Proxy;
use crate::proxy::question::{Endpoint, Question};
use crate::semantics::caching::end_to_end;
use crate::semantics::framing::MOST_INTERIM;
use crate::upstream::wire::Interim;

use connection::READ_TIMEOUT;
use connections::InFlight;
use write::{Broken, head, in_time};

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

/// How long the body of a request may take in all.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

impl Public {
    /// The origin's answer to a request.
    ///
    /// # Errors
    /// When the connection must be closed.
    async fn pass_through(
        &self,
        session: &mut ServerSession,
        proxy: &Proxy,
        target: Bytes,
        limit: Decision,
        info: &mut RequestInfo,
    ) -> Result<Answer, Broken> {
        session.set_read_timeout(Some(READ_TIMEOUT));
        session.set_total_drain_timeout(Some(READ_TIMEOUT));
        let request = session.req_header();
        let (method, fields, version) = (request.method.clone(), request.headers.clone(), request.version);
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
        Ok(self.answers.passed((&method, &fields), limit, info, proxy, passed))
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
