//! List query: parsed once into the form that is its cache key.
//!
//! Callers: [`crate::edge::answer`] parses, [`crate::data::snapshot`] answers, [`crate::mirror`] asks the origin with it.

pub mod file;
pub mod finder;
pub mod search;

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::modified;
use super::taxonomy::TaxonomyKind;

/// Unescaped characters in a query value: the unreserved ones (RFC 3986 §2.3).
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Longest accepted query value, in bytes after decoding.
pub(crate) const MAX_VALUE: usize = 800;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModifiedSince {
    /// The decoded value as received, for the echo in the answer.
    pub text: Box<str>,
    /// The instant in nanoseconds since the epoch; only listings modified later pass.
    pub at: i64,
}

/// A list query in canonical form: equal queries have equal answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListQuery {
    /// From 1.
    pub page: u64,
    /// Listings on a page, from 1; more than 100 only where the origin allows more.
    pub per_page: u16,
    /// Slugs by [`TaxonomyKind::index`].
    pub slugs: [Option<Box<str>>; 3],
    /// Only listings modified after this.
    pub modified_since: Option<ModifiedSince>,
}

impl Default for ListQuery {
    fn default() -> Self {
        let per_page = Self::DEFAULT_PER_PAGE;
        Self { page: 1, per_page, slugs: [None, None, None], modified_since: None }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The list query; the default for endpoints that take none.
    pub list: ListQuery,
    pub snapshot: Option<Box<str>>,
    /// Whether a value is empty, `per_page` above the maximum, or `modified_since` spelled in an unusual way: the origin
    /// may treat it in another way.
    pub is_odd: bool,
    /// Whether `per_page` is given.
    pub has_size: bool,
    /// Whether a slug has an escape: then the same slug can be spelled in other bytes.
    pub has_escapes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("`{parameter}` is {value:?}; it must be {expected}")]
    BadValue {
        parameter: &'static str,
        /// The value, decoded.
        value: String,
        expected: &'static str,
    },
    #[error("`{parameter}` is given twice, as {first:?} and as {second:?}; give it once")]
    Repeated {
        parameter: &'static str,
        first: String,
        /// The second value.
        second: String,
    },
    /// A parameter that would have no effect.
    #[error("there is no parameter `{parameter}` here; known parameters: {known}")]
    Unknown { parameter: String, known: &'static str },
}

/// The parameters of endpoints of the API.
pub(crate) const KNOWN: [&str; 7] = ["page", "per_page", "sport", "state", "city", "modified_since", "snapshot"];

impl Parameters {
    /// Reads a raw query string. Unknown parameters are ignored; an empty value is as if absent.
    pub fn parse(raw: &str) -> Result<Self, QueryError> {
        if raw.is_empty() {
            return Ok(Self::default());
        }
        let (values, is_empty) = values(raw, &KNOWN)?;
        let [page, per_page, sport, state, city, modified_since, snapshot] = values;
        let has_escapes = [&sport, &state, &city].iter().any(|slug| matches!(slug, Some(Cow::Owned(_))));
        let has_size = per_page.is_some();
        let (list, is_odd) = list_of([page, per_page, sport, state, city, modified_since])?;
        Ok(Self { list, snapshot: boxed(snapshot), is_odd: is_odd || is_empty, has_size, has_escapes })
    }
}

type Boxed = Option<Box<str>>;

fn boxed(value: Option<Cow<'_, str>>) -> Boxed {
    value.map(|value| value.into_owned().into_boxed_str())
}

/// The list query of these values, in the order of [`KNOWN`], and whether the origin may treat one of them in another way.
fn list_of(values: [Option<Cow<'_, str>>; 6]) -> Result<(ListQuery, bool), QueryError> {
    let [page, per_page, sport, state, city, modified_since] = values;
    let since = modified_since.map(|value| since(&value)).transpose()?;
    let mut is_odd = since.as_ref().is_some_and(|(_, is_usual)| !is_usual);
    let list = ListQuery {
        page: page.map_or(Ok(1), |value| whole_number("page", &value))?,
        per_page: per_page.map_or(Ok(ListQuery::DEFAULT_PER_PAGE), |value| {
            let size = whole_number("per_page", &value)?;
            is_odd |= size > u64::from(ListQuery::MAX_PER_PAGE);
            Ok(u16::try_from(size).map_or(ListQuery::MAX_PER_PAGE, |size| size.min(ListQuery::MAX_PER_PAGE)))
        })?,
        slugs: [boxed(sport), boxed(state), boxed(city)],
        modified_since: since.map(|(since, _)| since),
    };
    Ok((list, is_odd))
}

/// Reads `snapshot` of an index from a raw query string, which has no other parameter; `None`: absent.
pub(crate) fn snapshot(raw: &str) -> Result<Option<Box<str>>, QueryError> {
    let ([snapshot], _) = values(raw, &["snapshot"])?;
    Ok(boxed(snapshot))
}

/// The parameters of `/changes.json` and `/changes.ndjson`.
pub(crate) const KNOWN_OF_CHANGES: [&str; 1] = ["since"];

/// Reads `since` from a raw query string; `None`: absent.
pub(crate) fn changes_since(raw: &str) -> Result<Option<Box<str>>, QueryError> {
    let ([since], _) = values(raw, &KNOWN_OF_CHANGES)?;
    Ok(boxed(since))
}

/// The values of known parameters, as from [`values`]. A client that saves a file, or gets fewer results than exist,
/// does not see that a parameter had no effect, so others are refused. `named`: the known ones.
fn known_only<'a, const N: usize>(
    raw: &'a str,
    known: &[&'static str; N],
    named: &'static str,
) -> Result<[Option<Cow<'a, str>>; N], QueryError> {
    let names = raw.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    for name in names.filter(|name| !name.is_empty()) {
        let name = decode(name).unwrap_or_else(Into::into);
        if !known.contains(&&*name) {
            return Err(QueryError::Unknown { parameter: name.into_owned(), known: named });
        }
    }
    Ok(values(raw, known)?.0)
}

/// Values by parameter, and whether one of them is empty.
type Values<'a, const N: usize> = ([Option<Cow<'a, str>>; N], bool);

