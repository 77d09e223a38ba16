//! The questions about filters with known terms, which the documentation leaves open: a city outside the state that is
//! asked for, and two terms with a comma between them.
//!
//! Several filters mean AND, so a city outside its state has an empty list. Some origins let the city win instead, or
//! refuse. No slug has a comma, so a value with a comma has an empty list, too. Some origins take it for an OR, or
//! refuse. Pure. Callers: [`super`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::edges::lesson::is_learnable;
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Positions;

use super::probes::two_terms;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Filter {
    /// A city outside the state beside it.
    Elsewhere,
    /// Two terms with a comma between them.
    Several,
}

impl Filter {
    /// Every question, in the order in which they are asked.
    pub(super) const ALL: [Self; 2] = [Self::Elsewhere, Self::Several];

    /// The word for logs.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Elsewhere => "city-outside-state",
            Self::Several => "comma-list",
        }
    }

    /// The query of the first or second question; `None`: the data does not allow it.
    pub(super) fn query(self, round: usize, dataset: &Dataset) -> Option<ListQuery> {
        match self {
            Self::Elsewhere => elsewhere(round, dataset),
            Self::Several => several(round, dataset),
        }
    }
}

/// The longest answer that is read, in bytes.
pub(super) const MOST: u64 = 4 << 20;

/// The second question is about terms of another kind. If only one kind has two terms, it names them in reverse order.
/// `None`: no kind has two.
fn several(round: usize, dataset: &Dataset) -> Option<ListQuery> {
    let of_kind = |kind| Some((kind, two_terms(kind, dataset)?));
    let mut kinds: Vec<_> = TaxonomyKind::ALL.into_iter().filter_map(of_kind).collect();
    if round > 0 && kinds.len() == 1 {
        kinds[0].1.reverse();
    }
    let last = kinds.len().checked_sub(1)?;
    let (kind, [one, other]) = kinds.swap_remove(round.min(last));
    let both = format!("{one},{other}");
    if dataset.membership(kind, &both).is_some() {
        return None;
    }
    let mut query = ListQuery { per_page: ListQuery::MAX_PER_PAGE, ..ListQuery::default() };
    query.slugs[kind.index()] = Some(both.into());
    Some(query)
}

/// `None`: the data has no city and state without a common listing.
fn elsewhere(round: usize, dataset: &Dataset) -> Option<ListQuery> {
    let of = |kind| {
        let known = dataset.memberships(kind).filter_map(|(slug, known)| Some((slug, known.positions()?)));
        let mut known: Vec<_> = known.filter(|(_, positions)| !positions.is_empty()).collect();
        known.sort_unstable_by_key(|(slug, _)| *slug);
        known
    };
    let (states, cities) = (of(TaxonomyKind::States), of(TaxonomyKind::Cities));
    // The second question is about other terms, if there are any.
    let cities: Vec<_> = if round == 0 { cities } else { cities.into_iter().rev().collect() };
    let outside = |(city, within): &(&str, &Positions)| {
        let mut others = states.iter().filter(|(_, positions)| positions.is_disjoint(within));
        let state = if round == 0 { others.next() } else { others.next_back() };
        state.map(|(state, _)| ((*state).to_owned(), (*city).to_owned()))
    };
    let (state, city) = cities.iter().find_map(outside)?;
    let mut query = ListQuery { per_page: ListQuery::MAX_PER_PAGE, ..ListQuery::default() };
    query.slugs[TaxonomyKind::States.index()] = Some(state.into());
    query.slugs[TaxonomyKind::Cities.index()] = Some(city.into());
    Some(query)
}

