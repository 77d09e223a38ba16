//! Findings are made where something is wrong, and shown elsewhere: no view searches a message for a text, and a test
//! raises each.

use std::path::{Path, PathBuf};

use crate::floors::files;

/// The files of Rust below a directory, with their paths from the root.
fn sources(directory: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut found);
    let from_root = |path: PathBuf| path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_owned();
    found.into_iter().map(from_root).filter(|path| path.extension().is_some_and(|end| end == "rs")).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The product's part of a file.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

#[test]
fn no_view_of_findings_searches_a_message() {
    let searches = [".contains(\"", ".starts_with(\"", ".ends_with(\"", ".find(\"", ".split_once(\""];
    let mut found = Vec::new();
    let views = ["src/server/admin", "src/cli", "src/telemetry/findings"];
    let is_view = |path: &PathBuf| {
        let path = path.to_string_lossy();
        !path.contains("tests") && views.iter().any(|view| path.starts_with(view))
    };
    for path in sources("src").into_iter().filter(is_view) {
        let text = read(&path);
        for line in without_tests(&text).lines() {
            let literal =
                searches.iter().find_map(|search| Some(line.split_once(search)?.1.split('"').next().unwrap()));
            // A message has words; so have the lines that `audit` prints and colours itself.
            if literal.is_some_and(|literal| literal.trim().contains(' ')) {
                found.push(format!("{}: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_test_raises_each_finding() {
    let table = read(Path::new("src/telemetry/findings.rs"));
    let kinds = table.lines().filter_map(|line| {
        let (kind, rest) = line.strip_prefix("    ")?.split_once(" \"")?;
        let is_kind = kind.chars().all(char::is_alphanumeric) && kind.starts_with(char::is_uppercase);
        is_kind.then(|| (format!("Kind::{kind}"), rest.split('"').next().unwrap().to_owned()))
    });
    let kinds: Vec<(String, String)> = kinds.collect();
    assert!(kinds.len() > 20, "{kinds:?}");
    let own = ["src/telemetry/findings.rs", "src/telemetry/findings/tests.rs", "tests/source/findings.rs"];
    let others = sources("src").into_iter().chain(sources("tests"));
    let tests: String = others
        .filter(|path| !own.iter().any(|own| path == Path::new(own)))
        .map(|path| {
            let text = read(&path);
            if path.to_string_lossy().contains("tests") { text } else { text[without_tests(&text).len()..].to_owned() }
        })
        .collect();
    let untested: Vec<_> =
        kinds.iter().filter(|(kind, name)| !tests.contains(kind) && !tests.contains(&format!("\"{name}\""))).collect();
    assert!(untested.is_empty(), "{untested:?}");
}
