//! Admission of a request: from its head to its target, or a refusal.
//!
//! In this order: client address, preflight, limit, host, loop, size, path, route, method, body, query, coding. Nothing is
//! looked up here. Callers: [`super`].

mod headers;

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Version};
use memchr::memchr;

use crate::api::listing::ListingId;
use crate::api::odd::OddQuery;
use crate::api::query;
use crate::api::query::file::FileQuery;
use crate::api::query::finder::{FinderForm, FinderQuery};
use crate::api::query::search::SearchQuery;
use crate::api::query::{ListQuery, Parameters, QueryError};
use crate::api::route::{ASSETS, Document, DumpKind, HealthCheck, LimitWindow, Route, WantedDocument};
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::edge::limit::refused::UntrustedProxy;
use crate::edge::limit::{Decision, Limiter, Wish};
use crate::edge::shared_limit::SharedLimit;
use crate::protocol::client_address::ClientIpConfig;
use crate::protocol::coding::Coding;
use crate::protocol::hops::{Pseudonym, Trail};
use crate::protocol::problem::Problem;
use crate::protocol::target::BasePath;
use crate::protocol::{client_address, coding, target};
use crate::telemetry::RouteLabel;

use headers::{Noted, check_body, check_host, check_size, is_preflight};

pub(crate) use crate::api::route::ALLOW;

pub(crate) use headers::{MAX_REQUEST_BODY, MOST_FIELDS, MOST_HEAD, decide_unread};

/// The head of a request.
#[derive(Debug)]
pub struct View<'a> {
    pub method: &'a Method,
    /// The request target as received.
    pub target: &'a [u8],
    pub headers: &'a HeaderMap,
    /// The TCP peer, or the client that a load balancer announced by the PROXY protocol.
    pub peer: IpAddr,
    pub has_body: bool,
    pub version: Version,
}

/// What decisions depend on besides the request.
pub struct Rules {
    pub client_ip: ClientIpConfig,
    pub limiter: Arc<Limiter>,
    /// The limiter of the fleet, which decides instead of `limiter`; `None`: each process counts by itself.
    pub shared: Option<Arc<SharedLimit>>,
    /// The limiter of pages and their assets; `None`: there are no pages.
    pub pages: Option<Arc<Limiter>>,
    /// The path of `public_url`, if it has one.
    pub base_path: Option<BasePath>,
    /// Path prefixes that are forwarded to the origin; empty offline.
    pub passthrough_paths: Vec<String>,
    pub passthrough_methods: Vec<Method>,
    /// Our name on requests to the origin; `None` without an origin.
    pub name: Option<Pseudonym>,
    /// Whether there are dumps, the search and pages of venues. If not, their paths are unknown paths.
    pub dumps: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Api(ApiTarget),
    Document(WantedDocument),
    /// Another path; relative, because the client's paths may have more in front.
    Moved(HeaderValue),
    /// `/livez` or `/readyz`.
    Probe(HealthCheck),
    File(FileTarget),
    /// A path that is forwarded to the origin: path and raw query to send, without the path of `public_url`.
    Pass(Box<[u8]>),
}

/// A resource in JSON, which comes from the snapshot or the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiTarget {
    List {
        query: ListQuery,
        /// `snapshot=`: the id of a snapshot.
        pin: Option<Box<str>>,
        /// Whether the page size is the client's.
        has_size: bool,
        /// The raw query, if it may spell a slug otherwise than the canonical query; `None`: it does not.
        raw: Option<Box<str>>,
    },
    OddList(Box<OddRequest>),
    Taxonomy {
        kind: TaxonomyKind,
        /// `snapshot=`: the id of a snapshot.
        pin: Option<Box<str>>,
    },
    Detail(ListingId),
    /// A detail whose id is not a canonical number: the id as it came.
    NoListing(Box<str>),
    Changes {
        /// The id of a snapshot, or why the parameter is wrong. That error is the answer only if there is a snapshot.
        since: Result<Box<str>, Problem>,
    },
    Search(Box<SearchQuery>),
}

