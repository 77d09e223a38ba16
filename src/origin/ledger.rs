//! Ledger of the budget: its window on disk, and the pause that the origin asked for. Neither a restart nor a kill -9
//! forgets a request or shortens a pause.
//!
//! One file: a head with the pause, then per slot until when it counts, or a mark for a request on the wire; each with
//! a checksum, in milliseconds since the epoch. A slot is written, by a thread that may block, before its request is
//! sent. Slots are not synced: a reboot takes longer than the slots that a power loss forgets. Unreliable data counts
//! in full: a damaged slot, and all slots if the file is damaged or cannot be written, because an earlier process could
//! not write there either.
//! Callers: [`super::budget`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::{Monotonic, WallTime};
use crate::data::store::{StoreError, files};
use crate::telemetry::findings::{Finding, Kind};

use super::window::{Class, SPAN, UNANSWERED, Window};

/// The mark of a slot whose request is on the wire.
const IN_FLIGHT: i64 = -1;
const MAGIC: [u8; 8] = *b"gsbudg1\n";
const HEAD: usize = 32;
const RECORD: usize = 16;
/// More slots are not believed: 16 MB.
const MOST: usize = 1_000_000;
/// The longest pause that is kept.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// A pause at least this long is synced to the disk.
const SYNCED: Duration = Duration::from_secs(20);
/// How long the end of the process may wait for the disk.
const LAST_WRITE: Duration = Duration::from_secs(1);

/// The ledger. It is changed under the dispatcher's lock, and written outside it: a disk that stalls delays only the
/// requests that wait for [`Ledger::recording`].
#[derive(Debug)]
pub(crate) struct Ledger(Arc<LedgerFile>);

// Order of the locks: the dispatcher's, `file`, then `wanted` or `failure`. `wanted` is never held while the disk writes.
#[derive(Debug)]
struct LedgerFile {
    path: PathBuf,
    wanted: Mutex<Wanted>,
    /// The open file, locked by whoever writes; `None` while it cannot be written.
    file: Mutex<Option<File>>,
    /// How many changes are on the disk, or failed to get there.
    written: watch::Sender<u64>,
    failure: Mutex<Option<Finding>>,
}

/// What the file should hold.
#[derive(Debug)]
struct Wanted {
    image: Vec<u8>,
    /// What of it the file lacks: places and lengths.
    changed: BTreeMap<usize, usize>,
    wants_sync: bool,
    changes: u64,
    /// A thread writes, and looks again before it ends.
    has_writer: bool,
}

/// Changes on their way to the disk.
pub(crate) struct Recording {
    until: u64,
    shared: Arc<LedgerFile>,
}

impl Recording {
    /// Tries again to write what could not be written. Blocks.
    pub(crate) fn retry(&self) {
        if self.shared.failure.lock().is_some() {
            self.shared.wanted.lock().changes += 1;
            self.shared.write(&mut self.shared.file.lock());
        }
    }

    /// Waits until the changes are written, or were found not to be writable; `false` if that takes longer than
    /// `patience`.
    pub(crate) async fn is_done(&self, patience: Duration) -> bool {
        let mut written = self.shared.written.subscribe();
        let done = tokio::time::timeout(patience, written.wait_for(|written| *written >= self.until)).await.is_ok();
        if !done {
            let text = format!(
                "the disk does not answer: requests to the origin wait until {} is written",
                self.shared.path.display()
            );
            self.shared.failure.lock().get_or_insert_with(|| Finding::new(Kind::DiskFails, text));
        }
        done
    }
}

/// Until when nothing is sent, and the pause's full length: a clock that is set back makes no pause longer.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: i64,
    length: i64,
}

impl Pause {
    fn left(self, wall: WallTime) -> Duration {
        let left = self.until.saturating_sub(wall.as_millis()).min(self.length);
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(LONGEST_PAUSE)
    }
}

