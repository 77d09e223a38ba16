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
use rustix::process::geteuid;

use crate::app::core::Core;
use crate::app::error::AppError;
use crate::app::serve;
use crate::app::sockets::Sockets;
use crate::config::{BaseUrl, Config};
use crate::store::DataDir;
use crate::words::counted;

use super::sync::{INTERVAL, Stage, Watched};
use super::terminal::{Display, start_log};
use super::{Failure, Sources, examine_to_serve, load_to_serve, source};

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

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the sample origin did not start")]
    NoOrigin,
    #[error(
        "other users can replace what is in {}: set TMPDIR to a directory that only you can write to, or use --set data_dir=DIR",
        .0.display()
    )]
    OpenDirectory(PathBuf),
    #[error("{}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
}

impl Demo {
    /// Runs both until a signal comes.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let (mut child, stdin, url) = start_origin(self.listings)?;
        let result = self.mirror(&child, &url);
        // Only reached if the mirror could not start: a stop ends the process and the pipe to the child.
        drop(stdin);
        child.wait()?;
        result
    }

    fn mirror(&self, child: &Child, url: &str) -> Result<ExitCode, Failure> {
        let sockets = self.listen()?;
        let port = sockets.public().first().map_or(0, SocketAddr::port);
        // One that a file names is a server's.
        let is_named = self.sources.sets.iter().any(|set| set.split('=').next().is_some_and(|key| key == "data_dir"));
        let own = (!is_named).then(|| choose(&std::env::temp_dir(), port)).transpose()?;
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut sets = vec![
            format!("origin.url={}", quoted(url)),
            "origin.requests_per_minute=0".to_owned(),
            "origin.cache_ttl=\"1s\"".to_owned(),
            "ttl=\"30s\"".to_owned(),
            "rate_limit.requests_per_minute=0".to_owned(),
            "log.level=\"warn\"".to_owned(),
        ];
        sets.extend(own.iter().map(|path| format!("data_dir={}", quoted(&path.display().to_string()))));
        sets.extend(self.sources.sets.iter().cloned());
        let sources = Sources { config: self.sources.config.clone(), sets };
        let began = Instant::now();
        let config = load_to_serve(&sources)?.config;
        let log = start_log(config.log)?;
        let source = source(config.clone(), log.change, sources);
        let config = config.listening_on(sockets.public(), sockets.admin());
        let venues = counted(u64::from(self.listings), "synthetic venue");
        let public = sockets.public().first().copied().unwrap_or_else(|| sockets.admin());
        let operators = BaseUrl::of_listener(sockets.admin());
        println!("open           {}/ in a browser, or {operators}/ for operators", BaseUrl::of_listener(public));
        println!("sample origin  {url} ({venues}, pid {})", child.id());
        println!("data           {}", config.data_dir.display());
        if let Some(path) = &own {
            make(path)?;
        }
        let core = Core { recent: log.recent, ..Core::open(&config)? };
        if let Some(watched) = Watched::of(&core) {
            let lines = Pasted {
                program: std::env::args().next().unwrap_or_else(|| "grandstand".to_owned()),
                public: sockets.public(),
                admin: sockets.admin(),
                origin: child.id(),
                data_dir: config.data_dir.display().to_string(),
            };
            std::thread::Builder::new().name("progress".into()).spawn(move || follow(&watched, began, &lines))?;
        }
        match serve(&config, sockets, core, Some(source))? {}
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
                println!("port {taken} is in use; {what} listens on port {port} instead");
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

/// Shows the progress, then the commands to paste, then the end of mirroring.
fn follow(watched: &Watched, began: Instant, lines: &Pasted) {
    let mut display = Display::default();
    let mut is_ready = false;
    loop {
        let stage = watched.look();
        if !is_ready && !matches!(stage, Stage::Listing { .. }) {
            is_ready = true;
            drop(std::mem::take(&mut display));
            let seconds = began.elapsed().as_secs_f32();
            println!("ready          {} after {seconds:.1} s; details are still being fetched\n{lines}", lines.url());
        }
        let (word, done, of) = stage.count();
        display.count(word, done, of);
        if let Stage::Complete { listings } = stage {
            drop(display);
            let (all, seconds) = (counted(listings, "listing"), began.elapsed().as_secs_f32());
            println!("complete       {all} with details after {seconds:.1} s; press Ctrl-C to stop");
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Commands for people to paste into a shell. Without comments, which an interactive zsh would take for arguments.
struct Pasted {
    program: String,
    public: Vec<SocketAddr>,
    admin: SocketAddr,
    /// The process of the sample origin.
    origin: u32,
    data_dir: String,
}

impl Pasted {
    /// The mirror, for programs on this machine.
    fn url(&self) -> BaseUrl {
        BaseUrl::of_listener(self.public.first().copied().unwrap_or(self.admin))
    }

    /// The command that serves the mirrored data on the same addresses.
    fn serve(&self) -> String {
        let mut command =
            format!("{} serve --set {}", shell(&self.program), shell(&format!("data_dir={}", self.data_dir)));
        let default = Config::default();
        let mut set = |key: &str, value: String| {
            command.push_str(" --set ");
            command.push_str(&shell(&format!("{key}={value}")));
        };
        if self.public != default.listen {
            let listed: Vec<String> = self.public.iter().map(|address| format!("\"{address}\"")).collect();
            set("listen", format!("[{}]", listed.join(", ")));
        }
        if self.admin != default.admin.listen {
            set("admin.listen", self.admin.to_string());
        }
        command
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
  curl -i -H 'If-None-Match: *' '{url}/api/listings.json'

Stop the origin; the mirror goes on answering:
  kill {}

After Ctrl-C, serve the mirrored data without an origin:
  {}
",
            self.origin,
            self.serve()
        )
    }
}

/// A word quoted for a shell.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '+' | ',' | '@');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The data directory for a demo on this port: for this user alone, below the directory for temporary files. It may not
/// exist yet.
///
/// Its name is predictable, so that the next demo on the same port finds and empties it. If another user has put
/// something there (a link, a directory), that is left alone, and a random name is used. The data stays after the end,
/// so that `serve` can use it.
///
/// # Errors
/// When `below` cannot be looked at, or others could replace what is in it.
fn choose(below: &Path, port: u16) -> Result<PathBuf, DemoError> {
    let meta = fs::metadata(below).map_err(|source| DemoError::Directory { path: below.to_owned(), source })?;
    let is_trusted = [geteuid().as_raw(), ROOT].contains(&meta.uid());
    if !is_trusted || (meta.mode() & OTHERS_WRITE != 0 && meta.mode() & STICKY == 0) {
        return Err(DemoError::OpenDirectory(below.to_owned()));
    }
    let path = below.join(format!("grandstand-demo-{port}"));
    // This process has the port; but a demo in a container may have the same one.
    let is_free = is_own(&path) && DataDir::holder(&path).is_none();
    if is_free || fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(path);
    }
    Ok(below.join(format!("grandstand-demo-{port}-{:016x}", rand::random::<u64>())))
}

/// Makes the directory, empty and for this user alone.
///
/// # Errors
/// When that fails, also because another process was quicker.
fn make(path: &Path) -> Result<(), DemoError> {
    let failed = |source| DemoError::Directory { path: path.to_owned(), source };
    if is_own(path) {
        fs::remove_dir_all(path).map_err(failed)?;
    }
    DirBuilder::new().mode(0o700).create(path).map_err(failed)
}

/// Whether this is a directory of this user, and not a link. Then no other user can replace it.
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    #[test]
    fn what_is_pasted_names_what_is_not_a_default() {
        let mut lines = Pasted {
            program: "grandstand".to_owned(),
            public: Config::default().listen,
            admin: Config::default().admin.listen,
            origin: 7,
            data_dir: "/tmp/grandstand-demo-8080".to_owned(),
        };
        assert_eq!(lines.serve(), "grandstand serve --set data_dir=/tmp/grandstand-demo-8080");
        lines.public = vec!["[::1]:7001".parse().unwrap()];
        lines.admin = "127.0.0.1:7002".parse().unwrap();
        lines.data_dir = "/tmp/it's here".to_owned();
        let command = r#"grandstand serve --set 'data_dir=/tmp/it'\''s here' --set 'listen=["[::1]:7001"]' --set admin.listen=127.0.0.1:7002"#;
        assert_eq!(lines.serve(), command);
        assert!(lines.to_string().contains("  curl 'http://[::1]:7001/api/listings.json?state=texas&per_page=2'\n"));
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_an_earlier_demonstration_left_is_replaced_by_a_directory_for_the_user_alone() {
        let below = tempfile::tempdir().unwrap();
        set_mode(below.path(), 0o1777);
        let path = choose(below.path(), 7).unwrap();
        assert_eq!(path, below.path().join("grandstand-demo-7"));
        make(&path).unwrap();
        fs::write(path.join("left"), "x").unwrap();
        set_mode(&path, 0o755);
        assert_eq!(choose(below.path(), 7).unwrap(), path);
        make(&path).unwrap();
        assert_eq!((mode(&path), fs::read_dir(&path).unwrap().count()), (0o700, 0));
        let _holder = DataDir::open(&path).unwrap();
        assert_ne!(choose(below.path(), 7).unwrap(), path, "another demonstration is at work there");
    }

    #[test]
    fn what_somebody_else_put_there_is_left_alone() {
        let (below, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(target.path().join("mine"), "x").unwrap();
        let foreseen = below.path().join("grandstand-demo-7");
        symlink(target.path(), &foreseen).unwrap();
        let other = choose(below.path(), 7).unwrap();
        assert!(other != foreseen && other != choose(below.path(), 7).unwrap(), "{}", other.display());
        make(&other).unwrap();
        assert!(make(&foreseen).is_err() && target.path().join("mine").exists());
        fs::remove_file(&foreseen).unwrap();
        fs::write(&foreseen, "x").unwrap();
        assert!(choose(below.path(), 7).unwrap() != foreseen && make(&foreseen).is_err());
        // Only root can make directories of others.
        if geteuid().is_root() {
            fs::remove_file(&foreseen).unwrap();
            fs::create_dir(&foreseen).unwrap();
            chown(&foreseen, Some(12_345), None).unwrap();
            assert!(choose(below.path(), 7).unwrap() != foreseen && make(&foreseen).is_err());
        }
    }

    #[test]
    fn a_directory_in_which_others_could_replace_it_is_refused() {
        let below = tempfile::tempdir().unwrap();
        set_mode(below.path(), 0o777);
        let refused = choose(below.path(), 7).unwrap_err().to_string();
        assert!(refused.contains("TMPDIR") && refused.contains(&below.path().display().to_string()), "{refused}");
        set_mode(below.path(), 0o755);
        choose(below.path(), 7).unwrap();
        if geteuid().is_root() {
            chown(below.path(), Some(12_345), None).unwrap();
            assert!(choose(below.path(), 7).is_err());
        }
        assert!(choose(&below.path().join("none"), 7).is_err());
    }
}
