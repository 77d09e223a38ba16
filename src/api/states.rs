//! The states of the United States: their names, their postal codes, and their tiles on a map of tiles.
//!
//! Callers: [`crate::edge::search`] finds a state by its name and its code, [`crate::edge::pages`] draws the tiles.

/// Column and row.
type Tile = (u8, u8);

/// Name, postal code (USPS Publication 28), column and row of the tile. Names are as [`super::folding`] writes their words.
#[rustfmt::skip]
pub(crate) const STATES: [(&str, &str, Option<Tile>); 57] = [
    ("alabama", "al", Some((7, 6))), ("alaska", "ak", Some((0, 0))), ("american samoa", "as", None),
    ("arizona", "az", Some((2, 5))), ("arkansas", "ar", Some((5, 5))), ("california", "ca", Some((1, 4))),
    ("colorado", "co", Some((3, 4))), ("connecticut", "ct", Some((10, 3))), ("delaware", "de", Some((10, 4))),
    ("district of columbia", "dc", Some((9, 5))), ("florida", "fl", Some((9, 7))), ("georgia", "ga", Some((8, 6))),
    ("guam", "gu", None), ("hawaii", "hi", Some((0, 7))), ("idaho", "id", Some((2, 2))),
    ("illinois", "il", Some((6, 2))), ("indiana", "in", Some((6, 3))), ("iowa", "ia", Some((5, 3))),
    ("kansas", "ks", Some((4, 5))), ("kentucky", "ky", Some((6, 4))), ("louisiana", "la", Some((5, 6))),
    ("maine", "me", Some((11, 0))), ("maryland", "md", Some((9, 4))), ("massachusetts", "ma", Some((10, 2))),
    ("michigan", "mi", Some((7, 2))), ("minnesota", "mn", Some((5, 2))), ("mississippi", "ms", Some((6, 6))),
    ("missouri", "mo", Some((5, 4))), ("montana", "mt", Some((3, 2))), ("nebraska", "ne", Some((4, 4))),
    ("nevada", "nv", Some((2, 3))), ("new hampshire", "nh", Some((11, 1))), ("new jersey", "nj", Some((9, 3))),
    ("new mexico", "nm", Some((3, 5))), ("new york", "ny", Some((9, 2))), ("north carolina", "nc", Some((7, 5))),
    ("north dakota", "nd", Some((4, 2))), ("northern mariana islands", "mp", None), ("ohio", "oh", Some((7, 3))),
    ("oklahoma", "ok", Some((4, 6))), ("oregon", "or", Some((1, 3))), ("pennsylvania", "pa", Some((8, 3))),
    ("puerto rico", "pr", None), ("rhode island", "ri", Some((11, 2))), ("south carolina", "sc", Some((8, 5))),
    ("south dakota", "sd", Some((4, 3))), ("tennessee", "tn", Some((6, 5))), ("texas", "tx", Some((4, 7))),
    ("utah", "ut", Some((2, 4))), ("vermont", "vt", Some((10, 1))), ("virgin islands", "vi", None),
    ("virginia", "va", Some((8, 4))), ("washington dc", "dc", None), ("washington", "wa", Some((1, 2))),
    ("west virginia", "wv", Some((7, 4))), ("wisconsin", "wi", Some((6, 1))), ("wyoming", "wy", Some((3, 3))),
];

/// The other name of a state: its postal code, or what that stands for.
pub(crate) fn other_name(words: &str) -> Option<&'static str> {
    let named = |name: &str| STATES.iter().find(|(own, ..)| *own == name).map(|(_, code, _)| *code);
    named(words).or_else(|| name_of(words))
}

/// What a postal code stands for.
pub(crate) fn name_of(code: &str) -> Option<&'static str> {
    STATES.iter().find(|(_, own, _)| own.eq_ignore_ascii_case(code)).map(|(name, ..)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_by_its_name_and_by_its_code() {
        assert_eq!(other_name("texas"), Some("tx"));
        assert_eq!(other_name("tx"), Some("texas"));
        assert_eq!(["district of columbia", "washington dc"].map(other_name), [Some("dc"); 2]);
        assert_eq!((other_name("ontario"), name_of("TX"), name_of("DC")), (None, Some("texas"), other_name("dc")));
    }

    #[test]
    fn no_two_states_have_the_same_tile() {
        let mut places: Vec<(u8, u8)> = STATES.iter().filter_map(|(.., place)| *place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 51, "two tiles lie on each other, or one is missing");
    }
}
