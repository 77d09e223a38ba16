//! The mirror's life: does what [`schedule`] decides, and publishes the result.
//!
//! One task decides what is published; details and sweep have workers of their own. No step takes long, so that a
//! refresh is never late: every page is read batch by batch, a step requests each resource once, and work that waits
//! for the origin's CDN or after a failure waits in [`WorkInHand`], not in a sleep. Callers: [`crate::app`] runs it.

mod amend;
mod contradicting;
mod judge;
mod publish;
mod reading;
mod refresh;
mod schedule;
mod terms;

use std::sync::Arc;
use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::clock::{Clock, WallTime};
use crate::config::Settings;
use crate::semantics::excerpt::Excerpt;
use crate::snapshot::dataset::DatasetError;
use crate::snapshot::membership::Evidence;
use crate::snapshot::meta::{Certificate, SnapshotMeta};
use crate::snapshot::pointer::Snapshot;
use crate::snapshots::{Snapshots, SnapshotsError};
use crate::store::{Store, StoreError};
use crate::tasks;
use crate::upstream::status::{CopiesWait, OriginState, OriginStatus};

use super::commands::Commands;
use super::copies::{Copies, CopyError};
use super::{MirrorContext, pass};

use amend::KnownOrder;
use contradicting::Contradictions;
use publish::ShrinkGuard;
use refresh::Questions;
use schedule::{Doing, MirrorStep, Purpose, Retry, Schedule, ScheduleFacts, WorkInHand};
use terms::{Learning, TermEvidence};

/// Attempts at work that does not settle.
const TRIES: u32 = 3;

/// The longest sleep: the wall clock may jump meanwhile, or the machine be suspended.
const TICK: Duration = Duration::from_secs(5);

const DAY_MS: i64 = 86_400_000;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
enum MirrorError {
    /// A copy could not be fetched or stored.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The content cannot be indexed.
    #[error("the origin's data cannot be used: {0}")]
    Dataset(#[from] DatasetError),
    /// The data directory failed.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
    /// An import came in between.
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
            Self::Copy(CopyError::Ask(error)) if error.is_nonsense() => OriginState::Nonsense,
            Self::Dataset(_) => OriginState::Nonsense,
            Self::Copy(_) | Self::Store(_) | Self::Moved => OriginState::CouldNotBeAsked,
        }
    }

    /// Whether the origin wants the next request at once.
    fn wants_no_pause(&self) -> bool {
        matches!(self, Self::Copy(CopyError::Ask(error)) if error.wants_no_pause())
    }

    /// Whether the data directory failed.
    const fn is_of_store(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Copy(CopyError::Store(_)))
    }
}

/// The mirror.
pub struct Mirror {
    copies: Copies,
    questions: Questions,
    snapshots: Snapshots,
    /// The epoch of the last change to the newest snapshot that this task knows: a later one is an import's.
    seen: u64,
    shrink: ShrinkGuard,
    order: KnownOrder,
    contradictions: Contradictions,
    terms: TermEvidence,
    learning: Learning,
    schedule: Schedule,
    work: WorkInHand,
    /// What the answers were that the work in hand follows.
    followed: Vec<ContentHash>,
    commands: Commands,
    /// Shown in `/status`.
    status: OriginStatus,
    settings: Settings,
    clock: Clock,
}

impl Mirror {
    /// A mirror that publishes into `snapshots`; `evidence` is from the store.
    pub fn new(shared: MirrorContext, snapshots: Snapshots, evidence: Evidence) -> Self {
        let MirrorContext { copies, store, commands, settings, clock, .. } = shared;
        let status = copies.client.status().clone();
        Self {
            questions: Questions::new(copies.clone()),
            shrink: ShrinkGuard::new(store.clone(), status.clone(), settings.load().mirror.max_shrink),
            order: KnownOrder::new(store.clone()),
            contradictions: Contradictions::new(store),
            seen: snapshots.newest().epoch(),
            terms: TermEvidence(evidence),
            learning: Learning::new(clock.now_mono()),
            schedule: Schedule::new(settings.load().ttl, copies.cache_ttl()),
            work: WorkInHand::default(),
            followed: Vec::new(),
            snapshots,
            copies,
            commands,
            status,
            settings,
            clock,
        }
    }

    /// Mirrors, for ever.
    pub async fn run(mut self) {
        let mut announced = None;
        loop {
            self.hear().await;
            let facts = self.facts();
            let due = self.clock.now_mono().plus(facts.refresh_in);
            let waits = facts
                .begun
                .map(|(_, wait)| wait)
                .filter(|wait| *wait >= schedule::LONG_WAIT && self.work.failures() == 0);
            let copies = waits.map(|wait| self.announce(wait, &facts, &mut announced));
            let flips = self.schedule.flips.to_tell(self.clock.now_mono());
            let flips_until = flips.map(|wait| self.clock.now_wall().plus(wait));
            self.status.update(|picture| {
                (picture.refresh_due, picture.copies, picture.flips_until) = (Some(due), copies, flips_until);
            });
            let step = schedule::next(&facts);
            if let MirrorStep::Wait(wait) = step {
                let _ = tokio::time::timeout(wait.min(TICK), self.commands.wait()).await;
                continue;
            }
            let result = Box::pin(self.perform(step)).await;
            self.account(step, result);
            if !self.work.is_begun() {
                announced = None;
                self.status.update(|picture| picture.pass = None);
            }
        }
    }

