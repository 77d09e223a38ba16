//! Fetches details in the background: changed ones, missing ones, and those not checked for long.
//!
//! Callers: [`crate::app`] runs it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::RwLock;

use crate::api::listing::ListingId;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::{Clock, WallTime};
use crate::config::Settings;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::pointer::SnapshotPointer;

use super::Details;
use super::due::Due;
use super::retries::Retries;
use crate::mirror::copies::CopyError;
use crate::tasks::blocking;
use crate::upstream::client::{Asker, OriginClient};
use crate::upstream::health;
use crate::upstream::window::Class;

/// Fetches details in the background.
pub struct DetailWorker {
    /// The details.
    pub details: Details,
    /// The origin.
    pub client: OriginClient,
    /// The current snapshot.
    pub newest: SnapshotPointer,
    /// The volatile keys known by now.
    pub volatile: Arc<RwLock<VolatileKeys>>,
    /// Whether all details are wanted, or only those that clients have asked for.
    pub all: bool,
    /// How old a copy of the origin's CDN can be.
    pub cache_ttl: Duration,
    /// `mirror.verify_details_every`: each detail is looked at again at least this often.
    pub settings: Settings,
    /// The clock.
    pub clock: Clock,
}

impl DetailWorker {
    /// Fetches due details, for ever.
    pub async fn run(self) {
        let _ = self.details.0.all_wanted.set(self.all);
        let mut swaps = self.newest.watch();
        let mut retries = Retries::default();
        let mut tidied = None;
        let mut quiet: Option<Quiet> = None;
        let mut overdue = Overdue::default();
        loop {
            swaps.borrow_and_update();
            let now = self.clock.now_wall();
            let is_down = self.client.status().picture().health.failures() >= health::FEW;
            let newest = self.newest.get();
            let is_listed = |id| newest.as_ref().is_none_or(|newest| newest.dataset.position(id).is_some());
            retries.look(is_down, is_listed, |id| self.details.fetched_ms(id));
            if retries.has_ended() {
                tracing::info!("the origin gives details again");
            }
            self.client.status().set_details(retries.trouble());
            let published = newest.filter(|_| !self.details.0.arrivals.is_backed_up());
            let rests = retries.rests(now);
            if let Some(published) = published.filter(|_| rests.is_none()) {
                let disturbed = self.details.0.disturbed.load(Ordering::Acquire);
                if quiet.as_ref().is_none_or(|quiet| !quiet.lasts(&published.dataset.id, disturbed, now)) {
                    self.details.adopt(&published.dataset, self.cache_ttl);
                    let Due { ids: mut due, next_ms } = self.details.missing(&published, self.all, now, self.cache_ttl);
                    due.retain(|id| retries.is_due(*id, now));
                    let due = retries.chosen(due);
                    if !due.is_empty() {
                        let _work = self.client.budget().crawl_work();
                        self.fetch_all(&published.dataset, due, Class::Details, &mut retries).await;
                        continue;
                    }
                    let until_ms = [next_ms, retries.next_ms(now)].into_iter().flatten().min();
                    let snapshot = published.dataset.id.clone();
                    quiet = Some(Quiet { snapshot, disturbed, since_ms: now.as_millis(), until_ms });
                }
                let verify_every = self.settings.load().mirror.verify_details_every;
                let some = overdue.next(&self.details, &published.dataset, now, verify_every, &retries);
                let some = retries.chosen(some);
                if !some.is_empty() {
                    self.fetch_all(&published.dataset, some, Class::Background, &mut retries).await;
                }
                // Only dropping snapshots leaves details unlisted.
                let collections = Some(self.details.0.store.collections());
                if collections != std::mem::replace(&mut tidied, collections) {
                    self.forget_vanished().await;
                }
            }
            let pause = self.client.jittered(Duration::from_secs(5));
            // Those in turn have their jitter.
            let pause = retries.rests(self.clock.now_wall()).map_or(pause, |rests| rests.min(pause));
            let _ = tokio::time::timeout(pause, swaps.changed()).await;
        }
    }

    async fn forget_vanished(&self) {
        let details = self.details.clone();
        match blocking(move || details.forget_vanished()).await {
            Ok(0) => {}
            Ok(details) => tracing::info!(details, "removed details of listings that are in no kept snapshot"),
            Err(error) => tracing::warn!(%error, "details of listings that vanished could not be removed"),
        }
    }

