//! What the `generated_at` of the origin's answers is worth, by kind of answer.
//!
//! `generated_at` (here: the *stamp*) is documented as the time of the response. Then it tells the age of a copy that
//! the origin's CDN sends without `Age`. An origin may also write another time: that of its last deployment, which
//! stands still while the content changes, or that of a clock that runs ahead. Such a stamp says nothing about the time
//! of the answer; `Date - Age` does.
//!
//! | what is known | a stamp is believed |
//! |---|---|
//! | nothing yet | when it is at most [`bound`] older than `Date - Age`: no copy is older, says `origin.cache_ttl` |
//! | it moved with the clock while the content stayed | when it is at most a [`DAY`] older: a CDN may send old copies while its origin is down |
//! | it stood still while the content changed | never |
//!
//! A believed stamp makes the instant for which an answer is *confirmed* earlier. The latest instant at which its
//! content may have been made stays `Date - Age`, until it is known that the stamp follows the clock. Both choices are
//! the careful ones. Pure except [`StampWatch`], which shares what was learned; a restart learns again. Callers:
//! [`crate::mirror::copies`], [`crate::mirror::details`], [`crate::audit`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::api::json;
use crate::api::route::Route;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::WallTime;

use super::answer::Answer;
use super::status::OriginStatus;

/// The longest that a CDN may send a copy without `Age`, if the origin's stamps are known to move.
const DAY: Duration = Duration::from_secs(86_400);

/// How far the clocks of `Date` and of the stamp may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(30);

/// `Date` and stamps have whole seconds, and `Age` is rounded up.
const GRAIN_SECONDS: i64 = 3;

/// After so many answers in a row with equal content and a new stamp, the stamp moves. A deployment that changes a
/// standing stamp makes one such answer.
const RUN: u8 = 3;

/// Kinds of answers, each with a stamp of its own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Pages of the list, filtered or not.
    Lists,
    /// One of the taxonomies.
    Taxonomy(TaxonomyKind),
    /// Details.
    Details,
}

/// How many places there are.
const PLACES: usize = 5;

impl Place {
    /// The place of a canonical path and query.
    pub fn of(path: &str) -> Self {
        match Route::of(path.split('?').next().unwrap_or(path)) {
            Route::Taxonomy(kind) => Self::Taxonomy(kind),
            Route::Detail(_) => Self::Details,
            _ => Self::Lists,
        }
    }

    /// Its number, below [`PLACES`].
    pub const fn index(self) -> usize {
        match self {
            Self::Lists => 0,
            Self::Taxonomy(kind) => 1 + kind.index(),
            Self::Details => 4,
        }
    }

    /// Its name in `/status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lists => "lists",
            Self::Taxonomy(kind) => Route::Taxonomy(kind).label().as_str(),
            Self::Details => "details",
        }
    }
}

/// What the stamps of one place have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Pulse {
    /// Nothing yet.
    #[default]
    Unproven,
    /// It follows the clock while the content stays.
    Moves,
    /// It stands still while the content changes.
    StandsStill,
}

/// How the latest stamp of a place is read; the words of `/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It is used as the time of the answer.
    Used,
    /// It stands still while the content changes.
    StandsStill,
    /// It is older than any CDN copy can be.
    TooOld,
    /// It is ahead of `Date`.
    Ahead,
}

impl Reading {
    /// The word for `/status`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::StandsStill => "stands-still",
            Self::TooOld => "too-old",
            Self::Ahead => "ahead",
        }
    }
}

/// How an answer compares with the kept one of the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The kept one's stamp.
    pub stamp: Option<WallTime>,
    /// Whether the content differs.
    pub changed: bool,
    /// Whether a run of new stamps counts: only answers to one path make a run.
    pub counts: bool,
}

/// The instants that an answer speaks for, in milliseconds of the origin's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dated {
    /// For which it is confirmed.
    pub until_ms: i64,
    /// The latest at which its content may have been made, up to the grain of `Date` and `Age`.
    pub since_ms: i64,
    /// Whether there was a stamp that is not used.
    pub disbelieved: bool,
}

/// What is known of one place.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    pulse: Pulse,
    run: u8,
    reading: Option<Reading>,
    /// The readings already logged: each once, or details of many ages would fill the log.
    told: [bool; 4],
}

