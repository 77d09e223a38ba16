//! `grandstand snapshot`: the kept snapshots, which one is current, and the one that is held back.
//!
//! Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::clock::{Clock, WallTime};
use crate::config::{LogConfig, LogLevel};
use crate::origin::status::HeldBack;
use crate::server::admin::facts::StatusFacts;
use crate::server::admin::snapshots::Action;
use crate::server::hosted::Purpose;
use crate::words::{bytes, counted, seconds};

use super::server::Server;
use super::status::or_dash;
use super::target::ServerArgs;
use super::terminal::{Align, Paint, say, say_json, start_log, table, tell};
use super::{Failure, needs_snapshots, plain};

/// The note about a published snapshot during a rollback.
pub(super) const NOT_CURRENT: &str =
    "not current yet, because a rollback is in effect; `grandstand snapshot release` makes the newest snapshot current";

/// The longest time until an accepted snapshot is published.
const PATIENCE: Duration = Duration::from_secs(150);

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
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: String,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the kept snapshots, newest first
    List(ServerArgs),
    /// Check the hashes of every kept snapshot and its details
    ///
    /// Exit code 1 means that something is damaged.
    Verify(ServerArgs),
    /// Make a kept snapshot current until `release`
    ///
    /// A restart does not end this. Refreshes continue in the background.
    Rollback(One),
    /// End a rollback: make the newest snapshot current again
    ///
    /// On a publisher whose last head has a number more than a day ahead of the clock, this also makes the publisher begin
    /// again at the clock, with a full bundle.
    Release(ServerArgs),
    /// Publish the snapshot that is held back because it lost many listings
    ///
    /// A snapshot is held back if it lost more listings than mirror.max_shrink allows. This command publishes it; the
    /// limit still applies to later ones.
    Accept(ServerArgs),
    /// Keep a snapshot until `unpin`
    Pin(One),
    /// Let normal retention apply to a snapshot again
    Unpin(One),
}

#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error("no snapshot is held back")]
    NothingHeld,
    #[error(
        "snapshot {held} was not published, because the origin has changed again or does not answer; the newest snapshot is \
         {newest}; see {admin}/status"
    )]
    NotPublished { held: String, newest: String, admin: String },
}

