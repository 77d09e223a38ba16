//! The origin's order: a rule of at most two fields that explains a list, and the places where a listing would obey it.
//!
//! The rule is a guess, because several may explain a list. The mirror reads the pages on which it places listings. If
//! they disagree, it reads every page, and the new list no longer fits the wrong rule. Pure. Callers: [`super::pass`].

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::RangeInclusive;

use crate::api::json::{self, Field};
use crate::api::listing::Summary;
use crate::api::modified;

/// Summary fields that a rule can use.
const MOST_FIELDS: usize = 24;

/// A rule is learned from about so many listings, spread over the list.
const SAMPLE: usize = 10_000;

/// A value of a field. Kinds have an order, too.
#[derive(Debug, PartialEq, PartialOrd)]
enum Value<'a> {
    /// `null`, absent, or not comparable.
    Missing,
    Number(f64),
    Instant(i64),
    Text(Cow<'a, str>),
}

/// How texts of one field are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collation {
    /// By code point.
    Plain,
    /// Without regard to case.
    Folded,
    Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SortKey {
    field: String,
    collation: Collation,
    falling: bool,
}

impl SortKey {
    fn value<'a>(&self, fields: &[Field<'a>]) -> Value<'a> {
        let Some(found) = fields.iter().find(|field| field.key == self.field) else { return Value::Missing };
        match (json::string(found.value), self.collation) {
            (Some(text), Collation::Plain) => Value::Text(text),
            (Some(text), Collation::Folded) => Value::Text(text.to_lowercase().into()),
            (Some(text), Collation::Instant) => modified::parse_iso8601(&text).map_or(Value::Missing, Value::Instant),
            (None, _) => match found.value.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Number(number),
                _ => Value::Missing,
            },
        }
    }

    fn compare(&self, one: &[Field<'_>], other: &[Field<'_>]) -> Ordering {
        let order = self.value(one).partial_cmp(&self.value(other)).unwrap_or(Ordering::Equal);
        if self.falling { order.reverse() } else { order }
    }
}

/// An order: by the first field, among equals by the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule(Vec<SortKey>);

impl Rule {
    /// The rule that a list obeys: of one field without ties, else of two without ties, else of the field with the
    /// fewest ties. `id` and `modified` go before other fields. `None`: no field orders the list.
    pub(super) fn learn(list: &[Summary]) -> Option<Self> {
        let sample: Vec<_> = list.iter().step_by(list.len() / SAMPLE + 1).map(fields).collect();
        let pairs = || sample.windows(2);
        let obeys = |rule: &Self, is: fn(Ordering) -> bool| pairs().all(|pair| is(rule.compare(&pair[0], &pair[1])));
        let ties = |rule: &Self| pairs().filter(|pair| rule.compare(&pair[0], &pair[1]).is_eq()).count();
        let keys = keys(sample.first()?);
        let one_field = keys.iter().map(|key| Self(vec![key.clone()])).filter(|rule| obeys(rule, Ordering::is_le));
        let counted = one_field.map(|rule| (ties(&rule), rule)).filter(|(ties, _)| ties + 1 < sample.len());
        let (ties, first) = counted.min_by_key(|(ties, _)| *ties)?;
        let mut two_fields = keys.into_iter().map(|key| Self([first.0.clone(), vec![key]].concat()));
        let refined = if ties == 0 { None } else { two_fields.find(|rule| obeys(rule, Ordering::is_lt)) };
        Some(refined.unwrap_or(first))
    }

    /// The places in a list that obeys this rule where a listing would obey it, too: all between equals.
    pub(super) fn places(&self, list: &[Summary], listing: &Summary) -> RangeInclusive<usize> {
        let first = list.partition_point(|other| self.compare_listings(other, listing).is_lt());
        first..=first + list[first..].partition_point(|other| self.compare_listings(other, listing).is_eq())
    }

    pub(super) fn compare_listings(&self, one: &Summary, other: &Summary) -> Ordering {
        self.compare(&fields(one), &fields(other))
    }

    fn compare(&self, one: &[Field<'_>], other: &[Field<'_>]) -> Ordering {
        self.0.iter().map(|key| key.compare(one, other)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

fn fields(listing: &Summary) -> Vec<Field<'_>> {
    std::str::from_utf8(&listing.raw).ok().and_then(|text| json::fields(text).ok()).unwrap_or_default()
}

/// All keys by which listings with these fields can be ordered, the likely ones first.
fn keys(first: &[Field<'_>]) -> Vec<SortKey> {
    let mut fields: Vec<_> = first.iter().take(MOST_FIELDS).collect();
    fields.sort_by_key(|field| ["id", "modified"].iter().position(|likely| field.key == *likely).unwrap_or(2));
    let mut keys = Vec::new();
    for field in fields {
        let collations: &[Collation] = match json::string(field.value) {
            Some(text) if modified::parse_iso8601(&text).is_ok() => &[Collation::Instant],
            None if field.value != "null" => &[Collation::Plain],
            _ => &[Collation::Plain, Collation::Folded],
        };
        for collation in collations.iter().copied() {
            keys.extend([false, true].map(|falling| SortKey { field: field.key.to_string(), collation, falling }));
        }
    }
    keys
}

#[cfg(test)]
mod tests;
