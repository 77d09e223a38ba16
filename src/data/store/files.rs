//! Files of the data directory: only regular files of ours are opened, and nobody else can read them.
//!
//! Symbolic links, FIFOs and files of other users are refused: in a directory that others could write once, they may be
//! a trap. Files with too open modes are tightened when they are opened. A nameless file cannot be opened by anybody
//! else, and is gone when it is closed. Not for files that an operator names (a bundle, a certificate). Callers:
//! [`super`], [`crate::origin`], [`crate::fleet`], [`crate::server::admin`] for bundles on their way.

use std::fs::{self, File, FileType, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::error::user;
use crate::words::remedy;

/// The owner's mode bits, and those for the user that a file runs as.
const OWNERS: u32 = 0o7700;
pub(super) const ROOT: u32 = 0;

/// Something in the data directory is not opened.
fn refused(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

fn not_regular(what: &str) -> io::Error {
    refused(format!(
        "this is {what}, not a regular file; remove it, or put the file itself here (data_dir as a whole may be a symbolic link)"
    ))
}

/// The name under which a damaged file is kept.
pub(super) fn aside_of(path: &Path) -> PathBuf {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".damaged");
    PathBuf::from(aside)
}

/// Opens a file for reading. Refuses a file that is not regular, or not ours.
pub(crate) fn read(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true))
}

/// Opens a file for reading and writing.
pub(crate) fn edit(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true))
}

/// Opens a file for reading and writing, and creates it if it is missing.
pub(crate) fn edit_or_create(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    open(path, OpenOptions::new().read(true).write(true).create_new(true))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Replaces the content of a file: after a crash it has the old or the new one. If it cannot be written, the file has
/// the old content.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = unfinished(path);
    // A crash may have left this file, or somebody a link in its place: nothing is written through a link.
    remove(&unfinished)?;
    let mut file = create_new(&unfinished)?;
    // Synced before the rename: else a crash could leave the name on an empty file.
    file.write_all(content).and_then(|()| file.sync_data())?;
    put_in_place(path)
}

