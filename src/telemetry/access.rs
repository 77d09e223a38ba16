//! The access log: one line for each request, as text or as JSON, in a file of its own or on standard error.
//!
//! The thread of a [`LineQueue`] formats and writes them, so that a slow disk delays no answer. Text is the combined
//! format of Apache and nginx, then microseconds, outcome and id. No byte of a client ends a line or reaches a terminal
//! as a control character. Callers: [`crate::edge::answer`] hands in lines, [`crate::server`] opens it.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::{HeaderValue, Method, Version};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use tracing::Level;

use crate::clock::WallTime;

use super::json_lines;
use super::lines::{LineQueue, start_standard_error};

/// The access log in effect, if any; a reload replaces it.
pub(crate) type InEffect = Arc<ArcSwapOption<AccessLog>>;

/// The log; cheap to clone.
#[derive(Clone)]
pub(crate) struct AccessLog {
    pub lines: LineQueue,
    json: bool,
}

impl AccessLog {
    /// Opens the file for appending; `None`: standard error, together with the log. `json`: a JSON object in each line.
    pub(crate) fn open(path: Option<&Path>, json: bool) -> io::Result<Self> {
        let lines = match path.map(Path::to_owned) {
            None => start_standard_error(io::stderr)?.clone(),
            Some(path) => {
                let file = path.display().to_string();
                LineQueue::start("access log", file, Box::new(move || Ok(Box::new(append(&path)?))))?
            }
        };
        Ok(Self { lines, json })
    }

    /// Logs a request. Never waits.
    pub(crate) fn log(&self, line: Line) {
        self.lines.request(line, self.json);
    }
}

fn append(path: &Path) -> io::Result<File> {
    // Without NONBLOCK, opening a FIFO waits for a reader. With it, writing would not wait for one that is slow.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::NXIO.raw_os_error() => {
            io::Error::new(io::ErrorKind::NotConnected, "it is a socket, or a FIFO that no program reads")
        }
        _ => error,
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// The most bytes of a target, and of another field. The rest is cut off.
const MOST: (usize, usize) = (2048, 512);

/// A field of a request, cut to a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogField(Box<[u8]>);

impl LogField {
    pub(crate) fn target(target: &[u8]) -> Self {
        Self(target[..target.len().min(MOST.0)].into())
    }

    pub(crate) fn value(value: &HeaderValue) -> Self {
        Self(value.as_bytes()[..value.len().min(MOST.1)].into())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// When the answer was ready.
    pub at: WallTime,
    pub client: IpAddr,
    /// Method and target; `None`: the request could not be read.
    pub request: Option<(Method, LogField, Version)>,
    pub status: u16,
    /// Bytes of its body.
    pub bytes: usize,
    pub referer: Option<LogField>,
    pub agent: Option<LogField>,
    /// How long the answer took.
    pub micros: u64,
    pub outcome: &'static str,
    pub id: String,
}

impl Line {
    pub(super) fn write(&self, json: bool, out: &mut String) {
        if json {
            self.write_json(out);
        } else {
            self.write_text(out);
        }
    }

    fn write_text(&self, out: &mut String) {
        let at = jiff::Timestamp::from_millisecond(self.at.as_millis()).ok();
        let at = at.and_then(|at| jiff::fmt::strtime::format("%d/%b/%Y:%H:%M:%S +0000", at).ok());
        // Writing to a String cannot fail.
        let _ = write!(out, "{} - - [{}] ", self.client, at.as_deref().unwrap_or("-"));
        match &self.request {
            Some((method, target, version)) => {
                let _ = write!(out, "\"{method} ");
                escape(&target.0, out);
                let _ = write!(out, " {version:?}\"");
            }
            None => out.push_str("\"-\""),
        }
        let _ = write!(out, " {} {}", self.status, self.bytes);
        for field in [&self.referer, &self.agent] {
            out.push_str(" \"");
            escape(field.as_ref().map_or(&b"-"[..], |field| &field.0[..]), out);
            out.push('"');
        }
        let _ = writeln!(out, " {} {} {}", self.micros, self.outcome, self.id);
    }

