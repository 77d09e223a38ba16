//! One request on the public listener: admitted, found, answered, recorded.
//!
//! It decides nothing itself: [`crate::pipeline`] does. Connections are the business of [`super::gate`], which calls it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::ServerSession;

use crate::api::route::Route;
use crate::clock::Clock;
use crate::limit::Decision;
use crate::pipeline::admit::{self, Admission, Admitted, Rules, Target, View};
use crate::pipeline::answer::{Answer, Asked, Standing};
use crate::proxy::pass_through::PassThrough;
use crate::proxy::spool::Reader;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::problem::Problem;
use crate::telemetry::{ForwardLabels, Telemetry};

use super::find::{Finder, Found};
use super::gate::KEEPALIVE_SECONDS;
use super::in_flight::InFlight;

/// The public listener's state.
pub struct Public {
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
pub struct Broken;

impl From<Box<pingora::Error>> for Broken {
    fn from(error: Box<pingora::Error>) -> Self {
        tracing::debug!(%error, "a connection broke");
        Self
    }
}

impl Public {
    /// Answers the request whose head has been read.
    ///
    /// # Errors
    /// When the connection must be given up.
    pub async fn exchange(&self, session: &mut ServerSession) -> Result<(), Broken> {
        let _busy = self.in_flight.enter();
        let has_body = !session.is_body_empty();
        let peer = session.client_addr().and_then(|address| address.as_inet());
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SocketAddr::ip);
        let request = session.req_header();
        let view =
            View { method: &request.method, target: request.raw_path(), headers: &request.headers, peer, has_body };
        let admitted = admit::admit(&view, &self.rules, self.clock.now_mono());
        let passes = admitted.route == Route::Unknown.as_str() && self.pass.is_some();
        let mut asked = Asked {
            method: view.method,
            headers: view.headers,
            limit: admitted.limit,
            coding: Coding::Identity,
            passes,
        };
        let Admitted { admission, route, client, limit } = admitted;
        let answer = match admission {
            Admission::Preflight => self.standing.preflight(limit),
            Admission::Refused(problem) => self.standing.problem(asked, &problem, None),
            Admission::Admitted { target: Target::PassThrough { target }, .. } => match &self.pass {
                Some(pass) => return self.pass_through(pass, session, target.into(), client, limit).await,
                None => self.standing.problem(asked, &Problem::unknown_path(&target[..]), None),
            },
            Admission::Admitted { target, coding } => {
                asked.coding = coding;
                match self.finder.find(target, coding, client).await {
                    Found::Snapshot { reply, published, forwarded, pinned } => {
                        let now = self.clock.now_wall();
                        self.standing.snapshot(asked, &reply, &published, forwarded, pinned, now)
                    }
                    Found::Through { stored, outcome } => {
                        self.standing.through(asked, &stored, outcome, self.clock.now_mono())
                    }
                    Found::Problem { problem, retry_after } => self.standing.problem(asked, &problem, retry_after),
                }
            }
        };
        self.send(session, route, client, answer, None).await
    }

    /// Writes an answer, the rest of whose body may be on its way, and records it.
    pub(super) async fn send(
        &self,
        session: &mut ServerSession,
        route: &'static str,
        client: IpAddr,
        answer: Answer,
        rest: Option<Reader>,
    ) -> Result<(), Broken> {
        let Answer { status, mut headers, body, outcome, cache } = answer;
        if outcome == "problem" && !is_bodyless(session.req_header()) {
            // What follows on the connection is a body that nobody reads (RFC 9112 §9.6).
            session.set_keepalive(None);
        } else if session.get_keepalive().is_some() {
            session.set_keepalive(Some(KEEPALIVE_SECONDS));
        }
        let rest = rest.filter(|_| body.is_some());
        if rest.is_some() && !headers.contains_key(http::header::CONTENT_LENGTH) && !session.is_http2() {
            if session.req_header().version == Version::HTTP_11 {
                headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            } else {
                // HTTP/1.0 knows the end of such a body by the end of the connection.
                session.set_keepalive(None);
            }
        }
        let mut bytes = body.as_ref().map_or(0, Bytes::len);
        let sent = async {
            session.write_response_header(Box::new(head(status, headers))).await?;
            let Some(mut rest) = rest else {
                if let Some(body) = body {
                    session.write_response_body(body, true).await?;
                }
                return Ok(());
            };
            while let Some(piece) = rest.next().await {
                let piece = piece.map_err(|broken| {
                    tracing::debug!(%broken, "a client got a part of an answer");
                    Broken
                })?;
                bytes += piece.len();
                session.write_response_body(piece, false).await?;
            }
            session.write_response_body(Bytes::new(), true).await?;
            Ok(())
        };
        let sent = sent.await;
        self.telemetry.answered(route, outcome, status.as_u16(), bytes);
        if let Some(asked) = cache.and_then(CacheOutcome::forwarded) {
            let word = |flag: bool| if flag { "true" } else { "false" };
            let (stored, collapsed) = (word(asked.stored), word(asked.collapsed));
            let fwd_status = asked.fwd_status;
            self.telemetry.forwarded(&ForwardLabels { fwd: outcome, fwd_status, stored, collapsed });
        }
        let request = session.req_header();
        tracing::debug!(
            target: "access",
            client = %client,
            method = %request.method,
            path = %String::from_utf8_lossy(request.raw_path()),
            status = status.as_u16(),
            bytes,
            outcome,
            cache = cache.map(|cache| String::from_utf8_lossy(cache.to_header_value().as_bytes()).into_owned()),
        );
        sent
    }

    /// Says that a request cannot be read, where the client can still be told.
    pub(super) async fn unreadable(&self, session: &mut ServerSession) {
        let (method, headers) = (Method::GET, HeaderMap::new());
        let limit = Decision::Unlimited;
        let asked = Asked { method: &method, headers: &headers, limit, coding: Coding::Identity, passes: false };
        let answer = self.standing.problem(asked, &Problem::unreadable(), None);
        self.telemetry.answered(Route::Unknown.as_str(), answer.outcome, answer.status.as_u16(), 0);
        session.set_keepalive(None);
        let sent = session.write_response_header(Box::new(head(answer.status, answer.headers))).await;
        if let (Ok(()), Some(body)) = (sent, answer.body)
            && let Err(error) = session.write_response_body(body, true).await
        {
            tracing::debug!(%error, "the client left before the error was sent");
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
