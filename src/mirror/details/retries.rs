//! Retries of details that failed, or came as old copies: each one later and later, and all that failed while none is
//! answered.
//!
//! Pure: the time is an argument. Callers: [`super::worker`].

use std::collections::HashMap;
use std::time::Duration;

use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::clock::WallTime;
use crate::clock::backoff::doubled;
use crate::telemetry::findings::{Finding, Kind};
use crate::words::counted;

/// So many different details in a row fail: the origin gives none, and it is not about one listing.
const MANY: u32 = 8;
/// A detail that failed so often in a row is worth a word.
const OFTEN: u32 = 3;
/// The longest pause of a single detail, in seconds.
const LONGEST: i64 = 3600;

/// The details that failed. Any answer ends that.
#[derive(Debug, Default)]
pub(super) struct Retries {
    each: HashMap<ListingId, Failed>,
    /// How often in a row a detail may have come from before its listing's last change, which the hash of its summary
    /// names.
    old_copies: HashMap<ListingId, (ContentHash, u32)>,
    row: Row,
    error: String,
    /// Whether the origin failed as a whole.
    was_down: bool,
}

/// How often a detail failed without an answer between.
#[derive(Clone, Copy, Debug)]
struct Failed {
    tries: u32,
    last: WallTime,
    next: WallTime,
}

/// Failures since any detail was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// Different details, each with its first failure: a listing whose detail is known to fail says nothing of others.
    details: u32,
    pauses: u32,
    /// All details rest until then.
    until: Option<WallTime>,
}

impl Retries {
    pub(super) fn is_due(&self, id: ListingId, now: WallTime) -> bool {
        // An instant in the far future is one from before the clock was set back.
        self.each.get(&id).is_none_or(|failed| failed.next <= now || failed.next > now.plus_seconds(LONGEST))
    }

    pub(super) fn has_failed(&self, id: ListingId) -> bool {
        self.each.contains_key(&id)
    }

    /// When the first failed detail is due again; milliseconds since the epoch.
    pub(super) fn next_ms(&self, now: WallTime) -> Option<i64> {
        self.each.values().map(|failed| failed.next.as_millis()).filter(|next| *next > now.as_millis()).min()
    }

    /// Forgets details of listings that are gone, and those answered since, perhaps to a client; `fetched_ms` tells when
    /// a detail was last answered, in milliseconds. `is_down`: the origin fails as a whole, which has a pause of its
    /// own; when it is back, a detail is requested at once.
    pub(super) fn look(
        &mut self,
        is_down: bool,
        is_listed: impl Fn(ListingId) -> bool,
        fetched_ms: impl Fn(ListingId) -> Option<i64>,
    ) {
        self.each.retain(|id, _| is_listed(*id));
        self.old_copies.retain(|id, _| is_listed(*id));
        let before = self.each.len();
        self.each.retain(|id, failed| fetched_ms(*id).is_none_or(|fetched| fetched <= failed.last.as_millis()));
        if self.each.len() < before {
            self.answered();
        }
        if std::mem::replace(&mut self.was_down, is_down) && !is_down {
            self.row.until = None;
        }
    }

    /// The origin answered a request for a detail.
    pub(super) fn answered(&mut self) {
        self.row = Row::default();
    }

    /// The origin answered. `is_old`: perhaps with a copy from before the listing's last change.
    pub(super) fn came(&mut self, id: ListingId, summary: ContentHash, is_old: bool) {
        self.answered();
        let times = self.old_copies.remove(&id).filter(|(of, _)| *of == summary).map_or(0, |(_, times)| times);
        if is_old {
            self.old_copies.insert(id, (summary, times.saturating_add(1)));
        }
    }

    /// How long a detail rests after an old copy: at first as long as a CDN keeps one.
    pub(super) fn rest_of_copy(
        &self,
        id: ListingId,
        summary: ContentHash,
        cache_ttl: Duration,
        longest: Duration,
    ) -> Duration {
        let known = self.old_copies.get(&id).filter(|(of, _)| *of == summary);
        let again = known.map_or(0, |(_, times)| times.saturating_sub(1));
        doubled(cache_ttl, again, longest.max(cache_ttl))
    }

