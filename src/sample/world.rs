//! The synthetic world: all venues, and the ways in which a test changes them.
//!
//! Not the API: nothing here knows of pages, JSON or HTTP. All look-ups walk the venues, on purpose: tests compare an
//! indexed mirror with this. Callers: the origin, tests, benches.

use std::sync::Arc;

use jiff::Timestamp;

use crate::clock::Clock;

use super::dice::Dice;
use super::gazetteer::{Gazetteer, state_slug};
use super::order::{ItemOrder, Views};
use super::spelling::{Stamp, Zone};
use super::sports::SPORTS;
use super::terms::Counts;
use super::venue::Venue;

/// All venues, by id.
#[derive(Clone, Debug)]
pub struct World {
    seed: u64,
    pub(super) map: Arc<Gazetteer>,
    pub(super) venues: Vec<Venue>,
    /// The largest id ever given; ids are not used twice.
    last_id: u64,
    views: Views,
    /// Dates the edits.
    clock: Clock,
}

impl World {
    /// Makes up a world with this many venues. The same arguments give the same world.
    pub fn generate(listings: usize, seed: u64) -> Self {
        let map = Arc::new(Gazetteer::new());
        let mut dice = Dice::of(&[seed]);
        let mut last_id = 1_000;
        let mut venues = Vec::with_capacity(listings);
        for _ in 0..listings {
            last_id += 1 + dice.below(5);
            venues.push(Venue::invent(last_id, &map, &mut dice));
        }
        Self { seed, map, venues, last_id, views: Views::default(), clock: Clock::system() }
    }

    /// The same world, with edits dated by another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Number of venues.
    pub fn len(&self) -> usize {
        self.venues.len()
    }

    /// Whether there is no venue at all.
    pub fn is_empty(&self) -> bool {
        self.venues.is_empty()
    }

    /// What the world was made from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// All ids, ascending.
    pub fn ids(&self) -> Vec<u64> {
        self.venues.iter().map(|venue| venue.id).collect()
    }

    /// A venue by id.
    pub fn venue(&self, id: u64) -> Option<&Venue> {
        self.position(id).map(|position| &self.venues[position])
    }

    /// The slugs of a venue: sport, state and city.
    pub fn slugs_of(&self, id: u64) -> Option<(&'static str, String, &str)> {
        let venue = self.venue(id)?;
        let place = &self.map.places[usize::from(venue.place)];
        let city = &self.map.cities[usize::from(place.city)];
        Some((SPORTS[usize::from(venue.sport)].slug, state_slug(place.state), &city.slug))
    }

    /// The ids, ascending, of the venues in all of the given buckets; `None` means any.
    pub fn listings_matching(&self, sport: Option<&str>, state: Option<&str>, city: Option<&str>) -> Vec<u64> {
        let all = self.venues.iter().map(|venue| venue.id);
        let fits = |id: &u64| {
            self.slugs_of(*id).is_some_and(|slugs| {
                sport.is_none_or(|slug| slug == slugs.0)
                    && state.is_none_or(|slug| slug == slugs.1)
                    && city.is_none_or(|slug| slug == slugs.2)
            })
        };
        all.filter(fits).collect()
    }

    /// The latest `modified` of all venues; `None` in an empty world.
    pub fn newest(&self) -> Option<Timestamp> {
        self.venues.iter().map(|venue| venue.modified.at).max()
    }

    /// Adds a copy of a venue under a new id and name, changed now. `None` if there is no venue `like`.
    pub fn insert_like(&mut self, like: u64, name: &str) -> Option<u64> {
        let template = self.venue(like)?.clone();
        self.last_id += 3;
        let id = self.last_id;
        let modified = Stamp { at: self.this_second(), zone: Zone::Hours(0) };
        self.venues.push(Venue { id, name: name.into(), modified, ..template });
        self.views = Views::default();
        Some(id)
    }

