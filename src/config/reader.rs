//! Reader of the declared keys: takes their values from the tree of the sources, and collects the mistakes.
//!
//! Not the meaning of values ([`super::values`]). Callers: [`super::checks`], and the values that are tables.

use std::collections::BTreeMap;

use strsim::osa_distance;

use super::declaration::Declaration;
use super::errors::{ConfigIssue, ValueSource, quoted};
use super::keys::CONSTANTS;
use super::sources::{Node, Table};
use super::values::Written;

#[derive(Debug, Default)]
pub(super) struct KeyReader {
    /// Errors, in reading order.
    pub errors: Vec<ConfigIssue>,
    /// Whether absent keys may only be unread.
    pub incomplete: bool,
    /// Every known key and table, with the source of its value; `None`: a default.
    pub places: BTreeMap<String, Option<ValueSource>>,
    unknown: Vec<(String, ValueSource)>,
}

impl KeyReader {
    pub(super) fn new(incomplete: bool) -> Self {
        Self { incomplete, ..Self::default() }
    }

    /// The source of a key's value; `None`: a default.
    pub(super) fn source(&self, key: &str) -> Option<ValueSource> {
        self.places.get(key).cloned().flatten()
    }

    /// Reports an error about a key, with its source.
    pub(super) fn fail(&mut self, key: &str, problem: impl Into<String>) {
        let source = self.source(key).unwrap_or(ValueSource::Default);
        self.errors.push(ConfigIssue::new(source, key, problem));
    }

    /// Whether there is an error about a key, or about an element of its list.
    pub(super) fn has_failed(&self, key: &str) -> bool {
        let rests = self.errors.iter().filter_map(|error| error.key().strip_prefix(key));
        rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with('['))
    }

    /// The value of one node; an error is reported with its source.
    pub(super) fn parsed<T>(
        &mut self,
        path: &str,
        node: &Node,
        parse: impl Fn(&Node) -> Result<T, String>,
    ) -> Option<T> {
        self.places.insert(path.to_owned(), Some(node.source.clone()));
        parse(node).map_err(|problem| self.fail(path, problem)).ok()
    }

    /// Reads the keys of the table at `path` (empty: the root) into `to`.
    pub(super) fn read<C>(&mut self, path: &str, mut table: Table, keys: &[Declaration<C>], to: &mut C) {
        let mut sections: BTreeMap<&str, Table> = BTreeMap::new();
        for Declaration { about, read, write, .. } in keys {
            let inner = match about.section {
                "" => &mut table,
                section => sections.entry(section).or_insert_with(|| self.section(section, table.remove(section))),
            };
            let full = if path.is_empty() { about.path() } else { join(path, about.name) };
            let (path, node) = (full, inner.remove(about.name));
            self.places.insert(path.clone(), node.as_ref().map(|node| node.source.clone()));
            if let Some(node) = node {
                read(self, &path, node, to);
            } else if about.values.is_required && !self.incomplete && !matches!(write(to), Written::Nothing) {
                let source = self.source(split(&path).0).unwrap_or(ValueSource::Default);
                self.errors.push(ConfigIssue::new(source, path, "is missing"));
            }
        }
        sections.insert("", table);
        for (section, rest) in sections {
            let path = if section.is_empty() { path } else { section };
            self.unknown.extend(rest.into_iter().map(|(key, node)| (join(path, &key), node.source)));
        }
    }

    fn section(&mut self, name: &str, node: Option<Node>) -> Table {
        self.places.insert(name.to_owned(), node.as_ref().map(|node| node.source.clone()));
        let table = node.map_or_else(|| Ok(Table::new()), Node::into_table);
        table.unwrap_or_else(|shown| {
            self.fail(name, format!("{shown} is not a table of keys"));
            Table::new()
        })
    }

    /// Reports the unknown keys; to be called when all keys have been read. Returns warnings about those that were keys.
    pub(super) fn report_unknown(&mut self) -> Vec<ConfigIssue> {
        let mut warnings = Vec::new();
        for (key, source) in std::mem::take(&mut self.unknown) {
            if let Some((_, constant)) = CONSTANTS.iter().find(|(was, _)| *was == key) {
                warnings.push(ConfigIssue::new(source, key, format!("has no effect any more; remove it: {constant}")));
                continue;
            }
            let problem = match self.suggestion(&key) {
                Some(known) => format!("is not a known key, did you mean `{known}`?"),
                None => format!("is not a known key; known here: {}", self.siblings(&key).join(", ")),
            };
            self.errors.push(ConfigIssue::new(source, key, problem));
        }
        warnings
    }

    /// The known key that was probably meant: a similar one nearby, else one with the same name elsewhere.
    fn suggestion<'a>(&'a self, key: &str) -> Option<&'a str> {
        let (parent, name) = split(key);
        if name.len() > 64 {
            return None;
        }
        let allowed = (name.len() / 3).clamp(1, 3);
        let near = |known: &'a String| {
            let (known_parent, known_name) = split(known);
            let distance = osa_distance(name, known_name);
            let is_near = known_parent == parent && distance <= allowed;
            (is_near || distance == 0).then_some((known_parent != parent, distance, known))
        };
        self.places.keys().filter_map(near).min().map(|(_, _, known)| known.as_str())
    }

    fn siblings(&self, key: &str) -> Vec<&str> {
        let known = self.places.keys().filter(|known| !known.ends_with(']')).map(|known| split(known));
        known.filter(|(parent, _)| *parent == split(key).0).map(|(_, name)| name).collect()
    }
}

/// `parent.key`; a key that is not bare is shown quoted, so that a message stays on one line.
pub(super) fn join(parent: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let key = if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { quoted(key) };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}
