//! The command line: arguments, exit codes and the terminal.
//!
//! A verb about a server is one request to the admin API: over the socket in the data directory, over `--admin`, or to a server without
//! listeners in the own process ([`target`]). 0: done; 1: failed; 64: the configuration or the command line is wrong. All
//! that people read is written by [`terminal`], which does not panic where nobody reads. Not here: what a verb does
//! ([`crate::server::admin`]).
//!
//! Callers: `main`; tests, through [`serve_within`].

mod actions;
mod audit;
mod bundle;
mod check;
mod demo;
mod generated;
mod origin;
mod serve;
mod server;
mod snapshot;
mod status;
mod sync;
mod target;
mod terminal;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use rustix::process::geteuid;

use crate::clock::Clock;
use crate::config::{Config, ConfigErrors, ConfigIssue, Examined, Loaded, Use};
use crate::edge::serve::tls::provider;
use crate::fleet::bundle_store::BundleStore;
use crate::server::error::AppError;
use crate::server::signals;
use crate::server::sockets::{expect_descriptors, files};
use crate::tasks::threads;
use crate::words::{remedy, with_causes};

use terminal::{LastLines, say, tell};

pub use serve::serve_within;

/// The exit code for a configuration that cannot be used (`EX_USAGE` of sysexits).
const EXIT_CONFIG: u8 = 64;

/// The fewest open files with which a server answers clients, and with which a command runs.
const FILES_OF_SERVER: u64 = 256;
const FILES_OF_COMMAND: u64 = 64;
/// How many threads are started by a server and by a command, beside those that serve clients.
const THREADS_OF_SERVER: usize = 40;
const THREADS_OF_COMMAND: usize = 8;

const AFTER_HELP: &str = "\
Exit codes:
  0   success
  1   the command failed, or it found a problem
  64  the command line or the configuration is wrong

Environment variables:
  GRANDSTAND_CONFIG         the configuration file, without --config
  GRANDSTAND__SECTION__KEY  sets a configuration key: GRANDSTAND__ORIGIN__URL sets origin.url
  NO_COLOR                  if not empty: no colours

Examples:
  grandstand demo
  grandstand serve --set origin.url=https://api.example.org --set data_dir=/var/lib/grandstand";

/// A caching reverse proxy and mirror of the Public Sports Venue Listings API
#[derive(Debug, Parser)]
#[command(name = "grandstand", version, arg_required_else_help = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Args)]
struct Sources {
    /// Configuration file (TOML)
    ///
    /// Without it, but in `demo`: the file that GRANDSTAND_CONFIG names, or else ./grandstand.toml or
    /// /etc/grandstand/grandstand.toml, the first that exists.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one configuration key; repeatable
    ///
    /// It overrides the file and the environment. A value that is not TOML is taken as a string.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// The variable that names the configuration file.
const CONFIG: &str = "GRANDSTAND_CONFIG";

/// Where the configuration file is, if nothing names it: the first that exists.
const PLACES: [&str; 2] = ["grandstand.toml", "/etc/grandstand/grandstand.toml"];

impl Sources {
    /// The same with the file that is read.
    fn found(&self) -> Self {
        self.find(|_| ())
    }

    /// The same; says which file is read, and which are not, if nobody has named one.
    fn told(&self) -> Self {
        self.find(tell)
    }

