//! Words: those that depend on a number, and those that name the values of an enum.
//!
//! Callers: every message with a count; enums whose values have words.

/// An enum whose values have words: `ALL` lists the values in order, and a function of the given name gives the word.
macro_rules! named {
    ($(#[$of_all:meta])* $vis:vis enum $name:ident, $word:ident { $($(#[$of_one:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$of_all])*
        $vis enum $name {
            $($(#[$of_one])* $value,)+
        }

        impl $name {
            /// All values, in order.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            /// The word of this value.
            $vis const fn $word(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

pub(crate) use named;

/// A count with its noun: `1 entry`, `2 entries`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 {
        return format!("1 {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        for (count, noun, text) in [
            (0, "listing", "0 listings"),
            (1, "listing", "1 listing"),
            (2, "listing", "2 listings"),
            (1, "entry", "1 entry"),
            (2, "entry", "2 entries"),
            (2, "day", "2 days"),
        ] {
            assert_eq!(counted(count, noun), text);
        }
    }
}
