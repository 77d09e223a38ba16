//! Draws a place on the map: Albers' equal-area projection of the states, with Alaska and Hawaii below the west.
//!
//! It equals `geoAlbersUsa().scale(1300).translate([487.5, 305])` of d3-geo, which drew the outlines in
//! `vendored/states.tsv`. `static/explore.js` has it once more; a test compares them. Callers: [`super::dots`].

use std::f64::consts::PI;

/// The width of the map, in tenths of a unit of the outlines.
pub(super) const WIDTH: u32 = 9750;
/// Its height.
pub(super) const HEIGHT: u32 = 6100;

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

    /// Where a place is drawn, if the frame has it; in units of the outlines.
    fn place(&self, latitude: f64, longitude: f64) -> Option<(f64, f64)> {
        let mut turned = (longitude - self.meridian).to_radians();
        if turned > PI {
            turned -= 2.0 * PI;
        } else if turned < -PI {
            turned += 2.0 * PI;
        }
        let (x, y) = self.raw(turned, latitude.to_radians());
        let (middle_x, middle_y) = self.raw(self.center.0.to_radians(), self.center.1.to_radians());
        // From the middle of the whole, in scales.
        let (x, y) = (self.shift.0 + self.size * (x - middle_x), self.shift.1 - self.size * (y - middle_y));
        let [left, top, right, bottom] = self.frame;
        let inside = left <= x && x <= right && top <= y && y <= bottom;
        inside.then_some((MIDDLE.0 + SCALE * x, MIDDLE.1 + SCALE * y))
    }
}

/// Where a place is drawn, in tenths of a unit of the outlines; `None` if it is off the map.
pub(super) fn place(latitude: f64, longitude: f64) -> Option<(u16, u16)> {
    if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
        return None;
    }
    let (x, y) = INSETS.iter().find_map(|inset| inset.place(latitude, longitude))?;
    let tenths = |units: f64, most: u32| (units * 10.0).round().clamp(0.0, f64::from(most)) as u16;
    Some((tenths(x, WIDTH), tenths(y, HEIGHT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, latitude, longitude, and where it is drawn.
    type Place = (String, f64, f64, Option<(u16, u16)>);

    #[test]
    fn places_lie_where_d3_draws_them() {
        // By d3-geo 3, and at the edge what it draws beyond. The scripts' tests read the same file.
        let places = include_str!("../../tests/scripts/places.json");
        let places: Vec<Place> = serde_json::from_str(places).unwrap();
        assert!(places.len() > 10);
        for (name, latitude, longitude, expected) in places {
            assert_eq!(place(latitude, longitude), expected, "{name}");
        }
        assert_eq!(place(f64::NAN, 0.0), None);
    }
}