impl Known {
    /// Takes a stamp in; `sent` is `Date - Age`. Returns its reading.
    fn see(&mut self, stamp: WallTime, sent: WallTime, before: Option<Before>, cache_ttl: Duration) -> Reading {
        let age_ms = sent.millis_since(stamp);
        let within = |span: Duration| age_ms <= i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let (ahead, recent) = (age_ms < -GRAIN_SECONDS * 1000, within(bound(cache_ttl)));
        if let Some(Before { stamp: Some(kept), changed, counts }) = before {
            if changed && kept == stamp && !recent {
                (self.pulse, self.run) = (Pulse::StandsStill, 0);
            } else if counts && !changed {
                let moved = stamp > kept && recent && !ahead;
                self.run = if moved { self.run.saturating_add(1) } else { 0 };
                if self.run >= RUN {
                    self.pulse = Pulse::Moves;
                }
            }
        }
        match self.pulse {
            Pulse::StandsStill => Reading::StandsStill,
            _ if ahead => Reading::Ahead,
            Pulse::Unproven if !recent => Reading::TooOld,
            Pulse::Moves if !within(DAY.max(bound(cache_ttl))) => Reading::TooOld,
            Pulse::Unproven | Pulse::Moves => Reading::Used,
        }
    }
}

/// How much older than `Date - Age` the stamp of a CDN copy may be: two levels of a CDN, each of which keeps the copy
/// for `cache_ttl`.
fn bound(cache_ttl: Duration) -> Duration {
    cache_ttl.saturating_mul(2).saturating_add(CLOCKS_DIFFER)
}

/// What was learned of all places; cheap to clone.
#[derive(Clone)]
pub struct StampWatch {
    known: Arc<Mutex<[Known; PLACES]>>,
    status: OriginStatus,
    cache_ttl: Duration,
}

impl StampWatch {
    /// Nothing learned yet. `cache_ttl` is how old a CDN copy without `Age` can be; `status` gets what is learned.
    pub fn new(status: OriginStatus, cache_ttl: Duration) -> Self {
        Self { known: Arc::default(), status, cache_ttl }
    }

    /// The same with another bound.
    #[must_use]
    pub fn with_cache_ttl(self, cache_ttl: Duration) -> Self {
        Self { cache_ttl, ..self }
    }

    /// How old a CDN copy without `Age` can be.
    pub const fn cache_ttl(&self) -> Duration {
        self.cache_ttl
    }

    /// Dates an answer with this body, and learns from it. `text` is `None` for a 304, which has no body.
    pub fn date(&self, place: Place, answer: &Answer, text: Option<&str>, before: Option<Before>) -> Dated {
        let sent = answer.sent();
        let Some(stamp) = text.and_then(stamp) else {
            let sent_ms = sent.as_millis();
            return Dated { until_ms: sent_ms, since_ms: sent_ms, disbelieved: false };
        };
        let mut known = self.known.lock();
        let own = &mut known[place.index()];
        let reading = own.see(stamp, sent, before, self.cache_ttl);
        let news = own.reading.replace(reading) != Some(reading);
        let unheard = !std::mem::replace(&mut own.told[reading as usize], true);
        let pulse = own.pulse;
        drop(known);
        if news {
            self.status.set_stamp(place.as_str(), reading.as_str());
        }
        if unheard {
            self.tell(place, reading, stamp);
        }
        let until = if reading == Reading::Used { stamp.min(sent) } else { sent };
        let since = if pulse == Pulse::Moves { until } else { sent };
        Dated {
            until_ms: until.as_millis(),
            since_ms: since.as_millis(),
            disbelieved: matches!(reading, Reading::StandsStill | Reading::TooOld),
        }
    }

    fn tell(&self, place: Place, reading: Reading, stamp: WallTime) {
        let (place, stamp) = (place.as_str(), tracing::field::display(stamp));
        match reading {
            Reading::Used => tracing::debug!(place, stamp, "generated_at is used as the time of the origin's answers"),
            Reading::StandsStill => {
                tracing::warn!(place, stamp, "generated_at does not change when the content does; it is ignored");
            }
            Reading::TooOld => {
                tracing::warn!(
                    place,
                    stamp,
                    cache_ttl_seconds = self.cache_ttl.as_secs(),
                    "generated_at is older than a copy in the CDN can be (origin.cache_ttl); it is ignored"
                );
            }
            Reading::Ahead => {
                tracing::warn!(place, stamp, "generated_at is later than the origin's Date; it is ignored");
            }
        }
    }
}

