//! One synthetic venue as the world stores it: small, without derived data.
//!
//! Not its JSON (`listing`) and not its place's name (`gazetteer`). Callers: the world, and editors of it.

use jiff::{SignedDuration, Timestamp};

use super::dice::Dice;
use super::gazetteer::Gazetteer;
use super::names::venue_name;
use super::places::STATES;
use super::spelling::{Decimal, Digits, Stamp, Zone};
use super::sports::SPORTS;

/// Seconds since 1970 of the oldest possible change, 2023-09-01T00:00:00Z.
const OLDEST: i64 = 1_693_526_400;
/// The span over which changes are spread, in seconds: three years.
const SPAN: u64 = 3 * 365 * 86_400;
/// How far inside its state's box a venue stays, in millionths of a degree.
const MARGIN: i32 = 2_000;

/// A venue.
#[derive(Clone, Debug, PartialEq)]
pub struct Venue {
    /// Identifier, unique for ever.
    pub id: u64,
    /// Display name, unescaped.
    pub name: Box<str>,
    /// Its place; set it with [`World::relocate`](super::World::relocate).
    pub(super) place: u16,
    /// Index into the sports.
    pub(super) sport: u8,
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
    pub(super) fn invent(id: u64, map: &Gazetteer, dice: &mut Dice) -> Self {
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
    pub(super) fn renew(&mut self) {
        self.edition += 1;
        let base = self.name.split(" №").next().unwrap_or_default();
        self.name = format!("{base} №{}", self.edition).into_boxed_str();
        self.rating = Some(invent_rating(&mut Dice::of(&[self.id, u64::from(self.edition)])));
        self.review_count += 1;
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
