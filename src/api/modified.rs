//! Instants as the API spells them: `modified` of a listing and the `modified_since` filter.
//!
//! Callers: [`crate::api::listing`], [`crate::api::query`].

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// A text that is neither an ISO 8601 date nor a timestamp.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ISO 8601 date or timestamp")]
pub(crate) struct NotATime;

/// Reads an ISO 8601 date (00:00:00 UTC of that day) or timestamp (no offset means UTC; a `+` of the offset that
/// arrived as a space still parses) as nanoseconds since the epoch, saturating at the ends of an `i64`; `i64::MIN`
/// stays free for unknown instants.
///
/// # Errors
/// When the text is neither.
pub(crate) fn parse(text: &str) -> Result<i64, NotATime> {
    const LONGEST: usize = 64;
    if text.len() > LONGEST || !text.is_ascii() || text.len() < 10 {
        return Err(NotATime);
    }
    if text.as_bytes().get(4) != Some(&b'-') || text.as_bytes().get(7) != Some(&b'-') {
        return Err(NotATime);
    }
    if let Some(at) = plain(text.as_bytes()) {
        return Ok(at);
    }
    if text.len() == 10 {
        let date: Date = text.parse().map_err(|_| NotATime)?;
        return zoned(date.to_datetime(jiff::civil::Time::midnight()));
    }
    if !matches!(text.as_bytes()[10], b'T' | b't' | b' ') || text.contains('[') {
        return Err(NotATime);
    }
    let repaired = match text[11..].rfind(' ') {
        Some(at) => format!("{}+{}", &text[..11 + at], &text[12 + at..]),
        None => text.to_owned(),
    };
    if let Ok(timestamp) = repaired.parse::<Timestamp>() {
        return Ok(nanoseconds(timestamp));
    }
    let has_offset = repaired[11..].contains(['+', '-', 'Z', 'z']);
    if has_offset {
        return Err(NotATime);
    }
    zoned(repaired.parse::<DateTime>().map_err(|_| NotATime)?)
}

/// Fast path for the usual spelling, `2024-01-01T00:00:00` with `Z` or an offset such as `+02:00`; `None`: use the full
/// parser.
fn plain(text: &[u8]) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| {
        text.get(range)?
            .iter()
            .try_fold(0_i64, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
    };
    let within = |range, most: std::ops::RangeInclusive<i64>| number(range).filter(|number| most.contains(number));
    let separated = text.get(10) == Some(&b'T') && text.get(13) == Some(&b':') && text.get(16) == Some(&b':');
    // Years whose nanoseconds fit; the first 28 days of each month.
    let (year, month, day) = (within(0..4, 1700..=2200)?, within(5..7, 1..=12)?, within(8..10, 1..=28)?);
    let (hour, minute, second) = (within(11..13, 0..=23)?, within(14..16, 0..=59)?, within(17..19, 0..=59)?);
    let offset = match text.get(19..)? {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let offset = within(20..22, 0..=23)? * 3600 + within(23..25, 0..=59)? * 60;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    if !separated {
        return None;
    }
    // Days since the epoch: years counted from March, so that the odd day comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some((days * 86_400 + hour * 3600 + minute * 60 + second - offset) * 1_000_000_000)
}

fn zoned(civil: DateTime) -> Result<i64, NotATime> {
    let timestamp = TimeZone::UTC.to_timestamp(civil).map_err(|_| NotATime)?;
    Ok(nanoseconds(timestamp))
}

fn nanoseconds(timestamp: Timestamp) -> i64 {
    let exact = timestamp.as_nanosecond();
    i64::try_from(exact).unwrap_or(if exact < 0 { i64::MIN } else { i64::MAX }).max(i64::MIN + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIDNIGHT: i64 = 1_704_067_200_000_000_000;

    #[test]
    fn dates_and_timestamps_parse() {
        for (text, expected) in [
            ("2024-01-01", MIDNIGHT),
            ("2024-01-01T00:00:00Z", MIDNIGHT),
            ("2024-01-01T00:00:00", MIDNIGHT),
            ("2024-01-01T02:00:00+02:00", MIDNIGHT),
            ("2024-01-01T02:00:00 02:00", MIDNIGHT),
            ("2024-01-01 00:00:00", MIDNIGHT),
            ("2023-12-31T19:00:00-05:00", MIDNIGHT),
            ("2023-12-31T19:00:00-0500", MIDNIGHT),
            ("2024-01-01T00:00:00.000000001Z", MIDNIGHT + 1),
            ("0001-01-01", i64::MIN + 1),
            ("9999-12-30T00:00:00Z", i64::MAX),
        ] {
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "yesterday",
            "2024",
            "2024-13-01",
            "2024-02-30",
            "20240101",
            "1704067200",
            "2024-01-01T25:00:00Z",
            "2024-01-01T00:00:00+99:00",
            "2024-01-01T00:00:00Z[UTC]",
            "2024-01-01x",
            "2024-01-01T",
            "２024-01-01",
        ] {
            assert_eq!(parse(text), Err(NotATime), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }

        #[test]
        fn the_short_way_leads_where_the_long_one_does(
            text in "(1[67]|19|20|2[12])[0-9]{2}-(0[0-9]|1[0-3])-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](Z|[+-][0-2][0-9]:[0-6][0-9])?",
        ) {
            if let Some(at) = plain(text.as_bytes()) {
                prop_assert_eq!(nanoseconds(text.parse::<Timestamp>().unwrap()), at);
            }
        }

        #[test]
        fn every_day_has_its_place(seconds in -8_520_336_000_i64..7_289_654_400) {
            let timestamp = Timestamp::from_second(seconds).unwrap();
            let read = plain(timestamp.to_string().as_bytes());
            prop_assert!(read.is_some() || timestamp.to_zoned(TimeZone::UTC).day() > 28);
            prop_assert_eq!(read.unwrap_or(seconds * 1_000_000_000), seconds * 1_000_000_000);
        }

        #[test]
        fn no_text_that_looks_like_a_time_panics(text in "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:. +-]{0,20}") {
            let _ = parse(&text);
        }
    }
}
