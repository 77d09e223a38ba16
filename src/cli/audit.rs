//! `grandstand audit`: compares this mirror with its origin, request by request; fails on any difference.
//!
//! Callers: [`super`].

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;

use crate::app::core::Core;
use crate::app::error::AppError;
use crate::audit::job::{Job, Phase, Report};
use crate::config::{Loaded, LogConfig, LogLevel, Secret};
use crate::store::OpenError;
use crate::words::counted;

use super::progress::{Display, INTERVAL};
use super::status::ask;
use super::sync::{needs_mirror, no_origin};
use super::table::{Align, Paint, Table};
use super::{Failure, Sources, load, logging};

/// The longest time for a first refresh, or for the pass that repairs differences.
const PATIENCE: Duration = Duration::from_secs(150);

/// Arguments of `grandstand audit`.
#[derive(Debug, Args)]
pub(super) struct Audit {
    #[command(flatten)]
    sources: Sources,
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
    /// Audits, in this process or in the server that holds the data directory; succeeds at parity.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let Loaded { mut config, .. } = load(&self.sources)?;
        needs_mirror(&config, "audit")?;
        // No background samples.
        config.mirror.audit_per_hour = 0;
        logging::start(LogConfig { level: LogLevel::Error, ..config.log })?;
        let job = match Core::open(&config) {
            Err(AppError::Open(OpenError::Held { admin: Some(admin), .. })) => {
                eprintln!(
                    "{} is in use by a running server; using its admin listener {admin}",
                    config.data_dir.display()
                );
                self.through(&format!("http://{admin}"), config.admin.secret())?
            }
            other => self.alone(other?, &config.data_dir.display().to_string())?,
        };
        if self.json {
            println!("{}", told(&job)?);
            return Ok(if job.report.is_parity() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        print!("{}", table(&job.report));
        println!("{}", job.report.text());
        Ok(if job.report.is_parity() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Opens the way to the origin itself.
    fn alone(&self, core: Core, data_dir: &str) -> Result<Job, Failure> {
        let (Some(mirror), Some(auditor), Some(origin)) = (core.mirror, core.auditor, core.origin) else {
            return Err(no_origin("audit"));
        };
        if core.current.load().is_none() {
            return Err(AuditError::Nothing(data_dir.to_owned()).into());
        }
        let status = origin.client.status().clone();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.spawn(mirror.run());
        // Changes while nothing ran are expected: the mirror refreshes first.
        let began = Instant::now();
        while status.picture().refreshed_ms.is_none()
            && status.picture().last_error.is_none()
            && began.elapsed() < PATIENCE
        {
            std::thread::sleep(INTERVAL);
        }
        runtime.spawn(auditor.run());
        let (asked, _) = core.audits.ask(self.samples);
        let result = follow(asked.id, || Ok(core.audits.job()));
        if let Ok(Job { awaits_pass: Some(before), .. }) = &result {
            let began = Instant::now();
            while status.picture().passes <= *before
                && status.picture().health.failures() == 0
                && began.elapsed() < PATIENCE
            {
                std::thread::sleep(INTERVAL);
            }
        }
        if let Some(details) = &core.details {
            let _ = details.flush();
        }
        runtime.shutdown_background();
        result
    }

    /// Asks the server that holds the data directory.
    fn through(&self, admin: &str, token: Option<&Secret>) -> Result<Job, Failure> {
        let (_, text) = ask(http::Method::POST, &format!("{admin}/audit?samples={}", self.samples), token)?;
        let accepted: serde_json::Value = serde_json::from_str(&text)?;
        if accepted["joined"] == true {
            let samples = counted(accepted["samples"].as_u64().unwrap_or(0), "sample");
            eprintln!("an audit of {samples} is already running; waiting for it");
        }
        let id = accepted["id"].as_u64().ok_or(AuditError::GivenUp("the answer of the server names no audit"))?;
        follow(id, || {
            let (_, text) = ask(http::Method::GET, &format!("{admin}/audit"), None)?;
            Ok(serde_json::from_str(&text)?)
        })
    }
}

/// The report for scripts.
fn told(job: &Job) -> Result<serde_json::Value, Failure> {
    let mut told = serde_json::to_value(&job.report)?;
    told["samples"] = job.samples.into();
    told["parity"] = job.report.is_parity().into();
    Ok(told)
}

/// How many samples came to what.
fn table(report: &Report) -> String {
    let paint = Paint::of_stdout();
    let mut table = Table::new([("RESULT", Align::Left), ("SAMPLES", Align::Right)]);
    for (what, count) in [
        ("equal", report.equal),
        ("different", report.different),
        ("undecided", report.undecided),
        ("not answered", report.not_answered),
        ("forwarded", report.read_through),
        ("different as documented", report.by_contract),
    ] {
        if count > 0 || what == "equal" || what == "different" {
            table.row([what.to_owned(), count.to_string()]);
        }
    }
    let mut text = String::new();
    for (n, line) in table.to_string().lines().enumerate() {
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
    let mut display = Display::new();
    loop {
        let job = look()?;
        if job.id != id {
            return Err(AuditError::GivenUp("the server was restarted, or another audit replaced this one").into());
        }
        if !job.is_running() {
            display.finish();
            return Ok(job);
        }
        let rank = match job.phase {
            Phase::Confirming => 2,
            Phase::Sampling => 1,
            _ => 0,
        };
        display.count(rank, job.phase.as_str(), job.done, job.of);
        std::thread::sleep(3 * INTERVAL);
    }
}
