//! Paths that are not known here: passed to the origin as they are, and cached by RFC 9111 to the letter.
//!
//! This file decides, from what is kept and what is under way, whether to ask; `together` lets all who ask share one
//! fetch; `fetch` asks; `forward` is for methods that no cache answers. Bodies are streamed to
//! clients while they arrive, untouched. Callers: [`crate::serve`].

mod fetch;
mod forward;
mod together;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_LOCATION, COOKIE, LOCATION, PRAGMA, RANGE, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use url::Url;

use crate::api::rewrite::Rewrite;
use crate::cache::stored::{Stored, Variants};
use crate::cache::{Cache, Key};
use crate::clock::{Clock, Monotonic};
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::caching::{
    Allowed, Policy, Purpose, RequestDirectives, Reuse, Selecting, Vary, Why, may_stand_in, onward, reuse,
};
use crate::semantics::hops::CDN_LOOP;
use crate::upstream::client::{AskError, Asker};
use crate::upstream::failures::Failures;
use crate::upstream::flight::{Boarding, Flights};

use super::demand::Demands;
use super::ladder::{self, Facts, Step};

use super::read_through::BEHIND;
use super::recent::Recent;
use super::spool::{Reader, Tap};
use crate::upstream::forward::Forwarder;
use crate::upstream::wire::Interim;
use fetch::{Fetch, Fetched};

/// A client's `no-cache` is heeded once per resource in this time: more of them would be a way around the cache.
const FORCED_ONCE_IN: Duration = Duration::from_secs(10);
/// For how long a resource whose answers are for one client each is asked for by each at once.
const PRIVATE_FOR: Duration = Duration::from_secs(120);

/// Larger bodies are not looked through on a thread that serves clients, in bytes.
pub(super) const LARGE: u64 = 64 << 10;

/// A client's request.
#[derive(Clone, Debug)]
pub struct Question {
    /// The method.
    pub method: Method,
    /// Path and raw query, byte for byte.
    pub target: Bytes,
    /// The header as it came.
    pub fields: HeaderMap,
    /// The body, of methods that have one.
    pub body: Bytes,
    /// Who asks.
    pub client: IpAddr,
    /// The version of HTTP that the client speaks.
    pub version: Version,
}

/// The head of an answer whose body is still on its way.
#[derive(Debug)]
pub struct Head {
    /// The status.
    pub status: StatusCode,
    /// The end-to-end fields as they came.
    pub fields: HeaderMap,
}

