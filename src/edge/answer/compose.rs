//! Composition of an answer: preconditions, then the fields of its head.
//!
//! An answer is a value. [`super::write`] makes the bytes of HTTP/1 or the fields of HTTP/2 of it; bodies are only chosen
//! here, never made. Callers: [`super`].

mod of_the_origin;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::clock::{Now, WallTime};
use crate::data::cache::reply::Reply;
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::limit::Decision;
use crate::protocol::cache_status::CacheOutcome;
use crate::protocol::coding::Coding;
use crate::protocol::freshness::CacheControl;
use crate::protocol::precondition::{EntityTag, Precondition};
use crate::protocol::problem::{Problem, ProblemKind};
use crate::protocol::{freshness, precondition, problem};
use crate::telemetry::Source;

use super::admit::{ALLOW, Methods};
use super::documents::{ErrorPages, map_policy};
use super::head::{Block, Field, Fields};
use super::{admit, head as fields};

/// A body is what `Content-Type` says (the Fetch standard).
pub(crate) const NOSNIFF: &str = "nosniff";

pub(super) const NO_STORE: &str = "no-store";

/// The fields that scripts of other sites may read (the Fetch standard), in every answer.
pub(crate) const EXPOSED: &str = "Age, Date, ETag, Link, Retry-After, RateLimit, RateLimit-Policy, Cache-Status, Mirror-Snapshot, \
                           Mirror-Confirmed, Accept-Ranges, Content-Range, Content-Disposition";

/// The parts that are the same in every answer.
#[derive(Clone, Debug)]
pub struct ConstantHeaders {
    /// The fields of each [`AnswerShape`]; those of replies by coding.
    any: Block,
    not_modified: Block,
    replies: [Block; 4],
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
    /// `Content-Security-Policy` of pages with a map, and of the widget.
    pub(super) map_policy: HeaderValue,
    pub(super) widget_policy: HeaderValue,
}

/// The parts of a request that an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub method: &'a Method,
    pub headers: &'a HeaderMap,
    pub limit: Decision,
    /// When the answer is made.
    pub now: Now,
    pub coding: Coding,
    /// Whether the header states conditions; a wrong `true` costs only a look at it.
    pub conditional: bool,
    /// Whether the endpoint is one that is passed through.
    pub passes: bool,
    /// What makes a page of an error, for who wants one; `None`: errors are documents for programs.
    pub pages: Option<ErrorPages<'a>>,
}

impl<'a> Asked<'a> {
    /// Without conditions, of a known endpoint, for a client that likes no coding.
    pub const fn of(method: &'a Method, headers: &'a HeaderMap, limit: Decision, now: Now) -> Self {
        let (conditional, passes) = (false, false);
        Self { method, headers, limit, now, coding: Coding::Identity, conditional, passes, pages: None }
    }

    /// The client's conditions on what has this tag.
    pub(super) fn precondition(&self, tag: Option<&EntityTag>) -> Precondition {
        if self.conditional { precondition::evaluate(self.method, self.headers, tag) } else { Precondition::Proceed }
    }
}

pub struct FromSnapshot {
    pub reply: Arc<Reply>,
    pub published: Arc<Snapshot>,
    /// For `Cache-Status`, if the origin was asked for it just now.
    pub forwarded: Option<CacheOutcome>,
    /// Whether the client named the snapshot: then the answer does not age.
    pub pinned: bool,
    /// Whether only the origin knows the right answer, and gave none: nobody may keep ours.
    pub is_provisional: bool,
}

impl FromSnapshot {
    /// The fields of the reply and of its snapshot, if it is now this time.
    pub(super) fn fields(&self, now: WallTime) -> impl Iterator<Item = (&'static Field, &HeaderValue)> {
        let tag = self.reply.etag.as_ref().map(|tag| (&fields::ETAG, tag));
        let link = self.reply.link.as_ref().map(|link| (&fields::LINK, link));
        tag.into_iter().chain(link).chain(of_snapshot(&self.published, now))
    }
}

/// Which snapshot it is, and when it was confirmed.
pub(super) fn of_snapshot(published: &Snapshot, now: WallTime) -> impl Iterator<Item = (&'static Field, &HeaderValue)> {
    // Without it, nobody takes a stamp from the future for a confirmation.
    let confirmed = published.confirmed_header.as_ref().filter(|_| !published.is_unconfirmed(now));
    let confirmed = confirmed.map(|confirmed| (&fields::MIRROR_CONFIRMED, confirmed));
    std::iter::once((&fields::MIRROR_SNAPSHOT, &published.snapshot_header)).chain(confirmed)
}

