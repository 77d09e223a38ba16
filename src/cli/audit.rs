//! `grandstand audit`: compares this mirror with its origin, request by request; fails on any difference.
//!
//! Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use http::Method;

use crate::config::{LogConfig, LogLevel, Use};
use crate::mirror::examiner::report::{Job, Report};
use crate::server::admin::facts::StatusFacts;
use crate::server::hosted::Purpose;
use crate::words::counted;

use super::Failure;
use super::server::Server;
use super::sync::{INTERVAL, needs_mirror};
use super::target::ServerArgs;
use super::terminal::{Align, Display, Paint, say, start_log, table, tell};

/// The longest time for a first refresh, or for the pass that repairs differences.
const PATIENCE: Duration = Duration::from_secs(150);

/// Arguments of `grandstand audit`.
#[derive(Debug, Args)]
pub(super) struct Audit {
    #[command(flatten)]
    server: ServerArgs,
    /// Number of requests to compare
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    samples: u64,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// Why nothing can be compared.
#[derive(Debug, thiserror::Error)]
enum AuditError {
    #[error("nothing has been mirrored into {0} yet; run `grandstand sync` first")]
    Nothing(String),
    #[error("the audit was aborted: {0}")]
    GivenUp(&'static str),
}

impl Audit {
    /// Audits; succeeds at parity.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let config = self.server.config(|config| needs_mirror(config, "audit"))?;
        start_log(LogConfig { level: LogLevel::Error, ..config.log })?;
        let server = self.server.server(&config, &Purpose::Audit)?;
        let job = self.audit(&server);
        server.close();
        let job = job?;
        let (report, is_parity) = (&job.report, job.report.is_parity());
        if self.json {
            let mut told = serde_json::to_value(report)?;
            told["samples"] = job.samples.into();
            told["parity"] = is_parity.into();
            say(told)?;
        } else {
            say(counts(report) + &report.text())?;
        }
        Ok(if is_parity { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn audit(&self, server: &Server) -> Result<Job, Failure> {
        let wait = |is_over: &dyn Fn(&StatusFacts) -> bool| -> Result<(), Failure> {
            let began = Instant::now();
            while server.is_here() && began.elapsed() < PATIENCE && !is_over(&server.look()?.facts) {
                std::thread::sleep(INTERVAL);
            }
            Ok(())
        };
        let facts = server.look()?.facts;
        // A server of another use refuses with its reason.
        if facts.snapshot.is_none() && facts.usage == Use::Mirror.as_str() {
            return Err(AuditError::Nothing(facts.data_dir).into());
        }
        // Changes while nothing ran are expected: the mirror refreshes first.
        wait(&|facts| facts.origin.refreshed_at.is_some() || facts.last_error.is_some())?;
        let accepted = server.json(Method::POST, &format!("/audit?samples={}", self.samples))?;
        if accepted["joined"] == true {
            let samples = counted(accepted["samples"].as_u64().unwrap_or(0), "sample");
            tell(format!("an audit of {samples} is already running; waiting for it"));
        }
        if !server.is_here() {
            tell(format!("the running server at {} makes the audit", server.admin));
        }
        let id = accepted["id"].as_u64().ok_or(AuditError::GivenUp("the answer of the server names no audit"))?;
        let job = follow(id, || Ok(serde_json::from_value(server.json(Method::GET, "/audit")?)?))?;
        if let Some(before) = job.awaits_pass {
            wait(&|facts| facts.origin.passes > before || facts.origin.failures > 0)?;
        }
        Ok(job)
    }
}

/// How many samples came to what.
fn counts(report: &Report) -> String {
    let all = [
        ("equal", report.equal),
        ("different", report.different),
        ("undecided", report.undecided),
        ("not answered", report.not_answered),
        ("forwarded", report.read_through),
    ];
    let rows = all.into_iter().enumerate().filter(|(at, (_, count))| *at < 2 || *count > 0);
    let rows = rows.map(|(_, (what, count))| [what.to_owned(), count.to_string()]);
    let (paint, mut text) = (Paint::of_stdout(), String::new());
    for (n, line) in table([("RESULT", Align::Left), ("SAMPLES", Align::Right)], rows.collect()).lines().enumerate() {
        text.push_str(&match line {
            _ if n == 0 => paint.heading(line),
            _ if line.starts_with("different  ") && report.different > 0 => paint.verdict(false, line),
            _ => line.into(),
        });
        text.push('\n');
    }
    text
}

/// Shows the progress of an audit until it is done.
fn follow(id: u64, look: impl Fn() -> Result<Job, Failure>) -> Result<Job, Failure> {
    let mut display = Display::default();
    loop {
        let job = look()?;
        if job.id != id {
            return Err(AuditError::GivenUp("the server was restarted, or another audit replaced this one").into());
        }
        if !job.is_running() {
            return Ok(job);
        }
        display.count(job.phase.as_str(), job.done, job.of, 0, None);
        std::thread::sleep(3 * INTERVAL);
    }
}
