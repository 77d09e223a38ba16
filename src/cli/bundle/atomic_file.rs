//! Atomic files: they get their names when they are complete, and are removed otherwise, also on signals.
//!
//! It does not know bundles. Callers: [`super::export`].

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Once, mpsc};

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;

use crate::cli::FileError;
use crate::tasks::threads;

#[derive(Debug, thiserror::Error)]
pub(super) enum UnfinishedError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not a regular file; choose another name for the bundle", .0.display())]
    NoFile(PathBuf),
}

/// The files to remove on a signal.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn forget(path: &Path) {
    UNFINISHED.lock().retain(|other| other != path);
}

/// Removes a file, if there is one.
pub(super) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(FileError::at(path)(error)),
        _ => Ok(()),
    }
}

/// Whether this process was started with a signal ignored, as by `nohup`. Linux only.
fn is_ignored(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// From now on, a signal removes unfinished files before the process ends.
fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        let (ready, is_ready) = mpsc::channel();
        let _refused = threads::spawn("signals", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            let ended = runtime.block_on(async {
                let (numbers, mut told) = unbounded_channel();
                for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
                    let (number, numbers) = (kind.as_raw_value(), numbers.clone());
                    if !is_ignored(number) {
                        let mut signal = signal(kind)?;
                        tokio::spawn(async move { signal.recv().await.map(|()| numbers.send(number)) });
                    }
                }
                let _ = ready.send(());
                told.recv().await.ok_or(io::Error::from(ErrorKind::Unsupported))
            });
            if let Ok::<i32, io::Error>(number) = ended {
                // Held, so that nothing is added.
                let unfinished = UNFINISHED.lock();
                unfinished.iter().for_each(|path| drop(fs::remove_file(path)));
                std::process::exit(128 + number);
            }
        });
        // It also returns if there is no thread, or it cannot listen to signals.
        let _ = is_ready.recv();
    });
}

/// A file that gets its name when it is complete, and is removed otherwise.
pub(super) struct AtomicFile {
    file: File,
    path: PathBuf,
    name: PathBuf,
}

impl AtomicFile {
    /// A file beside its final name. A device or a directory is not replaced; of a link the target is replaced.
    pub(super) fn beside(name: &Path) -> Result<Self, UnfinishedError> {
        let is_link = fs::symlink_metadata(name).is_ok_and(|meta| meta.is_symlink());
        let name = if is_link { fs::canonicalize(name).map_err(FileError::at(name))? } else { name.to_owned() };
        if fs::metadata(&name).is_ok_and(|meta| !meta.is_file()) {
            return Err(UnfinishedError::NoFile(name));
        }
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(path);
        // A killed process with this number may have left one, and a foreign link must not be followed.
        remove(&path)?;
        watch();
        // Listed before it is there: a signal in between finds nothing to remove, and leaves nothing behind.
        UNFINISHED.lock().push(path.clone());
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        // The requested name is the better message.
        let file = file.map_err(FileError::at(&name)).inspect_err(|_| forget(&path))?;
        Ok(Self { file, path, name })
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// The same bytes from the start.
    pub(super) fn again(&self) -> Result<File, FileError> {
        File::open(&self.path).map_err(FileError::at(&self.path))
    }

    /// Gives it its name; returns its length.
    pub(super) fn finish(self) -> Result<u64, FileError> {
        // The content in front of the name: after a crash the name must not stand for less than all of it.
        let bytes = self.file.sync_all().and_then(|()| self.file.metadata()).map(|meta| meta.len());
        let bytes = bytes.and_then(|bytes| fs::rename(&self.path, &self.name).map(|()| bytes));
        // The name is durable once the directory is; not every system can sync one.
        let directory = self.name.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(directory) = File::open(directory) {
            let _ = directory.sync_all();
        }
        bytes.map_err(FileError::at(&self.name))
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // Absent if it was finished.
        let _ = fs::remove_file(&self.path);
        forget(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_leaves_nothing_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("b.gsb");
        fs::write(&name, "old").unwrap();
        drop(AtomicFile::beside(&name).unwrap());
        assert_eq!((fs::read(&name).unwrap().as_slice(), fs::read_dir(dir.path()).unwrap().count()), (&b"old"[..], 1));
        let mut unfinished = AtomicFile::beside(&name).unwrap();
        unfinished.file().write_all(b"new").unwrap();
        assert_eq!(unfinished.finish().unwrap(), 3);
        assert_eq!((fs::read(&name).unwrap().as_slice(), fs::read_dir(dir.path()).unwrap().count()), (&b"new"[..], 1));
        assert!(UNFINISHED.lock().iter().all(|path| !path.starts_with(dir.path())));
    }

    #[test]
    fn what_is_no_file_is_not_replaced_and_a_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("elsewhere.gsb"), dir.path().join("b.gsb"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut unfinished = AtomicFile::beside(&link).unwrap();
        unfinished.file().write_all(b"new").unwrap();
        unfinished.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(matches!(AtomicFile::beside(Path::new("/dev/null")), Err(UnfinishedError::NoFile(_))));
        assert!(matches!(AtomicFile::beside(dir.path()), Err(UnfinishedError::NoFile(_))));
        let told = AtomicFile::beside(&dir.path().join("none/b.gsb")).err().unwrap().to_string();
        assert!(told.contains("none/b.gsb: ") && told.contains("/none does not exist: create it"), "{told}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
