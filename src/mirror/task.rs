//! Task of the mirror: does what [`schedule`] decides, and publishes the result.
//!
//! One task decides what is published; details and sweep have workers of their own. No step takes long, so that a
//! refresh is never late: every page is read batch by batch, a step requests each resource once, and work that waits
//! for the origin's CDN or after a failure waits in the [`Schedule`], not in a sleep. A step returns what follows, and
//! [`Mirror::apply`] writes it down. Callers: [`crate::server`] runs it.
//!
//! # The life of a refresh
//!
//! A first crawl (`reading`) fetches every page and taxonomy, batch by batch. If [`pass`] finds that they are one
//! consistent list, it is published. Closing rounds then revalidate the pages and taxonomies that were not confirmed
//! since the latest change, until there is one instant at which every copy was current. Between rounds the origin's CDN
//! has time to drop old copies, and refreshes continue.
//!
//! A refresh (`refresh`) sends at most five conditional requests. If the answers differ from the newest
//! snapshot, `amend` places the changed listings by the rule that explains the origin's order
//! ([`order`](super::order)), reads the pages that hold them, and finds deleted listings by bisection. If a page
//! disagrees or doubt remains, every page is read again. Whether the list was amended or read again, the conditional
//! requests are then sent once more, and the list is published if they show no further change.
//!
//! Pages that contradict each other although they do not change (`inconsistent_pages`) are lived with: what
//! they lack is looked for where the cuts lie elsewhere, and the best list is published. The envelope keeps the total
//! that the origin states if that is not the number of listings.
//!
//! | certificate | what it says |
//! |---|---|
//! | `provisional` | every page was read and they fit together, but perhaps not at one instant |
//! | `full` | there is one instant at which the origin had exactly this data |
//! | `incremental` | a refresh of a full or incremental snapshot. While it ran, the first page, the taxonomies and the answer to the probe did not change; the rest of the list is derived from them and from the snapshot before |
//! | `best-effort` | three tries gave no proof, or the pages contradict each other; `/status` says what is not proven |
//!
//! **A refresh misses two things,** if they are not on the first page and the counts of the terms stay the same: a
//! change that leaves `modified` as it was; and a deletion together with the insertion of a listing with an old
//! `modified`. [`sweep`](super::sweep) reads every page from time to time and finds them. A change of a detail that does not
//! change its summary is found when the detail is revalidated. Nothing helps against an origin that answers 304 to
//! everything.

mod amend;
mod inconsistent_pages;
mod judge;
mod publish;
mod reading;
mod refresh;
mod schedule;
mod terms;

use std::sync::Arc;
use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::clock::Clock;
use crate::config::Settings;
use crate::data::snapshot::dataset::DatasetError;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::{Certificate, SnapshotMeta};
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshots::{Snapshots, SnapshotsError};
use crate::data::store::{Store, StoreError};
use crate::origin::client::AskError;
use crate::origin::status::{CopiesWait, OriginState, OriginStatus, Progress};
use crate::protocol::excerpt::Excerpt;
use crate::tasks;

use super::commands::Commands;
use super::copies::{Copies, CopyError};
use super::{MirrorContext, pass};

use inconsistent_pages::Contradictions;
use publish::{ShrinkGuard, changed, has_missed, lists_of};
use refresh::Questions;
use schedule::{DisagreementCost, Doing, Failure, MirrorStep, Next, Schedule, ScheduleFacts, TaskPurpose, Work};
use terms::TermEvidence;

/// Attempts at work that does not settle.
const TRIES: u32 = 3;

/// The longest sleep: the wall clock may jump meanwhile, or the machine be suspended.
const TICK: Duration = Duration::from_secs(5);

const DAY_MS: i64 = 86_400_000;

#[derive(Debug, thiserror::Error)]
enum MirrorError {
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error("the origin's data cannot be used: {0}")]
    Dataset(#[from] DatasetError),
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    #[error("another snapshot was imported meanwhile")]
    Moved,
}

impl From<SnapshotsError> for MirrorError {
    fn from(error: SnapshotsError) -> Self {
        match error {
            SnapshotsError::Store(error) => Self::Store(error),
            SnapshotsError::Dataset(error) => Self::Dataset(error),
            // A publication returns no other error.
            _ => Self::Moved,
        }
    }
}

