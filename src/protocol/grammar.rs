//! The grammar that fields share: lists, quoted strings, weights, seconds and dates (RFC 9110 §5.6, §12.4.2).
//!
//! HTTP-dates are read strictly: freshness depends on them, and a malformed date means "expired". But in any letter case,
//! which senders get wrong and which changes no meaning. Callers: the files beside it, and [`crate::origin`].

use std::borrow::Cow;

use http::HeaderMap;
use http::header::AsHeaderName;
use jiff::civil::Date;

use crate::clock::WallTime;

/// Drops the optional whitespace (RFC 9110 §5.6.3: space and tab) around a field value or list member.
pub(super) fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// All members of a field, over all its lines, trimmed, without the empty ones.
pub(super) fn members<K: AsHeaderName>(headers: &HeaderMap, name: K) -> impl Iterator<Item = &[u8]> {
    every_member(headers, name).filter(|member| !member.is_empty())
}

/// The same with the empty ones: for fields that the origin may not read as lists.
pub(super) fn every_member<K: AsHeaderName>(headers: &HeaderMap, name: K) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().flat_map(|line| Members(Some(line.as_bytes())))
}

/// The members of one line, and what is left of it.
struct Members<'a>(Option<&'a [u8]>);

impl<'a> Iterator for Members<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.0?;
        let (member, rest) = line.split_at(end_of_member(line));
        self.0 = rest.get(1..);
        Some(trim(member))
    }
}

/// Where the first member ends: at a comma outside of quotes, or at the end.
fn end_of_member(text: &[u8]) -> usize {
    let mut at = 0;
    let mut opener = true;
    while let Some(&byte) = text.get(at) {
        match byte {
            b',' => return at,
            // A quoted string is a value: elsewhere, or without an end, a quotation mark is a byte as any other, and
            // hides no comma.
            b'"' if opener => at += quoted(&text[at..]).unwrap_or(1),
            _ => at += 1,
        }
        opener = byte == b'=' || (opener && matches!(byte, b' ' | b'\t'));
    }
    text.len()
}

/// The length of the quoted string that `text` starts with, marks included; `None`: it has no end.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The content of the quoted string that `text` starts with, without escapes, and what follows; `None`: it has no end.
pub(crate) fn unquoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let (string, rest) = text.split_at(quoted(text)?);
    let inside = &string[1..string.len() - 1];
    if !inside.contains(&b'\\') {
        return Some((Cow::Borrowed(inside), rest));
    }
    let mut bytes = inside.iter().copied();
    let literal =
        std::iter::from_fn(|| bytes.next().and_then(|byte| if byte == b'\\' { bytes.next() } else { Some(byte) }));
    Some((Cow::Owned(literal.collect()), rest))
}

/// `q=` and a qvalue (RFC 9110 §12.4.2) in thousandths; `None` unless it is one, with at most three decimals.
pub(super) fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', whole @ (b'0' | b'1'), decimals @ ..] = parameter else { return None };
    let decimals = match decimals {
        [] => &[][..],
        [b'.', decimals @ ..] if decimals.len() <= 3 => decimals,
        _ => return None,
    };
    let mut digits = decimals.iter().chain(b"000").take(3);
    let thousandths = digits.try_fold(u16::from(whole - b'0'), |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + u16::from(digit - b'0'))
    });
    thousandths.filter(|thousandths| *thousandths <= 1000)
}

