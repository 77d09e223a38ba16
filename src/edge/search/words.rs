//! Inverted index: the words of all listings, sorted, and where each of them occurs.
//!
//! A list of occurrences is the distances between their positions, each in as few bytes as it needs. A prefix is a range
//! of words. Words with one typing error are found by looking, letter by letter, which words go on rightly after the
//! error: some hundred bisections, however many words there are. Where words have thousands of different letters, the
//! allowance ends them. Callers: [`super::index`].

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use foldhash::fast::RandomState;

use super::occurrence::{ListingField, Occurrence};

/// A word with fewer letters than this is never taken for a typing error.
const LETTERS_FOR_AN_ERROR: usize = 5;

/// About how long the comparison of two words takes, in nanoseconds, and a byte of occurrences.
const COMPARISON: usize = 25;
const OCCURRENCE: usize = 2;

/// How much work a search may still be, in nanoseconds, by estimate.
pub(super) struct Allowance(Cell<usize>);

impl Allowance {
    pub(super) fn new(nanoseconds: usize) -> Self {
        Self(Cell::new(nanoseconds))
    }

    pub(super) fn take(&self, nanoseconds: usize) {
        self.0.set(self.0.get().saturating_sub(nanoseconds));
    }

    pub(super) fn is_left(&self) -> bool {
        self.0.get() > 0
    }
}

pub(super) struct Words {
    /// All words, one after the other.
    text: Box<str>,
    /// Where the text of each word and its occurrences begin, and where the last ones end.
    starts: Box<[(u32, u32)]>,
    occurrences: Box<[u8]>,
}

/// More words or occurrences than 32 bits count.
#[derive(Debug, thiserror::Error)]
#[error("the listings have too many words for an index")]
pub struct TooManyWords;

/// What a word may be the plural of: `gyms`, `complexes`, `academies`. Words of one or two letters have no plural here.
fn singulars(word: &str) -> impl Iterator<Item = String> {
    let plain = word.strip_suffix('s').filter(|stem| stem.len() >= 3).map(str::to_owned);
    let hissing =
        word.strip_suffix("es").filter(|stem| ["x", "s", "z", "ch", "sh"].iter().any(|end| stem.ends_with(end)));
    let ending_in_y = word.strip_suffix("ies").filter(|stem| stem.len() >= 2).map(|stem| format!("{stem}y"));
    [plain, hissing.map(str::to_owned), ending_in_y].into_iter().flatten()
}

/// How a word of a listing matches a word of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Exact,
    Prefix,
    Error,
}

/// The words that match one word of a query, in ranges that share none.
pub(super) type Matching = Vec<(Range<usize>, Match)>;

#[derive(Default)]
pub(super) struct WordCollector {
    numbers: HashMap<Box<str>, u32, RandomState>,
    /// Words by number, in the order of the listings: the number, and behind it the field, later the occurrence.
    tokens: Vec<u32>,
    /// Where the words of each listing end.
    ends: Vec<usize>,
}

impl WordCollector {
    pub(super) fn add(&mut self, word: &str, field: ListingField) {
        let known = self.numbers.get(word).copied();
        let number = known.unwrap_or_else(|| {
            // Checked at the end.
            let number = self.numbers.len() as u32;
            self.numbers.insert(word.into(), number);
            number
        });
        self.tokens.push(number << Occurrence::BITS | field as u32);
    }

    pub(super) fn end_listing(&mut self) {
        let start = self.ends.last().copied().unwrap_or(0);
        self.tokens[start..].sort_unstable();
        let (mut kept, mut at) = (start, start);
        while at < self.tokens.len() {
            let number = self.tokens[at] >> Occurrence::BITS;
            let same = self.tokens[at..].iter().take_while(|token| **token >> Occurrence::BITS == number);
            let end = at + same.count();
            let fields = self.tokens[at..end].iter().map(|token| token & (Occurrence::ALL as u32 - 1));
            self.tokens[kept] = number << Occurrence::BITS | Occurrence::within(fields).index() as u32;
            (kept, at) = (kept + 1, end);
        }
        self.tokens.truncate(kept);
        self.ends.push(kept);
    }