/// The name of a file until it is complete.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Gives a file that is complete its final name.
pub(super) fn put_in_place(path: &Path) -> io::Result<()> {
    fs::rename(unfinished(path), path)?;
    // The rename is durable once the directory is; not every system can sync a directory.
    if let Some(directory) = path.parent().and_then(|parent| File::open(parent).ok()) {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// Whether this is a regular file, not a link.
pub(crate) fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without NONBLOCK, opening a FIFO waits for a writer.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.mode(0o600).custom_flags(flags).open(path).map_err(|error| explained(error, path))?;
    let meta = file.metadata()?;
    if let Some(what) = no_file(meta.file_type()) {
        return Err(not_regular(what));
    }
    // Compared with the directory: on some network disks all files belong to one unknown user.
    let directory = path.parent().and_then(|parent| fs::metadata(parent).ok());
    let own = geteuid().as_raw();
    if ![own, ROOT].contains(&meta.uid()) && directory.as_ref().is_none_or(|directory| directory.uid() != meta.uid()) {
        return Err(refused(format!(
            "this file belongs to user {}, who neither runs this process nor owns the directory; if it is yours, give it to \
             the owner of the directory (chown), else move it away",
            user(meta.uid())
        )));
    }
    if let Some(directory) = directory.filter(|directory| own == ROOT && meta.uid() == ROOT && directory.uid() != ROOT)
    {
        // Otherwise root's commands would leave files that the server cannot open.
        if let Err(error) = fchown(&file, Some(directory.uid()), Some(directory.gid())) {
            tracing::debug!(path = %path.display(), %error, "a file could not be given to the owner of the directory");
        }
    }
    if is_too_open(&meta) && (own == ROOT || own == meta.uid()) {
        // A read-only disk stays as it is; the directory keeps others out.
        if let Err(error) = file.set_permissions(Permissions::from_mode(meta.mode() & OWNERS)) {
            tracing::debug!(path = %path.display(), %error, "other users can open this file, and this could not be changed");
        }
    }
    Ok(file)
}

/// The same error, or one that says what kind of file it is.
fn explained(error: io::Error, path: &Path) -> io::Error {
    // The name is taken: its kind does not matter.
    if error.kind() == ErrorKind::AlreadyExists {
        return error;
    }
    let found = fs::symlink_metadata(path).ok().and_then(|meta| no_file(meta.file_type()));
    found.map_or(error, not_regular)
}

/// The name of a kind of file that is not regular.
fn no_file(kind: FileType) -> Option<&'static str> {
    match kind {
        _ if kind.is_file() => None,
        _ if kind.is_symlink() => Some("a symbolic link"),
        _ if kind.is_fifo() => Some("a FIFO"),
        _ if kind.is_dir() => Some("a directory"),
        _ if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

fn is_too_open(meta: &Metadata) -> bool {
    meta.mode() & 0o077 != 0
}

/// Creates the data directory with mode 0700. An existing one that other users can enter is closed to them, with a
/// warning.
///
/// It stays as it is, with a warning, if it belongs to another user or contains directories: then it has other
/// purposes, too (`/tmp`, a home).
pub(super) fn prepare_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if !path.exists() => return Err(error),
        _ => {}
    }
    let meta = fs::metadata(path)?;
    if !meta.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    if !is_too_open(&meta) {
        return Ok(());
    }
    let (shown, before) = (path.display(), format!("{:04o}", meta.mode() & 0o7777));
    let own = geteuid().as_raw();
    if own != ROOT && own != meta.uid() {
        let owner = user(meta.uid());
        let what = "the data directory belongs to another user, and other users can enter it";
        tracing::warn!(path = %shown, mode = before, owner, "{what}");
        return Ok(());
    }
    if let Some(other) = other_directory(path) {
        let other = other.display();
        tracing::warn!(
            path = %shown, mode = before, %other,
            "other users can enter the data directory. grandstand does not change this, because the directory contains other directories. Give grandstand a directory of its own"
        );
        return Ok(());
    }
    let mode = meta.mode() & OWNERS;
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Ok(()) => tracing::warn!(
            path = %shown, before, now = format!("{:04o}", mode & 0o7777),
            "other users could enter the data directory; this is now forbidden"
        ),
        Err(error) => {
            tracing::warn!(path = %shown, mode = before, %error, "other users can enter the data directory, and this could not be changed");
        }
    }
    Ok(())
}

/// A directory in this one, other than `lost+found`.
fn other_directory(path: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(path).ok()?.filter_map(Result::ok);
    let mut others =
        entries.filter(|entry| entry.file_name() != "lost+found" && entry.file_type().is_ok_and(|kind| kind.is_dir()));
    others.next().map(|entry| entry.path())
}

