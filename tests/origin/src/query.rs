//! The query of the listing endpoint, and the venues it selects.
//!
//! The selection is a predicate on one venue, without an index. Callers: the listing endpoint.

use jiff::civil::{Date, DateTime, ISOWeekDate};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use percent_encoding::percent_decode_str;
use sample::Venue;
use sample::data::SPORTS;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::edges::{BadNumber, Commas, Elsewhere, OddSince, Repeated, TooMany, UnknownSlug};
use super::switches::{Combine, Dates, ModifiedStyle, Numbers, Quirk, Since, Slugs, Switches};
use super::world::World;

/// Status and complaint.
pub(super) type Refusal = (u16, String);

/// A query, decoded.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) page: Option<u64>,
    pub(super) per_page: Option<u64>,
    /// Name and decoded value of each non-empty filter, in the order of the echo.
    pub(super) filters: Vec<(&'static str, String)>,
    /// The same, with slugs as they are compared.
    folded: Vec<(&'static str, String)>,
    /// The filters whose values are several, with commas between them.
    several: Vec<&'static str>,
    since: Option<Timestamp>,
}

/// Names of the filters, in the order of the echo.
const FILTERS: [&str; 4] = ["sport", "state", "city", "modified_since"];

impl Query {
    /// Parses the part after the `?`; unknown parameters are ignored. `now`: the origin's time.
    pub(super) fn parse(raw: &str, world: &World, switches: &Switches, now: Timestamp) -> Result<Self, Refusal> {
        let edges = &switches.edges;
        let value_of = |name: &str| -> Result<Option<String>, Refusal> {
            let pairs = raw.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            let values = pairs.filter(|pair| decode(pair.0) == name).map(|pair| decode(pair.1));
            let mut values: Vec<_> = values.filter(|value| edges.empty_counts || !value.is_empty()).collect();
            let (first, last) = (values.first().cloned(), values.pop());
            match (first, last) {
                (Some(first), Some(last)) if first != last => match edges.repeated {
                    Repeated::First => Ok(Some(first)),
                    Repeated::Either if !matches!(name, "sport" | "state" | "city") => Ok(Some(last)),
                    Repeated::Either => Ok(Some([&values[..], &[last]].concat().join(","))),
                    Repeated::Last => Ok(Some(last)),
                    Repeated::Refused => Err((400, format!("{name} is given twice: '{first}', '{last}'"))),
                },
                (_, last) => Ok(last),
            }
        };
        let count = |name: &str| match value_of(name)? {
            None => Ok(None),
            Some(value) => match number(&value, switches.numbers) {
                Some(number) if number > 0 => Ok(Some(number)),
                _ if edges.bad_number == BadNumber::Default => Ok(None),
                _ => Err((400, format!("{name}: '{value}' is not a positive integer"))),
            },
        };
        let is_repeated = |name: &str| {
            let pairs = raw.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|pair| decode(pair.0) == name && !pair.1.is_empty()).count() > 1
        };
        let is_several = |name: &str| edges.commas == Commas::Either || is_repeated(name);
        let (mut filters, mut several, mut since) = (Vec::new(), Vec::new(), None);
        for name in FILTERS.into_iter().filter(|name| !switches.dropped.contains(name)) {
            let is_beside = |pair: &(&str, &str)| pair.0 == name && value_of(pair.1).is_ok_and(|value| value.is_some());
            if switches.dropped_beside.iter().any(is_beside) {
                continue;
            }
            let Some(value) = value_of(name)? else { continue };
            if name == "modified_since" {
                let at = parse_instant(&value, switches);
                if let (Some(at), Some(Quirk::RefusesBefore(second))) = (at, switches.quirk)
                    && at.as_second() < second
                {
                    return Err((400, format!("{name}: '{value}' is too long ago")));
                }
                if let (Some(at), Some(Quirk::RefusesAfter(second))) = (at, switches.quirk)
                    && at.as_second() > second
                {
                    return Err((400, format!("{name}: '{value}' is too late")));
                }
                match at.map(|at| if switches.quirk == Some(Quirk::WholeHours) { hour(at) } else { at }) {
                    Some(at) if at <= now || edges.odd_since == OddSince::Usual => since = Some(at),
                    _ if edges.odd_since == OddSince::Ignored => continue,
                    Some(_) => return Err((400, format!("{name}: '{value}' lies in the future"))),
                    None => return Err((400, format!("{name}: '{value}' is not ISO 8601"))),
                }
            } else if !parts(&fold(&value, switches.slugs), is_several(name))
                .iter()
                .any(|slug| is_known(world, name, slug))
            {
                match edges.unknown_slug {
                    UnknownSlug::Nothing => {}
                    UnknownSlug::Ignored => continue,
                    UnknownSlug::NotFound => return Err((404, format!("no such {name}: '{value}'"))),
                }
            }
            if is_several(name) {
                several.push(name);
            }
            filters.push((name, value));
        }
        let per_page = match count("per_page")? {
            Some(size) if size > edges.largest_page && edges.too_many == TooMany::Refused => {
                return Err((400, format!("per_page: '{size}' is more than {}", edges.largest_page)));
            }
            size => size.map(|size| size.min(edges.largest_page)),
        };
        let folded = filters.iter().map(|(name, value)| (*name, fold(value, switches.slugs))).collect();
        Ok(Self { page: count("page")?, per_page, filters, folded, several, since })
    }

    /// The same with its first filter alone, unless there is a time.
    pub(super) fn first_alone(mut self) -> Self {
        if self.since.is_none() {
            self.filters.truncate(1);
            self.folded.truncate(1);
        }
        self
    }

    /// A state and a city, both known and without a common venue, if these are asked for.
    pub(super) fn outside(&self, world: &World) -> Option<(&str, &str)> {
        let slug = |name: &str| self.folded.iter().find(|filter| filter.0 == name).map(|filter| filter.1.as_str());
        let (state, city) = (slug("state")?, slug("city")?);
        let is_in = |venue: &Venue, state_too: bool, city_too: bool| {
            let [_, in_state, in_city] = world.labels(venue).map(|label| label.0);
            (in_state == state || !state_too) && (in_city == city || !city_too)
        };
        let has = |state, city| world.venues.iter().any(|venue| is_in(venue, state, city));
        (has(true, false) && has(false, true) && !has(true, true)).then_some((state, city))
    }

    /// A predicate for the selected venues.
    pub(super) fn selection<'a>(&self, world: &'a World, switches: &Switches) -> impl Fn(&Venue) -> bool + use<'a> {
        let slug = |name: &str| self.folded.iter().find(|filter| filter.0 == name).map(|filter| filter.1.as_str());
        // An unknown slug is in no bucket; of several any will do.
        let is_part = switches.slugs == Slugs::Part;
        let buckets = |name: &str, known: &[&str]| {
            let asked = parts(slug(name)?, self.several.contains(&name));
            let fits = |known: &str| asked.iter().any(|slug| *slug == known || (is_part && known.contains(slug)));
            let found = known.iter().enumerate().filter(|(_, known)| fits(known));
            Some(found.map(|(place, _)| place).collect::<Vec<usize>>())
        };
        let sport = buckets("sport", &SPORTS.each_ref().map(|sport| sport.slug));
        let state = buckets("state", &world.map.states.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
        let city_wins = switches.edges.elsewhere == Elsewhere::CityCounts && self.outside(world).is_some();
        let state = state.filter(|_| !city_wins);
        let city = buckets("city", &world.map.cities.iter().map(|city| &*city.slug).collect::<Vec<&str>>());
        let since = self.since.map(|at| (at, switches.since));
        let has_terms = self.filters.len() > 1;
        let (combine, unfiltered) = (switches.combine, self.filters.is_empty());
        let days = switches.modified == ModifiedStyle::Day;
        move |venue| {
            let place = &world.map.places[usize::from(venue.place)];
            let modified = if days { first_instant(venue.modified.at) } else { venue.modified.at };
            let passes = |(at, since)| match since {
                Since::After => modified > at,
                Since::AtOrAfter => modified >= at,
                Since::AtOrAfterOfTerms => modified > at || (modified == at && has_terms),
                Since::Ignored => true,
            };
            let verdicts = [
                sport.as_ref().map(|sports| sports.contains(&usize::from(venue.sport))),
                state.as_ref().map(|states| states.contains(&usize::from(place.state))),
                city.as_ref().map(|cities| cities.contains(&usize::from(place.city))),
                since.map(passes),
            ];
            match combine {
                Combine::All => !verdicts.contains(&Some(false)),
                Combine::Any => unfiltered || verdicts.contains(&Some(true)),
            }
        }
    }
}

