//! Worker that fetches details in the background: changed ones, missing ones, and those not checked for long.
//!
//! Callers: [`crate::server`] runs it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;

use crate::api::listing::ListingId;
use crate::data::snapshot::dataset::Dataset;

use super::agenda::Agenda;
use super::retries::Retries;
use crate::mirror::MirrorContext;
use crate::mirror::copies::CopyError;
use crate::origin::client::Asker;
use crate::origin::health;
use crate::origin::window::Class;
use crate::tasks::blocking;

pub struct DetailWorker {
    pub shared: MirrorContext,
    /// Whether all details are wanted, or only those that clients have asked for.
    pub all: bool,
}

impl DetailWorker {
    pub async fn run(self) {
        /// Overdue details that are fetched before the worker looks for other work.
        const OVERDUE_AT_ONCE: usize = 10;
        self.shared.details.want(self.all);
        let cache_ttl = self.shared.copies.client.stamps().cache_ttl();
        let mut swaps = self.shared.newest.watch();
        let (mut retries, mut agenda, mut tidied) = (Retries::default(), None::<Agenda>, None);
        let mut flipped = false;
        loop {
            // Before the look: a snapshot that is published during it ends the pause.
            swaps.borrow_and_update();
            let now = self.shared.clock.now_wall();
            let picture = self.shared.copies.client.status().picture();
            let is_down = picture.health.failures() >= health::FEW;
            let newest = self.shared.newest.get();
            let is_listed = |id| newest.as_ref().is_none_or(|newest| newest.dataset.position(id).is_some());
            retries.look(is_down, is_listed, |id| self.shared.details.fetched_ms(id));
            let (finding, failing) = (retries.finding(), retries.failing());
            self.shared.copies.client.status().update(|picture| {
                (picture.details, picture.details_failing) = (finding, failing);
            });
            let published = newest.filter(|_| !self.shared.details.is_backed_up());
            if let Some(published) = published.filter(|_| retries.rests(now).is_none()) {
                let (dataset, disturbed) = (&published.dataset, self.shared.details.disturbed());
                let is_as_before = std::mem::replace(&mut flipped, picture.flips) == picture.flips;
                let lasts = |agenda: &Agenda| is_as_before && agenda.lasts(&dataset.id, disturbed, now.as_millis());
                let known = agenda.take().filter(lasts);
                let mut found = known.unwrap_or_else(|| {
                    let cycle = self.shared.settings.load().mirror.verify_details_every;
                    self.shared.details.agenda(&published, self.all, now, cycle, cache_ttl, &retries)
                });
                if picture.flips {
                    // Those that changed change back; those that were never there are wanted in any case.
                    found.due.retain(|id| self.shared.details.known(*id).is_none());
                }
                let due = retries.chosen(std::mem::take(&mut found.due));
                if !due.is_empty() {
                    let _work = self.shared.copies.client.budget().crawl_work();
                    self.fetch_all(dataset, due, Class::Details, &mut retries).await;
                    continue;
                }
                let some = found.overdue.drain(..found.overdue.len().min(OVERDUE_AT_ONCE)).collect();
                let some = retries.chosen(some);
                agenda = Some(found);
                if !some.is_empty() {
                    self.fetch_all(dataset, some, Class::Background, &mut retries).await;
                }
                // Only dropping snapshots leaves details unlisted.
                let kept = Some(self.shared.newest.view().kept.iter().map(|kept| kept.seq).collect::<Vec<_>>());
                if kept != std::mem::replace(&mut tidied, kept.clone()) {
                    self.forget_vanished().await;
                }
            }
            let pause = self.shared.copies.client.jittered(Duration::from_secs(5));
            // Those in turn have their jitter.
            let pause = retries.rests(self.shared.clock.now_wall()).map_or(pause, |rests| rests.min(pause));
            let _ = tokio::time::timeout(pause, swaps.changed()).await;
        }
    }

    async fn forget_vanished(&self) {
        let details = self.shared.details.clone();
        if let Err(error) = blocking(move || details.forget_vanished()).await {
            tracing::warn!(%error, "details of listings that vanished could not be removed");
        }
    }

    /// Fetches these, several at once; stops early when another data set is served, the disk takes no more, or all
    /// details fail.
    async fn fetch_all(&self, dataset: &Arc<Dataset>, ids: Vec<ListingId>, class: Class, retries: &mut Retries) {
        // With six of the crawl, six of the examiner and one of the sweep, the mirror has 21 requests on the wire at worst.
        const AT_ONCE: usize = 8;
        const PATIENCE: Duration = Duration::from_secs(10);
        // What has failed before says nothing of the origin.
        let known: HashSet<ListingId> = ids.iter().copied().filter(|id| retries.has_failed(*id)).collect();
        // Relaxed, below: all of it runs in one task.
        let (is_full, all_fail) = (AtomicBool::new(false), AtomicBool::new(false));
        let goes_on = || {
            let is_served = self.shared.newest.get().as_ref().is_some_and(|now| Arc::ptr_eq(&now.dataset, dataset));
            is_served && !is_full.load(Ordering::Relaxed) && !all_fail.load(Ordering::Relaxed)
        };
        let mut fetches = futures_util::stream::iter(ids)
            .take_while(|_| std::future::ready(goes_on()))
            .map(async |id| {
                if !self.shared.details.room(PATIENCE).await {
                    is_full.store(true, Ordering::Relaxed);
                    return None;
                }
                let MirrorContext { copies, details, .. } = &self.shared;
                let (summary, volatile) = (dataset.summary(id)?, copies.volatile());
                let asker = Asker { is_example: known.contains(&id), ..Asker::mirror(class) };
                Some((summary, details.fetch(&copies.client, &volatile, summary, asker).await))
            })
            .buffer_unordered(AT_ONCE);
        while let Some(fetched) = fetches.next().await {
            match fetched {
                None => {}
                Some((summary, Ok(_))) => {
                    retries.came(summary.id, summary.hash, self.shared.details.is_unsettled(dataset, summary.id));
                }
                Some((summary, Err(error))) => {
                    self.note_failure(summary.id, &error, retries);
                    all_fail.store(retries.rests(self.shared.clock.now_wall()).is_some(), Ordering::Relaxed);
                }
            }
        }
    }

    fn note_failure(&self, id: ListingId, error: &CopyError, retries: &mut Retries) {
        let now = self.shared.clock.now_wall();
        let longest = self.shared.settings.load().ttl.min(Duration::from_secs(60));
        tracing::debug!(%id, %error, "detail not fetched");
        retries.failed(id, error.to_string(), now, longest, |pause| self.shared.copies.client.jittered(pause));
        let CopyError::Ask(error) = error else { return };
        if error.wants_no_pause() {
            retries.hurry(id, now);
        }
    }
}
