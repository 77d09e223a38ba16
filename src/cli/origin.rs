//! `grandstand origin`: the sample origin alone.
//!
//! Callers: [`super`].

use std::io::BufRead;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use tokio::signal::unix::{SignalKind, signal};

use crate::clock::{self, Clock, WallTime};
use crate::sample::{Edges, Origin as SampleOrigin, Switches, World};
use crate::words::counted;

use super::Failure;

/// Arguments of `grandstand origin`.
#[derive(Debug, Args)]
pub(super) struct Origin {
    /// Address to listen on; port 0: any free port
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Number of venues
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(..=5_000_000))]
    listings: u32,
    /// Seed: the same seed makes the same venues
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Largest number of requests in any 60 seconds; 0: no limit
    #[arg(long, default_value_t = 0)]
    requests_per_minute: u32,
    /// How the sample origin answers odd requests, such as page=0
    #[arg(long, default_value = "documented", value_parser = PossibleValuesParser::new(Edges::NAMES))]
    edges: String,
    /// Stop when standard input ends; a line `touch N` there changes N venues, `remove N` removes N
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

/// The clock is wrong.
#[derive(Debug, thiserror::Error)]
#[error("the system clock shows {0}, but the sample origin needs a year from 1970 to 9999; set the clock")]
struct ClockError(WallTime);

impl Origin {
    /// Serves until the process is stopped.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        if clock::is_beyond_http() {
            return Err(ClockError(Clock::system().now_wall()).into());
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let limit = (self.requests_per_minute > 0).then_some(self.requests_per_minute);
        let edges = Edges::named(&self.edges).unwrap_or_default();
        let switches = Switches { refuse_61st: limit, edges, ..Switches::default() };
        let world = World::generate(self.listings as usize, self.seed);
        let origin = runtime
            .block_on(SampleOrigin::start(self.listen, world, switches))
            .map_err(|source| crate::serve::listener::BindError { address: self.listen, source })?;
        println!("{}", origin.url());
        if self.until_stdin_closes {
            for line in std::io::stdin().lock().lines() {
                println!("{}", edited(&origin, &line?));
            }
        } else {
            let venues = counted(u64::from(self.listings), "synthetic venue");
            runtime.block_on(async {
                // A container's first process gets SIGTERM only if it handles it.
                let (mut interrupt, mut terminate) =
                    (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
                eprintln!("{venues} at {}/api/listings.json; press Ctrl-C to stop", origin.url());
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                Ok::<_, std::io::Error>(())
            })?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Executes a line; returns the number of changed venues.
fn edited(origin: &SampleOrigin, line: &str) -> usize {
    let (word, count) = line.trim().split_once(' ').unwrap_or((line.trim(), "1"));
    let count: usize = count.parse().unwrap_or(0);
    origin.edit(|world| {
        let ids = world.ids();
        // Spread over all ids, so that every part of the list changes.
        let step = (ids.len() / count.max(1)).max(1);
        let chosen = ids.iter().skip(step / 2).step_by(step).take(count);
        let change = |id: &&u64| match word {
            "touch" => world.touch(**id),
            "remove" => world.remove(**id),
            _ => false,
        };
        chosen.filter(change).count()
    })
}
