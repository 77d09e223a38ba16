//! The query of the listing endpoint, and the venues it selects.
//!
//! The selection is a predicate on one venue, without an index. Callers: the listing endpoint.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use percent_encoding::percent_decode_str;

use super::gazetteer::state_slug;
use super::places::STATES;
use super::sports::SPORTS;
use super::switches::{Combine, ModifiedStyle, Since, Switches};
use super::venue::Venue;
use super::world::World;

/// A query, decoded.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) page: Option<u64>,
    pub(super) per_page: Option<u64>,
    /// Name and decoded value of each non-empty filter, in the order of the echo.
    pub(super) filters: Vec<(&'static str, String)>,
    since: Option<Timestamp>,
}

/// Names of the filters, in the order of the echo.
const FILTERS: [&str; 4] = ["sport", "state", "city", "modified_since"];

impl Query {
    /// Parses the part after the `?`. Of a repeated parameter the last counts; unknown ones are ignored.
    ///
    /// # Errors
    ///
    /// A sentence that names the offending parameter and value.
    pub(super) fn parse(raw: &str) -> Result<Self, String> {
        let value_of = |name: &str| {
            let pairs = raw.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            let last = pairs.rev().find(|pair| decode(pair.0) == name)?;
            Some(decode(last.1)).filter(|value| !value.is_empty())
        };
        let count = |name: &str| match value_of(name) {
            None => Ok(None),
            Some(value) => match value.parse::<u64>() {
                Ok(number) if number > 0 && !value.starts_with('+') => Ok(Some(number)),
                _ => Err(format!("{name}: '{value}' is not a positive integer")),
            },
        };
        let filters: Vec<_> = FILTERS.into_iter().filter_map(|name| Some((name, value_of(name)?))).collect();
        let since = match filters.iter().find(|filter| filter.0 == "modified_since") {
            None => None,
            Some((name, value)) => Some(parse_instant(value).ok_or(format!("{name}: '{value}' is not ISO 8601"))?),
        };
        Ok(Self { page: count("page")?, per_page: count("per_page")?, filters, since })
    }

    /// A predicate for the selected venues.
    pub(super) fn selection<'a>(&self, world: &'a World, switches: &Switches) -> impl Fn(&Venue) -> bool + use<'a> {
        let slug = |name| self.filters.iter().find(|filter| filter.0 == name).map(|filter| filter.1.as_str());
        // An unknown slug becomes a bucket that nothing is in.
        let index = |found: Option<usize>| found.unwrap_or(usize::MAX);
        let sport = slug("sport").map(|slug| index(SPORTS.iter().position(|sport| sport.slug == slug)));
        let state = slug("state").map(|slug| index((0..STATES.len()).position(|at| state_slug(at as u8) == slug)));
        let city = slug("city").map(|slug| index(world.map.cities.iter().position(|city| city.slug == slug)));
        let since = self.since.map(|at| (at, switches.since));
        let (combine, unfiltered) = (switches.combine, self.filters.is_empty());
        let days = switches.modified == ModifiedStyle::Day;
        move |venue| {
            let place = &world.map.places[usize::from(venue.place)];
            let modified = if days { first_instant(venue.modified.at) } else { venue.modified.at };
            let passes = |(at, since)| match since {
                Since::After => modified > at,
                Since::AtOrAfter => modified >= at,
                Since::Ignored => true,
            };
            let verdicts = [
                sport.map(|sport| sport == usize::from(venue.sport)),
                state.map(|state| state == usize::from(place.state)),
                city.map(|city| city == usize::from(place.city)),
                since.map(passes),
            ];
            match combine {
                Combine::All => !verdicts.contains(&Some(false)),
                Combine::Any => unfiltered || verdicts.contains(&Some(true)),
            }
        }
    }
}

/// The beginning of the day in UTC.
fn first_instant(at: Timestamp) -> Timestamp {
    let second = at.as_second();
    Timestamp::from_second(second - second.rem_euclid(86_400)).unwrap_or(at)
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

/// A date is its first instant in UTC; without an offset a timestamp is UTC; the `+` of an offset may have become a
/// space.
fn parse_instant(text: &str) -> Option<Timestamp> {
    let utc = |civil: DateTime| jiff::tz::Offset::UTC.to_timestamp(civil).ok();
    let text = text.replace(' ', "+");
    if text.len() == "2025-01-31".len() {
        return utc(text.parse::<Date>().ok()?.at(0, 0, 0, 0));
    }
    match text.parse::<Timestamp>() {
        Ok(at) => Some(at),
        Err(_) if text.contains('T') => utc(text.parse::<DateTime>().ok()?),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_all_documented_shapes() {
        let midnight = parse_instant("2025-01-31").unwrap();
        for text in
            ["2025-01-31T00:00:00Z", "2025-01-31T00:00:00", "2025-01-30T19:00:00-05:00", "2025-01-31T01:00:00 01:00"]
        {
            assert_eq!(parse_instant(text), Some(midnight), "{text}");
        }
        for text in ["yesterday", "2025-13-01", "2025-01-3", "1738281600", "2025-02-30"] {
            assert_eq!(parse_instant(text), None, "{text}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_bad_ones_named() {
        let query = Query::parse("city=a%2db+c&page=3&&x=1&state=&page=4&sport").unwrap();
        assert_eq!((query.page, query.per_page), (Some(4), None));
        assert_eq!(query.filters, [("city", "a-b c".to_owned())]);
        for raw in ["page=0", "page=-1", "per_page=x", "page=%2B1", "page=99999999999999999999", "modified_since=x"] {
            let complaint = Query::parse(raw).unwrap_err();
            assert!(complaint.starts_with(raw.split('=').next().unwrap()), "{complaint}");
        }
    }
}
