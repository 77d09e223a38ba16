//! Examples of open cases, and which meanings an answer to one allows.
//!
//! Pure. Callers: [`super`].

use jiff::Timestamp;

use crate::api::form::ListForm;
use crate::api::listing::Summary;
use crate::api::odd::{How, Meaning, Odd, Row, folded};
use crate::api::query::{self, ListQuery};
use crate::api::shape::Shape;
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::{Dataset, Found};
use crate::data::snapshot::membership::Positions;
use crate::data::snapshot::odd::apply;
use crate::data::snapshot::verdicts::table::DAY_MS;

use super::compare::are_ours;

/// Words that no slug, page, time or id has.
const WORDS: [&str; 2] = ["qzvxk", "wjqpfh"];

/// How many examples of a row are asked at first.
pub(super) const TURNS: u16 = 2;

/// The filter beside which the example of this turn is asked; `None`: of the unfiltered list. Where a filter selects, the
/// origin may mean something else.
pub(super) fn beside(row: Row, turn: u16) -> Option<Shape> {
    let some = ["sport=a", "modified_since=2000-01-01", "city=a"];
    let raw = some[usize::from(turn / 2 + row as u16) % some.len()];
    let shape = Shape::of(&query::Parameters::parse(raw).ok()?.list);
    (turn % 2 == 1).then_some(shape)
}

/// An odd request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenCase {
    /// Path and query.
    pub(super) path: String,
    row: Row,
    /// The query beside the odd parameter, and that parameter; `None`: it is about a listing.
    list: Option<(ListQuery, Odd)>,
}

impl OpenCase {
    pub(super) const fn shape(&self) -> Shape {
        Shape::of_row(self.row)
    }

