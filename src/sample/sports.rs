//! The sports of the synthetic world: slugs, display names, shares and kinds of venues.
//!
//! Data only. Callers: the generator, the filters, the taxonomies.

/// A sport and its venues.
#[derive(Debug)]
pub(super) struct Sport {
    /// Slug as used in filters and in items.
    pub(super) slug: &'static str,
    /// Display name.
    pub(super) name: &'static str,
    /// Share of the venues, relative to the other sports.
    pub(super) weight: u64,
    /// Words for such a venue.
    pub(super) kinds: &'static [&'static str],
}

const fn sport(slug: &'static str, name: &'static str, weight: u64, kinds: &'static [&'static str]) -> Sport {
    Sport { slug, name, weight, kinds }
}

/// All sports, the most frequent first.
#[rustfmt::skip]
pub(super) static SPORTS: [Sport; 16] = [
    sport("baseball", "Baseball", 240, &["Ballpark", "Field", "Diamond", "Park"]),
    sport("soccer", "Soccer", 210, &["Soccer Complex", "Field", "Pitch", "Stadium"]),
    sport("basketball", "Basketball", 170, &["Arena", "Gymnasium", "Courts", "Fieldhouse"]),
    sport("tennis", "Tennis", 120, &["Tennis Center", "Courts", "Racquet Club"]),
    sport("golf", "Golf", 95, &["Golf Course", "Links", "Country Club"]),
    sport("american-football", "American Football", 80, &["Stadium", "Bowl", "Field"]),
    sport("swimming", "Swimming & Diving", 60, &["Aquatic Center", "Pool", "Natatorium"]),
    sport("ice-hockey", "Ice Hockey", 45, &["Ice Arena", "Rink", "Ice Center"]),
    sport("pickleball", "Pickleball", 40, &["Pickleball Courts", "Paddle Club"]),
    sport("track-and-field", "Track and Field", 30, &["Track", "Athletic Field"]),
    sport("volleyball", "Volleyball", 25, &["Volleyball Center", "Sand Courts"]),
    sport("skateboarding", "Skateboarding", 20, &["Skate Park", "Bowl"]),
    sport("climbing", "Climbing", 14, &["Climbing Gym", "Boulder Hall"]),
    sport("lacrosse", "Lacrosse", 9, &["Lacrosse Field", "Turf"]),
    sport("petanque", "Pétanque", 3, &["Boulodrome", "Pétanque Terrain"]),
    sport("curling", "Curling", 1, &["Curling Club", "Curling Sheets"]),
];
