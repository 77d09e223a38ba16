//! The errors of opening and using the store.
//!
//! Callers: [`crate::store`] returns them; [`crate::app`] and [`crate::mirror`] turn them into exit codes and
//! `/status`.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::api::listing::ListingId;
use crate::tasks::Aborted;

/// Why a data directory or its store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("the data directory {} is in use by {}{}", path.display(), holder_text(*pid, *admin), owner_text(*untrusted))]
    Held {
        /// The data directory.
        path: PathBuf,
        /// The other process; `None` before it wrote its id.
        pid: Option<u32>,
        /// Its admin listener, if it announced one and the directory's owner is trusted.
        admin: Option<SocketAddr>,
        /// The directory's owner, if that user is not trusted.
        untrusted: Option<u32>,
    },
    /// It belongs to another user.
    #[error("the data directory {} belongs to user {owner}; run this command as that user", path.display())]
    Denied {
        /// The data directory.
        path: PathBuf,
        /// The number of that user.
        owner: u32,
    },
    /// A newer program wrote it. Nothing was changed.
    #[error(
        "the store has format {found}, but this program supports only formats up to {supported}; use a newer grandstand"
    )]
    NewerFormat {
        /// The file's format number.
        found: u64,
        /// [`super::FORMAT`].
        supported: u64,
    },
    /// A much older program wrote it, and no migration starts from there. Nothing was changed.
    #[error(
        "the store has format {found}, which this program (format {supported}) cannot migrate; use the grandstand version that wrote it"
    )]
    OlderFormat {
        /// The file's format number.
        found: u64,
        /// [`super::FORMAT`].
        supported: u64,
    },
    /// The file is damaged.
    #[error("the store {} is damaged: {detail}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        detail: String,
    },
    /// The disk is full.
    #[error("no space left for {}", path.display())]
    NoSpace { path: PathBuf },
    /// The directory or file may not be written.
    #[error("{} is not writable", path.display())]
    ReadOnly { path: PathBuf },
    /// Any other failure of the file system.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The errors of using the store. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk is full.
    #[error("no space left for {}{}", path.display(), needed_text(*needed))]
    NoSpace {
        /// The store's file.
        path: PathBuf,
        /// The most bytes that the write needs; 0: unknown.
        needed: u64,
    },
    /// The file or its file system has become read-only.
    #[error("{} is not writable", path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// The stored bytes are damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Any other failure of the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The store's file.
        path: PathBuf,
        source: io::Error,
    },
    /// The source of a write could not be read.
    #[error("{0}")]
    Source(String),
    /// No snapshot has this sequence number.
    #[error("there is no snapshot with the sequence number {0}")]
    NoSuchSnapshot(u64),
    /// A content to publish has a listing twice.
    #[error("listing {0} occurs twice")]
    DuplicateId(ListingId),
    /// Something to be stored is larger than [`super::MAX_BODY`].
    #[error("{what} is too large: {bytes} bytes")]
    TooLarge {
        what: String,
        /// Its size.
        bytes: usize,
    },
}

/// The meaning of a failure of the file system.
enum Meaning {
    Full,
    ReadOnly,
    Damaged,
    Other,
}

impl Meaning {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::Full,
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::ReadOnly,
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::Other,
        }
    }
}

impl OpenError {
    pub(super) fn of_io(source: io::Error, path: &Path) -> Self {
        let path = path.to_owned();
        match Meaning::of(&source) {
            Meaning::Full => Self::NoSpace { path },
            Meaning::ReadOnly => Self::ReadOnly { path },
            Meaning::Damaged => Self::Damaged { path, detail: source.to_string() },
            Meaning::Other => Self::Io { path, source },
        }
    }

    pub(super) fn of_store(error: StoreError, path: &Path) -> Self {
        match error {
            StoreError::NoSpace { path, .. } => Self::NoSpace { path },
            StoreError::ReadOnly { path } => Self::ReadOnly { path },
            StoreError::Io { path, source } => Self::Io { path, source },
            StoreError::Damaged(detail) => Self::Damaged { path: path.to_owned(), detail },
            other => Self::Damaged { path: path.to_owned(), detail: other.to_string() },
        }
    }
}

impl From<Aborted> for StoreError {
    fn from(aborted: Aborted) -> Self {
        Self::Io { path: "task".into(), source: io::Error::other(aborted) }
    }
}

impl StoreError {
    pub(super) fn of_io(source: io::Error, path: &Path, needed: u64) -> Self {
        let path = path.to_owned();
        match Meaning::of(&source) {
            Meaning::Full => Self::NoSpace { path, needed },
            Meaning::ReadOnly => Self::ReadOnly { path },
            Meaning::Damaged => Self::Damaged(source.to_string()),
            Meaning::Other => Self::Io { path, source },
        }
    }

    pub(super) fn of_open(error: OpenError) -> Self {
        match error {
            OpenError::NoSpace { path } => Self::NoSpace { path, needed: 0 },
            OpenError::ReadOnly { path } => Self::ReadOnly { path },
            OpenError::Io { path, source } => Self::Io { path, source },
            OpenError::Damaged { detail, .. } => Self::Damaged(detail),
            other => Self::Io { path: PathBuf::new(), source: io::Error::other(other) },
        }
    }
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

fn holder_text(pid: Option<u32>, admin: Option<SocketAddr>) -> String {
    let process = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    admin.map_or_else(|| process.clone(), |admin| format!("{process}, admin listener {admin}"))
}

fn owner_text(untrusted: Option<u32>) -> String {
    untrusted.map_or_else(String::new, |owner| {
        format!(
            "; it belongs to user {owner}, so the server address in it is not trusted: run this command as that user \
             (`grandstand status` takes --admin URL instead)"
        )
    })
}
