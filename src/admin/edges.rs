//! What `/status` says of odd requests: how each case is answered.
//!
//! Callers: [`super::status`].

use serde_json::{Map, Value, json};

use crate::api::edges::case::Case;
use crate::api::edges::lesson::Lesson;
use crate::clock::WallTime;
use crate::snapshot::edges::Edges;

/// The name of valid filters that exclude each other, where the origin does not answer with an empty list.
const ELSEWHERE: &str = "city-outside-state";
/// The name of several terms with commas between them.
const COMMAS: &str = "comma-list";

/// `edges` in `/status`.
pub(super) fn describe(edges: &Edges) -> Value {
    let learned = edges.learned();
    let mut cases = Map::new();
    let mut own = Vec::new();
    for case in Case::ALL {
        match learned.as_ref().and_then(|learned| learned.lessons.get(&case)) {
            Some(lesson) => drop(cases.insert(case.as_str().to_owned(), lesson.what().into())),
            None => own.push(case.as_str()),
        }
    }
    if learned.as_ref().is_some_and(|learned| learned.elsewhere) {
        cases.insert(ELSEWHERE.to_owned(), Lesson::Through.what().into());
    }
    match learned.as_ref().map(|learned| learned.commas) {
        Some(Some(true)) => drop(cases.insert(COMMAS.to_owned(), Lesson::Through.what().into())),
        Some(Some(false)) => drop(cases.insert(COMMAS.to_owned(), Lesson::AsOurs.what().into())),
        Some(None) => own.push(COMMAS),
        None => {}
    }
    json!({
        "state": edges.state().as_str(),
        "cases": cases,
        "own": own,
        // Of the cases: not the few requests about filters.
        "probes": learned.as_ref().map_or_else(|| edges.probes().0, |learned| learned.probes),
        "probed_at": learned.as_ref().and_then(|learned| WallTime::from_millis(learned.probed_ms).rfc3339()),
    })
}
