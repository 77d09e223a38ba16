//! The sources of a configuration, laid over each other: `--set` over environment over file. They become one tree of TOML
//! values that know their places.
//!
//! It does not know keys: an unknown one is reported later, when the tree is read. Callers: [`super::Config::examine`]
//! builds the tree, [`super::reader`] reads it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::errors::{ConfigErrors, ConfigIssue, ValueSource, quoted};
use super::proxy::ProxyVariables;
use super::{Config, files};
use crate::words::remedy;

pub(super) type Table = BTreeMap<String, Node>;

/// The most levels of nesting, and of a dotted key. No key is deeper than 3, and a deep walk could exhaust the stack.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub value: Raw,
    /// A scalar as written (strings: their content); empty for arrays and tables.
    pub text: String,
    pub source: ValueSource,
}

#[derive(Debug, Clone)]
pub(super) enum Raw {
    /// A string; its content is [`Node::text`].
    String,
    /// An integer; one beyond 128 bits counts as the largest.
    Integer(i128),
    /// A float, possibly infinite or NaN.
    Float(f64),
    Boolean(bool),
    /// A date or time: no key takes one.
    Datetime,
    Array(Vec<Node>),
    Table(Table),
}

impl Node {
    pub(super) fn string(text: &str, source: ValueSource) -> Self {
        Self { value: Raw::String, text: text.to_owned(), source }
    }

    pub(super) fn table(table: Table, source: ValueSource) -> Self {
        Self { value: Raw::Table(table), text: String::new(), source }
    }

    /// The value as a message shows it: short and on one line.
    pub(super) fn shown(&self) -> String {
        match &self.value {
            Raw::String => quoted(&self.text),
            Raw::Array(_) => "an array".to_owned(),
            Raw::Table(_) => "a table".to_owned(),
            _ => self.text.chars().take(80).collect(),
        }
    }

    /// The text of a string. In the environment and in `--set`, where quotes are a nuisance, numbers and
    /// the like count as their text too: `--set admin.token=123456`.
    pub(super) fn as_text(&self) -> Option<&str> {
        match (&self.value, &self.source) {
            (Raw::String, _) => Some(&self.text),
            (Raw::Array(_) | Raw::Table(_), _) | (_, ValueSource::File { .. } | ValueSource::Default) => None,
            (_, ValueSource::Environment(_) | ValueSource::Set) => Some(&self.text),
        }
    }

    /// The keys of a table; an error says what it is instead, but shows no text: it may be a secret.
    pub(super) fn into_table(self) -> Result<Table, String> {
        match self.value {
            Raw::Table(table) => Ok(table),
            Raw::String => Err("a text (not shown)".to_owned()),
            _ => Err(self.shown()),
        }
    }

