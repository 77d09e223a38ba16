//! The handle on redb's database that heals itself: it drops the database after an I/O error or a panic inside redb,
//! and opens it again on the next use; for reading alone where it cannot be opened for writing.
//!
//! Knows transactions, not what is in them. Callers: the other modules of [`crate::store`].

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parking_lot::RwLock;
use redb::{Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase, WriteTransaction};

use super::error::{OpenError, StoreError};
use super::opening;
use super::trouble::Trouble;

/// Opens the database; exchanged by tests to make the disk fail.
pub type Opener = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send + Sync>;

/// The database file and, most of the time, an open database.
pub struct Handle {
    path: PathBuf,
    opener: Opener,
    slot: RwLock<Slot>,
    trouble: Trouble,
}

/// The open database, and how often it was opened: of two threads that saw it fail, only one may close it.
struct Slot {
    generation: u64,
    database: Option<Database>,
    /// Whether the file could not be opened for writing: what is written then stays in memory and is never committed.
    read_only: bool,
}

/// How much of the file is in use, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Keys, values and what it takes to find them.
    pub live: u64,
    /// The pages that hold them.
    pub allocated: u64,
}

/// Why an operation inside a transaction ended.
#[derive(Debug)]
pub enum Fault {
    /// redb says so.
    Redb(Box<redb::Error>),
    /// We say so; the database is fine.
    Store(StoreError),
    /// redb panicked.
    Panicked(String),
}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Self::Redb(Box::new(error.into()))
            }
        }
    )*};
}
from_redb!(
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::CompactionError,
    redb::SetDurabilityError,
    DatabaseError
);

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// Whether the database was already unusable when the operation began: it is worth a second try.
    fn found_it_broken(&self) -> bool {
        use redb::Error as E;
        matches!(self, Self::Redb(error) if matches!(**error, E::PreviousIo | E::DatabaseClosed | E::LockPoisoned(_)))
    }

    /// Whether the database must be opened again.
    fn broke_it(&self) -> bool {
        use redb::Error as E;
        match self {
            Self::Redb(error) => {
                matches!(**error, E::Io(_) | E::Corrupted(_) | E::TransactionPoisoned) || self.found_it_broken()
            }
            Self::Panicked(_) => true,
            Self::Store(_) => false,
        }
    }

    pub(super) fn into_store_error(self, path: &Path, needed: u64) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Panicked(text) => StoreError::Damaged(text),
            Self::Redb(error) => match *error {
                redb::Error::Io(error) => StoreError::of_io(error, path, needed),
                other => StoreError::Damaged(other.to_string()),
            },
        }
    }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, now, becomes an error: then it is told as damage, and no hook has to print it.
pub fn catches_panics() -> bool {
    GUARDED.get()
}

/// Runs an operation on redb and turns a panic, as damage causes it in redb, into a fault.
pub fn guarded<T>(operation: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    // The database is dropped after a panic, so that no broken invariant is ever seen.
    let before = GUARDED.replace(true);
    let caught = catch_unwind(AssertUnwindSafe(operation));
    GUARDED.set(before);
    caught.unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(Fault::Panicked(format!("the database cannot make sense of it: {text}")))
    })
}

impl Handle {
    pub fn open(path: PathBuf, opener: Opener) -> Result<Self, OpenError> {
        let slot = RwLock::new(Slot { generation: 0, database: None, read_only: false });
        let handle = Self { path, opener, slot, trouble: Trouble::default() };
        handle.ensure_open(0, false).map_err(|error| OpenError::of_store(error, &handle.path))?;
        Ok(handle)
    }

    /// What is wrong with the file, as far as it was noticed.
    pub const fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `operation` on a consistent view of the database. It may be run twice.
    pub fn read<T>(&self, operation: impl Fn(&ReadTransaction) -> Result<T, Fault>) -> Result<T, StoreError> {
        self.with(0, false, |database| operation(&database.begin_read()?))
    }

