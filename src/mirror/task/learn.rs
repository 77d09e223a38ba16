//! Requests about terms in doubt, and when those about the meaning of filters follow ([`super::meaning`]). They never
//! delay a refresh.
//!
//! Callers: [`super`], after a step that went well.

use std::collections::HashSet;
use std::time::Duration;

use crate::api::taxonomy::TaxonomyKind;
use crate::clock::Monotonic;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;

use super::super::copies::CopyError;
use super::super::terms;
use super::super::terms::TermAnswer;
use super::meaning::Asking;
use super::{Mirror, MirrorError};

/// When to ask about terms and filters, and which were asked.
pub(super) struct Learning {
    /// When questions may be asked; `None`: none is left.
    due: Option<Monotonic>,
    /// A snapshot, and the terms of it that were asked.
    asked: Option<(SnapshotId, HashSet<(TaxonomyKind, String)>)>,
    /// The questions about the meaning of filters.
    pub(super) asking: Asking,
}

/// Result of asking for terms in doubt.
enum Collected {
    /// Some are left, because something else is due.
    Some,
    /// None is left; `again` is when to ask for those whose lists were too old.
    All { again: Option<Monotonic> },
}

impl Learning {
    pub(super) fn new(now: Monotonic) -> Self {
        Self { due: Some(now), asked: None, asking: Asking::default() }
    }

    /// There may be new questions.
    pub(super) const fn begin(&mut self, now: Monotonic) {
        self.due = Some(now);
    }

    /// How long until something is asked; `None`: nothing is left.
    pub(super) fn due_in(&self, now: Monotonic) -> Option<Duration> {
        self.due.map(|due| due.since(now))
    }

    /// Remembers that a term was asked for.
    fn asked(&mut self, kind: TaxonomyKind, slug: &str) {
        if let Some((_, asked)) = &mut self.asked {
            asked.insert((kind, slug.to_owned()));
        }
    }

    fn was_asked(&self, kind: TaxonomyKind, slug: &str) -> bool {
        self.asked.as_ref().is_some_and(|(_, asked)| asked.contains(&(kind, slug.to_owned())))
    }

    /// The next term in doubt that was not asked for yet.
    fn next_in_doubt(&self, dataset: &Dataset) -> Option<(TaxonomyKind, String, [u8; 16])> {
        dataset.doubtful().iter().find(|(kind, slug, _)| !self.was_asked(*kind, slug)).cloned()
    }
}

impl Mirror {
    /// Asks the open questions.
    pub(super) async fn learn(&mut self) -> Result<(), MirrorError> {
        self.learning.due = None;
        let later = self.clock.now_mono().plus(self.schedule.pause());
        self.learning.due = match self.collect_terms().await {
            // A refresh or the active work is due; the rest follows.
            Ok(Collected::Some) => Some(self.clock.now_mono().plus(Duration::from_millis(100))),
            Ok(Collected::All { again }) => again,
            Err(error) => {
                tracing::warn!(%error, "some terms stay in doubt");
                Some(later)
            }
        };
        if self.learning.due_in(self.clock.now_mono()).is_none_or(|wait| wait > Duration::from_secs(1)) {
            let again = match self.ask_meaning().await {
                Ok(again) => again.map(|wait| self.clock.now_mono().plus(wait)),
                Err(error) => {
                    tracing::warn!(%error, "the meaning of filters could not be checked");
                    Some(later)
                }
            };
            self.learning.due = [self.learning.due, again].into_iter().flatten().min();
        }
        Ok(())
    }

    /// Whether something more urgent than questions is due.
    pub(super) fn is_wanted_elsewhere(&self) -> bool {
        let now = self.clock.now_mono();
        let begun = self.work.begun(now);
        begun.is_some_and(|(_, wait)| wait.is_zero()) || self.schedule.refresh_in(now, self.age()).is_zero()
    }

    /// Asks the origin about terms in doubt, each once per state of knowledge, and serves what that proves.
    async fn collect_terms(&mut self) -> Result<Collected, MirrorError> {
        let Some(newest) = self.newest.get() else { return Ok(Collected::All { again: None }) };
        if self.learning.asked.as_ref().is_none_or(|(id, _)| *id != newest.dataset.id) {
            self.learning.asked = Some((newest.dataset.id.clone(), HashSet::new()));
        }
        let mut dataset = newest.dataset.clone();
        let _work = self.crawler.client().budget().crawl_work();
        let (mut learned, mut older) = (false, Vec::new());
        let mut result = Ok(Collected::All { again: None });
        // The listings of some terms may decide the last one with their name.
        while let Some((kind, slug, fingerprint)) = self.learning.next_in_doubt(&dataset) {
            if self.is_wanted_elsewhere() {
                result = Ok(Collected::Some);
                break;
            }
            let known_ms = newest.meta.published_ms.min(self.clock.now_wall().as_millis());
            match terms::ask(self.crawler.copies(), &newest.dataset, known_ms, kind, &slug, fingerprint).await {
                // The CDN's copy is older than the list that it should explain; ask again when it is gone.
                Ok(TermAnswer::Older) => older.push((kind, slug.clone())),
                Ok(TermAnswer::Moved) => {}
                Ok(TermAnswer::Listed(listed)) => {
                    self.terms.insert(kind, &slug, listed);
                    learned = true;
                    let open = |other: &&str| !self.learning.was_asked(kind, other);
                    if dataset.doubtful_namesakes(kind, &slug).filter(open).count() == 1 {
                        dataset = self.terms.index(newest.dataset.content.clone(), Some(newest.clone())).await?.dataset;
                    }
                }
                Err(CopyError::Ask(error)) if error.is_nonsense() => {
                    tracing::warn!(slug, %error, "a term stays in doubt");
                }
                Err(error) => {
                    result = Err(error.into());
                    break;
                }
            }
            self.learning.asked(kind, &slug);
        }
        if !older.is_empty() {
            if let Ok(Collected::All { again }) = &mut result {
                *again = Some(self.clock.now_mono().plus(self.crawler.lag()));
            }
            if let Some((_, asked)) = &mut self.learning.asked {
                asked.retain(|term| !older.contains(term));
            }
        }
        if learned {
            let dataset = self.terms.index(newest.dataset.content.clone(), Some(newest)).await?.dataset;
            let evidence = self.terms.known().clone();
            self.newest.switch(move |snapshots, seen| snapshots.reindexed(seen, &dataset, &evidence)).await?;
        }
        result
    }
}
