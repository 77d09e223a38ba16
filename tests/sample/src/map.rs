//! The map of the synthetic world: places, city terms with their slugs, and how large each place is.
//!
//! Not the data (`data`) and not the venues (`world`). Two places can share a display name, with one slug or two; the rule
//! for slugs is here. Built once per world. Callers: `venue`, `world`, the test origin.

use std::collections::{HashMap, HashSet};

use crate::data::{ODD_SLUGS, SPORTS, STATES, State};
use crate::dice::Dice;

/// One city in one state.
#[derive(Debug)]
pub struct Place {
    /// Display name.
    pub name: &'static str,
    /// Index into [`STATES`].
    pub state: u8,
    /// Latitude and longitude of its middle.
    pub middle: (f64, f64),
    /// Index of the city term that covers it.
    pub city: u16,
}

/// One term of the cities taxonomy; it covers one place or several.
#[derive(Debug)]
pub struct City {
    /// Slug as used in filters.
    pub slug: String,
    /// Display name.
    pub name: &'static str,
}

/// All places and city terms.
#[derive(Debug)]
pub struct Map {
    /// The cities, state by state.
    pub places: Vec<Place>,
    /// The terms of the cities.
    pub cities: Vec<City>,
    /// The slugs of the states, `new-york`, by index.
    pub states: Vec<String>,
    /// Running sums of the places' weights.
    place_sums: Vec<u64>,
    /// Running sums of the sports' weights.
    sport_sums: Vec<u64>,
}

impl Map {
    pub(crate) fn new() -> Self {
        let (mut names, mut shared) = (HashSet::new(), HashSet::new());
        for (name, ..) in STATES.iter().flat_map(|state| state.cities) {
            if !names.insert(*name) {
                shared.insert(*name);
            }
        }
        let states = STATES.iter().map(|state| slug_of(state.name)).collect();
        let (places, cities, place_sums, sport_sums) = Default::default();
        let mut map = Self { places, cities, states, place_sums, sport_sums };
        let mut by_slug: HashMap<String, u16> = HashMap::new();
        for (index, state) in STATES.iter().enumerate() {
            for (rank, &(name, lat, lng)) in state.cities.iter().enumerate() {
                let slug = city_slug(state, rank, shared.contains(name));
                let city = *by_slug.entry(slug.clone()).or_insert_with(|| {
                    map.cities.push(City { slug, name });
                    (map.cities.len() - 1) as u16
                });
                map.places.push(Place { name, state: index as u8, middle: (lat, lng), city });
                // Zipf: the second city of a state has half the venues of the first, and so on.
                let weight = state.weight * 1_000 / (rank as u64 + 1);
                map.place_sums.push(map.place_sums.last().unwrap_or(&0) + weight);
            }
        }
        for sport in &SPORTS {
            map.sport_sums.push(map.sport_sums.last().unwrap_or(&0) + sport.weight);
        }
        map
    }

    /// A place, large ones more often.
    pub(crate) fn draw_place(&self, dice: &mut Dice) -> u16 {
        draw(&self.place_sums, dice) as u16
    }

    /// A sport, frequent ones more often.
    pub(crate) fn draw_sport(&self, dice: &mut Dice) -> u8 {
        draw(&self.sport_sums, dice) as u8
    }

    /// The place of a city slug; in the given state, if the slug covers several.
    pub fn place_of(&self, city: &str, state: Option<&str>) -> Option<u16> {
        let fits = |place: &Place| {
            self.cities[usize::from(place.city)].slug == city
                && state.is_none_or(|slug| self.states[usize::from(place.state)] == slug)
        };
        self.places.iter().position(fits).map(|index| index as u16)
    }
}

/// Lower case ASCII letters and digits, joined by `-`; letters with marks lose them, other letters disappear.
pub fn slug_of(name: &str) -> String {
    let mut slug = String::with_capacity(name.len());
    for letter in name.chars() {
        let plain = match letter {
            'ñ' => 'n',
            'é' => 'e',
            'ġ' => 'g',
            'ā' => 'a',
            'ī' => 'i',
            other => other.to_ascii_lowercase(),
        };
        if plain.is_ascii_alphanumeric() {
            slug.push(plain);
        } else if matches!(plain, ' ' | '-' | '/') && !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    slug
}

fn city_slug(state: &State, rank: usize, shared: bool) -> String {
    let name = state.cities[rank].0;
    let nth = state.cities[..rank].iter().filter(|city| city.0 == name).count();
    let odd = ODD_SLUGS.iter().find(|odd| (odd.0, odd.1, odd.2) == (state.code, name, nth));
    match odd {
        Some(odd) => odd.3.to_owned(),
        None if shared => format!("{}-{}", slug_of(name), state.code),
        None => slug_of(name),
    }
}

fn draw(sums: &[u64], dice: &mut Dice) -> usize {
    let total = sums.last().copied().unwrap_or(0);
    let drawn = dice.below(total);
    sums.partition_point(|&sum| sum <= drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_city_lies_in_its_state() {
        for state in &STATES {
            let [south, west, north, east] = state.bounds;
            for (name, lat, lng) in state.cities {
                assert!((south..=north).contains(lat) && (west..=east).contains(lng), "{name}, {}", state.name);
            }
        }
    }

    #[test]
    fn cities_that_share_a_name_have_slugs_of_their_own_but_for_one() {
        let map = Map::new();
        assert!(map.places.len() > 320, "{}", map.places.len());
        let slugs: HashSet<_> = map.cities.iter().map(|city| &city.slug).collect();
        assert_eq!(slugs.len(), map.cities.len());
        assert!(slugs.iter().all(|slug| !slug.is_empty() && slug.is_ascii()));
        let named = |name| map.cities.iter().filter(move |city| city.name == name).map(|city| city.slug.as_str());
        assert_eq!(
            named("Springfield").collect::<Vec<_>>(),
            ["springfield-il", "springfield-ma", "springfield-mo", "springfield-oh", "springfield-or"]
        );
        assert_eq!(named("Washington").filter(|slug| slug.ends_with("-nj")).count(), 2);
        assert_eq!(named("Texarkana").collect::<Vec<_>>(), ["texarkana"]);
        let covered = map.places.iter().filter(|place| place.name == "Texarkana").map(|place| place.state);
        assert_eq!(covered.collect::<HashSet<_>>().len(), 2);
        assert!(map.place_of("texarkana", Some("arkansas")) != map.place_of("texarkana", Some("texas")));
        assert_eq!(map.place_of("springfield-il", Some("ohio")), None);
    }
}
