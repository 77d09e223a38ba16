//! `grandstand status --watch`: looks again and again until a signal comes.
//!
//! On a terminal it redraws one screen. Elsewhere and with `--json` it writes a line for each change. Callers:
//! [`super::status`].

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::admin::facts::StatusFacts;
use crate::clock::Clock;

use super::status::{self, Look, or_dash};
use super::terminal::Terminal;
use super::{Failure, plain};

/// How long to wait between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// What came of a look.
type Looked = Result<Look, String>;

/// How a status is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Text,
    /// For scripts: one JSON object a line.
    Json,
}

/// Shows the status until SIGINT, SIGTERM or SIGHUP, or until its output is closed. Succeeds if the server was healthy
/// at the last look.
///
/// # Errors
/// When signals cannot be listened to.
pub(super) fn watch(
    first: Looked,
    look: impl Fn() -> Looked + Send + Sync + 'static,
    screen: impl Fn(&StatusFacts) -> String,
    form: Form,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(run(first, Arc::new(look), screen, form));
    // It does not wait for a look in progress.
    runtime.shutdown_background();
    Ok(if ended? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(
    first: Looked,
    look: Arc<impl Fn() -> Looked + Send + Sync + 'static>,
    screen: impl Fn(&StatusFacts) -> String,
    form: Form,
) -> io::Result<bool> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let redraws = form == Form::Text && Terminal::of_stdout().redraws;
    let mut canvas = redraws.then(Canvas::open);
    let mut last = String::new();
    let mut seen = first;
    loop {
        let is_healthy = matches!(seen, Ok(Look { is_healthy: true, .. }));
        let shown = match &mut canvas {
            Some(canvas) => canvas.draw(&match &seen {
                Ok(look) => screen(&look.facts),
                Err(why) => format!("unreachable: {}\n", plain(why)),
            }),
            None => say_if_new(&seen, form, &mut last),
        };
        if shown.is_err() {
            return Ok(is_healthy);
        }
        let next = async {
            tokio::time::sleep(EVERY).await;
            let look = look.clone();
            let looked = tokio::task::spawn_blocking(move || look()).await;
            looked.unwrap_or_else(|error| Err(error.to_string()))
        };
        seen = tokio::select! {
            next = next => next,
            _ = interrupt.recv() => return Ok(is_healthy),
            _ = terminate.recv() => return Ok(is_healthy),
            _ = hang_up.recv() => return Ok(is_healthy),
        };
    }
}

/// Writes a line unless it equals the last one.
fn say_if_new(seen: &Looked, form: Form, last: &mut String) -> io::Result<()> {
    let what = match seen {
        Ok(look) => summary(&look.facts),
        Err(why) => format!("unreachable: {why}"),
    };
    if what == *last {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match (form, seen) {
        (Form::Text, _) => writeln!(out, "{}  {}", Clock::system().now_wall(), plain(&what))?,
        (Form::Json, Ok(look)) => writeln!(out, "{}", look.json)?,
        (Form::Json, Err(why)) => writeln!(out, "{}", json!({ "state": "unreachable", "error": why }))?,
    }
    *last = what;
    out.flush()
}

/// The facts that rarely change: no age, cache or hit ratio.
fn summary(facts: &StatusFacts) -> String {
    let mut parts = vec![facts.state.clone()];
    if facts.usage != "shield" {
        parts.push(format!("snapshot {}", status::snapshot(facts)));
        parts.push(format!("{} listings", or_dash(facts.listings)));
        parts.push(format!("{} details", status::mirrored(facts.details.as_ref())));
    }
    if !facts.origin.state.is_empty() {
        parts.push(format!("origin {}", facts.origin.state));
    }
    // Seconds in them would change with each look.
    let reasons: Vec<String> = facts.reasons.iter().map(|reason| without_numbers(reason)).collect();
    if !reasons.is_empty() {
        parts.push(reasons.join("; "));
    }
    parts.join(", ")
}

/// The text up to its first number.
fn without_numbers(text: &str) -> String {
    let end = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    if end == text.len() { text.to_owned() } else { format!("{}...", &text[..end]) }
}

/// The terminal's alternate screen. At its end the normal screen comes back.
struct Canvas {
    text: String,
}

impl Canvas {
    fn open() -> Self {
        // Alternate screen, without a cursor. Nothing can be done about a closed terminal.
        let _ = put("\x1b[?1049h\x1b[?25l");
        Self { text: String::new() }
    }

    /// Overwrites the old text, so that nothing flickers.
    fn draw(&mut self, text: &str) -> io::Result<()> {
        self.text.clear();
        self.text.push_str("\x1b[H");
        for line in text.lines() {
            self.text.push_str(line);
            self.text.push_str("\x1b[K\r\n");
        }
        self.text.push_str("\x1b[K\r\nCtrl-C ends\x1b[K\x1b[J");
        put(&self.text)
    }
}

impl Drop for Canvas {
    fn drop(&mut self) {
        let _ = put("\x1b[?25h\x1b[?1049l");
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_line_names_what_changes_seldom() {
        let summary = |status: &Value| summary(&StatusFacts::deserialize(status).unwrap());
        let mut status = json!({
            "state": "healthy", "use": "mirror", "listings": 7, "age_seconds": 4, "reasons": [],
            "snapshot": { "id": "ab", "certificate": "full" }, "details": { "mirrored": 6, "of": 7 },
            "origin": { "state": "unchanged" },
        });
        let line = "healthy, snapshot ab (full), 7 listings, 6 of 7 details, origin unchanged";
        assert_eq!(summary(&status), line);
        status["age_seconds"] = 5.into();
        assert_eq!(summary(&status), line);
        status["reasons"] = json!(["not confirmed for 31 s (limit 3 s)", "no space"]);
        assert_eq!(summary(&status), format!("{line}, not confirmed for ...; no space"));
        status["use"] = "shield".into();
        assert_eq!(summary(&status), "healthy, origin unchanged, not confirmed for ...; no space");
    }
}
