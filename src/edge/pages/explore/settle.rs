//! Resolution of names: slugs and points in the place of the names that people write.
//!
//! Callers: [`super`].

use crate::api::query::finder::FinderQuery;
use crate::api::taxonomy::{TaxonomyKind, Term};
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::pages::Pages;
use crate::edge::pages::facts::{PageFacts, TermNames, written_out};

/// Whether a query has a name that a snapshot may know.
pub(in crate::edge::pages) fn is_open(published: &Snapshot, query: &FinderQuery) -> bool {
    let is_unknown = |kind: TaxonomyKind, slug| published.dataset.membership(kind, slug).is_none();
    let list = &query.search.list;
    query.place.is_some()
        || TaxonomyKind::ALL.into_iter().any(|kind| list.slug(kind).is_some_and(|slug| is_unknown(kind, slug)))
}

/// Takes the term that a name means for its filter, and the middle of the city's venues for a place.
pub(in crate::edge::pages) fn settle(pages: &Pages, published: &Snapshot, query: &mut FinderQuery) {
    let facts = PageFacts::of(published);
    let list = &mut query.search.list;
    for kind in [TaxonomyKind::Sports, TaxonomyKind::States, TaxonomyKind::Cities] {
        let unknown = list.slug(kind).filter(|slug| facts.dataset.membership(kind, slug).is_none());
        let meant = unknown.map(|name| match kind {
            TaxonomyKind::Cities => meant(&pages.term_names(&facts), &facts, name, list.slug(TaxonomyKind::States)),
            _ => facts.meant(kind, &pages.term_names(&facts), name),
        });
        if let Some([one]) = meant.as_deref() {
            list.slugs[kind.index()] = Some(one.slug.as_str().into());
        }
    }
    let Some(place) = query.place.clone() else { return };
    let count = |term: &&Term| facts.dataset.count(TaxonomyKind::Cities, &term.slug);
    let found = meant(&pages.term_names(&facts), &facts, &place, None).into_iter().max_by_key(count);
    let point = found.and_then(|term| {
        let positions = facts.dataset.membership(TaxonomyKind::Cities, &term.slug)?.positions()?;
        let positions: Vec<u32> = positions.iter().collect();
        query.place = Some(pages.name_of_city(&facts, term).into());
        pages.places.middle(facts.dataset, &positions)
    });
    query.settle(point);
}

/// So many words has a state at most.
const MOST_OF_A_STATE: usize = 3;

/// What people write before a city, and behind it and its state.
const BEGINNINGS: [&str; 3] = ["near ", "in ", "around "];
const ENDINGS: [&str; 7] = ["usa", "us", "u.s.", "u.s.a.", "united states", "city", "area"];

/// The digits of a postal code.
const POSTAL_CODE: usize = 5;

/// So many of these are taken off, one after the other.
const MOST_ENDINGS: usize = 3;

/// The cities that someone may mean: by name, by slug, by name and state; of one state if that is chosen.
pub(super) fn meant<'a>(names: &TermNames, facts: &PageFacts<'a>, text: &str, state: Option<&str>) -> Vec<&'a Term> {
    let is_separator = |letter: char| letter == ',' || letter.is_whitespace();
    let mut lower = text.trim_matches(is_separator).to_lowercase();
    if let Some(rest) = BEGINNINGS.iter().find_map(|beginning| lower.strip_prefix(beginning)) {
        lower = rest.to_owned();
    }
    for _ in 0..MOST_ENDINGS {
        let found = named_so(names, facts, &lower, state);
        if !found.is_empty() {
            return found;
        }
        let postal = lower.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let postal = Some(postal).filter(|rest| lower.len() - rest.len() == POSTAL_CODE);
        let rest = ENDINGS.iter().find_map(|ending| lower.strip_suffix(ending)).or(postal);
        let rest = rest.filter(|rest| rest.ends_with(is_separator)).map(|rest| rest.trim_end_matches(is_separator));
        let Some(rest) = rest.filter(|rest| !rest.is_empty()) else { return found };
        lower = rest.to_owned();
    }
    named_so(names, facts, &lower, state)
}

fn named_so<'a>(names: &TermNames, facts: &PageFacts<'a>, text: &str, state: Option<&str>) -> Vec<&'a Term> {
    let kind = TaxonomyKind::Cities;
    if let Some(slug) = names.by_plain.get(&written_out(text)) {
        return facts.dataset.terms(kind).iter().filter(|term| *term.slug == **slug).take(1).collect();
    }
    let (name, after) = text.rsplit_once(',').map_or((text, None), |(name, state)| (name, Some(state)));
    let states = TaxonomyKind::States;
    let named = after.and_then(|state| facts.meant(states, names, state.trim()).into_iter().next());
    if after.is_some() && named.is_none() {
        // A city of another country, perhaps.
        return Vec::new();
    }
    // What stands before the city is an address.
    let name = name.rsplit_once(',').map_or(name, |(_, city)| city);
    let mut found = facts.named(kind, names, name);
    if found.is_empty() && after.is_none() {
        // "Waco TX" is written as often as "Waco, TX".
        let splits: Vec<usize> = name.rmatch_indices(' ').map(|(at, _)| at).take(MOST_OF_A_STATE).collect();
        let split = splits.into_iter().rev().map(|at| (name[..at].trim(), name[at..].trim()));
        let mut split = split.filter(|(name, _)| !name.is_empty());
        if let Some((name, state)) = split.find(|(_, state)| !facts.meant(states, names, state).is_empty()) {
            return named_so(names, facts, &format!("{name},{state}"), None);
        }
    }
    if found.is_empty() {
        found = facts.meant(kind, names, name);
    }
    if let Some(state) = state.or(named.map(|term| &*term.slug)) {
        let within = facts.dataset.terms_within(kind, states, state);
        let is_within = |term: &&Term| within.iter().any(|(other, _)| other.slug == term.slug);
        // Where a city is may not be known yet.
        let is_known = |term: &&Term| facts.dataset.count(kind, &term.slug).is_some();
        let is_open = !found.iter().any(&is_within);
        found.retain(|term| is_within(term) || is_open && !is_known(term));
    }
    found
}
