//! `grandstand bundle import`: a bundle's snapshot becomes the newest version, in the server that holds the data directory or
//! in the directory itself; and `serve --bundle`.
//!
//! Everything is verified before anything is touched. Callers: [`super`], [`crate::cli`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::{Sources, opened, remote, signed, trusted};
use crate::admin::bundle::{learn, tidy};
use crate::app::core::{AppError, Core, open_versions_anew};
use crate::bundle::trust::Opened;
use crate::cli::{Failure, load, logging};
use crate::clock::{Clock, WallTime};
use crate::config::{Config, LogConfig, LogLevel, Use};
use crate::semantics::freshness::age_seconds;
use crate::store::OpenError;

/// Data older than this is worth a word, in seconds.
const OLD: u32 = 30 * 86_400;

/// Arguments of `grandstand bundle import`.
#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    sources: Sources,
    /// The bundle; its signature, if there is one, is FILE.minisig
    file: PathBuf,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
enum ImportFailure {
    #[error("a shield keeps no snapshots: leave mirror.enabled = true")]
    Shield,
}

impl Import {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = load(&self.sources)?.config;
        logging::start(LogConfig { level: LogLevel::Warn, ..config.log })?;
        if config.usage() == Use::Shield {
            return Err(ImportFailure::Shield.into());
        }
        let bundle = opened(&self.file, &trusted(&config)?)?;
        let confirmed = WallTime::from_millis(bundle.bundle.manifest().confirmed_ms);
        let age = age_seconds(Clock::system().now_wall(), confirmed);
        if age > OLD {
            eprintln!("warning: the bundle's data is {} days old, confirmed at {confirmed}", age / 86_400);
        }
        let told = match open_versions_anew(&config) {
            Ok((_data_dir, versions)) => {
                let now_ms = Clock::system().now_wall().as_millis();
                let imported = versions.import_bundle(&bundle.bundle, &bundle.file, now_ms, &|| {})?;
                let tidied = versions.tidy().and_then(|()| versions.store().forget_vanished());
                if let Err(error) = tidied {
                    eprintln!("warning: what is no longer needed could not be removed: {error}");
                }
                Told {
                    snapshot: imported.snapshot.to_string(),
                    listings: imported.listings as u64,
                    before: imported.before.map(|before| before.to_string()),
                    is_older: imported.is_older,
                    is_served: imported.is_served,
                }
            }
            Err(AppError::Open(OpenError::Held { admin: Some(admin), .. })) => {
                let token = config.admin.token.as_ref();
                Told::of(&remote::import(&format!("http://{admin}"), token, &self.file, &bundle.file)?)
            }
            Err(error) => return Err(error.into()),
        };
        told.print(&self.file, &signed(&bundle.voucher));
        Ok(ExitCode::SUCCESS)
    }
}

/// What came of it.
struct Told {
    snapshot: String,
    listings: u64,
    before: Option<String>,
    is_older: bool,
    is_served: bool,
}

impl Told {
    /// What a server tells.
    fn of(value: &Value) -> Self {
        Self {
            snapshot: value["imported"].as_str().unwrap_or("-").to_owned(),
            listings: value["listings"].as_u64().unwrap_or(0),
            before: value["before"].as_str().map(str::to_owned),
            is_older: value["older"] == true,
            is_served: value["served"] == true,
        }
    }

    fn print(&self, file: &Path, signed: &str) {
        let Self { snapshot, listings, before, is_older, is_served } = self;
        println!("imported snapshot {snapshot} with {listings} listings from {}", file.display());
        println!("{signed}");
        if let Some(before) = before.as_ref().filter(|before| *before != snapshot) {
            println!("the one before, {before}, stays kept: `grandstand snapshot rollback {before}` serves it again");
        }
        if *is_older {
            eprintln!("warning: what was here before was confirmed for a later instant");
        }
        if !is_served {
            println!("it waits: a rollback pins another one until `grandstand snapshot release`");
        }
    }
}

/// Takes a bundle in before a server starts, unless what is there is as new.
pub fn before_serving(config: &Config, core: &Core, path: &Path) -> Result<(), Failure> {
    let Some(versions) = core.versions.as_ref().filter(|_| config.usage() != Use::Shield) else {
        return Err(ImportFailure::Shield.into());
    };
    let Opened { file, bundle, voucher } = opened(path, &trusted(config)?)?;
    if versions.is_ahead_of(&bundle)? {
        let bundled = &bundle.manifest().snapshot;
        tracing::info!(%bundled, "the data directory is as new as the bundle; it is served as it is");
        return Ok(());
    }
    let learn = || core.details.iter().for_each(|details| learn(details, &bundle));
    let imported = versions.import_bundle(&bundle, &file, core.clock.now_wall().as_millis(), &learn)?;
    tidy(versions, core.details.as_ref());
    tracing::info!(snapshot = %imported.snapshot, listings = imported.listings, voucher = signed(&voucher), "imported");
    Ok(())
}
