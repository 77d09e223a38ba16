//! A view of a file that keeps writes in memory and never changes the file.
//!
//! redb writes to a file that it opens after an unclean stop; a file of a newer format must not be written, and its
//! format is only known once it is open. Callers: [`super::opening`].

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use parking_lot::Mutex;
use redb::StorageBackend;

const PAGE: u64 = 4096;

/// A file, and the writes over it.
#[derive(Debug)]
pub(super) struct Overlay(Mutex<OverlaidFile>);

#[derive(Debug)]
struct OverlaidFile {
    file: File,
    file_len: u64,
    len: u64,
    pages: HashMap<u64, Box<[u8]>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self(Mutex::new(OverlaidFile { file, file_len: len, len, pages: HashMap::new() })))
    }
}

impl OverlaidFile {
    /// Fills `out` from the file, with zeros beyond its end.
    fn read_file(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (inside, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(inside)
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len as u64);
        if end.is_some_and(|end| end <= self.len) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// The pieces of `offset..offset + len` by page: page number, start within the page, start within the range, length.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % PAGE) as usize;
        let piece = (PAGE as usize - start).min(len - done);
        let item = (at / PAGE, start, done, piece);
        done += piece;
        Some(item)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.check(offset, out.len())?;
        inner.read_file(offset, out)?;
        for (page, start, at, len) in pieces(offset, out.len()) {
            if let Some(written) = inner.pages.get(&page) {
                out[at..at + len].copy_from_slice(&written[start..start + len]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.file_len = inner.file_len.min(len);
        inner.pages.retain(|page, _| page * PAGE < len);
        inner.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.0.lock();
        inner.check(offset, data.len())?;
        for (page, start, at, len) in pieces(offset, data.len()) {
            if !inner.pages.contains_key(&page) {
                let mut original = vec![0; PAGE as usize].into_boxed_slice();
                inner.read_file(page * PAGE, &mut original)?;
                inner.pages.insert(page, original);
            }
            if let Some(written) = inner.pages.get_mut(&page) {
                written[start..start + len].copy_from_slice(&data[at..at + len]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_seen_and_leave_no_trace() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, &[7; 5000]).unwrap();
        let overlay = Overlay::new(file.reopen().unwrap()).unwrap();
        overlay.set_len(9000).unwrap();
        overlay.write(4090, &[9; 20]).unwrap();
        let mut out = vec![1; 9000];
        overlay.read(0, &mut out).unwrap();
        let expected: Vec<u8> = [vec![7; 4090], vec![9; 20], vec![7; 890], vec![0; 4000]].concat();
        assert!(out == expected);
        assert!(overlay.read(8999, &mut [0; 2]).is_err());
        assert_eq!(std::fs::read(file.path()).unwrap(), [7; 5000]);
    }
}
