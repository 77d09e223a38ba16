//! The origin's order: rules learned from a whole sequence that explain it, and the places that they give to changed
//! listings.
//!
//! A rule is a guess that has never been wrong: every neighbouring pair of the sequence obeys it, without a tie. If
//! several rules fit, they must agree on a place. If they disagree, or a tie would need breaking, there is no place and
//! the pages are read instead. Pure. Callers: [`super::task`], [`super::pass`].

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

use crate::api::json;
use crate::api::listing::Summary;
use crate::api::modified;

/// Summary fields that rules can use.
const MOST_FIELDS: usize = 24;
/// Fields that a rule compares in turn.
const DEEPEST: usize = 3;
/// Rules that are kept. More of them only make agreement harder.
const MOST_RULES: usize = 16;

/// A value that can be ordered.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// `null`, absent, or not comparable.
    Missing,
    Integer(u64),
    Number(f64),
    Text(Box<str>),
}

impl Value {
    fn read(text: &str) -> Self {
        if let Some(text) = json::string(text) {
            return Self::Text(text.into());
        }
        match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(integer), _) => Self::Integer(integer),
            (_, Ok(number)) if number.is_finite() => Self::Number(number),
            _ => Self::Missing,
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) => Some(*number),
            Self::Missing | Self::Text(_) => None,
        }
    }
}

/// How two values of one field are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collation {
    /// Numbers by value, texts by code point.
    Plain,
    /// Texts without regard to case.
    Folded,
    /// Timestamps by instant.
    Instant,
}

impl Collation {
    fn compare(self, one: &Value, other: &Value) -> Ordering {
        match (one, other) {
            (Value::Missing, Value::Missing) => Ordering::Equal,
            (Value::Missing, _) => Ordering::Less,
            (_, Value::Missing) => Ordering::Greater,
            (Value::Integer(one), Value::Integer(other)) => one.cmp(other),
            (Value::Text(one), Value::Text(other)) => match self {
                Self::Plain => one.cmp(other),
                Self::Folded => one.to_lowercase().cmp(&other.to_lowercase()),
                Self::Instant => modified::parse_any(one).ok().cmp(&modified::parse_any(other).ok()),
            },
            _ => one.number().partial_cmp(&other.number()).unwrap_or(Ordering::Equal),
        }
    }
}

/// One field of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    field: String,
    reading: Collation,
    falling: bool,
}

/// An order: by the first field, among equals by the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule(Vec<Key>);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, key) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let folded = if key.reading == Collation::Folded { " (any case)" } else { "" };
            write!(f, "{comma}{}{folded} {}", key.field, if key.falling { "desc" } else { "asc" })?;
        }
        Ok(())
    }
}

impl Rule {
    /// The rule of one field that a sequence obeys, and that leaves the fewest ties open; `None`: it obeys none.
    pub(super) fn of_one_field(sequence: &[Summary]) -> Option<Self> {
        let columns = columns(sequence.first()?);
        let disproved = BTreeSet::new();
        let learner = Learner { sequence, columns, disproved: &disproved, rules: Vec::new() };
        let pairs = u32::try_from(sequence.len() - 1).unwrap_or(u32::MAX);
        let open = learner.open(&[], &mut (0..pairs));
        let best = open.into_iter().filter(|open| open.rising != open.falling).min_by_key(|open| open.left.len())?;
        let Column { field, reading, .. } = &learner.columns[best.column];
        Some(Self(vec![Key { field: field.clone(), reading: *reading, falling: best.falling }]))
    }

    /// The places in a sequence that obeys this rule where a listing would obey it, too: all between equals.
    pub(super) fn places<S: Borrow<Summary>>(&self, sequence: &[S], listing: &Summary) -> RangeInclusive<usize> {
        let values = self.values(listing);
        let before = |other: &S| self.compare(&self.values(other.borrow()), &values);
        let first = sequence.partition_point(|other| before(other).is_lt());
        first..=first + sequence[first..].partition_point(|other| before(other).is_eq())
    }

    /// Compares two listings.
    pub(super) fn compare_listings(&self, one: &Summary, other: &Summary) -> Ordering {
        self.compare(&self.values(one), &self.values(other))
    }