    fn find(&self, tell: fn(String)) -> Self {
        let with = |config| Self { config, sets: self.sets.clone() };
        let named = || std::env::var_os(CONFIG).filter(|name| !name.is_empty()).map(PathBuf::from);
        if let Some(named) = self.config.clone().or_else(named) {
            return with(Some(named));
        }
        for path in PLACES.map(Path::new) {
            let shown = path.display();
            match expect_own(path) {
                Ok(()) => {
                    tell(format!("configuration: {shown}"));
                    return with(Some(path.to_owned()));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tell(format!("configuration: {shown} is not read: {error}")),
            }
        }
        with(None)
    }
}

/// Checks that a configuration file that nobody has named can be read, and that nobody but this user and root can have
/// written it: it may name a server that gets a token.
fn expect_own(path: &Path) -> io::Result<()> {
    // Before it is opened: a named pipe would block.
    let meta = fs::metadata(path)?;
    let problem = if !meta.is_file() {
        "it is not a regular file"
    } else if ![0, geteuid().as_raw()].contains(&meta.uid()) {
        "it belongs to another user"
    } else if meta.mode() & 0o002 != 0 {
        "every user can write to it"
    } else {
        return File::open(path).map(drop);
    };
    Err(io::Error::other(format!("{problem}; name it with --config if it is meant")))
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server: a mirror, a shield, a replica or an offline server
    ///
    /// The configuration decides what the server is. With origin.url it is a mirror, or a shield if mirror.enabled =
    /// false. Without origin.url it is a replica if replica.url is set, or else an offline server. SIGTERM and Ctrl-C
    /// stop the server; requests in flight may then take as long as the configuration key `drain` says. On SIGHUP the
    /// server reads its configuration again.
    Serve(serve::Serve),
    /// Try grandstand: run a sample origin and a mirror of it
    ///
    /// Both listen on loopback only. The data is synthetic, and never changes. The mirror's data goes with the demo, unless
    /// you name a directory with --set data_dir=DIR. No configuration is read but that of --config. The demo limits no
    /// client, and its ttl is 30 s; to try the limit: --set rate_limit.requests_per_minute=60. Other ports: --set
    /// listen=127.0.0.1:8190 --set admin.listen=127.0.0.1:9191.
    Demo(demo::Demo),
    /// Make one full copy of the origin, then exit
    ///
    /// Exit code 0 means that every listing and every detail is stored and confirmed. If sync stops before that, run it
    /// again: it continues. If a server uses the data directory, that server does the work. If that server has
    /// mirror.details = "on-demand", exit code 0 says nothing about details.
    Sync(sync::Sync),
    /// Compare the mirror with its origin
    ///
    /// Sends random requests to the mirror and to the origin, and compares the answers. Exit code 0 means that at least
    /// half of the samples were answered, and that all compared answers matched.
    Audit(audit::Audit),
    /// Check the configuration and print the values in effect
    ///
    /// If there are mistakes, prints each one with its key; the exit code is 64. Secrets are never printed.
    Check(check::Check),
    /// Run the sample origin alone, with synthetic data
    Origin(origin::Origin),
    /// Move snapshots as files, for example across an air gap
    Bundle(bundle::Bundle),
    /// List, verify, pin and roll back snapshots
    Snapshot(snapshot::Snapshot),
    /// Show the health of a running server: data age, number of listings and details, budget, hit ratio
    ///
    /// Exit code 1 means that the server is unhealthy, or does not answer.
    Status(status::Status),
    /// Have a running server read its configuration again
    ///
    /// Prints the changed keys that are in effect now, and those that need a restart. If the configuration has mistakes,
    /// nothing changes and the exit code is 64.
    Reload(actions::ServerCommand),
    /// Have a running mirror or replica look for changes now
    Refresh(actions::Refresh),
    /// Have a running server forget cached answers
    ///
    /// The next request for them gets a new answer. Snapshots and details stay.
    Purge(actions::Purge),
    /// Print completions for a shell
    Completions(generated::Completions),
    /// Print the manual pages, or write them into a directory
    ///
    /// There is one page for each command. For example: grandstand man pages && man pages/grandstand-serve.1
    Man(generated::Man),
}

#[derive(Debug)]
enum Failure {
    Config(ConfigErrors),
    Usage(Box<dyn std::error::Error + Send + Sync>),
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Failure {
    fn usage(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Usage(Box::new(error))
    }

    fn of_key(key: &str, problem: &impl ToString) -> Self {
        Self::Config(ConfigIssue::about(key, problem).into())
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(Box::new(error))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{}: {source}{}", path.display(), remedy(path, source))]
struct FileError {
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}

pub fn command() -> clap::Command {
    Cli::command()
}

pub fn run() -> ExitCode {
    let _last_lines = LastLines;
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() {
                // Nothing can be done about a closed terminal.
                drop(error.print());
                return ExitCode::from(EXIT_CONFIG);
            }
            return match printed_help(&error) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&error, ExitCode::FAILURE),
            };
        }
    };
    let result = prepare(&cli.command).and_then(|()| match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Demo(demo) => demo.run(),
        Command::Sync(sync) => sync.run(),
        Command::Audit(audit) => audit.run(),
        Command::Check(check) => check.run(),
        Command::Origin(origin) => origin.run(),
        Command::Bundle(bundle) => bundle.run(),
        Command::Snapshot(snapshot) => snapshot.run(),
        Command::Status(status) => status.run(),
        Command::Reload(command) => command.reload(),
        Command::Refresh(refresh) => refresh.run(),
        Command::Purge(purge) => purge.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    });
    match result {
        Ok(code) => code,
        Err(Failure::Config(errors)) => {
            tell(format!("grandstand: the configuration is wrong\n{errors}"));
            ExitCode::from(EXIT_CONFIG)
        }
        Err(Failure::Usage(error)) => failed(error.as_ref(), ExitCode::from(EXIT_CONFIG)),
        Err(Failure::Other(error)) => failed(error.as_ref(), ExitCode::FAILURE),
    }
}

