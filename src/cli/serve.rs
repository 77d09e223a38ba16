//! `grandstand serve`: a server in this process, or within another program.
//!
//! Callers: [`super`]; tests and benches use [`serve_within`].

use std::process::ExitCode;

use clap::{Args, Parser as _};

use crate::config::{Config, Loaded, LogConfig};
use crate::data::store::{DataDir, Holder, StoreError};
use crate::server::Probe;
use crate::server::core::Core;
use crate::server::error::AppError;
use crate::server::reload::ConfigSource;
use crate::server::signals;
use crate::server::sockets::{PassedSockets, Sockets};
use crate::server::stop::Orders;
use crate::tasks::threads;

use super::terminal::{Lines, Log, handle_panics, log_to, start_server_log};
use super::{Cli, Command, Failure, Sources, examine_to_serve};

/// Arguments of `grandstand serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    sources: Sources,
}

impl Serve {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let hangups = signals::hangups()?;
        let sources = self.sources.found();
        let mut examined = examine_to_serve(&sources);
        let passed = PassedSockets::take(&mut examined);
        let loaded = examined.finish().map_err(Failure::Config)?;
        let log = start_server_log(loaded.config.log)?;
        serve(&sources, loaded, passed, log, |_, _| Ok(signals::orders(hangups, signals::stops()?)))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Serves with the sockets that were passed. `orders` is called once the server listens.
fn serve(
    sources: &Sources,
    Loaded { config, warnings }: Loaded,
    passed: PassedSockets,
    log: Log,
    orders: impl FnOnce(&Config, Probe) -> Result<Orders, AppError>,
) -> Result<(), Failure> {
    if let Some(path) = &sources.config {
        tracing::info!(path = %path.display(), "configuration");
    } else {
        tracing::info!("configuration: no file, only defaults, environment and --set");
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let sockets = bind(&config, passed)?;
    let source = source(config.clone(), log, sources.clone());
    let config = config.listening_on(sockets.public(), sockets.tls(), sockets.admin());
    let core = Core::open(&config)?;
    let requires = !config.bundle.trusted_keys.is_empty();
    if let Some(data) = core.data()
        && let Err(error) = data.snapshots.require_signatures(requires)
    {
        tracing::warn!(%error, "whether bundles must be signed could not be stored for `bundle import`");
    }
    let listens = config.clone();
    Ok(crate::server::serve(&config, sockets, core, Some(source), |probe| orders(&listens, probe))?)
}

/// Serves as `grandstand serve` with these arguments does, within a program that may run other servers, and returns when it
/// has stopped. Signals are left alone. The log goes to `lines`; this thread must be the server's own, because it logs
/// there from now on. `orders` is called once the server listens, with its configuration and addresses. The error is the
/// text that the command prints.
pub fn serve_within(
    arguments: &[String],
    adjust: fn(&mut Config),
    lines: Lines,
    orders: impl FnOnce(&Config, Probe) -> Orders,
) -> Result<(), String> {
    let command = ["grandstand", "serve"].into_iter().chain(arguments.iter().map(String::as_str));
    let Command::Serve(Serve { sources }) = Cli::try_parse_from(command).map_err(|error| error.to_string())?.command
    else {
        return Err("these are not arguments of `serve`".to_owned());
    };
    let run = || {
        let mut loaded = examine_to_serve(&sources).finish().map_err(Failure::Config)?;
        adjust(&mut loaded.config);
        handle_panics();
        let (dispatch, log) = log_to(loaded.config.log, lines, false)?;
        threads::log_to(&dispatch);
        serve(&sources, loaded, PassedSockets::default(), log, |config, probe| Ok(orders(config, probe)))
    };
    run().map_err(|failure: Failure| failure.to_string())
}

/// How a server reads its configuration again.
pub(super) fn source(config: Config, log: Box<dyn Fn(&LogConfig) + Send + Sync>, sources: Sources) -> ConfigSource {
    let read = move || {
        Config::expect_lasting(sources.config.as_deref())?;
        examine_to_serve(&sources).finish()
    };
    ConfigSource { config, read: Box::new(read), log }
}

/// Binds every address. A second server with this configuration fails here, at binding. The error then names the
/// process that holds the data directory.
fn bind(config: &Config, passed: PassedSockets) -> Result<Sockets, AppError> {
    Sockets::passed_or_bound(config, passed).map_err(|error| match DataDir::holder(&config.data_dir) {
        Some(Holder { pid }) => AppError::Open(StoreError::Held { path: config.data_dir.clone(), pid }),
        None => error,
    })
}
