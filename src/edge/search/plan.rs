//! The plan of a search: what matches each word of the query.
//!
//! Callers: [`super::index`].

use crate::api::folding::SAME;
use crate::api::query::search::SearchQuery;

use super::order::NameWords;
use super::words::{Allowance, Match, Matching, Words};

/// A word of a query that some listing has.
pub(super) struct PlannedWord<'a> {
    text: &'a str,
    pub matching: Matching,
    pub is_where: bool,
}

/// The words of a query that are looked for.
pub(super) struct Plan<'a> {
    pub words: Vec<PlannedWord<'a>>,
    /// Words that were left out: nothing has them, or they are too many.
    pub ignored: Vec<Box<str>>,
    /// Words that nothing has.
    pub unknown: Vec<Box<str>>,
}

impl<'a> Plan<'a> {
    /// What matches each word of a query. A word that nothing has is left out, unless nothing has any of them.
    pub(super) fn of(words: &Words, query: &'a SearchQuery, left: &Allowance) -> Self {
        let last = query.words.len().saturating_sub(1);
        let matching = |at: usize| {
            let word = &query.words[at];
            let mut found = words.matching(word, at == last, left);
            let same = SAME.iter().find(|same| same.contains(&&**word)).into_iter().flatten();
            found.extend(same.filter_map(|same| words.exactly(same, left)).map(|at| (at..at + 1, Match::Exact)));
            found
        };
        let mut all: Vec<Matching> = (0..query.words.len()).map(matching).collect();
        for (at, pair) in query.words.windows(2).enumerate() {
            let (found, _) = words.begun(&pair.concat(), left);
            all[at].extend(found.iter().cloned());
            all[at + 1].extend(found);
        }
        let word = |(at, matching): (usize, Matching)| {
            let is_where = at >= query.before_place;
            PlannedWord { text: &query.words[at], matching, is_where }
        };
        let is_known = |word: &PlannedWord<'_>| word.matching.iter().any(|(range, _)| !range.is_empty());
        let (known, unknown): (Vec<_>, Vec<_>) = all.into_iter().enumerate().map(word).partition(is_known);
        let names: Vec<Box<str>> = unknown.iter().map(|word| word.text.into()).collect();
        let (words, ignored) = if known.is_empty() { (unknown, Vec::new()) } else { (known, names.clone()) };
        let ignored = ignored.into_iter().chain(query.beyond.iter().cloned()).collect();
        Self { words, ignored, unknown: names }.settled()
    }

    /// Where there are no other words, those that say where are looked for like any.
    fn settled(mut self) -> Self {
        if self.words.iter().all(|word| word.is_where) {
            self.words.iter_mut().for_each(|word| word.is_where = false);
        }
        self
    }

    pub(super) fn in_name(&self) -> NameWords {
        let words = self.words.iter().filter(|word| !word.is_where).count();
        NameWords { words, says_where: words < self.words.len() }
    }
}
