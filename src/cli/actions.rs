//! `grandstand reload`, `refresh` and `purge`: actions of a running server, through its admin listener.
//!
//! Callers: [`super`].

use std::process::ExitCode;

use clap::Args;
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize as _;
use serde_json::Value;

use crate::config::UNCHANGED;
use crate::server::admin::facts::ReloadFacts;
use crate::words::counted;

use super::target::ServerArgs;
use super::terminal::{say, say_json, tell};
use super::{Failure, plain};

/// Arguments of `grandstand reload`, and of the other actions.
#[derive(Debug, Args)]
pub(super) struct ServerCommand {
    #[command(flatten)]
    server: ServerArgs,
    /// Print the server's answer as one JSON object
    #[arg(long)]
    json: bool,
}

/// Arguments of `grandstand purge`.
#[derive(Debug, Args)]
pub(super) struct Purge {
    #[command(flatten)]
    what: Purged,
    #[command(flatten)]
    command: ServerCommand,
}

/// Which answers are forgotten.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Purged {
    /// Path whose answers are forgotten, for example /api/sports.json
    ///
    /// All answers at it are forgotten, whatever their query.
    #[arg(value_parser = absolute_path)]
    path: Option<String>,
    /// Forget every cached answer
    #[arg(long)]
    all: bool,
}

/// A path that begins with a slash. The server refuses one with a query.
fn absolute_path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        return Ok(text.to_owned());
    }
    let path = text.split_once("://").map_or(text, |(_, url)| url.split_once('/').map_or("", |(_, path)| path));
    Err(format!("a path begins with a slash; write /{}", path.split('?').next().unwrap_or_default()))
}

/// Arguments of `grandstand refresh`.
#[derive(Debug, Args)]
pub(super) struct Refresh {
    /// On a replica, forget the number of the last head: the next head is taken, whatever its number
    ///
    /// For a publisher that began its numbers again.
    #[arg(long)]
    forget_sequence: bool,
    #[command(flatten)]
    command: ServerCommand,
}

impl Refresh {
    /// Has the server ask its origin, or its publisher, for changes.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let path = if self.forget_sequence { "/refresh?forget=sequence" } else { "/refresh" };
        self.command.perform(Method::POST, path, |_| {
            "the server asks as soon as it may; `grandstand status` shows what it finds".to_owned()
        })
    }
}

impl ServerCommand {
    pub(super) fn reload(&self) -> Result<ExitCode, Failure> {
        if self.server.sets_more_than_an_address() {
            tell(
                "warning: --set does not reach the server, which reads its own file, environment and command line again",
            );
        }
        self.perform(Method::POST, "/reload", |answer| {
            let ReloadFacts { applied, needs_restart, .. } = ReloadFacts::deserialize(answer).unwrap_or_default();
            let lines = [("reloaded", applied), ("needs a restart", needs_restart)].into_iter();
            let lines = lines.filter(|(_, keys)| !keys.is_empty());
            let lines: Vec<String> = lines.map(|(what, keys)| format!("{what}: {}", keys.join(", "))).collect();
            if lines.is_empty() { UNCHANGED.to_owned() } else { lines.join("\n") }
        })
    }

    fn perform(&self, method: Method, path: &str, told: impl Fn(&Value) -> String) -> Result<ExitCode, Failure> {
        let server = self.server.at_least_listening(path != "/reload")?.expected()?;
        let answer = server.json(method, path)?;
        if self.json {
            say_json(answer)?;
        } else {
            say(told(&answer).lines().map(plain).collect::<Vec<_>>().join("\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Purge {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let query =
            self.what.path.as_ref().map(|path| format!("?path={}", utf8_percent_encode(path, NON_ALPHANUMERIC)));
        let path = format!("/cache{}", query.unwrap_or_default());
        self.command.perform(Method::DELETE, &path, |answer| {
            format!("purged: {}", counted(answer["purged"].as_u64().unwrap_or(0), "resource"))
        })
    }
}
