//! A refresh: five conditional requests, and what follows from their answers.
//!
//! Callers: [`super`].

use std::sync::Arc;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::live::Published;
use crate::snapshot::version::Certificate;

use super::super::client::AskError;
use super::super::copies::{Change, CopyError};
use super::super::plan::Purpose;
use super::super::refresh::{Answers, Probe, Verdict, What};
use super::super::status::OriginState;
use super::super::window::Class;
use super::super::{crawl, pass};
use super::follow::Base;
use super::{Doing, Mirror, MirrorError, Newest, blocking};

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
        let now_ms = self.clock.now_wall().as_millis();
        let confirmed_ms = published.meta.confirmed_ms.min(now_ms);
        match answers.judge(&published.dataset, confirmed_ms, &self.volatile()) {
            Verdict::Unchanged => {
                self.confirm(&published, answers.until_ms()).await?;
                self.looked_at(OriginState::Unchanged);
            }
            // The CDN handed out copies that are older than what is known; nothing is confirmed by them.
            Verdict::Older => self.looked_at(OriginState::Unchanged),
            Verdict::Changed(What::ProbeSelection) => {
                // Nothing in the answer is news: it is the question that the origin understands otherwise.
                self.shape = self.shape.next();
                tracing::warn!(shape = ?self.shape, "the origin answers the probe otherwise than expected; probing differently");
                self.refresh = true;
            }
            Verdict::Changed(what) => {
                tracing::info!(what = what.as_str(), "the origin has changed");
                self.looked_at(OriginState::Changed);
                let (left_out, volatile_values) = (&published.meta.left_out, &published.meta.volatile_values);
                let base = Base { dataset: &published.dataset, left_out, volatile_values };
                self.follow(base, &answers, started_ms).await?;
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
        if self.accept {
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
    pub(super) async fn ask(&self, dataset: &Dataset, confirmed_ms: i64) -> Result<Answers, MirrorError> {
        let probe = Probe::of(dataset, confirmed_ms, self.shape);
        // One request first: nothing more is sent to an origin that does not answer it.
        let mut copies = self.crawler.fetch_all(vec![pass::page_path(1)], Class::Refresh, None).await?;
        let mut paths: Vec<String> = TaxonomyKind::ALL.iter().map(|kind| kind.path().to_owned()).collect();
        paths.extend(probe.as_ref().map(|probe| probe.path.clone()));
        copies.extend(self.crawler.fetch_all(paths, Class::Refresh, None).await?);
        let mut take = |path: &str| {
            let at = copies.iter().position(|copy| copy.path == path);
            at.map(|at| copies.swap_remove(at)).ok_or_else(|| AskError::nonsense(path, "no answer was kept"))
        };
        let probe = match probe {
            Some(probe) => Some((probe.clone(), take(&probe.path).map_err(CopyError::from)?)),
            None => None,
        };
        let first = take(&pass::page_path(1)).map_err(CopyError::from)?;
        if probe.iter().any(|(_, copy)| copy.change == Change::New) {
            tracing::debug!("a new probe: its first answer is not conditional");
        }
        Ok(Answers { probe, first, taxonomies: crawl::in_order(copies)? })
    }

    /// The same data, confirmed for a later instant.
    async fn confirm(&mut self, published: &Published, until_ms: i64) -> Result<(), MirrorError> {
        // What was held back is no longer what the origin has.
        self.held = None;
        self.status.set_held(None);
        self.unsettled = 0;
        let mut meta = published.meta.clone();
        // A stamp from the future is from a clock that was set back since: it confirms nothing.
        let from_the_future = meta.confirmed_ms > self.clock.now_wall().as_millis();
        meta.confirmed_ms = if from_the_future { until_ms } else { meta.confirmed_ms.max(until_ms) };
        if meta.certificate == Certificate::Full && until_ms > published.meta.confirmed_ms {
            meta.certificate = Certificate::Incremental;
        }
        if meta == published.meta {
            return Ok(());
        }
        let (store, version, kept) = (self.store.clone(), published.version, meta.clone());
        blocking(move || store.update_meta(version, &kept)).await?;
        self.live.swap(Arc::clone(&published.dataset), meta, published.version);
        Ok(())
    }

    /// What follows a change: the list is amended where the answers say enough, else every page is read.
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