    pub(super) fn finish(self) -> Result<Words, TooManyWords> {
        let Self { numbers, tokens, ends } = self;
        // Numbers beyond this were cut when they were added: nothing of such an index is used.
        if numbers.len() > (u32::MAX >> Occurrence::BITS) as usize {
            return Err(TooManyWords);
        }
        let mut sorted: Vec<(Box<str>, u32)> = numbers.into_iter().collect();
        sorted.sort_unstable();
        let occurrences = |see: &mut dyn FnMut(usize, u64)| {
            let mut last = vec![0_u32; sorted.len()];
            let mut start = 0;
            for (position, end) in (0_u32..).zip(&ends) {
                for token in &tokens[start..*end] {
                    let number = (token >> Occurrence::BITS) as usize;
                    let occurrence = Occurrence::of(*token).index() as u64;
                    see(number, u64::from(position - last[number]) << Occurrence::BITS | occurrence);
                    last[number] = position;
                }
                start = *end;
            }
        };
        let mut sizes = vec![0_usize; sorted.len()];
        occurrences(&mut |number, value| sizes[number] += length(value));
        let (mut starts, mut places) = (Vec::with_capacity(sorted.len() + 1), vec![0_usize; sorted.len()]);
        let (mut of_text, mut of_occurrences) = (0, 0);
        let checked = |at: usize| u32::try_from(at).map_err(|_| TooManyWords);
        for (word, number) in &sorted {
            starts.push((checked(of_text)?, checked(of_occurrences)?));
            places[*number as usize] = of_occurrences;
            of_text += word.len();
            of_occurrences += sizes[*number as usize];
        }
        starts.push((checked(of_text)?, checked(of_occurrences)?));
        drop(sizes);
        let mut bytes = vec![0; of_occurrences];
        occurrences(&mut |number, value| {
            let place = &mut places[number];
            put(&mut bytes, place, value);
        });
        let text = sorted.iter().map(|(word, _)| &**word).collect::<String>().into_boxed_str();
        Ok(Words { text, starts: starts.into(), occurrences: bytes.into() })
    }
}

/// How many bytes a value takes: seven bits in each.
fn length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn put(out: &mut [u8], place: &mut usize, mut value: u64) {
    while value > 0x7f {
        out[*place] = value as u8 | 0x80;
        *place += 1;
        value >>= 7;
    }
    out[*place] = value as u8;
    *place += 1;
}

impl Words {
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn word(&self, at: usize) -> &str {
        &self.text[self.starts[at].0 as usize..self.starts[at + 1].0 as usize]
    }

    /// The words that match a word of a query, as a beginning, too, without or with an `s` at its end, or with one typing
    /// error; `is_unfinished`: the beginning may have the error. Not all of those with an error if the allowance ends
    /// before. Takes what it costs to read their occurrences, too.
    pub(super) fn matching(&self, word: &str, is_unfinished: bool, left: &Allowance) -> Matching {
        let (mut found, prefix) = self.begun(word, left);
        for singular in singulars(word) {
            found.extend(self.exactly(&singular, left).map(|at| (at..at + 1, Match::Prefix)));
        }
        if word.chars().filter(|letter| letter.is_alphabetic()).count() >= LETTERS_FOR_AN_ERROR {
            for Range { start, end } in self.with_one_error(word, is_unfinished, left) {
                let beside = [start..end.min(prefix.start), start.max(prefix.end)..end];
                let others =
                    beside.into_iter().filter(|range| !range.is_empty() && !found.iter().any(|(own, _)| own == range));
                let others: Vec<_> = others.map(|range| (range, Match::Error)).collect();
                found.extend(others);
            }
        }
        found
    }

    /// The words that begin with a word of a query, or are it.
    pub(super) fn begun(&self, word: &str, left: &Allowance) -> (Matching, Range<usize>) {
        let prefix = self.prefixed(0..self.len(), word, left);
        left.take(self.reading(&prefix));
        let is_there = !prefix.is_empty() && self.word(prefix.start) == word;
        let rest = prefix.start + usize::from(is_there);
        (vec![(prefix.start..rest, Match::Exact), (rest..prefix.end, Match::Prefix)], prefix)
    }

