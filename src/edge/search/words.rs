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
pub(super) mod tests;
