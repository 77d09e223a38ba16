//! Which readings of an odd query explain the list that an origin answered.
//!
//! Pure. Callers: [`crate::mirror`].

use serde_json::{Map, Value};

use super::apply::{Applied, apply};
use crate::api::edges::lesson::{Effect, MOST_PER_PAGE};
use crate::api::edges::{How, Odd};
use crate::api::query::ListQuery;
use crate::snapshot::dataset::Dataset;

/// What a list says.
#[derive(Debug)]
struct List {
    page: Option<String>,
    per_page: Option<String>,
    total: u64,
    total_pages: Option<String>,
    filters: Option<Value>,
    ids: Vec<u64>,
}

/// The readings that explain a body; `None`: it is no list.
pub(crate) fn fits(dataset: &Dataset, rest: &ListQuery, odd: &Odd, body: &[u8]) -> Option<Vec<(Effect, bool)>> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let fields = value.as_object()?;
    fields.get("items")?;
    let Some(list) = List::read(fields) else { return Some(Vec::new()) };
    let readings = readings(odd, &list).into_iter();
    let explains = |(effect, shown): &(Effect, bool)| {
        apply(*effect, *shown, rest, odd, dataset).is_some_and(|applied| list.is_answer(&applied, dataset))
    };
    Some(readings.filter(explains).collect())
}

impl List {
    fn read(fields: &Map<String, Value>) -> Option<Self> {
        let number = |name: &str| fields.get(name).filter(|value| value.is_number()).map(ToString::to_string);
        let ids = fields.get("items")?.as_array()?.iter();
        Some(Self {
            page: number("page"),
            per_page: number("per_page"),
            total: fields.get("total")?.as_u64()?,
            total_pages: number("total_pages"),
            filters: fields.get("filters").cloned(),
            ids: ids.map(|item| item.get("id")?.as_u64()).collect::<Option<_>>()?,
        })
    }

    fn is_answer(&self, applied: &Applied, dataset: &Dataset) -> bool {
        let Ok((total, items)) = applied.find(dataset) else { return false };
        let Applied { query, shown, .. } = applied;
        let is_shown = |found: &Option<String>, shown: &Option<String>, ours: String| {
            found.as_ref().is_none_or(|found| *found == shown.clone().unwrap_or(ours))
        };
        let empty = Some(&dataset.content.envelope.empty_numbers).filter(|_| total == 0);
        let page = empty.filter(|_| query.page == 1).map_or_else(|| query.page.to_string(), |empty| empty.page.clone());
        let pages = empty.map_or_else(|| query.total_pages(total).to_string(), |empty| empty.total_pages.clone());
        let filters = match &shown.filters {
            Some(filters) => filters.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect(),
            None => query.filters().map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>(),
        };
        let same_filters = match &self.filters {
            None => true,
            Some(Value::Array(empty)) => empty.is_empty() && filters.is_empty(),
            Some(Value::Null) => filters.is_empty(),
            Some(found) => found.as_object() == Some(&filters),
        };
        total == self.total
            && self.ids.iter().copied().eq(items.iter().map(|item| item.id.0))
            && is_shown(&self.page, &shown.page, page)
            && is_shown(&self.per_page, &shown.per_page, query.per_page.to_string())
            && self.total_pages.as_ref().is_none_or(|found| *found == pages)
            && same_filters
    }
}

/// The readings to try, the simplest first.
fn readings(odd: &Odd, list: &List) -> Vec<(Effect, bool)> {
    use Effect::{AsAsked, AtMost, First, Ignored, Last, LastPage, Nothing, Number};
    let size = list.per_page.as_ref().and_then(|size| size.parse::<u16>().ok());
    let size = size.filter(|size| (1..=MOST_PER_PAGE).contains(size));
    match (odd.how, odd.parameter) {
        (How::Repeated, _) => vec![(First, false), (Last, false)],
        (How::Beyond, _) => {
            vec![(Nothing, true), (LastPage, false), (LastPage, true), (Number(1), false), (Number(1), true)]
        }
        (How::Empty, "page" | "per_page") => vec![(Ignored, false)],
        (_, "page") => {
            vec![(Number(1), false), (Number(1), true), (LastPage, false), (LastPage, true), (Nothing, true)]
        }
        (How::Over, _) => {
            let asked = odd.values.first().and_then(|value| value.parse::<u16>().ok());
            match size {
                Some(size) if asked == Some(size) => vec![(AsAsked(size), false)],
                Some(size) => vec![(AtMost(size), false)],
                None => Vec::new(),
            }
        }
        (_, "per_page") => {
            let default = u64::from(ListQuery::DEFAULT_PER_PAGE);
            let sizes = [default, 1, u64::from(ListQuery::MAX_PER_PAGE)].into_iter().chain(size.map(u64::from));
            sizes.flat_map(|size| [(Number(size), false), (Number(size), true)]).collect()
        }
        (How::Unknown | How::Future, _) => vec![(Nothing, true), (Ignored, true), (Ignored, false), (Nothing, false)],
        _ => vec![(Ignored, false), (Ignored, true), (Nothing, true), (Nothing, false)],
    }
}
