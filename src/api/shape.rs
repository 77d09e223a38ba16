//! Shape of a request: of a list query the set of its filters and the form of its `modified_since`; of an open case its
//! row. What requests of one shape mean at the origin is found out by examples.
//!
//! Callers: [`crate::data::snapshot::verdicts`] keeps a verdict for each, `mirror::examiner` asks.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::modified;
use super::odd::Row;
use super::query::{ListQuery, ModifiedSince};
use super::taxonomy::TaxonomyKind;

/// The set of filters of a query: a bit for each taxonomy, then the form of `modified_since`. 0 has no filter. From 32
/// on: the rows of open cases.
///
/// A new filter needs a bit here, or the examiner does not see it, and queries with it are answered unproved: the compiler
/// does not ask. `data::snapshot::verdicts` keeps two bits for each shape in a mask of 64, which is full: a new filter needs
/// a wider one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Shape(u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    /// `2026-01-31`
    Date,
    /// With `Z` or an offset.
    Zoned,
    /// A time without offset.
    Local,
}

impl Form {
    const ALL: [Self; 3] = [Self::Date, Self::Zoned, Self::Local];

    pub(crate) fn of(text: &str) -> Self {
        // The date has hyphens, too. A space after the time is the `+` of an offset.
        match text.trim().split_once(['T', 't', ' ']) {
            None => Self::Date,
            Some((_, time)) if time.contains(['Z', 'z', '+', '-', ' ']) => Self::Zoned,
            Some(_) => Self::Local,
        }
    }

    /// An instant in nanoseconds since 1970; `None`: it has parts that are not written.
    fn write(self, at: i64) -> Option<String> {
        let format = match self {
            Self::Date => "%Y-%m-%d",
            Self::Zoned => "%Y-%m-%dT%H:%M:%SZ",
            Self::Local => "%Y-%m-%dT%H:%M:%S",
        };
        let text = Timestamp::from_nanosecond(at.into()).ok()?.strftime(format).to_string();
        (modified::parse_rfc3339(&text).ok() == Some(at)).then_some(text)
    }

    /// A client's time in the usual spelling of its form: an origin that refuses other spellings means nothing else by this
    /// one. `None`: it has parts that are not written, or is from before 1970.
    pub(crate) fn respelled(since: &ModifiedSince) -> Option<ModifiedSince> {
        let text = Self::of(&since.text).write(since.at).filter(|_| since.at >= 0)?;
        Some(ModifiedSince { text: text.into(), at: since.at })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Date => "modified_since(date)",
            Self::Zoned => "modified_since(zoned)",
            Self::Local => "modified_since(local)",
        }
    }
}

impl Shape {
    /// Where the form begins.
    const FORM: u8 = 3;
    /// How many sets of filters there are, with the one without.
    const COUNT: u8 = 32;

    pub(crate) const LIST: Self = Self(0);

    /// Every set of filters, those with few filters first.
    pub(crate) fn of_lists() -> Vec<Self> {
        let mut all: Vec<Self> = (1..Self::COUNT).map(Self).collect();
        all.sort_by_key(|shape| shape.filters());
        all
    }

    /// Every shape but that of the list: sets of filters, then rows.
    pub(crate) fn all() -> Vec<Self> {
        Self::of_lists().into_iter().chain(Row::ALL.map(Self::of_row)).collect()
    }

    pub(crate) const fn of_row(row: Row) -> Self {
        Self(Self::COUNT + row as u8)
    }

    /// `None`: it is a set of filters.
    pub(crate) fn row(self) -> Option<Row> {
        Row::ALL.get(usize::from(self.0.checked_sub(Self::COUNT)?)).copied()
    }

    pub(crate) fn of(query: &ListQuery) -> Self {
        let slugs = TaxonomyKind::ALL.map(|kind| u8::from(query.slug(kind).is_some()) << kind.index());
        let form = query.modified_since.as_ref().map_or(0, |since| Form::of(&since.text) as u8 + 1);
        Self(slugs.iter().sum::<u8>() | form << Self::FORM)
    }

    /// The bit of a set of filters; a row has none.
    pub(crate) const fn bit(self) -> u32 {
        if self.0 < Self::COUNT { 1 << self.0 } else { 0 }
    }

    pub(crate) const fn has(self, kind: TaxonomyKind) -> bool {
        self.0 < Self::COUNT && self.0 & (1 << kind.index()) != 0
    }

    /// `None`: without `modified_since`.
    pub(crate) fn form(self) -> Option<Form> {
        Form::ALL.get(usize::from(self.0 >> Self::FORM).checked_sub(1)?).copied()
    }

    /// How many filters it has; more than any other for a row.
    pub(crate) fn filters(self) -> u32 {
        if self.row().is_some() {
            return u32::MAX;
        }
        TaxonomyKind::ALL.iter().map(|kind| u32::from(self.has(*kind))).sum::<u32>() + u32::from(self.form().is_some())
    }

    /// Its name: `sport+modified_since(date)`, or that of a row.
    pub(crate) fn name(self) -> String {
        if self == Self::LIST {
            return "list".to_owned();
        }
        if let Some(row) = self.row() {
            return row.as_str().to_owned();
        }
        let slugs = TaxonomyKind::ALL.into_iter().filter(|kind| self.has(*kind)).map(TaxonomyKind::parameter);
        slugs.chain(self.form().map(Form::name)).collect::<Vec<_>>().join("+")
    }

