//! `grandstand bundle import`: a bundle's snapshot becomes the newest one.
//!
//! Everything is verified before the first change: by a running server, or here before a data directory is opened, made or
//! repaired. Callers: [`super`].

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{UnreadBundle, not_done, signature, signed, told};
use crate::cli::server::Server;
use crate::cli::snapshot::NOT_CURRENT;
use crate::cli::target::ServerArgs;
use crate::cli::terminal::{say, say_json, start_log, tell};
use crate::cli::{Failure, needs_snapshots, plain};
use crate::clock::{Clock, WallTime};
use crate::config::{LogConfig, LogLevel};
use crate::data::bundle::Manifest;
use crate::data::bundle::signature::{Opened, Voucher, text_beside};
use crate::data::snapshots::import::ImportOutcome;
use crate::protocol::freshness::{age_seconds, is_from_the_future};
use crate::server::hosted::Purpose;
use crate::words::counted;

/// Data older than this is worth a word, in seconds.
const OLD: u32 = 30 * 86_400;

/// Arguments of `grandstand bundle import`.
#[derive(Debug, Args)]
pub(super) struct Import {
    #[command(flatten)]
    server: ServerArgs,
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
        let config = self.server.config(needs_snapshots)?;
        start_log(LogConfig { level: LogLevel::Error, ..config.log })?;
        let unread = UnreadBundle::of(&self.file, &config)?;
        let path = unread.path.clone();
        let (file, voucher, bundle) = if self.server.running()?.is_some() {
            let (file, voucher) = unread.vouched()?;
            (file, voucher, None)
        } else {
            let Opened { file, bundle, voucher } = unread.open()?;
            (file, voucher, Some(bundle))
        };
        let server = self.server.server(&config, &Purpose::Import)?;
        let place = if server.is_here() { server.admin.clone() } else { format!("the server at {}", server.admin) };
        let outcome = match (server.hosted(), bundle) {
            (Some(hosted), Some(bundle)) => {
                let opened = Opened { file, bundle, voucher: voucher.clone() };
                hosted.import(opened, self.allow_older).map_err(|error| not_done(&path, "imported")(error.into()))
            }
            _ => self.upload(&server, &path, &file),
        };
        server.close();
        let outcome = outcome?;
        let ImportOutcome { imported, manifest, signed_by } = &outcome;
        for doubt in doubts(manifest, Clock::system().now_wall()) {
            tell(format!("warning: {doubt}"));
        }
        if let Some(warning) = &imported.foreign {
            tell(format!("warning: {}", plain(warning)));
        }
        if self.json {
            let mut signature = signature(&Ok(voucher));
            if signed_by.is_some() {
                signature["state"] = "verified".into();
            }
            let mut told = told(&path, "imported", manifest, &signature)?;
            let done = serde_json::to_value(imported)?;
            for key in ["before", "older", "served", "warning"] {
                told[key] = done[key].clone();
            }
            say_json(told)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (listings, details) = (counted(manifest.listings, "listing"), counted(manifest.details.present, "detail"));
        let (file, snapshot) = (path.display(), &imported.snapshot);
        let was_empty = if imported.before.is_none() { ", which had no data" } else { "" };
        say(format!("imported {file} into {place}{was_empty}: snapshot {snapshot} with {listings} and {details}"))?;
        say(match (signed_by, &voucher) {
            (Some(key), Voucher::Unverified(_)) => format!("signed by the key {key}, which the server trusts"),
            _ => signed(&voucher),
        })?;
        let is_replaced = |before: &&_| imported.is_served && **before != imported.snapshot;
        if let Some(before) = imported.before.as_ref().filter(is_replaced) {
            say(format!(
                "the previous snapshot {before} is kept; `grandstand snapshot rollback {before}` makes it current again"
            ))?;
        }
        if imported.is_older {
            tell("warning: the imported data is older than the data before it");
        }
        if !imported.is_served {
            say(NOT_CURRENT)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn upload(&self, server: &Server, path: &Path, file: &File) -> Result<ImportOutcome, Failure> {
        // Whether it is a signature is for the server to say.
        let signature = text_beside(path)?;
        let query = if self.allow_older { "?allow_older=true" } else { "" };
        let done = server.upload(query, signature.as_deref(), file).map_err(not_done(path, "imported"))?;
        Ok(serde_json::from_value(done)?)
    }
}

fn doubts(manifest: &Manifest, now: WallTime) -> Vec<String> {
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
    doubts
}
