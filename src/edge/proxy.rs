//! Caching reverse proxy: fetches answers that no snapshot covers, caches them, and serves them stale when the origin
//! fails.
//!
//! An HTTP cache by RFC 9111: [`crate::protocol::caching`] decides, [`crate::data::cache`] stores. Requests to known
//! endpoints and to other paths take the same steps: [`decision`] decides what to do about a request, [`coalesce`] shares
//! one fetch among all clients that wait, [`fetch`] asks the origin. After that they differ: [`judged`] reads the
//! complete answer of a known endpoint, [`streamed`] passes other answers on while they arrive. [`demand`] fetches what
//! no client waits for. [`fetch`] also forwards methods that no cache answers.
//!
//! The two differ in this:
//!
//! | | known endpoints ([`judged`]) | other paths ([`streamed`]) |
//! |---|---|---|
//! | key, and request sent | the canonical query, with our headers only | path and query byte for byte, and the client's headers in `passthrough.request_headers` |
//! | body | read whole, checked to be JSON, `api_url` rewritten, compressed for each client | streamed; also collected if it will be cached |
//! | lifetime | the origin's, else `ttl` | the origin's, else a tenth of the time since `Last-Modified` |
//! | a client's `no-cache` and `max-age` | ignored | one revalidation per resource in 10 s |
//! | stale while revalidating | the origin's value, else `cache.stale_while_revalidate` | only the origin's value |
//! | stale while the origin takes more than 2 s to answer | yes, if stale is allowed when the origin fails | no |
//! | stale if the origin fails | the origin's value, else `cache.stale_if_error`; not with `must-revalidate`, `proxy-revalidate`, `no-cache` | the same, and not with `s-maxage` |
//!
//! Why not pingora-cache: out of the box it passes 112 of the 160 required and 73 of the 105 optimal cases of the
//! public HTTP cache test suite. It lacks five things: the upstream's `Age`, request directives, invalidation,
//! `CDN-Cache-Control`, and the complete update by a 304. It also stores a separate body for each coding. This cache
//! passes 157 and 80. Most other cases fail because this cache does not store errors that a client's header may have
//! caused, and does not share answers with cookies: `tests/cache_suite` runs the suite and says why.
//!
//! **Cache poisoning.** On known endpoints no client header is forwarded, except the entries in `Via` and `CDN-Loop`
//! that grandstand processes wrote; they show loops. On other paths `Via`, `CDN-Loop` and the headers in
//! `passthrough.request_headers` are forwarded with GET; `["*"]` forwards all but those that are known to change
//! answers without `Vary` (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override` ...). The answer may depend on any
//! forwarded header, or show it in any form, without naming it in `Vary`. So an answer to a request with an unusual
//! `Accept` or `Accept-Language`, with `Via` or `CDN-Loop`, or with another listed header, is cached only for requests
//! with the same values. Once any answer of the resource is cached, unusual values of the first four are sent only if a
//! stored `Vary` names them: all clients then share the answer to the ordinary request. An error (400 and above) to a
//! request with an unusual header is not cached. Only the answer to a GET without such headers says something about the
//! resource: `private`, `no-store` or an error that another request gets removes no cached answer, pauses nothing, and
//! lets others share their requests (`request`).
//!
//! **Stale answers and the budget.** A request with a stale answer at hand gets it without waiting for the budget. The
//! resource is fetched when there is a slot. Such fetches and cache misses take turns: of the stale resources, the one
//! goes first that most households ask for; of the misses, the one of the household that was served longest ago. A
//! cache miss waits only if its slot comes within `origin.wait`, judging by those before it and by the slots that
//! become free ([`crate::origin::budget`]); otherwise it is refused at once, with that time in `Retry-After`.
//! *Overload* means that in the last minute more than two cache misses per slot were refused. Then slots are given out
//! evenly over time, not all at once, and a resource that was refused to several households is fetched although no
//! client waits for it ([`demand`]).
//!
//! Callers: [`crate::edge::answer`], [`crate::edge::serve`]; [`crate::server`] builds it.

mod coalesce;
mod decision;
mod demand;
mod fetch;
mod judged;
pub(crate) mod request;
pub(crate) mod spool;
mod streamed;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{AUTHORIZATION, COOKIE, HeaderValue};
use url::Url;

use crate::api::links::Rewrite;
use crate::clock::{Clock, Monotonic, WallTime};
use crate::config::Settings;
use crate::data::cache::recent::Recent;
use crate::data::cache::reply::Stored;
use crate::data::cache::{Cache, Key};
use crate::origin::body_memory::Room;
use crate::origin::client::{AskError, Asker};
use crate::origin::forward::Forwarder;
use crate::origin::health::Failures;
use crate::origin::wire::Listener;
use crate::protocol::cache_status::{CacheOutcome, Forwarded};
use crate::protocol::caching::{Allowed, Policy, RequestDirectives, Reuse, may_stand_in, reuse};
use crate::protocol::hops::{Caller, Trail};
use crate::tasks::single_flight::SingleFlight;

