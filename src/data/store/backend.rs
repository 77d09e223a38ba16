//! The two layers between redb and the file: a checksum on every page, and a view that never writes.
//!
//! redb verifies pages only when it repairs a file. On damaged pages it panics, in places twice, which ends the
//! process. So [`Checked`] verifies pages when they are read, and damage becomes an I/O error, which redb handles.
//!
//! Its layout: redb's page 0, its header, as it is (it is written in place, and redb guards it with two slots and
//! checksums); then per page of 4096 bytes its checksum, bound to the page's number, and the page. redb never writes over
//! a page in use, so a crash between the two halves of a write hurts nothing. A page that was never written is all zero.
//!
//! redb writes to a file that it opens after an unclean stop; a file of another format must not be written, and its
//! format is only known once it is open. [`Overlay`] keeps such writes in memory.
//!
//! Neither is a lock for redb, which is content: [`super::data_dir`] keeps other processes out. Callers:
//! [`super::database`].

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use parking_lot::Mutex;
use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const PAGE: u64 = 4096;
const SUM: u64 = 8;
const SLOT: u64 = SUM + PAGE;
/// Pages that are read or written at once: a value of many MiB has as many pages, and a buffer takes 1 MiB at most.
const AT_ONCE: usize = 256;

/// A file whose pages are verified as they are read.
#[derive(Debug)]
pub(super) struct Checked<B>(pub B);

/// Where a page's checksum lies in the file; for page 0, the page.
const fn place(page: u64) -> u64 {
    (page * SLOT).saturating_sub(SUM)
}

fn checksum(page: u64, bytes: &[u8]) -> [u8; SUM as usize] {
    xxh3_64_with_seed(bytes, page).to_le_bytes()
}

fn invalid(what: &str, page: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} of page {page}"))
}