/// Reads a whole number; `None`: it is none, or below 0.
pub(super) fn number(text: &str, numbers: Numbers) -> Option<u64> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let whole = |text: &str| (digits(text) > 0).then(|| text[..digits(text)].parse().unwrap_or(u64::MAX));
    match numbers {
        Numbers::Strict => text.parse().ok().filter(|number: &u64| number.to_string() == text),
        Numbers::ParseInt => {
            let text = text.trim_start();
            whole(text.strip_prefix('+').unwrap_or(text))
        }
        Numbers::Python => {
            let text = text.trim();
            let text = text.strip_prefix('+').unwrap_or(text);
            let is_apart = !text.starts_with('_') && !text.ends_with('_') && !text.contains("__");
            let plain = text.replace('_', "");
            whole(&plain).filter(|_| is_apart && digits(&plain) == plain.len())
        }
    }
}

/// A slug as it is compared.
fn fold(slug: &str, slugs: Slugs) -> String {
    match slugs {
        Slugs::Exact | Slugs::Part => slug.to_owned(),
        Slugs::Loose => slug.trim().to_lowercase().nfd().filter(|letter| !is_combining_mark(*letter)).collect(),
    }
}

/// The slugs of a value.
fn parts(value: &str, is_several: bool) -> Vec<&str> {
    if is_several { value.split(',').collect() } else { vec![value] }
}

