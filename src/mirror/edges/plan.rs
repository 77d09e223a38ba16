//! Which probe of odd requests is sent next, and the answers so far.
//!
//! Pure: the time is an argument. Callers: [`super`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::edges::Case;
use crate::api::edges::lesson::{Learned, Said, Seen, judge, of_cases};

use super::probes::Filter;

/// The most probes of cases in one round, with repetitions. The questions about filters are counted apart.
const MOST_PROBES: u32 = 40;

/// The most requests in one round for each question about filters.
const MOST_ASKED: u32 = 2;

/// How often a probe of one case is sent again after a failure.
const MOST_RETRIES: u32 = 2;

/// The time from the end of a round to the next round, in milliseconds.
const EVERY_MS: i64 = 7 * 86_400_000;

/// The answers so far; stored after each one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Evidence {
    /// The address of the origin that was asked.
    pub origin: String,
    /// Probes of cases that were sent in this round.
    pub sent: u32,
    /// How often a probe of a case failed.
    #[serde(deserialize_with = "of_cases")]
    pub failed: BTreeMap<Case, u32>,
    /// The answers to the first and second probe of each case.
    #[serde(deserialize_with = "of_cases")]
    pub seen: BTreeMap<Case, Vec<Seen>>,
    /// How many requests the questions about filters took in this round.
    #[serde(default)]
    pub asked: BTreeMap<Filter, u32>,
    /// The answers to the first and second question about each filter: an empty list, as ours is, another answer, or one
    /// that says nothing about the question.
    #[serde(default)]
    pub known: BTreeMap<Filter, Vec<Seen>>,
    /// Whether the round goes on.
    pub is_open: bool,
    /// When the last round ended, in milliseconds since 1970; 0: none did.
    pub ended_ms: i64,
}

/// What the decision rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundFacts {
    /// Now, in milliseconds since 1970.
    pub now_ms: i64,
    /// How far apart the two probes of a case are at least.
    pub apart: Duration,
    /// When a refresh last got good answers, in milliseconds since 1970.
    pub refreshed_ms: Option<i64>,
}

/// What the origin is asked, at most twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeQuestion {
    /// How it answers odd requests of a case.
    Odd(Case),
    /// What it answers to known terms. The second request is sent only if the first answer is not ours.
    Known(Filter),
}