impl Ledger {
    /// Opens or creates the ledger, reads back into `window` what still counts, and says for how long nothing may be
    /// sent. Requests that were on the wire when the process ended count from now; a stamp beyond any possible slot (a
    /// clock that was set back) counts for a whole span.
    pub(crate) fn open(
        path: &Path,
        mut window: Option<&mut Window>,
        now: Monotonic,
        wall: WallTime,
    ) -> (Self, Duration) {
        let limit = window.as_ref().map_or(0, |window| window.limit());
        let recorded = match whole(path) {
            Ok(bytes) => read(&bytes),
            // Nothing was ever sent.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some((Pause::default(), Vec::new())),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the ledger of the origin's budget cannot be read");
                None
            }
        };
        let damaged = recorded.is_none();
        let (pause, slots) = recorded.unwrap_or_default();
        let left = pause.left(wall);
        let mut kept = vec![0; limit];
        // Before the counting relies on it, and without losing its content.
        let writable = files::edit_or_create(path).is_ok();
        let mut counting: Vec<Duration> = if damaged || !writable {
            tracing::warn!(
                path = %path.display(),
                damaged,
                "the ledger of the origin's budget is damaged or cannot be written; as a precaution, all slots count as used"
            );
            vec![SPAN + UNANSWERED; limit]
        } else {
            slots.into_iter().map(|until| counts_for(until, wall)).filter(|left| !left.is_zero()).collect()
        };
        // With a smaller limit than before, the latest slots count.
        counting.sort_unstable_by(|a, b| b.cmp(a));
        for left in counting.into_iter().take(limit) {
            if let Some(index) = window.as_mut().and_then(|window| window.restore(now.plus(left), Class::Crawl)) {
                kept[index] = wall.plus(left).as_millis();
            }
        }
        if !left.is_zero() {
            tracing::info!(seconds = left.as_secs(), "the pause of requests to the origin continues after the restart");
        }
        let mut image = head(pause).to_vec();
        kept.iter().enumerate().for_each(|(index, value)| image.extend_from_slice(&record(index, *value)));
        let wanted = Wanted { image, changed: BTreeMap::new(), wants_sync: false, changes: 1, has_writer: true };
        let wanted = Mutex::new(wanted);
        let (file, written, failure) = (Mutex::default(), watch::Sender::new(0), Mutex::default());
        let shared = Arc::new(LedgerFile { path: path.to_owned(), wanted, file, written, failure });
        shared.write(&mut shared.file.lock());
        (Self(shared), left)
    }

    /// Why it cannot be written; `None`: it can.
    pub(crate) fn finding(&self) -> Option<Finding> {
        self.0.failure.lock().clone()
    }

    /// Records that a request is about to be sent.
    pub(crate) fn sent(&self, index: usize) {
        self.set(index, IN_FLIGHT);
    }

    /// Records until when a request counts.
    pub(crate) fn answered(&self, index: usize, until: WallTime) {
        self.set(index, until.as_millis());
    }

    /// Records that nothing is sent for `span` from now. A long pause is synced, because a power loss must not forget an
    /// hour. If the sync fails, a kill -9 still forgets nothing.
    pub(crate) fn paused(&self, span: Duration, wall: WallTime) {
        let length = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        self.put(0, &head(Pause { until: wall.plus(span).as_millis(), length }), span >= SYNCED);
    }

    /// Everything that was changed so far.
    pub(crate) fn recording(&self) -> Recording {
        Recording { until: self.0.wanted.lock().changes, shared: self.0.clone() }
    }

    fn set(&self, index: usize, value: i64) {
        self.put(HEAD + index * RECORD, &record(index, value), false);
    }

    fn put(&self, at: usize, bytes: &[u8], wants_sync: bool) {
        {
            let mut wanted = self.0.wanted.lock();
            let Some(place) = wanted.image.get_mut(at..at + bytes.len()) else { return };
            place.copy_from_slice(bytes);
            wanted.changed.insert(at, bytes.len());
            wanted.wants_sync |= wants_sync;
            wanted.changes += 1;
            if std::mem::replace(&mut wanted.has_writer, true) {
                return;
            }
        }
        let writer = LedgerWriter(self.0.clone());
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || writer.write())),
            Err(_none) => writer.write(),
        }
    }
}

/// Who writes next, unless its runtime ends first.
struct LedgerWriter(Arc<LedgerFile>);

impl LedgerWriter {
    fn write(&self) {
        self.0.write(&mut self.0.file.lock());
    }
}

impl Drop for LedgerWriter {
    fn drop(&mut self) {
        self.0.wanted.lock().has_writer = false;
    }
}

impl Drop for Ledger {
    /// Writes what a runtime that has ended did not, unless the disk stalls.
    fn drop(&mut self) {
        // A writer that hangs has the lock: the process ends nevertheless.
        if let Some(mut file) = self.0.file.try_lock_for(LAST_WRITE) {
            self.0.write(&mut file);
        }
    }
}

impl LedgerFile {
    /// Writes until nothing is left to write.
    fn write(&self, file: &mut Option<File>) {
        loop {
            let mut wanted = self.wanted.lock();
            let changes = wanted.changes;
            if changes == *self.written.borrow() {
                // In the same breath: a later change finds that nobody writes.
                wanted.has_writer = false;
                return;
            }
            let (changed, wants_sync) = (std::mem::take(&mut wanted.changed), std::mem::take(&mut wanted.wants_sync));
            let piece = |(at, len)| (at, wanted.image[at..at + len].to_vec());
            let pieces: Vec<_> = match file {
                Some(_) => changed.into_iter().map(piece).collect(),
                // Over the old content: a crash on the way leaves old stamps, not none.
                None => vec![(0, wanted.image.clone())],
            };
            let len = wanted.image.len() as u64;
            drop(wanted);
            match self.written_to(file.take(), &pieces, len) {
                Ok(open) => {
                    if wants_sync {
                        // In vain: see `paused`.
                        let _ = open.sync_data();
                    }
                    *file = Some(open);
                    *self.failure.lock() = None;
                }
                Err(error) => *self.failure.lock() = StoreError::of_io(&error, &self.path, len).finding(),
            }
            self.written.send_replace(changes);
        }
    }

