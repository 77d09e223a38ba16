//! Whether a difference lasts: it is compared again once the mirror is confirmed for a later instant. One in what a filter
//! selects is told to the examiner, which asks the origin again.
//!
//! Nothing here draws samples or repairs. Callers: [`super::Auditor`].

use bytes::Bytes;

use crate::api::page::Page;
use crate::api::taxonomy::VolatileKeys;
use crate::mirror::examiner::compare::{Agreement, agreement};
use crate::mirror::examiner::confirmed_since;
use crate::snapshot::pointer::Snapshot;

use super::job::Outcome;
use super::sample::{Request, Sample, SampleKind};
use super::verdict::Theirs;
use super::{Auditor, Look};

/// How often a difference is compared again while the origin keeps changing.
const ROUNDS: usize = 3;

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
            if !confirmed_since(&self.shared, at_ms).await {
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
}

impl Auditor {
    /// Tells the examiner of a confirmed difference in what a filter selects.
    pub(super) fn doubt(&self, published: &Snapshot, sample: &Sample, kind: SampleKind, theirs: &Theirs) {
        let Request::List(query) = &sample.request else { return };
        let is_ours =
            matches!(kind, SampleKind::BeyondLast | SampleKind::UnknownSlug | SampleKind::Elsewhere | SampleKind::Odd);
        if is_ours || !query.is_filtered() || theirs.status != 200 || self.shared.verdicts.doubts(query).is_some() {
            return;
        }
        let page = Page::parse(&Bytes::copy_from_slice(theirs.text.as_bytes()), &VolatileKeys::default());
        let differs = page.is_ok_and(|page| {
            let agreement = agreement(&published.dataset, query, page.total, &page.items);
            agreement.is_some_and(|agreement| matches!(agreement, Agreement::ButOrder | Agreement::None))
        });
        if differs {
            tracing::warn!(request = %sample.request, "the origin's filters select other listings than the mirror's");
            self.shared.verdicts.doubt(query, self.shared.clock.now_wall().as_millis());
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