    /// Runs `operation` in one transaction that is durable when this returns. It may be run twice. `needed` is how many
    /// bytes it writes at most, for the error message.
    pub fn write<T>(
        &self,
        needed: u64,
        operation: impl Fn(&WriteTransaction) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.with(needed, true, |database| {
            let transaction = begin_write(database)?;
            let result = operation(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    /// How much of the file is in use. Walks the trees, and keeps writers waiting meanwhile.
    pub fn usage(&self) -> Result<Usage, StoreError> {
        self.with(0, true, |database| {
            let transaction = database.begin_write()?;
            let stats = transaction.stats()?;
            transaction.abort()?;
            let live = stats.stored_bytes() + stats.metadata_bytes();
            Ok(Usage { live, allocated: stats.allocated_pages() * stats.page_size() as u64 })
        })
    }

    /// Runs `operation` while no other transaction is open.
    pub fn exclusively<T>(&self, operation: impl FnOnce(&mut Database) -> Result<T, Fault>) -> Result<T, StoreError> {
        self.ensure_open(0, true)?;
        let mut slot = self.slot.write();
        let Some(database) = &mut slot.database else {
            return Err(StoreError::Damaged("the database was closed".to_owned()));
        };
        guarded(|| operation(database)).map_err(|fault| {
            if fault.broke_it() {
                close(&mut slot);
            }
            self.noted(fault.into_store_error(&self.path, 0))
        })
    }

    /// Runs `operation` while the database is closed: it may put another file in its place.
    pub fn replacing<T>(&self, operation: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut slot = self.slot.write();
        close(&mut slot);
        let result = operation()?;
        self.trouble.repaired();
        Ok(result)
    }

    fn noted(&self, error: StoreError) -> StoreError {
        self.trouble.failed(&error);
        error
    }

    fn with<T>(
        &self,
        needed: u64,
        writes: bool,
        operation: impl Fn(&Database) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let mut may_retry = true;
        loop {
            self.ensure_open(needed, writes)?;
            let (generation, outcome) = {
                let slot = self.slot.read();
                let Some(database) = &slot.database else { continue };
                (slot.generation, guarded(|| operation(database)))
            };
            let fault = match outcome {
                Ok(value) => {
                    if writes {
                        self.trouble.wrote(needed);
                    }
                    return Ok(value);
                }
                Err(fault) => fault,
            };
            if fault.broke_it() {
                let mut slot = self.slot.write();
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

    /// Opens the database if it is closed, or open for reading alone and now to be written. Where the disk lets nobody
    /// write, readers get a view of the file that leaves no trace in it.
    fn ensure_open(&self, needed: u64, writes: bool) -> Result<(), StoreError> {
        let usable = |slot: &Slot| slot.database.is_some() && !(writes && slot.read_only);
        if usable(&self.slot.read()) {
            return Ok(());
        }
        let mut slot = self.slot.write();
        if usable(&slot) {
            return Ok(());
        }
        let opened = guarded(|| Ok((self.opener)(&self.path)?));
        let error = match opened.map_err(|fault| self.noted(fault.into_store_error(&self.path, needed))) {
            Ok(database) => {
                slot.open(database, false);
                return Ok(());
            }
            Err(error) => error,
        };
        if writes || !matches!(error, StoreError::NoSpace { .. } | StoreError::ReadOnly { .. }) {
            return Err(error);
        }
        let database = guarded(|| Ok(opening::untouched(&self.path)?));
        slot.open(database.map_err(|fault| self.noted(fault.into_store_error(&self.path, needed)))?, true);
        Ok(())
    }
}

impl Slot {
    fn open(&mut self, database: Database, read_only: bool) {
        close(self);
        (self.database, self.read_only) = (Some(database), read_only);
        self.generation += 1;
    }
}

/// A transaction that is synced on commit, and after which the file opens without being walked.
pub fn begin_write(database: &Database) -> Result<WriteTransaction, Fault> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Drops the database. Whatever it still wants to write is worth nothing, so neither is an error.
fn close(slot: &mut Slot) {
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
