//! The origin's health and the mirror's progress, for people and metrics.
//!
//! It decides nothing. Callers: [`super`] writes, [`crate::admin`] reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::{Monotonic, WallTime};
use crate::semantics::excerpt::{self, Excerpt};
use crate::telemetry::findings::{Finding, Kind};
use crate::telemetry::timing::Times;
use crate::words::{counted, named};

use super::ask::{AskError, UNUSABLE};
use super::health::{FEW, Health, Judgement, Witness};
use super::window::Class;

named! {
    /// The origin's state, as last seen.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum OriginState, as_str {
        /// Not asked yet.
        #[default]
        NotAsked = "not-asked",
        /// There is no origin.
        Offline = "offline",
        /// The first crawl is running.
        Crawling = "crawling",
        /// It answers clients' reads; no mirror looks at it.
        Answering = "answering",
        /// It was asked, and nothing has changed.
        Unchanged = "unchanged",
        /// It was asked, and something had changed.
        Changed = "changed",
        /// Requests failed.
        CouldNotBeAsked = "could-not-be-asked",
        /// It sends unusable answers.
        Nonsense = "nonsense",
    }
}

/// The last failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastError {
    /// When, as RFC 3339; `None` where the clock is beyond the calendar.
    pub at: Option<String>,
    /// What happened, for people: an excerpt, because an origin can make it as long as it likes.
    pub message: String,
}

impl LastError {
    fn new(message: &impl std::fmt::Display, now: WallTime) -> Self {
        Self { at: now.rfc3339(), message: Excerpt(message).to_string() }
    }
}

/// Progress of a running pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Finished requests of the pass.
    pub done: u64,
    /// All requests of the pass, as far as known.
    pub of: u64,
}

/// A snapshot that is not published because it lost too much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    /// Its id.
    pub snapshot: String,
    /// Its listings.
    pub listings: u64,
    /// The listings of the newest snapshot.
    pub serving: u64,
    /// Why.
    pub reason: String,
    /// How many listings of the newest snapshot it lacks, by sport and by state.
    pub sports: BTreeMap<String, u64>,
    pub states: BTreeMap<String, u64>,
    /// The first of them.
    pub vanishing: Vec<Vanishing>,
}

/// A listing that would vanish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vanishing {
    pub id: u64,
    pub name: String,
}

impl Held {
    fn finding(&self) -> Finding {
        let most = |of: &BTreeMap<String, u64>| {
            let mut all: Vec<_> = of.iter().collect();
            all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let more = if all.len() > MOST_TOLD { ", ..." } else { "" };
            let told = all
                .iter()
                .take(MOST_TOLD)
                .map(|(name, count)| format!("{} {count}", excerpt::escaped(name)))
                .collect::<Vec<_>>();
            told.join(", ") + more
        };
        let Self { reason, sports, states, .. } = self;
        let whose = format!("by sport: {}; by state: {}", most(sports), most(states));
        Finding::new(Kind::HeldBack, format!("a snapshot is held back: {reason} ({whose})"))
    }
}

/// How many sports and states a sentence names.
const MOST_TOLD: usize = 5;

/// A copy of a cache in front of the origin that is far older than `origin.cache_ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldCopy {
    pub age_seconds: u64,
    pub cache_ttl_seconds: u64,
}

impl OldCopy {
    fn finding(self) -> Finding {
        let Self { age_seconds, cache_ttl_seconds } = self;
        let text = format!(
            "a cache in front of the origin sent a copy {age_seconds} s old, but origin.cache_ttl is \
             {cache_ttl_seconds} s: changes are seen late"
        );
        Finding::new(Kind::CopiesOld, text)
    }
}

/// Details that cannot be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetailTrouble {
    /// How many wait for another try.
    pub failing: usize,
    /// How many of them have failed several times in a row.
    pub often: usize,
    /// Whether many have failed since the last one was answered: all of them rest.
    pub all: bool,
    /// Why the last one failed.
    pub error: String,
}