    /// The example of this turn; `None`: the data has none. `filtered`: a query with the filter of [`beside`];
    /// `now_ms`: milliseconds since 1970.
    pub(super) fn of(
        dataset: &Dataset,
        (row, turn): (Row, u16),
        form: &ListForm,
        filtered: Option<ListQuery>,
        now_ms: i64,
    ) -> Option<Self> {
        let second = turn % 2 == 1;
        let pick = |values: [&'static str; 2]| values[usize::from(second)];
        let empty_filter = [TaxonomyKind::Sports, TaxonomyKind::Cities, TaxonomyKind::States][usize::from(turn % 3)];
        let mut bare = ListQuery { per_page: form.page_size, ..filtered.unwrap_or_default().with_page(1) };
        match row {
            Row::SinceMalformed | Row::SinceFuture | Row::EmptySince => bare.modified_since = None,
            Row::UnknownSport => bare.slugs[TaxonomyKind::Sports.index()] = None,
            Row::UnknownCity => bare.slugs[TaxonomyKind::Cities.index()] = None,
            Row::EmptyFilter => bare.slugs[empty_filter.index()] = None,
            _ => {}
        }
        let total = dataset.find(&bare).ok()?.total;
        let sized = ListQuery { per_page: if second { 7 } else { bare.per_page }, ..bare.clone() };
        // A second page is another one with each size.
        let paged = bare.with_page(if second && total > 2 * u64::from(ListQuery::MAX_PER_PAGE) { 2 } else { 1 });
        let one = |rest: &ListQuery, parameter, how, value: &str| Some((rest.clone(), Odd::of(parameter, how, value)));
        let many = |rest: &ListQuery, parameter, how, values: &[&str]| {
            Some((rest.clone(), Odd { parameter, how, values: values.iter().map(|value| (*value).into()).collect() }))
        };
        let (rest, odd) = match row {
            Row::PageNext => one(&sized, "page", How::Next, &(sized.total_pages(total).max(1) + 1).to_string()),
            Row::PageBeyond => {
                // An origin may show a window of its results alone.
                let beyond = sized.total_pages(total) + if second { 70_417 } else { 2 };
                one(&sized, "page", How::Beyond, &beyond.to_string())
            }
            Row::PageZero => one(&sized, "page", How::Zero, "0"),
            Row::PageNegative => one(&sized, "page", How::Negative, pick(["-1", "-80923"])),
            Row::PageWord => one(&sized, "page", How::Word, pick(WORDS)),
            Row::PerPageOver => one(&paged, "per_page", How::Over, pick(["101", "1000000"])),
            Row::PerPageZero => one(&paged, "per_page", How::Zero, "0"),
            Row::PerPageNegative => one(&paged, "per_page", How::Negative, pick(["-1", "-90821"])),
            Row::PerPageWord => one(&paged, "per_page", How::Word, pick(WORDS)),
            Row::RepeatedNumber if second => many(&bare, "per_page", How::Repeated, &["11", "13"]),
            Row::RepeatedNumber => many(&bare, "page", How::Repeated, &["2", "3"]),
            Row::RepeatedFilter => {
                let kind = if second { TaxonomyKind::States } else { TaxonomyKind::Sports };
                many(&sized, kind.parameter(), How::Repeated, &two_terms(kind, dataset)?)
            }
            Row::SinceMalformed => one(&sized, "modified_since", How::Malformed, pick(WORDS)),
            // Once within two days, as a clock may be wrong, once too late for some clocks.
            Row::SinceFuture if second => {
                let day = Timestamp::from_millisecond(now_ms.checked_add(2 * DAY_MS)?).ok()?;
                one(&sized, "modified_since", How::Future, &day.strftime("%F").to_string())
            }
            Row::SinceFuture => one(&sized, "modified_since", How::Future, "2999-01-01"),
            Row::UnknownSport => no_term(&sized, TaxonomyKind::Sports, second, dataset),
            Row::UnknownState => no_term(&sized, TaxonomyKind::States, second, dataset),
            Row::UnknownCity => no_term(&sized, TaxonomyKind::Cities, second, dataset),
            Row::EmptyNumber => many(&paged, pick(["page", "per_page"]), How::Empty, &[]),
            Row::EmptyFilter => many(&sized, empty_filter.parameter(), How::Empty, &[]),
            Row::EmptySince => many(&sized, "modified_since", How::Empty, &[]),
            Row::IdWord => {
                return Some(Self { path: format!("/api/listings/{}.json", pick(WORDS)), row, list: None });
            }
        }?;
        let mut path = match odd.parameter {
            "per_page" => ListQuery { per_page: ListQuery::DEFAULT_PER_PAGE, ..rest.clone() }.path_and_query(),
            _ => form.path_of(&rest),
        };
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
        // There is one zero only, and an old copy of its answer is no second one.
        if row == Row::PerPageZero && second && rest.page == 1 {
            path.push_str("&page=1");
        }
        Some(Self { path, row, list: Some((rest, odd)) })
    }

    /// The meanings that a list allows, the table's first. `per_page`: what it says of its page size. `None`: a row is not
    /// as ours.
    pub(super) fn allowed(
        &self,
        dataset: &Dataset,
        page_size: u16,
        (total, items, per_page): (u64, &[Summary], Option<u64>),
    ) -> Option<Vec<Meaning>> {
        if !are_ours(dataset, items) {
            return None;
        }
        let Some((rest, odd)) = &self.list else { return Some(Vec::new()) };
        let explains = |meaning: &Meaning| {
            let Some(applied) = apply(*meaning, rest, odd, dataset, page_size) else { return false };
            let Ok(Found { total: of, items: ours }) = applied.find(dataset) else { return false };
            // A page that is not full does not show its size.
            let size = u64::from(applied.query.per_page);
            let is_size =
                odd.parameter != "per_page" || items.len() as u64 >= size || per_page.is_none_or(|of| of == size);
            of == total && is_size && ours.iter().map(|item| item.id).eq(items.iter().map(|item| item.id))
        };
        let mut allowed: Vec<Meaning> = Vec::new();
        for meaning in [self.row.table(), Meaning::Empty, Meaning::Nothing, Meaning::Clamped, Meaning::Absent] {
            if !allowed.contains(&meaning) && explains(&meaning) {
                allowed.push(meaning);
            }
        }
        Some(allowed)
    }
}

/// A slug that no term has, unless an index lacks terms. `second`: the beginning of one, which some origins take for it.
fn no_term(rest: &ListQuery, kind: TaxonomyKind, second: bool, dataset: &Dataset) -> Option<(ListQuery, Odd)> {
    let largest = dataset.known_terms(kind).max_by_key(|(_, positions)| positions.len()).filter(|_| second);
    let begun = largest.and_then(|(slug, _)| slug.char_indices().next_back().map(|(end, _)| slug[..end].to_owned()));
    let mut slug = begun.filter(|begun| !begun.is_empty()).unwrap_or_else(|| WORDS[usize::from(second)].to_owned());
    let is_known = |slug: &str| dataset.memberships(kind).any(|(known, _)| folded(known) == folded(slug));
    while is_known(&slug) {
        slug.push('x');
    }
    let mut slugs = [const { None }; 3];
    slugs[kind.index()] = Some(slug.clone().into());
    let odd = Odd::of(kind.parameter(), How::Unknown, &slug);
    (!dataset.may_lack_a_term(&slugs)).then(|| (rest.clone(), odd))
}

/// Two terms with different listings.
fn two_terms(kind: TaxonomyKind, dataset: &Dataset) -> Option<[&str; 2]> {
    let by_size = |(slug, positions): &(&str, &Positions)| (positions.len(), (*slug).to_owned());
    let (least, most) =
        (dataset.known_terms(kind).min_by_key(by_size)?, dataset.known_terms(kind).max_by_key(by_size)?);
    (least.0 != most.0).then_some([least.0, most.0])
}
