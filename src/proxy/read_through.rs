//! Reads of known endpoints that the snapshot does not cover: checked, kept, revalidated, served stale on failure.
//!
//! The request sent is built from the key alone, so nothing unkeyed can poison an entry; the answer is read whole and
//! must be JSON before anybody sees it. Callers: [`crate::serve`].

mod representation;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{AGE, CACHE_CONTROL, EXPIRES, HeaderMap, HeaderValue, VARY};
use http::{Method, StatusCode};

use crate::api::rewrite::Rewrite;
use crate::api::route::Route;
use crate::cache::stored::Stored;
use crate::cache::{Cache, Key, Purges};
use crate::clock::{Clock, Monotonic};
use crate::mirror::early_copies::EarlyCopies;
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::caching::{
    Exchange, Policy, RequestDirectives, ResponseDirectives, Reuse, Selecting, Terms, Vary, may_stand_in, may_store,
    reuse,
};
use crate::semantics::hops::Caller;
use crate::upstream::budget::Spent;
use crate::upstream::client::{Answer, AskError, Asker, OriginClient, Validators};
use crate::upstream::failures::Failures;
use crate::upstream::flight::{Boarding, Flights, Passenger};

use super::demand::Demands;
use super::ladder::{self, Facts, Step};
use super::pass_through::LARGE;

use representation::Representation;

/// How long a 404 is kept at most.
const MISSING: Duration = Duration::from_secs(60);

/// How long a client that could be served something stale waits for something fresh.
const PATIENCE_WITH_STALE: Duration = Duration::from_secs(2);
/// How long a fetch that nobody waits for stays in the queue.
pub(super) const BEHIND: Duration = Duration::from_secs(60);

/// What a fetch brings to everybody who waits for it.
#[derive(Clone, Debug)]
struct Landed {
    stored: Arc<Stored>,
    /// The origin's status: 304 for a revalidation.
    fwd_status: u16,
    /// Whether it is kept, and so everybody's.
    kept: bool,
}

type Landing = Result<Landed, AskError>;

/// The reader; cheap to clone.
#[derive(Clone)]
pub struct ReadThrough {
    inner: Arc<Inner>,
}

struct Inner {
    client: OriginClient,
    cache: Cache,
    rewrite: Rewrite,
    public_url: String,
    clock: Clock,
    ttl: Duration,
    policy: Policy,
    wait: Duration,
    flights: Flights<Key, Landing>,
    failures: Failures,
    demands: Demands,
    /// Where is kept what is read before there is a snapshot; never set in shield use.
    early: OnceLock<EarlyCopies>,
}

/// How long answers live where the origin does not say, and what links start with.
#[derive(Clone, Debug)]
pub struct ReadConfig {
    /// What clients know this server as.
    pub public_url: String,
    /// Freshness where the origin gives none.
    pub ttl: Duration,
    /// How long a stale answer may be served while a new one is fetched.
    pub stale_while_revalidate: Duration,
    /// How long a stale answer may stand in for a failing origin.
    pub stale_if_error: Duration,
    /// How long a client waits for the budget.
    pub wait: Duration,
}

/// One question.
#[derive(Clone, Debug)]
struct Question {
    path: String,
    rewrites: bool,
    client: Caller,
    key: Key,
}

