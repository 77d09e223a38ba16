//! `grandstand demo`: a sample origin in its own process, a mirror of it, and commands to paste.
//!
//! Callers: [`super`].

mod directory;

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;

use crate::app::core::Core;
use crate::app::error::AppError;
use crate::app::{Sockets, serve};
use crate::config::{BaseUrl, Config};
use crate::words::counted;

use super::progress::{Display, INTERVAL, Stage, Watched};
use super::{Failure, Sources, examine_to_serve, load_to_serve, logging, source};

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
        let own = (!is_named).then(|| directory::choose(&std::env::temp_dir(), port)).transpose()?;
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut sets = vec![
            format!("origin.url={}", quoted(url)),
            "origin.requests_per_minute=0".to_owned(),
            "origin.cache_ttl=\"1s\"".to_owned(),
            "ttl=\"30s\"".to_owned(),
            "log.level=\"warn\"".to_owned(),
        ];
        sets.extend(own.iter().map(|path| format!("data_dir={}", quoted(&path.display().to_string()))));
        sets.extend(self.sources.sets.iter().cloned());
        let sources = Sources { config: self.sources.config.clone(), sets };
        let began = Instant::now();
        let config = load_to_serve(&sources)?.config;
        let log = logging::start(config.log)?;
        let source = source(config.clone(), log.change, sources);
        let config = config.listening_on(sockets.public(), sockets.admin());
        let venues = counted(u64::from(self.listings), "synthetic venue");
        let public = sockets.public().first().copied().unwrap_or_else(|| sockets.admin());
        let operators = BaseUrl::of_listener(sockets.admin());
        println!("open           {}/ in a browser, or {operators}/ for operators", BaseUrl::of_listener(public));
        println!("sample origin  {url} ({venues}, pid {})", child.id());
        println!("data           {}", config.data_dir.display());
        if let Some(path) = &own {
            directory::make(path)?;
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
}

impl Demo {
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
    let mut display = Display::new();
    loop {
        let stage = watched.look();
        if !matches!(stage, Stage::Listing { .. }) {
            break;
        }
        display.show(&stage);
        std::thread::sleep(INTERVAL);
    }
    display.finish();
    println!(
        "ready          {} after {:.1} s; details are still being fetched",
        lines.url(),
        began.elapsed().as_secs_f32()
    );
    println!("{lines}");
    let mut display = Display::new();
    loop {
        let stage = watched.look();
        display.show(&stage);
        if let Stage::Complete { listings } = stage {
            display.finish();
            println!(
                "complete       {} with details after {:.1} s; press Ctrl-C to stop",
                counted(listings, "listing"),
                began.elapsed().as_secs_f32()
            );
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

#[cfg(test)]
mod tests {
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
}
