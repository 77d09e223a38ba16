//! Why an operation on redb failed, panics included, and whether the database or the file is broken.
//!
//! It opens and closes nothing. Callers: [`super::handle`] and whoever works in its transactions.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::DatabaseError;

use super::error::StoreError;

/// Why an operation inside a transaction ended.
#[derive(Debug)]
pub(super) enum Fault {
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
    pub(super) fn found_it_broken(&self) -> bool {
        use redb::Error as E;
        matches!(self, Self::Redb(error) if matches!(**error, E::PreviousIo | E::DatabaseClosed | E::LockPoisoned(_)))
    }

    /// Whether the database must be opened again.
    pub(super) fn broke_it(&self) -> bool {
        use redb::Error as E;
        match self {
            Self::Redb(error) => {
                matches!(**error, E::Io(_) | E::Corrupted(_) | E::TransactionPoisoned) || self.found_it_broken()
            }
            Self::Panicked(_) => true,
            Self::Store(_) => false,
        }
    }

    /// The error for the callers of the store. `needed`: how much room the operation may have needed, in bytes.
    pub(super) fn into_store_error(self, path: &Path, needed: u64) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Panicked(text) => StoreError::Damaged(text),
            Self::Redb(error) => match *error {
                redb::Error::Io(error) => StoreError::of_io(error, path, needed),
                other if is_damage(&other) => StoreError::Damaged(other.to_string()),
                // A handle to be opened again, a file that somebody else has or that another program wrote: the file
                // itself may be whole, so nobody must put another one in its place.
                other => StoreError::Io { path: path.to_owned(), source: io::Error::other(other.to_string()) },
            },
        }
    }
}

/// Whether redb says that the file holds what no store holds: pages that do not fit, or not our tables.
const fn is_damage(error: &redb::Error) -> bool {
    use redb::Error as E;
    matches!(
        error,
        E::Corrupted(_)
            | E::TableDoesNotExist(_)
            | E::TableTypeMismatch { .. }
            | E::TableIsMultimap(_)
            | E::TypeDefinitionChanged { .. }
    )
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, now, becomes an error: then it is told as damage, and no hook has to print it.
pub(crate) fn catches_panics() -> bool {
    GUARDED.get()
}

/// Runs an operation on redb and turns a panic, as damage causes it in redb, into a fault.
pub(super) fn guarded<T>(operation: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    // The database is dropped after a panic, so that no broken invariant is ever seen.
    let before = GUARDED.replace(true);
    let caught = catch_unwind(AssertUnwindSafe(operation));
    GUARDED.set(before);
    caught.unwrap_or_else(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        Err(Fault::Panicked(format!("the database file is inconsistent: {text}")))
    })
}