impl DetailTrouble {
    fn finding(&self) -> Option<Finding> {
        let text = match self {
            Self { all: true, error, failing, .. } => {
                let failed = counted(*failing as u64, "request");
                format!("no details can be fetched: {failed} failed and none was answered. The last error: {error}")
            }
            Self { often: often @ 1.., error, .. } => {
                let many = counted(*often as u64, "detail");
                format!("{many} cannot be fetched, although others can. The last error: {error}")
            }
            _ => return None,
        };
        Some(Finding::new(Kind::DetailsFail, text))
    }
}

/// So many answers in a row that may not be stored are no accident.
const MANY_UNSTORED: u64 = 3;

/// So many answers in a row with other bytes are no deployment.
const MANY_RESPELLED: u64 = 6;

/// Everything at one instant.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub state: OriginState,
    /// The last failure, even if later requests succeeded.
    pub last_error: Option<LastError>,
    /// The judgement on recent failures.
    pub health: Health,
    /// Failed requests in a row, whoever asked, but for details.
    failed_in_row: u32,
    /// Answers in a row that clients could not get because of their content.
    unusable_in_row: u32,
    /// How the last request failed, for people.
    how: &'static str,
    /// Since when it fails, also between two tries; `None`: it answers.
    pub failing_since: Option<Instant>,
    /// Requests sent since the start, by class.
    pub sent: BTreeMap<&'static str, u64>,
    /// Until the head of an answer arrived, by class.
    pub(crate) took: BTreeMap<&'static str, Times>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// The pace of crawl and details.
    pub pace: Pace,
    /// The running pass.
    pub pass: Option<Progress>,
    /// Held back.
    pub held: Option<Held>,
    /// When the last refresh ended, milliseconds since the epoch.
    pub refreshed_ms: Option<i64>,
    /// When the next refresh is due; `None`: none is planned.
    pub refresh_due: Option<Monotonic>,
    /// When work that waits for old copies of the origin's CDN goes on; `None`: none waits.
    pub copies_until: Option<WallTime>,
    /// Until when no change is followed, because the answers change back and forth.
    pub flips_until: Option<WallTime>,
    /// Whole passes that were completed.
    pub passes: u64,
    /// Whether there is no mirror, so that only client reads show the origin's state.
    pub shield: bool,
    /// Details that cannot be fetched, if any.
    pub details: Option<DetailTrouble>,
    /// How many answers in a row a shield was forbidden to store.
    pub unstored: u64,
    /// The use of `generated_at`, by kind of answer; kinds without it are absent.
    pub stamps: BTreeMap<&'static str, &'static str>,
    /// The oldest copy of a cache that was too old.
    pub old_copy: Option<OldCopy>,
    /// How many answers in a row had other bytes for equal values.
    respelled: u64,
    /// How many listings on which pages of the list cannot be read.
    broken: BTreeMap<u64, usize>,
}

impl Picture {
    /// Whether the last requests of the mirror failed, or their answers were no use.
    pub const fn is_failing(&self) -> bool {
        matches!(self.state, OriginState::CouldNotBeAsked | OriginState::Nonsense) || self.health.failures() > 0
    }

