//! Reads an odd query of the list: which parameters are odd, and what the others ask for.
//!
//! What only the data shows to be odd, an unknown slug or a page beyond the last, is found in
//! [`crate::snapshot::edges`]. Callers: [`crate::answer`] when the parser of queries says that a query is odd,
//! [`crate::audit`].

use super::case::Case;
use super::template;
use crate::api::query::{self, KNOWN, ListQuery, ModifiedSince};
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
    /// Path and query as they are sent to the origin: known parameters only, in one order.
    pub path: String,
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
    /// A whole number below 0.
    Negative,
    /// Letters, where a number should be.
    Word,
    /// A number beyond 64 bits.
    Huge,
    /// `per_page` above the maximum.
    Over,
    /// Anything else, where a number should be.
    NoNumber,
    /// An instant that cannot be read.
    Malformed,
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
            How::Word if is_page => Some(Case::PageWord),
            How::Word => Some(Case::PerPageWord),
            How::Huge if is_page => Some(Case::PageHuge),
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
            How::Negative | How::Huge | How::NoNumber | How::Repeated | How::Elsewhere | How::Several => None,
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

    /// Whether nothing in it could become markup.
    pub(crate) fn is_harmless(&self) -> bool {
        self.values.iter().all(|value| template::is_harmless(value))
    }
}

/// Reads a raw query of a list. `None`: it is ordinary, or it is refused whatever the origin does: values that are not
/// UTF-8, too long, or two snapshots.
pub(crate) fn read(raw: &str) -> Option<OddQuery> {
    let given = given(raw)?;
    let mut asked = OddQuery { rest: ListQuery::default(), odds: Vec::new(), pin: None, path: String::new() };
    asked.path.push_str("/api/listings.json");
    for (parameter, mut values) in given {
        if parameter == "snapshot" {
            values.retain(|value| !value.is_empty());
            asked.pin = values.pop().map(Into::into);
            if !values.is_empty() {
                return None;
            }
            continue;
        }
        for value in &values {
            asked.path.push(if asked.path.contains('?') { '&' } else { '?' });
            asked.path.push_str(parameter);
            asked.path.push('=');
            query::encode(value, &mut asked.path);
        }
        let full = values.iter().filter(|value| !value.is_empty()).count();
        if full < values.len() {
            asked.odds.push(Odd { parameter, how: How::Empty, values: Vec::new() });
            values.retain(|value| !value.is_empty());
        }
        match &values[..] {
            [] => {}
            [value] => {
                if let Err(how) = put(&mut asked.rest, parameter, value) {
                    asked.odds.push(Odd::of(parameter, how, value));
                }
            }
            [first, .., last] => {
                let mut scratch = asked.rest.clone();
                for value in &values {
                    if let Err(how) = put(&mut scratch, parameter, value) {
                        asked.odds.push(Odd::of(parameter, how, value));
                    }
                }
                if values.len() > 2 {
                    asked.odds.push(Odd { parameter, how: How::Empty, values: Vec::new() });
                }
                let values = vec![first.as_str().into(), last.as_str().into()];
                asked.odds.push(Odd { parameter, how: How::Repeated, values });
            }
        }
    }
    (!asked.odds.is_empty()).then_some(asked)
}

/// The different values of each known parameter, decoded, in the order of the canonical query.
fn given(raw: &str) -> Option<Vec<(&'static str, Vec<String>)>> {
    const ORDER: [&str; 7] = ["sport", "state", "city", "modified_since", "page", "per_page", "snapshot"];
    const { assert!(ORDER.len() == KNOWN.len()) };
    let mut given: Vec<(&'static str, Vec<String>)> = ORDER.into_iter().map(|name| (name, Vec::new())).collect();
    for pair in raw.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Ok(key) = query::decode(key) else { continue };
        let Some((_, values)) = given.iter_mut().find(|(name, _)| *name == key) else { continue };
        let value = query::decode(value).ok()?.into_owned();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    given.retain(|(_, values)| !values.is_empty());
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
        "modified_since" => query.modified_since = Some(since(value)?),
        _ => {
            if let Some(kind) = TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == parameter) {
                query.slugs[kind.index()] = Some(value.into());
            }
        }
    }
    Ok(())
}

fn since(value: &str) -> Result<ModifiedSince, How> {
    query::since(value).map_err(|_| How::Malformed)
}

/// Reads a number from 1 up; else says what is odd about it.
fn number(value: &str) -> Result<u64, How> {
    // Words that some languages read as numbers, or as nothing.
    const MEANT: [&str; 8] = ["nan", "inf", "infinity", "null", "nil", "none", "true", "false"];
    if let Ok(number) = query::whole_number("page", value) {
        return Ok(number);
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    Err(match value {
        "0" => How::Zero,
        _ if digits(value) && !value.starts_with('0') => How::Huge,
        _ if value.strip_prefix('-').is_some_and(|rest| digits(rest) && !rest.starts_with('0') && rest.len() < 19) => {
            How::Negative
        }
        _ if value.bytes().all(|byte| byte.is_ascii_alphabetic())
            && !MEANT.contains(&value.to_ascii_lowercase().as_str()) =>
        {
            How::Word
        }
        _ => How::NoNumber,
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
            ("page=18446744073709551616", Some(Case::PageHuge), vec!["18446744073709551616"]),
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
            ("per_page=-1", None, vec!["-1"]),
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
        assert_eq!(asked.path, "/api/listings.json?sport=&state=new%20york&page=x&per_page=0");
        assert_eq!(asked.pin.as_deref(), Some("abc"));
        assert_eq!(asked.rest.slug(TaxonomyKind::States), Some("new york"));
        for raw in ["page=0&page=1", "page=1&page=2&page=3", "page=&page=2", "page=x&page=y"] {
            let count = read(raw).unwrap().odds.len();
            assert_eq!(count > 1, raw != "page=&page=2", "{raw}: {count}");
        }
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
