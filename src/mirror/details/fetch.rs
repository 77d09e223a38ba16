//! One request for one detail: what its answer changes, and what it proves about the detail's summary.
//!
//! A cache that sends no `Age` may answer with a copy from before the summary changed, and one that updates in the
//! background wakes up only when it is asked: the first answer after a change proves nothing, however late it comes.
//! One more answer, `origin.cache_ttl` later, does; two where a client's request for a listing that was not known yet left
//! a fresh copy there shortly before, so that the first one woke nothing up. An `Age`, an answer that no cache may store,
//! or a body that names the summary's own `modified` proves at once. Callers: [`super::worker`], [`super::on_demand`].

use std::time::Duration;

use bytes::Bytes;

use crate::api::hash::ContentHash;
use crate::api::listing::Summary;
use crate::api::taxonomy::VolatileKeys;
use crate::api::{json, modified};
use crate::clock::{Monotonic, WallTime};
use crate::data::cache::Key;
use crate::data::details::Details;
use crate::data::store::{DetailMeta, DetailRecord, DetailState};
use crate::mirror::copies::{CopyError, DATE_GRAIN_MS};
use crate::origin::client::{Answer, AskError, Asker, OriginClient, Validators};
use crate::origin::generated_at::{AnswerClass, Before, StampWatch, stamp};
use crate::protocol::freshness;
use crate::tasks::blocking;

/// A new listing's detail was hardly in a cache before, unless the listing is this old or younger.
const YOUNG: Duration = Duration::from_secs(3600);

/// A day, in nanoseconds.
const DAY: i64 = 86_400_000_000_000;

/// What stands as [`crate::data::store::DetailMeta::summary_hash`] of a detail that was asked for this summary once, without
/// proof. It is the hash of no summary, so that the detail does not count as current.
fn asked_once(summary: ContentHash) -> ContentHash {
    ContentHash::from_bytes(summary.to_bytes().map(|byte| !byte))
}

/// The same of one that was asked for while a cache may have had a fresh copy from before, so that another answer is needed.
fn asked_early(summary: ContentHash) -> ContentHash {
    ContentHash::from_bytes(summary.to_bytes().map(|byte| byte.rotate_left(4) ^ 0x5a))
}

/// Whether a [`crate::data::store::DetailMeta::summary_hash`] says that this summary's detail is not proven yet.
pub(crate) fn is_unproven(stored: ContentHash, summary: ContentHash) -> bool {
    [asked_once(summary), asked_early(summary)].contains(&stored)
}

/// A stored detail, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct StoredDetail<'a> {
    summary_hash: ContentHash,
    fetched_ms: i64,
    /// `None`: the origin had none.
    body: Option<&'a str>,
}

/// The question that an answer belongs to.
#[derive(Clone, Copy, Debug)]
struct SummaryQuestion<'a> {
    summary: ContentHash,
    /// `modified` of the summary, in nanoseconds; `None` while unknown.
    modified: Option<i64>,
    before: Option<StoredDetail<'a>>,
    /// Whether it was read through within `cache_ttl`, as that of a listing that is not known.
    read_through: bool,
    cache_ttl: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Given<'a> {
    /// The new body; `None`: a 304, 404 or 410.
    body: Option<&'a str>,
    /// When it arrived, in milliseconds by our clock.
    received_ms: i64,
    /// When it was made as far as it claims, in milliseconds by our clock.
    claimed_ms: i64,
    /// Whether a cache may have kept it without saying so.
    may_be_a_silent_copy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProofVerdict {
    /// It is as new as the summary, as far as anybody can tell.
    Proven,
    /// Perhaps it is from before the summary changed.
    AskAgain,
    /// It is an older copy than the stored one.
    Older,
}

