//! Open cases: odd requests to which the API's documentation gives no answer.
//!
//! A request belongs to a [`Row`] of the table, whose [`Meaning`] the examiner finds out, or it has an odd value, which
//! only the origin can answer. What only the data shows to be odd, an unknown slug or a page beyond the last, is found in
//! [`crate::data::snapshot::odd`]. Callers: [`crate::data::snapshot::odd`], `mirror::examiner`, [`crate::edge::answer`].

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::words::named;

use super::query::{self, KNOWN, ListQuery};
use super::taxonomy::TaxonomyKind;

named! {
    /// One case that the documentation leaves open: a row, or part of one, of the table of open cases. In the order in
    /// which they are examined; the words are for the store, `/status` and logs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum Row, as_str {
        /// The page after the last.
        PageNext = "page-next",
        /// A page beyond that.
        PageBeyond = "page-beyond",
        PageZero = "page-zero",
        PageNegative = "page-negative",
        /// `page=x`.
        PageWord = "page-word",
        /// `per_page=101`.
        PerPageOver = "per-page-over",
        PerPageZero = "per-page-zero",
        PerPageNegative = "per-page-negative",
        /// `per_page=x`.
        PerPageWord = "per-page-word",
        /// `page` or `per_page` twice, with different values.
        RepeatedNumber = "repeated-number",
        /// `sport`, `state` or `city` twice, with different values.
        RepeatedFilter = "repeated-filter",
        /// `modified_since=yesterday`.
        SinceMalformed = "since-malformed",
        /// `modified_since` in the future. The documentation gives the answer, and an origin may give another.
        SinceFuture = "since-future",
        /// `sport` with a slug that no term has.
        UnknownSport = "unknown-sport",
        UnknownState = "unknown-state",
        UnknownCity = "unknown-city",
        /// `page=` or `per_page=`.
        EmptyNumber = "empty-number",
        /// `sport=`, `state=` or `city=`.
        EmptyFilter = "empty-filter",
        EmptySince = "empty-since",
        IdWord = "id-word",
    }
}

/// What an origin means by the requests of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Meaning {
    /// No listings; the total of a list stays on a page beyond its last.
    Empty,
    /// Of such a page: no listings, and a total of 0, as where a database counts rows beside them.
    Nothing,
    /// As the nearest number that is valid.
    Clamped,
    Absent,
    Refused(u16),
}

impl Meaning {
    /// The statuses of refusals that say something about the request.
    const STATUSES: [u16; 4] = [400, 404, 410, 422];

    /// The meaning of a status; `None`: it says nothing about the request.
    pub(crate) fn of_status(status: u16) -> Option<Self> {
        Self::STATUSES.contains(&status).then_some(Self::Refused(status))
    }

    pub(crate) fn told(self) -> String {
        match self {
            Self::Empty => "an empty list".to_owned(),
            Self::Nothing => "an empty list with a total of 0".to_owned(),
            Self::Clamped => "clamped".to_owned(),
            Self::Absent => "as if absent".to_owned(),
            Self::Refused(status) => format!("refused with {status}"),
        }
    }

    pub(crate) fn is_valid(self) -> bool {
        if let Self::Refused(status) = self { Self::of_status(status).is_some() } else { true }
    }
}

