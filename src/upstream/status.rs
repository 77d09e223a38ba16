//! The origin's health and the mirror's progress, for people and metrics.
//!
//! It decides nothing. Callers: [`super`] writes, [`crate::admin`] reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::clock::{Monotonic, WallTime};
use crate::semantics::excerpt::Excerpt;

use super::error::AskError;
use super::eta::Pace;
use super::health::{Health, Verdict, Witness};
use super::window::Class;

/// The origin's state, as last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OriginState {
    /// Not asked yet.
    #[default]
    NotAsked,
    /// There is no origin.
    Offline,
    /// The first crawl is running.
    Crawling,
    /// It answers clients' reads; no mirror looks at it.
    Answering,
    /// It was asked, and nothing has changed.
    Unchanged,
    /// It was asked, and something had changed.
    Changed,
    /// Requests failed.
    CouldNotBeAsked,
    /// It sends unusable answers.
    Nonsense,
}

impl OriginState {
    /// The word for `/status` and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
            Self::Offline => "offline",
            Self::Crawling => "crawling",
            Self::Answering => "answering",
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::CouldNotBeAsked => "could-not-be-asked",
            Self::Nonsense => "nonsense",
        }
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
    /// Why, and what to do.
    pub reason: String,
}

/// A copy of a cache in front of the origin that is far older than `origin.cache_ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldCopy {
    pub age_seconds: u64,
    pub cache_ttl_seconds: u64,
}

impl fmt::Display for OldCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { age_seconds, cache_ttl_seconds } = self;
        write!(
            f,
            "a cache in front of the origin sent a copy {age_seconds} s old, but `origin.cache_ttl` is \
             {cache_ttl_seconds} s: raise it, or changes are seen late"
        )
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

/// Everything at one instant.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    pub state: OriginState,
    /// The last failure, even if later requests succeeded.
    pub last_error: Option<LastError>,
    /// The judgement on recent failures.
    pub health: Health,
    /// Requests sent since the start, by class.
    pub sent: BTreeMap<&'static str, u64>,
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
    /// Whole passes that were completed.
    pub passes: u64,
    /// Whether there is no mirror, so that only client reads show the origin's state.
    pub shield: bool,
    /// Why the data directory cannot be written, if so.
    pub disk: Option<String>,
    /// Details that cannot be fetched, if any.
    pub details: Option<DetailTrouble>,
    /// How many answers in a row a shield was forbidden to store.
    pub unstored: u64,
    /// The use of `generated_at`, by kind of answer; kinds without it are absent.
    pub stamps: BTreeMap<&'static str, &'static str>,
    /// The oldest copy of a cache that was too old.
    pub old_copy: Option<OldCopy>,
}

impl Picture {
    /// Whether the last requests of the mirror failed, or their answers were no use.
    pub const fn is_failing(&self) -> bool {
        matches!(self.state, OriginState::CouldNotBeAsked | OriginState::Nonsense) || self.health.failures() > 0
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

    /// There is no mirror.
    pub fn set_shield(&self) {
        self.0.lock().shield = true;
    }

    /// A request is on the wire.
    pub fn sent(&self, class: Class) {
        let mut picture = self.0.lock();
        *picture.sent.entry(class.as_str()).or_default() += 1;
        if matches!(class, Class::Crawl | Class::Details) {
            picture.pace.count(Instant::now());
        }
    }

    /// A request was answered.
    pub fn succeeded(&self) {
        let mut picture = self.0.lock();
        picture.health.answered();
        if picture.shield && matches!(picture.state, OriginState::NotAsked | OriginState::CouldNotBeAsked) {
            picture.state = OriginState::Answering;
        }
    }

    /// A request failed; returns what that says about the origin. `paused`: as in [`Health::failed`].
    pub fn failed(&self, error: &AskError, witness: Witness, paused: bool, now: WallTime) -> Verdict {
        let mut picture = self.0.lock();
        picture.last_error = Some(LastError::new(error, now));
        let verdict = picture.health.failed(error, witness, paused);
        // One failure alone says little.
        if verdict.counts && picture.health.failures() > 1 && picture.state != OriginState::Crawling {
            picture.state = OriginState::CouldNotBeAsked;
        }
        verdict
    }

    /// Something else went wrong.
    pub fn error(&self, message: &impl std::fmt::Display, now: WallTime) {
        self.0.lock().last_error = Some(LastError::new(message, now));
    }

    /// How a look at the origin ended.
    pub fn set_state(&self, state: OriginState) {
        self.0.lock().state = state;
    }

    /// A refresh ended.
    pub fn refreshed(&self, now: WallTime) {
        self.0.lock().refreshed_ms = Some(now.as_millis());
    }

    /// When the next refresh is due.
    pub fn set_refresh_due(&self, due: Monotonic) {
        self.0.lock().refresh_due = Some(due);
    }

    /// A whole pass was completed.
    pub fn passed(&self) {
        self.0.lock().passes += 1;
    }

    /// How far the pass is; `None`: none runs.
    pub fn set_pass(&self, pass: Option<Progress>) {
        self.0.lock().pass = pass;
    }

    /// One more request of the pass is done.
    pub fn pass_advanced(&self) {
        if let Some(pass) = &mut self.0.lock().pass {
            pass.done += 1;
        }
    }

    /// Which details cannot be fetched.
    pub fn set_details(&self, trouble: Option<DetailTrouble>) {
        self.0.lock().details = trouble;
    }

    /// A shield was allowed to store an answer, or the origin forbade it.
    pub fn stored(&self, allowed: bool) {
        let mut picture = self.0.lock();
        picture.unstored = if allowed { 0 } else { picture.unstored.saturating_add(1) };
    }

    /// What is held back.
    pub fn set_held(&self, held: Option<Held>) {
        self.0.lock().held = held;
    }

    /// How `generated_at` of one kind of answer is read.
    pub fn set_stamp(&self, place: &'static str, reading: &'static str) {
        self.0.lock().stamps.insert(place, reading);
    }

    /// A copy was far older than `origin.cache_ttl`; `true` if it is the first one.
    pub fn saw_old_copy(&self, copy: OldCopy) -> bool {
        let mut picture = self.0.lock();
        let is_first = picture.old_copy.is_none();
        picture.old_copy = picture.old_copy.filter(|kept| kept.age_seconds >= copy.age_seconds).or(Some(copy));
        is_first
    }

    /// Why the data directory cannot be written, if so.
    pub fn set_disk(&self, trouble: Option<String>) {
        self.0.lock().disk = trouble;
    }
}
