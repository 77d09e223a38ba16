//! Reads keys from the raw tree, one section at a time, and collects the mistakes.
//!
//! A key is known if a section reads it: there is no second list that could disagree. Not the meaning of values
//! ([`super::parse`] and the sections). Callers: [`super::resolve`].

use std::collections::BTreeMap;

use super::errors::{Finding, Place};
use super::raw::{Node, Table, Value};

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Errors, in reading order.
    pub errors: Vec<Finding>,
    /// Whether absent keys may only be unread.
    pub incomplete: bool,
    /// Every key that a section read, with the place of its value.
    asked: BTreeMap<String, Option<Place>>,
    /// Every key that no section read.
    unknown: Vec<(String, Place)>,
}

impl Reader {
    /// The place of a key's value; `None`: a default.
    pub(super) fn place(&self, key: &str) -> Option<Place> {
        self.asked.get(key).cloned().flatten()
    }

    /// The places of all keys; `None`: a default.
    pub(super) fn into_places(self) -> BTreeMap<String, Option<Place>> {
        self.asked
    }

    /// Reports an error about a key, at its place.
    pub(super) fn fail(&mut self, key: &str, problem: impl Into<String>) {
        let place = self.place(key).unwrap_or(Place::Default);
        self.errors.push(Finding::new(place, key, problem));
    }

    /// Reports the unknown keys; to be called when all sections have been read.
    pub(super) fn report_unknown(&mut self) {
        for (key, place) in std::mem::take(&mut self.unknown) {
            let problem = match self.suggestion(&key) {
                Some(known) => format!("is not a known key, did you mean `{known}`?"),
                None => format!("is not a known key; known here: {}", self.siblings(&key).join(", ")),
            };
            self.errors.push(Finding::new(place, key, problem));
        }
    }

    /// The known key that was probably meant: a similar one nearby, else one with the same name elsewhere.
    fn suggestion(&self, key: &str) -> Option<&str> {
        let (parent, name) = split(key);
        if name.len() > 64 {
            return None;
        }
        let allowed = (name.len() / 3).clamp(1, 3);
        self.asked
            .keys()
            .map(|known| (split(known), known))
            .filter_map(|((known_parent, known_name), known)| {
                let distance = edit_distance(name, known_name);
                let near = known_parent == parent && distance <= allowed;
                (near || distance == 0).then_some((known_parent != parent, distance, known))
            })
            .min()
            .map(|(_, _, known)| known.as_str())
    }

    fn siblings(&self, key: &str) -> Vec<&str> {
        let parent = split(key).0;
        self.asked
            .keys()
            .map(|known| split(known))
            .filter(|(known_parent, _)| *known_parent == parent)
            .map(|(_, name)| name)
            .collect()
    }
}

/// A table of the tree.
pub(super) struct Section<'a> {
    reader: &'a mut Reader,
    path: String,
    rest: Table,
}

impl<'a> Section<'a> {
    /// Reads `node` as the table at `path` (empty: the root).
    pub(super) fn read<T>(
        reader: &'a mut Reader,
        path: &str,
        node: Node,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let shown = node.shown();
        let rest = if let Value::Table(table) = node.value {
            table
        } else {
            reader.fail(path, format!("{shown} is not a table of keys"));
            Table::new()
        };
        let mut section = Section { reader, path: path.to_owned(), rest };
        let result = read(&mut section);
        let Section { reader, path, rest } = section;
        let unknown = rest.into_iter().map(|(key, node)| (join(&path, &key), node.place));
        reader.unknown.extend(unknown);
        result
    }

    /// The value of a key, or its default.
    pub(super) fn field<T>(&mut self, key: &str, default: T, parse: impl Fn(&Node) -> Result<T, String>) -> T {
        self.optional(key, parse).unwrap_or(default)
    }

    /// The value of a key; `None` when it is absent (or wrong, which is reported).
    pub(super) fn optional<T>(&mut self, key: &str, parse: impl Fn(&Node) -> Result<T, String>) -> Option<T> {
        let (path, node) = self.take(key);
        self.parsed(&path, &node?, parse)
    }

    /// The value of a required key; `None` is reported as an error.
    pub(super) fn required<T>(&mut self, key: &str, parse: impl Fn(&Node) -> Result<T, String>) -> Option<T> {
        match self.take(key) {
            (path, Some(node)) => self.parsed(&path, &node, parse),
            (_, None) if self.reader.incomplete => None,
            (path, None) => {
                let place = self.reader.place(&self.path).unwrap_or(Place::Default);
                self.reader.errors.push(Finding::new(place, path, "is missing"));
                None
            }
        }
    }