impl MirrorError {
    const fn state(&self) -> OriginState {
        match self {
            Self::Copy(CopyError::Ask(AskError::Status { .. })) => OriginState::CouldNotBeAsked,
            Self::Copy(CopyError::Ask(error)) if error.is_nonsense() => OriginState::Nonsense,
            Self::Dataset(_) => OriginState::Nonsense,
            Self::Copy(_) | Self::Store(_) | Self::Moved => OriginState::CouldNotBeAsked,
        }
    }

    /// Whether the origin wants the next request at once.
    fn wants_no_pause(&self) -> bool {
        matches!(self, Self::Copy(CopyError::Ask(error)) if error.wants_no_pause())
    }

    const fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Copy(CopyError::Store(_)))
    }
}

/// The mirror. Its schedule is written in this file only.
pub struct Mirror {
    copies: Copies,
    questions: Questions,
    snapshots: Snapshots,
    /// The epoch of the last change to the newest snapshot that this task knows: a later one is an import's.
    seen: u64,
    shrink: ShrinkGuard,
    contradictions: Contradictions,
    terms: TermEvidence,
    schedule: Schedule,
    /// What was sent since the origin's answers began to disagree.
    outlay: DisagreementCost,
    /// The answers that the work in hand follows.
    followed: Vec<ContentHash>,
    commands: Commands,
    settings: Settings,
    clock: Clock,
}

impl Mirror {
    /// A mirror that publishes into `snapshots`; `evidence` is from the store.
    pub fn new(shared: MirrorContext, snapshots: Snapshots, evidence: Evidence) -> Self {
        let MirrorContext { copies, store, commands, settings, clock, verdicts, .. } = shared;
        let status = copies.client.status().clone();
        Self {
            questions: Questions::new(copies.clone(), verdicts),
            contradictions: Contradictions::new(&store),
            shrink: ShrinkGuard::new(store, status, settings.load().mirror.max_shrink),
            seen: snapshots.newest().epoch(),
            terms: TermEvidence::new(evidence),
            schedule: Schedule::new(clock.now_mono()),
            outlay: DisagreementCost::default(),
            followed: Vec::new(),
            snapshots,
            copies,
            commands,
            settings,
            clock,
        }
    }

    pub async fn run(mut self) {
        loop {
            self.hear().await;
            let (now, facts) = (self.clock.now_mono(), self.facts());
            let due = now.plus(self.schedule.refresh_in(now, &facts));
            let wall = self.clock.now_wall();
            let copies = self.schedule.copies_wait(now).map(|wait| {
                let is_expected = self.is_expected(wait, &facts);
                CopiesWait { until: wall.plus(wait), is_expected }
            });
            let flips = self.schedule.flips.lasts(now, facts.ttl);
            let flips_wait = (flips && self.schedule.flips.failures > 1).then(|| self.schedule.flips.wait(now));
            self.status().update(|picture| {
                (picture.refresh_due, picture.copies) = (Some(due), copies);
                picture.flips = flips;
                // Once the wait is over, its end stays until a refresh has looked.
                if flips_wait != Some(Duration::ZERO) {
                    picture.flips_until = flips_wait.map(|wait| wall.plus(wait));
                }
            });
            match self.schedule.next(now, &facts) {
                MirrorStep::Wait(wait) => {
                    let _ = tokio::time::timeout(wait.min(TICK), self.commands.wait()).await;
                }
                MirrorStep::Learn => self.schedule.learn_at = Box::pin(self.learn()).await,
                step => {
                    let before = (self.newest(), self.seen, self.questions.turn);
                    let mut work = if step == MirrorStep::Begin { None } else { self.schedule.take() };
                    let result = Box::pin(self.perform(step, work.as_mut())).await;
                    self.apply(step, before, work, result).await;
                }
            }
        }
    }

    /// Whether a wait for old copies belongs to a first copy, and is no longer than that takes.
    fn is_expected(&self, wait: Duration, facts: &ScheduleFacts) -> bool {
        let now = self.clock.now_mono();
        // Each round waits for the copies that the last one may have read.
        let rounds = TRIES + 1;
        !facts.certificate.is_some_and(Certificate::is_settled)
            && self.status().picture().passes == 0
            && self.schedule.tried.is_some_and(|tried| now.since(tried) + wait <= self.copies.apart() * rounds)
    }

