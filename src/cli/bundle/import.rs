//! `grandstand bundle import` and `serve --bundle`: a bundle's snapshot becomes the newest one, through the server
//! that holds the data directory or directly.
//!
//! Everything is verified before the first change. Callers: [`super`], [`crate::cli`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use url::Url;

use super::{Sources, for_scripts, opened, remote, signature, signed, trusted};
use crate::admin::bundle::{learn, tidy};
use crate::app::core::{Core, open_snapshots_anew};
use crate::bundle::Manifest;
use crate::bundle::signature::Opened;
use crate::cli::holder::Holder;
use crate::cli::{Failure, load_for_snapshots, logging};
use crate::clock::{Clock, WallTime};
use crate::config::{Config, LogConfig, LogLevel, Use};
use crate::semantics::freshness::{age_seconds, is_from_the_future};
use crate::words::counted;

/// Data older than this is worth a word, in seconds.
const OLD: u32 = 30 * 86_400;

/// Arguments of `grandstand bundle import`.
#[derive(Debug, Args)]
pub(super) struct Import {
    #[command(flatten)]
    sources: Sources,
    /// Import even if newer data was imported before
    ///
    /// Later imports are compared with this bundle, and no longer with the newer data. A mirror still refuses data
    /// older than its own.
    #[arg(long)]
    allow_older: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Bundle file; its signature, if there is one, is FILE.minisig
    file: PathBuf,
}

impl Import {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = load_for_snapshots(&self.sources)?;
        logging::start(LogConfig { level: LogLevel::Warn, ..config.log })?;
        let bundle = opened(&self.file, &trusted(&config)?, config.bundle.max_size)?;
        for doubt in doubts(&config, bundle.bundle.manifest(), Clock::system().now_wall()) {
            eprintln!("warning: {doubt}");
        }
        let told = match Holder::find(&config, open_snapshots_anew)? {
            Holder::Here(_data_dir, snapshots) => {
                let now_ms = Clock::system().now_wall().as_millis();
                let imported =
                    snapshots.import_bundle(&bundle.bundle, &bundle.file, now_ms, self.allow_older, &|| {})?;
                let tidied = snapshots.tidy().and_then(|()| snapshots.store().forget_vanished());
                if let Err(error) = tidied {
                    eprintln!("warning: data that is no longer needed could not be removed: {error}");
                }
                Told {
                    snapshot: imported.snapshot.to_string(),
                    listings: imported.listings as u64,
                    before: imported.before.map(|before| before.to_string()),
                    is_older: imported.is_older,
                    is_served: imported.is_served,
                }
            }
            Holder::There { admin, token } => {
                let Import { file, allow_older, .. } = self;
                Told::of(&remote::import(&admin, token.as_ref(), file, &bundle.file, *allow_older)?)
            }
        };
        if self.json {
            let told = told.json(for_scripts::told(
                &self.file,
                "imported",
                bundle.bundle.manifest(),
                &signature(&Ok(bundle.voucher)),
            )?);
            println!("{told}");
            return Ok(ExitCode::SUCCESS);
        }
        told.print(&self.file, bundle.bundle.manifest().details.present, &signed(&bundle.voucher));
        Ok(ExitCode::SUCCESS)
    }
}

/// Warnings about a bundle.
fn doubts(config: &Config, manifest: &Manifest, now: WallTime) -> Vec<String> {
    let mut doubts = Vec::new();
    let confirmed = WallTime::from_millis(manifest.confirmed_ms);
    let age = age_seconds(now, confirmed);
    if age > OLD {
        doubts.push(format!("the bundle's data is {} days old (confirmed at {confirmed})", age / 86_400));
    }
    if is_from_the_future(confirmed, now) {
        doubts.push(format!(
            "the bundle's data is confirmed at {confirmed}, but the clock here shows {now}; check both clocks"
        ));
    }
    let theirs = manifest.origin.as_ref().and_then(|origin| Url::parse(origin).ok());
    let of_url = |url: &str| Url::parse(url).ok();
    if let (Some(theirs), Some(ours)) = (theirs, config.origin.url.as_ref().and_then(|url| of_url(url.as_str()))) {
        let is_known = config.origin.aliases.iter().any(|alias| of_url(alias.as_str()).as_ref() == Some(&theirs));
        if theirs != ours && !is_known {
            doubts.push(format!(
                "the bundle's data comes from {theirs}, but origin.url is {ours}; the next refresh replaces whatever differs"
            ));
        }
    }
    doubts
}

/// The result of an import.
struct Told {
    snapshot: String,
    listings: u64,
    before: Option<String>,
    is_older: bool,
    is_served: bool,
}

impl Told {
    /// The result from a server.
    fn of(value: &Value) -> Self {
        Self {
            snapshot: value["imported"].as_str().unwrap_or("-").to_owned(),
            listings: value["listings"].as_u64().unwrap_or(0),
            before: value["before"].as_str().map(str::to_owned),
            is_older: value["older"] == true,
            is_served: value["served"] == true,
        }
    }

    /// The same for scripts.
    fn json(&self, mut told: Value) -> Value {
        told["before"] = self.before.clone().into();
        told["older"] = self.is_older.into();
        told["served"] = self.is_served.into();
        told
    }

    fn print(&self, file: &Path, details: u64, signed: &str) {
        let Self { snapshot, listings, before, is_older, is_served } = self;
        let (listings, details) = (counted(*listings, "listing"), counted(details, "detail"));
        println!("imported {}: snapshot {snapshot} with {listings} and {details}", file.display());
        println!("{signed}");
        if let Some(before) = before.as_ref().filter(|before| *before != snapshot) {
            println!(
                "the previous snapshot {before} is kept; `grandstand snapshot rollback {before}` makes it current again"
            );
        }
        if *is_older {
            eprintln!("warning: the imported data is older than the data before it");
        }
        if !is_served {
            println!(
                "not current yet, because a rollback is in effect; `grandstand snapshot release` makes the newest snapshot current"
            );
        }
    }
}

/// Imports a bundle before a server starts, unless the data directory is as new.
pub(crate) fn before_serving(config: &Config, core: &Core, path: &Path) -> Result<(), Failure> {
    let Some(snapshots) = core.snapshots.as_ref().filter(|_| config.usage() != Use::Shield) else {
        return Err(Failure::shield());
    };
    let Opened { file, bundle, voucher } = opened(path, &trusted(config)?, config.bundle.max_size)?;
    for doubt in doubts(config, bundle.manifest(), core.clock.now_wall()) {
        tracing::warn!("{doubt}");
    }
    if snapshots.is_ahead_of(&bundle)? {
        let bundled = &bundle.manifest().snapshot;
        tracing::info!(%bundled, "bundle not imported: the data directory is as new or newer");
        return Ok(());
    }
    let learn = || core.details.iter().for_each(|details| learn(details, &bundle));
    let imported = snapshots.import_bundle(&bundle, &file, core.clock.now_wall().as_millis(), false, &learn)?;
    tidy(snapshots, core.details.as_ref());
    tracing::info!(snapshot = %imported.snapshot, listings = imported.listings, signature = signed(&voucher), "bundle imported");
    Ok(())
}
