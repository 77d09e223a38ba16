//! The life of a request: admit, find, conditions, head, record. [`Responder::respond`] has all steps.
//!
//! [`admit`] comes first, [`find`] looks the answer up and [`render`]s it, [`compose`] evaluates conditions and chooses
//! the fields of the [`head`]. The answer is a value, of which [`mod@write`] makes bytes. No sockets here. Callers:
//! [`crate::edge::serve`] moves the bytes.

pub mod admit;
pub mod compose;
mod documents;
mod files;
pub(crate) mod find;
pub mod head;
pub(crate) mod purge;
mod render;
pub mod write;

use std::net::IpAddr;
use std::pin::pin;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONTENT_LOCATION, LOCATION, REFERER, USER_AGENT};
use http::{HeaderMap, Method};

use crate::clock::{Clock, Monotonic};
use crate::edge::dumps::Dumps;
use crate::edge::limit::backlog::{Backlog, Slow};
use crate::edge::limit::{Decision, Wish};
use crate::edge::proxy::Proxy;
use crate::edge::proxy::request::{ProxyAnswer, ProxyError};
use crate::protocol::cache_status::CacheOutcome;
use crate::protocol::coding::Coding;
use crate::protocol::hops::Caller;
use crate::protocol::problem::Problem;
use crate::tasks::at_once;
use crate::telemetry::access::{InEffect, Line, LogField};
use crate::telemetry::request_id::{RequestId, RequestIds};
use crate::telemetry::{ForwardLabels, RouteLabel, Telemetry};

use admit::{Admission, Admitted, Incoming, Rules, Target, View};
use compose::{Answer, Asked, ConstantHeaders};
use documents::ErrorPages;
use find::{Finder, Found, failed};

/// After how many seconds a client that found no room may try again.
const NO_ROOM_FOR: u64 = 5;

pub(crate) struct Responder {
    pub in_force: ArcSwap<InForce>,
    pub finder: Finder,
    pub telemetry: Telemetry,
    pub access: InEffect,
    pub ids: RequestIds,
    /// Where unknown endpoints go; `None` offline.
    pub proxy: Option<Proxy>,
    /// The dumps; `None` in shield use.
    pub dumps: Option<Dumps>,
    pub clock: Clock,
}

/// What a reload replaces as a whole. One look at it serves a request from its admission to the head of its answer.
pub(crate) struct InForce {
    pub rules: Rules,
    pub constant_headers: ConstantHeaders,
}

/// What becomes of a request whose head has been read.
pub(crate) enum Decided {
    Answered {
        answer: Answer,
        info: RequestInfo,
    },
    /// The origin answers it.
    Passes {
        proxy: Proxy,
        /// Path and raw query to send.
        target: Bytes,
        info: RequestInfo,
        limit: Decision,
    },
}

/// Whose request it is, and what for: for logs and counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestInfo {
    pub route: RouteLabel,
    pub client: IpAddr,
    /// The TCP peer, or the client that a load balancer announced by the PROXY protocol.
    pub peer: IpAddr,
    /// When its head had been read.
    pub began: Monotonic,
    /// Its id; `None`: nobody has seen it yet.
    pub id: Option<RequestId>,
}