    /// A request failed. All rest at most `longest`, if many fail and none is answered.
    pub(super) fn failed(
        &mut self,
        id: ListingId,
        error: String,
        now: WallTime,
        longest: Duration,
        jittered: impl FnOnce(Duration) -> Duration,
    ) {
        let failed = self.each.entry(id).or_insert(Failed { tries: 0, last: now, next: now });
        failed.tries = (failed.tries + 1).min(13);
        failed.last = now;
        failed.next = now.plus_seconds((1_i64 << (failed.tries - 1)).min(LONGEST));
        self.row.details += u32::from(failed.tries == 1);
        self.error = error;
        // Those that were on the wire together count once.
        if self.is_row_long() && self.rests(now).is_none() {
            self.row.pauses += 1;
            let pause = doubled(Duration::from_millis(500), self.row.pauses.min(8), longest);
            self.row.until = Some(now.plus(jittered(pause)));
        }
    }

    /// A request failed, and the origin wants the next one at once: a first failure waits for nothing.
    pub(super) fn hurry(&mut self, id: ListingId, now: WallTime) {
        if let Some(failed) = self.each.get_mut(&id).filter(|failed| failed.tries == 1) {
            failed.next = now;
        }
    }

    const fn is_row_long(&self) -> bool {
        self.row.details >= MANY
    }

    /// How long all details rest.
    pub(super) fn rests(&self, now: WallTime) -> Option<Duration> {
        // As in `is_due`.
        let until = self.row.until.filter(|until| *until > now && *until <= now.plus_seconds(LONGEST))?;
        Some(Duration::from_millis(u64::try_from(until.millis_since(now)).unwrap_or(0)))
    }

    /// The due details to request now: all, or a single one that shows whether the origin gives details again. It is
    /// one that has not failed yet, if there is one, from any place: neighbours may fail for the same reason.
    pub(super) fn chosen(&self, due: Vec<ListingId>) -> Vec<ListingId> {
        if !self.is_row_long() {
            return due;
        }
        let fresh: Vec<ListingId> = due.iter().filter(|id| !self.each.contains_key(id)).copied().collect();
        let some = if fresh.is_empty() { due } else { fresh };
        let place = (self.row.pauses as usize).wrapping_mul(7919) % some.len().max(1);
        some.get(place).copied().into_iter().collect()
    }

    /// How many wait for another try; [`u64::MAX`]: all, because many failed and none was answered.
    pub(super) fn failing(&self) -> u64 {
        if self.is_row_long() { u64::MAX } else { self.each.len() as u64 }
    }

