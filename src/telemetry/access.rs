//! The access log: one line for each request, in a file of its own or on standard error.
//!
//! A thread of its own formats and writes the lines, so that a slow disk delays no answer: lines that find the queue full
//! are dropped and counted. Callers: [`crate::answer`] hands in lines, [`crate::app`] opens it.

mod line;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use arc_swap::ArcSwapOption;

pub(crate) use line::{Field, Line};

/// How many lines may wait.
const QUEUE: usize = 4096;
/// Lines are written together up to so many bytes.
const BATCH: usize = 64 << 10;

/// The access log in effect, if any; a reload replaces it.
pub(crate) type InEffect = Arc<ArcSwapOption<AccessLog>>;

/// The log; cheap to clone.
#[derive(Clone)]
pub(crate) struct AccessLog {
    queue: SyncSender<Message>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    dropped: AtomicU64,
    reopens: AtomicBool,
}

enum Message {
    Line(Line),
    /// Nothing but a reason to look at [`Shared::reopens`].
    Look,
    /// Everything before it is to be written.
    Flush(SyncSender<()>),
}

struct Writer {
    path: Option<PathBuf>,
    file: Option<File>,
    json: bool,
    shared: Arc<Shared>,
    /// Whether the last write failed.
    fails: bool,
}

impl AccessLog {
    /// Opens the file for appending; `None`: standard error. `json`: a JSON object in each line.
    ///
    /// # Errors
    /// When the file cannot be opened, or there is no thread.
    pub(crate) fn open(path: Option<&Path>, json: bool) -> io::Result<Self> {
        let file = path.map(append).transpose()?;
        let (queue, lines) = sync_channel(QUEUE);
        let shared = Arc::<Shared>::default();
        let writer = Writer { path: path.map(Path::to_owned), file, json, shared: shared.clone(), fails: false };
        std::thread::Builder::new().name("access log".into()).spawn(move || writer.run(&lines))?;
        Ok(Self { queue, shared })
    }

    /// Logs a request. Never waits.
    pub(crate) fn log(&self, line: Line) {
        if self.queue.try_send(Message::Line(line)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file again, for programs that rotate it. If that fails, the old one stays in use.
    pub(crate) fn reopen(&self) {
        self.shared.reopens.store(true, Ordering::Relaxed);
        // In a full queue the next line is reason enough to look.
        let _full = self.queue.try_send(Message::Look);
    }

    /// How many lines were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all lines so far are written, at most so long.
    pub(crate) fn flush(&self, patience: Duration) {
        let (done, wait) = sync_channel(1);
        if self.queue.try_send(Message::Flush(done)).is_ok() {
            // It does not matter why it was in vain.
            let _flushed = wait.recv_timeout(patience);
        }
    }
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        let (mut text, mut lines) = (String::new(), 0);
        while let Ok(first) = messages.recv() {
            let mut flushed = Vec::new();
            for message in std::iter::once(first).chain(messages.try_iter()) {
                match message {
                    Message::Line(line) => {
                        line.write(self.json, &mut text);
                        lines += 1;
                    }
                    Message::Look => {}
                    Message::Flush(done) => flushed.push(done),
                }
                if text.len() >= BATCH || !flushed.is_empty() {
                    break;
                }
            }
            self.reopen_if_told();
            self.write(&text, lines);
            text.clear();
            lines = 0;
            for done in flushed {
                // The waiting thread may have given up.
                let _gone = done.send(());
            }
        }
    }

    fn reopen_if_told(&mut self) {
        let Some(path) = &self.path else { return };
        if !self.shared.reopens.swap(false, Ordering::Relaxed) {
            return;
        }
        match append(path) {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%error, "log.access_file {path} cannot be opened; the old file stays in use");
            }
        }
    }

    fn write(&mut self, text: &str, lines: u64) {
        let written = match &mut self.file {
            Some(file) => file.write_all(text.as_bytes()),
            None => io::stderr().write_all(text.as_bytes()),
        };
        let failed = written.is_err();
        if failed {
            self.shared.dropped.fetch_add(lines, Ordering::Relaxed);
        }
        if let (Err(error), false) = (written, self.fails) {
            tracing::warn!(%error, "the access log cannot be written; its lines are dropped");
        }
        self.fails = failed;
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::line::tests::line;
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
        log.flush(PATIENCE);
        std::fs::rename(&path, &old).unwrap();
        log.log(line("/two"));
        log.flush(PATIENCE);
        log.reopen();
        log.log(line("/three"));
        log.flush(PATIENCE);
        assert_eq!((read(&old).lines().count(), read(&path).lines().count()), (2, 1));
        assert!(read(&path).contains("GET /three ") && log.dropped() == 0);
        // The directory is gone: the file that is open stays in use.
        std::fs::rename(dir.path().join("access.log"), &old).unwrap();
        std::fs::create_dir(&path).unwrap();
        log.reopen();
        log.log(line("/four"));
        log.flush(PATIENCE);
        assert!(read(&old).contains("GET /four "));
        assert!(AccessLog::open(Some(&path), false).is_err(), "a directory");
    }

    #[test]
    fn a_disk_that_takes_nothing_blocks_nobody_and_the_dropped_lines_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Reading and writing, so that opening does not wait; nobody reads.
        let held = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
        let log = AccessLog::open(Some(&pipe), true).unwrap();
        let wanted = QUEUE as u64 + 10_000;
        (0..wanted).for_each(|_| log.log(line("/of a slow disk")));
        assert!(log.dropped() > 0, "the queue and the pipe are bounded");
        log.flush(Duration::from_millis(10));
        drop(held);
        let full = AccessLog::open(Some(Path::new("/dev/full")), false).unwrap();
        full.log(line("/of a full disk"));
        full.flush(PATIENCE);
        assert_eq!(full.dropped(), 1);
    }
}
