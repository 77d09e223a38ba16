//! The holder of the data directory: this command, or a server that executes commands.
//!
//! Callers: [`super::snapshot`], [`super::bundle`].

use std::time::{Duration, Instant};

use super::Failure;
use crate::app::error::AppError;
use crate::config::{Config, Secret};
use crate::snapshots::Snapshots;
use crate::store::{DataDir, OpenError};

/// How long to wait for another command to end, or for a starting server to announce its admin listener.
const PATIENCE: Duration = Duration::from_secs(10);

/// The holder.
pub(super) enum Holder {
    /// This process, while the first value lives.
    Here(DataDir, Snapshots),
    /// A server with this admin listener.
    There {
        /// Its address, with the scheme.
        admin: String,
        /// Its token.
        token: Option<Secret>,
    },
}

/// The holder has no admin listener.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} is locked by process {1} (another grandstand command, or a server that is still starting); try again later"
)]
struct Silent(String, String);

impl Holder {
    /// Opens the directory with `open` once another command is done, or finds the server that holds it.
    ///
    /// # Errors
    /// When it cannot be opened, or its holder does not announce itself.
    pub(super) fn find(
        config: &Config,
        open: fn(&Config) -> Result<(DataDir, Snapshots), AppError>,
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        loop {
            return match open(config) {
                Ok((data_dir, snapshots)) => Ok(Self::Here(data_dir, snapshots)),
                Err(AppError::Open(OpenError::Held { admin: Some(admin), .. })) => {
                    Ok(Self::There { admin: format!("http://{admin}"), token: config.admin.secret().cloned() })
                }
                Err(AppError::Open(OpenError::Held { untrusted: None, .. })) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
                Err(AppError::Open(OpenError::Held { path, pid, untrusted: None, .. })) => {
                    let pid = pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
                    Err(Silent(path.display().to_string(), pid).into())
                }
                Err(error) => Err(error.into()),
            };
        }
    }
}
