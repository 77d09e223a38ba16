//! The origin's health and the mirror's progress, for people and metrics.
//!
//! It decides nothing. Callers: [`super`] writes, [`crate::server::admin`] reads.

mod looks;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::api::hash::ContentHash;
use crate::clock::{Monotonic, WallTime};
use crate::protocol::excerpt::Excerpt;
use crate::telemetry::findings::{Finding, Kind};
use crate::telemetry::timing::Times;
use crate::words::{counted, named};

pub use trouble::{CopiesWait, HeldBack, OldCopy, Vanishing};

use super::ask::{AskError, UNUSABLE};
use super::health::{FEW, Health, Judgement, Witness};
use super::window::Class;
use looks::Looks;

named! {
    /// The origin's state, as last seen.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub enum OriginState, as_str {
        #[default]
        NotAsked = "not-asked",
        /// There is no origin.
        Offline = "offline",
        Crawling = "crawling",
        /// It answers clients' reads; no mirror looks at it.
        Answering = "answering",
        Unchanged = "unchanged",
        Changed = "changed",
        /// Requests failed.
        CouldNotBeAsked = "could-not-be-asked",
        /// It sends unusable answers.
        Nonsense = "nonsense",
    }
}

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// Finished requests of the pass.
    pub done: u64,
    /// All requests of the pass, as far as known.
    pub of: u64,
}

/// So many answers in a row that may not be stored are no accident.
const MANY_UNSTORED: u64 = 3;

/// If the last request of a shield failed, and no other one came for so long, that is what is known of the origin.
const QUIET: Duration = Duration::from_secs(10);

/// For how long a shield without requests says how the origin failed. Nobody knows how it is by then.
const REMEMBERED: Duration = Duration::from_secs(600);

/// How the last few requests ended, whoever asked, but for failures of details. An answer whose content is of no use failed.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    /// One bit each, the last one lowest: whether it failed.
    failed: u8,
    seen: u32,
}

impl Recent {
    fn ended(&mut self, failed: bool) {
        self.failed = (self.failed << 1) | u8::from(failed);
        self.seen = u8::BITS.min(self.seen + 1);
    }

    /// Whether at least half of them failed, and one of the last two.
    const fn mostly_failed(self) -> bool {
        self.failed & 0b11 != 0 && 2 * self.failed.count_ones() >= self.seen
    }

    const fn often_failed(self) -> bool {
        self.in_row() >= FEW || self.mostly_failed()
    }

    /// How many in a row failed.
    const fn in_row(self) -> u32 {
        self.failed.trailing_ones()
    }
}

/// Everything at one instant.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub state: OriginState,
    /// The last failure, even if later requests succeeded.
    pub last_error: Option<LastError>,
    pub health: Health,
    /// How the last request failed, for people, and what to do about it if that is known.
    how: (&'static str, Option<&'static str>),
    recent: Recent,
    failed_at: Option<Instant>,
    /// Since when it fails, also between two tries; `None`: it answers.
    failing_since: Option<Instant>,
    /// The same before the last answer, which may turn out to be of no use.
    failing_before: Option<Instant>,
    /// Requests sent since the start, by class.
    pub sent: BTreeMap<&'static str, u64>,
    /// Until the head of an answer arrived, by class.
    pub(crate) took: BTreeMap<&'static str, Times>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    pub pace: Pace,
    pub pass: Option<Progress>,
    pub held: Option<HeldBack>,
    /// When the last refresh ended, milliseconds since the epoch.
    pub refreshed_ms: Option<i64>,
    /// When the next refresh is due; `None`: none is planned.
    pub refresh_due: Option<Monotonic>,
    /// The work that waits for old copies of the origin's CDN; `None`: none waits.
    pub copies: Option<CopiesWait>,
    /// Until when no change is followed, because the answers change back and forth; past while a refresh looks whether
    /// they still do.
    pub flips_until: Option<WallTime>,
    /// Whether they did so not long ago, if only once.
    pub flips: bool,
    /// Whole passes that were completed.
    pub passes: u64,
    /// Whether there is no mirror, so that only client reads show the origin's state.
    pub shield: bool,
    /// That details cannot be fetched: all, or some again and again.
    pub(crate) details: Option<Finding>,
    /// How many details wait for another try; [`u64::MAX`]: all, because many failed and none was answered.
    pub(crate) details_failing: u64,
    /// How many answers in a row a shield was forbidden to store.
    pub unstored: u64,
    /// The use of `generated_at`, by kind of answer; kinds without it are absent.
    pub stamps: BTreeMap<&'static str, &'static str>,
    /// The oldest copy of a cache that was too old, and when it came.
    old_copy_seen: Option<(OldCopy, Instant)>,
    /// How many listings on which pages of the list cannot be read.
    broken: BTreeMap<u64, usize>,
    /// By path.
    looks: BTreeMap<String, Looks>,
    /// How long before its arrival, by our clock, the answer was made that came latest of all, and when it came.
    copy_seen: Option<(Duration, Instant)>,
}