impl SummaryQuestion<'_> {
    /// Judges an answer that dates itself by `Age`, or by nothing at all.
    fn judge(&self, given: &Given<'_>) -> ProofVerdict {
        let known = self.before.and_then(|before| before.body).and_then(|body| self.naming(body));
        let new = given.body.filter(|_| given.may_be_a_silent_copy);
        if let (Some(key), Some(new)) = (&known, new) {
            let named = json::fields(new).ok().and_then(|fields| {
                let field = fields.into_iter().find(|field| field.key == **key)?;
                instant(field.value)
            });
            if named.zip(self.modified).is_some_and(|(named, modified)| named < modified) {
                return ProofVerdict::Older;
            }
        }
        let names_news = known.is_none() && new.is_some_and(|body| self.naming(body).is_some());
        if !given.may_be_a_silent_copy || !self.is_news(given) || names_news || self.is_second_look(given) {
            ProofVerdict::Proven
        } else {
            ProofVerdict::AskAgain
        }
    }

    /// Whether the summary is not the one for which the detail was stored.
    fn is_news(&self, given: &Given<'_>) -> bool {
        match self.before {
            Some(before) => before.summary_hash != self.summary,
            None => is_young(self.modified, given.received_ms, self.cache_ttl),
        }
    }

    /// What to store of an answer that proves nothing.
    fn marked(&self) -> ContentHash {
        let is_first = self.before.is_none_or(|before| !is_unproven(before.summary_hash, self.summary));
        let is_early = self.read_through && is_first;
        if is_early { asked_early(self.summary) } else { asked_once(self.summary) }
    }

    /// Whether `cache_ttl` has passed since the first look, and the answer does not claim to be from before it.
    fn is_second_look(&self, given: &Given<'_>) -> bool {
        /// The clocks of headers have whole seconds.
        const GRAIN_MS: i64 = 2000;
        let first = self.before.filter(|before| before.summary_hash == asked_once(self.summary));
        first.is_some_and(|first| {
            let since_ms = given.received_ms.saturating_sub(first.fetched_ms);
            let ttl_ms = i64::try_from(self.cache_ttl.as_millis()).unwrap_or(i64::MAX);
            since_ms >= ttl_ms && given.claimed_ms.saturating_add(GRAIN_MS) >= first.fetched_ms
        })
    }

    /// The field of a body that names the summary's `modified`. A day alone is named by every change of that day.
    fn naming(&self, body: &str) -> Option<String> {
        let modified = self.modified.filter(|at| at.rem_euclid(DAY) != 0)?;
        let fields = json::fields(body).ok()?;
        let field = fields.into_iter().find(|field| instant(field.value) == Some(modified))?;
        Some(field.key.into_owned())
    }
}

/// The instant that a JSON string names, in nanoseconds.
fn instant(value: &str) -> Option<i64> {
    /// A date alone has ten letters.
    const LONGER_THAN: usize = 10;
    let text = json::string(value)?;
    (text.len() > LONGER_THAN).then(|| modified::parse_rfc3339(&text).ok()).flatten()
}

/// Whether a listing changed so lately that a cache may have a copy from before.
pub(super) fn is_young(modified: Option<i64>, received_ms: i64, cache_ttl: Duration) -> bool {
    let span = YOUNG.max(cache_ttl.saturating_mul(2));
    let oldest_ms = received_ms.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    modified.is_some_and(|modified| modified.div_euclid(1_000_000) >= oldest_ms)
}

/// What was known of a detail when the origin was asked for it.
struct KnownBefore {
    stored: Option<DetailMeta>,
    /// As in [`SummaryQuestion`].
    read_through: bool,
}

impl Details {
    /// Fetches one detail, conditionally if there is one, and stores the answer. Without a usable answer, the stored
    /// detail stays.
    pub async fn fetch(
        &self,
        client: &OriginClient,
        volatile: &VolatileKeys,
        summary: &Summary,
        asker: Asker,
    ) -> Result<DetailRecord, CopyError> {
        let path = format!("/api/listings/{}.json", summary.id);
        let before = self.read(summary.id).await?;
        let validators = before.as_ref().filter(|record| record.meta.state == DetailState::Present).map(|record| {
            let (etag, last_modified) = (record.meta.etag.clone(), record.meta.last_modified.clone());
            Validators { etag, last_modified }
        });
        let read_through = self.was_read_through(&path, client.now_mono(), client.stamps().cache_ttl());
        let answer = client.ask(&path, validators.as_ref(), asker).await?;
        let known = KnownBefore { stored: before.map(|record| record.meta), read_through };
        let (this, stamps) = (self.clone(), client.stamps().clone());
        let (volatile, summary) = (volatile.clone(), summary.clone());
        let taking = move || this.take(&path, &known, &answer, &volatile, &summary, &stamps);
        blocking(taking).await.map_err(|error: CopyError| error.named(client)).inspect_err(|error| {
            if let CopyError::Ask(error) = error {
                client.unusable(error);
            }
        })
    }

