//! Line writer with a thread of its own, to a file or to standard error: a slow disk or a reader that is stuck delays
//! nobody.
//!
//! The queue is bounded. Lines that find it full are dropped and counted; once the thread has caught up, the log says how
//! many. Callers: [`super::access`], [`crate::cli`].

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock::Monotonic;
use crate::tasks::threads;

use super::access::Line;
use super::findings::{Finding, Kind};

/// How many lines may wait, and how many bytes of text.
const QUEUE: usize = 4096;
const QUEUED_TEXT: usize = 2 << 20;
// 3,072 lines with at most 3 kB of fields each: 9.4 MB when the disk stands still.
/// How many of those that wait may be lines of the access log: the rest is for the log.
const QUEUED_REQUESTS: usize = QUEUE / 4 * 3;
/// Lines are written together up to so many bytes.
const BATCH: usize = 64 << 10;

/// The queue, and the thread that writes; cheap to clone.
#[derive(Clone)]
pub(crate) struct LineQueue {
    name: &'static str,
    file: Arc<str>,
    queue: SyncSender<Message>,
    shared: Arc<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// Lines of the log, and of the access log.
    dropped: [AtomicU64; 2],
    /// Bytes of text in the queue.
    text: AtomicUsize,
    /// Lines of the access log in the queue.
    requests: AtomicUsize,
    reopens: AtomicBool,
    /// How many dropped lines a look has seen, and when it saw more than before.
    lost: Mutex<(u64, Option<Monotonic>)>,
}

impl QueueState {
    fn drop_lines(&self, lines: [u64; 2]) {
        for (dropped, more) in self.dropped.iter().zip(lines) {
            dropped.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.iter().map(|dropped| dropped.load(Ordering::Relaxed)).sum()
    }
}

enum Message {
    /// Lines of the log, with their ends.
    Text(String),
    /// A line of the access log; whether it is JSON.
    Request(Line, bool),
    /// Nothing but a reason to look at [`QueueState::reopens`].
    Look,
    /// Everything before it is to be written.
    Flush(SyncSender<()>),
}

/// What opens the place of the lines.
type Open = Box<dyn Fn() -> io::Result<Box<dyn Write + Send>> + Send>;

struct LineWriter {
    name: &'static str,
    /// Where the lines go, for people.
    file: String,
    open: Open,
    out: Box<dyn Write + Send>,
    shared: Arc<QueueState>,
    fails: bool,
    /// How many dropped lines the log has mentioned.
    told: u64,
}

/// A process has one standard error: all that is written there by a server goes through this queue.
static STANDARD_ERROR: OnceLock<LineQueue> = OnceLock::new();

/// The queue for standard error, if it was started.
pub(crate) fn standard_error() -> Option<&'static LineQueue> {
    STANDARD_ERROR.get()
}

/// The same; starts it to write to `out`, which is standard error, if it was not started.
pub(crate) fn start_standard_error<W: Write + Send + 'static>(out: fn() -> W) -> io::Result<&'static LineQueue> {
    if let Some(started) = standard_error() {
        return Ok(started);
    }
    let queue = LineQueue::start("log", "standard error".to_owned(), Box::new(move || Ok(Box::new(out()))))?;
    // A second thread that was started at the same time ends.
    Ok(STANDARD_ERROR.get_or_init(|| queue))
}

impl LineQueue {
    /// Opens the place of the lines, and starts the thread. `name` and `file` are for people.
    pub(super) fn start(name: &'static str, file: String, open: Open) -> io::Result<Self> {
        let (out, shared, place) = (open()?, Arc::<QueueState>::default(), file.as_str().into());
        let (queue, lines) = sync_channel(QUEUE);
        let writer = LineWriter { name, file, open, out, shared: shared.clone(), fails: false, told: 0 };
        threads::spawn(name, move || writer.run(&lines))?;
        Ok(Self { name, file: place, queue, shared })
    }

    /// Writes lines of the log, with their ends. Never waits.
    pub(crate) fn text(&self, text: String) {
        let bytes = text.len();
        // Added before it is compared: of two at the bound both may be dropped, but the bound holds.
        let fits = self.shared.text.fetch_add(bytes, Ordering::Relaxed) + bytes <= QUEUED_TEXT;
        if !fits || !self.send(Message::Text(text)) {
            self.shared.text.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.drop_lines([1, 0]);
        }
    }