impl ReadThrough {
    /// A reader that keeps what it fetches in `cache`.
    pub fn new(client: OriginClient, cache: Cache, rewrite: Rewrite, config: ReadConfig, clock: Clock) -> Self {
        let ReadConfig { public_url, ttl, stale_while_revalidate, stale_if_error, wait } = config;
        let policy = Policy { known: true, stale_while_revalidate, stale_if_error };
        let (flights, failures, demands) = (Flights::default(), Failures::default(), Demands::default());
        let inner = Inner {
            client,
            cache,
            rewrite,
            public_url,
            clock,
            ttl,
            policy,
            wait,
            flights,
            failures,
            demands,
            early: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// How patient a client's read is.
    pub fn asker(&self, client: &Caller) -> Asker {
        let trail = client.trail.clone();
        Asker { trail, ..Asker::client(Some(client.address), self.inner.wait) }
    }

    /// The client that asks the origin.
    pub fn client(&self) -> &OriginClient {
        &self.inner.client
    }

    /// What is read before there is a snapshot is kept for it.
    pub fn keep_early(&self, early: EarlyCopies) {
        // Set once, when the store is opened.
        let _ = self.inner.early.set(early);
    }

    /// Lets nobody join the fetches that are under way: something was purged.
    pub fn purged(&self) {
        self.inner.flights.close();
    }

    /// Reads a canonical path and query. `rewrites`: the document holds `api_url`s.
    ///
    /// # Errors
    /// When the origin gives no answer and none is kept that may stand in for it.
    pub async fn read(
        &self,
        path: &str,
        rewrites: bool,
        client: &Caller,
    ) -> Result<(Arc<Stored>, CacheOutcome), AskError> {
        let inner = &*self.inner;
        let question = Question { path: path.to_owned(), rewrites, client: client.clone(), key: Key::origin(path) };
        let now = inner.clock.now_mono();
        let kept = self.kept(&question.key);
        let rungs = Rungs { reader: self, question: &question, kept: kept.as_ref(), now };
        let revalidates = match ladder::next(&rungs) {
            Step::Serve(stored) => return Ok(hit(stored, now)),
            Step::ServeWhileRevalidating(stored) => {
                self.refresh(&question, &stored);
                return Ok(hit(stored, now));
            }
            Step::StandIn(stored) => {
                self.refresh(&question, &stored);
                return Ok((stored, CacheOutcome::StaleIfError { fwd_status: None }));
            }
            Step::Rest(error) => return self.stale_or(kept, error),
            // Never: known endpoints ignore `only-if-cached`.
            Step::Nothing => return Err(Spent::soon().into()),
            Step::Fetch { why, .. } => why.is_some(),
        };
        let deadline = now.plus(inner.wait);
        loop {
            let (passenger, first) = self.take_off(&question, kept.as_ref(), false);
            let collapsed = !first;
            let landed = if let Some(stored) = kept.as_ref().filter(|stored| self.stands_in(stored)) {
                // Who has something at hand does not wait for an origin that hangs; the fetch goes on.
                match tokio::time::timeout(PATIENCE_WITH_STALE, passenger.landed()).await {
                    Ok(landed) => landed,
                    Err(_elapsed) => {
                        return Ok((stored.clone(), CacheOutcome::StaleIfError { fwd_status: None }));
                    }
                }
            } else if first {
                passenger.landed().await
            } else {
                // It may be waiting for its turn more patiently than this client does; on the wire it needs its time.
                let bound = deadline.since(inner.clock.now_mono()) + inner.client.config().timeout;
                tokio::time::timeout(bound, passenger.landed()).await.ok().flatten()
            };
            let landed = landed.unwrap_or_else(|| Err(Spent::soon().into()));
            return match landed {
                Ok(Landed { stored, fwd_status, kept: is_kept }) if is_kept || first => {
                    let forwarded = Forwarded { fwd_status, stored: is_kept, collapsed };
                    let how = if revalidates { CacheOutcome::Revalidated } else { CacheOutcome::Miss };
                    Ok((stored, how(forwarded)))
                }
                // What must not be kept is for the one who asked.
                Ok(_) => self.alone(&question, kept.as_ref()).await,
                // It was the patience of somebody who came earlier that ended.
                Err(AskError::Spent(_)) if collapsed && inner.clock.now_mono() < deadline => continue,
                Err(error) => self.stale_or(kept, error),
            };
        }
    }

    fn kept(&self, key: &Key) -> Option<Arc<Stored>> {
        self.inner.cache.stored(key)?.iter().next().cloned()
    }

    fn stands_in(&self, stored: &Stored) -> bool {
        may_stand_in(&stored.terms, stored.age(self.inner.clock.now_mono()), &self.inner.policy)
    }

    /// What is kept, if it may stand in for an origin that fails.
    fn stale_or(&self, kept: Option<Arc<Stored>>, error: AskError) -> Result<(Arc<Stored>, CacheOutcome), AskError> {
        let fwd_status = match error {
            AskError::Status { status, .. } => Some(status),
            _ => None,
        };
        match kept.filter(|stored| self.stands_in(stored)) {
            Some(stored) => Ok((stored, CacheOutcome::StaleIfError { fwd_status })),
            None => Err(error),
        }
    }

    /// Fetches in the background what is served stale meanwhile, unless somebody does.
    fn refresh(&self, question: &Question, stored: &Arc<Stored>) {
        let inner = &*self.inner;
        inner.demands.asked(&question.key);
        let rests = inner.failures.resting(&question.key, inner.clock.now_mono()).is_some();
        if !rests && !inner.flights.is_flying(&question.key) {
            drop(self.take_off(question, Some(stored), true));
        }
    }

    /// A place on the fetch, which takes off if nobody else's is under way; `true` if it did. `behind`: nobody waits.
    fn take_off(&self, question: &Question, kept: Option<&Arc<Stored>>, behind: bool) -> (Passenger<Landing>, bool) {
        match self.inner.flights.board(&question.key) {
            Boarding::Joined(passenger) => (passenger, false),
            Boarding::First(ticket, passenger) => {
                let (this, question, kept) = (self.clone(), question.clone(), kept.cloned());
                let fetching = behind.then(|| self.inner.demands.fetching(&question.key));
                let mut asker = Asker { was_well: kept.is_some(), ..self.asker(&question.client) };
                if let Some(fetching) = &fetching {
                    asker = Asker { patience: Some(BEHIND), demand: Some(fetching.demand.clone()), ..asker };
                }
                tokio::spawn(async move {
                    let landed = this.fetch(&question, kept, asker).await;
                    drop(fetching);
                    ticket.land(landed);
                });
                (passenger, true)
            }
        }
    }

    /// Asks for one client only.
    async fn alone(
        &self,
        question: &Question,
        kept: Option<&Arc<Stored>>,
    ) -> Result<(Arc<Stored>, CacheOutcome), AskError> {
        let asker = Asker { was_well: kept.is_some(), ..self.asker(&question.client) };
        match self.fetch(question, kept.cloned(), asker).await {
            Ok(Landed { stored, fwd_status, kept }) => {
                let forwarded = Forwarded { fwd_status, stored: kept, collapsed: false };
                Ok((stored, CacheOutcome::Miss(forwarded)))
            }
            Err(error) => self.stale_or(kept.cloned(), error),
        }
    }

    async fn fetch(&self, question: &Question, kept: Option<Arc<Stored>>, asker: Asker) -> Landing {
        let inner = &*self.inner;
        // Another fetch may have ended between the look at the cache and the take-off.
        let now_kept = self.kept(&question.key);
        if let Some(newer) = now_kept.filter(|newer| !kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, newer))) {
            let age = newer.age(inner.clock.now_mono());
            if let Reuse::Fresh { .. } = reuse(&newer.terms, age, &RequestDirectives::default(), &inner.policy) {
                return Ok(Landed { fwd_status: newer.status.as_u16(), stored: newer, kept: true });
            }
        }
        let asked = inner.cache.purges(&question.key);
        let landed = self.ask(question, kept, asker, asked).await;
        match &landed {
            Ok(_) => inner.failures.answered(&question.key),
            Err(error) => inner.failures.failed(&question.key, error, inner.clock.now_mono()),
        }
        landed
    }

