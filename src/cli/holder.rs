//! Who has the data directory: this command, or a server that does what is asked of it.
//!
//! Callers: [`super::snapshot`], [`super::bundle`].

use std::time::{Duration, Instant};

use super::Failure;
use crate::app::core::AppError;
use crate::config::{Config, Secret};
use crate::store::{DataDir, OpenError};
use crate::versions::Versions;

/// How long to wait for another command to be done, or for a server that starts to say where it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who has it.
pub(super) enum Holder {
    /// This process, while the first value lives.
    Here(DataDir, Versions),
    /// A server with this admin listener.
    There {
        /// Its address, with the scheme.
        admin: String,
        /// What it wants to be shown.
        token: Option<Secret>,
    },
}

/// Nobody can be asked.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} is in use by process {1}: another command that takes its time, or a server that has not announced its admin \
     listener yet; try again when it is done"
)]
struct Silent(String, String);

impl Holder {
    /// Takes the directory with `open`, once another command is done with it, or finds the server that has it.
    ///
    /// # Errors
    /// When it cannot be opened, or its holder does not say who it is.
    pub(super) fn find(
        config: &Config,
        open: fn(&Config) -> Result<(DataDir, Versions), AppError>,
    ) -> Result<Self, Failure> {
        let began = Instant::now();
        loop {
            return match open(config) {
                Ok((data_dir, versions)) => Ok(Self::Here(data_dir, versions)),
                Err(AppError::Open(OpenError::Held { admin: Some(admin), .. })) => {
                    Ok(Self::There { admin: format!("http://{admin}"), token: config.admin.token.clone() })
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
