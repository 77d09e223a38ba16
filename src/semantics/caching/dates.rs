//! HTTP-dates, read strictly (RFC 9110 §5.6.7): freshness depends on them, and a malformed date means "expired".
//!
//! It reads the three forms, and fields with one date. It does no arithmetic. It differs from
//! [`WallTime::parse_http_date`] in letter case, which senders get wrong and which changes no meaning, and in the
//! century of a two-digit year, which depends on the present. Callers: the files beside it.

use http::header::{AsHeaderName, DATE, HeaderMap};

use crate::clock::WallTime;

/// The present for callers without a clock (1 January 2027): it decides only the century of a two-digit year.
pub(super) const PRESENT: WallTime = WallTime::from_seconds(1_798_761_600);

/// The only value of a field that holds one HTTP-date; `None` when it is absent, repeated or malformed. `now` is the
/// instant that decides the century of a two-digit year.
pub(crate) fn single<K: AsHeaderName>(headers: &HeaderMap, name: K, now: WallTime) -> Option<WallTime> {
    let mut lines = headers.get_all(name).into_iter();
    let only = lines.next().filter(|_| lines.next().is_none())?;
    parse(only.as_bytes(), now)
}

/// The instant in `Date`, if any.
pub(crate) fn date_of(headers: &HeaderMap, now: WallTime) -> Option<WallTime> {
    single(headers, DATE, now)
}

/// Reads one HTTP-date: IMF-fixdate, or the obsolete forms of RFC 850 and `asctime`. The name of the day must be valid,
/// but need not be the right one.
pub(crate) fn parse(text: &[u8], now: WallTime) -> Option<WallTime> {
    let text = crate::semantics::trim(text);
    imf_fixdate(text).or_else(|| rfc_850(text, now)).or_else(|| asctime(text))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn imf_fixdate(text: &[u8]) -> Option<WallTime> {
    let [d1, d2, d3, b',', b' ', a, b, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', rest @ ..] = text else {
        return None;
    };
    short_day([*d1, *d2, *d3])?;
    let year = number(&[*y1, *y2, *y3, *y4])?;
    instant(year, month([*m1, *m2, *m3])?, number(&[*a, *b])?, time(gmt(rest)?)?)
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`.
fn rfc_850(text: &[u8], now: WallTime) -> Option<WallTime> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    let (day, rest) = text.split_at(comma);
    DAYS.iter().find(|name| day.eq_ignore_ascii_case(name.as_bytes()))?;
    let [b',', b' ', a, b, b'-', m1, m2, m3, b'-', y1, y2, b' ', rest @ ..] = rest else { return None };
    let (month, day, time) = (month([*m1, *m2, *m3])?, number(&[*a, *b])?, time(gmt(rest)?)?);
    // RFC 9110 §5.6.7: more than 50 years ahead means the most recent year with these digits.
    let (present, digits) = (year_of(now), number(&[*y1, *y2])?);
    let year = present - present.rem_euclid(100) + digits;
    let year = [year + 100, year, year - 100].into_iter().find(|year| *year <= present + 50)?;
    instant(year, month, day, time)
}

/// `Sun Nov  6 08:49:37 1994`.
fn asctime(text: &[u8]) -> Option<WallTime> {
    let [d1, d2, d3, b' ', m1, m2, m3, b' ', a, b, b' ', rest @ ..] = text else { return None };
    short_day([*d1, *d2, *d3])?;
    let day = if *a == b' ' { number(&[*b])? } else { number(&[*a, *b])? };
    let (clock, year) = rest.split_at_checked(8)?;
    let [b' ', year @ ..] = year else { return None };
    let year = if year.len() == 4 { number(year)? } else { return None };
    instant(year, month([*m1, *m2, *m3])?, day, time(clock)?)
}

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

fn short_day(text: [u8; 3]) -> Option<()> {
    DAYS.iter().any(|name| name.as_bytes()[..3].eq_ignore_ascii_case(&text)).then_some(())
}

fn month(text: [u8; 3]) -> Option<i64> {
    (1..).zip(MONTHS.chunks_exact(3)).find(|(_, name)| name.eq_ignore_ascii_case(&text)).map(|(month, _)| month)
}

/// The part before ` GMT`.
fn gmt(text: &[u8]) -> Option<&[u8]> {
    let (time, zone) = text.split_at_checked(8)?;
    zone.eq_ignore_ascii_case(b" GMT").then_some(time)
}

/// `08:49:37` in seconds; a leap second counts as the second before it.
fn time(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    (hour < 24 && minute < 60 && second <= 60).then(|| hour * 3600 + minute * 60 + second.min(59))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
}

fn instant(year: i64, month: i64, day: i64, seconds: i64) -> Option<WallTime> {
    let date = jiff::civil::Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let midnight = date.ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
    Some(WallTime::from_seconds(midnight).plus_seconds(seconds))
}

fn year_of(now: WallTime) -> i64 {
    jiff::Timestamp::from_second(now.as_seconds())
        .map_or(1970, |now| i64::from(now.to_zoned(jiff::tz::TimeZone::UTC).year()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, headers};
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<String> {
        parse(text.as_bytes(), NOW).and_then(WallTime::rfc3339)
    }

    #[test]
    fn the_three_forms_are_read_whatever_their_letter_case() {
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),
            (" Sun, 06 Nov 1994 08:49:37 GMT\t", "1994-11-06T08:49:37Z"),
            ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"),
            ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z"),
            ("Thursday, 18-Aug-50 02:01:18 GMT", "2050-08-18T02:01:18Z"),
            ("Thu Aug  8 02:01:18 2050", "2050-08-08T02:01:18Z"),
            ("THU, 18 Aug 2050 02:01:18 GMT", "2050-08-18T02:01:18Z"),
            ("Thu, 18 AUG 2050 02:01:18 GMT", "2050-08-18T02:01:18Z"),
            ("Thu, 18 Aug 2050 02:01:18 gMT", "2050-08-18T02:01:18Z"),
            ("Sun, 21 Nov 2286 04:46:39 GMT", "2286-11-21T04:46:39Z"),
            ("Sat, 31 Dec 2016 23:59:60 GMT", "2016-12-31T23:59:59Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_exactly_one_of_them_is_no_date() {
        for text in [
            "",
            "0",
            "-1",
            "now",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18",
            "Thu, 18 Aug 2050 02:01:18 GMT, x",
            "Thu, 31 Jun 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
            "Thu, 18 Aug 2050 +2:01:18 GMT",
            "Day, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18-Aug-50 02:01:18 GMT",
            "Thu Aug 8 02:01:18 2050",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn two_digits_of_a_year_are_never_more_than_50_years_ahead() {
        for (digits, year) in [("26", 2026), ("76", 2076), ("77", 1977), ("99", 1999), ("00", 2000)] {
            let read = read(&format!("Sunday, 06-Nov-{digits} 08:49:37 GMT")).unwrap();
            assert!(read.starts_with(&year.to_string()), "{digits}: {read}");
        }
    }

    #[test]
    fn two_dates_are_none() {
        let twice = headers(&[("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("date", "Sun, 06 Nov 1994 08:49:38 GMT")]);
        assert_eq!(date_of(&twice, NOW), None);
    }

    proptest! {
        #[test]
        fn reading_is_total_and_what_we_write_is_read_back(bytes: Vec<u8>, now: i64, seconds in 0..253_402_300_800_i64) {
            let _ = parse(&bytes, WallTime::from_millis(now));
            let time = WallTime::from_seconds(seconds);
            prop_assert_eq!(parse(time.http_date().unwrap().as_bytes(), NOW), Some(time));
        }
    }
}