/// Makes what the system may do to the process an error: a low limit of open files or threads, a large file.
fn prepare(command: &Command) -> Result<(), Failure> {
    let serves = matches!(command, Command::Serve(_) | Command::Demo(_));
    expect_descriptors(if serves { FILES_OF_SERVER } else { FILES_OF_COMMAND })?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let needed = if serves { THREADS_OF_SERVER + 2 * cores } else { THREADS_OF_COMMAND + cores };
    let available = threads::available(needed);
    if available < needed {
        return Err(AppError::FewThreads { available, needed }.into());
    }
    Ok(signals::outlive_large_files()?)
}

/// Prints the help or the version that was asked for, in the colours of the terminal.
fn printed_help(error: &clap::Error) -> io::Result<()> {
    let is_coloured = terminal::Terminal::of_stdout().colours;
    let text = error.render();
    say(if is_coloured { text.ansi().to_string() } else { text.to_string() })
}

fn failed(error: &(dyn std::error::Error + 'static), code: ExitCode) -> ExitCode {
    let lines: Vec<String> = with_causes(error).lines().map(plain).collect();
    tell(format!("grandstand: {}", lines.join("\n")));
    code
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(errors) => errors.fmt(f),
            Self::Usage(error) | Self::Other(error) => f.write_str(&with_causes(error.as_ref())),
        }
    }
}

/// A foreign text without control characters.
fn plain(text: &str) -> String {
    crate::protocol::excerpt::escaped(text)
}

/// Reads the configuration from file, environment and command line, with all its mistakes.
fn examine(sources: &Sources) -> Examined {
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut examined = Config::examine(sources.config.as_deref(), env, &sources.sets);
    examined.check_files();
    examined
}

/// Also rejects an origin that is this server; checks object stores and certificate.
fn examine_to_serve(sources: &Sources) -> Examined {
    let mut examined = examine(sources);
    examined.check_loops();
    let Config { replica, publish, .. } = &examined.config;
    let places = [
        ("replica.options", &replica.url, &replica.options, &replica.proxy),
        ("publish.options", &publish.url, &publish.options, &publish.proxy),
    ];
    let open = |(key, url, options, proxy): (_, &Option<_>, _, _)| {
        Some((key, BundleStore::open(url.as_ref()?, options, proxy).err()?))
    };
    for (key, error) in places.into_iter().filter_map(open).collect::<Vec<_>>() {
        examined.fail(key, &error);
    }
    let Some(tls) = &examined.config.tls else { return examined };
    match files(tls).certificate(&provider()) {
        Ok(certificate) => {
            let concern = certificate.concern(Clock::system().now_wall());
            examined.warnings.extend(concern.map(|concern| ConfigIssue::about("tls.cert", &concern)));
        }
        Err(unusable) => unusable.iter().for_each(|unusable| examined.fail(unusable.key, unusable)),
    }
    examined
}

fn load(sources: &Sources) -> Result<Loaded, Failure> {
    examine(sources).finish().map_err(Failure::Config)
}

/// For a command that only asks a running server: mistakes in keys that it does not need are warned of, in one line.
/// `has_address`: the command line names the server. `warns`: not where the server itself answers with the mistakes.
fn examine_to_ask(sources: &Sources, has_address: bool, warns: bool) -> Examined {
    let mut examined = examine(sources);
    let mistakes = examined.excuse(&["data_dir", "admin.listen"], has_address);
    if let ([first, others @ ..], true) = (&mistakes[..], warns) {
        let more =
            if others.is_empty() { String::new() } else { format!(" ({} more: `grandstand check`)", others.len()) };
        tell(format!("warning: the configuration has a mistake that does not matter here: {first}{more}"));
    }
    examined
}

/// Checks that snapshots are kept under a configuration.
fn needs_snapshots(config: &Config) -> Result<(), Failure> {
    if config.usage() != Use::Shield {
        return Ok(());
    }
    Err(Failure::of_key("mirror.enabled", &"is false, and a shield keeps no snapshots; set it to true"))
}
