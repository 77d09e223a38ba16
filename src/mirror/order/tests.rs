//! The rule that explains an order.

use std::fmt;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_key = |SortKey { field, collation, falling }: &SortKey| {
            let folded = if *collation == Collation::Folded { " (any case)" } else { "" };
            format!("{field}{folded} {}", if *falling { "desc" } else { "asc" })
        };
        f.write_str(&self.0.iter().map(of_key).collect::<Vec<_>>().join(", "))
    }
}

fn summary(id: u64, name: &str, modified: &str) -> Summary {
    let raw = Bytes::from(format!(r#"{{"name":{name:?},"rating":null,"modified":"{modified}","id":{id}}}"#));
    Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
}

fn day(id: u64, name: &str, day: u64) -> Summary {
    summary(id, name, &format!("2026-01-{:02}T00:00:00+00:00", day % 28 + 1))
}

fn learned(sequence: &[Summary]) -> String {
    Rule::learn(sequence).map_or_else(String::new, |rule| rule.to_string())
}

#[test]
fn a_sequence_is_explained_by_what_orders_it() {
    let [a, b, c] = ["a", "b", "c"];
    for (sequence, rule) in [
        (&[day(1, c, 3), day(2, a, 9), day(7, b, 3)][..], "id asc"),
        (&[day(9, c, 9), day(2, a, 5), day(5, b, 5), day(1, "d", 1)], "modified desc, id asc"),
        (&[day(9, "ab", 9), day(2, "AC", 15), day(5, b, 5)], "name (any case) asc"),
        (&[day(1, a, 9), day(2, b, 5), day(3, c, 1)], "id asc"),
        (&[day(2, a, 9), day(1, b, 5), day(3, c, 1)], "modified desc"),
        (&[day(2, a, 5), day(3, a, 5), day(1, a, 5), day(4, a, 1)], "modified desc"),
        (&[day(3, b, 2), day(1, c, 7), day(2, a, 1)], ""),
        (&[day(3, b, 2)], ""),
        (&[], ""),
    ] {
        assert_eq!(learned(sequence), rule);
    }
}

#[test]
fn numbers_texts_and_instants_are_compared_by_value() {
    // 23:00, 22:30 and 22:00 of the first, whatever their texts say.
    let sequence = [
        summary(4, "x", "2026-01-02T01:00:00+02:00"),
        summary(2, "y", "2026-01-01T22:30:00Z"),
        summary(9, "a", "2026-01-01T12:00:00-10:00"),
    ];
    assert_eq!(learned(&sequence), "modified desc");
    let rated = |id: u64, rating: &str| {
        let raw = Bytes::from(format!(r#"{{"rating":{rating},"id":{id}}}"#));
        Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
    };
    let ratings = [rated(3, "null"), rated(7, "-3"), rated(1, "9"), rated(4, "10.5"), rated(2, "\"1\"")];
    assert_eq!(learned(&ratings), "rating asc");
}

#[test]
fn a_listing_stands_among_its_equals() {
    let sequence = [day(5, "d", 9), day(1, "a", 5), day(9, "c", 5), day(3, "b", 5), day(2, "e", 1)];
    let rule = Rule::learn(&sequence).unwrap();
    assert_eq!(rule.to_string(), "modified desc");
    for (of, places) in [(20, 0..=0), (9, 0..=1), (7, 1..=1), (5, 1..=4), (1, 4..=5), (0, 5..=5)] {
        assert_eq!(rule.places(&sequence, &day(7, "x", of)), places);
    }
}
