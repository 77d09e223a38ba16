//! Odd requests on the operator's page: how each case is answered, since when, and why some answers are ours.
//!
//! Callers: [`super::gather`].

use crate::api::edges::Case;
use crate::api::edges::lesson::{Effect, Lesson};
use crate::clock::WallTime;
use crate::mirror::edges::plan::{MOST_FILTERS, MOST_PROBES};
use crate::semantics::excerpt::Excerpt;
use crate::snapshot::edges::{Edges, State};

use super::model::{Line, OddCase, OddRequests};
use super::words;

pub(super) fn requests(edges: &Edges) -> OddRequests {
    let learned = edges.learned();
    let state = match (edges.state(), &learned) {
        (State::Learned, Some(learned)) => {
            let at = words::instant(WallTime::from_millis(learned.probed_ms));
            let next = if edges.asks() {
                "The origin is asked again each week, and when an audit finds a difference."
            } else {
                "The lessons came with the data; this server does not ask the origin."
            };
            let told = format!("Learned at {at}, with {} requests to the origin.", learned.requests());
            let more = [told, next.to_owned()];
            Line::new("Answers", "As the origin answers").with(more)
        }
        (State::Learning, _) => {
            let ((cases, filters), most) = (edges.probes(), MOST_PROBES + MOST_FILTERS);
            let sent = cases + filters;
            let told =
                format!("{sent} of at most {most} probes sent. Until learning ends, grandstand gives its own answers.");
            Line::new("Answers", "The origin is being asked").with([told])
        }
        _ if edges.are_used() => {
            let told = "The data came without lessons about the origin's answers.".to_owned();
            Line::new("Answers", "grandstand gives its own answers").with([told])
        }
        _ => Line::new("Answers", "grandstand gives its own answers").with(["mirror.edges is \"own\".".to_owned()]),
    };
    let mut cases = Vec::new();
    if let Some(learned) = learned {
        for case in Case::ALL {
            let (request, example) = request(case);
            let (answer, why) = if let Some(lesson) = learned.lessons.get(&case) {
                (answer(lesson), None)
            } else {
                let why = learned.own.get(&case).map(|why| words::sentence(&Excerpt(why).to_string()));
                ("Own answer".to_owned(), Some(why.unwrap_or_else(|| "Nothing was learned.".to_owned())))
            };
            cases.push(OddCase { request, example, answer, why });
        }
        if learned.elsewhere {
            let (request, example) = ("A city outside the state", "state=ohio&city=austin");
            cases.push(OddCase { request, example, answer: answer(&Lesson::Through), why: None });
        }
        let (request, example) = ("Two terms with a comma between them", "sport=golf,tennis");
        let (answer, why) = match learned.commas {
            Some(true) => (answer(&Lesson::Through), None),
            Some(false) => (answer(&Lesson::AsOurs), None),
            None => (
                "Own answer".to_owned(),
                Some("The origin did not answer, or answered differently each time.".to_owned()),
            ),
        };
        cases.push(OddCase { request, example, answer, why });
    }
    OddRequests { lines: vec![state], cases }
}

/// A case in words, with an example.
const fn request(case: Case) -> (&'static str, &'static str) {
    match case {
        Case::PageBeyond => ("A page beyond the last", "page=9999"),
        Case::PageZero => ("Page 0", "page=0"),
        Case::PageNegative => ("A negative page", "page=-1"),
        Case::PageWord => ("A page that is a word", "page=x"),
        Case::PerPageZero => ("A page size of 0", "per_page=0"),
        Case::PerPageNegative => ("A negative page size", "per_page=-1"),
        Case::PerPageOver => ("A page size above 100", "per_page=101"),
        Case::PerPageWord => ("A page size that is a word", "per_page=x"),
        Case::UnknownSport => ("An unknown sport", "sport=quidditch"),
        Case::UnknownState => ("An unknown state", "state=atlantis"),
        Case::UnknownCity => ("An unknown city", "city=atlantis"),
        Case::SinceMalformed => ("A time that cannot be read", "modified_since=yesterday"),
        Case::SinceFuture => ("A time in the future", "modified_since=2999-01-01"),
        Case::UnknownId => ("The id of no listing", "/api/listings/999999999.json"),
        Case::IdWord => ("An id that is a word", "/api/listings/x.json"),
        Case::RepeatedNumber => ("Two pages or page sizes", "page=1&page=2"),
        Case::RepeatedFilter => ("Two values of a filter", "sport=golf&sport=tennis"),
        Case::EmptyNumber => ("An empty page or page size", "page="),
        Case::EmptyFilter => ("An empty filter", "sport="),
        Case::EmptySince => ("An empty time", "modified_since="),
    }
}

