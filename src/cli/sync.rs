//! `grandstand sync`: one full copy; exit code 0 if it is complete. The process that holds the data directory makes it.
//!
//! Callers: [`super`], and commands beside it.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::config::{Config, ConfigIssue, LogConfig, LogLevel, Use};
use crate::data::snapshot::meta::Certificate;
use crate::origin::status::{LastError, Progress};
use crate::server::admin::facts::{BudgetFacts, StatusFacts};
use crate::server::hosted::Purpose;
use crate::words::counted;

use super::server::Server;
use super::target::ServerArgs;
use super::terminal::{Display, say, start_log, tell};
use super::{Failure, plain};

pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// The least time between two warnings that the origin fails.
const REMINDER: Duration = Duration::from_secs(60);
/// `sync` gives up after this long without progress.
const LONGEST_IDLE: Duration = Duration::from_secs(120);
/// `sync` gives up after this long without progress while the origin fails, or after so many failures in a row.
const LONGEST_FAILING: Duration = Duration::from_secs(60);
const MOST_FAILURES: u32 = 8;

#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error(
        "the mirror is incomplete ({stage}); {}run `grandstand sync` again to continue; last error: {last}",
        if *is_failing { "check that the origin works and that origin.url is its address; then " } else { "" }
    )]
    Incomplete { stage: String, last: String, is_failing: bool },
    #[error(
        "the mirror is incomplete: some details could not be written to {0}; free disk space, then run `grandstand sync` again"
    )]
    NotStored(String),
}

/// Checks that the configuration is a mirror; the error names the key that prevents it.
pub(super) fn needs_mirror(config: &Config, command: &str) -> Result<(), Failure> {
    match config.usage() {
        Use::Mirror => Ok(()),
        Use::Offline => Err(no_origin(command)),
        Use::Replica => {
            let problem = format!("is set, and origin.url is not: this is a replica, and `{command}` needs a mirror");
            Err(Failure::Config(ConfigIssue::about("replica.url", &problem).into()))
        }
        Use::Shield => {
            let problem = format!("is false, but `{command}` needs a mirror");
            Err(Failure::Config(ConfigIssue::about("mirror.enabled", &problem).into()))
        }
    }
}

/// A command needs an origin, and the configuration names none.
pub(super) fn no_origin(command: &str) -> Failure {
    let problem =
        format!("is not set, but `{command}` needs an origin: for example --set origin.url=https://api.example.org");
    Failure::Config(ConfigIssue::about("origin.url", &problem).into())
}

/// Arguments of `grandstand sync`.
#[derive(Debug, Args)]
pub(super) struct Sync {
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
    /// Never give up while the origin fails
    ///
    /// Without it, sync gives up after 8 failures in a row, after a minute of failures, or when nothing has arrived for
    /// two minutes. Pauses that the origin asked for do not count, nor do waits for the budget.
    #[arg(long)]
    wait: bool,
}

