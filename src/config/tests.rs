//! Tests of the configuration as a whole; single values are tested beside their readers.

mod fleet;
mod invalid;
mod reference;
mod reload;
mod shipped;
mod sources;

use super::declaration::{Declaration, DeclaresKeys as _};
use super::units::{duration_text, parse_duration, parse_size, size_text};
use super::{Config, ConfigErrors, Loaded};

impl Config {
    /// Loads the configuration from TOML text alone: no file, no environment.
    pub(crate) fn from_text(text: &str) -> Result<Loaded, ConfigErrors> {
        let file = Some((std::path::Path::new("configuration"), Ok(text.to_owned())));
        super::checks::resolve(super::sources::merge(file, std::iter::empty(), &[])).finish()
    }
}

/// The problems of a configuration given as text, one line each.
fn problems(text: &str) -> Vec<String> {
    match Config::from_text(text) {
        Ok(_) => Vec::new(),
        Err(errors) => lines(&errors),
    }
}

fn lines(errors: &ConfigErrors) -> Vec<String> {
    errors.to_string().lines().map(str::to_owned).collect()
}

type Number = fn(&str) -> u64;
type Text = fn(u64) -> String;

/// Values as TOML from the words for them: those at the bounds, and those just beyond.
struct Bounds {
    accepted: [String; 2],
    refused: Vec<String>,
}

impl Bounds {
    fn read(words: &str) -> Option<Self> {
        let (form, bounds) = words.split_once(", ")?;
        let (least, most) = bounds.split_once(" to ")?;
        let (number, text): (Number, Text) = match form {
            "duration" => (
                |text| u64::try_from(parse_duration(text).unwrap().as_millis()).unwrap(),
                |millis| format!("{:?}", duration_text(std::time::Duration::from_millis(millis))),
            ),
            "size" => (|text| parse_size(text).unwrap(), |bytes| format!("{:?}", size_text(bytes))),
            "whole number" => (|text| text.replace(',', "").parse().unwrap(), |number| number.to_string()),
            _ => return None,
        };
        let (least, most) = (number(least), number(most));
        let refused = least.checked_sub(1).into_iter().chain([most + 1]).map(text).collect();
        Some(Self { accepted: [text(least), text(most)], refused })
    }
}

/// Settings of sections whose keys need each other.
const NEEDED: [&str; 9] = [
    "tls.listen=[\"127.0.0.1:7000\"]",
    "tls.cert=\"a.pem\"",
    "tls.key=\"a.key\"",
    "origin.url=\"http://o.test\"",
    "rate_limit.store=\"redis://127.0.0.1\"",
    "client_ip.trusted_proxies=[\"10.1.0.0/16\"]",
    "publish.url=\"s3://published/a\"",
    "publish.sign_key=\"minisign.key\"",
    "replica.url=\"s3://followed/a\"",
];

const ANY: [&str; 18] = [
    "true",
    "false",
    "0.5",
    "\"http://other.test\"",
    "\"http://third.test\"",
    "\"http://tile.test/{z}/{x}/{y}\"",
    "\"127.0.0.1:7001\"",
    "\"10.0.0.0/8\"",
    "\"127.0.0.1:0\"",
    "\"redis://127.0.0.2\"",
    "\"s3://other/b\"",
    "\"s3://third/b\"",
    "\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"",
    "[]",
    "{region=\"x\"}",
    "{timeout=\"1s\"}",
    "\"tests/fixtures/admin-token\"",
    "[{network=\"10.0.0.0/8\", requests_per_minute=1}]",
];

fn set(sets: &[String]) -> Result<Config, ConfigErrors> {
    Config::load(None, std::iter::empty(), sets).map(|loaded| loaded.config)
}

/// `sets`, and a value for a key that makes it differ from `before`.
fn with_another(key: &Declaration<Config>, before: &Config, sets: &[String]) -> (Vec<String>, Config) {
    let (path, words) = (key.about.path(), &key.about.values.words);
    let bounds = Bounds::read(words).into_iter().flat_map(|bounds| bounds.accepted);
    let quoted = words.split('`').skip(1).step_by(2).map(str::to_owned);
    let found = bounds.chain(ANY.map(str::to_owned)).chain(quoted).find_map(|value| {
        let sets = [sets, &[format!("{path}={value}")]].concat();
        let config = set(&sets).ok()?;
        (key.differs)(before, &config).then_some((sets, config))
    });
    found.unwrap_or_else(|| panic!("ANY has no other value for {path}"))
}

fn needed() -> Vec<String> {
    NEEDED.map(str::to_owned).into()
}

fn declarations() -> Vec<Declaration<Config>> {
    Config::own_declarations()
}
