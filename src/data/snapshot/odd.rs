//! Open cases on a data set: which row a request belongs to, and what it selects by the meaning of the row.
//!
//! Pure. Ordinary requests that find something do not use it. Callers: [`crate::edge::answer`] answers, `mirror::examiner`
//! compares.

use crate::api::odd::{How, Meaning, Odd, OddQuery, Row, put};
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::taxonomy::TaxonomyKind;

use super::dataset::{Dataset, Doubt, Found};

/// The result of an odd query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub query: ListQuery,
    /// What is left out of its answer.
    pub empty: Empty,
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

/// How an odd request is answered.
#[derive(Debug, PartialEq)]
pub(crate) enum Decision {
    /// As it stands.
    AsAsked,
    List(Applied),
    /// With a refusal of this value.
    Refused(u16, Odd),
    /// Nobody knows but the origin. These values are sent as the client spelled them.
    Unknown(Vec<Odd>),
}

impl Applied {
    /// The total, and the listings of the page.
    pub(crate) fn find<'a>(&self, dataset: &'a Dataset) -> Result<Found<'a>, Doubt> {
        if self.empty == Empty::List {
            return Ok(Found { total: 0, items: Vec::new() });
        }
        let found = dataset.find_most(&self.query)?;
        Ok(if self.empty == Empty::Page { Found { items: Vec::new(), ..found } } else { found })
    }
}

/// What a query comes to by a meaning. `rest`: the query without the odd parameter; `page_size`: that of a query without
/// `per_page`. `None`: it has no such meaning.
pub(crate) fn apply(
    meaning: Meaning,
    rest: &ListQuery,
    odd: &Odd,
    dataset: &Dataset,
    page_size: u16,
) -> Option<Applied> {
    let mut query = rest.clone();
    let value = odd.values.first().map(|value| &**value);
    let empty = match (meaning, odd.parameter) {
        (Meaning::Nothing, parameter) if matches!(odd.how, How::Next | How::Beyond) => {
            put(&mut query, parameter, value?).ok()?;
            Empty::List
        }
        (Meaning::Refused(_) | Meaning::Nothing, _) => return None,
        (Meaning::Absent, "page") => {
            query.page = 1;
            Empty::No
        }
        (Meaning::Absent, "per_page") => {
            query.per_page = page_size;
            Empty::No
        }
        (Meaning::Absent, _) => Empty::No,
        (Meaning::Empty, parameter) => match odd.how {
            How::Next | How::Beyond | How::Future | How::Unknown => {
                put(&mut query, parameter, value?).ok()?;
                Empty::No
            }
            _ if matches!(parameter, "page" | "per_page") => Empty::Page,
            // It is echoed, and no instant is later.
            How::Malformed => {
                query.modified_since = Some(ModifiedSince { text: value?.into(), at: i64::MAX });
                Empty::List
            }
            _ => Empty::List,
        },
        (Meaning::Clamped, _) => {
            match (odd.how, odd.parameter) {
                (How::Next | How::Beyond, _) => {
                    query.page = 1;
                    query.page = query.total_pages(dataset.find(&query).ok()?.total).max(1);
                }
                (How::Zero | How::Negative, "page") => query.page = 1,
                (How::Zero | How::Negative, "per_page") => query.per_page = 1,
                (How::Over, _) => query.per_page = ListQuery::MAX_PER_PAGE,
                _ => return None,
            }
            Empty::No
        }
    };
    Some(Applied { query: query.within(dataset.content.envelope.largest_page), empty })
}

/// How a query is answered that the parser calls odd. `known`: the meanings of rows that were found; `now`: nanoseconds
/// since 1970.
pub(crate) fn of_odd(
    known: impl Fn(Row) -> Option<Meaning>,
    dataset: &Dataset,
    asked: &OddQuery,
    page_size: u16,
    now: i64,
) -> Decision {
    let now = looked_at(&known, now);
    let rest = asked.rest(page_size).within(dataset.content.envelope.largest_page);
    let together = |beside: Vec<Odd>| Decision::Unknown(asked.odds.iter().cloned().chain(beside).collect());
    let [odd] = &asked.odds[..] else { return together(looked_up(dataset, &rest, now)) };
    let meaning = odd.row().filter(|_| !names_respelled(dataset, odd)).and_then(known);
    let Some(meaning) = meaning else { return together(looked_up(dataset, &rest, now)) };
    let applied = apply(meaning, &rest, odd, dataset, page_size);
    // Nothing in an empty list depends on what is beside it.
    let evaluated = applied.as_ref().filter(|applied| applied.empty != Empty::List);
    let beside = looked_up(dataset, evaluated.map_or(&rest, |applied| &applied.query), now);
    match (meaning, applied) {
        // A slug beside it may be unknown, and then it may be anything.
        _ if !beside.is_empty() => together(beside),
        (Meaning::Refused(status), _) => Decision::Refused(status, odd.clone()),
        (_, Some(applied)) => Decision::List(applied),
        (_, None) => together(beside),
    }
}

