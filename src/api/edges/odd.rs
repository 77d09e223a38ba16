//! Reads an odd query of the list: which parameters are odd, and what the others ask for.
//!
//! A lesson holds for the class of values that its probes came from. [`How`] names the classes; any other value that is
//! not valid is [`How::Spelled`]: only the origin knows what it means. What only the data shows to be odd, an unknown
//! slug or a page beyond the last, is found in [`crate::snapshot::edges`]. Callers: [`crate::answer`] when the parser of
//! queries says that a query is odd, [`crate::audit`].

use super::case::Case;
use super::spelling;
use crate::api::query::{self, KNOWN, ListQuery};
use crate::api::taxonomy::TaxonomyKind;

/// An odd query of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OddQuery {
    /// The query without its odd parameters.
    pub rest: ListQuery,
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

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spelled {
    /// The client's bytes.
    raw: Box<str>,
    /// Decoded.
    text: Box<str>,
}

/// An odd parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Odd {
    /// The parameter.
    pub parameter: &'static str,
    /// What is odd about it.
    pub how: How,
    /// Its values: one, two if it is repeated, the parts of a list with commas, none if it is empty.
    pub values: Vec<Box<str>>,
}

/// What is odd about a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `0`.
    Zero,
    /// `-` and a canonical decimal of at most 18 digits.
    Negative,
    /// Letters, where a number should be.
    Word,
    /// `per_page` above the maximum.
    Over,
    /// No instant, and it does not begin with a digit.
    Malformed,
    /// A value of no class: another spelling of a number, of an instant or of a known slug.
    Spelled,
    /// An instant in the future.
    Future,
    /// A slug that no term has.
    Unknown,
    /// `page` beyond the last.
    Beyond,
    /// A city outside the state beside it.
    Elsewhere,
    /// Slugs with commas between them, all together the slug of no term.
    Several,
    /// Given twice, with different values.
    Repeated,
    /// Without a value.
    Empty,
}

impl Odd {
    /// With one value.
    pub(crate) fn of(parameter: &'static str, how: How, value: &str) -> Self {
        Self { parameter, how, values: vec![value.into()] }
    }

    /// Its case; `None`: it belongs to none that is probed.
    pub(crate) fn case(&self) -> Option<Case> {
        let is_page = self.parameter == "page";
        let is_number = is_page || self.parameter == "per_page";
        let is_slug = TaxonomyKind::ALL.iter().any(|kind| kind.parameter() == self.parameter);
        match self.how {
            How::Zero if is_page => Some(Case::PageZero),
            How::Zero => Some(Case::PerPageZero),
            How::Negative if is_page => Some(Case::PageNegative),
            How::Negative => Some(Case::PerPageNegative),
            How::Word if is_page => Some(Case::PageWord),
            How::Word => Some(Case::PerPageWord),
            How::Over => Some(Case::PerPageOver),
            How::Malformed => Some(Case::SinceMalformed),
            How::Future => Some(Case::SinceFuture),
            How::Beyond => Some(Case::PageBeyond),
            How::Unknown => match self.parameter {
                "sport" => Some(Case::UnknownSport),
                "state" => Some(Case::UnknownState),
                _ => Some(Case::UnknownCity),
            },
            How::Repeated if is_number => Some(Case::RepeatedNumber),
            How::Repeated if is_slug => Some(Case::RepeatedFilter),
            How::Empty if is_number => Some(Case::EmptyNumber),
            How::Empty if is_slug => Some(Case::EmptyFilter),
            How::Empty => Some(Case::EmptySince),
            How::Spelled | How::Repeated | How::Elsewhere | How::Several => None,
        }
    }

    /// What a body may repeat: the values, and the parameter where a case has several.
    pub(crate) fn told(&self) -> Vec<&str> {
        let values = self.values.iter().map(|value| &**value);
        // `0` stands in too many places to be taken for the value that was asked for, and it is always the same.
        let values = values.filter(|_| self.how != How::Zero);
        let parameter = matches!(self.how, How::Repeated | How::Empty).then_some(self.parameter);
        values.chain(parameter).collect()
    }

