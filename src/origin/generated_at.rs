//! Stamps of the origin: what the `generated_at` of its answers is worth, by kind of answer.
//!
//! `generated_at` (here: the *stamp*) is documented as the time of the response. Then it tells the age of a copy that
//! the origin's CDN sends without `Age`. An origin may also write another time: that of its last deployment, which
//! stands still while the content changes, or that of a clock that runs ahead. Such a stamp says nothing about the time
//! of the answer; the header does ([`crate::protocol::freshness`]).
//!
//! | what is known | a stamp is believed |
//! |---|---|
//! | nothing yet | when it is at most [`bound`] older than the header says: no copy is older, says `origin.cache_ttl` |
//! | it moved with the clock while the content stayed | when it is at most a [`DAY`] older: a CDN may send old copies while its origin is down |
//! | it stood still while the content changed | never |
//!
//! A believed stamp makes the instant for which an answer is *confirmed* earlier. The latest instant at which its
//! content may have been made stays that of the header, until it is known that the stamp follows the clock. Both choices
//! are the careful ones.
//!
//! A cache that sends no `Age` is *silent*: its copies have the header of a new answer. One is seen by its own words, by a
//! stamp, or by a change that the list should have shown earlier ([`StampWatch::missed_a_change`]). From then on, an answer
//! that nothing else dates is confirmed for `origin.cache_ttl` before its arrival only. Pure except [`StampWatch`], which
//! shares what was learned; a restart learns again. Callers: [`crate::mirror::copies`], [`crate::mirror::details`],
//! `mirror::examiner`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;

use crate::api::json;
use crate::api::route::Route;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::WallTime;
use crate::words::named;

use super::ask::{Answer, Validators};
use super::status::{OldCopy, OriginStatus};

/// The longest that a CDN may send a copy without `Age`, if the origin's stamps are known to move.
const DAY: Duration = Duration::from_secs(86_400);

/// How far the clocks of `Date` and of the stamp may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(30);

/// `Date` and stamps have whole seconds, and `Age` is rounded. In milliseconds.
const GRAIN_MS: i64 = 3000;

/// `Date` has whole seconds: its answer may be this much younger, in milliseconds.
pub(crate) const DATE_GRAIN_MS: i64 = 1000;

/// Fields with which caches say what they did, and the words in them that say: this is a copy.
const CACHE_FIELDS: [&str; 5] = ["x-cache", "x-cache-status", "x-proxy-cache", "cf-cache-status", "cache-status"];
const COPY_WORDS: [&str; 3] = ["hit", "stale", "updating"];

/// After so many answers in a row with equal content and a new stamp, the stamp moves. A deployment that changes a
/// standing stamp makes one such answer.
const RUN: u8 = 3;

/// Kinds of answers, each with a stamp of its own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerClass {
    /// Pages of the list, filtered or not.
    Lists,
    Taxonomy(TaxonomyKind),
    Details,
}

/// How many classes there are.
const CLASSES: usize = 5;

impl AnswerClass {
    /// The class of a canonical path and query.
    pub fn of(path: &str) -> Self {
        match Route::of(path.split('?').next().unwrap_or(path)) {
            Route::Taxonomy(kind) => Self::Taxonomy(kind),
            Route::Detail(_) => Self::Details,
            _ => Self::Lists,
        }
    }

    /// Its number, below [`CLASSES`].
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

/// What the stamps of one class have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum StampBehaviour {
    /// Nothing yet.
    #[default]
    Unproven,
    /// It follows the clock while the content stays.
    Moves,
    /// It stands still while the content changes.
    StandsStill,
}

named! {
    /// How the latest stamp of a class is read; the words of `/status`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum StampUse, as_str {
        /// It is used as the time of the answer.
        Used = "used",
        /// It stands still while the content changes.
        StandsStill = "stands-still",
        /// It is older than any CDN copy can be.
        TooOld = "too-old",
        /// It is ahead of `Date`.
        Ahead = "ahead",
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
    /// When the kept one arrived, or was confirmed, in milliseconds by our clock.
    pub fetched_ms: i64,
}

/// The instants that an answer speaks for, in milliseconds of the origin's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dated {
    /// For which it is confirmed.
    pub until_ms: i64,
    /// For which it claims to be made: an answer that claims an earlier instant than another is the older one.
    pub claimed_ms: i64,
    /// The latest at which its content may have been made.
    pub since_ms: i64,
    /// Whether it is older than it would be without caches.
    pub is_aged: bool,
}

