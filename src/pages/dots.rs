//! The listings of a snapshot as dots on the map, read once per explored snapshot.
//!
//! Four bytes a listing. The drawing is bounded: dots that fall together are drawn once, on a grid that is coarser for
//! more dots. Callers: [`super::explore`].

use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::snapshot::dataset::Dataset;

use super::albers::{self, HEIGHT, WIDTH};
use super::facts::Venue;

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
pub(super) struct Dots(Mutex<Option<(String, Places)>>);

/// A drawing of some listings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drawn {
    /// A path of dots: strokes without length, with round ends.
    pub path: String,
    /// How many of the listings are on the map.
    pub shown: usize,
}

impl Dots {
    /// Draws the listings at some positions.
    pub(super) fn draw(&self, dataset: &Dataset, positions: &[u32]) -> Drawn {
        let places = self.of(dataset);
        let places = positions.iter().filter_map(|position| places.get(*position as usize));
        draw(places.copied().filter(|place| *place != NOWHERE))
    }

    /// The places of a snapshot. Concurrent callers wait instead of reading them again.
    fn of(&self, dataset: &Dataset) -> Places {
        let mut last = self.0.lock();
        if let Some((_, places)) = last.as_ref().filter(|(id, _)| id == dataset.id.as_str()) {
            return places.clone();
        }
        let place = |venue: Venue<'_>| albers::place(venue.lat?, venue.lng?);
        let summaries = dataset.content.summaries.iter();
        let places: Places = summaries.map(|summary| place(Venue::read(&summary.raw)).unwrap_or(NOWHERE)).collect();
        *last = Some((dataset.id.to_string(), places.clone()));
        places
    }
}

/// Draws places on the finest grid that keeps the bound.
fn draw(places: impl Iterator<Item = (u16, u16)>) -> Drawn {
    let mut places: Vec<(u16, u16)> = places.map(|(x, y)| (y, x)).collect();
    let shown = places.len();
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
    Drawn { path, shown }
}

/// A map full of dots fits; so the loop in [`draw`] ends.
const _: () = assert!((WIDTH / 80 + 1) * (HEIGHT / 80 + 1) < MOST as u32 && FINEST * 16 == 80);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_that_fall_together_are_drawn_once() {
        let drawn = draw([(100, 200), (101, 203), (500, 600)].into_iter());
        assert_eq!(drawn, Drawn { path: "M100 200h0M500 600h0".to_owned(), shown: 3 });
        assert_eq!(draw(std::iter::empty()), Drawn::default());
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
