//! The data directory: one process at a time, whose id others can read.
//!
//! The operating system's locks on the directory and on the file `LOCK` in it decide, never the file's presence or
//! content: a killed process releases its lock. The content only names the holder. Both locks are taken if possible:
//! the file may be missing on a read-only disk, and some network disks cannot lock a directory. Only their owner can
//! open and lock them ([`super::files`]).
//!
//! Not the store itself. Callers: [`crate::server`]; commands look who holds it.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::process::{Pid, geteuid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::error::{StoreError, user};
use super::{database, files};

const LOCK: &str = "LOCK";
const STORE: &str = "grandstand.redb";
/// The content is padded to this many bytes and overwritten in place: no torn file, and no new disk block on a full
/// disk.
const LOCK_LEN: usize = 256;

/// A data directory, locked by this process until the value and its stores are dropped.
#[derive(Clone, Debug)]
pub struct DataDir {
    path: PathBuf,
    lock: Arc<Lock>,
}

/// The lock that keeps other processes out while it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The locked directory and file; at least one of them.
    locked: Vec<File>,
    /// Whether a damaged store was set aside under this lock.
    pub(super) set_aside: AtomicBool,
}

impl Lock {
    /// Whether what is locked is what has this directory's name, and was not moved or replaced.
    pub(super) fn is_in(&self, directory: &Path) -> bool {
        let identity = |meta: io::Result<fs::Metadata>| meta.ok().map(|meta| (meta.dev(), meta.ino()));
        let named = [directory.to_owned(), directory.join(LOCK)].map(|path| identity(fs::metadata(path)));
        self.locked.iter().any(|file| named.contains(&identity(file.metadata())))
    }
}

/// Closing the files is not enough: a child process that was just forked has them open, too, until its program starts.
impl Drop for Lock {
    fn drop(&mut self) {
        for file in &self.locked {
            if let Err(error) = file.unlock() {
                tracing::debug!(%error, "a lock could not be released; it ends when its file is closed");
            }
        }
    }
}

