//! A refresh: at most five conditional requests, and what follows from their answers.
//!
//! Callers: [`super`].

use crate::snapshot::meta::Certificate;
use crate::snapshot::pointer::Snapshot;
use crate::upstream::status::OriginState;

use super::super::plan::Purpose;
use super::super::refresh::{Answers, Difference, Verdict};
use super::amending::{Amending, Base, NotAmended};
use super::shrink::Prepared;
use super::work::Doing;
use super::{Mirror, MirrorError};

impl Mirror {
    /// Asks whether anything has changed, and begins what follows if so.
    pub(super) async fn refresh(&mut self) -> Result<(), MirrorError> {
        self.schedule.refreshing();
        let Some(newest) = self.newest.get() else { return Ok(()) };
        // What follows counts from here.
        self.pause_for(0);
        let started_ms = self.clock.now_wall().as_millis();
        if let Some(held) = self.shrink.held()
            && self.refresh_held(held).await?
        {
            return Ok(());
        }
        let answers = self.questions.ask(&newest.dataset, newest.meta.confirmed_ms).await?;
        let confirmed_ms = newest.meta.confirmed_ms.min(self.clock.now_wall().as_millis());
        let first_page = self.contradictions.first_page(&newest.dataset.id);
        match answers.judge(&newest.dataset, confirmed_ms, &self.volatile(), first_page) {
            Verdict::Unchanged => {
                self.confirm(&newest, answers.until_ms()).await?;
                self.looked_at(OriginState::Unchanged);
            }
            // The CDN sent copies older than the known data; they confirm nothing.
            Verdict::Older => self.looked_at(OriginState::Unchanged),
            Verdict::Changed(Difference::ProbeSelection) if !answers.lacks(&newest.dataset, &self.volatile()) => {
                // The answer has no news: the origin understands the question differently.
                self.questions.probe_otherwise();
                self.schedule.ask_refresh();
            }
            Verdict::Changed(difference) => {
                tracing::info!(what = difference.as_str(), "the origin has changed");
                self.status.set_state(OriginState::Changed);
                let (left_out, volatile_values) = (&newest.meta.left_out, &newest.meta.volatile_values);
                let base = Base { dataset: &newest.dataset, left_out, volatile_values };
                self.follow(base, &answers, started_ms).await?;
                self.looked();
            }
        }
        Ok(())
    }

    /// Judges the held list again; `true` if the origin still has it.
    async fn refresh_held(&mut self, mut held: Prepared) -> Result<bool, MirrorError> {
        let dataset = &held.list.dataset;
        let answers = self.questions.ask(dataset, held.meta.confirmed_ms).await?;
        if answers.judge(dataset, held.meta.confirmed_ms, &self.volatile(), None) != Verdict::Unchanged {
            self.shrink.let_go();
            return Ok(false);
        }
        held.meta.confirmed_ms = held.meta.confirmed_ms.max(answers.until_ms());
        if held.meta.certificate == Certificate::Full {
            held.meta.certificate = Certificate::Incremental;
        }
        if self.shrink.is_accepted() {
            self.publish_held(held).await?;
        } else {
            self.shrink.hold(held);
        }
        self.looked_at(OriginState::Changed);
        Ok(true)
    }

    fn looked_at(&mut self, state: OriginState) {
        self.status.set_state(state);
        self.looked();
    }

    /// The same data, confirmed for a later instant.
    pub(super) async fn confirm(&mut self, newest: &Snapshot, until_ms: i64) -> Result<(), MirrorError> {
        // The origin no longer has the held list.
        self.shrink.forget();
        self.work.settled();
        self.schedule.outlay.ended();
        let mut meta = newest.meta.clone();
        // A stamp from the future is from before the clock was set back: it confirms nothing.
        let unconfirmed = newest.is_unconfirmed(self.clock.now_wall());
        meta.confirmed_ms = if unconfirmed { until_ms } else { meta.confirmed_ms.max(until_ms) };
        meta.claimed_ms = None;
        if meta.certificate == Certificate::Full && until_ms > newest.meta.confirmed_ms {
            meta.certificate = Certificate::Incremental;
        }
        if meta == newest.meta {
            return Ok(());
        }
        self.newest.switch(move |snapshots, seen| snapshots.renew(seen, meta)).await
    }

    /// Follows a change: amends the list if the answers suffice, else every page is read.
    pub(super) async fn follow(
        &mut self,
        base: Base<'_>,
        answers: &Answers,
        started_ms: i64,
    ) -> Result<(), MirrorError> {
        let newest = self.newest.get();
        if newest.as_ref().is_some_and(|newest| self.contradictions.lives_with(&newest.dataset.id)) {
            return self.begin_reading(Purpose::Follow, Some(started_ms), answers.probe.is_some());
        }
        let amending = Amending { crawler: &self.crawler, order: &mut self.order, terms: &self.terms, newest };
        match amending.amend(base, answers).await {
            Ok(candidate) => {
                let pause = self.until_proof()?;
                self.begin(Doing::Confirming(Box::new(candidate)), pause);
                Ok(())
            }
            Err(NotAmended::Doubtful(reason)) => {
                tracing::debug!(reason, "every page is read");
                self.begin_reading(Purpose::Follow, Some(started_ms), answers.probe.is_some())
            }
            Err(NotAmended::Failed(error)) => Err(error),
        }
    }
}
