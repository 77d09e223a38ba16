//! A test that prints every error of the program, and the help of each command, into one file: `tests/golden/messages.txt`.
//!
//! The errors are read from the source, so that none can be missing. Placeholders are filled from [`samples`].
//! `GRANDSTAND_GOLDEN=write cargo test --test source messages_file` writes the file. Callers: the tests below.

mod reader;
mod samples;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::floors::{ROOT, floors, room, sources};
use reader::read;

const INTRODUCTION: &str = "\
# Every error of the program, by room of src/; then the help of each command.
#
# Written by a test from the source. Do not edit: change the message in src/, then run
# GRANDSTAND_GOLDEN=write cargo test --locked --test source messages_file
# Placeholders show a sample value, or <the expression> when there is none. (a | b) is one of several texts.
# CONTRIBUTING.md says what a message contains: what happened, to which value, what to do.
";

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/messages.txt");

/// Sources without messages: tests, and what only tests use.
fn is_left_out(path: &Path) -> bool {
    let path = path.strip_prefix(ROOT).unwrap().to_string_lossy().into_owned();
    path.contains("tests")
}

/// The sources with their rooms and texts.
fn rooms() -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(Path::new(ROOT), &mut files);
    files.retain(|path| !is_left_out(path));
    files.iter().map(|path| (room(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// The whole file.
fn golden() -> String {
    let mut errors: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (room, text) in rooms() {
        errors.entry(room).or_default().extend(read(&text));
    }
    errors.retain(|_, texts| !texts.is_empty());
    let floors = floors();
    let mut order: Vec<&String> = errors.keys().collect();
    order.sort_by_key(|room| (-floors.get(*room).copied().unwrap_or(-2), *room));
    let mut page = INTRODUCTION.to_owned();
    // Writing to a String cannot fail.
    for room in order {
        let _ = writeln!(page, "\n## {room}\n");
        for text in &errors[room] {
            let _ = writeln!(page, "{}", text.trim_end().trim_start_matches('\n').replace('\n', "\n    "));
        }
    }
    for (command, help) in help_pages() {
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = writeln!(page, "\n## {command} --help\n\n{}", help.join("\n").trim_end());
    }
    page
}

/// The whole command line and the `--help` of each command, as wide as a page.
fn help_pages() -> Vec<(String, String)> {
    let mut root = grandstand::command().term_width(100);
    root.build();
    let mut pages = Vec::new();
    add_help(root, "grandstand", &mut pages);
    pages
}

fn add_help(mut command: clap::Command, name: &str, pages: &mut Vec<(String, String)>) {
    pages.push((name.to_owned(), command.render_long_help().to_string()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        add_help(inner.clone().term_width(100), &format!("{name} {}", inner.get_name()), pages);
    }
}

#[test]
fn the_messages_file_is_current() {
    if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(GOLDEN, golden()).unwrap();
    }
    let stored = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    let advice = "out of date: GRANDSTAND_GOLDEN=write cargo test --test source messages_file";
    let current = golden();
    let (is, should_be): (BTreeSet<&str>, BTreeSet<&str>) = (stored.lines().collect(), current.lines().collect());
    let missing: Vec<&&str> = should_be.difference(&is).collect();
    let gone: Vec<&&str> = is.difference(&should_be).collect();
    assert!(missing.is_empty() && gone.is_empty(), "{GOLDEN} is {advice}\nmissing: {missing:#?}\ngone: {gone:#?}");
    assert_eq!(stored, current, "{GOLDEN} is {advice}");
}

/// The reader understands tokens; this counts in the text, so that the reader cannot lose a message.
#[test]
fn every_error_is_in_the_messages_file() {
    let (mut errors, mut found) = (0, 0);
    for (_, text) in rooms() {
        let code = text.split("\nmod tests {").next().unwrap();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        errors += code.filter(|line| line.contains("#[error(") && !line.contains("transparent")).count();
        found += read(&text).len();
    }
    assert_eq!(found, errors);
    assert!(errors > 100, "{errors} errors");
}