impl<B: StorageBackend> Checked<B> {
    /// Reads whole pages from `first`, which is not 0, into `out`.
    fn read_pages(&self, first: u64, out: &mut [u8]) -> io::Result<()> {
        let pages = out.len() / PAGE as usize;
        let mut slots = vec![0; pages.min(AT_ONCE) * SLOT as usize];
        for (first, out) in (first..).step_by(AT_ONCE).zip(out.chunks_mut(AT_ONCE * PAGE as usize)) {
            let slots = &mut slots[..out.len() / PAGE as usize * SLOT as usize];
            self.0.read(place(first), slots)?;
            let slots = slots.chunks_exact(SLOT as usize);
            for ((page, slot), out) in (first..).zip(slots).zip(out.chunks_exact_mut(PAGE as usize)) {
                let (sum, bytes) = slot.split_at(SUM as usize);
                if *sum != checksum(page, bytes) && slot.iter().any(|byte| *byte != 0) {
                    return Err(invalid("its checksum is wrong", page));
                }
                out.copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

impl<B: StorageBackend> StorageBackend for Checked<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len().map(|len| if len == 0 { 0 } else { (len + SUM) / SLOT * PAGE })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset < PAGE {
            let header = out.len().min((PAGE - offset) as usize);
            let (header, rest) = out.split_at_mut(header);
            self.0.read(offset, header)?;
            return if rest.is_empty() { Ok(()) } else { self.read(PAGE, rest) };
        }
        let (first, skipped) = (offset / PAGE, (offset % PAGE) as usize);
        if skipped == 0 && out.len().is_multiple_of(PAGE as usize) {
            return self.read_pages(first, out);
        }
        let mut pages = vec![0; (skipped + out.len()).next_multiple_of(PAGE as usize)];
        self.read_pages(first, &mut pages)?;
        out.copy_from_slice(&pages[skipped..skipped + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if !len.is_multiple_of(PAGE) {
            return Err(invalid("length in the middle", len / PAGE));
        }
        self.0.set_len(place(len / PAGE))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset < PAGE {
            let (header, rest) = data.split_at(data.len().min((PAGE - offset) as usize));
            self.0.write(offset, header)?;
            return if rest.is_empty() { Ok(()) } else { self.write(PAGE, rest) };
        }
        let first = offset / PAGE;
        if !offset.is_multiple_of(PAGE) || !data.len().is_multiple_of(PAGE as usize) {
            // redb writes whole pages only.
            return Err(invalid("write of a part", first));
        }
        let mut slots = Vec::with_capacity((data.len() / PAGE as usize).min(AT_ONCE) * SLOT as usize);
        for (first, data) in (first..).step_by(AT_ONCE).zip(data.chunks(AT_ONCE * PAGE as usize)) {
            slots.clear();
            for (page, bytes) in (first..).zip(data.chunks_exact(PAGE as usize)) {
                slots.extend_from_slice(&checksum(page, bytes));
                slots.extend_from_slice(bytes);
            }
            self.0.write(place(first), &slots)?;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

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
    fn read_file(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (inside, beyond) = out.split_at_mut(there);
        beyond.fill(0);
        self.file.read_exact_at(inside, offset)
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len as u64);
        if end.is_some_and(|end| end <= self.len) { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// The pieces of `offset..offset + len` by page: its number, where the piece begins in it, and the piece within the range.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let end = offset + len as u64;
    (offset / PAGE..end.div_ceil(PAGE)).map(move |page| {
        let (from, to) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
        (page, (from - page * PAGE) as usize, (from - offset) as usize..(to - offset) as usize)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.0.lock();
        // The file is read under the lock: readers of such a view take turns.
        inner.check(offset, out.len())?;
        inner.read_file(offset, out)?;
        for (page, start, piece) in pieces(offset, out.len()) {
            if let Some(written) = inner.pages.get(&page) {
                out[piece.clone()].copy_from_slice(&written[start..start + piece.len()]);
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
        for (page, start, piece) in pieces(offset, data.len()) {
            if !inner.pages.contains_key(&page) {
                let mut original = vec![0; PAGE as usize].into_boxed_slice();
                inner.read_file(page * PAGE, &mut original)?;
                inner.pages.insert(page, original);
            }
            if let Some(written) = inner.pages.get_mut(&page) {
                written[start..start + piece.len()].copy_from_slice(&data[piece]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redb::backends::InMemoryBackend;

    #[test]
    fn pages_come_back_and_damage_is_an_error() {
        let file = Checked(InMemoryBackend::new());
        assert_eq!(file.len().unwrap(), 0);
        file.set_len(5 * PAGE).unwrap();
        assert_eq!(file.len().unwrap(), 5 * PAGE);
        let data: Vec<u8> = (0..3 * PAGE).map(|n| (n % 251) as u8).collect();
        file.write(PAGE, &data).unwrap();
        file.write(7, b"header").unwrap();
        let mut out = vec![9; 5 * PAGE as usize];
        file.read(0, &mut out).unwrap();
        assert_eq!(out[7..13], *b"header");
        assert!(
            out[PAGE as usize..4 * PAGE as usize] == data && out[4 * PAGE as usize..].iter().all(|byte| *byte == 0)
        );
        let mut part = [0; 5000];
        file.read(PAGE + 4000, &mut part).unwrap();
        assert!(part == data[4000..9000]);
        assert!(file.write(PAGE + 1, &[0; 4]).is_err() && file.set_len(PAGE + 1).is_err());
        assert!(file.read(4 * PAGE, &mut part).is_err(), "beyond the end");

        // More than is read and written at once.
        let large: Vec<u8> = (0..(2 * AT_ONCE as u64 + 3) * PAGE).map(|n| (n % 253) as u8).collect();
        file.set_len(large.len() as u64 + 9 * PAGE).unwrap();
        file.write(6 * PAGE, &large).unwrap();
        let mut read = vec![0; large.len() + PAGE as usize];
        file.read(6 * PAGE, &mut read).unwrap();
        assert!(read[..large.len()] == large && read[large.len()..].iter().all(|byte| *byte == 0));

        file.0.write(place(2) + 100, &[0xff]).unwrap();
        assert!(file.read(PAGE, &mut part[..4096]).is_ok());
        assert_eq!(file.read(2 * PAGE, &mut part[..4096]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // A page in another's place is damage too.
        let mut slot = vec![0; SLOT as usize];
        file.0.read(place(3), &mut slot).unwrap();
        file.0.write(place(1), &slot).unwrap();
        assert!(file.read(PAGE, &mut part[..4096]).is_err());
    }

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
