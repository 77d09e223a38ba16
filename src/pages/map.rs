//! The states and their venues: outlines and dots on the map, and a grid of tiles for the chart.
//!
//! The outlines are those of the npm package us-atlas, simplified; `vendored/README.md` says how. A term is a state if
//! its name or slug says so; other terms are in lists only. Places are drawn in Albers' equal-area projection of the
//! states, with Alaska and Hawaii below the west. It equals `geoAlbersUsa().scale(1300).translate([487.5, 305])` of
//! d3-geo, which drew the outlines. Callers: [`super::front`], [`super::explore`], [`super::venue`].

mod around;

use std::f64::consts::PI;
use std::fmt::Write as _;
use std::sync::Arc;

use maud::{Markup, html};

use crate::api::listing::Venue;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::words::grouped;

use super::Last;
use super::facts::TermFact;
use super::room::Room;

pub(super) use around::draw_around;

/// Name and outline of every state, one a line.
const OUTLINES: &str = include_str!("vendored/states.tsv");

/// Name, abbreviation, column and row of each state's tile.
#[rustfmt::skip]
const TILES: [(&str, &str, u8, u8); 51] = [
    ("Alabama", "AL", 7, 6), ("Alaska", "AK", 0, 0), ("Arizona", "AZ", 2, 5), ("Arkansas", "AR", 5, 5),
    ("California", "CA", 1, 4), ("Colorado", "CO", 3, 4), ("Connecticut", "CT", 10, 3), ("Delaware", "DE", 10, 4),
    ("District of Columbia", "DC", 9, 5), ("Florida", "FL", 9, 7), ("Georgia", "GA", 8, 6), ("Hawaii", "HI", 0, 7),
    ("Idaho", "ID", 2, 2), ("Illinois", "IL", 6, 2), ("Indiana", "IN", 6, 3), ("Iowa", "IA", 5, 3),
    ("Kansas", "KS", 4, 5), ("Kentucky", "KY", 6, 4), ("Louisiana", "LA", 5, 6), ("Maine", "ME", 11, 0),
    ("Maryland", "MD", 9, 4), ("Massachusetts", "MA", 10, 2), ("Michigan", "MI", 7, 2), ("Minnesota", "MN", 5, 2),
    ("Mississippi", "MS", 6, 6), ("Missouri", "MO", 5, 4), ("Montana", "MT", 3, 2), ("Nebraska", "NE", 4, 4),
    ("Nevada", "NV", 2, 3), ("New Hampshire", "NH", 11, 1), ("New Jersey", "NJ", 9, 3), ("New Mexico", "NM", 3, 5),
    ("New York", "NY", 9, 2), ("North Carolina", "NC", 7, 5), ("North Dakota", "ND", 4, 2), ("Ohio", "OH", 7, 3),
    ("Oklahoma", "OK", 4, 6), ("Oregon", "OR", 1, 3), ("Pennsylvania", "PA", 8, 3), ("Rhode Island", "RI", 11, 2),
    ("South Carolina", "SC", 8, 5), ("South Dakota", "SD", 4, 3), ("Tennessee", "TN", 6, 5), ("Texas", "TX", 4, 7),
    ("Utah", "UT", 2, 4), ("Vermont", "VT", 10, 1), ("Virginia", "VA", 8, 4), ("Washington", "WA", 1, 2),
    ("West Virginia", "WV", 7, 4), ("Wisconsin", "WI", 6, 1), ("Wyoming", "WY", 3, 3),
];

/// The side of a tile, and how far they are apart.
const TILE: u32 = 44;
const STEP: u32 = 48;

/// Whether a term is the state of this name.
fn is_state(term: &TermFact<'_>, name: &str) -> bool {
    let dashed = |byte: u8| if byte == b' ' { b'-' } else { byte.to_ascii_lowercase() };
    let is_slug = || term.slug.bytes().map(dashed).eq(name.bytes().map(dashed));
    term.label.eq_ignore_ascii_case(name) || is_slug()
}

/// The name of the state with this abbreviation.
pub(super) fn state_named(code: &str) -> Option<&'static str> {
    TILES.iter().find(|(_, own, ..)| own.eq_ignore_ascii_case(code)).map(|(name, ..)| *name)
}

