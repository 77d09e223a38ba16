//! The abilities of standard error and standard output: colours, cursor movement, or plain lines only.
//!
//! Callers: [`super::logging`], [`super::progress`], [`super::table`], [`super::watch`].

use std::ffi::OsStr;

/// The abilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terminal {
    /// Colours are seen and wanted.
    pub colours: bool,
    /// A line can be written over, as progress bars do.
    pub redraws: bool,
}

impl Terminal {
    /// Standard error of this process.
    pub(super) fn of_stderr() -> Self {
        Self::of(&std::io::stderr())
    }

    /// Standard output of this process.
    pub(super) fn of_stdout() -> Self {
        Self::of(&std::io::stdout())
    }

    fn of(stream: &impl std::io::IsTerminal) -> Self {
        let var = |name| std::env::var_os(name);
        Self::judge(stream.is_terminal(), var("NO_COLOR").as_deref(), var("TERM").as_deref())
    }

    /// `no_color`: any value but the empty one disables colours (<https://no-color.org>). `term`: `dumb` or unset means
    /// no escape sequences.
    fn judge(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let redraws = is_terminal && term.is_some_and(|term| term != "dumb" && !term.is_empty());
        Self { colours: redraws && no_color.is_none_or(OsStr::is_empty), redraws }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_bars_are_for_terminals_that_show_and_want_them() {
        for (is_terminal, no_color, term, colours, redraws) in [
            (true, None, Some("xterm-256color"), true, true),
            (true, Some(""), Some("xterm"), true, true),
            (true, Some("1"), Some("xterm"), false, true),
            (true, Some("0"), Some("xterm"), false, true),
            (true, None, Some("dumb"), false, false),
            (true, None, Some(""), false, false),
            (true, None, None, false, false),
            (false, None, Some("xterm"), false, false),
        ] {
            let judged = Terminal::judge(is_terminal, no_color.map(OsStr::new), term.map(OsStr::new));
            assert_eq!(judged, Terminal { colours, redraws }, "{is_terminal} {no_color:?} {term:?}");
        }
    }
}
