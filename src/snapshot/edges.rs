//! The answers to odd requests, from what was learned of the origin and from the data.
//!
//! [`mod@apply`] says which listings an odd query selects, and which readings explain an origin's list. Ordinary
//! requests do not use it. Callers: [`crate::answer`] and [`crate::audit`] ask, [`crate::mirror`] learns,
//! [`crate::snapshots`] imports.

pub(crate) mod apply;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::ArcSwapOption;

use crate::api::edges::lesson::{Learned, LearnedAnswer, Lesson};
use crate::api::edges::{How, Odd, OddQuery};
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::words::named;

use super::dataset::Dataset;
use super::membership::Membership;
use apply::{Applied, apply};

/// What was learned, shared by all who use it; cheap to clone.
#[derive(Clone, Default)]
pub struct Edges(Arc<EdgesState>);

#[derive(Default)]
struct EdgesState {
    learned: ArcSwapOption<Learned>,
    /// Whether lessons are used; otherwise every answer is ours.
    used: AtomicBool,
    /// Whether an origin is asked.
    learns: AtomicBool,
    /// How many requests the current round of questions took: about cases, and about filters.
    probes: AtomicU32,
    filter_probes: AtomicU32,
}

named! {
    /// Where learning stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum State, as_str {
        /// Every answer is ours.
        Own = "own",
        /// The origin is being asked.
        Learning = "learning",
        /// Lessons are used.
        Learned = "learned",
    }
}

impl Edges {
    /// Says whether lessons are used, and whether an origin is asked for them.
    pub fn set_use(&self, used: bool, learns: bool) {
        self.0.used.store(used, Ordering::Relaxed);
        self.0.learns.store(used && learns, Ordering::Relaxed);
    }

    /// Whether there are lessons, and they are used.
    pub fn are_learned(&self) -> bool {
        self.learned().is_some()
    }

    /// Whether lessons are used, once there are any.
    pub(crate) fn are_used(&self) -> bool {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The lessons to answer with; `None`: every answer is ours.
    pub(crate) fn learned(&self) -> Option<Arc<Learned>> {
        if self.are_used() { self.0.learned.load_full() } else { None }
    }

    /// What was learned, whether it is used or not.
    pub(crate) fn known(&self) -> Option<Arc<Learned>> {
        self.0.learned.load_full()
    }

    /// Replaces what was learned.
    pub(crate) fn set(&self, learned: Option<Arc<Learned>>) {
        self.0.learned.store(learned);
    }

    /// Whether an origin is asked.
    pub(crate) fn asks(&self) -> bool {
        self.0.learns.load(Ordering::Relaxed)
    }

    /// Where learning stands.
    pub(crate) fn state(&self) -> State {
        match self.learned() {
            Some(_) => State::Learned,
            None if self.asks() => State::Learning,
            None => State::Own,
        }
    }

    /// How many requests the questions took that are being asked: about cases, and about filters.
    pub(crate) fn probes(&self) -> (u32, u32) {
        (self.0.probes.load(Ordering::Relaxed), self.0.filter_probes.load(Ordering::Relaxed))
    }

    pub(crate) fn set_probes(&self, cases: u32, filters: u32) {
        self.0.probes.store(cases, Ordering::Relaxed);
        self.0.filter_probes.store(filters, Ordering::Relaxed);
    }
}

/// How an odd request is answered.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision<'a> {
    /// As the documentation's table says: nothing else is known.
    Ours,
    /// The same, and so does the origin.
    AsOurs,
    /// With a list.
    List(Applied),
    /// With a status and this body.
    Body(&'a LearnedAnswer, String),
    /// With the origin's answer, as every answer that the snapshot does not have.
    Through,
    /// Nobody knows but the origin: a value belongs to no class, or two parameters are odd. The origin is asked if that
    /// costs others nothing; these values are sent as the client spelled them.
    Odd(Vec<Odd>),
}

/// How a query is answered that the parser calls odd. `now`: nanoseconds since 1970.
pub(crate) fn of_odd<'a>(learned: &'a Learned, dataset: &Dataset, asked: &OddQuery, now: i64) -> Decision<'a> {
    let odd = match &asked.odds[..] {
        [odd] if odd.case().is_some() && !names_respelled(dataset, odd) => odd,
        odds => {
            // A slug beside them may be unknown, and then it may be anything.
            let mut odds = odds.to_vec();
            odds.extend(looked_up(dataset, &asked.rest, now));
            return odd_together(odds);
        }
    };
    let lesson = learned.of(odd);
    let beside = match lesson {
        Some(Lesson::List { effect, .. }) => {
            apply(*effect, false, &asked.rest, odd, dataset).map_or_else(|| asked.rest.clone(), |applied| applied.query)
        }
        _ => asked.rest.clone(),
    };
    let mut odds = looked_up(dataset, &beside, now);
    if learned.elsewhere {
        odds.extend(elsewhere(dataset, &beside));
    }
    if odds.is_empty() {
        return lesson.map_or(Decision::Ours, |lesson| by(lesson, dataset, &asked.rest, odd));
    }
    odds.push(odd.clone());
    odd_together(odds)
}

