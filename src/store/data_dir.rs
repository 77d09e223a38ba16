//! The data directory: one process at a time, which others can find.
//!
//! The operating system's locks on the directory and on the file `LOCK` in it decide, never the file's presence or
//! content: a killed process releases its lock. The content only names the holder. Both locks are taken if possible:
//! the file may be missing on a read-only disk, and some network disks cannot lock a directory. Only their owner can
//! open and lock them ([`super::files`]).
//!
//! Commands send `admin.token` to the address that the file names, and the owner of the directory can write any address
//! into it. Trusted are the user of this process and root. Root also trusts the user of a service, because root runs
//! commands for servers that have a user of their own. Root trusts such a directory only if root alone can write to every
//! directory above it: `/var/lib/grandstand`, not `/tmp/grandstand-data`. The owner of the lock's process proves nothing:
//! an attacker owns both.
//!
//! Not the store itself. Callers: [`crate::app`] and the commands.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::error::{OpenError, StoreError};
use super::files::ROOT;
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
    set_aside: AtomicBool,
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
    /// Its process id; `None` before it is written.
    pub pid: Option<u32>,
    /// Its admin listener; `None` until it listens, and where `untrusted` is not.
    pub admin: Option<SocketAddr>,
    /// The owner of the directory, if nothing is believed of what the directory says of its server; else `None`.
    #[serde(skip)]
    pub untrusted: Option<u32>,
}

impl Holder {
    /// A process of which nothing is known.
    const UNKNOWN: Self = Self { pid: None, admin: None, untrusted: None };

    /// What a file of the directory says, or only which process has locked `file`: the other may name an earlier server.
    fn if_it_locked(self, file: &File) -> Self {
        let pids = locked_by(file);
        match pids.first() {
            Some(other) if self.pid.is_none_or(|pid| !pids.contains(&pid)) => {
                Self { pid: Some(*other), admin: None, ..self }
            }
            _ => self,
        }
    }
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it. Nothing is written if the format of the store is unknown.
    /// An existing store on a read-only disk is locked, too; only the holder's name is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let prepared = files::prepare_directory(path).and_then(|()| resolved(path));
        let path = prepared.map_err(|source| OpenError::Unusable { path: path.to_owned(), source })?;
        let (file, store) = (path.join(LOCK), path.join(STORE));
        let mut lock = Lock { locked: Vec::new(), set_aside: AtomicBool::new(false) };
        // First, because a process that could not create the file may hold only this lock.
        match File::open(&path) {
            Ok(directory) => match acquire(&directory, &path, &path) {
                Ok(()) => lock.locked.push(directory),
                Err(error @ OpenError::Held { .. }) => return Err(error),
                Err(error) => tracing::debug!(%error, "the directory cannot be locked; a file in it is locked instead"),
            },
            Err(error) => {
                let owner = fs::metadata(&path).map(|meta| meta.uid()).ok();
                let is_denied = error.kind() == ErrorKind::PermissionDenied;
                if let Some(owner) = owner.filter(|owner| is_denied && *owner != geteuid().as_raw()) {
                    return Err(OpenError::Denied { path, owner });
                }
            }
        }
        match lock_file(&file, &store) {
            Ok(opened) => {
                acquire(&opened, &path, &file)?;
                lock.locked.push(opened);
            }
            Err(OpenError::Failed(StoreError::NoSpace { .. } | StoreError::ReadOnly { .. }))
                if store.is_file() && !lock.locked.is_empty() => {}
            Err(error) => return Err(error),
        }
        database::refuse_other_format(&store)?;
        let dir = Self { path, lock: Arc::new(lock) };
        match dir.write(None) {
            Err(OpenError::Failed(_)) => {}
            written => written?,
        }
        Ok(dir)
    }

    /// Stores the admin listener's address for other commands. If that fails, the directory can be used anyway.
    pub fn announce(&self, admin: SocketAddr) -> Result<(), OpenError> {
        self.write(Some(admin))
    }

    /// Looks whether it can be seen which process has the directory open. There may be no such directory.
    pub(crate) fn expect_readable(path: &Path) -> io::Result<()> {
        let missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        let read = match files::read(&path.join(LOCK)) {
            Err(error) if missing(&error) => File::open(path),
            read => read,
        };
        read.map(drop).or_else(|error| if missing(&error) { Ok(()) } else { Err(error) })
    }

    /// The process that has the directory open, if any.
    pub fn holder(path: impl AsRef<Path>) -> Option<Holder> {
        let path = path.as_ref();
        let (file, directory) = (files::read(&path.join(LOCK)).ok(), File::open(path).ok());
        let locked = file.iter().chain(&directory).find(|file| is_held(file))?;
        let Some(file) = &file else { return Some(Holder::UNKNOWN) };
        let holder = read(file).if_it_locked(locked);
        Some(match untrusted(path, file) {
            Some(owner) => Holder { admin: None, untrusted: Some(owner), ..holder },
            None => holder,
        })
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

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same, from the root on.
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

    fn write(&self, admin: Option<SocketAddr>) -> Result<(), OpenError> {
        let file = self.path.join(LOCK);
        let holder = Holder { pid: Some(std::process::id()), admin, untrusted: None };
        let fail = |error| OpenError::of_io(error, &file);
        let mut text = serde_json::to_vec(&holder).map_err(|error| fail(error.into()))?;
        text.resize(LOCK_LEN - 1, b' ');
        text.push(b'\n');
        // Not through the lock's own handle, which may be read-only. If the file could not be created before, it is
        // created now, and the lock on the directory counts.
        let lock = files::edit_or_create(&file).map_err(fail)?;
        lock.write_all_at(&text, 0).map_err(fail)
    }
}

