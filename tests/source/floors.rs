//! A test that the imports of the crate follow the table of floors in its documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// These stand outside the floors: the crate itself, and the program.
const OUTSIDE: [&str; 2] = ["lib", "main"];

/// Every file below a directory.
pub(crate) fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The Rust files below a directory.
pub(crate) fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    files(directory, found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
}

/// The room of a source file: the first part of its path.
pub(crate) fn room(path: &Path) -> String {
    let first = path.strip_prefix(ROOT).unwrap().components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// The floor of each room, as the crate's documentation says; the ground is floor -1.
pub(crate) fn floors() -> BTreeMap<String, i32> {
    let page = std::fs::read_to_string(Path::new(ROOT).join("lib.rs")).unwrap();
    let mut floors = BTreeMap::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let mut cells = line.split(" | ");
        let floor = match cells.next().unwrap() {
            "ground" => -1,
            number => match number.parse() {
                Ok(floor) => floor,
                Err(_) => continue,
            },
        };
        for room in cells.next().unwrap().split(", ") {
            floors.insert(room.trim_matches(['[', ']', '`']).to_owned(), floor);
        }
    }
    floors
}

/// The paths below the crate that a file imports from, in its code outside tests.
fn imports(text: &str) -> BTreeSet<Vec<String>> {
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    // A module of tests in the file ends its code; one in another file is a line.
    let is_test = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{');
    lines.truncate(lines.windows(2).position(is_test).unwrap_or(lines.len()));
    let lines = lines.into_iter();
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    let paths = paths.map(|path| {
        path.split("::")
            .map(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned())
    });
    paths.map(|path| path.take(2).collect::<Vec<_>>()).filter(|path| !path[0].is_empty()).collect()
}

/// The source files outside tests, with their text.
fn outside_tests() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    sources(Path::new(ROOT), &mut files);
    files.retain(|path| !path.strip_prefix(ROOT).unwrap().to_string_lossy().contains("tests"));
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn imports_point_down_and_the_documentation_names_every_room() {
    let floors = floors();
    let mut arrows: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
    for (path, text) in outside_tests() {
        let own = room(&path);
        if OUTSIDE.contains(&own.as_str()) {
            continue;
        }
        assert!(floors.contains_key(&own), "{}: the documentation in lib.rs gives {own} no floor", path.display());
        for to in imports(&text).into_iter().map(|import| import[0].clone()).filter(|to| *to != own) {
            arrows.insert((own.clone(), to), path.clone());
        }
    }
    assert!(arrows.len() > 30, "the imports are not found: {arrows:?}");
    for ((from, to), path) in &arrows {
        let (own, other) =
            (floors[from], *floors.get(to).unwrap_or_else(|| panic!("{}: crate::{to}?", path.display())));
        let back = arrows.contains_key(&(to.clone(), from.clone()));
        assert!(
            other < own || (other == own && !back),
            "{}: {from} (floor {own}) imports {to} (floor {other})",
            path.display()
        );
    }
}

#[test]
fn no_circle_crosses_a_room_inside_a_room() {
    for room in ["data", "edge", "server/admin"] {
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let parts: Vec<&str> = room.split('/').collect();
        for (path, text) in outside_tests() {
            let inside: Vec<String> = path
                .strip_prefix(ROOT)
                .unwrap()
                .iter()
                .map(|name| name.to_str().unwrap().trim_end_matches(".rs").to_owned())
                .collect();
            if inside[0] != parts[0] {
                continue;
            }
            let name = |path: &[String]| match parts.get(1) {
                // One room inside, and all else.
                Some(part) => if path.get(1).is_some_and(|name| name == part) { part } else { parts[0] }.to_owned(),
                None => path.get(1).cloned().unwrap_or_default(),
            };
            let own = name(&inside);
            let others = imports(&text).into_iter().filter(|import| import[0] == parts[0]).map(|import| name(&import));
            arrows.entry(own.clone()).or_default().extend(others.filter(|other| *other != own && !other.is_empty()));
        }
        assert!(arrows.values().any(|others| !others.is_empty()), "{room}: the imports are not found");
        // Who imports nobody that is left goes, until nobody can.
        while let Some(leaf) = arrows.iter().find(|(_, others)| others.is_empty()).map(|(room, _)| room.clone()) {
            arrows.remove(&leaf);
            for others in arrows.values_mut() {
                others.remove(&leaf);
            }
        }
        assert!(arrows.is_empty(), "a circle in {room}: {arrows:?}");
    }
}

#[test]
fn the_plan_is_one_page_and_so_is_the_first_page_of_each_room() {
    let plan = std::fs::read_to_string(Path::new(ROOT).join("lib.rs")).unwrap();
    assert!(plan.lines().count() <= 100, "lib.rs has {} lines", plan.lines().count());
    for room in floors().keys() {
        let text = std::fs::read_to_string(Path::new(ROOT).join(format!("{room}.rs"))).unwrap();
        let page: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(page.len() <= 40, "the first page of {room} has {} lines", page.len());
        assert!(page.iter().any(|line| line.contains("Callers: ")), "{room}: who calls it?");
    }
}

#[test]
fn each_question_is_answered_by_a_file_that_exists() {
    let plan = std::fs::read_to_string(Path::new(ROOT).join("lib.rs")).unwrap();
    let table = plan.split("//! | question | file |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with("//! | "));
    let files: Vec<&str> = rows.map(|row| row.split('`').rev().nth(1).unwrap()).collect();
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        assert!(Path::new(ROOT).join(file).is_file(), "{file} does not exist");
    }
}
