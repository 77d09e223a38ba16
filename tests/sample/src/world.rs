//! The synthetic world: all venues, the terms that they have, and their members as JSON text.
//!
//! No HTTP and no queries. Nothing is indexed, so that tests can compare an indexed mirror with a walk. What only a detail
//! shows (address, hours, images, reviews, ...) is made up from id and edition each time, so that a million venues fit in
//! memory. Callers: `grandstand origin`, the test origin.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::data::{DAYS, OPINIONS, REVIEWERS, SITE, SPORTS, STATES, STREETS};
use crate::dice::Dice;
use crate::map::{Map, Place, slug_of};
use crate::venue::{Decimal, Venue};

/// All venues, by id.
#[derive(Clone, Debug)]
pub struct World {
    /// What it was made from.
    pub seed: u64,
    /// Where the venues can be.
    pub map: Arc<Map>,
    /// The venues by ascending id.
    pub venues: Vec<Venue>,
}

/// A term and the number of its venues.
#[derive(Clone, Debug)]
pub struct Term {
    /// As used in filters.
    pub slug: String,
    /// As people read it.
    pub name: &'static str,
    /// How many venues have it.
    pub count: i64,
}

impl World {
    /// Makes up a world with this many venues. The same arguments give the same world.
    pub fn generate(listings: usize, seed: u64) -> Self {
        let map = Arc::new(Map::new());
        let mut dice = Dice::of(&[seed]);
        let mut id = 1_000;
        let mut venues = Vec::with_capacity(listings);
        for _ in 0..listings {
            id += 1 + dice.below(5);
            venues.push(Venue::invent(id, &map, &mut dice));
        }
        Self { seed, map, venues }
    }

    /// Where in `venues` an id is.
    pub fn position(&self, id: u64) -> Option<usize> {
        self.venues.binary_search_by_key(&id, |venue| venue.id).ok()
    }

    fn place(&self, venue: &Venue) -> &Place {
        &self.map.places[usize::from(venue.place)]
    }

