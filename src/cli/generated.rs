//! `grandstand completions` and `grandstand man`: made from the same description as the help, and from the declared keys.
//!
//! Callers: [`super::run`].

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Command, ValueHint};
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
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

/// The option of `origin` that its help hides. The generators offer it.
const HIDDEN: &str = "until-stdin-closes";

/// In the script for bash, the line that reads the previous word; and the same for `--set=KEY`, where that word is `=`,
/// because bash splits words at it.
const PREVIOUS: &str = "    prev=\"$3\"\n";
const PREVIOUS_OPTION: &str =
    "    prev=\"$3\"\n    [[ ${prev} != = || ${COMP_CWORD} -lt 2 ]] || prev=\"${COMP_WORDS[COMP_CWORD-2]}\"\n";

impl Completions {
    /// Prints the script: that of the generator with corrections. `tests/completions` tries it.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let mut command = with_values(super::command());
        let arguments = arguments_for_fish(&command, "");
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "grandstand", &mut script);
        let script = String::from_utf8_lossy(&script).replace(&format!(" --{HIDDEN} --"), " --");
        let lines: Vec<&str> = script.lines().filter(|line| !line.contains(HIDDEN)).collect();
        let script = lines.join("\n");
        let script = match self.shell {
            Shell::Bash => script.replace(PREVIOUS, PREVIOUS_OPTION),
            Shell::Fish => script + &arguments,
            // A value follows a key without a space.
            Shell::Zsh => {
                let keys = keys().collect::<Vec<_>>().join(" ");
                script.replace(&format!("({keys})"), &format!("compadd -S \"\" -- {keys}"))
            }
            _ => script,
        };
        Ok(say(script).map(|()| ExitCode::SUCCESS)?)
    }
}

fn keys() -> impl Iterator<Item = String> {
    Config::keys().into_iter().map(|key| format!("{key}="))
}

/// A command that knows the keys for `--set` and which values are files, and so do the commands below it.
fn with_values(command: Command) -> Command {
    let known = |argument: Arg| {
        let has_values = argument.get_action().takes_values() && argument.get_possible_values().is_empty();
        let hint = match argument.get_value_hint() {
            // The generators offer files.
            ValueHint::Unknown if has_values => ValueHint::Other,
            // Only this hint makes bash put a slash behind a directory, and keep a name with spaces together.
            ValueHint::AnyPath => ValueHint::FilePath,
            hint => hint,
        };
        // For zsh, a plain colon ends a name. Names must be static. The process ends when they have been printed.
        let names = argument.get_value_names().unwrap_or_default().iter();
        let names: Vec<&str> = names.map(|name| &*name.replace(':', "\\:").leak()).collect();
        let argument = argument.value_hint(hint).value_names(names);
        match argument.get_long() {
            Some("set") => argument.value_parser(PossibleValuesParser::new(keys().map(|key| &*key.leak()))),
            _ => argument,
        }
    };
    command.mut_args(known).mut_subcommands(with_values)
}

/// What the generator for fish leaves out: values of arguments that are no options; and that other arguments are no files.
fn arguments_for_fish(command: &Command, place: &str) -> String {
    if command.has_subcommands() {
        let test =
            if place.is_empty() { "__fish_grandstand_using_subcommand" } else { "; and __fish_seen_subcommand_from" };
        let below = |inner: &Command| arguments_for_fish(inner, &format!("{place}{test} {}", inner.get_name()));
        return command.get_subcommands().map(below).collect();
    }
    let is_path = |argument: &Arg| matches!(argument.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath);
    if command.get_positionals().any(is_path) {
        return String::new();
    }
    let values = command.get_positionals().flat_map(Arg::get_possible_values);
    let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    format!("\ncomplete -c grandstand -n \"{place}\" -f -a \"{}\"", names.join(" "))
}

impl Man {
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
