//! Times of examples: instants in the data beside which another reading of a time would select other listings.
//!
//! Pure. Callers: [`super::example`].

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::shape::Form;

pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const HOUR: i64 = 3600 * SECOND;
pub(super) const DAY: i64 = 24 * HOUR;

/// Offsets of time zones are multiples of this.
const ZONE_STEP: i64 = HOUR / 4;
/// An offset that no zone has, in seconds: a server that leaves it out, or puts its own in its place, is found out.
pub(super) const ODD_OFFSET: i32 = 75 * 60;

/// How many times [`times`] finds, by form.
pub(super) const TIMES: [u16; 3] = [5, 4, 4];

pub(super) fn sorted(mut modified: Vec<i64>) -> Vec<i64> {
    modified.sort_unstable();
    modified
}

/// Queries for what was modified after an instant, written in a form, each once: the most telling instants among these,
/// which are in ascending order. None is that of a listing, which would hide whether it counts.
pub(super) fn times(modified: &[i64], form: Form, last: i64) -> Vec<ListQuery> {
    let any = |_: i64| true;
    let (summer, winter) = (|at| Season::Summer.is_at(at), |at| Season::Winter.is_at(at));
    let with = |at: Option<i64>, format, offset| at.and_then(|at| Some(since(written(at, format, offset)?, at)));
    let old = modified.first().map(|first| day_after(*first)).filter(|day| *day < last);
    let found = match form {
        Form::Date => [
            day(modified, Edge::After, None, any),
            day(modified, Edge::Before, None, any),
            with(old, DAYS, 0),
            day(modified, Edge::Before, Some(Season::Summer), summer),
            day(modified, Edge::After, Some(Season::Winter), winter),
        ]
        .to_vec(),
        Form::Zoned => {
            let [before, after] = [Edge::Before, Edge::After].map(|edge| between(modified, edge, None, any));
            let with_offset = |at, offset| with(at, "%Y-%m-%dT%H:%M:%S%:z", offset);
            let (east, west) = (with_offset(after, ODD_OFFSET), with_offset(before, -ODD_OFFSET));
            [with(before, ZULU, 0), east, with(old, ZULU, 0), west].to_vec()
        }
        Form::Local => {
            let seasons = [
                between(modified, Edge::Before, Some(Season::Summer), summer),
                between(modified, Edge::Before, Some(Season::Winter), winter),
                between(modified, Edge::After, None, any),
                old,
            ];
            seasons.into_iter().map(|at| with(at, LOCAL, 0)).collect()
        }
    };
    let is_clear = |query: &ListQuery| {
        let at = query.modified_since.as_ref().map(|since| since.at);
        at.is_some_and(|at| modified.binary_search(&at).is_err())
    };
    let mut queries: Vec<ListQuery> = Vec::new();
    for query in found.into_iter().flatten().filter(is_clear) {
        if !queries.contains(&query) {
            queries.push(query);
        }
    }
    queries
}

/// The beginning of the next day.
pub(super) const fn day_after(at: i64) -> i64 {
    (at.div_euclid(DAY) + 1) * DAY
}

pub(super) fn since(text: String, at: i64) -> ListQuery {
    ListQuery { modified_since: Some(ModifiedSince { text: text.into(), at }), ..ListQuery::largest_pages() }
}

/// An instant as the clocks with this offset show it.
pub(super) fn written(at: i64, format: &str, offset: i32) -> Option<String> {
    let zone = Offset::from_seconds(offset).ok()?.to_time_zone();
    Some(Timestamp::from_second(at.div_euclid(SECOND)).ok()?.to_zoned(zone).strftime(format).to_string())
}

/// Zones that are UTC in one half of the year only are told apart in the other half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Season {
    /// Of the northern hemisphere: London is ahead of UTC.
    Summer,
    /// The Azores are behind UTC.
    Winter,
}

impl Season {
    fn is_at(self, at: i64) -> bool {
        let month = Timestamp::from_second(at.div_euclid(SECOND)).map_or(1, |at| at.to_zoned(TimeZone::UTC).month());
        match self {
            Self::Summer => (4..=9).contains(&month),
            Self::Winter => matches!(month, 1 | 2 | 11 | 12),
        }
    }
}

/// How little a gap of time tells: less than a step of the zones tells everything, and then the season counts first.
fn poorness(gap: i64, season: Option<Season>, at: i64) -> (bool, bool, i64) {
    let wide = gap > ZONE_STEP;
    (wide, !wide && season.is_some_and(|season| !season.is_at(at)), gap)
}

/// How a day is written, and a time of each form.
pub(super) const DAYS: &str = "%Y-%m-%d";
pub(super) const ZULU: &str = "%Y-%m-%dT%H:%M:%SZ";
pub(super) const LOCAL: &str = "%Y-%m-%dT%H:%M:%S";

/// Which listing shows when a day, or what was modified since a time, begins.
#[derive(Clone, Copy)]
enum Edge {
    /// One soon after midnight: a day that begins later would leave it out. One soon before a time: what forgets its minutes
    /// has it, too.
    After,
    /// One soon before: a day that begins earlier would have it, too. One soon after a time.
    Before,
}

/// A day with a listing as close to its beginning as there is, among those that are wanted.
fn day(modified: &[i64], edge: Edge, season: Option<Season>, is_wanted: impl Fn(i64) -> bool) -> Option<ListQuery> {
    let last = *modified.last()?;
    let days = modified.iter().map(|at| match edge {
        Edge::After => (at.div_euclid(DAY) * DAY, at.rem_euclid(DAY)),
        Edge::Before => (at.div_euclid(DAY) * DAY + DAY, DAY - at.rem_euclid(DAY)),
    });
    let some = days.filter(|(day, gap)| *gap > 0 && *day < last && is_wanted(*day));
    let (day, _) = some.min_by_key(|(day, gap)| poorness(*gap, season, *day))?;
    Some(since(written(day, DAYS, 0)?, day))
}

/// A whole second in which nothing was modified, with listings soon before and soon after it, rather on one day: what
/// reads the time as an earlier or a later one is found out. It is next to one of them.
fn between(modified: &[i64], edge: Edge, season: Option<Season>, is_wanted: impl Fn(i64) -> bool) -> Option<i64> {
    let pairs = modified.windows(2).filter_map(|pair| {
        let (before, after) = (pair[0], pair[1]);
        let second = match edge {
            Edge::Before => (after - 1).div_euclid(SECOND) * SECOND,
            Edge::After => (before.div_euclid(SECOND) + 1) * SECOND,
        };
        (before < second && second < after && is_wanted(second)).then_some((before, after, second))
    });
    let best = pairs.min_by_key(|(before, after, second)| {
        let (wide, off, gap) = poorness(after - before, season, *second);
        (before.div_euclid(DAY) != after.div_euclid(DAY), wide, off, gap)
    });
    best.map(|(_, _, second)| second)
}
