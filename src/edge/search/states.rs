//! The states of the United States and their postal codes: a search finds them by either.
//!
//! Callers: [`super::index`].

/// Postal codes (USPS Publication 28), and names as [`crate::api::folding`] writes their words.
const STATES: [(&str, &str); 57] = [
    ("ak", "alaska"),
    ("al", "alabama"),
    ("ar", "arkansas"),
    ("as", "american samoa"),
    ("az", "arizona"),
    ("ca", "california"),
    ("co", "colorado"),
    ("ct", "connecticut"),
    ("dc", "district of columbia"),
    ("dc", "washington dc"),
    ("de", "delaware"),
    ("fl", "florida"),
    ("ga", "georgia"),
    ("gu", "guam"),
    ("hi", "hawaii"),
    ("ia", "iowa"),
    ("id", "idaho"),
    ("il", "illinois"),
    ("in", "indiana"),
    ("ks", "kansas"),
    ("ky", "kentucky"),
    ("la", "louisiana"),
    ("ma", "massachusetts"),
    ("md", "maryland"),
    ("me", "maine"),
    ("mi", "michigan"),
    ("mn", "minnesota"),
    ("mo", "missouri"),
    ("mp", "northern mariana islands"),
    ("ms", "mississippi"),
    ("mt", "montana"),
    ("nc", "north carolina"),
    ("nd", "north dakota"),
    ("ne", "nebraska"),
    ("nh", "new hampshire"),
    ("nj", "new jersey"),
    ("nm", "new mexico"),
    ("nv", "nevada"),
    ("ny", "new york"),
    ("oh", "ohio"),
    ("ok", "oklahoma"),
    ("or", "oregon"),
    ("pa", "pennsylvania"),
    ("pr", "puerto rico"),
    ("ri", "rhode island"),
    ("sc", "south carolina"),
    ("sd", "south dakota"),
    ("tn", "tennessee"),
    ("tx", "texas"),
    ("ut", "utah"),
    ("va", "virginia"),
    ("vi", "virgin islands"),
    ("vt", "vermont"),
    ("wa", "washington"),
    ("wi", "wisconsin"),
    ("wv", "west virginia"),
    ("wy", "wyoming"),
];

/// The other name of a state: its postal code, or what that stands for.
pub(super) fn other_name(words: &str) -> Option<&'static str> {
    STATES.iter().find_map(|(code, name)| match words {
        words if words == *name => Some(*code),
        words if words == *code => Some(*name),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_found_by_its_name_and_by_its_code() {
        assert_eq!(other_name("texas"), Some("tx"));
        assert_eq!(other_name("tx"), Some("texas"));
        assert_eq!(["district of columbia", "washington dc"].map(other_name), [Some("dc"); 2]);
        assert_eq!(other_name("ontario"), None);
    }
}
