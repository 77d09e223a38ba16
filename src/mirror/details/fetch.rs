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
use crate::mirror::copies::{CopyError, DATE_GRAIN_MS};
use crate::semantics::freshness;
use crate::store::{DetailMeta, DetailRecord, DetailState};
use crate::tasks::blocking;
use crate::upstream::client::{Answer, AskError, Asker, OriginClient, Validators};
use crate::upstream::stamps::{Before, Place, StampWatch, stamp};

use super::Details;
use super::proof::{self, Given, Question, Stored, Verdict};

/// Listings whose detail is here but was answered 404 the last time: at most as many as there are details.
#[derive(Default)]
pub(super) struct Absences(Mutex<HashSet<ListingId>>);

impl Absences {
    /// Remembers a 404; `true` when it is not the first since the last answer.
    fn again(&self, id: ListingId) -> bool {
        !self.0.lock().insert(id)
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
        let text = match answer.status {
            200 => Some(checked(path, &answer.body)?),
            304 if before.is_some() => None,
            404 | 410 => None,
            status => return Err(AskError::nonsense(path, format!("status {status}")).into()),
        };
        let hash = text.map(|text| volatile.hash(text));
        let look = self.look(&answer, before.as_ref(), text.zip(hash), summary, stamps);
        let record = match (text, hash, before) {
            (None, _, Some(record)) if answer.status == 304 => Self::seen_again(record, look),
            (Some(_), Some(hash), before) => match before {
                // An older copy never replaces a newer one.
                Some(record) if record.meta.state == DetailState::Present && record.meta.hash == hash => {
                    let mut record = Self::seen_again(record, look);
                    // Equal but for volatile fields.
                    (record.meta.etag, record.meta.last_modified) = (fresh.etag, fresh.last_modified);
                    record.body = answer.body;
                    record
                }
                Some(record) if look.verdict == Verdict::Older || look.claimed_ms < record.meta.origin_time_ms => {
                    Self::seen_again(record, Look { proves: None, ..look })
                }
                _ => {
                    let (etag, last_modified) = (fresh.etag, fresh.last_modified);
                    let (state, origin_time_ms) = (DetailState::Present, look.until_ms);
                    let summary_hash = look.proves.unwrap_or(summary.hash);
                    let meta =
                        DetailMeta { state, etag, last_modified, origin_time_ms, fetched_ms, summary_hash, hash };
                    DetailRecord { meta, body: answer.body }
                }
            },
            // A 404 older than the record, or the first in a while, deletes nothing.
            (_, _, Some(mut record))
                if record.meta.state == DetailState::Present
                    && (look.claimed_ms < record.meta.origin_time_ms || !self.0.absences.again(summary.id)) =>
            {
                record.meta.fetched_ms = fetched_ms;
                let is_absent = self.0.absences.0.lock().contains(&summary.id);
                self.put(summary.id, record.clone(), shown.as_ref());
                if is_absent {
                    self.0.absences.0.lock().insert(summary.id);
                }
                return Ok(record);
            }
            _ => {
                let meta = DetailMeta {
                    state: DetailState::Gone,
                    etag: None,
                    last_modified: None,
                    origin_time_ms: look.until_ms,
                    fetched_ms,
                    summary_hash: look.proves.unwrap_or(summary.hash),
                    hash: ContentHash::default(),
                };
                DetailRecord { meta, body: Bytes::new() }
            }
        };
        self.put(summary.id, record.clone(), shown.as_ref());
        Ok(record)
    }

