//! Tile chart of the states on the front page.
//!
//! A term is a state if its name or slug says so; other terms are in lists only. Callers: [`super::front`].

use maud::{Markup, html};

use crate::api::states::STATES;
use crate::words::grouped;

use super::facts::TermFact;
use super::room::PageRoom;

/// The side of a tile, and how far they are apart.
const TILE: u32 = 44;
const STEP: u32 = 48;

fn is_state(term: &TermFact<'_>, name: &str) -> bool {
    let dashed = |byte: u8| if byte == b' ' { b'-' } else { byte.to_ascii_lowercase() };
    let is_slug = || term.slug.bytes().map(dashed).eq(name.bytes().map(dashed));
    term.label.eq_ignore_ascii_case(name) || is_slug()
}

/// A chart of the states as tiles, darker for more listings; each leads to the finder.
pub(super) fn tiles(states: &[TermFact<'_>], room: &PageRoom) -> Markup {
    let most = states.iter().filter_map(|state| state.count).max().unwrap_or(0).max(1);
    let tiles = STATES.iter().filter_map(|(name, code, place)| {
        let (column, row) = (*place)?;
        let term = states.iter().find(|term| is_state(term, name))?;
        Some((term, code.to_ascii_uppercase(), u32::from(column) * STEP, u32::from(row) * STEP))
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
