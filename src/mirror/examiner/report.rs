//! Requested audits, one at a time, with their reports; and the running score over the last samples.
//!
//! Callers: [`crate::server::admin`] and [`crate::cli`] request audits and show results, [`super`] runs and counts.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::clock::WallTime;
use crate::telemetry::findings::{Finding, Kind};
use crate::words::{counted, named};

use super::difference::Difference;

/// Compared samples over which the running score is taken.
const WINDOW: usize = 200;
/// Differences that `/status` remembers.
const REMEMBERED: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Equal,
    /// They differ, also after a refresh.
    Different(Vec<Difference>),
    /// The mirror would read it through, so there is nothing to compare.
    ReadThrough,
    NotAnswered(String),
    /// They differed once, and why this could be neither confirmed nor dismissed.
    Undecided(String),
}

impl Outcome {
    pub(crate) const WORDS: [&str; 5] = ["equal", "different", "read-through", "not-answered", "undecided"];

    /// The word for metrics, logs and reports.
    pub(crate) const fn as_str(&self) -> &'static str {
        Self::WORDS[self.index()]
    }

    const fn index(&self) -> usize {
        match self {
            Self::Equal => 0,
            Self::Different(_) => 1,
            Self::ReadThrough => 2,
            Self::NotAnswered(_) => 3,
            Self::Undecided(_) => 4,
        }
    }
}

/// A request with the differences of its answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Differing {
    pub request: String,
    /// The differences; at least one.
    pub differences: Vec<Difference>,
}

impl Differing {
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.differences.iter().map(|difference| format!("{}: {difference}", self.request))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub equal: u64,
    pub different: u64,
    /// Samples that the mirror would forward to the origin.
    pub read_through: u64,
    pub not_answered: u64,
    /// Samples that differed once, which could be neither confirmed nor dismissed.
    #[serde(default)]
    pub undecided: u64,
    #[serde(default)]
    pub given_up: bool,
    pub differing: Vec<Differing>,
    /// Why samples could not be compared, each reason once.
    pub reasons: Vec<String>,
}

impl Report {
    pub(crate) fn count(&mut self, request: &str, outcome: Outcome) {
        match outcome {
            Outcome::Equal => self.equal += 1,
            Outcome::ReadThrough => self.read_through += 1,
            Outcome::Different(differences) => {
                self.different += 1;
                self.differing.push(Differing { request: request.to_owned(), differences });
            }
            Outcome::NotAnswered(reason) => {
                self.not_answered += 1;
                self.note(reason);
            }
            Outcome::Undecided(reason) => {
                self.undecided += 1;
                self.note(format!("{request} differed once, but {reason}"));
            }
        }
    }

    fn note(&mut self, reason: String) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    pub(crate) const fn compared(&self) -> u64 {
        self.equal + self.different
    }

    pub(crate) const fn samples(&self) -> u64 {
        self.compared() + self.read_through + self.not_answered + self.undecided
    }

    /// Whether a sample was compared, all are equal, none is undecided, and at least half of the samples were answered.
    pub(crate) const fn is_parity(&self) -> bool {
        let decided = self.undecided == 0 && !self.given_up;
        self.equal > 0 && self.different == 0 && decided && 2 * self.not_answered <= self.samples()
    }

    /// The result in one line.
    pub(crate) fn summary(&self) -> String {
        let skipped = format!(
            "skipped: {} forwarded, {} unanswered{}",
            self.read_through,
            self.not_answered,
            if self.undecided > 0 { format!(", {} undecided", self.undecided) } else { String::new() }
        );
        let (equal, compared) = (self.equal, self.compared());
        match percent(equal, compared) {
            Some(percent) => {
                format!("{equal} of {} equal ({percent} %); {skipped}", counted(compared, "sample"))
            }
            None => format!("no sample could be compared; {skipped}"),
        }
    }

    /// Everything, for people: each difference, each reason, the sum.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for line in self.differing.iter().flat_map(Differing::lines) {
            let _ = writeln!(text, "{line}");
        }
        for reason in &self.reasons {
            let _ = writeln!(text, "not compared: {reason}");
        }
        text + &self.summary()
    }
}

