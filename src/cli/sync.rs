//! `grandstand sync`: one full copy; exit code 0 if it is complete. The process that holds the data directory makes it.
//!
//! Callers: [`super`], and commands beside it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::config::{Config, LogConfig, LogLevel, Use};
use crate::data::snapshot::meta::Certificate;
use crate::server::admin::facts::{BudgetFacts, StatusFacts};
use crate::server::hosted::Purpose;
use crate::words::counted;

use super::server::Server;
use super::target::ServerArgs;
use super::terminal::{Display, say, say_json, start_log, tell};
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
    let (key, problem) = match config.usage() {
        Use::Mirror => return Ok(()),
        Use::Offline => ("origin.url", "is not set (for example --set origin.url=https://api.example.org)"),
        Use::Replica => ("replica.url", "is set, and origin.url is not: this is a replica"),
        Use::Shield => ("mirror.enabled", "is false"),
    };
    Err(Failure::of_key(key, &format!("{problem}, but `{command}` needs a mirror")))
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
        // `copy` reports failures.
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
        if self.json {
            say_json(told)?;
        } else {
            say(text)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether the origin fails, as far as `/status` says.
fn is_failing(facts: &StatusFacts) -> bool {
    facts.origin.failures > 0 || facts.origin.failing().is_some()
}

/// Whether the origin wants a pause, or requests wait for the budget: while it fails they also wait with slots free.
fn is_waiting(facts: &StatusFacts) -> bool {
    facts.origin.budget.as_ref().is_some_and(|BudgetFacts { limit, free, waiting, asked_seconds, .. }| {
        *asked_seconds > 0 || (limit.is_some() && *waiting > 0 && (*free == Some(0) || !is_failing(facts)))
    })
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
    fn is_over(&mut self, since: Duration, advanced: bool, facts: &StatusFacts) -> bool {
        if advanced {
            (self.idle, self.failing) = (Duration::ZERO, Duration::ZERO);
        } else if !is_waiting(facts) {
            self.idle += since;
            self.failing = if is_failing(facts) { self.failing + since } else { Duration::ZERO };
        }
        let is_too_much =
            facts.origin.failures >= MOST_FAILURES || self.failing >= LONGEST_FAILING || self.idle >= LONGEST_IDLE;
        is_too_much && !self.is_endless
    }
}

/// Asks for a full pass, and shows the progress until the copy is complete; returns the report for scripts and for people.
/// `waits`: whatever the origin does.
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
    let (mut display, mut patience) = (Display::default(), Patience { is_endless: waits, ..Patience::default() });
    let (mut last, mut looked, mut warned) = (None, Instant::now(), None::<Instant>);
    loop {
        let facts = server.look()?.facts;
        let certificate = newest_certificate(server, &facts)?;
        // One failure alone says little.
        if let (true, Some(error)) = (is_failing(&facts) && facts.origin.failures != 1, &facts.last_error)
            && warned.is_none_or(|warned| warned.elapsed() >= REMINDER)
        {
            tell(format!("the origin fails: {}; trying again", plain(&error.message)));
            warned = Some(Instant::now());
        }
        if let Some((word, done, of)) = progress(&facts) {
            let pause = facts.origin.budget.as_ref().map_or(0, |budget| budget.asked_seconds);
            display.count(word, done, of, pause, facts.origin.eta_seconds);
        }
        // A server that fetches details on demand never has all of them.
        let is_on_demand = facts.details.as_ref().is_some_and(|details| details.wanted.as_deref() == Some("on-demand"));
        let is_certified = certificate.is_some_and(Certificate::is_settled) && facts.origin.passes > before;
        if is_certified && (is_on_demand || is_whole(&facts, certificate)) {
            if let Some(held) = &facts.held {
                let reason = plain(&held.reason);
                tell(format!(
                    "warning: a snapshot is held back: {reason}; to publish it, run `grandstand snapshot accept`"
                ));
            }
            return Ok(report(&facts, is_on_demand));
        }
        // Checking many pages once more is progress, too.
        let progress = Some((stage(&facts, certificate), facts.origin.pass));
        let advanced = std::mem::replace(&mut last, progress.clone()) != progress;
        let since = std::mem::replace(&mut looked, Instant::now()).elapsed();
        if patience.is_over(since, advanced, &facts) {
            let is_failing = is_failing(&facts);
            let url = facts.origin.url.unwrap_or_default();
            let last = facts.last_error.map_or_else(|| format!("none ({url})"), |error| error.message);
            let stage = progress.map(|(stage, _)| stage).unwrap_or_default();
            return Err(SyncError::Incomplete { stage, last, is_failing }.into());
        }
        std::thread::sleep(2 * INTERVAL);
    }
}

fn report(facts: &StatusFacts, is_on_demand: bool) -> (Value, String) {
    let (listings, details) = (facts.listings.unwrap_or(0), facts.details.clone().unwrap_or_default());
    let all = counted(listings, "listing");
    let text = if is_on_demand {
        format!("complete: {all}; details are fetched on demand, {} of {} are stored", details.mirrored, details.of)
    } else {
        format!("complete: {all} with details")
    };
    let stored = json!({ "mirrored": details.mirrored, "of": details.of });
    (json!({ "complete": details.mirrored == details.of, "listings": listings, "details": stored }), text)
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

/// Whether the list is certified, and every detail is as new as its summary.
pub(super) fn is_whole(facts: &StatusFacts, certificate: Option<Certificate>) -> bool {
    let details = facts.details.as_ref();
    certificate.is_some_and(Certificate::is_settled) && details.is_some_and(|details| details.current == details.of)
}

/// The counted thing, how many of it are done, and how many there are.
pub(super) fn progress(facts: &StatusFacts) -> Option<(&'static str, u64, u64)> {
    match (facts.origin.pass, &facts.details) {
        (Some(pass), _) => Some(("pages", pass.done, pass.of)),
        (None, details) => details.as_ref().map(|details| ("details", details.current, details.of)),
    }
}

/// How far a copy is that is not complete.
fn stage(facts: &StatusFacts, certificate: Option<Certificate>) -> String {
    let (details, pass) = (facts.details.clone().unwrap_or_default(), facts.origin.pass.unwrap_or_default());
    match certificate {
        None if pass.of == 0 => "no page has been read".to_owned(),
        None => format!("{} of {}", pass.done, counted(pass.of, "page")),
        Some(_) if is_whole(facts, certificate) => {
            format!("{} with details, but not confirmed yet", counted(details.of, "listing"))
        }
        Some(certificate) => {
            let of = counted(details.of, "detail");
            format!("{} of {of}, certificate {}", details.current, certificate.as_str())
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
            let limit = free.map(|_: u8| 60);
            let budget = json!({ "limit": limit, "free": free, "waiting": waiting, "asked_seconds": asked_seconds });
            let facts = facts(json!({ "origin": { "failures": failures, "budget": budget } }));
            for (is_endless, over) in [(false, over), (true, None)] {
                let mut patience = Patience { is_endless, ..Patience::default() };
                patience.is_over(second, true, &facts);
                let ends = (1..=1000).find(|_| patience.is_over(second, false, &facts));
                assert_eq!(ends, over, "{is_endless} {budget}");
            }
        }
        let (mut patience, failing) = (Patience::default(), facts(json!({ "origin": { "failures": 1 } })));
        (0..200).for_each(|look| assert!(!patience.is_over(second, look % 59 == 0, &failing), "something arrives"));
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
            assert_eq!(stage(&status(current), certificate), said);
        }
        assert_eq!(stage(&StatusFacts::default(), None), "no page has been read");
    }
}
