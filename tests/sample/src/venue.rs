//! One synthetic venue as the world stores it: small, without derived data. Its numbers and times remember their spelling.
//!
//! JSON lets `4.5`, `4.50` and `45e-1` mean one number, ISO 8601 lets `Z` and `+00:00` mean one offset. A mirror must keep
//! the spelling, so it varies here. Not the venue's JSON (`world`) and not its place's name (`map`). Callers: the world,
//! and editors of it.

use jiff::{SignedDuration, Timestamp};

use crate::data::{ODD, PLAIN, SPORTS, STATES};
use crate::dice::Dice;
use crate::map::Map;

/// Seconds since 1970 of the oldest possible change, 2023-09-01T00:00:00Z.
const OLDEST: i64 = 1_693_526_400;
/// The span over which changes are spread, in seconds: three years.
const SPAN: u64 = 3 * 365 * 86_400;
/// How far inside its state's box a venue stays, in millionths of a degree.
const MARGIN: i32 = 2_000;

/// How a [`Decimal`] is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// With exactly this many decimals (0 to 6), cut off, trailing zeros kept.
    Fixed(u8),
    /// With 20 decimals, more than a double holds; the last 14 are made up.
    Long,
    /// As an integer with an exponent, `-97123000e-6`.
    Exponent,
}

/// A decimal number in millionths, with its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The value in millionths.
    pub millionths: i32,
    /// How it is written.
    pub digits: Digits,
}

impl Decimal {
    /// The number as JSON; `salt` determines made-up digits.
    pub fn text(self, salt: u64) -> String {
        let sign = if self.millionths < 0 { "-" } else { "" };
        let size = self.millionths.unsigned_abs();
        let (whole, rest) = (size / 1_000_000, size % 1_000_000);
        match self.digits {
            Digits::Fixed(0) => format!("{sign}{whole}"),
            Digits::Fixed(places) => {
                let places = u32::from(places.min(6));
                let shown = rest / 10_u32.pow(6 - places);
                format!("{sign}{whole}.{shown:0width$}", width = places as usize)
            }
            Digits::Long => {
                let invented = Dice::of(&[salt, u64::from(size)]).below(100_000_000_000_000);
                format!("{sign}{whole}.{rest:06}{invented:014}")
            }
            Digits::Exponent => format!("{}e-6", self.millionths),
        }
    }
}

/// How the offset of a [`Stamp`] is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// UTC as `Z`.
    Z,
    /// Local time with this offset from UTC in hours, `-05:00`; 0 is `+00:00`.
    Hours(i8),
}

/// An instant with its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The instant.
    pub at: Timestamp,
    /// How its offset is written.
    pub zone: Zone,
}

impl Stamp {
    /// The second that it is in.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { at: Timestamp::from_second(self.at.as_millisecond().div_euclid(1000)).unwrap_or(self.at), ..self }
    }

    /// The instant as `2025-01-31T23:59:59-05:00`; a fraction shows only if there is one.
    pub fn text(self) -> String {
        match self.zone {
            Zone::Z => format!("{}Z", jiff::tz::offset(0).to_datetime(self.at)),
            Zone::Hours(hours) => {
                let local = jiff::tz::offset(hours).to_datetime(self.at);
                format!("{local}{hours:+03}:00")
            }
        }
    }
}

/// A venue.
#[derive(Clone, Debug, PartialEq)]
pub struct Venue {
    /// Identifier, unique for ever.
    pub id: u64,
    /// Display name, unescaped.
    pub name: Box<str>,
    /// Index into the places.
    pub place: u16,
    /// Index into the sports.
    pub sport: u8,
    /// Latitude in degrees.
    pub lat: Decimal,
    /// Longitude in degrees.
    pub lng: Decimal,
    /// Mean rating, 1 to 5; `None` is written as `null`.
    pub rating: Option<Decimal>,
    /// Number of reviews.
    pub review_count: u32,
    /// When it last changed, as the listing claims.
    pub modified: Stamp,
    /// Source of the made-up parts of the detail, with the id: another edition, another detail.
    pub edition: u32,
}

impl Venue {
    /// Makes one up.
    pub(crate) fn invent(id: u64, map: &Map, dice: &mut Dice) -> Self {
        let place = map.draw_place(dice);
        let sport = map.draw_sport(dice);
        let city = &map.places[usize::from(place)];
        let state = &STATES[usize::from(city.state)];
        let [south, west, north, east] = state.bounds;
        let digits = coordinate_digits(dice);
        let lat = Decimal { millionths: jitter(dice, city.middle.0, south, north), digits };
        let lng = Decimal { millionths: jitter(dice, city.middle.1, west, east), digits };
        // Squared: most venues have few reviews, some have thousands.
        let fame = dice.fraction();
        let review_count = (fame * fame * fame * 4_000.0) as u32;
        let rating = (review_count > 0).then(|| invent_rating(dice));
        let kind = dice.pick(SPORTS[usize::from(sport)].kinds);
        let name = venue_name(dice, kind, city.name).into_boxed_str();
        let modified = invent_stamp(dice, state.hours);
        Self { id, name, place, sport, lat, lng, rating, review_count, modified, edition: 0 }
    }

