//! Files that an operator names, such as the configuration, secrets, keys, certificates and bundles: only regular files.
//!
//! Not what lies in the data directory ([`crate::data::store`] opens it). Callers: every room that reads such a file.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};

/// The longest configuration file, in bytes.
const MOST_TEXT: u64 = 4 << 20;

/// Opens a regular file for reading.
///
/// A FIFO would be waited for, and a device has no end; both are refused before they are opened. Symbolic links are
/// followed: the path is the operator's.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Before it is opened: opening a device may do something.
    expect_regular(fs::metadata(path)?.file_type())?;
    // And afterwards: another one may have the name by now.
    let file = open_at_once(path)?;
    expect_regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// The text of a configuration at a start: also of a pipe (`--config <(...)`, `/dev/stdin`), to its end.
pub(super) fn configuration(path: &Path) -> io::Result<String> {
    let file = open_at_once(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        // The writer of a pipe may need time.
        fcntl_setfl(&file, OFlags::empty())?;
    }
    let mut text = String::new();
    file.take(MOST_TEXT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_TEXT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 4 MiB"));
    }
    if kind.is_fifo() && text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "this is a FIFO, and nobody writes to it"));
    }
    Ok(text)
}

/// Without waiting for the writer of a FIFO.
fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
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
