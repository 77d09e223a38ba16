//! Request coalescing: one fetch at a time for all clients that ask for a resource; clients that cannot share its answer
//! ask again.
//!
//! It neither decides whether to ask the origin nor asks. Callers: [`super`].

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tokio::time::timeout;

use crate::data::cache::Key;
use crate::data::cache::reply::Stored;
use crate::origin::budget::{Spent, SpentReason};
use crate::origin::client::AskError;
use crate::origin::wire::Listener;
use crate::protocol::cache_status::{CacheOutcome, Forwarded};
use crate::protocol::caching::{RequestDirectives, reuse};
use crate::tasks::single_flight::{Leader, Role};

use super::Proxy;
use super::fetch::Fetch;
use super::request::{
    FetchOutcome, Flight, ProxyAnswer, ProxyError, ProxyRequest, and_these, flight, for_everybody, is_failure, names,
    told,
};

/// How often a client waits for the fetch of another client although the answer then does not fit its own request.
const MOST_TRIES: u32 = 2;
/// How long a client with a stale answer of a known endpoint at hand waits for a fresh one. On other paths, slow does
/// not count as failing.
const PATIENCE_WITH_STALE: Duration = Duration::from_secs(2);

/// The next step of a client that waited for another's fetch.
enum Turn {
    Served(Result<ProxyAnswer, ProxyError>),
    /// It asks again: the fetch was lost.
    Again,
    /// It is judged by its own place in the queue: the client that began the fetch got no slot, or gave up earlier.
    Refused,
    /// It asks again, a few times: the answer was for other request headers.
    OfOthers,
    /// It sends a request of its own.
    Alone,
}

impl Proxy {
    /// One fetch for all clients that ask meanwhile.
    pub(super) async fn together(
        &self,
        mut fetch: Fetch,
        selectable: &HeaderMap,
        interim: Option<Listener>,
    ) -> Result<ProxyAnswer, ProxyError> {
        let (inner, known) = (&*self.0, fetch.question.is_known());
        let deadline = inner.clock.now_mono().plus(inner.config.wait);
        let left = || deadline.since(inner.clock.now_mono());
        let mut tries = 0;
        loop {
            let boarding = inner.flights.join(&flight(&fetch.key, &fetch.names, selectable));
            // A fetch may have landed between the look into the cache and the boarding: look again, now that no other
            // one begins. If this leader is dropped, those that have joined it ask again.
            if let Role::Leader(..) = boarding {
                if let Some(hit) = self.landed_meanwhile(known, &fetch.key, selectable, fetch.kept.as_ref()) {
                    return Ok(hit);
                }
                if self.varies_by_more(&mut fetch, selectable) {
                    continue;
                }
            }
            let at_hand = fetch.kept.clone().filter(|stored| known && self.stands_in(known, stored));
            let is_cold = at_hand.is_none();
            let waiter = match boarding {
                Role::Leader(ticket, _) => {
                    if is_cold {
                        // What it waited for others counts, too.
                        fetch.asker.patience = fetch.asker.patience.map(|patience| patience.min(left()));
                    }
                    return self.first(fetch, ticket, at_hand, selectable, interim).await;
                }
                Role::Waiter(waiter) => waiter,
            };
            let landed = if let Some(stored) = at_hand {
                match timeout(PATIENCE_WITH_STALE, waiter.landed()).await {
                    // Here and below, giving up waiting ends no fetch: that runs in a task of its own.
                    Ok(landed) => landed,
                    Err(_elapsed) => return Ok(ProxyAnswer::stale(stored, None)),
                }
            } else {
                // It may wait longer for its slot than this client; on the wire it needs the full timeout.
                let bound = left() + inner.upstream.origin().config().timeout;
                timeout(bound, waiter.landed()).await.ok().flatten()
            };
            let left = left();
            match self.shared(landed, &mut fetch, selectable, !left.is_zero()) {
                Turn::Served(answer) => return answer,
                Turn::Again => {}
                Turn::Refused if !is_cold => return self.stale_or(known, fetch.kept, Spent::soon().into()),
                Turn::Refused => {
                    if let Some(spent) = self.own_refusal(&fetch, selectable, left) {
                        let kept = fetch.kept.clone();
                        self.refused(spent, fetch, selectable);
                        return self.stale_or(known, kept, spent.into());
                    }
                }
                Turn::OfOthers if tries < MOST_TRIES => tries += 1,
                Turn::OfOthers | Turn::Alone => {
                    if is_cold {
                        fetch.asker.patience = fetch.asker.patience.map(|patience| patience.min(left));
                    }
                    return self.alone(fetch, interim).await;
                }
            }
        }
    }

