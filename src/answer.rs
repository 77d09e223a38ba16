//! The life of a request: admit, find, conditions, head, record. [`Responder::respond`] has all steps.
//!
//! [`admit`] comes first, [`find`] looks the answer up and [`render`]s it, [`compose`] evaluates conditions and writes
//! the [`head`]. No sockets here. Callers: [`crate::serve`] moves the bytes.

pub mod admit;
pub mod compose;
mod documents;
pub(crate) mod find;
pub mod head;
pub(crate) mod purge;
mod render;

use std::net::IpAddr;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{REFERER, USER_AGENT};
use http::{HeaderMap, Method};

use crate::clock::{Clock, Monotonic, WallTime};
use crate::dumps::{DumpBody, Dumps};
use crate::limit::{Decision, Wish};
use crate::proxy::Proxy;
use crate::proxy::question::{PassError, Passed};
use crate::proxy::spool::Reader;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::hops::Caller;
use crate::semantics::problem::Problem;
use crate::telemetry::access::{Field, InEffect, Line};
use crate::telemetry::request_id::{RequestId, RequestIds};
use crate::telemetry::{ForwardLabels, RouteLabel, Telemetry};

use admit::{Admission, Admitted, Rules, Target, View};
use compose::{Answer, Asked, ConstantHeaders, FromSnapshot};
use documents::ErrorPages;
use find::{Finder, Found, failed};
use head::Head;

/// After how many seconds a client that found no room may try again.
const NO_ROOM_FOR: u64 = 5;

/// Everything that answers are made with.
pub(crate) struct Responder {
    /// What decides; a reload replaces it.
    pub rules: ArcSwap<Rules>,
    /// What finds.
    pub finder: Finder,
    /// What every answer repeats; a reload replaces it.
    pub constant_headers: ArcSwap<ConstantHeaders>,
    /// What counts.
    pub telemetry: Telemetry,
    /// The access log, if any.
    pub access: InEffect,
    pub ids: RequestIds,
    /// Where unknown endpoints go; `None` offline.
    pub proxy: Option<Proxy>,
    /// The dumps; `None` in shield use.
    pub dumps: Option<Dumps>,
    /// The clock.
    pub clock: Clock,
}

/// What becomes of a request whose head has been read.
pub(crate) enum Decided<H> {
    /// It is answered, and the whole answer is there.
    Ready {
        /// The answer.
        answer: Answer<H>,
        /// Whose it is.
        info: RequestInfo,
        /// When it was made.
        now: WallTime,
    },
    /// It takes longer.
    Later(Later),
}

/// What becomes of a request whose answer is not there as a whole.
pub(crate) enum Later {
    /// A dump answers it.
    Dump {
        /// The answer, without its body.
        answer: Answer,
        /// The body; `None`: there is none.
        body: Option<DumpBody>,
        /// Whose it is.
        info: RequestInfo,
    },
    /// The origin answers it.
    Passes {
        /// Path and raw query to send.
        target: Bytes,
        /// Whose it is.
        info: RequestInfo,
        /// What the limiter says.
        limit: Decision,
    },
}

/// Whose request it is, and what for: for logs and counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestInfo {
    /// What it is counted under.
    pub route: RouteLabel,
    /// The client.
    pub client: IpAddr,
    /// The TCP peer, or the client that a load balancer announced by the PROXY protocol.
    pub peer: IpAddr,
    /// When its head had been read.
    pub began: Monotonic,
    /// Its id; `None`: nobody has seen it yet.
    pub id: Option<RequestId>,
}

