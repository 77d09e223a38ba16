//! `grandstand snapshot`: the kept snapshots, and which one is current.
//!
//! Executed by the server that holds the data directory, through its admin listener, or else here. Callers: [`super`].

mod accept;
mod json;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::admin::snapshots::{self, Action};
use crate::app::core::open_snapshots;
use crate::clock::Clock;
use crate::config::{LogConfig, LogLevel};
use crate::words::counted;

use super::holder::Holder;
use super::status::ask;
use super::table::{Align, Paint, Table};
use super::{Failure, Sources, load_for_snapshots, logging, plain};

/// Arguments of `grandstand snapshot`.
#[derive(Debug, Args)]
pub(super) struct Snapshot {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

/// Which snapshot.
#[derive(Debug, Args)]
struct One {
    /// Snapshot id, or its first characters
    id: String,
    #[command(flatten)]
    sources: Sources,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the kept snapshots, newest first
    List(Sources),
    /// Check the hashes of every kept snapshot and its details
    ///
    /// Exit code 1 means that something is damaged.
    Verify(Sources),
    /// Make a kept snapshot current until `release`
    ///
    /// A restart does not end this. Refreshes continue in the background.
    Rollback(One),
    /// End a rollback: make the newest snapshot current again
    ///
    /// On a publisher whose last head has a number more than a day ahead of the clock, this also makes the publisher begin
    /// again at the clock, with a full bundle.
    Release(Sources),
    /// Publish the snapshot that is held back because it lost many listings
    ///
    /// A snapshot is held back if it lost more listings than mirror.max_shrink allows. This command publishes it; the
    /// limit still applies to later ones.
    Accept(Sources),
    /// Keep a snapshot until `unpin`
    Pin(One),
    /// Let normal retention apply to a snapshot again
    Unpin(One),
}

/// Why a command on snapshots fails.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error("no kept snapshot has an id that begins with {0}; `grandstand snapshot list` shows the kept ones")]
    Unknown(String),
    #[error("the id is empty; `grandstand snapshot list` shows the ids")]
    Nameless,
    #[error("{0} matches several kept snapshots ({1}); give more characters")]
    Ambiguous(String, String),
}