    /// Until when work waits for old copies. `announced`: what was told first of this work.
    fn announce(&self, wait: Duration, facts: &ScheduleFacts, announced: &mut Option<WallTime>) -> CopiesWait {
        /// What is told has whole seconds.
        const GRAIN_SECONDS: i64 = 2;
        let until = self.clock.now_wall().plus(wait);
        // The rounds of a first copy: each waits for the copies that the last one may have read.
        let rounds = TRIES + 1;
        let is_expected = !facts.certificate.is_some_and(schedule::is_settled)
            && self.status.picture().passes == 0
            && facts.tried.is_some_and(|tried| tried + wait <= self.copies.apart() * rounds);
        let first = (!is_expected).then(|| *announced.get_or_insert(until));
        CopiesWait { until, first: first.filter(|first| until.seconds_since(*first) >= GRAIN_SECONDS), is_expected }
    }

    /// Takes in commands and imports.
    async fn hear(&mut self) {
        self.schedule.set_ttl(self.settings.load().ttl, self.copies.cache_ttl());
        let asked = self.commands.take();
        let epoch = self.snapshots.newest().epoch();
        if std::mem::replace(&mut self.seen, epoch) != epoch {
            self.begin_anew();
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

    /// Drops work about another snapshot.
    fn begin_anew(&mut self) {
        self.work.abandon();
        self.shrink.forget();
        self.order.placed_by.clear();
        self.terms.read_back(self.snapshots.store());
        if let Some(newest) = self.newest() {
            self.copies.set_volatile(newest.meta.volatile.clone());
        }
        self.learning.due = Some(self.clock.now_mono());
        self.schedule.begin_anew();
    }

    fn facts(&self) -> ScheduleFacts {
        let (now, schedule) = (self.clock.now_mono(), &self.schedule);
        // No better certificate is to be had while the origin's pages contradict each other.
        let contradict = self.newest().is_some_and(|newest| self.contradictions.lives_with(&newest.dataset.id));
        let at_least = if contradict { self.settings.load().mirror.sweep_every } else { Duration::ZERO };
        let tried = schedule.tried.map(|tried| now.since(tried));
        let at_least = at_least.max(tried.unwrap_or_default() + schedule.flips.wait(now));
        ScheduleFacts {
            certificate: self.certificate(),
            refresh_in: schedule.refresh_in(now, self.age()),
            begun: self.work.begun(now),
            asked: schedule.is_pass_asked,
            tried,
            patience: schedule.patience.max(at_least),
            begin_in: schedule.reading.wait(now),
            learn_in: self.learning.due_in(now),
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
        let (now, apart) = (self.clock.now_mono(), self.copies.apart());
        self.schedule.outlay.wait(now, self.copies.sent(), requests, most, apart)
    }

    /// How old the newest snapshot is, by the clock that dates it.
    fn age(&self) -> Duration {
        let age = self.newest().map_or(0, |newest| self.clock.now().by_origin.millis_since(newest.confirmed()));
        Duration::from_millis(u64::try_from(age).unwrap_or(0))
    }

    async fn perform(&mut self, step: MirrorStep) -> Result<(), MirrorError> {
        match step {
            MirrorStep::Refresh => Box::pin(self.refresh()).await,
            MirrorStep::Begin => self.begin_reading(Purpose::Certify, None, false),
            MirrorStep::Continue => self.go_on().await,
            MirrorStep::Learn => {
                self.learn().await;
                Ok(())
            }
            MirrorStep::Wait(_) => Ok(()),
        }
    }

    /// Begins something that takes several steps.
    fn begin(&mut self, doing: Doing, pause: Duration) {
        let share = self.copies.client.budget().crawl_work();
        self.work.begin(doing, self.clock.now_mono(), pause, share);
    }

    /// Continues the active work; after a failure it stays.
    async fn go_on(&mut self) -> Result<(), MirrorError> {
        let Some(mut work) = self.work.take() else { return Ok(()) };
        let result = match &mut work.doing {
            Doing::Reading(reading) => self.read_on(reading).await,
            Doing::Confirming(candidate) => self.confirm_candidate(candidate).await,
            Doing::Searching(search) => self.search(search).await,
        };
        let now = self.clock.now_mono();
        match result {
            Ok(next) => {
                self.work.went(work, next, now);
                Ok(())
            }
            Err(error) => {
                let longest = self.schedule.longest_pause();
                self.work.failed(work, now, longest, |pause| self.copies.client.jittered(pause));
                Err(error)
            }
        }
    }

    /// Records the result of a step.
    fn account(&mut self, step: MirrorStep, result: Result<(), MirrorError>) {
        let Err(error) = result else {
            if step == MirrorStep::Begin {
                self.schedule.reading = Retry::default();
            }
            return;
        };
        if matches!(error, MirrorError::Moved) {
            tracing::info!(%error, "continuing with the imported snapshot");
            return;
        }
        let jittered = |pause| self.copies.client.jittered(pause);
        let failures = self.schedule.failed(step, self.clock.now_mono(), jittered);
        let failures = failures.unwrap_or_else(|| self.work.failures());
        if error.wants_no_pause() {
            self.schedule.hurry();
            self.work.hurry();
        }
        tracing::debug!(error = %Excerpt(&error), failures, "a step of the mirror failed");
        // A disk that fails is no fault of the origin.
        if !error.is_of_store() {
            self.status.update(|picture| picture.state = error.state());
            match &error {
                MirrorError::Copy(CopyError::Ask(error)) => self.status.note(error, self.clock.now_wall()),
                other => self.status.unusable(other, self.clock.now_wall()),
            }
        }
    }

    /// Counts as a refresh: the next one is scheduled from here.
    fn looked(&mut self) {
        self.schedule.looked(self.clock.now_mono());
        self.status.update(|picture| picture.refreshed_ms = Some(self.clock.now_wall().as_millis()));
    }

    /// The origin's answers agree with each other.
    const fn answers_agree(&mut self) {
        self.work.unsettled = 0;
        self.schedule.outlay.ended();
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
