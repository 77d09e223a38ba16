//! Search query: parsed once into the form that is its cache key.
//!
//! Callers: [`crate::edge::answer`] parses, [`crate::edge::search`] answers; [`super::finder`] searches, too.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::folding::{each_word, folded};
use super::{Boxed, ListQuery, QueryError, boxed, known_only, list_of, path_and_query};
use crate::words::named;

/// The parameters of `/search.json`.
pub(crate) const KNOWN: [&str; 12] =
    ["q", "near", "radius", "bbox", "sport", "state", "city", "modified_since", "page", "per_page", "sort", "facets"];
const NAMED: &str = "q, near, radius, bbox, sport, state, city, modified_since, page, per_page, sort, facets";

/// The most characters of `q`.
pub(crate) const MOST_CHARACTERS: usize = 200;

/// So many words are looked for.
pub(crate) const MOST_WORDS: usize = 8;

/// Words that say nothing beside others.
const FILLERS: [&str; 6] = ["in", "near", "at", "of", "the", "and"];

/// Fillers after which a query says where: `golf in texas`.
const BEFORE_A_PLACE: [&str; 2] = ["in", "near"];

/// Whether a folded word says nothing beside others.
pub(crate) fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word)
}

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Order, as_str {
        /// Nearest first with `near`, else the best match; without words the origin's order.
        Usual = "",
        Best = "best",
        Distance = "distance",
        Name = "name",
        /// The best rated first; a rating of few counts less.
        Rating = "rating",
        Reviews = "reviews",
    }
}

/// The most bytes of `near`, `radius` and `bbox`.
const MOST_OF_NUMBERS: usize = 200;

/// `radius` where it is absent.
const RADIUS_METRES: u32 = 50_000;
/// The largest `radius`: half way round the earth.
const LARGEST_RADIUS_KM: f64 = 20_038.0;

/// So many units of a coordinate make a degree: a unit is about a centimetre.
pub const PER_DEGREE: f64 = 1e7;

/// A point on the earth, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    pub lat: i32,
    pub lng: i32,
}

impl Point {
    /// A point in degrees; `None` if there is none.
    pub fn of(lat: f64, lng: f64) -> Option<Self> {
        let unit = |degrees: f64, most: f64| (degrees.abs() <= most).then(|| (degrees * PER_DEGREE).round() as i32);
        Some(Self { lat: unit(lat, 90.0)?, lng: unit(lng, 180.0)? })
    }

    /// The middle of some points: half of them lie on each side, so one wrong place moves nothing. `None`: there are none.
    pub(crate) fn middle(points: impl Iterator<Item = Self>) -> Option<Self> {
        let (lats, lngs): (Vec<i32>, Vec<i32>) = points.map(|point| (point.lat, point.lng)).unzip();
        let median = |mut values: Vec<i32>| {
            let half = values.len() / 2;
            (half < values.len()).then(|| *values.select_nth_unstable(half).1)
        };
        Some(Self { lat: median(lats)?, lng: median(lngs)? })
    }
}

/// A part of the earth between two parallels and two meridians, its edges included. `west` beyond `east`: it crosses the
/// date line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub south_west: Point,
    pub north_east: Point,
}

