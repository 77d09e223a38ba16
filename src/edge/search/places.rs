//! Positions of listings: a scan from end to end.
//!
//! That takes a nanosecond a listing, and no memory beyond the coordinates. Callers: [`super::index`].

use crate::api::query::search::{Bounds, Near, PER_DEGREE, Point};

use super::order::Rank;

/// The mean radius of the earth in metres (IUGG).
const EARTH: f64 = 6_371_008.8;

/// Of a listing without valid coordinates: it lies within no bounds.
const NOWHERE: Point = Point { lat: i32::MIN, lng: i32::MIN };

pub(super) struct Places(Box<[Point]>);

/// No listing here matches.
pub(super) const NO_MATCH: Rank = Rank::MAX;

impl Places {
    pub(super) fn of(points: impl Iterator<Item = Option<Point>>) -> Self {
        Self(points.map(|point| point.unwrap_or(NOWHERE)).collect())
    }

    /// Takes back the matches outside of some bounds.
    pub(super) fn keep_within(&self, bounds: &Bounds, ranks: &mut [Rank]) {
        for (point, rank) in self.0.iter().zip(ranks) {
            *rank |= if bounds.contains(*point) { 0 } else { NO_MATCH };
        }
    }

    /// The middle of the listings at some positions; `None`: no place of them is known.
    pub(super) fn middle(&self, positions: impl Iterator<Item = u32>) -> Option<Point> {
        Point::middle(positions.map(|at| self.0[at as usize]).filter(|point| *point != NOWHERE))
    }

    /// The distance of a listing from a point in metres.
    pub(super) fn distance(&self, position: u32, from: &Center) -> f64 {
        from.distance(self.0[position as usize])
    }
}

/// The point that distances are measured from.
pub(crate) struct Center {
    lat: f64,
    lng: f64,
    cosine: f64,
}

fn radians(units: i32) -> f64 {
    (f64::from(units) / PER_DEGREE).to_radians()
}

impl Center {
    pub(crate) fn of(point: Point) -> Self {
        let lat = radians(point.lat);
        Self { lat, lng: radians(point.lng), cosine: lat.cos() }
    }

    /// In metres, by the haversine formula on a sphere: wrong by at most 0.6 %, as the earth is flat at its poles.
    pub(crate) fn distance(&self, to: Point) -> f64 {
        let (lat, lng) = (radians(to.lat), radians(to.lng));
        let (south, east) = (((lat - self.lat) / 2.0).sin(), ((lng - self.lng) / 2.0).sin());
        let half = south * south + self.cosine * lat.cos() * east * east;
        2.0 * EARTH * half.sqrt().min(1.0).asin()
    }
}

/// Bounds of all points that lie as near as that, and perhaps some more.
pub(super) fn around(near: &Near) -> Bounds {
    let angle = f64::from(near.radius) / EARTH;
    let units = |radians: f64| (radians.to_degrees() * PER_DEGREE).ceil() + 1.0;
    let (lat, lng) = (f64::from(near.point.lat), f64::from(near.point.lng));
    let (quarter, half) = (90.0 * PER_DEGREE, 180.0 * PER_DEGREE);
    let (south, north) = (lat - units(angle), lat + units(angle));
    let across = angle.sin() / radians(near.point.lat).cos();
    // Around a pole, and more than half of the earth: every meridian.
    let (west, east) = if south <= -quarter || north >= quarter || across >= 1.0 {
        (-half, half)
    } else {
        let turned = |lng: f64| {
            if lng < -half {
                lng + 2.0 * half
            } else if lng > half {
                lng - 2.0 * half
            } else {
                lng
            }
        };
        (turned(lng - units(across.asin())), turned(lng + units(across.asin())))
    };
    let point = |lat: f64, lng: f64| Point { lat: lat.clamp(-quarter, quarter) as i32, lng: lng as i32 };
    Bounds { south_west: point(south, west), north_east: point(north, east) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::search::SearchQuery;
    use proptest::prelude::*;

    fn near(lat: f64, lng: f64, km: f64) -> Near {
        SearchQuery::parse(&format!("near={lat},{lng}&radius={km}")).unwrap().near.unwrap()
    }

    fn point(lat: f64, lng: f64) -> Point {
        Point::of(lat, lng).unwrap()
    }

    #[test]
    fn known_distances_are_right() {
        for (from, to, km) in [
            (point(52.52, 13.405), point(48.8566, 2.3522), 877.5),
            (point(30.27, -97.74), point(32.78, -96.80), 292.97),
            (point(0.0, 179.9), point(0.0, -179.9), 22.2),
            (point(90.0, 5.0), point(-90.0, 5.0), 20_015.1),
            (point(1.0, 2.0), point(1.0, 2.0), 0.0),
        ] {
            let found = Center::of(from).distance(to) / 1000.0;
            assert!((found - km).abs() < 0.1, "{from:?} to {to:?}: {found}");
        }
    }

    #[test]
    fn bounds_may_cross_the_date_line_and_end_at_the_poles() {
        let places = Places::of(
            [Some(point(0.0, 179.5)), Some(point(0.0, -179.5)), Some(point(0.0, 0.0)), None, Some(point(90.0, 77.0))]
                .into_iter(),
        );
        let within = |query: &str| {
            let mut ranks = [0; 5];
            places.keep_within(&SearchQuery::parse(query).unwrap().bounds.unwrap(), &mut ranks);
            ranks.map(|rank| rank == 0)
        };
        assert_eq!(within("bbox=179,-1,-179,1"), [true, true, false, false, false]);
        assert_eq!(within("bbox=-179,-1,179,1"), [false, false, true, false, false]);
        assert_eq!(within("bbox=-180,-90,180,90"), [true, true, true, false, true]);
        assert_eq!(within("bbox=0,0,0,0"), [false, false, true, false, false]);
    }

    proptest! {
        #[test]
        fn nothing_that_is_near_lies_outside_of_the_bounds_around(
            lat in -90.0..=90.0_f64, lng in -180.0..=180.0_f64, exponent in 0.0..7.3_f64,
            bearing in 0.0..std::f64::consts::TAU, share in 0.0..=1.0_f64,
        ) {
            let near = near(lat, lng, (10_f64.powf(exponent) / 1000.0).clamp(0.001, 20_038.0));
            // A point at a part of the radius in that direction.
            let (angle, from) = (share * f64::from(near.radius) / EARTH, Center::of(near.point));
            let to = (from.lat.sin() * angle.cos() + from.cosine * angle.sin() * bearing.cos()).clamp(-1.0, 1.0).asin();
            let turn = (bearing.sin() * angle.sin() * from.cosine).atan2(angle.cos() - from.lat.sin() * to.sin());
            let meridian = (from.lng + turn).to_degrees();
            let meridian = (meridian + 540.0).rem_euclid(360.0) - 180.0;
            let there = point(to.to_degrees().clamp(-90.0, 90.0), meridian.clamp(-180.0, 180.0));
            let places = Places::of([Some(there)].into_iter());
            if places.distance(0, &from) <= f64::from(near.radius) {
                let mut ranks = [0];
                places.keep_within(&around(&near), &mut ranks);
                prop_assert_eq!(ranks, [0], "{:?} {:?}", near, there);
            }
        }
    }
}