impl ApiTarget {
    /// `snapshot=`.
    pub(super) fn pin(&self) -> Option<&str> {
        match self {
            Self::List { pin, .. } | Self::Taxonomy { pin, .. } => pin.as_deref(),
            Self::OddList(asked) => asked.odd.pin.as_deref(),
            Self::Detail(_) | Self::NoListing(_) | Self::Changes { .. } | Self::Search(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileTarget {
    /// A dump of what a query selects.
    Dump(DumpKind, FileQuery),
    /// `/changes.ndjson`: as [`ApiTarget::Changes`].
    ChangeRecords { since: Result<Box<str>, Problem> },
}

/// The methods in an answer's `Allow` or `Access-Control-Allow-Methods`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    Known,
    PassedThrough,
    /// Those of the whole server (`OPTIONS *`).
    All,
}

#[derive(Debug)]
pub enum Admission {
    Admitted {
        target: Target,
        /// The coding that the client likes best.
        coding: Coding,
    },
    /// It is a CORS preflight, answered with these methods.
    Preflight(Methods),
    /// `OPTIONS`, answered with these methods.
    Options(Methods),
    Refused(Problem),
}

/// The decision on a request, and facts about the request.
#[derive(Debug)]
pub struct Admitted {
    pub admission: Admission,
    pub route: RouteLabel,
    pub client: IpAddr,
    pub limit: Decision,
    pub conditional: bool,
    /// Which processes of this program the request came through.
    pub trail: Trail,
}

/// How the names of the files begin that a page which says to wait needs.
const OF_ERROR_PAGES: [&str; 4] = ["style.", "dark.", "age.", "mark."];

/// A request whose head is read. Nothing is decided or counted yet.
pub(super) struct Incoming<'a> {
    view: &'a View<'a>,
    rules: &'a Rules,
    pub client: IpAddr,
    noted: Noted<'a>,
    host: Result<(), Problem>,
    routed: Result<Routed<'a>, Problem>,
    is_preflight: bool,
}

/// Decides on a request by the limiter of this process.
pub fn admit(view: &View<'_>, rules: &Rules, now: Monotonic) -> Admitted {
    Incoming::read(view, rules).admit(now, None)
}

impl<'a> Incoming<'a> {
    pub(super) fn read(view: &'a View<'a>, rules: &'a Rules) -> Self {
        let client = client_address::resolve(&rules.client_ip, view.peer, view.headers);
        let noted = Noted::of(view.headers);
        let host = check_host(view, &noted);
        let is_preflight = is_preflight(view, &host);
        Self { view, rules, client, noted, host, routed: route(view, rules), is_preflight }
    }

    /// The question for the shared limiter; `None`: a limiter of this process decides.
    pub(super) fn shared_wish(&self) -> Option<Wish> {
        match self.window() {
            LimitWindow::Uncounted => None,
            LimitWindow::Pages if self.rules.pages.is_some() => None,
            LimitWindow::Pages | LimitWindow::Api => Some(if self.is_preflight { Wish::Peek } else { Wish::Admit }),
        }
    }

    fn window(&self) -> LimitWindow {
        self.routed.as_ref().map_or(LimitWindow::Api, |routed| routed.route.window())
    }

    /// What the limiter of this process says.
    fn decide(&self, now: Monotonic) -> Decision {
        let limiter = match self.window() {
            LimitWindow::Uncounted => return Decision::Unlimited,
            LimitWindow::Pages => self.rules.pages.as_ref().unwrap_or(&self.rules.limiter),
            LimitWindow::Api => &self.rules.limiter,
        };
        if self.is_preflight { limiter.peek(self.client, now) } else { limiter.admit(self.client, now) }
    }

    /// Decides on the request. `decided`: what the shared limiter says, if it was asked.
    pub(super) fn admit(self, now: Monotonic, decided: Option<Decision>) -> Admitted {
        let limit = decided.unwrap_or_else(|| self.decide(now));
        let Self { view, rules, client, noted, host, routed, is_preflight } = self;
        if is_preflight {
            let passes = routed.is_ok_and(|routed| passes(&routed, rules));
            let methods = if passes { Methods::PassedThrough } else { Methods::Known };
            let (admission, route) = (Admission::Preflight(methods), RouteLabel::Preflight);
            return Admitted { admission, route, client, limit, conditional: false, trail: Trail::NONE };
        }
        // The page that says to wait needs these: they count, and are never refused.
        let limit = match limit {
            Decision::Refused { .. } if routed.as_ref().is_ok_and(Routed::is_of_error_pages) => Decision::Unlimited,
            limit => limit,
        };
        if let Decision::Refused { quota, retry_after_seconds } = limit {
            let is_trusted = rules.client_ip.trusts(view.peer);
            let proxy = if is_trusted { None } else { UntrustedProxy::of(view.peer, view.headers) };
            rules.limiter.refused.note(client, is_trusted && client == view.peer.to_canonical(), proxy, now);
            let admission = Admission::Refused(Problem::rate_limited(quota, retry_after_seconds));
            let (route, trail) = (RouteLabel::Limit, Trail::NONE);
            return Admitted { admission, route, client, limit, conditional: false, trail };
        }
        let trail = if noted.relayed { Trail::of(view.headers) } else { Trail::NONE };
        // Refused even if this server could answer: an answer from time to time would only hide the loop.
        let comes_back = rules.name.as_ref().is_some_and(|name| trail.leads_through(name));
        let (route, admission) = match host {
            Ok(()) if comes_back => (RouteLabel::Other, Err(Problem::loop_detected())),
            Ok(()) => judge(routed, view, &noted, rules),
            Err(problem) => (RouteLabel::Other, Err(problem)),
        };
        let admission = admission.unwrap_or_else(Admission::Refused);
        Admitted { admission, route, client, limit, conditional: noted.conditional, trail }
    }
}

/// The decision on a request that the limit admits, and its label.
fn judge(
    routed: Result<Routed<'_>, Problem>,
    view: &View<'_>,
    noted: &Noted<'_>,
    rules: &Rules,
) -> (RouteLabel, Result<Admission, Problem>) {
    let asks_for_methods = *view.method == Method::OPTIONS;
    let options = |methods| {
        let answered = if view.has_body || noted.body { Err(Problem::unexpected_body()) } else { Ok(()) };
        (RouteLabel::Options, answered.map(|()| Admission::Options(methods)))
    };
    if asks_for_methods && view.target == b"*" {
        return options(Methods::All);
    }
    let routed = match check_size(view, noted).and(routed) {
        Ok(routed) => routed,
        Err(problem) => return (RouteLabel::Other, Err(problem)),
    };
    if asks_for_methods && routed.route != Route::Unknown {
        return options(Methods::Known);
    }
    if asks_for_methods && passes(&routed, rules) && !rules.passthrough_methods.contains(view.method) {
        return options(Methods::PassedThrough);
    }
    let admission = target(&routed, view, noted, rules).map(|target| {
        let coding = if noted.wishes { coding::negotiate(view.headers, &Coding::PREFERENCE) } else { Coding::Identity };
        Admission::Admitted { target, coding }
    });
    (routed.route.label(), admission)
}

struct Routed<'a> {
    route: Route,
    path: std::borrow::Cow<'a, str>,
    raw_path: &'a [u8],
    raw_query: Option<&'a [u8]>,
    query: &'a str,
}

impl Routed<'_> {
    fn is_of_error_pages(&self) -> bool {
        let asset = self.path.strip_prefix(ASSETS);
        asset.is_some_and(|name| OF_ERROR_PAGES.iter().any(|needed| name.starts_with(needed)))
    }
}

