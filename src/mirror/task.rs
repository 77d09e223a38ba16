//! The mirror's life: what [`plan`] decides is done here, and what comes of it is published.
//!
//! One task decides what is published; the details and the sweep have workers of their own. Nothing here takes long in
//! one piece, so that a refresh is never late: reading every page goes batch by batch (`reading`), each resource is asked
//! for once in a piece, and whatever has to wait, for the origin's CDN or after a failure, waits in `Work`, not in a sleep. Callers: [`crate::app`] runs it.

mod confirm;
mod error;
mod follow;
mod learn;
mod publish;
mod reading;
mod refresh;
mod switch;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::api::render::VolatileValues;
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::clock::{Clock, Monotonic};
use crate::semantics::excerpt::Excerpt;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::live::Live;
use crate::snapshot::membership::Evidence;
use crate::snapshot::version::VersionMeta;
use crate::store::{Store, StoreError};
use crate::versions::Versions;

use super::commands::Commands;
use super::copies::CopyError;
use super::crawl::Crawler;
use super::order::Rules;
use super::plan::{self, Begun, Facts, Purpose, Step};
use super::refresh::Shape;
use crate::upstream::budget::CrawlWork;
use crate::upstream::status::OriginStatus;

use confirm::Candidate;
pub(crate) use error::MirrorError;
use reading::Reading;

/// How often something that does not settle is tried.
const TRIES: u32 = 3;

/// The longest sleep: the wall clock may jump meanwhile, or the machine be suspended.
const TICK: Duration = Duration::from_secs(5);

/// When things happen.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// The time by which a refresh must have happened.
    pub ttl: Duration,
    /// A snapshot that lost more than this share of the listings is held back.
    pub max_shrink: f64,
}

/// A data set with what is known about it.
#[derive(Clone)]
struct Newest {
    dataset: Arc<Dataset>,
    /// [`Mirror::learned`] when it was indexed.
    learned: usize,
    meta: VersionMeta,
}

/// An indexed list with what was left out of it.
#[derive(Clone)]
struct Listed {
    dataset: Arc<Dataset>,
    /// [`Mirror::learned`] when it was indexed.
    learned: usize,
    /// Envelope fields that differ between the pages.
    left_out: Vec<String>,
    /// The last values of volatile fields.
    volatile_values: VolatileValues,
}

/// What was begun and goes on step by step.
struct Work {
    what: Doing,
    /// It goes on then.
    not_before: Monotonic,
    /// Failures in a row.
    failures: u32,
    /// Leaves the crawl its share of the budget for as long as it lasts.
    _share: CrawlWork,
}

impl Work {
    fn certifies(&self) -> bool {
        matches!(&self.what, Doing::Reading(reading) if reading.purpose() == Purpose::Certify)
    }
}

enum Doing {
    Reading(Box<Reading>),
    Confirming(Box<Candidate>),
}

/// When the origin was last looked at, and how that went.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    /// When the last look ended; `None`: not since the start.
    at: Option<Monotonic>,
    /// When the next try is due after failures.
    retry: Option<Monotonic>,
    failures: u32,
}

/// The mirror.
pub struct Mirror {
    crawler: Crawler,
    store: Arc<Store>,
    versions: Versions,
    /// The newest version: what is refreshed, whether it is served or waits behind a rollback.
    live: Live,
    /// The head's epoch when this task looked last: another one is not of its making.
    seen: u64,
    status: OriginStatus,
    volatile: Arc<RwLock<VolatileKeys>>,
    commands: Commands,
    rhythm: Rhythm,
    clock: Clock,
    evidence: Evidence,
    /// How often the evidence has changed: what was indexed before that is behind.
    learned: usize,
    shape: Shape,
    looked: Looked,
    work: Option<Work>,
    /// A certification that makes way for what follows a change, and goes on after it.
    parked: Option<Work>,
    /// Nothing can be begun before that, because it failed, and how often in a row it did.
    begin: (Monotonic, u32),
    /// What lost too many listings to be published.
    held: Option<Newest>,
    /// What is held back is accepted, and so is what the origin has by then if that is no smaller: so many listings.
    accept: Option<usize>,
    /// A refresh was asked for.
    refresh: bool,
    /// A look at every page was asked for.
    asked: bool,
    /// Changes in a row that did not hold still until they were confirmed.
    unsettled: u32,
    /// How often in a row the origin seemed to disprove an assumption while it changed.
    doubted: u32,
    /// How often in a row the probe alone was not answered.
    unprobed: u32,
    /// When it was last tried to settle what is published.
    tried: Option<Monotonic>,
    /// Terms that were asked for, and the snapshot that they were asked for.
    terms: (String, HashSet<(TaxonomyKind, String)>),
    /// When questions may be asked; `None`: none is left.
    learn_at: Option<Monotonic>,
    /// When terms are asked for again whose lists were too old.
    terms_at: Option<Monotonic>,
    /// Orders that a look at every page disproved.
    disproved_orders: BTreeSet<String>,
    /// The orders by which what is published was placed, if it was.
    placed_by: Vec<String>,
    /// The rules that explain the order of one data set.
    rules: Option<(SnapshotId, Arc<Rules>)>,
}

