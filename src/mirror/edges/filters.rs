//! The question about filters that exclude each other: a city outside the state that is asked for.
//!
//! Several filters mean AND, so the answer is an empty list. Some origins let the city win instead, or refuse. Pure.
//! Callers: [`super`].

use serde_json::Value;

use crate::api::edges::lesson::is_learnable;
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Positions;

/// The longest answer that is read, in bytes.
pub(super) const MOST: u64 = 4 << 20;

/// The first or second question; `None`: the data has no city and state without a common listing.
pub(super) fn query(round: usize, dataset: &Dataset) -> Option<ListQuery> {
    let of = |kind| {
        let known = dataset.memberships(kind).filter_map(|(slug, known)| Some((slug, known.positions()?)));
        let mut known: Vec<_> = known.filter(|(_, positions)| !positions.is_empty()).collect();
        known.sort_unstable_by_key(|(slug, _)| *slug);
        known
    };
    let (states, cities) = (of(TaxonomyKind::States), of(TaxonomyKind::Cities));
    // The second question is about other terms where there are some.
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

/// Whether an answer is an empty list as ours is, or says nothing about the question.
pub(super) fn is_ours(status: u16, body: &[u8]) -> bool {
    if status != 200 {
        return !is_learnable(status);
    }
    let list = serde_json::from_slice::<Value>(body).ok().filter(|value| value.get("items").is_some());
    list.is_none_or(|list| list.get("total").and_then(Value::as_u64).is_none_or(|total| total == 0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::envelope::Envelope;
    use crate::api::hash::ContentHash;
    use crate::api::listing::{ListingId, Summary};
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
        let envelope = Envelope { fields: Vec::new(), empty_filters: "{}".into() };
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
            assert_eq!(query(round, &data).unwrap().path_and_query(), path);
            assert_eq!(data.find(&query(round, &data).unwrap()).unwrap().total, 0);
        }
        assert_eq!(query(0, &dataset(&[("Ohio", "Akron"), ("Ohio", "Dayton")])), None);
    }

    #[test]
    fn only_a_list_with_listings_and_a_refusal_are_another_answer() {
        for (status, body, ours) in [
            (200, r#"{"total":0,"items":[]}"#, true),
            (200, r#"{"total":3,"items":[{}]}"#, false),
            (200, "<html>", true),
            (404, "{}", false),
            (400, "", false),
            (301, "", true),
            (403, "", true),
            (429, "", true),
            (500, "", true),
        ] {
            assert_eq!(is_ours(status, body.as_bytes()), ours, "{status} {body}");
        }
    }
}
