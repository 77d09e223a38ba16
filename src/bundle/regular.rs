//! Opening a file by the path that an operator gave: regular files only.
//!
//! A FIFO would be waited for, and a device has no end; both are refused before they are opened. Symbolic links are
//! followed: the path is the operator's. Not for what lies in the data directory ([`crate::store`]). Callers:
//! [`super::trust`], [`super::signature`].

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file for reading.
///
/// # Errors
/// When there is none, it is something else, or it cannot be opened.
pub(super) fn open(path: &Path) -> io::Result<File> {
    // Before it is opened: opening a device may do something.
    expect_regular(fs::metadata(path)?.file_type())?;
    // And afterwards: another one may have the name by now.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    expect_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn expect_regular(kind: FileType) -> io::Result<()> {
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("this is {what}, and a regular file is needed")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_a_regular_file_is_opened_by_whatever_links() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, fifo, socket, none] =
            ["file", "link", "fifo", "socket", "none"].map(|name| dir.path().join(name));
        fs::write(&file, "x").unwrap();
        symlink(&file, &link).unwrap();
        open(&link).unwrap();
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, what) in [
            (dir.path(), "a directory"),
            (&fifo, "a FIFO"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let refused = open(path).unwrap_err().to_string();
            assert!(refused.contains(what), "{what}: {refused}");
        }
        assert_eq!(open(&none).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
