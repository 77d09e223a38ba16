//! `grandstand sync`: one full copy; exit code 0 if it is complete.
//!
//! Callers: [`super`], and commands beside it.

mod server;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use crate::app::core::Core;
use crate::app::error::AppError;
use crate::config::{Config, Finding, Loaded, LogConfig, LogLevel, Use};
use crate::mirror::details::Details;
use crate::store::{DataDir, Holder, OpenError};
use crate::words::counted;

use super::progress::{Display, INTERVAL, Stage, Watched};
use super::{Failure, Sources, load, logging};

/// `sync` gives up after this long without progress: two windows of the budget, and a pause after failures.
const PATIENCE: Duration = Duration::from_secs(150);
/// After so many failures in a row the origin is taken to be down.
const MOST_FAILURES: u32 = 8;

/// Why the mirror is incomplete.
#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error("the mirror is incomplete ({stage}); run `grandstand sync` again to continue; last error: {last}")]
    Incomplete { stage: String, last: String },
    #[error(
        "the mirror is incomplete: some details could not be written to {0}; free disk space, then run `grandstand sync` again"
    )]
    NotStored(String),
}

/// Checks that the configuration is a mirror.
///
/// # Errors
/// With the key that prevents it.
pub(super) fn needs_mirror(config: &Config, command: &str) -> Result<(), Failure> {
    match config.usage() {
        Use::Mirror => Ok(()),
        Use::Offline => Err(no_origin(command)),
        Use::Replica => {
            let problem = format!("is set, and origin.url is not: this is a replica, and `{command}` needs a mirror");
            Err(Failure::Config(Finding::about("replica.url", &problem).into()))
        }
        Use::Shield => {
            let problem = format!("is false, but `{command}` needs a mirror");
            Err(Failure::Config(Finding::about("mirror.enabled", &problem).into()))
        }
    }
}

/// A command needs an origin, and the configuration names none.
pub(super) fn no_origin(command: &str) -> Failure {
    let problem =
        format!("is not set, but `{command}` needs an origin: for example --set origin.url=https://api.example.org");
    Failure::Config(Finding::about("origin.url", &problem).into())
}

/// Arguments of `grandstand sync`.
#[derive(Debug, Args)]
pub(super) struct Sync {
    #[command(flatten)]
    sources: Sources,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

impl Sync {
    /// Copies everything, in this process or in the process that holds the data directory.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        run(&self.sources, self.json)
    }
}

/// What `--json` prints on success.
pub(super) fn told(listings: u64, mirrored: Option<u64>, of: Option<u64>) -> Value {
    json!({ "complete": mirrored == of, "listings": listings, "details": { "mirrored": mirrored, "of": of } })
}

fn run(sources: &Sources, json: bool) -> Result<ExitCode, Failure> {
    let Loaded { config, .. } = load(sources)?;
    needs_mirror(&config, "sync")?;
    logging::start(LogConfig { level: LogLevel::Warn, ..config.log })?;
    let core = match Core::open(&config) {
        Err(AppError::Open(OpenError::Held { admin: Some(admin), .. })) => {
            eprintln!("{} is in use by a running server; using its admin listener {admin}", config.data_dir.display());
            return server::sync(&format!("http://{admin}"), config.admin.secret(), json);
        }
        other => other?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let watched = Watched::of(&core).ok_or_else(|| no_origin("sync"))?;
    if let Some(mirror) = core.mirror {
        runtime.spawn(crate::app::replica::mirror(mirror, core.follower));
    }
    if let Some(mut worker) = core.worker {
        // This command fetches all details, whatever the server is configured to fetch.
        worker.all = true;
        runtime.spawn(worker.run());
    }
    if watched.look() != (Stage::Listing { done: 0, of: 0 }) {
        core.commands.pass();
    }
    let result = wait(&watched);
    let stored = core.details.as_ref().is_none_or(Details::flush);
    runtime.shutdown_background();
    let listings = result?;
    if json && stored {
        println!("{}", told(listings, Some(listings), Some(listings)));
        return Ok(ExitCode::SUCCESS);
    }
    if !stored {
        return Err(SyncError::NotStored(config.data_dir.display().to_string()).into());
    }
    println!("complete: {} with details, stored in {}", counted(listings, "listing"), config.data_dir.display());
    Ok(ExitCode::SUCCESS)
}

fn wait(watched: &Watched) -> Result<u64, SyncError> {
    let mut display = Display::new();
    let mut last = (watched.look(), None, Instant::now());
    loop {
        let stage = watched.look();
        display.show(&stage);
        if let Stage::Complete { listings } = stage {
            // The requested pass must have ended: before that, `Complete` describes an older state.
            let picture = watched.status().picture();
            if picture.pass.is_none() && picture.refreshed_ms.is_some() {
                display.finish();
                return Ok(listings);
            }
        }
        let picture = watched.status().picture();
        // Checking many pages once more is progress, too.
        if stage != last.0 || picture.pass != last.1 {
            last = (stage.clone(), picture.pass, Instant::now());
        }
        if picture.health.failures() >= MOST_FAILURES || last.2.elapsed() > PATIENCE {
            display.finish();
            let last = picture.last_error.map_or_else(|| "none".to_owned(), |error| error.message);
            return Err(SyncError::Incomplete { stage: stage.to_string(), last });
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Address of the running server's admin listener; `None`: there is no server, or it has not announced its address.
///
/// # Errors
/// When the directory belongs to a user that is not trusted.
pub(super) fn running(data_dir: &Path) -> Result<Option<String>, OpenError> {
    match DataDir::holder(data_dir) {
        Some(Holder { pid, admin, untrusted: untrusted @ Some(_) }) => {
            Err(OpenError::Held { path: data_dir.to_owned(), pid, admin, untrusted })
        }
        holder => Ok(holder.and_then(|holder| holder.admin).map(|admin| format!("http://{admin}"))),
    }
}