    /// Looks into the cache again: the stored answer may have been replaced since this client came. `true`: answers vary
    /// by more fields than were known, so this is another flight.
    pub(super) fn varies_by_more(&self, fetch: &mut Fetch, selectable: &HeaderMap) -> bool {
        let variants = self.0.cache.stored(&fetch.key);
        let more = names(variants.as_deref());
        if more.iter().any(|name| !fetch.names.contains(name)) {
            fetch.names = and_these(std::mem::take(&mut fetch.names), more);
            return true;
        }
        fetch.kept = variants.and_then(|variants| variants.select(selectable).cloned());
        false
    }

    /// The fetch of the client that began it. If the client has an answer at hand, it does not wait for a hung origin;
    /// the fetch goes on.
    async fn first(
        &self,
        fetch: Fetch,
        ticket: Leader<Flight, FetchOutcome>,
        at_hand: Option<Arc<Stored>>,
        selectable: &HeaderMap,
        interim: Option<Listener>,
    ) -> Result<ProxyAnswer, ProxyError> {
        let (known, kept) = (fetch.question.is_known(), fetch.kept.clone());
        let cold = (known && at_hand.is_none()).then(|| fetch.clone());
        let started = self.start(fetch, Some(ticket), interim);
        let fetched = match at_hand {
            Some(stored) => match timeout(PATIENCE_WITH_STALE, started).await {
                Ok(fetched) => fetched,
                Err(_elapsed) => return Ok(ProxyAnswer::stale(stored, None)),
            },
            None => started.await,
        };
        if let (Err(AskError::Spent(spent)), Some(fetch)) = (&fetched, cold) {
            self.refused(*spent, fetch, selectable);
        }
        self.served(known, kept, fetched)
    }

    /// A client was refused a resource: a known endpoint is fetched without it if others were, too; requests for other
    /// paths carry fields of a client. A pause of the origin is no sign of demand.
    fn refused(&self, spent: Spent, fetch: Fetch, selectable: &HeaderMap) {
        if spent.reason != SpentReason::Paused && fetch.question.is_known() && !fetch.question.is_spare() {
            self.want(fetch, selectable, true);
        }
    }

    /// Judges a client whose shared fetch got no slot, by its own place in the queue and its own patience. `None`: it
    /// goes on, with a fetch of its own or with one that another of the waiting clients has begun.
    fn own_refusal(&self, fetch: &Fetch, selectable: &HeaderMap, left: Duration) -> Option<Spent> {
        let inner = &*self.0;
        if !left.is_zero() && inner.flights.is_running(&flight(&fetch.key, &fetch.names, selectable)) {
            return None;
        }
        inner.upstream.origin().budget().judge(fetch.asker.client, Some(left))
    }

    /// What a client makes of another's fetch; `None`: no result within its time. `may_wait`: it has time left to wait.
    fn shared(&self, landed: Option<FetchOutcome>, fetch: &mut Fetch, selectable: &HeaderMap, may_wait: bool) -> Turn {
        let known = fetch.question.is_known();
        match landed {
            Some(FetchOutcome::Whole(stored, forwarded)) if stored.selecting.matches(selectable) => {
                let outcome = (fetch.why)(Forwarded { collapsed: true, ..forwarded });
                Turn::Served(Ok(ProxyAnswer::Stored { stored, outcome }))
            }
            Some(FetchOutcome::Arriving { head, selecting, tap })
                if selecting.matches(selectable)
                    && let Some(body) = tap.reader() =>
            {
                // Only the end shows whether it is stored.
                let forwarded = Forwarded { fwd_status: head.status.as_u16(), stored: false, collapsed: true };
                let outcome = (fetch.why)(forwarded);
                Turn::Served(Ok(ProxyAnswer::Streamed { head, body: Some(body), outcome }))
            }
            // This answer is not for the request; what answers vary by is known now.
            Some(FetchOutcome::Whole(stored, _)) => {
                fetch.names = and_these(std::mem::take(&mut fetch.names), stored.selecting.names().cloned());
                fetch.is_seen = true;
                Turn::OfOthers
            }
            Some(FetchOutcome::Arriving { selecting, .. }) => {
                fetch.names = and_these(std::mem::take(&mut fetch.names), selecting.names().cloned());
                fetch.is_seen = true;
                Turn::OfOthers
            }
            Some(FetchOutcome::Failed(AskError::Spent(_))) => Turn::Refused,
            None if may_wait => Turn::Again,
            Some(FetchOutcome::Failed(error)) => Turn::Served(self.stale_or(known, fetch.kept.take(), error)),
            Some(FetchOutcome::FailedFor(error, said))
                if *said == told(&fetch.question, &self.0.config.allowed, &fetch.names) =>
            {
                Turn::Served(self.stale_or(known, fetch.kept.take(), error))
            }
            Some(FetchOutcome::Personal | FetchOutcome::FailedFor(..)) => Turn::OfOthers,
            Some(FetchOutcome::Private) => Turn::Alone,
            // Others wait for a slow answer, which for an unknown path may be for one of them alone: waiting is over.
            None if !known && !fetch.kept.as_ref().is_some_and(|stored| self.stands_in(known, stored)) => {
                fetch.asker.patience = Some(Duration::ZERO);
                Turn::Alone
            }
            None => Turn::Served(self.stale_or(known, fetch.kept.take(), Spent::soon().into())),
        }
    }