pub struct Answer {
    pub status: StatusCode,
    pub(super) shape: AnswerShape,
    /// The reply that it repeats, with further fields, and the length of the body unless it is a 304.
    pub(super) found: Option<(FromSnapshot, Option<usize>)>,
    /// Fields that were made for it.
    pub(crate) fields: Fields,
    /// How old its data is, if it ages.
    pub(super) age: Option<Age>,
    pub(super) limit: Decision,
    /// The id of its request, if it shows one.
    pub(super) id: Option<String>,
    /// Its source, and `Cache-Status`.
    pub outcome: Outcome,
    /// When it was made, for `Date`.
    pub now: WallTime,
    pub(crate) body: Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerShape {
    Any,
    /// Those of a 304 to a reply.
    NotModified,
    Reply(Coding),
}

impl AnswerShape {
    /// Its fields, but for those of every answer.
    fn put(self, cache_control: HeaderValue, fields: &mut Fields) {
        match self {
            Self::Any => return,
            Self::NotModified => {}
            Self::Reply(coding) => about_body(fields, "application/json", coding),
        }
        fields.put(&fields::CACHE_CONTROL, cache_control);
        fields.put_static(&fields::VARY, "accept-encoding");
        fields.put_static(&fields::ACCEPT_RANGES, "none");
    }
}

/// How old data is, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    pub seconds: u64,
    /// `X-Accel-Expires`; `None`: the origin says how long the answer may be kept.
    pub expires: Option<i64>,
}

#[derive(Default)]
pub(crate) enum Body {
    /// None: 304, 204 and HEAD.
    #[default]
    None,
    Whole(Bytes),
    /// One that still arrives, or is read or rendered while it is sent.
    Rest(Rest),
}

impl Body {
    /// These bytes, unless only the head was asked for.
    pub(super) fn of(method: &Method, bytes: Bytes) -> Self {
        if *method == Method::HEAD { Self::None } else { Self::Whole(bytes) }
    }

    /// The bytes that are there.
    pub(crate) fn bytes(&self) -> &[u8] {
        if let Self::Whole(bytes) = self { bytes } else { &[] }
    }
}

/// A body in pieces; an error ends it.
pub(crate) type Rest = BoxStream<'static, io::Result<Bytes>>;

impl Answer {
    /// Without a body and without fields of its own.
    pub(super) fn new(status: StatusCode, asked: Asked<'_>, outcome: Outcome) -> Self {
        let (shape, found, fields, age, id) = (AnswerShape::Any, None, Fields::default(), None, None);
        let (limit, now) = (asked.limit, asked.now.wall);
        Self { status, shape, found, fields, age, limit, id, outcome, now, body: Body::None }
    }

