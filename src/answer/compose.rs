//! Makes the head of an answer from what was found: preconditions, then headers.
//!
//! Bodies are only chosen here, never made. Callers: [`super`].

mod of_the_origin;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::cache::reply::Reply;
use crate::clock::{Now, WallTime};
use crate::limit::Decision;
use crate::semantics::cache_status::CacheOutcome;
use crate::semantics::coding::Coding;
use crate::semantics::freshness::CacheControl;
use crate::semantics::precondition::{EntityTag, Precondition};
use crate::semantics::problem::{Problem, ProblemKind};
use crate::semantics::{freshness, precondition, problem};
use crate::snapshot::pointer::Snapshot;
use crate::telemetry::Source;

use super::admit::{ALLOW, Methods};
use super::documents::ErrorPages;
use super::find::Learned;
use super::head::{Field, Head};
use super::{admit, head as fields};

/// A body is what `Content-Type` says (the Fetch standard).
pub(crate) const NOSNIFF: &str = "nosniff";

/// For answers that nobody may keep.
pub(super) const NO_STORE: &str = "no-store";

/// The fields that scripts of other sites may read (the Fetch standard), in every answer.
pub(crate) const EXPOSED: &str = "Age, Date, ETag, Link, Retry-After, RateLimit, RateLimit-Policy, Cache-Status, Mirror-Snapshot, \
                           Mirror-Confirmed, Accept-Ranges, Content-Range, Content-Disposition";

/// The parts that are the same in every answer.
#[derive(Clone, Debug)]
pub struct ConstantHeaders {
    pub(super) cache_control: HeaderValue,
    pub(super) ttl: i64,
    /// Whether the origin confirms the data from time to time; offline it does not.
    pub(super) ages: bool,
    /// `Allow` for paths that are forwarded.
    passthrough_allow: HeaderValue,
    /// `Access-Control-Allow-Methods` there.
    passthrough_cors: HeaderValue,
    /// `Allow` for the server as a whole.
    all_allow: HeaderValue,
}

/// The parts of a request that an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: &'a Method,
    /// The header.
    pub headers: &'a HeaderMap,
    /// The limiter's decision.
    pub limit: Decision,
    /// The coding that the client likes best.
    pub coding: Coding,
    /// Whether the header states conditions; a wrong `true` costs only a look at it.
    pub conditional: bool,
    /// Whether the endpoint is one that is passed through.
    pub passes: bool,
    /// Whether the answer is ours only because the origin gave none: nobody may keep it.
    pub provisional: bool,
    /// What makes a page of an error, for who wants one; `None`: errors are documents for programs.
    pub pages: Option<ErrorPages<'a>>,
}

impl<'a> Asked<'a> {
    /// Without conditions, of a known endpoint, for a client that likes no coding.
    pub const fn of(method: &'a Method, headers: &'a HeaderMap, limit: Decision) -> Self {
        let (conditional, passes, provisional) = (false, false, false);
        Self { method, headers, limit, coding: Coding::Identity, conditional, passes, provisional, pages: None }
    }

    /// The client's conditions on what has this tag.
    pub(super) fn precondition(&self, tag: Option<&EntityTag>) -> Precondition {
        if self.conditional { precondition::evaluate(self.method, self.headers, tag) } else { Precondition::Proceed }
    }
}

/// What was found in the snapshot.
#[derive(Clone, Copy)]
pub struct FromSnapshot<'a> {
    /// The reply.
    pub reply: &'a Reply,
    /// The snapshot.
    pub published: &'a Snapshot,
    /// For `Cache-Status`, if the origin was asked for it just now.
    pub forwarded: Option<CacheOutcome>,
    /// Whether the client named the snapshot: then the answer does not age.
    pub pinned: bool,
}

