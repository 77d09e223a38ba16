//! Files in the data directory without a name: nobody else can open them, and they are gone when they are closed.
//!
//! Callers: [`crate::admin`] for bundles on their way, [`crate::dumps`].

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files;

/// What the name of a bundle begins with, in the instant in which it has one.
pub(crate) const BUNDLE: &str = "bundle-";
/// What the name of a dump begins with.
pub(crate) const DUMP: &str = "dump-";

const END: &str = ".tmp";

/// An empty file for reading and writing.
///
/// # Errors
/// When it cannot be created; the error names its path.
pub(crate) fn create(directory: &Path, prefix: &str) -> io::Result<File> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("{prefix}{}-{number}{END}", std::process::id()));
    let file = files::create_new(&path);
    let file = file.and_then(|file| std::fs::remove_file(&path).map(|()| file));
    file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Removes what a process left that was killed before its file had lost its name. The data directory has to be this
/// process's own.
///
/// # Errors
/// When the directory cannot be read, or a file not be removed.
pub(crate) fn sweep(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| {
            let rest = [BUNDLE, DUMP].into_iter().find_map(|prefix| name.strip_prefix(prefix))?;
            rest.strip_suffix(END)
        });
        if numbers.is_some_and(|numbers| numbers.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_nameless_file_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = create(dir.path(), DUMP).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(create(&dir.path().join("none"), DUMP).is_err());
    }

    #[test]
    fn what_a_killed_process_left_is_swept_up_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["bundle-1-0.tmp", "dump-77-12.tmp", "bundle-mine.tmp", "bundle-1-0.gsb", "dump-1.csv", "LOCK"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        sweep(dir.path()).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["LOCK", "bundle-1-0.gsb", "bundle-mine.tmp", "dump-1.csv"]);
        assert!(sweep(&dir.path().join("none")).is_err());
    }
}
