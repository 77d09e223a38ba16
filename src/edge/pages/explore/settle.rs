//! Resolution of names: slugs and points in the place of the names that people write.
//!
//! Callers: [`super`].

use crate::api::query::finder::FinderQuery;
use crate::api::taxonomy::{TaxonomyKind, Term};
use crate::data::snapshot::pointer::Snapshot;
use crate::edge::pages::Pages;
use crate::edge::pages::detail::plain;
use crate::edge::pages::facts::{CityNames, PageFacts};

/// Whether a query has a name that a snapshot may know.
pub(in crate::edge::pages) fn is_open(published: &Snapshot, query: &FinderQuery) -> bool {
    let kind = TaxonomyKind::Cities;
    let is_unknown = |slug| published.dataset.membership(kind, slug).is_none();
    query.place.is_some() || query.search.list.slug(kind).is_some_and(is_unknown)
}

/// Takes the city that a name means for the filter, and the middle of its venues for a place.
pub(in crate::edge::pages) fn settle(pages: &Pages, published: &Snapshot, query: &mut FinderQuery) {
    let facts = PageFacts::of(published);
    let list = &mut query.search.list;
    let state = list.slug(TaxonomyKind::States).map(str::to_owned);
    let city = &mut list.slugs[TaxonomyKind::Cities.index()];
    if let Some(name) = city.as_deref().filter(|slug| facts.dataset.membership(TaxonomyKind::Cities, slug).is_none())
        && let [one] = meant(&pages.city_names(&facts), &facts, name, state.as_deref())[..]
    {
        *city = Some(one.slug.as_str().into());
    }
    let Some(place) = query.place.clone() else { return };
    let count = |term: &&Term| facts.dataset.count(TaxonomyKind::Cities, &term.slug);
    let found = meant(&pages.city_names(&facts), &facts, &place, None).into_iter().max_by_key(count);
    let point = found.and_then(|term| {
        let positions = facts.dataset.membership(TaxonomyKind::Cities, &term.slug)?.positions()?;
        let positions: Vec<u32> = positions.iter().collect();
        query.place = Some(pages.name_of_city(&facts, term).into());
        pages.places.middle(facts.dataset, &positions)
    });
    query.settle(point);
}

/// The cities that someone may mean: by name, by slug, by name and state; of one state if that is chosen.
pub(super) fn meant<'a>(names: &CityNames, facts: &PageFacts<'a>, text: &str, state: Option<&str>) -> Vec<&'a Term> {
    let kind = TaxonomyKind::Cities;
    if let Some(slug) = names.by_plain.get(&plain(text)) {
        return facts.dataset.terms(kind).iter().filter(|term| *term.slug == **slug).take(1).collect();
    }
    let (name, after) = text.rsplit_once(',').map_or((text, None), |(name, state)| (name, Some(state)));
    let states = TaxonomyKind::States;
    let named =
        after.and_then(|state| facts.meant(states, &facts.plain_names(states), state.trim()).into_iter().next());
    let mut found = facts.named(kind, &names.plain, name);
    if found.is_empty() && after.is_none() {
        // "Waco TX" is written as often as "Waco, TX".
        let is_state = |state: &str| !facts.named(states, &facts.plain_names(states), state).is_empty();
        let mut split = name.match_indices(' ').map(|(at, _)| (name[..at].trim(), name[at..].trim()));
        if let Some((name, state)) = split.find(|(name, state)| !name.is_empty() && is_state(state)) {
            return meant(names, facts, &format!("{name},{state}"), None);
        }
    }
    if found.is_empty() {
        found = facts.meant(kind, &names.plain, name);
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