impl Picture {
    /// Whether the last requests of the mirror failed, or their answers were no use.
    pub const fn is_failing(&self) -> bool {
        matches!(self.state, OriginState::CouldNotBeAsked | OriginState::Nonsense) || self.health.failures() > 0
    }

    /// Whether the origin fails as a whole, and not details alone.
    pub const fn is_down(&self) -> bool {
        self.health.failures() >= FEW && self.recent.in_row() > 1
    }

    /// For how long before their arrival the answers of the last hour confirm the data, at worst; `None`: they are no
    /// copies. `lag_ms`: by how much the origin's clock is behind ours, as far as is known by now.
    pub fn copy_age(&self, lag_ms: i64) -> Option<Duration> {
        const HOUR: Duration = Duration::from_secs(3600);
        let lag = Duration::from_millis(lag_ms.max(0).unsigned_abs());
        self.copy_seen.filter(|(_, at)| at.elapsed() < HOUR).map(|(age, _)| age.saturating_sub(lag))
    }

    /// The oldest copy that was too old, while another could be expected.
    pub fn old_copy(&self) -> Option<OldCopy> {
        let is_told = |(copy, at): &(OldCopy, Instant)| {
            let renewed = Duration::from_secs(copy.age_seconds).saturating_mul(2);
            at.elapsed() < renewed.clamp(OLD_COPY_TOLD[0], OLD_COPY_TOLD[1])
        };
        self.old_copy_seen.filter(is_told).map(|(copy, _)| copy)
    }

    /// For how long it has failed; `None`: it answers. A shield counts until the last failure that it saw.
    pub fn failing(&self) -> Option<Duration> {
        let until = self.failed_at.filter(|_| self.shield).unwrap_or_else(Instant::now);
        self.failing_since.map(|since| until.saturating_duration_since(since))
    }

    /// Why it fails; `None`: it does not, or nobody knows.
    fn fails(&self) -> Option<Finding> {
        // What else fails may be details alone.
        let is_known = self.failing_since.is_some()
            && (self.stands_still() || self.state == OriginState::Crawling && self.recent.in_row() > 1);
        let is_quiet = self.failed_at.is_some_and(|at| at.elapsed() >= QUIET);
        let Recent { failed, seen } = self.recent;
        let of_shield = self.recent.mostly_failed() || self.recent.in_row() > 0 && is_quiet;
        if !(is_known || self.shield && of_shield) {
            return None;
        }
        let ((how, todo), some, last) = (self.how, failed.count_ones(), counted(seen.into(), "request"));
        let share = (self.shield && some < seen).then(|| format!(", {some} of the last {last} failed"));
        let error = self.last_error.as_ref();
        let why = error.map(|error| format!(": {}", error.message));
        let at = error.and_then(|error| error.at.as_ref()).filter(|_| self.shield);
        let asked = at.map(|at| format!("; it was last asked at {at}"));
        let [share, why, asked] = [share, why, asked].map(Option::unwrap_or_default);
        let text = format!("{how}{share}{why}{asked}");
        let fails = Finding::new(Kind::OriginFails, text).because(how);
        Some(match todo {
            Some(todo) => fails.todo(todo),
            None => fails,
        })
    }

