//! Whether a difference lasts, and what it says of a filter.
//!
//! A difference is compared again once the mirror is confirmed for a later instant. Other ids or another total of a
//! filtered list, seen again `origin.cache_ttl` later while the listings concerned are unchanged, disprove what the query
//! uses: by then every copy of the origin's CDN is gone. Nothing here draws samples or repairs. Callers:
//! [`super::Auditor`].

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::page::Page;
use crate::api::query::ListQuery;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::Monotonic;
use crate::snapshot::coverage::{Agreement, agreement, disproved_for, used_by};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::meta::{Assumption, SnapshotMeta};
use crate::snapshot::pointer::Snapshot;

use super::job::Outcome;
use super::sample::{Kind, Request, Sample};
use super::verdict::Theirs;
use super::{Auditor, Look, MOST_FAILURES};

/// How often a difference is compared again while the origin keeps changing.
const ROUNDS: usize = 3;
/// How much later an instant of the origin must be to be surely later, in milliseconds: `Date` and `Age` count whole
/// seconds, so that each of two instants is known to a second only.
const SURELY_LATER: i64 = 2000;

/// A differing sample; perhaps the origin has changed since the last refresh.
pub(super) struct Suspect {
    sample: Sample,
    theirs: Theirs,
}

impl Suspect {
    /// Of a sample whose answer to GET differs. A sample of HEAD becomes one of GET: an answer to HEAD that differs is
    /// compared again with GET at once, so the difference is one of GET.
    pub(super) fn of(sample: &Sample, theirs: Theirs) -> Self {
        Self { sample: Sample { is_head: false, ..sample.clone() }, theirs }
    }
}

impl Auditor {
    /// Compares again after a refresh, until the answers are equal or proved different.
    pub(super) async fn confirm(&self, mut suspects: Vec<Suspect>, settled: impl Fn()) -> Vec<(Sample, Outcome)> {
        let mut outcomes = Vec::with_capacity(suspects.len());
        for _ in 0..ROUNDS {
            let at_ms = suspects.iter().map(|suspect| suspect.theirs.at_ms).max().unwrap_or(0);
            if !self.refreshed_since(at_ms).await {
                let reason = "the mirror could not be refreshed to compare again";
                let undecided = suspects.into_iter();
                outcomes.extend(undecided.map(|s| (s.sample, Outcome::Undecided(reason.to_owned()))));
                return outcomes;
            }
            let mut open = Vec::new();
            for Suspect { sample, theirs } in suspects {
                match self.try_look(&sample, Some(&theirs)).await {
                    Ok(Look::Suspect(theirs)) => open.push(Suspect { sample, theirs }),
                    Ok(Look::Settled(outcome)) => {
                        outcomes.push((sample, outcome));
                        settled();
                    }
                    // The difference was seen, even if it cannot be compared any more.
                    Err(reason) => {
                        outcomes.push((sample, Outcome::Undecided(reason)));
                        settled();
                    }
                }
            }
            if open.is_empty() {
                return outcomes;
            }
            suspects = open;
        }
        let reason = "the origin kept changing during the comparison";
        outcomes.extend(suspects.into_iter().map(|s| (s.sample, Outcome::Undecided(reason.to_owned()))));
        outcomes
    }