impl Sync {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = self.server.config(|config| needs_mirror(config, "sync"))?;
        // `follow` reports failures.
        start_log(LogConfig { level: LogLevel::Error, ..config.log })?;
        let server = self.server.server(&config, &Purpose::Sync)?;
        let (is_here, place) = (server.is_here(), server.admin.clone());
        let copied = copy(&server, config.replica.url.is_some(), self.wait);
        let is_stored = server.close();
        let (told, mut text) = copied?;
        if !is_stored {
            return Err(SyncError::NotStored(place).into());
        }
        if is_here {
            text = format!("{text}, stored in {place}");
        }
        say(if self.json { told.to_string() } else { text })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The report of a complete copy, for scripts and for people.
fn told(listings: u64, mirrored: Option<u64>, of: Option<u64>, text: String) -> (Value, String) {
    let details = json!({ "mirrored": mirrored, "of": of });
    (json!({ "complete": mirrored == of, "listings": listings, "details": details }), text)
}

struct SyncProgress {
    stage: Stage,
    pass: Option<Progress>,
    /// The counted thing, how many of it are done, and how many there are.
    shown: Option<(&'static str, u64, u64)>,
    is_complete: bool,
    trouble: Trouble,
    url: String,
    last_error: Option<LastError>,
    held: Option<String>,
}

/// What holds a copy up.
#[derive(Clone, Debug, Default)]
struct Trouble {
    /// Failures in a row.
    failures: u32,
    is_failing: bool,
    budget: BudgetFacts,
}

impl Trouble {
    /// Whether the origin wants a pause, or requests wait for the budget: while it fails they also wait with slots free.
    fn is_waiting(&self) -> bool {
        let BudgetFacts { limit, free, waiting, asked_seconds, .. } = self.budget;
        asked_seconds > 0 || (limit.is_some() && waiting > 0 && (free == Some(0) || !self.is_failing))
    }
}

/// For how long nothing came, without such waits.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    /// `--wait`: it is never over.
    is_endless: bool,
    idle: Duration,
    failing: Duration,
}

impl Patience {
    /// Counts the time since the last look; returns whether it is enough.
    fn is_over(&mut self, since: Duration, advanced: bool, trouble: &Trouble) -> bool {
        if advanced {
            (self.idle, self.failing) = (Duration::ZERO, Duration::ZERO);
        } else if !trouble.is_waiting() {
            self.idle += since;
            self.failing = if trouble.is_failing { self.failing + since } else { Duration::ZERO };
        }
        let is_too_much =
            trouble.failures >= MOST_FAILURES || self.failing >= LONGEST_FAILING || self.idle >= LONGEST_IDLE;
        is_too_much && !self.is_endless
    }
}

/// Shows the progress of a copy until it is complete. `waits`: whatever the origin does.
fn follow(
    every: Duration,
    waits: bool,
    mut look: impl FnMut() -> Result<SyncProgress, Failure>,
) -> Result<(), Failure> {
    let (mut display, mut patience) = (Display::default(), Patience { is_endless: waits, ..Patience::default() });
    let (mut last, mut looked, mut told) = (None, Instant::now(), None::<Instant>);
    loop {
        let now = look()?;
        // One failure alone says little.
        if let (true, Some(error)) = (now.trouble.is_failing && now.trouble.failures != 1, &now.last_error)
            && told.is_none_or(|told| told.elapsed() >= REMINDER)
        {
            tell(format!("the origin fails: {}; trying again", plain(&error.message)));
            told = Some(Instant::now());
        }
        if let Some((word, done, of)) = now.shown {
            display.count_or_pause(word, done, of, now.trouble.budget.asked_seconds);
        }
        if now.is_complete {
            if let Some(reason) = &now.held {
                let reason = plain(reason);
                tell(format!(
                    "warning: a snapshot is held back: {reason}; to publish it, run `grandstand snapshot accept`"
                ));
            }
            return Ok(());
        }
        // Checking many pages once more is progress, too.
        let progress = Some((now.stage.clone(), now.pass));
        let advanced = std::mem::replace(&mut last, progress.clone()) != progress;
        let since = std::mem::replace(&mut looked, Instant::now()).elapsed();
        if patience.is_over(since, advanced, &now.trouble) {
            let last = now.last_error.map_or_else(|| format!("none ({})", now.url), |error| error.message);
            let (stage, is_failing) = (now.stage.to_string(), now.trouble.is_failing);
            return Err(SyncError::Incomplete { stage, last, is_failing }.into());
        }
        std::thread::sleep(every);
    }
}

/// Asks for a full pass, and waits until the copy is complete.
fn copy(server: &Server, seeds: bool, waits: bool) -> Result<(Value, String), Failure> {
    let StatusFacts { snapshot, origin, .. } = server.look()?.facts;
    let before = origin.passes;
    // The first pass has begun, or begins by itself: unless an object store brings the first data.
    let is_first = snapshot.is_none() && (origin.pass.is_some() || server.is_here() && !seeds);
    if !is_first || origin.failures > 0 {
        server.ask(Method::POST, "/sync")?;
    }
    if !server.is_here() {
        tell(format!("the running server at {} makes the copy", server.admin));
    }
    let (mut listings, mut details, mut on_demand) = (0, None, false);
    follow(2 * INTERVAL, waits, || {
        let facts = server.look()?.facts;
        let certificate = newest_certificate(server, &facts)?;
        details.clone_from(&facts.details);
        listings = facts.listings.unwrap_or(0);
        // A server that fetches details on demand never has all of them.
        on_demand = details.as_ref().and_then(|details| details.wanted.as_deref()) == Some("on-demand");
        let is_whole = details.as_ref().is_some_and(|details| details.current() == details.of);
        let is_here = facts.origin.passes > before && (on_demand || is_whole);
        let is_failing = facts.origin.failures > 0 || facts.origin.failing().is_some();
        let shown = match (facts.origin.pass, &details) {
            (Some(pass), _) => Some(("pages", pass.done, pass.of)),
            (None, details) => details.as_ref().map(|details| ("details", details.current(), details.of)),
        };
        Ok(SyncProgress {
            stage: stage(&facts, certificate),
            pass: facts.origin.pass,
            shown,
            is_complete: is_here && certificate.is_some_and(is_settled),
            trouble: Trouble {
                failures: facts.origin.failures,
                is_failing,
                budget: facts.origin.budget.unwrap_or_default(),
            },
            url: facts.origin.url.unwrap_or_default(),
            last_error: facts.last_error,
            held: facts.held.map(|held| held.reason),
        })
    })?;
    let (mirrored, of) = details.map(|details| (details.mirrored, details.of)).unzip();
    let all = counted(listings, "listing");
    let (stored, all_details) = (mirrored.unwrap_or(0), of.unwrap_or(0));
    let text = if on_demand {
        format!("complete: {all}; details are fetched on demand, {stored} of {all_details} are stored")
    } else {
        format!("complete: {all} with details")
    };
    Ok(told(listings, mirrored, of, text))
}

/// The certificate of the newest snapshot; `None`: there is no snapshot. During a rollback `/status` has another one's.
fn newest_certificate(server: &Server, facts: &StatusFacts) -> Result<Option<Certificate>, Failure> {
    let word = match facts.rollback.as_ref().and_then(|rollback| rollback.newest.as_deref()) {
        None => facts.snapshot.as_ref().map(|snapshot| snapshot.certificate.as_str().into()),
        Some(newest) => {
            let list = server.json(Method::GET, "/snapshots")?;
            let mut kept = list["snapshots"].as_array().into_iter().flatten();
            kept.find(|one| one["id"] == newest).map(|one| one["certificate"].clone())
        }
    };
    Ok(word.and_then(|word| serde_json::from_value(word).ok()))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Pages and taxonomies come in.
    Listing {
        done: u64,
        /// Requests in all, as far as known.
        of: u64,
    },
    /// The list is published; details come in.
    Details {
        /// As new as their summaries.
        done: u64,
        of: u64,
        certificate: Certificate,
    },
    /// Everything is mirrored and certified.
    Complete { listings: u64 },
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listing { of: 0, .. } => f.write_str("no page has been read"),
            Self::Listing { done, of } => write!(f, "{done} of {}", counted(*of, "page")),
            Self::Details { done, of, certificate } => {
                write!(f, "{done} of {}, certificate {}", counted(*of, "detail"), certificate.as_str())
            }
            Self::Complete { listings } => {
                write!(f, "{} with details, but not confirmed yet", counted(*listings, "listing"))
            }
        }
    }
}