    /// That all fail, or some again and again; `None`: neither.
    pub(super) fn finding(&self) -> Option<Finding> {
        let often = self.each.values().filter(|failed| failed.tries >= OFTEN).count() as u64;
        let error = &self.error;
        let (text, cause) = if self.is_row_long() && !self.each.is_empty() {
            let failed = counted(self.each.len() as u64, "request");
            let text =
                format!("no details can be fetched: {failed} failed and none was answered. The last error: {error}");
            (text, "all")
        } else if often > 0 {
            let many = counted(often, "detail");
            (format!("{many} cannot be fetched, although others can. The last error: {error}"), "some")
        } else {
            return None;
        };
        Some(Finding::new(Kind::DetailsFail, text).because(cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn at(seconds: i64) -> WallTime {
        WallTime::from_seconds(seconds)
    }

    fn fail(retries: &mut Retries, id: u64, now: i64) {
        retries.failed(ListingId(id), "nonsense".to_owned(), at(now), MINUTE, |pause| pause);
    }

    #[test]
    fn an_answer_ends_a_row_of_failures() {
        let id = ListingId(7);
        let mut retries = Retries::default();
        let wait = |retries: &Retries, now: i64| retries.next_ms(at(now)).map_or(0, |next| next / 1000 - now);
        for (now, expected) in [(0, 1), (1, 2), (3, 4), (7, 8)] {
            fail(&mut retries, 7, now);
            assert_eq!(wait(&retries, now), expected);
        }
        // An answer before the last failure changes nothing.
        for fetched in [None, Some(2000), Some(7000)] {
            retries.look(false, |_| true, |_| fetched);
            assert!(!retries.is_due(id, at(8)), "{fetched:?}");
        }
        retries.look(false, |_| true, |_| Some(7001));
        assert!(retries.is_due(id, at(8)), "it was answered, perhaps to a client");
        fail(&mut retries, 7, 1000);
        assert_eq!(wait(&retries, 1000), 1, "it begins anew");
        retries.hurry(id, at(1000));
        assert!(retries.is_due(id, at(1000)), "the origin wants it so");
        fail(&mut retries, 8, 1000);
        retries.look(false, |id| id.0 == 7, |_| None);
        assert_eq!(retries.failing(), 1, "one listing is gone");
    }

    #[test]
    fn while_many_fail_and_none_is_answered_all_rest_longer_and_longer() {
        let mut retries = Retries::default();
        (0..7).for_each(|id| fail(&mut retries, id, 0));
        assert!(retries.rests(at(0)).is_none() && retries.finding().is_none());
        // Eight at once are on the wire.
        (7..15).for_each(|id| fail(&mut retries, id, 0));
        let mut now = 0;
        for (number, seconds) in (15..).zip([1, 2, 4, 8, 16, 32, 60, 60]) {
            assert_eq!(retries.rests(at(now)), Some(Duration::from_secs(seconds)), "{number}");
            assert_eq!(retries.rests(at(-10_000)), None, "the clock was set back");
            now += i64::try_from(seconds).unwrap();
            assert_eq!(retries.rests(at(now)), None);
            let due: Vec<ListingId> = (0..100).map(ListingId).collect();
            let chosen = retries.chosen(due.clone());
            assert!(chosen.len() == 1 && chosen[0].0 >= number, "one that has not failed: {chosen:?}");
            assert_eq!(retries.chosen(due[..5].to_vec()).len(), 1, "else any");
            fail(&mut retries, number, now);
        }
        let text = |retries: &Retries| retries.finding().map(|finding| finding.text).unwrap_or_default();
        assert!(text(&retries).starts_with("no details can be fetched: "), "{}", text(&retries));
        assert_eq!(retries.failing(), u64::MAX);
        retries.answered();
        assert!(retries.rests(at(now)).is_none() && retries.finding().is_none());
        assert_eq!(retries.chosen((0..100).map(ListingId).collect()).len(), 100);
    }

    #[test]
    fn listings_that_are_known_to_fail_hold_up_no_others() {
        let mut retries = Retries::default();
        for id in 0..100 {
            fail(&mut retries, id, 0);
            retries.answered();
        }
        for now in [10, 20, 30] {
            (0..100).for_each(|id| fail(&mut retries, id, now));
            assert_eq!(retries.rests(at(now)), None);
        }
        assert_eq!(retries.failing(), 100);
        assert!(retries.finding().unwrap().text.starts_with("100 details cannot be fetched, although others can"));
    }

    #[test]
    fn old_copies_are_waited_for_longer_and_longer_until_the_listing_changes_again() {
        let (id, [one, other]) = (ListingId(7), [b"1", b"2"].map(|text| ContentHash::of(text)));
        let mut retries = Retries::default();
        let rest = |retries: &Retries, summary| retries.rest_of_copy(id, summary, MINUTE, 5 * MINUTE).as_secs() / 60;
        for minutes in [1, 2, 4, 5, 5] {
            retries.came(id, one, true);
            assert_eq!((rest(&retries, one), rest(&retries, other)), (minutes, 1));
        }
        retries.came(id, other, true);
        assert_eq!(rest(&retries, other), 1);
        retries.came(id, other, true);
        retries.came(id, other, false);
        assert_eq!(rest(&retries, other), 1, "a new one came");
    }

    #[test]
    fn when_the_origin_is_back_a_detail_is_requested_at_once() {
        let mut retries = Retries::default();
        (0..8).for_each(|id| fail(&mut retries, id, 0));
        for (is_down, rests) in [(false, true), (true, true), (false, false)] {
            retries.look(is_down, |_| true, |_| None);
            assert_eq!(retries.rests(at(0)).is_some(), rests, "{is_down}");
        }
        assert_eq!(retries.chosen((0..100).map(ListingId).collect()).len(), 1);
    }
}