/// A chart of the states as tiles, darker for more listings; each leads to the finder.
pub(super) fn tiles(states: &[TermFact<'_>], room: &Room) -> Markup {
    let most = states.iter().filter_map(|state| state.count).max().unwrap_or(0).max(1);
    let tiles = TILES.iter().filter_map(|(name, code, column, row)| {
        let term = states.iter().find(|term| is_state(term, name))?;
        Some((term, code, u32::from(*column) * STEP, u32::from(*row) * STEP))
    });
    html! {
        svg .tiles viewBox={ "0 0 " (11 * STEP + TILE) " " (7 * STEP + TILE) } role="group"
            aria-label="Venues by state, as a map of tiles" {
            @for (term, code, x, y) in tiles {
                @let count = term.count.unwrap_or(0);
                a href={ "explore?state=" (escaped(term.slug)) } {
                    rect .{ "shade" (shade(count, most)) } x=(x) y=(y) width=(TILE) height=(TILE) rx="6" {}
                    text .{ "on" (shade(count, most)) } x=(x + TILE / 2) y=(y + 20) { (code) } " "
                    text .{ "count on" (shade(count, most)) } x=(x + TILE / 2) y=(y + 35) { (grouped(count)) } " "
                    title { (room.short(term.label)) }
                }
            }
        }
    }
}

/// Which of five shades a count gets: by its square root, since a few states have most listings.
fn shade(count: u64, most: u64) -> u8 {
    let share = (count as f64 / most as f64).sqrt();
    (share * 5.0).ceil().clamp(0.0, 5.0) as u8
}

/// The map: outlines of the states, with `chosen` highlighted, under the dots and one that is `marked`. `zoomed`: it shows
/// the dots and what is around them.
pub(super) fn map(
    states: &[TermFact<'_>],
    chosen: Option<&str>,
    (drawn, marked): (&Drawn, &str),
    zoomed: bool,
    label: &str,
) -> Markup {
    let [left, top, width, height] = if zoomed { drawn.frame() } else { [0, 0, WIDTH, HEIGHT] };
    let outlines = OUTLINES.lines().filter_map(|line| line.split_once('\t'));
    html! {
        svg #map viewBox={ (left) " " (top) " " (width) " " (height) } role="img" aria-label=(label) {
            g .states {
                @for (name, outline) in outlines {
                    @let slug = states.iter().find(|term| is_state(term, name)).map(|term| term.slug);
                    path .chosen[slug.is_some() && slug == chosen] data-state=[slug] d=(outline) {}
                }
            }
            path #around d=(drawn.circle) {}
            path #dots d=(drawn.path) {}
            path #marked d=(marked) {}
        }
    }
}

/// Escapes a value for a query.
pub(super) fn escaped(value: &str) -> String {
    let mut text = String::new();
    crate::api::query::encode(value, &mut text);
    text
}

/// The width of the map, in tenths of a unit of the outlines.
const WIDTH: u32 = 9750;
/// Its height.
const HEIGHT: u32 = 6100;

const SCALE: f64 = 1300.0;
const MIDDLE: (f64, f64) = (487.5, 305.0);

/// One of the three maps.
struct Inset {
    /// Longitude of the middle meridian, in degrees.
    meridian: f64,
    /// Where the middle of the map lies from there, in degrees: longitude, latitude.
    center: (f64, f64),
    /// The two latitudes that are drawn true, in degrees.
    parallels: (f64, f64),
    /// Its scale.
    size: f64,
    /// Where its middle is drawn, from that of the whole, in scales.
    shift: (f64, f64),
    /// The visible part: left, top, right, bottom, from the middle of the whole, in scales.
    frame: [f64; 4],
}

/// The first one whose frame has a place shows it.
const INSETS: [Inset; 3] = [
    Inset {
        meridian: -96.0,
        center: (-0.6, 38.7),
        parallels: (29.5, 45.5),
        size: 1.0,
        shift: (0.0, 0.0),
        frame: [-0.455, -0.238, 0.455, 0.238],
    },
    Inset {
        meridian: -154.0,
        center: (-2.0, 58.5),
        parallels: (55.0, 65.0),
        size: 0.35,
        shift: (-0.307, 0.201),
        frame: [-0.425, 0.120, -0.214, 0.234],
    },
    Inset {
        meridian: -157.0,
        center: (-3.0, 19.9),
        parallels: (8.0, 18.0),
        size: 1.0,
        shift: (-0.205, 0.212),
        frame: [-0.214, 0.166, -0.115, 0.234],
    },
];

impl Inset {
    /// Snyder's formulas for two standard parallels; angles in radians.
    fn raw(&self, longitude: f64, latitude: f64) -> (f64, f64) {
        let south = self.parallels.0.to_radians().sin();
        let n = f64::midpoint(south, self.parallels.1.to_radians().sin());
        let c = 1.0 + south * (2.0 * n - south);
        let radius = (c - 2.0 * n * latitude.sin()).max(0.0).sqrt() / n;
        let angle = longitude * n;
        (radius * angle.sin(), c.sqrt() / n - radius * angle.cos())
    }

    /// Where a place is drawn, from the middle of the whole, in scales; also beyond the frame.
    fn at(&self, latitude: f64, longitude: f64) -> (f64, f64) {
        let mut turned = (longitude - self.meridian).to_radians();
        if turned > PI {
            turned -= 2.0 * PI;
        } else if turned < -PI {
            turned += 2.0 * PI;
        }
        let (x, y) = self.raw(turned, latitude.to_radians());
        let (middle_x, middle_y) = self.raw(self.center.0.to_radians(), self.center.1.to_radians());
        (self.shift.0 + self.size * (x - middle_x), self.shift.1 - self.size * (y - middle_y))
    }

    /// Where a place is drawn, if the frame has it; in units of the outlines.
    fn place(&self, latitude: f64, longitude: f64) -> Option<(f64, f64)> {
        let (x, y) = self.at(latitude, longitude);
        let [left, top, right, bottom] = self.frame;
        let inside = left <= x && x <= right && top <= y && y <= bottom;
        inside.then_some(units((x, y)))
    }
}

/// From scales to units of the outlines.
fn units((x, y): (f64, f64)) -> (f64, f64) {
    (MIDDLE.0 + SCALE * x, MIDDLE.1 + SCALE * y)
}

/// Where a place is drawn, in units of the outlines; `None` if it is off the map.
fn exact_place(latitude: f64, longitude: f64) -> Option<(f64, f64)> {
    if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
        return None;
    }
    INSETS.iter().find_map(|inset| inset.place(latitude, longitude))
}

