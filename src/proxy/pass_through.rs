//! Paths that are not known here: passed to the origin as they are, and cached by RFC 9111 to the letter.
//!
//! This file decides, from what is kept and what is under way, whether to ask; `fetch` asks. Bodies are streamed to
//! clients while they arrive, untouched. Callers: [`crate::serve`].

mod fetch;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE, RANGE};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use url::Url;

use crate::cache::stored::{Stored, Variants};
use crate::cache::{Cache, Key};
use crate::clock::Clock;
use crate::origin::budget::Spent;
use crate::origin::client::{AskError, Asker};
use crate::origin::failures::Failures;
use crate::origin::flight::{Boarding, Flights};
use crate::origin::window::Class;
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::caching::{
    Policy, Purpose, RequestDirectives, Reuse, Selecting, Vary, Why, may_stand_in, onward, reuse,
};

use super::demand::Demands;

use super::read_through::BEHIND;
use super::recent::Recent;
use super::spool::{Reader, Tap};
use super::upstream::{Interim, Upstream};
use fetch::{Fetch, Fetched};

/// A client's `no-cache` is heeded once per resource in this time: more of them would be a way around the cache.
const FORCED_ONCE_IN: Duration = Duration::from_secs(10);
/// For how long a resource whose answers are for one client each is asked for by each at once.
const PRIVATE_FOR: Duration = Duration::from_secs(120);

/// How often a client waits for an answer that others asked for and that then is not for it.
const MOST_TRIES: u32 = 2;

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
    #[error("nothing is kept that could be served, and the request allows nothing else")]
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
}

/// One fetch at a time for a resource and the values of what it is known to vary by.
type Flight = (Key, Selecting);

/// What of a request may select an answer: what the origin gets to see when it varies by it.
fn selectable(question: &Question) -> HeaderMap {
    onward(&question.fields, Purpose::Store, |_| true)
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
    upstream: Upstream,
    cache: Cache,
    clock: Clock,
    policy: Policy,
    wait: Duration,
    max_body: u64,
    /// Under which addresses clients and the origin name resources.
    bases: Vec<Url>,
    flights: Flights<Flight, Landing>,
    failures: Failures,
    forced: Recent,
    private: Recent,
    /// The same for requests with credentials only.
    personal: Recent,
    demands: Demands,
    /// Bytes of bodies that are held to be kept.
    arriving: AtomicU64,
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
    /// Under which addresses clients and the origin name resources.
    pub bases: Vec<Url>,
}

impl PassThrough {
    /// A cache in front of `upstream`.
    pub fn new(upstream: Upstream, cache: Cache, config: PassConfig, clock: Clock) -> Self {
        let PassConfig { stale_if_error, wait, max_body, bases } = config;
        Self(Arc::new(Inner {
            upstream,
            max_body: max_body.min(cache.largest()),
            cache,
            clock,
            policy: Policy { known: false, stale_while_revalidate: Duration::ZERO, stale_if_error },
            wait,
            bases,
            flights: Flights::default(),
            failures: Failures::default(),
            forced: Recent::new(FORCED_ONCE_IN),
            private: Recent::new(PRIVATE_FOR),
            personal: Recent::new(PRIVATE_FOR),
            demands: Demands::default(),
            arriving: AtomicU64::new(0),
        }))
    }

    /// Lets nobody join the fetches that are under way: something was purged.
    pub fn purged(&self) {
        self.0.flights.close();
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
            return Ok(self.forward(&question, interim).await?);
        }
        let inner = &*self.0;
        let key = Key::origin(&question.target);
        let directives = RequestDirectives::of(&question.fields);
        let variants = inner.cache.stored(&key);
        let selectable = selectable(&question);
        let kept = variants.as_ref().and_then(|variants| variants.select(&selectable)).cloned();
        let names = names(variants.as_deref());
        let now = inner.clock.now_mono();
        let mut why = forward_reason(variants.as_deref());
        if let Some(stored) = &kept {
            let hit =
                || Passed::Stored { stored: stored.clone(), outcome: CacheOutcome::Hit { ttl: Some(stored.ttl(now)) } };
            match self.reuse(&key, stored, &directives) {
                Reuse::Fresh { .. } | Reuse::Stale { .. } => return Ok(hit()),
                Reuse::WhileRevalidating { .. } => {
                    self.refresh(&question, &flight(&key, &names, &selectable), &names, stored);
                    return Ok(hit());
                }
                // Who has something at hand does not wait for the budget: it is asked for as soon as there is room.
                Reuse::Validate(_) if self.stands_in(stored) && !inner.upstream.origin().budget().has_room() => {
                    self.refresh(&question, &flight(&key, &names, &selectable), &names, stored);
                    let outcome = CacheOutcome::StaleIfError { fwd_status: None };
                    return Ok(Passed::Stored { stored: stored.clone(), outcome });
                }
                Reuse::Validate(Why::Request) => why = CacheOutcome::Requested,
                Reuse::Validate(Why::Stale | Why::NoCache) => why = CacheOutcome::Revalidated,
            }
        }
        if directives.only_if_cached {
            return Err(PassError::OnlyIfCached);
        }
        if let Some(error) = inner.failures.resting(&key, now) {
            return self.stale_or(kept, error);
        }
        let credentials = [AUTHORIZATION, COOKIE].iter().any(|name| question.fields.contains_key(name));
        let alone = directives.no_store
            || question.method == Method::HEAD
            || (kept.is_none() && question.fields.contains_key(RANGE))
            || inner.private.holds(&key, now)
            || (credentials && inner.personal.holds(&key, now));
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