/// Percent, rounded down to hundredths, so that 100 means all.
fn percent(equal: u64, compared: u64) -> Option<f64> {
    (compared > 0).then(|| (equal * 10_000 / compared) as f64 / 100.0)
}

/// The running score over the last samples, in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    /// Whether each of the last compared samples was equal, the newest last.
    last: VecDeque<bool>,
    differing: VecDeque<Differing>,
    last_at: Option<WallTime>,
    counts: [u64; Outcome::WORDS.len()],
}

impl Score {
    pub(crate) fn count(&mut self, request: &str, outcome: &Outcome, now: WallTime) {
        self.counts[outcome.index()] += 1;
        let equal = match outcome {
            Outcome::Equal => true,
            Outcome::Different(differences) => {
                if self.differing.len() >= REMEMBERED {
                    self.differing.pop_front();
                }
                self.differing.push_back(Differing { request: request.to_owned(), differences: differences.clone() });
                false
            }
            Outcome::ReadThrough | Outcome::NotAnswered(_) | Outcome::Undecided(_) => return,
        };
        self.last_at = Some(now);
        if self.last.len() >= WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(equal);
    }

    /// The percentage of equal ones among the last samples; `None` before the first.
    pub(crate) fn percent(&self) -> Option<f64> {
        percent(self.last.iter().filter(|equal| **equal).count() as u64, self.compared() as u64)
    }

    /// That some of them differ; `None`: none does.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let differ = self.last.iter().filter(|equal| !**equal).count();
        let text = format!("{differ} of the last {} compared answers differ from the origin's", self.compared());
        (differ > 0).then(|| Finding::new(Kind::AnswersDiffer, text))
    }

    /// The number of samples of the percentage.
    pub(crate) fn compared(&self) -> usize {
        self.last.len()
    }

    /// The last differences, the newest last, one line each.
    pub(crate) fn differences(&self) -> Vec<String> {
        self.differing.iter().flat_map(Differing::lines).collect()
    }

    pub(crate) const fn last_at(&self) -> Option<WallTime> {
        self.last_at
    }

    /// Samples since the start by outcome.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Outcome::WORDS.into_iter().zip(self.counts.iter().copied())
    }
}

named! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub(crate) enum Phase, as_str {
        #[default]
        None = "none",
        /// It starts after what is being asked.
        Waiting = "waiting",
        Sampling = "sampling",
        /// Differences are compared again, after a refresh.
        Confirming = "confirming",
        Done = "done",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Counts audits since the start, from 1; 0: none yet.
    pub id: u64,
    pub phase: Phase,
    /// Samples, or samples to compare again, that are done.
    pub done: u64,
    /// Their number.
    pub of: u64,
    pub samples: u64,
    pub report: Report,
    /// The number of passes before the requested repairing pass; `None`: none was requested.
    pub awaits_pass: Option<u64>,
}

impl Job {
    pub(crate) const fn is_running(&self) -> bool {
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
    pub(crate) const SAMPLES: std::ops::RangeInclusive<u64> = 1..=1000;

    /// Requests an audit, or joins the running one, whose number of samples stays. `true`: a new one.
    pub(crate) fn ask(&self, samples: u64) -> (Job, bool) {
        let mut job = self.0.job.lock();
        if job.is_running() {
            return (job.clone(), false);
        }
        let samples = samples.clamp(*Self::SAMPLES.start(), *Self::SAMPLES.end());
        *job = Job { id: job.id + 1, phase: Phase::Waiting, of: samples, samples, ..Job::default() };
        // Under the lock, and remembered: the worker finds this job.
        self.0.asked.notify_one();
        (job.clone(), true)
    }

    /// The running audit, or the last one.
    pub(crate) fn job(&self) -> Job {
        self.0.job.lock().clone()
    }

    pub(crate) fn score(&self) -> Score {
        self.0.score.lock().clone()
    }

    pub(super) async fn wait(&self) {
        self.0.asked.notified().await;
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Job)) {
        change(&mut self.0.job.lock());
    }

