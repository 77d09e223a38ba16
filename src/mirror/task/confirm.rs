//! Confirms a changed list: it is published when probe, first page and taxonomies hold still.
//!
//! Callers: [`super`].

use std::time::Duration;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::meta::Certificate;
use crate::upstream::status::OriginState;

use super::super::pass;
use super::super::plan::Purpose;
use super::super::refresh::{Difference, Verdict};
use super::amending::Base;
use super::candidate::{Candidate, IndexedList};
use super::publish::Proof;
use super::work::Next;
use super::{Mirror, MirrorError, TRIES};

impl Mirror {
    /// Asks once more; publishes if nothing moved.
    pub(super) async fn confirm_candidate(&mut self, candidate: &mut Candidate) -> Result<Next, MirrorError> {
        let pause = self.pause_for(5);
        if !pause.is_zero() {
            return Ok(Next::Again(pause));
        }
        self.schedule.refreshing();
        let started_ms = self.clock.now_wall().as_millis();
        let dataset = candidate.indexed.list.dataset.clone();
        let answers = self.questions.ask(&dataset, started_ms).await?;
        match answers.judge(&dataset, i64::MIN, &self.volatile(), None) {
            Verdict::Unchanged if answers.held_still() => {
                let proof = Proof::of(self.earned(candidate), answers.until_ms());
                return self.publish_candidate(candidate, proof).await;
            }
            // The CDN's copies are from different instants; younger ones come.
            Verdict::Unchanged if candidate.tries + 1 < TRIES => {
                candidate.tries += 1;
                return Ok(Next::Again(self.crawler.lag()));
            }
            Verdict::Unchanged => {
                let proof = Proof::open("the origin's answers never agreed on one instant", answers.until_ms());
                return self.publish_candidate(candidate, proof).await;
            }
            Verdict::Changed(Difference::ProbeSelection) => {
                // Perhaps a copy of another instant; if not, the origin understands the question differently.
                candidate.tries += 1;
                if candidate.tries < TRIES {
                    return Ok(Next::Again(self.crawler.lag()));
                }
                candidate.tries = 0;
                self.questions.probe_otherwise();
                return Ok(Next::Again(Duration::ZERO));
            }
            Verdict::Changed(Difference::Unprobed) if self.work.unsettled() + 1 < TRIES => {
                // Without a probe only pages that are proven to be of one instant confirm a list.
                self.work.did_not_settle();
                self.begin_reading(Purpose::Follow, Some(started_ms), false)?;
                return Ok(Next::Done);
            }
            Verdict::Changed(Difference::Unprobed) => {
                let until_ms = candidate.until_ms.min(answers.until_ms());
                let proof = Proof::open("the origin does not answer the probe", until_ms);
                return self.publish_candidate(candidate, proof).await;
            }
            Verdict::Changed(_) | Verdict::Older => {}
        }
        if self.work.unsettled() + 1 >= TRIES {
            let proof = Proof::open("the list changed during every pass of a refresh", candidate.until_ms);
            return self.publish_candidate(candidate, proof).await;
        }
        let pause = self.pause_for(pass::pages(dataset.len() as u64) + 8);
        if !pause.is_zero() {
            // Asked again by then.
            return Ok(Next::Again(pause));
        }
        tracing::info!("the origin has changed again");
        let IndexedList { left_out, volatile_values, .. } = &candidate.indexed;
        let base = Base { dataset: &dataset, left_out, volatile_values };
        self.follow(base, &answers, started_ms).await?;
        self.work.did_not_settle();
        Ok(Next::Done)
    }

    /// The certificate of a list that held still: it builds on the newest snapshot, and proves no more than that does.
    fn earned(&self, candidate: &Candidate) -> Certificate {
        match self.newest.certificate() {
            Some(Certificate::BestEffort) if !candidate.placed_by.is_empty() => Certificate::BestEffort,
            Some(Certificate::Full | Certificate::Incremental) => Certificate::Incremental,
            Some(Certificate::BestEffort | Certificate::Provisional) | None => Certificate::Provisional,
        }
    }

    async fn publish_candidate(&mut self, candidate: &Candidate, proof: Proof) -> Result<Next, MirrorError> {
        self.publish(candidate.indexed.clone(), proof).await?;
        self.order.placed_by(candidate.placed_by.clone());
        self.work.settled();
        self.schedule.outlay.ended();
        self.status.set_state(OriginState::Changed);
        Ok(Next::Done)
    }

    /// How long until an answer can prove that the first page and the taxonomies hold still: the origin dates its
    /// answers in whole seconds.
    pub(super) fn until_proof(&self) -> Result<Duration, MirrorError> {
        let now_ms = self.clock.now_wall().as_millis();
        let mut since_ms = now_ms;
        for path in steady() {
            if let Some((span, _)) = self.crawler.copies().span(&path)? {
                since_ms = since_ms.max(span.since_ms);
            }
        }
        let pause = Duration::from_millis(u64::try_from(since_ms - now_ms).unwrap_or(0) + 50);
        Ok(pause.min(self.crawler.lag()))
    }
}

/// The first page and the taxonomies.
fn steady() -> impl Iterator<Item = String> {
    std::iter::once(pass::page_path(1)).chain(TaxonomyKind::ALL.into_iter().map(|kind| kind.path().to_owned()))
}
