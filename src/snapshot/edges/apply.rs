//! Which listings an odd query selects, and what its answer shows.
//!
//! Pure. Callers: [`super`], [`super::fits`], and those who render.

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
    ///
    /// # Errors
    /// When the meaning of a filter is in doubt.
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
