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
use crate::store::VERDICTS;

use super::job::Outcome;
use super::sample::Request;
use super::verdict::Theirs;
use super::{Auditor, Look};

/// How often a difference is compared again while the origin keeps changing.
const ROUNDS: usize = 3;

/// A differing sample; perhaps the origin has changed since the last refresh.
pub(super) struct Suspect {
    sample: Request,
    theirs: Theirs,
}

impl Suspect {
    /// Of a sample whose answer differs.
    pub(super) fn of(sample: &Request, theirs: Theirs) -> Self {
        Self { sample: sample.clone(), theirs }
    }
}

impl Auditor {
    /// Compares again after a refresh, until the answers are equal or proved different.
    pub(super) async fn confirm(&self, mut suspects: Vec<Suspect>, settled: impl Fn()) -> Vec<(Request, Outcome)> {
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
    pub(super) fn doubt(&self, published: &Snapshot, sample: &Request, theirs: &Theirs) {
        let Request::List(query) = sample else { return };
        if !query.is_filtered() || theirs.status != 200 || self.shared.verdicts.doubts(query).is_some() {
            return;
        }
        let page = Page::parse(&Bytes::copy_from_slice(theirs.text.as_bytes()), &VolatileKeys::default());
        let differs = page.is_ok_and(|page| {
            let agreement = agreement(&published.dataset, query, page.total, &page.items);
            agreement.is_some_and(|agreement| matches!(agreement, Agreement::ButOrder | Agreement::None))
        });
        if differs {
            tracing::warn!(request = %sample, "the origin's filters select other listings than the mirror's");
            self.shared.verdicts.doubt(query, self.shared.clock.now_wall().as_millis());
            // A command ends before it is asked again.
            if let Err(error) = self.shared.store.put_json(VERDICTS, &self.shared.verdicts.table()) {
                tracing::warn!(%error, "what differs could not be stored");
            }
        }
    }
}