    /// Whether the origin may be asked about it.
    pub(crate) fn is_askable(&self) -> bool {
        self.values.iter().all(|value| spelling::is_askable(value))
    }
}

impl OddQuery {
    /// Path and query as they are sent to the origin: known parameters only, in one order. The values of these odd
    /// parameters have the client's bytes, since only the origin knows what these mean.
    pub(crate) fn path(&self, odds: &[Odd]) -> String {
        path(&self.given, odds)
    }
}

/// The same of a raw query that the parser does not call odd.
pub(crate) fn path_of(raw: &str, odds: &[Odd]) -> Option<String> {
    Some(path(&given(raw)?, odds))
}

fn path(given: &[Given], odds: &[Odd]) -> String {
    let mut path = String::from("/api/listings.json");
    for Given { parameter, values } in given.iter().filter(|given| given.parameter != "snapshot") {
        let is_odd = odds.iter().any(|odd| odd.parameter == *parameter);
        for Spelled { raw, text } in values {
            if !is_odd && matches!((*parameter, &**text), ("page", "1") | ("per_page", "50")) {
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

/// Reads a raw query of a list. `None`: it is ordinary, or it is refused whatever the origin does: values that are not
/// UTF-8, too long, or two snapshots.
pub(crate) fn read(raw: &str) -> Option<OddQuery> {
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
                if let Err(how) = put(&mut rest, parameter, value) {
                    odds.push(Odd::of(parameter, how, value));
                }
            }
            [first, .., last] => {
                let mut scratch = rest.clone();
                for value in &full {
                    if let Err(how) = put(&mut scratch, parameter, value) {
                        odds.push(Odd::of(parameter, how, value));
                    }
                }
                if full.len() > 2 {
                    odds.push(Odd { parameter, how: How::Empty, values: Vec::new() });
                }
                odds.push(Odd { parameter, how: How::Repeated, values: vec![first.into(), last.into()] });
            }
        }
    }
    (!odds.is_empty()).then_some(OddQuery { rest, odds, pin, given })
}

/// The different values of each known parameter, in the order of the canonical query.
fn given(raw: &str) -> Option<Vec<Given>> {
    const ORDER: [&str; 7] = ["sport", "state", "city", "modified_since", "page", "per_page", "snapshot"];
    const { assert!(ORDER.len() == KNOWN.len()) };
    let mut given: Vec<Given> = ORDER.into_iter().map(|parameter| Given { parameter, values: Vec::new() }).collect();
    for pair in raw.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Ok(key) = query::decode(key) else { continue };
        let Some(Given { values, .. }) = given.iter_mut().find(|given| given.parameter == key) else { continue };
        let text: Box<str> = query::decode(value).ok()?.into();
        if values.iter().all(|known| known.text != text) {
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
            // A sign or white space in front of a number says nothing about words.
            _ if value.trim_start_matches([' ', '+', '-']).starts_with(|first: char| first.is_ascii_digit()) => {
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
        _ if spelling::is_word(value) => How::Word,
        _ => How::Spelled,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::Parameters;
    use proptest::prelude::*;

    #[test]
    fn each_odd_query_has_its_case() {
        for (raw, case, values) in [
            ("page=0", Some(Case::PageZero), vec!["0"]),
            ("page=-1&per_page=7", Some(Case::PageNegative), vec!["-1"]),
            ("page=x", Some(Case::PageWord), vec!["x"]),
            ("per_page=0", Some(Case::PerPageZero), vec!["0"]),
            ("per_page=101", Some(Case::PerPageOver), vec!["101"]),
            ("per_page=18446744073709551615", Some(Case::PerPageOver), vec!["18446744073709551615"]),
            ("per_page=x", Some(Case::PerPageWord), vec!["x"]),
            ("modified_since=yesterday", Some(Case::SinceMalformed), vec!["yesterday"]),
            ("page=1&page=2", Some(Case::RepeatedNumber), vec!["1", "2"]),
            ("sport=a&sport=b", Some(Case::RepeatedFilter), vec!["a", "b"]),
            ("page=", Some(Case::EmptyNumber), vec![]),
            ("city", Some(Case::EmptyFilter), vec![]),
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
            ("per_page=-1", Some(Case::PerPageNegative), vec!["-1"]),
            ("per_page=10.0", None, vec!["10.0"]),
            ("modified_since=20250601", None, vec!["20250601"]),
            ("modified_since=2025-W22-7", None, vec!["2025-W22-7"]),
            ("modified_since=2026-13-45", None, vec!["2026-13-45"]),
            ("modified_since=1748736000", None, vec!["1748736000"]),
            ("modified_since=-1", None, vec!["-1"]),
            ("modified_since=", Some(Case::EmptySince), vec![]),
            ("modified_since=2024-01-01&modified_since=2024-01-02", None, vec!["2024-01-01", "2024-01-02"]),
        ] {
            let asked = read(raw).unwrap_or_else(|| panic!("{raw}"));
            let [odd] = &asked.odds[..] else { panic!("{raw}: {asked:?}") };
            assert_eq!(odd.case(), case, "{raw}");
            assert_eq!(odd.values.iter().map(|value| &**value).collect::<Vec<_>>(), values, "{raw}");
        }
    }

    #[test]
    fn what_is_ordinary_is_not_odd_and_what_is_refused_anyway_neither() {
        for raw in
            ["", "page=2&per_page=100&state=texas&state=texas", "x=1&x=2", "snapshot=a", "page=%FF", "city=%ff&page=0"]
        {
            assert_eq!(read(raw), None, "{raw}");
        }
        assert_eq!(read("snapshot=a&snapshot=b&page=0"), None);
    }

    #[test]
    fn several_odd_parameters_are_counted_and_sent_in_one_order() {
        let asked = read("page=x&sport=&per_page=0&state=new%20york&snapshot=abc").unwrap();
        assert_eq!(asked.odds.len(), 3);
        assert_eq!(asked.path(&asked.odds), "/api/listings.json?sport=&state=new%20york&page=x&per_page=0");
        assert_eq!(asked.pin.as_deref(), Some("abc"));
        assert_eq!(asked.rest.slug(TaxonomyKind::States), Some("new york"));
        for raw in ["page=0&page=1", "page=1&page=2&page=3", "page=&page=2", "page=x&page=y"] {
            let count = read(raw).unwrap().odds.len();
            assert_eq!(count > 1, raw != "page=&page=2", "{raw}: {count}");
        }
    }

    #[test]
    fn an_odd_value_is_sent_in_the_bytes_of_the_client_and_all_others_in_their_canonical_form() {
        for (raw, sent) in [
            ("page=+2", "page=+2"),
            ("page=%202", "page=%202"),
            ("page=%2b2&utm=1", "page=%2b2"),
            ("page=2.0&state=te%78as&per_page=50", "state=texas&page=2.0"),
            ("page=02&page=02&state=new+york", "state=new%20york&page=02"),
            ("modified_since=20250601T000000%2B0200&page=1", "modified_since=20250601T000000%2B0200"),
        ] {
            let asked = read(raw).unwrap();
            assert_eq!(asked.path(&asked.odds), format!("/api/listings.json?{sent}"), "{raw}");
        }
        let odds = [Odd::of("city", How::Spelled, "austin ")];
        let path = path_of("city=austin+&state=te%78as", &odds).unwrap();
        assert_eq!(path, "/api/listings.json?state=texas&city=austin+");
    }

    proptest! {
        #[test]
        fn every_query_is_read_or_not_and_what_is_read_parses_as_it_did(raw in "[a-z_=&0-9%+.-]{0,60}") {
            if read(&raw).is_some() {
                let ordinary = Parameters::parse(&raw).is_ok_and(|parsed| !parsed.is_odd);
                prop_assert!(!ordinary, "{raw}");
            }
        }
    }
}
