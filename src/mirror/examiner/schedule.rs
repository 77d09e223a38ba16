//! Schedule of the examiner: what it asks next, and when. Pure: the time is an argument. Callers: [`super`].

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::shape::{Shape, TermName};
use crate::data::snapshot::verdicts::table::{DAY_MS, State, Table};

use super::example::turns;

/// So many requests are on the wire at once.
pub(super) const AT_ONCE: usize = 6;

/// So many requests the first examples may take. The rest is asked later.
pub(super) const MOST_OPENING: u32 = 108;

pub(super) const HOUR_MS: i64 = 3_600_000;
/// What clients ask comes before what was not asked for longest, but the same shape not more often.
const WANTED_AGAIN_MS: i64 = 6 * HOUR_MS;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Examples of these shapes. `first`: before the details.
    Ask { shapes: Vec<Shape>, first: bool },
    /// The list of a term in doubt.
    AskTerm(TermName),
    /// The first examples are done with.
    Opened,
    /// Nothing for so long.
    Wait(Duration),
}

/// `last_ms`: when the last example of the hour was asked. `noted`: the shapes in which clients asked since.
pub(super) fn next(table: &Table, noted: &BTreeSet<Shape>, now_ms: i64, last_ms: i64, per_hour: u32) -> Step {
    let all: Vec<Shape> = [Shape::LIST].into_iter().chain(Shape::all()).collect();
    let entry = |shape: &Shape| table.entry(*shape);
    let first = !table.is_opened;
    // An instant far ahead is from before the clock was set back.
    let has_come = |due_ms: i64| !(now_ms + 1..=now_ms + DAY_MS).contains(&due_ms);
    let is_due = |shape: &Shape| Some(entry(shape).due_ms).is_some_and(|due_ms| due_ms > 0 && has_come(due_ms));
    let due: Vec<Shape> = all.iter().copied().filter(is_due).collect();
    if !due.is_empty() {
        return Step::Ask { shapes: due.into_iter().take(AT_ONCE).collect(), first };
    }
    if let Some((_, term)) = table.next_term().filter(|(due_ms, _)| !first && has_come(*due_ms)) {
        return Step::AskTerm(term.clone());
    }
    let pending = || all.iter().map(entry).filter(|entry| entry.due_ms > 0);
    if first {
        let is_open = |shape: &Shape| {
            let entry = entry(shape);
            let is_new = if entry.is_in_doubt() { entry.asked_ms == 0 } else { entry.turn < turns(*shape) };
            is_new && entry.due_ms == 0 && !table.has_open_part(*shape)
        };
        let open = |shape: &&Shape| is_open(shape) && table.asked < MOST_OPENING;
        if let Some(least) = all.iter().find(open).map(|shape| shape.filters()) {
            // What has more filters may not be asked at all.
            let shapes = all.iter().filter(open).copied().filter(|shape| shape.filters() == least);
            let room = AT_ONCE.min((MOST_OPENING - table.asked) as usize);
            return Step::Ask { shapes: shapes.take(room).collect(), first };
        }
        // A row of the open cases is read through meanwhile, and nothing depends on it.
        let is_awaited = |shape: &&Shape| shape.row().is_none() && entry(shape).due_ms > 0 && entry(shape).is_awaited();
        match all.iter().filter(is_awaited).map(|shape| entry(shape).due_ms).min() {
            Some(due_ms) if table.asked < MOST_OPENING => return Step::Wait(until(due_ms, now_ms)),
            _ => return Step::Opened,
        }
    }
    // In every other turn an ordinary request is compared.
    let hourly_ms = last_ms.min(now_ms) + 2 * HOUR_MS / i64::from(per_hour.max(1));
    if hourly_ms <= now_ms {
        let is_stale =
            |shape: &&Shape| entry(shape).state == State::Disproved && entry(shape).asked_ms + DAY_MS <= now_ms;
        // What is asked again soon is not asked before.
        let free = || all.iter().filter(|shape| entry(shape).due_ms == 0);
        let by_age = |shape: &&Shape| entry(shape).asked_ms;
        let is_wanted = |shape: &&Shape| noted.contains(shape) && entry(shape).asked_ms + WANTED_AGAIN_MS <= now_ms;
        let wanted = || free().filter(is_wanted).min_by_key(by_age);
        let shape = free().find(is_stale).or_else(wanted).or_else(|| free().min_by_key(by_age));
        let shapes = shape.copied().into_iter().collect();
        return Step::Ask { shapes, first };
    }
    let terms = table.next_term().map(|(due_ms, _)| due_ms);
    Step::Wait(until(pending().map(|entry| entry.due_ms).chain(terms).fold(hourly_ms, i64::min), now_ms))
}

fn until(at_ms: i64, now_ms: i64) -> Duration {
    Duration::from_millis((at_ms - now_ms).max(1).unsigned_abs())
}