    /// Everything that is wrong with the origin.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let stands_still = matches!(self.state, OriginState::CouldNotBeAsked | OriginState::Nonsense);
        // What else fails may be details alone.
        let is_told = stands_still || self.state == OriginState::Crawling && self.failed_in_row > 1;
        let fails = self.failing_since.filter(|_| is_told).map(|_| {
            let how = if self.state == OriginState::Nonsense { UNUSABLE } else { self.how };
            let why = self.last_error.as_ref().map_or_else(String::new, |error| format!(": {}", error.message));
            Finding::new(Kind::OriginFails, format!("{how}{why}"))
        });
        let unstored = (self.shield && self.unstored >= MANY_UNSTORED).then(|| {
            let text = format!(
                "nothing can be stored: the last {} answers of the origin forbid it with `Cache-Control: private` or \
                 `no-store`, so each request of a client becomes a request to the origin",
                self.unstored
            );
            Finding::new(Kind::NotStored, text)
        });
        let held = self.held.as_ref().map(Held::finding);
        let details = self.details.as_ref().filter(|_| !stands_still).and_then(DetailTrouble::finding);
        let old = self.old_copy.map(OldCopy::finding);
        let waits = self.copies_until.filter(|_| self.failing_since.is_none()).map(|until| {
            let text = format!("until {until} caches before the origin may send old copies; then it is asked again");
            Finding::new(Kind::CopiesWait, text)
        });
        let broken = self.broken.first_key_value().map(|(page, _)| {
            let many = counted(self.broken.values().sum::<usize>() as u64, "listing");
            let text = format!("{many} of the origin (page {page}, `per_page=100`) cannot be read and are left out");
            Finding::new(Kind::ListingsBroken, text)
        });
        let respelled = (self.respelled >= MANY_RESPELLED).then(|| {
            let text = "the bytes of the origin's answers differ at each look, although their values are equal";
            Finding::new(Kind::BytesDiffer, text)
        });
        let flips = self.flips_until.map(|until| {
            let text =
                format!("the answers of the origin change back and forth; changes are followed again after {until}");
            Finding::new(Kind::AnswersFlip, text)
        });
        [fails, unstored, held, details, old, waits, broken, respelled, flips].into_iter().flatten().collect()
    }

    /// Notes since when it fails. One failure alone says little.
    fn note_failing(&mut self) {
        let fails = matches!(self.state, OriginState::CouldNotBeAsked | OriginState::Nonsense);
        self.failing_since =
            (fails || self.health.failures() > 1).then(|| self.failing_since.unwrap_or_else(Instant::now));
    }
}

/// Shared and cheap to clone.
#[derive(Clone, Default)]
pub struct OriginStatus(Arc<Mutex<Picture>>);

impl OriginStatus {
    /// The state now.
    pub fn picture(&self) -> Picture {
        self.0.lock().clone()
    }

    /// Changes a part of it.
    pub fn update<T>(&self, change: impl FnOnce(&mut Picture) -> T) -> T {
        let mut picture = self.0.lock();
        let changed = change(&mut picture);
        picture.note_failing();
        changed
    }

    /// A request is on the wire.
    pub fn sent(&self, class: Class) {
        let mut picture = self.0.lock();
        *picture.sent.entry(class.as_str()).or_default() += 1;
        if matches!(class, Class::Crawl | Class::Details) {
            picture.pace.count(Instant::now());
        }
    }

    /// The head of an answer arrived.
    pub fn arrived(&self, class: Class, status: u16, took: Duration) {
        let mut picture = self.0.lock();
        picture.took.entry(class.as_str()).or_default().count(took);
        *picture.statuses.entry(status).or_default() += 1;
    }

    /// A request was answered.
    pub fn succeeded(&self) {
        let mut picture = self.0.lock();
        picture.health.answered();
        picture.failed_in_row = 0;
        if picture.shield && matches!(picture.state, OriginState::NotAsked | OriginState::CouldNotBeAsked) {
            picture.state = OriginState::Answering;
        }
        picture.note_failing();
    }

    /// A request failed; returns what that says about the origin. `paused`: as in [`Health::failed`].
    pub fn failed(&self, error: &AskError, witness: Witness, paused: bool, now: WallTime) -> Judgement {
        let mut picture = self.0.lock();
        picture.last_error = Some(LastError::new(error, now));
        picture.how = error.how();
        let verdict = picture.health.failed(error, witness, paused);
        let only_details = witness.class == Class::Details;
        if (witness.is_ours || verdict.counts) && !only_details {
            picture.failed_in_row = picture.failed_in_row.saturating_add(1);
        }
        // One failure alone says little. To tell people of failures takes fewer clients than to pause the origin.
        let fails = verdict.counts && picture.health.failures() > 1 || picture.shield && picture.failed_in_row >= FEW;
        // Whether details alone fail is told by itself.
        if fails && picture.state != OriginState::Crawling && !only_details {
            picture.state = OriginState::CouldNotBeAsked;
        }
        picture.note_failing();
        verdict
    }