    /// Takes in commands and imports.
    async fn hear(&mut self) {
        let asked = self.commands.take();
        let epoch = self.snapshots.newest().epoch();
        if std::mem::replace(&mut self.seen, epoch) != epoch {
            // All work was about another snapshot.
            self.shrink.forget();
            self.terms.read_back(self.snapshots.store());
            if let Some(newest) = self.newest() {
                self.copies.set_volatile(newest.meta.volatile.clone());
            }
            self.schedule.begin_anew(self.clock.now_mono());
        }
        let is_accepted = asked.accept && self.shrink.accept();
        self.schedule.is_refresh_asked |= asked.refresh || is_accepted;
        self.schedule.is_pass_asked |= asked.pass;
        if let (Some(form), Some(newest)) = (asked.form, self.newest())
            && let Err(error) = self.renew(&newest, SnapshotMeta { form, ..newest.meta.clone() }).await
        {
            tracing::warn!(%error, "the form of the origin's lists could not be stored");
        }
    }

    fn facts(&self) -> ScheduleFacts {
        let (settings, newest) = (self.settings.load(), self.newest());
        // No better certificate is to be had while the origin's pages contradict each other.
        let at_least = if self.lives_with_contradiction() { settings.mirror.sweep_every } else { Duration::ZERO };
        let age = newest.as_ref().map_or(0, |newest| self.clock.now().by_origin.millis_since(newest.confirmed()));
        ScheduleFacts {
            certificate: newest.map(|newest| newest.meta.certificate),
            age: Duration::from_millis(u64::try_from(age).unwrap_or(0)),
            ttl: settings.ttl,
            patience: settings.ttl.max(self.copies.cache_ttl()).max(at_least),
        }
    }

    /// The newest snapshot, whether clients get it or it waits behind a rollback; `None` before the first publication.
    fn newest(&self) -> Option<Arc<Snapshot>> {
        self.snapshots.newest().get()
    }

    /// How sure the newest snapshot is; `None` before the first publication.
    fn certificate(&self) -> Option<Certificate> {
        self.newest().map(|newest| newest.meta.certificate)
    }

    fn store(&self) -> &Arc<Store> {
        self.snapshots.store()
    }

    /// Shown in `/status`.
    fn status(&self) -> &OriginStatus {
        self.copies.client.status()
    }

    /// Publishes or renews, unless an import came in between.
    async fn switch(
        &mut self,
        to: impl FnOnce(Snapshots, u64) -> Result<u64, SnapshotsError> + Send + 'static,
    ) -> Result<(), MirrorError> {
        let (snapshots, seen) = (self.snapshots.clone(), self.seen);
        self.seen = blocking(move || Ok(to(snapshots, seen))).await??;
        Ok(())
    }

    /// Replaces what is known of the newest snapshot, if it differs.
    async fn renew(&mut self, newest: &Snapshot, meta: SnapshotMeta) -> Result<(), MirrorError> {
        if meta == newest.meta {
            return Ok(());
        }
        self.switch(move |snapshots, seen| snapshots.renew(seen, meta)).await
    }

    /// How long a step with so many requests has to wait, because the origin's answers disagree: until old copies of its
    /// CDN have expired, only so many are sent.
    fn pause_for(&mut self, requests: u64) -> Duration {
        let Some(newest) = self.newest() else { return Duration::ZERO };
        let most = 2 * pass::pages_of(&newest.dataset) + 20;
        self.outlay.wait(self.clock.now_mono(), self.copies.sent(), requests, most, self.copies.apart())
    }

    /// Takes a step. `work` is the active work.
    async fn perform(&mut self, step: MirrorStep, work: Option<&mut Work>) -> Result<Next, MirrorError> {
        match (step, work) {
            (MirrorStep::Continue, Some(Work { doing, unsettled, .. })) => match doing {
                Doing::Reading(reading) => self.read_on(reading).await,
                Doing::Confirming(candidate) => Box::pin(self.confirm_candidate(candidate, unsettled)).await,
                Doing::Searching(search) => self.search(search).await,
            },
            (MirrorStep::Refresh, work) => Box::pin(self.refresh(work)).await,
            _ => Ok(self.certify()),
        }
    }

