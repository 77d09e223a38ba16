//! Map positions of venues: the part of the earth that shows a selection, its points, and counts where there are too
//! many.
//!
//! `static/map.js` draws them. Callers: [`super::explore`], [`super::venue`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use crate::api::json::quote;
use crate::api::listing::Venue;
use crate::api::query::search::{Bounds, PER_DEGREE, Point};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::edge::search::places::Center;
use crate::words::grouped;

use super::Last;
use super::room::PageRoom;

/// The most points of one answer; above that it has counts.
const MOST: usize = 1_000;

/// So many cells lie side by side in a view, at least; at most twice as many.
const CELLS: f64 = 9.0;

/// The markup of a point without its name, in bytes.
const POINT: usize = 60;

/// Stands for a listing without a place.
const NOWHERE: Point = Point { lat: i32::MAX, lng: i32::MAX };

/// West, south, east and north of the contiguous states, in degrees.
const CONTIGUOUS: [f64; 4] = [-125.0, 24.4, -66.9, 49.5];

/// The places of the listings of the snapshot that was asked for last, by position.
#[derive(Default)]
pub(super) struct Places(Last<SnapshotId, Arc<[Point]>>);

/// Where a venue is; `None` if its coordinates are missing, or on no earth.
pub(super) fn place(venue: &Venue<'_>) -> Option<Point> {
    Point::of(venue.lat?, venue.lng?)
}

/// `LAT,LNG` to a metre, as scripts read it.
pub(super) fn written(point: Point) -> String {
    let [lat, lng] = degrees(point);
    format!("{lat},{lng}")
}

/// Latitude and longitude in degrees, to a metre.
fn degrees(point: Point) -> [f64; 2] {
    [point.lat, point.lng].map(|units| (f64::from(units) / 100.0).round() / (PER_DEGREE / 100.0))
}

/// What a map says of a selection before it has its points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extent {
    pub placed: usize,
    /// West, south, east and north, in degrees.
    frame: [f64; 4],
}

impl Extent {
    /// `W,S,E,N`.
    pub(super) fn written(&self) -> String {
        self.frame.map(|edge| edge.to_string()).join(",")
    }
}

impl Places {
    fn all(&self, dataset: &Dataset) -> Arc<[Point]> {
        self.0.get_or_make(dataset.id.clone(), || {
            let summaries = dataset.content.summaries.iter();
            summaries.map(|summary| place(&Venue::read(&summary.raw)).unwrap_or(NOWHERE)).collect()
        })
    }

    /// The extent of the listings at some positions. A few that are far from the contiguous states do not make the map
    /// of the others small.
    pub(super) fn extent(&self, dataset: &Dataset, positions: &[u32]) -> Extent {
        let all = self.all(dataset);
        extent(positions.iter().filter_map(|at| all.get(*at as usize)).filter(|at| **at != NOWHERE).copied())
    }

    /// The points of the listings at some positions that a view has, as JSON; counts of them where there are too many.
    pub(super) fn json(&self, dataset: &Dataset, positions: &[u32], view: Option<Bounds>, room: &PageRoom) -> String {
        let all = self.all(dataset);
        let placed = positions.iter().filter_map(|at| Some((*at, *all.get(*at as usize)?)));
        let mut points: Vec<(u32, Point)> = placed.filter(|(_, point)| *point != NOWHERE).collect();
        let is_whole = points.len() <= MOST;
        if let Some(view) = view.filter(|_| !is_whole) {
            points.retain(|(_, point)| view.contains(*point));
        }
        if points.len() > MOST {
            return json!({ "cells": cells(points.iter().map(|(_, point)| *point), view) }).to_string();
        }
        let mut text = format!("{{\"whole\":{is_whole},\"points\":[");
        for (position, point) in points {
            let Some(summary) = dataset.content.summaries.get(position as usize).filter(|_| room.takes(POINT)) else {
                break;
            };
            let name = Venue::read(&summary.raw).name.unwrap_or_default();
            let ([lat, lng], comma) = (degrees(point), if text.ends_with('[') { "" } else { "," });
            // Writing to a String cannot fail. Scripts would round a large number: an id is a text.
            let _ = write!(text, "{comma}[\"{}\",{lat},{lng},{}]", summary.id, quote(&room.short(name.trim())));
        }
        text + "]}"
    }

