//! The sources of a configuration, laid over each other: `--set` over environment over file.
//!
//! It does not know keys: an unknown one is reported later, when the tree is read. Callers: [`super::Config::examine`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::errors::{Finding, Place, quoted};
use super::raw::{Node, Table, parse_document, parse_value};

/// The prefix of our environment variables, in any case.
const PREFIX: &str = "GRANDSTAND__";

/// The most levels of a dotted key; deeper keys are unknown anyway.
const MAX_LEVELS: usize = 8;

/// The text of the file.
pub(super) fn read_file(path: &Path) -> Result<String, Finding> {
    std::fs::read_to_string(path).map_err(|error| {
        let place = Place::File { path: Arc::from(path), line: 0 };
        Finding::new(place, "", format!("cannot be read: {error}"))
    })
}

/// All sources, laid over each other.
#[derive(Debug)]
pub(super) struct Merged {
    /// The tree of all readable values.
    pub root: Node,
    /// The unreadable parts.
    pub errors: Vec<Finding>,
    /// Whether the file could not be read completely, so that absent keys may be in it.
    pub incomplete: bool,
}

/// One tree from all sources. `file`: its path, and its text, or why it cannot be read.
pub(super) fn merge(
    file: Option<(&Path, Result<String, Finding>)>,
    env: impl Iterator<Item = (String, String)>,
    sets: &[String],
) -> Merged {
    let mut merged = Merged { root: Node::table(Table::new(), Place::Default), errors: Vec::new(), incomplete: false };
    match file {
        Some((path, Ok(text))) => {
            let (document, errors) = parse_document(path, &text);
            merged.root.overlay(document);
            merged.errors.extend(errors);
        }
        Some((_, Err(finding))) => merged.errors.push(finding),
        None => {}
    }
    merged.incomplete = !merged.errors.is_empty();
    for layer in environment(env).into_iter().chain(sets.iter().map(|set| parse_set(set))) {
        match layer {
            Ok(layer) => merged.root.overlay(layer),
            Err(finding) => merged.errors.push(finding),
        }
    }
    merged
}

/// Our variables, sorted by key, so that their order in the environment does not matter.
fn environment(env: impl Iterator<Item = (String, String)>) -> Vec<Result<Node, Finding>> {
    let mut ours: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut layers = Vec::new();
    for (name, value) in env {
        let Some(key) = name.get(PREFIX.len()..).filter(|_| has_prefix(&name)) else {
            continue;
        };
        let key = key.to_lowercase();
        if let Some((other, _)) = ours.get(&key) {
            let place = Place::Environment(Arc::from(name.as_str()));
            let problem = format!("is set twice: {other} differs only in case");
            layers.push(Err(Finding::new(place, key.replace("__", "."), problem)));
        } else {
            ours.insert(key, (name, value));
        }
    }
    layers.extend(ours.into_iter().map(|(key, (name, value))| {
        let place = Place::Environment(Arc::from(name));
        let levels: Vec<&str> = key.split("__").collect();
        nest(&levels, &place, parse_value(&value, &place))
            .ok_or_else(|| Finding::new(place, "", "names no key: expected GRANDSTAND__SECTION__KEY"))
    }));
    layers
}

fn has_prefix(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// One argument of `--set`.
fn parse_set(argument: &str) -> Result<Node, Finding> {
    let Some((key, value)) = argument.split_once('=') else {
        // The argument could contain a secret after a mistyped `=`, so only the part that looks like a key is shown.
        let end = argument.find(|c: char| !is_key_character(c)).unwrap_or(argument.len());
        let problem = format!("{} is not KEY=VALUE", quoted(&argument[..end]));
        return Err(Finding::new(Place::Set, "", problem));
    };
    let levels: Vec<&str> = key.split('.').map(str::trim).collect();
    nest(&levels, &Place::Set, parse_value(value, &Place::Set)).ok_or_else(|| {
        let problem = format!("{} is not a dotted key such as origin.url", quoted(key));
        Finding::new(Place::Set, "", problem)
    })
}

fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// `value` under `levels`; `None` when they are not a dotted key.
fn nest(levels: &[&str], place: &Place, value: Node) -> Option<Node> {
    let sound = |level: &&str| !level.is_empty() && level.chars().all(is_key_character);
    if levels.len() > MAX_LEVELS || !levels.iter().all(sound) {
        return None;
    }
    Some(
        levels
            .iter()
            .rev()
            .fold(value, |node, level| Node::table(Table::from([((*level).to_owned(), node)]), place.clone())),
    )
}