/// The values of known parameters, decoded, and whether one of them is empty: it counts as absent. Unknown parameters are
/// ignored.
fn values<'a, const N: usize>(raw: &'a str, known: &[&'static str; N]) -> Result<Values<'a, N>, QueryError> {
    let (mut values, mut is_odd) = ([const { None }; N], false);
    for (key, value) in pairs(raw) {
        let Some(index) = known.iter().position(|known| *known == key) else { continue };
        let parameter = known[index];
        let value = decode(value).map_err(|lossy| QueryError::BadValue {
            parameter,
            value: lossy,
            expected: "UTF-8 of at most 800 bytes",
        })?;
        if value.is_empty() {
            is_odd = true;
            continue;
        }
        match &values[index] {
            Some(first) if *first != value => {
                let (first, second) = (Cow::to_string(first), value.into_owned());
                return Err(QueryError::Repeated { parameter, first, second });
            }
            _ => values[index] = Some(value),
        }
    }
    Ok((values, is_odd))
}

impl ListQuery {
    pub const DEFAULT_PER_PAGE: u16 = 50;
    /// The largest page size; larger ones are clamped to it.
    pub const MAX_PER_PAGE: u16 = 100;

    pub fn slug(&self, kind: TaxonomyKind) -> Option<&str> {
        self.slugs[kind.index()].as_deref()
    }

    pub fn is_filtered(&self) -> bool {
        self.modified_since.is_some() || self.has_terms()
    }

    pub(crate) fn has_terms(&self) -> bool {
        self.slugs.iter().any(Option::is_some)
    }

    /// That of a path with a query; `None`: it has none, or an odd one.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        Some(Parameters::parse(path.split_once('?')?.1).ok()?.list)
    }

    /// What it weighs as a key, in bytes, about.
    pub fn weight(&self) -> usize {
        self.filters().map(|(_, value)| value.len()).sum::<usize>() + 96
    }

    pub fn total_pages(&self, total: u64) -> u64 {
        total.div_ceil(u64::from(self.per_page))
    }

    pub fn largest_pages() -> Self {
        Self { per_page: Self::MAX_PER_PAGE, ..Self::default() }
    }

    #[must_use]
    pub fn with_term(mut self, kind: TaxonomyKind, slug: &str) -> Self {
        self.slugs[kind.index()] = Some(slug.into());
        self
    }

    /// The same query where pages have at most `largest` listings; `None`: as many as documented.
    #[must_use]
    pub fn within(self, largest: Option<u16>) -> Self {
        Self { per_page: self.per_page.min(largest.unwrap_or(u16::MAX)), ..self }
    }

    #[must_use]
    pub fn with_page(&self, page: u64) -> Self {
        Self { page, ..self.clone() }
    }

    /// The applied filters by parameter name, in the documented order.
    pub fn filters(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let slugs = TaxonomyKind::ALL.into_iter().filter_map(|kind| Some((kind.parameter(), self.slug(kind)?)));
        let since = self.modified_since.as_ref().map(|since| ("modified_since", &*since.text));
        slugs.chain(since)
    }

    /// `/api/listings.json` with the canonical query: filters in the documented order, then page and page size if they
    /// are not the defaults.
    pub fn path_and_query(&self) -> String {
        let mut text = String::with_capacity(64);
        self.write(self.page, &mut text);
        text
    }

    /// Appends [`ListQuery::path_and_query`] of another page of the same query; returns the separator before a further
    /// parameter.
    pub fn write(&self, page: u64, out: &mut String) -> char {
        path_and_query("/api/listings.json", self.filters(), page, self.per_page, out)
    }
}