    /// A new name and rating, as an editor would give them; `modified` stays.
    pub fn renew(&mut self) {
        self.edition += 1;
        let base = self.name.split(" №").next().unwrap_or_default();
        self.name = format!("{base} №{}", self.edition).into_boxed_str();
        self.rating = Some(invent_rating(&mut Dice::of(&[self.id, u64::from(self.edition)])));
        self.review_count += 1;
    }

    /// [`renew`](Self::renew), as of the given instant.
    pub fn touch(&mut self, at: Timestamp) {
        self.renew();
        self.modified.at = at;
    }
}

fn jitter(dice: &mut Dice, middle: f64, low: f64, high: f64) -> i32 {
    let millionths = |degrees: f64| (degrees * 1e6).round() as i32;
    // The sum of two draws: denser in the middle of the city.
    let shift = (dice.fraction() + dice.fraction() - 1.0) * 0.12;
    millionths(middle + shift).clamp(millionths(low) + MARGIN, millionths(high) - MARGIN)
}

fn coordinate_digits(dice: &mut Dice) -> Digits {
    match dice.below(50) {
        0 => Digits::Long,
        1 => Digits::Exponent,
        2..10 => Digits::Fixed(4),
        10..15 => Digits::Fixed(5),
        _ => Digits::Fixed(6),
    }
}

fn invent_rating(dice: &mut Dice) -> Decimal {
    let tenths = 50 - (dice.below(7) * dice.below(7)) as i32;
    let digits = match dice.below(20) {
        0 => Digits::Fixed(2),
        1 => Digits::Exponent,
        2 if tenths % 10 == 0 => Digits::Fixed(0),
        _ => Digits::Fixed(1),
    };
    Decimal { millionths: tenths * 100_000, digits }
}

fn invent_stamp(dice: &mut Dice, hours: i8) -> Stamp {
    let seconds = match dice.below(50) {
        // Bulk imports: many listings changed in the same second.
        0 => (dice.below(6) + 1) * (SPAN / 8),
        _ => dice.below(SPAN),
    };
    let millis = if dice.below(40) == 0 { dice.below(1_000) } else { 0 };
    let since = SignedDuration::new(OLDEST + seconds.cast_signed(), millis as i32 * 1_000_000);
    let zone = match dice.below(10) {
        0..5 => Zone::Hours(hours),
        5..8 => Zone::Hours(0),
        _ => Zone::Z,
    };
    Stamp { at: Timestamp::UNIX_EPOCH + since, zone }
}

/// A name for a venue of the given kind in the given city.
fn venue_name(dice: &mut Dice, kind: &str, city: &str) -> String {
    let first = if dice.chance(0.08) { dice.pick(&ODD) } else { dice.pick(&PLAIN) };
    match dice.below(10) {
        0 | 1 => format!("{city} {first} {kind}"),
        2 => format!("{first} {kind} of {city}"),
        3 => format!("{first} {kind} #{}", dice.below(40) + 1),
        4 => format!("{first} {} {kind}", dice.pick(&PLAIN)),
        _ => format!("{first} {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(millionths: i32, digits: Digits) -> String {
        Decimal { millionths, digits }.text(7)
    }

    #[test]
    fn decimals_are_written_as_asked() {
        assert_eq!(spelled(4_500_000, Digits::Fixed(2)), "4.50");
        assert_eq!(spelled(4_000_000, Digits::Fixed(0)), "4");
        assert_eq!(spelled(-97_123_000, Digits::Fixed(4)), "-97.1230");
        assert_eq!(spelled(-500_000, Digits::Fixed(1)), "-0.5");
        assert_eq!(spelled(-97_123_000, Digits::Exponent), "-97123000e-6");
        let long = spelled(-97_012_345, Digits::Long);
        assert!(long.starts_with("-97.012345") && long.len() == "-97.".len() + 20, "{long}");
    }

    #[test]
    fn stamps_of_one_instant_differ_only_in_spelling() {
        let at: Timestamp = "2025-03-01T02:00:00Z".parse().unwrap();
        let text = |zone| Stamp { at, zone }.text();
        assert_eq!(text(Zone::Z), "2025-03-01T02:00:00Z");
        assert_eq!(text(Zone::Hours(0)), "2025-03-01T02:00:00+00:00");
        assert_eq!(text(Zone::Hours(-5)), "2025-02-28T21:00:00-05:00");
        assert_eq!(text(Zone::Hours(-5)).parse::<Timestamp>().unwrap(), at);
    }
}
