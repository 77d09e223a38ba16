//! Examples of a shape: queries whose answer would be another one if a filter meant something else, as far as the data
//! shows it.
//!
//! Which other meanings an example shows is found out by answering it from the snapshot under those meanings; the origin's
//! answer is judged without them. Pure. Callers: [`super`].

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::api::odd::folded;
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::shape::{Form, Shape, TermName};
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::{Membership, Positions};

use super::open;
use super::schedule::AT_ONCE;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// Offsets of time zones are multiples of this.
const ZONE_STEP: i64 = HOUR / 4;
/// How much later and earlier than UTC the day begins: anywhere, in America, and in Europe.
const ZONES: [i64; 6] = [12 * HOUR, 5 * HOUR, HOUR, -HOUR, -5 * HOUR, -14 * HOUR];
/// An offset that no zone has, in seconds: a server that leaves it out, or puts its own in its place, is found out.
const ODD_OFFSET: i32 = 75 * 60;

/// A size of pages that cuts most lists.
const SMALL_PAGE: u16 = 7;

/// So many terms of a kind are tried.
const MOST_TERMS: usize = 4;

/// So many of the largest terms may be part of another one's slug.
const MOST_PARTS: usize = 64;

/// The terms in doubt although their shapes are not.
pub(super) type DoubtfulTerms = BTreeSet<TermName>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Example {
    pub(super) query: ListQuery,
    /// Whether without any of its filters the answer would be another one. The state of a city may exclude nothing.
    pub(super) tells: bool,
}

/// How many examples of a shape are asked at first, at most.
pub(super) fn turns(shape: Shape) -> u16 {
    match (shape.filters(), shape.form()) {
        _ if shape.row().is_some() => open::TURNS,
        // Without a page size, with a small one, and so that the last page is full; of a filter the last one is for another
        // term than the largest.
        (0, _) | (1, None) => 3,
        (1, Some(form)) => TIMES[form as usize],
        _ if apart(shape).is_some() || has_quiet_city(shape) => 2,
        _ => 1,
    }
}

/// Two filters that exclude each other in every other example. A state excludes something only there; beside a sport the
/// list is empty, which an origin may treat in its own way.
fn apart(shape: Shape) -> Option<[TaxonomyKind; 2]> {
    use TaxonomyKind::{Cities, Sports, States};
    let mut pairs = [[States, Cities], [Sports, Cities], [Sports, States]].into_iter();
    let pair = pairs.find(|pair| pair.iter().all(|kind| shape.has(*kind)))?;
    (pair[0] == States || shape.filters() == 2).then_some(pair)
}

/// Whether every other example is a city in which nothing was modified since.
fn has_quiet_city(shape: Shape) -> bool {
    shape.has(TaxonomyKind::Cities) && shape.form() == Some(Form::Date) && shape.filters() == 2
}

/// How many times [`times`] finds, by form.
const TIMES: [u16; 3] = [5, 3, 4];

impl Example {
    /// The example of this turn; `None`: the data has none that is not one of an earlier turn.
    /// Terms in `doubtful` say nothing about a shape.
    pub(super) fn of(dataset: &Dataset, shape: Shape, turn: u16, doubtful: &DoubtfulTerms) -> Option<Self> {
        if shape == Shape::LIST {
            return Self::of_list(dataset, turn);
        }
        if let Some(pair) = apart(shape).filter(|_| turn % 2 == 1) {
            return Self::elsewhere(dataset, shape, pair, turn, doubtful);
        }
        if has_quiet_city(shape) && turn % 2 == 1 {
            return Self::quiet(dataset, turn, doubtful);
        }
        let chosen = chosen(dataset, shape, turn, doubtful);
        let Some(form) = shape.form() else {
            return best(dataset, chosen.into_iter().map(|(query, _)| query), shape, turn);
        };
        if shape.filters() == 1 {
            let modified = sorted(dataset.modified().collect());
            let all = times(&modified, form, modified.last().copied()?);
            // Later examples are those of the first turns, which the data may have changed.
            let at = if turn < turns(shape) { turn.into() } else { usize::from(turn).checked_rem(all.len())? };
            return best(dataset, all.get(at).cloned(), shape, turn);
        }
        let of_members = |(query, members): (ListQuery, Positions)| {
            let modified = sorted(members.iter().filter_map(|position| dataset.modified_at(position)).collect());
            let mut all = times(&modified, form, *modified.last()?);
            let most = all.len();
            all.rotate_left((usize::from(turn) + query.slugs.iter().flatten().count()).checked_rem(most)?);
            let with = move |since: ListQuery| ListQuery { modified_since: since.modified_since, ..query.clone() };
            Some(all.into_iter().map(with).collect::<Vec<_>>())
        };
        best(dataset, chosen.into_iter().take(2 * MOST_TERMS).filter_map(of_members).flatten(), shape, turn)
    }