    /// The content of an answer for a client is usable, or not: then why.
    pub fn judged(&self, error: Option<&AskError>, now: WallTime) {
        let mut picture = self.0.lock();
        let Some(error) = error else {
            picture.unusable_in_row = 0;
            if picture.shield && picture.state == OriginState::Nonsense {
                picture.state = OriginState::Answering;
                picture.note_failing();
            }
            return;
        };
        picture.last_error = Some(LastError::new(error, now));
        picture.unusable_in_row = picture.unusable_in_row.saturating_add(1);
        if picture.shield && picture.unusable_in_row >= FEW {
            picture.state = OriginState::Nonsense;
            picture.note_failing();
        }
    }

    /// An answer had other bytes than the stored one where the values are equal, or it had not.
    pub fn respelled(&self, is_so: bool) {
        let mut picture = self.0.lock();
        picture.respelled = if is_so { picture.respelled.saturating_add(1) } else { 0 };
    }

    /// So many listings on a page of the list cannot be read, and are left out.
    pub fn left_out(&self, page: u64, broken: usize) {
        let mut picture = self.0.lock();
        picture.broken.remove(&page);
        picture.broken.extend(Some((page, broken)).filter(|_| broken > 0));
    }

    /// Something else went wrong.
    pub fn error(&self, message: &impl std::fmt::Display, now: WallTime) {
        self.0.lock().last_error = Some(LastError::new(message, now));
    }

    /// One more request is done; it may be one of the pass.
    pub fn pass_advanced(&self) {
        if let Some(pass) = &mut self.0.lock().pass {
            pass.done = (pass.done + 1).min(pass.of.max(pass.done));
        }
    }

    /// A shield was allowed to store an answer, or the origin forbade it.
    pub fn stored(&self, allowed: bool) {
        let mut picture = self.0.lock();
        picture.unstored = if allowed { 0 } else { picture.unstored.saturating_add(1) };
    }

    /// A copy was far older than `origin.cache_ttl`; `true` if it is the first one.
    pub fn saw_old_copy(&self, copy: OldCopy) -> bool {
        let mut picture = self.0.lock();
        let is_first = picture.old_copy.is_none();
        picture.old_copy = picture.old_copy.filter(|kept| kept.age_seconds >= copy.age_seconds).or(Some(copy));
        is_first
    }
}

/// How long the pace is measured before it counts.
const WINDOW: Duration = Duration::from_secs(10);

/// Requests per second, over the last ten seconds or so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// When the window began, and the requests since.
    window: Option<(Instant, u64)>,
    /// The pace one window ago.
    before: Option<f64>,
}

impl Pace {
    /// One more request.
    pub fn count(&mut self, now: Instant) {
        let (began, count) = self.window.get_or_insert((now, 0));
        *count += 1;
        let elapsed = now.saturating_duration_since(*began);
        if elapsed >= WINDOW {
            self.before = Some(*count as f64 / elapsed.as_secs_f64());
            self.window = Some((now, 0));
        }
    }

    /// Requests per second; `None` while too few are known.
    pub fn per_second(&self, now: Instant) -> Option<f64> {
        let (began, count) = self.window?;
        let elapsed = now.saturating_duration_since(began);
        // A window without requests shows a stop sooner than the window before.
        let current = (elapsed >= Duration::from_secs(1) && count > 0).then(|| count as f64 / elapsed.as_secs_f64());
        match self.before {
            Some(before) if elapsed < WINDOW => Some(before),
            _ => current,
        }
    }
}

