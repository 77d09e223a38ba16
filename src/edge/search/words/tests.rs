use super::super::occurrence::WordPlace;
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const FIELDS: [ListingField; 5] =
    [ListingField::NameStart, ListingField::Name, ListingField::City, ListingField::State, ListingField::Sport];

fn collected(listings: &[Vec<(String, usize)>]) -> Words {
    let mut collector = WordCollector::default();
    for listing in listings {
        for (word, field) in listing {
            collector.add(word, FIELDS[*field]);
        }
        collector.end_listing();
    }
    collector.finish().unwrap()
}

/// Whether one error leads from one word to the other: their optimal string alignment distance is 1.
pub(crate) fn is_one_error(one: &str, other: &str) -> bool {
    strsim::osa_distance(one, other) == 1
}

/// How one word of a listing matches a word of a query, by comparing them.
pub(crate) fn naive(word: &str, other: &str, is_unfinished: bool) -> Option<Match> {
    let letters = word.chars().filter(|letter| letter.is_alphabetic()).count();
    let begins = || other.char_indices().map(|(at, _)| &other[..at]).chain([other]);
    if other == word {
        Some(Match::Exact)
    } else if other.starts_with(word) || singulars(word).any(|singular| singular == other) {
        Some(Match::Prefix)
    } else if letters < LETTERS_FOR_AN_ERROR {
        None
    } else {
        let is_close = is_one_error(word, other) || is_unfinished && begins().any(|begin| is_one_error(word, begin));
        is_close.then_some(Match::Error)
    }
}

proptest! {
    #[test]
    fn occurrences_come_back_as_they_were_given(
        listings in proptest::collection::vec(proptest::collection::vec(("[ab]{1,2}", 0..5_usize), 0..6), 0..300),
    ) {
        let mut expected: BTreeMap<String, BTreeMap<u32, BTreeSet<usize>>> = BTreeMap::new();
        for (position, listing) in (0..).zip(&listings) {
            for (word, field) in listing {
                expected.entry(word.clone()).or_default().entry(position).or_default().insert(*field);
            }
        }
        let words = collected(&listings);
        prop_assert_eq!(words.len(), expected.len());
        for (at, (word, occurrences)) in expected.iter().enumerate() {
            prop_assert_eq!(words.word(at), word);
            let mut found = BTreeMap::new();
            words.each_occurrence(at, |position, one| {
                assert!(found.insert(position, (one.place(), one.is_repeated())).is_none());
            });
            let shown = |fields: &BTreeSet<usize>| {
                let place = [WordPlace::NameStart, WordPlace::Name, WordPlace::Elsewhere][(*fields.first().unwrap()).min(2)];
                // The name is one field.
                (place, fields.iter().map(|field| (*field).max(1)).collect::<BTreeSet<_>>().len() > 1)
            };
            let expected = occurrences.iter().map(|(position, fields)| (*position, shown(fields))).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn words_match_as_a_walk_over_all_of_them_says(
        vocabulary in proptest::collection::btree_set("[abé]{1,7}", 1..80),
        word in "[abés]{1,7}",
        is_unfinished: bool,
    ) {
        let listing = vocabulary.iter().map(|word| (word.clone(), 0)).collect();
        let words = collected(&[listing]);
        let mut found: BTreeMap<String, Match> = BTreeMap::new();
        for (range, kind) in words.matching(&word, is_unfinished, &Allowance::new(usize::MAX)) {
            for at in range {
                found.entry(words.word(at).to_owned()).or_insert(kind);
            }
        }
        for other in &vocabulary {
            let expected = naive(&word, other, is_unfinished);
            prop_assert_eq!(found.get(other).copied(), expected, "{}", other);
        }
    }
}

#[test]
fn words_of_many_alphabets_are_looked_at_until_the_allowance_ends() {
    let letters = (0x4e00..0x9000).filter_map(char::from_u32);
    let mut listing: Vec<(String, usize)> = letters.map(|letter| (format!("{letter}bcdefg"), 0)).collect();
    listing.extend(["abcdefg", "abcdefgh"].map(|word| (word.to_owned(), 0)));
    let words = collected(&[listing]);
    let found = |allowance: usize| {
        let left = Allowance::new(allowance);
        let found = words.matching("abcdefg", false, &left);
        assert_eq!(found[..2], [(0..1, Match::Exact), (1..2, Match::Prefix)], "in any case");
        (found.len() - 2, left.is_left())
    };
    assert_eq!(found(usize::MAX), (words.len() - 2, true));
    assert_eq!(found(0), (0, false));
    let (some, is_left) = found(1000 * COMPARISON);
    assert!(0 < some && some < 1000 / 15 && !is_left, "each takes fifteen comparisons: {some}");
}

#[test]
fn numbers_take_as_few_bytes_as_they_need() {
    for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX) << 1 | 1] {
        let (mut bytes, mut place) = ([0; 10], 0);
        put(&mut bytes, &mut place, value);
        assert_eq!(place, length(value), "{value}");
    }
    let texts: BTreeSet<&str> = ["golf", "goal"].into();
    assert!(texts.iter().all(|text| is_one_error("golfs", text) == (*text == "golf")));
}
