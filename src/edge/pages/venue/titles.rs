//! Titles of fields that have a known name, and the dates in them.
//!
//! Callers: [`super`].

use crate::edge::pages::detail::{Value, plain};

const CHANGED: &str = "Last changed";
const ADDED: &str = "Added";

const TITLES: [(&str, &str); 18] = [
    ("modified", CHANGED),
    ("modifiedat", CHANGED),
    ("updated", CHANGED),
    ("updatedat", CHANGED),
    ("created", ADDED),
    ("createdat", ADDED),
    ("amenities", "Amenities"),
    ("businessstatus", "Status"),
    ("capacity", "Capacity"),
    ("categories", "Categories"),
    ("description", "Description"),
    ("email", "Email"),
    ("placeid", "Place ID"),
    ("postalcode", "Postal code"),
    ("pricelevel", "Price level"),
    ("surface", "Surface"),
    ("timezone", "Time zone"),
    ("yearbuilt", "Year built"),
];

/// The title of a field; `None`: its name is not known.
pub(super) fn title(name: &str) -> Option<&'static str> {
    let name = plain(name);
    TITLES.iter().find(|(known, _)| *known == name).map(|(_, title)| *title)
}

/// The instant in a field for one: RFC 3339 in UTC, or a date.
pub(super) fn instant_in<'v>(name: &str, value: &'v Value<'_>) -> Option<&'v str> {
    let is_for_one = title(name).is_some_and(|title| [CHANGED, ADDED].contains(&title));
    let text = value.scalar().filter(|_| is_for_one)?;
    // `dddd-dd-dd`, then nothing or a time.
    let is_date = |date: &[u8]| {
        date.iter()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { *byte == b'-' } else { byte.is_ascii_digit() })
    };
    let (date, time) = text.as_bytes().split_at_checked(10)?;
    let is_time = time.is_empty()
        || (time[0] == b'T'
            && time.ends_with(b"Z")
            && time.iter().all(|byte| byte.is_ascii_digit() || b"T:.Z".contains(byte)));
    (is_date(date) && is_time && time.len() <= 20).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_for_an_instant_shows_it_and_another_text_stays_text() {
        let shown = |name: &str, text: &str| {
            let value = Value::Text(text.to_owned().into());
            instant_in(name, &value).map(str::to_owned)
        };
        for text in ["2025-01-31", "2025-01-31T12:00:00Z", "2025-01-31T12:00:00.123456Z"] {
            assert_eq!(shown("modified", text).as_deref(), Some(text));
            assert_eq!(shown("updated_at", text).as_deref(), Some(text));
            assert_eq!(shown("slogan", text), None);
        }
        for text in
            ["yesterday", "2025-01-31T<b>Z", "2025/01/31", "2025-01-31é", "", "20250131", "2025-01-31T12:00:00+01:00"]
        {
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
