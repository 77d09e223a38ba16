//! The synthetic world with the ways in which a test changes it.
//!
//! Not the API: nothing here knows of pages, JSON or HTTP. All look-ups walk the venues, on purpose: tests compare an
//! indexed mirror with this. Callers: the origin, tests, benches.

use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use sample::data::SPORTS;
use sample::{Stamp, Term, Venue, World as Sample, Zone};

use super::clock::Clock;
use super::order::{ItemOrder, Views};

/// All venues, by id.
#[derive(Clone, Debug)]
pub struct World {
    sample: Sample,
    /// The removed venues, modified when they were removed.
    removed: Vec<Venue>,
    /// The largest id ever given; ids are not used twice.
    last_id: u64,
    views: Views,
    /// Dates the edits.
    clock: Clock,
}

impl Deref for World {
    type Target = Sample;

    fn deref(&self) -> &Sample {
        &self.sample
    }
}

impl World {
    /// Makes up a world with this many venues. The same arguments give the same world.
    pub fn generate(listings: usize, seed: u64) -> Self {
        let sample = Sample::generate(listings, seed);
        let last_id = sample.venues.last().map_or(1_000, |venue| venue.id);
        Self { sample, removed: Vec::new(), last_id, views: Views::default(), clock: Clock::system() }
    }

    /// The same world, with edits dated by another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The removed venues.
    pub(super) fn removed(&self) -> &[Venue] {
        &self.removed
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
        let [_, state, city] = self.labels(venue);
        Some((SPORTS[usize::from(venue.sport)].slug, state.0.to_owned(), city.0))
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
        self.sample.venues.push(Venue { id, name: name.into(), modified, ..template });
        self.views = Views::default();
        Some(id)
    }

    /// Removes a venue; false if there is none.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some(position) = self.position(id) else { return false };
        let venue = self.sample.venues.remove(position);
        let modified = Stamp { at: self.this_second(), zone: Zone::Hours(0) };
        self.removed.push(Venue { modified, ..venue });
        self.views = Views::default();
        true
    }

    /// Removes every venue for which `keep` is false.
    pub fn retain(&mut self, keep: impl FnMut(&Venue) -> bool) {
        self.sample.venues.retain(keep);
        self.views = Views::default();
    }

    /// Changes name, rating, review count and detail of a venue, as of this second; false if it is not there.
    pub fn touch(&mut self, id: u64) -> bool {
        self.touch_at(id, self.this_second())
    }

    /// [`touch`](Self::touch), as of this very instant.
    pub fn touch_now(&mut self, id: u64) -> bool {
        self.touch_at(id, self.clock.now())
    }

    /// [`touch`](Self::touch), as of the given instant.
    pub fn touch_at(&mut self, id: u64, at: Timestamp) -> bool {
        self.alter(id, |venue| venue.touch(at))
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
        let venue = &mut self.sample.venues[position];
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

    /// The terms; computed once per edit.
    pub(super) fn current_terms(&self) -> Arc<[Vec<Term>; 3]> {
        self.views.terms(|| self.terms())
    }

    fn this_second(&self) -> Timestamp {
        Timestamp::from_second(self.clock.now().as_second()).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