    /// Two terms that have no listing in common: with other filters, and a city outside the state; or alone.
    fn elsewhere(
        dataset: &Dataset,
        shape: Shape,
        [kind, beside]: [TaxonomyKind; 2],
        turn: u16,
        doubtful: &DoubtfulTerms,
    ) -> Option<Self> {
        let base = match shape.filters() {
            2 => None,
            _ => Some(Self::of(dataset, shape.without(kind), turn / 2, doubtful)?.query),
        };
        let is_beside = |slug: &str| base.as_ref().is_none_or(|base| base.slug(beside) == Some(slug));
        let all = telling(dataset, kind, doubtful);
        let within = telling(dataset, beside, doubtful).into_iter().filter(|(slug, _)| is_beside(slug));
        let mut pairs = within.flat_map(|(slug, within)| {
            all.iter().filter(move |(_, of)| of.is_disjoint(within)).map(move |(other, _)| (*other, slug))
        });
        let (other, slug) = pairs.nth(usize::from(turn / 2) % 2)?;
        let query = base.as_ref().map_or_else(ListQuery::default, |base| base.with_page(1));
        Some(Self { query: query.with_term(beside, slug).with_term(kind, other), tells: true })
    }

    /// A city, and the day after its last listing.
    fn quiet(dataset: &Dataset, turn: u16, doubtful: &DoubtfulTerms) -> Option<Self> {
        let last = dataset.modified().max()?;
        let mut quiet = telling(dataset, TaxonomyKind::Cities, doubtful).into_iter().filter_map(|(slug, of)| {
            let day = day_after(of.iter().filter_map(|position| dataset.modified_at(position)).max()?);
            let query = ListQuery { per_page: ListQuery::DEFAULT_PER_PAGE, ..since(written(day, DAYS, 0)?, day) };
            (day < last).then(|| query.with_term(TaxonomyKind::Cities, slug))
        });
        Some(Self { query: quiet.nth(usize::from(turn / 2) % 2)?, tells: true })
    }

    /// The list itself shows its form, and whether its pages are the same with each size.
    fn of_list(dataset: &Dataset, turn: u16) -> Option<Self> {
        let (bare, total) = (ListQuery::default(), dataset.len() as u64);
        let per_page = match turn % 3 {
            0 => bare.per_page,
            1 => SMALL_PAGE,
            _ => filled(total, ListQuery::MAX_PER_PAGE)?,
        };
        let query = ListQuery { per_page, ..bare };
        let last = query.total_pages(total);
        let page = [1, last.div_ceil(2), last][usize::from(turn % 3)];
        (total > 0).then(|| Self { query: query.with_page(page), tells: true })
    }

    /// A query once more.
    pub(super) fn again(dataset: &Dataset, query: ListQuery) -> Self {
        let tells = match answer(dataset, &query) {
            // An empty list tells more than any.
            Some((0, _)) => true,
            _ => Self::about(dataset, query.clone()).is_some_and(|(_, example)| example.tells),
        };
        Self { query, tells }
    }