/// The endpoint that a target names, its normalised path, and its raw query.
fn route<'a>(view: &View<'a>, rules: &Rules) -> Result<Routed<'a>, Problem> {
    let (raw_path, raw_query) = split(view);
    let bad = |_| Problem::bad_parameter("query", raw_query.unwrap_or_default(), "must be percent-encoded ASCII");
    let query = std::str::from_utf8(raw_query.unwrap_or_default()).map_err(bad)?;
    // A path that names an endpoint as it stands is in its normal form.
    if let Ok(path) = std::str::from_utf8(raw_path)
        && let route @ (Route::List | Route::Detail(_) | Route::Taxonomy(_) | Route::Changes) = Route::of(path)
    {
        return Ok(Routed { route, path: path.into(), raw_path, raw_query, query });
    }
    let path = target::normalise(raw_path).map_err(|error| Problem::bad_path(raw_path, error))?;
    let is_offered = |route: &Route| match route {
        Route::Dump(_) | Route::Search | Route::Venue(_) => rules.dumps,
        Route::Files => rules.dumps && rules.pages.is_some(),
        other => !other.is_of_pages() || rules.pages.is_some(),
    };
    let named = |path: &str| Some(Route::of(path)).filter(is_offered);
    let route = named(&path).unwrap_or(Route::Unknown);
    // The path of `public_url` is accepted in front and stripped.
    let base = rules.base_path.as_ref().filter(|_| route == Route::Unknown);
    let stripped = base.and_then(|base| Some((base, base.strip(&path)?.to_owned())));
    Ok(match stripped {
        Some((base, path)) => {
            // `%2F` is refused, so that raw and normalised segments match one to one.
            let segments = base.as_str().matches('/').count();
            let start = raw_path.iter().enumerate().filter(|(_, byte)| **byte == b'/').nth(segments);
            // Relative links lead astray where the slash after the base is missing.
            let slashless = start.is_none();
            let raw_path = start.map_or(&b"/"[..], |(at, _)| &raw_path[at..]);
            let (route, path) = match named(&path).unwrap_or(Route::Unknown) {
                // The front page.
                Route::Document(_) if slashless => (Route::Slashed, base.as_str().to_owned()),
                route => (route, path),
            };
            Routed { route, path: path.into(), raw_path, raw_query, query }
        }
        None => Routed { route, path, raw_path, raw_query, query },
    })
}