    /// Judges an answer against the detail known when asking, and stores it. Blocks.
    fn take(
        &self,
        path: &str,
        known: &KnownBefore,
        answer: &Answer,
        volatile: &VolatileKeys,
        summary: &Summary,
        stamps: &StampWatch,
    ) -> Result<DetailRecord, CopyError> {
        let fetched_ms = answer.received.as_millis();
        // Another answer may have come meanwhile: this one is judged against it, and a 304 to an older question proves
        // nothing.
        let _judging = self.judging();
        let before = self.get(summary.id)?;
        if let (304, Some(record)) = (answer.status, &before)
            && known.stored.as_ref() != Some(&record.meta)
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
        // Equal values keep their bytes.
        let settled = before.as_ref().and_then(|record| {
            let known = std::str::from_utf8(&record.body).ok()?;
            volatile.settle(known, std::str::from_utf8(&answer.body).ok()?).map(Bytes::from)
        });
        let body = settled.unwrap_or_else(|| answer.body.clone());
        let text = match answer.status {
            200 => Some(checked(path, &body)?),
            304 if before.is_some() => None,
            404 | 410 => None,
            status => return Err(AskError::nonsense(path, format!("status {status}")).into()),
        };
        let hash = text.map(|text| volatile.hash(text));
        if let Some(record) = before.as_ref().filter(|record| hash.is_some_and(|hash| record.meta.hash != hash)) {
            stamps.differ([&record.meta.etag, &record.meta.last_modified], &answer.validators());
        }
        let look = self.look((known, answer), before.as_ref(), text.zip(hash), summary, stamps);
        let is_present = |record: &DetailRecord| record.meta.state == DetailState::Present;
        let record = match (hash, before) {
            (None, Some(record)) if answer.status == 304 => Self::seen_again(record, look),
            // Equal but for volatile fields.
            (Some(hash), Some(record)) if is_present(&record) && record.meta.hash == hash => {
                let DetailRecord { mut meta, .. } = Self::seen_again(record, look);
                Validators { etag: meta.etag, last_modified: meta.last_modified } = answer.validators();
                DetailRecord { meta, body }
            }
            // An older copy never replaces a newer one.
            (Some(_), Some(record))
                if look.verdict == ProofVerdict::Older || look.claimed_ms < record.meta.origin_time_ms =>
            {
                Self::seen_again(record, DetailLook { proves: None, ..look })
            }
            // A 404 older than the record, or the first in a while, deletes nothing.
            (None, Some(mut record))
                if is_present(&record)
                    && (look.claimed_ms < record.meta.origin_time_ms || self.note_absent(summary.id)) =>
            {
                record.meta.fetched_ms = fetched_ms;
                self.put(summary.id, record.clone(), shown.as_ref());
                return Ok(record);
            }
            (hash, _) => {
                let (origin_time_ms, summary_hash) = (look.until_ms, look.proves.unwrap_or(summary.hash));
                let (state, Validators { etag, last_modified }, body) = match hash {
                    Some(_) => (DetailState::Present, answer.validators(), body),
                    None => (DetailState::Gone, Validators::default(), Bytes::new()),
                };
                let hash = hash.unwrap_or_default();
                let meta = DetailMeta { state, etag, last_modified, origin_time_ms, fetched_ms, summary_hash, hash };
                DetailRecord { meta, body }
            }
        };
        self.clear_absent(summary.id);
        self.put(summary.id, record.clone(), shown.as_ref());
        Ok(record)
    }

    /// Whether a client's request for this path was forwarded within `cache_ttl`.
    fn was_read_through(&self, path: &str, now: Monotonic, cache_ttl: Duration) -> bool {
        let stored = self.cache().stored(&Key::origin(path));
        stored.is_some_and(|variants| variants.iter().any(|stored| now.since(stored.arrived) < cache_ttl))
    }

