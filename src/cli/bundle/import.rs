//! `grandstand bundle import` and `serve --bundle`: a bundle's snapshot becomes the newest one, through the server
//! that holds the data directory or directly.
//!
//! Everything is verified before the first change. Callers: [`super`], [`crate::cli`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use url::Url;

use super::{Sources, opened, signature, signed, told, trusted};
use crate::admin::bundle::{imported, learn, tidy};
use crate::app::core::{Core, open_snapshots_anew};
use crate::bundle::Manifest;
use crate::bundle::signature::{Opened, text_beside};
use crate::cli::server::Holder;
use crate::cli::snapshot::NOT_CURRENT;
use crate::cli::terminal::{say, start_log, tell};
use crate::cli::{Failure, load_for_snapshots};
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
    ///
    /// `-` is standard input, which has no signature.
    file: PathBuf,
}

impl Import {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = load_for_snapshots(&self.sources)?;
        start_log(LogConfig { level: LogLevel::Warn, ..config.log })?;
        let (path, bundle) = opened(&self.file, &trusted(&config)?, config.bundle.max_size)?;
        for doubt in doubts(&config, bundle.bundle.manifest(), Clock::system().now_wall()) {
            tell(format!("warning: {doubt}"));
        }
        let done = match Holder::find(&config, open_snapshots_anew)? {
            Holder::Here(_data_dir, snapshots) => {
                let now_ms = Clock::system().now_wall().as_millis();
                let done = snapshots.import_bundle(&bundle.bundle, &bundle.file, now_ms, self.allow_older, &|| {})?;
                let tidied = snapshots.tidy().and_then(|()| snapshots.store().forget_vanished());
                if let Err(error) = tidied {
                    tell(format!("warning: data that is no longer needed could not be removed: {error}"));
                }
                imported(&done)
            }
            Holder::There(server) => {
                // Whether it is a signature is for the server to say.
                let signature = text_beside(&path)?;
                let query = if self.allow_older { "?allow_older=true" } else { "" };
                server.upload(query, signature.as_deref(), &bundle.file)?
            }
        };
        let manifest = bundle.bundle.manifest();
        if self.json {
            let signature = signature(&Ok(bundle.voucher));
            let mut told = told(&path, "imported", manifest, &signature)?;
            for key in ["before", "older", "served"] {
                told[key] = done[key].clone();
            }
            say(told)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (snapshot, listings) = (done["imported"].as_str().unwrap_or("-"), done["listings"].as_u64().unwrap_or(0));
        let (listings, details) = (counted(listings, "listing"), counted(manifest.details.present, "detail"));
        say(format!("imported {}: snapshot {snapshot} with {listings} and {details}", path.display()))?;
        say(signed(&bundle.voucher))?;
        if let Some(before) = done["before"].as_str().filter(|before| *before != snapshot) {
            say(format!(
                "the previous snapshot {before} is kept; `grandstand snapshot rollback {before}` makes it current again"
            ))?;
        }
        if done["older"] == true {
            tell("warning: the imported data is older than the data before it");
        }
        if done["served"] != true {
            say(NOT_CURRENT)?;
        }
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

/// Imports a bundle before a server starts, unless the data directory is as new.
pub(crate) fn before_serving(config: &Config, core: &Core, path: &Path) -> Result<(), Failure> {
    let Some(snapshots) = core.snapshots.as_ref().filter(|_| config.usage() != Use::Shield) else {
        return Err(Failure::shield());
    };
    let (_, Opened { file, bundle, voucher }) = opened(path, &trusted(config)?, config.bundle.max_size)?;
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