impl EdgeQuestion {
    fn all() -> impl Iterator<Item = Self> {
        Case::ALL.into_iter().map(Self::Odd).chain(Filter::ALL.into_iter().map(Self::Known))
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeStep {
    /// A round begins.
    Begin,
    /// The first (0) or second (1) request of a question.
    Ask(EdgeQuestion, usize),
    /// The round ends: the answers are judged.
    Judge,
    /// Nothing for so long, or until something is asked for.
    Wait(Duration),
}

/// The next step.
pub(super) fn next(evidence: &Evidence, facts: &RoundFacts) -> EdgeStep {
    let apart_ms = i64::try_from(facts.apart.as_millis()).unwrap_or(i64::MAX);
    if !evidence.is_open {
        let since = facts.now_ms.saturating_sub(evidence.ended_ms);
        // It is due, too, if the clock was set back: then `since` is negative.
        let is_due = evidence.ended_ms == 0 || !(0..EVERY_MS).contains(&since);
        return if is_due { EdgeStep::Begin } else { EdgeStep::Wait(Duration::from_secs(60)) };
    }
    let is_new = |question: &EdgeQuestion| evidence.may_ask(*question) && evidence.answers(*question).is_empty();
    if let Some(question) = EdgeQuestion::all().find(is_new) {
        return EdgeStep::Ask(question, 0);
    }
    let is_due = |at_ms: i64| {
        // If the clock was set back, the second request does not wait until the clock has caught up.
        let is_apart = !(0..apart_ms).contains(&facts.now_ms.saturating_sub(at_ms));
        // Between the two requests a refresh must have had good answers: then the origin was well.
        is_apart && facts.refreshed_ms.is_some_and(|refreshed| refreshed > at_ms || refreshed > facts.now_ms)
    };
    let mut open = EdgeQuestion::all().filter(|question| evidence.needs_another(*question)).peekable();
    if open.peek().is_none() {
        return EdgeStep::Judge;
    }
    let due = open.find(|question| evidence.answers(*question).first().is_some_and(|seen| is_due(seen.at_ms)));
    due.map_or(EdgeStep::Wait(Duration::from_secs(1)), |question| EdgeStep::Ask(question, 1))
}

impl Evidence {
    /// A round begins.
    pub(super) fn begin(&mut self, origin: &str) {
        origin.clone_into(&mut self.origin);
        (self.sent, self.is_open) = (0, true);
        self.seen.clear();
        self.failed.clear();
        self.asked.clear();
        self.known.clear();
    }

    /// Whether one more request may be sent for a question.
    fn may_ask(&self, question: EdgeQuestion) -> bool {
        match question {
            EdgeQuestion::Odd(_) => self.sent < MOST_PROBES,
            EdgeQuestion::Known(filter) => self.asked.get(&filter).is_none_or(|asked| *asked < MOST_ASKED),
        }
    }

    /// How many requests a question, or all questions of its kind, took.
    pub(super) fn sent(&mut self, question: EdgeQuestion) -> &mut u32 {
        match question {
            EdgeQuestion::Odd(_) => &mut self.sent,
            EdgeQuestion::Known(filter) => self.asked.entry(filter).or_default(),
        }
    }

    /// How many requests the questions about filters took.
    pub(super) fn filters_sent(&self) -> u32 {
        self.asked.values().sum()
    }

    /// The answers to a question.
    pub(super) fn answers(&self, question: EdgeQuestion) -> &[Seen] {
        let answers = match question {
            EdgeQuestion::Odd(case) => self.seen.get(&case),
            EdgeQuestion::Known(filter) => self.known.get(&filter),
        };
        answers.map_or(&[], Vec::as_slice)
    }

    /// An answer came.
    pub(super) fn saw(&mut self, question: EdgeQuestion, seen: Seen) {
        match question {
            EdgeQuestion::Odd(case) => self.seen.entry(case).or_default().push(seen),
            EdgeQuestion::Known(filter) => self.known.entry(filter).or_default().push(seen),
        }
    }

    /// Whether a second answer could teach something.
    fn needs_another(&self, question: EdgeQuestion) -> bool {
        let [one] = self.answers(question) else { return false };
        let teaches = match question {
            EdgeQuestion::Odd(_) => !matches!(one.said, Said::Never(_)),
            EdgeQuestion::Known(_) => matches!(one.said, Said::Answer { .. }),
        };
        teaches && self.may_ask(question)
    }

    /// Whether the origin answers a question about a filter in another way; `None`: that is not known.
    fn differs(&self, filter: Filter) -> Option<bool> {
        match self.answers(EdgeQuestion::Known(filter)) {
            [Seen { said: Said::List(_), .. }] => Some(false),
            [Seen { said: Said::Answer { .. }, .. }, Seen { said: Said::Answer { .. }, .. }] => Some(true),
            _ => None,
        }
    }

    /// A request failed. Returns whether it is sent again; each repetition leaves fewer requests for the last cases.
    pub(super) fn retries(&mut self, question: EdgeQuestion) -> bool {
        if let EdgeQuestion::Odd(case) = question {
            let failed = self.failed.entry(case).or_default();
            *failed += 1;
            return *failed <= MOST_RETRIES && self.may_ask(question);
        }
        self.may_ask(question)
    }

    /// The round ends with what the answers teach.
    pub(super) fn judge(&mut self, now_ms: i64) -> Learned {
        let mut learned = Learned {
            probes: self.sent,
            filter_probes: self.filters_sent(),
            elsewhere: self.differs(Filter::Elsewhere) == Some(true),
            commas: self.differs(Filter::Several),
            ..Learned::default()
        };
        for case in Case::ALL {
            let lesson = match self.answers(EdgeQuestion::Odd(case)) {
                [Seen { said: Said::Never(why), .. }, ..] => Err(why.clone()),
                [one, other, ..] => judge(case, [one, other]),
                _ => Err("it was not asked twice".to_owned()),
            };
            match lesson {
                Ok(lesson) => drop(learned.lessons.insert(case, lesson)),
                Err(why) => drop(learned.own.insert(case, why)),
            }
        }
        learned.probed_ms = self.seen.values().flatten().map(|seen| seen.at_ms).max().unwrap_or(now_ms);
        (self.is_open, self.ended_ms) = (false, now_ms);
        learned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::edges::lesson::Came;

    const APART: Duration = Duration::from_secs(300);

    fn facts(now_ms: i64, refreshed_ms: Option<i64>) -> RoundFacts {
        RoundFacts { now_ms, apart: APART, refreshed_ms }
    }

    fn seen(at_ms: i64) -> Seen {
        let said = Said::of(Came { status: 404, media_types: &[Some("application/json")], body: b"{}" });
        Seen { told: Vec::new(), said, at_ms }
    }

    fn says(evidence: &mut Evidence, filter: Filter, is_ours: Option<bool>, at_ms: i64) {
        let said = match is_ours {
            Some(true) => Said::List(Vec::new()),
            Some(false) => Said::of(Came { status: 404, media_types: &[], body: b"" }),
            None => Said::Never("nothing".to_owned()),
        };
        *evidence.sent(EdgeQuestion::Known(filter)) += 1;
        evidence.saw(EdgeQuestion::Known(filter), Seen { told: Vec::new(), said, at_ms });
    }

    /// Answers every probe at once, until there is something else to do; how many there were. To questions about
    /// filters the answers are ours.
    fn answered(evidence: &mut Evidence, facts: &RoundFacts) -> (u32, EdgeStep) {
        let mut count = 0;
        loop {
            match next(evidence, facts) {
                EdgeStep::Ask(EdgeQuestion::Odd(case), round) => {
                    assert_eq!(evidence.answers(EdgeQuestion::Odd(case)).len(), round);
                    evidence.sent += 1;
                    evidence.saw(EdgeQuestion::Odd(case), seen(facts.now_ms));
                    count += 1;
                }
                EdgeStep::Ask(EdgeQuestion::Known(filter), 0) => says(evidence, filter, Some(true), facts.now_ms),
                other => return (count, other),
            }
        }
    }

    #[test]
    fn each_case_is_asked_twice_one_ttl_apart_with_a_good_answer_between_and_at_most_forty_times() {
        let mut evidence = Evidence::default();
        assert_eq!(next(&evidence, &facts(1_000, None)), EdgeStep::Begin);
        evidence.begin("o");
        let cases = Case::ALL.len() as u32;
        let waits = EdgeStep::Wait(Duration::from_secs(1));
        assert_eq!(answered(&mut evidence, &facts(1_000, Some(500))), (cases, waits));
        assert_eq!(next(&evidence, &facts(300_999, Some(2_000))), waits, "not a ttl later");
        assert_eq!(next(&evidence, &facts(301_000, Some(1_000))), waits, "no good answer between");
        assert_eq!(next(&evidence, &facts(301_000, None)), waits);
        assert_eq!(answered(&mut evidence, &facts(301_000, Some(2_000))), (cases, EdgeStep::Judge));
        assert!(evidence.sent <= MOST_PROBES);
        let learned = evidence.judge(301_000);
        assert_eq!((learned.lessons.len(), learned.own.len(), learned.probes), (20, 0, 40));
        assert_eq!(learned.probed_ms, 301_000);
    }

    #[test]
    fn a_question_about_filters_is_asked_again_a_ttl_later_and_only_if_the_first_answer_is_not_ours() {
        for (filter, other) in [(Filter::Elsewhere, Filter::Several), (Filter::Several, Filter::Elsewhere)] {
            for (first, second, differs) in [
                (Some(true), None, Some(false)),
                (None, None, None),
                (Some(false), Some(true), None),
                (Some(false), Some(false), Some(true)),
            ] {
                let mut evidence = Evidence::default();
                evidence.begin("o");
                evidence.sent = MOST_PROBES;
                assert_eq!(
                    next(&evidence, &facts(1_000, None)),
                    EdgeStep::Ask(EdgeQuestion::Known(Filter::Elsewhere), 0)
                );
                says(&mut evidence, filter, first, 1_000);
                assert_eq!(next(&evidence, &facts(1_000, None)), EdgeStep::Ask(EdgeQuestion::Known(other), 0));
                says(&mut evidence, other, Some(true), 1_000);
                if first == Some(false) {
                    let waits = EdgeStep::Wait(Duration::from_secs(1));
                    assert_eq!(next(&evidence, &facts(300_999, Some(2_000))), waits, "not a ttl later");
                    assert_eq!(next(&evidence, &facts(301_000, Some(1_000))), waits, "no good answer between");
                    assert_eq!(
                        next(&evidence, &facts(301_000, Some(2_000))),
                        EdgeStep::Ask(EdgeQuestion::Known(filter), 1)
                    );
                    says(&mut evidence, filter, second, 301_000);
                }
                assert_eq!(next(&evidence, &facts(301_000, None)), EdgeStep::Judge);
                let learned = evidence.judge(301_000);
                let expected = if filter == Filter::Several { learned.commas } else { Some(learned.elsewhere) };
                assert_eq!(expected == Some(true), differs == Some(true), "{filter:?} {first:?} {second:?}");
                assert!(filter != Filter::Several || learned.commas == differs);
                let asked = 2 + u32::from(first == Some(false));
                assert_eq!((learned.probes, learned.filter_probes), (MOST_PROBES, asked), "both are told");
            }
        }
        let mut evidence = Evidence::default();
        evidence.begin("o");
        *evidence.asked.entry(Filter::Several).or_default() += 2;
        assert!(
            !evidence.may_ask(EdgeQuestion::Known(Filter::Several)),
            "a failure takes the place of the second request"
        );
    }

    #[test]
    fn the_questions_are_asked_again_weekly() {
        let ended = Evidence { ended_ms: 1_000_000, ..Evidence::default() };
        let at = |now_ms| next(&ended, &facts(now_ms, None));
        assert!(matches!(at(1_000_000 + EVERY_MS - 1), EdgeStep::Wait(_)));
        assert_eq!(at(1_000_000 + EVERY_MS), EdgeStep::Begin);
        assert_eq!(at(999_999), EdgeStep::Begin, "the clock was set back");
    }

    #[test]
    fn requests_that_fail_never_make_it_more_than_forty() {
        let mut evidence = Evidence::default();
        evidence.begin("o");
        let facts = facts(1_000, Some(2_000));
        while let EdgeStep::Ask(EdgeQuestion::Odd(case), _) = next(&evidence, &facts) {
            evidence.sent += 1;
            if !evidence.retries(EdgeQuestion::Odd(case)) {
                let said = Said::Never("it failed".to_owned());
                evidence.saw(EdgeQuestion::Odd(case), Seen { told: Vec::new(), said, at_ms: 1_000 });
            }
        }
        assert_eq!(evidence.sent, MOST_PROBES);
        assert_eq!(next(&evidence, &facts), EdgeStep::Ask(EdgeQuestion::Known(Filter::Elsewhere), 0));
        let learned = evidence.judge(1_000);
        assert_eq!((learned.lessons.len(), learned.own.len()), (0, Case::ALL.len()));
    }

    #[test]
    fn a_failure_costs_the_last_cases_their_turn_and_no_other() {
        let (mut evidence, mut failures) = (Evidence::default(), 1);
        evidence.begin("o");
        for now_ms in [1_000, 301_000] {
            for filter in Filter::ALL {
                let said = Said::Never("nothing".to_owned());
                evidence.known.insert(filter, vec![Seen { told: Vec::new(), said, at_ms: now_ms }]);
            }
            while let EdgeStep::Ask(EdgeQuestion::Odd(case), _) = next(&evidence, &facts(now_ms, Some(now_ms - 1))) {
                evidence.sent += 1;
                if failures > 0 && evidence.retries(EdgeQuestion::Odd(case)) {
                    failures -= 1;
                } else {
                    evidence.saw(EdgeQuestion::Odd(case), seen(now_ms));
                }
            }
        }
        assert_eq!(evidence.sent, MOST_PROBES);
        let learned = evidence.judge(301_000);
        assert_eq!(learned.own.keys().collect::<Vec<_>>(), [&Case::EmptySince]);
    }

    #[test]
    fn what_came_so_far_reads_back_as_it_was() {
        let mut evidence = Evidence::default();
        evidence.begin("o");
        evidence.saw(EdgeQuestion::Odd(Case::PageZero), seen(7));
        let text = serde_json::to_vec(&evidence).unwrap();
        assert_eq!(serde_json::from_slice::<Evidence>(&text).unwrap(), evidence);
        let learned = evidence.judge(8);
        let text = serde_json::to_vec(&learned).unwrap();
        assert_eq!(serde_json::from_slice::<Learned>(&text).unwrap(), learned);
    }
}
