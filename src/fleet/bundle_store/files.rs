//! Objects of a store of files: written whole or not at all, and readable by others, whatever the umask, before they have
//! their names. A web server may hand them to replicas.
//!
//! Blocks. Callers: [`super`]; the library reads, lists and removes.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::geteuid;

/// Writes all of `from` to a path. `is_new`: fails if there is one of that name.
pub(super) fn write(path: &Path, mut from: impl Read, is_new: bool) -> io::Result<()> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = u64::from(std::process::id()) << 32 | u64::from(COUNT.fetch_add(1, Ordering::Relaxed));
    let directory = path.parent().unwrap_or(path);
    make(directory)?;
    open_to_others(directory, 0o055);
    let mut unfinished = path.as_os_str().to_owned();
    // No list shows it.
    unfinished.push(format!("#{number}"));
    let unfinished = Path::new(&unfinished);
    let written = File::options().write(true).create_new(true).open(unfinished).and_then(|mut file| {
        file.set_permissions(Permissions::from_mode(0o644))?;
        io::copy(&mut from, &mut file)?;
        // Before it has its name: after a crash, no name stands for half an object.
        file.sync_all()?;
        if is_new { fs::hard_link(unfinished, path) } else { fs::rename(unfinished, path) }
    });
    if is_new || written.is_err() {
        // The first failure is reported.
        let _ = fs::remove_file(unfinished);
    }
    // The name, too, is durable before a head says it.
    written.and_then(|()| File::open(directory)?.sync_all())
}

/// Gives others these permissions on a file or directory of this user, if they lack them: an earlier version, or a
/// process that was killed, left it so.
pub(super) fn open_to_others(path: &Path, permissions: u32) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    let is_ours = meta.uid() == geteuid().as_raw() && !meta.is_symlink();
    if is_ours && meta.mode() & permissions != permissions {
        // If it cannot be done, the object is written all the same.
        let _ = fs::set_permissions(path, Permissions::from_mode(meta.mode() & 0o7777 | permissions));
    }
}

/// Makes a directory and those above it. Others can enter the new ones.
fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make(directory.parent().ok_or(error)?)?;
            make(directory)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