    /// Writes a line of the access log. Never waits.
    pub(super) fn request(&self, line: Line, json: bool) {
        // As above: added first, so that the bound holds.
        let fits = self.shared.requests.fetch_add(1, Ordering::Relaxed) < QUEUED_REQUESTS;
        if !fits || !self.send(Message::Request(line, json)) {
            self.shared.requests.fetch_sub(1, Ordering::Relaxed);
            self.shared.drop_lines([0, 1]);
        }
    }

    /// `false`: the queue is full.
    fn send(&self, message: Message) -> bool {
        self.queue.try_send(message).is_ok()
    }

    /// Opens the place again, for programs that rotate files. If that fails, the old one stays in use.
    pub(crate) fn reopen(&self) {
        self.shared.reopens.store(true, Ordering::Relaxed);
        // In a full queue the next line is reason enough to look.
        self.send(Message::Look);
    }

    /// That lines were lost within the last ten minutes.
    pub(crate) fn finding(&self, now: Monotonic) -> Option<Finding> {
        const TOLD: Duration = Duration::from_secs(600);
        let dropped = self.shared.dropped();
        let (seen, at) = &mut *self.shared.lost.lock();
        if std::mem::replace(seen, dropped) < dropped {
            *at = Some(now);
        }
        at.filter(|at| now.since(*at) < TOLD)?;
        let (name, file) = (self.name, &self.file);
        let text = format!(
            "{dropped} lines of the {name} to {file} were lost since the start: they were not written or read in time"
        );
        Some(Finding::new(Kind::LinesLost, text))
    }

    pub(crate) fn dropped_text(&self) -> u64 {
        self.shared.dropped[0].load(Ordering::Relaxed)
    }

    pub(crate) fn dropped_requests(&self) -> u64 {
        self.shared.dropped[1].load(Ordering::Relaxed)
    }

    /// Waits until all lines so far are written, at most so long.
    pub(crate) fn flush(&self, patience: Duration) {
        let (deadline, (done, wait)) = (Instant::now() + patience, sync_channel(1));
        while !self.send(Message::Flush(done.clone())) {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // It does not matter why it was in vain.
        let _flushed = wait.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl Write for &LineQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineWriter {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut text = String::new();
        loop {
            let waiting = messages.try_recv().or_else(|_empty| {
                // This line may go into this very queue. Sending never waits, so the thread does not wait for itself.
                self.tell_of_dropped();
                messages.recv()
            });
            let Ok(first) = waiting else { return };
            let (mut lines, mut flushed) = ([0, 0], Vec::new());
            for message in std::iter::once(first).chain(messages.try_iter()) {
                match message {
                    Message::Text(more) => {
                        self.shared.text.fetch_sub(more.len(), Ordering::Relaxed);
                        text.push_str(&more);
                        lines[0] += 1;
                    }
                    Message::Request(line, json) => {
                        self.shared.requests.fetch_sub(1, Ordering::Relaxed);
                        line.write(json, &mut text);
                        lines[1] += 1;
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
            text.shrink_to(2 * BATCH);
            for done in flushed {
                // The waiting thread may have given up.
                let _gone = done.send(());
            }
        }
    }

    fn reopen_if_told(&mut self) {
        if !self.shared.reopens.swap(false, Ordering::Relaxed) {
            return;
        }
        match (self.open)() {
            Ok(out) => self.out = out,
            Err(error) => {
                let (file, name) = (&self.file, self.name);
                tracing::warn!(%error, file, "the {name} cannot be opened again; the old file stays in use");
            }
        }
    }

    fn write(&mut self, text: &str, lines: [u64; 2]) {
        if text.is_empty() {
            return;
        }
        let written = self.out.write_all(text.as_bytes());
        let failed = written.is_err();
        if failed {
            self.shared.drop_lines(lines);
        }
        if let (Err(error), false) = (written, self.fails) {
            let (file, name) = (&self.file, self.name);
            tracing::warn!(%error, file, "the {name} cannot be written; its lines are dropped");
        }
        self.fails = failed;
    }

    /// Logs how many lines were dropped, once the queue is empty and lines can be written again.
    fn tell_of_dropped(&mut self) {
        let dropped = self.shared.dropped();
        let lines = dropped - self.told;
        if lines > 0 && !self.fails {
            self.told = dropped;
            let (file, name) = (&self.file, self.name);
            tracing::warn!(lines, file, "lines of the {name} were dropped: they were not written or read in time");
        }
    }
}
