//! `grandstand demo`: a sample origin in a process of its own, a mirror of it, and something to paste.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;

use crate::app::core::Core;
use crate::app::{Sockets, serve};
use crate::config::Loaded;

use super::progress::{Display, INTERVAL, Stage, Watched};
use super::{Failure, Sources, load, load_to_serve, logging};

/// Arguments of `grandstand demo`.
#[derive(Debug, Args)]
pub struct Demo {
    #[command(flatten)]
    sources: Sources,
    /// How many venues the sample origin makes up
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    listings: u32,
}

/// Why there is no demo.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the sample origin did not start")]
    NoOrigin,
}

impl Demo {
    /// Runs both until a signal comes.
    pub fn run(&self) -> Result<ExitCode, Failure> {
        let (mut child, stdin, url) = start_origin(self.listings)?;
        let result = self.mirror(&child, &url);
        // Only reached when the mirror could not be started: a stop ends the process, and with it the pipe to the child.
        drop(stdin);
        child.wait()?;
        result
    }

    fn mirror(&self, child: &Child, url: &str) -> Result<ExitCode, Failure> {
        // One directory for each port: the next demonstration on it begins anew, and nothing piles up.
        let port = match load(&self.sources)?.config.listen.first().map(std::net::SocketAddr::port) {
            None | Some(0) => std::process::id(),
            Some(port) => u32::from(port),
        };
        let data_dir = std::env::temp_dir().join(format!("grandstand-demo-{port}"));
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut sets = vec![
            format!("origin.url={}", quoted(url)),
            "origin.requests_per_minute=0".to_owned(),
            "origin.cache_ttl=\"1s\"".to_owned(),
            "ttl=\"30s\"".to_owned(),
            format!("data_dir={}", quoted(&data_dir.display().to_string())),
            "log.level=\"warn\"".to_owned(),
        ];
        sets.extend(self.sources.sets.iter().cloned());
        let sources = Sources { config: self.sources.config.clone(), sets };
        let Loaded { config, .. } = load_to_serve(&sources)?;
        logging::start(config.log)?;
        let began = Instant::now();
        let sockets = Sockets::bind(&config)?;
        let config = config.listening_on(&sockets.public());
        println!("sample origin  {url} ({} synthetic venues, pid {})", self.listings, child.id());
        println!("data           {}", config.data_dir.display());
        if config.data_dir == data_dir && data_dir.exists() {
            // Only what a demonstration left: its sockets are ours now, so that none is running.
            std::fs::remove_dir_all(&data_dir)?;
        }
        let core = Core::open(&config)?;
        let data = config.data_dir.display().to_string();
        let address = sockets.public().first().map_or_else(|| config.public_url.to_string(), ToString::to_string);
        let admin = sockets.admin().to_string();
        if let Some(watched) = Watched::of(&core) {
            let pid = child.id();
            std::thread::Builder::new()
                .name("progress".into())
                .spawn(move || follow(&watched, began, &lines_to_paste(&address, &admin, pid, &data), &address))?;
        }
        match serve(&config, sockets, core)? {}
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

/// Shows the progress, then what to paste, then when everything is here.
fn follow(watched: &Watched, began: Instant, lines: &str, address: &str) {
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
        "ready          http://{address} after {:.1} s; details are still coming in",
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
                "complete       {listings} listings with their details after {:.1} s; Ctrl-C stops",
                began.elapsed().as_secs_f32()
            );
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

fn lines_to_paste(address: &str, admin: &str, origin: u32, data: &str) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "grandstand".to_owned());
    format!(
        "
Try it:
  curl 'http://{address}/api/listings.json?state=texas&per_page=2'
  curl -i http://{address}/api/sports.json
  curl -i -H 'If-None-Match: *' http://{address}/api/listings.json      # 304
  curl --compressed 'http://{address}/api/listings.json?sport=baseball&page=2'
  curl http://{admin}/status
  kill {origin}                                                         # the origin goes, the mirror stays

Afterwards, without any origin, from what was mirrored:
  {program} serve --set data_dir={data}
"
    )
}
