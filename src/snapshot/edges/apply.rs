//! Which listings an odd query selects, what its answer shows, and which readings of it explain an origin's list.
//!
//! Pure. Callers: [`super`], [`crate::mirror`], and those who render.

use serde_json::{Map, Value};

use crate::api::edges::lesson::{Effect, MOST_PER_PAGE};
use crate::api::edges::{How, Odd, put};
use crate::api::listing::Summary;
use crate::api::query::ListQuery;
use crate::api::render::Shown;
use crate::snapshot::dataset::{Dataset, Doubt};

/// What an odd query comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The query that is evaluated.
    pub query: ListQuery,
    /// Whether it finds nothing, or nothing is on the page.
    pub empty: Empty,
    /// What the answer shows instead of the query.
    pub shown: Shown,
}

/// What is left out of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Empty {
    /// Nothing.
    No,
    /// The listings of the page; the total stays.
    Page,
    /// Everything: the total is 0.
    List,
}

impl Applied {
    /// A query as it is.
    pub(crate) fn plain(query: ListQuery) -> Self {
        Self { query, empty: Empty::No, shown: Shown::default() }
    }

    /// Whether an ordinary query has the same answer.
    pub(crate) fn is_ordinary(&self) -> bool {
        self.empty == Empty::No && self.shown.is_query() && self.query.per_page <= ListQuery::MAX_PER_PAGE
    }

    /// What the answer shows instead of the query; `None`: the query.
    pub(crate) fn shown(&self) -> Option<&Shown> {
        Some(&self.shown).filter(|shown| !shown.is_query())
    }

    /// The total, and the listings of the page.
    pub(crate) fn find<'a>(&self, dataset: &'a Dataset) -> Result<(u64, Vec<&'a Summary>), Doubt> {
        if self.empty == Empty::List {
            return Ok((0, Vec::new()));
        }
        let found = dataset.find(&self.query)?;
        Ok((found.total, if self.empty == Empty::Page { Vec::new() } else { found.items }))
    }
}

/// Applies a learned effect to the rest of the query. `None`: it does not cover this value.
pub(crate) fn apply(effect: Effect, shown: bool, rest: &ListQuery, odd: &Odd, dataset: &Dataset) -> Option<Applied> {
    let plain = Applied::plain;
    let value = || odd.values.first().map(|value| &**value);
    if odd.how == How::Repeated {
        let counts = if effect == Effect::First { odd.values.first() } else { odd.values.last() };
        let mut query = rest.clone();
        let known = matches!(effect, Effect::First | Effect::Last) && put(&mut query, odd.parameter, counts?).is_ok();
        return known.then(|| plain(query));
    }
    match odd.parameter {
        "page" => {
            let mut applied = plain(rest.with_page(1));
            match effect {
                Effect::Ignored => {}
                Effect::Number(page) => applied.query.page = page,
                Effect::LastPage => {
                    let total = dataset.find(&applied.query).ok()?.total;
                    applied.query.page = applied.query.total_pages(total).max(1);
                }
                Effect::Nothing => applied.empty = Empty::Page,
                _ => return None,
            }
            if shown {
                applied.shown.page = Some(json_number(value()?)?);
            }
            Some(applied)
        }
        "per_page" => {
            let asked = || value()?.parse::<u16>().ok();
            let size = match effect {
                Effect::Ignored => ListQuery::DEFAULT_PER_PAGE,
                Effect::Number(size) => u16::try_from(size).ok().filter(|size| *size <= MOST_PER_PAGE)?,
                // What does not parse counts as too much.
                Effect::AtMost(most) => asked().map_or(most, |asked| asked.min(most)),
                Effect::AsAsked(most) => asked().filter(|asked| *asked <= most)?,
                _ => return None,
            };
            let mut applied = plain(ListQuery { per_page: size, ..rest.clone() });
            if shown {
                applied.shown.per_page = Some(json_number(value()?)?);
            }
            Some(applied)
        }
        parameter => {
            let mut applied = plain(rest.clone());
            match effect {
                Effect::Ignored => {}
                Effect::Nothing => applied.empty = Empty::List,
                _ => return None,
            }
            if shown {
                let value = value().unwrap_or_default().to_owned();
                let others = rest.filters().map(|(name, value)| (name, value.to_owned()));
                let mut filters: Vec<_> = others.chain([(parameter, value)]).collect();
                filters.sort_by_key(|(name, _)| ORDER.iter().position(|known| known == name));
                applied.shown.filters = Some(filters);
            }
            Some(applied)
        }
    }
}

/// The order in which filters are shown.
const ORDER: [&str; 4] = ["sport", "state", "city", "modified_since"];

/// The number as requested; `None`: not valid in JSON.
fn json_number(value: &str) -> Option<String> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && (digits.len() == 1 || !digits.starts_with('0'))).then(|| value.to_owned())
}

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