    /// Waits until the mirror is confirmed for a later instant, or holds a snapshot back; `false`: it took too long.
    async fn refreshed_since(&self, at_ms: i64) -> bool {
        let patience = self.client.stamps().cache_ttl() + Duration::from_secs(60);
        // An old copy of the origin's CDN confirms nothing; then it asks again a little later.
        let again = (self.client.stamps().cache_ttl() / 4).clamp(Duration::from_millis(1100), Duration::from_secs(30));
        let began = self.clock.now_mono();
        let mut asked: Option<Monotonic> = None;
        loop {
            if self.newest.load().as_ref().is_some_and(|published| published.meta.confirmed_ms >= at_ms + SURELY_LATER)
            {
                return true;
            }
            let (now, picture) = (self.clock.now_mono(), self.client.status().picture());
            if picture.held.is_some() {
                return true;
            }
            if picture.health.failures() >= MOST_FAILURES || now.since(began) >= patience {
                return false;
            }
            if asked.is_none_or(|last| now.since(last) >= again) {
                asked = Some(now);
                self.commands.refresh();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// How often a difference waits for a pass over the list, which may mend it.
const PATIENCE: u32 = 3;

/// The most differences that wait to be seen again.
const MOST: usize = 16;

/// What an origin says of a query, and the listings that this concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    total: u64,
    ids: Vec<ListingId>,
    agreement: Agreement,
    /// Every listing on either page, as it is known here.
    concerned: Vec<(ListingId, Option<ContentHash>)>,
}

impl Claim {
    /// `None`: the answer is no list, or the data set cannot answer the query.
    fn of(dataset: &Dataset, query: &ListQuery, text: &str) -> Option<Self> {
        let page = Page::parse(&Bytes::copy_from_slice(text.as_bytes()), &VolatileKeys::default()).ok()?;
        let ids: Vec<ListingId> = page.items.iter().map(|item| item.id).collect();
        let agreement = agreement(dataset, query, page.total, &ids)?;
        let ours = dataset.find(query).ok()?.items.into_iter().map(|item| item.id);
        let mut concerned: Vec<ListingId> = ids.iter().copied().chain(ours).collect();
        concerned.sort_unstable();
        concerned.dedup();
        let concerned = concerned.into_iter().map(|id| (id, dataset.summary(id).map(|known| known.hash))).collect();
        Some(Self { total: page.total, ids, agreement, concerned })
    }
}

/// What a difference disproves: what the query uses and nothing else bears out, or all of it.
fn disproves(meta: &SnapshotMeta, query: &ListQuery, agreement: Agreement) -> Vec<Assumption> {
    match agreement {
        Agreement::Whole => Vec::new(),
        Agreement::ButOrder => vec![Assumption::Order],
        Agreement::None => {
            let used: Vec<Assumption> = used_by(query).into_iter().filter(|one| *one != Assumption::Order).collect();
            let open: Vec<Assumption> = used.iter().copied().filter(|one| !meta.proved.contains(one)).collect();
            if open.is_empty() { used } else { open }
        }
    }
}

/// A difference that waits to be seen again.
#[derive(Debug)]
struct PendingClaim {
    query: ListQuery,
    claim: Claim,
    due: Monotonic,
    /// Complete passes over the list when it was seen.
    passes: u64,
    waited: u32,
}

/// The differences that wait to be seen again.
#[derive(Debug, Default)]
pub struct FilterClaims(Mutex<Vec<PendingClaim>>);

impl FilterClaims {
    /// How long until one is due; `None`: there is none.
    fn due_in(&self, now: Monotonic) -> Option<Duration> {
        self.0.lock().iter().map(|one| one.due.since(now)).min()
    }

    fn take_due(&self, now: Monotonic) -> Option<PendingClaim> {
        let mut waiting = self.0.lock();
        let at = waiting.iter().position(|one| one.due.since(now).is_zero())?;
        Some(waiting.remove(at))
    }

    fn put(&self, pending: PendingClaim) {
        let mut waiting = self.0.lock();
        if waiting.len() < MOST && waiting.iter().all(|one| one.query != pending.query) {
            waiting.push(pending);
        }
    }
}

impl Auditor {
    /// Remembers a confirmed difference, if it is one of what a filter selects.
    pub(super) fn remember(&self, published: &Snapshot, sample: &Sample, kind: Kind, theirs: &Theirs) {
        let Request::List(query) = &sample.request else { return };
        let is_ours = matches!(kind, Kind::BeyondLast | Kind::UnknownSlug | Kind::Elsewhere | Kind::Odd);
        if is_ours || !query.is_filtered() || theirs.status != 200 {
            return;
        }
        let claim = Claim::of(&published.dataset, query, &theirs.text);
        let Some(claim) = claim.filter(|claim| claim.agreement != Agreement::Whole) else { return };
        let due = self.clock.now_mono().plus(self.client.stamps().cache_ttl());
        let passes = self.client.status().picture().passes;
        self.claims.put(PendingClaim { query: query.clone(), claim, due, passes, waited: 0 });
    }

    /// Waits until a difference is to be looked at again.
    pub(super) async fn claim_is_due(&self) {
        match self.claims.due_in(self.clock.now_mono()) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    }

    /// Looks at a difference again; tells the mirror what it disproves.
    pub(super) async fn look_again(&self) {
        let now = self.clock.now_mono();
        let Some(seen) = self.claims.take_due(now) else { return };
        // A change that no refresh shows looks the same until every page is read.
        if seen.waited < PATIENCE && self.client.status().picture().passes == seen.passes {
            let (due, waited) = (now.plus(self.client.stamps().cache_ttl()), seen.waited + 1);
            return self.claims.put(PendingClaim { due, waited, ..seen });
        }
        let PendingClaim { query, claim, .. } = seen;
        let request = Request::List(query.clone());
        let theirs = match self.ask(&request).await {
            Ok(theirs) => theirs,
            // The next audit finds it again.
            Err(error) => return tracing::debug!(%request, error, "a difference could not be looked at again"),
        };
        let Some(published) = self.newest.get() else { return };
        if disproved_for(&published.meta, &query).is_some()
            || theirs.status != 200
            || Claim::of(&published.dataset, &query, &theirs.text).as_ref() != Some(&claim)
        {
            return;
        }
        let disproved = disproves(&published.meta, &query, claim.agreement);
        tracing::warn!(%request, "the origin's filters select other listings than the mirror's, again");
        self.commands.disprove(&disproved);
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::Links;
    use super::super::sample::{Kind, Request};
    use super::*;

    #[test]
    fn a_difference_is_told_as_one_of_get_because_get_has_found_it() {
        let request = Request::Odd("/api/listings.json?page=0".to_owned());
        let sample = Sample { kind: Kind::Odd, request, is_head: true };
        assert_eq!(sample.to_string(), "HEAD /api/listings.json?page=0");
        let theirs = Theirs {
            status: 200,
            is_head: false,
            media_type: None,
            is_private: false,
            links: Links::default(),
            allow: None,
            text: String::new(),
            at_ms: 0,
        };
        let suspect = Suspect::of(&sample, theirs);
        assert_eq!(suspect.sample.to_string(), "GET /api/listings.json?page=0");
        assert!(!suspect.sample.is_head, "it is compared again with GET");
    }

    use crate::api::query::Parameters;

    #[test]
    fn a_difference_disproves_what_the_query_uses_and_nothing_else_bears_out() {
        use Assumption::{And, CityHeeded, Midnight, Order, SinceHeeded, SportHeeded, Strict};
        let dates = Parameters::parse("modified_since=2025-06-01").unwrap().list;
        let terms = Parameters::parse("sport=golf&city=a").unwrap().list;
        let meta = |proved: &[Assumption]| SnapshotMeta { proved: proved.to_vec(), ..SnapshotMeta::full(1) };
        for (query, proved, agreement, expected) in [
            (&dates, &[][..], Agreement::None, &[SinceHeeded, Strict, Midnight][..]),
            (&dates, &[SinceHeeded, Strict], Agreement::None, &[Midnight]),
            (&dates, &[SinceHeeded, Strict, Midnight], Agreement::None, &[SinceHeeded, Strict, Midnight]),
            (&terms, &[SportHeeded, And], Agreement::None, &[CityHeeded]),
            (&terms, &[], Agreement::None, &[SportHeeded, CityHeeded, And]),
            (&terms, &[], Agreement::ButOrder, &[Order]),
            (&terms, &[], Agreement::Whole, &[]),
        ] {
            assert_eq!(disproves(&meta(proved), query, agreement), expected, "{query:?} {proved:?}");
        }
    }
}