impl Snapshot {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let all = |named: &ServerArgs, action| perform(&server(named)?, &action);
        let on = |One { id, server: named }: &One, action: fn(String) -> Action| {
            perform(&server(named)?, &action(utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()))
        };
        let told = match &self.command {
            Command::List(named) => {
                let list = server(named)?.json(Method::GET, &Action::List.path())?;
                self.print_list(&list, Clock::system().now_wall())?;
                return Ok(ExitCode::SUCCESS);
            }
            Command::Accept(named) => return accept(named, self.json),
            Command::Verify(named) => all(named, Action::Verify)?,
            Command::Release(named) => all(named, Action::Release)?,
            Command::Rollback(one) => on(one, Action::Rollback)?,
            Command::Pin(one) => on(one, Action::Pin)?,
            Command::Unpin(one) => on(one, Action::Unpin)?,
        };
        if self.json {
            say_json(&told)?;
        } else {
            say(self.command.text(&told))?;
        }
        let is_damaged = matches!(self.command, Command::Verify(_)) && told["intact"] != true;
        Ok(if is_damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn print_list(&self, list: &Value, now: WallTime) -> Result<(), Failure> {
        if self.json {
            return Ok(say_json(format_args!("{list:#}"))?);
        }
        let mut lines: Vec<String> = list_table(list, now).lines().map(plain).collect();
        lines[0] = Paint::of_stdout().heading(&lines[0]).into_owned();
        Ok(say(lines.join("\n"))?)
    }
}

impl Command {
    fn text(&self, told: &Value) -> String {
        match self {
            Self::List(_) | Self::Accept(_) => String::new(),
            Self::Verify(_) => damage(told),
            Self::Release(_) => {
                let mut said = format!("current snapshot: {}, the newest one", text(&told["served"]));
                if told["publisher_begins_again"] == true {
                    said += "\nthe publisher begins again at the clock, with a full bundle";
                }
                said
            }
            Self::Rollback(_) => {
                let said = format!("current snapshot: {}, until `grandstand snapshot release`", text(&told["served"]));
                if told["newest"] == told["served"] {
                    return said;
                }
                format!("{said}\nthe newest snapshot {} waits", text(&told["newest"]))
            }
            Self::Pin(_) => {
                let id = text(&told["pinned"]);
                format!("{id} is kept until `grandstand snapshot unpin {id}`")
            }
            Self::Unpin(_) => format!("{} is unpinned; normal retention applies", text(&told["unpinned"])),
        }
    }
}

/// Who executes commands: the server that is named or has the data directory, or one in this process.
fn server(named: &ServerArgs) -> Result<Server, Failure> {
    let config = named.config(needs_snapshots)?;
    start_log(LogConfig { level: LogLevel::Error, ..config.log })?;
    named.server(&config, &Purpose::Stored)
}

fn perform(server: &Server, action: &Action) -> Result<Value, Failure> {
    server.json(Method::POST, &action.path())
}

fn snapshots_of(list: &Value) -> impl Iterator<Item = &Value> {
    list["snapshots"].as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn damage(told: &Value) -> String {
    let line = |one: &Value| {
        let (id, listings) = (text(&one["id"]), one["listings"].as_u64().unwrap_or(0));
        match one["damage"].as_str() {
            None => format!("{id}  intact, {}", counted(listings, "listing")),
            Some(damage) => format!("{id}  damaged: {damage}"),
        }
    };
    let mut lines: Vec<String> = snapshots_of(told).map(line).collect();
    if lines.is_empty() {
        lines.push("no snapshot is kept".to_owned());
    }
    let all_intact = snapshots_of(told).all(|one| one["intact"] == true);
    if let Some(damage) = told["damage"].as_str().filter(|_| all_intact) {
        lines.push(format!("the store is damaged: {damage}"));
    }
    lines.join("\n")
}

/// The list as a table, with the marks of the console.
fn list_table(list: &Value, now: WallTime) -> String {
    const MARKS: [(&str, &str); 5] = [
        ("served", "current"),
        ("newest", "newest"),
        ("pinned", "pinned"),
        ("exported", "exported"),
        ("unconfirmed", "date in the future"),
    ];
    let columns = ["SNAPSHOT", "LISTINGS", "SIZE", "CERTIFICATE", "PUBLISHED", "CONFIRMED", "AGE", ""];
    let rows = snapshots_of(list).map(|one| {
        let at = |key: &str| one[key].as_str().and_then(|at| WallTime::parse_rfc3339(at).ok());
        // Whole seconds are enough.
        let second = |key: &str| or_dash(at(key).map(|at| WallTime::from_seconds(at.as_seconds())));
        let age = at("confirmed_at").and_then(|at| u64::try_from(now.seconds_since(at)).ok());
        let marks = MARKS.into_iter().filter(|(key, _)| one[key] == true).map(|(_, mark)| mark);
        [
            text(&one["id"]).to_owned(),
            one["listings"].to_string(),
            or_dash(one["bytes"].as_u64().map(bytes)),
            text(&one["certificate"]).to_owned(),
            second("published_at"),
            second("confirmed_at"),
            or_dash(age.map(seconds)),
            marks.collect::<Vec<_>>().join(", "),
        ]
    });
    let is_number = |name| ["LISTINGS", "SIZE", "AGE"].contains(&name);
    let aligned = columns.map(|name| (name, if is_number(name) { Align::Right } else { Align::Left }));
    let mut out = table(aligned, rows.collect());
    if list["rolled_back"] == true {
        out.push_str("rollback in effect: `grandstand snapshot release` makes the newest snapshot current\n");
    }
    out
}

fn accept(named: &ServerArgs, json: bool) -> Result<ExitCode, Failure> {
    let server = server(named)?;
    let then = server.look()?.facts;
    let Some(HeldBack { snapshot, listings, serving, .. }) = &then.held else {
        return Err(SnapshotError::NothingHeld.into());
    };
    let listed = counted(*listings, "listing");
    tell(format!("accepting {snapshot}: {listed} instead of {serving}, once the origin says that it still has them"));
    server.ask(Method::POST, "/snapshots/accept")?;
    let began = Instant::now();
    loop {
        let now = server.look()?.facts;
        let newest = newest(&now);
        if newest == snapshot {
            if json {
                say_json(json!({ "accepted": snapshot, "listings": listings }))?;
                return Ok(ExitCode::SUCCESS);
            }
            say(format!("{newest} is the newest snapshot now: {}", counted(*listings, "listing")))?;
            if now.rollback.is_some() {
                say(NOT_CURRENT)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        if newest != self::newest(&then) || began.elapsed() > PATIENCE {
            let (held, newest, admin) = (snapshot.clone(), newest.to_owned(), server.admin);
            return Err(SnapshotError::NotPublished { held, newest, admin }.into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The last published snapshot: it is served, or waits for the end of a rollback.
fn newest(facts: &StatusFacts) -> &str {
    let served = facts.snapshot.as_ref().map(|snapshot| snapshot.id.as_str());
    facts.rollback.as_ref().map_or(served, |rollback| rollback.newest.as_deref()).unwrap_or("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_list_is_a_table_with_what_is_special_of_each() {
        let one = |id: &str, served: bool, newest: bool| {
            json!({ "id": id, "listings": 700, "bytes": 45_300_000, "certificate": "full",
                    "confirmed_at": "2026-01-01T00:00:00.25Z", "published_at": "2026-01-01T00:00:07Z", "served": served, "newest": newest, "pinned": served, "exported": false })
        };
        let list = json!({ "rolled_back": true, "snapshots": [one("bb", false, true), one("aa", true, false)] });
        let text = list_table(&list, WallTime::parse_rfc3339("2026-01-01T02:05:00Z").unwrap());
        let expected = "\
SNAPSHOT  LISTINGS      SIZE  CERTIFICATE  PUBLISHED             CONFIRMED                   AGE
bb             700  43.2 MiB  full         2026-01-01T00:00:07Z  2026-01-01T00:00:00Z  2 h 4 min  newest
aa             700  43.2 MiB  full         2026-01-01T00:00:07Z  2026-01-01T00:00:00Z  2 h 4 min  current, pinned
rollback in effect: `grandstand snapshot release` makes the newest snapshot current
";
        assert_eq!(text, expected);
    }
}
