//! The file under redb, with a checksum on every page: redb never sees a byte that it did not write.
//!
//! redb verifies pages only when it repairs a file. On damaged pages it panics, in places twice, which ends the
//! process. So pages are verified here when they are read, and damage becomes an I/O error, which redb handles.
//!
//! Layout: redb's page 0, its header, as it is (it is written in place, and redb guards it with two slots and
//! checksums); then per page of 4096 bytes its checksum, bound to the page's number, and the page. redb never writes over
//! a page in use, so a crash between the two halves of a write hurts nothing. A page that was never written is all zero.
//!
//! Not a lock: [`super::data_dir`] has it. Callers: [`super::opening`].

use std::io;
use std::ops::Bound;

use redb::{BackendError, StorageBackend};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const PAGE: u64 = 4096;
const SUM: u64 = 8;
const SLOT: u64 = SUM + PAGE;
/// Pages that are read or written at once: a value of many MiB has as many pages.
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

    // Places beyond any page: redb keeps other processes out with them, where the file can be locked.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
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
}