/// The same in whole tenths of a unit.
fn place(latitude: f64, longitude: f64) -> Option<(u16, u16)> {
    let (x, y) = exact_place(latitude, longitude)?;
    let tenths = |units: f64, most: u32| (units * 10.0).round().clamp(0.0, f64::from(most)) as u16;
    Some((tenths(x, WIDTH), tenths(y, HEIGHT)))
}

/// Where the dot of a venue is, as on the map around a place or on that of all states; `None` if it is off the map.
pub(super) fn place_of(venue: &Venue<'_>, is_around: bool) -> Option<(f64, f64)> {
    let (latitude, longitude) = venue.lat.zip(venue.lng)?;
    if is_around {
        return exact_place(latitude, longitude).map(around::fine);
    }
    place(latitude, longitude).map(|(x, y)| (x.into(), y.into()))
}

/// A path of one dot; `None` if the place is off the map.
pub(super) fn dot(latitude: f64, longitude: f64) -> Option<String> {
    place(latitude, longitude).map(|(x, y)| format!("M{x} {y}h0"))
}

/// The most dots: browsers stay fluid, and a page stays below half a megabyte.
const MOST: usize = 20_000;

/// The finest grid, in tenths of a unit of the outlines.
const FINEST: u16 = 5;

/// Stands for a listing that is not on the map.
const NOWHERE: (u16, u16) = (u16::MAX, u16::MAX);

/// The listings of one snapshot, by position.
type Places = Arc<[(u16, u16)]>;

/// The places of the snapshot that was explored last.
#[derive(Default)]
pub(super) struct Dots(Last<SnapshotId, Places>);

/// A drawing of some listings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drawn {
    /// A path of dots: strokes without length, with round ends.
    pub path: String,
    /// How many of the listings are on the map.
    pub shown: usize,
    /// Around the dots, or the circle: left, top, right, bottom.
    around: [u32; 4],
    /// A path of the circle that was searched, with a cross in its centre; empty: there is none.
    circle: String,
}

impl Drawn {
    /// Whether it shows the surroundings of a place.
    pub(super) fn is_around(&self) -> bool {
        !self.circle.is_empty()
    }

    /// The part of the map with the dots, in the form of the whole: left, top, width, height. All of it without dots.
    fn frame(&self) -> [u32; 4] {
        let [left, top, right, bottom] = self.around;
        if self.shown == 0 && !self.is_around() {
            return [0, 0, WIDTH, HEIGHT];
        }
        // Some land around them, and never less than a ninth of the map each way; around a circle, than ten kilometres.
        let parts = if self.is_around() { 600 } else { 12 };
        let share = f64::from((right - left).max(WIDTH / parts)) / f64::from(WIDTH);
        let share = share.max(f64::from((bottom - top).max(HEIGHT / parts)) / f64::from(HEIGHT));
        let share = (share * 1.3).min(1.0);
        let (width, height) = ((share * f64::from(WIDTH)) as u32, (share * f64::from(HEIGHT)) as u32);
        let start = |low: u32, high: u32, size: u32, most: u32| {
            u32::midpoint(low, high).saturating_sub(size / 2).min(most - size)
        };
        [start(left, right, width, WIDTH), start(top, bottom, height, HEIGHT), width, height]
    }
}