use decision::{Facts, Step};
use demand::WantedFlights;
use fetch::Fetch;
use request::{Endpoint, FetchOutcome, Flight, ProxyAnswer, ProxyError, ProxyRequest, names, selectable, wants_part};

/// A client's `no-cache` is heeded once per resource in this time: more would be a way around the cache.
const FORCED_ONCE_IN: Duration = Duration::from_secs(10);
/// After an answer that is for one client only: how long clients do not wait for each other's fetches of this resource.
const PRIVATE_FOR: Duration = Duration::from_secs(120);

/// For how long the validators of a resource are not used after one came with two bodies.
const AMBIGUOUS_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// How many resources are remembered as forced, private, personal or ambiguous; a further one may push one out, which
/// costs a request.
const MOST_MARKED: usize = 4096;

/// Larger bodies are not read or joined on a thread that serves clients, in bytes.
const LARGE: u64 = 64 << 10;

/// The caching reverse proxy; cheap to clone.
#[derive(Clone)]
pub struct Proxy(Arc<ProxyState>);

struct ProxyState {
    upstream: Forwarder,
    cache: Cache,
    clock: Clock,
    config: ProxyConfig,
    flights: SingleFlight<Flight, FetchOutcome>,
    failures: Failures,
    wanted: WantedFlights,
    forced: Recent<Monotonic>,
    private: Recent<Monotonic>,
    /// The same for requests with credentials only.
    personal: Recent<Monotonic>,
    /// One validator came with two bodies.
    ambiguous: Recent<Monotonic>,
}

#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// How long a client waits for the budget.
    pub wait: Duration,
    /// `ttl`, the freshness of known endpoints if the origin gives none, and how long stale answers are served.
    pub settings: Settings,
    /// Largest body of an unknown path that is cached, in bytes; larger ones are only passed on.
    pub max_body: u64,
    /// The fields of a client's GET and HEAD that are forwarded.
    pub allowed: Allowed,
    /// The addresses by which clients and origin name resources.
    pub bases: Vec<Url>,
    pub rewrite: Rewrite,
    pub public_url: String,
}

impl Proxy {
    pub fn new(upstream: Forwarder, cache: Cache, config: ProxyConfig, clock: Clock) -> Self {
        let max_body = config.max_body.min(cache.largest());
        Self(Arc::new(ProxyState {
            upstream,
            cache,
            clock,
            config: ProxyConfig { max_body, ..config },
            flights: SingleFlight::default(),
            failures: Failures::default(),
            wanted: WantedFlights::default(),
            forced: Recent::new(MOST_MARKED),
            private: Recent::new(MOST_MARKED),
            personal: Recent::new(MOST_MARKED),
            ambiguous: Recent::new(MOST_MARKED),
        }))
    }

    /// After a purge: no further client joins the fetches under way.
    pub fn purged(&self) {
        self.0.flights.close();
    }

    pub fn upstream(&self) -> &Forwarder {
        &self.0.upstream
    }

    /// The asker for a client's read of a known endpoint.
    pub fn asker(&self, client: &Caller) -> Asker {
        let trail = client.trail.clone();
        Asker { trail, ..Asker::client(Some(client.address), self.0.config.wait) }
    }

    /// Our address in the place of an origin's in an answer's head; `None`: it stays. Caching and invalidation use the
    /// origin's own addresses.
    pub fn leads_here(&self, reference: &HeaderValue) -> Option<HeaderValue> {
        let ours = reference.to_str().ok().and_then(|reference| self.0.config.rewrite.reference(reference));
        ours.and_then(|ours| HeaderValue::try_from(ours).ok())
    }

    /// Reads a canonical path and query of a known endpoint. `rewrites`: the document holds `api_url`s. `spare`: the client
    /// chose their bytes, so they are read within a tenth of the budget, without waiting for it, and never in the
    /// background. `after`: a cached answer that was not asked for since is revalidated before it is used, if the budget
    /// has a slot.
    pub async fn read(
        &self,
        path: &str,
        rewrites: bool,
        spare: bool,
        after: Option<WallTime>,
        client: &Caller,
    ) -> Result<(Arc<Stored>, CacheOutcome), AskError> {
        match self.ask(ProxyRequest::known(path, rewrites, spare, after, client), None).await {
            Ok(ProxyAnswer::Stored { stored, outcome }) => Ok((stored, outcome)),
            Err(ProxyError::Ask(error)) => Err(error),
            // Never: an answer of a known endpoint is read whole, and a client's directives do not count there.
            Ok(ProxyAnswer::Streamed { .. }) | Err(ProxyError::OnlyIfCached) => {
                Err(AskError::nonsense(path, "a stream"))
            }
        }
    }

