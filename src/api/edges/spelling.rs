//! Spellings of one value: which slugs differ in their spelling only, and which values the origin may be asked about.
//!
//! Pure. Callers: [`super::odd`], [`crate::snapshot`] compares slugs, [`crate::answer`] asks about ids.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The longest value that the origin is asked about, in characters.
const LONGEST: usize = 64;

/// Whether the origin may be asked about a value: nothing in it could become markup or another parameter.
pub(crate) fn is_askable(value: &str) -> bool {
    let may = |letter: char| letter.is_alphabetic() || letter.is_ascii_digit() || " +-.,:_'".contains(letter);
    value.chars().nth(LONGEST).is_none() && value.chars().all(may)
}

/// Whether a value is letters only.
pub(crate) fn is_word(value: &str) -> bool {
    // Words that some languages read as numbers, or as nothing.
    const MEANT: [&str; 8] = ["nan", "inf", "infinity", "null", "nil", "none", "true", "false"];
    let is_meant = || MEANT.iter().any(|word| value.eq_ignore_ascii_case(word));
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_meant()
}

/// A slug without case, accents and white space around it.
pub(crate) fn folded(slug: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase() && !byte.is_ascii_whitespace();
    if slug.bytes().all(is_plain) {
        return Cow::Borrowed(slug);
    }
    let letters = slug.trim().chars().flat_map(char::to_lowercase).nfd();
    Cow::Owned(letters.filter(|letter| !is_combining_mark(*letter)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slugs_that_differ_in_case_accents_or_white_space_around_them_fold_to_one() {
        for (slug, plain) in [
            ("golf", "golf"),
            ("Golf", "golf"),
            ("TEXAS", "texas"),
            ("austin ", "austin"),
            ("\u{a0}austin", "austin"),
            ("New York", "new york"),
            ("São-Paulo", "sao-paulo"),
            ("sa\u{303}o-paulo", "sao-paulo"),
            ("CAÑON", "canon"),
        ] {
            assert_eq!(folded(slug), plain, "{slug}");
        }
        assert_ne!(folded("new-york"), folded("new york"));
    }

    #[test]
    fn only_values_that_cannot_become_markup_are_asked_about() {
        for value in ["2.0", "+2", " 2", "2abc", "02", "1_0", "Golf", "austin ", "café", "O'Fallon", "12:30,5", ""] {
            assert!(is_askable(value), "{value}");
        }
        let long = "x".repeat(65);
        for value in ["<b>", "a/b", "a&b", "a=b", "\"", "a%", "a\n", "a\u{0}", "{", "\u{202e}", "#", "?", &long] {
            assert!(!is_askable(value), "{value:?}");
        }
        assert!(is_askable(&long[1..]));
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing_more(slug in ".{0,40}") {
            let once = folded(&slug).into_owned();
            let twice = folded(&once).into_owned();
            prop_assert_eq!(twice.trim(), once.trim());
        }
    }
}
