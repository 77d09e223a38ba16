//! What we assume of filters, asked of the origin: at most ten questions, once and then weekly.
//!
//! Any answer but the expected one speaks against what the question uses, whatever it is instead: there is no list of
//! foreseen alternatives. It counts once the question was repeated. What a question uses counts as disproved unless
//! another question that was answered as expected bears it out; simpler questions are asked for that. Pure: the requests
//! are [`super::task`]'s, which also makes sure that the list holds still. Callers: [`super::task`].

mod questions;

use std::collections::VecDeque;

use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::coverage::{self, Agreement, used_by};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::meta::Assumption;

use questions::Question;

/// The most questions, without repetitions.
const MOST: usize = 10;

/// An answer of the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A page: the total, and its ids in order.
    Page { total: u64, ids: Vec<ListingId> },
    /// A refusal, or no list, and what it is.
    Other(String),
}

/// A question with its answer.
#[derive(Debug)]
struct Asked {
    question: Question,
    answer: Answer,
    agreement: Agreement,
}

/// The questions to one origin, with the answers so far.
#[derive(Debug)]
pub(super) struct Inquiry {
    /// The snapshot that the first answers were compared with.
    of: SnapshotId,
    open: VecDeque<Question>,
    asked: Vec<Asked>,
    stage: Stage,
    /// An answer to a repeated question was another one again, or too old to tell anything.
    is_unsettled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first questions.
    First,
    /// Simpler ones.
    Simpler,
    /// What was answered in another way than expected, once more.
    Again,
}

/// What the answers say, each in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub disproved: Vec<Assumption>,
    pub proved: Vec<Assumption>,
}

impl Inquiry {
    /// The questions that a data set allows. Takes a while for a large one.
    pub(super) fn of(dataset: &Dataset) -> Self {
        let open: VecDeque<Question> = questions::first(dataset).into();
        Self { of: dataset.id.clone(), open, asked: Vec::new(), stage: Stage::First, is_unsettled: false }
    }

    /// The next question; `None`: all are answered.
    pub(super) fn next(&self) -> Option<&ListQuery> {
        self.open.front().map(|question| &question.query)
    }

    /// Whether its answers are about this data set. A repetition may be about another one.
    pub(super) fn is_about(&self, dataset: &Dataset) -> bool {
        self.stage == Stage::Again || self.of == dataset.id
    }

    /// Takes the answer to the next question. `is_old`: it was made before the data set was published.
    pub(super) fn saw(&mut self, dataset: &Dataset, answer: Answer, is_old: bool) {
        let Some(question) = self.open.pop_front() else { return };
        let agreement = match &answer {
            Answer::Page { total, ids } => coverage::agreement(dataset, &question.query, *total, ids),
            Answer::Other(_) => Some(Agreement::None),
        };
        // What the data cannot answer any more tells nothing.
        let Some(agreement) = agreement else {
            self.is_unsettled = true;
            return;
        };
        if self.stage == Stage::Again {
            let Some(before) = self.asked.iter_mut().find(|asked| asked.question == question) else { return };
            // Where the data has changed, the answer has, too.
            let is_repeated = before.answer == answer || self.of != dataset.id;
            self.is_unsettled |= agreement != Agreement::Whole && (is_old || !is_repeated);
            (before.answer, before.agreement) = (answer, agreement);
            return;
        }
        self.asked.push(Asked { question, answer, agreement });
        if self.open.is_empty() && self.stage == Stage::First {
            self.stage = Stage::Simpler;
            let wrong: Vec<&Question> = self
                .asked
                .iter()
                .filter(|asked| asked.agreement == Agreement::None)
                .map(|asked| &asked.question)
                .collect();
            let more = questions::simpler(dataset, &wrong).into_iter().chain(questions::seasonal(dataset));
            for question in more {
                let mut known = self.asked.iter().map(|asked| &asked.question).chain(&self.open);
                if self.asked.len() + self.open.len() < MOST && known.all(|known| known.query != question.query) {
                    self.open.push_back(question);
                }
            }
        }
    }

    /// The paths whose answers are not the expected ones.
    pub(super) fn differing(&self) -> impl Iterator<Item = String> {
        self.differing_questions().map(|question| question.query.path_and_query())
    }

    fn differing_questions(&self) -> impl Iterator<Item = &Question> {
        self.asked.iter().filter(|asked| asked.agreement != Agreement::Whole).map(|asked| &asked.question)
    }

    /// Asks what was answered in another way once more.
    pub(super) fn repeat(&mut self) {
        self.open = self.differing_questions().cloned().collect();
        self.stage = Stage::Again;
    }

    /// Whether the differing questions were repeated.
    pub(super) fn is_repeated(&self) -> bool {
        self.stage == Stage::Again
    }

    /// Whether a repetition says neither the same as before nor what was expected.
    pub(super) const fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    pub(super) fn findings(&self) -> Findings {
        let is_borne_out = |asked: &&Asked| asked.agreement != Agreement::None;
        let borne_out: Vec<Assumption> =
            self.asked.iter().filter(is_borne_out).flat_map(|asked| &asked.question.shows).copied().collect();
        let is_open = |one: &Assumption| *one != Assumption::Order && !borne_out.contains(one);
        let mut disproved = Vec::new();
        for asked in self.asked.iter().filter(|asked| asked.agreement == Agreement::None) {
            let open: Vec<Assumption> = used_by(&asked.question.query).into_iter().filter(is_open).collect();
            if open.is_empty() { disproved.extend(asked.question.focus()) } else { disproved.extend(open) }
        }
        if self.asked.iter().any(|asked| asked.agreement == Agreement::ButOrder) {
            disproved.push(Assumption::Order);
        }
        disproved.sort_unstable();
        disproved.dedup();
        let ordered =
            |asked: &Asked| asked.agreement == Agreement::Whole && asked.question.shows.contains(&Assumption::Order);
        let is_proved = |one: &Assumption| match one {
            Assumption::Order => self.asked.iter().any(ordered),
            one => borne_out.contains(one),
        };
        let proved = Assumption::ALL.into_iter().filter(|one| is_proved(one) && !disproved.contains(one)).collect();
        Findings { disproved, proved }
    }
}

#[cfg(test)]
mod tests;
