//! Titles of fields that have a known name, and the dates in them.
//!
//! Callers: [`super`].

use jiff::Timestamp;
use jiff::civil::Date;

use crate::edge::pages::detail::{Value, plain};

const CHANGED: &str = "Last changed";
const ADDED: &str = "Added";

const TITLES: [(&str, &str); 24] = [
    ("modified", CHANGED),
    ("modifiedat", CHANGED),
    ("updated", CHANGED),
    ("updatedat", CHANGED),
    ("created", ADDED),
    ("createdat", ADDED),
    ("amenities", "Amenities"),
    ("author", "Author"),
    ("authorname", "Author"),
    ("authorurl", "Author's page"),
    ("businessstatus", "Status"),
    ("capacity", "Capacity"),
    ("categories", "Categories"),
    ("description", "Description"),
    ("email", "Email"),
    ("id", "ID"),
    ("placeid", "Place ID"),
    ("postalcode", "Postal code"),
    ("pricelevel", "Price level"),
    ("rating", "Rating"),
    ("surface", "Surface"),
    ("text", "Text"),
    ("timezone", "Time zone"),
    ("yearbuilt", "Year built"),
];

/// The title of a field; `None`: its name is not known.
pub(super) fn title(name: &str) -> Option<&'static str> {
    let name = plain(name);
    TITLES.iter().find(|(known, _)| *known == name).map(|(_, title)| *title)
}

/// The instant in a field for one, in UTC, or the date.
pub(super) fn instant_in(name: &str, value: &Value<'_>) -> Option<String> {
    let is_for_one = title(name).is_some_and(|title| [CHANGED, ADDED].contains(&title));
    let text = value.scalar().filter(|_| is_for_one)?;
    let is_day = text.len() == 10 && text.parse().is_ok_and(|day: Date| day.to_string() == text);
    let day = is_day.then(|| text.to_owned());
    day.or_else(|| Some(text.parse::<Timestamp>().ok()?.strftime("%FT%TZ").to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_for_an_instant_shows_it_and_another_text_stays_text() {
        let shown = |name: &str, text: &str| {
            let value = Value::Text(text.to_owned().into());
            instant_in(name, &value)
        };
        for (text, at) in [
            ("2025-01-31", "2025-01-31"),
            ("2025-01-31T12:00:00Z", "2025-01-31T12:00:00Z"),
            ("2025-01-31T12:00:00.123456Z", "2025-01-31T12:00:00Z"),
            ("2025-01-31T12:00:00-08:00", "2025-01-31T20:00:00Z"),
        ] {
            assert_eq!(shown("modified", text).as_deref(), Some(at));
            assert_eq!(shown("updated_at", text).as_deref(), Some(at));
            assert_eq!(shown("slogan", text), None);
        }
        for text in ["yesterday", "2025-01-31T<b>Z", "2025/01/31", "2025-01-31é", "", "20250131", "2025-02-31"] {
            assert_eq!(shown("modified", text), None, "{text}");
        }
    }

    #[test]
    fn known_names_have_titles_however_they_are_spelled() {
        assert_eq!(
            ["place_id", "placeId", "Price Level", "slogan"].map(title),
            [Some("Place ID"), Some("Place ID"), Some("Price level"), None]
        );
    }
}
