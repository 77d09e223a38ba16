//! Whether a difference lasts: it is compared again once the mirror is confirmed for a later instant. One in what a filter
//! selects is told to the mirror, which asks the origin again what its filters mean.
//!
//! Nothing here draws samples or repairs. Callers: [`super::Auditor`].

use std::time::Duration;

use bytes::Bytes;

use crate::api::listing::ListingId;
use crate::api::page::Page;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::Monotonic;
use crate::snapshot::meta::{Agreement, agreement, relies_on_disproved};
use crate::snapshot::pointer::Snapshot;

use super::job::Outcome;
use super::sample::{Request, Sample, SampleKind};
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
        let patience = self.shared.copies.client.stamps().cache_ttl() + Duration::from_secs(60);
        // An old copy of the origin's CDN confirms nothing; then it asks again a little later.
        let again = (self.shared.copies.client.stamps().cache_ttl() / 4)
            .clamp(Duration::from_millis(1100), Duration::from_secs(30));
        let began = self.shared.clock.now_mono();
        let mut asked: Option<Monotonic> = None;
        loop {
            let is_later = |published: &Snapshot| published.meta.confirmed_ms >= at_ms + SURELY_LATER;
            if self.shared.newest.get().as_deref().is_some_and(is_later) {
                return true;
            }
            let (now, picture) = (self.shared.clock.now_mono(), self.shared.copies.client.status().picture());
            if picture.held.is_some() {
                return true;
            }
            if picture.health.failures() >= MOST_FAILURES || now.since(began) >= patience {
                return false;
            }
            if asked.is_none_or(|last| now.since(last) >= again) {
                asked = Some(now);
                self.shared.commands.refresh();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Auditor {
    /// Tells the mirror of a confirmed difference in what a filter selects.
    pub(super) fn doubt(&self, published: &Snapshot, sample: &Sample, kind: SampleKind, theirs: &Theirs) {
        let Request::List(query) = &sample.request else { return };
        let is_ours =
            matches!(kind, SampleKind::BeyondLast | SampleKind::UnknownSlug | SampleKind::Elsewhere | SampleKind::Odd);
        if is_ours || !query.is_filtered() || theirs.status != 200 || relies_on_disproved(&published.meta, query) {
            return;
        }
        let page = Page::parse(&Bytes::copy_from_slice(theirs.text.as_bytes()), &VolatileKeys::default());
        let differs = page.is_ok_and(|page| {
            let ids: Vec<ListingId> = page.items.iter().map(|item| item.id).collect();
            agreement(&published.dataset, query, page.total, &ids)
                .is_some_and(|agreement| agreement != Agreement::Whole)
        });
        if differs {
            tracing::warn!(request = %sample.request, "the origin's filters select other listings than the mirror's");
            self.shared.commands.doubt(query.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Request, SampleKind};
    use super::super::verdict::Links;
    use super::*;

    #[test]
    fn a_difference_is_told_as_one_of_get_because_get_has_found_it() {
        let request = Request::Odd("/api/listings.json?page=0".to_owned());
        let sample = Sample { kind: SampleKind::Odd, request, is_head: true };
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
}
