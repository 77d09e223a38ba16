//! Standard output and standard error: the only writer of lines, colours and tables, progress as bars or plain lines, and
//! the log.
//!
//! Words and values are the commands' own. Callers: the commands.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::{self, Debug, Display as Text, Write as _};
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Once};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle, WeakProgressBar};
use parking_lot::Mutex;
use tracing::field::Field;
use tracing::{Dispatch, Level, dispatcher};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::clock::Clock;
use crate::config::{LogConfig, LogFormat};
use crate::protocol::excerpt::{escaped, escaped_json};
use crate::telemetry::json_lines::JsonLines;
use crate::telemetry::lines::{standard_error, start_standard_error};

use crate::words::seconds;

/// Prints a text on standard output, with a line feed at its end. A reader that closes early wants no more of it: the
/// command then goes on to its own exit code.
pub(super) fn say(text: impl Text) -> io::Result<()> {
    let mut text = text.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    put(&text).map(drop)
}

/// Prints JSON; what would steer a terminal is escaped, as JSON does.
pub(super) fn say_json(json: impl Text) -> io::Result<()> {
    say(escaped_json(&json.to_string()))
}

/// Prints a text on standard output as it is; returns whether anybody still reads it.
pub(super) fn put(text: &str) -> io::Result<bool> {
    let mut out = Output::default();
    match beside_bar(|| out.write_all(text.as_bytes()).and_then(|()| out.flush())) {
        Err(_) if out.is_closed => Ok(false),
        written => written.map(|()| true),
    }
}

/// Prints a line on standard error, in turn with the log of a server. Nothing can be done about one that is closed or full.
pub(super) fn tell(text: impl Text) {
    let line = format!("{text}\n");
    match standard_error() {
        Some(queue) => queue.text(line),
        None => drop(StandardError.write_all(line.as_bytes())),
    }
}

/// How long a process that ends waits for the last lines of a server, if nobody reads them.
const LAST_LINES: Duration = Duration::from_secs(1);

/// At its end, also by a panic, the last lines of a server are written.
pub(super) struct LastLines;

