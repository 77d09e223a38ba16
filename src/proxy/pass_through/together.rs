//! One fetch for all who ask for a resource at a time, and what becomes of those for whom its answer is not.
//!
//! It does not decide whether the origin must be asked, and asks nothing itself. Callers: [`super`].

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use crate::cache::Key;
use crate::cache::stored::Stored;
use crate::semantics::cache_status::{CacheOutcome, Forwarded};
use crate::semantics::caching::{RequestDirectives, reuse};
use crate::upstream::budget::Spent;
use crate::upstream::client::AskError;
use crate::upstream::flight::Boarding;

use super::fetch::Fetch;
use super::{Landing, PassError, PassThrough, Passed, Reason, flight, names, selectable, sorted, told};
use crate::upstream::wire::Interim;

/// How often a client waits for an answer that others asked for and that then is not for it.
const MOST_TRIES: u32 = 2;

impl PassThrough {
    /// One fetch for all who ask meanwhile.
    pub(super) async fn together(
        &self,
        mut fetch: Fetch,
        why: Reason,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Passed, PassError> {
        let inner = &*self.0;
        let deadline = inner.clock.now_mono().plus(inner.wait);
        let selectable = selectable(&fetch.question, &inner.allowed);
        let mut tries = 0;
        loop {
            let passenger = match inner.flights.board(&flight(&fetch.key, &fetch.names, &selectable)) {
                Boarding::First(ticket, _) => {
                    if let Some(hit) = self.landed_meanwhile(&fetch.key, &selectable, fetch.kept.as_ref()) {
                        return Ok(hit);
                    }
                    // What was kept when this client came may have been replaced meanwhile, and may tell what matters.
                    let variants = inner.cache.stored(&fetch.key);
                    let known = names(variants.as_deref());
                    if known.iter().any(|name| !fetch.names.contains(name)) {
                        fetch.names = sorted(fetch.names.into_iter().chain(known).collect());
                        drop(ticket);
                        continue;
                    }
                    fetch.kept = variants.and_then(|variants| variants.select(&selectable).cloned());
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
                Some(Landing::FailedFor(error, said))
                    if *said == told(&fetch.question, &inner.allowed, &fetch.names) =>
                {
                    return self.stale_or(fetch.kept, error);
                }
                None if fetch.kept.as_ref().is_some_and(|stored| self.stands_in(stored)) => {
                    return self.stale_or(fetch.kept, Spent::soon().into());
                }
                // Others wait for something slow, which may be for one of them alone: the time to wait is over.
                None => {
                    fetch.asker.patience = Some(Duration::ZERO);
                    return self.alone(fetch, why, interim).await;
                }
                // What came is not for this request; what the answers vary by is known now.
                Some(Landing::Arriving { selecting, .. }) if tries < MOST_TRIES => {
                    fetch.names = sorted(fetch.names.into_iter().chain(selecting.names().cloned()).collect());
                    tries += 1;
                }
                Some(Landing::Kept(stored, _)) if tries < MOST_TRIES => {
                    fetch.names = sorted(fetch.names.into_iter().chain(stored.selecting.names().cloned()).collect());
                    tries += 1;
                }
                Some(Landing::Personal | Landing::FailedFor(..)) if tries < MOST_TRIES => tries += 1,
                Some(_) => return self.alone(fetch, why, interim).await,
            }
        }
    }

    /// What another flight brought between the look into the cache and the boarding of this one.
    pub(super) fn landed_meanwhile(
        &self,
        key: &Key,
        selectable: &HeaderMap,
        kept: Option<&Arc<Stored>>,
    ) -> Option<Passed> {
        let (inner, now) = (&*self.0, self.0.clock.now_mono());
        let variants = inner.cache.stored(key)?;
        let stored = variants.select(selectable).filter(|stored| kept.is_none_or(|kept| !Arc::ptr_eq(kept, stored)))?;
        let usable = reuse(&stored.terms, stored.age(now), &RequestDirectives::default(), &inner.policy).is_usable();
        let outcome = CacheOutcome::Hit { ttl: Some(stored.ttl(now)) };
        usable.then(|| Passed::Stored { stored: stored.clone(), outcome })
    }

    /// A fetch for one client.
    pub(super) async fn alone(
        &self,
        fetch: Fetch,
        why: Reason,
        interim: impl Fn(Interim) + Clone + Send + Sync + 'static,
    ) -> Result<Passed, PassError> {
        let kept = fetch.kept.clone();
        self.served(self.start(fetch, None, interim).await, kept, why)
    }
}