    /// One fetch for all who ask meanwhile.
    async fn together(
        &self,
        mut fetch: Fetch,
        why: Reason,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Passed, PassError> {
        let inner = &*self.0;
        let deadline = inner.clock.now_mono().plus(inner.wait);
        let selectable = selectable(&fetch.question);
        let mut tries = 0;
        loop {
            let passenger = match inner.flights.board(&flight(&fetch.key, &fetch.names, &selectable)) {
                Boarding::First(ticket, _) => {
                    if let Some(hit) = self.landed_meanwhile(&fetch.key, &selectable, fetch.kept.as_ref()) {
                        return Ok(hit);
                    }
                    let kept = fetch.kept.clone();
                    return self.served(self.start(fetch, Some(ticket), interim).await, kept, why);
                }
                Boarding::Joined(passenger) => passenger,
            };
            // It may be waiting for its turn more patiently than this client does; on the wire it needs its time.
            let bound = deadline.since(inner.clock.now_mono()) + inner.upstream.origin().config().timeout;
            let landed = tokio::time::timeout(bound, passenger.landed()).await.ok().flatten();
            match landed {
                Some(Landing::Kept(stored, fwd_status)) if stored.selecting.matches(&selectable, &stored.fields) => {
                    let forwarded = Forwarded { fwd_status, stored: true, collapsed: true };
                    return Ok(Passed::Stored { stored, outcome: why(forwarded) });
                }
                Some(Landing::Arriving { head, selecting, tap })
                    if selecting.matches(&selectable, &head.fields)
                        && let Some(body) = tap.reader() =>
                {
                    let fwd_status = head.status.as_u16();
                    let outcome = why(Forwarded { fwd_status, stored: true, collapsed: true });
                    return Ok(Passed::Streamed { head, body: Some(body), outcome });
                }
                // It was the patience of somebody who came earlier that ended.
                Some(Landing::Failed(AskError::Spent(_))) | None if inner.clock.now_mono() < deadline => {}
                Some(Landing::Failed(error)) => return self.stale_or(fetch.kept, error),
                None => return self.stale_or(fetch.kept, Spent::soon().into()),
                // What came is not for this request; what the answers vary by is known now.
                Some(Landing::Arriving { selecting, .. }) if tries < MOST_TRIES => {
                    fetch.names = sorted(fetch.names.into_iter().chain(selecting.names().cloned()).collect());
                    tries += 1;
                }
                Some(Landing::Kept(stored, _)) if tries < MOST_TRIES => {
                    fetch.names = sorted(fetch.names.into_iter().chain(stored.selecting.names().cloned()).collect());
                    tries += 1;
                }
                Some(Landing::Personal) if tries < MOST_TRIES => tries += 1,
                Some(_) => return self.alone(fetch, why, interim).await,
            }
        }
    }

    /// What another flight brought between the look into the cache and the boarding of this one.
    fn landed_meanwhile(&self, key: &Key, selectable: &HeaderMap, kept: Option<&Arc<Stored>>) -> Option<Passed> {
        let (inner, now) = (&*self.0, self.0.clock.now_mono());
        let variants = inner.cache.stored(key)?;
        let stored = variants.select(selectable).filter(|stored| kept.is_none_or(|kept| !Arc::ptr_eq(kept, stored)))?;
        let usable = reuse(&stored.terms, stored.age(now), &RequestDirectives::default(), &inner.policy).is_usable();
        let outcome = CacheOutcome::Hit { ttl: Some(stored.ttl(now)) };
        usable.then(|| Passed::Stored { stored: stored.clone(), outcome })
    }

    /// A fetch for one client.
    async fn alone(
        &self,
        fetch: Fetch,
        why: Reason,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Passed, PassError> {
        let kept = fetch.kept.clone();
        self.served(self.start(fetch, None, interim).await, kept, why)
    }

    fn asker(&self, question: &Question) -> Asker {
        Asker { class: Class::Client, client: Some(question.client), patience: Some(self.0.wait), demand: None }
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
            let (this, key, names) = (self.clone(), key.clone(), names.to_vec());
            let demand = Some(inner.demands.begin(&key));
            let asker = Asker { patience: Some(BEHIND), demand, ..self.asker(question) };
            let (question, kept) = (question.clone(), Some(stored.clone()));
            let fetch = Fetch { question, key: key.clone(), names, kept, asker };
            tokio::spawn(async move {
                drop(this.start(fetch, Some(ticket), |_| {}).await);
                this.0.demands.end(&key);
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
