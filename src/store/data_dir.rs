//! The data directory: one process at a time, and how the others find it.
//!
//! The operating system's locks on the directory and on the file `LOCK` in it decide, never the file's presence or
//! content: the lock of a killed process is gone with it. The content only names the holder. Both are taken where both
//! can be: on a disk that takes no writes the file may be missing, on some network disks a directory cannot be locked. Not the store itself. Callers: [`crate::app`] and the
//! commands.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::OpenError;
use super::heal::aside_of;
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
    lock: Arc<Lock>,
}

/// What keeps other processes out for as long as it lives, and what was done meanwhile.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The directory and the file, as far as they could be locked; one of them at least.
    _locked: Vec<File>,
    set_aside: AtomicBool,
}

impl Lock {
    /// Whether a damaged store was set aside under this lock.
    pub(super) fn has_set_aside(&self) -> bool {
        self.set_aside.load(Ordering::Relaxed)
    }

    /// A damaged store was set aside.
    pub(super) fn set_aside(&self) {
        self.set_aside.store(true, Ordering::Relaxed);
    }
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
        if path.exists() && !path.is_dir() {
            return Err(OpenError::of_io(ErrorKind::NotADirectory.into(), &path));
        }
        fs::create_dir_all(&path).map_err(|error| OpenError::of_io(error, &path))?;
        let (file, store) = (path.join(LOCK), path.join(STORE));
        let mut locked = Vec::new();
        // First, because it is there before the file: a process that could not create the file may be at work here.
        if let Ok(directory) = File::open(&path) {
            match acquire(&directory, &path, &path) {
                Ok(()) => locked.push(directory),
                Err(error @ OpenError::Held { .. }) => return Err(error),
                Err(error) => tracing::debug!(%error, "the directory cannot be locked; the file in it is"),
            }
        }
        match lock_file(&file, &store) {
            Ok(lock) => {
                acquire(&lock, &path, &file)?;
                locked.push(lock);
            }
            Err(OpenError::NoSpace { .. } | OpenError::ReadOnly { .. }) if store.is_file() && !locked.is_empty() => {}
            Err(error) => return Err(error),
        }
        opening::refuse_unknown(&store)?;
        let dir = Self { path, lock: Arc::new(Lock { _locked: locked, set_aside: AtomicBool::new(false) }) };
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
        let path = path.as_ref();
        let file = File::open(path.join(LOCK)).ok();
        // Dropping a file gives the shared lock back.
        let held = |file: &File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let unnamed = Holder { pid: None, admin: None };
        if file.as_ref().is_some_and(held) || File::open(path).as_ref().is_ok_and(held) {
            return Some(file.as_ref().map_or(unnamed, read));
        }
        None
    }

    /// Whether there is a store, or what a store was made of, or somebody who is about to make one.
    pub fn has_store(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let store = path.join(STORE);
        fs::symlink_metadata(&store).is_ok() || aside_of(&store).exists() || Self::holder(path).is_some()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn store_file(&self) -> PathBuf {
        self.path.join(STORE)
    }

    pub(super) fn lock(&self) -> Arc<Lock> {
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
        // Created where it could not be before: then the lock on the directory is what counts.
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&file).map_err(fail)?;
        lock.write_all_at(&text, 0).map_err(fail)
    }
}

/// Opens the lock's file, for reading alone where no more is allowed, and creates it where it is missing.
fn lock_file(file: &Path, store: &Path) -> Result<File, OpenError> {
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
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(file).map_err(fail)
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
    let Holder { pid, admin } = DataDir::holder(dir).unwrap_or(Holder { pid: None, admin: None });
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
    fn a_directory_whose_lock_file_is_new_or_gone_is_still_held() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path();
        let dir = DataDir::open(path).unwrap();
        // As after a start on a disk that took no writes and takes them now.
        fs::remove_file(path.join(LOCK)).unwrap();
        let nobody = Holder { pid: None, admin: None };
        assert_eq!(DataDir::holder(path), Some(nobody));
        assert!(matches!(DataDir::open(path), Err(OpenError::Held { .. })));
        assert!(!path.join(LOCK).exists());
        let admin = "127.0.0.1:9090".parse().unwrap();
        dir.announce(admin).unwrap();
        assert_eq!(DataDir::holder(path).unwrap().admin, Some(admin));
        assert!(matches!(DataDir::open(path), Err(OpenError::Held { admin: Some(_), .. })));
        drop(dir);
        assert_eq!(DataDir::holder(path), None);
    }

    #[test]
    fn a_path_that_is_no_directory_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(matches!(DataDir::open(&file), Err(OpenError::Io { .. })));
    }
}
