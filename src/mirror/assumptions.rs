//! What we assume of filters, asked of the origin: at most ten questions, once and then weekly, chosen so that every other
//! meaning that the data can show would give another answer. Which wrong meanings a question shows is found out by
//! answering it from the snapshot under those meanings; the answer is judged without them.
//!
//! Any answer but the expected one speaks against what the question uses, whatever it is instead: there is no list of
//! foreseen alternatives. It counts once the question was repeated. What a question uses counts as disproved unless
//! another question that was answered as expected bears it out; simpler questions are asked for that. Pure: the requests
//! are [`super::task`]'s, which also makes sure that the list holds still. Callers: [`super::task`].

use std::cmp::Reverse;
use std::collections::VecDeque;

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::api::listing::ListingId;
use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Positions;
use crate::snapshot::meta::{self, Agreement, Assumption, used_by};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// Offsets of time zones are multiples of this.
const ZONE_STEP: i64 = HOUR / 4;
/// How much later and earlier than UTC the day begins anywhere.
const ZONES: [i64; 2] = [12 * HOUR, -14 * HOUR];
/// An offset that no zone has, in seconds: a server that leaves it out, or puts its own in its place, is found out.
const ODD_OFFSET: i32 = 75 * 60;

/// The most questions, without repetitions.
const MOST: usize = 10;

/// An answer of the origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FilterAnswer {
    /// A page: the total, and its ids in order.
    Page { total: u64, ids: Vec<ListingId> },
    /// A refusal, or no list, and what it is.
    Other(String),
}

/// A question with its answer.
#[derive(Debug)]
struct AskedQuestion {
    question: Question,
    answer: FilterAnswer,
    agreement: Agreement,
}

/// The questions to one origin, with the answers so far.
#[derive(Debug)]
pub(super) struct Inquiry {
    /// The snapshot that the first answers were compared with.
    of: SnapshotId,
    open: VecDeque<Question>,
    asked: Vec<AskedQuestion>,
    stage: Stage,
    /// Whether a repetition says neither the same as before nor what was expected, or is too old to tell anything.
    pub(super) is_unsettled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first questions.
    First,
    /// Simpler ones.
    Simpler,
    /// What was answered in another way than expected, once more.
    Again,
}

/// What the answers say, each in ascending order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub disproved: Vec<Assumption>,
    pub proved: Vec<Assumption>,
}

impl Inquiry {
    /// The questions that a data set allows; some of what is `doubted` comes first. Takes a while for a large one.
    pub(super) fn of(dataset: &Dataset, doubted: Vec<ListQuery>) -> Self {
        /// With the first questions, no more than all.
        const MOST_DOUBTED: usize = 4;
        let doubted = doubted.into_iter().filter_map(|query| Question::about(dataset, query)).take(MOST_DOUBTED);
        let open: VecDeque<Question> = doubted.chain(first_questions(dataset)).collect();
        Self { of: dataset.id.clone(), open, asked: Vec::new(), stage: Stage::First, is_unsettled: false }
    }

    /// The next question; `None`: all are answered.
    pub(super) fn next(&self) -> Option<&ListQuery> {
        self.open.front().map(|question| &question.query)
    }

    /// Whether its answers are about this data set. A repetition may be about another one.
    pub(super) fn is_about(&self, dataset: &Dataset) -> bool {
        self.stage == Stage::Again || self.of == dataset.id
    }

    /// Takes the answer to the next question. `is_old`: it was made before the data set was published.
    pub(super) fn saw(&mut self, dataset: &Dataset, answer: FilterAnswer, is_old: bool) {
        let Some(question) = self.open.pop_front() else { return };
        let agreement = match &answer {
            FilterAnswer::Page { total, ids } => meta::agreement(dataset, &question.query, *total, ids),
            FilterAnswer::Other(_) => Some(Agreement::None),
        };
        // What the data cannot answer any more tells nothing.
        let Some(agreement) = agreement else {
            self.is_unsettled = true;
            return;
        };
        if self.stage == Stage::Again {
            let Some(before) = self.asked.iter_mut().find(|asked| asked.question == question) else { return };
            // Where the data has changed, the answer has, too.
            let is_repeated = before.answer == answer || self.of != dataset.id;
            self.is_unsettled |= agreement != Agreement::Whole && (is_old || !is_repeated);
            (before.answer, before.agreement) = (answer, agreement);
            return;
        }
        self.asked.push(AskedQuestion { question, answer, agreement });
        if self.open.is_empty() && self.stage == Stage::First {
            self.stage = Stage::Simpler;
            let wrong = self.asked.iter().filter(|asked| asked.agreement == Agreement::None);
            let wrong: Vec<&Question> = wrong.map(|asked| &asked.question).collect();
            let more = simpler_questions(dataset, &wrong).into_iter().chain(seasonal_questions(dataset));
            for question in more {
                let mut known = self.asked.iter().map(|asked| &asked.question).chain(&self.open);
                if self.asked.len() + self.open.len() < MOST && known.all(|known| known.query != question.query) {
                    self.open.push_back(question);
                }
            }
        }
    }

