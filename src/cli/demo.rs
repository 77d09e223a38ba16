//! `grandstand demo`: a sample origin in its own process, a mirror of it, and commands to paste.
//!
//! Callers: [`super`].

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;

use crate::config::BaseUrl;
use crate::server::core::Core;
use crate::server::error::AppError;
use crate::server::serve;
use crate::server::signals;
use crate::server::sockets::Sockets;
use crate::words::counted;

use super::serve::source;
use super::server::Server;
use super::sync::{INTERVAL, is_whole, progress};
use super::terminal::{Display, put, say, start_server_log};
use super::{Failure, FileError, Sources, examine_to_serve};

/// Arguments of `grandstand demo`.
#[derive(Debug, Args)]
pub(super) struct Demo {
    #[command(flatten)]
    sources: Sources,
    /// Number of venues in the sample origin
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    listings: u32,
}

impl Demo {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let (mut child, stdin, url) = start_origin(self.listings)?;
        let result = self.mirror(&child, &url);
        // It ends with its standard input.
        drop(stdin);
        child.wait()?;
        result
    }

    fn mirror(&self, child: &Child, url: &str) -> Result<ExitCode, Failure> {
        let sockets = self.listen()?;
        // One that a file names is a server's.
        let is_named = self.sources.sets.iter().any(|set| set.split('=').next().is_some_and(|key| key == "data_dir"));
        // From now on a signal cannot end the process before the directory is removed.
        let stops = signals::stops()?;
        let own = (!is_named).then(|| Temporary::below(&std::env::temp_dir())).transpose()?;
        let quoted = |text: &str| Value::from(text).to_string();
        let mut sets = vec![
            format!("origin.url={}", quoted(url)),
            "origin.requests_per_minute=0".to_owned(),
            "origin.cache_ttl=\"1s\"".to_owned(),
            "ttl=\"30s\"".to_owned(),
            "rate_limit.requests_per_minute=0".to_owned(),
            "log.level=\"warn\"".to_owned(),
        ];
        sets.extend(own.iter().map(|own| format!("data_dir={}", quoted(&own.0.display().to_string()))));
        sets.extend(self.sources.sets.iter().cloned());
        let sources = Sources { config: self.sources.config.clone(), sets };
        let began = Instant::now();
        let config = examine_to_serve(&sources).finish().map_err(Failure::Config)?.config;
        let log = start_server_log(config.log)?;
        let source = source(config.clone(), log, sources);
        let config = config.listening_on(sockets.public(), sockets.tls(), sockets.admin());
        let venues = counted(u64::from(self.listings), "synthetic venue");
        let operators = BaseUrl::of_listener(sockets.admin());
        let address = config.listen.first().map_or_else(|| operators.clone(), |public| BaseUrl::of_listener(*public));
        say(format!("open           {address}/ in a browser, or {operators}/ for operators"))?;
        say(format!("sample origin  {url} ({venues}, pid {})", child.id()))?;
        let goes = if is_named { "" } else { ", until the demo ends; --set data_dir=DIR keeps it" };
        say(format!("data           {}{goes}", config.data_dir.display()))?;
        let core = Core { is_demo: true, ..Core::open(&config)? };
        let mirror = Server::at(operators.to_string(), &config, None);
        let lines = to_paste(&address, &operators, child.id());
        std::thread::Builder::new().name("progress".into()).spawn(move || {
            if !matches!(follow(&mirror, began, &address, &lines), Ok(true)) {
                // Nobody reads: as Ctrl-C does.
                let _ = kill_process(getpid(), Signal::INT);
            }
        })?;
        serve(&config, sockets, core, Some(source), |_| Ok(signals::orders(signals::hangups()?, stops)))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Binds the addresses of the configuration. If a default port is in use, another one is chosen.
    fn listen(&self) -> Result<Sockets, Failure> {
        let examined = examine_to_serve(&self.sources);
        let named = ["listen", "admin.listen"].map(|key| examined.is_set(key));
        let mut config = examined.finish().map_err(Failure::Config)?.config;
        loop {
            let error = match Sockets::bind(&config) {
                Err(AppError::Bind(error)) if error.source.kind() == ErrorKind::AddrInUse => error,
                bound => return Ok(bound?),
            };
            let addresses = config.listen.first_mut().into_iter().chain([&mut config.admin.listen]);
            let mut defaults = addresses.zip(named).filter(|(address, is_named)| !is_named && address.port() != 0);
            let Some((address, _)) = defaults.find(|(address, _)| **address == error.address) else {
                return Err(AppError::Bind(error).into());
            };
            say(format!("port {} is in use; another one takes its place", address.port()))?;
            address.set_port(0);
        }
    }
}

