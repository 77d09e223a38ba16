//! The README and the book in `docs/`: links lead somewhere, commands work, and names are the program's.
//!
//! Not the content of the pages. `commands` runs the shell blocks, `copies` the programs in `docs/programs/`, `facts` compares
//! names with a running server.

mod commands;
mod copies;
mod facts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages of the book, in the order of their names.
fn book() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    pages.sort();
    pages
}

/// A page without its code, which has neither links nor headings.
fn prose(markdown: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The targets of the links and images of a page.
fn links(markdown: &str) -> Vec<String> {
    let prose = prose(markdown);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The names of a page's headings as forges make them: small letters, hyphens for spaces, a number behind repeated ones.
fn anchors(markdown: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let prose = prose(markdown);
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            let name: String = kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect();
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
        })
        .collect()
}

/// A path without `..`, so that two spellings of it are equal.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
        plain
    })
}

#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let others = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "src/data/bundle/FORMAT.md",
        "tests/cache_suite/README.md",
    ];
    let mut seen = 0;
    for page in others.map(repository).into_iter().chain(book()) {
        for link in links(&read(&page)) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            seen += 1;
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, name)| (file, Some(name)));
            let target = if file.is_empty() { page.clone() } else { plain(&page.parent().unwrap().join(file)) };
            assert!(target.exists(), "{}: {link} leads to no file", page.display());
            if let Some(anchor) = anchor {
                let anchors = anchors(&read(&target));
                assert!(anchors.contains(anchor), "{}: {link} leads to no heading: {anchors:?}", page.display());
            }
        }
    }
    assert!(seen > 20, "{seen} links were seen");
}

#[test]
fn the_contents_of_the_book_name_every_page() {
    let contents = links(&read(&repository("docs/README.md")));
    for page in book() {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(
            name == "README.md" || contents.iter().any(|link| link == name),
            "docs/README.md has no link to {name}"
        );
    }
}

#[test]
fn the_book_is_read_in_an_evening() {
    let looked_up = ["configuration.md", "metrics.md"];
    let is_read = |page: &PathBuf| !looked_up.iter().any(|name| page.ends_with(name));
    let pages = [repository("README.md")].into_iter().chain(book()).filter(is_read);
    let words: usize = pages.map(|page| read(&page).split_whitespace().count()).sum();
    assert!(words <= 14_000, "the book has {words} words: take something out");
}

#[test]
fn every_promise_names_tests_that_are_there() {
    let page = read(&repository("docs/reasons.md"));
    let promises = page.split("\n## ").find(|section| section.starts_with("Promises")).unwrap();
    let mut seen = 0;
    for tests in promises.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")) {
        let names = tests.1.split('`').skip(1).step_by(2);
        for name in names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_')) {
            let is_there = repository(&format!("tests/wire/{name}.rs")).exists();
            assert!(is_there, "docs/reasons.md: there is no tests/wire/{name}.rs");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen} names were seen");
}

#[test]
fn the_readme_is_for_deciding_and_starting() {
    let lines = read(&repository("README.md")).lines().count();
    assert!(lines <= 80, "README.md has {lines} lines: the rest belongs in docs/");
}
