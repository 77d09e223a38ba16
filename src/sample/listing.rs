//! A venue as JSON: the summary in lists, and the detail at `/api/listings/{id}.json`.
//!
//! Parts that only the detail shows (address, hours, images, reviews, ...) are made up from id and edition each time,
//! so that a million venues fit in memory. Callers: `lists` and `answer`.

use super::answer::{Answer, Context, credits};
use super::dice::Dice;
use super::gazetteer::{slug_of, state_slug};
use super::json::{Escapes, Json};
use super::places::STATES;
use super::spelling::Decimal;
use super::sports::SPORTS;
use super::switches::ModifiedStyle;
use super::venue::Venue;

/// The provider's pages, to which `url` points.
const SITE: &str = "https://venues.example";
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const STREETS: [&str; 8] =
    ["Main St", "Park Ave", "Stadium Dr", "Elm St", "Cañada Rd", "1st St / Rear Gate", "Lake Shore Blvd", "Route 9"];
const REVIEWERS: [&str; 8] = ["Sam", "Renée", "Jo", "Bjørn", "Mei 美", "Ana-Lucía", "T.", "O'Neal"];
const OPINIONS: [&str; 8] = [
    "Great lights, bring a blanket.",
    "Parking is \"limited\".\nCome early.",
    "Best nachos in town 🌮",
    "Surface could use some work, staff is lovely.",
    "5/5 would play again",
    "Locker rooms were closed.",
    "Très bien !",
    "Kids loved it.",
];

/// Writes the members of a summary.
pub(super) fn summary(context: &Context<'_>, json: &mut Json, venue: &Venue) {
    shared(context, json, venue);
    match context.switches.modified {
        ModifiedStyle::Gaps if venue.id.is_multiple_of(7) => {}
        ModifiedStyle::Offset | ModifiedStyle::Gaps => json.field("modified", &venue.modified.text()),
        ModifiedStyle::NoOffset => json.field("modified", &venue.modified.at.strftime("%FT%T%.f").to_string()),
        ModifiedStyle::Fraction => json.field("modified", &venue.modified.at.strftime("%FT%T%.6fZ").to_string()),
        ModifiedStyle::Day => json.field("modified", &venue.modified.at.strftime("%F").to_string()),
    }
}

/// Answers with the detail of a listing; `None` if the id is unknown.
pub(super) fn detail(context: &Context<'_>, id: u64) -> Option<Answer> {
    let venue = context.world.venue(id).filter(|_| !context.switches.hidden.contains(&id))?;
    let mut dice = Dice::of(&[context.world.seed(), id, u64::from(venue.edition)]);
    let mut json = context.json();
    json.object(|json| {
        credits(json);
        context.generated_at(json, context.switches.generated.details);
        context.request_id(json);
        json.field("@type", "SportsActivityLocation");
        shared(context, json, venue);
        json.key("address").object(|json| address(context, json, venue, &mut dice));
        json.key("hours").object(|json| hours(json, &mut dice));
        json.key("images").array(|json| images(json, venue, &mut dice));
        match dice.below(5) {
            0 => json.key("website").raw("null"),
            _ => json.field("website", &format!("https://www.{}-{id}.example/", slug_of(&venue.name))),
        }
        json.field("phone", &format!("+1 555-01{:02}-{:04}", dice.below(100), dice.below(10_000)));
        json.field("place_id", &format!("Syn{:016x}_{id:x}", dice.roll()));
        json.field("updated_at", &venue.modified.text());
        json.key("reviews").array(|json| reviews(json, venue, &mut dice));
    });
    Some(Answer::json(200, json.finish()))
}

/// Writes the members that summary and detail share.
fn shared(context: &Context<'_>, json: &mut Json, venue: &Venue) {
    let place = &context.world.map.places[usize::from(venue.place)];
    let state = STATES[usize::from(place.state)].name;
    json.key("id").raw(venue.id);
    // Some names keep escapes that an editor's software once made.
    let escapes = Escapes { slashes: venue.name.contains('/'), ascii: venue.id.is_multiple_of(11) };
    json.key("name").string_as(&venue.name, escapes);
    json.field("url", &format!("{SITE}/{}/{}-{}", state_slug(place.state), slug_of(&venue.name), venue.id));
    json.field("city", place.name);
    json.field("state", state);
    json.field("sport", SPORTS[usize::from(venue.sport)].slug);
    number(json, "lat", Some(venue.lat), venue.id);
    number(json, "lng", Some(venue.lng), venue.id);
    number(json, "rating", venue.rating, venue.id);
    json.key("review_count").raw(venue.review_count);
}

fn number(json: &mut Json, key: &str, value: Option<Decimal>, salt: u64) {
    json.key(key);
    match value {
        Some(decimal) => json.append(|text| decimal.write(salt, text)),
        None => json.raw("null"),
    }
}

fn address(context: &Context<'_>, json: &mut Json, venue: &Venue, dice: &mut Dice) {
    let place = &context.world.map.places[usize::from(venue.place)];
    let code = STATES[usize::from(place.state)].code.to_ascii_uppercase();
    json.field("street", &format!("{} {}", dice.below(9_900) + 1, dice.pick(&STREETS)));
    json.field("city", place.name);
    json.field("state", &code);
    json.field("postal_code", &format!("{:05}", dice.below(99_000) + 501));
    json.field("country", "US");
}

fn hours(json: &mut Json, dice: &mut Dice) {
    let (opens, closes) = (5 + dice.below(6), 17 + dice.below(7));
    for day in DAYS {
        match dice.below(12) {
            0 => json.key(day).raw("null"),
            _ => json.field(day, &format!("{opens:02}:00-{closes:02}:00")),
        }
    }
}

fn images(json: &mut Json, venue: &Venue, dice: &mut Dice) {
    for nth in 0..dice.below(4) {
        json.object(|json| {
            json.field("url", &format!("{SITE}/images/{}/{nth}-{:08x}.jpg", venue.id, dice.below(1 << 32)));
            json.key("width").raw(1_200);
            json.key("height").raw(600 + dice.below(300));
        });
    }
}

fn reviews(json: &mut Json, venue: &Venue, dice: &mut Dice) {
    for _ in 0..(dice.below(4)).min(u64::from(venue.review_count)) {
        json.object(|json| {
            json.field("author", dice.pick(&REVIEWERS));
            json.key("rating").raw(1 + dice.below(5));
            json.field("text", dice.pick(&OPINIONS));
        });
    }
}
