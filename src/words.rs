//! Parts of messages: words that depend on a number, names for the values of an enum, what to do about a file, and an
//! error with its causes.
//!
//! Callers: every message with a count; enums whose values have words; `cli`; code that writes a message.

use std::io::{self, ErrorKind};
use std::path::Path;

/// An enum whose values have words, and numbers if they are given: `ALL` lists the values in order, and a function of the
/// given name gives the word.
macro_rules! named {
    ($(#[$of_all:meta])* $vis:vis enum $name:ident, $word:ident {
        $($(#[$of_one:meta])* $value:ident $(($number:literal))? = $text:literal,)+
    }) => {
        $(#[$of_all])*
        $vis enum $name {
            $($(#[$of_one])* $value $(= $number)?,)+
        }

        impl $name {
            #[allow(dead_code, reason = "some are never walked")]
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

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

/// A number as people write it: `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// A time of so many seconds: `42 s`, `3 min`, `2 h 5 min`, `3 days`.
pub(crate) fn seconds(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{minutes} min"),
        7200..172_800 if minutes % 60 == 0 => format!("{hours} h"),
        7200..172_800 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} days"),
    }
}

/// A size of so many bytes: `4096 bytes`, `43.2 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (unit, size) = match bytes {
        0..10_240 => return counted(bytes, "byte"),
        10_240..1_048_576 => ("KiB", 1024.0),
        1_048_576..1_073_741_824 => ("MiB", 1_048_576.0),
        _ => ("GiB", 1_073_741_824.0),
    };
    format!("{:.1} {unit}", bytes as f64 / size)
}

/// The first digits of an id, enough to tell kept snapshots apart.
pub(crate) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// What to do about a file that cannot be used, for the end of a message that has its path and the error.
pub(crate) fn remedy(path: &Path, error: &io::Error) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (error.kind(), path.parent().filter(|directory| !directory.exists())) {
        (ErrorKind::NotFound, Some(directory)) => {
            format!("; the directory {} does not exist: create it, or correct the path", directory.display())
        }
        (ErrorKind::NotFound, None) => format!("; there is no {}: correct the path", path.display()),
        (ErrorKind::PermissionDenied, _) => {
            "; run grandstand as a user who may use it, and enter the directories above it".to_owned()
        }
        _ => String::new(),
    }
}

/// The message of an error and those of its causes; a cause that is quoted already is not repeated.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_and_a_missing_directory_are_not_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for (name, what) in [("a", "; there is no "), ("none/a", "/none does not exist: create it")] {
            let path = dir.path().join(name);
            let remedy = remedy(&path, &std::fs::read(&path).unwrap_err());
            assert!(remedy.contains(what) && remedy.contains(&dir.path().display().to_string()), "{remedy}");
        }
        assert!(remedy(Path::new("a"), &ErrorKind::PermissionDenied.into()).contains("as a user who may use it"));
        assert_eq!(remedy(dir.path(), &std::fs::read(dir.path()).unwrap_err()), "");
    }

    #[test]
    fn times_and_sizes_are_short() {
        for (got, want) in [
            (bytes(1), "1 byte"),
            (bytes(10_239), "10239 bytes"),
            (bytes(10_240), "10.0 KiB"),
            (bytes(45_300_000), "43.2 MiB"),
            (bytes(3 << 30), "3.0 GiB"),
            (seconds(119), "119 s"),
            (seconds(120), "2 min"),
            (seconds(7500), "2 h 5 min"),
            (seconds(86_400), "24 h"),
            (seconds(172_800), "2 days"),
            (short("0123456789abcdef").to_owned(), "0123456789ab"),
            (short("é").to_owned(), "é"),
            (grouped(0), "0"),
            (grouped(999), "999"),
            (grouped(1000), "1,000"),
            (grouped(1_234_567), "1,234,567"),
        ] {
            assert_eq!(got, want);
        }
    }

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
