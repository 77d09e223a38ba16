//! Publication: durable, indexed, swapped; or held back when too much vanished.
//!
//! Callers: [`super`].

use std::sync::Arc;

use crate::clock::WallTime;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::live::Published;
use crate::snapshot::version::{Certificate, VersionMeta};
use crate::store::{Store, StoreError};

use super::super::pass::{self, Assembled};
use super::super::refresh::shrank_too_much;
use super::super::status::Held;
use super::{Mirror, MirrorError, blocking};

impl Mirror {
    /// Makes content durable and serves it, unless it lost too much.
    pub(super) async fn publish(
        &mut self,
        assembled: Assembled,
        certificate: Certificate,
        until_ms: i64,
        open_points: Vec<String>,
    ) -> Result<(), MirrorError> {
        let dataset = self.index(assembled.content).await?;
        let serving = self.live.current();
        if let Some(serving) = &serving
            && self.hold_back(serving, &dataset)
        {
            return Ok(());
        }
        let before = serving.as_ref().map_or(i64::MIN, |serving| serving.meta.confirmed_ms);
        let unchanged = serving.as_ref().is_some_and(|serving| serving.dataset.id == dataset.id);
        for field in &assembled.left_out {
            tracing::warn!(field, "an envelope field differs between the pages of one crawl; it is left out");
        }
        let disproved = serving.as_ref().and_then(|serving| serving.meta.disproved.clone());
        let now = self.clock.now_wall().as_millis();
        let published_ms = serving.filter(|_| unchanged).map_or(now, |serving| serving.meta.published_ms);
        let meta = VersionMeta {
            certificate,
            // Never backwards for the same data; other data is confirmed for its own instant.
            confirmed_ms: if unchanged { until_ms.max(before) } else { until_ms },
            published_ms,
            volatile: self.volatile(),
            volatile_values: assembled.volatile_values,
            left_out: assembled.left_out,
            open_points,
            disproved,
        };
        let (store, kept, keep) = (self.store.clone(), meta.clone(), self.rhythm.keep);
        let dataset = Arc::new(dataset);
        let content = dataset.clone();
        let version = blocking(move || {
            let version = store.publish(&content.content, &kept)?;
            let mut versions: Vec<u64> = store.versions()?.iter().map(|(version, _)| version.seq).collect();
            versions.sort_unstable();
            let newest = versions.split_off(versions.len().saturating_sub(keep.max(1)));
            let pages = pass::pages(content.len() as u64);
            let tidied = store.collect_garbage(&newest).map(drop).and_then(|()| forget_copies(&store, pages, now));
            if let Err(error) = tidied {
                tracing::warn!(%error, "what is no longer needed could not be removed");
            }
            Ok(version.seq)
        })
        .await?;
        tracing::info!(
            snapshot = %dataset.id,
            listings = dataset.len(),
            certificate = certificate.as_str(),
            confirmed = %WallTime::from_millis(meta.confirmed_ms).rfc3339(),
            "published"
        );
        self.live.swap(dataset, meta, version);
        Ok(())
    }

    fn hold_back(&mut self, serving: &Published, next: &Dataset) -> bool {
        let (now, then) = (serving.dataset.len(), next.len());
        if !shrank_too_much(now, then, self.rhythm.max_shrink) {
            self.status.set_held(None);
            self.accept = false;
            return false;
        }
        if std::mem::take(&mut self.accept) {
            tracing::warn!(now, then, "a snapshot that lost many listings was accepted");
            self.status.set_held(None);
            return false;
        }
        let reason = format!(
            "{} of {now} listings would vanish, more than mirror.max_shrink = {} allows; if that is right, accept it \
             with POST /snapshots/accept",
            now - then,
            self.rhythm.max_shrink
        );
        tracing::warn!(reason, "held back");
        let snapshot = next.id.to_string();
        self.status.set_held(Some(Held { snapshot, listings: then as u64, serving: now as u64, reason }));
        true
    }
}

/// Removes copies that nobody will ask for again: pages beyond the last, and probes of earlier snapshots.
fn forget_copies(store: &Store, pages: u64, now_ms: i64) -> Result<(), StoreError> {
    const DAY_MS: i64 = 86_400_000;
    let useless = store.copy_metas()?.into_iter().filter(|(path, meta)| {
        let beyond = pass::page_of(path).is_some_and(|page| page > pages);
        beyond || (path.contains("modified_since=") && now_ms - meta.fetched_ms > DAY_MS)
    });
    store.remove_copies(&useless.map(|(path, _)| path).collect::<Vec<_>>())
}
