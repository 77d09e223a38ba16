//! `grandstand status`: one screen about a running server; with `--watch` again and again until a signal comes.
//!
//! On a terminal, `--watch` redraws one screen. Elsewhere and with `--json` it writes a line for each change. Callers:
//! [`super`].

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::clock::Clock;
use crate::origin::status::OriginState;
use crate::server::admin::facts::{DetailFacts, StatusFacts};
use crate::tasks::blocking;
use crate::telemetry::findings::Raised;
use crate::words::{bytes, counted, seconds};

use super::server::{Server, ServerLook};
use super::target::ServerArgs;
use super::terminal::{Paint, Terminal, put, say};
use super::{Failure, plain};

/// How long to wait between two requests.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Arguments of `grandstand status`.
#[derive(Debug, Args)]
pub(super) struct Status {
    #[command(flatten)]
    server: ServerArgs,
    /// Print the JSON of /status
    #[arg(long)]
    json: bool,
    /// Repeat until Ctrl-C: one screen on a terminal without --json, else a line for each change
    #[arg(long)]
    watch: bool,
    /// Only ask whether the server can answer clients: exit code 0 also if its data is old
    ///
    /// For health checks of containers: a client that gets old data is better off than with a restart.
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    ready: bool,
}

impl Status {
    /// Prints the status; fails if no server answers, or it is unhealthy.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let server = self.server.at_least_listening(true)?;
        let is_healthy = if self.ready {
            let (is_ready, text) = server.ask(Method::GET, "/readyz")?;
            say(plain(text.trim_end()))?;
            is_ready
        } else if self.watch {
            let first = server.look()?;
            server.expect(&first.facts)?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let ended = runtime.block_on(watch(first, Arc::new(server), self.json));
            // It does not wait for a look in progress.
            runtime.shutdown_background();
            ended?
        } else {
            let (is_healthy, text) = server.ask(Method::GET, "/status")?;
            let facts = serde_json::from_str(&text)?;
            server.expect(&facts)?;
            say(if self.json { text } else { painted(&facts) })?;
            is_healthy
        };
        Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Shows the status until SIGINT, SIGTERM or SIGHUP, or until its output is closed. Returns whether the server was
/// healthy at the last look.
async fn watch(first: ServerLook, server: Arc<Server>, json: bool) -> io::Result<bool> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let canvas = (!json && Terminal::of_stdout().redraws).then(AlternateScreen::open);
    let mut seen: Result<ServerLook, Failure> = Ok(first);
    let mut last = String::new();
    loop {
        let is_healthy = matches!(seen, Ok(ServerLook { is_healthy: true, .. }));
        let shown = match &canvas {
            Some(AlternateScreen) => AlternateScreen::draw(&match &seen {
                Ok(look) => painted(&look.facts),
                Err(why) => format!("unreachable: {}\n", plain(&why.to_string())),
            }),
            None => say_if_new(&seen, json, &mut last),
        };
        if !shown? {
            return Ok(is_healthy);
        }
        let next = async {
            tokio::time::sleep(WATCH_INTERVAL).await;
            let server = server.clone();
            blocking(move || server.look()).await
        };
        seen = tokio::select! {
            next = next => next,
            _ = interrupt.recv() => return Ok(is_healthy),
            _ = terminate.recv() => return Ok(is_healthy),
            _ = hang_up.recv() => return Ok(is_healthy),
        };
    }
}

/// Writes a line unless it equals the last one; returns whether anybody still reads.
fn say_if_new(seen: &Result<ServerLook, Failure>, json: bool, last: &mut String) -> io::Result<bool> {
    let summary_line = match seen {
        Ok(look) => summary(&look.facts),
        Err(why) => format!("unreachable: {why}"),
    };
    if summary_line == *last {
        return Ok(true);
    }
    let line = match seen {
        _ if !json => format!("{}  {}\n", Clock::system().now_wall(), plain(&summary_line)),
        Ok(look) => format!("{}\n", look.json),
        Err(why) => format!("{}\n", json!({ "state": "unreachable", "error": why.to_string() })),
    };
    *last = summary_line;
    put(&line)
}

