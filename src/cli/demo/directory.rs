//! The data directory of a demo: for its user alone, below the directory for temporary files.
//!
//! Its name is predictable, so that the next demo on the same port finds and empties it. If another user has put
//! something there (a link, a directory), that is left alone, and a random name is used. The data stays after the end,
//! so that `serve` can use it. Callers: [`super`].

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::store::DataDir;

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;

/// Why there is no directory.
#[derive(Debug, thiserror::Error)]
pub(super) enum DirectoryError {
    #[error(
        "other users can replace what is in {}: set TMPDIR to a directory that only you can write to, or use --set data_dir=DIR",
        .0.display()
    )]
    Open(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The directory for a demo on this port. It may not exist yet.
///
/// # Errors
/// When `below` cannot be looked at, or others could replace what is in it.
pub(super) fn choose(below: &Path, port: u16) -> Result<PathBuf, DirectoryError> {
    let meta = fs::metadata(below).map_err(|source| DirectoryError::Io { path: below.to_owned(), source })?;
    let is_trusted = [geteuid().as_raw(), ROOT].contains(&meta.uid());
    if !is_trusted || (meta.mode() & OTHERS_WRITE != 0 && meta.mode() & STICKY == 0) {
        return Err(DirectoryError::Open(below.to_owned()));
    }
    let path = below.join(format!("grandstand-demo-{port}"));
    // This process has the port; but a demo in a container may have the same one.
    let is_free = is_own(&path) && DataDir::holder(&path).is_none();
    if is_free || fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(path);
    }
    Ok(below.join(format!("grandstand-demo-{port}-{:016x}", rand::random::<u64>())))
}

/// Makes the directory, empty and for this user alone.
///
/// # Errors
/// When that fails, also because another process was quicker.
pub(super) fn make(path: &Path) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Io { path: path.to_owned(), source };
    if is_own(path) {
        fs::remove_dir_all(path).map_err(failed)?;
    }
    DirBuilder::new().mode(0o700).create(path).map_err(failed)
}

/// Whether this is a directory of this user, and not a link. Then no other user can replace it.
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_an_earlier_demonstration_left_is_replaced_by_a_directory_for_the_user_alone() {
        let below = tempfile::tempdir().unwrap();
        set_mode(below.path(), 0o1777);
        let path = choose(below.path(), 7).unwrap();
        assert_eq!(path, below.path().join("grandstand-demo-7"));
        make(&path).unwrap();
        fs::write(path.join("left"), "x").unwrap();
        set_mode(&path, 0o755);
        assert_eq!(choose(below.path(), 7).unwrap(), path);
        make(&path).unwrap();
        assert_eq!((mode(&path), fs::read_dir(&path).unwrap().count()), (0o700, 0));
        let _holder = DataDir::open(&path).unwrap();
        assert_ne!(choose(below.path(), 7).unwrap(), path, "another demonstration is at work there");
    }

    #[test]
    fn what_somebody_else_put_there_is_left_alone() {
        let (below, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(target.path().join("mine"), "x").unwrap();
        let foreseen = below.path().join("grandstand-demo-7");
        symlink(target.path(), &foreseen).unwrap();
        let other = choose(below.path(), 7).unwrap();
        assert!(other != foreseen && other != choose(below.path(), 7).unwrap(), "{}", other.display());
        make(&other).unwrap();
        assert!(make(&foreseen).is_err() && target.path().join("mine").exists());
        fs::remove_file(&foreseen).unwrap();
        fs::write(&foreseen, "x").unwrap();
        assert!(choose(below.path(), 7).unwrap() != foreseen && make(&foreseen).is_err());
        // Only root can make directories of others.
        if geteuid().is_root() {
            fs::remove_file(&foreseen).unwrap();
            fs::create_dir(&foreseen).unwrap();
            chown(&foreseen, Some(12_345), None).unwrap();
            assert!(choose(below.path(), 7).unwrap() != foreseen && make(&foreseen).is_err());
        }
    }

    #[test]
    fn a_directory_in_which_others_could_replace_it_is_refused() {
        let below = tempfile::tempdir().unwrap();
        set_mode(below.path(), 0o777);
        let refused = choose(below.path(), 7).unwrap_err().to_string();
        assert!(refused.contains("TMPDIR") && refused.contains(&below.path().display().to_string()), "{refused}");
        set_mode(below.path(), 0o755);
        choose(below.path(), 7).unwrap();
        if geteuid().is_root() {
            chown(below.path(), Some(12_345), None).unwrap();
            assert!(choose(below.path(), 7).is_err());
        }
        assert!(choose(&below.path().join("none"), 7).is_err());
    }
}