impl Drop for LastLines {
    fn drop(&mut self) {
        if let Some(queue) = standard_error() {
            queue.flush(LAST_LINES);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Output {
    /// Nobody reads it any more.
    pub is_closed: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("standard output cannot be written: {0}")]
struct Unwritten(io::Error);

impl Output {
    fn noticed<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        written.map_err(|error| {
            self.is_closed |= error.kind() == ErrorKind::BrokenPipe;
            io::Error::new(error.kind(), Unwritten(error))
        })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::stdout().write(bytes);
        self.noticed(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = io::stdout().flush();
        self.noticed(flushed)
    }
}

/// Standard error, for whole lines: a bar makes room for them.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        beside_bar(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bar on the terminal, if any: a process has one terminal, and the log must know it.
static BAR: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Writes while no bar is in the way.
fn beside_bar<T>(write: impl FnOnce() -> T) -> T {
    // The lock is given back before the write, which a stuck reader holds up.
    let bar = BAR.lock().as_ref().and_then(WeakProgressBar::upgrade);
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terminal {
    /// Colours are seen and wanted.
    pub colours: bool,
    /// A line can be written over, as progress bars do.
    pub redraws: bool,
}

impl Terminal {
    pub(super) fn of_stderr() -> Self {
        Self::of(&std::io::stderr())
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    /// For numbers.
    Right,
}

/// A table with a heading. Columns are as wide as their widest cell.
pub(super) fn table<const N: usize>(columns: [(&'static str, Align); N], mut rows: Vec<[String; N]>) -> String {
    rows.insert(0, columns.map(|(name, _)| name.to_owned()));
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).zip(columns).map(|((cell, width), (_, align))| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Lines of a name and a value, one below the other.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in facts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:>width$}  {value}");
    }
    text
}

/// Colours, where they are seen and wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(bool);

impl Paint {
    pub(super) fn of_stdout() -> Self {
        Self(Terminal::of_stdout().colours)
    }

    fn in_colour<'a>(self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
    }

    pub(super) fn heading(self, text: &str) -> Cow<'_, str> {
        self.in_colour("1", text)
    }

    pub(super) fn verdict(self, is_good: bool, text: &str) -> Cow<'_, str> {
        self.in_colour(if is_good { "1;32" } else { "1;31" }, text)
    }

    pub(super) fn warning(self, text: &str) -> Cow<'_, str> {
        self.in_colour("33", text)
    }
}

/// A bar of a form where standard error is a terminal, nothing elsewhere. It goes when it is dropped.
fn bar(template: &str) -> ProgressBar {
    if !Terminal::of_stderr().redraws {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length().with_finish(ProgressFinish::AndClear);
    // The template is a constant; without it the default style is shown.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    *BAR.lock() = Some(bar.downgrade());
    bar
}

/// Shows activity of unknown length, until it is dropped.
pub(super) fn spinner(what: &'static str) -> ProgressBar {
    let bar = bar("{spinner} {msg}").with_message(what);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Shows how many bytes of all are done, until it is dropped; on a terminal only.
pub(super) fn bytes_bar(word: &'static str) -> impl FnMut(u64, u64) {
    let bar = bar("{msg:>10} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta:>4} left").with_message(word);
    move |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    }
}

/// Shows counts of one thing after another: a bar on a terminal, lines elsewhere. It goes when it is dropped.
pub(super) struct Display {
    bar: Option<ProgressBar>,
    /// The word and the tenth of the last count, and whether the origin wanted a pause.
    last: Option<(&'static str, u64, bool)>,
}

impl Default for Display {
    fn default() -> Self {
        Self { bar: Terminal::of_stderr().redraws.then(|| bar("{msg:>10} {wide_bar} {prefix}")), last: None }
    }
}

impl Display {
    /// Shows a count. Lines come at every tenth, so that a log stays readable. `pause`: for how many seconds the origin wants
    /// no requests; `left`: how many seconds the rest takes, if that is known.
    pub(super) fn count(&mut self, word: &'static str, done: u64, of: u64, pause: u64, left: Option<u64>) {
        let rest = match (pause, left) {
            (1.., _) => format!(", the origin asked for a pause of {}", seconds(pause)),
            (0, Some(left @ 1..)) => format!(", about {} left", seconds(left)),
            (0, _) => String::new(),
        };
        let figures = |of_all: &str| match of {
            0 => format!("not known yet{rest}"),
            of => format!("{done}{of_all}{of}{rest}"),
        };
        if let Some(bar) = &self.bar {
            // Without a length it is empty; of nothing it would be full.
            if of > 0 {
                bar.set_length(of);
            } else {
                bar.unset_length();
            }
            bar.set_position(done);
            bar.set_message(word);
            bar.set_prefix(figures("/"));
            return;
        }
        let tenth = (done * 10).checked_div(of).unwrap_or(0);
        let last = self.last.replace((word, tenth, pause > 0));
        let is_new = of > 0 && last.is_none_or(|(word_before, before, _)| (word_before, before) != (word, tenth));
        if is_new || (pause > 0 && !last.is_some_and(|(.., is_paused)| is_paused)) {
            tell(format!("{word}: {}", figures(" of ")));
        }
    }
}

/// Changes form and level of a log that has been started.
pub(super) type Log = Box<dyn Fn(&LogConfig) + Send + Sync>;

/// Logging was set up before.
#[derive(Debug, thiserror::Error)]
#[error("logging cannot be set up: {0}")]
pub(super) struct LoggingError(String);

/// Where lines of a log go.
pub(super) type Lines = Arc<dyn Fn() -> Box<dyn Write + Send> + Send + Sync>;

/// Starts the log of a command, on standard error.
pub(super) fn start_log(config: LogConfig) -> Result<(), LoggingError> {
    start_log_on(config, Arc::new(|| Box::new(StandardError))).map(drop)
}

/// Starts the log of a server, on standard error: a reader that is stuck delays nothing, and costs lines.
pub(super) fn start_server_log(config: LogConfig) -> Result<Log, LoggingError> {
    let queue = start_standard_error(|| StandardError).map_err(|error| LoggingError(error.to_string()))?;
    start_log_on(config, Arc::new(move || Box::new(queue)))
}

fn start_log_on(config: LogConfig, lines: Lines) -> Result<Log, LoggingError> {
    let (dispatch, log) = log_to(config, lines, Terminal::of_stderr().colours)?;
    dispatch.try_init().map_err(|error| LoggingError(error.to_string()))?;
    handle_panics();
    Ok(log)
}

/// A log that writes to `lines`. Per-request lines (target `access`) come at level `debug`; of the libraries only errors are
/// shown, and nothing of those that report every client that leaves early.
pub(super) fn log_to(config: LogConfig, lines: Lines, colours: bool) -> Result<(Dispatch, Log), LoggingError> {
    let layer = move |format| layer(format, lines.clone(), colours);
    // The filter stays in place and is changed: a layer that brings a new one would not be registered.
    let (shown, form) = reload::Layer::new(layer(config.format));
    let (filtered, level) = reload::Layer::new(filter(config.level.as_str())?);
    let started = tracing_subscriber::registry().with(shown.with_filter(filtered));
    let change = move |config: &LogConfig| {
        let changed = form.reload(layer(config.format)).map_err(|error| LoggingError(error.to_string()));
        let changed = changed.and(filter(config.level.as_str()));
        let changed = changed.and_then(|filter| level.reload(filter).map_err(|error| LoggingError(error.to_string())));
        if let Err(error) = changed {
            tracing::error!(%error, "the log could not be changed; its old settings stay in effect");
        }
    };
    Ok((Dispatch::new(started), Box::new(change)))
}

fn layer(format: LogFormat, lines: Lines, colours: bool) -> Box<dyn Layer<Registry> + Send + Sync> {
    // A line that cannot be written is lost; to say so on the same stream would be a panic.
    let layer = tracing_subscriber::fmt::layer().with_writer(move || lines()).log_internal_errors(false);
    match format {
        LogFormat::Json => layer.event_format(JsonLines(Clock::system())).boxed(),
        LogFormat::Text => layer.with_ansi(colours).fmt_fields(debug_fn(text_field)).boxed(),
    }
}

/// Writes a field of an event, the message first. No text, wherever it is from, forges a line or steers a terminal.
fn text_field(out: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let (value, is_coloured) = (escaped(&format!("{value:?}")), out.has_ansi_escapes());
    match field.name().trim_start_matches("r#") {
        "message" => out.write_str(&value),
        name if name.starts_with("log.") => Ok(()),
        name if is_coloured => write!(out, " \x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{value}"),
        name => write!(out, " {name}={value}"),
    }
}

fn filter(level: &str) -> Result<Targets, LoggingError> {
    let directives = format!("error,pingora_core=error,pingora_core::apps=off,grandstand={level},access={level}");
    directives.parse().map_err(|error: tracing_subscriber::filter::ParseError| LoggingError(error.to_string()))
}

/// Keeps panics that the store catches off standard error: they are reported as a damaged file. A server logs its panics.
pub(super) fn handle_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match standard_error() {
            _ if crate::data::store::catches_panics() => {}
            // Not where the panic is within the log itself.
            Some(queue) if dispatcher::has_been_set() && tracing::enabled!(Level::ERROR) => {
                let (thread, trace) = (std::thread::current(), Backtrace::capture());
                let backtrace = (trace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(&trace));
                tracing::error!(thread = thread.name(), backtrace, "{panic}");
                // A second panic may end the process.
                queue.flush(Duration::from_millis(100));
            }
            _ => print(panic),
        }));
    });
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

    #[test]
    fn no_text_forges_a_line_of_the_log_or_steers_a_terminal() {
        #[derive(Clone, Default)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for format in [LogFormat::Text, LogFormat::Json] {
            let kept = Kept::default();
            let writer = kept.clone();
            let config = LogConfig { format, ..LogConfig::default() };
            let (dispatch, _log) = log_to(config, Arc::new(move || Box::new(writer.clone())), false).unwrap();
            let hostile = "a\r\nb\u{1b}[2J\u{9b}c\u{202e}d\u{2028}";
            dispatcher::with_default(&dispatch, || tracing::warn!(error = %hostile, n = 7, "it says {hostile}"));
            let said = String::from_utf8(kept.0.lock().clone()).unwrap();
            let line = said.strip_suffix('\n').unwrap();
            assert!(escaped(line) == line && line.contains('7'), "{said:?}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let columns = [("NAME", Align::Left), ("LISTINGS", Align::Right), ("", Align::Left)];
        let rows = [["a", "7", "served"], ["a longer one", "1234567890", ""], ["São", "12", ""]];
        let expected = "\
NAME            LISTINGS
a                      7  served
a longer one  1234567890
São                   12
";
        assert_eq!(table(columns, rows.map(|row| row.map(str::to_owned)).to_vec()), expected);
        assert_eq!(table([("NAME", Align::Left), ("LISTINGS", Align::Right)], Vec::new()), "NAME  LISTINGS\n");
    }

    #[test]
    fn facts_stand_one_below_the_other() {
        assert_eq!(facts(&[("a", "1".into()), ("long", "2".into())]), "   a  1\nlong  2\n");
    }

    #[test]
    fn colours_go_where_they_are_wanted() {
        assert_eq!(Paint(false).verdict(true, "healthy"), "healthy");
        assert_eq!(Paint(true).verdict(true, "healthy"), "\x1b[1;32mhealthy\x1b[0m");
        assert_eq!(Paint(true).verdict(false, "unhealthy"), "\x1b[1;31munhealthy\x1b[0m");
        assert_eq!(Paint(true).warning("held"), "\x1b[33mheld\x1b[0m");
        assert_eq!(Paint(true).heading(""), "");
    }
}