    const fn stands_still(&self) -> bool {
        matches!(self.state, OriginState::CouldNotBeAsked | OriginState::Nonsense)
    }

    /// Everything that is wrong with the origin.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let take_turns = self.looks.values().any(Looks::take_turns);
        // Without a change that waits, the origin may stay at what was followed last.
        let waits = self.flips_until.is_some() && self.state == OriginState::Changed;
        let flips = (take_turns || waits).then(|| {
            let wait = self.flips_until.map(|until| format!("; no change is followed before {until}"));
            let text = format!("the answers of the origin change back and forth{}", wait.unwrap_or_default());
            Finding::new(Kind::AnswersFlip, text)
        });
        // Answers that change back and forth do not fit together, and make it wait again and again.
        let fails = self.fails().filter(|_| flips.is_none() || self.state != OriginState::Nonsense);
        let unstored = (self.shield && self.unstored >= MANY_UNSTORED).then(|| {
            let text = format!(
                "nothing can be stored: the last {} answers of the origin forbid it with `Cache-Control: private` or \
                 `no-store`, so nearly every request of a client becomes one to the origin",
                self.unstored
            );
            Finding::new(Kind::NotStored, text)
        });
        let held = self.held.as_ref().map(HeldBack::finding);
        let details = self.details.clone().filter(|_| !self.stands_still());
        let old = self.old_copy().map(OldCopy::finding);
        let waits = self.copies.filter(|wait| self.failing_since.is_none() && flips.is_none() && !wait.is_expected);
        let waits = waits.map(|CopiesWait { until, .. }| {
            let text = format!("until {until} caches before the origin may send old copies; then it is asked again");
            Finding::new(Kind::CopiesWait, text)
        });
        let broken = self.broken.first_key_value().map(|(page, _)| {
            let many = counted(self.broken.values().sum::<usize>() as u64, "listing");
            let text = format!("the origin has {many} that cannot be read (page {page}, `per_page=100`): left out");
            Finding::new(Kind::ListingsBroken, text)
        });
        let unsteady = self.looks.iter().find_map(|(path, looks)| looks.unsteady(path));
        [fails, unstored, held, details, old, waits, broken, flips, unsteady].into_iter().flatten().collect()
    }

    /// Notes since when it fails. One failure alone says little.
    fn note_failing(&mut self) {
        self.failing_since = (self.stands_still() || self.health.failures() > 1)
            .then(|| self.failing_since.unwrap_or_else(Instant::now));
    }

    /// Remembers the words for a failure. A spent budget says nothing new.
    fn note(&mut self, error: &AskError, now: WallTime) {
        if self.last_error.is_none() || !matches!(error, AskError::Spent(_)) {
            self.last_error = Some(LastError::new(error, now));
            self.how = (error.how(), error.todo());
        }
    }

    /// Nobody has asked the origin through this shield for so long that its failure is old news.
    fn forget(&mut self) {
        if self.shield && self.failed_at.is_some_and(|at| at.elapsed() >= REMEMBERED) {
            if self.stands_still() {
                self.state = OriginState::NotAsked;
            }
            self.health = Health::default();
            self.recent = Recent::default();
            (self.failed_at, self.failing_since, self.failing_before) = (None, None, None);
        }
    }
}

/// Shared and cheap to clone.
#[derive(Clone, Default)]
pub struct OriginStatus(Arc<Mutex<Picture>>);

