//! Timestamps in the API's spellings: `modified` of a listing and the `modified_since` filter.
//!
//! Two readings. [`parse_rfc3339`]: the spellings whose meaning at the origin is known, a date and the times of RFC 3339,
//! the offset optional. [`parse_iso8601`]: those and all others of ISO 8601, where the origin cannot be asked. Callers:
//! [`crate::api::listing`], [`crate::api::query`].

use jiff::civil::{Date, ISOWeekDate, Weekday};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ISO 8601 date or timestamp")]
pub(crate) struct NotATime;

// Spans are in nanoseconds.
const EPOCH: Date = Date::constant(1970, 1, 1);
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Reads `YYYY-MM-DD` (00:00:00 UTC of that day) or a time of RFC 3339 (no offset means UTC; a `+` of the offset that
/// arrived as a space still parses) as nanoseconds since the epoch, clamped to the range of an `i64`; `i64::MIN` stays
/// free for unknown instants. At most nine digits may follow the point.
pub(crate) fn parse_rfc3339(text: &str) -> Result<i64, NotATime> {
    if has_rfc3339_form(text) { parse_iso8601(text) } else { Err(NotATime) }
}

/// Reads any date or time of ISO 8601, in basic or extended form: calendar dates, weeks and ordinal days, months and
/// years (their first instant), hours and minutes, fractions of any length. A space may stand for the `T`. A leap
/// second is the first one of the next minute.
pub(crate) fn parse_iso8601(text: &str) -> Result<i64, NotATime> {
    const LONGEST: usize = 64;
    if text.len() > LONGEST {
        return Err(NotATime);
    }
    let mut text = Cursor(text.as_bytes());
    text.instant().filter(|_| text.0.is_empty()).ok_or(NotATime)
}

/// Whether a text has the form of a date or of a time of RFC 3339 whose offset may be missing, without leap seconds.
fn has_rfc3339_form(text: &str) -> bool {
    let form: String = text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    let Some(time) = form.strip_prefix("0000-00-00") else { return false };
    if time.is_empty() {
        return true;
    }
    let Some(rest) = time.strip_prefix(['T', 't']).and_then(|time| time.strip_prefix("00:00:00")) else { return false };
    let (digits, offset) = match rest.strip_prefix('.') {
        Some(fraction) => (fraction.len() - fraction.trim_start_matches('0').len(), fraction.trim_start_matches('0')),
        None => (1, rest),
    };
    let is_offset = matches!(offset, "" | "Z" | "z") || offset.strip_prefix(['+', '-', ' ']) == Some("00:00");
    is_offset && (1..=9).contains(&digits) && text[11..13] < *"24" && text[17..19] < *"60"
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn digits(&self) -> usize {
        self.0.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }

    fn take_number(&mut self, digits: usize) -> Option<i64> {
        if self.digits() < digits {
            return None;
        }
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        Some(number.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    fn take_any_of(&mut self, any: &[u8]) -> bool {
        let taken = self.0.first().is_some_and(|first| any.contains(first));
        self.0 = &self.0[usize::from(taken)..];
        taken
    }

    /// A date with or without a time, as nanoseconds since the epoch.
    fn instant(&mut self) -> Option<i64> {
        let date = self.date()?;
        let (mut time, mut offset) = (0, 0);
        if !self.0.is_empty() {
            if !self.take_any_of(b"Tt ") {
                return None;
            }
            (time, offset) = (self.time()?, self.offset()?);
        }
        let exact = date.duration_since(EPOCH).as_nanos() + i128::from(time) - i128::from(offset);
        let clamped = exact.clamp(i128::from(i64::MIN) + 1, i64::MAX.into());
        i64::try_from(clamped).ok()
    }

    fn date(&mut self) -> Option<Date> {
        let year = i16::try_from(self.take_number(4)?).ok()?;
        let is_extended = self.take_any_of(b"-");
        if self.take_any_of(b"Ww") {
            let week = self.take_number(2)? as i8;
            let has_day = if is_extended { self.take_any_of(b"-") } else { self.digits() > 0 };
            let day = if has_day { self.take_number(1)? as i8 } else { 1 };
            let day = Weekday::from_monday_one_offset(day).ok()?;
            return Some(ISOWeekDate::new(year, week, day).ok()?.date());
        }
        let date = |month: i64, day: i64| Date::new(year, month as i8, day as i8).ok();
        match (is_extended, self.digits()) {
            (false, 0) => date(1, 1),
            (_, 3) => {
                let (first, ordinal) = (date(1, 1)?, self.take_number(3)?);
                let is_of_year = (1..=i64::from(first.days_in_year())).contains(&ordinal);
                first.checked_add(jiff::Span::new().days(ordinal - 1)).ok().filter(|_| is_of_year)
            }
            (false, 4) => date(self.take_number(2)?, self.take_number(2)?),
            (true, 2) => {
                let month = self.take_number(2)?;
                date(month, if self.take_any_of(b"-") { self.take_number(2)? } else { 1 })
            }
            _ => None,
        }
    }

    /// Since midnight, in nanoseconds.
    fn time(&mut self) -> Option<i64> {
        let hour = self.take_number(2)?;
        let is_extended = self.0.first() == Some(&b':');
        let mut part = |unit: &mut i64, next: i64| {
            if !(if is_extended { self.take_any_of(b":") } else { self.digits() > 0 }) {
                return Some(0);
            }
            *unit = next;
            self.take_number(2)
        };
        let mut unit = HOUR;
        let minute = part(&mut unit, MINUTE)?;
        let second = if unit == MINUTE { part(&mut unit, SECOND)? } else { 0 };
        let fraction = if self.take_any_of(b".,") { self.fraction(unit)? } else { 0 };
        let time = hour * HOUR + minute * MINUTE + second * SECOND + fraction;
        let is_time = hour <= 23 || time == DAY;
        (is_time && minute <= 59 && second <= 60).then_some(time)
    }

    /// The digits after the point, as a part of `unit`.
    fn fraction(&mut self, unit: i64) -> Option<i64> {
        /// More digits make no difference.
        const MOST: usize = 15;
        let digits = self.digits();
        let counted = digits.min(MOST);
        let number = self.take_number(counted).filter(|_| digits > 0)?;
        self.0 = &self.0[digits - counted..];
        let part = i128::from(number) * i128::from(unit) / 10_i128.pow(counted as u32);
        i64::try_from(part).ok()
    }

    /// The offset, in nanoseconds; none is UTC.
    fn offset(&mut self) -> Option<i64> {
        if self.0.is_empty() || self.take_any_of(b"Zz") {
            return Some(0);
        }
        let is_west = self.0.first() == Some(&b'-');
        if !self.take_any_of(b"+- ") {
            return None;
        }
        let hour = self.take_number(2)?;
        let minute = if self.take_any_of(b":") || self.digits() > 0 { self.take_number(2)? } else { 0 };
        let offset = hour * HOUR + minute * MINUTE;
        (hour <= 23 && minute <= 59).then_some(if is_west { -offset } else { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use proptest::prelude::*;

    const MIDNIGHT: i64 = 1_704_067_200_000_000_000;

    #[test]
    fn dates_and_times_of_rfc_3339_parse() {
        for (text, expected) in [
            ("2024-01-01", MIDNIGHT),
            ("2024-01-01T00:00:00Z", MIDNIGHT),
            ("2024-01-01t00:00:00z", MIDNIGHT),
            ("2024-01-01T00:00:00", MIDNIGHT),
            ("2024-01-01T02:00:00+02:00", MIDNIGHT),
            ("2024-01-01T02:00:00 02:00", MIDNIGHT),
            ("2023-12-31T19:00:00-05:00", MIDNIGHT),
            ("2024-01-01T00:00:00.000000001Z", MIDNIGHT + 1),
            ("2024-02-29", MIDNIGHT + 59 * DAY),
            ("0000-01-01", i64::MIN + 1),
            ("0001-01-01", i64::MIN + 1),
            ("9999-12-30T00:00:00Z", i64::MAX),
            ("9999-12-31", i64::MAX),
            ("9999-12-31T23:59:59.999999999-23:59", i64::MAX),
            ("0000-01-01T00:00:00+23:59", i64::MIN + 1),
        ] {
            assert_eq!(parse_rfc3339(text), Ok(expected), "{text}");
            assert_eq!(parse_iso8601(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_spellings_of_iso_8601_are_read_only_where_nobody_can_be_asked() {
        for (text, expected) in [
            ("20240101", MIDNIGHT),
            ("20240101T000000Z", MIDNIGHT),
            ("20240101T0000", MIDNIGHT),
            ("2024-001", MIDNIGHT),
            ("2024001T00Z", MIDNIGHT),
            ("2024-W01-1", MIDNIGHT),
            ("2024W011", MIDNIGHT),
            ("2024-W01", MIDNIGHT),
            ("2025-W22-7", MIDNIGHT + 517 * DAY),
            ("2025-W22", MIDNIGHT + 511 * DAY),
            ("2024-01", MIDNIGHT),
            ("2024", MIDNIGHT),
            ("2024-366", MIDNIGHT + 365 * DAY),
            ("2024-01-01 00:00:00", MIDNIGHT),
            ("2024-01-01T00:00", MIDNIGHT),
            ("2024-01-01T00Z", MIDNIGHT),
            ("2023-12-31T24:00:00Z", MIDNIGHT),
            ("2023-12-31T23:59:60Z", MIDNIGHT),
            ("2023-12-31T19:00:00-0500", MIDNIGHT),
            ("2023-12-31T19:00:00-05", MIDNIGHT),
            ("2024-01-01T00:00:00,5Z", MIDNIGHT + SECOND / 2),
            ("2024-01-01T00:30,5", MIDNIGHT + 30 * MINUTE + MINUTE / 2),
            ("2024-01-01T00:00:00.0000000019999999999Z", MIDNIGHT + 1),
        ] {
            assert_eq!(parse_rfc3339(text), Err(NotATime), "{text}");
            assert_eq!(parse_iso8601(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "yesterday",
            "2024-13-01",
            "2024-02-30",
            "2024-1-1",
            "202401",
            "1704067200",
            "2023-366",
            "2024-000",
            "2024-W54",
            "2024-W01-8",
            "2024-01-01T25:00:00Z",
            "2024-01-01T24:00:01Z",
            "2024-01-01T00:00:61Z",
            "2024-01-01T00:00:00+25:00",
            "2024-01-01T00:00:00+99:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:0000",
            "2024-01-01T00:00:00Z[UTC]",
            "2024-01-01Z",
            "2024-01-01x",
            "2024-01-01T",
            "2024/01/01T00:00:00Z",
            "２024-01-01",
        ] {
            assert_eq!(parse_rfc3339(text), Err(NotATime), "{text}");
            assert_eq!(parse_iso8601(text), Err(NotATime), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (parse_rfc3339(&text), parse_iso8601(&text));
        }

        #[test]
        fn what_the_origin_may_be_asked_means_the_same_where_it_cannot(
            text in "(1[67]|19|20|2[12])[0-9]{2}-(0[0-9]|1[0-3])-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](Z|[+-][0-2][0-9]:[0-6][0-9])?",
        ) {
            if let Ok(at) = parse_rfc3339(&text) {
                prop_assert_eq!(parse_iso8601(&text), Ok(at));
            }
        }

        #[test]
        fn every_day_has_its_place(seconds in -8_520_336_000_i64..7_289_654_400) {
            let timestamp = Timestamp::from_second(seconds).unwrap();
            prop_assert_eq!(parse_rfc3339(&timestamp.to_string()), Ok(seconds * SECOND));
            prop_assert_eq!(parse_iso8601(&timestamp.to_string()), Ok(seconds * SECOND));
        }

        #[test]
        fn no_text_that_looks_like_a_time_panics(text in "[0-9]{4}-?[0-9W]{2}-?[0-9]{0,2}[T ][0-9:., +-]{0,20}") {
            let _ = (parse_rfc3339(&text), parse_iso8601(&text));
        }
    }
}
