//! `grandstand snapshot accept`: publishes the snapshot that the server holds back.
//!
//! Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::words::counted;

use super::super::status::ask;
use super::super::{Failure, Sources, load_for_snapshots, sync};

/// The longest time until an accepted snapshot is published.
const PATIENCE: Duration = Duration::from_secs(150);

/// After so long without a held-back snapshot, the current one is the result.
const SETTLES: Duration = Duration::from_secs(5);

/// Why nothing is accepted.
#[derive(Debug, thiserror::Error)]
enum AcceptError {
    #[error("no server is running on {0}; start `grandstand serve` first")]
    NoServer(String),
    #[error("no snapshot is held back")]
    NothingHeld,
    #[error("snapshot {0} is still held back; see {1}/status")]
    StillHeld(String, String),
    #[error(
        "snapshot {held} was not published, because the origin has changed again; current is {served} with {listings}"
    )]
    Another { held: String, served: String, listings: String },
}

/// Publishes the held-back snapshot.
pub(super) fn run(sources: &Sources, json: bool) -> Result<ExitCode, Failure> {
    let config = load_for_snapshots(sources)?;
    let Some(admin) = sync::running(&config.data_dir)? else {
        return Err(AcceptError::NoServer(config.data_dir.display().to_string()).into());
    };
    let status = || -> Result<Value, Failure> {
        Ok(serde_json::from_str(&ask(http::Method::GET, &format!("{admin}/status"), None)?.1)?)
    };
    let then = status()?;
    let (held, before) = (then["held"].clone(), newest(&then));
    let Some(snapshot) = held["snapshot"].as_str() else { return Err(AcceptError::NothingHeld.into()) };
    eprintln!("accepting {snapshot}: {} instead of {}", listings(&held["listings"]), held["serving"]);
    ask(http::Method::POST, &format!("{admin}/snapshots/accept"), config.admin.token.as_ref())?;
    let began = Instant::now();
    let mut neither: Option<Instant> = None;
    while began.elapsed() < PATIENCE {
        let now = status()?;
        let newest = newest(&now);
        if newest == snapshot && json {
            println!("{}", json!({ "accepted": snapshot, "listings": held["listings"] }));
            return Ok(ExitCode::SUCCESS);
        }
        if newest == snapshot {
            println!("published {newest} with {}", listings(&held["listings"]));
            if !now["rollback"].is_null() {
                println!(
                    "not current yet, because a rollback is in effect; `grandstand snapshot release` makes the newest snapshot current"
                );
            }
            return Ok(ExitCode::SUCCESS);
        }
        // The held-back snapshot disappears before its successor is served, so both may be absent for a moment.
        let since = now["held"].is_null().then(|| *neither.get_or_insert_with(Instant::now));
        if since.is_some_and(|since| newest != before || since.elapsed() > SETTLES) {
            let served = now["snapshot"]["id"].as_str().unwrap_or("-").to_owned();
            let (held, listings) = (snapshot.to_owned(), listings(&now["listings"]));
            return Err(AcceptError::Another { held, served, listings }.into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(AcceptError::StillHeld(snapshot.to_owned(), admin).into())
}

fn listings(count: &Value) -> String {
    counted(count.as_u64().unwrap_or(0), "listing")
}

/// The last published snapshot: it is served, or waits for the end of a rollback.
fn newest(status: &Value) -> &str {
    let newest = status.pointer("/rollback/newest").unwrap_or(&status["snapshot"]["id"]);
    newest.as_str().unwrap_or("-")
}