/// How a query is answered that finds nothing; `None`: nothing is odd about it. `now`: nanoseconds since 1970.
pub(crate) fn of_empty(
    known: impl Fn(Row) -> Option<Meaning>,
    dataset: &Dataset,
    query: &ListQuery,
    page_size: u16,
    now: i64,
) -> Option<Decision> {
    let now = looked_at(&known, now);
    let odds = looked_up(dataset, query, now);
    // A page may be beyond the last only because a filter is taken to select nothing.
    let mut of_filters = odds.iter().filter(|odd| odd.parameter != "page");
    let odd = of_filters.next().or(odds.first())?;
    let meaning = if of_filters.next().is_none() { odd.row().and_then(known) } else { None };
    let Some(meaning) = meaning else { return Some(Decision::Unknown(odds)) };
    if let Meaning::Refused(status) = meaning {
        return Some(Decision::Refused(status, odd.clone()));
    }
    let mut rest = query.clone();
    match TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == odd.parameter) {
        Some(kind) => rest.slugs[kind.index()] = None,
        None if odd.how == How::Future => rest.modified_since = None,
        None => rest.page = 1,
    }
    Some(match apply(meaning, &rest, odd, dataset, page_size) {
        Some(applied) if applied.query == *query && odds.len() == 1 => match applied.empty {
            Empty::No => Decision::AsAsked,
            Empty::Page | Empty::List => Decision::List(applied),
        },
        Some(applied) if applied.query != *query && looked_up(dataset, &applied.query, now).is_empty() => {
            Decision::List(applied)
        }
        _ => Decision::Unknown(odds),
    })
}

/// The slugs of a query that no term has.
pub(crate) fn unknown_slugs(dataset: &Dataset, query: &ListQuery) -> Vec<Odd> {
    let of_kind = |kind: TaxonomyKind| {
        let slug = query.slug(kind).filter(|slug| dataset.membership(kind, slug).is_none())?;
        Some(unknown(dataset, kind, slug))
    };
    TaxonomyKind::ALL.into_iter().filter_map(of_kind).collect()
}

/// A slug that no term has: perhaps it is another spelling of one, or means several terms.
fn unknown(dataset: &Dataset, kind: TaxonomyKind, slug: &str) -> Odd {
    let is_known = |part: &str| dataset.membership(kind, part).is_some() || dataset.is_respelled(kind, part);
    let is_spelled = is_known(slug) || (slug.contains(',') && slug.split(',').any(is_known));
    Odd::of(kind.parameter(), if is_spelled { How::Spelled } else { How::Unknown }, slug)
}

/// Whether a value is another spelling of the slug of a term.
fn names_respelled(dataset: &Dataset, odd: &Odd) -> bool {
    let kind = TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == odd.parameter);
    let is_respelled = |kind, slug: &str| dataset.membership(kind, slug).is_none() && dataset.is_respelled(kind, slug);
    kind.is_some_and(|kind| odd.values.iter().any(|slug| is_respelled(kind, slug)))
}

/// The instant from which on a `modified_since` is odd: none is where the future selects nothing, as is documented.
fn looked_at(known: impl Fn(Row) -> Option<Meaning>, now: i64) -> i64 {
    if known(Row::SinceFuture) == Some(Meaning::Empty) { i64::MAX } else { now }
}

/// What the data shows to be odd in a query: unknown slugs, an instant in the future, a page beyond the last.
fn looked_up(dataset: &Dataset, query: &ListQuery, now: i64) -> Vec<Odd> {
    let mut odds = unknown_slugs(dataset, query);
    if let Some(since) = query.modified_since.as_ref().filter(|since| since.at > now) {
        odds.push(Odd::of("modified_since", How::Future, &since.text));
    }
    if query.page > 1
        && let Ok(found) = dataset.find(query)
    {
        let last = query.total_pages(found.total).max(1);
        if query.page > last {
            let how = if query.page == last + 1 { How::Next } else { How::Beyond };
            odds.push(Odd::of("page", how, &query.page.to_string()));
        }
    }
    odds
}

#[cfg(test)]
mod tests;
