//! The help of every command, for the file of messages.
//!
//! Callers: tests.

use clap::CommandFactory as _;

/// The whole command line and the `--help` of each command, as wide as a page.
pub(crate) fn pages() -> Vec<(String, String)> {
    let mut root = super::Cli::command().term_width(100);
    root.build();
    let mut pages = Vec::new();
    add(root, "grandstand", &mut pages);
    pages
}

fn add(mut command: clap::Command, name: &str, pages: &mut Vec<(String, String)>) {
    pages.push((name.to_owned(), command.render_long_help().to_string()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        add(inner.clone().term_width(100), &format!("{name} {}", inner.get_name()), pages);
    }
}
