//! The raw stage: TOML values with their places.
//!
//! It does not know keys. Callers: [`super::layers`] builds them, [`super::section`] reads them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeInteger, DeTable, DeValue};

use super::errors::{Finding, Place, quoted};

/// Keys and their values.
pub(super) type Table = BTreeMap<String, Node>;

/// The most levels of nesting. No key is deeper than 3, and a deep walk could exhaust the stack.
const MAX_DEPTH: usize = 8;

/// One value with its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub value: Value,
    /// A scalar as written (strings: their content); empty for arrays and tables.
    pub text: String,
    pub place: Place,
}

/// A TOML value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A string; its content is [`Node::text`].
    String,
    /// An integer; one beyond 128 bits counts as the largest.
    Integer(i128),
    /// A float, possibly infinite or NaN.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A date or time: no key takes one.
    Datetime,
    Array(Vec<Node>),
    Table(Table),
}

impl Node {
    /// A string at a place.
    pub(super) fn string(text: &str, place: Place) -> Self {
        Self { value: Value::String, text: text.to_owned(), place }
    }

    /// A table at a place.
    pub(super) fn table(table: Table, place: Place) -> Self {
        Self { value: Value::Table(table), text: String::new(), place }
    }

    /// The value as a message shows it: short and on one line.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Value::String => quoted(&self.text),
            Value::Array(_) => "an array".to_owned(),
            Value::Table(_) => "a table".to_owned(),
            _ => self.text.chars().take(80).collect(),
        }
    }

    /// The text of a string. In the environment and in `--set`, where quotes are a nuisance, numbers and
    /// the like count as their text too: `--set admin.token=123456`.
    pub(super) fn as_text(&self) -> Option<&str> {
        match (&self.value, &self.place) {
            (Value::String, _) => Some(&self.text),
            (Value::Array(_) | Value::Table(_), _) | (_, Place::File { .. } | Place::Default) => None,
            (_, Place::Environment(_) | Place::Set) => Some(&self.text),
        }
    }

    /// Lays `over` on top: tables are merged key by key, anything else is replaced.
    pub(super) fn overlay(&mut self, over: Self) {
        match (&mut self.value, over.value) {
            (Value::Table(below), Value::Table(above)) => {
                for (key, node) in above {
                    match below.get_mut(&key) {
                        Some(old) => old.overlay(node),
                        None => drop(below.insert(key, node)),
                    }
                }
            }
            (_, value) => *self = Self { value, ..over },
        }
    }
}

/// Reads a document: the readable values, and the mistakes.
pub(super) fn parse_document(path: &Path, text: &str) -> (Node, Vec<Finding>) {
    let path: Arc<Path> = Arc::from(path);
    let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let place = |offset: usize| Place::File {
        path: path.clone(),
        line: lines.partition_point(|newline| *newline < offset) + 1,
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    let document = Node::table(convert_table(table.get_ref(), &place, 0), Place::Default);
    // Only the message: the library's excerpt could show the token.
    let finding = |error: toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        let message: Vec<&str> = error.message().split_whitespace().collect();
        Finding::new(place(offset), "", format!("not TOML: {}", message.join(" ")))
    };
    (document, errors.into_iter().map(finding).collect())
}

/// Reads one value; a text that is not TOML is a string.
pub(super) fn parse_value(text: &str, place: &Place) -> Node {
    let text = text.trim();
    match DeValue::parse(text) {
        Ok(value) => convert(value.get_ref(), 0, &|_| place.clone(), 0),
        Err(_) => Node::string(text, place.clone()),
    }
}

fn convert_table(table: &DeTable<'_>, place: &dyn Fn(usize) -> Place, depth: usize) -> Table {
    if depth >= MAX_DEPTH {
        return Table::new();
    }
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<_>)| {
        let key_text: &std::borrow::Cow<'_, str> = key.get_ref();
        (key_text.to_string(), convert(value.get_ref(), key.span().start, place, depth + 1))
    };
    table.iter().map(entry).collect()
}

fn convert(value: &DeValue<'_>, offset: usize, place: &dyn Fn(usize) -> Place, depth: usize) -> Node {
    let (value, text) = match value {
        DeValue::String(text) => (Value::String, text.to_string()),
        DeValue::Integer(number) => (Value::Integer(integer(number)), number.to_string()),
        DeValue::Float(number) => {
            let text = number.as_str().to_owned();
            (Value::Float(text.parse().unwrap_or(f64::NAN)), text)
        }
        DeValue::Boolean(flag) => (Value::Boolean(*flag), flag.to_string()),
        DeValue::Datetime(time) => (Value::Datetime, time.to_string()),
        DeValue::Array(items) => {
            let kept = if depth < MAX_DEPTH { items.len() } else { 0 };
            let items = items
                .iter()
                .take(kept)
                .map(|item| convert(item.get_ref(), item.span().start, place, depth + 1))
                .collect();
            (Value::Array(items), String::new())
        }
        DeValue::Table(table) => (Value::Table(convert_table(table, place, depth)), String::new()),
    };
    Node { value, text, place: place(offset) }
}

fn integer(number: &DeInteger<'_>) -> i128 {
    i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX)
}