    /// The lists that show whether a term alone is answered otherwise: its own, some of terms whose slugs are no part of
    /// another one, and, if its slug is such a part, all those of such slugs: a filter that matches parts gets them all
    /// wrong. The flag is true for those other terms. `None`: these are too many, or there is no other term.
    pub(super) fn on_trial(
        dataset: &Dataset,
        of: &TermName,
        doubtful: &DoubtfulTerms,
    ) -> Option<Vec<(TermName, bool, Self)>> {
        let (kind, slugs) = (of.kind, slugs(dataset, of.kind));
        let is_part = |slug: &str| slugs.matches(&*folded(slug)).nth(1).is_some();
        let is_tried = |slug: &&str| **slug != *of.slug && !doubtful.contains(&name(kind, slug));
        let others = || dataset.known_terms(kind).map(|(slug, _)| slug).filter(is_tried);
        let parts: Vec<&str> = match others().count() {
            _ if !is_part(&of.slug) => Vec::new(),
            count if count > MOST_PARTS => return None,
            _ => others().filter(|slug| is_part(slug)).collect(),
        };
        let telling = telling(dataset, kind, doubtful);
        let leaves_out = telling.iter().filter(|(_, positions)| positions.len() < dataset.len() as u64);
        let controls = leaves_out.map(|(slug, _)| *slug).filter(|slug| is_tried(slug) && !is_part(slug));
        let room = AT_ONCE.saturating_sub(parts.len() + 1).min(MOST_TERMS);
        let controls: Vec<&str> = controls.take(room).collect();
        if controls.is_empty() {
            return None;
        }
        let controls = controls.into_iter().map(|slug| (slug, true));
        let tried = [&*of.slug].into_iter().chain(parts).map(|slug| (slug, false)).chain(controls);
        let example = |(slug, is_control)| {
            let query = ListQuery::largest_pages().with_term(kind, slug);
            (name(kind, slug), is_control, Self::again(dataset, query))
        };
        Some(tried.map(example).collect())
    }

    /// What a client asked, its time in our own spelling: a client must not choose bytes by which others are judged.
    /// `None`: it shows nothing, or is an open case by now.
    pub(super) fn noted(dataset: &Dataset, mut query: ListQuery) -> Option<Self> {
        if let Some(since) = &query.modified_since {
            query.modified_since = Some(Form::respelled(since)?);
        }
        let (total, ids) = answer(dataset, &query)?;
        let is_known = |term: TermName| dataset.membership(term.kind, &term.slug).is_some();
        let is_ordinary = !ids.is_empty() || (total == 0 && query.page == 1);
        (is_ordinary && TermName::all_of(&query).all(is_known)).then(|| Self::again(dataset, query))
    }

    /// The same with the page size, the page and the time of a query with some of its filters that was answered otherwise.
    pub(super) fn like(self, dataset: &Dataset, other: &ListQuery) -> Self {
        let own = &self.query;
        let time = other.modified_since.clone().filter(|_| own.modified_since.is_some());
        let query =
            ListQuery { per_page: other.per_page, modified_since: time.or(own.modified_since.clone()), ..own.clone() };
        match answer(dataset, &query) {
            Some((total, _)) if total > 0 => {
                let page = other.page.min(query.total_pages(total));
                Self::again(dataset, query.with_page(page))
            }
            _ => self,
        }
    }

    /// `None`: the data set cannot answer it, or selects nothing, which the origin may treat in its own way.
    fn about(dataset: &Dataset, query: ListQuery) -> Option<(usize, Self)> {
        let expected = answer(dataset, &query).filter(|(total, _)| *total > 0)?;
        let differs = |other: &ListQuery| answer(dataset, other).is_some_and(|answer| answer != expected);
        let told = |kind: &TaxonomyKind| differs(&without(&query, *kind));
        let used: Vec<TaxonomyKind> =
            TaxonomyKind::ALL.into_iter().filter(|kind| query.slug(*kind).is_some()).collect();
        let count = used.iter().filter(|kind| told(kind)).count();
        let is_free = |kind: &TaxonomyKind| *kind == TaxonomyKind::States && query.slug(TaxonomyKind::Cities).is_some();
        let mut tells = used.iter().all(|kind| is_free(kind) || told(kind));
        let mut score = count;
        if let Some(since) = &query.modified_since {
            let moved = |at: i64| {
                let since = ModifiedSince { at, text: since.text.clone() };
                differs(&ListQuery { modified_since: Some(since), ..query.clone() })
            };
            let is_heeded = differs(&ListQuery { modified_since: None, ..query.clone() });
            let by_zone = ZONES.iter().filter(|zone| moved(since.at.saturating_add(**zone))).count();
            tells &= is_heeded;
            score += usize::from(is_heeded) + by_zone + usize::from(moved(since.at.saturating_sub(1)));
        }
        Some((score, Self { query, tells }))
    }
}

