//! The access log, from the configuration.
//!
//! Callers: [`super::serve`].

use crate::config::{Config, LogFormat};
use crate::telemetry::access::AccessLog;

use super::error::AppError;

/// The access log; `None`: it is off.
///
/// # Errors
/// When its file cannot be opened.
pub(super) fn open(config: &Config) -> Result<Option<AccessLog>, AppError> {
    let access = &config.access;
    if !access.enabled {
        return Ok(None);
    }
    let path =
        || access.file.as_ref().map_or_else(|| "on standard error".to_owned(), |path| path.display().to_string());
    let opened = AccessLog::open(access.file.as_deref(), config.log.format == LogFormat::Json);
    opened.map(Some).map_err(|source| AppError::AccessLog { path: path(), source })
}