impl Responder {
    /// Decides on a request, and makes the answer if the origin does not, as soon as the client has read enough of its
    /// others. Fails if it does not in time.
    pub(crate) async fn respond(
        &self,
        in_force: &InForce,
        view: &View<'_>,
        backlog: &Backlog,
    ) -> Result<Decided, Slow> {
        let InForce { rules, constant_headers } = in_force;
        let (began, mut now) = self.clock.read();
        let incoming = Incoming::read(view, rules);
        let mut decided = None;
        if let Some(shared) = &rules.shared {
            if let Some(wish) = incoming.shared_wish() {
                // Boxed, so that a process that counts for itself has no room for it in each connection.
                decided = Some(Box::pin(shared.decide(incoming.client, wish)).await);
            }
            now = self.clock.now();
        }
        let Admitted { admission, route, client, limit, conditional, trail } = incoming.admit(began, decided);
        let is_made = matches!(&admission, Admission::Admitted { target, .. }
            if !matches!(target, Target::Probe(_)));
        if is_made && !backlog.has_room() {
            Box::pin(backlog.room()).await?;
            now = self.clock.now();
        }
        let passes = route == RouteLabel::Other && self.proxy.is_some();
        let mut info = RequestInfo { route, client, peer: view.peer, began, id: None };
        let asked = |coding, now| {
            let pages = Some(ErrorPages::of(&self.finder, view.target));
            Asked { coding, conditional, passes, pages, ..Asked::of(view.method, view.headers, limit, now) }
        };
        let plain = || asked(Coding::Identity, now);
        let mut answer = match admission {
            Admission::Preflight(methods) => constant_headers.preflight(plain(), methods),
            Admission::Options(methods) => constant_headers.options(plain(), methods),
            Admission::Refused(problem) => constant_headers.problem(plain(), &problem),
            Admission::Admitted { target, coding } => match target {
                Target::Pass(target) => match &self.proxy {
                    Some(proxy) => {
                        return Ok(Decided::Passes { proxy: proxy.clone(), target: target.into(), info, limit });
                    }
                    None => constant_headers.problem(plain(), &Problem::unknown_path(&target[..])),
                },
                Target::Moved(to) => documents::moved(plain(), to),
                Target::Probe(probe) => documents::probe(plain(), self.finder.probed(probe, self.telemetry.stops())),
                Target::Document(wanted) => {
                    let found = Box::pin(self.finder.document(wanted, coding, client, backlog)).await;
                    self.compose(
                        constant_headers,
                        asked(coding, self.clock.now()),
                        found.unwrap_or_else(Found::Problem),
                    )
                }
                Target::File(file) => {
                    let streamed = self.file(constant_headers, asked(coding, now), file, client);
                    let failed =
                        |problem| constant_headers.problem(asked(Coding::Identity, self.clock.now()), &problem);
                    Box::pin(streamed).await.unwrap_or_else(failed)
                }
                Target::Api(target) => {
                    let mut finding = pin!(self.finder.find(target, coding, Caller { address: client, trail }));
                    let (found, now) = match at_once(&mut finding).await {
                        Some(found) => (found, now),
                        None => (finding.await, self.clock.now()),
                    };
                    self.compose(constant_headers, asked(coding, now), found)
                }
            },
        };
        self.identify(view.headers, &mut info, &mut answer);
        Ok(Decided::Answered { answer, info })
    }

    /// Gives a request an id if its answer shows it.
    fn identify(&self, headers: &HeaderMap, info: &mut RequestInfo, answer: &mut Answer) {
        if answer.outcome.shows_id() {
            let id = self.id_of(headers, info);
            answer.id = Some(id.text(headers));
            info.id = Some(id);
        }
    }

    fn id_of(&self, headers: &HeaderMap, info: &RequestInfo) -> RequestId {
        info.id.unwrap_or_else(|| self.ids.of(headers, || self.in_force.load().rules.client_ip.trusts(info.peer)))
    }

    fn compose(&self, constant_headers: &ConstantHeaders, asked: Asked<'_>, found: Found) -> Answer {
        match found {
            Found::Snapshot(found) => constant_headers.snapshot(asked, found),
            Found::Through { stored, outcome } => {
                constant_headers.stored(asked, &stored, outcome, self.clock.now_mono())
            }
            Found::Document { document, published } => {
                constant_headers.document(asked, &document, published.as_deref())
            }
            Found::Problem(problem) => constant_headers.problem(asked, &problem),
        }
    }

    /// The answer to a request that passes to the origin.
    pub(crate) fn passed(
        &self,
        (method, headers): (&Method, &HeaderMap),
        limit: Decision,
        info: &mut RequestInfo,
        proxy: &Proxy,
        passed: Result<ProxyAnswer, ProxyError>,
    ) -> Answer {
        let asked = Asked { conditional: true, passes: true, ..Asked::of(method, headers, limit, self.clock.now()) };
        let constant_headers = &self.in_force.load().constant_headers;
        let mut answer = match passed {
            Ok(ProxyAnswer::Stored { stored, outcome }) => {
                constant_headers.stored(asked, &stored, outcome, self.clock.now_mono())
            }
            Ok(ProxyAnswer::Streamed { head, body, outcome }) => {
                constant_headers.streamed(asked, head.status, &head.fields, body, outcome)
            }
            Err(ProxyError::OnlyIfCached) => constant_headers.problem(asked, &Problem::only_if_cached()),
            Err(ProxyError::Ask(error)) => constant_headers.problem(asked, &failed(&error)),
        };
        for name in [LOCATION, CONTENT_LOCATION] {
            answer.fields.replace(&name, |value| proxy.leads_here(value));
        }
        self.identify(headers, info, &mut answer);
        answer
    }