    /// Slug and display name of the venue's sport, state and city.
    pub fn labels(&self, venue: &Venue) -> [(&str, &'static str); 3] {
        let (sport, place) = (&SPORTS[usize::from(venue.sport)], self.place(venue));
        let (state, city) = (usize::from(place.state), &self.map.cities[usize::from(place.city)]);
        [(sport.slug, sport.name), (&self.map.states[state], STATES[state].name), (&city.slug, city.name)]
    }

    /// The terms that venues have: sports by falling count, states and cities by name.
    pub fn terms(&self) -> [Vec<Term>; 3] {
        let mut counts: [HashMap<&str, (&'static str, i64)>; 3] = Default::default();
        for venue in &self.venues {
            for (counts, (slug, name)) in counts.iter_mut().zip(self.labels(venue)) {
                counts.entry(slug).or_insert((name, 0)).1 += 1;
            }
        }
        let term = |(slug, (name, count)): (&str, _)| Term { slug: slug.to_owned(), name, count };
        let mut terms = counts.map(|counts| counts.into_iter().map(term).collect::<Vec<_>>());
        for terms in &mut terms {
            terms.sort_by(|one, two| (one.name, &one.slug).cmp(&(two.name, &two.slug)));
        }
        terms[0].sort_by_key(|term| Reverse(term.count));
        terms
    }

    /// Positions of the venues, the latest `modified` first, among equals the largest id first.
    pub fn newest_first(&self) -> Vec<u32> {
        let mut positions: Vec<u32> = (0..self.venues.len() as u32).collect();
        positions.sort_unstable_by_key(|at| Reverse((self.venues[*at as usize].modified.at, *at)));
        positions
    }

    /// The members that summary and detail share: all of a summary but `modified`.
    pub fn members(&self, venue: &Venue) -> String {
        let (place, id) = (self.place(venue), venue.id);
        let (state, sport) = (usize::from(place.state), SPORTS[usize::from(venue.sport)].slug);
        let number = |value: Option<Decimal>| value.map_or_else(|| "null".to_owned(), |value| value.text(id));
        // Some names keep escapes that an editor's software once made.
        let name = quoted(&venue.name, venue.name.contains('/'), id.is_multiple_of(11));
        format!(
            r#""id":{id},"name":{name},"url":"{SITE}/{}/{}-{id}","city":"{}","state":"{}","sport":"{sport}","lat":{},"lng":{},"rating":{},"review_count":{}"#,
            self.map.states[state],
            slug_of(&venue.name),
            place.name,
            STATES[state].name,
            number(Some(venue.lat)),
            number(Some(venue.lng)),
            number(venue.rating),
            venue.review_count,
        )
    }

    /// The members that only the detail shows.
    pub fn details(&self, venue: &Venue) -> String {
        let (place, id) = (self.place(venue), venue.id);
        let mut dice = Dice::of(&[self.seed, id, u64::from(venue.edition)]);
        let mut text = format!(
            r#""address":{{"street":"{} {}","city":"{}","state":"{}","postal_code":"{:05}","country":"US"}}"#,
            dice.below(9_900) + 1,
            dice.pick(&STREETS),
            place.name,
            STATES[usize::from(place.state)].code.to_ascii_uppercase(),
            dice.below(99_000) + 501,
        );
        let (opens, closes) = (5 + dice.below(6), 17 + dice.below(7));
        let hours = DAYS.map(|day| match dice.below(12) {
            0 => format!(r#""{day}":null"#),
            _ => format!(r#""{day}":"{opens:02}:00-{closes:02}:00""#),
        });
        let images: Vec<String> = (0..dice.below(4))
            .map(|nth| {
                let (name, height) = (dice.below(1 << 32), 600 + dice.below(300));
                format!(r#"{{"url":"{SITE}/images/{id}/{nth}-{name:08x}.jpg","width":1200,"height":{height}}}"#)
            })
            .collect();
        let website = match dice.below(5) {
            0 => "null".to_owned(),
            _ => format!(r#""https://www.{}-{id}.example/""#, slug_of(&venue.name)),
        };
        let phone = format!("+1 555-01{:02}-{:04}", dice.below(100), dice.below(10_000));
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            r#","hours":{{{}}},"images":[{}],"website":{website},"phone":"{phone}","place_id":"Syn{:016x}_{id:x}","updated_at":"{}","#,
            hours.join(","),
            images.join(","),
            dice.roll(),
            venue.modified.text(),
        );
        let reviews: Vec<String> = (0..dice.below(4).min(u64::from(venue.review_count)))
            .map(|_| {
                let (author, rating) = (dice.pick(&REVIEWERS), 1 + dice.below(5));
                let opinion = quoted(dice.pick(&OPINIONS), false, false);
                format!(r#"{{"author":"{author}","rating":{rating},"text":{opinion}}}"#)
            })
            .collect();
        let _ = write!(text, r#""reviews":[{}]"#, reviews.join(","));
        text
    }
}

/// A JSON string. `slashes`: `/` is written `\/`; `ascii`: everything beyond ASCII is written `\uXXXX`.
pub fn quoted(value: &str, slashes: bool, ascii: bool) -> String {
    let mut text = String::from("\"");
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '/' if slashes => text.push_str("\\/"),
            letter if letter < ' ' || (ascii && !letter.is_ascii()) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_world() {
        let (one, two) = (World::generate(2_000, 7), World::generate(2_000, 7));
        assert_eq!(one.venues, two.venues);
        assert_ne!(one.venues, World::generate(2_000, 8).venues);
        assert_eq!(one.venues[..500], World::generate(500, 7).venues[..]);
    }

    #[test]
    fn venues_lie_inside_their_states_as_written() {
        let world = World::generate(20_000, 1);
        for venue in &world.venues {
            let state = &STATES[usize::from(world.place(venue).state)];
            let [south, west, north, east] = state.bounds;
            let written = |decimal: Decimal| decimal.text(venue.id).parse::<f64>().unwrap();
            let (lat, lng) = (written(venue.lat), written(venue.lng));
            assert!((south..=north).contains(&lat) && (west..=east).contains(&lng), "{venue:?} in {}", state.name);
        }
    }

    #[test]
    fn sizes_are_skewed_and_spellings_vary() {
        let world = World::generate(20_000, 1);
        let [sports, states, _] = world.terms();
        let count = |terms: &[Term], slug: &str| terms.iter().find(|term| term.slug == slug).unwrap().count;
        assert!(count(&states, "california") > 20 * count(&states, "wyoming"));
        assert!(count(&sports, "curling") < 100);
        assert!(world.venues.iter().any(|venue| venue.rating.is_none()));
        let zones: HashSet<_> = world.venues.iter().map(|venue| format!("{:?}", venue.modified.zone)).collect();
        assert!(zones.len() > 5, "{zones:?}");
        let newest = world.venues[world.newest_first()[0] as usize].modified.at;
        assert!(newest < jiff::Timestamp::now());
        for state in ["arkansas", "texas"] {
            let is_in = |venue: &Venue| world.labels(venue)[1..].iter().map(|label| label.0).eq([state, "texarkana"]);
            assert!(world.venues.iter().any(is_in), "{state}");
        }
    }

    #[test]
    fn strings_are_spelled_as_asked() {
        assert_eq!(quoted("q\"\\\u{1}/ñ", false, false), r#""q\"\\\u0001/ñ""#);
        assert_eq!(quoted("a/é👍", true, true), r#""a\/\u00e9\ud83d\udc4d""#);
    }
}