    /// What an answer says of a detail; `new`: its body and the hash of that.
    fn look(
        &self,
        answer: &Answer,
        before: Option<&DetailRecord>,
        new: Option<(&str, ContentHash)>,
        summary: &Summary,
        stamps: &StampWatch,
    ) -> Look {
        let kept = before.filter(|record| record.meta.state == DetailState::Present);
        let kept_text = kept.and_then(|record| std::str::from_utf8(&record.body).ok());
        let compared = kept.zip(new).map(|(record, (_, hash))| Before {
            stamp: kept_text.and_then(stamp),
            changed: record.meta.hash != hash,
            // Each detail has its own stamp, and is checked too seldom for a run.
            counts: false,
            fetched_ms: record.meta.fetched_ms,
        });
        let dated = stamps.date(Place::Details, answer, new.map(|(text, _)| text), compared);
        let stored = before.map(|DetailRecord { meta, .. }| Stored {
            summary_hash: meta.summary_hash,
            fetched_ms: meta.fetched_ms,
            body: kept_text,
        });
        let (modified, cache_ttl) = (self.modified(summary), stamps.cache_ttl());
        let question = Question { summary: summary.hash, modified, before: stored, cache_ttl };
        let fetched_ms = answer.received.as_millis();
        let given = Given {
            body: new.map(|(text, _)| text).filter(|_| compared.is_none_or(|compared| compared.changed)),
            received_ms: fetched_ms,
            claimed_ms: dated.claimed_ms.saturating_add(answer.lag_ms.max(0)),
            may_be_a_silent_copy: stamps.may_be_silent(answer),
        };
        let verdict = question.judge(&given);
        let names = given.body.is_some_and(|body| question.naming(body).is_some());
        if verdict == Verdict::Older || (names && question.is_second_look(&given)) {
            stamps.saw_silent_copy(Place::Details);
        }
        // A body that names a change was made after it.
        let named_ms = modified.filter(|_| names).map_or(i64::MIN, |modified| modified.div_euclid(1_000_000));
        let noticed_ms = self.0.newest.load().as_ref().map_or(i64::MIN, |newest| newest.meta.published_ms);
        // What claims no age of its own is judged by the time that has passed.
        let is_after_the_news =
            given.may_be_a_silent_copy || given.claimed_ms + 2 * DATE_GRAIN_MS >= noticed_ms.min(fetched_ms);
        Look {
            until_ms: dated.until_ms.max(named_ms.min(dated.claimed_ms)),
            claimed_ms: dated.claimed_ms,
            fetched_ms,
            verdict,
            proves: match verdict {
                Verdict::Proven => Some(summary.hash),
                Verdict::AskAgain => Some(proof::asked_once(summary.hash)),
                Verdict::Older => None,
            },
            is_after_the_news,
        }
    }

    /// `modified` of a summary in nanoseconds, if the newest snapshot has that summary.
    fn modified(&self, summary: &Summary) -> Option<i64> {
        let newest = self.0.newest.load();
        let dataset = &newest.as_ref()?.dataset;
        let is_its = dataset.summary(summary.id).is_some_and(|known| known.hash == summary.hash);
        dataset.modified_of(summary.id).filter(|_| is_its)
    }

    /// A record that an answer did not change. If its summary changed, an answer from before we saw that change proves
    /// nothing: it may be an old copy of the CDN, and is fetched again.
    fn seen_again(mut record: DetailRecord, look: Look) -> DetailRecord {
        let meta = &mut record.meta;
        if look.is_after_the_news {
            meta.summary_hash = look.proves.unwrap_or(meta.summary_hash);
        }
        meta.origin_time_ms = look.until_ms.max(meta.origin_time_ms);
        meta.fetched_ms = look.fetched_ms;
        record
    }
}

/// What an answer says of a detail; instants in milliseconds of the origin's time.
#[derive(Clone, Copy)]
struct Look {
    /// For which it confirms.
    until_ms: i64,
    /// For which it claims to be made.
    claimed_ms: i64,
    /// When it arrived, by our clock.
    fetched_ms: i64,
    verdict: Verdict,
    /// The new summary hash; `None`: it proves nothing.
    proves: Option<ContentHash>,
    /// Whether it is from after the summary's change was seen, as far as it claims.
    is_after_the_news: bool,
}

/// The text of a body, if it is a detail.
fn checked<'a>(path: &str, body: &'a Bytes) -> Result<&'a str, AskError> {
    let text = std::str::from_utf8(body).map_err(|error| AskError::nonsense(path, error))?;
    json::check_detail(text).map_err(|error| AskError::nonsense(path, error))?;
    Ok(text)
}