impl OriginStatus {
    pub fn picture(&self) -> Picture {
        let mut picture = self.0.lock();
        picture.forget();
        picture.clone()
    }

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

    /// `is_ours`: as in [`Witness`].
    pub fn succeeded(&self, is_ours: bool) {
        let mut picture = self.0.lock();
        picture.health.answered(is_ours);
        picture.recent.ended(false);
        picture.failing_before = picture.failing_since;
        if picture.shield && matches!(picture.state, OriginState::NotAsked | OriginState::CouldNotBeAsked) {
            picture.state = OriginState::Answering;
        }
        picture.note_failing();
    }

    /// A request failed; returns what that says about the origin. `paused`: as in [`Health::failed`].
    pub fn failed(&self, error: &AskError, witness: Witness, paused: bool, now: WallTime) -> Judgement {
        let mut picture = self.0.lock();
        picture.note(error, now);
        let verdict = picture.health.failed(error, witness, paused);
        let only_details = witness.class == Class::Details;
        if (witness.is_ours || verdict.counts) && !only_details {
            picture.recent.ended(true);
            picture.failed_at = Some(Instant::now());
        }
        // One failure alone says little, unless it is all that is known. To tell people of failures takes fewer clients
        // than to pause the origin.
        let of_shield = picture.recent.often_failed();
        let fails = verdict.counts && picture.health.failures() > 1 || picture.shield && of_shield;
        // Details that fail alone have a finding of their own.
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
            if picture.shield && picture.state == OriginState::Nonsense {
                picture.state = OriginState::Answering;
                picture.note_failing();
            }
            return;
        };
        picture.note(error, now);
        picture.recent.failed |= 1;
        picture.failed_at = Some(Instant::now());
        // What it does changes; that it fails does not.
        if picture.shield && picture.recent.often_failed() || picture.state == OriginState::CouldNotBeAsked {
            picture.state = OriginState::Nonsense;
            picture.failing_since = picture.failing_since.or(picture.failing_before);
            picture.note_failing();
        }
    }

    /// So many listings on a page of the list cannot be read, and are left out.
    pub fn left_out(&self, page: u64, broken: usize) {
        let mut picture = self.0.lock();
        picture.broken.remove(&page);
        picture.broken.extend(Some((page, broken)).filter(|_| broken > 0));
    }

    /// A resource was looked at again, and its body has this hash; `None`: it was not sent again. `differs`: nothing was
    /// modified, but the values of so many listings differ; `None`: there is a change.
    pub fn looked(&self, path: &str, hash: Option<ContentHash>, differs: Option<u64>) {
        let mut picture = self.0.lock();
        picture.looks.entry(path.to_owned()).or_default().saw(hash, differs);
    }

    /// How many listings are left out because they cannot be read.
    pub fn unreadable(&self) -> usize {
        self.0.lock().broken.values().sum()
    }

    /// A request that the mirror needs failed.
    pub fn note(&self, error: &AskError, now: WallTime) {
        self.0.lock().note(error, now);
    }

    /// The answers cannot be used together.
    pub fn unusable(&self, message: &impl std::fmt::Display, now: WallTime) {
        let mut picture = self.0.lock();
        picture.last_error = Some(LastError::new(message, now));
        picture.how = (UNUSABLE, None);
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

    /// A copy was far older than `origin.cache_ttl`.
    pub fn saw_old_copy(&self, copy: OldCopy) {
        let mut picture = self.0.lock();
        if picture.old_copy().is_none_or(|kept| copy.age_seconds >= kept.age_seconds) {
            picture.old_copy_seen = Some((copy, Instant::now()));
        }
    }

    /// An answer confirms the data only for an instant that was so long ago, by our clock.
    pub fn saw_copy(&self, age: Duration) {
        let mut picture = self.0.lock();
        if picture.copy_age(0).is_none_or(|oldest| age >= oldest) {
            picture.copy_seen = Some((age, Instant::now()));
        }
    }
}

