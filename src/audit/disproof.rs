//! Differences that say what a filter means: other ids or another total of a filtered list.
//!
//! One that is seen again `origin.cache_ttl` later, while the listings concerned are unchanged, disproves what the
//! query uses: by then every copy of the origin's CDN is gone. Callers: [`super::Auditor`].

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

use super::Auditor;
use super::sample::{Kind, Request, Sample};
use super::verdict::Theirs;

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
struct Disproof {
    query: ListQuery,
    claim: Claim,
    due: Monotonic,
    /// Complete passes over the list when it was seen.
    passes: u64,
    waited: u32,
}

/// The differences that wait to be seen again.
#[derive(Debug, Default)]
pub struct Disproofs(Mutex<Vec<Disproof>>);

impl Disproofs {
    /// How long until one is due; `None`: there is none.
    fn due_in(&self, now: Monotonic) -> Option<Duration> {
        self.0.lock().iter().map(|one| one.due.since(now)).min()
    }

    fn take_due(&self, now: Monotonic) -> Option<Disproof> {
        let mut waiting = self.0.lock();
        let at = waiting.iter().position(|one| one.due.since(now).is_zero())?;
        Some(waiting.remove(at))
    }

    fn put(&self, disproof: Disproof) {
        let mut waiting = self.0.lock();
        if waiting.len() < MOST && waiting.iter().all(|one| one.query != disproof.query) {
            waiting.push(disproof);
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
        let due = self.clock.now_mono().plus(self.cache_ttl);
        let passes = self.client.status().picture().passes;
        self.disproofs.put(Disproof { query: query.clone(), claim, due, passes, waited: 0 });
    }

    /// Waits until a difference is to be looked at again.
    pub(super) async fn disproof_is_due(&self) {
        match self.disproofs.due_in(self.clock.now_mono()) {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    }

    /// Looks at a difference again; tells the mirror what it disproves.
    pub(super) async fn look_again(&self) {
        let now = self.clock.now_mono();
        let Some(seen) = self.disproofs.take_due(now) else { return };
        // A change that no refresh shows looks the same until every page is read.
        if seen.waited < PATIENCE && self.client.status().picture().passes == seen.passes {
            let (due, waited) = (now.plus(self.cache_ttl), seen.waited + 1);
            return self.disproofs.put(Disproof { due, waited, ..seen });
        }
        let Disproof { query, claim, .. } = seen;
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
    use super::*;
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
