//! Structured logs on standard error.
//!
//! Callers: the commands that run something.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogConfig, LogFormat};
use crate::telemetry::recent::Recent;

use super::terminal::Terminal;

/// Logging was set up before.
#[derive(Debug, thiserror::Error)]
#[error("logging cannot be set up: {0}")]
pub(super) struct LoggingError(String);

/// Starts logging. Per-request lines (target `access`) come at level `debug`; of the libraries only errors are shown,
/// and nothing of those that report every client that leaves early. Returns what keeps the last warnings and errors,
/// whatever the level.
pub(super) fn start(config: LogConfig) -> Result<Recent, LoggingError> {
    let lines = fmt::layer().with_writer(std::io::stderr);
    quiet_caught_panics();
    let lines = match config.format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.with_ansi(Terminal::of_stderr().colours).boxed(),
    };
    let recent = Recent::default();
    let kept = recent.clone().with_filter(filter("warn")?);
    let started = tracing_subscriber::registry().with(lines.with_filter(filter(config.level.as_str())?)).with(kept);
    started.try_init().map_err(|error| LoggingError(error.to_string()))?;
    Ok(recent)
}

fn filter(level: &str) -> Result<Targets, LoggingError> {
    let directives = format!("error,pingora_core=error,pingora_core::apps=off,grandstand={level},access={level}");
    directives.parse().map_err(|error: tracing_subscriber::filter::ParseError| LoggingError(error.to_string()))
}

/// Keeps panics that the store catches off standard error: they are reported as a damaged file.
fn quiet_caught_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !crate::store::catches_panics() {
            print(panic);
        }
    }));
}
