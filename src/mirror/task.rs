//! The mirror's life: does what [`plan`] decides, and publishes the result.
//!
//! One task decides what is published; details and sweep have workers of their own. No step takes long, so that a
//! refresh is never late: every page is read batch by batch, a step requests each resource once, and work that waits
//! for the origin's CDN or after a failure waits in [`WorkInHand`], not in a sleep. Callers: [`crate::app`] runs it.

mod amending;
mod candidate;
mod confirm;
mod contradicting;
mod error;
mod judge;
mod known_order;
mod learn;
mod meaning;
mod newest;
mod publish;
mod questions;
mod read_back;
mod reading;
mod refresh;
mod schedule;
mod shrink;
mod term_evidence;
mod work;

use std::time::Duration;

use crate::api::taxonomy::VolatileKeys;
use crate::clock::Clock;
use crate::config::Settings;
use crate::semantics::excerpt::Excerpt;
use crate::snapshot::membership::Evidence;
use crate::snapshots::Snapshots;
use crate::store::StoreError;
use crate::tasks;
use crate::upstream::status::OriginStatus;

use super::commands::Commands;
use super::copies::CopyError;
use super::crawl::Crawler;
use super::pass;
use super::plan::{self, Facts, Step};

use contradicting::Contradictions;
use error::MirrorError;
use known_order::KnownOrder;
use learn::Learning;
use newest::Newest;
use questions::Questions;
use schedule::Schedule;
use shrink::ShrinkGuard;
use term_evidence::TermEvidence;
use work::{Doing, WorkInHand};

/// Attempts at work that does not settle.
const TRIES: u32 = 3;

/// The longest sleep: the wall clock may jump meanwhile, or the machine be suspended.
const TICK: Duration = Duration::from_secs(5);

const DAY_MS: i64 = 86_400_000;

/// The mirror.
pub struct Mirror {
    crawler: Crawler,
    questions: Questions,
    newest: Newest,
    shrink: ShrinkGuard,
    order: KnownOrder,
    contradictions: Contradictions,
    terms: TermEvidence,
    learning: Learning,
    schedule: Schedule,
    work: WorkInHand,
    commands: Commands,
    /// Shown in `/status`.
    status: OriginStatus,
    /// `ttl`: the time by which a refresh must have happened.
    settings: Settings,
    clock: Clock,
}

impl Mirror {
    /// A mirror that publishes into `snapshots`; `evidence` is from the store.
    pub fn new(
        crawler: Crawler,
        snapshots: Snapshots,
        commands: Commands,
        settings: Settings,
        clock: Clock,
        evidence: Evidence,
    ) -> Self {
        let status = crawler.client().status().clone();
        let store = snapshots.store().clone();
        Self {
            questions: Questions::new(crawler.clone()),
            shrink: ShrinkGuard::new(store.clone(), status.clone(), settings.load().mirror.max_shrink),
            order: KnownOrder::new(store.clone()),
            contradictions: Contradictions::new(store),
            newest: Newest::new(snapshots),
            terms: TermEvidence::new(evidence),
            learning: Learning::new(clock.now_mono()),
            schedule: Schedule::new(settings.load().ttl, crawler.cache_ttl()),
            work: WorkInHand::default(),
            crawler,
            commands,
            status,
            settings,
            clock,
        }
    }

    /// Mirrors, for ever.
    pub async fn run(mut self) {
        loop {
            self.hear().await;
            let step = plan::next(&self.facts());
            if let Step::Wait(wait) = step {
                let _ = tokio::time::timeout(wait.min(TICK), self.commands.wait()).await;
                continue;
            }
            let result = self.perform(step).await;
            self.account(step, result);
            if !self.work.is_begun() {
                self.status.set_pass(None);
            }
        }
    }

    /// Takes in commands and imports.
    async fn hear(&mut self) {
        self.schedule.set_ttl(self.settings.load().ttl, self.crawler.cache_ttl());
        let asked = self.commands.take();
        if self.newest.was_replaced() {
            self.begin_anew();
        }
        let is_accepted = asked.accept && self.shrink.accept();
        if asked.refresh || is_accepted {
            self.schedule.ask_refresh();
        }
        if asked.pass {
            self.schedule.ask_pass();
        }
        if !asked.disproved.is_empty()
            && let Err(error) = self.disprove(&asked.disproved).await
        {
            tracing::warn!(%error, "what an audit found of filters could not be stored; the next audit finds it again");
        }
    }