/// The example that shows most, on one of its pages; the first of equals.
fn best(dataset: &Dataset, queries: impl IntoIterator<Item = ListQuery>, shape: Shape, turn: u16) -> Option<Example> {
    let examples = queries.into_iter().filter_map(|query| Example::about(dataset, query));
    let (_, example) = examples.min_by_key(|(score, example)| (!example.tells, Reverse(*score)))?;
    let Example { query, tells } = example;
    let (total, _) = answer(dataset, &query)?;
    let is_single = shape.only_taxonomy().is_some();
    let chance = u32::from(turn) + if is_single { 0 } else { shape.bit().trailing_zeros() };
    let most = ListQuery::MAX_PER_PAGE;
    let is_short = is_single && total <= u64::from(most);
    let per_page = match chance % 3 {
        0 => ListQuery::DEFAULT_PER_PAGE,
        2 if is_short => filled(total, total as u16 / 2).unwrap_or(most),
        2 if is_single || total > u64::from(most) => most,
        _ => SMALL_PAGE,
    };
    let query = ListQuery { per_page, ..query };
    let last = query.total_pages(total);
    let page = match chance % 6 {
        // The origin's pages may be larger.
        0 | 3 => 1,
        // Small ones: of large pages the last one is mostly the first.
        1 | 5 => last,
        // Or a full one.
        _ if is_short => last,
        _ => last.div_ceil(2),
    };
    Some(Example { query: query.with_page(page.max(1)), tells })
}

/// The largest size of pages, up to this one, with which the last page is full. Not the usual one.
fn filled(total: u64, most: u16) -> Option<u16> {
    let fills = |size: &u16| *size != ListQuery::DEFAULT_PER_PAGE && total.is_multiple_of((*size).into());
    (1..=most).rev().find(fills)
}

/// Total and ids of the page.
fn answer(dataset: &Dataset, query: &ListQuery) -> Option<(u64, Vec<u64>)> {
    let found = dataset.find(query).ok()?;
    Some((found.total, found.items.iter().map(|item| item.id.0).collect()))
}

fn without(query: &ListQuery, kind: TaxonomyKind) -> ListQuery {
    let mut query = query.clone();
    query.slugs[kind.index()] = None;
    query
}

/// Queries with the slugs of a shape, which select something together, and what they select; other ones in each turn.
fn chosen(dataset: &Dataset, shape: Shape, turn: u16, doubtful: &DoubtfulTerms) -> Vec<(ListQuery, Positions)> {
    use TaxonomyKind::{Cities, Sports, States};
    let mut chosen: Vec<(ListQuery, Positions)> = Vec::new();
    for kind in [Cities, Sports, States].into_iter().filter(|kind| shape.has(*kind)) {
        let with = |query: &ListQuery, slug: &str| query.clone().with_term(kind, slug);
        if chosen.is_empty() {
            let mut terms = telling(dataset, kind, doubtful);
            let (most, all) = (terms.len(), dataset.len() as u64);
            let by_size = |at: &usize| (terms[*at].1.len() == all, Reverse(terms[*at].1.len()));
            let largest = (0..most).min_by_key(by_size).unwrap_or(0);
            // Of the largest term two, then of those whose slugs are parts.
            let first = match usize::from(turn) {
                turn if shape.filters() > 1 => turn,
                0 | 1 => largest,
                turn => turn - 2 + usize::from(largest == 0),
            };
            terms.rotate_left(first.checked_rem(most).unwrap_or(0));
            let terms = terms.into_iter().take(MOST_TERMS);
            chosen = terms.map(|(slug, of)| (with(&ListQuery::largest_pages(), slug), of.clone())).collect();
            continue;
        }
        let narrowed = |(query, members): &(ListQuery, Positions)| {
            let is_known = |(slug, _): &(&str, _)| doubtful.is_empty() || !doubtful.contains(&name(kind, slug));
            let known = dataset.known_terms(kind).filter(is_known);
            let both = known.map(|(slug, of)| (Reverse(of.intersection_len(members)), slug, of));
            let mut both: Vec<_> = both.filter(|(shared, ..)| shared.0 > 0).collect();
            both.sort_unstable_by_key(|(shared, slug, _)| (*shared, *slug));
            let both = both.into_iter().take(MOST_TERMS);
            both.map(|(_, slug, of)| (with(query, slug), of & members)).collect::<Vec<_>>()
        };
        chosen = chosen.iter().flat_map(narrowed).collect();
    }
    chosen
}