    /// Records how a step ended that took the active work, and before which these were the newest snapshot, its epoch and
    /// the number of refreshes.
    async fn apply(
        &mut self,
        step: MirrorStep,
        (before, seen, turn): (Option<Arc<Snapshot>>, u64, u64),
        work: Option<Work>,
        result: Result<Next, MirrorError>,
    ) {
        let (now, ttl, newest) = (self.clock.now_mono(), self.settings.load().ttl, self.newest());
        self.schedule.is_refresh_asked &= self.questions.turn == turn;
        let mut has_looked = false;
        if let Some(newest) = newest.as_ref().filter(|_| self.seen != seen)
            && before.as_ref().is_none_or(|before| before.dataset.id != newest.dataset.id)
        {
            let (before, after, cache_ttl) = (before.clone(), newest.clone(), self.copies.cache_ttl());
            let verdicts = self.questions.verdicts.clone();
            let changed = move || {
                let changed = before.as_ref().map(|before| changed(&before.dataset, &after.dataset));
                let both = before.zip(changed.as_deref());
                let has_missed = both.is_some_and(|(before, changed)| {
                    verdicts.note_changes(lists_of(&before.dataset, &after.dataset, changed));
                    has_missed(&before, &after.dataset, changed, cache_ttl)
                });
                Ok((changed, has_missed))
            };
            let (changed, has_missed) = blocking(changed).await.unwrap_or_default();
            if has_missed {
                self.copies.client.stamps().missed_a_change(self.copies.client.now_ms());
            }
            self.schedule.published(changed, now, ttl);
            has_looked = true;
        }
        match result {
            Ok(next) => {
                if let Next::Stay(state) | Next::Done(state) = next {
                    let follows = work.as_ref().is_some_and(|work| work.purpose() == TaskPurpose::Follow);
                    // The origin's answers agree with each other.
                    if matches!(next, Next::Done(_)) || (state == OriginState::Unchanged && !follows) {
                        self.outlay.ended();
                    }
                    self.status().update(|picture| picture.state = state);
                    has_looked = true;
                }
                if let Next::Instead(Doing::Reading(_), _) = next {
                    self.status().update(|picture| {
                        picture.pass = Some(Progress { done: 0, of: 0 });
                        if newest.is_none() {
                            picture.state = OriginState::Crawling;
                        }
                    });
                }
                let budget = self.copies.client.budget();
                self.schedule.went(step, work, next, now, || budget.crawl_work());
            }
            Err(error) => self.note_failure(step, work, &error),
        }
        self.status().update(|picture| {
            if has_looked {
                picture.refreshed_ms = Some(self.clock.now_wall().as_millis());
            }
            if !self.schedule.is_working() {
                picture.pass = None;
            }
        });
    }

    /// A step is tried again later.
    fn note_failure(&mut self, step: MirrorStep, work: Option<Work>, error: &MirrorError) {
        let failure = Failure {
            now: self.clock.now_mono(),
            longest: schedule::longest_pause(self.settings.load().ttl),
            wants_no_pause: error.wants_no_pause(),
            jittered: &|pause| self.copies.client.jittered(pause),
        };
        let failures = self.schedule.failed(step, work, failure);
        if matches!(error, MirrorError::Moved) {
            tracing::info!(%error, "continuing with the imported snapshot");
            return;
        }
        tracing::debug!(error = %Excerpt(error), failures, "a step of the mirror failed");
        // A disk that fails is no fault of the origin.
        if !error.is_of_store() {
            self.status().update(|picture| picture.state = error.state());
            match error {
                MirrorError::Copy(CopyError::Ask(error)) => self.status().note(error, self.clock.now_wall()),
                other => self.status().unusable(other, self.clock.now_wall()),
            }
        }
    }
}

/// Runs blocking work where it does no harm.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, MirrorError> {
    Ok(tasks::blocking(work).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_store_is_no_fault_of_the_origin() {
        let full = || StoreError::ReadOnly { path: "grandstand.redb".into() };
        assert!(MirrorError::Store(full()).is_of_store());
        assert!(MirrorError::Copy(CopyError::Store(full())).is_of_store());
        assert!(!MirrorError::Moved.is_of_store());
    }
}
