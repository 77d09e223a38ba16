//! Requested audits: one at a time, its state visible, its report kept until the next.
//!
//! Callers: [`crate::admin`] and [`crate::cli`] request audits, [`super::Auditor`] runs them.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::score::{Report, Score};

/// Where an audit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// No audit was requested.
    #[default]
    None,
    /// It starts after the running background sample.
    Waiting,
    /// Samples are asked and compared.
    Sampling,
    /// Differences are compared again, after a refresh.
    Confirming,
    /// The report is complete.
    Done,
}

impl Phase {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Waiting => "waiting",
            Self::Sampling => "sampling",
            Self::Confirming => "confirming",
            Self::Done => "done",
        }
    }
}

/// One audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Counts audits since the start, from 1; 0: none yet.
    pub id: u64,
    pub phase: Phase,
    /// Samples, or samples to compare again, that are done.
    pub done: u64,
    /// Their number.
    pub of: u64,
    /// Requested samples.
    pub samples: u64,
    /// The result so far.
    pub report: Report,
    /// The number of passes before the requested repairing pass; `None`: none was requested.
    pub awaits_pass: Option<u64>,
}

impl Job {
    /// Whether it is not done.
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::Sampling | Phase::Confirming)
    }
}

/// The shared state of requested audits; cheap to clone.
#[derive(Clone, Default)]
pub struct Audits(Arc<AuditsState>);

#[derive(Default)]
struct AuditsState {
    asked: Notify,
    job: Mutex<Job>,
    score: Mutex<Score>,
}

impl Audits {
    /// The fewest and the most samples of one audit.
    pub const SAMPLES: std::ops::RangeInclusive<u64> = 1..=1000;

    /// Requests an audit, or joins the running one, whose number of samples stays. `true`: a new one.
    pub fn ask(&self, samples: u64) -> (Job, bool) {
        let mut job = self.0.job.lock();
        if job.is_running() {
            return (job.clone(), false);
        }
        let samples = samples.clamp(*Self::SAMPLES.start(), *Self::SAMPLES.end());
        *job = Job { id: job.id + 1, phase: Phase::Waiting, of: samples, samples, ..Job::default() };
        self.0.asked.notify_one();
        (job.clone(), true)
    }

    /// The running audit, or the last one.
    pub fn job(&self) -> Job {
        self.0.job.lock().clone()
    }

    /// The running score.
    pub fn score(&self) -> Score {
        self.0.score.lock().clone()
    }

    /// Waits for a request.
    pub(super) async fn wait(&self) {
        self.0.asked.notified().await;
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Job)) {
        change(&mut self.0.job.lock());
    }

    /// Remembers a property of the origin, in the score and in a running audit.
    pub(super) fn note_property(&self, property: &'static str) {
        if self.0.score.lock().note_property(property) {
            tracing::info!("the origin differs from this server as documented: {property}");
        }
        let mut job = self.0.job.lock();
        if job.is_running() && !job.report.properties.iter().any(|known| known == property) {
            job.report.properties.push(property.to_owned());
        }
    }

    /// Ends a running audit when its task ends, so that nobody waits for ever.
    pub(super) fn ended_when_dropped(&self) -> Ended {
        Ended(self.clone())
    }

    pub(super) fn update_score(&self, change: impl FnOnce(&mut Score)) {
        change(&mut self.0.score.lock());
    }
}

/// See [`Audits::ended_when_dropped`].
pub(super) struct Ended(Audits);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.update(|job| {
            if job.is_running() {
                job.report.given_up = true;
                job.report.reasons.push("the audit ended early".to_owned());
                job.phase = Phase::Done;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_runs_is_joined_and_one_that_is_done_is_followed_by_another() {
        let audits = Audits::default();
        assert_eq!(audits.job().phase, Phase::None);
        let (first, new) = audits.ask(20);
        assert_eq!((first.id, first.of, first.phase, new), (1, 20, Phase::Waiting, true));
        let (joined, new) = audits.ask(5);
        assert_eq!((joined.id, joined.samples, new), (1, 20, false));
        audits.update(|job| job.phase = Phase::Done);
        let (second, new) = audits.ask(0);
        assert_eq!((second.id, second.samples, new), (2, 1, true));
        audits.update(|job| job.phase = Phase::Done);
        assert_eq!(audits.ask(u64::MAX).0.samples, 1000);
    }

    #[test]
    fn an_audit_that_nobody_works_on_any_more_is_given_up() {
        let audits = Audits::default();
        let worker = audits.ended_when_dropped();
        audits.ask(20);
        drop(worker);
        let job = audits.job();
        assert!(!job.is_running() && job.report.given_up && !job.report.is_parity(), "{job:?}");
    }
}
