//! `grandstand snapshot accept`: publishes what the running server holds back.
//!
//! Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::Use;

use super::super::status::ask;
use super::super::{Failure, Sources, load, sync};

/// How long it may take until what is accepted is published.
const PATIENCE: Duration = Duration::from_secs(150);

/// After so long without anything held back, what is served is what came of it.
const SETTLES: Duration = Duration::from_secs(5);

/// Why nothing is accepted.
#[derive(Debug, thiserror::Error)]
enum AcceptError {
    #[error("a shield holds nothing back: it keeps no snapshots")]
    Shield,
    #[error("no server holds {0}; start `grandstand serve`, then accept what it holds back")]
    NoServer(String),
    #[error("nothing is held back")]
    NothingHeld,
    #[error("{0} is still held back; see {1}/status")]
    StillHeld(String, String),
    #[error(
        "{held} was not published: the origin has changed again; served is {served} with {listings} listings, and nothing is held back"
    )]
    Another { held: String, served: String, listings: String },
}

/// Publishes what is held back.
pub(super) fn run(sources: &Sources, json: bool) -> Result<ExitCode, Failure> {
    let config = load(sources)?.config;
    if config.usage() == Use::Shield {
        return Err(AcceptError::Shield.into());
    }
    let Some(admin) = sync::running(&config.data_dir) else {
        return Err(AcceptError::NoServer(config.data_dir.display().to_string()).into());
    };
    let status = || -> Result<Value, Failure> {
        Ok(serde_json::from_str(&ask(http::Method::GET, &format!("{admin}/status"), None)?.1)?)
    };
    let then = status()?;
    let (held, before) = (then["held"].clone(), newest(&then));
    let Some(snapshot) = held["snapshot"].as_str() else { return Err(AcceptError::NothingHeld.into()) };
    eprintln!("accepting {snapshot}: {} listings in the place of {}", held["listings"], held["serving"]);
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
            println!("published {newest} with {} listings", held["listings"]);
            if !now["rollback"].is_null() {
                println!("it waits: a rollback pins another one until `grandstand snapshot release`");
            }
            return Ok(ExitCode::SUCCESS);
        }
        // What is held is let go before its successor is served, so that neither may be there for a moment.
        let since = now["held"].is_null().then(|| *neither.get_or_insert_with(Instant::now));
        if since.is_some_and(|since| newest != before || since.elapsed() > SETTLES) {
            let served = now["snapshot"]["id"].as_str().unwrap_or("-").to_owned();
            let (held, listings) = (snapshot.to_owned(), now["listings"].to_string());
            return Err(AcceptError::Another { held, served, listings }.into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Err(AcceptError::StillHeld(snapshot.to_owned(), admin).into())
}

/// What was published last: it is served, or waits behind a rollback.
fn newest(status: &Value) -> &str {
    let newest = status.pointer("/rollback/newest").unwrap_or(&status["snapshot"]["id"]);
    newest.as_str().unwrap_or("-")
}