    /// The questions whose answers are not the expected ones.
    fn differing_questions(&self) -> impl Iterator<Item = &Question> {
        self.asked.iter().filter(|asked| asked.agreement != Agreement::Whole).map(|asked| &asked.question)
    }

    /// The paths of these questions.
    pub(super) fn differing(&self) -> impl Iterator<Item = String> {
        self.differing_questions().map(|question| question.query.path_and_query())
    }

    /// Asks what was answered in another way once more.
    pub(super) fn repeat(&mut self) {
        self.open = self.differing_questions().cloned().collect();
        self.stage = Stage::Again;
    }

    /// Whether the differing questions were repeated.
    pub(super) fn is_repeated(&self) -> bool {
        self.stage == Stage::Again
    }

    pub(super) fn findings(&self) -> Findings {
        let is_borne_out = |asked: &&AskedQuestion| asked.agreement != Agreement::None;
        let borne_out: Vec<Assumption> =
            self.asked.iter().filter(is_borne_out).flat_map(|asked| &asked.question.shows).copied().collect();
        let is_open = |one: &Assumption| *one != Assumption::Order && !borne_out.contains(one);
        let mut disproved = Vec::new();
        for asked in self.asked.iter().filter(|asked| asked.agreement == Agreement::None) {
            let open: Vec<Assumption> = used_by(&asked.question.query).into_iter().filter(is_open).collect();
            if open.is_empty() { disproved.extend(asked.question.focus()) } else { disproved.extend(open) }
        }
        if self.asked.iter().any(|asked| asked.agreement == Agreement::ButOrder) {
            disproved.push(Assumption::Order);
        }
        disproved.sort_unstable();
        disproved.dedup();
        let ordered = |asked: &AskedQuestion| {
            asked.agreement == Agreement::Whole && asked.question.shows.contains(&Assumption::Order)
        };
        let is_proved = |one: &Assumption| match one {
            Assumption::Order => self.asked.iter().any(ordered),
            one => borne_out.contains(one),
        };
        let proved = Assumption::ALL.into_iter().filter(|one| is_proved(one) && !disproved.contains(one)).collect();
        Findings { disproved, proved }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    query: ListQuery,
    /// What the expected answer bears out: without it the answer would be another one.
    shows: Vec<Assumption>,
}

impl Question {
    /// `None`: the data set cannot answer it.
    fn about(dataset: &Dataset, query: ListQuery) -> Option<Self> {
        let expected = answer(dataset, &query)?;
        let shows = used_by(&query).into_iter().filter(|one| shows(dataset, &query, &expected, *one)).collect();
        Some(Self { query, shows })
    }

    /// `None` also if its answer is empty, which the origin may treat in its own way.
    fn of(dataset: &Dataset, query: ListQuery) -> Option<Self> {
        if answer(dataset, &query)?.0 > 0 { Self::about(dataset, query) } else { None }
    }