/// The process that has a data directory open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id; `None`: it could not write it, or is in another container.
    pub pid: Option<u32>,
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it. Nothing is written if the format of the store is unknown.
    /// An existing store on a read-only disk is locked, too; only the holder's name is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let prepared = files::prepare_directory(path).and_then(|()| resolved(path));
        let path = prepared.map_err(|error| {
            StoreError::Refused(format!(
                "data_dir: {} cannot be used ({error}); set a directory that the user who runs grandstand may create or write to",
                path.display()
            ))
        })?;
        let (file, store) = (path.join(LOCK), path.join(STORE));
        let mut lock = Lock { locked: Vec::new(), set_aside: AtomicBool::new(false) };
        // First, because a process that could not create the file may hold only this lock.
        match File::open(&path) {
            Ok(directory) => match acquire(&directory, &path, &path) {
                Ok(()) => lock.locked.push(directory),
                Err(error @ StoreError::Held { .. }) => return Err(error),
                Err(error) => tracing::debug!(%error, "the directory cannot be locked; a file in it is locked instead"),
            },
            Err(error) => {
                let owner = fs::metadata(&path).map(|meta| meta.uid()).ok();
                let is_denied = error.kind() == ErrorKind::PermissionDenied;
                if let Some(owner) = owner.filter(|owner| is_denied && *owner != geteuid().as_raw()) {
                    return Err(StoreError::Refused(format!(
                        "the data directory {} belongs to user {}; run this command as that user, or give the directory to \
                         this one (chown -R)",
                        path.display(),
                        user(owner)
                    )));
                }
            }
        }
        // Before anything is written.
        database::refuse_other_format(&store)?;
        match lock_file(&file) {
            Ok(opened) => {
                acquire(&opened, &path, &file)?;
                lock.locked.push(opened);
            }
            Err(StoreError::NoSpace { .. } | StoreError::ReadOnly { .. })
                if store.is_file() && !lock.locked.is_empty() => {}
            Err(error) => return Err(error),
        }
        let dir = Self { path, lock: Arc::new(lock) };
        // The keeper tries again: without the name, the locks still count.
        let _ = dir.sign();
        Ok(dir)
    }

    /// Whether the directory is still the one that is locked.
    pub(crate) fn is_in_place(&self) -> bool {
        self.lock.is_in(&self.path)
    }

    /// Fails if this user cannot see what is in the directory. There may be no such directory.
    pub(crate) fn expect_readable(path: &Path) -> io::Result<()> {
        match fs::read_dir(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The process that has the directory open, if any.
    pub fn holder(path: impl AsRef<Path>) -> Option<Holder> {
        let path = path.as_ref();
        let (file, directory) = (files::read(&path.join(LOCK)).ok(), File::open(path).ok());
        file.iter().chain(&directory).any(is_held).then(|| Holder { pid: file.as_ref().and_then(pid_in) })
    }

    /// Whether there is a store, remains of one, or a process that is creating one.
    pub fn has_store(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        let store = path.join(STORE);
        fs::symlink_metadata(&store).is_ok() || files::aside_of(&store).exists() || Self::holder(path).is_some()
    }

    /// Whether a snapshot was published into a directory's store. Changes nothing; a store that cannot be read counts.
    pub fn has_snapshot(path: impl AsRef<Path>) -> bool {
        let store = path.as_ref().join(STORE);
        files::is_file(&store) && !database::is_empty(&store)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path, from the root on.
    pub(crate) fn absolute(&self) -> String {
        let path = self.path.canonicalize().or_else(|_| std::path::absolute(&self.path));
        path.unwrap_or_else(|_| self.path.clone()).display().to_string()
    }

    pub(super) fn store_file(&self) -> PathBuf {
        self.path.join(STORE)
    }

    pub(super) fn lock(&self) -> Arc<Lock> {
        Arc::clone(&self.lock)
    }

    /// Writes this process's id into the lock. If that fails, the directory can be used anyway.
    pub(crate) fn sign(&self) -> Result<(), StoreError> {
        let file = self.path.join(LOCK);
        let fail = |error| StoreError::of_io(&error, &file, 0);
        let own = format!("{{\"pid\":{}}}", std::process::id());
        let text = format!("{own:<width$}\n", width = LOCK_LEN - 1);
        // Not through the lock's own handle, which may be read-only. If the file could not be created before, it is
        // created now, and the lock on the directory counts.
        let lock = files::edit_or_create(&file).map_err(fail)?;
        lock.write_all_at(text.as_bytes(), 0).map_err(fail)
    }
}

/// Opens the lock file, and creates it if it is missing; an existing one read-only, if necessary.
fn lock_file(file: &Path) -> Result<File, StoreError> {
    let opened = files::edit_or_create(file).or_else(|error| match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => files::read(file).map_err(|_| error),
        _ => Err(error),
    });
    opened.map_err(|error| StoreError::of_io(&error, file, 0))
}

/// Resolves a link to the directory, once.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    if fs::symlink_metadata(path)?.is_symlink() { fs::canonicalize(path) } else { Ok(path.to_owned()) }
}

/// Takes the lock. A command that looks for the holder has it for a moment, so a refusal is retried for a while.
fn acquire(lock: &File, dir: &Path, file: &Path) -> Result<(), StoreError> {
    // Together 200 ms: a look at the holder takes far less.
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::Error(error)) => return Err(StoreError::of_io(&error, file, 0)),
        }
    }
    Err(StoreError::Held { path: dir.to_owned(), pid: DataDir::holder(dir).and_then(|holder| holder.pid) })
}

fn is_held(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // For the reason given at [`Lock`].
            let _ = file.unlock();
            false
        }
        Err(error) => matches!(error, TryLockError::WouldBlock),
    }
}

/// The id in a lock file. A server that started on a full or read-only disk could not write its own: the id of a process
/// that is gone says nothing.
fn pid_in(file: &File) -> Option<u32> {
    let mut text = [0; LOCK_LEN];
    let length = file.read_at(&mut text, 0).ok()?;
    let Holder { pid } = serde_json::from_slice(&text[..length]).ok()?;
    pid.filter(|pid| i32::try_from(*pid).ok().and_then(Pid::from_raw).is_some_and(lives))
}

