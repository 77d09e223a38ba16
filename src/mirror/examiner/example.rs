//! Examples of a shape: queries whose answer would be another one if a filter meant something else, as far as the data
//! shows it.
//!
//! Which other meanings an example shows is found out by answering it from the snapshot under those meanings; the origin's
//! answer is judged without them. Pure. Callers: [`super`].

use std::cmp::Reverse;

use crate::api::query::{ListQuery, ModifiedSince};
use crate::api::shape::{Form, Shape, TermName};
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Positions;

use super::open;
use super::schedule::AT_ONCE;
use super::terms::{DoubtfulTerms, MOST_PARTS, Slugs, name, telling, with_few, without_listings};
use super::times::{DAY, DAYS, HOUR, LOCAL, SECOND, TIMES, ZULU, day_after, since, sorted, times, written};

/// How much later and earlier than UTC the day begins: anywhere, in America, and in Europe.
const ZONES: [i64; 6] = [12 * HOUR, 5 * HOUR, HOUR, -HOUR, -5 * HOUR, -14 * HOUR];

/// A size of pages that cuts most lists.
const SMALL_PAGE: u16 = 7;

/// So many terms of a kind are tried.
const MOST_TERMS: usize = 4;

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
        // Without a page size, with a small one, and so that the last page is full; of a filter the third one is for another
        // term than the largest, and the last one for a term without listings, or with few.
        (0, _) => 3,
        (1, None) => 4,
        // Times without offset are rare.
        (1, Some(form)) => TIMES[form as usize] + u16::from(form != Form::Local),
        _ if apart(shape).is_some() => 2,
        // The others follow later.
        _ if is_quiet_first(shape) => 2,
        _ if quiet_beside(shape).is_some() && shape.form() == Some(Form::Zoned) => 2,
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

/// The filter beside a time where every other example is a term in which nothing was modified since. An origin may treat an
/// empty list in its own way.
fn quiet_beside(shape: Shape) -> Option<TaxonomyKind> {
    let kind = TaxonomyKind::ALL.into_iter().find(|kind| shape.has(*kind))?;
    (shape.form().is_some() && shape.filters() == 2).then_some(kind)
}

fn is_quiet_first(shape: Shape) -> bool {
    quiet_beside(shape) == Some(TaxonomyKind::Cities) && shape.form() == Some(Form::Date)
}