    fn values(&self, summary: &Summary) -> Vec<Value> {
        let text = std::str::from_utf8(&summary.raw).unwrap_or("{}");
        let fields = json::fields(text).unwrap_or_default();
        let value = |key: &Key| {
            fields.iter().find(|field| field.key == key.field).map_or(Value::Missing, |field| Value::read(field.value))
        };
        self.0.iter().map(value).collect()
    }

    fn compare(&self, one: &[Value], other: &[Value]) -> Ordering {
        let keys = self.0.iter().zip(one.iter().zip(other));
        keys.map(|(key, (one, other))| {
            let order = key.reading.compare(one, other);
            if key.falling { order.reverse() } else { order }
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
    }
}

/// Why listings have no certain place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unplaced {
    /// No rule explains the sequence.
    #[error("no rule explains the order")]
    NoRule,
    /// A listing would tie with another.
    #[error("two listings tie in the order")]
    Tie,
    /// Rules that all explain the sequence disagree.
    #[error("several rules explain the order and disagree on a place")]
    Disagreement,
}

/// All rules that explain a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    /// Learns from a whole sequence, without the rules that were disproved before (by their text).
    pub(super) fn learn(sequence: &[Summary], disproved: &BTreeSet<String>) -> Self {
        let mut learner = Learner { sequence, columns: Vec::new(), disproved, rules: Vec::new() };
        if let [first, _, ..] = sequence {
            learner.columns = columns(first);
            let pairs = u32::try_from(sequence.len() - 1).unwrap_or(u32::MAX);
            learner.extend(&mut Vec::new(), &mut (0..pairs), pairs as usize);
        }
        Self(learner.rules)
    }

    /// Their texts, for people and for [`Rules::learn`].
    pub(super) fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(Rule::to_string)
    }

    /// The sequence with `changed` in their places; listings of the same id are removed first.
    pub(super) fn place(&self, sequence: &[Summary], changed: &[Summary]) -> Result<Vec<Summary>, Unplaced> {
        let replaced: BTreeSet<_> = changed.iter().map(|summary| summary.id).collect();
        let rest: Vec<&Summary> = sequence.iter().filter(|summary| !replaced.contains(&summary.id)).collect();
        let mut placed: Option<Vec<&Summary>> = None;
        for rule in &self.0 {
            let merged = merge(rule, &rest, changed)?;
            let agrees = |before: &Vec<&Summary>| before.iter().zip(&merged).all(|(one, other)| one.id == other.id);
            match &placed {
                Some(before) if !agrees(before) => return Err(Unplaced::Disagreement),
                Some(_) => {}
                None => placed = Some(merged),
            }
        }
        placed.map(|placed| placed.into_iter().cloned().collect()).ok_or(Unplaced::NoRule)
    }
}

/// One way to compare one field.
struct Column {
    /// The field's position in the first listing, mostly the same in all.
    at: usize,
    field: String,
    reading: Collation,
}

/// The comparable fields of a sequence's first listing.
fn columns(first: &Summary) -> Vec<Column> {
    let text = std::str::from_utf8(&first.raw).unwrap_or("{}");
    let fields = json::fields(text).unwrap_or_default();
    let readings = |value: &Value| -> &[Collation] {
        match value {
            Value::Text(text) if modified::parse_any(text).is_ok() => &[Collation::Instant],
            Value::Text(_) | Value::Missing => &[Collation::Plain, Collation::Folded],
            Value::Integer(_) | Value::Number(_) => &[Collation::Plain],
        }
    };
    let columns = fields.iter().take(MOST_FIELDS).enumerate().flat_map(|(at, field)| {
        let column = move |reading: &Collation| Column { at, field: field.key.clone().into_owned(), reading: *reading };
        readings(&Value::read(field.value)).iter().map(column)
    });
    columns.collect()
}

/// A column that no pair so far contradicts.
struct Open {
    column: usize,
    rising: bool,
    falling: bool,
    /// The pairs that it does not decide.
    left: Vec<u32>,
    /// Its value in the later listing of the last pair.
    last: Value,
}