/// Starts the sample origin as a child that ends when this process does, and reads its address.
fn start_origin(listings: u32) -> Result<(Child, ChildStdin, String), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["origin", "--listen", "127.0.0.1:0", "--until-stdin-closes", "--listings", &listings.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let did_not_start = || io::Error::other("the sample origin did not start");
    let stdin = child.stdin.take().ok_or_else(did_not_start)?;
    let stdout = child.stdout.take().ok_or_else(did_not_start)?;
    let mut url = String::new();
    BufReader::new(stdout).read_line(&mut url)?;
    let url = url.trim().to_owned();
    if url.is_empty() {
        return Err(did_not_start().into());
    }
    Ok((child, stdin, url))
}

/// Shows the progress, then the commands to paste, then the end of mirroring; returns whether anybody still reads.
fn follow(mirror: &Server, began: Instant, url: &BaseUrl, lines: &str) -> io::Result<bool> {
    let mut display = Display::default();
    let mut is_ready = false;
    loop {
        std::thread::sleep(INTERVAL);
        // It does not listen yet.
        let Ok(look) = mirror.look() else { continue };
        let facts = look.facts;
        let certificate = facts.snapshot.as_ref().map(|snapshot| Value::from(snapshot.certificate.as_str()));
        if !is_ready && certificate.is_some() {
            is_ready = true;
            drop(std::mem::take(&mut display));
            let seconds = began.elapsed().as_secs_f32();
            if !put(&format!("ready          {url} after {seconds:.1} s; details are still being fetched\n{lines}\n"))?
            {
                return Ok(false);
            }
        }
        if let Some((word, done, of)) = progress(&facts) {
            display.count(word, done, of, 0, facts.origin.eta_seconds);
        }
        if is_whole(&facts, certificate.and_then(|word| serde_json::from_value(word).ok())) {
            drop(display);
            let (all, seconds) = (counted(facts.listings.unwrap_or(0), "listing"), began.elapsed().as_secs_f32());
            return put(&format!("complete       {all} with details after {seconds:.1} s; press Ctrl-C to stop\n"));
        }
    }
}

/// Commands for people to paste into a shell. Without comments, which an interactive zsh would take for arguments.
/// `origin`: the process of the sample origin.
fn to_paste(url: &BaseUrl, admin: &BaseUrl, origin: u32) -> String {
    format!(
        "
Try it:
  curl '{url}/api/listings.json?state=texas&per_page=2'
  curl -i '{url}/api/sports.json'
  curl --compressed '{url}/api/listings.json?sport=baseball&page=2'
  curl '{admin}/status'

A client that already has the answer gets 304:
  curl -sI --etag-save listings.etag '{url}/api/listings.json'
  curl -sI --etag-compare listings.etag '{url}/api/listings.json'

The demo limits no client, and its ttl is 30 s. With a limit, and on other ports:
  grandstand demo --set rate_limit.requests_per_minute=60 --set listen=127.0.0.1:8190 --set admin.listen=127.0.0.1:9191

Stop the origin; the mirror goes on answering:
  kill {origin}
"
    )
}

/// A data directory that goes with the demo.
struct Temporary(PathBuf);

impl Temporary {
    /// A new one for this user alone, below the directory for temporary files.
    fn below(below: &Path) -> Result<Self, FileError> {
        let path = below.join(format!("grandstand-demo-{:016x}", rand::random::<u64>()));
        DirBuilder::new().mode(0o700).create(&path).map_err(FileError::at(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Under another name: a thread that still writes finds no directory to write into.
        let gone = self.0.with_extension("gone");
        if fs::rename(&self.0, &gone).is_ok() {
            // The process ends: nobody could read an error.
            let _ = fs::remove_dir_all(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn what_is_pasted_names_the_addresses_of_the_demo() {
        let [url, admin] =
            ["[::1]:7001", "127.0.0.1:7002"].map(|address| BaseUrl::of_listener(address.parse().unwrap()));
        let lines = to_paste(&url, &admin, 7);
        assert!(lines.contains("  curl 'http://[::1]:7001/api/listings.json?state=texas&per_page=2'\n"), "{lines}");
        assert!(lines.contains("  curl 'http://127.0.0.1:7002/status'\n") && lines.ends_with("  kill 7\n"), "{lines}");
    }

    #[test]
    fn the_directory_is_for_this_user_alone_and_leaves_nothing() {
        let below = tempfile::tempdir().unwrap();
        let (own, other) = (Temporary::below(below.path()).unwrap(), Temporary::below(below.path()).unwrap());
        assert!(own.0 != other.0 && fs::metadata(&own.0).unwrap().mode() & 0o7777 == 0o700);
        fs::create_dir(own.0.join("inner")).unwrap();
        fs::write(own.0.join("inner/file"), "x").unwrap();
        drop((own, other));
        assert_eq!(fs::read_dir(below.path()).unwrap().count(), 0);
    }
}