/// An answer that is ready to be sent.
#[derive(Debug)]
pub struct Answer<H = HeaderMap> {
    /// The status.
    pub status: StatusCode,
    /// The head.
    pub head: H,
    /// The body; `None` for 304, 204 and HEAD.
    pub body: Option<Bytes>,
    /// Its source.
    pub outcome: Outcome,
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// From the snapshot, the cache or the origin.
    Cache(CacheOutcome),
    /// An error of ours.
    Problem,
    /// A document of this server.
    Document,
    /// Refused by the rate limit.
    Refused,
    /// A CORS preflight.
    Preflight,
    /// `OPTIONS` that is no preflight.
    Options,
}

impl Outcome {
    /// The word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cache(outcome) => outcome.as_str(),
            Self::Problem => "problem",
            Self::Document => "document",
            Self::Refused => "refused",
            Self::Preflight => "preflight",
            Self::Options => "options",
        }
    }

    /// For `Cache-Status`; `None` for answers that this server makes itself.
    pub const fn cache(self) -> Option<CacheOutcome> {
        if let Self::Cache(outcome) = self { Some(outcome) } else { None }
    }

    /// Whether the answer shows the id of its request: an error, or one that needed the origin.
    pub(super) fn shows_id(self) -> bool {
        match self {
            Self::Cache(outcome) => outcome.forwarded().is_some(),
            Self::Problem | Self::Refused => true,
            Self::Document | Self::Preflight | Self::Options => false,
        }
    }

    /// Which way it counts for the hit ratio.
    pub const fn source(self) -> Source {
        match self {
            Self::Cache(CacheOutcome::Hit { .. }) => Source::Hit,
            Self::Cache(_) => Source::Origin,
            Self::Problem | Self::Document | Self::Refused | Self::Preflight | Self::Options => Source::Own,
        }
    }
}

