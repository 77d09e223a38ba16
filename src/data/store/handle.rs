//! The handle on redb's database, and the known problems of its file. After an I/O error or a panic inside redb it drops
//! the database and opens it again on the next use, read-only if necessary.
//!
//! Knows transactions, not what is in them. Damage stays known until the file is repaired; a full disk counts as healthy
//! once a write as large as the failed one works. Callers: the other modules of [`crate::data::store`].

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use redb::{
    Database, DatabaseError, Durability, Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    WriteTransaction,
};

use crate::telemetry::findings::{Finding, Kind};

use super::database::{self, Sealed, begin_write};
use super::error::{Fault, StoreError, guarded};
use super::files;

/// Opens the database; exchanged by tests to make the disk fail.
pub(super) type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// The database file and, most of the time, an open database.
pub(super) struct Handle {
    path: PathBuf,
    opener: Opener,
    /// Held shared for each operation, so none calls the handle again: a second look would wait behind a writer, who waits
    /// for the first (`parking_lot` lets no reader pass a waiting writer).
    slot: RwLock<HandleSlot>,
    /// Shared by writers, exclusive for operations that no write may overlap; readers continue. Always taken before the
    /// slot.
    writers: RwLock<()>,
    /// The innermost lock: failures are noted while the slot is held.
    trouble: Trouble,
    /// Counts writes that are not durable, and those that became durable.
    written: AtomicU64,
    synced: AtomicU64,
}

/// The open database and its number of openings: of two threads that saw it fail, only one may close it.
#[derive(Default)]
struct HandleSlot {
    generation: u64,
    database: Option<Database>,
    /// Whether the database is a view that never writes to the file.
    read_only: bool,
    /// Whether readers get such a view even if the file is writable.
    frozen: bool,
}

impl Handle {
    pub(super) fn open(path: PathBuf, opener: Opener) -> Result<Self, StoreError> {
        let slot = RwLock::new(HandleSlot::default());
        let handle = Self {
            path,
            opener,
            slot,
            writers: RwLock::new(()),
            trouble: Trouble::default(),
            written: AtomicU64::default(),
            synced: AtomicU64::default(),
        };
        handle.ensure_open(0, false)?;
        Ok(handle)
    }

    pub(super) const fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `operation` on a consistent view of the database. It may be run twice.
    pub(super) fn read<T>(&self, operation: impl Fn(&ReadTransaction) -> Result<T, Fault>) -> Result<T, StoreError> {
        self.with(0, false, |database| operation(&database.begin_read()?))
    }

