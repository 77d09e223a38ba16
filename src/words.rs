//! Words that depend on a number.
//!
//! Callers: every message with a count.

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
