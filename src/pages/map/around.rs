//! The map around a place: the circle that was searched, and its venues, finer than on the map of all states.
//!
//! Callers: [`super::super::explore`].

use std::f64::consts::TAU;
use std::fmt::Write as _;

use crate::api::listing::Venue;
use crate::api::query::search::{Near, PER_DEGREE};
use crate::snapshot::dataset::Dataset;

use super::{Drawn, HEIGHT, INSETS, WIDTH, exact_place, units};

/// A wider circle is no circle on this map, in metres.
const WIDEST: u32 = 2_000_000;
/// The radius of the earth, in metres.
const EARTH: f64 = 6_371_009.0;
/// The corners of the circle.
const CORNERS: u32 = 72;

/// Draws the circle of a search and the found listings; `None`: its centre is off the map, or the circle too wide.
pub(in crate::pages) fn draw_around(dataset: &Dataset, positions: &[u32], near: &Near) -> Option<Drawn> {
    let [latitude, longitude] = [near.point.lat, near.point.lng].map(|units| f64::from(units) / PER_DEGREE);
    let (circle, around) = circle(latitude, longitude, near.radius)?;
    let place = |position: &u32| {
        let venue = Venue::read(&dataset.content.summaries.get(*position as usize)?.raw);
        exact_place(venue.lat?, venue.lng?)
    };
    let mut dots: Vec<String> = positions.iter().filter_map(place).map(dot).collect();
    let shown = dots.len();
    dots.sort_unstable();
    dots.dedup();
    Some(Drawn { path: dots.concat(), shown, around, circle })
}

fn dot(place: (f64, f64)) -> String {
    let (x, y) = fine(place);
    format!("M{x} {y}h0")
}

/// A place to a hundredth of a unit of the outlines: 50 metres.
pub(super) fn fine((x, y): (f64, f64)) -> (f64, f64) {
    let fine = |units: f64, most: u32| ((units * 100.0).round() / 10.0).clamp(0.0, f64::from(most));
    (fine(x, WIDTH), fine(y, HEIGHT))
}

/// The path of a circle with a cross in its centre, and what is around it: left, top, right, bottom.
fn circle(latitude: f64, longitude: f64, radius: u32) -> Option<(String, [u32; 4])> {
    let inset = INSETS.iter().find(|inset| inset.place(latitude, longitude).is_some())?;
    if radius > WIDEST {
        return None;
    }
    let drawn = |latitude: f64, longitude: f64| {
        let (x, y) = units(inset.at(latitude, longitude));
        (x * 10.0, y * 10.0)
    };
    let (far, start) = (f64::from(radius) / EARTH, latitude.to_radians());
    let corners = (0..CORNERS).map(|corner| {
        let bearing = TAU * f64::from(corner) / f64::from(CORNERS);
        let end = (start.sin() * far.cos() + start.cos() * far.sin() * bearing.cos()).asin();
        let turned = (bearing.sin() * far.sin() * start.cos()).atan2(far.cos() - start.sin() * end.sin());
        drawn(end.to_degrees(), longitude + turned.to_degrees())
    });
    let (mut path, mut around) = (String::new(), [f64::MAX, f64::MAX, 0.0, 0.0]);
    for (x, y) in corners {
        let letter = if path.is_empty() { 'M' } else { 'L' };
        // Writing to a String cannot fail.
        let _ = write!(path, "{letter}{x:.2} {y:.2}");
        around = [x.min(around[0]), y.min(around[1]), x.max(around[2]), y.max(around[3])];
    }
    let [left, top, right, bottom] = around;
    let ((x, y), arm) = (drawn(latitude, longitude), (bottom - top) / 24.0);
    let _ = write!(path, "zM{:.2} {y:.2}h{:.2}M{x:.2} {:.2}v{:.2}", x - arm, 2.0 * arm, y - arm, 2.0 * arm);
    let within = |tenths: f64, most: u32| tenths.clamp(0.0, f64::from(most)) as u32;
    let around = [within(left, WIDTH), within(top, HEIGHT), within(right.ceil(), WIDTH), within(bottom.ceil(), HEIGHT)];
    Some((path, around))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The corners of a path.
    fn corners(path: &str) -> Vec<(f64, f64)> {
        let circle = path.split('z').next().unwrap();
        let pairs = circle.split(['M', 'L']).filter(|pair| !pair.is_empty());
        let read = |pair: &str| pair.split_once(' ').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()));
        pairs.map(|pair| read(pair).unwrap()).collect()
    }

    #[test]
    fn a_circle_is_round_and_as_large_as_its_radius() {
        // Two kilometres a tenth: 1,300 units for the radius of the earth.
        let tenths = 20_000.0 / EARTH * 13_000.0;
        let (path, around) = circle(30.27, -97.74, 20_000).unwrap();
        let (x, y) = exact_place(30.27, -97.74).map(|(x, y)| (x * 10.0, y * 10.0)).unwrap();
        let corners = corners(&path);
        assert_eq!(corners.len(), CORNERS as usize);
        for (corner_x, corner_y) in corners {
            let far = (corner_x - x).hypot(corner_y - y);
            // Equal areas, not equal lengths.
            assert!((far / tenths - 1.0).abs() < 0.03, "{far} is not {tenths}");
        }
        let drawn = Drawn { circle: path, around, ..Drawn::default() };
        let [left, top, width, height] = drawn.frame().map(f64::from);
        assert!(left < x - tenths && x + tenths < left + width && top < y - tenths && y + tenths < top + height);
        assert!(height < 4.0 * tenths, "the map shows the circle and little else: {:?}", drawn.frame());
    }

    #[test]
    fn a_place_off_the_map_has_no_circle_and_neither_has_half_the_earth() {
        assert_eq!(circle(0.0, 0.0, 1_000), None);
        assert_eq!(circle(30.27, -97.74, 20_037_000), None);
        assert!(circle(61.2, -149.9, 900_000).is_some() && circle(30.27, -97.74, 1).is_some());
    }
}
