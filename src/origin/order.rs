//! In which order the origin lists: rules that explain a whole sequence, learned from it, and the places that they give
//! to changed listings.
//!
//! A rule is a guess that has never been wrong: every neighbouring pair of the sequence obeys it, and no pair is a tie.
//! Where several rules fit they must agree on a place; where they do not, or where a tie would have to be broken, there
//! is no place and the pages are read instead. Pure. Callers: [`super::amend`].

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use crate::api::json;
use crate::api::listing::Summary;
use crate::api::modified;

/// Fields of a summary that are looked at.
const MOST_FIELDS: usize = 24;
/// Fields that a rule looks at one after the other.
const DEEPEST: usize = 3;
/// Rules that are kept. More of them only make agreement harder.
const MOST_RULES: usize = 16;

/// A value that an order can be made of.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// `null`, absent, or nothing that can be compared.
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
enum Reading {
    /// Numbers by value, texts by code point.
    Plain,
    /// Texts without regard to case.
    Folded,
    /// Timestamps by instant.
    Instant,
}

impl Reading {
    fn compare(self, one: &Value, other: &Value) -> Ordering {
        match (one, other) {
            (Value::Missing, Value::Missing) => Ordering::Equal,
            (Value::Missing, _) => Ordering::Less,
            (_, Value::Missing) => Ordering::Greater,
            (Value::Integer(one), Value::Integer(other)) => one.cmp(other),
            (Value::Text(one), Value::Text(other)) => match self {
                Self::Plain => one.cmp(other),
                Self::Folded => one.to_lowercase().cmp(&other.to_lowercase()),
                Self::Instant => modified::parse(one).ok().cmp(&modified::parse(other).ok()),
            },
            _ => one.number().partial_cmp(&other.number()).unwrap_or(Ordering::Equal),
        }
    }
}

/// One field of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    field: String,
    reading: Reading,
    falling: bool,
}

/// An order: by the first field, among equals by the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule(Vec<Key>);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, key) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let folded = if key.reading == Reading::Folded { " (any case)" } else { "" };
            write!(f, "{comma}{}{folded} {}", key.field, if key.falling { "desc" } else { "asc" })?;
        }
        Ok(())
    }
}

impl Rule {
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
pub enum Unplaced {
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
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Learns from a whole sequence, without the rules that were disproved before (by their text).
    pub fn learn(sequence: &[Summary], disproved: &BTreeSet<String>) -> Self {
        let mut learner = Learner { sequence, columns: Vec::new(), disproved, rules: Vec::new() };
        if let [first, _, ..] = sequence {
            learner.columns = columns(first);
            let pairs = u32::try_from(sequence.len() - 1).unwrap_or(u32::MAX);
            learner.extend(&mut Vec::new(), &mut (0..pairs), pairs as usize);
        }
        Self(learner.rules)
    }

    /// Their texts, for people and for [`Rules::learn`].
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(Rule::to_string)
    }

    /// The sequence with `changed` in their places; listings of the same id are taken out first.
    ///
    /// # Errors
    /// When there is no certain place for one of them.
    pub fn place(&self, sequence: &[Summary], changed: &[Summary]) -> Result<Vec<Summary>, Unplaced> {
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
    /// Where the field stands in the first listing: mostly it stands there in all.
    at: usize,
    field: String,
    reading: Reading,
}

/// What can be compared, by the first listing of a sequence.
fn columns(first: &Summary) -> Vec<Column> {
    let text = std::str::from_utf8(&first.raw).unwrap_or("{}");
    let fields = json::fields(text).unwrap_or_default();
    let readings = |value: &Value| -> &[Reading] {
        match value {
            Value::Text(text) if modified::parse(text).is_ok() => &[Reading::Instant],
            Value::Text(_) | Value::Missing => &[Reading::Plain, Reading::Folded],
            Value::Integer(_) | Value::Number(_) => &[Reading::Plain],
        }
    };
    let columns = fields.iter().take(MOST_FIELDS).enumerate().flat_map(|(at, field)| {
        let column = move |reading: &Reading| Column { at, field: field.key.clone().into_owned(), reading: *reading };
        readings(&Value::read(field.value)).iter().map(column)
    });
    columns.collect()
}

/// A column that the pairs seen so far may be ordered by.
struct Open {
    column: usize,
    rising: bool,
    falling: bool,
    /// The pairs that it does not decide.
    left: Vec<u32>,
    /// Its value in the later listing of the last pair.
    last: Value,
}

/// Learns rules. A column is given up as soon as a pair contradicts both its directions, so that of most summaries
/// only the few fields are read that still explain everything.
struct Learner<'a> {
    sequence: &'a [Summary],
    columns: Vec<Column>,
    disproved: &'a BTreeSet<String>,
    rules: Vec<Rule>,
}

