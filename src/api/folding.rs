//! Folding of case and accents: the words of a text in the form in which a search compares them.
//!
//! `Kāne‘ohe` and `KANEOHE` are the same word, and so are `Łódź` and `lodz`, `U.S.` and `us`. Other than
//! [`super::odd::folded`], which keeps what slugs differ in. Callers: [`super::query::search`],
//! [`crate::edge::search`], [`crate::edge::pages`].

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// So many letters of a word count; the rest is cut off.
pub const MOST_LETTERS: usize = 64;

/// Words that stand for each other.
pub const SAME: [[&str; 2]; 3] = [["st", "saint"], ["ft", "fort"], ["mt", "mount"]];

/// Letters that no decomposition takes apart, and what people type for them.
const SPELLED: [(char, &str); 17] = [
    ('ß', "ss"),
    ('æ', "ae"),
    ('œ', "oe"),
    ('ø', "o"),
    ('ł', "l"),
    ('đ', "d"),
    ('ð', "d"),
    ('þ', "th"),
    ('ħ', "h"),
    ('ı', "i"),
    ('ŋ', "n"),
    ('ŧ', "t"),
    ('ς', "σ"),
    // Apostrophes, and the okina of Hawaiian names.
    ('’', "'"),
    ('‘', "'"),
    ('ʻ', "'"),
    ('ʼ', "'"),
];

pub fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    let letters = text.nfkd().flat_map(char::to_lowercase);
    for letter in letters.filter(|letter| !is_combining_mark(*letter) && !is_ignorable(*letter)) {
        match SPELLED.iter().find(|(own, _)| *own == letter) {
            Some((_, spelled)) => folded.push_str(spelled),
            None => folded.push(letter),
        }
    }
    folded
}

/// Code points that nothing shows of (Unicode's `Default_Ignorable_Code_Point`, those that occur in names).
const fn is_ignorable(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

const fn is_apostrophe(letter: char) -> bool {
    matches!(letter, '\'' | '`')
}

/// Whether single letters stand between dots, as in `U.S.`.
fn is_initials(run: &str) -> bool {
    let is_letter = |part: &str| part.chars().all(char::is_alphanumeric) && part.chars().nth(1).is_none();
    run.split('.').all(is_letter)
}

/// Shows the words of a folded text: runs of letters and digits. Apostrophes do not part a word, nor dots initials:
/// `o'hare` is `ohare`, `u.s.` is `us`. With `parts`, what lies between them is shown, too.
pub fn each_word(folded: &str, parts: bool, mut see: impl FnMut(&str)) {
    let mut cut = |word: &str| {
        let end = word.char_indices().nth(MOST_LETTERS).map_or(word.len(), |(end, _)| end);
        see(&word[..end]);
    };
    let mut joined = |run: &str, mark: fn(char) -> bool| {
        let run = run.trim_matches(mark);
        if run.contains(mark) {
            cut(&run.replace(mark, ""));
            if parts {
                run.split(mark).filter(|part| !part.is_empty()).for_each(&mut cut);
            }
        } else if !run.is_empty() {
            cut(run);
        }
    };
    for run in folded.split(|letter: char| letter != '.' && !is_apostrophe(letter) && !letter.is_alphanumeric()) {
        if !run.contains('.') {
            joined(run, is_apostrophe);
        } else if is_initials(run) {
            joined(run, |letter| letter == '.');
        } else {
            run.split('.').for_each(|run| joined(run, is_apostrophe));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str, parts: bool) -> Vec<String> {
        let mut words = Vec::new();
        each_word(&folded(text), parts, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn words_have_neither_case_nor_accents() {
        for (text, expected) in [
            ("Peña Blanca", "pena blanca"),
            ("Łódź STRASSE Straße", "lodz strasse strasse"),
            ("Kāne‘ohe, O'Hare’s ʻĀina", "kaneohe ohares aina"),
            ("ice-hockey_rink", "ice hockey rink"),
            ("ﬁeld Ⅳ № ½", "field iv no 1 2"),
            ("Søndre Øye Æble Þór", "sondre oye aeble thor"),
            ("東京 Garden ⚾", "東京 garden"),
            ("İstanbul Iğdır ΣΊΣΥΦΟΣ σίσυφος", "istanbul igdir σισυφοσ σισυφοσ"),
            ("'' ' -- .", ""),
            ("U.S. Bank, Y.M.C.A. Mt. Vernon v1.2 a.b'c", "us bank ymca mt vernon v1 2 a bc"),
            ("O`ahu Soft\u{ad}ball\u{200b} \u{feff}Gym", "oahu softball gym"),
        ] {
            assert_eq!(words(text, false).join(" "), expected, "{text}");
        }
        assert_eq!(words("Coeur d'Alene", true), ["coeur", "dalene", "d", "alene"]);
        assert_eq!(words("U.S.", true), ["us", "u", "s"]);
        assert_eq!(words(&"é".repeat(100), false), ["e".repeat(MOST_LETTERS)]);
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing_more(text in ".{0,60}") {
            let once = folded(&text);
            prop_assert_eq!(folded(&once), once);
        }

        #[test]
        fn words_are_letters_and_digits(text in "[a-zA-Z '’`.éßŁ\u{301}\u{200b}٣-]{0,40}", parts: bool) {
            for word in words(&text, parts) {
                prop_assert!(!word.is_empty() && word.chars().all(char::is_alphanumeric), "{word:?}");
            }
        }
    }
}
