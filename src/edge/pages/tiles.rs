//! Tile chart of the states on the front page.
//!
//! A term is a state if its name or slug says so; other terms are in lists only. Callers: [`super::front`],
//! [`super::facts`].

use maud::{Markup, html};

use crate::words::grouped;

use super::facts::TermFact;
use super::room::PageRoom;

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

fn is_state(term: &TermFact<'_>, name: &str) -> bool {
    let dashed = |byte: u8| if byte == b' ' { b'-' } else { byte.to_ascii_lowercase() };
    let is_slug = || term.slug.bytes().map(dashed).eq(name.bytes().map(dashed));
    term.label.eq_ignore_ascii_case(name) || is_slug()
}

pub(super) fn state_named(code: &str) -> Option<&'static str> {
    TILES.iter().find(|(_, own, ..)| own.eq_ignore_ascii_case(code)).map(|(name, ..)| *name)
}

/// A chart of the states as tiles, darker for more listings; each leads to the finder.
pub(super) fn tiles(states: &[TermFact<'_>], room: &PageRoom) -> Markup {
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

pub(super) fn escaped(value: &str) -> String {
    let mut text = String::new();
    crate::api::query::encode(value, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_states_have_the_same_tile() {
        let mut places: Vec<(u8, u8)> = TILES.iter().map(|(.., column, row)| (*column, *row)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), TILES.len(), "two tiles lie on each other");
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
}
