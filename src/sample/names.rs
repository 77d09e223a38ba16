//! Names of venues, including those that break careless software.
//!
//! Quotes, backslashes, slashes, control characters, marks, other scripts and emoji all occur. `json` escapes them.
//! Callers: the generator.

use super::dice::Dice;

/// Ordinary first parts.
const PLAIN: [&str; 40] = [
    "Lincoln",
    "Riverside",
    "Memorial",
    "Veterans",
    "Jefferson",
    "Oakwood",
    "Lakeview",
    "Franklin",
    "Heritage",
    "Eastside",
    "Westgate",
    "Northfield",
    "Southpoint",
    "Pioneer",
    "Centennial",
    "Liberty",
    "Union",
    "Hillcrest",
    "Maple Grove",
    "Cedar Creek",
    "Sunset",
    "Harbor",
    "Mill Pond",
    "Prairie",
    "Summit",
    "Canyon",
    "Bayview",
    "Stonebridge",
    "Fairgrounds",
    "Roosevelt",
    "King",
    "Chavez",
    "Martin",
    "Washington",
    "Jackson",
    "Eagle",
    "Falcon",
    "Mustang",
    "Grant",
    "Willow",
];

/// First parts with something in them.
const ODD: [&str; 20] = [
    "Peña",
    "Kīlauea",
    "O'Brien",
    "\"Iron Mike\" Sadowski",
    "St. John’s",
    "Señor ⚾",
    "Łódź Friendship",
    "東京 Garden",
    "North / South",
    "A\\B Works",
    "Müller & Söhne",
    "Tab\tStop",
    "Kaʻahumanu",
    "Straße",
    "Niño–Díaz",
    "👩🏽‍🚀 Apollo",
    "<b>Bold</b>",
    "Cafe\u{301} Court",
    "Zoë",
    "100% Sports",
];

/// A name for a venue of the given kind in the given city.
pub(super) fn venue_name(dice: &mut Dice, kind: &str, city: &str) -> String {
    let first = if dice.chance(0.08) { dice.pick(&ODD) } else { dice.pick(&PLAIN) };
    match dice.below(10) {
        0 | 1 => format!("{city} {first} {kind}"),
        2 => format!("{first} {kind} of {city}"),
        3 => format!("{first} {kind} #{}", dice.below(40) + 1),
        4 => format!("{first} {} {kind}", dice.pick(&PLAIN)),
        _ => format!("{first} {kind}"),
    }
}
