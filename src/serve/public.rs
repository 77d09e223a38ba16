//! The proxy itself: answers locally in `request_filter`, passes unknown endpoints to the origin.
//!
//! Callers: [`crate::app`] hands it to pingora.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, RETRY_AFTER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderValue, StatusCode};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::modules::http::HttpModules;
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};
use url::Url;

use crate::api::route::Route;
use crate::clock::Clock;
use crate::limit::Decision;
use crate::origin::budget::{Budget, Permit};
use crate::origin::status::OriginStatus;
use crate::origin::window::Class;
use crate::pipeline::admit::{self, Admission, Rules, Target, View};
use crate::pipeline::answer::{Answer, Asked, Standing, common};
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::coding::Coding;
use crate::semantics::freshness;
use crate::semantics::problem::Problem;
use crate::telemetry::Telemetry;

use super::find::{Finder, Found};
use super::gate::{HeadRead, KEEPALIVE_SECONDS, Reused};

/// Requests that are being answered; cheap to clone.
#[derive(Clone, Default)]
pub struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    fn enter(&self) -> Busy {
        self.0.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }
}

/// One request being answered.
pub struct Busy(InFlight);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where pass-through requests go.
pub struct Upstream {
    /// The origin's base address.
    pub base: Url,
    /// The budget that they take from.
    pub budget: Budget,
    /// Where they are counted.
    pub status: OriginStatus,
    /// For each step.
    pub timeout: Duration,
    /// How long a client waits for the budget.
    pub wait: Duration,
}

/// The public proxy.
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
    pub upstream: Option<Upstream>,
    /// The clock.
    pub clock: Clock,
}

/// One request's state.
pub struct Context {
    _busy: Option<Busy>,
    limit: Decision,
    permit: Option<Permit>,
    /// Path and query to send, for pass-through.
    forward: Bytes,
}

impl Public {
    async fn respond(&self, session: &mut Session, context: &mut Context) -> Option<Answer> {
        let has_body = !session.downstream_session.is_body_empty();
        let peer = session.client_addr().and_then(|address| address.as_inet());
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SocketAddr::ip);
        let request = session.req_header();
        let view = View {
            method: &request.method,
            target: request.raw_path(),
            uri: &request.uri,
            headers: &request.headers,
            peer,
            has_body,
        };
        let admitted = admit::admit(&view, &self.rules, self.clock.now_mono());
        context.limit = admitted.limit;
        let mut asked = Asked {
            method: view.method,
            headers: view.headers,
            limit: admitted.limit,
            coding: Coding::Identity,
            passes: admitted.route == Route::Unknown.as_str() && self.upstream.is_some(),
        };
        let answer = match admitted.admission {
            Admission::Preflight => self.standing.preflight(admitted.limit),
            Admission::Refused(problem) => self.standing.problem(asked, &problem, None),
            Admission::Admitted { target: Target::PassThrough { target }, .. } => {
                match self.forward(&target, admitted.client, context).await {
                    Ok(()) => return None,
                    Err((problem, retry_after)) => self.standing.problem(asked, &problem, retry_after),
                }
            }
            Admission::Admitted { target, coding } => {
                asked.coding = coding;
                match self.finder.find(target, admitted.client).await {
                    Found::Snapshot { reply, published, forwarded, pinned } => {
                        let now = self.clock.now_wall();
                        self.standing.snapshot(asked, &reply, &published, forwarded, pinned, now)
                    }
                    Found::Through { entry, outcome } => {
                        self.standing.through(asked, &entry, outcome, self.clock.now_mono())
                    }
                    Found::Problem { problem, retry_after } => self.standing.problem(asked, &problem, retry_after),
                }
            }
        };
        let bytes = answer.body.as_ref().map_or(0, Bytes::len);
        let status = answer.status.as_u16();
        self.telemetry.answered(admitted.route, answer.outcome, status, bytes);
        tracing::debug!(
            target: "access",
            client = %admitted.client,
            method = %view.method,
            path = %String::from_utf8_lossy(view.target),
            status,
            bytes,
            outcome = answer.outcome,
        );
        Some(answer)
    }

    /// Prepares a request for an endpoint that is not known here.
    async fn forward(
        &self,
        target: &[u8],
        client: IpAddr,
        context: &mut Context,
    ) -> Result<(), (Problem, Option<u64>)> {
        let Some(upstream) = &self.upstream else {
            return Err((Problem::unknown_path(target), None));
        };
        let mut path = upstream.base.path().trim_end_matches('/').as_bytes().to_vec();
        path.extend_from_slice(target);
        context.forward = path.into();
        match upstream.budget.acquire(Class::Client, Some(client), Some(upstream.wait)).await {
            Ok(permit) => {
                upstream.status.sent(Class::Client);
                context.permit = Some(permit);
                Ok(())
            }
            Err(spent) => {
                let seconds = spent.retry_after.as_secs() + u64::from(spent.retry_after.subsec_nanos() > 0);
                Err((Problem::unavailable("the budget of requests to the origin is spent"), Some(seconds)))
            }
        }
    }
}