/// A copy that was too old is told for twice its age: at least and at most so long.
const OLD_COPY_TOLD: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(3600)];

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
        status.succeeded(true);
        fail("/c");
        assert_eq!(since(), Some(began));
        status.update(|picture| picture.state = OriginState::Unchanged);
        assert_eq!(since(), None);
        status.update(|picture| picture.state = OriginState::Nonsense);
        assert!(since().is_some());
    }

    #[test]
    fn the_age_of_a_copy_is_corrected_by_a_clock_that_is_known_later() {
        let status = OriginStatus::default();
        status.saw_copy(Duration::from_secs(3620));
        let age = |lag_ms| status.picture().copy_age(lag_ms).map(|age| age.as_secs());
        assert_eq!([0, 3_600_000, 7_200_000, -60_000].map(age), [Some(3620), Some(20), Some(0), Some(3620)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_copy_is_told_while_another_may_come() {
        let status = OriginStatus::default();
        let see = |age_seconds| status.saw_old_copy(OldCopy { age_seconds, cache_ttl_seconds: 5 });
        let told = || status.picture().old_copy().map(|copy| copy.age_seconds);
        see(100);
        see(90);
        assert_eq!(told(), Some(100));
        tokio::time::advance(Duration::from_secs(199)).await;
        assert_eq!(told(), Some(100));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(told(), None);
        see(60);
        assert_eq!(told(), Some(60));
    }

    #[test]
    fn each_thing_that_is_wrong_with_an_origin_is_a_finding_until_it_is_right() {
        let trouble = || Some(Finding::new(Kind::DetailsFail, "none is answered"));
        let failing_since = Some(Instant::now());
        let fails = || Picture { failing_since, state: OriginState::CouldNotBeAsked, ..Picture::default() };
        let details = |details| Picture { details, ..Picture::default() };
        let unstored = |shield, unstored| Picture { shield, unstored, ..Picture::default() };
        let old_copy_seen = Some((OldCopy { age_seconds: 4000, cache_ttl_seconds: 300 }, Instant::now()));
        let wait = |is_expected| CopiesWait { until: WallTime::from_seconds(9), is_expected };
        let waits = |is_expected| Picture { copies: Some(wait(is_expected)), ..Picture::default() };
        for (picture, want) in [
            (Picture::default(), &[][..]),
            (fails(), &[Kind::OriginFails]),
            (Picture { details: trouble(), ..fails() }, &[Kind::OriginFails]),
            (Picture { failing_since, ..details(trouble()) }, &[Kind::DetailsFail]),
            (details(trouble()), &[Kind::DetailsFail]),
            (unstored(true, 2), &[]),
            (unstored(true, 3), &[Kind::NotStored]),
            (unstored(false, 1000), &[]),
            (Picture { held: Some(HeldBack::default()), ..Picture::default() }, &[Kind::HeldBack]),
            (Picture { old_copy_seen, ..Picture::default() }, &[Kind::CopiesOld]),
            (waits(false), &[Kind::CopiesWait]),
            (waits(true), &[]),
        ] {
            let kinds: Vec<Kind> = picture.findings().iter().map(|finding| finding.kind).collect();
            assert_eq!(kinds, want, "{picture:?}");
        }
    }

    /// The origin of a shield, as the shield sees it.
    struct Shielded(OriginStatus);

    impl Shielded {
        fn new() -> Self {
            let status = OriginStatus::default();
            status.update(|picture| picture.shield = true);
            Self(status)
        }

        fn fails(&self, error: &AskError) {
            let household = Some([192, 0, 2, 1].into());
            let witness = Witness { class: Class::Client, household, is_ours: true };
            self.0.failed(error, witness, false, WallTime::from_seconds(0));
        }

        /// An answer, with this content.
        fn answers(&self, unusable: Option<&AskError>) {
            self.0.succeeded(true);
            self.0.judged(unusable, WallTime::from_seconds(0));
        }

        fn told(&self) -> Option<String> {
            self.0.picture().findings().into_iter().next().map(|finding| finding.text)
        }

        fn state(&self) -> OriginState {
            self.0.picture().state
        }
    }

    fn status(status: u16) -> AskError {
        AskError::Status { status, path: "/a".to_owned(), retry_after: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shield_tells_of_what_it_saw_and_forgets_it_when_nobody_asks() {
        let (shield, seconds) = (Shielded::new(), Duration::from_secs);
        shield.fails(&status(500));
        let told = shield.told().unwrap();
        assert!(told.starts_with("the origin answers with errors: ") && told.contains("last asked at 1970-"), "{told}");
        assert_eq!(shield.state(), OriginState::CouldNotBeAsked, "it was asked");
        tokio::time::advance(seconds(30)).await;
        shield.fails(&status(500));
        // Nobody knows how it was after that.
        tokio::time::advance(seconds(599)).await;
        assert_eq!(shield.0.picture().failing(), Some(seconds(30)));
        assert!(shield.told().is_some());
        tokio::time::advance(seconds(1)).await;
        assert_eq!((shield.0.picture().failing(), shield.told(), shield.state()), (None, None, OriginState::NotAsked));
    }

    #[tokio::test(start_paused = true)]
    async fn every_second_failure_is_told_and_a_rare_one_if_it_is_the_last_thing_known() {
        let shield = Shielded::new();
        for _ in 0..8 {
            shield.answers(None);
            shield.fails(&status(500));
        }
        for _ in 0..2 {
            let told = shield.told().unwrap();
            assert!(told.contains("4 of the last 8 requests failed"), "{told}");
            shield.answers(None);
        }
        assert_eq!(shield.told(), None, "two answers in a row");
        (0..8).for_each(|_| shield.answers(None));
        shield.fails(&status(500));
        assert_eq!((shield.told(), shield.state()), (None, OriginState::Answering), "one says little");
        tokio::time::advance(QUIET).await;
        assert!(shield.told().unwrap().contains("1 of the last 8 requests failed"));
        shield.answers(None);
        assert_eq!(shield.told(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_is_how_the_last_answer_was() {
        let shield = Shielded::new();
        let html = AskError::nonsense("/a", "it is HTML");
        let unreachable = AskError::Connection { path: "/a".to_owned(), reason: "refused".into(), reached: false };
        (0..8).for_each(|_| shield.fails(&unreachable));
        let since = shield.0.picture().failing_since;
        assert!(shield.told().unwrap().starts_with("the origin cannot be reached: "));
        shield.answers(Some(&html));
        let told = shield.told().unwrap();
        assert!(told.starts_with(UNUSABLE) && told.contains("it is HTML"), "{told}");
        assert_eq!((shield.state(), shield.0.picture().failing_since), (OriginState::Nonsense, since));
        // A mirror: how and why are of one failure.
        let mirror = OriginStatus::default();
        mirror.failed(&unreachable, Witness::mirror(Class::Refresh), false, WallTime::from_seconds(0));
        mirror.update(|picture| picture.state = OriginState::CouldNotBeAsked);
        mirror.note(&html, WallTime::from_seconds(0));
        let told = mirror.picture().findings().remove(0).text;
        assert!(told.starts_with(UNUSABLE) && told.contains("it is HTML"), "{told}");
    }

    #[test]
    fn what_a_refusal_means_and_what_to_do_is_said() {
        for (code, means, todo) in [
            (403, "as it may do with a blocked address", "Ask the provider"),
            (429, "because they are too many", "Lower origin.requests_per_minute"),
            (401, "the origin refuses requests: ", Kind::OriginFails.todo()),
        ] {
            let shield = Shielded::new();
            shield.fails(&status(code));
            let finding = shield.0.picture().findings().remove(0);
            assert!(finding.text.contains(means) && finding.todo.starts_with(todo), "{finding:?}");
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