impl Bounds {
    /// Whether a point lies in them. They may cross the date line.
    pub(crate) fn contains(&self, point: Point) -> bool {
        let Self { south_west, north_east } = self;
        let (after_west, before_east) = (point.lng >= south_west.lng, point.lng <= north_east.lng);
        let crosses = south_west.lng > north_east.lng;
        let is_between = if crosses { after_west || before_east } else { after_west && before_east };
        is_between && (south_west.lat..=north_east.lat).contains(&point.lat)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Near {
    /// Of a city, only after [`Near::of_city`].
    pub point: Point,
    /// In metres.
    pub radius: u32,
    /// The slug of a city in the place of a point.
    pub city: Boxed,
    /// `near` and `radius` as received.
    pub(super) text: Box<str>,
    radius_text: Boxed,
}

impl Near {
    /// Takes the middle of its city; without one nothing is near.
    pub(crate) fn of_city(&mut self, middle: Option<Point>) {
        let nowhere = || (Point { lat: (-90.0 * PER_DEGREE) as i32, lng: 0 }, 0);
        (self.point, self.radius) = middle.map_or_else(nowhere, |middle| (middle, self.radius));
    }

    /// Puts a point in the place of another one.
    pub(super) fn settle(&mut self, point: Point) {
        let [lat, lng] = [point.lat, point.lng].map(|units| f64::from(units) / PER_DEGREE);
        (self.point, self.text) = (point, format!("{lat},{lng}").into());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SearchQuery {
    /// `q` as received, its words, and those beyond the most that are looked for.
    pub text: Boxed,
    pub words: Vec<Box<str>>,
    pub beyond: Vec<Box<str>>,
    /// So many of the words are before those that say where.
    pub before_place: usize,
    pub near: Option<Near>,
    pub bounds: Option<Bounds>,
    bounds_text: Boxed,
    /// Filters, page and page size.
    pub list: ListQuery,
    pub order: Order,
    /// Whether the results of each sport and state are counted, too.
    pub has_facets: bool,
}

impl SearchQuery {
    /// Reads a raw query string; an empty value is as if absent. Refuses unknown parameters.
    pub fn parse(raw: &str) -> Result<Self, QueryError> {
        let [values @ .., facets] = known_only(raw, &KNOWN, NAMED)?;
        let has_facets = match facets.as_deref().unwrap_or_default() {
            "" => false,
            "1" => true,
            other => return Err(bad("facets", other, "1, or absent")),
        };
        Ok(Self { has_facets, ..Self::of(values)? })
    }

    /// `values`: in the order of [`KNOWN`], without `facets`.
    pub(super) fn of(values: [Option<Cow<'_, str>>; KNOWN.len() - 1]) -> Result<Self, QueryError> {
        let [q, near, radius, bbox, sport, state, city, since, page, per_page, sort] = values;
        let (list, _) = list_of([page, per_page, sport, state, city, since])?;
        let text = boxed(q);
        let Worded { words, beyond, before_place } = text.as_deref().map(words).transpose()?.unwrap_or_default();
        let bounds = bbox.as_deref().map(bounds).transpose()?;
        let near = match (boxed(near), boxed(radius)) {
            (Some(text), radius_text) => {
                let radius = radius_text.as_deref().map_or(Ok(RADIUS_METRES), metres)?;
                let city = is_slug(&text).then(|| text.clone());
                let point = if city.is_some() { Point { lat: 0, lng: 0 } } else { point(&text)? };
                Some(Near { point, radius, city, text, radius_text })
            }
            (None, Some(radius)) => return Err(bad("radius", &radius, "together with near")),
            (None, None) => None,
        };
        let order = sort.filter(|name| !name.is_empty()).map(|name| order(&name, near.is_some())).transpose()?;
        let order = order.unwrap_or(Order::Usual);
        Ok(Self {
            text,
            words,
            beyond,
            before_place,
            near,
            bounds,
            bounds_text: boxed(bbox),
            list,
            order,
            has_facets: false,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.filters().next().is_none()
    }

    /// What it looks for, by parameter name, in the documented order.
    pub fn filters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.own_filters().chain(self.list.filters())
    }

    /// The same without the filters of a list.
    pub fn own_filters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let near = self.near.as_ref();
        let values = [
            ("q", self.text.as_deref()),
            ("near", near.map(|near| &*near.text)),
            ("radius", near.and_then(|near| near.radius_text.as_deref())),
            ("bbox", self.bounds_text.as_deref()),
        ];
        values.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// The same with all results on one page, but for those after so many.
    #[must_use]
    pub fn whole(&self, most: u16) -> Self {
        Self { list: ListQuery { page: 1, per_page: most, ..self.list.clone() }, ..self.clone() }
    }

    /// The same from the first page on, in the order and with the page size of a search that asks for none.
    #[must_use]
    pub(super) fn in_usual_order(&self) -> Self {
        let list = ListQuery { slugs: self.list.slugs.clone(), ..ListQuery::default() };
        Self { list, order: Order::Usual, ..self.clone() }
    }

    /// What it weighs as a key, in bytes, about.
    pub fn weight(&self) -> usize {
        2 * self.own_filters().map(|(_, value)| value.len()).sum::<usize>() + self.list.weight() + 128
    }

    /// Appends path and canonical query of another page of the same search.
    pub fn write(&self, page: u64, out: &mut String) {
        self.write_at("/search.json", page, out);
    }

    pub(super) fn write_at(&self, path: &str, page: u64, out: &mut String) {
        let rest = [("sort", self.order.as_str()), ("facets", if self.has_facets { "1" } else { "" })];
        let rest = rest.into_iter().filter(|(_, value)| !value.is_empty());
        path_and_query(path, self.filters().chain(rest), page, self.list.per_page, out);
    }
}

pub(super) fn bad(parameter: &'static str, value: &str, expected: &'static str) -> QueryError {
    QueryError::BadValue { parameter, value: value.to_owned(), expected }
}

fn order(name: &str, is_near: bool) -> Result<Order, QueryError> {
    let order = Order::ALL.into_iter().find(|order| order.as_str() == name);
    match order.ok_or_else(|| bad("sort", name, "best, distance, name, rating or reviews"))? {
        Order::Distance if !is_near => Err(bad("sort", name, "together with near")),
        order => Ok(order),
    }
}

#[derive(Default)]
struct Worded {
    words: Vec<Box<str>>,
    beyond: Vec<Box<str>>,
    before_place: usize,
}

fn words(text: &str) -> Result<Worded, QueryError> {
    let mut words: Vec<Box<str>> = Vec::new();
    if text.chars().count() <= MOST_CHARACTERS {
        each_word(&folded(text), false, |word| words.push(word.into()));
    }
    if words.is_empty() {
        return Err(bad("q", text, "words, with at most 200 characters in all"));
    }
    let has_others = words.iter().any(|word| !is_filler(word));
    let place = words.iter().rposition(|word| BEFORE_A_PLACE.contains(&&**word)).filter(|_| has_others);
    let mut after = words.split_off(place.unwrap_or(words.len()));
    for part in [&mut words, &mut after] {
        let mut seen = HashSet::new();
        part.retain(|word| !(has_others && is_filler(word)) && seen.insert(word.clone()));
    }
    let before_place = words.len();
    words.append(&mut after);
    let beyond = words.split_off(words.len().min(MOST_WORDS));
    Ok(Worded { words, beyond, before_place })
}

/// Numbers with commas between them, in degrees or kilometres.
fn numbers<const N: usize>(text: &str) -> Option<[f64; N]> {
    let mut numbers = [0.0; N];
    // Pages show it many times.
    let mut parts = Some(text).filter(|text| text.len() <= MOST_OF_NUMBERS)?.split(',');
    for number in &mut numbers {
        let part = parts.next()?.trim();
        // Not every number of Rust is one here: `inf`, `nan`.
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then_some(numbers)
}

pub(super) fn point(text: &str) -> Result<Point, QueryError> {
    let point = numbers(text).and_then(|[lat, lng]| Point::of(lat, lng));
    point.ok_or_else(|| bad("near", text, "LAT,LNG in degrees, for example 30.27,-97.74, or the slug of a city"))
}

/// Whether it may be the slug of a city: a point has a comma.
fn is_slug(text: &str) -> bool {
    text.len() <= MOST_OF_NUMBERS && !text.contains(',') && text.contains(char::is_alphabetic)
}

pub(super) fn bounds(text: &str) -> Result<Bounds, QueryError> {
    let bounds = numbers(text).and_then(|[west, south, east, north]| {
        let (south_west, north_east) = (Point::of(south, west)?, Point::of(north, east)?);
        (south_west.lat <= north_east.lat).then_some(Bounds { south_west, north_east })
    });
    bounds.ok_or_else(|| bad("bbox", text, "W,S,E,N in degrees with S below N, for example -107,26,-94,37"))
}

fn metres(text: &str) -> Result<u32, QueryError> {
    let metres = numbers(text).filter(|[km]| (0.001..=LARGEST_RADIUS_KM).contains(km));
    let metres = metres.map(|[km]| (km * 1000.0).round() as u32);
    metres.ok_or_else(|| bad("radius", text, "a number of kilometres from 0.001 to 20038"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> SearchQuery {
        SearchQuery::parse(raw).unwrap_or_else(|error| panic!("{raw}: {error}"))
    }

    fn canonical(raw: &str) -> String {
        let query = parse(raw);
        let mut text = String::new();
        query.write(query.list.page, &mut text);
        text
    }

    #[test]
    fn a_query_is_read_into_words_places_and_filters() {
        let query = parse("q=Golf+%22Pe%C3%B1a%22&near=30.27,-97.74&sport=golf&page=2&per_page=1000&city=");
        assert_eq!(query.words, ["golf".into(), Box::<str>::from("pena")]);
        let near = query.near.as_ref().unwrap();
        assert_eq!((near.point, near.radius), (Point { lat: 302_700_000, lng: -977_400_000 }, 50_000));
        assert_eq!((query.list.page, query.list.per_page), (2, 100));
        let filters: Vec<_> = query.filters().collect();
        assert_eq!(filters, [("q", "Golf \"Peña\""), ("near", "30.27,-97.74"), ("sport", "golf")]);
        let over = parse("bbox=170,-90,-170,90").bounds.unwrap();
        assert!(over.south_west.lng > over.north_east.lng);
        assert_eq!(parse("near=+1+,+2&radius=1e1").near.unwrap().radius, 10_000);
        assert!(parse("page=3&q=").is_empty() && !parse("modified_since=2026-01-01").is_empty());
    }

    #[test]
    fn eight_words_are_looked_for_and_fillers_only_alone() {
        let words = |raw: &str| {
            let SearchQuery { words, beyond, .. } = parse(raw);
            (words.join(" "), beyond.join(" "))
        };
        assert_eq!(words("q=Golf+in+the+U.S.,+near+St.+Paul"), ("golf us st paul".into(), String::new()));
        assert_eq!(words("q=at+the"), ("at the".into(), String::new()));
        assert_eq!(words("q=1+2+3+4+of+5+6+7+8+9+10"), ("1 2 3 4 5 6 7 8".into(), "9 10".into()));
        assert_eq!(words("q=A+b+the+a+in+a+in+the+a"), ("a b a".into(), String::new()), "once, and once where");
        let before_place = |raw: &str| parse(raw).before_place;
        assert_eq!(
            ["q=golf+in+new+york", "q=a+in+b+near+c", "q=a+b", "q=in+a", "q=in"].map(before_place),
            [1, 2, 2, 0, 1]
        );
    }

    #[test]
    fn the_canonical_query_asks_the_same() {
        for (raw, text) in [
            ("per_page=50&q=a%20b&page=1", "/search.json?q=a%20b"),
            ("state=x&radius=5&near=1,2&page=3", "/search.json?near=1%2C2&radius=5&state=x&page=3"),
            ("sort=name&q=the+a", "/search.json?q=the%20a&sort=name"),
            ("facets=1&sort=best&q=a", "/search.json?q=a&sort=best&facets=1"),
            ("bbox=1,2,3,4&per_page=7", "/search.json?bbox=1%2C2%2C3%2C4&per_page=7"),
        ] {
            assert_eq!(canonical(raw), text);
            assert_eq!(parse(&text["/search.json?".len()..]), parse(raw));
        }
    }

    #[test]
    fn what_cannot_be_searched_is_refused_by_name() {
        assert!(
            SearchQuery::parse(&format!("q={}", "%F0%A0%AE%B7".repeat(200))).is_ok(),
            "characters count, not bytes"
        );
        let (long, wide) = (format!("q={}", "x".repeat(201)), format!("near=1,2.{}", "0".repeat(200)));
        for (raw, named) in [
            (long.as_str(), "`q`"),
            (wide.as_str(), "`near`"),
            ("q=%2B-%27", "`q`"),
            ("near=1", "`near`"),
            ("near=91,0", "`near`"),
            ("near=1,181", "`near`"),
            ("near=1,nan", "`near`"),
            ("near=1,2,3", "`near`"),
            ("near=1,2&radius=0", "`radius`"),
            ("near=1,2&radius=inf", "`radius`"),
            ("near=1,2&radius=20039", "`radius`"),
            ("radius=5&q=a", "together with near"),
            ("bbox=1,2,3", "`bbox`"),
            ("bbox=1,5,3,4", "`bbox`"),
            ("q=a&q=b", "twice"),
            ("q=a&page=0", "`page`"),
            ("q=a&query=b", "`query`"),
            ("q=a&sort=age", "distance"),
            ("q=a&sort=distance", "together with near"),
            ("q=a&facets=2", "`facets`"),
            ("q=a&snapshot=b", "`snapshot`"),
            ("modified_since=soon", "`modified_since`"),
        ] {
            let error = SearchQuery::parse(raw).unwrap_err().to_string();
            assert!(error.contains(named), "{raw}: {error}");
        }
        assert_eq!(parse(&long[..202]).words.len(), 1);
    }
}