    /// Answers a request; `interim` receives interim answers of the origin. If the origin gives no answer, a stored
    /// answer may stand in.
    pub async fn ask(&self, question: ProxyRequest, interim: Option<Listener>) -> Result<ProxyAnswer, ProxyError> {
        if !matches!(question.method, Method::GET | Method::HEAD) {
            return Ok(self.forward(question, interim).await?);
        }
        let inner = &*self.0;
        let key = Key::origin(&question.target);
        let variants = inner.cache.stored(&key);
        let selectable = selectable(&question, &inner.config.allowed);
        let kept = variants.as_ref().and_then(|variants| variants.select(&selectable)).cloned();
        let (directives, now) = (RequestDirectives::of(&question.fields), inner.clock.now_mono());
        let known = question.is_known();
        let has_room = || inner.upstream.origin().budget().has_room();
        let reuse = |stored: &Stored| {
            let reuse = self.reuse(stored, known, &key, &directives, now);
            let is_outdated = reuse.is_usable() && self.is_outdated(&question, stored, now);
            let is_stale = is_outdated && (has_room() || self.stands_in(known, stored));
            if is_stale { Reuse::Validate } else { reuse }
        };
        let facts = Facts {
            kept: kept.as_ref().map(|stored| (stored.clone(), reuse(stored))),
            must_stand_in: || kept.as_ref().is_some_and(|stored| self.stands_in(known, stored)) && !has_room(),
            only_if_cached: directives.only_if_cached,
            is_alone: || {
                let credentials = || [AUTHORIZATION, COOKIE].iter().any(|name| question.fields.contains_key(name));
                directives.no_store
                    || question.method == Method::HEAD
                    || wants_part(&question, kept.as_deref())
                    || inner.private.holds(&key, now)
                    || (credentials() && inner.personal.holds(&key, now))
            },
            resting: || inner.failures.resting(&key, now),
        };
        let (why, alone) = match facts.next() {
            Step::Serve(stored) => return Ok(ProxyAnswer::hit(stored, now)),
            Step::ServeWhileRevalidating(stored) => {
                self.refresh(&question, key, names(variants.as_deref()), &selectable, &stored);
                return Ok(ProxyAnswer::hit(stored, now));
            }
            Step::StandIn(stored) => {
                self.refresh(&question, key, names(variants.as_deref()), &selectable, &stored);
                return Ok(ProxyAnswer::stale(stored, None));
            }
            Step::Rest(error) => return self.stale_or(question.is_known(), kept, error),
            Step::Nothing => return Err(ProxyError::OnlyIfCached),
            Step::Fetch { why, alone } => (why, alone),
        };
        let why: Reason = match why {
            None if variants.is_some() => CacheOutcome::VaryMiss,
            None => CacheOutcome::Miss,
            Some(Reuse::Requested) => CacheOutcome::Requested,
            Some(_) => CacheOutcome::Revalidated,
        };
        let (asker, names) = (self.asker_of(&question), names(variants.as_deref()));
        let fetch = Fetch { question, key, names, is_seen: false, kept, unconditional: false, asker, why };
        if alone { self.alone(fetch, interim).await } else { self.together(fetch, &selectable, interim).await }
    }

    /// How a cached answer is used: as the request wants it, unless it wants too much.
    fn reuse(&self, stored: &Stored, known: bool, key: &Key, directives: &RequestDirectives, now: Monotonic) -> Reuse {
        let (age, policy) = (stored.age(now), self.policy(known));
        let wanted = reuse(&stored.terms, age, directives, &policy);
        if wanted != Reuse::Requested {
            return wanted;
        }
        let modest = reuse(&stored.terms, age, &RequestDirectives::default(), &policy);
        let too_often = modest.is_usable() && !self.0.forced.mark(key, now, FORCED_ONCE_IN);
        if too_often { modest } else { wanted }
    }

    /// Whether newer data is known than when a cached answer was asked for.
    fn is_outdated(&self, question: &ProxyRequest, stored: &Stored, now: Monotonic) -> bool {
        let Endpoint::Known { after: Some(after), .. } = question.endpoint else { return false };
        let held_ms = i64::try_from(now.since(stored.arrived).as_millis()).unwrap_or(i64::MAX);
        let since_ms = self.0.clock.now_wall().millis_since(after);
        since_ms >= 0 && held_ms > since_ms
    }

    fn asker_of(&self, question: &ProxyRequest) -> Asker {
        let trail = match &question.endpoint {
            Endpoint::Known { trail, .. } => trail.clone(),
            // The fields carry it.
            Endpoint::Unknown => Trail::NONE,
        };
        Asker { spare: question.is_spare(), ..self.asker(&Caller { address: question.client, trail }) }
    }

    /// The room for answers that are streamed to a client.
    fn room_of(&self, question: &ProxyRequest) -> Room {
        let origin = self.0.upstream.origin();
        let household = (!question.for_many).then(|| origin.budget().household(question.client));
        origin.room().for_streams(household)
    }

    fn policy(&self, known: bool) -> Policy {
        let cache = &self.0.config.settings.load().cache;
        let (stale_while_revalidate, stale_if_error) = (cache.stale_while_revalidate, cache.stale_if_error);
        Policy { known, stale_while_revalidate, stale_if_error }
    }

    /// Whether a cached answer may stand in for a failing origin.
    fn stands_in(&self, known: bool, stored: &Stored) -> bool {
        may_stand_in(&stored.terms, stored.age(self.0.clock.now_mono()), &self.policy(known))
    }
}

/// The outcome, once it is known how the origin answered.
type Reason = fn(Forwarded) -> CacheOutcome;