    /// Fetches these, several at once; stops early when another data set is served, the disk takes no more, or all
    /// details fail.
    async fn fetch_all(&self, dataset: &Arc<Dataset>, ids: Vec<ListingId>, class: Class, retries: &mut Retries) {
        const AT_ONCE: usize = 8;
        const PATIENCE: Duration = Duration::from_secs(10);
        let (is_full, all_fail) = (AtomicBool::new(false), AtomicBool::new(false));
        let goes_on = || {
            let is_served = self.newest.load().as_ref().is_some_and(|now| Arc::ptr_eq(&now.dataset, dataset));
            is_served && !is_full.load(Ordering::Relaxed) && !all_fail.load(Ordering::Relaxed)
        };
        let mut fetches = futures_util::stream::iter(ids)
            .take_while(|_| std::future::ready(goes_on()))
            .map(async |id| {
                if !self.details.0.arrivals.room(PATIENCE).await {
                    is_full.store(true, Ordering::Relaxed);
                    return None;
                }
                let summary = dataset.summary(id)?;
                let volatile = self.volatile.read().clone();
                Some((id, self.details.fetch(&self.client, &volatile, summary, Asker::mirror(class)).await))
            })
            .buffer_unordered(AT_ONCE);
        while let Some(fetched) = fetches.next().await {
            match fetched {
                None => {}
                Some((_, Ok(_))) => retries.answered(),
                Some((id, Err(error))) => {
                    self.note_failure(id, &error, retries);
                    all_fail.store(retries.rests(self.clock.now_wall()).is_some(), Ordering::Relaxed);
                }
            }
        }
    }

    fn note_failure(&self, id: ListingId, error: &CopyError, retries: &mut Retries) {
        let now = self.clock.now_wall();
        let longest = self.settings.load().ttl.min(Duration::from_secs(60));
        tracing::debug!(%id, %error, "detail not fetched");
        retries.failed(id, error.to_string(), now, longest, |pause| self.client.jittered(pause));
        let CopyError::Ask(error) = error else { return };
        if error.wants_no_pause() {
            retries.hurry(id, now);
        }
        // Other failures are told with the origin's.
        if (error.is_nonsense() || retries.rests(now).is_some())
            && let Some(failures) = retries.told(self.client.now_mono())
        {
            tracing::warn!(%error, failures, "details cannot be fetched; they are requested again at longer and longer intervals");
        }
    }
}

/// Nothing is due, and until when that holds.
struct Quiet {
    snapshot: SnapshotId,
    disturbed: u64,
    since_ms: i64,
    /// When the clock alone changes that.
    until_ms: Option<i64>,
}

impl Quiet {
    fn lasts(&self, snapshot: &SnapshotId, disturbed: u64, now: WallTime) -> bool {
        let now_ms = now.as_millis();
        // A clock that was set back makes this void.
        let in_time = self.since_ms <= now_ms && self.until_ms.is_none_or(|until| now_ms < until);
        self.snapshot == *snapshot && self.disturbed == disturbed && in_time
    }
}

/// Details checked again before the worker looks for other work.
const OVERDUE_AT_ONCE: usize = 10;

/// Details to check again, picked many at a time.
#[derive(Default)]
struct Overdue {
    picked: VecDeque<ListingId>,
    /// When we last looked for more, and when the clock alone makes some due; milliseconds since the epoch.
    looked_ms: Option<(i64, i64)>,
}

impl Overdue {
    /// The next few.
    fn next(
        &mut self,
        details: &Details,
        dataset: &Dataset,
        now: WallTime,
        cycle: Duration,
        retries: &Retries,
    ) -> Vec<ListingId> {
        /// Picked at once.
        const MOST: usize = 1000;
        /// New arrivals have their whole cycle ahead, so waiting this long misses nothing.
        const LONGEST_MS: i64 = 600_000;
        let now_ms = now.as_millis();
        let waits = self.looked_ms.is_some_and(|(looked, next)| looked <= now_ms && now_ms < next);
        if self.picked.is_empty() && !waits {
            let found = details.overdue(dataset, now, cycle, MOST, |id| retries.is_due(id, now));
            let longest = now_ms.saturating_add(LONGEST_MS.min(i64::try_from(cycle.as_millis()).unwrap_or(i64::MAX)));
            let next = if found.ids.len() < MOST { found.next_ms.unwrap_or(longest).min(longest) } else { now_ms };
            self.looked_ms = Some((now_ms, next));
            self.picked = found.ids.into();
        }
        self.picked.drain(..self.picked.len().min(OVERDUE_AT_ONCE)).collect()
    }
}
