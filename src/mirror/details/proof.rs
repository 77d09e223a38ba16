//! What an answer proves about a detail's summary. Pure.
//!
//! A cache that sends no `Age` may answer with a copy from before the summary changed, and one that updates in the
//! background wakes up only when it is asked: the first answer after a change proves nothing, however late it comes.
//! One more answer, `origin.cache_ttl` later, does. An `Age`, an answer that no cache may store, or a body that names
//! the summary's own `modified` proves at once. Callers: [`super::fetch`], [`super::due`], [`super::early`].

use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::api::{json, modified};

/// A new listing's detail was hardly in a cache before, unless the listing is this old or younger.
const YOUNG: Duration = Duration::from_secs(3600);

/// A day, in nanoseconds.
const DAY: i64 = 86_400_000_000_000;

/// What stands as [`crate::store::DetailMeta::summary_hash`] of a detail that was asked for this summary once, without
/// proof. It is the hash of no summary, so that the detail does not count as current.
pub(crate) fn asked_once(summary: ContentHash) -> ContentHash {
    ContentHash::from_bytes(summary.to_bytes().map(|byte| !byte))
}

/// A stored detail, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub summary_hash: ContentHash,
    pub fetched_ms: i64,
    /// `None`: the origin had none.
    pub body: Option<&'a str>,
}

/// The question that an answer belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub summary: ContentHash,
    /// `modified` of the summary, in nanoseconds; `None` while unknown.
    pub modified: Option<i64>,
    /// The detail that was stored before.
    pub before: Option<Stored<'a>>,
    pub cache_ttl: Duration,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    /// The new body; `None`: a 304, 404 or 410.
    pub body: Option<&'a str>,
    /// When it arrived, in milliseconds by our clock.
    pub received_ms: i64,
    /// When it was made as far as it claims, in milliseconds by our clock.
    pub claimed_ms: i64,
    /// Whether a cache may have kept it without saying so.
    pub may_be_a_silent_copy: bool,
}

/// What an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is as new as the summary, as far as anybody can tell.
    Proven,
    /// Perhaps it is from before the summary changed.
    AskAgain,
    /// It is an older copy than the stored one.
    Older,
}