/// An empty file for reading and writing without a name: nobody else can open it, and it is gone when it is closed. An
/// error names the directory.
pub(crate) fn nameless(directory: &Path) -> io::Result<File> {
    tempfile::tempfile_in(directory).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}{}", directory.display(), remedy(directory, &error)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    type Opens = fn(&Path) -> io::Result<File>;
    const EACH: [Opens; 4] = [read, edit, edit_or_create, create_new];

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn nothing_but_a_regular_file_is_opened_and_no_link_is_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link, fifo) = (dir.path().join("target"), dir.path().join("link"), dir.path().join("fifo"));
        fs::write(&target, "mine").unwrap();
        symlink(&target, &link).unwrap();
        let (dangling, nowhere) = (dir.path().join("dangling"), dir.path().join("nowhere"));
        symlink(&nowhere, &dangling).unwrap();
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let socket = dir.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let directory = dir.path().join("directory");
        fs::create_dir(&directory).unwrap();
        for (path, what) in [
            (&link, "symbolic link"),
            (&dangling, "symbolic link"),
            (&fifo, "FIFO"),
            (&socket, "socket"),
            (&directory, "directory"),
        ] {
            for opens in &EACH[..3] {
                let refused = opens(path).unwrap_err();
                assert!(refused.to_string().contains(what), "{what}: {refused}");
            }
            assert_eq!(create_new(path).unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert!(!is_file(path));
        }
        assert_eq!((fs::read(&target).unwrap().as_slice(), nowhere.exists()), (&b"mine"[..], false));
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let [path, target] = ["file", "target"].map(|name| dir.path().join(name));
        replace(&path, b"one").unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (&b"one"[..], 0o600));
        // As a crash leaves it, or somebody who could write to the directory once.
        fs::write(unfinished(&path), "half").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), unfinished(&path).exists()), (&b"two"[..], false));
        fs::write(&target, "mine").unwrap();
        for link in [&unfinished(&path), &path] {
            remove(link).unwrap();
            symlink(&target, link).unwrap();
            replace(&path, b"three").unwrap();
            assert!(is_file(&path) && fs::read(&path).unwrap() == b"three" && fs::read(&target).unwrap() == b"mine");
        }
        fs::create_dir(unfinished(&path)).unwrap();
        replace(&path, b"four").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"three");
    }

    #[test]
    fn what_is_created_is_for_its_owner_alone_and_what_was_open_to_others_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let [new, newer, old, read_only] = ["new", "newer", "old", "read-only"].map(|name| dir.path().join(name));
        edit_or_create(&new).unwrap().write_all(b"x").unwrap();
        create_new(&newer).unwrap();
        fs::write(&old, "kept").unwrap();
        set_mode(&old, 0o644);
        fs::write(&read_only, "kept").unwrap();
        set_mode(&read_only, 0o444);
        let mut text = String::new();
        read(&read_only).unwrap().read_to_string(&mut text).unwrap();
        edit(&old).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "keptkept");
        for (path, want) in [(&new, 0o600), (&newer, 0o600), (&old, 0o600), (&read_only, 0o400)] {
            assert_eq!(mode(path), want, "{}", path.display());
        }
    }

    #[test]
    fn a_missing_file_is_still_told_by_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        for opens in &EACH[..2] {
            assert_eq!(opens(&dir.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
        }
    }

    #[test]
    fn a_file_of_a_stranger_is_not_opened_and_roots_files_go_to_the_owner_of_the_directory() {
        if geteuid().as_raw() != ROOT {
            // Only root can create files of other users.
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("budget");
        fs::write(&file, "theirs").unwrap();
        std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
        for opens in &EACH[..3] {
            assert!(opens(&file).unwrap_err().to_string().contains("belongs to user 12345"));
        }
        std::os::unix::fs::chown(dir.path(), Some(12_345), None).unwrap();
        edit(&file).unwrap();
        let new = dir.path().join("new");
        edit_or_create(&new).unwrap();
        assert_eq!(fs::metadata(new).unwrap().uid(), 12_345);
    }

    #[test]
    fn the_directory_is_closed_to_others_unless_it_serves_other_purposes_too() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("above/new"), dir.path().join("old"));
        prepare_directory(&new).unwrap();
        assert_eq!(mode(&new), 0o700);
        fs::create_dir(&old).unwrap();
        for (before, after) in [(0o755, 0o700), (0o555, 0o500), (0o1777, 0o1700), (0o750, 0o700), (0o700, 0o700)] {
            set_mode(&old, before);
            prepare_directory(&old).unwrap();
            assert_eq!(mode(&old), after, "{before:o}");
        }
        fs::create_dir(old.join("lost+found")).unwrap();
        set_mode(&old, 0o755);
        prepare_directory(&old).unwrap();
        assert_eq!(mode(&old), 0o700);
        fs::create_dir(old.join("of-others")).unwrap();
        set_mode(&old, 0o755);
        prepare_directory(&old).unwrap();
        assert_eq!(mode(&old), 0o755);
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert_eq!(prepare_directory(&file).unwrap_err().kind(), ErrorKind::NotADirectory);
    }

    #[test]
    fn a_nameless_file_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = nameless(dir.path()).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(nameless(&dir.path().join("none")).is_err());
    }
}