/// Opens the lock file, read-only if necessary, and creates it if it is missing.
fn lock_file(file: &Path, store: &Path) -> Result<File, OpenError> {
    let fail = |error| OpenError::of_io(error, file);
    match files::edit(file) {
        Ok(lock) => return Ok(lock),
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            return files::read(file).map_err(fail);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error)),
    }
    database::refuse_other_format(store)?;
    files::edit_or_create(file).map_err(fail)
}

/// Resolves a link to the directory, once.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    if fs::symlink_metadata(path)?.is_symlink() { fs::canonicalize(path) } else { Ok(path.to_owned()) }
}

/// Takes the lock. A command that looks for the holder has it for a moment, so a refusal is retried for a while.
fn acquire(lock: &File, dir: &Path, file: &Path) -> Result<(), OpenError> {
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::Error(error)) => return Err(OpenError::of_io(error, file)),
        }
    }
    let Holder { pid, admin, untrusted } = DataDir::holder(dir).unwrap_or(Holder::UNKNOWN).if_it_locked(lock);
    Err(OpenError::Held { path: dir.to_owned(), pid, admin, untrusted })
}

/// The processes that have locked a file, by the system's table (proc_locks(5)); empty if it has none, or they run in
/// other containers.
fn locked_by(file: &File) -> Vec<u32> {
    let (Ok(meta), Ok(table)) = (file.metadata(), fs::read_to_string("/proc/locks")) else { return Vec::new() };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    let holder = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        // Number, kind, mode, access, process, place; `->` is before the kind of one that waits.
        [_, kind, _, _, pid, at, ..] if kind != "->" && at == place => pid.parse().ok().filter(|pid| *pid > 0),
        _ => None,
    };
    table.lines().filter_map(holder).collect()
}

/// Whether the lock is taken.
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

fn read(mut file: &File) -> Holder {
    let mut text = String::new();
    let whole = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(LOCK_LEN as u64).read_to_string(&mut text));
    let holder = whole.ok().and_then(|_| serde_json::from_str(&text).ok());
    holder.unwrap_or(Holder::UNKNOWN)
}

/// The user number that no user has.
const UNKNOWN: u32 = u32::MAX;

/// More symbolic links than this on one path are not followed.
const MOST_LINKS: u32 = 8;

/// The owner of the data directory of this lock file, if that user is not trusted; else `None`.
pub(super) fn untrusted(directory: &Path, lock: &File) -> Option<u32> {
    let owner = |meta: io::Result<fs::Metadata>| meta.map_or(UNKNOWN, |meta| meta.uid());
    let owners = [owner(fs::metadata(directory)), owner(lock.metadata())];
    judge(owners, geteuid().as_raw(), || {
        let place = std::path::absolute(directory);
        place.is_ok_and(|place| is_roots(&place, true, MOST_LINKS, &look))
    })
}

/// `owners`: of the directory and of the lock file. `is_given`: whether root alone can have put the directory there.
fn judge(owners: [u32; 2], own: u32, is_given: impl FnOnce() -> bool) -> Option<u32> {
    let stranger = owners.into_iter().find(|owner| ![own, ROOT].contains(owner))?;
    let is_alone = owners.iter().all(|owner| [stranger, ROOT].contains(owner)) && owners[0] == stranger;
    (!(own == ROOT && is_alone && is_given())).then_some(stranger)
}

/// What one name of a path leads to.
enum Step {
    Link(PathBuf),
    Other { owner: u32, mode: u32 },
}

fn look(path: &Path) -> io::Result<Step> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return fs::read_link(path).map(Step::Link);
    }
    Ok(Step::Other { owner: meta.uid(), mode: meta.mode() })
}

