//! Structured logs on standard error.
//!
//! Callers: the commands that run something.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogConfig, LogFormat};
use crate::telemetry::recent::Recent;

use super::terminal::Terminal;

/// A log that has been started.
pub(super) struct Log {
    /// What keeps the last warnings and errors, whatever the level.
    pub recent: Recent,
    /// Changes form and level.
    pub change: Box<dyn Fn(&LogConfig) + Send + Sync>,
}

/// Logging was set up before.
#[derive(Debug, thiserror::Error)]
#[error("logging cannot be set up: {0}")]
pub(super) struct LoggingError(String);

/// Starts logging. Per-request lines (target `access`) come at level `debug`; of the libraries only errors are shown,
/// and nothing of those that report every client that leaves early.
pub(super) fn start(config: LogConfig) -> Result<Log, LoggingError> {
    quiet_caught_panics();
    // The filter stays in place and is changed: a layer that brings a new one would not be registered.
    let (lines, form) = reload::Layer::new(lines(config.format));
    let (filtered, level) = reload::Layer::new(filter(config.level.as_str())?);
    let recent = Recent::default();
    let kept = recent.clone().with_filter(filter("warn")?);
    let started = tracing_subscriber::registry().with(lines.with_filter(filtered)).with(kept);
    started.try_init().map_err(|error| LoggingError(error.to_string()))?;
    let change = move |config: &LogConfig| {
        let changed = form.reload(self::lines(config.format)).map_err(|error| LoggingError(error.to_string()));
        let changed = changed.and(filter(config.level.as_str()));
        let changed = changed.and_then(|filter| level.reload(filter).map_err(|error| LoggingError(error.to_string())));
        if let Err(error) = changed {
            tracing::error!(%error, "the log could not be changed; its old settings stay in effect");
        }
    };
    Ok(Log { recent, change: Box::new(change) })
}

/// What writes lines.
fn lines(format: LogFormat) -> Box<dyn Layer<Registry> + Send + Sync> {
    let lines = fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.with_ansi(Terminal::of_stderr().colours).boxed(),
    }
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
