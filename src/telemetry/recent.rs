//! The last warnings and errors of the log, for `/status`.
//!
//! A layer beside the log: what it keeps does not depend on `log.level`. At most 50 of them, each of at most 500 bytes,
//! and a few from one place in the code, so that one kind of trouble does not hide another. Callers: `cli::terminal`
//! installs it, `admin::status` shows it.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::clock::{Clock, WallTime};

/// How many are kept.
const MOST: usize = 50;
/// How many of them come from one place in the code.
const MOST_OF_ONE_PLACE: usize = 5;
/// The most bytes of one text.
const MOST_BYTES: usize = 500;

/// One warning or error; those that differ in their other values only are counted, not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Whether it is an error; otherwise a warning.
    pub is_error: bool,
    /// When it was logged last.
    pub at: WallTime,
    /// How many times.
    pub count: u64,
    /// The module that logged it.
    pub module: &'static str,
    /// The line in that module's file; tells places apart.
    line: Option<u32>,
    /// What was logged: the message, the error, and the other values in brackets.
    pub text: String,
    /// How much of the text tells notes apart: all before the brackets.
    same: usize,
}

impl Note {
    fn place(&self) -> (&str, Option<u32>) {
        (self.module, self.line)
    }

    fn is_like(&self, other: &Self) -> bool {
        let same = |note: &Self| note.text.get(..note.same).unwrap_or(&note.text).to_owned();
        self.place() == other.place() && same(self) == same(other)
    }
}

/// The last warnings and errors; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    notes: Arc<Mutex<VecDeque<Note>>>,
    clock: Clock,
}

impl Default for Recent {
    fn default() -> Self {
        Self { notes: Arc::default(), clock: Clock::system() }
    }
}

impl Recent {
    /// All of them, the newest first.
    pub(crate) fn notes(&self) -> Vec<Note> {
        self.notes.lock().iter().rev().cloned().collect()
    }

    fn add(&self, mut note: Note) {
        let mut notes = self.notes.lock();
        if let Some(at) = notes.iter().position(|known| known.is_like(&note)) {
            note.count += notes.remove(at).map_or(0, |known| known.count);
        }
        let is_there = |known: &&Note| known.place() == note.place();
        if notes.iter().filter(is_there).count() >= MOST_OF_ONE_PLACE
            && let Some(at) = notes.iter().position(|known| is_there(&known))
        {
            notes.remove(at);
        }
        if notes.len() >= MOST {
            notes.pop_front();
        }
        notes.push_back(note);
    }
}

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // The levels of tracing fall with their importance.
        if *metadata.level() > Level::WARN {
            return;
        }
        let mut said = EventText::default();
        event.record(&mut said);
        let (text, same) = said.into_text();
        self.add(Note {
            is_error: *metadata.level() == Level::ERROR,
            at: self.clock.now_wall(),
            count: 1,
            module: metadata.target(),
            line: metadata.line(),
            text,
            same,
        });
    }
}

/// What an event says, put together.
#[derive(Debug, Default)]
struct EventText {
    message: String,
    error: String,
    rest: String,
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" => write!(self.error, "{value:?}"),
            name if name.starts_with("log.") => Ok(()),
            name => {
                let comma = if self.rest.is_empty() { "" } else { ", " };
                write!(self.rest, "{comma}{}: {value:?}", name.replace('_', " "))
            }
        };
    }
}

impl EventText {
    /// The text, and how much of it comes before the other values.
    fn into_text(self) -> (String, usize) {
        let mut text = self.message;
        if !self.error.is_empty() {
            text.extend([": ", &self.error]);
        }
        let same = text.len();
        if !self.rest.is_empty() {
            text.extend([" (", &self.rest, ")"]);
        }
        cut(&mut text);
        let same = same.min(text.len());
        (text, same)
    }
}

/// Cuts a text at the end of a character.
fn cut(text: &mut String) {
    if text.len() > MOST_BYTES {
        let end = (0..=MOST_BYTES - '…'.len_utf8()).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    fn logged(log: impl FnOnce()) -> Vec<Note> {
        let recent = Recent::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recent.clone()), log);
        recent.notes()
    }

    #[test]
    fn a_warning_is_kept_with_its_values_and_a_message_of_everyday_is_not() {
        let notes = logged(|| {
            tracing::info!("served");
            tracing::warn!(error = %"refused", pause_seconds = 4, failures = 3, "leaving the origin alone");
            tracing::error!("no disk");
        });
        let told: Vec<_> = notes.iter().map(|note| (note.is_error, note.text.as_str())).collect();
        let warning = "leaving the origin alone: refused (pause seconds: 4, failures: 3)";
        assert_eq!(told, [(true, "no disk"), (false, warning)]);
        assert!(notes[0].module.ends_with("telemetry::recent::tests"), "{}", notes[0].module);
    }

    #[test]
    fn what_repeats_is_counted_and_one_place_does_not_push_out_the_others() {
        let notes = logged(|| {
            tracing::warn!("once");
            for n in 0..1000 {
                tracing::warn!(n, "the same");
                tracing::warn!(error = n, "each time another");
            }
        });
        let told: Vec<_> = notes.iter().map(|note| (note.count, note.text.as_str())).collect();
        assert_eq!(told[0], (1, "each time another: 999"));
        assert_eq!(told[1], (1000, "the same (n: 999)"));
        assert_eq!(told.last(), Some(&(1, "once")));
        assert_eq!(told.len(), MOST_OF_ONE_PLACE + 2);
    }

    #[test]
    fn however_much_is_logged_a_little_is_kept() {
        let recent = Recent::default();
        for line in 0..1000 {
            let text = "é".repeat(300);
            let (at, same) = (WallTime::default(), text.len());
            let mut note = Note { is_error: false, at, count: 1, module: "m", line: Some(line), text, same };
            cut(&mut note.text);
            recent.add(note);
        }
        let notes = recent.notes();
        assert_eq!(notes.len(), MOST);
        assert!(notes.iter().all(|note| note.text.len() <= MOST_BYTES && note.text.ends_with('…')));
    }
}
