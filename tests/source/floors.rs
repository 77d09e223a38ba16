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

/// The other rooms that a file imports from, in its code outside tests.
fn imports(text: &str, own: &str) -> BTreeSet<String> {
    let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let names = lines.flat_map(|line| line.split("crate::").skip(1));
    let rooms = names.map(|name| name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
    rooms.filter(|room| !room.is_empty() && *room != own).map(str::to_owned).collect()
}

#[test]
fn imports_point_down_and_the_documentation_names_every_room() {
    let (floors, mut files) = (floors(), Vec::new());
    sources(Path::new(ROOT), &mut files);
    let mut arrows: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
    for path in files.iter().filter(|path| !path.to_string_lossy().contains("tests")) {
        let own = room(path);
        if OUTSIDE.contains(&own.as_str()) {
            continue;
        }
        assert!(floors.contains_key(&own), "{}: the documentation in lib.rs gives {own} no floor", path.display());
        for to in imports(&std::fs::read_to_string(path).unwrap(), &own) {
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
