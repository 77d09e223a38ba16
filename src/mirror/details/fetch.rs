//! One request for one detail, and what its answer changes.
//!
//! Callers: [`super::worker`], [`super::once`].

use std::collections::HashSet;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::api::hash::ContentHash;
use crate::api::json;
use crate::api::listing::{ListingId, Summary};
use crate::api::taxonomy::VolatileKeys;
use crate::clock::WallTime;
use crate::mirror::blocking::blocking;
use crate::mirror::copies::{CopyError, DATE_GRAIN_MS};
use crate::semantics::freshness;
use crate::store::{DetailMeta, DetailRecord, DetailState};
use crate::upstream::client::{Answer, AskError, Asker, OriginClient, Validators};
use crate::upstream::stamps::{Before, Place, StampWatch, stamp};

use super::Details;

/// Listings whose detail is here but was answered 404 the last time.
#[derive(Default)]
pub(super) struct Absences(Mutex<HashSet<ListingId>>);

impl Absences {
    /// Remembers a 404; `true` when it is not the first since the last answer.
    fn again(&self, id: ListingId) -> bool {
        const MOST: usize = 10_000;
        let mut absent = self.0.lock();
        if absent.len() >= MOST {
            absent.clear();
        }
        !absent.insert(id)
    }

    /// Forgets the 404.
    pub(super) fn ended(&self, id: ListingId) {
        self.0.lock().remove(&id);
    }
}

impl Details {
    /// Fetches one detail, conditionally if there is one, and stores the answer.
    ///
    /// # Errors
    /// When there is no usable answer; the stored detail stays.
    pub async fn fetch(
        &self,
        client: &OriginClient,
        volatile: &VolatileKeys,
        summary: &Summary,
        asker: Asker,
    ) -> Result<DetailRecord, CopyError> {
        let path = format!("/api/listings/{}.json", summary.id);
        let class = asker.class;
        let before = self.read(summary.id).await?;
        let validators = before.as_ref().filter(|record| record.meta.state == DetailState::Present).map(|record| {
            let (etag, last_modified) = (record.meta.etag.clone(), record.meta.last_modified.clone());
            Validators { etag, last_modified }
        });
        let answer = client.ask(&path, validators.as_ref(), asker).await?;
        let asked_with = before.map(|record| record.meta);
        let (this, stamps) = (self.clone(), client.stamps().clone());
        let (volatile, summary) = (volatile.clone(), summary.clone());
        let taking = move || this.take(&path, asked_with.as_ref(), answer, &volatile, &summary, &stamps);
        blocking(taking).await.inspect_err(|error| {
            if let CopyError::Ask(error) = error {
                client.unusable(error, class);
            }
        })
    }

    /// Judges an answer against the detail known when asking, and stores it. Blocks.
    fn take(
        &self,
        path: &str,
        asked_with: Option<&DetailMeta>,
        answer: Answer,
        volatile: &VolatileKeys,
        summary: &Summary,
        stamps: &StampWatch,
    ) -> Result<DetailRecord, CopyError> {
        let fetched_ms = answer.received.as_millis();
        let fresh = answer.validators();
        // Another answer may have come meanwhile: this one is judged against it, and a 304 to an older question proves
        // nothing.
        let _judging = self.0.judging.lock();
        let before = self.get(summary.id)?;
        if let (304, Some(record)) = (answer.status, &before)
            && asked_with != Some(&record.meta)
        {
            return Ok(record.clone());
        }
        let before = before.map(|mut record| {
            // A stamp from the future (the clock was set back) must not freeze the record.
            if freshness::is_from_the_future(WallTime::from_millis(record.meta.origin_time_ms), answer.received) {
                record.meta.origin_time_ms = 0;
            }
            record
        });
        let shown = before.as_ref().map(|record| record.body.clone());
        let record = match (answer.status, before) {
            (304, Some(record)) => self.seen_again(record, summary, answer.sent().as_millis(), fetched_ms),
            (200, before) => {
                let text = std::str::from_utf8(&answer.body).map_err(|error| AskError::nonsense(path, error))?;
                json::check_detail(text).map_err(|error| AskError::nonsense(path, error))?;
                let hash = volatile.hash(text);
                let kept = before.as_ref().filter(|record| record.meta.state == DetailState::Present);
                let kept = kept.map(|record| Before {
                    stamp: std::str::from_utf8(&record.body).ok().and_then(stamp),
                    changed: record.meta.hash != hash,
                    // Each detail has its own stamp, and is checked too seldom for a run.
                    counts: false,
                });
                let dated = stamps.date(Place::Details, &answer, Some(text), kept);
                let origin_time_ms = dated.until_ms;
                match before {
                    // An older copy never replaces a newer one.
                    Some(record) if record.meta.state == DetailState::Present && record.meta.hash == hash => {
                        let mut record = self.seen_again(record, summary, origin_time_ms, fetched_ms);
                        // Equal but for volatile fields.
                        (record.meta.etag, record.meta.last_modified) = (fresh.etag, fresh.last_modified);
                        record.body = answer.body;
                        record
                    }
                    Some(record) if origin_time_ms < record.meta.origin_time_ms => {
                        self.seen_again(record, summary, origin_time_ms, fetched_ms)
                    }
                    _ => {
                        let (etag, last_modified) = (fresh.etag, fresh.last_modified);
                        let (state, summary_hash) = (DetailState::Present, summary.hash);
                        let meta =
                            DetailMeta { state, etag, last_modified, origin_time_ms, fetched_ms, summary_hash, hash };
                        DetailRecord { meta, body: answer.body }
                    }
                }
            }
            // A 404 older than the record, or the first in a while, deletes nothing.
            (404 | 410, Some(mut record))
                if record.meta.state == DetailState::Present
                    && (answer.sent().as_millis() < record.meta.origin_time_ms
                        || !self.0.absences.again(summary.id)) =>
            {
                record.meta.fetched_ms = fetched_ms;
                let is_absent = self.0.absences.0.lock().contains(&summary.id);
                self.put(summary.id, record.clone(), shown.as_ref());
                if is_absent {
                    self.0.absences.0.lock().insert(summary.id);
                }
                return Ok(record);
            }
            (404 | 410, _) => {
                let meta = DetailMeta {
                    state: DetailState::Gone,
                    etag: None,
                    last_modified: None,
                    origin_time_ms: answer.sent().as_millis(),
                    fetched_ms,
                    summary_hash: summary.hash,
                    hash: ContentHash::default(),
                };
                DetailRecord { meta, body: Bytes::new() }
            }
            (status, _) => return Err(AskError::nonsense(path, format!("status {status}")).into()),
        };
        self.put(summary.id, record.clone(), shown.as_ref());
        Ok(record)
    }

    /// A record that an answer did not change. If its summary changed, an answer from before we saw that change proves
    /// nothing: it may be an old copy of the CDN, and is fetched again.
    fn seen_again(&self, mut record: DetailRecord, summary: &Summary, at_ms: i64, fetched_ms: i64) -> DetailRecord {
        let meta = &mut record.meta;
        let noticed_ms = self.0.newest.load().as_ref().map_or(i64::MIN, |newest| newest.meta.published_ms);
        let noticed_ms = noticed_ms.min(fetched_ms);
        if at_ms + 2 * DATE_GRAIN_MS >= noticed_ms {
            meta.summary_hash = summary.hash;
        }
        meta.origin_time_ms = at_ms.max(meta.origin_time_ms);
        meta.fetched_ms = fetched_ms;
        record
    }
}
