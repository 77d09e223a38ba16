//! The budget's window on disk, so that neither a restart nor a kill -9 forgets a request that was sent.
//!
//! One file of eight bytes per slot: milliseconds since the epoch until which the slot counts, or a mark for a request on the wire. A slot
//! is written before its request is sent. It is not synced: what a power loss forgets is older than a reboot takes.
//! Callers: [`super::budget`].

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::clock::{Monotonic, WallTime};

use super::window::{Class, SPAN, Slot, UNANSWERED, Window};

/// The mark of a slot whose request is on the wire.
const IN_FLIGHT: i64 = -1;

/// The open file.
#[derive(Debug)]
pub struct Ledger {
    file: File,
}

impl Ledger {
    /// Opens or creates the ledger and reads back into `window` what still counts. Requests that were on the wire
    /// when the process ended count from now; a stamp beyond what any slot can have (a clock that was set back) counts
    /// for a whole span.
    ///
    /// # Errors
    /// When the file cannot be opened or read.
    pub fn open(path: &Path, window: &mut Window, now: Monotonic, wall: WallTime) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let recorded = usize::try_from(file.metadata()?.len() / 8).unwrap_or(usize::MAX);
        let mut counting = Vec::new();
        for index in 0..recorded.min(100_000) {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, index as u64 * 8)?;
            let left = match i64::from_le_bytes(bytes) {
                IN_FLIGHT => SPAN + UNANSWERED,
                until => {
                    let left = until.saturating_sub(wall.as_millis());
                    Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(SPAN + UNANSWERED)
                }
            };
            if left > Duration::ZERO {
                counting.push(left);
            }
        }
        // With a smaller limit than before, the latest ones are what matters.
        counting.sort_unstable_by(|a, b| b.cmp(a));
        let ledger = Self { file };
        // Slot by slot, so that a crash on the way leaves old stamps and not none.
        ledger.file.set_len(window.limit() as u64 * 8)?;
        let mut counting = counting.into_iter();
        for index in 0..window.limit() {
            match counting.next() {
                Some(left) => {
                    window.restore(index, Slot::Until(now.plus(left), Class::Crawl));
                    ledger.write(index, wall.plus(left).as_millis())?;
                }
                None => ledger.write(index, 0)?,
            }
        }
        Ok(ledger)
    }

    /// Records that a request is about to be sent.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn sent(&self, index: usize) -> io::Result<()> {
        self.write(index, IN_FLIGHT)
    }

    /// Records until when a request counts.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn answered(&self, index: usize, until: WallTime) -> io::Result<()> {
        self.write(index, until.as_millis())
    }

    fn write(&self, index: usize, value: i64) -> io::Result<()> {
        self.file.write_all_at(&value.to_le_bytes(), index as u64 * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_still_counts_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("budget");
        let (wall, now) = (WallTime::from_seconds(1_000_000), Monotonic::from_seconds(5));
        let mut window = Window::new(3);
        let ledger = Ledger::open(&path, &mut window, now, wall).unwrap();
        assert_eq!(window.free(now), 3);
        ledger.sent(0).unwrap();
        ledger.answered(1, wall.plus(SPAN)).unwrap();
        drop(ledger);

        // Thirty seconds later, in a process whose monotonic clock starts anew.
        let (later, start) = (wall.plus_seconds(30), Monotonic::from_seconds(0));
        let mut window = Window::new(3);
        Ledger::open(&path, &mut window, start, later).unwrap();
        assert_eq!(window.free(start), 1);
        assert_eq!(window.free(Monotonic::from_seconds(31)), 2);
        assert_eq!(window.free(Monotonic::from_seconds(62)), 3);

        // A clock set back by a day does not block for a day, and a smaller limit keeps the latest.
        let mut window = Window::new(1);
        Ledger::open(&path, &mut window, start, wall.plus_seconds(-86_400)).unwrap();
        assert_eq!(window.free(start), 0);
        assert_eq!(window.free(Monotonic::from_seconds(62)), 1);
    }
}