/// Whether an answer is an empty list, as ours is; `None`: it says nothing about the question.
pub(super) fn is_ours(status: u16, body: &[u8]) -> Option<bool> {
    if status != 200 {
        return is_learnable(status).then_some(false);
    }
    let list = serde_json::from_slice::<Value>(body).ok().filter(|value| value.get("items").is_some())?;
    Some(list.get("total")?.as_u64()? == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::hash::ContentHash;
    use crate::api::listing::{ListingId, Summary};
    use crate::api::page::Envelope;
    use crate::snapshot::content::Content;
    use crate::snapshot::membership::Evidence;

    /// One listing for each pair of a state and a city.
    fn dataset(places: &[(&str, &str)]) -> Dataset {
        let summary = |(id, (state, city)): (usize, &(&str, &str))| {
            let raw = format!(r#"{{"id":{},"state":"{state}","city":"{city}","sport":"golf"}}"#, id + 1);
            Summary { id: ListingId(id as u64 + 1), hash: ContentHash::of(raw.as_bytes()), raw: raw.into() }
        };
        let taxonomy = |at: usize| -> Arc<str> {
            let name = |place: &(&str, &str)| if at == 0 { place.0.to_owned() } else { place.1.to_owned() };
            let mut names: Vec<String> = places.iter().map(name).collect();
            names.sort_unstable();
            names.dedup();
            let count = |one: &String| places.iter().filter(|place| name(place) == *one).count();
            let terms = names
                .iter()
                .map(|one| format!(r#"{{"slug":"{}","name":"{one}","count":{}}}"#, one.to_lowercase(), count(one)));
            format!("[{}]", terms.collect::<Vec<_>>().join(",")).into()
        };
        let sports = format!(r#"[{{"slug":"golf","name":"golf","count":{}}}]"#, places.len());
        let envelope = Envelope::default();
        let summaries = places.iter().enumerate().map(summary).collect();
        let taxonomies = [sports.into(), taxonomy(0), taxonomy(1)];
        Dataset::build(Content { envelope, taxonomies, summaries }, &Evidence::new()).unwrap()
    }

    #[test]
    fn the_questions_name_a_city_and_a_state_without_a_common_listing() {
        let data = dataset(&[("Ohio", "Akron"), ("Ohio", "Dayton"), ("Texas", "Austin"), ("Utah", "Provo")]);
        for (round, path) in [
            (0, "/api/listings.json?state=texas&city=akron&per_page=100"),
            (1, "/api/listings.json?state=texas&city=provo&per_page=100"),
        ] {
            let query = Filter::Elsewhere.query(round, &data).unwrap();
            assert_eq!((query.path_and_query().as_str(), data.find(&query).unwrap().total), (path, 0));
        }
        let one_state = dataset(&[("Ohio", "Akron"), ("Ohio", "Dayton")]);
        assert_eq!(Filter::Elsewhere.query(0, &one_state), None);
    }

    #[test]
    fn the_questions_about_commas_name_two_terms_of_one_kind_and_the_second_one_other_terms() {
        let places = [("Ohio", "Akron"), ("Ohio", "Dayton"), ("Texas", "Austin")];
        // There is one sport, and the first two places are in one state.
        for (many, round, path) in [
            (3, 0, "/api/listings.json?state=texas%2Cohio&per_page=100"),
            (3, 1, "/api/listings.json?city=akron%2Cdayton&per_page=100"),
            (2, 0, "/api/listings.json?city=akron%2Cdayton&per_page=100"),
            (2, 1, "/api/listings.json?city=dayton%2Cakron&per_page=100"),
        ] {
            let data = dataset(&places[..many]);
            let query = Filter::Several.query(round, &data).unwrap();
            let asked = query.path_and_query().replace(',', "%2C");
            assert_eq!((asked.as_str(), data.find(&query).unwrap().total), (path, 0));
        }
        for round in 0..2 {
            assert_eq!(Filter::Several.query(round, &dataset(&[("Ohio", "Akron")])), None);
        }
    }

    #[test]
    fn only_a_list_with_listings_and_a_refusal_are_another_answer() {
        for (status, body, ours) in [
            (200, r#"{"total":0,"items":[]}"#, Some(true)),
            (200, r#"{"total":3,"items":[{}]}"#, Some(false)),
            (200, r#"{"items":[]}"#, None),
            (200, "<html>", None),
            (404, "{}", Some(false)),
            (400, "", Some(false)),
            (301, "", None),
            (403, "", None),
            (429, "", None),
            (500, "", None),
        ] {
            assert_eq!(is_ours(status, body.as_bytes()), ours, "{status} {body}");
        }
    }
}