    pub(super) fn exactly(&self, word: &str, left: &Allowance) -> Option<usize> {
        let at = bisect(0..self.len(), left, |at| self.word(at) < word);
        let is_there = at < self.len() && self.word(at) == word;
        is_there.then(|| left.take(self.reading(&(at..at + 1))));
        is_there.then_some(at)
    }

    /// What the occurrences of a range of words take.
    fn reading(&self, range: &Range<usize>) -> usize {
        OCCURRENCE * (self.starts[range.end].1 - self.starts[range.start].1) as usize
    }

    /// Shows the positions of the listings that have a word, and where.
    pub(super) fn each_occurrence(&self, at: usize, mut see: impl FnMut(u32, Occurrence)) {
        let (mut position, mut value, mut shift) = (0_u32, 0_u64, 0);
        for byte in &self.occurrences[self.starts[at].1 as usize..self.starts[at + 1].1 as usize] {
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                position += (value >> Occurrence::BITS) as u32;
                see(position, Occurrence::of(value as u32));
                (value, shift) = (0, 0);
            } else {
                shift += 7;
            }
        }
    }

    /// The words of a range that begin with `prefix`.
    fn prefixed(&self, range: Range<usize>, prefix: &str, left: &Allowance) -> Range<usize> {
        let is_before = |at: usize| self.word(at) < prefix;
        let begins_or_before = |at: usize| self.word(at) < prefix || self.word(at).starts_with(prefix);
        let start = bisect(range.clone(), left, is_before);
        start..bisect(start..range.end, left, begins_or_before)
    }

    /// The words that differ from `word` in one typing error: a letter too much, too little or wrong, or two letters in
    /// the wrong order; `is_unfinished`: those that begin with such a word. Stops where the allowance ends: words of
    /// many alphabets have thousands of letters in one place.
    fn with_one_error(&self, word: &str, is_unfinished: bool, left: &Allowance) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut find = |range: &Range<usize>, candidate: &str| {
            let these = if is_unfinished {
                self.prefixed(range.clone(), candidate, left)
            } else {
                let at = bisect(range.clone(), left, |at| self.word(at) < candidate);
                at..at + usize::from(range.contains(&at) && self.word(at) == candidate)
            };
            if !these.is_empty() && candidate != word {
                left.take(self.reading(&these));
                found.push(these);
            }
        };
        // The words that begin as `word` does up to here.
        let mut alike = 0..self.len();
        let ends = word.char_indices().map(|(at, _)| at).chain([word.len()]);
        for at in ends {
            let (before, rest) = word.split_at(at);
            let mut letters = rest.chars();
            let (first, after) = (letters.next(), letters.as_str());
            let second = letters.next();
            if first.is_some() {
                find(&alike, &format!("{before}{after}"));
            }
            if let (Some(first), Some(second)) = (first, second) {
                find(&alike, &format!("{before}{second}{first}{}", letters.as_str()));
            }
            let mut next = alike.start;
            while next < alike.end && left.is_left() {
                let Some(letter) = self.word(next)[at..].chars().next() else {
                    next += 1;
                    continue;
                };
                let begun = format!("{before}{letter}");
                let these = next..bisect(next..alike.end, left, |at| self.word(at).starts_with(&begun));
                next = these.end;
                find(&these, &format!("{begun}{rest}"));
                if first.is_some() {
                    find(&these, &format!("{begun}{after}"));
                }
            }
            if let Some(first) = first {
                alike = self.prefixed(alike, &format!("{before}{first}"), left);
            }
        }
        // One is within another, or beside it.
        found.sort_unstable_by_key(|range| (range.start, Reverse(range.end)));
        let mut end = 0;
        found.retain(|range| {
            let is_new = range.start >= end;
            end = end.max(range.end);
            is_new
        });
        found
    }
}

/// The first place of a range where `holds` ends to hold.
fn bisect(range: Range<usize>, left: &Allowance, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    left.take(COMPARISON * (usize::BITS - range.len().leading_zeros()) as usize);
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
pub(super) mod tests {
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
            let is_close =
                is_one_error(word, other) || is_unfinished && begins().any(|begin| is_one_error(word, begin));
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
}
