//! What is written from the declarations of the keys: the page `docs/configuration.md`.
//!
//! `GRANDSTAND_GOLDEN=write cargo test --lib configuration_page` writes it.

use std::fmt::Write as _;
use std::path::Path;

use super::super::Config;
use super::super::declaration::{About, Declaration, DeclaresKeys as _, Reload};
use super::super::values::Written;
use super::Bounds;

/// The text before the tables.
const INTRODUCTION: &str = "\
<!-- Generated from src/config by a test. Do not edit: change src/config/keys.rs, then run
     GRANDSTAND_GOLDEN=write cargo test --locked --lib configuration_page -->

# Configuration

grandstand reads its configuration from three places. A later one wins:

1. a TOML file: `--config FILE` (`-c`). Without it, the file that `GRANDSTAND_CONFIG` names; without that, `./grandstand.toml`
   or `/etc/grandstand/grandstand.toml`, the first that exists, belongs to you or root, and is not writable by every user.
   Commands and the log say which file was found. `demo` reads only a file that `--config` names.
2. the environment: `GRANDSTAND__ORIGIN__URL=...` sets `origin.url`. Two underscores separate the levels.
3. the command line: `--set origin.url=...`. `--set` can be repeated. A value that is not TOML is a string.

[`config/`](../config) has a short file for each use: `mirror.toml`, `shield.toml`, `offline.toml` and `replica.toml`.

`grandstand check` prints the configuration in effect. If there are mistakes, it prints all of them, each with its key,
and exits with 64. An unknown key is a mistake. A variable that begins with `GRANDSTAND_` and is not read is a warning
(not those that Kubernetes sets for a Service), as is a value that is only an example, such as `example.org`.

* **Durations** are whole numbers with a unit: `d`, `h`, `m`, `s` or `ms`. They can be combined: `\"1h30m\"`.
* **Sizes** are a number of bytes, or a whole number with a unit: `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`, `TB`.
* **Secrets** (`admin.token`, a password in `rate_limit.store` or `origin.proxy`) are never printed. Prefer files of their own
  (`admin.token_file`, `rate_limit.store_password_file`) or the environment for them.

The column *use* says which [use](README.md#words) a key matters for. Other uses accept the key and ignore it.
";

/// The end of the page, before the keys that a reload changes.
const RELOAD: &str = "\n## Reload\n\n`SIGHUP` and `POST /reload` on the admin listener read the configuration again. \
    See [Run it as a service](service.md#reload). A reload changes these keys; all others need a restart:\n\n";

/// The rows of the page, each with its default.
fn rows() -> Vec<(About, String)> {
    let mut rows = Vec::new();
    for key in Config::own_declarations() {
        let written = (key.write)(&Config::default());
        let default = if let Written::Value(value) = written { format!("`{value}`") } else { "none".to_owned() };
        let default = key.about.values.default.map_or(default, str::to_owned);
        let (path, mut about) = (key.about.path(), key.about);
        match std::mem::take(&mut about.values.inner) {
            inner if inner.is_empty() => rows.push((about, default)),
            inner => {
                let path: &str = path.leak();
                rows.extend(inner.into_iter().map(|about| (About { section: path, ..about }, "none".to_owned())));
            }
        }
    }
    rows
}

/// Lines of documentation as one.
fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// The whole page.
fn page() -> String {
    let (mut page, mut reload, mut title) = (INTRODUCTION.to_owned(), RELOAD.to_owned(), None);
    for (about, default) in rows() {
        let section = about.section.split('.').next().unwrap();
        // Writing to a String cannot fail.
        if title != Some(section) {
            title = Some(section);
            let heading = if section.is_empty() { "Top level".to_owned() } else { format!("`[{section}]`") };
            let text = joined(about.section_text);
            let _ = write!(
                page,
                "\n## {heading}\n\n{text}\n\n| key | default | value | use | what it does |\n|---|---|---|---|---|\n"
            );
        }
        let uses = match about.uses {
            [_, _, _, _] => "all".to_owned(),
            uses => uses.iter().map(|usage| usage.as_str()).collect::<Vec<_>>().join(", "),
        };
        let (path, text) = (about.path(), joined(about.text));
        let _ = writeln!(page, "| `{path}` | {default} | {} | {uses} | {text} |", about.values.words);
        if !matches!(about.reload, Reload::Restart) {
            let _ = writeln!(reload, "* `{path}`");
        }
    }
    page + &reload
}

#[test]
fn the_configuration_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    if std::env::var("GRANDSTAND_GOLDEN").is_ok_and(|mode| mode == "write") {
        std::fs::write(&path, page()).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    let advice = "docs/configuration.md is out of date: GRANDSTAND_GOLDEN=write cargo test --lib configuration_page";
    for (line, (is, should_be)) in stored.lines().zip(page().lines()).enumerate() {
        assert_eq!(is, should_be, "line {}: {advice}", line + 1);
    }
    assert_eq!(stored, page(), "{advice}");
}

/// Sets one key to a TOML value; whether the program accepts it.
fn is_accepted(key: &str, value: &str) -> bool {
    let examined = Config::examine(None, std::iter::empty(), &[format!("{key}={value}")]);
    assert!(examined.is_set(key), "{key} is unknown");
    !examined.errors.iter().any(|error| error.key() == key)
}

#[test]
fn the_bounds_on_the_configuration_page_are_those_of_the_program() {
    let mut count = 0;
    for Declaration { about, .. } in Config::own_declarations() {
        let Some(Bounds { accepted, refused }) = Bounds::read(&about.values.words) else { continue };
        count += 1;
        for value in &accepted {
            assert!(is_accepted(&about.path(), value), "{}: {value} is refused", about.path());
        }
        for value in &refused {
            assert!(!is_accepted(&about.path(), value), "{}: {value} is accepted", about.path());
        }
    }
    assert!(count > 20, "{count} keys have bounds");
}