    /// A list; `example` is one element as TOML, for the message. An absent key is the default.
    pub(super) fn list<T>(
        &mut self,
        key: &str,
        example: &str,
        default: Vec<T>,
        parse: impl Fn(&Node) -> Result<T, String>,
    ) -> Vec<T> {
        let (path, node) = self.take(key);
        let Some(node) = node else { return default };
        let Value::Array(items) = &node.value else {
            let problem = format!("{} is not a list such as [{example}]", node.shown());
            self.reader.errors.push(Finding::new(node.place, path, problem));
            return default;
        };
        let indexed = items.iter().enumerate();
        indexed.filter_map(|(index, item)| self.parsed(&format!("{path}[{index}]"), item, &parse)).collect()
    }

    /// A required list, not empty; a single value counts as a list of one.
    pub(super) fn required_list<T>(
        &mut self,
        key: &str,
        example: &str,
        parse: impl Fn(&Node) -> Result<T, String>,
    ) -> Vec<T> {
        match self.rest.get(key).map(|node| &node.value) {
            Some(Value::Array(items)) if items.is_empty() => {
                let (path, _) = self.take(key);
                self.reader.fail(&path, "is empty");
                Vec::new()
            }
            Some(Value::Array(_)) => self.list(key, example, Vec::new(), parse),
            _ => self.required(key, parse).into_iter().collect(),
        }
    }

    /// Whether no key is left to read.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The tables of an array of tables; an absent key is none.
    pub(super) fn tables<T>(&mut self, key: &str, read: impl Fn(&mut Section<'_>) -> Option<T>) -> Vec<T> {
        let (path, node) = self.take(key);
        let Some(node) = node else { return Vec::new() };
        let shown = node.shown();
        let Value::Array(items) = node.value else {
            let problem = format!("{shown} is not an array of tables: write [[{path}]]");
            self.reader.errors.push(Finding::new(node.place, path, problem));
            return Vec::new();
        };
        let mut kept = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.reader.asked.insert(path.clone(), Some(item.place.clone()));
            if !matches!(item.value, Value::Table(_)) {
                self.reader.fail(&path, format!("{} is not a table", item.shown()));
                continue;
            }
            kept.extend(Section::read(self.reader, &path, item, &read));
        }
        kept
    }

    /// A table below this one; an absent one is empty.
    pub(super) fn section<T>(&mut self, key: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let (path, node) = self.take(key);
        let node = node.unwrap_or_else(|| Node::table(Table::new(), Place::Default));
        Section::read(self.reader, &path, node, read)
    }

    /// All keys that are left, with their values: for a table whose keys belong to somebody else.
    pub(super) fn entries<T>(&mut self, parse: impl Fn(&str, &Node) -> Result<T, String>) -> Vec<(String, T)> {
        let keys: Vec<String> = self.rest.keys().cloned().collect();
        let read = |key: String| self.optional(&key, |node| parse(&key, node)).map(|value| (key, value));
        keys.into_iter().filter_map(read).collect()
    }

    /// Reports an error about a key of this section.
    pub(super) fn fail(&mut self, key: &str, problem: impl Into<String>) {
        let path = join(&self.path, key);
        self.reader.fail(&path, problem);
    }

    fn take(&mut self, key: &str) -> (String, Option<Node>) {
        let path = join(&self.path, key);
        let node = self.rest.remove(key);
        let place = node.as_ref().map(|node| node.place.clone());
        self.reader.asked.insert(path.clone(), place);
        (path, node)
    }

    fn parsed<T>(&mut self, path: &str, node: &Node, parse: impl Fn(&Node) -> Result<T, String>) -> Option<T> {
        parse(node)
            .map_err(|problem| {
                let finding = Finding::new(node.place.clone(), path, problem);
                self.reader.errors.push(finding);
            })
            .ok()
    }
}

/// `parent.key`; a key that is not bare is shown quoted, so that a message stays on one line.
fn join(parent: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let key = if !key.is_empty() && key.chars().all(bare) { key.to_owned() } else { super::errors::quoted(key) };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('.').unwrap_or(("", key))
}

/// Levenshtein's distance in characters.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