    /// What an answer says of a detail; `new`: its body and the hash of that.
    fn look(
        &self,
        (known, answer): (&KnownBefore, &Answer),
        before: Option<&DetailRecord>,
        new: Option<(&str, ContentHash)>,
        summary: &Summary,
        stamps: &StampWatch,
    ) -> DetailLook {
        let kept = before.filter(|record| record.meta.state == DetailState::Present);
        let kept_text = kept.and_then(|record| std::str::from_utf8(&record.body).ok());
        let compared = kept.zip(new).map(|(record, (_, hash))| Before {
            stamp: kept_text.and_then(stamp),
            changed: record.meta.hash != hash,
            // Each detail has its own stamp, and is checked too seldom for a run.
            counts: false,
            fetched_ms: record.meta.fetched_ms,
        });
        let dated = stamps.date(AnswerClass::Details, answer, new.map(|(text, _)| text), compared);
        let stored = before.map(|DetailRecord { meta, .. }| StoredDetail {
            summary_hash: meta.summary_hash,
            fetched_ms: meta.fetched_ms,
            body: kept_text,
        });
        let (modified, cache_ttl) = (self.modified(summary), stamps.cache_ttl());
        let read_through = known.read_through;
        let question = SummaryQuestion { summary: summary.hash, modified, before: stored, read_through, cache_ttl };
        let fetched_ms = answer.received.as_millis();
        let given = Given {
            body: new.map(|(text, _)| text).filter(|_| compared.is_none_or(|compared| compared.changed)),
            received_ms: fetched_ms,
            claimed_ms: dated.claimed_ms.saturating_add(answer.lag_ms.max(0)),
            may_be_a_silent_copy: stamps.may_be_silent(answer),
        };
        let verdict = question.judge(&given);
        let names = given.body.is_some_and(|body| question.naming(body).is_some());
        if verdict == ProofVerdict::Older || (names && question.is_second_look(&given)) {
            stamps.saw_silent_copy(AnswerClass::Details);
        }
        // A body that names a change was made after it.
        let named_ms = modified.filter(|_| names).map_or(i64::MIN, |modified| modified.div_euclid(1_000_000));
        let noticed_ms = self.newest().get().as_ref().map_or(i64::MIN, |newest| newest.meta.published_ms);
        // What claims no age of its own is judged by the time that has passed.
        let is_after_the_news =
            given.may_be_a_silent_copy || given.claimed_ms + 2 * DATE_GRAIN_MS >= noticed_ms.min(fetched_ms);
        DetailLook {
            until_ms: dated.until_ms.max(named_ms.min(dated.claimed_ms)),
            claimed_ms: dated.claimed_ms,
            fetched_ms,
            verdict,
            proves: match verdict {
                ProofVerdict::Proven => Some(summary.hash),
                ProofVerdict::AskAgain => Some(question.marked()),
                ProofVerdict::Older => None,
            },
            is_after_the_news,
        }
    }

    /// `modified` of a summary in nanoseconds, if the newest snapshot has that summary.
    fn modified(&self, summary: &Summary) -> Option<i64> {
        let newest = self.newest().get();
        let dataset = &newest.as_ref()?.dataset;
        let is_its = dataset.summary(summary.id).is_some_and(|known| known.hash == summary.hash);
        dataset.modified_of(summary.id).filter(|_| is_its)
    }

