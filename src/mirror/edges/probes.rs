//! What is sent to the origin: two requests for each case, with other values, and the questions about filters with known
//! terms.
//!
//! Pure. The second request of a case has an ordinary parameter beside the odd one, so that a body that repeats the whole
//! address is not taken for one that repeats the value. The documentation leaves open, too, what a city outside the state
//! that is asked for means, and two terms with a comma between them. Several filters mean AND, so a city outside its
//! state has an empty list. Some origins let the city win instead, or refuse. No slug has a comma, so a value with a comma
//! has an empty list, too. Some origins take it for an OR, or refuse. Callers: [`super`].

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::edges::lesson::{Said, is_learnable};
use crate::api::edges::{Case, How, Odd, put};
use crate::api::listing::ListingId;
use crate::api::query::{self, ListQuery};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Positions;

use super::plan::Question;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// A list: the query beside the odd parameter, the odd parameter, and the path with both.
    List { rest: ListQuery, odd: Odd, path: String },
    /// The id of no listing.
    Id { id: String, path: String },
    /// A list with known terms.
    Known { path: String },
}

/// The page size that the second probes ask for.
const BESIDE: u16 = 7;
/// Words that no slug, page or time has.
const WORDS: [&str; 2] = ["qzvxk", "wjqpfh"];

impl Probe {
    /// The first or second request of a question; `None`: the data does not allow it.
    pub(super) fn of(question: Question, round: usize, dataset: &Dataset) -> Option<Self> {
        match question {
            Question::Odd(case) => Self::odd(case, round, dataset),
            Question::Known(filter) => {
                filter.query(round, dataset).map(|query| Self::Known { path: query.path_and_query() })
            }
        }
    }

    fn odd(case: Case, round: usize, dataset: &Dataset) -> Option<Self> {
        let pick = |values: [&'static str; 2]| values[round];
        let one = |parameter, how, value: &str| Some(Odd::of(parameter, how, value));
        let mut rest = ListQuery::default();
        if round == 1 {
            rest.per_page = BESIDE;
        }
        let odd = match case {
            Case::PageBeyond => {
                let last = rest.total_pages(dataset.len() as u64);
                one("page", How::Beyond, &(last + [1_003, 70_417][round]).to_string())
            }
            Case::PageZero => one("page", How::Zero, "0"),
            Case::PageNegative => one("page", How::Negative, pick(["-70417", "-80923"])),
            Case::PageWord => one("page", How::Word, pick(WORDS)),
            Case::PerPageZero | Case::PerPageNegative | Case::PerPageWord | Case::PerPageOver => {
                rest = of_few(round, dataset)?;
                match case {
                    Case::PerPageZero => one("per_page", How::Zero, "0"),
                    Case::PerPageNegative => one("per_page", How::Negative, pick(["-60413", "-90821"])),
                    Case::PerPageWord => one("per_page", How::Word, pick(WORDS)),
                    _ => one("per_page", How::Over, pick(["1000", "101"])),
                }
            }
            Case::UnknownSport | Case::UnknownState | Case::UnknownCity => {
                let kind = match case {
                    Case::UnknownSport => TaxonomyKind::Sports,
                    Case::UnknownState => TaxonomyKind::States,
                    _ => TaxonomyKind::Cities,
                };
                one(kind.parameter(), How::Unknown, &no_slug(kind, round, dataset))
            }
            Case::SinceMalformed => one("modified_since", How::Malformed, pick(WORDS)),
            Case::SinceFuture => one("modified_since", How::Future, pick(["2999-01-01", "2987-06-05"])),
            Case::RepeatedNumber => {
                let (parameter, values) = [("page", ["2", "3"]), ("per_page", ["11", "13"])][round];
                rest.per_page = if round == 0 { BESIDE } else { ListQuery::DEFAULT_PER_PAGE };
                Some(Odd { parameter, how: How::Repeated, values: values.map(Into::into).into() })
            }
            Case::RepeatedFilter => {
                let kind = [TaxonomyKind::Sports, TaxonomyKind::States][round];
                let values: Vec<Box<str>> = two_terms(kind, dataset)?.map(Into::into).into();
                Some(Odd { parameter: kind.parameter(), how: How::Repeated, values })
            }
            Case::EmptyNumber | Case::EmptyFilter | Case::EmptySince => {
                let parameter = match case {
                    Case::EmptyNumber => pick(["page", "per_page"]),
                    Case::EmptySince => "modified_since",
                    _ => pick(["sport", "city"]),
                };
                if parameter == "per_page" {
                    rest = ListQuery { page: 2, ..ListQuery::default() };
                }
                Some(Odd { parameter, how: How::Empty, values: Vec::new() })
            }
            Case::UnknownId => {
                let highest = dataset.content.summaries.iter().map(|summary| summary.id.0).max().unwrap_or(0);
                return Some(Self::id(ListingId(highest.checked_add([70_417, 190_823][round])?).to_string()));
            }
            Case::IdWord => return Some(Self::id(pick(WORDS).to_owned())),
        }?;
        Some(Self::list(rest, odd))
    }

    fn id(id: String) -> Self {
        let path = format!("/api/listings/{id}.json");
        Self::Id { id, path }
    }

    fn list(rest: ListQuery, odd: Odd) -> Self {
        let mut path = rest.path_and_query();
        let mut put = |value: &str| {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(odd.parameter);
            path.push('=');
            query::encode(value, &mut path);
        };
        if odd.values.is_empty() {
            put("");
        }
        odd.values.iter().for_each(|value| put(value));
        Self::List { rest, odd, path }
    }

    /// Path and query.
    pub(super) fn path(&self) -> &str {
        match self {
            Self::List { path, .. } | Self::Id { path, .. } | Self::Known { path } => path,
        }
    }

    /// What a body may repeat.
    pub(super) fn told(&self) -> Vec<String> {
        match self {
            Self::List { odd, .. } => odd.told().into_iter().map(str::to_owned).collect(),
            Self::Id { id, .. } => vec![id.clone()],
            Self::Known { .. } => Vec::new(),
        }
    }
}

/// A query that few listings match, so that no page of it is large: a small term. The second one asks for a page, too.
fn of_few(round: usize, dataset: &Dataset) -> Option<ListQuery> {
    let kind = [TaxonomyKind::Cities, TaxonomyKind::States][round];
    let (slug, _) = dataset.known_terms(kind).min_by_key(|(slug, positions)| (positions.len(), *slug))?;
    let mut query = ListQuery::default();
    put(&mut query, kind.parameter(), slug).ok()?;
    Some(query)
}

/// Two terms with different numbers of listings, or at least two terms.
fn two_terms(kind: TaxonomyKind, dataset: &Dataset) -> Option<[String; 2]> {
    let by_size = |(slug, positions): &(&str, &Positions)| (positions.len(), (*slug).to_owned());
    let (first, last) =
        (dataset.known_terms(kind).min_by_key(by_size)?, dataset.known_terms(kind).max_by_key(by_size)?);
    (first.0 != last.0).then(|| [first.0.to_owned(), last.0.to_owned()])
}

/// A slug that no term has.
fn no_slug(kind: TaxonomyKind, round: usize, dataset: &Dataset) -> String {
    let mut slug = WORDS[round].to_owned();
    while dataset.membership(kind, &slug).is_some() {
        slug.push('x');
    }
    slug
}

/// A question about filters with known terms.
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