/// The facts that rarely change: no age, cache or hit ratio.
fn summary(facts: &StatusFacts) -> String {
    let mut parts = vec![facts.state.clone()];
    if facts.usage != "shield" {
        parts.push(format!("snapshot {}", snapshot(facts)));
        parts.push(format!("{} listings", or_dash(facts.listings)));
        parts.push(format!("{} details", mirrored(facts.details.as_ref())));
    }
    if !facts.origin.state.is_empty() {
        parts.push(format!("origin {}", facts.origin.state));
    }
    // By name: the texts have numbers that change with each look.
    parts.extend(facts.findings.iter().map(|raised| raised.name.clone()));
    parts.join(", ")
}

/// The terminal's alternate screen. At its end the normal screen comes back.
struct AlternateScreen;

impl AlternateScreen {
    fn open() -> Self {
        // Alternate screen, without a cursor. Nothing can be done about a closed terminal.
        let _ = put("\x1b[?1049h\x1b[?25l");
        Self
    }

    fn draw(text: &str) -> io::Result<bool> {
        put(&format!("\x1b[H\x1b[J{text}\nCtrl-C ends"))
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        let _ = put("\x1b[?25h\x1b[?1049l");
    }
}

/// The screen in colours, where they are seen and wanted, without anything that steers the terminal.
fn painted(facts: &StatusFacts) -> String {
    let paint = Paint::of_stdout();
    let mut text = String::new();
    for (name, value) in lines(facts) {
        let line = plain(&if name.is_empty() { value } else { format!("  {name:<10} {value}") });
        text.push_str(&match name {
            "" => paint.verdict(facts.is_healthy(), &line),
            PROBLEM | FINDING => paint.warning(&line),
            _ => line.as_str().into(),
        });
        text.push('\n');
    }
    text
}

/// The names of lines that say what is wrong.
const PROBLEM: &str = "problem";
const FINDING: &str = "finding";

pub(super) fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// How many details are mirrored, and of how many.
pub(super) fn mirrored(details: Option<&DetailFacts>) -> String {
    format!("{} of {}", or_dash(details.map(|details| details.mirrored)), or_dash(details.map(|details| details.of)))
}

pub(super) fn snapshot(facts: &StatusFacts) -> String {
    let snapshot = facts.snapshot.as_ref();
    let (id, certificate) = (snapshot.map(|snapshot| &snapshot.id), snapshot.map(|snapshot| &snapshot.certificate));
    format!("{} ({})", or_dash(id), or_dash(certificate))
}

/// How the origin is, in the words of the console.
fn origin_text(state: &str) -> String {
    let state = OriginState::ALL.into_iter().find(|known| known.as_str() == state);
    let words = match state {
        Some(OriginState::NotAsked) => "not asked yet",
        Some(OriginState::Offline) => "none: this server is offline",
        Some(OriginState::Crawling) => "answers, every page is being read",
        Some(OriginState::Answering) => "answers",
        Some(OriginState::Unchanged) => "answers, no changes at the last refresh",
        Some(OriginState::Changed) => "answers, changes at the last refresh",
        Some(OriginState::CouldNotBeAsked) => "fails",
        Some(OriginState::Nonsense) => "fails, its answers cannot be used",
        None => "-",
    };
    words.to_owned()
}

/// How the origin is, and for how long it fails.
fn origin_line(facts: &StatusFacts) -> String {
    let state = origin_text(&facts.origin.state);
    match facts.origin.failing_seconds {
        Some(failing) if facts.origin.failing().is_some() => format!("{state}, for {}", seconds(failing)),
        Some(failing) => format!("{state}, but requests have failed for {}", seconds(failing)),
        None if facts.held.is_some() => "answers, its changes are held back".to_owned(),
        None => state,
    }
}