    /// A record that an answer did not change. If its summary changed, an answer from before we saw that change proves
    /// nothing: it may be an old copy of the CDN, and is fetched again.
    fn seen_again(mut record: DetailRecord, look: DetailLook) -> DetailRecord {
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
struct DetailLook {
    /// For which it confirms.
    until_ms: i64,
    /// For which it claims to be made.
    claimed_ms: i64,
    /// When it arrived, by our clock.
    fetched_ms: i64,
    verdict: ProofVerdict,
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

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(300);
    const NOW_MS: i64 = 1_795_176_000_000;
    /// 2026-11-20T11:59:30Z
    const MODIFIED: i64 = (NOW_MS - 30_000) * 1_000_000;
    const NEW: &str = r#"{"id":1,"updated_at":"2026-11-20T05:59:30-06:00"}"#;
    const OLD: &str = r#"{"id":1,"updated_at":"2026-11-19T05:59:30-06:00"}"#;
    const UNDATED: &str = r#"{"id":1,"hours":"9-5"}"#;

    fn hash(text: &str) -> ContentHash {
        ContentHash::of(text.as_bytes())
    }

    fn stored(summary_hash: ContentHash, seconds_ago: i64, body: &str) -> StoredDetail<'_> {
        StoredDetail { summary_hash, fetched_ms: NOW_MS - seconds_ago * 1000, body: Some(body) }
    }

    fn question<'a>(before: impl Into<Option<StoredDetail<'a>>>) -> SummaryQuestion<'a> {
        SummaryQuestion {
            summary: hash("now"),
            modified: Some(MODIFIED),
            before: before.into(),
            read_through: false,
            cache_ttl: TTL,
        }
    }

    fn silent(body: Option<&str>) -> Given<'_> {
        Given { body, received_ms: NOW_MS, claimed_ms: NOW_MS, may_be_a_silent_copy: true }
    }

    #[test]
    fn the_first_answer_after_a_change_proves_nothing_unless_something_dates_it() {
        let before = stored(hash("before"), 9000, UNDATED);
        for (body, case) in [(None, "a 304"), (Some(UNDATED), "the same"), (Some(OLD), "another, yet older")] {
            assert_eq!(question(before).judge(&silent(body)), ProofVerdict::AskAgain, "{case}");
            let dated = Given { may_be_a_silent_copy: false, ..silent(body) };
            assert_eq!(question(before).judge(&dated), ProofVerdict::Proven, "{case}, with an age");
        }
        assert_eq!(question(before).judge(&silent(Some(NEW))), ProofVerdict::Proven, "it names the change");
        let already = stored(hash("before"), 9000, NEW);
        assert_eq!(
            question(already).judge(&silent(None)),
            ProofVerdict::AskAgain,
            "the change did not move `modified`"
        );
        let midnight = SummaryQuestion { modified: Some(MODIFIED.div_euclid(DAY) * DAY), ..question(before) };
        let body = r#"{"updated_at":"2026-11-20T00:00:00Z"}"#;
        assert_eq!(midnight.judge(&silent(Some(body))), ProofVerdict::AskAgain, "a day is no instant");
    }

    #[test]
    fn the_second_answer_proves_when_a_copy_from_before_has_expired() {
        let once = asked_once(hash("now"));
        for (ago, claimed_ago, expected) in [
            (299, 0, ProofVerdict::AskAgain),
            (300, 0, ProofVerdict::Proven),
            (9000, 0, ProofVerdict::Proven),
            (300, 302, ProofVerdict::Proven),
            (300, 303, ProofVerdict::AskAgain),
            // The clock was set back: this is the first look now.
            (-10, 0, ProofVerdict::AskAgain),
        ] {
            let given = Given { claimed_ms: NOW_MS - claimed_ago * 1000, ..silent(None) };
            assert_eq!(question(stored(once, ago, UNDATED)).judge(&given), expected, "{ago} {claimed_ago}");
        }
        let of_another = stored(asked_once(hash("before")), 9000, UNDATED);
        assert_eq!(question(of_another).judge(&silent(None)), ProofVerdict::AskAgain);
    }

    #[test]
    fn an_answer_shortly_after_a_client_was_answered_wakes_no_cache_up() {
        let now = hash("now");
        let early = asked_early(now);
        let read_through = |before| SummaryQuestion { read_through: true, ..question(before) };
        assert_eq!(question(None).marked(), asked_once(now));
        assert_eq!(read_through(None).marked(), early, "a client asked for it when the listing was not known");
        let again = read_through(Some(stored(early, 9000, UNDATED)));
        assert_eq!(again.judge(&silent(None)), ProofVerdict::AskAgain, "this one wakes it up");
        assert_eq!(again.marked(), asked_once(now));
        assert!(is_unproven(early, now) && is_unproven(asked_once(now), now) && !is_unproven(now, now));
    }

    #[test]
    fn the_first_copy_is_asked_for_once() {
        let day_old = |before| SummaryQuestion { modified: Some(MODIFIED - DAY), ..question(before) };
        assert_eq!(day_old(None).judge(&silent(Some(UNDATED))), ProofVerdict::Proven);
        assert_eq!(question(None).judge(&silent(Some(UNDATED))), ProofVerdict::AskAgain, "it changed just now");
        assert_eq!(question(None).judge(&silent(Some(NEW))), ProofVerdict::Proven);
        let known = stored(hash("now"), 9000, UNDATED);
        assert_eq!(question(known).judge(&silent(Some(UNDATED))), ProofVerdict::Proven, "no summary changed");
    }

    #[test]
    fn a_copy_that_names_an_earlier_change_never_replaces_the_newer_one() {
        let known = question(stored(hash("now"), 60, NEW));
        assert_eq!(known.judge(&silent(Some(OLD))), ProofVerdict::Older);
        assert_eq!(known.judge(&silent(Some(NEW))), ProofVerdict::Proven);
        let newer = r#"{"updated_at":"2026-11-21T00:00:01Z"}"#;
        assert_eq!(known.judge(&silent(Some(newer))), ProofVerdict::Proven, "the list follows");
        assert_eq!(known.judge(&silent(Some(UNDATED))), ProofVerdict::Proven, "the field is gone");
    }
}
