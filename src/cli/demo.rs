//! `grandstand demo`: a sample origin in its own process, a mirror of it, and commands to paste.
//!
//! Callers: [`super`].

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use rustix::process::{Signal, geteuid, getpid, kill_process};

use crate::config::BaseUrl;
use crate::server::core::Core;
use crate::server::error::AppError;
use crate::server::serve;
use crate::server::signals;
use crate::server::sockets::Sockets;
use crate::words::counted;

use super::serve::source;
use super::server::Server;
use super::sync::{INTERVAL, Stage, stage};
use super::terminal::{Display, put, say, start_server_log};
use super::{Failure, FileError, Sources, examine_to_serve, load_to_serve};

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;

/// Arguments of `grandstand demo`.
#[derive(Debug, Args)]
pub(super) struct Demo {
    #[command(flatten)]
    sources: Sources,
    /// Number of venues in the sample origin
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    listings: u32,
}

#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the sample origin did not start")]
    NoOrigin,
    #[error(
        "other users can replace what is in {}: set TMPDIR to a directory that only you can write to, or use --set data_dir=DIR",
        .0.display()
    )]
    OpenDirectory(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
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
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
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
        let config = load_to_serve(&sources)?.config;
        let log = start_server_log(config.log)?;
        let source = source(config.clone(), log, sources);
        let config = config.listening_on(sockets.public(), sockets.admin());
        let venues = counted(u64::from(self.listings), "synthetic venue");
        let public = sockets.public().first().copied().unwrap_or_else(|| sockets.admin());
        let operators = BaseUrl::of_listener(sockets.admin());
        say(format!("open           {}/ in a browser, or {operators}/ for operators", BaseUrl::of_listener(public)))?;
        say(format!("sample origin  {url} ({venues}, pid {})", child.id()))?;
        let goes = if is_named { "" } else { ", until the demo ends; --set data_dir=DIR keeps it" };
        say(format!("data           {}{goes}", config.data_dir.display()))?;
        let core = Core { is_demo: true, ..Core::open(&config)? };
        let mirror = Server::at(operators.to_string(), &config, None);
        let lines = Pasted {
            program: std::env::args().next().unwrap_or_else(|| "grandstand".to_owned()),
            public: sockets.public(),
            admin: sockets.admin(),
            origin: child.id(),
        };
        std::thread::Builder::new().name("progress".into()).spawn(move || {
            if !matches!(follow(&mirror, began, &lines), Ok(true)) {
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
        let (names_public, names_admin) = (examined.is_set("listen"), examined.is_set("admin.listen"));
        let mut config = examined.finish().map_err(Failure::Config)?.config;
        let (mut public_taken, mut admin_taken) = (None, None);
        let sockets = loop {
            let error = match Sockets::bind(&config) {
                Ok(sockets) => break sockets,
                Err(error) => error,
            };
            let taken = match &error {
                AppError::Bind(bind) if bind.source.kind() == ErrorKind::AddrInUse => bind.address,
                _ => return Err(error.into()),
            };
            match config.listen.first_mut() {
                _ if taken.port() == 0 => return Err(error.into()),
                Some(address) if !names_public && *address == taken => {
                    address.set_port(0);
                    public_taken = Some(taken.port());
                }
                _ if !names_admin && config.admin.listen == taken => {
                    config.admin.listen.set_port(0);
                    admin_taken = Some(taken.port());
                }
                _ => return Err(error.into()),
            }
        };
        let public = sockets.public().first().map_or(0, SocketAddr::port);
        for (what, taken, port) in
            [("the mirror", public_taken, public), ("the admin listener", admin_taken, sockets.admin().port())]
        {
            if let Some(taken) = taken {
                say(format!("port {taken} is in use; {what} listens on port {port} instead"))?;
            }
        }
        Ok(sockets)
    }
}

/// Starts the sample origin as a child that ends when this process does, and reads its address.
fn start_origin(listings: u32) -> Result<(Child, ChildStdin, String), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["origin", "--listen", "127.0.0.1:0", "--until-stdin-closes", "--listings", &listings.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(DemoError::NoOrigin.into());
    };
    let mut url = String::new();
    BufReader::new(stdout).read_line(&mut url)?;
    let url = url.trim().to_owned();
    if url.is_empty() {
        return Err(DemoError::NoOrigin.into());
    }
    Ok((child, stdin, url))
}

/// Shows the progress, then the commands to paste, then the end of mirroring; returns whether anybody still reads.
fn follow(mirror: &Server, began: Instant, lines: &Pasted) -> io::Result<bool> {
    let mut display = Display::default();
    let mut is_ready = false;
    loop {
        std::thread::sleep(INTERVAL);
        // It does not listen yet.
        let Ok(look) = mirror.look() else { continue };
        let certificate = look.facts.snapshot.as_ref().map(|snapshot| snapshot.certificate.as_str().into());
        let stage = stage(&look.facts, certificate.and_then(|word| serde_json::from_value(word).ok()));
        if !is_ready && !matches!(stage, Stage::Listing { .. }) {
            is_ready = true;
            drop(std::mem::take(&mut display));
            let seconds = began.elapsed().as_secs_f32();
            let url = lines.url();
            if !put(&format!("ready          {url} after {seconds:.1} s; details are still being fetched\n{lines}\n"))?
            {
                return Ok(false);
            }
        }
        let (word, done, of) = stage.count();
        display.count(word, done, of);
        if let Stage::Complete { listings } = stage {
            drop(display);
            let (all, seconds) = (counted(listings, "listing"), began.elapsed().as_secs_f32());
            return put(&format!("complete       {all} with details after {seconds:.1} s; press Ctrl-C to stop\n"));
        }
    }
}

/// Commands for people to paste into a shell. Without comments, which an interactive zsh would take for arguments.
struct Pasted {
    program: String,
    public: Vec<SocketAddr>,
    admin: SocketAddr,
    /// The process of the sample origin.
    origin: u32,
}

impl Pasted {
    /// The mirror, for programs on this machine.
    fn url(&self) -> BaseUrl {
        BaseUrl::of_listener(self.public.first().copied().unwrap_or(self.admin))
    }
}

impl fmt::Display for Pasted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, admin) = (self.url(), BaseUrl::of_listener(self.admin));
        write!(
            f,
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
  {} demo --set rate_limit.requests_per_minute=60 --set listen=127.0.0.1:8190 --set admin.listen=127.0.0.1:9191

Stop the origin; the mirror goes on answering:
  kill {}
",
            shell(&self.program),
            self.origin
        )
    }
}

fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '+' | ',' | '@');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A data directory that goes with the demo.
struct Temporary(PathBuf);

impl Temporary {
    /// A new one for this user alone, below the directory for temporary files. Fails if others could replace what is below.
    fn below(below: &Path) -> Result<Self, DemoError> {
        let meta = fs::metadata(below).map_err(FileError::at(below))?;
        let is_trusted = [geteuid().as_raw(), ROOT].contains(&meta.uid());
        if !is_trusted || (meta.mode() & OTHERS_WRITE != 0 && meta.mode() & STICKY == 0) {
            return Err(DemoError::OpenDirectory(below.to_owned()));
        }
        let path = below.join(format!("grandstand-demo-{:016x}", rand::random::<u64>()));
        DirBuilder::new().mode(0o700).create(&path).map_err(FileError::at(&path))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a data directory, under another name: a thread that still writes finds no directory to write into.
fn remove(path: &Path) {
    let gone = path.with_extension("gone");
    if fs::rename(path, &gone).is_ok() {
        // The process ends: nobody could read an error.
        let _ = fs::remove_dir_all(gone);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn what_is_pasted_names_the_addresses_of_the_demo() {
        let (public, admin) = (vec!["[::1]:7001".parse().unwrap()], "127.0.0.1:7002".parse().unwrap());
        let lines = Pasted { program: "it's here".to_owned(), public, admin, origin: 7 }.to_string();
        assert!(lines.contains("  curl 'http://[::1]:7001/api/listings.json?state=texas&per_page=2'\n"), "{lines}");
        assert!(lines.contains("  curl 'http://127.0.0.1:7002/status'\n") && lines.ends_with("  kill 7\n"), "{lines}");
        assert!(lines.contains(r"  'it'\''s here' demo --set "), "{lines}");
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

    #[test]
    fn a_directory_in_which_others_could_replace_it_is_refused() {
        let below = tempfile::tempdir().unwrap();
        let set_mode = |mode| fs::set_permissions(below.path(), fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o777);
        let refused = Temporary::below(below.path()).err().unwrap().to_string();
        assert!(refused.contains("TMPDIR") && refused.contains(&below.path().display().to_string()), "{refused}");
        for mode in [0o755, 0o1777] {
            set_mode(mode);
            Temporary::below(below.path()).unwrap();
        }
        if geteuid().is_root() {
            chown(below.path(), Some(12_345), None).unwrap();
            assert!(Temporary::below(below.path()).is_err());
        }
        assert!(Temporary::below(&below.path().join("none")).is_err());
    }
}