    /// Shows every reachable entry of a table: from its front and, if that ends at a damaged page, from its back. Entries
    /// that cannot be reached from either end are lost. Returns the damage.
    pub(super) fn reach<K: Key + 'static>(
        &self,
        table: TableDefinition<'static, K, Sealed>,
        show: &mut dyn for<'k, 'v> FnMut(K::SelfType<'k>, &'v [u8]),
    ) -> Result<Option<String>, StoreError> {
        let show = RefCell::new(show);
        let walk = |back: bool| {
            self.read(|transaction| {
                let table = transaction.open_table(table)?;
                let mut entries = table.iter()?;
                while let Some(entry) = if back { entries.next_back() } else { entries.next() } {
                    let (key, value) = entry?;
                    show.borrow_mut()(key.value(), value.value());
                }
                Ok(())
            })
        };
        match walk(false) {
            Err(StoreError::Damaged(detail)) => match walk(true) {
                Ok(()) | Err(StoreError::Damaged(_)) => Ok(Some(detail)),
                Err(error) => Err(error),
            },
            walked => walked.map(|()| None),
        }
    }

    /// Runs `operation` in one transaction that is durable when this returns. It may be run twice. `needed` is how many
    /// bytes it writes at most, for the error message.
    pub(super) fn write<T>(
        &self,
        needed: u64,
        operation: impl Fn(&WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.with(needed, true, |database| {
            let transaction = begin_write(database)?;
            // There is one such transaction at a time: everything counted by now is committed, or never will be.
            let written = self.written.load(Ordering::Acquire);
            let result = operation(&transaction)?;
            transaction.commit()?;
            // After the commit: a sync that finds nothing to do must find its writes on the disk.
            self.synced.fetch_max(written, Ordering::AcqRel);
            Ok(result)
        })
    }

    /// Runs `operation` in one transaction that readers see when this returns, and that is durable with the next write
    /// or [`Handle::sync`]: a sync per page would be most of the time of a crawl. It may be run twice.
    pub(super) fn write_soon<T>(
        &self,
        needed: u64,
        operation: impl Fn(&WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.with(needed, true, |database| {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::None)?;
            let result = operation(&transaction)?;
            // Inside the transaction, so that the next one sees it. If this commit fails, a sync writes once too often.
            self.written.fetch_add(1, Ordering::AcqRel);
            transaction.commit()?;
            Ok(result)
        })
    }

    /// Makes the writes of [`Handle::write_soon`] durable.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let written = self.written.load(Ordering::Acquire);
        if self.synced.load(Ordering::Acquire) < written { self.write(0, |_| Ok(())) } else { Ok(()) }
    }

    /// Puts another file in the place of this one: `make` writes it under the name of an unfinished one, `place` gives it
    /// its name. Writers wait; readers go on, and never wait for the disk. `freezes`: nothing is written to the old file any
    /// more, not even what was committed and is not durable.
    pub(super) fn replace<M, T>(
        &self,
        freezes: bool,
        make: impl FnOnce(&Path) -> Result<M, StoreError>,
        place: impl FnOnce(M) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _alone = self.writers.write();
        if freezes {
            let mut slot = self.slot.write();
            close(&mut slot);
            slot.frozen = true;
        }
        let fresh = files::unfinished(&self.path);
        // Open before it has its name, so that readers need not wait for that.
        let made = make(&fresh).and_then(|made| Ok((made, Self::open(fresh.clone(), Box::new(database::open))?)));
        let placed = made.and_then(|(made, copy)| Ok((place(made)?, copy)));
        let placed = placed.inspect_err(|_| drop(fs::remove_file(&fresh)));
        let mut slot = self.slot.write();
        slot.frozen = false;
        let (result, mut copy) = placed?;
        let new = copy.slot.get_mut();
        // A thread that saw the old database fail must not close the new one.
        new.generation = slot.generation + 1;
        std::mem::swap(&mut *slot, new);
        drop(slot);
        // What is still written to the old file, which has no name any more, holds up no reader.
        drop(copy);
        Ok(result)
    }

    pub(super) fn is_read_only(&self) -> bool {
        let slot = self.slot.read();
        slot.database.is_some() && slot.read_only
    }

    pub(super) fn noted(&self, error: StoreError) -> StoreError {
        self.trouble.failed(&error);
        error
    }

    fn with<T>(
        &self,
        needed: u64,
        writes: bool,
        operation: impl Fn(&Database) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        // For the second try as well: no `replace` comes between them.
        let _writer = writes.then(|| self.writers.read());
        let mut may_retry = true;
        loop {
            self.ensure_open(needed, writes)?;
            let (generation, outcome) = {
                let slot = self.slot.read();
                // Meanwhile a reader may have opened it again, read-only: writes would be lost.
                let Some(database) = slot.database.as_ref().filter(|_| slot.serves(writes)) else { continue };
                (slot.generation, guarded(|| operation(database)))
            };
            let fault = match outcome {
                Ok(value) => {
                    if writes {
                        self.trouble.wrote(needed, &self.path);
                    }
                    return Ok(value);
                }
                Err(fault) => fault,
            };
            if fault.broke_it() {
                let mut slot = self.slot.write();
                // Another thread may have closed it and opened another one meanwhile.
                if slot.generation == generation {
                    close(&mut slot);
                }
            }
            if !(may_retry && fault.found_it_broken()) {
                return Err(self.noted(fault.into_store_error(&self.path, needed)));
            }
            may_retry = false;
        }
    }

    /// Opens the database if it is closed, or read-only and needed for writing. Where the disk can be read
    /// and not written, readers get a view that never writes to the file.
    fn ensure_open(&self, needed: u64, writes: bool) -> Result<(), StoreError> {
        if self.slot.read().serves(writes) {
            return Ok(());
        }
        let mut slot = self.slot.write();
        // Another thread may have opened it while this one waited for the lock.
        if slot.serves(writes) {
            return Ok(());
        }
        let noted = |fault: Fault| self.noted(fault.into_store_error(&self.path, needed));
        if writes || !slot.frozen {
            match guarded(|| Ok((self.opener)(&self.path)?)).map_err(noted) {
                Ok(database) => {
                    slot.open(database, false);
                    return Ok(());
                }
                Err(error) if writes || matches!(error, StoreError::Damaged(_)) => return Err(error),
                // A disk that fails to read fails again.
                Err(_) => {}
            }
        }
        slot.open(guarded(|| Ok(database::open_untouched(&self.path)?)).map_err(noted)?, true);
        Ok(())
    }
}

