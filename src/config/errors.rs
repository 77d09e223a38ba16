//! Mistakes and warnings of a configuration, each with its key and its place.
//!
//! Not the rules, which are with each section. Callers: every file of `config`, and the command line.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueSource {
    File {
        /// The path as given.
        path: Arc<Path>,
        /// The line, counted from 1; 0 when the file as a whole is meant.
        line: usize,
    },
    /// In an environment variable, by its name.
    Environment(Arc<str>),
    Set,
    /// Nowhere: the value is a default, or missing.
    Default,
}

impl fmt::Display for ValueSource {
    /// `path:line: `, `NAME: ` or `--set: `; nothing for a default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: 0 } => write!(f, "{}: ", path.display()),
            Self::File { path, line } => write!(f, "{}:{line}: ", path.display()),
            Self::Environment(name) => write!(f, "{name}: "),
            Self::Set => f.write_str("--set: "),
            Self::Default => Ok(()),
        }
    }
}

/// An error or a warning about the configuration. Always one line, never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigIssue {
    source: ValueSource,
    key: String,
    problem: String,
}

impl ConfigIssue {
    pub(super) fn new(source: ValueSource, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { source, key: key.into(), problem: problem.into() }
    }

    pub fn about(key: &str, problem: &impl ToString) -> Self {
        Self::new(ValueSource::Default, key, problem.to_string())
    }

    pub fn source(&self) -> &ValueSource {
        &self.source
    }

    /// The dotted key, such as `rate_limit.override[0].network`; empty when the source as a whole is meant.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The offending value and what is expected instead.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for ConfigIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key_end = if self.key.is_empty() { "" } else { ": " };
        let line = format!("{}{}{key_end}{}", self.source, self.key, self.problem);
        // A path or a variable's name may have any characters; a message is one line.
        line.chars().try_for_each(
            |c| {
                if c.is_control() { write!(f, "{}", c.escape_default()) } else { f.write_char(c) }
            },
        )
    }
}

/// All mistakes in a configuration; never empty. Exit code 64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigIssue>);

impl ConfigErrors {
    /// `Ok` without issues; else the issues in the order of the file, then of the environment, then of `--set`.
    pub fn none_or(mut issues: Vec<ConfigIssue>) -> Result<(), Self> {
        if issues.is_empty() {
            return Ok(());
        }
        issues.sort_by(|a, b| a.source.cmp(&b.source));
        Err(Self(issues))
    }

    /// The issues, at least one.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigIssue> {
        self.0.iter()
    }
}

impl From<ConfigIssue> for ConfigErrors {
    fn from(issue: ConfigIssue) -> Self {
        Self(vec![issue])
    }
}

impl fmt::Display for ConfigErrors {
    /// One issue per line, no line break at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{issue}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// `text` quoted, on one line, cut after 80 characters.
pub(super) fn quoted(text: &str) -> String {
    if text.chars().nth(80).is_none() {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(77).collect();
    format!("{:?}", head + "...")
}
