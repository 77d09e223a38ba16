//! What clients read before the first snapshot: kept for it, so that it is not fetched again.
//!
//! Does nothing once there is a snapshot: then only the mirror decides what to fetch. A detail has the hash of no summary
//! until the first snapshot with the listing adopts it, unless it is older than the summary, or may be a copy that is.
//! Callers: [`crate::proxy`] offers, [`super::worker`] adopts.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::api::json;
use crate::api::listing::ListingId;
use crate::api::page::Page;
use crate::api::route::Route;
use crate::api::taxonomy::VolatileKeys;
use crate::mirror::{MirrorContext, pass};
use crate::snapshot::dataset::Dataset;
use crate::store::{DetailMeta, DetailRecord, DetailState};
use crate::upstream::client::{Answer, Validators};
use crate::upstream::stamps::{Place, StampWatch};

use super::fetch::is_young;
use super::index::{KnownDetail, no_summary};
use super::{Details, provisional};

fn has_listings(body: &Bytes) -> bool {
    Page::parse(body, &VolatileKeys::default()).is_ok_and(|page| !page.items.is_empty())
}

/// How long an answer waits to be stored; it is stored later anyway. Another write may take long.
const PATIENCE: Duration = Duration::from_millis(250);

/// Keeps them; cheap to clone.
#[derive(Clone)]
pub struct EarlyCopies(pub MirrorContext);

impl EarlyCopies {
    /// Keeps an answer to a canonical path and query, if the mirror would fetch it.
    pub async fn offer(&self, path: &str, answer: &Answer) {
        if answer.status != 200 || self.0.newest.load().is_some() {
            return;
        }
        let (early, path, answer) = (self.clone(), path.to_owned(), answer.clone());
        let keeping = tokio::task::spawn_blocking(move || early.keep(&path, &answer));
        let _ = timeout(PATIENCE, keeping).await;
    }

    fn keep(&self, path: &str, answer: &Answer) {
        let kept = match Route::of(path.split('?').next().unwrap_or(path)) {
            Route::Detail(id) => {
                self.0.details.offer(id, answer, self.0.copies.client.stamps());
                Ok(())
            }
            Route::Taxonomy(_) => self.0.copies.offer(path, answer),
            // Clients may request any page.
            Route::List if pass::page_of(path).is_some() && has_listings(&answer.body) => {
                self.0.copies.offer(path, answer)
            }
            _ => Ok(()),
        };
        if let Err(error) = kept {
            tracing::debug!(path, %error, "an answer to a client is not used for the snapshot");
        }
    }
}

/// Most details kept before the first snapshot: bounds the cost of answers to unknown ids.
const MOST: usize = 10_000;

impl Details {
    /// Keeps a detail that was read before its listing was known; a known detail is not replaced.
    fn offer(&self, id: ListingId, answer: &Answer, stamps: &StampWatch) {
        let Ok(text) = std::str::from_utf8(&answer.body) else { return };
        if answer.status != 200 || json::check_detail(text).is_err() || self.0.arrivals.is_backed_up() {
            return;
        }
        let _judging = self.0.judging.lock();
        let is_full = self.0.index.read().offered >= MOST;
        if is_full || self.holds(id) {
            return;
        }
        let Validators { etag, last_modified } = answer.validators();
        let meta = DetailMeta {
            state: DetailState::Present,
            etag,
            last_modified,
            origin_time_ms: stamps.date(Place::Details, answer, Some(text), None).until_ms,
            fetched_ms: answer.received.as_millis(),
            summary_hash: no_summary(),
            hash: VolatileKeys::default().hash(text),
        };
        self.put(id, DetailRecord { meta, body: answer.body.clone() }, None);
    }

    /// Adopts the details offered for listings of a data set.
    pub(super) fn adopt(&self, dataset: &Dataset, cache_ttl: Duration) {
        if self.0.index.read().offered == 0 {
            return;
        }
        let mut listed = Vec::new();
        self.look_through(dataset, false, |position, summary, known| {
            let is_proven = |known: &KnownDetail| {
                let is_young = is_young(dataset.modified_at(position), known.fetched_ms, cache_ttl);
                !is_young && !provisional(known, dataset, position)
            };
            if known.is_some_and(|known| known.is_offered() && is_proven(known)) {
                listed.push(summary.clone());
            }
        });
        for summary in listed {
            let _judging = self.0.judging.lock();
            if let Ok(Some(mut record)) = self.get(summary.id)
                && record.meta.summary_hash == no_summary()
            {
                record.meta.summary_hash = summary.hash;
                self.put(summary.id, record, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::api::hash::ContentHash;
    use crate::cache::Cache;
    use crate::clock::WallTime;
    use crate::semantics::freshness::Stamps;
    use crate::snapshot::pointer::SnapshotPointer;
    use crate::store::{DataDir, Store};
    use crate::upstream::status::OriginStatus;

    #[test]
    fn no_more_details_are_offered_than_may_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
        let details = Details::open(store, Cache::new(1 << 20), SnapshotPointer::default()).unwrap();
        let now = WallTime::from_seconds(1_000_000);
        let stamps = Stamps { date: None, age: None };
        let (headers, body) = (HeaderMap::new(), Bytes::from_static(b"{}"));
        let answer =
            Answer { status: 200, headers, body, stamps, asked: now, received: now, lag_ms: 0, room: Arc::default() };
        let watch = StampWatch::new(OriginStatus::default(), Duration::ZERO);
        let known = KnownDetail { summary_hash: no_summary(), origin_time_ms: 0, fetched_ms: 0 };
        *details.0.index.write() = (1..=MOST as u64).map(|id| (ListingId(id), (known, DetailState::Present))).collect();
        details.offer(ListingId(1_000_000), &answer, &watch);
        assert!(details.get(ListingId(1_000_000)).unwrap().is_none());
        // One of them has been listed since.
        let listed = KnownDetail { summary_hash: ContentHash::of(b"listed"), ..known };
        details.0.index.write().insert(ListingId(1), listed, DetailState::Present, None);
        details.offer(ListingId(1_000_000), &answer, &watch);
        assert!(details.get(ListingId(1_000_000)).unwrap().is_some());
    }
}
