//! A changed list that waits for its confirmation: published when probe, first page and taxonomies hold still.
//!
//! Callers: [`super`].

use std::sync::Arc;
use std::time::Duration;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::version::Certificate;

use super::super::pass::{self, Assembled};
use super::super::refresh::{Verdict, What};
use super::super::status::OriginState;
use super::follow::Base;
use super::{Mirror, MirrorError, Next, TRIES};

/// A list that is consistent in itself and awaits its confirmation.
pub(super) struct Candidate {
    pub(super) assembled: Assembled,
    pub(super) dataset: Arc<Dataset>,
    /// The orders by which changed listings were placed; empty: every page was read.
    pub(super) placed_by: Vec<String>,
    tries: u32,
}

impl Candidate {
    /// One of which every page was read.
    pub(super) const fn read(assembled: Assembled, dataset: Arc<Dataset>) -> Self {
        Self { assembled, dataset, placed_by: Vec::new(), tries: 0 }
    }

    /// One that was amended.
    pub(super) const fn amended(assembled: Assembled, dataset: Arc<Dataset>, placed_by: Vec<String>) -> Self {
        Self { assembled, dataset, placed_by, tries: 0 }
    }
}

impl Mirror {
    /// Asks once more: what holds still is published.
    pub(super) async fn confirm_candidate(&mut self, candidate: &mut Candidate) -> Result<Next, MirrorError> {
        self.refresh = false;
        let started_ms = self.clock.now_wall().as_millis();
        let answers = self.ask(&candidate.dataset, started_ms).await?;
        let verdict = answers.judge(&candidate.dataset, i64::MIN, &self.volatile());
        let misunderstood = verdict == Verdict::Changed(What::ProbeSelection);
        if misunderstood {
            self.shape = self.shape.next();
            tracing::warn!(shape = ?self.shape, "the origin answers the probe otherwise than expected; probing differently");
        }
        if misunderstood || matches!(verdict, Verdict::Unchanged | Verdict::Changed(What::Unprobed)) {
            candidate.tries += 1;
            let held_still = answers.held_still();
            if !held_still && candidate.tries < TRIES {
                // The CDN's copies are from different instants; younger ones come.
                return Ok(Next::Again(self.crawler.lag()));
            }
            let open = if held_still {
                Vec::new()
            } else {
                vec!["the origin's answers never spoke for one instant".to_owned()]
            };
            let certificate = if held_still { Certificate::Incremental } else { Certificate::BestEffort };
            self.publish_candidate(candidate, certificate, answers.until_ms(), open).await?;
            return Ok(Next::Done);
        }
        self.unsettled += 1;
        if self.unsettled >= TRIES {
            let open = vec!["the list changed during every pass of a refresh".to_owned()];
            let until_ms = self.steady_until()?;
            self.publish_candidate(candidate, Certificate::BestEffort, until_ms, open).await?;
            return Ok(Next::Done);
        }
        tracing::info!("the origin has changed again");
        let Assembled { left_out, volatile_values, .. } = &candidate.assembled;
        let base = Base { dataset: &candidate.dataset, left_out, volatile_values };
        self.follow(base, &answers, started_ms).await?;
        Ok(Next::Done)
    }

    async fn publish_candidate(
        &mut self,
        candidate: &Candidate,
        certificate: Certificate,
        until_ms: i64,
        open: Vec<String>,
    ) -> Result<(), MirrorError> {
        let assembled = Assembled {
            content: candidate.assembled.content.clone(),
            left_out: candidate.assembled.left_out.clone(),
            volatile_values: candidate.assembled.volatile_values.clone(),
        };
        self.publish(assembled, certificate, until_ms, open).await?;
        self.placed_by.clone_from(&candidate.placed_by);
        self.unsettled = 0;
        self.status.set_state(OriginState::Changed);
        Ok(())
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

    fn steady_until(&self) -> Result<i64, MirrorError> {
        let mut until_ms = self.clock.now_wall().as_millis();
        for path in steady() {
            if let Some((span, _)) = self.crawler.copies().span(&path)? {
                until_ms = until_ms.min(span.until_ms);
            }
        }
        Ok(until_ms)
    }
}

/// The first page and the taxonomies.
fn steady() -> impl Iterator<Item = String> {
    std::iter::once(pass::page_path(1)).chain(TaxonomyKind::ALL.into_iter().map(|kind| kind.path().to_owned()))
}