/// Whether a field of the origin's answer stays behind: hop-by-hop (RFC 9110 §7.6.1), or about the origin's own
/// limits, sites and ports.
fn is_dropped(name: &str, nominated: &[String]) -> bool {
    let own = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "te",
        "trailer",
        "upgrade",
        "alt-svc",
        "strict-transport-security",
        "nel",
        "report-to",
    ];
    own.contains(&name)
        || name.starts_with("access-control-")
        || name.starts_with("ratelimit")
        || nominated.iter().any(|nominated| nominated == name)
}

/// The fields that `Connection` nominates.
fn nominated(response: &ResponseHeader) -> Vec<String> {
    let values = response.headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

#[async_trait]
impl ProxyHttp for Public {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context { _busy: None, limit: Decision::Unlimited, permit: None, forward: Bytes::new() }
    }

    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    fn persist_connection_context(
        &self,
        _session: &Session,
        _context: &Context,
    ) -> Option<Box<dyn std::any::Any + Send + Sync>> {
        Some(Box::new(Reused))
    }

    fn on_connection_reuse(
        &self,
        _session: &mut Session,
        _context: &mut Context,
        connection: Box<dyn std::any::Any + Send + Sync>,
    ) {
        // The head has been read: see [`super::gate`].
        if let Ok(read) = connection.downcast::<HeadRead>() {
            read.set();
        }
    }

    async fn request_filter(&self, session: &mut Session, context: &mut Context) -> Result<bool> {
        context._busy = Some(self.in_flight.enter());
        let Some(answer) = self.respond(session, context).await else {
            return Ok(false);
        };
        let downstream = &mut session.downstream_session;
        let request = downstream.req_header();
        let refused_body = answer.outcome == "problem" && !is_bodyless(request);
        if refused_body {
            // What follows on the connection is a body that nobody reads (RFC 9112 §9.6).
            downstream.set_keepalive(None);
        } else if downstream.get_keepalive().is_some() {
            downstream.set_keepalive(Some(KEEPALIVE_SECONDS));
        }
        downstream.write_response_header(Box::new(head(answer.status, answer.headers))).await?;
        if let Some(body) = answer.body {
            downstream.write_response_body(body, true).await?;
        }
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, _context: &mut Context) -> Result<Box<HttpPeer>> {
        let upstream = self.upstream.as_ref().ok_or_else(|| Error::new(ErrorType::ConnectNoRoute))?;
        let host = upstream.base.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = upstream.base.port_or_known_default().unwrap_or(80);
        let lookup = tokio::time::timeout(upstream.timeout, tokio::net::lookup_host((host, port))).await;
        let address = lookup.ok().and_then(Result::ok).and_then(|mut found| found.next());
        let address = address.ok_or_else(|| Error::new(ErrorType::ConnectNoRoute))?;
        let mut peer = HttpPeer::new(address, upstream.base.scheme() == "https", host.to_owned());
        peer.options.connection_timeout = Some(upstream.timeout);
        peer.options.total_connection_timeout = Some(upstream.timeout);
        peer.options.read_timeout = Some(upstream.timeout);
        peer.options.write_timeout = Some(upstream.timeout);
        peer.options.idle_timeout = Some(Duration::from_secs(30));
        Ok(Box::new(peer))
    }

    async fn upstream_request_filter(
        &self,
        _session: &mut Session,
        request: &mut RequestHeader,
        context: &mut Context,
    ) -> Result<()> {
        let Some(upstream) = &self.upstream else { return Ok(()) };
        request.set_raw_path(&context.forward)?;
        let host = upstream.base.host_str().unwrap_or_default();
        let host = upstream.base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        request.insert_header(HOST, host)?;
        request.remove_header(&UPGRADE);
        request.remove_header("http2-settings");
        request.remove_header("expect");
        request.remove_header(&CONNECTION);
        request.remove_header("keep-alive");
        request.remove_header("te");
        request.remove_header("proxy-authorization");
        request.remove_header("proxy-connection");
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut Context,
    ) -> Result<()> {
        if response.status.is_informational() {
            return Ok(());
        }
        if let Some(permit) = context.permit.take() {
            permit.answered();
        }
        let asked = response.headers.get(RETRY_AFTER);
        let asked = asked.and_then(|value| freshness::parse_retry_after(value.as_bytes(), self.clock.now_wall()));
        let pause = match (response.status.as_u16(), asked) {
            (429, asked) => Some(asked.unwrap_or(10)),
            (503, asked) => asked,
            _ => None,
        };
        if let (Some(seconds), Some(upstream)) = (pause, &self.upstream) {
            upstream.budget.pause(Duration::from_secs(u64::from(seconds)));
        }
        Ok(())
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        context: &mut Context,
    ) -> Result<()> {
        if response.status.is_informational() {
            return Ok(());
        }
        let nominated = nominated(response);
        let names: Vec<HeaderName> =
            response.headers.keys().filter(|name| is_dropped(name.as_str(), &nominated)).cloned().collect();
        for name in &names {
            // The transfer coding of this hop is pingora's business.
            response.remove_header(name);
        }
        let fwd_status = response.status.as_u16();
        let outcome = CacheOutcome::Miss(Forwarded { fwd_status, stored: false, collapsed: false });
        response.append_header(HeaderName::from_static("cache-status"), outcome.to_header_value())?;
        let mut ours = HeaderMap::new();
        common(&mut ours, context.limit);
        for (name, value) in &ours {
            response.insert_header(name, value)?;
        }
        self.telemetry.answered("other", outcome.as_str(), fwd_status, 0);
        if session.get_keepalive().is_some() {
            session.set_keepalive(Some(KEEPALIVE_SECONDS));
        }
        Ok(())
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, context: &mut Context) -> FailToProxy {
        let nonsense = matches!(error.etype(), ErrorType::InvalidHTTPHeader | ErrorType::H1Error | ErrorType::H2Error);
        let problem = if nonsense {
            Problem::bad_origin_answer("it is not HTTP")
        } else {
            Problem::unavailable("the origin cannot be reached")
        };
        let status = problem.status().as_u16();
        tracing::warn!(%error, "a request could not be passed through");
        let method = session.req_header().method.clone();
        let headers = HeaderMap::new();
        let asked =
            Asked { method: &method, headers: &headers, limit: context.limit, coding: Coding::Identity, passes: true };
        if session.response_written().is_none() {
            // The connection is given up below, and the answer must say so (RFC 9112 §9.6).
            session.downstream_session.set_keepalive(None);
            let answer = self.standing.problem(asked, &problem, Some(5));
            self.telemetry.answered("other", answer.outcome, status, 0);
            let downstream = &mut session.downstream_session;
            let sent = downstream.write_response_header(Box::new(head(answer.status, answer.headers))).await;
            if let (Ok(()), Some(body)) = (sent, answer.body)
                && let Err(error) = downstream.write_response_body(body, true).await
            {
                tracing::debug!(%error, "the client left before the error was sent");
            }
        }
        FailToProxy { error_code: status, can_reuse_downstream: false }
    }

    fn suppress_error_log(&self, _session: &Session, _context: &Context, error: &Error) -> bool {
        tracing::debug!(%error, "a request ended early");
        true
    }
}

/// A head for pingora. The fields are moved in as they are: setting them one by one would spell each name anew.
fn head(status: StatusCode, headers: HeaderMap) -> ResponseHeader {
    let (mut parts, ()) = http::Response::new(()).into_parts();
    (parts.status, parts.headers) = (status, headers);
    parts.into()
}

fn is_bodyless(request: &RequestHeader) -> bool {
    let length = request.headers.get(http::header::CONTENT_LENGTH);
    !request.headers.contains_key(TRANSFER_ENCODING)
        && length.is_none_or(|length| length == HeaderValue::from_static("0"))
}
