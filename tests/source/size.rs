//! A test that the product does not grow unnoticed: each room of `src/` has a limit in lines of code.
//!
//! Tests, comments and blank lines do not count. Scripts below `src/` and the sample data are parts of the program, too:
//! they have limits of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::floors::{ROOT, files, room, sources};

/// The most lines of code of each room, of each kind of script below `src/`, and of the sample data. Sorted.
const LIMITS: &[(&str, usize)] = &[
    ("*.css", 378),
    ("*.html", 65),
    ("*.js", 1165),
    ("*.lua", 68),
    ("api", 3_589),
    ("cli", 3_298),
    ("clock", 330),
    ("config", 2_515),
    ("data", 10_474),
    ("edge", 12_944),
    ("fleet", 3_271),
    ("lib", 19),
    ("main", 6),
    ("mirror", 6_499),
    ("origin", 4_042),
    ("protocol", 2_240),
    ("server", 4_298),
    ("tasks", 333),
    ("telemetry", 1_215),
    ("tests/sample", 697),
    ("words", 84),
];

/// A limit is at most this many lines above the real count, so that it falls when code leaves.
const SLACK: usize = 30;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sample");

/// How many of these lines are code: neither blank nor the start of a comment.
fn code<'a>(lines: impl IntoIterator<Item = &'a str>, comments: &[&str]) -> usize {
    let is_code = |line: &str| !line.is_empty() && !comments.iter().any(|comment| line.starts_with(comment));
    lines.into_iter().filter(|line| is_code(line.trim())).count()
}

/// The lines of a source file before its module of tests.
fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().collect();
    let starts_tests = |pair: &[&str]| {
        let name = pair[1].trim_start().strip_prefix("mod ").and_then(|rest| rest.split_once(" {"));
        let is_module = name.is_some_and(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
        is_module && pair[0].trim().starts_with("#[cfg(test)]")
    };
    let end = lines.windows(2).position(starts_tests).unwrap_or(lines.len());
    lines.into_iter().take(end)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of code by the names of [`LIMITS`].
fn counts() -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut add = |name: String, lines: usize| *counts.entry(name).or_default() += lines;
    let (mut all, mut sample) = (Vec::new(), Vec::new());
    files(Path::new(ROOT), &mut all);
    sources(Path::new(SAMPLE), &mut sample);
    for path in &all {
        // Not the whole path: the project may be in a directory with such a name.
        let has_part = |part: &str| path.strip_prefix(ROOT).unwrap().iter().any(|name| name == part);
        let kind = path.extension().unwrap_or_default().to_str().unwrap();
        match kind {
            "rs" if !has_part("tests.rs") && !has_part("tests") => {
                add(room(path), code(without_tests(&read(path)), &["//"]));
            }
            "css" | "html" | "js" | "lua" | "mjs" if !has_part("vendored") => {
                add(format!("*.{kind}"), code(read(path).lines(), &["//", "--", "/*", "*"]));
            }
            _ => {}
        }
    }
    for path in sample.iter().filter(|path| !path.ends_with("tests.rs")) {
        add("tests/sample".to_owned(), code(read(path).lines(), &["//"]));
    }
    counts
}

/// The message where a limit and the count of lines do not fit; a count of 0: there is no such room.
fn fault(name: &str, limit: Option<usize>, count: usize) -> Option<String> {
    let said = match limit {
        None => format!("it has no limit; add {count}"),
        Some(limit) if count > limit => format!(
            "its limit is {limit}. First take something out. Raise the limit only in the commit that needs the lines; its \
             body says why, and what you looked at first to take out"
        ),
        Some(limit) if count == 0 => format!("its limit is {limit}; remove it"),
        Some(limit) if count + SLACK < limit => format!("its limit is {limit}; lower it to {count}"),
        Some(_) => return None,
    };
    Some(format!("{name} has {count} lines of code, {said}"))
}

#[test]
fn no_room_grows_beyond_its_limit() {
    assert!(LIMITS.is_sorted(), "LIMITS is not sorted by name");
    let (limits, counts): (BTreeMap<&str, usize>, _) = (LIMITS.iter().copied().collect(), counts());
    let names: BTreeSet<&str> = limits.keys().copied().chain(counts.keys().map(String::as_str)).collect();
    let fault = |name: &&str| fault(name, limits.get(name).copied(), counts.get(*name).copied().unwrap_or_default());
    let faults: Vec<String> = names.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "LIMITS in tests/source/size.rs:\n{}", faults.join("\n"));
}

#[test]
fn tests_comments_and_blank_lines_are_not_counted() {
    let text = "//! Not code.\n\nuse one;\n    // Not code.\n#[cfg(test)]\nuse two;\n/* code */\n#[cfg(test)]\nmod tests {\n}\n";
    assert_eq!(code(without_tests(text), &["//"]), 4);
    assert_eq!(code("/* no\n * no\n */\na { b: c }\n".lines(), &["//", "--", "/*", "*"]), 1);
}

#[test]
fn a_limit_that_does_not_fit_has_a_message() {
    assert_eq!(fault("mirror", Some(100), 100), None);
    assert_eq!(fault("mirror", Some(100), 100 - SLACK), None);
    let said = |limit, count| fault("mirror", limit, count).unwrap();
    assert!(
        said(Some(100), 103).starts_with("mirror has 103 lines of code, its limit is 100. First take something out.")
    );
    assert!(said(Some(100), 69).ends_with("its limit is 100; lower it to 69"));
    assert!(said(None, 3).ends_with("it has no limit; add 3"));
    assert!(said(Some(3), 0).ends_with("its limit is 3; remove it"));
}
