//! Numbers and timestamps that remember their spelling.
//!
//! JSON lets `4.5`, `4.50` and `45e-1` mean one number, ISO 8601 lets `Z` and `+00:00` mean one offset. A mirror must
//! keep the spelling, so the sample origin varies it. Not a decimal library: it only writes. Callers: the generator,
//! the rendering of listings.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::dice::Dice;

/// How a [`Decimal`] is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// With exactly this many decimals (0 to 6), cut off, trailing zeros kept.
    Fixed(u8),
    /// With 20 decimals, more than a double holds; the last 14 are made up.
    Long,
    /// As an integer with an exponent, `-97123000e-6`.
    Exponent,
}

/// A decimal number in millionths, with its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The value in millionths.
    pub millionths: i32,
    /// How it is written.
    pub digits: Digits,
}

impl Decimal {
    /// The value as a float, before any digits are cut off.
    pub fn value(self) -> f64 {
        f64::from(self.millionths) / 1e6
    }

    /// Appends the number to `out`; `salt` determines made-up digits.
    pub(super) fn write(self, salt: u64, out: &mut String) {
        let sign = if self.millionths < 0 { "-" } else { "" };
        let size = self.millionths.unsigned_abs();
        let (whole, rest) = (size / 1_000_000, size % 1_000_000);
        // Writing to a String cannot fail.
        let _ = match self.digits {
            Digits::Fixed(0) => write!(out, "{sign}{whole}"),
            Digits::Fixed(places) => {
                let places = u32::from(places.min(6));
                let shown = rest / 10_u32.pow(6 - places);
                write!(out, "{sign}{whole}.{shown:0width$}", width = places as usize)
            }
            Digits::Long => {
                let invented = Dice::of(&[salt, u64::from(size)]).below(100_000_000_000_000);
                write!(out, "{sign}{whole}.{rest:06}{invented:014}")
            }
            Digits::Exponent => write!(out, "{}e-6", self.millionths),
        };
    }
}

/// How the offset of a [`Stamp`] is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// UTC as `Z`.
    Z,
    /// Local time with this offset from UTC in hours, `-05:00`; 0 is `+00:00`.
    Hours(i8),
}

/// An instant with its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The instant.
    pub at: Timestamp,
    /// How its offset is written.
    pub zone: Zone,
}

impl Stamp {
    /// The instant as `2025-01-31T23:59:59-05:00`; a fraction shows only if there is one.
    pub fn text(self) -> String {
        match self.zone {
            Zone::Z => format!("{}Z", jiff::tz::offset(0).to_datetime(self.at)),
            Zone::Hours(hours) => {
                let local = jiff::tz::offset(hours).to_datetime(self.at);
                format!("{local}{hours:+03}:00")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(millionths: i32, digits: Digits) -> String {
        let mut out = String::new();
        Decimal { millionths, digits }.write(7, &mut out);
        out
    }

    #[test]
    fn decimals_are_written_as_asked() {
        assert_eq!(spelled(4_500_000, Digits::Fixed(2)), "4.50");
        assert_eq!(spelled(4_000_000, Digits::Fixed(0)), "4");
        assert_eq!(spelled(-97_123_000, Digits::Fixed(4)), "-97.1230");
        assert_eq!(spelled(-500_000, Digits::Fixed(1)), "-0.5");
        assert_eq!(spelled(-97_123_000, Digits::Exponent), "-97123000e-6");
        let long = spelled(-97_012_345, Digits::Long);
        assert!(long.starts_with("-97.012345") && long.len() == "-97.".len() + 20, "{long}");
    }

    #[test]
    fn stamps_of_one_instant_differ_only_in_spelling() {
        let at: Timestamp = "2025-03-01T02:00:00Z".parse().unwrap();
        let text = |zone| Stamp { at, zone }.text();
        assert_eq!(text(Zone::Z), "2025-03-01T02:00:00Z");
        assert_eq!(text(Zone::Hours(0)), "2025-03-01T02:00:00+00:00");
        assert_eq!(text(Zone::Hours(-5)), "2025-02-28T21:00:00-05:00");
        assert_eq!(text(Zone::Hours(-5)).parse::<Timestamp>().unwrap(), at);
    }
}