    /// The query of the first or second question; `None`: the data does not allow it.
    fn query(self, round: usize, dataset: &Dataset) -> Option<ListQuery> {
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
    Some(ListQuery::largest_pages().with_term(kind, &both))
}

/// `None`: the data has no city and state without a common listing.
fn elsewhere(round: usize, dataset: &Dataset) -> Option<ListQuery> {
    let of = |kind| {
        let mut known: Vec<_> = dataset.known_terms(kind).collect();
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
    let query = ListQuery::largest_pages().with_term(TaxonomyKind::States, &state);
    Some(query.with_term(TaxonomyKind::Cities, &city))
}

/// What an answer says about the meaning of a filter: an empty list, as ours is, another answer, or nothing.
pub(super) fn said_of_filter(status: u16, body: &[u8]) -> Said {
    let nothing = || Said::Never("the answer says nothing about the filter".to_owned());
    if status != 200 {
        return if is_learnable(status) { another_answer(status) } else { nothing() };
    }
    let list = serde_json::from_slice::<Value>(body).ok().filter(|value| value.get("items").is_some());
    match list.and_then(|list| list.get("total")?.as_u64()) {
        Some(0) => Said::List(Vec::new()),
        Some(_) => another_answer(status),
        None => nothing(),
    }
}

/// An answer that is not as ours.
pub(super) const fn another_answer(status: u16) -> Said {
    Said::Answer { status, media_type: None, body: String::new() }
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
            let is_ours = match said_of_filter(status, body.as_bytes()) {
                Said::List(_) => Some(true),
                Said::Answer { .. } => Some(false),
                Said::Never(_) => None,
            };
            assert_eq!(is_ours, ours, "{status} {body}");
        }
    }
}