/// Whether a term has this slug.
fn is_known(world: &World, parameter: &str, slug: &str) -> bool {
    match parameter {
        "sport" => SPORTS.iter().any(|sport| sport.slug == slug),
        "state" => world.map.states.iter().any(|state| state == slug),
        _ => world.map.cities.iter().any(|city| city.slug == slug),
    }
}

/// The beginning of the day in UTC.
fn first_instant(at: Timestamp) -> Timestamp {
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(86_400)).unwrap_or(at)
}

/// The beginning of the hour.
fn hour(at: Timestamp) -> Timestamp {
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(3600)).unwrap_or(at)
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// A date is its first instant; the `+` of an offset may have become a space. An instant that is too late for the clock
/// is the last one.
fn parse_instant(text: &str, Switches { dates, reading, .. }: &Switches) -> Option<Timestamp> {
    let at = |zone: &TimeZone, civil: DateTime| zone.to_timestamp(civil).unwrap_or(Timestamp::MAX);
    let day = |date: Date| at(&reading.dates, date.at(0, 0, 0, 0));
    let text = text.replace(' ', "+");
    if *dates == Dates::Iso {
        let with_day = if text.len() == "2025-W22".len() { format!("{text}-1") } else { text.clone() };
        let week = with_day.parse::<ISOWeekDate>().ok().filter(|_| text.contains('W'));
        let date = week.map(ISOWeekDate::date).or_else(|| text.parse().ok().filter(|_| !text.contains('T')));
        if let Some(date) = date {
            return Some(day(date));
        }
    } else {
        let has_dashes = [4, 7].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
        let fraction = text.split_once('.').map_or(0, |(_, rest)| rest.len());
        if !has_dashes || text.contains([',', 'W']) || fraction > "123456789+00:00".len() {
            return None;
        }
        if text.len() == "2025-01-31".len() {
            let day = day(text.parse().ok()?);
            return if reading.as_text { day.checked_sub(NANOSECOND).ok() } else { Some(day) };
        }
    }
    let text = short_fraction(&text.replace(',', "."));
    if reading.as_text {
        // A space is less than `T`: all times of that day are less.
        return day(text.get(.."2025-01-31".len())?.parse::<Date>().ok()?.tomorrow().ok()?)
            .checked_sub(NANOSECOND)
            .ok();
    }
    let civil = text.trim_end_matches('Z').parse::<DateTime>().ok().filter(|_| reading.drops_offset);
    if let Some(civil) = civil {
        return Some(at(&reading.times, civil));
    }
    let instant = match text.parse::<Timestamp>() {
        Ok(instant) => instant,
        Err(_) if text.contains('T') => at(&reading.times, text.parse().ok()?),
        Err(_) => return None,
    };
    if reading.only_dates { Some(day(text.get(.."2025-01-31".len())?.parse().ok()?)) } else { Some(instant) }
}

const NANOSECOND: SignedDuration = SignedDuration::from_nanos(1);

/// The same instant with at most nine decimals.
fn short_fraction(text: &str) -> String {
    let Some((whole, rest)) = text.split_once('.') else { return text.to_owned() };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    format!("{whole}.{}{}", &rest[..digits.min(9)], &rest[digits..])
}

#[cfg(test)]
mod tests {
    use super::super::switches::Reading;
    use super::*;