impl Responder {
    /// Decides on a request, and makes the answer in `head` where there is one.
    pub(crate) async fn respond<H: Head>(&self, view: &View<'_>, head: H) -> Decided<H> {
        let began = self.clock.now_mono();
        let asked = {
            let rules = self.rules.load();
            match &rules.shared {
                None => Ok(admit::admit_by(view, &rules, began, None)),
                Some(shared) => Err((shared.clone(), admit::shared_wish(view, &rules))),
            }
        };
        let admitted = match asked {
            Ok(admitted) => admitted,
            Err((shared, wish)) => {
                let decided = match wish {
                    // Boxed, so that a process that counts for itself has no room for it in each connection.
                    Some((client, wish)) => Some(Box::pin(shared.decide(client, wish)).await),
                    None => None,
                };
                admit::admit_by(view, &self.rules.load(), began, decided)
            }
        };
        let Admitted { admission, route, client, limit, conditional, trail } = admitted;
        let passes = route == RouteLabel::Other && self.proxy.is_some();
        let pages = Some(ErrorPages::of(&self.finder, view.target));
        let mut asked = Asked { conditional, passes, pages, ..Asked::of(view.method, view.headers, limit) };
        let mut info = RequestInfo { route, client, peer: view.peer, began, id: None };
        let mut answer = match admission {
            Admission::Preflight(methods) => self.constant_headers.load().preflight(methods, limit, head),
            Admission::Options(methods) => self.constant_headers.load().options(methods, limit, head),
            Admission::Refused(problem) => self.constant_headers.load().problem(asked, &problem, None, head),
            Admission::Admitted { target: Target::PassThrough { target }, .. } => {
                if passes {
                    return Decided::Later(Later::Passes { target: target.into(), info, limit });
                }
                self.constant_headers.load().problem(asked, &Problem::unknown_path(&target[..]), None, head)
            }
            Admission::Admitted { target: Target::Moved(to), .. } => documents::moved(asked, &to, head),
            Admission::Admitted { target: Target::Probe(probe), .. } => {
                documents::probe(view.method, self.finder.probed(probe), head)
            }
            Admission::Admitted { target: Target::Dump(kind, slugs), coding } => {
                asked.coding = coding;
                match self.dump(asked, kind, slugs).await {
                    Ok((mut answer, body)) => {
                        self.identify(view.headers, &mut info, &mut answer);
                        return Decided::Later(Later::Dump { answer, body, info });
                    }
                    Err((problem, retry_after)) => {
                        self.constant_headers.load().problem(asked, &problem, retry_after, head)
                    }
                }
            }
            Admission::Admitted { target, coding } => {
                asked.coding = coding;
                let found = self.finder.find(target, coding, Caller { address: client, trail }).await;
                let (mut answer, now) = self.compose(asked, found, head);
                self.identify(view.headers, &mut info, &mut answer);
                return Decided::Ready { answer, info, now };
            }
        };
        self.identify(view.headers, &mut info, &mut answer);
        Decided::Ready { answer, info, now: self.clock.now_wall() }
    }

    /// Gives a request an id if its answer shows it.
    pub(crate) fn identify<H: Head>(&self, headers: &HeaderMap, info: &mut RequestInfo, answer: &mut Answer<H>) {
        if answer.outcome.shows_id() {
            let id = self.id_of(headers, info);
            answer.head.put_with(&head::X_REQUEST_ID, |out| out.extend_from_slice(id.text(headers).as_bytes()));
            info.id = Some(id);
        }
    }

    /// The id that a request has, or gets now.
    fn id_of(&self, headers: &HeaderMap, info: &RequestInfo) -> RequestId {
        info.id.unwrap_or_else(|| self.ids.of(headers, || self.rules.load().client_ip.trusts(info.peer)))
    }

    /// The answer made of what was found, in `head`, and when it was made.
    fn compose<H: Head>(&self, asked: Asked<'_>, found: Found, mut head: H) -> (Answer<H>, WallTime) {
        let (constant_headers, now) = (self.constant_headers.load(), self.clock.now());
        let answer = match found {
            Found::Snapshot { reply, published, forwarded, pinned } => {
                let found = FromSnapshot { reply: &reply, published: &published, forwarded, pinned };
                constant_headers.snapshot(asked, found, now, head)
            }
            Found::Through { stored, outcome } => {
                let answer = constant_headers.stored(asked, &stored, outcome, self.clock.now_mono());
                let Answer { status, head: fields, body, outcome } = answer;
                head.adopt(status, fields);
                Answer { status, head, body, outcome }
            }
            Found::Document { document, published } => {
                constant_headers.document(asked, &document, published.as_ref(), now.wall, head)
            }
            Found::Learned(learned) => constant_headers.learned(asked, learned, head),
            Found::Problem { problem, retry_after } => constant_headers.problem(asked, &problem, retry_after, head),
            Found::Provisional(ours) => return self.compose(Asked { provisional: true, ..asked }, *ours, head),
        };
        (answer, now.wall)
    }