    /// Removes a venue; false if there is none.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some(position) = self.position(id) else { return false };
        self.venues.remove(position);
        self.views = Views::default();
        true
    }

    /// Removes every venue for which `keep` is false.
    pub fn retain(&mut self, keep: impl FnMut(&Venue) -> bool) {
        self.venues.retain(keep);
        self.views = Views::default();
    }

    /// Changes name, rating, review count and detail of a venue, as of this second; false if it is not there.
    pub fn touch(&mut self, id: u64) -> bool {
        self.touch_at(id, self.this_second())
    }

    /// [`touch`](Self::touch), as of the given instant.
    pub fn touch_at(&mut self, id: u64, at: Timestamp) -> bool {
        self.alter(id, |venue| {
            venue.renew();
            venue.modified.at = at;
        })
    }

    /// Changes name, rating, review count and detail of a venue without moving its `modified`.
    pub fn silent_change(&mut self, id: u64) -> bool {
        self.alter(id, Venue::renew)
    }

    /// Changes the detail of a venue, and nothing in its summary.
    pub fn change_detail(&mut self, id: u64) -> bool {
        self.alter(id, |venue| venue.edition += 1)
    }

    /// Moves a venue to another city (slugs; the state is needed only if a slug covers several). Coordinates and
    /// `modified` stay. False if there is no such venue or city.
    pub fn relocate(&mut self, id: u64, city: &str, state: Option<&str>) -> bool {
        let Some(place) = self.map.place_of(city, state) else { return false };
        self.alter(id, |venue| venue.place = place)
    }

    /// Gives a venue another sport (slug); false if there is no such venue or sport.
    pub fn change_sport(&mut self, id: u64, sport: &str) -> bool {
        let Some(index) = SPORTS.iter().position(|known| known.slug == sport) else { return false };
        self.alter(id, |venue| venue.sport = index as u8)
    }

    /// Changes a venue except its id; false if there is none.
    pub fn alter(&mut self, id: u64, change: impl FnOnce(&mut Venue)) -> bool {
        let Some(position) = self.position(id) else { return false };
        let venue = &mut self.venues[position];
        change(venue);
        venue.id = id;
        self.views = Views::default();
        true
    }

    /// All ids in the given order.
    pub fn ids_in(&self, order: ItemOrder) -> Vec<u64> {
        self.ordered(order).iter().map(|position| self.venues[*position as usize].id).collect()
    }

    /// Positions of the venues in the given order; computed once per edit.
    pub(super) fn ordered(&self, order: ItemOrder) -> Arc<[u32]> {
        self.views.ordered(&self.venues, order)
    }

    /// Number of venues per term; computed once per edit.
    pub(super) fn counts(&self) -> Arc<Counts> {
        self.views.counts(|| Counts::of(self))
    }

    fn this_second(&self) -> Timestamp {
        Timestamp::from_second(self.clock.now_wall().as_seconds()).unwrap_or(Timestamp::MAX)
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.venues.binary_search_by_key(&id, |venue| venue.id).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::places::STATES;
    use super::super::spelling::Decimal;
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
            let state = &STATES[usize::from(world.map.places[usize::from(venue.place)].state)];
            let [south, west, north, east] = state.bounds;
            let written = |decimal: Decimal| {
                let mut text = String::new();
                decimal.write(venue.id, &mut text);
                text.parse::<f64>().unwrap()
            };
            let (lat, lng) = (written(venue.lat), written(venue.lng));
            assert!((south..=north).contains(&lat) && (west..=east).contains(&lng), "{venue:?} in {}", state.name);
        }
    }

    #[test]
    fn sizes_are_skewed_and_spellings_vary() {
        let world = World::generate(20_000, 1);
        let in_state = |slug| world.listings_matching(None, Some(slug), None).len();
        assert!(in_state("california") > 20 * in_state("wyoming"));
        assert!(world.listings_matching(Some("curling"), None, None).len() < 100);
        assert!(world.venues.iter().any(|venue| venue.rating.is_none()));
        let zones: HashSet<_> = world.venues.iter().map(|venue| format!("{:?}", venue.modified.zone)).collect();
        assert!(zones.len() > 5, "{zones:?}");
        assert!(world.newest() < Some(Timestamp::now()));
        assert!(!world.listings_matching(None, Some("arkansas"), Some("texarkana")).is_empty());
        assert!(!world.listings_matching(None, Some("texas"), Some("texarkana")).is_empty());
    }

    #[test]
    fn edits_change_what_they_say_and_nothing_else() {
        let mut world = World::generate(100, 3);
        let id = world.ids()[10];
        let before = world.venue(id).unwrap().clone();
        assert!(world.silent_change(id));
        let after = world.venue(id).unwrap().clone();
        assert_eq!(after.modified, before.modified);
        assert_ne!(after.name, before.name);
        assert!(world.touch(id));
        assert!(world.venue(id).unwrap().modified.at > before.modified.at);
        assert!(world.venue(id).unwrap().name.ends_with("№2"));
        let newest = world.insert_like(id, "New").unwrap();
        assert!(newest > *World::generate(100, 3).ids().last().unwrap());
        assert!(world.remove(newest) && !world.remove(newest));
        assert!(world.insert_like(id, "Newer").unwrap() > newest, "ids are not used twice");
        assert!(world.relocate(id, "texarkana", Some("texas")) && world.change_sport(id, "curling"));
        assert_eq!(world.slugs_of(id).unwrap(), ("curling", "texas".to_owned(), "texarkana"));
        assert!(!world.relocate(id, "nowhere", None) && !world.change_sport(id, "chess") && !world.touch(1));
    }
}