fn split<'a>(view: &View<'a>) -> (&'a [u8], Option<&'a [u8]>) {
    match memchr(b'?', view.target) {
        Some(at) => (&view.target[..at], Some(&view.target[at + 1..])),
        None => (view.target, None),
    }
}

/// Whether an unknown path is forwarded to the origin.
fn passes(routed: &Routed<'_>, rules: &Rules) -> bool {
    routed.route == Route::Unknown
        && rules.passthrough_paths.iter().any(|prefix| routed.path.starts_with(prefix.as_str()))
}

/// A list of methods as `Allow` has it, none of them twice: `first`, the configured ones, `last`.
pub(crate) fn names(first: &[&str], configured: &[Method], last: &[&str]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in first.iter().copied().chain(configured.iter().map(Method::as_str)).chain(last.iter().copied()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

fn target(routed: &Routed<'_>, view: &View<'_>, noted: &Noted<'_>, rules: &Rules) -> Result<Target, Problem> {
    let path = &*routed.path;
    if routed.route == Route::Unknown {
        if !passes(routed, rules) {
            return Err(Problem::unknown_path(path));
        }
        if !rules.passthrough_methods.contains(view.method) {
            let allow = names(&[], &rules.passthrough_methods, &["OPTIONS"]);
            return Err(Problem::method_not_allowed(view.method.as_str(), &allow));
        }
        check_body(view, noted)?;
        let mut target = routed.raw_path.to_vec();
        if let Some(query) = routed.raw_query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        return Ok(Target::Pass(target.into()));
    }
    if !matches!(*view.method, Method::GET | Method::HEAD) {
        return Err(Problem::method_not_allowed(view.method.as_str(), ALLOW));
    }
    check_body(view, noted)?;
    let page = |document| Ok(Target::Document(document));
    match routed.route {
        Route::List => list(routed.query).map(Target::Api),
        Route::Taxonomy(kind) => {
            let pin = query::snapshot(routed.query).map_err(refusal)?;
            Ok(Target::Api(ApiTarget::Taxonomy { kind, pin }))
        }
        Route::Detail(id) => Ok(Target::Api(ApiTarget::Detail(id))),
        Route::NoSuchListing => {
            let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
            Ok(Target::Api(ApiTarget::NoListing(id.unwrap_or(path).into())))
        }
        Route::Changes => Ok(Target::Api(ApiTarget::Changes { since: since(routed.query) })),
        Route::ChangeRecords => Ok(Target::File(FileTarget::ChangeRecords { since: since(routed.query) })),
        Route::Search => search(routed.query).map(|query| Target::Api(ApiTarget::Search(query))),
        Route::Dump(kind) => {
            let query = FileQuery::parse(routed.query, kind.is_table()).map_err(refusal)?;
            Ok(Target::File(FileTarget::Dump(kind, query)))
        }
        Route::Document(Document::Front) if !coding::names_html(view.headers) => {
            page(WantedDocument::Fixed(Document::Index))
        }
        Route::Document(document @ (Document::Explore | Document::Embed | Document::Points)) => {
            let query = match document {
                Document::Points => FinderQuery::parse_points(routed.query),
                Document::Embed => FinderQuery::parse(routed.query, FinderForm::Widget),
                _ => FinderQuery::parse(routed.query, FinderForm::Page),
            };
            page(WantedDocument::Explore(Box::new(query)))
        }
        Route::Document(document) => page(WantedDocument::Fixed(document)),
        Route::Venue(id) => page(WantedDocument::Venue(id)),
        Route::Asset => page(WantedDocument::Asset(path.trim_start_matches(ASSETS).into())),
        Route::Slashed => {
            let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let query = if routed.query.is_empty() { String::new() } else { format!("?{}", routed.query) };
            moved(&if path.ends_with('/') { format!("../{name}{query}") } else { format!("./{name}/{query}") }, path)
        }
        Route::Files => moved(if path.ends_with('/') { "../#files" } else { "./#files" }, path),
        Route::Probe(probe) => Ok(Target::Probe(probe)),
        Route::Unknown => Err(Problem::unknown_path(path)),
    }
}

/// What a query of the list asks for: ordinary, or odd.
fn list(raw: &str) -> Result<ApiTarget, Problem> {
    let (odd, parsed) = match Parameters::parse(raw) {
        Ok(Parameters { list: query, snapshot: pin, is_odd: false, has_size, has_escapes }) => {
            return Ok(ApiTarget::List { query, pin, has_size, raw: has_escapes.then(|| raw.into()) });
        }
        parsed => (OddQuery::read(raw), parsed.map_err(refusal)),
    };
    match odd {
        Some(odd) => Ok(ApiTarget::OddList(Box::new(OddRequest { odd, ours: parsed.map(|parsed| parsed.list) }))),
        None => parsed.map(|Parameters { list: query, snapshot: pin, has_size, .. }| ApiTarget::List {
            query,
            pin,
            has_size,
            raw: None,
        }),
    }
}

fn moved(to: &str, path: &str) -> Result<Target, Problem> {
    HeaderValue::from_str(to).map(Target::Moved).map_err(|_| Problem::unknown_path(path))
}

fn since(query: &str) -> Result<Box<str>, Problem> {
    const WHAT: &str =
        "the id of a snapshot, from the header Mirror-Snapshot (or, for /changes.ndjson, \"next\" of its last line)";
    query::changes_since(query).map_err(refusal)?.ok_or_else(|| Problem::missing_parameter("since", WHAT))
}

fn search(query: &str) -> Result<Box<SearchQuery>, Problem> {
    let query = SearchQuery::parse(query).map_err(refusal)?;
    if query.is_empty() {
        return Err(Problem::missing_parameter("q", "q, near, bbox, sport, state, city or modified_since"));
    }
    Ok(Box::new(query))
}

/// An odd query of the list, and our own answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddRequest {
    pub(crate) odd: OddQuery,
    /// What it counts as, or why we refuse it.
    pub(crate) ours: Result<ListQuery, Problem>,
}

fn refusal(error: QueryError) -> Problem {
    match error {
        QueryError::BadValue { parameter, value, expected } => {
            Problem::bad_parameter(parameter, value, &format!("must be {expected}"))
        }
        QueryError::Repeated { parameter, first, second } => Problem::repeated_parameter(parameter, first, second),
        QueryError::Unknown { parameter, known } => Problem::unknown_parameter(&parameter, known),
    }
}

#[cfg(test)]
mod tests;