/// Learns rules. A column is dropped once pairs contradict both its directions, so that most summaries are read only in
/// the few fields that still explain everything.
struct Learner<'a> {
    sequence: &'a [Summary],
    columns: Vec<Column>,
    disproved: &'a BTreeSet<String>,
    rules: Vec<Rule>,
}

impl Learner<'_> {
    /// Adds every rule that begins with `keys` and decides all `ties`: the `count` pairs that `keys` leave open, each
    /// named by the position of its first listing, in rising order.
    fn extend(&mut self, keys: &mut Vec<Key>, ties: &mut dyn Iterator<Item = u32>, count: usize) {
        for Open { column, falling, rising, left, .. } in self.open(keys, ties) {
            // One that decides nothing adds nothing.
            if left.len() == count {
                continue;
            }
            for falling in [rising.then_some(false), falling.then_some(true)].into_iter().flatten() {
                if self.rules.len() >= MOST_RULES {
                    return;
                }
                let Column { field, reading, .. } = &self.columns[column];
                keys.push(Key { field: field.clone(), reading: *reading, falling });
                if left.is_empty() {
                    let rule = Rule(keys.clone());
                    if !self.disproved.contains(&rule.to_string()) {
                        self.rules.push(rule);
                    }
                } else if keys.len() < DEEPEST {
                    self.extend(keys, &mut left.iter().copied(), left.len());
                }
                keys.pop();
            }
        }
    }

    /// The columns, beside those of `keys`, that no pair contradicts.
    fn open(&self, keys: &[Key], ties: &mut dyn Iterator<Item = u32>) -> Vec<Open> {
        let fresh = |(column, _)| Open { column, rising: true, falling: true, left: Vec::new(), last: Value::Missing };
        let others = self.columns.iter().enumerate();
        let others = others.filter(|(_, column)| keys.iter().all(|key| key.field != column.field));
        let mut open: Vec<Open> = others.map(fresh).collect();
        let mut read = None;
        for pair in ties {
            let at = pair as usize;
            if read != Some(at) {
                self.read(at, &mut open);
            }
            let before: Vec<Value> =
                open.iter_mut().map(|open| std::mem::replace(&mut open.last, Value::Missing)).collect();
            self.read(at + 1, &mut open);
            read = Some(at + 1);
            let mut before = before.into_iter();
            open.retain_mut(|open| {
                let reading = self.columns[open.column].reading;
                match before.next().map_or(Ordering::Equal, |before| reading.compare(&before, &open.last)) {
                    Ordering::Less => open.falling = false,
                    Ordering::Greater => open.rising = false,
                    Ordering::Equal => open.left.push(pair),
                }
                open.rising || open.falling
            });
            if open.is_empty() {
                break;
            }
        }
        open
    }

    fn read(&self, at: usize, open: &mut [Open]) {
        let text = std::str::from_utf8(&self.sequence[at].raw).unwrap_or("{}");
        let fields = json::fields(text).unwrap_or_default();
        for open in open {
            let column = &self.columns[open.column];
            let guess = fields.get(column.at).filter(|field| field.key == column.field);
            let found = guess.or_else(|| fields.iter().find(|field| field.key == column.field));
            open.last = found.map_or(Value::Missing, |field| Value::read(field.value));
        }
    }
}

/// A sequence with `changed` in their places, without ties.
fn merge<'a>(rule: &Rule, rest: &[&'a Summary], changed: &'a [Summary]) -> Result<Vec<&'a Summary>, Unplaced> {
    let mut ordered: Vec<&Summary> = changed.iter().collect();
    ordered.sort_by(|one, other| rule.compare_listings(one, other));
    if ordered.windows(2).any(|pair| rule.compare_listings(pair[0], pair[1]).is_eq()) {
        return Err(Unplaced::Tie);
    }
    let mut merged = Vec::with_capacity(rest.len() + changed.len());
    let mut done = 0;
    for summary in ordered {
        let places = rule.places(&rest[done..], summary);
        if places.start() != places.end() {
            return Err(Unplaced::Tie);
        }
        merged.extend_from_slice(&rest[done..done + places.start()]);
        merged.push(summary);
        done += places.start();
    }
    merged.extend_from_slice(&rest[done..]);
    Ok(merged)
}

#[cfg(test)]
mod tests;