impl Snapshot {
    /// Carries it out.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        if self.json {
            return json::run(&self.command);
        }
        match &self.command {
            Command::Accept(sources) => accept::run(sources, false),
            Command::List(sources) => {
                let shown = table(&Desk::open(sources)?.list()?);
                let paint = Paint::of_stdout();
                for (n, line) in shown.lines().map(plain).enumerate() {
                    println!("{}", if n == 0 { paint.heading(&line) } else { line.as_str().into() });
                }
                Ok(ExitCode::SUCCESS)
            }
            Command::Verify(sources) => verify(&Desk::open(sources)?),
            Command::Release(sources) => {
                let told = Desk::open(sources)?.perform(&Action::Release)?;
                println!("current snapshot: {}, the newest one", text(&told["served"]));
                if told["publisher_begins_again"] == true {
                    println!("the publisher begins again at the clock, with a full bundle");
                }
                Ok(ExitCode::SUCCESS)
            }
            Command::Rollback(One { id, sources }) => {
                let desk = Desk::open(sources)?;
                let told = desk.perform(&Action::Rollback(desk.resolve(id)?))?;
                println!("current snapshot: {}, until `grandstand snapshot release`", text(&told["served"]));
                if told["newest"] != told["served"] {
                    println!("the newest snapshot {} waits", text(&told["newest"]));
                }
                Ok(ExitCode::SUCCESS)
            }
            Command::Pin(One { id, sources }) => {
                let desk = Desk::open(sources)?;
                let told = desk.perform(&Action::Pin(desk.resolve(id)?))?;
                let id = text(&told["pinned"]);
                println!("{id} is kept until `grandstand snapshot unpin {id}`");
                Ok(ExitCode::SUCCESS)
            }
            Command::Unpin(One { id, sources }) => {
                let desk = Desk::open(sources)?;
                let told = desk.perform(&Action::Unpin(desk.resolve(id)?))?;
                println!("{} is unpinned; normal retention applies", text(&told["unpinned"]));
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Where commands are executed: in the server that holds the data directory, or here.
struct Desk(Holder);

impl Desk {
    fn open(sources: &Sources) -> Result<Self, Failure> {
        let config = load_for_snapshots(sources)?;
        logging::start(LogConfig { level: LogLevel::Error, ..config.log })?;
        Holder::find(&config, open_snapshots).map(Self)
    }

    fn list(&self) -> Result<Value, Failure> {
        match &self.0 {
            Holder::There { admin, .. } => {
                Ok(serde_json::from_str(&ask(http::Method::GET, &format!("{admin}/snapshots"), None)?.1)?)
            }
            Holder::Here(_, snapshots) => Ok(snapshots::list(snapshots, Clock::system().now_wall())),
        }
    }

    fn perform(&self, action: &Action) -> Result<Value, Failure> {
        match &self.0 {
            Holder::There { admin, token } => {
                let url = format!("{admin}{}", action.path());
                Ok(serde_json::from_str(&ask(http::Method::POST, &url, token.as_ref())?.1)?)
            }
            Holder::Here(_, snapshots) => Ok(action.perform(snapshots, Clock::system().now_wall())?),
        }
    }

    /// The full id of the only kept snapshot with this prefix.
    fn resolve(&self, beginning: &str) -> Result<String, Failure> {
        if beginning.is_empty() {
            return Err(Failure::usage(SnapshotError::Nameless));
        }
        let list = self.list()?;
        let mut ids: Vec<&str> = snapshots_of(&list).filter_map(|one| one["id"].as_str()).collect();
        ids.retain(|id| id.starts_with(beginning));
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [id] => Ok(id.to_owned()),
            [] => Err(SnapshotError::Unknown(beginning.to_owned()).into()),
            _ => Err(SnapshotError::Ambiguous(beginning.to_owned(), ids.join(", ")).into()),
        }
    }
}

fn snapshots_of(list: &Value) -> impl Iterator<Item = &Value> {
    list["snapshots"].as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn verify(desk: &Desk) -> Result<ExitCode, Failure> {
    let told = desk.perform(&Action::VerifyAll)?;
    if snapshots_of(&told).next().is_none() {
        println!("no snapshot is kept");
    }
    for one in snapshots_of(&told) {
        let id = text(&one["id"]);
        match one["damage"].as_str() {
            None => println!("{id}  intact, {}", counted(one["listings"].as_u64().unwrap_or(0), "listing")),
            Some(damage) => println!("{id}  damaged: {damage}"),
        }
    }
    let all_intact = snapshots_of(&told).all(|one| one["intact"] == true);
    if let Some(damage) = told["damage"].as_str().filter(|_| all_intact) {
        println!("the store is damaged: {damage}");
    }
    Ok(code(&told))
}

/// The exit code of a check.
fn code(told: &Value) -> ExitCode {
    if told["intact"] == true { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The list as a table.
fn table(list: &Value) -> String {
    let columns = ["SNAPSHOT", "LISTINGS", "CERTIFICATE", "CONFIRMED", ""];
    let aligned = columns.map(|name| (name, if name == "LISTINGS" { Align::Right } else { Align::Left }));
    let mut table = Table::new(aligned);
    for one in snapshots_of(list) {
        let marks =
            ["served", "newest", "pinned", "exported", "unconfirmed"].into_iter().filter(|mark| one[mark] == true);
        table.row([
            text(&one["id"]).to_owned(),
            one["listings"].to_string(),
            text(&one["certificate"]).to_owned(),
            text(&one["confirmed_at"]).to_owned(),
            marks.collect::<Vec<_>>().join(", "),
        ]);
    }
    let mut out = table.to_string();
    if list["rolled_back"] == true {
        out.push_str("rollback in effect: `grandstand snapshot release` makes the newest snapshot current\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_list_is_a_table_with_what_is_special_of_each() {
        let one = |id: &str, served: bool, newest: bool| {
            json!({ "id": id, "listings": 700, "certificate": "full", "confirmed_at": "2026-01-01T00:00:00Z",
                    "served": served, "newest": newest, "pinned": served, "exported": false })
        };
        let list = json!({ "rolled_back": true, "snapshots": [one("bb", false, true), one("aa", true, false)] });
        let text = table(&list);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("bb") && lines[1].ends_with("newest"), "{text}");
        assert!(lines[2].starts_with("aa") && lines[2].ends_with("served, pinned"), "{text}");
        assert!(lines[3].contains("release"), "{text}");
    }
}
