//! A changed list that waits for its confirmation: published when probe, first page and taxonomies hold still.
//!
//! Callers: [`super`].

use std::time::Duration;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::version::Certificate;

use super::super::pass;
use super::super::plan::Purpose;
use super::super::refresh::{Verdict, What};
use super::follow::Base;
use super::{Listed, Mirror, MirrorError, Next, TRIES};
use crate::upstream::status::OriginState;

/// A list that is consistent in itself and awaits its confirmation.
pub(super) struct Candidate {
    pub(super) listed: Listed,
    /// The orders by which changed listings were placed; empty: every page was read.
    pub(super) placed_by: Vec<String>,
    /// The latest instant for which all that it was made of is confirmed.
    until_ms: i64,
    tries: u32,
}

impl Candidate {
    /// One of which every page was read.
    pub(super) const fn read(listed: Listed, until_ms: i64) -> Self {
        Self { listed, placed_by: Vec::new(), until_ms, tries: 0 }
    }

    /// One that was amended.
    pub(super) const fn amended(listed: Listed, placed_by: Vec<String>, until_ms: i64) -> Self {
        Self { listed, placed_by, until_ms, tries: 0 }
    }
}

impl Mirror {
    /// Asks once more: what holds still is published.
    pub(super) async fn confirm_candidate(&mut self, candidate: &mut Candidate) -> Result<Next, MirrorError> {
        self.refresh = false;
        let started_ms = self.clock.now_wall().as_millis();
        let answers = self.ask(&candidate.listed.dataset, started_ms).await?;
        match answers.judge(&candidate.listed.dataset, i64::MIN, &self.volatile()) {
            Verdict::Unchanged if answers.held_still() => {
                let until_ms = answers.until_ms();
                self.publish_candidate(candidate, self.earned(candidate), until_ms, Vec::new()).await?;
                return Ok(Next::Done);
            }
            // The CDN's copies are from different instants; younger ones come.
            Verdict::Unchanged if candidate.tries + 1 < TRIES => {
                candidate.tries += 1;
                return Ok(Next::Again(self.crawler.lag()));
            }
            Verdict::Unchanged => {
                let open = vec!["the origin's answers never agreed on one instant".to_owned()];
                self.publish_candidate(candidate, Certificate::BestEffort, answers.until_ms(), open).await?;
                return Ok(Next::Done);
            }
            Verdict::Changed(What::ProbeSelection) => {
                // Perhaps a copy of another instant; if not, it is the question that is understood otherwise.
                candidate.tries += 1;
                if candidate.tries < TRIES {
                    return Ok(Next::Again(self.crawler.lag()));
                }
                candidate.tries = 0;
                self.probe_otherwise();
                return Ok(Next::Again(Duration::ZERO));
            }
            Verdict::Changed(What::Unprobed) if self.unsettled + 1 < TRIES => {
                // Without a probe only pages that are proven to be of one instant confirm a list.
                self.unsettled += 1;
                self.begin_reading(Purpose::Follow, Some(started_ms))?;
                return Ok(Next::Done);
            }
            Verdict::Changed(What::Unprobed) => {
                let open = vec!["the origin does not answer the probe".to_owned()];
                let until_ms = candidate.until_ms.min(answers.until_ms());
                self.publish_candidate(candidate, Certificate::BestEffort, until_ms, open).await?;
                return Ok(Next::Done);
            }
            Verdict::Changed(_) | Verdict::Older => {}
        }
        if self.unsettled + 1 >= TRIES {
            let open = vec!["the list changed during every pass of a refresh".to_owned()];
            self.publish_candidate(candidate, Certificate::BestEffort, candidate.until_ms, open).await?;
            return Ok(Next::Done);
        }
        tracing::info!("the origin has changed again");
        let Listed { dataset, left_out, volatile_values, .. } = &candidate.listed;
        let base = Base { dataset, left_out, volatile_values };
        self.follow(base, &answers, started_ms).await?;
        self.unsettled += 1;
        Ok(Next::Done)
    }

    /// What a list that held still is worth: it builds on what is served, and proves no more of the rest than that.
    fn earned(&self, candidate: &Candidate) -> Certificate {
        let served = self.live.load().as_ref().map(|live| live.meta.certificate);
        match served {
            Some(Certificate::BestEffort) if !candidate.placed_by.is_empty() => Certificate::BestEffort,
            Some(Certificate::Full | Certificate::Incremental) => Certificate::Incremental,
            Some(Certificate::BestEffort | Certificate::Provisional) | None => Certificate::Provisional,
        }
    }

    /// Falls back to a probe that the origin may understand.
    pub(super) fn probe_otherwise(&mut self) {
        self.shape = self.shape.next();
        tracing::warn!(
            shape = self.shape.as_str(),
            "the origin answers the probe differently than expected; probing in another way"
        );
    }

    async fn publish_candidate(
        &mut self,
        candidate: &Candidate,
        certificate: Certificate,
        until_ms: i64,
        open: Vec<String>,
    ) -> Result<(), MirrorError> {
        self.publish(candidate.listed.clone(), certificate, until_ms, open).await?;
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
}

/// The first page and the taxonomies.
fn steady() -> impl Iterator<Item = String> {
    std::iter::once(pass::page_path(1)).chain(TaxonomyKind::ALL.into_iter().map(|kind| kind.path().to_owned()))
}
