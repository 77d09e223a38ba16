//! The page `docs/configuration.md`, rendered from the table of keys and from the defaults in the code.
//!
//! Not the reading of keys. A test fails when the page is out of date, or when a key is missing in the table;
//! `GRANDSTAND_GOLDEN=write cargo test --lib configuration_page` writes the page. Callers: the tests below.

mod keys;
mod live;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Config, Use};
use keys::{Key, SECTIONS, Values, keys};

/// The text before the tables.
const INTRODUCTION: &str = "\
<!-- Generated from src/config by a test. Do not edit: change src/config/reference/keys.rs, then run
     GRANDSTAND_GOLDEN=write cargo test --locked --lib configuration_page -->

# Configuration

grandstand reads its configuration from three places. A later one wins:

1. a TOML file: `--config FILE`. Without `--config` no file is read.
2. the environment: `GRANDSTAND__ORIGIN__URL=...` sets `origin.url`. Two underscores separate the levels.
3. the command line: `--set origin.url=...`. `--set` can be repeated. A value that is not TOML is a string.

[`config/`](../config) has one commented file for each use: `mirror.toml`, `shield.toml`, `offline.toml` and
`replica.toml`.

`grandstand check` prints the configuration in effect. If there are mistakes, it prints all of them, each with its key,
and exits with 64. An unknown key is a mistake.

* **Durations** are whole numbers with a unit: `d`, `h`, `m`, `s` or `ms`. They can be combined: `\"1h30m\"`.
* **Sizes** are a number of bytes, or a whole number with a unit: `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`, `TB`.
* **Secrets** (`admin.token`, a password in `rate_limit.store`) are never printed. Prefer the environment for them.

The column *use* says which [use](README.md#words) a key matters for. Other uses accept the key and ignore it.
";

/// The whole page.
fn page() -> String {
    let defaults = defaults();
    let mut page = INTRODUCTION.to_owned();
    for (section, about) in SECTIONS {
        let title = if section.is_empty() { "Top level".to_owned() } else { format!("`[{section}]`") };
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "\n## {title}\n\n{about}\n\n| key | default | value | use | what it does |\n|---|---|---|---|---|\n"
        );
        for key in keys().filter(|key| key.section() == section) {
            let default = key.default.map_or_else(|| default_of(&defaults, key), str::to_owned);
            let _ = writeln!(
                page,
                "| `{}` | {default} | {} | {} | {} |",
                key.name,
                value_text(&key.values),
                uses_text(key.uses),
                key.meaning
            );
        }
    }
    page + &live::section()
}

/// Every default by dotted key, as the program writes it.
fn defaults() -> BTreeMap<String, toml::Value> {
    let text = Config::default().describe();
    let root: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut flat = BTreeMap::new();
    for (key, value) in root {
        match value {
            toml::Value::Table(section) => {
                flat.extend(section.into_iter().map(|(name, value)| (format!("{key}.{name}"), value)));
            }
            value => drop(flat.insert(key, value)),
        }
    }
    flat
}

fn default_of(defaults: &BTreeMap<String, toml::Value>, key: &Key) -> String {
    defaults.get(key.name).map_or_else(|| "none".to_owned(), |value| format!("`{value}`"))
}

fn value_text(values: &Values) -> String {
    match values {
        Values::Duration(least, most) => format!("duration, {least} to {most}"),
        Values::Size(least, most) => format!("size, {least} to {most}"),
        Values::Whole(least, most) => format!("whole number, {least} to {}", grouped(*most)),
        Values::Words(text) => (*text).to_owned(),
    }
}

/// A number with commas between thousands.
fn grouped(number: u32) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

fn uses_text(uses: &[Use]) -> String {
    if uses.len() == 4 {
        return "all".to_owned();
    }
    uses.iter().map(|usage| usage.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::super::units::{duration_text, size_text};
    use super::*;

    /// Sets one key to a TOML value; whether the program accepts it.
    fn is_accepted(key: &str, value: &str) -> bool {
        let examined = Config::examine(None, std::iter::empty(), &[format!("{key}={value}")]);
        assert!(examined.is_set(key), "{key} is unknown");
        !examined.errors.iter().any(|error| error.key() == key)
    }

    fn milliseconds(text: &str) -> u64 {
        let config = Config::from_text(&format!("mirror.changes_for = {text:?}")).unwrap().config;
        u64::try_from(config.mirror.changes_for.as_millis()).unwrap()
    }

    fn bytes(text: &str) -> u64 {
        Config::from_text(&format!("cache.max_bytes = {text:?}")).map_or_else(
            |_| Config::from_text(&format!("bundle.max_size = {text:?}")).unwrap().config.bundle.max_size,
            |loaded| loaded.config.cache.max_bytes,
        )
    }

    #[test]
    fn the_configuration_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
        if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
            std::fs::write(&path, page()).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap();
        let advice =
            "docs/configuration.md is out of date: GRANDSTAND_GOLDEN=write cargo test --lib configuration_page";
        for (line, (is, should_be)) in stored.lines().zip(page().lines()).enumerate() {
            assert_eq!(is, should_be, "line {}: {advice}", line + 1);
        }
        assert_eq!(stored, page(), "{advice}");
    }

    #[test]
    fn the_configuration_page_has_every_key_once_and_no_other() {
        let nested = "rate_limit.override=[{network=\"10.0.0.0/8\", requests_per_minute=1}]".to_owned();
        let examined = Config::examine(None, std::iter::empty(), &[nested]);
        let asked: BTreeSet<String> = examined.places.keys().map(|key| key.replace("[0]", "")).collect();
        let is_section = |key: &&String| asked.iter().any(|other| other.starts_with(&format!("{key}.")));
        let read: Vec<&str> = asked.iter().filter(|key| !is_section(key)).map(String::as_str).collect();
        let mut told: Vec<&str> = keys().map(|key| key.name).collect();
        told.sort_unstable();
        assert_eq!(told, read, "keys in the table (left) and keys that the program reads (right)");
        for key in keys() {
            assert!(SECTIONS.iter().any(|(section, _)| *section == key.section()), "{} has no section", key.name);
        }
    }

    #[test]
    fn the_bounds_on_the_configuration_page_are_those_of_the_program() {
        for key in keys() {
            // An element of a list cannot be set alone.
            if key.name.starts_with("rate_limit.override.") {
                continue;
            }
            let (least, most, below, above) = match key.values {
                Values::Duration(least, most) => {
                    let text = |millis| format!("{:?}", duration_text(std::time::Duration::from_millis(millis)));
                    let below = milliseconds(least).checked_sub(1).map(text);
                    (format!("{least:?}"), format!("{most:?}"), below, text(milliseconds(most) + 1))
                }
                Values::Size(least, most) => {
                    let text = |bytes| format!("{:?}", size_text(bytes));
                    let below = bytes(least).checked_sub(1).map(text);
                    (format!("{least:?}"), format!("{most:?}"), below, text(bytes(most) + 1))
                }
                Values::Whole(least, most) => {
                    let below = Some((i64::from(least) - 1).to_string());
                    (least.to_string(), most.to_string(), below, (u64::from(most) + 1).to_string())
                }
                Values::Words(_) => continue,
            };
            assert!(is_accepted(key.name, &least) && is_accepted(key.name, &most), "{}: {least} to {most}", key.name);
            assert!(!is_accepted(key.name, &above), "{}: {above} is accepted", key.name);
            assert!(below.is_none_or(|below| !is_accepted(key.name, &below)), "{}: less than {least}", key.name);
        }
    }
}