    /// What the question is about most of all.
    fn focus(&self) -> Option<Assumption> {
        use Assumption::{And, Midnight, Offset, Strict, Time};
        let used = used_by(&self.query);
        let strict = self.shows.contains(&Strict).then_some(Strict);
        let first = [Some(And), Some(Midnight), Some(Offset), strict, Some(Time)];
        first.into_iter().flatten().find(|one| used.contains(one)).or_else(|| used.first().copied())
    }
}

/// Total and first ids.
fn answer(dataset: &Dataset, query: &ListQuery) -> Option<(u64, Vec<u64>)> {
    let found = dataset.find(query).ok()?;
    Some((found.total, found.items.iter().map(|item| item.id.0).collect()))
}

/// Whether the answer to a query would be another one without an assumption.
fn shows(dataset: &Dataset, query: &ListQuery, expected: &(u64, Vec<u64>), assumption: Assumption) -> bool {
    let differs = |other: ListQuery| answer(dataset, &other).is_some_and(|answer| answer != *expected);
    let moved = |by: &dyn Fn(i64) -> i64| {
        let since = query.modified_since.clone();
        let since = since.map(|since| ModifiedSince { at: by(since.at), ..since });
        differs(ListQuery { modified_since: since, ..query.clone() })
    };
    match assumption {
        Assumption::SportHeeded => differs(without(query, TaxonomyKind::Sports)),
        Assumption::StateHeeded => differs(without(query, TaxonomyKind::States)),
        Assumption::CityHeeded => differs(without(query, TaxonomyKind::Cities)),
        Assumption::SinceHeeded => differs(ListQuery { modified_since: None, ..query.clone() }),
        Assumption::And => {
            used_by(query).into_iter().filter(|one| one.is_heeded()).all(|one| shows(dataset, query, expected, one))
        }
        Assumption::Strict => moved(&|at| at.saturating_sub(1)),
        Assumption::Midnight | Assumption::Offset => ZONES.iter().any(|zone| moved(&|at| at.saturating_add(*zone))),
        Assumption::Time => moved(&|at| at.div_euclid(DAY) * DAY),
        Assumption::Order => expected.1.len() > 1,
    }
}

fn without(query: &ListQuery, kind: TaxonomyKind) -> ListQuery {
    let mut query = query.clone();
    query.slugs[kind.index()] = None;
    query
}

/// The first questions: together they use every assumption. At most six.
fn first_questions(dataset: &Dataset) -> Vec<Question> {
    let modified = sorted(dataset);
    let any = |_: i64| true;
    let about_times = [
        day(&modified, Edge::After, any),
        day(&modified, Edge::Before, any),
        local(&modified, Season::Summer, any),
        between(&modified, None, any).and_then(|at| Some(since(written(at, "%Y-%m-%dT%H:%M:%S%:z", ODD_OFFSET)?, at))),
    ];
    let about_times = about_times.into_iter().flatten().filter_map(|query| Question::of(dataset, query));
    sport_and_state(dataset).into_iter().chain(city_and_time(dataset)).chain(about_times).collect()
}

/// The same questions about dates and local times in the half of the year that tells more, for data too small to have
/// both.
fn seasonal_questions(dataset: &Dataset) -> Vec<Question> {
    let modified = sorted(dataset);
    let (summer, winter) = (|at| Season::Summer.is_at(at), |at| Season::Winter.is_at(at));
    let queries = [
        day(&modified, Edge::Before, summer),
        day(&modified, Edge::After, winter),
        local(&modified, Season::Summer, summer),
        local(&modified, Season::Winter, winter),
    ];
    queries.into_iter().flatten().filter_map(|query| Question::of(dataset, query)).collect()
}

/// Every known `modified`, the oldest first.
fn sorted(dataset: &Dataset) -> Vec<i64> {
    let mut modified: Vec<i64> = dataset.modified().collect();
    modified.sort_unstable();
    modified
}

/// Simpler questions, which tell what is wrong in these; the most telling first.
fn simpler_questions(dataset: &Dataset, wrong: &[&Question]) -> Vec<Question> {
    let parts = |question: &&Question| {
        let query = &question.query;
        if query.filters().count() < 2 {
            return Vec::new();
        }
        let alone = |kind: TaxonomyKind| {
            let alone = query.slug(kind).map(|slug| ListQuery::largest_pages().with_term(kind, slug));
            alone.unwrap_or_default()
        };
        let since = ListQuery { modified_since: query.modified_since.clone(), ..ListQuery::largest_pages() };
        let [sport, state, city] = TaxonomyKind::ALL.map(alone);
        vec![city, since, state, sport]
    };
    let mut simpler: Vec<Question> = Vec::new();
    for query in wrong.iter().flat_map(parts).filter(ListQuery::is_filtered) {
        if !simpler.iter().any(|other| other.query == query) {
            simpler.extend(Question::of(dataset, query));
        }
    }
    simpler
}

/// The best of several: what shows most with the fewest filters; the first of equals.
fn best(dataset: &Dataset, queries: impl IntoIterator<Item = ListQuery>) -> Option<Question> {
    let questions = queries.into_iter().filter_map(|query| Question::of(dataset, query));
    questions.min_by_key(|question| (Reverse(question.shows.len()), question.query.filters().count()))
}

/// The terms with the most listings, but rather one that leaves some out.
fn largest(dataset: &Dataset, kind: TaxonomyKind, most: usize) -> Vec<(&str, &Positions)> {
    let mut known: Vec<_> = dataset.known_terms(kind).collect();
    let all = dataset.len() as u64;
    known.sort_unstable_by_key(|(slug, positions)| (positions.len() == all, Reverse(positions.len()), *slug));
    known.truncate(most);
    known
}

/// A sport in a state.
fn sport_and_state(dataset: &Dataset) -> Option<Question> {
    use TaxonomyKind::{Sports, States};
    let (sports, states) = (largest(dataset, Sports, 3), largest(dataset, States, 4));
    let both = |(sport, _): &(&str, _)| {
        states
            .iter()
            .map(|(state, _)| ListQuery::largest_pages().with_term(Sports, sport).with_term(States, state))
            .collect::<Vec<_>>()
    };
    let alone = [sports.first().map(|(sport, _)| (Sports, sport)), states.first().map(|(state, _)| (States, state))];
    let alone = alone.into_iter().flatten().map(|(kind, slug)| ListQuery::largest_pages().with_term(kind, slug));
    best(dataset, sports.iter().flat_map(both).chain(alone))
}

/// What was modified in a city after the very instant of one of its listings, of one sport or of all.
fn city_and_time(dataset: &Dataset) -> Option<Question> {
    use TaxonomyKind::{Cities, Sports};
    let (cities, sports) = (largest(dataset, Cities, 4), largest(dataset, Sports, 3));
    let after = |query: ListQuery, members: &Positions| {
        exactly(dataset, members).map(|since| ListQuery { modified_since: Some(since), ..query })
    };
    let mut queries = Vec::new();
    for (city, members) in &cities {
        let query = ListQuery::largest_pages().with_term(Cities, city);
        for (sport, players) in &sports {
            queries.extend(after(query.clone().with_term(Sports, sport), &(*members & *players)));
        }
        queries.extend(after(query.clone(), members));
        queries.push(query);
    }
    best(dataset, queries)
}

/// The instant of one of these listings, on a whole second and rather within a minute than at its beginning.
fn exactly(dataset: &Dataset, members: &Positions) -> Option<ModifiedSince> {
    let mut all: Vec<i64> = members.iter().filter_map(|position| dataset.modified_at(position)).collect();
    all.sort_unstable();
    let last = *all.last()?;
    let whole: Vec<i64> = all.into_iter().filter(|at| at % SECOND == 0 && *at < last).collect();
    let within: Vec<i64> = whole.iter().copied().filter(|at| at % (60 * SECOND) != 0).collect();
    let of = if within.is_empty() { whole } else { within };
    let at = *of.get(of.len() / 2)?;
    Some(ModifiedSince { text: Timestamp::from_second(at / SECOND).ok()?.to_string().into(), at })
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

/// Which listing shows when a day begins.
#[derive(Clone, Copy)]
enum Edge {
    /// One soon after midnight: a day that begins later would leave it out.
    After,
    /// One soon before: a day that begins earlier would have it, too.
    Before,
}

/// A day with a listing as close to its beginning as there is, among those that are wanted.
fn day(modified: &[i64], edge: Edge, is_wanted: impl Fn(i64) -> bool) -> Option<ListQuery> {
    let last = *modified.last()?;
    let days = modified.iter().map(|at| match edge {
        Edge::After => (at.div_euclid(DAY) * DAY, at.rem_euclid(DAY)),
        Edge::Before => (at.div_euclid(DAY) * DAY + DAY, DAY - at.rem_euclid(DAY)),
    });
    let season = match edge {
        Edge::After => Season::Winter,
        Edge::Before => Season::Summer,
    };
    let some = days.filter(|(day, gap)| *gap > 0 && *day < last && is_wanted(*day));
    let (day, _) = some.min_by_key(|(day, gap)| poorness(*gap, Some(season), *day))?;
    Some(since(written(day, "%Y-%m-%d", 0)?, day))
}

/// A time without offset.
fn local(modified: &[i64], season: Season, is_wanted: impl Fn(i64) -> bool) -> Option<ListQuery> {
    let at = between(modified, Some(season), is_wanted)?;
    Some(since(written(at, "%Y-%m-%dT%H:%M:%S", 0)?, at))
}

/// A whole second in which nothing was modified, with listings soon before and soon after it, rather on one day: what
/// reads the time as an earlier or a later one is found out.
fn between(modified: &[i64], season: Option<Season>, is_wanted: impl Fn(i64) -> bool) -> Option<i64> {
    let pairs = modified.windows(2).filter_map(|pair| {
        let (before, after) = (pair[0], pair[1]);
        let second = (after - 1).div_euclid(SECOND) * SECOND;
        (second > before && is_wanted(second)).then_some((before, after, second))
    });
    let best = pairs.min_by_key(|(before, after, second)| {
        let (wide, off, gap) = poorness(after - before, season, *second);
        (before.div_euclid(DAY) != after.div_euclid(DAY), wide, off, gap)
    });
    best.map(|(_, _, second)| second)
}

#[cfg(test)]
mod tests;