    fn write_json(&self, out: &mut String) {
        let text = |field: &LogField| String::from_utf8_lossy(&field.0).into_owned();
        let (method, target, protocol) = match &self.request {
            Some((method, target, version)) => {
                (Some(method.as_str()), Some(text(target)), Some(format!("{version:?}")))
            }
            None => (None, None, None),
        };
        let fields = json!({
            "request": self.id,
            "client": self.client,
            "method": method,
            "target": target,
            "protocol": protocol,
            "status": self.status,
            "bytes": self.bytes,
            "referer": self.referer.as_ref().map(text),
            "user_agent": self.agent.as_ref().map(text),
            "microseconds": self.micros,
            "outcome": self.outcome,
        });
        let fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        json_lines::write(self.at, Level::INFO, "request", fields, out);
    }
}

/// Visible ASCII as it is, everything else as nginx writes it: `\x0A`.
fn escape(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        if (byte.is_ascii_graphic() || byte == b' ') && !matches!(byte, b'"' | b'\\') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_rotated_file_is_left_and_a_new_one_begun() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
        let log = AccessLog::open(Some(&path), false).unwrap();
        log.log(line("/one"));
        log.lines.flush(PATIENCE);
        std::fs::rename(&path, &old).unwrap();
        log.log(line("/two"));
        log.lines.flush(PATIENCE);
        log.lines.reopen();
        log.log(line("/three"));
        log.lines.flush(PATIENCE);
        assert_eq!((read(&old).lines().count(), read(&path).lines().count()), (2, 1));
        assert!(read(&path).contains("GET /three ") && log.lines.dropped_requests() == 0);
        // The directory is gone: the file that is open stays in use.
        std::fs::rename(dir.path().join("access.log"), &old).unwrap();
        std::fs::create_dir(&path).unwrap();
        log.lines.reopen();
        log.log(line("/four"));
        log.lines.flush(PATIENCE);
        assert!(read(&old).contains("GET /four "));
        assert!(AccessLog::open(Some(&path), false).is_err(), "a directory");
    }

    #[test]
    fn a_disk_that_takes_nothing_blocks_nobody_and_the_dropped_lines_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let unread = AccessLog::open(Some(&pipe), true).map(drop).unwrap_err();
        assert_eq!(unread.to_string(), "it is a socket, or a FIFO that no program reads");
        // Reading and writing, so that opening does not wait; nobody reads.
        let held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let log = AccessLog::open(Some(&pipe), true).unwrap();
        let wanted = 20_000;
        (0..wanted).for_each(|_| log.log(line("/of a slow disk")));
        assert!(log.lines.dropped_requests() > 0, "the queue and the pipe are bounded");
        log.lines.flush(Duration::from_millis(10));
        drop(held);
        let full = AccessLog::open(Some(Path::new("/dev/full")), false).unwrap();
        full.log(line("/of a full disk"));
        full.lines.flush(PATIENCE);
        assert_eq!((full.lines.dropped_text(), full.lines.dropped_requests()), (0, 1));
    }

    fn line(target: &str) -> Line {
        Line {
            at: WallTime::from_millis(784_111_777_250),
            client: [192, 0, 2, 1].into(),
            request: Some((Method::GET, LogField::target(target.as_bytes()), Version::HTTP_11)),
            status: 200,
            bytes: 1234,
            referer: None,
            agent: Some(LogField::value(&HeaderValue::from_static("curl/8"))),
            micros: 56,
            outcome: "hit",
            id: "7f".to_owned(),
        }
    }

    fn written(line: &Line, json: bool) -> String {
        let mut text = String::new();
        line.write(json, &mut text);
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
        text.trim_end().to_owned()
    }

    #[test]
    fn a_line_is_combined_with_microseconds_outcome_and_id_or_one_json_object() {
        let line = line("/api/listings.json?page=2");
        assert_eq!(
            written(&line, false),
            "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /api/listings.json?page=2 HTTP/1.1\" 200 1234 \"-\" \
             \"curl/8\" 56 hit 7f"
        );
        let parsed: serde_json::Value = serde_json::from_str(&written(&line, true)).unwrap();
        let wanted = json!({
            "time": "1994-11-06T08:49:37.25Z", "level": "info", "msg": "request", "request": "7f",
            "client": "192.0.2.1", "method": "GET",
            "target": "/api/listings.json?page=2", "protocol": "HTTP/1.1", "status": 200, "bytes": 1234,
            "referer": null, "user_agent": "curl/8", "microseconds": 56, "outcome": "hit",
        });
        assert_eq!(parsed, wanted);
        let unread = Line { request: None, agent: None, status: 400, ..line };
        assert!(written(&unread, false).contains("] \"-\" 400 1234 \"-\" \"-\" 56"));
        assert!(written(&unread, true).contains("\"method\":null"));
    }

    #[test]
    fn nothing_of_a_client_forges_a_line_or_moves_a_cursor() {
        let mut line = line("/\r\n\u{1b}[2J\"\\\u{9b}x\u{2028}");
        line.agent = Some(LogField::value(&HeaderValue::from_bytes(b"a\"\t\xff").unwrap()));
        let text = written(&line, false);
        assert!(text.contains(r#""GET /\x0D\x0A\x1B[2J\x22\x5C\xC2\x9Bx\xE2\x80\xA8 HTTP/1.1""#), "{text}");
        assert!(text.contains(r#""a\x22\x09\xFF""#), "{text}");
        let json = written(&line, true);
        assert!(json.chars().all(|character| !character.is_control() && character != '\u{2028}'), "{json}");
        let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed["target"], "/\r\n\u{1b}[2J\"\\\u{9b}x\u{2028}");
    }

    #[test]
    fn long_fields_are_cut() {
        let mut line = line(&"x".repeat(100_000));
        line.agent = Some(LogField::value(&HeaderValue::from_str(&"y".repeat(100_000)).unwrap()));
        assert!(written(&line, false).len() < 3000 && written(&line, true).len() < 3000);
    }
}