impl ConstantHeaders {
    /// For one configuration; `ages`: there is an origin that confirms the data; `passthrough`: the methods that pass
    /// to it, empty where no path does.
    pub fn new(cache_control: CacheControl, ages: bool, passthrough: &[Method]) -> Self {
        let ttl = i64::try_from(cache_control.ttl.as_secs()).unwrap_or(i64::MAX);
        let text = cache_control.to_string();
        let cache_control = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("no-cache"));
        let list = |first: &[&str], last: &[&str]| {
            let list = HeaderValue::from_str(&admit::names(first, passthrough, last));
            list.unwrap_or_else(|_| HeaderValue::from_static(ALLOW))
        };
        Self {
            cache_control,
            ttl,
            ages,
            passthrough_allow: list(&[], &["OPTIONS"]),
            passthrough_cors: list(&["GET", "HEAD"], &[]),
            all_allow: list(&["GET", "HEAD"], &["OPTIONS"]),
        }
    }

    /// An answer from the snapshot, in `head`.
    pub fn snapshot<H: Head>(
        &self,
        asked: Asked<'_>,
        found: FromSnapshot<'_>,
        now: impl Into<Now>,
        mut head: H,
    ) -> Answer<H> {
        let now = now.into();
        let FromSnapshot { reply, published, forwarded, pinned } = found;
        let ages = self.ages && !pinned;
        let age = self.age(published, now);
        let ttl = ages.then(|| self.ttl - i64::from(age));
        let outcome = forwarded.unwrap_or(CacheOutcome::Hit { ttl });
        let (status, body) = match asked.precondition(reply.tag.as_ref()) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed(), None, head),
            Precondition::NotModified => (StatusCode::NOT_MODIFIED, None),
            Precondition::Proceed => (StatusCode::OK, Some(reply.body.variant(asked.coding))),
        };
        head.begin(status);
        if let Some((coding, variant)) = &body {
            about_body(&mut head, "application/json", &[], Some(&variant.length), *coding);
        }
        self.lifetime(&mut head, ages.then_some(age), if asked.provisional { Some(NO_STORE) } else { None });
        if let Some(etag) = &reply.etag {
            head.put(&fields::ETAG, etag);
        }
        if let Some(link) = &reply.link {
            head.put(&fields::LINK, link);
        }
        head.put_static(&fields::VARY, "accept-encoding");
        head.put_static(&fields::ACCEPT_RANGES, "none");
        Self::of_snapshot(published, now.wall, &mut head);
        head.put_with(&fields::CACHE_STATUS, |out| outcome.write_to(out));
        common(&mut head, asked.limit);
        let body = body.filter(|_| *asked.method != Method::HEAD).map(|(_, variant)| variant.body.clone());
        Answer { status, head, body, outcome: Outcome::Cache(outcome) }
    }

    /// For how long data of this age may be kept; `None`: it does not age. `instead`: a `Cache-Control` in place of ours.
    pub(super) fn lifetime(&self, head: &mut impl Head, age: Option<u32>, instead: Option<&'static str>) {
        match instead {
            Some(instead) => head.put_static(&fields::CACHE_CONTROL, instead),
            None => head.put(&fields::CACHE_CONTROL, &self.cache_control),
        }
        if let Some(age) = age {
            head.put_number(&fields::AGE, age);
            head.put_number(&fields::X_ACCEL_EXPIRES, if instead.is_some() { 0 } else { self.left(i64::from(age)) });
        }
    }

    /// Which snapshot it is, and when it was confirmed.
    pub(super) fn of_snapshot(published: &Snapshot, now: WallTime, head: &mut impl Head) {
        head.put(&fields::MIRROR_SNAPSHOT, &published.snapshot_header);
        // Without it, nobody takes a stamp from the future for a confirmation.
        if let Some(confirmed) = published.confirmed_header.as_ref().filter(|_| !published.is_unconfirmed(now)) {
            head.put(&fields::MIRROR_CONFIRMED, confirmed);
        }
    }

    /// Age of the data: seconds since it was confirmed. A stamp from the future confirms nothing: how old the
    /// data is cannot be known then, so it is stale at once.
    pub(super) fn age(&self, published: &Snapshot, now: Now) -> u32 {
        published.age_seconds(now).unwrap_or_else(|| {
            let least = u32::try_from(self.ttl).unwrap_or(u32::MAX);
            freshness::age_seconds(now.by_origin, published.confirmed()).max(least)
        })
    }

    /// How long nginx may keep an answer of this age, in seconds: it counts `max-age` from when it asked, whatever
    /// `Age` says. It keeps a stale answer for a second: with 0 it would have none to serve when we fail, which
    /// `stale-if-error` allows.
    fn left(&self, age: i64) -> i64 {
        self.ttl.saturating_sub(age).max(1)
    }

    /// An error of our own, in `head`.
    pub fn problem<H: Head>(
        &self,
        asked: Asked<'_>,
        problem: &Problem,
        retry_after: Option<u64>,
        mut head: H,
    ) -> Answer<H> {
        head.begin(problem.status());
        let seconds = asked.limit.retry_after_seconds().map(u64::from).or(retry_after).map(|seconds| seconds.max(1));
        let body = if let Some(pages) = asked.pages.filter(ErrorPages::are_offered) {
            pages.problem(asked.headers, problem, seconds, &mut head)
        } else {
            head.put_static(&fields::CONTENT_TYPE, problem::CONTENT_TYPE);
            problem.to_json()
        };
        head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        head.put_number(&fields::CONTENT_LENGTH, body.len());
        let cache_control = if asked.provisional { NO_STORE } else { problem.cache_control() };
        head.put_static(&fields::CACHE_CONTROL, cache_control);
        if let Some(seconds) = seconds {
            head.put_number(&fields::RETRY_AFTER, seconds);
        }
        if problem.kind() == ProblemKind::MethodNotAllowed {
            self.allow(if asked.passes { Methods::PassedThrough } else { Methods::Known }, &mut head);
        }
        common(&mut head, asked.limit);
        let body = (*asked.method != Method::HEAD).then_some(body);
        let outcome = if asked.limit.is_admitted() { Outcome::Problem } else { Outcome::Refused };
        Answer { status: problem.status(), head, body, outcome }
    }

    /// The answer to a CORS preflight, in `head`.
    pub fn preflight<H: Head>(&self, methods: Methods, limit: Decision, mut head: H) -> Answer<H> {
        let status = StatusCode::NO_CONTENT;
        head.begin(status);
        match methods {
            Methods::PassedThrough => head.put(&fields::ACCESS_CONTROL_ALLOW_METHODS, &self.passthrough_cors),
            Methods::Known | Methods::All => head.put_static(&fields::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
        }
        // The wildcard covers every field but this one (the Fetch standard).
        head.put_static(&fields::ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization");
        head.put_static(&fields::ACCESS_CONTROL_MAX_AGE, "86400");
        common(&mut head, limit);
        Answer { status, head, body: None, outcome: Outcome::Preflight }
    }

    /// The answer to `OPTIONS`, in `head`.
    pub fn options<H: Head>(&self, methods: Methods, limit: Decision, mut head: H) -> Answer<H> {
        let status = StatusCode::NO_CONTENT;
        head.begin(status);
        self.allow(methods, &mut head);
        common(&mut head, limit);
        Answer { status, head, body: None, outcome: Outcome::Options }
    }

    fn allow(&self, methods: Methods, head: &mut impl Head) {
        match methods {
            Methods::Known => head.put_static(&fields::ALLOW, ALLOW),
            Methods::PassedThrough => head.put(&fields::ALLOW, &self.passthrough_allow),
            Methods::All => head.put(&fields::ALLOW, &self.all_allow),
        }
    }
}

/// What a body is, how long if that is known, and in which coding. `more`: further fields about it.
pub(super) fn about_body(
    head: &mut impl Head,
    content_type: &'static str,
    more: &[(&Field, &'static str)],
    length: Option<&HeaderValue>,
    coding: Coding,
) {
    head.put_static(&fields::CONTENT_TYPE, content_type);
    head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    for (field, value) in more {
        head.put_static(field, value);
    }
    if let Some(length) = length {
        head.put(&fields::CONTENT_LENGTH, length);
    }
    if coding != Coding::Identity {
        head.put_static(&fields::CONTENT_ENCODING, coding.as_str());
    }
}

/// CORS and the limit, which go with every answer.
pub(super) fn common(head: &mut impl Head, limit: Decision) {
    head.put_static(&fields::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    head.put_static(&fields::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    if limit.quota().is_some() {
        head.put_with(&fields::RATE_LIMIT_POLICY, |out| limit.write_policy(out));
        head.put_with(&fields::RATE_LIMIT, |out| limit.write_rate_limit(out));
    }
}

/// Nothing in it is loaded or run.
pub(crate) const SANDBOX: &str = "sandbox; default-src 'none'";

impl ConstantHeaders {
    /// An answer in the origin's words, in `head`.
    pub(crate) fn learned<H: Head>(&self, asked: Asked<'_>, learned: Learned, mut head: H) -> Answer<H> {
        let Learned { status, media_type, sandbox, body } = learned;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
        if status == StatusCode::OK && asked.precondition(None) == Precondition::Failed {
            return self.problem(asked, &Problem::precondition_failed(), None, head);
        }
        head.begin(status);
        if let Some(media_type) = media_type.as_deref().and_then(|text| HeaderValue::from_str(text).ok()) {
            head.put(&fields::CONTENT_TYPE, &media_type);
        }
        head.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        if sandbox {
            head.put_static(&fields::CONTENT_SECURITY_POLICY, SANDBOX);
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            // RFC 9110 §15.5.6: such an answer names the methods.
            head.put_static(&fields::ALLOW, ALLOW);
        }
        head.put_number(&fields::CONTENT_LENGTH, body.len());
        let may_keep = status == StatusCode::NOT_FOUND && !asked.provisional;
        let cache_control = if may_keep { "public, max-age=60" } else { NO_STORE };
        head.put_static(&fields::CACHE_CONTROL, cache_control);
        common(&mut head, asked.limit);
        let body = (*asked.method != Method::HEAD).then_some(body);
        Answer { status, head, body, outcome: Outcome::Problem }
    }
}
