//! The command line: arguments in, exit codes out.
//!
//! 0: done; 1: failed; 64: the configuration or the command line is wrong. Callers: `main`.

mod audit;
mod bundle;
mod demo;
mod holder;
mod logging;
mod origin;
mod progress;
mod server_client;
mod snapshot;
mod status;
mod sync;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::app::core::{AppError, Core};
use crate::app::https::files;
use crate::app::{Sockets, serve};
use crate::clock::Clock;
use crate::config::{Config, ConfigErrors, Examined, Finding, Loaded};
use crate::serve::tls::provider;
use crate::store::{DataDir, Holder, OpenError};

/// The exit code for a configuration that cannot be used (`EX_USAGE` of sysexits).
const EXIT_CONFIG: u8 = 64;

/// A caching reverse proxy and mirror of the Public Sports Venue Listings API.
#[derive(Debug, Parser)]
#[command(name = "grandstand", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Where the configuration comes from.
#[derive(Debug, Args)]
struct Sources {
    /// The configuration file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets one key to a TOML value, over file and environment; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// Arguments of `grandstand serve`.
#[derive(Debug, Args)]
struct Serve {
    #[command(flatten)]
    sources: Sources,
    /// Imports a bundle first, unless the data directory is as new
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the mirror, the shield or the offline replica that the configuration describes
    Serve(Serve),
    /// Runs a sample origin and a mirror of it on loopback, with nothing to configure
    Demo(demo::Demo),
    /// Makes one full mirror pass and shows its progress; succeeds only at full coverage
    Sync(Sources),
    /// Compares this mirror with its origin, request by request; succeeds only when something was compared, nothing
    /// differed, no difference stayed undecided, it was not given up, and at least half of the samples were answered
    Audit(audit::Audit),
    /// Checks the configuration and prints what is in effect; prints every error with its key
    Check(Sources),
    /// Runs the sample origin alone (synthetic data, and the data says so)
    Origin(origin::Origin),
    /// Moves snapshots as files, across an air gap
    Bundle(bundle::Bundle),
    /// What is kept, and which version of it is served
    Snapshot(snapshot::Snapshot),
    /// Shows age, coverage, budget and hit ratio of a running server on one screen; fails when it is unhealthy
    Status(status::Status),
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// The configuration cannot be used.
    Config(ConfigErrors),
    /// Anything else.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(Box::new(error))
    }
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let usage = error.use_stderr();
            // Nothing can be done about a closed terminal.
            drop(error.print());
            return if usage { ExitCode::from(EXIT_CONFIG) } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::Serve(serve) => run_serve(&serve),
        Command::Demo(demo) => demo.run(),
        Command::Sync(sources) => sync::run(&sources),
        Command::Audit(audit) => audit.run(),
        Command::Check(sources) => check(&sources),
        Command::Origin(origin) => origin.run(),
        Command::Bundle(bundle) => bundle.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::Status(status) => status.run(),
    };
    match result {
        Ok(code) => code,
        Err(Failure::Config(errors)) => {
            eprintln!("grandstand: the configuration cannot be used\n{errors}");
            ExitCode::from(EXIT_CONFIG)
        }
        Err(Failure::Other(error)) => {
            let lines: Vec<String> = chain(error.as_ref()).lines().map(plain).collect();
            eprintln!("grandstand: {}", lines.join("\n"));
            ExitCode::FAILURE
        }
    }
}

/// The whole chain of causes in one line; causes that their parent already quotes are not repeated.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// A text of somebody else's that cannot steer a terminal.
fn plain(text: &str) -> String {
    crate::semantics::excerpt::escaped(text)
}

/// Reads the configuration from file, environment and command line, and finds every mistake in it.
fn examine(sources: &Sources) -> Examined {
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut examined = Config::examine(sources.config.as_deref(), env, &sources.sets);
    examined.check_supported();
    examined.check_files();
    examined
}

/// The same for those who listen: the certificate has to be usable as well.
fn examine_to_serve(sources: &Sources) -> Examined {
    let mut examined = examine(sources);
    examined.check_loops();
    let Some(tls) = &examined.config.tls else { return examined };
    match files(tls).certificate(&provider()) {
        Ok(certificate) => {
            let concern = certificate.concern(Clock::system().now_wall());
            examined.warnings.extend(concern.map(|concern| Finding::about("tls.cert", &concern)));
        }
        Err(unusable) => unusable.iter().for_each(|unusable| examined.fail(unusable.key, unusable)),
    }
    examined
}

/// A configuration without mistakes.
fn load(sources: &Sources) -> Result<Loaded, Failure> {
    examine(sources).finish().map_err(Failure::Config)
}

fn load_to_serve(sources: &Sources) -> Result<Loaded, Failure> {
    examine_to_serve(sources).finish().map_err(Failure::Config)
}

fn run_serve(arguments: &Serve) -> Result<ExitCode, Failure> {
    let Loaded { config, warnings } = load_to_serve(&arguments.sources)?;
    let recent = logging::start(config.log)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let sockets = bind(&config)?;
    let config = config.listening_on(sockets.public(), sockets.admin());
    let core = Core { recent, ..Core::open(&config)? };
    if let Some(path) = &arguments.bundle {
        bundle::before_serving(&config, &core, path)?;
    }
    match serve(&config, sockets, core)? {}
}

/// Binds every address. With the same configuration a second server finds the addresses taken before it finds the data
/// directory held; the holder says more.
fn bind(config: &Config) -> Result<Sockets, AppError> {
    Sockets::bind(config).map_err(|error| match DataDir::holder(&config.data_dir) {
        Some(Holder { pid, admin }) => AppError::Open(OpenError::Held { path: config.data_dir.clone(), pid, admin }),
        None => error,
    })
}

fn check(sources: &Sources) -> Result<ExitCode, Failure> {
    let Loaded { config, warnings } = load_to_serve(sources)?;
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    println!("# use: {}\n{}", config.usage().as_str(), config.describe());
    Ok(ExitCode::SUCCESS)
}