    /// The answer to a request whose fields cannot be read; it is recorded.
    pub(crate) async fn refuse(&self, peer: IpAddr, problem: Problem) -> Answer {
        let in_force = self.in_force.load_full();
        let limit = admit::decide_unread(peer, Wish::Admit, &in_force.rules, self.clock.now_mono()).await;
        let problem = match limit {
            Decision::Refused { quota, retry_after_seconds } => Problem::rate_limited(quota, retry_after_seconds),
            _ => problem,
        };
        self.unasked(peer, limit, &problem)
    }

    /// The answer to a client without a free connection; it is recorded. `most`: how many connections its household may
    /// have, where that is the bound.
    pub(crate) async fn turn_away(&self, peer: IpAddr, most: Option<usize>) -> Answer {
        let in_force = self.in_force.load_full();
        let limit = admit::decide_unread(peer, Wish::Peek, &in_force.rules, self.clock.now_mono()).await;
        self.unasked(peer, limit, &Problem::too_many_connections(most).after(NO_ROOM_FOR))
    }

    fn unasked(&self, client: IpAddr, limit: Decision, problem: &Problem) -> Answer {
        let (method, headers) = (Method::GET, HeaderMap::new());
        let asked = Asked::of(&method, &headers, limit, self.clock.now());
        let mut answer = self.in_force.load().constant_headers.problem(asked, problem);
        let id = self.ids.made().text(&headers);
        let (status, outcome, bytes) = (answer.status.as_u16(), answer.outcome, answer.body.bytes().len());
        self.telemetry.answered(RouteLabel::Other, outcome.as_str(), outcome.source(), status, bytes);
        if let Some(access) = self.access.load().as_ref() {
            let (at, outcome, id) = (answer.now, outcome.as_str(), id.clone());
            let (request, referer, agent) = (None, None, None);
            access.log(Line { at, client, request, status, bytes, referer, agent, micros: 0, outcome, id });
        }
        answer.id = Some(id);
        answer
    }

    /// Counts an answer of so many bytes, and logs it where that is wanted.
    pub(crate) fn record(&self, view: &View<'_>, info: RequestInfo, answer: &Answer, bytes: usize) {
        let (status, outcome) = (answer.status.as_u16(), answer.outcome);
        self.telemetry.answered(info.route, outcome.as_str(), outcome.source(), status, bytes);
        let took = self.clock.now_mono().since(info.began);
        self.telemetry.took(info.route, outcome.as_str(), took);
        if info.route == RouteLabel::Probe {
            return;
        }
        if let Some(access) = self.access.load().as_ref() {
            access.log(Line {
                at: self.clock.now_wall(),
                client: info.client,
                request: Some((view.method.clone(), LogField::target(view.target), view.version)),
                status,
                bytes,
                referer: view.headers.get(REFERER).map(LogField::value),
                agent: view.headers.get(USER_AGENT).map(LogField::value),
                micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                outcome: outcome.as_str(),
                id: self.id_of(view.headers, &info).text(view.headers),
            });
        }
        if let Some(asked) = outcome.cache().and_then(CacheOutcome::forwarded) {
            let word = |flag: bool| if flag { "true" } else { "false" };
            let (stored, collapsed) = (word(asked.stored), word(asked.collapsed));
            let fwd_status = asked.fwd_status;
            self.telemetry.forwarded(ForwardLabels { fwd: outcome.as_str(), fwd_status, stored, collapsed });
        }
        let id = info.id.map(|id| id.text(view.headers));
        if status == 500 && outcome.cache().is_none() {
            tracing::error!(request = id, "a request failed inside the server");
        }
        tracing::debug!(
            target: "access",
            request = id,
            client = %info.client,
            method = %view.method,
            path = %String::from_utf8_lossy(view.target),
            status,
            bytes,
            outcome = outcome.as_str(),
            cache = outcome.cache().map(|cache| String::from_utf8_lossy(cache.to_header_value().as_bytes()).into_owned()),
            "request"
        );
    }
}