impl HandleSlot {
    const fn serves(&self, writes: bool) -> bool {
        self.database.is_some() && !(writes && self.read_only)
    }

    fn open(&mut self, database: Database, read_only: bool) {
        close(self);
        (self.database, self.read_only) = (Some(database), read_only);
        self.generation += 1;
    }
}

/// Drops the database. Its last writes are worthless, so errors are ignored.
fn close(slot: &mut HandleSlot) {
    let database = slot.database.take();
    let _ = guarded(|| {
        drop(database);
        Ok(())
    });
}

impl Drop for Handle {
    fn drop(&mut self) {
        close(self.slot.get_mut());
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A failed write that was never tried again is forgotten after this long.
const FORGOTTEN: Duration = Duration::from_secs(120);
/// Less room is none, in bytes.
const LITTLE: u64 = 64 << 10;
/// For how long a full disk counts as full after a write of unknown size.
const UNSURE: Duration = Duration::from_secs(5);
/// For how long `/status` shows a repair.
const REPAIR_TOLD: Duration = Duration::from_secs(86_400);

/// How much room is left where a file lies, in bytes; `None`: the system does not say.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn has_room(path: &Path, bytes: u64) -> bool {
    free_bytes(path).is_none_or(|free| free >= bytes)
}

#[derive(Debug, Default)]
pub(super) struct Trouble(Mutex<KnownTrouble>);

#[derive(Debug, Default)]
struct KnownTrouble {
    damage: Option<String>,
    /// Why the last repair failed.
    unrepaired: Option<StoreError>,
    disk: Option<Disk>,
    /// What the last repair did, and when.
    repaired: Option<(String, Instant)>,
}

#[derive(Debug)]
struct Disk {
    error: StoreError,
    needed: u64,
    at: Instant,
}

impl Trouble {
    pub(super) fn failed(&self, error: &StoreError) {
        if let StoreError::Damaged(detail) = error {
            self.0.lock().damage.get_or_insert_with(|| detail.clone());
        }
        if error.finding().is_none() {
            return;
        }
        let mut error = error.clone();
        let mut known = 0;
        if let StoreError::NoSpace { needed, .. } = &mut error {
            known = *needed;
            // What is written along with others has no size of its own.
            *needed = if known == 0 { LITTLE } else { known };
        }
        let mut inner = self.0.lock();
        // There must be room for the largest write.
        let least = inner.disk.as_ref().map_or(0, |disk| disk.needed);
        if known >= least {
            inner.disk = Some(Disk { error, needed: known, at: Instant::now() });
        }
    }

    /// A write of at most so many bytes to the file at `path` succeeded.
    pub(super) fn wrote(&self, bytes: u64, path: &Path) {
        let mut inner = self.0.lock();
        // Both are estimates: the same write, tried again, packs another time of day and may be some bytes shorter.
        let is_as_much = |needed: u64| bytes >= needed - needed / 8;
        let is_right = |disk: &Disk| match disk.error {
            // Nobody knows how much was needed: a little may fit where the next write does not.
            StoreError::NoSpace { .. } if disk.needed == 0 => disk.at.elapsed() > UNSURE && has_room(path, LITTLE),
            // Most writes need far less than they may need.
            StoreError::NoSpace { .. } if !has_room(path, disk.needed) => disk.at.elapsed() > FORGOTTEN,
            _ => is_as_much(disk.needed) || disk.at.elapsed() > FORGOTTEN,
        };
        if inner.disk.as_ref().is_some_and(is_right) {
            inner.disk = None;
        }
    }

