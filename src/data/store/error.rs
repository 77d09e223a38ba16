//! The errors of opening and using the store, and the faults of redb behind them, panics included.
//!
//! Callers: [`crate::data::store`] returns them; [`crate::server`] and [`crate::mirror`] turn them into exit codes and
//! `/status`.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::DatabaseError;

use crate::tasks::Aborted;
use crate::telemetry::findings::{Finding, Kind};
use crate::words::remedy;

/// Why the data directory or its store cannot be opened, or used. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the data directory {} is in use by {}; stop it, or set another data_dir", path.display(), process(*pid))]
    Held {
        path: PathBuf,
        /// The other process, if it is known.
        pid: Option<u32>,
    },
    #[error("no space left for {}{}", path.display(), needed_text(*needed))]
    NoSpace {
        path: PathBuf,
        /// The most bytes that the write needs; 0: unknown.
        needed: u64,
    },
    #[error("{} is not writable", path.display())]
    ReadOnly { path: PathBuf },
    #[error("{}: {why}", path.display())]
    Disk {
        path: PathBuf,
        /// The failure, and what helps.
        why: String,
    },
    #[error("the store is damaged: {0}")]
    Damaged(String),
    #[error("there is no snapshot with the sequence number {0}")]
    NoSuchSnapshot(u64),
    /// What was asked for cannot be done, however well the disk works; with the reason.
    #[error("{0}")]
    Refused(String),
}

impl From<Aborted> for StoreError {
    fn from(aborted: Aborted) -> Self {
        Self::Refused(aborted.to_string())
    }
}

impl StoreError {
    /// What is wrong with the disk; `None`: it is not the disk.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let kind = match self {
            Self::NoSpace { .. } => Kind::DiskFull,
            Self::ReadOnly { .. } => Kind::DiskReadOnly,
            Self::Disk { .. } => Kind::DiskFails,
            _ => return None,
        };
        Some(Finding::new(kind, self))
    }

    /// A failure of the file system. `needed`: how much room the operation may have needed, in bytes.
    pub(crate) fn of_io(source: &io::Error, path: &Path, needed: u64) -> Self {
        let owned = path.to_owned();
        match source.kind() {
            kind if is_full(kind) => Self::NoSpace { path: owned, needed },
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::ReadOnly { path: owned },
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => Self::Damaged(source.to_string()),
            _ => Self::Disk { path: owned, why: format!("{source}{}", remedy(path, source)) },
        }
    }
}

/// Whether there is no room for what was written: on the disk, in a quota, or below the limit on the size of files
/// (`ulimit -f`), whose signal the program ignores.
pub(crate) const fn is_full(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// `None` for damaged data, which is fetched or made again.
pub(super) fn unless_damaged<T>(
    read: Result<Option<T>, StoreError>,
    what: impl Fn() -> String,
) -> Result<Option<T>, StoreError> {
    match read {
        Err(StoreError::Damaged(detail)) => {
            tracing::warn!(what = what(), detail, "stored data is damaged; it is treated as missing");
            Ok(None)
        }
        other => other,
    }
}

fn needed_text(needed: u64) -> String {
    if needed == 0 { String::new() } else { format!("; about {needed} bytes are needed") }
}

/// A process for people.
pub(crate) fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// A user for people: `grandstand (998)`, or the number alone if `/etc/passwd` does not know it.
pub(super) fn user(number: u32) -> String {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    });
    name.map_or_else(|| number.to_string(), |name| format!("{name} ({number})"))
}

/// Why an operation inside a transaction ended.
#[derive(Debug)]
pub(super) enum Fault {
    Redb(Box<redb::Error>),
    /// We say so; the database is fine.
    Store(StoreError),
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
                redb::Error::Io(error) => StoreError::of_io(&error, path, needed),
                other if is_damage(&other) => StoreError::Damaged(other.to_string()),
                // A handle to be opened again, a file that somebody else has or that another program wrote: the file
                // itself may be whole, so nobody must put another one in its place.
                other => StoreError::Disk { path: path.to_owned(), why: other.to_string() },
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

/// Whether a panic of this thread, now, becomes an error: then it is reported as damage, and no hook has to print it.
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

#[cfg(test)]
mod tests {
    use super::user;

    #[test]
    fn a_user_has_a_name_where_the_system_knows_it() {
        assert_eq!([user(0), user(4_294_967_294)], ["root (0)", "4294967294"]);
    }
}
