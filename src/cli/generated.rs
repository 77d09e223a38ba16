//! `grandstand completions` and `grandstand man`: made from the same description as the help, and from the declared keys.
//!
//! Callers: [`super::run`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::Man as Page;

use crate::config::Config;

use super::terminal::say;
use super::{Failure, FileError};

/// Arguments of `grandstand completions`.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `grandstand man`.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// Directory for the pages, one file for each command; without it all pages are printed
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Completions {
    /// Prints the script.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut with_keys(super::command()), "grandstand", &mut script);
        Ok(say(String::from_utf8_lossy(&script)).map(|()| ExitCode::SUCCESS)?)
    }
}

/// A command that knows the keys for `--set`, and so do the commands below it.
fn with_keys(command: Command) -> Command {
    // A name must be static. The process ends when they have been printed.
    let keys = || Config::keys().into_iter().map(|key| &*format!("{key}=").leak());
    let named = |argument: Arg| match argument.get_long() {
        Some("set") => argument.value_parser(PossibleValuesParser::new(keys())),
        _ => argument,
    };
    command.mut_args(named).mut_subcommands(with_keys)
}

impl Man {
    /// Writes or prints the pages.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let mut pages = Vec::new();
        let mut root = super::command().disable_help_subcommand(true);
        root.build();
        add(root, &mut pages);
        let Some(directory) = &self.directory else {
            let mut all = Vec::new();
            for page in &pages {
                page.render(&mut all)?;
            }
            return Ok(say(String::from_utf8_lossy(&all)).map(|()| ExitCode::SUCCESS)?);
        };
        let failed = FileError::at(directory);
        std::fs::create_dir_all(directory).map_err(&failed)?;
        for page in &pages {
            page.generate_to(directory).map_err(&failed)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The page of a command, then those of the commands below it.
fn add(command: Command, pages: &mut Vec<Page>) {
    let inner: Vec<Command> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    pages.push(Page::new(command).source(concat!("grandstand ", env!("CARGO_PKG_VERSION"))));
    for inner in inner {
        add(inner, pages);
    }
}