/// Appends a path with its query: filters, then page and page size if they are not the defaults. Returns the separator
/// before a further parameter.
fn path_and_query<'a>(
    path: &str,
    filters: impl Iterator<Item = (&'static str, &'a str)>,
    page: u64,
    per_page: u16,
    out: &mut String,
) -> char {
    out.push_str(path);
    let mut separator = '?';
    let mut name = |name: &str, out: &mut String| {
        out.push(std::mem::replace(&mut separator, '&'));
        out.push_str(name);
        out.push('=');
    };
    for (parameter, value) in filters {
        name(parameter, out);
        encode(value, out);
    }
    if page != 1 {
        name("page", out);
        out.push_str(itoa::Buffer::new().format(page));
    }
    if per_page != ListQuery::DEFAULT_PER_PAGE {
        name("per_page", out);
        out.push_str(itoa::Buffer::new().format(per_page));
    }
    separator
}

/// Appends a value for a query string, percent-encoded.
pub(crate) fn encode(value: &str, out: &mut String) {
    if value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        out.push_str(value);
    } else {
        out.extend(utf8_percent_encode(value, VALUE));
    }
}

/// The parameters of a raw query string: names decoded, values as they came.
pub(super) fn pairs(raw: &str) -> impl Iterator<Item = (Cow<'_, str>, &str)> {
    let pairs = raw.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter_map(|(key, value)| Some((decode(key).ok()?, value)))
}

/// Decodes one form-encoded key or value; else, if it is not UTF-8 or too long, the start of the lossy text.
pub(crate) fn decode(raw: &str) -> Result<Cow<'_, str>, String> {
    let bounded = |text: Cow<'_, str>| text.chars().take(64).collect();
    if raw.len() > 3 * MAX_VALUE || !raw.contains(['+', '%']) {
        return if raw.len() > MAX_VALUE { Err(bounded(raw.into())) } else { Ok(raw.into()) };
    }
    let bytes = percent_encoding::percent_decode_str(&raw.replace('+', " ")).collect();
    match String::from_utf8(bytes) {
        Ok(text) if text.len() <= MAX_VALUE => Ok(Cow::Owned(text)),
        Ok(text) => Err(bounded(text.into())),
        Err(error) => Err(String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

pub(super) fn whole_number(parameter: &'static str, value: &str) -> Result<u64, QueryError> {
    let is_canonical = !value.starts_with('0') && value.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_canonical { value.parse().ok() } else { None };
    number.ok_or_else(|| QueryError::BadValue {
        parameter,
        value: value.to_owned(),
        expected: "a whole number from 1 up, with at most 64 bits",
    })
}

/// Reads an instant, and says whether it is spelled as usual.
pub(super) fn since(value: &str) -> Result<(ModifiedSince, bool), QueryError> {
    let usual = modified::parse_rfc3339(value).ok();
    let at = usual.map_or_else(|| modified::parse_iso8601(value), Ok).map_err(|_| QueryError::BadValue {
        parameter: "modified_since",
        value: value.to_owned(),
        expected: "an ISO 8601 date or timestamp such as 2026-01-31 or 2026-01-31T12:00:00Z",
    })?;
    Ok((ModifiedSince { text: value.into(), at }, usual.is_some()))
}

#[cfg(test)]
mod tests;