    /// Lays `over` on top: tables are merged key by key, anything else is replaced.
    fn overlay(&mut self, over: Self) {
        match (&mut self.value, over.value) {
            (Raw::Table(below), Raw::Table(above)) => {
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
fn parse_document(path: &Path, text: &str) -> (Node, Vec<ConfigIssue>) {
    let path: Arc<Path> = Arc::from(path);
    let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let source = |offset: usize| ValueSource::File {
        path: path.clone(),
        line: lines.partition_point(|newline| *newline < offset) + 1,
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    let document = Node::table(convert_table(table.get_ref(), &source, 0), ValueSource::Default);
    // Only the message: the library's excerpt could show the token.
    let issue = |error: toml::de::Error| {
        let offset = error.span().map_or(0, |span| span.start);
        let message: Vec<&str> = error.message().split_whitespace().collect();
        ConfigIssue::new(source(offset), "", format!("not TOML: {}", message.join(" ")))
    };
    (document, errors.into_iter().map(issue).collect())
}

/// Reads one value; a text that is not TOML is a string.
fn parse_value(text: &str, source: &ValueSource) -> Node {
    let text = text.trim();
    match DeValue::parse(text) {
        Ok(value) => convert(value.get_ref(), 0, &|_| source.clone(), 0),
        Err(_) => Node::string(text, source.clone()),
    }
}

fn convert_table(table: &DeTable<'_>, source: &dyn Fn(usize) -> ValueSource, depth: usize) -> Table {
    if depth >= MAX_DEPTH {
        return Table::new();
    }
    let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
        let key_text: &std::borrow::Cow<'_, str> = key.get_ref();
        (key_text.to_string(), convert(value.get_ref(), key.span().start, source, depth + 1))
    };
    table.iter().map(entry).collect()
}

fn convert(value: &DeValue<'_>, offset: usize, source: &dyn Fn(usize) -> ValueSource, depth: usize) -> Node {
    let (value, text) = match value {
        DeValue::String(text) => (Raw::String, text.to_string()),
        DeValue::Integer(number) => (Raw::Integer(integer(number)), number.to_string()),
        DeValue::Float(number) => {
            let text = number.as_str().to_owned();
            (Raw::Float(text.parse().unwrap_or(f64::NAN)), text)
        }
        DeValue::Boolean(flag) => (Raw::Boolean(*flag), flag.to_string()),
        DeValue::Datetime(time) => (Raw::Datetime, time.to_string()),
        DeValue::Array(items) => {
            let kept = if depth < MAX_DEPTH { items.len() } else { 0 };
            let item = |item: &Spanned<_>| convert(item.get_ref(), item.span().start, source, depth + 1);
            (Raw::Array(items.iter().take(kept).map(item).collect()), String::new())
        }
        DeValue::Table(table) => (Raw::Table(convert_table(table, source, depth)), String::new()),
    };
    Node { value, text, source: source(offset) }
}

fn integer(number: &DeInteger<'_>) -> i128 {
    i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX)
}

/// The prefix of our environment variables, in any case.
const PREFIX: &str = "GRANDSTAND__";

pub(super) fn read_file(path: &Path) -> Result<String, ConfigIssue> {
    files::configuration(path)
        .map_err(|error| of_file(path, &format!("cannot be read: {error}{}", remedy(path, &error))))
}

/// Checks, before a reload, that a file can be read more than once: to read a pipe again could take for ever. Other
/// mistakes show when it is read.
pub(super) fn expect_lasting(path: &Path) -> Result<(), ConfigErrors> {
    let refused = files::open(path).err().filter(|error| error.kind() == ErrorKind::InvalidInput);
    let issue = |error| {
        let todo = "restart the server to change its configuration";
        of_file(path, &format!("cannot be read again: {error}; {todo}"))
    };
    ConfigErrors::none_or(refused.map(issue).into_iter().collect())
}

fn of_file(path: &Path, problem: &str) -> ConfigIssue {
    ConfigIssue::new(ValueSource::File { path: Arc::from(path), line: 0 }, "", problem)
}

#[derive(Debug)]
pub(super) struct Merged {
    pub root: Node,
    pub errors: Vec<ConfigIssue>,
    /// Variables that look like ours and are not read.
    pub unread: Vec<ConfigIssue>,
    pub proxies: ProxyVariables,
    /// Whether the file could not be read completely, so that absent keys may be in it.
    pub incomplete: bool,
}

/// One tree from all sources. `file`: its path, and its text, or why it cannot be read.
pub(super) fn merge(
    file: Option<(&Path, Result<String, ConfigIssue>)>,
    env: impl Iterator<Item = (String, String)>,
    sets: &[String],
) -> Merged {
    let root = Node::table(Table::new(), ValueSource::Default);
    let (errors, proxies) = (Vec::new(), ProxyVariables::default());
    let mut merged = Merged { root, errors, unread: Vec::new(), proxies, incomplete: false };
    let env = env.inspect(|(name, value)| merged.proxies.note(name, value));
    let env = env.filter(|(name, value)| !is_of_a_service(name, value));
    let env = env.filter(|(name, _)| unread(name).map(|issue| merged.unread.push(issue)).is_none());
    let layers = environment(env);
    match file {
        Some((path, Ok(text))) => {
            let (document, errors) = parse_document(path, &text);
            merged.root.overlay(document);
            merged.errors.extend(errors);
        }
        Some((_, Err(issue))) => merged.errors.push(issue),
        None => {}
    }
    merged.incomplete = !merged.errors.is_empty();
    for layer in layers.into_iter().chain(sets.iter().map(|set| parse_set(set))) {
        match layer {
            Ok(layer) => merged.root.overlay(layer),
            Err(issue) => merged.errors.push(issue),
        }
    }
    merged
}

/// Our variables, sorted by key, so that their order in the environment does not matter.
fn environment(env: impl Iterator<Item = (String, String)>) -> Vec<Result<Node, ConfigIssue>> {
    let mut ours: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut layers = Vec::new();
    for (name, value) in env {
        let Some(key) = name.get(PREFIX.len()..).filter(|_| has_prefix(&name)) else {
            continue;
        };
        let key = key.to_lowercase();
        if let Some((other, _)) = ours.get(&key) {
            let source = ValueSource::Environment(Arc::from(name.as_str()));
            let problem = format!("is set twice: {other} differs only in case");
            layers.push(Err(ConfigIssue::new(source, key.replace("__", "."), problem)));
        } else {
            ours.insert(key, (name, value));
        }
    }
    layers.extend(ours.into_iter().map(|(key, (name, value))| {
        let source = ValueSource::Environment(Arc::from(name));
        let levels: Vec<&str> = key.split("__").collect();
        nest(&levels, &source, parse_value(&value, &source))
            .ok_or_else(|| ConfigIssue::new(source, "", "names no key: expected GRANDSTAND__SECTION__KEY"))
    }));
    layers
}

/// Whether Kubernetes sets a variable like this in each container, for a Service whose name begins with ours.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let has_number = |(_, rest): (&str, &str)| rest.starts_with(|c: char| c.is_ascii_digit());
    name.starts_with("GRANDSTAND_")
        && (name.ends_with("_SERVICE_HOST")
            || name.contains("_SERVICE_PORT")
            || name.ends_with("_PORT") && value.contains("://")
            || name.split_once("_PORT_").is_some_and(has_number))
}

/// What is wrong with a variable that begins as ours do, with one underscore instead of two.
fn unread(name: &str) -> Option<ConfigIssue> {
    // The command line reads it.
    if name == "GRANDSTAND_CONFIG" {
        return None;
    }
    let rest =
        name.get(PREFIX.len() - 1..).filter(|_| !has_prefix(name) && has_prefix(&name.replacen('_', "__", 1)))?;
    let spelled = |key: &String| key.replace('.', "_").eq_ignore_ascii_case(rest);
    let problem = match Config::keys().into_iter().find(spelled) {
        Some(key) => format!("is not read, did you mean {PREFIX}{}?", key.replace('.', "__").to_uppercase()),
        None => format!("is not read: variables of keys are {PREFIX}SECTION__KEY"),
    };
    Some(ConfigIssue::new(ValueSource::Environment(Arc::from(name)), "", problem))
}

fn has_prefix(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

fn parse_set(argument: &str) -> Result<Node, ConfigIssue> {
    let Some((key, value)) = argument.split_once('=') else {
        // The argument could contain a secret after a mistyped `=`, so only the part that looks like a key is shown.
        let end = argument.find(|c: char| !is_key_character(c)).unwrap_or(argument.len());
        let problem = format!("{} is not KEY=VALUE, such as ttl=5m", quoted(&argument[..end]));
        return Err(ConfigIssue::new(ValueSource::Set, "", problem));
    };
    let levels: Vec<&str> = key.split('.').map(str::trim).collect();
    nest(&levels, &ValueSource::Set, parse_value(value, &ValueSource::Set)).ok_or_else(|| {
        let problem = format!("{} is not a dotted key such as origin.url", quoted(key));
        ConfigIssue::new(ValueSource::Set, "", problem)
    })
}

fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// `value` under `levels`; `None` when they are not a dotted key.
fn nest(levels: &[&str], source: &ValueSource, value: Node) -> Option<Node> {
    let sound = |level: &&str| !level.is_empty() && level.chars().all(is_key_character);
    if levels.len() > MAX_DEPTH || !levels.iter().all(sound) {
        return None;
    }
    let within = |node, level: &&str| Node::table(Table::from([((*level).to_owned(), node)]), source.clone());
    Some(levels.iter().rev().fold(value, within))
}