    /// Ends a running audit when its task ends, so that nobody waits for ever.
    pub(super) fn ended_when_dropped(&self) -> Ended {
        Ended(self.clone())
    }

    /// Counts a sample in the running score.
    pub(super) fn count(&self, request: &str, outcome: &Outcome, now: WallTime) {
        self.0.score.lock().count(request, outcome, now);
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
    use crate::mirror::examiner::difference::DifferenceKind;

    fn different() -> Outcome {
        Outcome::Different(vec![Difference::new(DifferenceKind::Field, "total", "3", "4")])
    }

    #[test]
    fn a_report_says_what_differs_and_sums_it_up() {
        let mut report = Report::default();
        assert!(!report.is_parity(), "nothing compared is no parity");
        assert_eq!(report.text(), "no sample could be compared; skipped: 0 forwarded, 0 unanswered");
        for outcome in [Outcome::Equal, Outcome::Equal, Outcome::ReadThrough] {
            report.count("GET /a", outcome);
        }
        assert!(report.is_parity());
        report.count("GET /b", different());
        report.count("GET /c", Outcome::NotAnswered("no".into()));
        report.count("GET /d", Outcome::NotAnswered("no".into()));
        assert!(!report.is_parity());
        assert_eq!(
            report.text(),
            "GET /b: field total: the mirror has 3, the origin 4\n\
             not compared: no\n\
             2 of 3 samples equal (66.66 %); skipped: 1 forwarded, 2 unanswered"
        );
        assert_eq!(report.samples(), 6);
    }

    #[test]
    fn what_stayed_open_is_no_parity_and_a_few_unanswered_samples_are() {
        let report = |outcomes: &[Outcome]| {
            let mut report = Report::default();
            for outcome in outcomes {
                report.count("GET /a", outcome.clone());
            }
            report
        };
        let (equal, silent) = (Outcome::Equal, Outcome::NotAnswered("no".into()));
        let open = Outcome::Undecided("it went on changing".into());
        assert!(report(&[equal.clone(), silent.clone()]).is_parity());
        assert!(!report(&[equal.clone(), silent.clone(), silent]).is_parity(), "more than half of them");
        let undecided = report(&[equal.clone(), equal.clone(), open]);
        assert!(!undecided.is_parity());
        assert!(undecided.text().contains("GET /a differed once, but it went on changing"), "{}", undecided.text());
        assert!(undecided.summary().ends_with("0 unanswered, 1 undecided"), "{}", undecided.summary());
        let given_up = Report { given_up: true, ..report(&[equal]) };
        assert!(!given_up.is_parity());
    }

    #[test]
    fn the_score_forgets_what_is_long_ago_and_never_rounds_up_to_all() {
        let now = WallTime::from_seconds(5);
        let mut score = Score::default();
        assert_eq!((score.percent(), score.last_at()), (None, None));
        score.count("GET /c", &Outcome::NotAnswered("no".into()), now);
        assert_eq!((score.percent(), score.last_at()), (None, None));
        score.count("GET /a", &different(), now);
        assert_eq!(score.percent(), Some(0.0));
        for _ in 1..WINDOW {
            score.count("GET /a", &Outcome::Equal, now);
        }
        assert_eq!((score.percent(), score.compared()), (Some(99.5), WINDOW));
        assert_eq!(score.finding().map(|finding| finding.kind), Some(Kind::AnswersDiffer));
        score.count("GET /a", &Outcome::Equal, now);
        assert_eq!((score.percent(), score.compared(), score.finding()), (Some(100.0), WINDOW, None));
        assert_eq!(score.differences().len(), 1, "what differed is still told");
        assert_eq!(score.counts().map(|(_, count)| count).collect::<Vec<_>>(), [WINDOW as u64, 1, 0, 1, 0]);
        assert_eq!(percent(199_999, 200_000), Some(99.99));
    }

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