impl Dots {
    /// Draws the listings at some positions.
    pub(super) fn draw(&self, dataset: &Dataset, positions: &[u32]) -> Drawn {
        let places = self.0.get_or_make(dataset.id.clone(), || {
            let drawn = |venue: Venue<'_>| place(venue.lat?, venue.lng?);
            let summaries = dataset.content.summaries.iter();
            summaries.map(|summary| drawn(Venue::read(&summary.raw)).unwrap_or(NOWHERE)).collect()
        });
        let places = positions.iter().filter_map(|position| places.get(*position as usize));
        draw(places.copied().filter(|place| *place != NOWHERE))
    }
}

/// Draws places on the finest grid that keeps the bound.
fn draw(places: impl Iterator<Item = (u16, u16)>) -> Drawn {
    let mut places: Vec<(u16, u16)> = places.map(|(x, y)| (y, x)).collect();
    let shown = places.len();
    let around = places.iter().fold([u32::MAX, u32::MAX, 0, 0], |[left, top, right, bottom], (y, x)| {
        let (x, y) = (u32::from(*x), u32::from(*y));
        [left.min(x), top.min(y), right.max(x), bottom.max(y)]
    });
    let around = if shown == 0 { [0; 4] } else { around };
    let mut grid = FINEST;
    loop {
        for (y, x) in &mut places {
            (*y, *x) = (*y - *y % grid, *x - *x % grid);
        }
        places.sort_unstable();
        places.dedup();
        if places.len() <= MOST {
            break;
        }
        grid *= 2;
    }
    let mut path = String::with_capacity(places.len() * 10);
    for (y, x) in places {
        // Writing to a String cannot fail.
        let _ = write!(path, "M{x} {y}h0");
    }
    Drawn { path, shown, around, circle: String::new() }
}

/// A map full of dots fits; so the loop in [`draw`] ends.
const _: () = assert!((WIDTH / 80 + 1) * (HEIGHT / 80 + 1) < MOST as u32 && FINEST * 16 == 80);

#[cfg(test)]
mod tests {
    use super::*;
    /// Whether a point lies inside an outline, by the even-odd rule; and how far it is from its nearest corner.
    fn lies_in(outline: &str, (x, y): (f64, f64)) -> (bool, f64) {
        let (mut inside, mut nearest) = (false, f64::INFINITY);
        for ring in outline.split('z').filter(|ring| !ring.is_empty()) {
            let spaced = ring.replace(['M', 'l'], " ").replace('-', " -");
            let numbers: Vec<f64> = spaced.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let mut points: Vec<(f64, f64)> = Vec::new();
            for pair in numbers.chunks_exact(2) {
                let (from_x, from_y) = points.last().copied().unwrap_or_default();
                points.push((from_x + pair[0], from_y + pair[1]));
            }
            for (at, (ax, ay)) in points.iter().enumerate() {
                let (bx, by) = points[(at + 1) % points.len()];
                nearest = nearest.min((ax - x).hypot(ay - y));
                if (*ay > y) != (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax {
                    inside = !inside;
                }
            }
        }
        (inside, nearest)
    }

    #[test]
    fn every_state_has_an_outline_and_a_tile() {
        let names: Vec<&str> = OUTLINES.lines().map(|line| line.split_once('\t').unwrap().0).collect();
        assert_eq!(names, TILES.map(|(name, ..)| name));
        let mut places: Vec<(u8, u8)> = TILES.iter().map(|(.., column, row)| (*column, *row)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), TILES.len(), "two tiles lie on each other");
    }