    /// The middle of the listings at some positions; `None`: no place of them is known.
    pub(super) fn middle(&self, dataset: &Dataset, positions: &[u32]) -> Option<Point> {
        let all = self.all(dataset);
        let placed = positions.iter().filter_map(|at| all.get(*at as usize)).filter(|at| **at != NOWHERE);
        Point::middle(placed.copied())
    }

    /// The positions nearest to a point within so many metres, with their distances, and not `own`.
    pub(super) fn nearest(
        &self,
        dataset: &Dataset,
        (point, own): (Point, u32),
        most: usize,
        metres: f64,
    ) -> Vec<(u32, u32)> {
        let (all, from) = (self.all(dataset), Center::of(point));
        let others = (0_u32..).zip(all.iter().copied()).filter(|(at, other)| *at != own && *other != NOWHERE);
        // A degree of latitude is 111 km: most venues are left out without a sine.
        let reach = (metres / 111_000.0 * PER_DEGREE) as u32;
        let close = others.filter(|(_, other)| other.lat.abs_diff(point.lat) <= reach);
        let mut found: Vec<(u32, u32)> = close.map(|(at, other)| (from.distance(other) as u32, at)).collect();
        found.retain(|(away, _)| f64::from(*away) <= metres);
        found.sort_unstable();
        found.truncate(most);
        found.into_iter().map(|(away, at)| (at, away)).collect()
    }
}

/// "0.3 mi", "12 mi", "1,235 mi".
pub(super) fn miles(metres: u32) -> String {
    let miles = f64::from(metres) / 1609.344;
    if miles < 9.95 { format!("{miles:.1} mi") } else { format!("{} mi", grouped(miles.round() as u64)) }
}

fn extent(points: impl Iterator<Item = Point>) -> Extent {
    const NOTHING: [f64; 4] = [180.0, 90.0, -180.0, -90.0];
    let ([mut every, mut near], [mut placed, mut is_near]) = ([NOTHING; 2], [0_usize; 2]);
    for point in points {
        let [lat, lng] = degrees(point);
        let grown =
            |[west, south, east, north]: [f64; 4]| [west.min(lng), south.min(lat), east.max(lng), north.max(lat)];
        (every, placed) = (grown(every), placed + 1);
        let [west, south, east, north] = CONTIGUOUS;
        if (west..=east).contains(&lng) && (south..=north).contains(&lat) {
            (near, is_near) = (grown(near), is_near + 1);
        }
    }
    let frame = match placed {
        0 => CONTIGUOUS,
        _ if is_near * 10 >= placed * 9 => near,
        _ => every,
    };
    Extent { placed, frame }
}