/// Whether there is such a process, whoever owns it.
fn lives(pid: Pid) -> bool {
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    #[test]
    fn a_second_open_names_the_holder_and_the_lock_goes_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        assert_eq!(DataDir::holder(&path), None);
        let dir = DataDir::open(&path).unwrap();
        let pid = Some(std::process::id());
        assert_eq!(DataDir::holder(&path), Some(Holder { pid }));
        let refused = DataDir::open(&path).unwrap_err();
        assert!(matches!(refused, StoreError::Held { pid: p, .. } if p == pid), "{refused}");
        assert!(refused.to_string().contains(&std::process::id().to_string()));
        // As after a start on a full disk: the file names an earlier server.
        fs::write(path.join(LOCK), format!("{{\"pid\":{}}}", i32::MAX)).unwrap();
        assert_eq!(DataDir::holder(&path), Some(Holder { pid: None }));
        drop(dir);
        assert_eq!(DataDir::holder(&path), None);
        assert!(DataDir::open(&path).is_ok(), "the file of an earlier process does not block");
    }

    #[test]
    fn the_lock_ends_with_its_holder_although_a_child_that_is_about_to_start_has_it_open() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        // What a child has between `fork` and `exec`.
        let inherited: Vec<File> = dir.lock.locked.iter().map(|file| file.try_clone().unwrap()).collect();
        assert_eq!(inherited.len(), 2);
        drop(dir);
        assert_eq!(DataDir::holder(temp.path()), None);
        assert!(DataDir::open(temp.path()).is_ok());
        drop(inherited);
    }

    #[test]
    fn a_directory_whose_lock_file_is_new_or_gone_is_still_held() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path();
        let dir = DataDir::open(path).unwrap();
        // As after a start on a read-only disk that is writable now.
        fs::remove_file(path.join(LOCK)).unwrap();
        assert_eq!(DataDir::holder(path), Some(Holder { pid: None }));
        assert!(matches!(DataDir::open(path), Err(StoreError::Held { pid: None, .. })));
        assert!(!path.join(LOCK).exists());
        dir.sign().unwrap();
        assert!(matches!(DataDir::open(path), Err(StoreError::Held { pid: Some(_), .. })));
        drop(dir);
        assert_eq!(DataDir::holder(path), None);
    }

    #[test]
    fn a_directory_and_its_files_are_for_their_owner_alone_and_a_link_to_it_is_followed_once() {
        let temp = tempfile::tempdir().unwrap();
        let (real, link) = (temp.path().join("real"), temp.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::write(real.join(LOCK), "").unwrap();
        for (path, mode) in [(real.clone(), 0o755), (real.join(LOCK), 0o644)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let dir = DataDir::open(&link).unwrap();
        assert_eq!(fs::canonicalize(dir.path()).unwrap(), dir.path());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&real), mode(&real.join(LOCK))), (0o700, 0o600));
    }

    #[test]
    fn a_lock_that_is_no_regular_file_is_refused_and_nothing_is_written_through_it() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("target");
        fs::write(&target, "mine").unwrap();
        let path = temp.path().join("data");
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(&target, path.join(LOCK)).unwrap();
        let refused = DataDir::open(&path).unwrap_err().to_string();
        assert!(refused.contains("data/LOCK") && refused.contains("symbolic link"), "{refused}");
        fs::remove_file(path.join(LOCK)).unwrap();
        assert!(Command::new("mkfifo").arg(path.join(LOCK)).status().unwrap().success());
        let refused = DataDir::open(&path).unwrap_err().to_string();
        assert!(refused.contains("data/LOCK") && refused.contains("FIFO"), "{refused}");
        assert_eq!(fs::read(target).unwrap(), b"mine");
    }

    #[test]
    fn a_path_that_is_no_directory_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        let refused = DataDir::open(&file).unwrap_err().to_string();
        assert!(refused.contains("data_dir: ") && refused.contains("not a directory"), "{refused}");
    }
}