    #[test]
    fn known_cities_lie_in_their_states() {
        for (state, city, latitude, longitude) in [
            ("Alabama", "Birmingham", 33.52, -86.80),
            ("Alaska", "Anchorage", 61.22, -149.90),
            ("Alaska", "Fairbanks", 64.84, -147.72),
            ("Arizona", "Phoenix", 33.45, -112.07),
            ("California", "Fresno", 36.74, -119.79),
            ("California", "Redding", 40.59, -122.39),
            ("Colorado", "Denver", 39.74, -104.99),
            ("Connecticut", "Hartford", 41.76, -72.68),
            ("Delaware", "Dover", 39.16, -75.52),
            ("Florida", "Orlando", 28.54, -81.38),
            ("Georgia", "Macon", 32.84, -83.63),
            ("Hawaii", "Mauna Kea", 19.82, -155.47),
            ("Idaho", "Boise", 43.62, -116.20),
            ("Illinois", "Springfield", 39.80, -89.64),
            ("Kansas", "Wichita", 37.69, -97.34),
            ("Maine", "Augusta", 44.31, -69.78),
            ("Michigan", "Lansing", 42.73, -84.56),
            ("Michigan", "Marquette", 46.50, -87.45),
            ("Minnesota", "Saint Cloud", 45.56, -94.16),
            ("Montana", "Helena", 46.59, -112.04),
            ("New Jersey", "Trenton", 40.25, -74.72),
            ("New York", "Syracuse", 43.05, -76.15),
            ("North Carolina", "Raleigh", 35.78, -78.64),
            ("Rhode Island", "Warwick", 41.70, -71.46),
            ("Tennessee", "Nashville", 36.16, -86.78),
            ("Texas", "Austin", 30.27, -97.74),
            ("Utah", "Provo", 40.23, -111.66),
            ("Vermont", "Montpelier", 44.26, -72.58),
            ("Washington", "Yakima", 46.60, -120.51),
            ("Wyoming", "Casper", 42.85, -106.33),
        ] {
            let (x, y) = place(latitude, longitude).unwrap();
            let point = (f64::from(x), f64::from(y));
            for (name, outline) in OUTLINES.lines().map(|line| line.split_once('\t').unwrap()) {
                let (inside, nearest) = lies_in(outline, point);
                assert_eq!(inside, name == state, "{city}, {state}: {name} at {point:?}, {nearest} from a corner");
            }
        }
    }

    #[test]
    fn a_term_is_a_state_by_name_or_slug() {
        let term = |slug: &'static str, label: &'static str| TermFact { slug, label, count: Some(1) };
        assert!(is_state(&term("nc", "north carolina"), "North Carolina"));
        assert!(is_state(&term("north-carolina", "NC"), "North Carolina"));
        assert!(!is_state(&term("carolina", "Carolina"), "North Carolina"));
    }

    #[test]
    fn shades_go_from_none_to_the_darkest() {
        assert_eq!([0, 1, 50, 1000].map(|count| shade(count, 1000)), [0, 1, 2, 5]);
    }

    /// Name, latitude, longitude, and where it is drawn.
    type Place = (String, f64, f64, Option<(u16, u16)>);

    #[test]
    fn places_lie_where_d3_draws_them() {
        // By d3-geo 3, and at the edge what it draws beyond.
        let places = include_str!("../../tests/fixtures/places.json");
        let places: Vec<Place> = serde_json::from_str(places).unwrap();
        assert!(places.len() > 10);
        for (name, latitude, longitude, expected) in places {
            assert_eq!(place(latitude, longitude), expected, "{name}");
        }
        assert_eq!(place(f64::NAN, 0.0), None);
    }

    #[test]
    fn dots_that_fall_together_are_drawn_once() {
        let drawn = draw([(100, 200), (101, 203), (500, 600)].into_iter());
        let (path, around) = ("M100 200h0M500 600h0".to_owned(), [100, 200, 500, 600]);
        assert_eq!(drawn, Drawn { path, shown: 3, around, ..Drawn::default() });
        assert_eq!(draw(std::iter::empty()), Drawn::default());
    }

    #[test]
    fn a_map_shows_its_dots_and_some_land_around_them() {
        assert_eq!(Drawn::default().frame(), [0, 0, WIDTH, HEIGHT]);
        let one = draw([(5000, 3000)].into_iter()).frame();
        assert!(one[0] < 5000 && 5000 < one[0] + one[2] && one[1] < 3000 && 3000 < one[1] + one[3], "{one:?}");
        assert!(WIDTH / 11 < one[2] && one[2] < WIDTH / 8, "{one:?}");
        let corner = draw([(0, 0), (100, 100)].into_iter()).frame();
        assert_eq!(corner[..2], [0, 0]);
        let all = draw([(0, 0), (WIDTH as u16, HEIGHT as u16)].into_iter()).frame();
        assert_eq!(all, [0, 0, WIDTH, HEIGHT]);
    }

    #[test]
    fn a_map_that_is_full_is_drawn_on_a_coarser_grid() {
        let everywhere = (0..WIDTH as u16).step_by(5).flat_map(|x| (0..HEIGHT as u16).step_by(5).map(move |y| (x, y)));
        let drawn = draw(everywhere);
        let dots = drawn.path.matches('M').count();
        assert!(dots <= MOST && dots > MOST / 5, "{dots}");
        assert!(drawn.shown > 1_000_000, "{}", drawn.shown);
    }
}