    /// Drops work about another snapshot.
    fn begin_anew(&mut self) {
        self.work.abandon();
        self.shrink.forget();
        self.order.placed_by(Vec::new());
        self.terms.read_back(self.newest.store());
        if let Some(newest) = self.newest.get() {
            self.crawler.copies().set_volatile(newest.meta.volatile.clone());
        }
        self.learning.begin(self.clock.now_mono());
        self.schedule.begin_anew();
    }

    fn facts(&self) -> Facts {
        let now = self.clock.now_mono();
        let (begun, learn_in) = (self.work.begun(now), self.learning.due_in(now));
        let mut facts = self.schedule.facts(now, self.age(), self.newest.certificate(), begun, learn_in);
        // No better certificate is to be had while the origin's pages contradict each other.
        if self.newest.get().is_some_and(|newest| self.contradictions.lives_with(&newest.dataset.id)) {
            facts.patience = facts.patience.max(self.settings.load().mirror.sweep_every);
        }
        facts
    }

    /// How long a step with so many requests has to wait, because the origin's answers disagree: until old copies of its
    /// CDN have expired, only so many are sent.
    fn pause_for(&mut self, requests: u64) -> Duration {
        let Some(newest) = self.newest.get() else { return Duration::ZERO };
        let most = 2 * pass::pages(newest.dataset.len() as u64) + 20;
        let (now, apart) = (self.clock.now_mono(), self.crawler.apart());
        self.schedule.outlay.wait(now, self.crawler.sent(), requests, most, apart)
    }

    /// How old the newest snapshot is, by the clock that dates it.
    fn age(&self) -> Duration {
        let age = self.newest.get().map_or(0, |newest| self.clock.now().by_origin.millis_since(newest.confirmed()));
        Duration::from_millis(u64::try_from(age).unwrap_or(0))
    }

    async fn perform(&mut self, step: Step) -> Result<(), MirrorError> {
        match step {
            Step::Refresh => self.refresh().await,
            Step::Begin(purpose) => self.begin_reading(purpose, None, false),
            Step::Continue => self.go_on().await,
            Step::Learn => self.learn().await,
            Step::Wait(_) => Ok(()),
        }
    }

    /// Begins something that takes several steps.
    fn begin(&mut self, doing: Doing, pause: Duration) {
        let share = self.crawler.client().budget().crawl_work();
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
                self.work.failed(work, now, longest, |pause| self.crawler.client().jittered(pause));
                Err(error)
            }
        }
    }

    /// Records the result of a step.
    fn account(&mut self, step: Step, result: Result<(), MirrorError>) {
        let Err(error) = result else {
            self.status.set_disk(None);
            if matches!(step, Step::Begin(_)) {
                self.schedule.begun();
            }
            return;
        };
        if matches!(error, MirrorError::Moved) {
            tracing::info!(%error, "continuing with the imported snapshot");
            return;
        }
        let jittered = |pause| self.crawler.client().jittered(pause);
        let failures = self.schedule.failed(step, self.clock.now_mono(), jittered);
        let failures = failures.unwrap_or_else(|| self.work.failures());
        if error.wants_no_pause() {
            self.schedule.hurry();
            self.work.hurry();
        }
        if error.is_damage() {
            // The keeper heals the store and sets `last_error`: this is no fault of the origin.
            tracing::warn!(error = %Excerpt(&error), failures, "the store is damaged; trying again");
        } else {
            tracing::warn!(error = %Excerpt(&error), failures, "a step of the mirror failed; clients still get the current snapshot");
            self.status.set_state(error.state());
            self.status.error(&error, self.clock.now_wall());
        }
        if let MirrorError::Store(error) | MirrorError::Copy(CopyError::Store(error)) = &error {
            self.status.set_disk(Some(error.to_string()));
        }
    }

    /// Counts as a refresh: the next one is scheduled from here.
    fn looked(&mut self) {
        self.schedule.looked(self.clock.now_mono());
        self.status.refreshed(self.clock.now_wall());
    }

    fn volatile(&self) -> VolatileKeys {
        self.crawler.copies().volatile()
    }
}

/// Runs blocking work where it does no harm.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, MirrorError> {
    Ok(tasks::blocking(work).await?)
}
