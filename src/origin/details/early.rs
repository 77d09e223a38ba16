//! Details that clients read before there is a snapshot: kept for it, so that the origin is not asked for them again.
//!
//! Such a detail was fetched for no summary, which is said by a hash that no summary has; the first snapshot that has
//! the listing adopts it, if it is no older than the summary. Callers: [`super::super::early`] offers,
//! [`super::worker`] adopts.

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::taxonomy::VolatileKeys;
use crate::origin::client::Answer;
use crate::origin::copies::generated_at;
use crate::snapshot::dataset::Dataset;
use crate::store::{DetailMeta, DetailRecord, DetailState};

use super::{Details, Known, provisional};

/// How many are kept at most until there is a snapshot: unknown ids that the origin answers all the same cost no more.
const MOST: usize = 10_000;

/// What stands for the summary of a detail that was fetched for none.
fn no_summary() -> ContentHash {
    ContentHash::default()
}

impl Details {
    /// Keeps a detail that was read before it was known that there is such a listing; one that is known already is not
    /// replaced. The body has been found to be JSON.
    pub fn offer(&self, id: ListingId, answer: &Answer) {
        let Ok(text) = std::str::from_utf8(&answer.body) else { return };
        if answer.status != 200 || !text.trim_start().starts_with('{') || self.is_backed_up() {
            return;
        }
        let _judging = self.0.judging.lock();
        let has_room = {
            let index = self.0.index.read();
            let offered = || index.values().filter(|known| known.summary_hash == no_summary()).count();
            !index.contains_key(&id) && (index.len() < MOST || offered() < MOST)
        };
        if !has_room {
            return;
        }
        let validators = answer.validators();
        let meta = DetailMeta {
            state: DetailState::Present,
            etag: validators.etag,
            last_modified: validators.last_modified,
            origin_time_ms: answer.time(generated_at(text).as_deref()).at().as_millis(),
            fetched_ms: answer.received.as_millis(),
            summary_hash: no_summary(),
            hash: VolatileKeys::default().hash(text),
        };
        self.put(id, DetailRecord { meta, body: answer.body.clone() }, None);
    }

    /// Takes what was offered for the listings of a data set.
    pub(super) fn adopt(&self, dataset: &Dataset) {
        let offered = |known: &Known| known.summary_hash == no_summary();
        let listed: Vec<_> = {
            let index = self.0.index.read();
            let all = dataset.content.summaries.iter();
            let offered = all.filter(|summary| index.get(&summary.id).is_some_and(offered));
            offered
                .filter(|summary| index.get(&summary.id).is_some_and(|known| !provisional(known, dataset, summary.id)))
                .collect()
        };
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
    use crate::cache::Cache;
    use crate::clock::WallTime;
    use crate::semantics::freshness::Stamps;
    use crate::snapshot::live::Live;
    use crate::store::{DataDir, Store};

    #[test]
    fn no_more_details_are_offered_than_may_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&DataDir::open(dir.path()).unwrap()).unwrap());
        let details = Details::open(store, Cache::new(1 << 20), Live::default()).unwrap();
        let now = WallTime::from_seconds(1_000_000);
        let stamps = Stamps { date: None, age: None, generated_at: None };
        let (headers, body) = (HeaderMap::new(), Bytes::from_static(b"{}"));
        let answer = Answer { status: 200, headers, body, stamps, asked: now, received: now };
        let known = Known { summary_hash: no_summary(), origin_time_ms: 0, fetched_ms: 0 };
        details.0.index.write().extend((1..=MOST as u64).map(|id| (ListingId(id), known)));
        details.offer(ListingId(1_000_000), &answer);
        assert!(details.get(ListingId(1_000_000)).unwrap().is_none());
        // One of them has been listed since.
        details.0.index.write().get_mut(&ListingId(1)).unwrap().summary_hash = ContentHash::of(b"listed");
        details.offer(ListingId(1_000_000), &answer);
        assert!(details.get(ListingId(1_000_000)).unwrap().is_some());
    }
}