/// What was learned, in words.
fn answer(lesson: &Lesson) -> String {
    let list = match lesson {
        Lesson::AsOurs => return "The origin gives the same answer".to_owned(),
        Lesson::Through => return "Forwarded to the origin".to_owned(),
        Lesson::Answer(answer) => {
            let kind = answer.media_type.as_deref().unwrap_or("no body");
            return format!("Status {}, {}, in the origin's words", answer.status, Excerpt(kind));
        }
        Lesson::List { effect, .. } => effect,
    };
    let list = match list {
        Effect::Ignored => "A list: the parameter is ignored".to_owned(),
        Effect::Number(number) => format!("A list: the value counts as {number}"),
        Effect::AtMost(most) => format!("A list: the value is clamped to {most}"),
        Effect::AsAsked(most) => format!("A list: values up to {most} are accepted"),
        Effect::LastPage => "The last page".to_owned(),
        Effect::Nothing => "An empty list".to_owned(),
        Effect::First => "A list: the first value counts".to_owned(),
        Effect::Last => "A list: the last value counts".to_owned(),
    };
    let is_shown = matches!(lesson, Lesson::List { shown: true, .. });
    if is_shown { format!("{list}. It shows the value as it was asked for") } else { list }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::edges::lesson::Learned;

    #[test]
    fn each_case_is_told_with_its_answer_or_why_it_is_ours() {
        let edges = Edges::default();
        let told = |edges: &Edges| requests(edges).lines.into_iter().flat_map(|line| line.more).collect::<String>();
        assert!(told(&edges).contains("mirror.edges is \"own\""), "{}", told(&edges));
        edges.set_use(true, false);
        assert!(told(&edges).contains("came without lessons"), "{}", told(&edges));
        edges.set_use(true, true);
        edges.set_probes(6, 1);
        assert!(told(&edges).contains("7 of at most 44"), "{}", told(&edges));
        let mut learned =
            Learned { probes: 40, filter_probes: 3, elsewhere: true, commas: Some(false), ..Learned::default() };
        learned.lessons.insert(Case::PageBeyond, Lesson::AsOurs);
        learned.lessons.insert(Case::PageZero, Lesson::List { effect: Effect::Number(1), shown: true });
        learned.own.insert(Case::PageWord, "the status 500 is never learned".to_owned());
        edges.set(Some(Arc::new(learned)));
        assert!(told(&edges).contains("with 43 requests"), "{}", told(&edges));
        assert!(told(&edges).contains("asked again each week"), "{}", told(&edges));
        edges.set_use(true, false);
        assert!(told(&edges).contains("does not ask the origin"), "{}", told(&edges));
        assert!(!told(&edges).contains("each week"), "{}", told(&edges));
        let odd = requests(&edges);
        assert_eq!(odd.cases.len(), Case::ALL.len() + 2);
        let row = |at: usize| (odd.cases[at].answer.as_str(), odd.cases[at].why.as_deref());
        assert_eq!(row(0), ("The origin gives the same answer", None));
        assert_eq!(row(1), ("A list: the value counts as 1. It shows the value as it was asked for", None));
        assert_eq!(row(3), ("Own answer", Some("The status 500 is never learned.")));
        assert_eq!(row(Case::ALL.len()), ("Forwarded to the origin", None));
        assert_eq!(row(Case::ALL.len() + 1), ("The origin gives the same answer", None));
        for case in Case::ALL {
            let (words, example) = request(case);
            assert!(words.starts_with(char::is_uppercase) && !example.is_empty(), "{case:?}");
        }
    }

    #[test]
    fn a_list_with_commas_has_a_row_whatever_is_known_of_it() {
        for (commas, expected) in [
            (Some(true), ("Forwarded to the origin", None)),
            (Some(false), ("The origin gives the same answer", None)),
            (None, ("Own answer", Some("The origin did not answer, or answered differently each time."))),
        ] {
            let edges = Edges::default();
            edges.set_use(true, true);
            edges.set(Some(Arc::new(Learned { commas, ..Learned::default() })));
            let row = requests(&edges).cases.pop().unwrap();
            assert_eq!((row.request, row.example), ("Two terms with a comma between them", "sport=golf,tennis"));
            assert_eq!((row.answer.as_str(), row.why.as_deref()), expected, "{commas:?}");
        }
    }
}