    /// The file was replaced by an intact one.
    pub(super) fn repaired(&self) {
        let mut inner = self.0.lock();
        (inner.damage, inner.unrepaired) = (None, None);
    }

    /// What a repair did: `/status` shows it for a day.
    pub(super) fn tell_repaired(&self, text: String) {
        self.0.lock().repaired = Some((text, Instant::now()));
    }

    pub(super) fn tell_unrepaired(&self, error: StoreError) {
        self.0.lock().unrepaired = Some(error);
    }

    pub(super) fn damage(&self) -> Option<String> {
        self.0.lock().damage.clone()
    }

    /// Everything that is wrong with the file at `path`.
    pub(super) fn findings(&self, path: &Path) -> Vec<Finding> {
        let inner = self.0.lock();
        let damage = inner.damage.as_ref().map(|detail| format!("{} is damaged: {detail}", path.display()));
        let repaired = inner.repaired.as_ref().filter(|(_, at)| at.elapsed() < REPAIR_TOLD);
        let damage = damage.map(|text| Finding::new(Kind::StoreDamaged, text));
        let repaired = repaired.map(|(text, _)| Finding::new(Kind::StoreRepaired, text));
        let disk = inner.disk.as_ref().map(|disk| &disk.error).or(inner.unrepaired.as_ref());
        let disk = disk.and_then(StoreError::finding);
        disk.into_iter().chain(damage).chain(repaired).collect()
    }

    /// How the disk fails; `None`: it does not.
    pub(super) fn disk(&self) -> Option<StoreError> {
        self.0.lock().disk.as_ref().map(|disk| disk.error.clone())
    }

    /// Whether a write of any size shows that all is right again.
    pub(super) fn ends_with_any_write(&self) -> bool {
        self.0.lock().disk.as_ref().is_some_and(|disk| disk.needed == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Handle {
        /// Nobody reads or writes for as long as `hold` takes.
        pub(in crate::data::store) fn stands_still(&self, hold: impl FnOnce()) {
            let _held = self.slot.write();
            hold();
        }
    }

    #[test]
    fn a_small_write_does_not_hide_that_a_large_one_failed() {
        let trouble = Trouble::default();
        let full = |needed| StoreError::NoSpace { path: "x".into(), needed };
        trouble.failed(&full(5000));
        trouble.failed(&full(10));
        trouble.wrote(100, "x".as_ref());
        let told = || trouble.findings("x".as_ref());
        assert!(told()[0].kind == Kind::DiskFull && told()[0].text.contains("5000"), "{:?}", told());
        assert!(!trouble.ends_with_any_write());
        trouble.wrote(4000, "x".as_ref());
        assert_eq!(told().len(), 1);
        trouble.wrote(4999, "x".as_ref());
        assert_eq!(told(), [], "the same write was some bytes shorter when it was tried again");
        trouble.failed(&StoreError::ReadOnly { path: "x".into() });
        assert!(trouble.ends_with_any_write() && told()[0].kind == Kind::DiskReadOnly);
        trouble.failed(&StoreError::Disk { path: "x".into(), why: "x".into() });
        assert_eq!(told()[0].kind, Kind::DiskFails);
        // What hinders a repair is told beside the damage, until it is done.
        let broken = Trouble::default();
        let kinds = || broken.findings("x".as_ref()).iter().map(|finding| finding.kind).collect::<Vec<_>>();
        broken.failed(&StoreError::Damaged("page 37".into()));
        broken.tell_unrepaired(full(4096));
        assert_eq!(kinds(), [Kind::DiskFull, Kind::StoreDamaged]);
        broken.repaired();
        assert_eq!(kinds(), []);
        trouble.failed(&StoreError::ReadOnly { path: "x".into() });
        trouble.wrote(0, "x".as_ref());
        assert_eq!(told(), []);
        trouble.failed(&full(0));
        trouble.wrote(64, "x".as_ref());
        assert_eq!(told().len(), 1, "a little may fit");
        trouble.failed(&StoreError::Damaged("first".to_owned()));
        trouble.failed(&StoreError::Damaged("second".to_owned()));
        trouble.wrote(9, "x".as_ref());
        assert_eq!(trouble.damage().unwrap(), "first");
        trouble.repaired();
        assert_eq!(trouble.damage(), None);
    }
}