impl Mirror {
    /// A mirror that publishes into `versions`; `evidence` is what the store gave back.
    pub fn new(
        crawler: Crawler,
        versions: Versions,
        volatile: Arc<RwLock<VolatileKeys>>,
        commands: Commands,
        rhythm: Rhythm,
        clock: Clock,
        evidence: Evidence,
    ) -> Self {
        let status = crawler.copies().client().status().clone();
        let clock_now = clock.now_mono();
        let learn_at = Some(clock_now);
        Self {
            crawler,
            store: versions.store().clone(),
            live: versions.head().clone(),
            seen: versions.head().epoch(),
            versions,
            status,
            volatile,
            commands,
            rhythm,
            clock,
            evidence,
            learned: 0,
            shape: Shape::default(),
            looked: Looked::default(),
            work: None,
            parked: None,
            begin: (clock_now, 0),
            held: None,
            accept: None,
            refresh: false,
            asked: false,
            unsettled: 0,
            doubted: 0,
            unprobed: 0,
            tried: None,
            terms: Default::default(),
            learn_at,
            terms_at: None,
            disproved_orders: BTreeSet::new(),
            placed_by: Vec::new(),
            rules: None,
        }
    }

    /// Mirrors, for ever.
    pub async fn run(mut self) {
        self.disproved_orders = publish::load_orders(&self.store);
        loop {
            let asked = self.commands.take();
            if self.live.epoch() != self.seen {
                self.begin_anew();
            }
            if let Some(held) = self.held.as_ref().filter(|_| asked.accept) {
                self.accept = Some(held.dataset.len());
                self.refresh = true;
            }
            self.refresh |= asked.refresh;
            self.asked |= asked.pass;
            let step = plan::next(&self.facts());
            if let Step::Wait(wait) = step {
                let _ = tokio::time::timeout(wait.min(TICK), self.commands.wait()).await;
                continue;
            }
            let result = self.perform(step).await;
            self.account(step, result);
            if self.work.is_none() {
                self.status.set_pass(None);
            }
        }
    }

    fn facts(&self) -> Facts {
        let now = self.clock.now_mono();
        let begun = self.work.as_ref().map(|work| {
            let what = match &work.what {
                Doing::Reading(reading) => Begun::Reading(reading.purpose()),
                Doing::Confirming(_) => Begun::Confirming,
            };
            (what, work.not_before.since(now))
        });
        Facts {
            certificate: self.live.load().as_ref().map(|published| published.meta.certificate),
            refresh_in: self.refresh_in(),
            begun,
            asked: self.asked,
            tried: self.tried.map(|tried| now.since(tried)),
            patience: self.rhythm.ttl.max(self.crawler.cache_ttl()),
            begin_in: self.begin.0.since(now),
            learn_in: self.learn_at.map(|at| at.since(now)),
        }
    }

    /// When the next refresh is due: it starts early enough to end before `Age` reaches 0.8 x ttl, and not sooner than
    /// 0.4 x ttl after the last one, however old the copies of the origin's CDN are. A wall clock that jumps makes it
    /// neither much earlier nor later.
    fn refresh_in(&self) -> Duration {
        let now = self.clock.now_mono();
        if self.refresh {
            return Duration::ZERO;
        }
        if let Some(retry) = self.looked.retry {
            return retry.since(now);
        }
        let Some(looked) = self.looked.at else { return Duration::ZERO };
        let (soonest, latest) = (self.rhythm.ttl.mul_f64(0.4), self.rhythm.ttl.mul_f64(0.7));
        let age = self
            .live
            .load()
            .as_ref()
            .map_or(0, |published| self.clock.now_wall().millis_since(published.confirmed()).max(0));
        let by_age = latest.saturating_sub(Duration::from_millis(u64::try_from(age).unwrap_or(0)));
        let since = now.since(looked);
        by_age.max(soonest.saturating_sub(since)).min(latest.saturating_sub(since))
    }

