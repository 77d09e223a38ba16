//! Publishes a list, or holds it back if it lost too many listings.
//!
//! Callers: [`super`] and its parts.

use crate::clock::WallTime;
use crate::snapshot::meta::{Certificate, SnapshotMeta};
use crate::store::{States, Store, StoreError};

use super::super::pass::{self, Assembled};
use super::candidate::IndexedList;
use super::shrink::{Prepared, ShrinkGuard};
use super::{DAY_MS, Mirror, MirrorError, blocking};

/// How sure we are of a list.
pub(super) struct Proof {
    pub(super) certificate: Certificate,
    /// The latest instant for which it is confirmed, in milliseconds of the origin's time.
    pub(super) until_ms: i64,
    /// What is still open, for people.
    pub(super) open_points: Vec<String>,
}

impl Proof {
    pub(super) const fn of(certificate: Certificate, until_ms: i64) -> Self {
        Self { certificate, until_ms, open_points: Vec::new() }
    }

    /// For a list that never held still: best effort.
    pub(super) fn open(point: &str, until_ms: i64) -> Self {
        Self { certificate: Certificate::BestEffort, until_ms, open_points: vec![point.to_owned()] }
    }
}

impl Mirror {
    /// Publishes the pages that were read. A list equal to the newest snapshot is not indexed again.
    pub(super) async fn publish_assembled(&mut self, assembled: Assembled, proof: Proof) -> Result<(), MirrorError> {
        let Assembled { content, left_out, volatile_values } = assembled;
        let list = self.terms.index_news(content, self.newest.get()).await?;
        self.publish(IndexedList { list, left_out, volatile_values }, proof).await
    }

    /// Publishes a list, unless it lost too many listings.
    pub(super) async fn publish(&mut self, indexed: IndexedList, proof: Proof) -> Result<(), MirrorError> {
        let IndexedList { list, left_out, volatile_values } = indexed;
        let Proof { certificate, until_ms, open_points } = proof;
        let newest = self.newest.get();
        for field in &left_out {
            tracing::warn!(field, "a field beside the items differs between the pages of one crawl; it is left out");
        }
        let now = self.clock.now_wall();
        let same = newest.as_ref().filter(|newest| newest.dataset.id == list.dataset.id);
        let confirmed = same.filter(|newest| !newest.is_unconfirmed(now));
        let now_ms = now.as_millis();
        // Never backwards for the same data; other data is confirmed for its own instant.
        let before = confirmed.map_or(i64::MIN, |newest| newest.meta.confirmed_ms).min(now_ms);
        let meta = SnapshotMeta {
            // A later refresh proves less of its instant than the pass of its own.
            certificate: if certificate == Certificate::Full && before > until_ms {
                Certificate::Incremental
            } else {
                certificate
            },
            confirmed_ms: until_ms.max(before),
            claimed_ms: None,
            published_ms: same.map_or(now_ms, |newest| newest.meta.published_ms),
            volatile: self.volatile(),
            volatile_values,
            left_out,
            open_points,
            disproved: newest.as_ref().and_then(|newest| newest.meta.disproved.clone()),
            proved: newest.as_ref().map(|newest| newest.meta.proved.clone()).unwrap_or_default(),
            suspected: newest.as_ref().map(|newest| newest.meta.suspected.clone()).unwrap_or_default(),
            asked_ms: newest.as_ref().map_or(0, |newest| newest.meta.asked_ms),
            origin: Some(self.crawler.client().base().as_str().to_owned()),
        };
        if let Some(newest) = &newest {
            self.order.compare(&newest.dataset, &list.dataset).await?;
        }
        let next = Prepared { list, meta };
        match self.shrink.judge(newest.as_deref(), &next, self.clock.now_wall().as_millis())? {
            Some(sizes) => self.switch_to(next, sizes).await,
            None => Ok(()),
        }
    }

    /// Publishes a list that was held back and accepted.
    pub(super) async fn publish_held(&mut self, held: Prepared) -> Result<(), MirrorError> {
        let sizes = ShrinkGuard::accepted(&held);
        self.switch_to(held, sizes).await
    }

    /// Makes a list the newest snapshot; `sizes` are remembered with it.
    async fn switch_to(&mut self, next: Prepared, sizes: States) -> Result<(), MirrorError> {
        let Prepared { list, meta } = next;
        let dataset = self.terms.caught_up(list, self.newest.get()).await?;
        let now_ms = self.clock.now_wall().as_millis();
        let (published, kept) = (dataset.clone(), meta.clone());
        self.newest.switch(move |snapshots, seen| snapshots.publish(seen, &published, kept, sizes)).await?;
        tracing::info!(
            snapshot = %dataset.id,
            listings = dataset.len(),
            certificate = meta.certificate.as_str(),
            confirmed = %WallTime::from_millis(meta.confirmed_ms),
            "published"
        );
        self.shrink.forget();
        self.order.placed_by(Vec::new());
        self.learning.begin(self.clock.now_mono());
        // This looked at all that a refresh does.
        self.looked();
        let pages = pass::pages(dataset.len() as u64);
        // No client waits for this.
        let snapshots = self.newest.snapshots().clone();
        let tidy = move || snapshots.tidy().and_then(|()| forget_copies(snapshots.store(), pages, now_ms));
        if let Err(error) = blocking(tidy).await {
            tracing::warn!(%error, "data that is no longer needed could not be removed");
        }
        Ok(())
    }
}

/// Removes unused copies: pages beyond the last, and probes of earlier snapshots.
fn forget_copies(store: &Store, pages: u64, now_ms: i64) -> Result<(), StoreError> {
    let useless = store.copy_metas()?.into_iter().filter(|(path, meta)| {
        let beyond = pass::page_of(path).is_some_and(|page| page > pages);
        beyond || (path.contains("modified_since=") && now_ms - meta.fetched_ms > DAY_MS)
    });
    store.remove_copies(&useless.map(|(path, _)| path).collect::<Vec<_>>())
}
