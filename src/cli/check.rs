//! `grandstand check`: every mistake of a configuration, or the values in effect.
//!
//! Callers: [`super`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use crate::config::{ConfigIssue, Examined, Loaded, Use};
use crate::data::bundle::signature::{SignatureError, Signer};
use crate::data::store::DataDir;
use crate::server::admin::health::NOTHING_TO_SERVE;

use super::terminal::{say, say_json, tell};
use super::{EXIT_CONFIG, Failure, Sources, examine_to_serve};

/// Arguments of `grandstand check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Configuration file to check
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
    /// Print one JSON object: the mistakes, or the values
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let Sources { config, sets } = self.sources;
        let sources = Sources { config: self.file.or(config), sets }.told();
        let mut examined = examine_to_serve(&sources);
        check_publisher(&mut examined);
        check_places(&mut examined);
        let finished = examined.finish();
        if self.json {
            let findings = |all: &mut dyn Iterator<Item = &ConfigIssue>| all.map(shown).collect::<Vec<_>>();
            let (told, code) = match &finished {
                Ok(Loaded { config, warnings }) => {
                    let values: Value = toml::from_str(&config.describe())?;
                    let usage = config.usage().as_str();
                    let warnings = findings(&mut warnings.iter());
                    (json!({ "ok": true, "use": usage, "warnings": warnings, "values": values }), ExitCode::SUCCESS)
                }
                Err(errors) => {
                    (json!({ "ok": false, "errors": findings(&mut errors.iter()) }), ExitCode::from(EXIT_CONFIG))
                }
            };
            let mut told = told;
            told["file"] = json!(sources.config);
            say_json(told)?;
            return Ok(code);
        }
        match &sources.config {
            Some(path) => say(format!("# file: {}", path.display()))?,
            None => say("# file: none; defaults, environment and --set alone")?,
        }
        let Loaded { config, warnings } = finished.map_err(Failure::Config)?;
        for warning in warnings {
            tell(format!("warning: {warning}"));
        }
        if config.usage() == Use::Offline && !DataDir::has_snapshot(&config.data_dir) {
            tell(format!("warning: {NOTHING_TO_SERVE}: set origin.url, or run `grandstand bundle import FILE`"));
        }
        say(format!("# use: {}\n{}", config.usage().as_str(), config.describe()))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn shown(issue: &ConfigIssue) -> Value {
    let place = issue.source().to_string();
    json!({ "key": issue.key(), "place": place.trim_end_matches(": "), "problem": issue.problem() })
}

/// What a server finds out when it starts: whether it can have its files where they are wanted.
fn check_places(examined: &mut Examined) {
    if let Err(error) = DataDir::expect_readable(&examined.config.data_dir.clone()) {
        examined.fail("data_dir", &format!("cannot be used: {error}"));
    }
    let Some(file) = examined.config.access.file.clone() else { return };
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        examined.fail("log.access_file", &format!("there is no directory {}: make it", directory.display()));
    } else if file.is_dir() {
        examined.fail("log.access_file", &"is a directory: name a file");
    }
}

/// What a server finds out only when it publishes: whether it can sign.
fn check_publisher(examined: &mut Examined) {
    let publish = examined.config.publish.clone();
    if let (Some(_), Some(key)) = (&publish.url, &publish.sign_key) {
        match Signer::needs_password(key) {
            // It was reported already.
            Err(SignatureError::Io { .. }) => {}
            Err(error) => examined.fail("publish.sign_key", &error),
            Ok(true) if publish.sign_password_file.is_none() => {
                examined.fail("publish.sign_key", &"needs a password: set publish.sign_password_file");
            }
            Ok(_) => {}
        }
    }
}
