//! The probes: two requests for each case, with other values.
//!
//! Pure. The second one has an ordinary parameter beside the odd one, so that a body that repeats the whole address is
//! not taken for one that repeats the value. Callers: [`super`].

use crate::api::edges::{Case, How, Odd, put};
use crate::api::listing::ListingId;
use crate::api::query::{self, ListQuery};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// A list: the query beside the odd parameter, the odd parameter, and the path with both.
    List { rest: ListQuery, odd: Odd, path: String },
    /// The id of no listing.
    Id { id: String, path: String },
}

/// The page size that the second probes ask for.
const BESIDE: u16 = 7;
/// Words that no slug, page or time has.
const WORDS: [&str; 2] = ["qzvxk", "wjqpfh"];

impl Probe {
    /// The first or second probe of a case; `None`: the data does not allow it.
    pub(super) fn of(case: Case, round: usize, dataset: &Dataset) -> Option<Self> {
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
            Self::List { path, .. } | Self::Id { path, .. } => path,
        }
    }

    /// What a body may repeat.
    pub(super) fn told(&self) -> Vec<String> {
        match self {
            Self::List { odd, .. } => odd.told().into_iter().map(str::to_owned).collect(),
            Self::Id { id, .. } => vec![id.clone()],
        }
    }
}

/// A query that few listings match, so that no page of it is large: a small term. The second one asks for a page, too.
fn of_few(round: usize, dataset: &Dataset) -> Option<ListQuery> {
    let kind = [TaxonomyKind::Cities, TaxonomyKind::States][round];
    let known = dataset.memberships(kind).filter_map(|(slug, known)| Some((slug, known.positions()?.len())));
    let (slug, _) = known.filter(|(_, count)| *count > 0).min_by_key(|(slug, count)| (*count, *slug))?;
    let mut query = ListQuery::default();
    put(&mut query, kind.parameter(), slug).ok()?;
    Some(query)
}

/// Two terms with different numbers of listings, or at least two terms.
pub(super) fn two_terms(kind: TaxonomyKind, dataset: &Dataset) -> Option<[String; 2]> {
    let known = dataset.memberships(kind).filter_map(|(slug, known)| Some((known.positions()?.len(), slug)));
    let mut known: Vec<_> = known.filter(|(count, _)| *count > 0).collect();
    known.sort_unstable();
    let (first, last) = (known.first()?, known.last()?);
    (first.1 != last.1).then(|| [first.1.to_owned(), last.1.to_owned()])
}

/// A slug that no term has.
fn no_slug(kind: TaxonomyKind, round: usize, dataset: &Dataset) -> String {
    let mut slug = WORDS[round].to_owned();
    while dataset.membership(kind, &slug).is_some() {
        slug.push('x');
    }
    slug
}
