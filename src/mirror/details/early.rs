//! Details that clients read before the first snapshot: kept for it, so that they are not fetched again.
//!
//! Such a detail has the hash of no summary. The first snapshot with the listing adopts it, unless it is older than the
//! summary, or may be a copy that is. Callers: [`super::super::early_copies`] offers, [`super::worker`] adopts.

use std::time::Duration;

use crate::api::json;
use crate::api::listing::ListingId;
use crate::api::taxonomy::VolatileKeys;
use crate::snapshot::dataset::Dataset;
use crate::store::{DetailMeta, DetailRecord, DetailState};
use crate::upstream::client::Answer;
use crate::upstream::stamps::{Place, StampWatch};

use super::index::{Known, no_summary};
use super::{Details, proof, provisional};

/// Most details kept before the first snapshot: bounds the cost of answers to unknown ids.
const MOST: usize = 10_000;

impl Details {
    /// Keeps a detail that was read before its listing was known; a known detail is not replaced.
    pub fn offer(&self, id: ListingId, answer: &Answer, stamps: &StampWatch) {
        let Ok(text) = std::str::from_utf8(&answer.body) else { return };
        if answer.status != 200 || json::check_detail(text).is_err() || self.0.arrivals.is_backed_up() {
            return;
        }
        let _judging = self.0.judging.lock();
        let has_room = {
            let index = self.0.index.read();
            index.get(id).is_none() && index.offered() < MOST
        };
        if !has_room {
            return;
        }
        let validators = answer.validators();
        let meta = DetailMeta {
            state: DetailState::Present,
            etag: validators.etag,
            last_modified: validators.last_modified,
            origin_time_ms: stamps.date(Place::Details, answer, Some(text), None).until_ms,
            fetched_ms: answer.received.as_millis(),
            summary_hash: no_summary(),
            hash: VolatileKeys::default().hash(text),
        };
        self.put(id, DetailRecord { meta, body: answer.body.clone() }, None);
    }

    /// Adopts the details offered for listings of a data set.
    pub(super) fn adopt(&self, dataset: &Dataset, cache_ttl: Duration) {
        if self.0.index.read().offered() == 0 {
            return;
        }
        let mut listed = Vec::new();
        self.look_through(dataset, false, |position, summary, known| {
            let is_proven = |known: &Known| {
                let is_young = proof::is_young(dataset.modified_at(position), known.fetched_ms, cache_ttl);
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
        let known = Known { summary_hash: no_summary(), origin_time_ms: 0, fetched_ms: 0 };
        *details.0.index.write() = (1..=MOST as u64).map(|id| (ListingId(id), known)).collect();
        details.offer(ListingId(1_000_000), &answer, &watch);
        assert!(details.get(ListingId(1_000_000)).unwrap().is_none());
        // One of them has been listed since.
        let listed = Known { summary_hash: ContentHash::of(b"listed"), ..known };
        details.0.index.write().insert(ListingId(1), listed, None);
        details.offer(ListingId(1_000_000), &answer, &watch);
        assert!(details.get(ListingId(1_000_000)).unwrap().is_some());
    }
}
