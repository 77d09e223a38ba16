//! A refresh: five conditional requests, and what follows from their answers.
//!
//! Callers: [`super`].

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::live::Published;
use crate::snapshot::version::Certificate;

use super::super::copies::{Copy, CopyError};
use super::super::plan::Purpose;
use super::super::refresh::{Answers, Probe, Verdict, What};
use super::super::{crawl, pass};
use super::follow::Base;
use super::{Doing, Mirror, MirrorError, Newest, TRIES};
use crate::upstream::client::AskError;
use crate::upstream::status::OriginState;
use crate::upstream::window::Class;

impl Mirror {
    /// Asks whether anything has changed, and begins what follows if so.
    pub(super) async fn refresh(&mut self) -> Result<(), MirrorError> {
        self.refresh = false;
        let Some(published) = self.live.current() else { return Ok(()) };
        let started_ms = self.clock.now_wall().as_millis();
        if let Some(held) = self.held.clone()
            && self.refresh_held(held).await?
        {
            return Ok(());
        }
        let answers = self.ask(&published.dataset, published.meta.confirmed_ms).await?;
        let confirmed_ms = published.meta.confirmed_ms.min(self.clock.now_wall().as_millis());
        match answers.judge(&published.dataset, confirmed_ms, &self.volatile()) {
            Verdict::Unchanged => {
                self.confirm(&published, answers.until_ms()).await?;
                self.looked_at(OriginState::Unchanged);
            }
            // The CDN handed out copies that are older than what is known; nothing is confirmed by them.
            Verdict::Older => self.looked_at(OriginState::Unchanged),
            Verdict::Changed(What::ProbeSelection) if !answers.lacks(&published.dataset, &self.volatile()) => {
                // Nothing in the answer is news: it is the question that the origin understands otherwise.
                self.probe_otherwise();
                self.refresh = true;
            }
            Verdict::Changed(what) => {
                tracing::info!(what = what.as_str(), "the origin has changed");
                self.status.set_state(OriginState::Changed);
                let (left_out, volatile_values) = (&published.meta.left_out, &published.meta.volatile_values);
                let base = Base { dataset: &published.dataset, left_out, volatile_values };
                self.follow(base, &answers, started_ms).await?;
                self.looked();
            }
        }
        Ok(())
    }

    /// Judges what is held back anew; `true` when it is still what the origin has.
    async fn refresh_held(&mut self, mut held: Newest) -> Result<bool, MirrorError> {
        let answers = self.ask(&held.dataset, held.meta.confirmed_ms).await?;
        if answers.judge(&held.dataset, held.meta.confirmed_ms, &self.volatile()) != Verdict::Unchanged {
            self.held = None;
            self.status.set_held(None);
            return Ok(false);
        }
        held.meta.confirmed_ms = held.meta.confirmed_ms.max(answers.until_ms());
        if held.meta.certificate == Certificate::Full {
            held.meta.certificate = Certificate::Incremental;
        }
        if self.accept.is_some() {
            self.publish_held(held).await?;
        } else {
            self.held = Some(held);
        }
        self.looked_at(OriginState::Changed);
        Ok(true)
    }

    fn looked_at(&mut self, state: OriginState) {
        self.status.set_state(state);
        self.looked();
    }

    /// The five questions about a data set.
    pub(super) async fn ask(&mut self, dataset: &Dataset, confirmed_ms: i64) -> Result<Answers, MirrorError> {
        // One request first: nothing more is sent to an origin that does not answer it.
        let mut copies = self.crawler.fetch_all(vec![pass::page_path(1)], Class::Refresh).await?;
        let paths: Vec<String> = TaxonomyKind::ALL.iter().map(|kind| kind.path().to_owned()).collect();
        let probe = Probe::of(dataset, confirmed_ms, self.shape);
        let (taxonomies, probed) =
            tokio::join!(self.crawler.fetch_all(paths, Class::Refresh), self.probe(probe.as_ref()));
        let Some(first) = copies.pop() else {
            return Err(CopyError::from(AskError::nonsense(&pass::page_path(1), "no answer was kept")).into());
        };
        let taxonomies = crawl::in_order(taxonomies?)?;
        let probe = self.understand(dataset, confirmed_ms, probe, probed).await?;
        Ok(Answers { probe, first, taxonomies })
    }

    async fn probe(&self, probe: Option<&Probe>) -> Result<Option<Copy>, CopyError> {
        let Some(probe) = probe else { return Ok(None) };
        Ok(self.crawler.fetch_all(vec![probe.path.clone()], Class::Refresh).await?.pop())
    }

    /// A probe that the origin refuses is put otherwise; one that alone is not answered, again and again, is given up
    /// for this time, and every page is looked at instead.
    async fn understand(
        &mut self,
        dataset: &Dataset,
        confirmed_ms: i64,
        mut probe: Option<Probe>,
        mut probed: Result<Option<Copy>, CopyError>,
    ) -> Result<Option<(Probe, Copy)>, MirrorError> {
        /// What a server says of a question that it does not understand.
        const REFUSED: [u16; 3] = [400, 414, 422];
        while let Err(CopyError::Ask(AskError::Status { status, .. })) = &probed
            && REFUSED.contains(status)
            && probe.is_some()
        {
            self.probe_otherwise();
            probe = Probe::of(dataset, confirmed_ms, self.shape);
            probed = self.probe(probe.as_ref()).await;
        }
        match probed {
            Ok(copy) => {
                self.unprobed = 0;
                Ok(probe.zip(copy))
            }
            Err(CopyError::Ask(error)) if self.unprobed + 1 >= TRIES => {
                tracing::warn!(%error, "only the probe fails; every page is read instead");
                Ok(None)
            }
            Err(error) => {
                self.unprobed += 1;
                Err(error.into())
            }
        }
    }

    /// The same data, confirmed for a later instant.
    async fn confirm(&mut self, published: &Published, until_ms: i64) -> Result<(), MirrorError> {
        // What was held back is no longer what the origin has.
        self.held = None;
        self.accept = None;
        self.status.set_held(None);
        self.unsettled = 0;
        let mut meta = published.meta.clone();
        // A stamp from the future is from a clock that was set back since: it confirms nothing.
        let unconfirmed = published.is_unconfirmed(self.clock.now_wall());
        meta.confirmed_ms = if unconfirmed { until_ms } else { meta.confirmed_ms.max(until_ms) };
        meta.claimed_ms = None;
        if meta.certificate == Certificate::Full && until_ms > published.meta.confirmed_ms {
            meta.certificate = Certificate::Incremental;
        }
        if meta == published.meta {
            return Ok(());
        }
        self.switch(move |versions, seen| versions.renew(seen, meta)).await
    }

    /// What follows a change: the list is updated where the answers say enough, else every page is read.
    pub(super) async fn follow(
        &mut self,
        base: Base<'_>,
        answers: &Answers,
        started_ms: i64,
    ) -> Result<(), MirrorError> {
        match self.amend(base, answers).await? {
            Ok(candidate) => {
                let pause = self.until_proof()?;
                self.begin(Doing::Confirming(Box::new(candidate)), pause);
                Ok(())
            }
            Err(reason) => {
                tracing::debug!(reason, "every page is read");
                self.begin_reading(Purpose::Follow, Some(started_ms))
            }
        }
    }
}