/// The terms with the most listings: first those whose slug is a part of another one, known by name before known by their own
/// list; last one that leaves nothing out.
fn telling<'a>(dataset: &'a Dataset, kind: TaxonomyKind, doubtful: &DoubtfulTerms) -> Vec<(&'a str, &'a Positions)> {
    let mut known: Vec<_> = dataset.known_terms(kind).collect();
    known.retain(|(slug, _)| doubtful.is_empty() || !doubtful.contains(&name(kind, slug)));
    let all = dataset.len() as u64;
    known.sort_unstable_by_key(|(slug, positions)| (positions.len() == all, Reverse(positions.len()), *slug));
    let slugs = slugs(dataset, kind);
    known.truncate(MOST_PARTS);
    // What the origin itself listed for a slug shows nothing of how it matches slugs.
    let is_listed = |slug: &str| matches!(dataset.membership(kind, slug), Some(Membership::Listed(..)));
    known.sort_by_cached_key(|(slug, _)| (slugs.matches(&*folded(slug)).nth(1).is_none(), is_listed(slug)));
    known
}

/// All slugs of a taxonomy, a line each, without case and accents.
fn slugs(dataset: &Dataset, kind: TaxonomyKind) -> String {
    dataset.memberships(kind).map(|(slug, _)| folded(slug)).collect::<Vec<_>>().join("\n")
}

fn name(kind: TaxonomyKind, slug: &str) -> TermName {
    TermName { kind, slug: slug.into() }
}

fn sorted(mut modified: Vec<i64>) -> Vec<i64> {
    modified.sort_unstable();
    modified
}

/// Queries for what was modified after an instant, written in a form, each once: the most telling instants among these,
/// which are in ascending order. None is that of a listing, which would hide whether it counts.
fn times(modified: &[i64], form: Form, last: i64) -> Vec<ListQuery> {
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
            let zulu = "%Y-%m-%dT%H:%M:%SZ";
            [with(before, zulu, 0), with(after, "%Y-%m-%dT%H:%M:%S%:z", ODD_OFFSET), with(old, zulu, 0)].to_vec()
        }
        Form::Local => {
            let seasons = [
                between(modified, Edge::Before, Some(Season::Summer), summer),
                between(modified, Edge::Before, Some(Season::Winter), winter),
                between(modified, Edge::After, None, any),
                old,
            ];
            seasons.into_iter().map(|at| with(at, "%Y-%m-%dT%H:%M:%S", 0)).collect()
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
const fn day_after(at: i64) -> i64 {
    (at.div_euclid(DAY) + 1) * DAY
}

fn since(text: String, at: i64) -> ListQuery {
    ListQuery { modified_since: Some(ModifiedSince { text: text.into(), at }), ..ListQuery::largest_pages() }
}

/// An instant as the clocks with this offset show it.
fn written(at: i64, format: &str, offset: i32) -> Option<String> {
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

/// How a day is written.
const DAYS: &str = "%Y-%m-%d";

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