impl Learner<'_> {
    /// Adds every rule that begins with `keys` and leaves none of `ties`, the `count` pairs that `keys` do not decide,
    /// each named by the place of its first listing, in rising order.
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

fn merge<'a>(rule: &Rule, rest: &[&'a Summary], changed: &'a [Summary]) -> Result<Vec<&'a Summary>, Unplaced> {
    let mut ordered: Vec<(Vec<Value>, &Summary)> =
        changed.iter().map(|summary| (rule.values(summary), summary)).collect();
    ordered.sort_by(|(one, _), (other, _)| rule.compare(one, other));
    if ordered.windows(2).any(|pair| rule.compare(&pair[0].0, &pair[1].0).is_eq()) {
        return Err(Unplaced::Tie);
    }
    let mut merged = Vec::with_capacity(rest.len() + changed.len());
    let mut done = 0;
    for (values, summary) in ordered {
        let before = |other: &&Summary| rule.compare(&rule.values(other), &values).is_lt();
        let at = done + rest[done..].partition_point(before);
        if rest.get(at).is_some_and(|next| rule.compare(&rule.values(next), &values).is_eq()) {
            return Err(Unplaced::Tie);
        }
        merged.extend_from_slice(&rest[done..at]);
        merged.push(summary);
        done = at;
    }
    merged.extend_from_slice(&rest[done..]);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::api::hash::ContentHash;
    use crate::api::listing::ListingId;

    fn summary(id: u64, name: &str, modified: &str) -> Summary {
        let raw = Bytes::from(format!(r#"{{"id":{id},"name":{name:?},"modified":"{modified}","rating":null}}"#));
        Summary { id: ListingId(id), hash: ContentHash::of(&raw), raw }
    }

    fn day(id: u64, name: &str, day: u64) -> Summary {
        summary(id, name, &format!("2026-01-{:02}T00:00:00+00:00", day % 28 + 1))
    }

    fn learned(sequence: &[Summary]) -> Vec<String> {
        Rules::learn(sequence, &BTreeSet::new()).texts().collect()
    }

    fn ids(sequence: &[Summary]) -> Vec<u64> {
        sequence.iter().map(|summary| summary.id.0).collect()
    }

    #[test]
    fn a_sequence_is_explained_by_what_orders_it() {
        let by_id = [day(1, "c", 3), day(2, "a", 9), day(7, "b", 3)];
        assert_eq!(learned(&by_id), ["id asc"]);
        let newest_first = [day(9, "c", 9), day(2, "a", 5), day(5, "b", 5), day(1, "d", 1)];
        assert!(learned(&newest_first).contains(&"modified desc, id asc".to_owned()));
        let by_name = [day(9, "ab", 9), day(2, "AC", 15), day(5, "b", 5)];
        assert_eq!(learned(&by_name), ["name (any case) asc"]);
        assert!(learned(&[day(3, "b", 2), day(1, "c", 7), day(2, "a", 1)]).is_empty());
        assert!(learned(&[day(3, "b", 2)]).is_empty() && learned(&[]).is_empty());
    }

    #[test]
    fn instants_are_compared_whatever_their_offset() {
        let sequence = [
            summary(4, "x", "2026-01-02T01:00:00+02:00"),
            summary(2, "y", "2026-01-01T22:30:00Z"),
            summary(9, "a", "2026-01-01T12:00:00-10:00"),
        ];
        // 23:00, 22:30 and 22:00 of the first, whatever their texts say.
        assert!(learned(&sequence).contains(&"modified desc".to_owned()));
        let turned = [sequence[1].clone(), sequence[0].clone()];
        assert!(learned(&turned).contains(&"modified asc".to_owned()));
    }

    #[test]
    fn a_tie_and_a_disagreement_give_no_place() {
        let sequence: Vec<Summary> = (1..=9).map(|at| day(at, &format!("n{at}"), at)).collect();
        let rules = Rules::learn(&sequence, &BTreeSet::new());
        assert_eq!(rules.place(&sequence, &[day(4, "n99", 4)]), Err(Unplaced::Disagreement));
        let named = BTreeSet::from(["id asc", "modified asc", "name asc"].map(str::to_owned));
        let folded = Rules::learn(&sequence, &named);
        assert_eq!(folded.place(&sequence, &[day(40, "N7", 4)]), Err(Unplaced::Tie));
        assert_eq!(Rules::default().place(&sequence, &[]), Err(Unplaced::NoRule));
    }

    #[test]
    fn a_rule_that_was_disproved_is_not_learned_again() {
        let sequence: Vec<Summary> = [3, 5, 8].map(|id| day(id, &format!("n{}", 10 - id), id)).into();
        let disproved: BTreeSet<String> = learned(&sequence).into_iter().collect();
        assert!(!disproved.is_empty());
        assert!(Rules::learn(&sequence, &disproved).texts().next().is_none());
    }

    proptest! {
        /// Whatever the order is by, placing changes equals sorting everything anew.
        #[test]
        fn placing_equals_sorting(
            listings in proptest::collection::btree_map(1_u64..500, (0_u64..40, "[a-c]{0,3}"), 2..60),
            changed in proptest::collection::btree_map(1_u64..500, (0_u64..40, "[a-c]{0,3}"), 1..8),
            by in 0_u8..3,
        ) {
            let make = |(id, (at, name)): (&u64, &(u64, String))| day(*id, name, *at);
            let sort = |all: &mut Vec<Summary>| all.sort_by_key(|summary| {
                let fields = json::fields(std::str::from_utf8(&summary.raw).unwrap()).unwrap();
                let text = |at: usize| fields[at].value.to_owned();
                match by {
                    0 => (String::new(), std::cmp::Reverse(String::new()), summary.id),
                    1 => (String::new(), std::cmp::Reverse(text(2)), summary.id),
                    _ => (text(1), std::cmp::Reverse(String::new()), summary.id),
                }
            });
            let mut sequence: Vec<Summary> = listings.iter().map(make).collect();
            sort(&mut sequence);
            let changed: Vec<Summary> = changed.iter().map(make).collect();
            let mut expected: Vec<Summary> =
                sequence.iter().filter(|one| changed.iter().all(|other| other.id != one.id)).cloned().collect();
            expected.extend(changed.iter().cloned());
            sort(&mut expected);
            let rules = Rules::learn(&sequence, &BTreeSet::new());
            // Small sequences are explained by accident, too; where the true rule is among them there is no wrong place.
            let truth = ["id asc", "modified desc, id asc", "name asc, id asc"][usize::from(by)];
            let knows = rules.texts().any(|text| text == truth);
            match rules.place(&sequence, &changed) {
                Ok(placed) if knows => prop_assert_eq!(ids(&placed), ids(&expected)),
                Ok(_) | Err(_) => {}
            }
        }
    }
}