    async fn ask(&self, question: &Question, kept: Option<Arc<Stored>>, asker: Asker, asked: Purges) -> Landing {
        let inner = &*self.inner;
        let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
        let validators = kept.as_ref().map(|stored| Validators {
            etag: stored.etag.as_ref().and_then(text),
            last_modified: stored.last_modified.as_ref().and_then(text),
        });
        let answer = inner.client.ask(&question.path, validators.as_ref(), asker).await?;
        let judged = if answer.body.len() as u64 > LARGE {
            // What is large takes its time to be read.
            let (this, question, answer) = (self.clone(), question.clone(), answer.clone());
            let judging = inner.client.room().parse(move || this.judge(&question, &answer, kept.as_deref()));
            judging.await.unwrap_or_else(|error| Err(AskError::nonsense("the answer", error)))
        } else {
            self.judge(question, &answer, kept.as_deref())
        };
        let (stored, may_keep) = judged.inspect_err(|error| inner.client.unusable(error))?;
        if let Some(early) = inner.early.get() {
            early.offer(&question.path, &answer).await;
        }
        let stored = Arc::new(stored);
        let kept = may_keep && inner.cache.keep_stored(&question.key, &stored, asked);
        Ok(Landed { stored, fwd_status: answer.status, kept })
    }

    /// What an answer comes to, and whether it may be kept.
    fn judge(&self, question: &Question, answer: &Answer, kept: Option<&Stored>) -> Result<(Stored, bool), AskError> {
        let inner = &*self.inner;
        let mut shown = match (answer.status, kept) {
            // A 304 to a question without a condition confirms nothing.
            (304, Some(kept)) if kept.has_validator() => Representation::confirmed(kept, &answer.headers),
            (200, _) => Representation::document(
                &question.path,
                answer,
                question.rewrites.then_some(&inner.rewrite),
                &inner.public_url,
            )?,
            (404 | 410, _) if is_detail(&question.path) => Representation::missing(&question.path, &answer.headers),
            (status @ 400..=499, _) => {
                let status = StatusCode::from_u16(status).map_err(|error| AskError::nonsense(&question.path, error))?;
                Representation::refusal(status, answer)
            }
            (status, _) => return Err(AskError::nonsense(&question.path, format!("status {status}"))),
        };
        let explicit = shown.fields.contains_key(CACHE_CONTROL) || shown.fields.contains_key(EXPIRES);
        if shown.status.is_client_error() && !explicit {
            shown.fields.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
        }
        // `Age` is about this answer and not kept. What we send never differs, so that of `Vary` only `*` has a meaning.
        let mut judged = shown.fields.clone();
        let star = answer.headers.get_all(VARY).iter().any(|value| value.as_bytes().contains(&b'*'));
        let vary = star.then(|| HeaderValue::from_static("*"));
        for (name, value) in [(AGE, answer.headers.get(AGE).cloned()), (VARY, vary)] {
            match value {
                Some(value) => drop(judged.insert(name, value)),
                None => drop(judged.remove(name)),
            }
        }
        let directives = ResponseDirectives::of(&judged);
        let (ttl, sent) = (Some(inner.ttl), HeaderMap::new());
        let exchange = Exchange { asked: answer.asked, received: answer.received };
        let mut terms = Terms::of(shown.status, &judged, &directives, exchange, ttl);
        let allowed = may_store(&Method::GET, &sent, shown.status, &judged, &directives, ttl).is_ok();
        let may_keep = allowed && shown.body.identity().body.len() as u64 <= inner.cache.largest();
        if shown.status.is_client_error() && may_keep && terms.lifetime > MISSING {
            // It may be there soon: neither we nor others keep it for longer.
            terms.lifetime = MISSING;
            shown.fields.remove(EXPIRES);
            shown.fields.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
        }
        let Representation { status, fields, body, link, etag, last_modified } = shown;
        let (selecting, arrived) = (Selecting::of(&Vary::Nothing, &sent), inner.clock.now_mono());
        Ok((Stored { status, fields, body, link, etag, last_modified, terms, selecting, arrived }, may_keep))
    }
}