    pub(super) async fn alone(&self, fetch: Fetch, interim: Option<Listener>) -> Result<ProxyAnswer, ProxyError> {
        let (known, kept) = (fetch.question.is_known(), fetch.kept.clone());
        let fetched = self.start(fetch, None, interim).await;
        self.served(known, kept, fetched)
    }

    /// Fetches in the background what is served stale meanwhile, unless a fetch runs.
    pub(super) fn refresh(
        &self,
        question: &ProxyRequest,
        key: Key,
        names: Vec<HeaderName>,
        selectable: &HeaderMap,
        stored: &Arc<Stored>,
    ) {
        if self.0.failures.resting(&key, self.0.clock.now_mono()).is_some() {
            return;
        }
        let asker = self.asker_of(question);
        let (question, kept) = (for_everybody(question, &names), Some(stored.clone()));
        let why = CacheOutcome::Revalidated;
        let fetch = Fetch { question, key, names, is_seen: true, kept, unconditional: false, asker, why };
        self.want(fetch, selectable, false);
    }

    /// An answer that another fetch stored after this client looked into the cache.
    pub(super) fn landed_meanwhile(
        &self,
        known: bool,
        key: &Key,
        selectable: &HeaderMap,
        kept: Option<&Arc<Stored>>,
    ) -> Option<ProxyAnswer> {
        let (inner, now) = (&*self.0, self.0.clock.now_mono());
        let variants = inner.cache.stored(key)?;
        let stored = variants.select(selectable).filter(|stored| kept.is_none_or(|kept| !Arc::ptr_eq(kept, stored)))?;
        self.is_usable(known, stored).then(|| ProxyAnswer::hit(stored.clone(), now))
    }

    /// Whether an answer may be sent to further clients without a request to the origin.
    pub(super) fn is_usable(&self, known: bool, stored: &Stored) -> bool {
        let age = stored.age(self.0.clock.now_mono());
        reuse(&stored.terms, age, &RequestDirectives::default(), &self.policy(known)).is_usable()
    }

    fn served(
        &self,
        known: bool,
        kept: Option<Arc<Stored>>,
        fetched: Result<ProxyAnswer, AskError>,
    ) -> Result<ProxyAnswer, ProxyError> {
        match fetched {
            Ok(ProxyAnswer::Streamed { head, .. })
                if is_failure(head.status)
                    && let Some(stored) = kept.as_ref().filter(|stored| self.stands_in(known, stored)) =>
            {
                Ok(ProxyAnswer::stale(stored.clone(), Some(head.status.as_u16())))
            }
            Ok(passed) => Ok(passed),
            Err(error) => self.stale_or(known, kept, error),
        }
    }

    /// The cached answer, if it may stand in for a failing origin.
    pub(super) fn stale_or(
        &self,
        known: bool,
        kept: Option<Arc<Stored>>,
        error: AskError,
    ) -> Result<ProxyAnswer, ProxyError> {
        let fwd_status = match error {
            AskError::Status { status, .. } => Some(status),
            _ => None,
        };
        match kept.filter(|stored| self.stands_in(known, stored)) {
            Some(stored) => Ok(ProxyAnswer::stale(stored, fwd_status)),
            None => Err(error.into()),
        }
    }
}
