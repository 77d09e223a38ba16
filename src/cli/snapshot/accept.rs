//! `grandstand snapshot accept`: publishes the snapshot that the server holds back.
//!
//! Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::admin::facts::StatusFacts;
use crate::upstream::status::Held;
use crate::words::counted;

use super::super::status::{ask, look, or_dash};
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
    let facts = || -> Result<StatusFacts, Failure> { Ok(look(&admin)?.facts) };
    let then = facts()?;
    let before = newest(&then);
    let Some(Held { snapshot, listings, serving, .. }) = &then.held else {
        return Err(AcceptError::NothingHeld.into());
    };
    eprintln!("accepting {snapshot}: {} instead of {serving}", counted(*listings, "listing"));
    ask(http::Method::POST, &format!("{admin}/snapshots/accept"), config.admin.secret())?;
    let began = Instant::now();
    let mut neither: Option<Instant> = None;
    while began.elapsed() < PATIENCE {
        let now = facts()?;
        let newest = newest(&now);
        if newest == snapshot && json {
            println!("{}", json!({ "accepted": snapshot, "listings": listings }));
            return Ok(ExitCode::SUCCESS);
        }
        if newest == snapshot {
            println!("published {newest} with {}", counted(*listings, "listing"));
            if now.rollback.is_some() {
                println!(
                    "not current yet, because a rollback is in effect; `grandstand snapshot release` makes the newest snapshot current"
                );
            }
            return Ok(ExitCode::SUCCESS);
        }
        // The held-back snapshot disappears before its successor is served, so both may be absent for a moment.
        let since = now.held.is_none().then(|| *neither.get_or_insert_with(Instant::now));
        if since.is_some_and(|since| newest != before || since.elapsed() > SETTLES) {
            let listings = counted(now.listings.unwrap_or(0), "listing");
            let served = or_dash(now.snapshot.map(|snapshot| snapshot.id));
            return Err(AcceptError::Another { held: snapshot.clone(), served, listings }.into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(AcceptError::StillHeld(snapshot.clone(), admin).into())
}

/// The last published snapshot: it is served, or waits for the end of a rollback.
fn newest(facts: &StatusFacts) -> &str {
    let served = facts.snapshot.as_ref().map(|snapshot| snapshot.id.as_str());
    facts.rollback.as_ref().map_or(served, |rollback| rollback.newest.as_deref()).unwrap_or("-")
}
