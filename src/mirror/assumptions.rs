//! What we assume of filters, asked of the origin once: several filters mean AND, `modified_since` is strict, a date
//! means 00:00 UTC, and filtered lists are in the order of the whole one.
//!
//! Two requests. Only an answer that fits the opposite exactly disproves; anything else leaves the assumption. An
//! answer that fits several opposites disproves what each of them does: with one sport alone, an origin that takes
//! filters for alternatives answers as one that ignores `modified_since`. Queries that depend on a disproved assumption
//! are forwarded from then on. Callers: [`super::task`].

use jiff::Timestamp;

use crate::api::page::Page;
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::meta::Assumption;

use super::copies::{Copies, CopyError};
use super::crawl::check_page;
use crate::upstream::client::Asker;
use crate::upstream::window::Class;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A question whose answer tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The query.
    pub query: ListQuery,
    /// The total if everything is as assumed.
    pub expected: u64,
    /// Other totals, each with what it disproves.
    pub otherwise: Vec<(u64, Vec<Assumption>)>,
}

/// The questions that a data set allows: at most two, each with answers that differ.
pub(super) fn questions(dataset: &Dataset) -> Vec<Question> {
    let both = [combined_and_strict(dataset), midnight(dataset)];
    both.into_iter()
        .flatten()
        .filter(|question| question.otherwise.iter().any(|(total, _)| *total != question.expected))
        .collect()
}

impl Question {
    /// What a total disproves, each once: what any of its simplest explanations does.
    pub(super) fn judge(&self, total: u64) -> Vec<Assumption> {
        let fits = self.otherwise.iter().filter(|(other, _)| *other == total && total != self.expected);
        let fitting: Vec<&Vec<Assumption>> = fits.map(|(_, disproved)| disproved).collect();
        let is_simplest = |all: &&&Vec<Assumption>| {
            let is_less =
                |fewer: &&Vec<Assumption>| fewer.len() < all.len() && fewer.iter().all(|one| all.contains(one));
            !fitting.iter().any(is_less)
        };
        let mut disproved = Vec::new();
        for assumption in fitting.iter().filter(is_simplest).copied().flatten() {
            if !disproved.contains(assumption) {
                disproved.push(*assumption);
            }
        }
        disproved
    }
}

/// Asks the origin; returns what it disproves.
pub(super) async fn ask(copies: &Copies, dataset: &Dataset) -> Result<Vec<Assumption>, CopyError> {
    let mut disproved = Vec::new();
    for question in questions(dataset) {
        let path = question.query.path_and_query();
        let copy = copies.look(&path, Asker::mirror(Class::Crawl), check_page).await?;
        let Ok(page) = Page::parse(&copy.body, &copies.volatile()) else { continue };
        for assumption in question.judge(page.total) {
            if disproved.contains(&assumption) {
                continue;
            }
            let (total, expected) = (page.total, question.expected);
            tracing::warn!(
                assumption = assumption.as_str(),
                path,
                total,
                expected,
                "the origin filters differently than assumed"
            );
            disproved.push(assumption);
        }
        if page.total == question.expected && !disproved.contains(&Assumption::Order) && !in_order(dataset, &page) {
            tracing::warn!(path, "the origin orders filtered lists differently than the whole list");
            disproved.push(Assumption::Order);
        }
    }
    Ok(disproved)
}

/// Whether the listings of a page stand in the order of the whole list; what is not as it is known proves nothing.
fn in_order(dataset: &Dataset, page: &Page) -> bool {
    let known = page.items.iter().filter(|item| dataset.summary(item.id).is_some_and(|own| own.hash == item.hash));
    let places = known.filter_map(|item| dataset.position(item.id));
    places.is_sorted()
}

fn since(text: String, at: i64) -> ListQuery {
    let modified_since = Some(ModifiedSince { text: text.into(), at });
    ListQuery { per_page: ListQuery::MAX_PER_PAGE, modified_since, ..ListQuery::default() }
}

/// The largest sport since the very instant of a listing in its middle, on a whole second.
fn combined_and_strict(dataset: &Dataset) -> Option<Question> {
    let known = dataset.memberships(TaxonomyKind::Sports);
    let known = known.filter_map(|(slug, known)| Some((slug, known.positions()?)));
    let (sport, members) = known.max_by_key(|(slug, positions)| (positions.len(), std::cmp::Reverse(*slug)))?;
    let mut whole: Vec<i64> =
        members.iter().filter_map(|at| dataset.modified_at(at)).filter(|at| at % SECOND == 0).collect();
    whole.sort_unstable();
    let at = *whole.get(whole.len() / 2)?;
    let mut query = since(Timestamp::from_second(at / SECOND).ok()?.to_string(), at);
    query.slugs[0] = Some(sport.into());
    let count = |passes: &dyn Fn(u32, i64) -> bool| {
        let all = (0..dataset.len() as u32).filter_map(|position| Some((position, dataset.modified_at(position)?)));
        all.filter(|(position, modified)| passes(*position, *modified)).count() as u64
    };
    let in_sport = |position| members.contains(position);
    Some(Question {
        query,
        expected: count(&|position, modified| in_sport(position) && modified > at),
        otherwise: vec![
            (count(&|position, modified| in_sport(position) && modified >= at), vec![Assumption::Strict]),
            (count(&|position, modified| in_sport(position) || modified > at), vec![Assumption::And]),
            (
                count(&|position, modified| in_sport(position) || modified >= at),
                vec![Assumption::And, Assumption::Strict],
            ),
            // `modified_since` is ignored.
            (count(&|position, _| in_sport(position)), vec![Assumption::Strict]),
        ],
    })
}

/// A day on which something was modified, well after midnight: does a date mean its beginning or its end?
fn midnight(dataset: &Dataset) -> Option<Question> {
    let mut all: Vec<i64> = dataset.modified().filter(|at| at.rem_euclid(DAY) > SECOND).collect();
    all.sort_unstable();
    let day = all.get(all.len() / 2)?.div_euclid(DAY) * DAY;
    let date = Timestamp::from_second(day / SECOND).ok()?.strftime("%Y-%m-%d").to_string();
    let count = |from: i64| dataset.modified().filter(|modified| *modified >= from).count() as u64;
    Some(Question {
        query: since(date, day),
        expected: dataset.modified().filter(|modified| *modified > day).count() as u64,
        otherwise: vec![
            (count(day + DAY), vec![Assumption::Midnight]),
            // `modified_since` is ignored.
            (dataset.len() as u64, vec![Assumption::Strict]),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_disproves_what_each_of_its_simplest_explanations_does() {
        use Assumption::{And, Strict};
        let question = |expected, otherwise| Question { query: ListQuery::default(), expected, otherwise };
        let several = question(
            5,
            vec![
                (6, vec![Strict]),
                (9, vec![And]),
                (9, vec![And, Strict]),
                (20, vec![And]),
                (20, vec![Strict]),
                (5, vec![And]),
            ],
        );
        for (total, disproved) in [(5, &[][..]), (6, &[Strict]), (9, &[And]), (20, &[And, Strict]), (7, &[]), (0, &[])]
        {
            assert_eq!(several.judge(total), disproved, "{total}");
        }
    }
}