    fn written_to(&self, file: Option<File>, pieces: &[(usize, Vec<u8>)], len: u64) -> io::Result<File> {
        let is_new = file.is_none();
        let file = file.map_or_else(|| files::edit_or_create(&self.path), Ok)?;
        pieces.iter().try_for_each(|(at, piece)| file.write_all_at(piece, *at as u64))?;
        // After the write: no stamp of the old content is cut off before the new one is there.
        if is_new {
            file.set_len(len)?;
        }
        Ok(file)
    }
}

/// The meaningful part of the file.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    files::read(path)?.take((HEAD + MOST * RECORD) as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn head(pause: Pause) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&pause.until.to_le_bytes());
    head[16..24].copy_from_slice(&pause.length.to_le_bytes());
    let sum = xxh3_64_with_seed(&head[..24], 0);
    head[24..].copy_from_slice(&sum.to_le_bytes());
    head
}

fn record(index: usize, value: i64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&value.to_le_bytes());
    let sum = xxh3_64_with_seed(&record[..8], 1 + index as u64);
    record[8..].copy_from_slice(&sum.to_le_bytes());
    record
}

/// The pause and the slots; a damaged slot counts as on the wire, a damaged head voids everything.
fn read(bytes: &[u8]) -> Option<(Pause, Vec<i64>)> {
    let (found, records) = bytes.split_at_checked(HEAD)?;
    let number = |at: usize| found[at..at + 8].try_into().map(i64::from_le_bytes).ok();
    let pause = Pause { until: number(8)?, length: number(16)? };
    if *found != head(pause) {
        return None;
    }
    let slot = |(index, found): (usize, &[u8])| {
        let value = found.first_chunk().map(|value| i64::from_le_bytes(*value));
        value.filter(|value| *found == record(index, *value)).unwrap_or(IN_FLIGHT)
    };
    Some((pause, records.chunks(RECORD).take(MOST).enumerate().map(slot).collect()))
}

fn counts_for(until: i64, wall: WallTime) -> Duration {
    if until == IN_FLIGHT {
        return SPAN + UNANSWERED;
    }
    let left = until.saturating_sub(wall.as_millis());
    Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(SPAN + UNANSWERED)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const WALL: WallTime = WallTime::from_seconds(1_000_000);
    const START: Monotonic = Monotonic::from_seconds(0);

    fn open(path: &Path, limit: usize, wall: WallTime) -> (Ledger, Window, Duration) {
        let mut window = Window::new(limit);
        let (ledger, pause) = Ledger::open(path, Some(&mut window), START, wall);
        (ledger, window, pause)
    }

    #[test]
    fn what_was_sent_still_counts_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("budget");
        let (ledger, mut window, pause) = open(&path, 3, WALL);
        assert_eq!((window.free(START), pause), (3, Duration::ZERO));
        ledger.sent(0);
        ledger.answered(1, WALL.plus(SPAN));
        drop(ledger);

        // Thirty seconds later, in a process with a new monotonic clock.
        let (_, mut window, _) = open(&path, 3, WALL.plus_seconds(30));
        assert_eq!(window.free(START), 1);
        assert_eq!(window.free(Monotonic::from_seconds(31)), 2);
        assert_eq!(window.free(Monotonic::from_seconds(62)), 3);

        // A clock set back by a day does not block for a day, and a smaller limit keeps the latest.
        let (_, mut window, _) = open(&path, 1, WALL.plus_seconds(-86_400));
        assert_eq!(window.free(START), 0);
        assert_eq!(window.free(Monotonic::from_seconds(62)), 1);
    }

    #[test]
    fn a_pause_survives_and_no_clock_makes_it_longer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("budget");
        let span = Duration::from_secs(300);
        open(&path, 0, WALL).0.paused(span, WALL);
        let after = |seconds: i64| open(&path, 0, WALL.plus_seconds(seconds)).2;
        assert_eq!(after(100), Duration::from_secs(200));
        assert_eq!(after(-86_400), span, "a clock that was set back");
        assert_eq!(after(86_400), Duration::ZERO);
        open(&path, 0, WALL).0.paused(Duration::from_secs(1 << 40), WALL);
        assert_eq!(after(0), LONGEST_PAUSE);
    }

    #[test]
    fn what_is_damaged_counts_in_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("budget");
        let free = |wall| open(&path, 2, wall).1.free(START);
        assert_eq!(free(WALL), 2);
        let whole = fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            assert!(free(WALL) < 2, "bit {bit}");
        }
        for len in 0..whole.len() {
            // Such a cut file was never written, and says nothing of the lost slots.
            fs::write(&path, &whole[..len]).unwrap();
            assert!(free(WALL) < 2 || (len - HEAD).is_multiple_of(RECORD), "{len} bytes");
        }
    }

    #[test]
    fn where_it_cannot_be_written_everything_counts_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("later/budget");
        let (ledger, mut window, _) = open(&path, 2, WALL);
        assert_eq!(window.free(START), 0);
        fs::create_dir(dir.path().join("later")).unwrap();
        ledger.answered(0, WALL.plus(SPAN));
        ledger.answered(1, WALL);
        assert_eq!(open(&path, 2, WALL).1.free(START), 1);
    }
}