    /// The taxonomy of its only filter; `None`: it has others, or none.
    pub(crate) fn only_taxonomy(self) -> Option<TaxonomyKind> {
        let kind = TaxonomyKind::ALL.into_iter().find(|kind| self.has(*kind));
        kind.filter(|_| self.filters() == 1)
    }

    pub(crate) const fn without(self, kind: TaxonomyKind) -> Self {
        Self(self.0 & !(1 << kind.index()))
    }

    /// What a query is in this shape: with its filters alone, and the same time in its form. `None`: it has not all of
    /// them, or that form cannot say the time.
    pub(crate) fn of_query(self, query: &ListQuery) -> Option<ListQuery> {
        let mut query = query.clone();
        for kind in TaxonomyKind::ALL.into_iter().filter(|kind| !self.has(*kind)) {
            query.slugs[kind.index()] = None;
        }
        let since = query.modified_since.take();
        if let Some(form) = self.form() {
            let since = since?;
            let text = if Form::of(&since.text) == form { since.text } else { form.write(since.at)?.into() };
            query.modified_since = Some(ModifiedSince { text, at: since.at });
        }
        (Self::of(&query) == self).then_some(query)
    }

    /// The shapes with the same terms and another form of the time.
    pub(crate) fn siblings(self) -> impl Iterator<Item = Self> {
        let is_sibling = move |other: &Self| {
            let is_alike = TaxonomyKind::ALL.iter().all(|kind| self.has(*kind) == other.has(*kind));
            is_alike && *other != self && self.form().is_some() && other.form().is_some()
        };
        (1..Self::COUNT).map(Self).filter(move |other| self.row().is_none() && is_sibling(other))
    }

    /// The shapes with some of its filters, but not all.
    pub(crate) fn parts(self) -> impl Iterator<Item = Self> {
        let is_part = move |part: &Self| {
            let form = part.form().is_none() || part.form() == self.form();
            form && *part != self && TaxonomyKind::ALL.iter().all(|kind| self.has(*kind) || !part.has(*kind))
        };
        (1..Self::COUNT).map(Self).filter(move |part| self.row().is_none() && is_part(part))
    }
}

impl From<Shape> for String {
    fn from(shape: Shape) -> Self {
        shape.name()
    }
}

/// A value of a filter: `sport=golf`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct TermName {
    pub kind: TaxonomyKind,
    pub slug: Box<str>,
}

impl TermName {
    pub(crate) fn all_of(query: &ListQuery) -> impl Iterator<Item = Self> {
        let of = |kind: TaxonomyKind| query.slug(kind).map(|slug| Self { kind, slug: slug.into() });
        TaxonomyKind::ALL.into_iter().filter_map(of)
    }
}

impl fmt::Display for TermName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind.parameter(), self.slug)
    }
}

impl From<TermName> for String {
    fn from(term: TermName) -> Self {
        term.to_string()
    }
}

impl TryFrom<String> for TermName {
    type Error = UnknownShape;

    fn try_from(name: String) -> Result<Self, UnknownShape> {
        let (parameter, slug) = name.split_once('=').unwrap_or_default();
        let kind = TaxonomyKind::ALL.into_iter().find(|kind| kind.parameter() == parameter);
        let term = kind.map(|kind| Self { kind, slug: slug.into() });
        term.ok_or(UnknownShape(name))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no shape of a request, and no value of a filter")]
pub struct UnknownShape(String);

impl TryFrom<String> for Shape {
    type Error = UnknownShape;

    fn try_from(name: String) -> Result<Self, UnknownShape> {
        let mut all = Self::all().into_iter().chain([Self::LIST]);
        all.find(|shape| shape.name() == name).ok_or(UnknownShape(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::Parameters;

    fn shape(raw: &str) -> Shape {
        Shape::of(&Parameters::parse(raw).unwrap().list)
    }

    #[test]
    fn a_shape_is_its_filters_and_the_form_of_its_time() {
        for (raw, name, parts) in [
            ("page=3", "list", 0),
            ("sport=golf&page=2&per_page=7", "sport", 0),
            ("city=miami&state=florida", "state+city", 2),
            ("modified_since=2026-01-31", "modified_since(date)", 0),
            ("modified_since=2026-01-31T12:00:00Z&sport=golf", "sport+modified_since(zoned)", 2),
            ("modified_since=2026-01-31T12:00:00%2B01:00", "modified_since(zoned)", 0),
            ("modified_since=2026-01-31T12:00:00+01:00", "modified_since(zoned)", 0),
            ("modified_since=2026-01-31t12:00:00z", "modified_since(zoned)", 0),
            ("modified_since=2026-01-31T12:00:00", "modified_since(local)", 0),
            ("sport=a&state=b&city=c&modified_since=2026-01-31", "sport+state+city+modified_since(date)", 14),
        ] {
            let shape = shape(raw);
            assert_eq!((shape.name().as_str(), shape.parts().count()), (name, parts), "{raw}");
            assert_eq!(Shape::try_from(shape.name()).ok(), Some(shape));
        }
        let all = Shape::all();
        assert_eq!(
            (all.len(), all.iter().fold(0, |bits, shape| bits | shape.bit())),
            (31 + Row::ALL.len(), u32::MAX - 1)
        );
        assert!(all.iter().all(|shape| Shape::try_from(shape.name()).ok() == Some(*shape)));
        assert!(all.is_sorted_by_key(|shape| shape.filters()));
    }
}
