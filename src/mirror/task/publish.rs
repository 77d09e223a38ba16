//! Publication: durable, indexed, swapped; or held back when too much vanished.
//!
//! Callers: [`super`].

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::listing::{ListingId, Summary};
use crate::clock::WallTime;
use crate::snapshot::content::Content;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::live::Published;
use crate::snapshot::version::{Certificate, VersionMeta};
use crate::store::{States, Store, StoreError};
use crate::versions::SIZES;

use super::super::pass::{self, Assembled};
use super::super::refresh::shrank_too_much;
use super::{Listed, Mirror, MirrorError, Newest, blocking};
use crate::upstream::status::Held;

/// Where the disproved orders are kept in the store.
const ORDERS: &str = "orders";

const DAY_MS: i64 = 86_400_000;

impl Mirror {
    /// Publishes what was read. Where that is what is served already, there is nothing to index again.
    pub(super) async fn publish_assembled(
        &mut self,
        assembled: Assembled,
        certificate: Certificate,
        until_ms: i64,
        open_points: Vec<String>,
    ) -> Result<(), MirrorError> {
        let Assembled { content, left_out, volatile_values } = assembled;
        let served = self.live.load().as_ref().map(|live| live.dataset.clone());
        let dataset = match served.filter(|served| served.id == content.id()) {
            Some(served) => served,
            None => Arc::new(self.index(content).await?),
        };
        let listed = Listed { dataset, learned: self.learned, left_out, volatile_values };
        self.publish(listed, certificate, until_ms, open_points).await
    }

    /// Indexes a list. What is served already is not read again.
    pub(super) async fn index(&self, content: Content) -> Result<Dataset, MirrorError> {
        let (evidence, served) = (self.evidence.clone(), self.live.current());
        let index = move || match served {
            Some(served) => served.dataset.followed_by(content, &evidence),
            None => Dataset::build(content, &evidence),
        };
        blocking(move || Ok(index())).await?.map_err(MirrorError::from)
    }

    /// Makes a list durable and serves it, unless it lost too much.
    pub(super) async fn publish(
        &mut self,
        listed: Listed,
        certificate: Certificate,
        until_ms: i64,
        open_points: Vec<String>,
    ) -> Result<(), MirrorError> {
        let Listed { dataset, learned, left_out, volatile_values } = listed;
        let serving = self.live.current();
        for field in &left_out {
            tracing::warn!(field, "an envelope field differs between the pages of one crawl; it is omitted");
        }
        let now = self.clock.now_wall().as_millis();
        let same = serving.as_ref().filter(|serving| serving.dataset.id == dataset.id);
        let confirmed = same.filter(|serving| !serving.is_unconfirmed(self.clock.now_wall()));
        // Never backwards for the same data; other data is confirmed for its own instant.
        let before = confirmed.map_or(i64::MIN, |serving| serving.meta.confirmed_ms).min(now);
        let meta = VersionMeta {
            // A refresh that came later says less of a later instant than the pass says of its own.
            certificate: if certificate == Certificate::Full && before > until_ms {
                Certificate::Incremental
            } else {
                certificate
            },
            confirmed_ms: until_ms.max(before),
            claimed_ms: None,
            published_ms: same.map_or(now, |serving| serving.meta.published_ms),
            volatile: self.volatile(),
            volatile_values,
            left_out,
            open_points,
            disproved: serving.as_ref().and_then(|serving| serving.meta.disproved.clone()),
            origin: Some(self.crawler.copies().client().base().as_str().to_owned()),
        };
        if let Some(serving) = &serving {
            self.disprove_orders(serving, &dataset).await?;
        }
        let newest = Newest { dataset, learned, meta };
        match self.hold_back(serving.as_deref(), &newest)? {
            Some(sizes) => self.serve(newest, sizes).await,
            None => Ok(()),
        }
    }

    /// Publishes what was held back, because it was accepted.
    pub(super) async fn publish_held(&mut self, held: Newest) -> Result<(), MirrorError> {
        tracing::warn!(listings = held.dataset.len(), "a snapshot that lost many listings was accepted");
        let mut sizes = States::default();
        sizes.remove(SIZES);
        self.serve(held, sizes).await?;
        self.accept = None;
        Ok(())
    }

    /// Publishes; `sizes` are remembered with it.
    async fn serve(&mut self, newest: Newest, sizes: States) -> Result<(), MirrorError> {
        let Newest { dataset, learned, meta } = newest;
        let dataset = self.caught_up(dataset, learned).await?;
        let now = self.clock.now_wall().as_millis();
        let (published, kept) = (dataset.clone(), meta.clone());
        self.switch(move |versions, seen| versions.publish(seen, &published, kept, sizes)).await?;
        tracing::info!(
            snapshot = %dataset.id,
            listings = dataset.len(),
            certificate = meta.certificate.as_str(),
            confirmed = %WallTime::from_millis(meta.confirmed_ms),
            "published"
        );
        self.held = None;
        self.status.set_held(None);
        self.placed_by = Vec::new();
        self.learn_at = Some(self.clock.now_mono());
        // Whatever led to this looked at what a refresh looks at.
        self.looked();
        let pages = pass::pages(dataset.len() as u64);
        // Nobody waits for this.
        let versions = self.versions.clone();
        let tidy = move || versions.tidy().and_then(|()| forget_copies(versions.store(), pages, now));
        if let Err(error) = blocking(tidy).await {
            tracing::warn!(%error, "data that is no longer needed could not be removed");
        }
        Ok(())
    }