/// An answer.
#[derive(Debug)]
pub enum Passed {
    /// One that is kept.
    Stored {
        /// The answer.
        stored: Arc<Stored>,
        /// How it came about.
        outcome: CacheOutcome,
    },
    /// One that is on its way.
    Streamed {
        /// Its head.
        head: Arc<Head>,
        /// Its body; `None` for none.
        body: Option<Reader>,
        /// How it came about.
        outcome: CacheOutcome,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PassError {
    /// The origin gives none, and nothing is kept that may stand in for it.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The client wants nothing but what is kept (RFC 9111 §5.2.1.7), and that is nothing.
    #[error("nothing usable is cached, and the request forbids asking the origin")]
    OnlyIfCached,
}

/// What a fetch brings to those who did not start it.
#[derive(Clone, Debug)]
enum Landing {
    /// What was kept was confirmed or replaced, and is kept.
    Kept(Arc<Stored>, u16),
    /// An answer that will be kept, while it arrives.
    Arriving { head: Arc<Head>, selecting: Selecting, tap: Tap },
    /// An answer for one client alone, as the request wanted it or the answer says something of it: others may share.
    Personal,
    /// An answer of a resource that answers each client alone: ask for yourself.
    Private,
    /// No answer.
    Failed(AskError),
    /// No answer to a request with these fields, which may be why: others who say something else ask again.
    FailedFor(AskError, Arc<HeaderMap>),
}

/// One fetch at a time for a resource and the values of what it is known to vary by.
type Flight = (Key, Selecting);

/// What of a request may select an answer: what the origin gets to see when it varies by it.
fn selectable(question: &Question, allowed: &Allowed) -> HeaderMap {
    onward(&question.fields, Purpose::Store, allowed, |_| true)
}

/// Whether a part is to be asked for: nothing is kept that could be confirmed and cut.
fn wants_part(question: &Question, kept: Option<&Stored>) -> bool {
    question.method == Method::GET && question.fields.contains_key(RANGE) && !kept.is_some_and(Stored::has_validator)
}

/// What the origin gets to see of a client's header when the answer is for all. `names`: what the answers vary by.
fn told(question: &Question, allowed: &Allowed, names: &[HeaderName]) -> HeaderMap {
    onward(&question.fields, Purpose::Store, allowed, |name| names.contains(name))
}

/// The fields that the answers of a resource are known to vary by.
fn names(variants: Option<&Variants>) -> Vec<HeaderName> {
    let stored = variants.into_iter().flat_map(Variants::iter);
    sorted(stored.flat_map(|stored| stored.selecting.names().cloned()).collect())
}

fn sorted(mut names: Vec<HeaderName>) -> Vec<HeaderName> {
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    names
}

fn flight(key: &Key, names: &[HeaderName], selectable: &HeaderMap) -> Flight {
    (key.clone(), Selecting::of(&Vary::Fields(names.to_vec()), selectable))
}

/// The cache for unknown paths; cheap to clone.
#[derive(Clone)]
pub struct PassThrough(Arc<Inner>);

struct Inner {
    upstream: Forwarder,
    cache: Cache,
    clock: Clock,
    policy: Policy,
    wait: Duration,
    max_body: u64,
    /// The fields of a client's GET and HEAD that reach the origin.
    allowed: Allowed,
    /// Under which addresses clients and the origin name resources.
    bases: Vec<Url>,
    /// What becomes of the origin's addresses.
    rewrite: Rewrite,
    flights: Flights<Flight, Landing>,
    failures: Failures,
    forced: Recent,
    private: Recent,
    /// The same for requests with credentials only.
    personal: Recent,
    demands: Demands,
}

/// What bounds it.
#[derive(Clone, Debug)]
pub struct PassConfig {
    /// How long a stale answer may stand in for a failing origin.
    pub stale_if_error: Duration,
    /// How long a client waits for the budget.
    pub wait: Duration,
    /// Largest body that is kept, in bytes; larger ones pass.
    pub max_body: u64,
    /// The fields of a client's GET and HEAD that reach the origin.
    pub allowed: Allowed,
    /// Under which addresses clients and the origin name resources.
    pub bases: Vec<Url>,
    /// What becomes of the origin's addresses.
    pub rewrite: Rewrite,
}

impl PassThrough {
    /// A cache in front of `upstream`.
    pub fn new(upstream: Forwarder, cache: Cache, config: PassConfig, clock: Clock) -> Self {
        let PassConfig { stale_if_error, wait, max_body, allowed, bases, rewrite } = config;
        Self(Arc::new(Inner {
            upstream,
            max_body: max_body.min(cache.largest()),
            cache,
            clock,
            policy: Policy { known: false, stale_while_revalidate: Duration::ZERO, stale_if_error },
            wait,
            allowed,
            bases,
            rewrite,
            flights: Flights::default(),
            failures: Failures::default(),
            forced: Recent::new(FORCED_ONCE_IN),
            private: Recent::new(PRIVATE_FOR),
            personal: Recent::new(PRIVATE_FOR),
            demands: Demands::default(),
        }))
    }

    /// Lets nobody join the fetches that are under way: something was purged.
    pub fn purged(&self) {
        self.0.flights.close();
    }

    /// Leads clients who follow an answer's head to us, where it leads to the origin. What is kept, and what an answer makes
    /// void, goes by the origin's own addresses.
    pub fn lead_here(&self, head: &mut HeaderMap) {
        for name in [LOCATION, CONTENT_LOCATION] {
            let mut values = head.get_all(&name).iter();
            let (Some(value), None) = (values.next(), values.next()) else { continue };
            let ours = value.to_str().ok().and_then(|value| self.0.rewrite.reference(value));
            if let Some(ours) = ours.and_then(|ours| HeaderValue::try_from(ours).ok()) {
                head.insert(name, ours);
            }
        }
    }

    /// Answers a request; `interim` is told of interim answers of the origin.
    ///
    /// # Errors
    /// When the origin gives no answer and none is kept that may stand in for it.
    pub async fn ask(
        &self,
        question: Question,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Passed, PassError> {
        if !matches!(question.method, Method::GET | Method::HEAD) {
            return Ok(self.forward(question, interim).await?);
        }
        let inner = &*self.0;
        let key = Key::origin(&question.target);
        let directives = RequestDirectives::of(&question.fields);
        let variants = inner.cache.stored(&key);
        let selectable = selectable(&question, &inner.allowed);
        let kept = variants.as_ref().and_then(|variants| variants.select(&selectable)).cloned();
        let names = names(variants.as_deref());
        let now = inner.clock.now_mono();
        let hit = |stored: Arc<Stored>| {
            let outcome = CacheOutcome::Hit { ttl: Some(stored.ttl(now)) };
            Passed::Stored { stored, outcome }
        };
        let rungs =
            Rungs { pass: self, question: &question, key: &key, kept: kept.as_ref(), directives: &directives, now };
        let (why, alone) = match ladder::next(&rungs) {
            Step::Serve(stored) => return Ok(hit(stored)),
            Step::ServeWhileRevalidating(stored) => {
                self.refresh(&question, &flight(&key, &names, &selectable), &names, &stored);
                return Ok(hit(stored));
            }
            Step::StandIn(stored) => {
                self.refresh(&question, &flight(&key, &names, &selectable), &names, &stored);
                return Ok(Passed::Stored { stored, outcome: CacheOutcome::StaleIfError { fwd_status: None } });
            }
            Step::Rest(error) => return self.stale_or(kept, error),
            Step::Nothing => return Err(PassError::OnlyIfCached),
            Step::Fetch { why, alone } => (why, alone),
        };
        let why = match why {
            None => forward_reason(variants.as_deref()),
            Some(Why::Request) => CacheOutcome::Requested,
            Some(Why::Stale | Why::NoCache) => CacheOutcome::Revalidated,
        };
        let asker = self.asker(&question);
        let fetch = Fetch { question, key, names, kept, asker };
        if alone { self.alone(fetch, why, interim).await } else { self.together(fetch, why, interim).await }
    }

    /// How what is kept serves a request, unless that wants too much.
    fn reuse(&self, key: &Key, stored: &Stored, directives: &RequestDirectives) -> Reuse {
        let inner = &*self.0;
        let now = inner.clock.now_mono();
        let age = stored.age(now);
        let wanted = reuse(&stored.terms, age, directives, &inner.policy);
        if wanted != Reuse::Validate(Why::Request) {
            return wanted;
        }
        let modest = reuse(&stored.terms, age, &RequestDirectives::default(), &inner.policy);
        if modest.is_usable() && !inner.forced.mark(key, now) { modest } else { wanted }
    }

    fn asker(&self, question: &Question) -> Asker {
        Asker::client(Some(question.client), self.0.wait)
    }

    /// What the client that fetched is served.
    fn served(
        &self,
        fetched: Result<Fetched, AskError>,
        kept: Option<Arc<Stored>>,
        why: Reason,
    ) -> Result<Passed, PassError> {
        let collapsed = false;
        match fetched {
            Ok(Fetched::Confirmed { stored, fwd_status, is_kept }) => {
                Ok(Passed::Stored { stored, outcome: why(Forwarded { fwd_status, stored: is_kept, collapsed }) })
            }
            Ok(Fetched::Arriving { head, body, keeps }) => {
                let fwd_status = head.status.as_u16();
                if is_failure(head.status)
                    && let Some(stored) = kept.filter(|stored| self.stands_in(stored))
                {
                    return Ok(Passed::Stored {
                        stored,
                        outcome: CacheOutcome::StaleIfError { fwd_status: Some(fwd_status) },
                    });
                }
                Ok(Passed::Streamed {
                    head,
                    body,
                    outcome: why(Forwarded { fwd_status, stored: keeps, collapsed: false }),
                })
            }
            Err(error) => self.stale_or(kept, error),
        }
    }

    /// Fetches in the background what is served stale meanwhile, unless somebody does.
    fn refresh(&self, question: &Question, flight: &Flight, names: &[HeaderName], stored: &Arc<Stored>) {
        let (inner, key) = (&*self.0, &flight.0);
        inner.demands.asked(key);
        if inner.failures.resting(key, inner.clock.now_mono()).is_some() {
            return;
        }
        if let Boarding::First(ticket, _) = inner.flights.board(flight) {
            if self.landed_meanwhile(key, &selectable(question, &inner.allowed), Some(stored)).is_some() {
                return;
            }
            let (this, key, names) = (self.clone(), key.clone(), names.to_vec());
            let fetching = inner.demands.fetching(&key);
            let demand = Some(fetching.demand.clone());
            let asker = Asker { patience: Some(BEHIND), demand, ..self.asker(question) };
            let (question, kept) = (for_everybody(question, &names), Some(stored.clone()));
            let fetch = Fetch { question, key, names, kept, asker };
            tokio::spawn(async move {
                drop(this.start(fetch, Some(ticket), |_| {}).await);
                drop(fetching);
            });
        }
    }

    fn stands_in(&self, stored: &Stored) -> bool {
        may_stand_in(&stored.terms, stored.age(self.0.clock.now_mono()), &self.0.policy)
    }

    fn stale_or(&self, kept: Option<Arc<Stored>>, error: AskError) -> Result<Passed, PassError> {
        match kept.filter(|stored| self.stands_in(stored)) {
            Some(stored) => Ok(Passed::Stored { stored, outcome: CacheOutcome::StaleIfError { fwd_status: None } }),
            None => Err(error.into()),
        }
    }
}

/// What the ladder asks about a request.
struct Rungs<'a> {
    pass: &'a PassThrough,
    question: &'a Question,
    key: &'a Key,
    kept: Option<&'a Arc<Stored>>,
    directives: &'a RequestDirectives,
    now: Monotonic,
}

impl Facts for Rungs<'_> {
    type Kept = Arc<Stored>;
    type Failure = AskError;

    fn kept(&self) -> Option<(Arc<Stored>, Reuse)> {
        let stored = self.kept?;
        Some((stored.clone(), self.pass.reuse(self.key, stored, self.directives)))
    }

    fn stands_in(&self) -> bool {
        self.kept.is_some_and(|stored| self.pass.stands_in(stored))
    }

    fn has_room(&self) -> bool {
        self.pass.0.upstream.origin().budget().has_room()
    }

    fn only_if_cached(&self) -> bool {
        self.directives.only_if_cached
    }

    fn is_alone(&self) -> bool {
        let (inner, fields) = (&*self.pass.0, &self.question.fields);
        let credentials = || [AUTHORIZATION, COOKIE].iter().any(|name| fields.contains_key(name));
        self.directives.no_store
            || self.question.method == Method::HEAD
            || wants_part(self.question, self.kept.map(|stored| &**stored))
            || inner.private.holds(self.key, self.now)
            || (credentials() && inner.personal.holds(self.key, self.now))
    }

    fn resting(&self) -> Option<AskError> {
        self.pass.0.failures.resting(self.key, self.now)
    }
}

/// The question of one client as it is asked in the background, for all: without what makes it that client's own, but
/// for what the answers vary by.
fn for_everybody(question: &Question, names: &[HeaderName]) -> Question {
    let mut question = Question { method: Method::GET, ..question.clone() };
    for name in
        [AUTHORIZATION, COOKIE, RANGE, CACHE_CONTROL, PRAGMA, VIA, CDN_LOOP].iter().filter(|name| !names.contains(name))
    {
        question.fields.remove(name);
    }
    question
}

/// What becomes of an outcome when it is known how the origin answered.
type Reason = fn(Forwarded) -> CacheOutcome;

/// Why a request that nothing serves is forwarded.
fn forward_reason(variants: Option<&Variants>) -> Reason {
    if variants.is_some() { CacheOutcome::VaryMiss } else { CacheOutcome::Miss }
}

/// Whether the origin failed, so that something stale may stand in for its answer.
fn is_failure(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
