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
use http::header::RANGE;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::cache::stored::{Stored, Variants};
use crate::cache::{Cache, Key};
use crate::clock::Clock;
use crate::origin::budget::Spent;
use crate::origin::client::{AskError, Asker};
use crate::origin::flight::{Boarding, Flights};
use crate::origin::window::Class;
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::caching::{Policy, RequestDirectives, Reuse, Selecting, Why, may_stand_in, reuse};

use super::demand::Demands;
use super::failures::Failures;
use super::read_through::BEHIND;
use super::recent::Recent;
use super::spool::{Reader, Tap};
use super::upstream::{Interim, Upstream};

/// A client's `no-cache` is heeded once per resource in this time: more of them would be a way around the cache.
const FORCED_ONCE_IN: Duration = Duration::from_secs(10);
/// For how long a resource whose answers are for one client each is asked for by each at once.
const PRIVATE_FOR: Duration = Duration::from_secs(120);

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
    /// An answer for one client alone: ask for yourself.
    Private,
    /// No answer.
    Failed(AskError),
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
    flights: Flights<Key, Landing>,
    failures: Failures,
    forced: Recent,
    private: Recent,
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
        let kept = variants.as_ref().and_then(|variants| variants.select(&question.fields)).cloned();
        let now = inner.clock.now_mono();
        let mut why = forward_reason(variants.as_deref());
        if let Some(stored) = &kept {
            let hit =
                || Passed::Stored { stored: stored.clone(), outcome: CacheOutcome::Hit { ttl: Some(stored.ttl(now)) } };
            match self.reuse(&key, stored, &directives) {
                Reuse::Fresh { .. } | Reuse::Stale { .. } => return Ok(hit()),
                Reuse::WhileRevalidating { .. } => {
                    self.refresh(&question, &key, stored);
                    return Ok(hit());
                }
                // Who has something at hand does not wait for the budget: it is asked for as soon as there is room.
                Reuse::Validate(_) if self.stands_in(stored) && !inner.upstream.origin().budget().has_room() => {
                    self.refresh(&question, &key, stored);
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
        let alone = directives.no_store
            || question.method == Method::HEAD
            || (kept.is_none() && question.fields.contains_key(RANGE))
            || inner.private.holds(&key, now);
        if alone {
            return self.alone(&question, &key, kept, why, interim).await;
        }
        self.together(&question, &key, kept, why, interim).await
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
        question: &Question,
        key: &Key,
        kept: Option<Arc<Stored>>,
        why: Reason,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Passed, PassError> {
        let deadline = self.0.clock.now_mono().plus(self.0.wait);
        loop {
            let passenger = match self.0.flights.board(key) {
                Boarding::First(ticket, _) => {
                    let fetched = self.start(self.of(question, key, kept.as_ref()), Some(ticket), interim);
                    return self.served(fetched.await, kept, why);
                }
                Boarding::Joined(passenger) => passenger,
            };
            // It may be waiting for its turn more patiently than this client does; on the wire it needs its time.
            let bound = deadline.since(self.0.clock.now_mono()) + self.0.upstream.origin().config().timeout;
            let landed = tokio::time::timeout(bound, passenger.landed()).await.ok().flatten();
            match landed {
                Some(Landing::Kept(stored, fwd_status))
                    if stored.selecting.matches(&question.fields, &stored.fields) =>
                {
                    let forwarded = Forwarded { fwd_status, stored: true, collapsed: true };
                    return Ok(Passed::Stored { stored, outcome: why(forwarded) });
                }
                Some(Landing::Arriving { head, selecting, tap })
                    if selecting.matches(&question.fields, &head.fields)
                        && let Some(body) = tap.reader() =>
                {
                    let fwd_status = head.status.as_u16();
                    let outcome = why(Forwarded { fwd_status, stored: true, collapsed: true });
                    return Ok(Passed::Streamed { head, body: Some(body), outcome });
                }
                // It was the patience of somebody who came earlier that ended.
                Some(Landing::Failed(AskError::Spent(_))) | None if self.0.clock.now_mono() < deadline => {}
                Some(Landing::Failed(error)) => return self.stale_or(kept, error),
                None => return self.stale_or(kept, Spent::soon().into()),
                // What came is not for this request.
                Some(Landing::Kept(..) | Landing::Arriving { .. } | Landing::Private) => {
                    return self.alone(question, key, kept, why, interim).await;
                }
            }
        }
    }

    /// A fetch for one client.
    async fn alone(
        &self,
        question: &Question,
        key: &Key,
        kept: Option<Arc<Stored>>,
        why: Reason,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Passed, PassError> {
        let fetched = self.start(self.of(question, key, kept.as_ref()), None, interim).await;
        self.served(fetched, kept, why)
    }

    fn asker(&self, question: &Question) -> Asker {
        Asker { class: Class::Client, client: Some(question.client), patience: Some(self.0.wait), demand: None }
    }

    /// A fetch that the client waits for.
    fn of(&self, question: &Question, key: &Key, kept: Option<&Arc<Stored>>) -> fetch::Fetch {
        let asker = self.asker(question);
        fetch::Fetch { question: question.clone(), key: key.clone(), kept: kept.cloned(), asker }
    }

    /// What the client that fetched is served.
    fn served(
        &self,
        fetched: Result<fetch::Fetched, AskError>,
        kept: Option<Arc<Stored>>,
        why: Reason,
    ) -> Result<Passed, PassError> {
        let collapsed = false;
        match fetched {
            Ok(fetch::Fetched::Confirmed { stored, fwd_status, is_kept }) => {
                Ok(Passed::Stored { stored, outcome: why(Forwarded { fwd_status, stored: is_kept, collapsed }) })
            }
            Ok(fetch::Fetched::Arriving { head, body, keeps }) => {
                let fwd_status = head.status.as_u16();
                if is_failure(head.status)
                    && let Some(stored) = kept.filter(|stored| self.stands_in(stored))
                {
                    return Ok(Passed::Stored {
                        stored,
                        outcome: CacheOutcome::StaleIfError { fwd_status: Some(fwd_status) },
                    });
                }
                Ok(Passed::Streamed { head, body, outcome: why(Forwarded { fwd_status, stored: keeps, collapsed }) })
            }
            Err(error) => self.stale_or(kept, error),
        }
    }

    /// Fetches in the background what is served stale meanwhile, unless somebody does.
    fn refresh(&self, question: &Question, key: &Key, stored: &Arc<Stored>) {
        let inner = &*self.0;
        inner.demands.asked(key);
        if inner.failures.resting(key, inner.clock.now_mono()).is_some() {
            return;
        }
        if let Boarding::First(ticket, _) = inner.flights.board(key) {
            let (this, question, key, stored) = (self.clone(), question.clone(), key.clone(), stored.clone());
            let asker = self.asker(&question);
            let asker = Asker { patience: Some(BEHIND), demand: Some(inner.demands.begin(&key)), ..asker };
            tokio::spawn(async move {
                let fetch = fetch::Fetch { question, key: key.clone(), kept: Some(stored), asker };
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