    async fn perform(&mut self, step: Step) -> Result<(), MirrorError> {
        match step {
            Step::Refresh => self.refresh().await,
            Step::Begin(purpose) => self.begin_reading(purpose, None),
            Step::Continue => match self.work.take() {
                None => Ok(()),
                Some(work) => self.go_on(work).await,
            },
            Step::Learn => self.learn().await,
            Step::Wait(_) => Ok(()),
        }
    }

    /// Goes on with what was begun; after a failure it stays begun.
    async fn go_on(&mut self, mut work: Work) -> Result<(), MirrorError> {
        let result = match &mut work.what {
            Doing::Reading(reading) => self.read_on(reading).await,
            Doing::Confirming(candidate) => self.confirm_candidate(candidate).await,
        };
        match result {
            // What made way goes on, unless something else was begun.
            Ok(Next::Done) if self.work.is_none() => self.work = self.parked.take(),
            Ok(Next::Done) => {}
            Ok(Next::Again(pause)) => {
                work.failures = 0;
                work.not_before = self.clock.now_mono().plus(pause);
                self.work = Some(work);
            }
            Ok(Next::Instead(doing, pause)) => {
                let not_before = self.clock.now_mono().plus(pause);
                self.work = Some(Work { what: doing, not_before, failures: 0, ..work });
            }
            Err(error) => {
                work.failures = work.failures.saturating_add(1);
                work.not_before = self.clock.now_mono().plus(self.back_off(work.failures));
                self.work = Some(work);
                return Err(error);
            }
        }
        Ok(())
    }

    fn begin(&mut self, doing: Doing, pause: Duration) {
        let share = self.crawler.copies().client().budget().crawl_work();
        let not_before = self.clock.now_mono().plus(pause);
        let next = Work { what: doing, not_before, failures: 0, _share: share };
        if next.certifies() {
            self.parked = None;
            self.work = Some(next);
        } else if let Some(before) = self.work.replace(next).filter(Work::certifies) {
            self.parked = Some(before);
        }
    }

    /// Keeps the books on how a step went.
    fn account(&mut self, step: Step, result: Result<(), MirrorError>) {
        let now = self.clock.now_mono();
        let Err(error) = result else {
            self.status.set_disk(None);
            if matches!(step, Step::Begin(_)) {
                self.begin.1 = 0;
            }
            return;
        };
        if matches!(error, MirrorError::Moved) {
            tracing::info!(%error, "starting over");
            return;
        }
        let failures = match step {
            Step::Refresh => {
                self.looked.failures = self.looked.failures.saturating_add(1);
                self.looked.retry = Some(now.plus(self.back_off(self.looked.failures)));
                self.looked.failures
            }
            Step::Begin(_) => {
                self.begin.1 = self.begin.1.saturating_add(1);
                self.begin.0 = now.plus(self.back_off(self.begin.1));
                self.begin.1
            }
            _ => self.work.as_ref().map_or(1, |work| work.failures),
        };
        if error.is_damage() {
            // The keeper heals the store and sets `last_error`: the origin has nothing to do with it.
            tracing::warn!(error = %Excerpt(&error), failures, "the store is damaged; trying again");
        } else {
            tracing::warn!(error = %Excerpt(&error), failures, "mirroring failed; the current snapshot is still served");
            self.status.set_state(error.state());
            self.status.error(&error, self.clock.now_wall());
        }
        if let MirrorError::Store(error) | MirrorError::Copy(CopyError::Store(error)) = &error {
            self.status.set_disk(Some(error.to_string()));
        }
    }

    /// The origin was looked at as a refresh would; the next one counts from here.
    fn looked(&mut self) {
        self.looked = Looked { at: Some(self.clock.now_mono()), retry: None, failures: 0 };
        self.status.refreshed(self.clock.now_wall());
    }

    /// How long to wait after so many failures.
    fn back_off(&self, failures: u32) -> Duration {
        let longest = self.rhythm.ttl.min(Duration::from_secs(60));
        let doubled = Duration::from_millis(500) * 2_u32.saturating_pow(failures.min(8));
        self.crawler.copies().client().jittered(doubled.min(longest))
    }

    fn volatile(&self) -> VolatileKeys {
        self.volatile.read().clone()
    }
}

/// How work goes on.
enum Next {
    /// It is done, or something else has taken its place.
    Done,
    /// The same again after a pause.
    Again(Duration),
    /// Something else after a pause.
    Instead(Doing, Duration),
}

/// Runs something that blocks where that does no harm.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, MirrorError> {
    Ok(super::blocking::blocking(work).await?)
}