/// `generated_at` at the top level of a body, if it is an instant.
pub(crate) fn stamp(text: &str) -> Option<WallTime> {
    let fields = json::fields(text).ok()?;
    let field = fields.iter().find(|field| field.key == "generated_at")?;
    let nanos = crate::api::modified::parse_any(&json::string(field.value)?).ok()?;
    Some(WallTime::from_millis(nanos.div_euclid(1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(300);
    const NOW: i64 = 1_000_000_000;

    fn at(seconds: i64) -> WallTime {
        WallTime::from_seconds(seconds)
    }

    fn same(kept: i64) -> Before {
        Before { stamp: Some(at(kept)), changed: false, counts: true }
    }

    fn changed(kept: i64) -> Before {
        Before { changed: true, ..same(kept) }
    }

    impl Known {
        fn sees(&mut self, stamp: i64, sent: i64, before: impl Into<Option<Before>>) -> Reading {
            self.see(at(stamp), at(sent), before.into(), TTL)
        }
    }

    #[test]
    fn the_first_stamp_is_believed_as_far_as_a_copy_can_be_old() {
        for (age, reading) in [
            (0, Reading::Used),
            (-3, Reading::Used),
            (-4, Reading::Ahead),
            (300, Reading::Used),
            (630, Reading::Used),
            (631, Reading::TooOld),
            (100 * 86_400, Reading::TooOld),
            (-100 * 86_400, Reading::Ahead),
        ] {
            assert_eq!(Known::default().sees(NOW - age, NOW, None), reading, "{age} s old");
        }
    }

    #[test]
    fn a_stamp_that_stays_while_the_content_changes_is_never_used_again() {
        let mut known = Known::default();
        let old = NOW - 1000;
        assert_eq!(known.sees(old, NOW, same(old)), Reading::TooOld);
        assert_eq!(known.sees(old, NOW, changed(old)), Reading::StandsStill);
        // Neither is the stamp of the next deployment.
        assert_eq!(known.sees(NOW, NOW + 5, changed(old)), Reading::StandsStill);
        assert_eq!(known.sees(NOW, NOW + 300, same(NOW)), Reading::StandsStill);
    }

    #[test]
    fn two_contents_of_one_second_are_no_proof_while_both_may_be_copies() {
        let mut known = Known::default();
        assert_eq!(known.sees(NOW - 200, NOW, changed(NOW - 200)), Reading::Used);
        assert_eq!(known.pulse, Pulse::Unproven);
    }

    #[test]
    fn a_stamp_that_moves_with_the_clock_is_believed_for_a_day() {
        let mut known = Known::default();
        for look in 0..4 {
            let now = NOW + 100 * look;
            assert_eq!(known.sees(now - 250, now, same(now - 350)), Reading::Used);
        }
        assert_eq!(known.pulse, Pulse::Moves);
        let now = NOW + 10_000;
        assert_eq!(known.sees(NOW, now, changed(NOW + 50)), Reading::Used, "an old copy");
        assert_eq!(known.sees(NOW, NOW + 86_401, changed(NOW + 50)), Reading::TooOld);
        assert_eq!(known.sees(NOW, now, changed(NOW)), Reading::StandsStill, "it moved once, and stopped");
    }

    #[test]
    fn deployments_now_and_then_are_no_movement() {
        let mut known = Known::default();
        let mut kept = NOW - 1000;
        for deployment in 1..9 {
            let now = NOW + 1000 * deployment;
            known.sees(now - 10, now, same(kept));
            kept = now - 10;
            known.sees(kept, now + 200, same(kept));
        }
        assert_eq!(known.pulse, Pulse::Unproven);
        assert_eq!(known.sees(kept, kept + 10_000, same(kept)), Reading::TooOld);
    }

    #[test]
    fn a_stamp_that_moves_ahead_of_the_date_proves_nothing() {
        let mut known = Known::default();
        for look in 0..9 {
            let now = NOW + 100 * look;
            assert_eq!(known.sees(now + 60, now, same(now - 40)), Reading::Ahead);
        }
        assert_eq!(known.pulse, Pulse::Unproven);
    }

    #[test]
    fn places_are_told_apart() {
        for (path, place) in [
            ("/api/listings.json?per_page=100", Place::Lists),
            ("/api/cities.json", Place::Taxonomy(TaxonomyKind::Cities)),
            ("/api/listings/7.json", Place::Details),
        ] {
            assert_eq!(Place::of(path), place, "{path}");
            assert!(place.index() < PLACES);
        }
        assert_eq!(stamp(r#"{"a":1,"generated_at":"2001-09-09T01:46:40Z"}"#), Some(at(NOW)));
        for none in
            ["[]", "{}", r#"{"generated_at":"soon"}"#, r#"{"generated_at":1}"#, r#"{"a":{"generated_at":"2001"}}"#]
        {
            assert_eq!(stamp(none), None, "{none}");
        }
    }
}
