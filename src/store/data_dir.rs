//! The data directory: one process at a time, and how the others find it.
//!
//! The operating system's lock on the file `LOCK` decides, never the file's presence or content: the lock of a killed
//! process is gone with it. The content only names the holder. Not the store itself. Callers: [`crate::app`] and the
//! commands.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::OpenError;
use super::opening;

const LOCK: &str = "LOCK";
const STORE: &str = "grandstand.redb";
/// The content is padded to this many bytes, so that it is always overwritten in place: no torn file, and no new disk
/// block on a full disk.
const LOCK_LEN: usize = 256;

/// A data directory that this process alone has open, until the value and the stores opened from it are dropped.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: Arc<File>,
}

/// The process that has a data directory open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id; `None` in the instant before it has written it.
    pub pid: Option<u32>,
    /// Its admin listener; `None` until it listens.
    pub admin: Option<SocketAddr>,
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it. Nothing is written where the store is of a format that
    /// this program does not know, and nothing has to be where there is a store already: on a disk that takes no
    /// writes, the lock is taken all the same, and only the holder's name is missing.
    ///
    /// # Errors
    /// When another process holds it, the format is unknown, or there is nothing yet and nothing can be created.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        fs::create_dir_all(&path).map_err(|error| OpenError::of_io(error, &path))?;
        let (file, store) = (path.join(LOCK), path.join(STORE));
        let lock = lock_file(&path, &file, &store)?;
        acquire(&lock, &path, &file)?;
        opening::refuse_unknown(&store)?;
        let dir = Self { path, lock: Arc::new(lock) };
        match dir.write(None) {
            Err(OpenError::NoSpace { .. } | OpenError::ReadOnly { .. }) => {}
            written => written?,
        }
        Ok(dir)
    }

    /// Lets other commands know the admin listener's address.
    ///
    /// # Errors
    /// When the lock file cannot be written, which keeps nobody from using the directory.
    pub fn announce(&self, admin: SocketAddr) -> Result<(), OpenError> {
        self.write(Some(admin))
    }

    /// The process that has the directory open; `None` when there is none, or no such directory.
    pub fn holder(path: impl AsRef<Path>) -> Option<Holder> {
        let file = File::open(path.as_ref().join(LOCK)).ok()?;
        match file.try_lock_shared() {
            // Dropping the file gives the shared lock back.
            Ok(()) | Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => Some(read(&file)),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn store_file(&self) -> PathBuf {
        self.path.join(STORE)
    }

    pub(super) fn lock(&self) -> Arc<File> {
        Arc::clone(&self.lock)
    }

    fn write(&self, admin: Option<SocketAddr>) -> Result<(), OpenError> {
        let file = self.path.join(LOCK);
        let holder = Holder { pid: Some(std::process::id()), admin };
        let fail = |error| OpenError::of_io(error, &file);
        let mut text = serde_json::to_vec(&holder).map_err(|error| fail(error.into()))?;
        text.resize(LOCK_LEN - 1, b' ');
        text.push(b'\n');
        // Not through the lock's own handle: that may be open for reading alone, from a time when nothing else was allowed.
        let lock = OpenOptions::new().write(true).open(&file).map_err(fail)?;
        lock.write_all_at(&text, 0).map_err(fail)
    }
}

/// Opens the lock's file, for reading alone where no more is allowed. Where it has to be created and cannot be, the
/// directory of an existing store is locked instead.
fn lock_file(dir: &Path, file: &Path, store: &Path) -> Result<File, OpenError> {
    let fail = |error| OpenError::of_io(error, file);
    match OpenOptions::new().read(true).write(true).open(file) {
        Ok(lock) => return Ok(lock),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            return File::open(file).map_err(fail);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error)),
    }
    opening::refuse_unknown(store)?;
    let created = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file).map_err(fail);
    match created {
        Err(OpenError::NoSpace { .. } | OpenError::ReadOnly { .. }) if store.is_file() => {
            File::open(dir).map_err(|error| OpenError::of_io(error, dir))
        }
        other => other,
    }
}

/// Takes the lock. A command that looks for the holder has it for an instant, so a refusal is tried again for a while.
fn acquire(lock: &File, dir: &Path, file: &Path) -> Result<(), OpenError> {
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::Error(error)) => return Err(OpenError::of_io(error, file)),
        }
    }
    let Holder { pid, admin } = read(lock);
    Err(OpenError::Held { path: dir.to_owned(), pid, admin })
}

fn read(mut file: &File) -> Holder {
    let mut text = String::new();
    let whole = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(LOCK_LEN as u64).read_to_string(&mut text));
    let holder = whole.ok().and_then(|_| serde_json::from_str(&text).ok());
    holder.unwrap_or(Holder { pid: None, admin: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_open_names_the_holder_and_the_lock_goes_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        assert_eq!(DataDir::holder(&path), None);
        let dir = DataDir::open(&path).unwrap();
        let pid = Some(std::process::id());
        assert_eq!(DataDir::holder(&path), Some(Holder { pid, admin: None }));
        let admin = "127.0.0.1:9090".parse().unwrap();
        dir.announce(admin).unwrap();
        let refused = DataDir::open(&path).unwrap_err();
        assert!(
            matches!(refused, OpenError::Held { pid: p, admin: Some(a), .. } if p == pid && a == admin),
            "{refused}"
        );
        assert!(refused.to_string().contains(&std::process::id().to_string()));
        drop(dir);
        assert_eq!(DataDir::holder(&path), None);
        assert!(DataDir::open(&path).is_ok(), "the file of an earlier process does not block");
    }

    #[test]
    fn a_path_that_is_no_directory_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(DataDir::open(&file), Err(OpenError::Io { .. })));
    }
}
