//! `[log]`: form and detail of the log, and the access log.
//!
//! Not the subscriber. Callers: `resolve` reads it, `cli` and `app` act on it.

use std::path::PathBuf;

use super::describe::Toml;
use super::parse::{boolean, choice, path};
use super::section::Section;

/// `[log]`, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// The form of a line.
    pub format: LogFormat,
    /// The least severe level that is logged.
    pub level: LogLevel,
}

/// The access log in `[log]`: one line for each request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessConfig {
    /// Whether it is written.
    pub enabled: bool,
    /// Its file. `None`: standard error.
    pub file: Option<PathBuf>,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Severity of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Unexpected failures.
    Error,
    /// Something is wrong and was dealt with.
    Warn,
    /// Events.
    Info,
    /// Details of events, and each request.
    Debug,
    /// Everything.
    Trace,
}

const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

const LEVELS: [(&str, LogLevel); 5] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

impl LogFormat {
    /// The word for it in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl LogLevel {
    /// The word for it in the configuration; also a directive of `tracing`'s filter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: LogLevel::Info }
    }
}

impl LogConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            format: section.field("format", default.format, choice(&FORMATS)),
            level: section.field("level", default.level, choice(&LEVELS)),
        }
    }

    pub(super) fn write(self, out: &mut Toml) {
        out.table("log");
        out.pair("format", self.format.as_str());
        out.pair("level", self.level.as_str());
    }
}

impl AccessConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self { enabled: section.field("access", false, boolean), file: section.optional("access_file", path) }
    }

    pub(super) fn write(&self, out: &mut Toml) {
        out.pair("access", self.enabled);
        match &self.file {
            None => out.absent("access_file", "absent: standard error"),
            Some(path) => out.pair("access_file", path.to_string_lossy().as_ref()),
        }
    }
}
