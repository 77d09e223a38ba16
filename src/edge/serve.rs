//! The public listener, kept thin: one request through pingora's session, its answer written and recorded.
//!
//! Sockets only: [`crate::edge::answer`] finds and makes the answers. [`gate`] accepts connections, reads what a load
//! balancer announces, and tells protocols apart; [`tls`] makes connections secure; `connection` serves HTTP/1 and
//! limits the time of clients, `http2` serves HTTP/2. [`request_head`] limits the size of heads, [`connections`] the
//! number of connections. [`listener`] holds the sockets. Callers: [`crate::server`].

mod connection;
pub(crate) mod connections;
pub(crate) mod gate;
mod http2;
pub(crate) mod listener;
pub mod request_head;
pub(crate) mod tls;
pub(crate) mod write;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{Response, StatusCode, Version};
use pingora::http::RequestHeader;
use pingora::protocols::http::v1::server::HttpSession;
use tokio::sync::mpsc;

use crate::edge::answer::admit::{MAX_REQUEST_BODY, View};
use crate::edge::answer::compose::Answer;
use crate::edge::answer::{RequestInfo, Responder};
use crate::edge::limit::Decision;
use crate::edge::limit::backlog::Backlog;
use crate::edge::proxy::Proxy;
use crate::edge::proxy::request::{Endpoint, ProxyRequest};
use crate::origin::wire::Interim;
use crate::protocol::caching::end_to_end;
use crate::protocol::framing::MOST_INTERIM;

use connections::InFlight;
use write::{Broken, in_time};

pub(crate) struct Public {
    pub answers: Responder,
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

/// How long the body of a request is, by its head.
fn announced(head: &RequestHeader) -> Option<usize> {
    head.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// What a request that waits counts beside its head, in bytes: its task, and a small answer that may come for it.
const WAITS: usize = 40 << 10;
/// What each field counts beside its name and value, in bytes.
const FIELD: usize = 64;
/// So many times the target of a request that waits for the origin is held (measured): as it came, parsed, as a key, joined
/// with the origin's address.
const FORMS: usize = 11;

/// What a request counts while it waits, in bytes.
fn weight(request: &RequestHeader) -> usize {
    let fields = request.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    WAITS + FORMS * request.raw_path().len() + fields.sum::<usize>()
}

// READ_TIMEOUT restarts with each read, so that it alone would let a client send byte by byte for hours.
/// How long the body of a request may take in all.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

impl Public {
    async fn pass_through(
        &self,
        mut incoming: Incoming<'_>,
        proxy: &Proxy,
        target: Bytes,
        limit: Decision,
        info: &mut RequestInfo,
        backlog: &Arc<Backlog>,
    ) -> Result<Answer, Broken> {
        let request = incoming.head();
        let (method, fields, version) = (request.method.clone(), request.headers.clone(), request.version);
        let announced = announced(request).and_then(|length| backlog.hold(length));
        let Ok(body) = tokio::time::timeout(BODY_DEADLINE, incoming.body()).await else { return Err(Broken) };
        // It counts until it is dropped: the request to the origin goes on after its client has left.
        let body = backlog.carry(body?);
        drop(announced);
        let client = info.client;
        let question = ProxyRequest {
            method: method.clone(),
            target,
            fields: fields.clone(),
            body,
            client,
            for_many: self.answers.in_force.load().rules.client_ip.trusts(client),
            version,
            endpoint: Endpoint::Unknown,
        };
        // Room for as many as an answer may have: `try_send` loses none.
        let (tell, mut told) = mpsc::channel::<Interim>(MOST_INTERIM);
        let asking = proxy.ask(question, Some(Arc::new(move |interim| drop(tell.try_send(interim)))));
        let mut asking = std::pin::pin!(asking);
        let passed = loop {
            // Interim answers first. Neither branch loses anything when the other one is taken: `recv` is cancel-safe,
            // and `asking` goes on where it was.
            tokio::select! {
                biased;
                Some(interim) = told.recv() => incoming.tell(interim).await?,
                passed = &mut asking => break passed,
            }
        };
        // The last of them may have come together with the answer.
        while let Ok(interim) = told.try_recv() {
            incoming.tell(interim).await?;
        }
        Ok(self.answers.passed((&method, &fields), limit, info, proxy, passed))
    }
}

/// A request whose body is read.
enum Incoming<'a> {
    Http1(&'a mut HttpSession),
    Http2(&'a RequestHeader, &'a mut RecvStream, &'a mut SendResponse<Bytes>),
}

impl Incoming<'_> {
    fn head(&self) -> &RequestHeader {
        match self {
            Self::Http1(session) => session.req_header(),
            Self::Http2(head, ..) => head,
        }
    }

    /// The whole body, whose announced length is within bounds.
    async fn body(&mut self) -> Result<Bytes, Broken> {
        if self.head().headers.contains_key(EXPECT) {
            match self {
                Self::Http1(session) => {
                    if !session.is_body_empty() {
                        in_time(session.write_continue_response()).await?;
                    }
                }
                Self::Http2(_, stream, respond) => {
                    if !stream.is_end_stream() {
                        let mut goes_on = Response::new(());
                        *goes_on.status_mut() = StatusCode::CONTINUE;
                        respond.send_informational(goes_on)?;
                    }
                }
            }
        }
        let mut body = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if (body.len() + piece.len()) as u64 > MAX_REQUEST_BODY {
                return Err(Broken);
            }
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        match self {
            Self::Http1(session) => Ok(session.read_body_bytes().await?),
            Self::Http2(_, stream, _) => {
                let piece = stream.data().await.transpose()?;
                if let Some(piece) = &piece {
                    stream.flow_control().release_capacity(piece.len())?;
                }
                Ok(piece)
            }
        }
    }

    /// Sends an interim answer; to HTTP/1.1 clients only.
    async fn tell(&mut self, (status, fields): Interim) -> Result<(), Broken> {
        if let Self::Http1(session) = self
            && session.req_header().version == Version::HTTP_11
            && status != StatusCode::CONTINUE
        {
            // The fields are moved: setting them one by one would allocate each name.
            let (mut parts, ()) = Response::new(()).into_parts();
            (parts.status, parts.headers) = (status, end_to_end(&fields, false));
            in_time(session.write_response_header(Box::new(parts.into()))).await?;
        }
        Ok(())
    }
}
