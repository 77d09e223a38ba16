//! What is asked beside the refreshes: terms in doubt, and what filters mean.
//!
//! Callers: [`super`], after a step that went well.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;

use super::super::copies::CopyError;
use super::super::plan::is_settled;
use super::super::refresh::{Verdict, What};
use super::super::terms::Listed;
use super::super::{assumptions, terms};
use super::{Mirror, MirrorError};

/// How often in a row an origin that seems to disprove an assumption may change meanwhile, before it is believed.
const MOST_DOUBTS: u32 = 10;

impl Mirror {
    /// What is asked beside the refreshes, and never at their cost: terms in doubt, and what filters mean.
    pub(super) async fn learn(&mut self) -> Result<(), MirrorError> {
        self.learn_at = None;
        let later = self.clock.now_mono().plus(self.rhythm.ttl.mul_f64(0.4));
        match self.collect_terms().await {
            // A refresh is due, or something that was begun goes on; the rest comes after it.
            Ok(false) => self.learn_at = Some(self.clock.now_mono().plus(Duration::from_millis(100))),
            Ok(true) => self.learn_at = self.terms_at.take(),
            Err(error) => {
                tracing::warn!(%error, "some terms stay doubtful");
                self.learn_at = Some(later);
            }
        }
        if self.learn_at.is_none_or(|at| at > self.clock.now_mono().plus(Duration::from_secs(1))) {
            match self.question().await {
                // An edit came in between; the question is put again.
                Ok(false) => self.learn_at = Some(self.learn_at.map_or(later, |at| at.min(later))),
                Ok(true) => {}
                Err(error) => {
                    tracing::warn!(%error, "the meaning of filters could not be checked");
                    self.learn_at = Some(later);
                }
            }
        }
        Ok(())
    }

    /// Whether something that is more urgent than questions is due.
    fn is_wanted_elsewhere(&self) -> bool {
        let begun = self.work.as_ref().is_some_and(|work| work.not_before <= self.clock.now_mono());
        begun || self.refresh_in().is_zero()
    }

    /// Asks the origin about terms that are in doubt, each once for what is known of it, and serves what that proves;
    /// `false` when some are left because something else is due.
    async fn collect_terms(&mut self) -> Result<bool, MirrorError> {
        let Some(published) = self.live.current() else { return Ok(true) };
        if self.terms.0 != published.dataset.id.as_str() {
            self.terms = (published.dataset.id.to_string(), HashSet::new());
        }
        let mut dataset = published.dataset.clone();
        let _work = self.crawler.copies().client().budget().crawl_work();
        let (mut learned, mut older) = (false, Vec::new());
        let mut result = Ok(true);
        // What some terms hold may decide the last one that shares their name.
        while let Some((kind, slug, fingerprint)) = self.next_in_doubt(&dataset) {
            if self.is_wanted_elsewhere() {
                result = Ok(false);
                break;
            }
            let known_ms = published.meta.published_ms.min(self.clock.now_wall().as_millis());
            match terms::list(self.crawler.copies(), &published.dataset, known_ms, kind, &slug, fingerprint).await {
                Ok(Listed::Older) => {
                    // The CDN's copy is from before the list that it would explain; it is asked for again when it is gone.
                    self.terms.1.insert((kind, slug.clone()));
                    older.push((kind, slug));
                }
                Ok(listed) => {
                    if let Listed::Known(listed) = listed {
                        self.evidence.insert((kind, slug.clone()), listed);
                        self.learned += 1;
                        learned = true;
                        let open = |other: &&str| !self.terms.1.contains(&(kind, (*other).to_owned()));
                        if dataset.doubtful_namesakes(kind, &slug).filter(open).count() == 1 {
                            dataset = Arc::new(self.index(published.dataset.content.clone()).await?);
                        }
                    }
                    self.terms.1.insert((kind, slug));
                }
                Err(CopyError::Ask(error)) if error.is_nonsense() => {
                    tracing::warn!(slug, %error, "a term stays doubtful");
                    self.terms.1.insert((kind, slug));
                }
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            }
        }
        for term in older {
            self.terms.1.remove(&term);
            self.terms_at = Some(self.clock.now_mono().plus(self.crawler.lag()));
        }
        if learned {
            let dataset = Arc::new(self.index(published.dataset.content.clone()).await?);
            let evidence = self.evidence.clone();
            self.switch(move |versions, seen| versions.reindexed(seen, &dataset, &evidence)).await?;
        }
        result
    }

    /// The next term in doubt that was not asked for yet.
    fn next_in_doubt(&self, dataset: &Dataset) -> Option<(TaxonomyKind, String, [u8; 16])> {
        let mut open = dataset.doubtful().iter();
        open.find(|(kind, slug, _)| !self.terms.1.contains(&(*kind, slug.clone()))).cloned()
    }

    /// Asks the origin, once, whether filters mean what we assume; `false` when something came in between.
    async fn question(&mut self) -> Result<bool, MirrorError> {
        let Some(published) = self.live.current() else { return Ok(true) };
        if published.meta.disproved.is_some() || !is_settled(published.meta.certificate) {
            return Ok(true);
        }
        let disproved = assumptions::ask(self.crawler.copies(), &published.dataset).await?;
        if !disproved.is_empty() {
            // An edit meanwhile looks the same: only an origin that has not changed disproves.
            let answers = self.ask(&published.dataset, published.meta.confirmed_ms).await?;
            // One that answers no probe is as unchanged as can be seen; and one that never holds still is believed.
            let verdict = answers.judge(&published.dataset, i64::MIN, &self.volatile());
            let holds_still = matches!(verdict, Verdict::Unchanged | Verdict::Changed(What::Unprobed));
            self.doubted += 1;
            if !holds_still && self.doubted < MOST_DOUBTS {
                self.refresh = true;
                return Ok(false);
            }
        }
        let mut meta = published.meta.clone();
        meta.disproved = Some(disproved);
        self.doubted = 0;
        self.switch(move |versions, seen| versions.renew(seen, meta)).await?;
        Ok(true)
    }
}