/// Seconds for so many requests; `None` while the pace is unknown. `per_minute`: the budget's limit.
pub(crate) fn eta_seconds(left: u64, per_minute: Option<usize>, per_second: Option<f64>) -> Option<u64> {
    if left == 0 {
        return Some(0);
    }
    let by_budget = per_minute.map(|limit| left.saturating_mul(60) / limit.max(1) as u64);
    let by_pace = per_second.filter(|pace| *pace > 0.0).map(|pace| (left as f64 / pace).ceil() as u64);
    by_budget.max(by_pace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_slower_of_budget_and_pace_says() {
        for (left, per_minute, per_second, eta) in [
            (0, None, None, Some(0)),
            (600, Some(60), None, Some(600)),
            (600, Some(60), Some(100.0), Some(600)),
            (600, Some(60), Some(0.5), Some(1200)),
            (600, None, Some(100.0), Some(6)),
            (600, None, None, None),
            (u64::MAX, Some(60), Some(1.0), Some(u64::MAX)),
        ] {
            assert_eq!(eta_seconds(left, per_minute, per_second), eta, "{left} {per_minute:?} {per_second:?}");
        }
    }

    #[test]
    fn an_origin_fails_from_its_second_failure_until_it_is_known_to_answer() {
        let (status, now) = (OriginStatus::default(), WallTime::from_seconds(1));
        let since = || status.picture().failing_since;
        let fail = |path: &str| {
            let error = AskError::Connection { path: path.to_owned(), reason: "x".into(), reached: false };
            status.failed(&error, Witness::mirror(Class::Crawl), false, now);
        };
        status.update(|picture| picture.state = OriginState::Unchanged);
        fail("/a");
        assert_eq!(since(), None, "one says little");
        fail("/b");
        let began = since().unwrap();
        // Another answer, which the mirror does not use, ends no failure of the mirror.
        status.succeeded();
        fail("/c");
        assert_eq!(since(), Some(began));
        status.update(|picture| picture.state = OriginState::Unchanged);
        assert_eq!(since(), None);
        status.update(|picture| picture.state = OriginState::Nonsense);
        assert!(since().is_some());
    }

    #[test]
    fn each_thing_that_is_wrong_with_an_origin_is_a_finding_until_it_is_right() {
        let trouble = |failing, often, all| Some(DetailTrouble { failing, often, all, error: "it is HTML".to_owned() });
        let failing_since = Some(Instant::now());
        let fails = || Picture { failing_since, state: OriginState::CouldNotBeAsked, ..Picture::default() };
        let details = |details| Picture { details, ..Picture::default() };
        let unstored = |shield, unstored| Picture { shield, unstored, ..Picture::default() };
        let old_copy = Some(OldCopy { age_seconds: 4000, cache_ttl_seconds: 300 });
        for (picture, want) in [
            (Picture::default(), &[][..]),
            (fails(), &[Kind::OriginFails]),
            (Picture { details: trouble(9, 9, true), ..fails() }, &[Kind::OriginFails]),
            (Picture { failing_since, ..details(trouble(9, 9, true)) }, &[Kind::DetailsFail]),
            (details(trouble(2, 0, false)), &[]),
            (details(trouble(40, 1, false)), &[Kind::DetailsFail]),
            (unstored(true, 2), &[]),
            (unstored(true, 3), &[Kind::NotStored]),
            (unstored(false, 1000), &[]),
            (Picture { held: Some(Held::default()), ..Picture::default() }, &[Kind::HeldBack]),
            (Picture { old_copy, ..Picture::default() }, &[Kind::CopiesOld]),
            (Picture { copies_until: Some(WallTime::from_seconds(9)), ..Picture::default() }, &[Kind::CopiesWait]),
        ] {
            let kinds: Vec<Kind> = picture.findings().iter().map(|finding| finding.kind).collect();
            assert_eq!(kinds, want, "{picture:?}");
        }
    }

    #[test]
    fn a_pace_is_what_was_counted_lately() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert_eq!(pace.per_second(start), None);
        (0..=100).for_each(|n| pace.count(at(n * 20)));
        assert!((pace.per_second(at(2_000)).unwrap() - 50.5).abs() < 0.1);
        (101..=500).for_each(|n| pace.count(at(n * 20)));
        assert!((pace.per_second(at(10_500)).unwrap() - 50.1).abs() < 0.1, "the window before");
        pace.count(at(12_000));
        assert!(pace.per_second(at(30_000)).unwrap() < 0.1, "it has come to a stop");
    }
}