/// What the ladder asks about a read.
struct Rungs<'a> {
    reader: &'a ReadThrough,
    question: &'a Question,
    kept: Option<&'a Arc<Stored>>,
    now: Monotonic,
}

impl Facts for Rungs<'_> {
    type Kept = Arc<Stored>;
    type Failure = AskError;

    fn kept(&self) -> Option<(Arc<Stored>, Reuse)> {
        let (stored, policy) = (self.kept?, &self.reader.inner.policy);
        Some((stored.clone(), reuse(&stored.terms, stored.age(self.now), &RequestDirectives::default(), policy)))
    }

    fn stands_in(&self) -> bool {
        self.kept.is_some_and(|stored| self.reader.stands_in(stored))
    }

    fn has_room(&self) -> bool {
        self.reader.inner.client.budget().has_room()
    }

    fn only_if_cached(&self) -> bool {
        false
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn resting(&self) -> Option<AskError> {
        self.reader.inner.failures.resting(&self.question.key, self.now)
    }
}

/// Whether a path is that of a detail.
fn is_detail(path: &str) -> bool {
    matches!(Route::of(path), Route::Detail(_))
}

/// Something kept, as it is.
fn hit(stored: Arc<Stored>, now: Monotonic) -> (Arc<Stored>, CacheOutcome) {
    let ttl = Some(stored.ttl(now));
    (stored, CacheOutcome::Hit { ttl })
}
