//! Durations and sizes with units: `"1h30m"`, `"256MiB"`.
//!
//! Pure; reading and writing are inverse to each other. Callers: [`super::values`] and [`super::keys`].

use std::time::Duration;

/// Units of time in milliseconds, longest first.
const TIME: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Units of size in bytes. [`size_text`] writes the binary ones, largest first.
const SIZE: [(&str, u64); 9] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
pub(super) const TIB: u64 = 1 << 40;

/// Whole numbers with `d`, `h`, `m`, `s`, `ms`, longest unit first.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total: u64 = 0;
    let mut units = TIME.as_slice();
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let at = units.iter().position(|(unit, _)| *unit == &after[..end])?;
        total = total.checked_add(number.checked_mul(units[at].1)?)?;
        // Each unit once, longest first: "30m1h" is more likely a slip than a wish.
        units = &units[at + 1..];
        rest = &after[end..];
    }
    (!text.is_empty()).then_some(Duration::from_millis(total))
}

/// A whole number, or one with a unit.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, bytes) = SIZE.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.checked_mul(*bytes)
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// A duration as [`parse_duration`] reads it; parts below a millisecond are dropped.
pub(super) fn duration_text(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in TIME {
        if rest >= millis {
            text.push_str(&(rest / millis).to_string());
            text.push_str(unit);
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

pub(super) fn size_text(bytes: u64) -> String {
    let binary = SIZE[..3].iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    match binary {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let cases = [
            ("5m", 300_000),
            ("10s", 10_000),
            ("250ms", 250),
            ("6h", 21_600_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            ("1d1h1m1s1ms", 90_061_001),
            ("0s", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_duration_is_refused() {
        for text in [
            "",
            "5",
            "m",
            "-5m",
            "5 m",
            "1.5h",
            "30m1h",
            "5m5m",
            "5min",
            "99999999999999999999d",
            "9999999999999999d",
            "5µs",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases =
            [("256MiB", 256 << 20), ("1GiB", 1 << 30), ("10MB", 10_000_000), ("64 KiB", 64 << 10), ("7", 7), ("7B", 7)];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5MiB", "-1", "1 mib", "1Mi", "99999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(millis in 0..u64::MAX / 2, bytes in 0..u64::MAX) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&duration_text(duration)), Some(duration));
            prop_assert_eq!(parse_size(&size_text(bytes)), Some(bytes));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC*") {
            let _ = (parse_duration(&text), parse_size(&text));
        }
    }
}