/// Whether only root can decide what an absolute path leads to. `is_end`: it is the end of the path, which may belong
/// to anybody; else it is a directory on the way.
fn is_roots(path: &Path, is_end: bool, links: u32, look: &impl Fn(&Path) -> io::Result<Step>) -> bool {
    let parent = path.parent();
    if !parent.is_none_or(|parent| is_roots(parent, false, links, look)) {
        return false;
    }
    match look(path) {
        Ok(Step::Link(to)) => links > 0 && is_roots(&parent.unwrap_or(path).join(to), is_end, links - 1, look),
        Ok(Step::Other { owner, mode }) => is_end || (owner == ROOT && mode & 0o022 == 0),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    #[test]
    fn a_second_open_names_the_holder_and_the_lock_goes_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        assert_eq!(DataDir::holder(&path), None);
        let dir = DataDir::open(&path).unwrap();
        let pid = Some(std::process::id());
        assert_eq!(DataDir::holder(&path), Some(Holder { pid, ..Holder::UNKNOWN }));
        let admin = "127.0.0.1:9090".parse().unwrap();
        dir.announce(admin).unwrap();
        let refused = DataDir::open(&path).unwrap_err();
        assert!(
            matches!(refused, OpenError::Held { pid: p, admin: Some(a), .. } if p == pid && a == admin),
            "{refused}"
        );
        assert!(refused.to_string().contains(&std::process::id().to_string()));
        // As after a start on a full disk: the file names an earlier server.
        let earlier = Holder { pid: Some(u32::MAX), admin: Some(admin), untrusted: None };
        fs::write(path.join(LOCK), serde_json::to_vec(&earlier).unwrap()).unwrap();
        assert_eq!(DataDir::holder(&path), Some(Holder { pid, ..Holder::UNKNOWN }));
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
        assert_eq!(DataDir::holder(path), Some(Holder::UNKNOWN));
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
    fn another_process_that_has_locked_the_directory_is_named() {
        let temp = tempfile::tempdir().unwrap();
        drop(DataDir::open(temp.path()).unwrap());
        let mut other = Command::new("flock");
        let other = other.args(["--shared".as_ref(), temp.path().as_os_str()]).args(["sh", "-c", "echo; read _"]);
        let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let refused = DataDir::open(temp.path()).unwrap_err();
        drop(other.stdin.take());
        other.wait().unwrap();
        assert!(matches!(&refused, OpenError::Held { pid, admin: None, .. } if *pid == Some(other.id())), "{refused}");
    }

    #[test]
    fn a_path_that_is_no_directory_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        let refused = DataDir::open(&file).unwrap_err().to_string();
        assert!(refused.contains("data_dir: ") && refused.contains("not a directory"), "{refused}");
    }

    #[test]
    fn the_user_itself_and_root_are_trusted_and_by_root_those_whom_root_gave_the_directory() {
        const ALICE: u32 = 1000;
        const BOB: u32 = 1001;
        for (owners, own, is_given, untrusted) in [
            ([ALICE, ALICE], ALICE, false, None),
            ([ROOT, ROOT], ALICE, false, None),
            ([ROOT, ALICE], ALICE, false, None),
            ([ALICE, ROOT], ALICE, false, None),
            ([ROOT, ROOT], ROOT, false, None),
            ([BOB, BOB], ALICE, true, Some(BOB)),
            ([BOB, ALICE], ALICE, true, Some(BOB)),
            ([ALICE, BOB], ALICE, true, Some(BOB)),
            ([BOB, BOB], ROOT, false, Some(BOB)),
            ([BOB, BOB], ROOT, true, None),
            ([BOB, ROOT], ROOT, true, None),
            ([ALICE, BOB], ROOT, true, Some(ALICE)),
            ([ROOT, BOB], ROOT, true, Some(BOB)),
            ([UNKNOWN, ALICE], ALICE, false, Some(UNKNOWN)),
        ] {
            assert_eq!(judge(owners, own, || is_given), untrusted, "{owners:?} {own} {is_given}");
        }
    }

    #[test]
    fn a_place_is_roots_when_nobody_else_can_write_on_the_way_to_it() {
        let link = |to: &str| Ok(Step::Link(to.into()));
        let look = |path: &Path| match path.to_str().unwrap() {
            "/" | "/var" | "/var/lib" | "/srv" | "/home" | "/var/lib/../../srv" | "/var/lib/.." | "/var/lib/../.." => {
                Ok(Step::Other { owner: ROOT, mode: 0o755 })
            }
            "/tmp" => Ok(Step::Other { owner: ROOT, mode: 0o1777 }),
            "/usr/local" => Ok(Step::Other { owner: ROOT, mode: 0o2775 }),
            "/var/lib/venues"
            | "/lib/venues"
            | "/tmp/venues"
            | "/srv/alice"
            | "/srv/alice/data"
            | "/home/alice"
            | "/var/lib/../../srv/alice" => Ok(Step::Other { owner: 1000, mode: 0o700 }),
            "/var/lib/moved" => link("../../srv/alice"),
            "/var/lib/astray" => link("/tmp/venues"),
            "/var/lib/circle" => link("circle"),
            "/lib" => link("/var/lib"),
            "/tmp/link" => link("/home/alice"),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        for (path, expected) in [
            ("/var/lib/venues", true),
            ("/lib/venues", true),
            ("/var/lib/moved", true),
            ("/home/alice", true),
            ("/tmp/venues", false),
            ("/tmp/link", false),
            ("/srv/alice/data", false),
            ("/var/lib/astray", false),
            ("/var/lib/circle", false),
            ("/var/lib/none", false),
        ] {
            assert_eq!(is_roots(Path::new(path), true, MOST_LINKS, &look), expected, "{path}");
        }
        assert!(!is_roots(Path::new("/usr/local/venues"), true, MOST_LINKS, &look));
    }
}