    #[test]
    fn instants_are_read_in_all_documented_shapes() {
        let parse_instant = |text: &str| parse_instant(text, &Switches::default());
        let midnight = parse_instant("2025-01-31").unwrap();
        for text in
            ["2025-01-31T00:00:00Z", "2025-01-31T00:00:00", "2025-01-30T19:00:00-05:00", "2025-01-31T01:00:00 01:00"]
        {
            assert_eq!(parse_instant(text), Some(midnight), "{text}");
        }
        for text in ["yesterday", "2025-13-01", "2025-01-3", "1738281600", "2025-02-30", "20250131", "2025-W05-5"] {
            assert_eq!(parse_instant(text), None, "{text}");
        }
        assert_eq!(parse_instant("9999-12-31"), Some(Timestamp::MAX), "never");
    }

    #[test]
    fn other_spellings_of_instants_are_read_in_that_dialect() {
        let switches = Switches { dates: Dates::Iso, ..Switches::default() };
        let parse_instant = |text: &str| parse_instant(text, &switches);
        let midnight = "2025-01-31T00:00:00Z".parse().unwrap();
        for text in [
            "2025-01-31",
            "20250131",
            "20250131T000000Z",
            "2025-W05-5",
            "2025-01-31T00:00:00,0Z",
            "2025-01-31T00:00:00.0000000000009Z",
        ] {
            assert_eq!(parse_instant(text), Some(midnight), "{text}");
        }
        assert_eq!(parse_instant("2025-W05"), "2025-01-27T00:00:00Z".parse().ok());
        assert_eq!(parse_instant("yesterday"), None);
    }

    #[test]
    fn numbers_are_read_in_three_ways() {
        for (text, strict, parse_int, python) in [
            ("2", Some(2), Some(2), Some(2)),
            ("2.0", None, Some(2), None),
            ("2abc", None, Some(2), None),
            (" 2", None, Some(2), Some(2)),
            ("+2", None, Some(2), Some(2)),
            ("02", None, Some(2), Some(2)),
            ("1_0", None, Some(1), Some(10)),
            ("1__0", None, Some(1), None),
            ("x", None, None, None),
            ("-2", None, None, None),
            ("", None, None, None),
        ] {
            let read = [Numbers::Strict, Numbers::ParseInt, Numbers::Python].map(|numbers| number(text, numbers));
            assert_eq!(read, [strict, parse_int, python], "{text:?}");
        }
    }

    #[test]
    fn an_origin_may_read_instants_in_its_own_way() {
        let chicago = Reading::local("CST6CDT,M3.2.0,M11.1.0").unwrap();
        let days = Reading { only_dates: true, ..Reading::default() };
        let drops = Reading { drops_offset: true, ..chicago.clone() };
        let text = Reading { as_text: true, ..Reading::default() };
        for (reading, text, expected) in [
            (&chicago, "2025-01-31", "2025-01-31T06:00:00Z"),
            (&chicago, "2025-07-31", "2025-07-31T05:00:00Z"),
            (&chicago, "2025-01-31T12:00:00", "2025-01-31T18:00:00Z"),
            (&chicago, "2025-01-31T12:00:00Z", "2025-01-31T12:00:00Z"),
            (&drops, "2025-01-31T12:00:00Z", "2025-01-31T18:00:00Z"),
            (&text, "2025-01-31T12:00:00Z", "2025-01-31T23:59:59.999999999Z"),
            (&text, "2025-01-31", "2025-01-30T23:59:59.999999999Z"),
            (&days, "2025-01-31T12:00:00+01:00", "2025-01-31T00:00:00Z"),
        ] {
            let switches = Switches { reading: reading.clone(), ..Switches::default() };
            assert_eq!(parse_instant(text, &switches), Some(expected.parse().unwrap()), "{text}");
        }
        let world = World::generate(3, 1);
        let switches = Switches { dropped: vec!["city"], ..Switches::default() };
        let query = Query::parse("city=austin&sport=golf", &world, &switches, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(query.filters, [("sport", "golf".to_owned())]);
    }

    #[test]
    fn parameters_are_decoded_and_bad_ones_named() {
        let world = World::generate(3, 1);
        let parse = |raw: &str| Query::parse(raw, &world, &Switches::default(), Timestamp::UNIX_EPOCH);
        let query = parse("city=a%2db+c&page=3&&x=1&state=&page=4&sport").unwrap();
        assert_eq!((query.page, query.per_page), (Some(4), None));
        assert_eq!(query.filters, [("city", "a-b c".to_owned())]);
        for raw in ["page=0", "page=-1", "per_page=x", "page=%2B1", "page=99999999999999999999", "modified_since=x"] {
            let (status, complaint) = parse(raw).unwrap_err();
            assert_eq!(status, 400);
            assert!(complaint.starts_with(raw.split('=').next().unwrap()), "{complaint}");
        }
    }
}