    pub(crate) fn has_length(&self) -> bool {
        self.fields.has(fields::CONTENT_LENGTH.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// From the snapshot, the cache or the origin.
    Cache(CacheOutcome),
    /// An error of ours.
    Problem,
    Document,
    /// Refused by the rate limit.
    Refused,
    Preflight,
    /// `OPTIONS` that is no preflight.
    Options,
}

impl Outcome {
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
        let block = |shape: AnswerShape| {
            let mut fields = Fields::default();
            shape.put(cache_control.clone(), &mut fields);
            fields.put_static(&fields::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
            fields.put_static(&fields::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            Block::from(&fields)
        };
        let codings = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];
        Self {
            any: block(AnswerShape::Any),
            not_modified: block(AnswerShape::NotModified),
            replies: codings.map(|coding| block(AnswerShape::Reply(coding))),
            cache_control,
            ttl,
            ages,
            passthrough_allow: list(&[], &["OPTIONS"]),
            passthrough_cors: list(&["GET", "HEAD"], &[]),
            all_allow: list(&["GET", "HEAD"], &["OPTIONS"]),
            map_policy: map_policy(None, "'none'"),
            widget_policy: map_policy(None, "*"),
        }
    }

    /// The same; pages with a map show images of this server, `https://tile.example.org`.
    #[must_use]
    pub fn with_tiles(mut self, tiles: &str) -> Self {
        self.map_policy = map_policy(Some(tiles), "'none'");
        self.widget_policy = map_policy(Some(tiles), "*");
        self
    }

    /// The fields that are the same in every answer of this shape.
    pub(super) fn block(&self, shape: AnswerShape) -> &Block {
        match shape {
            AnswerShape::Any => &self.any,
            AnswerShape::NotModified => &self.not_modified,
            AnswerShape::Reply(coding) => &self.replies[coding as usize],
        }
    }

    pub fn snapshot(&self, asked: Asked<'_>, found: FromSnapshot) -> Answer {
        let FromSnapshot { reply, published, forwarded, pinned, is_provisional } = &found;
        let ages = self.ages && !pinned;
        let age = self.age(published, asked.now);
        let outcome = forwarded.unwrap_or(CacheOutcome::Hit { ttl: ages.then(|| self.ttl - i64::from(age)) });
        let mut answer = Answer::new(StatusCode::OK, asked, Outcome::Cache(outcome));
        let mut length = None;
        match asked.precondition(reply.tag.as_ref()) {
            Precondition::Failed => return self.problem(asked, &Problem::precondition_failed()),
            Precondition::NotModified => {
                (answer.status, answer.shape) = (StatusCode::NOT_MODIFIED, AnswerShape::NotModified);
            }
            Precondition::Proceed => {
                let (coding, body) = reply.body.variant(asked.coding);
                answer.shape = AnswerShape::Reply(coding);
                length = Some(body.len());
                answer.body = Body::of(asked.method, body);
            }
        }
        if *is_provisional {
            std::mem::replace(&mut answer.shape, AnswerShape::Any)
                .put(HeaderValue::from_static(NO_STORE), &mut answer.fields);
        }
        answer.age = self.lifetime(ages.then_some(age), *is_provisional);
        answer.found = Some((found, length));
        answer
    }

    /// How old data is that ages, and for how long nginx may keep it.
    pub(super) fn lifetime(&self, age: Option<u32>, no_store: bool) -> Option<Age> {
        let expires = |age| if no_store { 0 } else { self.left(i64::from(age)) };
        age.map(|age| Age { seconds: age.into(), expires: Some(expires(age)) })
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

    pub fn problem(&self, asked: Asked<'_>, problem: &Problem) -> Answer {
        let outcome = if asked.limit.is_admitted() { Outcome::Problem } else { Outcome::Refused };
        let mut answer = Answer::new(problem.status(), asked, outcome);
        let fields = &mut answer.fields;
        let body = if let Some(pages) = asked.pages.filter(ErrorPages::are_offered) {
            pages.problem(asked.headers, problem, fields)
        } else {
            fields.put_static(&fields::CONTENT_TYPE, problem::CONTENT_TYPE);
            problem.to_json()
        };
        fields.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        fields.put_number(&fields::CONTENT_LENGTH, body.len() as u64);
        fields.put_static(&fields::CACHE_CONTROL, problem.cache_control());
        if let Some(seconds) = problem.retry_after() {
            fields.put_number(&fields::RETRY_AFTER, seconds);
        }
        if problem.kind() == ProblemKind::MethodNotAllowed {
            self.allow(if asked.passes { Methods::PassedThrough } else { Methods::Known }, fields);
        }
        answer.body = Body::of(asked.method, body);
        answer
    }

    pub(super) fn preflight(&self, asked: Asked<'_>, methods: Methods) -> Answer {
        let mut answer = Answer::new(StatusCode::NO_CONTENT, asked, Outcome::Preflight);
        let methods = match methods {
            Methods::PassedThrough => self.passthrough_cors.clone(),
            Methods::Known | Methods::All => HeaderValue::from_static("GET, HEAD"),
        };
        answer.fields.put(&fields::ACCESS_CONTROL_ALLOW_METHODS, methods);
        // The wildcard covers every field but this one (the Fetch standard).
        answer.fields.put_static(&fields::ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization");
        answer.fields.put_static(&fields::ACCESS_CONTROL_MAX_AGE, "86400");
        answer
    }

    pub(super) fn options(&self, asked: Asked<'_>, methods: Methods) -> Answer {
        let mut answer = Answer::new(StatusCode::NO_CONTENT, asked, Outcome::Options);
        self.allow(methods, &mut answer.fields);
        answer
    }

    fn allow(&self, methods: Methods, fields: &mut Fields) {
        let methods = match methods {
            Methods::Known => &HeaderValue::from_static(ALLOW),
            Methods::PassedThrough => &self.passthrough_allow,
            Methods::All => &self.all_allow,
        };
        fields.put(&fields::ALLOW, methods.clone());
    }
}

/// What a body is, and in which coding.
pub(super) fn about_body(fields: &mut Fields, content_type: &'static str, coding: Coding) {
    fields.put_static(&fields::CONTENT_TYPE, content_type);
    fields.put_static(&fields::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    if coding != Coding::Identity {
        fields.put_static(&fields::CONTENT_ENCODING, coding.as_str());
    }
}

/// Nothing in it is loaded or run.
pub(crate) const SANDBOX: &str = "sandbox; default-src 'none'";