impl Row {
    /// The meaning that counts where the origin cannot be asked: offline, in a replica, with `snapshot=`.
    pub(crate) const fn table(self) -> Meaning {
        match self {
            Self::PageNext
            | Self::PageBeyond
            | Self::SinceFuture
            | Self::UnknownSport
            | Self::UnknownState
            | Self::UnknownCity => Meaning::Empty,
            Self::PerPageOver => Meaning::Clamped,
            Self::EmptyNumber | Self::EmptyFilter | Self::EmptySince => Meaning::Absent,
            Self::IdWord => Meaning::Refused(404),
            // `?page=0`, words, what is repeated.
            _ => Meaning::Refused(400),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OddQuery {
    /// The query without its odd parameters, with the documented page size where none is asked for.
    rest: ListQuery,
    /// The odd parameters, at least one.
    pub odds: Vec<Odd>,
    /// The snapshot that the client names.
    pub pin: Option<Box<str>>,
    given: Vec<Given>,
}

/// The different values of a parameter, in the order in which they came.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    parameter: &'static str,
    values: Vec<Spelled>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Spelled {
    /// The client's bytes.
    raw: Box<str>,
    /// Decoded.
    text: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Odd {
    pub parameter: &'static str,
    pub how: How,
    /// Its values: one, all different ones if it is repeated, none if it is empty.
    pub values: Vec<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Zero,
    /// `-` and a canonical decimal of at most 18 digits.
    Negative,
    /// Letters, where a number should be.
    Word,
    /// `per_page` above the maximum.
    Over,
    /// No instant, and without a digit.
    Malformed,
    /// A value of no row: another spelling of a number, of an instant or of a known slug, or a list of slugs.
    Spelled,
    Future,
    /// A slug that no term has.
    Unknown,
    Next,
    Beyond,
    /// Given twice, with different values.
    Repeated,
    Empty,
}

impl Odd {
    pub(crate) fn of(parameter: &'static str, how: How, value: &str) -> Self {
        Self { parameter, how, values: vec![value.into()] }
    }

    /// Its row; `None`: it belongs to none.
    pub(crate) fn row(&self) -> Option<Row> {
        Some(match (self.how, self.parameter) {
            (How::Zero, "page") => Row::PageZero,
            (How::Zero, _) => Row::PerPageZero,
            (How::Negative, "page") => Row::PageNegative,
            (How::Negative, _) => Row::PerPageNegative,
            (How::Word, "page") => Row::PageWord,
            (How::Word, _) => Row::PerPageWord,
            (How::Over, _) => Row::PerPageOver,
            (How::Malformed, _) => Row::SinceMalformed,
            (How::Future, _) => Row::SinceFuture,
            (How::Next, _) => Row::PageNext,
            (How::Beyond, _) => Row::PageBeyond,
            (How::Unknown, "sport") => Row::UnknownSport,
            (How::Unknown, "state") => Row::UnknownState,
            (How::Unknown, _) => Row::UnknownCity,
            (How::Repeated, "page" | "per_page") => Row::RepeatedNumber,
            (How::Repeated, "sport" | "state" | "city") => Row::RepeatedFilter,
            (How::Empty, "page" | "per_page") => Row::EmptyNumber,
            (How::Empty, "sport" | "state" | "city") => Row::EmptyFilter,
            (How::Empty, _) => Row::EmptySince,
            (How::Spelled | How::Repeated, _) => return None,
        })
    }

    pub(crate) fn is_askable(&self) -> bool {
        self.values.iter().all(|value| is_askable(value))
    }
}

impl OddQuery {
    /// Reads a raw query of a list. `None`: it is ordinary, or it is refused whatever the origin does: values that are not
    /// UTF-8, too long or too many, or two snapshots.
    pub(crate) fn read(raw: &str) -> Option<Self> {
        let (mut rest, mut odds, mut pin) = (ListQuery::default(), Vec::new(), None);
        let given = given(raw)?;
        for Given { parameter, values } in &given {
            let parameter = *parameter;
            let is_empty = |text: &&str| text.is_empty();
            let texts = || values.iter().map(|value| &*value.text);
            let full: Vec<&str> = texts().filter(|text| !is_empty(text)).collect();
            if parameter == "snapshot" {
                if full.len() > 1 {
                    return None;
                }
                pin = full.first().map(|id| (*id).into());
                continue;
            }
            if full.len() < values.len() {
                odds.push(Odd { parameter, how: How::Empty, values: Vec::new() });
            }
            match full[..] {
                [] => {}
                [value] => {
                    // Another value than none is another value.
                    if values.len() > 1 {
                        odds.push(Odd { parameter, how: How::Repeated, values: vec![value.into()] });
                    }
                    if let Err(how) = put(&mut rest, parameter, value) {
                        odds.push(Odd::of(parameter, how, value));
                    }
                }
                [_, _, ..] => {
                    let mut scratch = rest.clone();
                    for value in &full {
                        if let Err(how) = put(&mut scratch, parameter, value) {
                            odds.push(Odd::of(parameter, how, value));
                        }
                    }
                    if full.len() > 2 {
                        odds.push(Odd { parameter, how: How::Empty, values: Vec::new() });
                    }
                    odds.push(Odd {
                        parameter,
                        how: How::Repeated,
                        values: full.iter().map(|value| (*value).into()).collect(),
                    });
                }
            }
        }
        (!odds.is_empty()).then_some(Self { rest, odds, pin, given })
    }

    pub(crate) fn has_size(&self) -> bool {
        let of_size = self.given.iter().filter(|given| given.parameter == "per_page");
        of_size.flat_map(|given| &given.values).any(|value| !value.text.is_empty())
    }

    /// The query without its odd parameters. `page_size`: that of a query without `per_page`.
    pub(crate) fn rest(&self, page_size: u16) -> ListQuery {
        let has_size = self.has_size() && self.odds.iter().all(|odd| odd.parameter != "per_page");
        ListQuery { per_page: if has_size { self.rest.per_page } else { page_size }, ..self.rest.clone() }
    }

    /// Path and query as they are sent to the origin: known parameters only, in one order. The values of these odd
    /// parameters have the client's bytes, since only the origin knows what these mean.
    pub(crate) fn path(&self, odds: &[Odd]) -> String {
        path(&self.given, odds)
    }

    /// The same of a raw query that the parser does not call odd.
    pub(crate) fn path_of(raw: &str, odds: &[Odd]) -> Option<String> {
        Some(path(&given(raw)?, odds))
    }
}

fn path(given: &[Given], odds: &[Odd]) -> String {
    let mut path = String::from("/api/listings.json");
    for Given { parameter, values } in given.iter().filter(|given| given.parameter != "snapshot") {
        let is_odd = odds.iter().any(|odd| odd.parameter == *parameter);
        for Spelled { raw, text } in values {
            if !is_odd && *parameter == "page" && &**text == "1" {
                continue;
            }
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(parameter);
            path.push('=');
            if is_odd && raw.is_ascii() {
                path.push_str(raw);
            } else {
                query::encode(text, &mut path);
            }
        }
    }
    path
}

/// The different values of each known parameter, in the order of the canonical query. `None`: there are too many, or one is
/// not UTF-8.
fn given(raw: &str) -> Option<Vec<Given>> {
    const ORDER: [&str; 7] = ["sport", "state", "city", "modified_since", "page", "per_page", "snapshot"];
    const { assert!(ORDER.len() == KNOWN.len()) };
    let mut given: Vec<Given> = ORDER.into_iter().map(|parameter| Given { parameter, values: Vec::new() }).collect();
    for (key, value) in query::pairs(raw) {
        let Some(Given { values, .. }) = given.iter_mut().find(|given| given.parameter == key) else { continue };
        let text: Box<str> = query::decode(value).ok()?.into();
        if values.iter().all(|known| known.text != text) {
            // Each is compared with those before.
            if values.len() == MOST_VALUES {
                return None;
            }
            values.push(Spelled { raw: value.into(), text });
        }
    }
    given.retain(|given| !given.values.is_empty());
    Some(given)
}

/// Puts a value into a query, unless it is odd.
pub(crate) fn put(query: &mut ListQuery, parameter: &'static str, value: &str) -> Result<(), How> {
    match parameter {
        "page" => query.page = number(value)?,
        "per_page" => {
            let size = u16::try_from(number(value)?).map_err(|_| How::Over)?;
            if size > ListQuery::MAX_PER_PAGE {
                return Err(How::Over);
            }
            query.per_page = size;
        }
        "modified_since" => match query::since(value) {
            Ok((since, true)) => query.modified_since = Some(since),
            // Perhaps another spelling of an instant.
            _ if value.bytes().any(|byte| byte.is_ascii_digit()) => {
                return Err(How::Spelled);
            }
            _ => return Err(How::Malformed),
        },
        _ => {
            if let Some(kind) = TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == parameter) {
                query.slugs[kind.index()] = Some(value.into());
            }
        }
    }
    Ok(())
}

/// Reads a number from 1 up; else says what is odd about it.
fn number(value: &str) -> Result<u64, How> {
    if let Ok(number) = query::whole_number("page", value) {
        return Ok(number);
    }
    let is_canonical = |text: &str| {
        (1..19).contains(&text.len()) && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    Err(match value {
        "0" => How::Zero,
        _ if value.strip_prefix('-').is_some_and(is_canonical) => How::Negative,
        _ if is_word(value) => How::Word,
        _ => How::Spelled,
    })
}

/// The longest value that the origin is asked about, in bytes.
const LONGEST: usize = 32;

/// So many different values of one parameter are read; with more, the query is refused as any that repeats one.
const MOST_VALUES: usize = 8;

/// Whether the origin may be asked about a value: nothing in it could become markup or another parameter.
pub(crate) fn is_askable(value: &str) -> bool {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b" +-.,:_".contains(&byte);
    value.len() <= LONGEST && value.bytes().all(may)
}

pub(crate) fn is_word(value: &str) -> bool {
    // Words that some languages read as numbers, or as nothing.
    const MEANT: [&str; 8] = ["nan", "inf", "infinity", "null", "nil", "none", "true", "false"];
    let is_meant = || MEANT.iter().any(|word| value.eq_ignore_ascii_case(word));
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_meant()
}

/// A slug without case, accents and white space around it; white space, `_` and `.` in it are `-`, as where a name is given
/// in the place of a slug.
pub(crate) fn folded(slug: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if slug.bytes().all(is_plain) {
        return Cow::Borrowed(slug);
    }
    let letters = slug.trim().chars().flat_map(char::to_lowercase).nfd().filter(|letter| !is_combining_mark(*letter));
    let is_gap = |letter: char| letter.is_whitespace() || matches!(letter, '_' | '.');
    Cow::Owned(letters.map(|letter| if is_gap(letter) { '-' } else { letter }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::Parameters;
    use proptest::prelude::*;

    #[test]
    fn a_parameter_with_many_values_is_refused_and_not_compared_with_each_other() {
        let query = |values: usize| (0..values).map(|n| format!("page=a{n}")).collect::<Vec<_>>().join("&");
        assert!(OddQuery::read(&query(MOST_VALUES)).is_some());
        assert!(OddQuery::read(&query(MOST_VALUES + 1)).is_none());
        assert!(Parameters::parse(&query(MOST_VALUES + 1)).is_err());
    }

    #[test]
    fn each_row_has_its_place_and_an_answer_of_the_table() {
        for (number, row) in Row::ALL.into_iter().enumerate() {
            assert!(row as usize == number && row.table().is_valid(), "{row:?}");
        }
    }

    #[test]
    fn each_odd_query_has_its_case() {
        for (raw, case, values) in [
            ("page=0", Some(Row::PageZero), vec!["0"]),
            ("page=-1&per_page=7", Some(Row::PageNegative), vec!["-1"]),
            ("page=x", Some(Row::PageWord), vec!["x"]),
            ("per_page=0", Some(Row::PerPageZero), vec!["0"]),
            ("per_page=101", Some(Row::PerPageOver), vec!["101"]),
            ("per_page=18446744073709551615", Some(Row::PerPageOver), vec!["18446744073709551615"]),
            ("per_page=x", Some(Row::PerPageWord), vec!["x"]),
            ("modified_since=yesterday", Some(Row::SinceMalformed), vec!["yesterday"]),
            ("page=1&page=2", Some(Row::RepeatedNumber), vec!["1", "2"]),
            ("sport=a&sport=b", Some(Row::RepeatedFilter), vec!["a", "b"]),
            ("page=", Some(Row::EmptyNumber), vec![]),
            ("city", Some(Row::EmptyFilter), vec![]),
            // What cannot be generalised has none.
            ("page=1.5", None, vec!["1.5"]),
            ("page=2x", None, vec!["2x"]),
            ("page=NaN", None, vec!["NaN"]),
            ("page=00", None, vec!["00"]),
            ("page=02", None, vec!["02"]),
            ("page=+2", None, vec![" 2"]),
            ("page=%2B2", None, vec!["+2"]),
            ("page=-02", None, vec!["-02"]),
            ("page=18446744073709551616", None, vec!["18446744073709551616"]),
            ("per_page=18446744073709551616", None, vec!["18446744073709551616"]),
            ("per_page=-1", Some(Row::PerPageNegative), vec!["-1"]),
            ("per_page=10.0", None, vec!["10.0"]),
            ("modified_since=20250601", None, vec!["20250601"]),
            ("modified_since=2025-W22-7", None, vec!["2025-W22-7"]),
            ("modified_since=2026-13-45", None, vec!["2026-13-45"]),
            ("modified_since=1748736000", None, vec!["1748736000"]),
            ("modified_since=-1", None, vec!["-1"]),
            ("modified_since=", Some(Row::EmptySince), vec![]),
            ("modified_since=2024-01-01&modified_since=2024-01-02", None, vec!["2024-01-01", "2024-01-02"]),
        ] {
            let asked = OddQuery::read(raw).unwrap_or_else(|| panic!("{raw}"));
            let [odd] = &asked.odds[..] else { panic!("{raw}: {asked:?}") };
            assert_eq!(odd.row(), case, "{raw}");
            assert_eq!(odd.values.iter().map(|value| &**value).collect::<Vec<_>>(), values, "{raw}");
        }
    }

    #[test]
    fn what_is_ordinary_is_not_odd_and_what_is_refused_anyway_neither() {
        for raw in
            ["", "page=2&per_page=100&state=texas&state=texas", "x=1&x=2", "snapshot=a", "page=%FF", "city=%ff&page=0"]
        {
            assert_eq!(OddQuery::read(raw), None, "{raw}");
        }
        assert_eq!(OddQuery::read("snapshot=a&snapshot=b&page=0"), None);
    }

    #[test]
    fn several_odd_parameters_are_counted_and_sent_in_one_order() {
        let asked = OddQuery::read("page=x&sport=&per_page=0&state=new%20york&snapshot=abc").unwrap();
        assert_eq!(asked.odds.len(), 3);
        assert_eq!(asked.path(&asked.odds), "/api/listings.json?sport=&state=new%20york&page=x&per_page=0");
        assert_eq!(asked.pin.as_deref(), Some("abc"));
        assert_eq!(asked.rest(20).slug(TaxonomyKind::States), Some("new york"));
        for (raw, per_page) in [("page=0&per_page=7", 7), ("page=0", 20), ("per_page=101", 20), ("per_page=", 20)] {
            assert_eq!(OddQuery::read(raw).unwrap().rest(20).per_page, per_page, "{raw}");
        }
        for raw in ["page=0&page=1", "page=1&page=2&page=3", "page=&page=2", "page=x&page=y"] {
            let count = OddQuery::read(raw).unwrap().odds.len();
            assert!(count > 1, "{raw}: {count}");
        }
    }

    #[test]
    fn an_odd_value_is_sent_in_the_bytes_of_the_client_and_all_others_in_their_canonical_form() {
        for (raw, sent) in [
            ("page=+2", "page=+2"),
            ("page=%202", "page=%202"),
            ("page=%2b2&utm=1", "page=%2b2"),
            ("page=2.0&state=te%78as&per_page=50", "state=texas&page=2.0&per_page=50"),
            ("page=02&page=02&state=new+york", "state=new%20york&page=02"),
            ("modified_since=20250601T000000%2B0200&page=1", "modified_since=20250601T000000%2B0200"),
        ] {
            let asked = OddQuery::read(raw).unwrap();
            assert_eq!(asked.path(&asked.odds), format!("/api/listings.json?{sent}"), "{raw}");
        }
        let odds = [Odd::of("city", How::Spelled, "austin ")];
        let path = OddQuery::path_of("city=austin+&state=te%78as", &odds).unwrap();
        assert_eq!(path, "/api/listings.json?state=texas&city=austin+");
    }

    proptest! {
        #[test]
        fn every_query_is_read_or_not_and_what_is_read_parses_as_it_did(raw in "[a-z_=&0-9%+.-]{0,60}") {
            if OddQuery::read(&raw).is_some() {
                let ordinary = Parameters::parse(&raw).is_ok_and(|parsed| !parsed.is_odd);
                prop_assert!(!ordinary, "{raw}");
            }
        }
    }

    #[test]
    fn slugs_that_differ_in_case_accents_or_white_space_fold_to_one() {
        for (slug, plain) in [
            ("golf", "golf"),
            ("Golf", "golf"),
            ("TEXAS", "texas"),
            ("austin ", "austin"),
            ("\u{a0}austin", "austin"),
            ("New York", "new-york"),
            ("São-Paulo", "sao-paulo"),
            ("sa\u{303}o-paulo", "sao-paulo"),
            ("CAÑON", "canon"),
        ] {
            assert_eq!(folded(slug), plain, "{slug}");
        }
        assert_eq!(folded("new_york"), folded("new york"));
        assert_ne!(folded("newyork"), folded("new york"));
    }

    #[test]
    fn only_values_that_cannot_become_markup_are_asked_about() {
        for value in ["2.0", "+2", " 2", "2abc", "02", "1_0", "Golf", "austin ", "12:30,5", ""] {
            assert!(is_askable(value), "{value}");
        }
        let long = "x".repeat(33);
        for value in ["<b>", "a/b", "a&b", "a=b", "\"", "a%", "a\n", "a\u{0}", "{", "café", "O'Fallon", "#", "?", &long]
        {
            assert!(!is_askable(value), "{value:?}");
        }
        assert!(is_askable(&long[1..]));
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing_more(slug in ".{0,40}") {
            let once = folded(&slug).into_owned();
            let twice = folded(&once).into_owned();
            prop_assert_eq!(twice.trim(), once.trim());
        }
    }
}
