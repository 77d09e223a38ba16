//! What is known of the origin's health and of the mirror's progress, for people and metrics.
//!
//! Written by [`super`], read by [`crate::admin`]. It decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use crate::api::hash::ContentHash;
use crate::clock::WallTime;

use super::client::AskError;
use super::eta::Pace;
use super::window::Class;

/// How the last look at the origin ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum OriginState {
    /// Not asked yet.
    #[default]
    NotAsked,
    /// There is no origin.
    Offline,
    /// A pass is running.
    Crawling,
    /// It answers clients' reads; nobody looks for changes.
    Answering,
    /// It was asked, and nothing has changed.
    Unchanged,
    /// It was asked, and something had changed.
    Changed,
    /// It could not be asked.
    CouldNotBeAsked,
    /// It answers what cannot be used.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastError {
    /// When, as RFC 3339.
    pub at: String,
    /// What happened, for people.
    pub message: String,
}

/// Pages of the pass that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Requests of the pass that are done.
    pub done: u64,
    /// Requests of the pass in all, as far as known.
    pub of: u64,
}

/// A snapshot that is not published because it lost too much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Its id.
    pub snapshot: String,
    /// Its listings.
    pub listings: u64,
    /// The listings of the one that is served.
    pub serving: u64,
    /// Why, and what to do.
    pub reason: String,
}

/// After how many failures in a row the origin as a whole is taken to fail, and not one resource of it.
pub const FEW: u32 = 3;

/// What a failure says about the origin as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Nothing.
    None,
    /// Something, together with those of other resources: an error as the answer to a single question.
    Single,
    /// Something.
    Whole,
}

/// Failures without an answer between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// How many count.
    pub failures: u32,
    /// Of how many resources they are, as far as they are told apart.
    pub targets: u32,
    /// For how long the origin wants to be left alone by all of them, if each was answered so.
    pub asked: Option<Duration>,
}

impl Row {
    /// Whether the origin as a whole fails, now that a failure of this weight is the latest.
    pub const fn is_outage(&self, latest: Weight) -> bool {
        match latest {
            Weight::None => false,
            Weight::Single => self.targets >= FEW,
            Weight::Whole => self.targets > 1 && self.failures >= FEW,
        }
    }
}

/// Everything at one instant.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// How the last look ended.
    pub state: OriginState,
    /// The last failure, even when later requests succeeded.
    pub last_error: Option<LastError>,
    /// Requests in a row that failed.
    pub failures: u32,
    /// The first few different things that they asked for, and for how long the origin then wanted to be left alone.
    pub failing: Vec<(ContentHash, Option<Duration>)>,
    /// Requests sent since the start, by class.
    pub sent: BTreeMap<&'static str, u64>,
    /// How fast the crawl and the details come in.
    pub pace: Pace,
    /// The pass that runs.
    pub pass: Option<Progress>,
    /// Held back.
    pub held: Option<Held>,
    /// When the last refresh ended, milliseconds since the epoch.
    pub refreshed_ms: Option<i64>,
    /// Whole passes that came to their end.
    pub passes: u64,
    /// Whether no mirror looks at the origin, so that only clients' reads say how it is.
    pub shield: bool,
    /// Why the data directory cannot be written, if so.
    pub disk: Option<String>,
    /// What is made of `generated_at`, by kind of answer; those without it are absent.
    pub stamps: BTreeMap<&'static str, &'static str>,
}

/// Shared and cheap to clone.
#[derive(Clone, Default)]
pub struct OriginStatus(Arc<Mutex<Picture>>);

impl OriginStatus {
    /// The picture now.
    pub fn picture(&self) -> Picture {
        self.0.lock().clone()
    }

    /// No mirror looks at the origin.
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
        picture.failures = 0;
        if picture.shield && matches!(picture.state, OriginState::NotAsked | OriginState::CouldNotBeAsked) {
            picture.state = OriginState::Answering;
        }
        picture.failing.clear();
    }

    /// A request failed; returns what it is the latest of.
    pub fn failed(&self, error: &AskError, weight: Weight, now: WallTime) -> Row {
        let mut picture = self.0.lock();
        picture.last_error = Some(LastError { at: now.rfc3339(), message: error.to_string() });
        let target = ContentHash::of(error.path().unwrap_or_default().as_bytes());
        let asked = match error {
            AskError::Status { retry_after, .. } => *retry_after,
            _ => None,
        };
        if weight != Weight::None {
            let known = picture.failing.iter_mut().find(|(failing, _)| *failing == target);
            let fresh = known.is_none();
            if let Some((_, wanted)) = known {
                *wanted = asked;
            }
            let many = picture.failing.len() >= FEW as usize;
            if fresh && !many {
                picture.failing.push((target, asked));
            }
            // A resource that answers errors again and again counts once: it says nothing about the others.
            if weight == Weight::Whole || fresh || many {
                picture.failures = picture.failures.saturating_add(1);
            }
            // One failure is an accident.
            if picture.failures > 1 && picture.state != OriginState::Crawling {
                picture.state = OriginState::CouldNotBeAsked;
            }
        }
        let targets = u32::try_from(picture.failing.len()).unwrap_or(u32::MAX);
        let wanted = picture.failing.iter().map(|(_, wanted)| *wanted).chain([asked]).min().flatten();
        Row { failures: picture.failures, targets, asked: wanted }
    }

    /// Something else went wrong.
    pub fn error(&self, message: String, now: WallTime) {
        self.0.lock().last_error = Some(LastError { at: now.rfc3339(), message });
    }

    /// How a look at the origin ended.
    pub fn set_state(&self, state: OriginState) {
        self.0.lock().state = state;
    }

    /// A refresh ended.
    pub fn refreshed(&self, now: WallTime) {
        self.0.lock().refreshed_ms = Some(now.as_millis());
    }

    /// A whole pass came to its end.
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

    /// What is held back.
    pub fn set_held(&self, held: Option<Held>) {
        self.0.lock().held = held;
    }

    /// What is made of `generated_at` in one kind of answer.
    pub fn set_stamp(&self, place: &'static str, reading: &'static str) {
        self.0.lock().stamps.insert(place, reading);
    }

    /// Whether the data directory can be written.
    pub fn set_disk(&self, trouble: Option<String>) {
        self.0.lock().disk = trouble;
    }
}