/// What is known of one class.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    pulse: StampBehaviour,
    run: u8,
    reading: Option<StampUse>,
}

impl Known {
    /// Takes a stamp in, and returns its reading. `sent` is the instant that the header speaks for, `date` the header's
    /// `Date`: a cache's own one is later.
    fn see(
        &mut self,
        stamp: WallTime,
        [sent, date]: [WallTime; 2],
        before: Option<Before>,
        cache_ttl: Duration,
    ) -> StampUse {
        let age_ms = sent.millis_since(stamp);
        let within = |span: Duration| age_ms <= millis(span);
        let ahead = stamp.millis_since(date.max(sent)) > GRAIN_MS;
        let recent = within(bound(cache_ttl));
        if let Some(Before { stamp: Some(kept), changed, counts, .. }) = before {
            if changed && kept == stamp && !recent {
                (self.pulse, self.run) = (StampBehaviour::StandsStill, 0);
            } else if counts && !changed {
                let moved = stamp > kept && recent && !ahead;
                self.run = if moved { self.run.saturating_add(1) } else { 0 };
                if self.run >= RUN {
                    self.pulse = StampBehaviour::Moves;
                }
            }
        }
        match self.pulse {
            StampBehaviour::StandsStill => StampUse::StandsStill,
            _ if ahead => StampUse::Ahead,
            StampBehaviour::Unproven if !recent => StampUse::TooOld,
            StampBehaviour::Moves if !within(DAY.max(bound(cache_ttl))) => StampUse::TooOld,
            StampBehaviour::Unproven | StampBehaviour::Moves => StampUse::Used,
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Whether a cache says in its own words that an answer is a copy.
fn says_copy(headers: &HeaderMap) -> bool {
    let values = CACHE_FIELDS.iter().flat_map(|name| headers.get_all(*name)).filter_map(|value| value.to_str().ok());
    let words = values.flat_map(|value| value.split(|letter: char| !letter.is_ascii_alphabetic()));
    words.into_iter().any(|word| COPY_WORDS.iter().any(|copy| word.eq_ignore_ascii_case(copy)))
}

/// How much older than its header says the stamp of a CDN copy may be: two levels of a CDN, each of which keeps the copy
/// for `cache_ttl`.
fn bound(cache_ttl: Duration) -> Duration {
    cache_ttl.saturating_mul(2).saturating_add(CLOCKS_DIFFER)
}

/// Where silent caches were seen, one bit for each [`AnswerClass`]. Relaxed everywhere: nothing else is read by these bits.
#[derive(Debug, Default)]
struct SilentClasses {
    certain: AtomicU8,
    /// Only a stamp says so; it may turn out to stand still.
    by_stamp: AtomicU8,
    /// Whether copies are older than `cache_ttl`: the cache sends an expired one while it fetches a new one.
    is_updating: AtomicBool,
}

/// What was learned of all classes; cheap to clone.
#[derive(Clone)]
pub struct StampWatch {
    known: Arc<Mutex<[Known; CLASSES]>>,
    silent: Arc<SilentClasses>,
    /// When an answer last had an `Age`, in milliseconds by our clock.
    aged_ms: Arc<AtomicI64>,
    /// Whether one `ETag`, one `Last-Modified` came with two bodies.
    ambiguous: Arc<[AtomicBool; 2]>,
    /// Until so many whole passes were completed, all validators are in doubt.
    doubted_until: Arc<AtomicU64>,
    status: OriginStatus,
    cache_ttl: Duration,
}

impl StampWatch {
    /// Nothing learned yet. `cache_ttl` is how old a CDN copy without `Age` can be; `status` gets what is learned.
    pub fn new(status: OriginStatus, cache_ttl: Duration) -> Self {
        let aged_ms = Arc::new(AtomicI64::new(i64::MIN));
        let (known, silent, ambiguous, doubted_until) = Default::default();
        Self { known, silent, aged_ms, ambiguous, doubted_until, status, cache_ttl }
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

    /// Whether a silent cache was seen anywhere.
    pub fn has_seen_silent_copies(&self) -> bool {
        self.silent.certain.load(Ordering::Relaxed) | self.silent.by_stamp.load(Ordering::Relaxed) != 0
    }

    /// Whether an answer may be an old copy although it does not say so. Where caches say the age of their copies, an
    /// answer without `Age` is none.
    pub fn may_be_silent(&self, answer: &Answer) -> bool {
        answer.may_be_a_silent_copy() && !self.say_their_age(answer.received.as_millis())
    }

    /// Whether all caches seen within an hour before this instant say the age of their copies.
    fn say_their_age(&self, at_ms: i64) -> bool {
        const RECENT_MS: i64 = 3_600_000;
        let since_ms = at_ms.saturating_sub(self.aged_ms.load(Ordering::Relaxed));
        (0..RECENT_MS).contains(&since_ms) && !self.has_seen_silent_copies()
    }

    /// Whether `ETag`, and whether `Last-Modified` tells two bodies apart, as far as known.
    pub fn validate(&self) -> [bool; 2] {
        let is_doubted = self.is_doubted();
        self.ambiguous.each_ref().map(|ambiguous| !is_doubted && !ambiguous.load(Ordering::Relaxed))
    }

    /// A body that was confirmed is not that of the origin: bodies are asked for until the next whole pass has ended.
    /// Returns what [`StampWatch::doubt_no_more`] takes to end this doubt, and none from before.
    pub(crate) fn doubt(&self) -> u64 {
        let picture = self.status.picture();
        let until = picture.passes + 1 + u64::from(picture.pass.is_some());
        self.doubted_until.swap(until, Ordering::Relaxed)
    }

    pub(crate) fn doubt_no_more(&self, before: u64) {
        self.doubted_until.store(before, Ordering::Relaxed);
    }

    fn is_doubted(&self) -> bool {
        let until = self.doubted_until.load(Ordering::Relaxed);
        until > 0 && self.status.picture().passes < until
    }

    /// Compares the `ETag` and `Last-Modified` of two answers with different bodies. A tag may be right about another body
    /// than ours, so it counts while validators are in doubt.
    pub fn differ(&self, before: [&Option<String>; 2], now: &Validators) {
        let now = [now.etag.as_ref().filter(|_| self.is_doubted()), now.last_modified.as_ref()];
        for ((ambiguous, name), (before, now)) in
            self.ambiguous.iter().zip(["ETag", "Last-Modified"]).zip(before.into_iter().zip(now))
        {
            if now.is_some() && before.as_ref() == now && !ambiguous.swap(true, Ordering::Relaxed) {
                tracing::warn!("the origin sent two bodies with one {name}, which is no longer used as a validator");
            }
        }
    }

    /// An answer without `Age` turned out to be an old copy.
    pub fn saw_silent_copy(&self, class: AnswerClass) {
        if self.silent.certain.fetch_or(1 << class.index(), Ordering::Relaxed) == 0 {
            let (class, cache_ttl_seconds) = (class.as_str(), self.cache_ttl.as_secs());
            tracing::info!(class, cache_ttl_seconds, "a cache in front of the origin sends old copies without Age");
        }
    }

    /// The list lacked a change that is older than the instant for which it was confirmed. Where neither a stamp nor `Age`
    /// dated it, it was an old copy.
    pub fn missed_a_change(&self, now_ms: i64) {
        let lists = self.known.lock()[AnswerClass::Lists.index()].reading;
        if lists != Some(StampUse::Used) && !self.say_their_age(now_ms) {
            self.saw_silent_copy(AnswerClass::Lists);
        }
    }

    /// Dates an answer with this body, and learns from it. `text` is `None` for a 304, which has no body.
    pub fn date(&self, class: AnswerClass, answer: &Answer, text: Option<&str>, before: Option<Before>) -> Dated {
        let sent = answer.by_header();
        let (sent_ms, received_ms) = (answer.sent_ms(), answer.received.as_millis());
        let stamp = text.and_then(stamp);
        let seen = stamp.map(|stamp| (stamp, self.read(class, stamp, answer, before)));
        let used = seen.filter(|(_, (reading, _))| *reading == StampUse::Used);
        let claimed_ms = used.map_or(sent_ms, |(stamp, _)| answer.kept_ms(stamp.min(sent)));
        let moves = used.is_some_and(|(_, (_, pulse))| pulse == StampBehaviour::Moves);
        let latest_ms = if moves { claimed_ms } else { sent_ms };
        let is_older = sent_ms.saturating_sub(claimed_ms) > GRAIN_MS;
        let may_be_silent = answer.may_be_a_silent_copy();
        let bit = 1 << class.index();
        if may_be_silent && says_copy(&answer.headers) {
            self.saw_silent_copy(class);
        } else if may_be_silent && is_older {
            self.silent.by_stamp.fetch_or(bit, Ordering::Relaxed);
        } else if seen.is_some_and(|(_, (reading, _))| matches!(reading, StampUse::StandsStill | StampUse::TooOld)) {
            // The old copies that this stamp indicated were none.
            self.silent.by_stamp.fetch_and(!bit, Ordering::Relaxed);
        }
        let undated = may_be_silent && used.is_none() && self.has_seen_silent_copies();
        let lag_ms = answer.lag_ms.max(0);
        let by_origin_ms = received_ms.saturating_sub(lag_ms);
        let is_expired = |stamp| answer.by_header().millis_since(stamp) > millis(self.cache_ttl) + GRAIN_MS;
        if may_be_silent
            && self.silent.certain.load(Ordering::Relaxed) != 0
            && seen.is_some_and(|(stamp, (reading, _))| reading != StampUse::StandsStill && is_expired(stamp))
        {
            self.silent.is_updating.store(true, Ordering::Relaxed);
        }
        // A copy that had not expired when it was last asked for may be sent once more, however late.
        let last_ms =
            before.filter(|_| self.silent.is_updating.load(Ordering::Relaxed)).map(|before| before.fetched_ms);
        let asked_ms = last_ms.map_or(by_origin_ms, |last_ms| by_origin_ms.min(last_ms.saturating_sub(lag_ms)));
        let before_copy_ms = asked_ms.saturating_sub(millis(self.cache_ttl));
        let until_ms = if undated { claimed_ms.min(before_copy_ms) } else { claimed_ms };
        // A `Date` that lags a little is a slow clock; an `Age`, or a body older than its header, is a cache.
        let is_late = by_origin_ms.saturating_sub(sent_ms) > millis(CLOCKS_DIFFER);
        let said_age = answer.stamps.age.unwrap_or(0) > 0;
        if said_age {
            self.aged_ms.store(received_ms, Ordering::Relaxed);
        }
        let by_age_ms = answer.stamps.age.map(|age| i64::from(age) * 1000);
        self.compare_with_ttl(by_age_ms.unwrap_or_else(|| by_origin_ms.saturating_sub(claimed_ms)));
        let is_aged = said_age || is_older || is_late || undated;
        if is_aged && class != AnswerClass::Details {
            let age_ms = u64::try_from(received_ms.saturating_sub(until_ms)).unwrap_or(0);
            self.status.saw_copy(Duration::from_millis(age_ms));
        }
        Dated { until_ms, claimed_ms, since_ms: latest_ms.saturating_add(answer.grain_ms()), is_aged }
    }

    /// Reads a stamp, and shows in `/status` what it is worth.
    fn read(
        &self,
        class: AnswerClass,
        stamp: WallTime,
        answer: &Answer,
        before: Option<Before>,
    ) -> (StampUse, StampBehaviour) {
        let sent = answer.by_header();
        let mut known = self.known.lock();
        let own = &mut known[class.index()];
        let reading = own.see(stamp, [sent, answer.stamps.date.unwrap_or(sent)], before, self.cache_ttl);
        let (news, pulse) = (own.reading.replace(reading) != Some(reading), own.pulse);
        // Before the status, which has a lock of its own.
        drop(known);
        if news {
            self.status.update(|picture| picture.stamps.insert(class.as_str(), reading.as_str()));
        }
        (reading, pulse)
    }

    /// Notes copies that are far older than they said.
    fn compare_with_ttl(&self, age_ms: i64) {
        if age_ms > millis(bound(self.cache_ttl)) {
            let (age_seconds, cache_ttl_seconds) = (age_ms.unsigned_abs() / 1000, self.cache_ttl.as_secs());
            self.status.saw_old_copy(OldCopy { age_seconds, cache_ttl_seconds });
        }
    }
}

/// `generated_at` at the top level of a body, if it is an instant.
pub(crate) fn stamp(text: &str) -> Option<WallTime> {
    let fields = json::fields(text).ok()?;
    let field = fields.iter().find(|field| field.key == "generated_at")?;
    let nanos = crate::api::modified::parse_iso8601(&json::string(field.value)?).ok()?;
    Some(WallTime::from_millis(nanos.div_euclid(1_000_000)))
}

#[cfg(test)]
mod tests;
