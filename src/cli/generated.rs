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
        let mut root = super::command().disable_help_subcommand(true).after_help("");
        root.build();
        add(root, &mut pages);
        if let Some(directory) = &self.directory {
            std::fs::create_dir_all(directory).map_err(FileError::at(directory))?;
        }
        let mut all = Vec::new();
        for page in &pages {
            page.render(&mut all)?;
            all.extend_from_slice(ENDING.as_bytes());
            if let Some(directory) = &self.directory {
                let path = directory.join(page.get_filename());
                std::fs::write(&path, std::mem::take(&mut all)).map_err(FileError::at(&path))?;
            }
        }
        Ok(if all.is_empty() { Ok(()) } else { say(String::from_utf8_lossy(&all)) }.map(|()| ExitCode::SUCCESS)?)
    }
}

/// What each page ends with.
const ENDING: &str = r#".SH "EXIT STATUS"
.TP
\fB0\fR
success
.TP
\fB1\fR
the command failed, or it found a problem
.TP
\fB64\fR
the command line or the configuration is wrong
.SH ENVIRONMENT
.TP
\fBGRANDSTAND_CONFIG\fR
the configuration file, without \-\-config (not read by grandstand demo)
.TP
\fBGRANDSTAND_\|_SECTION_\|_KEY\fR
sets a configuration key: GRANDSTAND_\|_ORIGIN_\|_URL sets origin.url
.TP
\fBNO_COLOR\fR
if not empty: no colours
.SH FILES
.TP
\fI./grandstand.toml\fR, \fI/etc/grandstand/grandstand.toml\fR
the configuration, where neither \-\-config nor GRANDSTAND_CONFIG names one: the first that exists (not read by grandstand
demo)
"#;

/// The page of a command, then those of the commands below it.
fn add(command: Command, pages: &mut Vec<Page>) {
    let inner: Vec<Command> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    let command = command
        .mut_args(|argument| if argument.is_positional() { argument.help_heading("Arguments") } else { argument });
    pages.push(Page::new(command).source(concat!("grandstand ", env!("CARGO_PKG_VERSION"))));
    for inner in inner {
        add(inner, pages);
    }
}
