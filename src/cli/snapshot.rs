//! `grandstand snapshot`: commands on snapshots, carried out by the running server.
//!
//! Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::Value;

use super::status::ask;
use super::{Failure, Sources, load, sync};

/// How long it may take until what is accepted is published.
const PATIENCE: Duration = Duration::from_secs(150);

/// Arguments of `grandstand snapshot`.
#[derive(Debug, Args)]
pub struct Snapshot {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Publishes, once, what is held back because it lost more listings than mirror.max_shrink allows
    Accept(Sources),
}

/// Why nothing is accepted.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error("no server holds {0}; start `grandstand serve`, then accept what it holds back")]
    NoServer(String),
    #[error("nothing is held back")]
    NothingHeld,
    #[error("{0} is still held back; see {1}/status")]
    StillHeld(String, String),
}

impl Snapshot {
    /// Carries it out.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        match &self.action {
            Action::Accept(sources) => accept(sources),
        }
    }
}

fn accept(sources: &Sources) -> Result<ExitCode, Failure> {
    let config = load(sources)?.config;
    let Some(admin) = sync::running(&config.data_dir) else {
        return Err(SnapshotError::NoServer(config.data_dir.display().to_string()).into());
    };
    let status = || -> Result<Value, Failure> {
        Ok(serde_json::from_str(&ask(reqwest::Method::GET, &format!("{admin}/status"), None)?.1)?)
    };
    let held = status()?["held"].clone();
    let Some(snapshot) = held["snapshot"].as_str() else { return Err(SnapshotError::NothingHeld.into()) };
    eprintln!("accepting {snapshot}: {} listings in the place of {}", held["listings"], held["serving"]);
    ask(reqwest::Method::POST, &format!("{admin}/snapshots/accept"), config.admin.token.as_ref())?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let now = status()?;
        if now["held"].is_null() {
            println!("published {} with {} listings", now["snapshot"]["id"].as_str().unwrap_or("-"), now["listings"]);
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(SnapshotError::StillHeld(snapshot.to_owned(), admin).into())
}