impl Stage {
    /// The counted thing, how many of it are done, and how many there are.
    pub(super) const fn count(&self) -> (&'static str, u64, u64) {
        match self {
            Self::Listing { done, of } => ("pages", *done, *of),
            Self::Details { done, of, .. } => ("details", *done, *of),
            Self::Complete { listings } => ("details", *listings, *listings),
        }
    }
}

/// Whether a copy with this certificate can be complete.
const fn is_settled(certificate: Certificate) -> bool {
    matches!(certificate, Certificate::Full | Certificate::Incremental)
}

pub(super) fn stage(facts: &StatusFacts, certificate: Option<Certificate>) -> Stage {
    let details = facts.details.clone().unwrap_or_default();
    let (current, of) = (details.current(), details.of);
    match certificate {
        Some(certificate) if facts.details.is_some() && current == of && is_settled(certificate) => {
            Stage::Complete { listings: of }
        }
        Some(certificate) => Stage::Details { done: current, of, certificate },
        None => {
            let pass = facts.origin.pass.unwrap_or_default();
            Stage::Listing { done: pass.done, of: pass.of }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(status: Value) -> StatusFacts {
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn pauses_and_waits_for_the_budget_cost_no_patience_and_wait_has_no_end() {
        let second = Duration::from_secs(1);
        for (failures, asked_seconds, free, waiting, over) in [
            (0, 0, Some(60), 0, Some(120)),
            (1, 0, Some(60), 0, Some(60)),
            (1, 0, Some(60), 3, Some(60)),
            (8, 0, Some(60), 0, Some(1)),
            (1, 30, Some(60), 3, None),
            (1, 0, Some(0), 3, None),
            (0, 0, Some(7), 3, None),
            (0, 0, None, 3, Some(120)),
        ] {
            let budget =
                BudgetFacts { limit: free.map(|_| 60), free, waiting, asked_seconds, ..BudgetFacts::default() };
            let trouble = Trouble { failures, is_failing: failures > 0, budget };
            for (is_endless, over) in [(false, over), (true, None)] {
                let mut patience = Patience { is_endless, ..Patience::default() };
                patience.is_over(second, true, &trouble);
                let ends = (1..=1000).find(|_| patience.is_over(second, false, &trouble));
                assert_eq!(ends, over, "{is_endless} {trouble:?}");
            }
        }
        let (mut patience, failing) = (Patience::default(), Trouble { is_failing: true, ..Trouble::default() });
        (0..200).for_each(|look| assert!(!patience.is_over(second, look % 59 == 0, &failing), "something arrives"));
    }

    #[test]
    fn a_sync_counts_current_details_where_the_server_tells_them() {
        for (details, expected) in [
            (json!({ "mirrored": 60, "current": 41, "of": 60 }), Some(41)),
            (json!({ "mirrored": 60, "of": 60 }), Some(60)),
            (Value::Null, None),
        ] {
            let facts = facts(json!({ "details": details }));
            assert_eq!(facts.details.map(|details| details.current()), expected, "{details}");
        }
    }

    #[test]
    fn how_far_a_server_is_is_said_as_without_a_server() {
        let status = |current| {
            let details = json!({ "mirrored": 5, "current": current, "of": 6 });
            facts(json!({ "origin": { "pass": { "done": 3, "of": 7 } }, "details": details }))
        };
        for (certificate, current, said) in [
            (None, 5, "3 of 7 pages"),
            (Some(Certificate::Full), 5, "5 of 6 details, certificate full"),
            (Some(Certificate::BestEffort), 6, "6 of 6 details, certificate best-effort"),
            (Some(Certificate::Incremental), 6, "6 listings with details, but not confirmed yet"),
        ] {
            assert_eq!(stage(&status(current), certificate).to_string(), said);
        }
        assert_eq!(stage(&StatusFacts::default(), None).to_string(), "no page has been read");
    }
}
