//! Results of audits: the report of one, and the running score over the last samples.
//!
//! Values only. Callers: [`super`] counts, [`crate::admin`] and [`crate::cli`] show.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::clock::WallTime;
use crate::words::counted;

use super::compare::Difference;

/// Compared samples over which the running score is taken.
const WINDOW: usize = 200;
/// Differences that `/status` remembers.
const REMEMBERED: usize = 5;

/// How one sample ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both answer the same.
    Equal,
    /// They differ, also after a refresh.
    Different(Vec<Difference>),
    /// The mirror would read it through, so there is nothing to compare.
    ReadThrough,
    /// They differ as documented: the mirror answers in its own way.
    ByContract,
    /// Nothing could be compared, and why.
    NotAnswered(String),
    /// They differed once, and why this could be neither confirmed nor dismissed.
    Undecided(String),
}

impl Outcome {
    pub const WORDS: [&str; 6] = ["equal", "different", "read-through", "by-contract", "not-answered", "undecided"];

    /// The word for metrics, logs and reports.
    pub const fn as_str(&self) -> &'static str {
        Self::WORDS[self.index()]
    }

    const fn index(&self) -> usize {
        match self {
            Self::Equal => 0,
            Self::Different(_) => 1,
            Self::ReadThrough => 2,
            Self::ByContract => 3,
            Self::NotAnswered(_) => 4,
            Self::Undecided(_) => 5,
        }
    }
}

/// A request with the differences of its answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differing {
    pub request: String,
    /// The differences; at least one.
    pub differences: Vec<Difference>,
}

impl Differing {
    /// One line for each difference.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.differences.iter().map(|difference| format!("{}: {difference}", self.request))
    }
}

/// The result of one audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Samples that are equal.
    pub equal: u64,
    /// Samples that differ.
    pub different: u64,
    /// Samples that the mirror would forward to the origin.
    pub read_through: u64,
    /// Samples that differ as documented.
    pub by_contract: u64,
    /// Samples that could not be compared.
    pub not_answered: u64,
    /// Samples that differed once, which could be neither confirmed nor dismissed.
    #[serde(default)]
    pub undecided: u64,
    /// Whether it ended early.
    #[serde(default)]
    pub given_up: bool,
    /// The differing part.
    pub differing: Vec<Differing>,
    /// Why samples could not be compared, each reason once.
    pub reasons: Vec<String>,
    /// What the origin does in a way of its own where this server's way is documented, each once. No difference.
    #[serde(default)]
    pub properties: Vec<String>,
}

impl Report {
    /// Counts one sample.
    pub fn count(&mut self, request: &str, outcome: Outcome) {
        match outcome {
            Outcome::Equal => self.equal += 1,
            Outcome::ReadThrough => self.read_through += 1,
            Outcome::ByContract => self.by_contract += 1,
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

    /// Samples that were compared.
    pub const fn compared(&self) -> u64 {
        self.equal + self.different
    }

    /// All finished samples.
    pub const fn samples(&self) -> u64 {
        self.compared() + self.read_through + self.by_contract + self.not_answered + self.undecided
    }

    /// Whether a sample was compared, all are equal, none is undecided, and at least half of the samples were answered.
    pub const fn is_parity(&self) -> bool {
        let decided = self.undecided == 0 && !self.given_up;
        self.equal > 0 && self.different == 0 && decided && 2 * self.not_answered <= self.samples()
    }

    /// The result in one line.
    pub fn summary(&self) -> String {
        let skipped = format!(
            "skipped: {} forwarded, {} different as documented, {} unanswered{}",
            self.read_through,
            self.by_contract,
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
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for line in self.differing.iter().flat_map(Differing::lines) {
            let _ = writeln!(text, "{line}");
        }
        for reason in &self.reasons {
            let _ = writeln!(text, "not compared: {reason}");
        }
        for property in &self.properties {
            let _ = writeln!(text, "property of the origin: {property}");
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
pub struct Score {
    /// Whether each of the last compared samples was equal, the newest last.
    last: VecDeque<bool>,
    differing: VecDeque<Differing>,
    last_at: Option<WallTime>,
    counts: [u64; Outcome::WORDS.len()],
    properties: Vec<&'static str>,
}

impl Score {
    /// Counts one sample.
    pub fn count(&mut self, request: &str, outcome: &Outcome, now: WallTime) {
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
            Outcome::ReadThrough | Outcome::ByContract | Outcome::NotAnswered(_) | Outcome::Undecided(_) => return,
        };
        self.last_at = Some(now);
        if self.last.len() >= WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(equal);
    }

    /// The percentage of equal ones among the last samples; `None` before the first.
    pub fn percent(&self) -> Option<f64> {
        percent(self.last.iter().filter(|equal| **equal).count() as u64, self.compared() as u64)
    }

    /// The number of samples of the percentage.
    pub fn compared(&self) -> usize {
        self.last.len()
    }

    /// The last differences, the newest last, one line each.
    pub fn differences(&self) -> Vec<String> {
        self.differing.iter().flat_map(Differing::lines).collect()
    }

    /// Remembers a property of the origin; `false`: it was known.
    pub fn note_property(&mut self, property: &'static str) -> bool {
        let is_new = !self.properties.contains(&property);
        if is_new {
            self.properties.push(property);
        }
        is_new
    }

    /// What the origin does in a way of its own where this server's way is documented.
    pub fn properties(&self) -> &[&'static str] {
        &self.properties
    }

    /// When something was compared last.
    pub const fn last_at(&self) -> Option<WallTime> {
        self.last_at
    }

    /// Samples since the start by outcome.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Outcome::WORDS.into_iter().zip(self.counts.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::compare::DifferenceKind;

    fn different() -> Outcome {
        Outcome::Different(vec![Difference::new(DifferenceKind::Field, "total", "3", "4")])
    }

    #[test]
    fn a_report_says_what_differs_and_sums_it_up() {
        let mut report = Report::default();
        assert!(!report.is_parity(), "nothing compared is no parity");
        assert_eq!(
            report.text(),
            "no sample could be compared; skipped: 0 forwarded, 0 different as documented, 0 unanswered"
        );
        for outcome in [Outcome::Equal, Outcome::Equal, Outcome::ReadThrough, Outcome::ByContract] {
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
             2 of 3 samples equal (66.66 %); skipped: 1 forwarded, 1 different as documented, 2 unanswered"
        );
        assert_eq!(report.samples(), 7);
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
        score.count("GET /a", &Outcome::Equal, now);
        assert_eq!((score.percent(), score.compared()), (Some(100.0), WINDOW));
        assert_eq!(score.differences().len(), 1, "what differed is still told");
        assert_eq!(score.counts().map(|(_, count)| count).collect::<Vec<_>>(), [WINDOW as u64, 1, 0, 0, 1, 0]);
        assert_eq!(percent(199_999, 200_000), Some(99.99));
    }
}