fn behind_for(behind: u64) -> String {
    format!("behind for {}", seconds(behind))
}

/// An object store with the number of its head, and who signed it.
fn store_at_head(url: Option<String>, sequence: Option<u64>, signed_by: Option<String>, behind: &str) -> String {
    let signed = signed_by.map_or_else(String::new, |key| format!("signed by {key}, "));
    format!("{} (head {}, {signed}{behind})", or_dash(url), or_dash(sequence))
}

/// What is missing where an object store and a server are at the same head.
fn caught_up(details_missing: Option<u64>) -> String {
    match details_missing.unwrap_or(0) {
        0 => "nothing is missing".to_owned(),
        1 => "1 detail is on its way".to_owned(),
        more => format!("{} are on their way", counted(more, "detail")),
    }
}

/// The status as lines with names: how the server is, what is wrong, and the facts.
fn lines(facts: &StatusFacts) -> Vec<(&'static str, String)> {
    let mut lines = vec![("", format!("grandstand {} ({})", facts.state, facts.usage))];
    let mut line = |name: &'static str, value: String| lines.push((name, value));
    for Raised { unhealthy, text, todo, .. } in &facts.findings {
        line(if *unhealthy { PROBLEM } else { FINDING }, text.clone());
        line("to do", todo.clone());
    }
    // Earlier versions do not say.
    if !facts.version.is_empty() {
        line("address", facts.public_url.clone());
        line("version", format!("{}, up for {}", facts.version, seconds(facts.uptime_seconds)));
    }
    // A shield has no data of its own.
    let mirrors = facts.usage != "shield";
    if mirrors {
        line("snapshot", snapshot(facts));
        let age = match facts.age_seconds {
            _ if facts.unconfirmed => " (in the future: not confirmed)".to_owned(),
            Some(age) => format!(" ({} ago)", seconds(age.into())),
            None => String::new(),
        };
        line("confirmed", or_dash(facts.confirmed_at.as_ref()) + &age);
        line("listings", or_dash(facts.listings));
        let outdated = facts.details.as_ref().map(|details| details.mirrored.saturating_sub(details.current));
        let outdated = outdated.filter(|outdated| *outdated > 0).map(|outdated| format!(", {outdated} outdated"));
        let eta = facts.origin.eta_seconds.filter(|left| *left > 0).map(|left| format!(", ETA {}", seconds(left)));
        let mirrored = mirrored(facts.details.as_ref());
        line("details", mirrored + &outdated.unwrap_or_default() + &eta.unwrap_or_default());
    }
    let replicates = facts.usage == "replica";
    if replicates {
        let replica = facts.replica.clone().unwrap_or_default();
        let behind = match replica.behind_seconds {
            None => "not followed yet".to_owned(),
            Some(0) => caught_up(replica.details_missing),
            Some(behind) => behind_for(behind),
        };
        line("follows", store_at_head(replica.url, replica.sequence, replica.signed_by, &behind));
    } else {
        let refreshes = mirrors && facts.origin.refreshed_at.is_some() && facts.origin.next_refresh_seconds == Some(0);
        line("origin", origin_line(facts) + if refreshes { ", refreshing now" } else { "" });
    }
    let publish = facts.publish.clone().unwrap_or_default();
    if publish.url.is_some() {
        let behind = match publish.behind_seconds {
            0 => caught_up(publish.details_missing),
            behind => behind_for(behind),
        };
        line("publishes", store_at_head(publish.url, publish.sequence, publish.signed_by, &behind));
    }
    if let Some(budget) = &facts.origin.budget {
        let free = match budget.limit {
            Some(limit) => format!("{} of {limit} free", or_dash(budget.free)),
            None => "no limit".to_owned(),
        };
        let pause = Some(budget.paused_seconds).filter(|left| *left > 0);
        line("budget", free + &pause.map_or_else(String::new, |left| format!(", paused for {}", seconds(left))));
    }
    line("cache", format!("{}, {}", bytes(facts.cache.bytes), counted(facts.cache.entries, "entry")));
    let tls = facts.tls.clone().unwrap_or_default();
    if let Some(until) = tls.valid_until {
        line("https", format!("certificate valid until {until}"));
    }
    line("hit ratio", or_dash(facts.hit_ratio.map(|ratio| format!("{:.1} %", ratio * 100.0))));
    if mirrors && !replicates {
        let parity = facts.parity.as_ref().map(|parity| {
            let compared = counted(parity.compared as u64, "compared sample");
            format!("{} % of the last {compared} equal", parity.percent)
        });
        line("parity", or_dash(parity));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::Value;

    use super::*;

    fn shown(status: &Value) -> String {
        painted(&StatusFacts::deserialize(status).unwrap())
    }

    #[test]
    fn the_line_of_the_origin_says_for_how_long_it_fails_and_what_is_held_back() {
        for (state, failing, held, told) in [
            ("could-not-be-asked", json!(130), json!(null), "fails, for 2 min"),
            ("crawling", json!(7), json!(null), "answers, every page is being read, but requests have failed for 7 s"),
            ("unchanged", json!(null), json!({ "reason": "it lost half" }), "answers, its changes are held back"),
            ("unchanged", json!(null), json!(null), "answers, no changes at the last refresh"),
        ] {
            let origin = json!({ "state": state, "failing_seconds": failing });
            let text = shown(&json!({ "state": "healthy", "use": "mirror", "origin": origin, "held": held }));
            assert!(text.contains(&format!("  origin     {told}\n")), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_comes_first_with_what_to_do() {
        let one =
            |name, unhealthy, text, todo| json!({ "name": name, "unhealthy": unhealthy, "text": text, "todo": todo });
        let findings =
            [one("disk-full", true, "no space left for /data", "Make room."), one("x", false, "y", "Mend it.")];
        let text = shown(&json!({ "state": "unhealthy", "use": "mirror", "findings": findings }));
        let lines = "grandstand unhealthy (mirror)\n  problem    no space left for /data\n  to do      Make room.\n  \
                     finding    y\n  to do      Mend it.\n";
        assert!(text.starts_with(lines), "{text}");
        assert!(
            shown(&json!({ "state": "healthy", "use": "mirror" })).starts_with("grandstand healthy (mirror)\n  snap")
        );
    }

    #[test]
    fn the_screen_begins_with_address_version_and_uptime() {
        let status = json!({ "state": "healthy", "use": "mirror", "version": "1.2.3", "uptime_seconds": 7500,
                             "public_url": "https://venues.example" });
        let lines =
            "grandstand healthy (mirror)\n  address    https://venues.example\n  version    1.2.3, up for 2 h 5 min\n";
        assert!(shown(&status).starts_with(lines), "{}", shown(&status));
    }

    #[test]
    fn a_replica_tells_how_it_stands_to_its_store() {
        let mut status =
            json!({ "state": "healthy", "use": "replica", "replica": { "sequence": 7, "behind_seconds": 0 } });
        status["replica"]["url"] = "s3://venues/fleet".into();
        status["origin"]["state"] = "offline".into();
        let text = shown(&status);
        assert!(text.contains("follows    s3://venues/fleet (head 7, nothing is missing)\n"), "{text}");
        (status["replica"]["details_missing"], status["replica"]["signed_by"]) = (60.into(), "8A90".into());
        let text = shown(&status);
        let line = "follows    s3://venues/fleet (head 7, signed by 8A90, 60 details are on their way)\n";
        assert!(text.contains(line), "{text}");
        status["replica"] = json!({ "sequence": null, "behind_seconds": 900 });
        let text = shown(&status);
        assert!(text.contains("follows    - (head -, behind for 15 min)\n"), "{text}");
        assert!(!["parity", "origin", "budget"].iter().any(|word| text.contains(word)), "{text}");
    }

    #[test]
    fn a_publisher_tells_how_its_store_stands() {
        let mut status = json!({ "state": "healthy", "use": "mirror",
                                 "publish": { "url": "s3://venues/fleet", "sequence": 7, "behind_seconds": 0 } });
        assert!(shown(&status).contains("publishes  s3://venues/fleet (head 7, nothing is missing)\n"));
        status["publish"]["details_missing"] = 1.into();
        assert!(shown(&status).contains("publishes  s3://venues/fleet (head 7, 1 detail is on its way)\n"));
        status["publish"]["behind_seconds"] = 900.into();
        assert!(shown(&status).contains("publishes  s3://venues/fleet (head 7, behind for 15 min)\n"));
    }

    #[test]
    fn a_refresh_that_runs_is_told() {
        let origin = json!({ "state": "changed", "refreshed_at": "2026-01-01T00:00:00Z", "next_refresh_seconds": 0 });
        let mut status = json!({ "state": "healthy", "use": "mirror", "origin": origin });
        assert!(shown(&status).contains("origin     answers, changes at the last refresh, refreshing now\n"));
        status["origin"]["next_refresh_seconds"] = 7.into();
        assert!(!shown(&status).contains("refreshing"));
    }

    #[test]
    fn a_shield_is_not_asked_about_a_snapshot() {
        let mut status = json!({
            "state": "healthy",
            "use": "shield",
            "origin": { "state": "answering", "budget": { "free": 58, "limit": 60, "paused_seconds": 3 } },
            "cache": { "bytes": 4096, "entries": 2 },
            "hit_ratio": 0.5,
        });
        let text = shown(&status);
        for line in [
            "budget     58 of 60 free, paused for 3 s",
            "cache      4096 bytes, 2 entries",
            "hit ratio  50.0 %",
            "origin     answers\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("snapshot") && !text.contains("parity"), "{text}");
        status["use"] = "mirror".into();
        status["origin"]["budget"]["limit"] = Value::Null;
        let text = shown(&status);
        assert!(text.contains("snapshot") && text.contains("budget     no limit"), "{text}");
    }

    #[test]
    fn times_and_sizes_are_in_units_that_people_read() {
        let mut status = json!({
            "state": "healthy", "use": "mirror", "cache": { "bytes": 45_300_000, "entries": 1 },
            "details": { "mirrored": 6, "current": 6, "of": 7 }, "origin": { "state": "unchanged", "eta_seconds": 20_651 },
        });
        let text = shown(&status);
        for line in [
            "confirmed  -\n",
            "details    6 of 7, ETA 5 h 44 min\n",
            "cache      43.2 MiB, 1 entry\n",
            "origin     answers, no changes at the last refresh\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        (status["confirmed_at"], status["age_seconds"]) = ("2026-01-01T00:00:00Z".into(), 7_500.into());
        let text = shown(&status);
        assert!(text.contains("confirmed  2026-01-01T00:00:00Z (2 h 5 min ago)\n"), "{text}");
    }

    #[test]
    fn a_line_names_what_changes_seldom() {
        let summary = |status: &Value| summary(&StatusFacts::deserialize(status).unwrap());
        let mut status = json!({
            "state": "healthy", "use": "mirror", "listings": 7, "age_seconds": 4,
            "snapshot": { "id": "ab", "certificate": "full" }, "details": { "mirrored": 6, "current": 6, "of": 7 },
            "origin": { "state": "unchanged" },
        });
        let line = "healthy, snapshot ab (full), 7 listings, 6 of 7 details, origin unchanged";
        assert_eq!(summary(&status), line);
        status["age_seconds"] = 5.into();
        assert_eq!(summary(&status), line);
        status["findings"] =
            json!([{ "name": "unconfirmed", "text": "not confirmed for 31 s" }, { "name": "disk-full" }]);
        assert_eq!(summary(&status), format!("{line}, unconfirmed, disk-full"));
        status["use"] = "shield".into();
        assert_eq!(summary(&status), "healthy, origin unchanged, unconfirmed, disk-full");
    }
}