impl Example {
    /// The example of this turn; `None`: the data has none that is not one of an earlier turn.
    /// Terms in `doubtful` say nothing about a shape. `now`: nanoseconds since 1970.
    pub(super) fn of(dataset: &Dataset, shape: Shape, turn: u16, doubtful: &DoubtfulTerms, now: i64) -> Option<Self> {
        if shape == Shape::LIST {
            return Self::of_list(dataset, turn);
        }
        if let Some(pair) = apart(shape).filter(|_| turn % 2 == 1) {
            return Self::elsewhere(dataset, shape, pair, turn, doubtful, now);
        }
        if quiet_beside(shape).is_some() && turn % 2 == 1 {
            let exact =
                (turn / 2 % 2 == u16::from(is_quiet_first(shape))).then(|| Self::exact(dataset, shape, turn, doubtful));
            return exact.flatten().or_else(|| Self::quiet(dataset, shape, turn, doubtful, now));
        }
        if let Some(kind) = shape.only_taxonomy().filter(|_| turn % 4 == 3) {
            let nth = usize::from(turn / 4) % MOST_TERMS;
            let empty = || without_listings(dataset, kind).nth(nth);
            let few = || with_few(dataset, kind, doubtful).get(nth).map(|(slug, _)| *slug);
            // Cities with few listings are many.
            let is_few = (turn / 4).is_multiple_of(2) == (kind == TaxonomyKind::Cities);
            let slug = if is_few { few().or_else(empty) } else { empty().or_else(few) };
            let query = slug.map(|slug| ListQuery::default().with_term(kind, slug));
            if query.is_some() || turn < turns(shape) {
                return Some(Self { query: query?, tells: true });
            }
        }
        let chosen = chosen(dataset, shape, turn, doubtful);
        let Some(form) = shape.form() else {
            return best(dataset, chosen.into_iter().map(|(query, _)| query), shape, turn);
        };
        if shape.filters() == 1 {
            let modified = sorted(dataset.modified().collect());
            let all = times(&modified, form, modified.last().copied()?);
            // Later examples are those of the first turns, which the data may have changed.
            let at = usize::from(turn % turns(shape));
            return match all.get(at) {
                None if at == all.len() => Self::quiet(dataset, shape, turn, doubtful, now),
                None if turn < turns(shape) => None,
                _ => best(dataset, all.get(at.checked_rem(all.len())?).cloned(), shape, turn),
            };
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
        now: i64,
    ) -> Option<Self> {
        let base = match shape.filters() {
            2 => None,
            _ => Some(Self::of(dataset, shape.without(kind), turn / 2, doubtful, now)?.query),
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

    /// A time after the last listing: of all, if that has passed, or of a term.
    fn quiet(dataset: &Dataset, shape: Shape, turn: u16, doubtful: &DoubtfulTerms, now: i64) -> Option<Self> {
        let form = shape.form()?;
        let after = |modified: i64| {
            let at = if form == Form::Date { day_after(modified) } else { (modified.div_euclid(SECOND) + 1) * SECOND };
            let format = [DAYS, ZULU, LOCAL][form as usize];
            let query = ListQuery { per_page: ListQuery::DEFAULT_PER_PAGE, ..since(written(at, format, 0)?, at) };
            Some((at, query))
        };
        let last = dataset.modified().max()?;
        let Some(kind) = quiet_beside(shape) else {
            let (_, query) = after(last).filter(|(at, _)| *at <= now)?;
            // It does not show where a day begins.
            return Some(Self { query, tells: false });
        };
        let mut quiet = telling(dataset, kind, doubtful).into_iter().filter_map(|(slug, of)| {
            let (at, query) = after(of.iter().filter_map(|position| dataset.modified_at(position)).max()?)?;
            (at < last).then(|| query.with_term(kind, slug))
        });
        Some(Self { query: quiet.nth(usize::from(turn / 2) % 2)?, tells: true })
    }

    /// The very second of a listing, beside a term of it: the origin may count it otherwise than in the list without terms. It
    /// is the same second for each kind of terms, which the origin is asked about once.
    fn exact(dataset: &Dataset, shape: Shape, turn: u16, doubtful: &DoubtfulTerms) -> Option<Self> {
        let (kind, form) = (quiet_beside(shape)?, shape.form()?);
        let unit = if form == Form::Date { DAY } else { SECOND };
        let of_sport = |(_, of): &(&str, &Positions)| {
            let of = of.iter().filter_map(|position| Some((dataset.modified_at(position)?, position)));
            let mut of: Vec<(i64, u32)> = of.filter(|(at, _)| at % unit == 0).collect();
            of.sort_unstable();
            // There are others before and after.
            of.get(of.len() / 2).copied()
        };
        let sports = telling(dataset, TaxonomyKind::Sports, doubtful);
        let (at, position) = sports.iter().filter_map(of_sport).take(2).nth(usize::from(turn / 4) % 2)?;
        let mut terms = dataset.known_terms(kind).filter(|(_, of)| of.contains(position));
        let (slug, _) = terms.find(|(slug, _)| doubtful.is_empty() || !doubtful.contains(&name(kind, slug)))?;
        let query = since(written(at, [DAYS, ZULU, LOCAL][form as usize], 0)?, at).with_term(kind, slug);
        Some(Self { query, tells: true })
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

    /// The lists that show whether a term alone is answered otherwise: its own, those of terms that may go wrong with it, and
    /// those of other terms, with the flag. A filter that matches parts gets all slugs wrong that are part of another one; one
    /// that matches words, those with a word of this one; and an origin may leave out all terms without listings. `None`: these
    /// are too many, or there is no other term.
    pub(super) fn on_trial(
        dataset: &Dataset,
        of: &TermName,
        doubtful: &DoubtfulTerms,
    ) -> Option<Vec<(TermName, bool, Self)>> {
        let (kind, slugs) = (of.kind, Slugs::of(dataset, of.kind));
        let is_part = |slug: &str| slugs.is_part(slug);
        let is_akin = |slug: &str| slugs.share_a_word(slug, &of.slug);
        let is_tried = |slug: &&str| **slug != *of.slug && !doubtful.contains(&name(kind, slug));
        let others = || dataset.known_terms(kind).map(|(slug, _)| slug).filter(is_tried);
        let mut parts: Vec<&str> = match others().count() {
            _ if !is_part(&of.slug) => Vec::new(),
            count if count > MOST_PARTS => return None,
            _ => others().filter(|slug| is_part(slug)).collect(),
        };
        let akin: Vec<&str> = others().filter(|slug| is_akin(slug) && !parts.contains(slug)).take(MOST_TERMS).collect();
        parts.extend(akin);
        if without_listings(dataset, kind).any(|slug| *slug == *of.slug) {
            parts.extend(without_listings(dataset, kind).filter(is_tried).take(MOST_TERMS));
        }
        // A directory may hide or fill all places with few listings: terms like it show that.
        let few = with_few(dataset, kind, doubtful);
        let is_of_few = few.iter().any(|(slug, _)| **slug == *of.slug);
        let alike = if is_of_few { few } else { telling(dataset, kind, doubtful) };
        let leaves_out = alike.iter().filter(|(_, positions)| positions.len() < dataset.len() as u64);
        let controls =
            leaves_out.map(|(slug, _)| *slug).filter(|slug| is_tried(slug) && !is_part(slug) && !is_akin(slug));
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
                // Every fourth is of another kind.
                turn => turn - turn / 4 - 2 + usize::from(largest == 0),
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
