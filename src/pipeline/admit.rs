//! From the head of a request to what it asks for, or to the refusal that it gets.
//!
//! In this order: client address, preflight, limit, path, route, method, body, query, coding. Nothing is looked up
//! here. Callers: [`crate::serve`].

use std::net::IpAddr;

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, HeaderMap, ORIGIN, TRANSFER_ENCODING};
use http::{Method, Uri};

use crate::api::listing::ListingId;
use crate::api::query::{ListQuery, Parameters, QueryError};
use crate::api::route::Route;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::limit::{Decision, Limiter};
use crate::semantics::client_address::{self, ClientIpConfig};
use crate::semantics::coding::{self, Coding};
use crate::semantics::path::{self, BasePath};
use crate::semantics::problem::Problem;

/// The methods of known endpoints, for `Allow`.
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The head of a request.
#[derive(Debug)]
pub struct View<'a> {
    /// The method.
    pub method: &'a Method,
    /// The request target as received.
    pub target: &'a [u8],
    /// The same, parsed: used where the target is in absolute form.
    pub uri: &'a Uri,
    /// The header.
    pub headers: &'a HeaderMap,
    /// The TCP peer.
    pub peer: IpAddr,
}

/// What decisions depend on besides the request.
pub struct Rules {
    /// How the client's address is found.
    pub client_ip: ClientIpConfig,
    /// The limiter.
    pub limiter: Limiter,
    /// The path of `public_url`, where it has one.
    pub base_path: Option<BasePath>,
    /// Path prefixes that are proxied beyond the known endpoints; empty offline.
    pub passthrough_paths: Vec<String>,
    /// Methods that pass.
    pub passthrough_methods: Vec<Method>,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A page of the list.
    List {
        /// Which one.
        query: ListQuery,
        /// From which kept snapshot.
        pin: Option<Box<str>>,
    },
    /// A taxonomy.
    Taxonomy {
        /// Which one.
        kind: TaxonomyKind,
        /// From which kept snapshot.
        pin: Option<Box<str>>,
    },
    /// A detail.
    Detail(ListingId),
    /// An endpoint that is not known here: the origin's business.
    PassThrough,
}

/// What happens to a request.
#[derive(Debug)]
pub enum Admission {
    /// It is looked up.
    Admitted {
        /// What it asks for.
        target: Target,
        /// The coding that the client likes best.
        coding: Coding,
    },
    /// It is a CORS preflight.
    Preflight,
    /// It is refused.
    Refused(Problem),
}

/// The decision on a request, and what goes with it whatever it is.
#[derive(Debug)]
pub struct Admitted {
    /// The decision.
    pub admission: Admission,
    /// The word for its endpoint.
    pub route: &'static str,
    /// The client.
    pub client: IpAddr,
    /// What the limiter says.
    pub limit: Decision,
}

/// Decides on a request.
pub fn admit(view: &View<'_>, rules: &Rules, now: Monotonic) -> Admitted {
    let client = client_address::resolve(&rules.client_ip, view.peer, view.headers).ip;
    let preflight = view.method == Method::OPTIONS
        && view.headers.contains_key(ORIGIN)
        && view.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if preflight {
        let limit = rules.limiter.peek(client, now);
        return Admitted { admission: Admission::Preflight, route: "preflight", client, limit };
    }
    let limit = rules.limiter.admit(client, now);
    if let Decision::Refused { quota, retry_after_seconds } = limit {
        let problem = Problem::rate_limited(quota, retry_after_seconds);
        return Admitted { admission: Admission::Refused(problem), route: "limit", client, limit };
    }
    let (route, admission) = match route(view, rules) {
        Ok((route, path, query)) => (route.as_str(), target(route, &path, query, view, rules)),
        Err(problem) => (Route::Unknown.as_str(), Err(problem)),
    };
    let admission = match admission {
        Ok(target) => {
            let coding = coding::negotiate(view.headers, &Coding::PREFERENCE);
            Admission::Admitted { target, coding }
        }
        Err(problem) => Admission::Refused(problem),
    };
    Admitted { admission, route, client, limit }
}

/// The endpoint that a target names, its normalised path, and its raw query.
fn route<'a>(view: &View<'a>, rules: &Rules) -> Result<(Route, std::borrow::Cow<'a, str>, &'a str), Problem> {
    let (raw_path, raw_query) = split(view);
    let query = std::str::from_utf8(raw_query)
        .map_err(|_| Problem::bad_parameter("query", raw_query, "percent-encoded ASCII"))?;
    let path = path::normalise(raw_path).map_err(|error| Problem::bad_path(raw_path, error))?;
    let route = Route::of(&path);
    if route != Route::Unknown {
        return Ok((route, path, query));
    }
    // The path of `public_url` is accepted in front and stripped.
    let stripped = rules.base_path.as_ref().and_then(|base| base.strip(&path)).map(str::to_owned);
    match stripped {
        Some(stripped) => Ok((Route::of(&stripped), stripped.into(), query)),
        None => Ok((route, path, query)),
    }
}

/// Path and query of the target; absolute form (RFC 9112 §3.2.2) is accepted.
fn split<'a>(view: &View<'a>) -> (&'a [u8], &'a [u8]) {
    let target = if view.target.starts_with(b"/") {
        view.target
    } else {
        view.uri.path_and_query().map_or(view.target, |path| path.as_str().as_bytes())
    };
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, b""),
    }
}

/// What an endpoint is asked for.
fn target(route: Route, path: &str, query: &str, view: &View<'_>, rules: &Rules) -> Result<Target, Problem> {
    if route == Route::Unknown {
        let passes = rules.passthrough_paths.iter().any(|prefix| path.starts_with(prefix.as_str()));
        if !passes {
            return Err(Problem::unknown_path(path));
        }
        if !rules.passthrough_methods.contains(view.method) {
            let allow: Vec<&str> = rules.passthrough_methods.iter().map(Method::as_str).collect();
            return Err(Problem::method_not_allowed(view.method.as_str(), &allow.join(", ")));
        }
        return Ok(Target::PassThrough);
    }
    if !matches!(*view.method, Method::GET | Method::HEAD) {
        return Err(Problem::method_not_allowed(view.method.as_str(), ALLOW));
    }
    if has_body(view.headers) {
        return Err(Problem::unexpected_body());
    }
    let pin = |parameters: Parameters| parameters.snapshot;
    match route {
        Route::List => {
            let parameters = parse(query)?;
            Ok(Target::List { query: parameters.list, pin: parameters.snapshot })
        }
        Route::Taxonomy(kind) => Ok(Target::Taxonomy { kind, pin: parse(query).map(pin)? }),
        Route::Detail(id) => Ok(Target::Detail(id)),
        Route::NoSuchListing => Err(Problem::unknown_listing(path)),
        Route::Changes | Route::Unknown => Err(Problem::unknown_path(path)),
    }
}

fn parse(query: &str) -> Result<Parameters, Problem> {
    Parameters::parse(query).map_err(|error| match error {
        QueryError::BadValue { parameter, value, expected } => Problem::bad_parameter(parameter, value, expected),
        QueryError::Repeated { parameter, first, second } => Problem::repeated_parameter(parameter, first, second),
    })
}

/// Whether a request announces a body. `Content-Length: 0` announces none.
fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
        || headers.get_all(CONTENT_LENGTH).iter().any(|length| length.as_bytes().iter().any(|byte| *byte != b'0'))
}

#[cfg(test)]
mod tests;
