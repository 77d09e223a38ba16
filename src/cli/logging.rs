//! Structured logs on standard error.
//!
//! Callers: the commands that run something.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogConfig, LogFormat};

use super::terminal::Terminal;

/// Logging was set up before.
#[derive(Debug, thiserror::Error)]
#[error("logging cannot be set up: {0}")]
pub(super) struct LoggingError(String);

/// Starts logging. Per-request lines (target `access`) come at level `debug`; of libraries only errors are logged, and
/// not every client that leaves early.
pub(super) fn start(config: LogConfig) -> Result<(), LoggingError> {
    let level = config.level.as_str();
    let directives = format!("error,pingora_core=error,pingora_core::apps=off,grandstand={level},access={level}");
    let filter: Targets = directives.parse().map_err(|error| LoggingError(format!("{error}")))?;
    let builder = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(std::io::stderr);
    quiet_caught_panics();
    let started = match config.format {
        LogFormat::Json => builder.json().flatten_event(true).finish().with(filter).try_init(),
        LogFormat::Text => builder.with_ansi(Terminal::of_stderr().colours).finish().with(filter).try_init(),
    };
    started.map_err(|error| LoggingError(error.to_string()))
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