/// `delta-seconds` (RFC 9111 §1.2.2), at most `most`.
pub(super) fn seconds(text: &[u8], most: u32) -> Option<u32> {
    let digits = trim(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')));
    Some(value.min(most))
}

/// The present for callers without a clock (1 January 2027): it decides only the century of a two-digit year.
pub(super) const PRESENT: WallTime = WallTime::from_seconds(1_798_761_600);

/// The only value of a field that holds one HTTP-date; `None` when it is absent, repeated or malformed. `now` is the
/// instant that decides the century of a two-digit year.
pub(crate) fn date_in<K: AsHeaderName>(headers: &HeaderMap, name: K, now: WallTime) -> Option<WallTime> {
    let mut lines = headers.get_all(name).into_iter();
    let only = lines.next().filter(|_| lines.next().is_none())?;
    http_date(only.as_bytes(), now)
}

/// Reads one HTTP-date: IMF-fixdate, or the obsolete forms of RFC 850 and `asctime`. The name of the day must be valid,
/// but need not be the right one. A leap second counts as the second before it.
pub(crate) fn http_date(text: &[u8], now: WallTime) -> Option<WallTime> {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let text = trim(text);
    let is_asctime = !text.contains(&b',');
    let (day_name, rest) = text.split_at_checked(text.iter().position(|&byte| byte == b',').unwrap_or(3))?;
    let is_short = day_name.len() == 3;
    let form = match (is_asctime, is_short) {
        (true, _) => b" Nnn dD hh:mm:ss YYYY".as_slice(),
        (false, true) => b", DD Nnn YYYY hh:mm:ss ~~~",
        (false, false) => b", DD-Nnn-YY hh:mm:ss ~~~",
    };
    let is_zoned = is_asctime || rest.to_ascii_uppercase().ends_with(b" GMT");
    let is_day = |day: &str| day.as_bytes()[..if is_short { 3 } else { day.len() }].eq_ignore_ascii_case(day_name);
    if !is_zoned || !DAYS.into_iter().any(is_day) {
        return None;
    }
    let [mut year, month, day, hour, minute, second] = numbers(rest, form)?;
    if form.ends_with(b"-YY hh:mm:ss ~~~") {
        // RFC 9110 §5.6.7: more than 50 years ahead means the most recent year with these digits.
        let present = jiff::Timestamp::from_second(now.as_seconds())
            .map_or(1970, |now| i64::from(now.to_zoned(jiff::tz::TimeZone::UTC).year()));
        let century = present - present.rem_euclid(100);
        year = [century + 100, century, century - 100]
            .map(|century| century + year)
            .into_iter()
            .find(|year| *year <= present + 50)?;
    }
    let date = Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    let midnight = date.duration_since(Date::constant(1970, 1, 1)).as_secs();
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then(|| WallTime::from_seconds(midnight + hour * 3600 + minute * 60 + second.min(59)))
}

/// Year, month, day, hour, minute and second of a date in a form: letters stand for their digits, `d` also for a space,
/// `Nnn` for the name of a month, and `~` for any byte.
fn numbers(text: &[u8], form: &[u8]) -> Option<[i64; 6]> {
    const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut numbers = [0; 6];
    for (at, (&byte, &letter)) in text.iter().zip(form).enumerate() {
        let number = match letter {
            b'N' => {
                let name = text.get(at..at + 3)?;
                let month = MONTHS.chunks_exact(3).position(|month| month.eq_ignore_ascii_case(name))?;
                numbers[1] = i64::try_from(month).ok()? + 1;
                continue;
            }
            b'n' | b'~' => continue,
            b'd' if byte == b' ' => continue,
            b'Y' => &mut numbers[0],
            b'D' | b'd' => &mut numbers[2],
            b'h' => &mut numbers[3],
            b'm' => &mut numbers[4],
            b's' => &mut numbers[5],
            _ if byte == letter => continue,
            _ => return None,
        };
        *number = *number * 10 + i64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    (text.len() == form.len()).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::tests::{NOW, headers};
    use proptest::prelude::*;
    #[test]
    fn commas_in_quotes_split_nothing_and_an_open_quote_hides_nothing() {
        for (line, expected) in [
            ("", &[][..]),
            (" , ,", &[]),
            ("a, b", &["a", "b"]),
            ("x=\"a, b\", c", &["x=\"a, b\"", "c"]),
            ("x=\"a\\\", b\", c", &["x=\"a\\\", b\"", "c"]),
            ("\"a,b\",c", &["\"a,b\"", "c"]),
            ("x=\"a, no-store", &["x=\"a", "no-store"]),
            ("x \"y, no-store\"", &["x \"y", "no-store\""]),
            ("a, \t\"b,c\"", &["a", "\"b,c\""]),
            ("x\"y, no-store, z\"", &["x\"y", "no-store", "z\""]),
            ("x=\"a\\", &["x=\"a\\"]),
        ] {
            let header = headers(&[("x", line)]);
            let members: Vec<_> = members(&header, "x").map(|member| String::from_utf8_lossy(member)).collect();
            assert_eq!(members, expected, "{line:?}");
        }
        let header = headers(&[("x", ", a,,b ,"), ("x", "")]);
        assert_eq!(every_member(&header, "x").collect::<Vec<_>>(), [&b""[..], b"a", b"", b"b", b"", b""]);
    }

    proptest! {
        #[test]
        fn every_qvalue_of_the_grammar_is_read(thousandths in 0_u16..=1000) {
            let text = format!("q={}.{:03}", thousandths / 1000, thousandths % 1000);
            prop_assert_eq!(weight(text.as_bytes()), Some(thousandths));
        }

        #[test]
        fn splitting_is_total(bytes: Vec<u8>) {
            prop_assert!(Members(Some(&bytes)).count() <= bytes.len() + 1);
        }
    }

    fn read(text: &str) -> Option<String> {
        http_date(text.as_bytes(), NOW).and_then(WallTime::rfc3339)
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
        assert_eq!(date_in(&twice, http::header::DATE, NOW), None);
    }

    proptest! {
        #[test]
        fn reading_is_total_and_what_we_write_is_read_back(bytes: Vec<u8>, now: i64, seconds in 0..253_402_300_800_i64) {
            let _ = http_date(&bytes, WallTime::from_millis(now));
            let time = WallTime::from_seconds(seconds);
            prop_assert_eq!(http_date(time.http_date().unwrap().as_bytes(), NOW), Some(time));
        }
    }
}