/// How a query is answered that finds nothing; `None`: nothing is odd about it. `now`: nanoseconds since 1970.
pub(crate) fn of_empty<'a>(
    learned: Option<&'a Learned>,
    dataset: &Dataset,
    query: &ListQuery,
    now: i64,
) -> Option<Decision<'a>> {
    let mut odds = looked_up(dataset, query, now);
    if learned.is_some_and(|learned| learned.elsewhere)
        && let Some(city) = elsewhere(dataset, query)
    {
        odds.push(city);
    }
    let odd = odds.first()?;
    let Some(learned) = learned else { return Some(Decision::Ours) };
    if odds.len() > 1 || odd.how == How::Spelled {
        return Some(odd_together(odds));
    }
    if odd.how == How::Elsewhere {
        return Some(through(odd));
    }
    if odd.how == How::Several {
        // What was learned of one unknown slug says nothing about a list of them.
        return Some(match learned.commas {
            Some(true) => through(odd),
            Some(false) => Decision::AsOurs,
            None => Decision::Ours,
        });
    }
    let mut rest = query.clone();
    match odd.parameter {
        "page" => rest.page = 1,
        "modified_since" => rest.modified_since = None,
        slug => {
            if let Some(kind) = TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == slug) {
                rest.slugs[kind.index()] = None;
            }
        }
    }
    Some(learned.of(odd).map_or(Decision::Ours, |lesson| by(lesson, dataset, &rest, odd)))
}

/// The body with which the id of no listing is answered; `None`: ours.
pub(crate) fn of_id<'a>(lesson: Option<&'a Lesson>, id: &str) -> Option<(&'a LearnedAnswer, String)> {
    let Some(Lesson::Answer(answer)) = lesson else { return None };
    Some((answer, answer.body.fill(&[id])?))
}

/// What only the origin knows, unless it may not be asked about the value.
fn through<'a>(odd: &Odd) -> Decision<'a> {
    if odd.is_askable() { Decision::Through } else { Decision::Ours }
}

/// The same of values without a class, and of several odd parameters.
fn odd_together<'a>(odds: Vec<Odd>) -> Decision<'a> {
    if odds.iter().all(Odd::is_askable) { Decision::Odd(odds) } else { Decision::Ours }
}

fn by<'a>(lesson: &'a Lesson, dataset: &Dataset, rest: &ListQuery, odd: &Odd) -> Decision<'a> {
    match lesson {
        Lesson::AsOurs => Decision::AsOurs,
        Lesson::Through => through(odd),
        Lesson::List { effect, shown } => {
            apply(*effect, *shown, rest, odd, dataset).map_or(Decision::Ours, Decision::List)
        }
        Lesson::Answer(answer) => {
            let body = answer.body.fill(&odd.told());
            body.map_or(Decision::Ours, |body| Decision::Body(answer, body))
        }
    }
}

/// The city of a query, if it lies outside the state that the query names: no listing is in both.
fn elsewhere(dataset: &Dataset, query: &ListQuery) -> Option<Odd> {
    let (state, city) = (query.slug(TaxonomyKind::States)?, query.slug(TaxonomyKind::Cities)?);
    let positions = |kind, slug| dataset.membership(kind, slug).and_then(Membership::positions);
    let (state, city_of) = (positions(TaxonomyKind::States, state)?, positions(TaxonomyKind::Cities, city)?);
    let is_outside = !city_of.is_empty() && !state.is_empty() && state.is_disjoint(city_of);
    is_outside.then(|| Odd::of(TaxonomyKind::Cities.parameter(), How::Elsewhere, city))
}

/// A slug that no term has: perhaps it is another spelling of one, or means several terms.
fn unknown(dataset: &Dataset, kind: TaxonomyKind, slug: &str) -> Odd {
    if dataset.is_respelled(kind, slug) {
        return Odd::of(kind.parameter(), How::Spelled, slug);
    }
    if slug.contains(',') {
        let values = slug.split(',').map(Into::into).collect();
        return Odd { parameter: kind.parameter(), how: How::Several, values };
    }
    Odd::of(kind.parameter(), How::Unknown, slug)
}

/// Whether a value is another spelling of the slug of a term.
fn names_respelled(dataset: &Dataset, odd: &Odd) -> bool {
    let kind = TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == odd.parameter);
    let is_respelled = |kind, slug: &str| dataset.membership(kind, slug).is_none() && dataset.is_respelled(kind, slug);
    kind.is_some_and(|kind| odd.values.iter().any(|slug| is_respelled(kind, slug)))
}

/// What the data shows to be odd in a query: unknown slugs, an instant in the future, a page beyond the last.
fn looked_up(dataset: &Dataset, query: &ListQuery, now: i64) -> Vec<Odd> {
    let mut odds = Vec::new();
    for kind in TaxonomyKind::ALL {
        if let Some(slug) = query.slug(kind)
            && dataset.membership(kind, slug).is_none()
        {
            odds.push(unknown(dataset, kind, slug));
        }
    }
    if let Some(since) = query.modified_since.as_ref().filter(|since| since.at > now) {
        odds.push(Odd::of("modified_since", How::Future, &since.text));
    }
    if query.page > 1 && dataset.find(query).is_ok_and(|found| query.page > query.total_pages(found.total)) {
        odds.push(Odd::of("page", How::Beyond, &query.page.to_string()));
    }
    odds
}

#[cfg(test)]
mod tests;
