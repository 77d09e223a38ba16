//! Rules that explain an order.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;

fn summary(id: u64, name: &str, modified: &str) -> Summary {
    let raw = Bytes::from(format!(r#"{{"id":{id},"name":{name:?},"modified":"{modified}","rating":null}}"#));
    Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
}

fn day(id: u64, name: &str, day: u64) -> Summary {
    summary(id, name, &format!("2026-01-{:02}T00:00:00+00:00", day % 28 + 1))
}

fn learned(sequence: &[Summary]) -> Vec<String> {
    Rules::learn(sequence, &BTreeSet::new()).texts().collect()
}

fn ids(sequence: &[Summary]) -> Vec<u64> {
    sequence.iter().map(|summary| summary.id.0).collect()
}

#[test]
fn a_sequence_is_explained_by_what_orders_it() {
    let by_id = [day(1, "c", 3), day(2, "a", 9), day(7, "b", 3)];
    assert_eq!(learned(&by_id), ["id asc"]);
    let newest_first = [day(9, "c", 9), day(2, "a", 5), day(5, "b", 5), day(1, "d", 1)];
    assert!(learned(&newest_first).contains(&"modified desc, id asc".to_owned()));
    let by_name = [day(9, "ab", 9), day(2, "AC", 15), day(5, "b", 5)];
    assert_eq!(learned(&by_name), ["name (any case) asc"]);
    assert!(learned(&[day(3, "b", 2), day(1, "c", 7), day(2, "a", 1)]).is_empty());
    assert!(learned(&[day(3, "b", 2)]).is_empty() && learned(&[]).is_empty());
}

#[test]
fn instants_are_compared_whatever_their_offset() {
    let sequence = [
        summary(4, "x", "2026-01-02T01:00:00+02:00"),
        summary(2, "y", "2026-01-01T22:30:00Z"),
        summary(9, "a", "2026-01-01T12:00:00-10:00"),
    ];
    // 23:00, 22:30 and 22:00 of the first, whatever their texts say.
    assert!(learned(&sequence).contains(&"modified desc".to_owned()));
    let turned = [sequence[1].clone(), sequence[0].clone()];
    assert!(learned(&turned).contains(&"modified asc".to_owned()));
}

#[test]
fn a_tie_and_a_disagreement_give_no_place() {
    let sequence: Vec<Summary> = (1..=9).map(|at| day(at, &format!("n{at}"), at)).collect();
    let rules = Rules::learn(&sequence, &BTreeSet::new());
    assert_eq!(rules.place(&sequence, &[day(4, "n99", 4)]), Err(Unplaced::Disagreement));
    let named = BTreeSet::from(["id asc", "modified asc", "name asc"].map(str::to_owned));
    let folded = Rules::learn(&sequence, &named);
    assert_eq!(folded.place(&sequence, &[day(40, "N7", 4)]), Err(Unplaced::Tie));
    assert_eq!(Rules::default().place(&sequence, &[]), Err(Unplaced::NoRule));
}

#[test]
fn a_rule_that_was_disproved_is_not_learned_again() {
    let sequence: Vec<Summary> = [3, 5, 8].map(|id| day(id, &format!("n{}", 10 - id), id)).into();
    let disproved: BTreeSet<String> = learned(&sequence).into_iter().collect();
    assert!(!disproved.is_empty());
    assert!(Rules::learn(&sequence, &disproved).texts().next().is_none());
}

proptest! {
    /// By any order, placing changes equals sorting everything again.
    #[test]
    fn placing_equals_sorting(
        listings in proptest::collection::btree_map(1_u64..500, (0_u64..40, "[a-c]{0,3}"), 2..60),
        changed in proptest::collection::btree_map(1_u64..500, (0_u64..40, "[a-c]{0,3}"), 1..8),
        by in 0_u8..3,
    ) {
        let make = |(id, (at, name)): (&u64, &(u64, String))| day(*id, name, *at);
        let sort = |all: &mut Vec<Summary>| all.sort_by_key(|summary| {
            let fields = json::fields(std::str::from_utf8(&summary.raw).unwrap()).unwrap();
            let text = |at: usize| fields[at].value.to_owned();
            match by {
                0 => (String::new(), std::cmp::Reverse(String::new()), summary.id),
                1 => (String::new(), std::cmp::Reverse(text(2)), summary.id),
                _ => (text(1), std::cmp::Reverse(String::new()), summary.id),
            }
        });
        let mut sequence: Vec<Summary> = listings.iter().map(make).collect();
        sort(&mut sequence);
        let changed: Vec<Summary> = changed.iter().map(make).collect();
        let mut expected: Vec<Summary> =
            sequence.iter().filter(|one| changed.iter().all(|other| other.id != one.id)).cloned().collect();
        expected.extend(changed.iter().cloned());
        sort(&mut expected);
        let rules = Rules::learn(&sequence, &BTreeSet::new());
        // Small sequences fit rules by accident, too; if the true rule is among them, no place is wrong.
        let truth = ["id asc", "modified desc, id asc", "name asc, id asc"][usize::from(by)];
        let knows = rules.texts().any(|text| text == truth);
        match rules.place(&sequence, &changed) {
            Ok(placed) if knows => prop_assert_eq!(ids(&placed), ids(&expected)),
            Ok(_) | Err(_) => {}
        }
    }

    /// Rules explain a sequence amended by them as if they were learned from it.
    #[test]
    fn rules_that_placed_what_changed_explain_the_sequence_that_came_of_it(
        listings in proptest::collection::btree_map(1_u64..80, (0_u64..9, "[aAb]{0,2}", 0_usize..6), 2..30),
        changed in proptest::collection::btree_map(1_u64..80, (0_u64..9, "[aAb]{0,2}", 0_usize..6), 0..6),
        gone in proptest::collection::btree_set(0_usize..30, 0..6),
        by in 0_u8..4,
    ) {
        let make = |(id, (at, name, rating)): (&u64, &(u64, String, usize))| {
            let rating = ["null", "1", "1.5", "2", "\"2\"", "-3"][*rating];
            let modified = format!("2026-01-{:02}T00:00:00Z", at + 1);
            let raw = format!(r#"{{"id":{id},"name":"{name}","modified":"{modified}","rating":{rating}}}"#);
            Summary { id: ListingId(*id), hash: ContentHash::of(raw.as_bytes()), raw: raw.into() }
        };
        let mut sequence: Vec<Summary> = listings.iter().map(make).collect();
        let key = |field: &str, reading, falling| Key { field: field.to_owned(), reading, falling };
        let by = Rule(match by {
            0 => vec![key("modified", Collation::Instant, true), key("id", Collation::Plain, true)],
            1 => vec![key("name", Collation::Folded, false), key("id", Collation::Plain, true)],
            2 => vec![key("rating", Collation::Plain, true), key("name", Collation::Plain, false), key("id", Collation::Plain, false)],
            _ => vec![key("id", Collation::Plain, false)],
        });
        sequence.sort_by(|one, other| by.compare(&by.values(one), &by.values(other)));
        let rules = Rules::learn(&sequence, &BTreeSet::new());
        let changed: Vec<Summary> = changed.iter().map(make).collect();
        if let Ok(mut placed) = rules.place(&sequence, &changed) {
            let mut place = 0..;
            placed.retain(|_| !place.next().is_some_and(|place| gone.contains(&place)));
            for rule in &rules.0 {
                let explains = |pair: &[Summary]| rule.compare(&rule.values(&pair[0]), &rule.values(&pair[1])).is_lt();
                prop_assert!(placed.windows(2).all(explains), "{}", rule);
            }
        }
    }
}