/// The middle of the points of each cell, in degrees, and their number.
fn cells(points: impl Iterator<Item = Point>, view: Option<Bounds>) -> Vec<(f64, f64, u32)> {
    let span = view.map_or(360.0, |view| {
        let between = |low: i32, high: i32| (f64::from(high) - f64::from(low)) / PER_DEGREE;
        let wide = between(view.south_west.lng, view.north_east.lng).rem_euclid(360.001);
        wide.max(between(view.south_west.lat, view.north_east.lat) * 4.0 / 3.0).max(0.001)
    });
    // A half, a quarter, ... of a turn: the cells of a view stay where they are when it moves.
    let side = 360.0 / 2_f64.powf((360.0 / (span / CELLS)).log2().ceil());
    let mut cells: BTreeMap<(i32, i32), (f64, f64, u32)> = BTreeMap::new();
    for [lat, lng] in points.map(degrees) {
        let cell = ((lat / (side * 0.75)).floor() as i32, (lng / side).floor() as i32);
        let (lats, lngs, count) = cells.entry(cell).or_default();
        (*lats, *lngs, *count) = (*lats + lat, *lngs + lng, *count + 1);
    }
    let middle = |sum: f64, count: u32| (sum / f64::from(count) * 1e4).round() / 1e4;
    cells.into_values().map(|(lats, lngs, count)| (middle(lats, count), middle(lngs, count), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lat: f64, lng: f64) -> Point {
        Point::of(lat, lng).unwrap()
    }

    fn view([west, south, east, north]: [f64; 4]) -> Bounds {
        Bounds { south_west: at(south, west), north_east: at(north, east) }
    }

    #[test]
    fn a_distance_is_in_miles() {
        let texts = [0, 800, 16_000, 16_100, 2_000_000].map(miles);
        assert_eq!(texts, ["0.0 mi", "0.5 mi", "9.9 mi", "10 mi", "1,243 mi"]);
    }

    #[test]
    fn a_map_shows_its_venues_and_a_few_far_away_do_not_make_them_small() {
        let austin = [at(30.2, -97.8), at(30.4, -97.6)];
        assert_eq!(extent(austin.into_iter()).written(), "-97.8,30.2,-97.6,30.4");
        let many = (0..20).flat_map(|_| austin);
        let far = extent(many.chain([at(0.0, 0.0), at(61.2, -149.9)]));
        assert_eq!((far.written().as_str(), far.placed), ("-97.8,30.2,-97.6,30.4", 42));
        assert_eq!(extent([at(61.2, -149.9)].into_iter()).written(), "-149.9,61.2,-149.9,61.2");
        assert_eq!(extent(std::iter::empty()).written(), "-125,24.4,-66.9,49.5");
    }

    #[test]
    fn a_view_has_what_lies_in_it_also_across_the_date_line() {
        let texas = view([-107.0, 26.0, -94.0, 37.0]);
        assert!(
            texas.contains(at(30.0, -97.0)) && !texas.contains(at(30.0, -90.0)) && !texas.contains(at(40.0, -97.0))
        );
        let pacific = view([170.0, -90.0, -170.0, 90.0]);
        assert!(
            pacific.contains(at(0.0, 175.0)) && pacific.contains(at(0.0, -175.0)) && !pacific.contains(at(0.0, 0.0))
        );
    }

    #[test]
    fn counts_are_few_in_any_view_and_count_every_point_once() {
        let points = |count: u32, [west, south, east, north]: [f64; 4]| {
            (0..count).map(move |nth| {
                let (across, up) = (f64::from(nth % 317) / 317.0, f64::from(nth % 1009) / 1009.0);
                at(south + (north - south) * up, west + (east - west) * across)
            })
        };
        for edges in [[-180.0, -85.0, 180.0, 85.0], CONTIGUOUS, [-97.8, 30.2, -97.7, 30.4], [-98.0, 30.0, -97.0, 30.1]]
        {
            let cells = cells(points(100_000, edges), Some(view(edges)));
            assert!((9..=MOST).contains(&cells.len()), "{} cells in {edges:?}", cells.len());
            assert_eq!(cells.iter().map(|(.., count)| count).sum::<u32>(), 100_000, "{edges:?}");
        }
        let everywhere = cells(points(100_000, [-180.0, -90.0, 180.0, 90.0]), None);
        assert!(everywhere.len() <= MOST, "{}", everywhere.len());
    }

    #[test]
    fn outlines_have_every_state_and_known_cities_lie_in_theirs() {
        type State = (String, Vec<Vec<i32>>);
        let states: Vec<State> = serde_json::from_str(include_str!("vendored/states.json")).unwrap();
        assert_eq!(states.len(), 51);
        // By the even-odd rule.
        let has = |rings: &[Vec<i32>], (lat, lng): (f64, f64)| {
            rings
                .iter()
                .flat_map(|ring| {
                    let (mut x, mut y) = (0, 0);
                    let corners: Vec<(f64, f64)> = ring
                        .chunks_exact(2)
                        .map(|step| {
                            (x, y) = (x + step[0], y + step[1]);
                            (f64::from(x) / 100.0, f64::from(y) / 100.0)
                        })
                        .collect();
                    (0..corners.len()).map(|nth| (corners[nth], corners[(nth + 1) % corners.len()])).collect::<Vec<_>>()
                })
                .filter(|((ax, ay), (bx, by))| {
                    (*ay > lat) != (*by > lat) && lng < (bx - ax) * (lat - ay) / (by - ay) + ax
                })
                .count()
                % 2
                == 1
        };
        for (state, city, lat, lng) in [
            ("Alaska", "Anchorage", 61.18, -149.85),
            ("California", "Fresno", 36.74, -119.79),
            ("Colorado", "Denver", 39.74, -104.99),
            ("Florida", "Orlando", 28.54, -81.38),
            ("Hawaii", "Mauna Kea", 19.82, -155.47),
            ("Kansas", "Wichita", 37.69, -97.34),
            ("Maine", "Augusta", 44.31, -69.78),
            ("Michigan", "Marquette", 46.50, -87.45),
            ("New York", "Syracuse", 43.05, -76.15),
            ("Texas", "Austin", 30.27, -97.74),
            ("Washington", "Yakima", 46.60, -120.51),
        ] {
            for (name, rings) in &states {
                assert_eq!(has(rings, (lat, lng)), name == state, "{city}, {state}: {name}");
            }
        }
    }
}