impl Question<'_> {
    /// Judges an answer that dates itself by `Age`, or by nothing at all.
    pub(super) fn judge(&self, given: &Given<'_>) -> Verdict {
        let known = self.before.and_then(|before| before.body).and_then(|body| self.naming(body));
        let new = given.body.filter(|_| given.may_be_a_silent_copy);
        if let (Some(key), Some(new)) = (&known, new) {
            let named = json::fields(new).ok().and_then(|fields| {
                let field = fields.into_iter().find(|field| field.key == **key)?;
                instant(field.value)
            });
            if named.zip(self.modified).is_some_and(|(named, modified)| named < modified) {
                return Verdict::Older;
            }
        }
        let names_news = known.is_none() && new.is_some_and(|body| self.naming(body).is_some());
        if !given.may_be_a_silent_copy || !self.is_news(given) || names_news || self.is_second_look(given) {
            Verdict::Proven
        } else {
            Verdict::AskAgain
        }
    }

    /// Whether the summary is not the one for which the detail was stored.
    fn is_news(&self, given: &Given<'_>) -> bool {
        match self.before {
            Some(before) if before.summary_hash != super::index::no_summary() => before.summary_hash != self.summary,
            _ => is_young(self.modified, given.received_ms, self.cache_ttl),
        }
    }

    /// Whether `cache_ttl` has passed since the first look, and the answer does not claim to be from before it.
    pub(super) fn is_second_look(&self, given: &Given<'_>) -> bool {
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
    pub(super) fn naming(&self, body: &str) -> Option<String> {
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
    (text.len() > LONGER_THAN).then(|| modified::parse(&text).ok()).flatten()
}

/// Whether a listing changed so lately that a cache may have a copy from before.
pub(super) fn is_young(modified: Option<i64>, received_ms: i64, cache_ttl: Duration) -> bool {
    let span = YOUNG.max(cache_ttl.saturating_mul(2));
    let oldest_ms = received_ms.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    modified.is_some_and(|modified| modified.div_euclid(1_000_000) >= oldest_ms)
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

    fn stored(summary_hash: ContentHash, seconds_ago: i64, body: &str) -> Stored<'_> {
        Stored { summary_hash, fetched_ms: NOW_MS - seconds_ago * 1000, body: Some(body) }
    }

    fn question<'a>(before: impl Into<Option<Stored<'a>>>) -> Question<'a> {
        Question { summary: hash("now"), modified: Some(MODIFIED), before: before.into(), cache_ttl: TTL }
    }

    fn silent(body: Option<&str>) -> Given<'_> {
        Given { body, received_ms: NOW_MS, claimed_ms: NOW_MS, may_be_a_silent_copy: true }
    }

    #[test]
    fn the_first_answer_after_a_change_proves_nothing_unless_something_dates_it() {
        let before = stored(hash("before"), 9000, UNDATED);
        for (body, case) in [(None, "a 304"), (Some(UNDATED), "the same"), (Some(OLD), "another, yet older")] {
            assert_eq!(question(before).judge(&silent(body)), Verdict::AskAgain, "{case}");
            let dated = Given { may_be_a_silent_copy: false, ..silent(body) };
            assert_eq!(question(before).judge(&dated), Verdict::Proven, "{case}, with an age");
        }
        assert_eq!(question(before).judge(&silent(Some(NEW))), Verdict::Proven, "it names the change");
        let already = stored(hash("before"), 9000, NEW);
        assert_eq!(question(already).judge(&silent(None)), Verdict::AskAgain, "the change did not move `modified`");
        let midnight = Question { modified: Some(MODIFIED.div_euclid(DAY) * DAY), ..question(before) };
        let body = r#"{"updated_at":"2026-11-20T00:00:00Z"}"#;
        assert_eq!(midnight.judge(&silent(Some(body))), Verdict::AskAgain, "a day is no instant");
    }

    #[test]
    fn the_second_answer_proves_when_a_copy_from_before_has_expired() {
        let once = asked_once(hash("now"));
        for (ago, claimed_ago, expected) in [
            (299, 0, Verdict::AskAgain),
            (300, 0, Verdict::Proven),
            (9000, 0, Verdict::Proven),
            (300, 302, Verdict::Proven),
            (300, 303, Verdict::AskAgain),
            // The clock was set back: this is the first look now.
            (-10, 0, Verdict::AskAgain),
        ] {
            let given = Given { claimed_ms: NOW_MS - claimed_ago * 1000, ..silent(None) };
            assert_eq!(question(stored(once, ago, UNDATED)).judge(&given), expected, "{ago} {claimed_ago}");
        }
        let of_another = stored(asked_once(hash("before")), 9000, UNDATED);
        assert_eq!(question(of_another).judge(&silent(None)), Verdict::AskAgain);
    }

    #[test]
    fn the_first_copy_is_asked_for_once() {
        let day_old = |before| Question { modified: Some(MODIFIED - DAY), ..question(before) };
        assert_eq!(day_old(None).judge(&silent(Some(UNDATED))), Verdict::Proven);
        assert_eq!(question(None).judge(&silent(Some(UNDATED))), Verdict::AskAgain, "it changed just now");
        assert_eq!(question(None).judge(&silent(Some(NEW))), Verdict::Proven);
        let offered = stored(super::super::index::no_summary(), 10, UNDATED);
        assert_eq!(day_old(Some(offered)).judge(&silent(None)), Verdict::Proven);
        assert_eq!(question(offered).judge(&silent(None)), Verdict::AskAgain);
        let known = stored(hash("now"), 9000, UNDATED);
        assert_eq!(question(known).judge(&silent(Some(UNDATED))), Verdict::Proven, "no summary changed");
    }

    #[test]
    fn a_copy_that_names_an_earlier_change_never_replaces_the_newer_one() {
        let known = question(stored(hash("now"), 60, NEW));
        assert_eq!(known.judge(&silent(Some(OLD))), Verdict::Older);
        assert_eq!(known.judge(&silent(Some(NEW))), Verdict::Proven);
        let newer = r#"{"updated_at":"2026-11-21T00:00:01Z"}"#;
        assert_eq!(known.judge(&silent(Some(newer))), Verdict::Proven, "the list follows");
        assert_eq!(known.judge(&silent(Some(UNDATED))), Verdict::Proven, "the field is gone");
    }
}