    /// The same list with all that is known of its terms by now: some may have been explained while it waited for its
    /// confirmation.
    async fn caught_up(&self, dataset: Arc<Dataset>, learned: usize) -> Result<Arc<Dataset>, MirrorError> {
        let served = self.live.load().as_ref().map(|live| live.dataset.clone());
        match served.filter(|served| served.id == dataset.id) {
            Some(served) => Ok(served),
            None if learned == self.learned => Ok(dataset),
            None => Ok(Arc::new(self.index(dataset.content.clone()).await?)),
        }
    }

    /// Holds back a list from which too much would vanish, compared with what is served and with the last day. Else: what is to
    /// be remembered of its size.
    fn hold_back(&mut self, serving: Option<&Published>, next: &Newest) -> Result<Option<States>, MirrorError> {
        let now_ms = self.clock.now_wall().as_millis();
        let mut sizes = self.sizes(now_ms)?;
        let then = next.dataset.len();
        let largest = sizes.iter().map(|(_, listings)| *listings).max().unwrap_or(0);
        let now = serving.map_or(0, |serving| serving.dataset.len()).max(largest);
        let shrank = serving.is_some() && shrank_too_much(now, then, self.rhythm.max_shrink);
        // What is no smaller than what was accepted is accepted, too: it may have moved on meanwhile.
        let accepted = self.accept.take().is_some_and(|listings| then >= listings);
        if shrank && accepted {
            tracing::warn!(now, then, "a snapshot that lost many listings was accepted");
            sizes.clear();
        } else if shrank {
            let reason = format!(
                "{} of {now} listings would vanish, more than mirror.max_shrink = {} allows within a day; to publish this anyway, run `grandstand snapshot accept`",
                now - then,
                self.rhythm.max_shrink
            );
            tracing::warn!(reason, "a snapshot is held back");
            let snapshot = next.dataset.id.to_string();
            let served = serving.map_or(0, |serving| serving.dataset.len()) as u64;
            self.status.set_held(Some(Held { snapshot, listings: then as u64, serving: served, reason }));
            self.held = Some(next.clone());
            return Ok(None);
        }
        remember(&mut sizes, now_ms, then);
        let text =
            serde_json::to_vec(&sizes).map_err(|error| StoreError::Io { path: SIZES.into(), source: error.into() })?;
        let mut states = States::default();
        states.put(SIZES, text)?;
        Ok(Some(states))
    }

    /// How many listings were published when, within the last day.
    fn sizes(&self, now_ms: i64) -> Result<Vec<(i64, usize)>, MirrorError> {
        let kept = self.store.state(SIZES)?.and_then(|text| serde_json::from_slice(&text).ok());
        let mut sizes: Vec<(i64, usize)> = kept.unwrap_or_default();
        sizes.retain(|(at, _)| (now_ms - DAY_MS..=now_ms).contains(at));
        Ok(sizes)
    }

    /// An order by which listings were placed, and that every page contradicts now, is not believed again.
    async fn disprove_orders(&mut self, serving: &Published, next: &Dataset) -> Result<(), MirrorError> {
        if self.placed_by.is_empty() || serving.dataset.id == next.id || same_order(&serving.dataset, next) {
            return Ok(());
        }
        let orders = self.placed_by.join(", ");
        tracing::warn!(orders, "the origin's order differs from the assumed one; it is not assumed again");
        self.disproved_orders.extend(std::mem::take(&mut self.placed_by));
        self.rules = None;
        let text = serde_json::to_vec(&self.disproved_orders)
            .map_err(|error| StoreError::Io { path: ORDERS.into(), source: error.into() })?;
        let store = self.store.clone();
        blocking(move || store.put_state(ORDERS, &text)).await
    }
}

/// The orders that were disproved before.
pub(super) fn load_orders(store: &Store) -> BTreeSet<String> {
    const MOST: usize = 1000;
    let kept = store.state(ORDERS).ok().flatten().and_then(|text| serde_json::from_slice(&text).ok());
    kept.filter(|orders: &BTreeSet<String>| orders.len() <= MOST).unwrap_or_default()
}

/// Adds a size; of those within one hour the largest is kept.
fn remember(sizes: &mut Vec<(i64, usize)>, now_ms: i64, listings: usize) {
    const HOUR_MS: i64 = 3_600_000;
    match sizes.last_mut() {
        Some((at, largest)) if now_ms - *at < HOUR_MS => *largest = listings.max(*largest),
        _ => sizes.push((now_ms, listings)),
    }
}

/// Whether the listings that both hold unchanged stand in the same order.
fn same_order(one: &Dataset, other: &Dataset) -> bool {
    held(one, other).eq(held(other, one))
}

/// The listings of one that another holds unchanged, in order.
fn held<'a>(all: &'a Dataset, by: &'a Dataset) -> impl Iterator<Item = ListingId> + 'a {
    let known = |summary: &&Summary| by.summary(summary.id).is_some_and(|known| known.hash == summary.hash);
    all.content.summaries.iter().filter(known).map(|summary| summary.id)
}

/// Removes copies that nobody will ask for again: pages beyond the last, and probes of earlier snapshots.
fn forget_copies(store: &Store, pages: u64, now_ms: i64) -> Result<(), StoreError> {
    let useless = store.copy_metas()?.into_iter().filter(|(path, meta)| {
        let beyond = pass::page_of(path).is_some_and(|page| page > pages);
        beyond || (path.contains("modified_since=") && now_ms - meta.fetched_ms > DAY_MS)
    });
    store.remove_copies(&useless.map(|(path, _)| path).collect::<Vec<_>>())
}