    /// The answer to a request that passed to the origin, and the rest of its body where that is still on its way.
    pub(crate) fn passed(
        &self,
        asked: Asked<'_>,
        proxy: &Proxy,
        passed: Result<Passed, PassError>,
    ) -> (Answer, Option<Reader>) {
        let problem =
            |problem: &Problem, after| self.constant_headers.load().problem(asked, problem, after, HeaderMap::new());
        let (mut answer, rest) = match passed {
            Ok(Passed::Stored { stored, outcome }) => {
                (self.constant_headers.load().stored(asked, &stored, outcome, self.clock.now_mono()), None)
            }
            Ok(Passed::Streamed { head, body, outcome }) => {
                let answer = self.constant_headers.load().streamed(asked, head.status, &head.fields, outcome);
                // A failed condition has a body of ours.
                let follows = answer.body.as_ref().is_some_and(Bytes::is_empty);
                (answer, body.filter(|_| follows))
            }
            Err(PassError::OnlyIfCached) => (problem(&Problem::only_if_cached(), None), None),
            Err(PassError::Ask(error)) => match failed(&error) {
                Found::Problem { problem: why, retry_after } => (problem(&why, retry_after), None),
                _ => (problem(&Problem::internal(), None), None),
            },
        };
        proxy.lead_here(&mut answer.head);
        (answer, rest)
    }

    /// The answer, in `head`, to a request whose fields cannot be told, and when it was made; it is recorded.
    pub(crate) async fn refuse<H: Head>(&self, peer: IpAddr, problem: Problem, head: H) -> (Answer<H>, WallTime) {
        let limit = admit::decide_unread(peer, Wish::Admit, &self.rules.load_full(), self.clock.now_mono()).await;
        let problem = match limit {
            Decision::Refused { quota, retry_after_seconds } => Problem::rate_limited(quota, retry_after_seconds),
            _ => problem,
        };
        self.unasked(peer, limit, &problem, None, head)
    }

    /// The answer, in `head`, to a client for whom there is no room, and when it was made; it is recorded. `most`: how
    /// many connections its household may have, where that is the bound.
    pub(crate) async fn turn_away<H: Head>(&self, peer: IpAddr, most: Option<usize>, head: H) -> (Answer<H>, WallTime) {
        let limit = admit::decide_unread(peer, Wish::Peek, &self.rules.load_full(), self.clock.now_mono()).await;
        self.unasked(peer, limit, &Problem::too_many_connections(most), Some(NO_ROOM_FOR), head)
    }

    fn unasked<H: Head>(
        &self,
        client: IpAddr,
        limit: Decision,
        problem: &Problem,
        retry_after: Option<u64>,
        head: H,
    ) -> (Answer<H>, WallTime) {
        let (method, headers) = (Method::GET, HeaderMap::new());
        let asked = Asked::of(&method, &headers, limit);
        let mut answer = self.constant_headers.load().problem(asked, problem, retry_after, head);
        let id = self.ids.made().text(&headers);
        answer.head.put_with(&head::X_REQUEST_ID, |out| out.extend_from_slice(id.as_bytes()));
        let bytes = answer.body.as_ref().map_or(0, Bytes::len);
        let Answer { status, outcome, .. } = answer;
        self.telemetry.answered(RouteLabel::Other, outcome.as_str(), outcome.source(), status.as_u16(), bytes);
        let now = self.clock.now_wall();
        if let Some(access) = self.access.load().as_ref() {
            let (status, outcome) = (status.as_u16(), outcome.as_str());
            let (request, referer, agent) = (None, None, None);
            access.log(Line { at: now, client, request, status, bytes, referer, agent, micros: 0, outcome, id });
        }
        (answer, now)
    }

    /// Counts an answer of so many bytes, and logs it where that is wanted.
    pub(crate) fn record<H>(&self, view: &View<'_>, info: RequestInfo, answer: &Answer<H>, bytes: usize) {
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
                request: Some((view.method.clone(), Field::target(view.target), view.version)),
                status,
                bytes,
                referer: view.headers.get(REFERER).map(Field::value),
                agent: view.headers.get(USER_AGENT).map(Field::value),
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
        if status == 500 {
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
