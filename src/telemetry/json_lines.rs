//! Lines of JSON: one schema for the log and the access log.
//!
//! Each line is an object with `time`, `level`, `msg` and, if it belongs to a request with an id, `request`; further
//! fields say more. Callers: [`super::access`], [`crate::cli`].

use std::fmt::{self, Debug, Write as _};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

use crate::clock::{Clock, WallTime};

pub(crate) struct JsonLines(pub Clock);

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut fields) = fields;
        let msg = fields.remove("message").unwrap_or_default();
        let target = fields.remove("log.target").unwrap_or_else(|| event.metadata().target().into());
        fields.retain(|name, _| !name.starts_with("log."));
        fields.insert("module".to_owned(), target);
        let mut line = String::new();
        write(self.0.now_wall(), *event.metadata().level(), msg, fields, &mut line);
        out.write_str(&line)
    }
}

struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }
}

/// Appends a line with its end.
pub(super) fn write(at: WallTime, level: Level, msg: impl Into<Value>, more: Map<String, Value>, out: &mut String) {
    let mut line = Map::new();
    line.insert("time".to_owned(), json!(at.rfc3339()));
    line.insert("level".to_owned(), level.as_str().to_ascii_lowercase().into());
    line.insert("msg".to_owned(), msg.into());
    line.extend(more);
    for character in Value::Object(line).to_string().chars() {
        // JSON allows these as they are; terminals and editors act on them.
        if matches!(character, '\u{7f}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_object_with_typed_fields() {
        let (written, clock) = (Written::default(), Clock::fake(WallTime::from_seconds(0)).clock());
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer().event_format(JsonLines(clock)).with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let error = io::Error::other("a \"bad\"\nday\u{9b}");
            tracing::warn!(%error, count = 3, request = "abc", is_new = true, "it failed {}", "twice");
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1 && !text.contains('\u{9b}'), "{text:?}");
        let wanted = json!({
            "time": "1970-01-01T00:00:00Z", "level": "warn", "msg": "it failed twice", "error": "a \"bad\"\nday\u{9b}",
            "count": 3, "request": "abc", "is_new": true, "module": module_path!(),
        });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), wanted);
    }
}
