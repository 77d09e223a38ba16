//! The cases that the documentation leaves open. Each is one row, or part of one, of the table of odd requests.
//!
//! Callers: [`super`], [`crate::mirror`], [`crate::audit`], [`crate::answer`], [`crate::admin`].

use serde::{Deserialize, Serialize};

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Case {
    /// `page` beyond the last one.
    PageBeyond,
    /// `page=0`.
    PageZero,
    /// `page=-1`.
    PageNegative,
    /// `page=x`.
    PageWord,
    /// `per_page=0`.
    PerPageZero,
    /// `per_page=-1`.
    PerPageNegative,
    /// `per_page=101`.
    PerPageOver,
    /// `per_page=x`.
    PerPageWord,
    /// `sport` with a slug that no term has.
    UnknownSport,
    /// The same of `state`.
    UnknownState,
    /// The same of `city`.
    UnknownCity,
    /// `modified_since=yesterday`.
    SinceMalformed,
    /// `modified_since` in the future.
    SinceFuture,
    /// The id of no listing.
    UnknownId,
    /// An id that is a word.
    IdWord,
    /// `page` or `per_page` twice, with different values.
    RepeatedNumber,
    /// `sport`, `state` or `city` twice, with different values.
    RepeatedFilter,
    /// `page=` or `per_page=`.
    EmptyNumber,
    /// `sport=`, `state=` or `city=`.
    EmptyFilter,
    /// `modified_since=`.
    EmptySince,
}

impl Case {
    /// Every case, in the order in which they are probed.
    pub(crate) const ALL: [Self; 20] = [
        Self::PageBeyond,
        Self::PageZero,
        Self::PageNegative,
        Self::PageWord,
        Self::PerPageZero,
        Self::PerPageNegative,
        Self::PerPageOver,
        Self::PerPageWord,
        Self::UnknownSport,
        Self::UnknownState,
        Self::UnknownCity,
        Self::SinceMalformed,
        Self::SinceFuture,
        Self::UnknownId,
        Self::IdWord,
        Self::RepeatedNumber,
        Self::RepeatedFilter,
        Self::EmptyNumber,
        Self::EmptyFilter,
        Self::EmptySince,
    ];

    /// The word for `/status` and logs.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::PageBeyond => "page-beyond",
            Self::PageZero => "page-zero",
            Self::PageNegative => "page-negative",
            Self::PageWord => "page-word",
            Self::PerPageZero => "per-page-zero",
            Self::PerPageNegative => "per-page-negative",
            Self::PerPageOver => "per-page-over",
            Self::PerPageWord => "per-page-word",
            Self::UnknownSport => "unknown-sport",
            Self::UnknownState => "unknown-state",
            Self::UnknownCity => "unknown-city",
            Self::SinceMalformed => "since-malformed",
            Self::SinceFuture => "since-future",
            Self::UnknownId => "unknown-id",
            Self::IdWord => "id-word",
            Self::RepeatedNumber => "repeated-number",
            Self::RepeatedFilter => "repeated-filter",
            Self::EmptyNumber => "empty-number",
            Self::EmptyFilter => "empty-filter",
            Self::EmptySince => "empty-since",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_stored_form_and_no_case_is_missing() {
        for (number, case) in Case::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(case).unwrap(), case.as_str());
            assert_eq!(case as usize, number);
        }
    }
}
