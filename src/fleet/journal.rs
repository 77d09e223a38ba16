//! The journal of changes as a file of the object store: see *The journal* in [the format](super).
//!
//! Pure. Callers: publisher and replica.

use crate::snapshot::content::SnapshotId;
use crate::snapshot::journal::{BadEntry, Entry, Journal, MAX_WEIGHT};

const MAGIC: [u8; 8] = *b"\x89GSJ\r\n\x1a\n";
const FORMAT: u16 = 1;
/// Magic, format number and length.
const BEGINNING: usize = 14;
/// The longest frame, unpacked.
const MOST_RAW: usize = 32 << 20;
/// The longest file: zstd makes nothing longer by more than this.
pub(crate) const MOST_BYTES: u64 = (MOST_RAW + (MOST_RAW >> 7) + 1024) as u64;
/// zstd's level: snapshot ids do not compress.
const LEVEL: i32 = 3;

/// Why bytes are no journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadJournal {
    /// It does not begin like one.
    #[error("the journal does not begin like a journal")]
    Magic,
    /// Another format.
    #[error("the journal has format {0}, which this version does not know")]
    Format(u16),
    /// It cannot be decompressed, or would be too large.
    #[error("the journal cannot be decompressed")]
    Packed,
    /// It ends within an entry.
    #[error("the journal has the wrong length")]
    Length,
    /// It has more than a journal may have.
    #[error("the journal has too many entries")]
    TooLarge,
    /// An entry cannot be read.
    #[error(transparent)]
    Entry(#[from] BadEntry),
    /// It leads to another snapshot.
    #[error("the journal ends with another snapshot")]
    End,
}

/// The file of a journal, up to its last entry that leads to the `current` snapshot; later ones are not visible yet.
/// Without such an entry it is empty.
pub(crate) fn encode(journal: &Journal, current: &SnapshotId) -> Vec<u8> {
    let end = journal.entries().collect::<Vec<_>>().iter().rposition(|entry| entry.to == *current);
    let entries: Vec<Vec<u8>> = journal.entries().take(end.map_or(0, |end| end + 1)).map(Entry::encode).collect();
    // Without the oldest entries it still fits.
    let mut room = MOST_RAW;
    let fits = entries.iter().rev().take_while(|entry| {
        let left = room.checked_sub(entry.len() + 4);
        room = left.unwrap_or(0);
        left.is_some()
    });
    let mut raw = Vec::new();
    for entry in &entries[entries.len() - fits.count()..] {
        raw.extend_from_slice(&(entry.len() as u32).to_le_bytes());
        raw.extend_from_slice(entry);
    }
    let mut file = Vec::with_capacity(BEGINNING + raw.len() / 2);
    file.extend_from_slice(&MAGIC);
    file.extend_from_slice(&FORMAT.to_le_bytes());
    file.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    // Compression into memory cannot fail.
    file.extend_from_slice(&zstd::bulk::compress(&raw, LEVEL).unwrap_or_default());
    file
}

/// Reads the output of [`encode`] for the same snapshot. Safe for any bytes.
///
/// # Errors
/// For anything else; see [`BadJournal`].
pub(crate) fn decode(file: &[u8], current: &SnapshotId) -> Result<Journal, BadJournal> {
    let (magic, rest) = file.split_first_chunk::<8>().ok_or(BadJournal::Magic)?;
    if *magic != MAGIC {
        return Err(BadJournal::Magic);
    }
    let (format, rest) = rest.split_first_chunk::<2>().ok_or(BadJournal::Length)?;
    let format = u16::from_le_bytes(*format);
    if format != FORMAT {
        return Err(BadJournal::Format(format));
    }
    let (length, frame) = rest.split_first_chunk::<4>().ok_or(BadJournal::Length)?;
    let length = u32::from_le_bytes(*length) as usize;
    let claimed = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    if length > MOST_RAW || claimed != Some(length as u64) {
        return Err(BadJournal::Packed);
    }
    let raw = zstd::bulk::decompress(frame, length).map_err(|_| BadJournal::Packed)?;
    let (mut rest, mut entries, mut weight) = (&raw[..], Vec::new(), 0);
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<4>().ok_or(BadJournal::Length)?;
        let (entry, tail) = tail.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(BadJournal::Length)?;
        let entry = Entry::decode(entry)?;
        weight += entry.weight();
        if weight > MAX_WEIGHT {
            return Err(BadJournal::TooLarge);
        }
        entries.push(entry);
        rest = tail;
    }
    if entries.last().is_some_and(|last| last.to != *current) {
        return Err(BadJournal::End);
    }
    Ok(Journal::new(entries))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::listing::ListingId;

    fn id(n: u64) -> SnapshotId {
        SnapshotId::parse(&format!("{n:032x}")).unwrap()
    }

    fn entry(from: u64, to: u64, changed: &[u64]) -> Entry {
        let changed = changed.iter().copied().map(ListingId).collect();
        Entry { from: id(from), to: id(to), at_ms: 77, added: Vec::new(), changed, removed: vec![ListingId(9)] }
    }

    #[test]
    fn a_journal_travels_up_to_the_current_snapshot() {
        let journal = Journal::new([entry(1, 2, &[5]), entry(2, 3, &[6, 7]), entry(3, 1, &[])]);
        for (current, entries) in [(1, 3), (3, 2), (2, 1), (4, 0)] {
            let file = encode(&journal, &id(current));
            let read = decode(&file, &id(current)).unwrap();
            assert_eq!(read.len(), entries, "{current}");
            assert!(read.entries().zip(journal.entries()).all(|(read, own)| read == own));
            assert_eq!(read.since(&format!("{:032x}", 1), id(current).as_str()).is_some(), entries > 0);
        }
        assert_eq!(decode(&encode(&journal, &id(3)), &id(2)).unwrap_err(), BadJournal::End);
    }

    #[test]
    fn an_altered_journal_is_refused_or_reads_as_another_one() {
        let file = encode(&Journal::new([entry(1, 2, &[5]), entry(2, 3, &[6, 7])]), &id(3));
        for length in 0..file.len() {
            assert!(decode(&file[..length], &id(3)).is_err(), "{length}");
        }
        let with = |at: usize, byte: u8| {
            let mut file = file.clone();
            file[at] = byte;
            decode(&file, &id(3)).unwrap_err()
        };
        assert_eq!(with(0, 0x88), BadJournal::Magic);
        assert_eq!(with(8, 2), BadJournal::Format(2));
        assert_eq!(with(13, 0xff), BadJournal::Packed);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_journal_or_not(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), begins in any::<bool>()
        ) {
            if begins {
                bytes.splice(0..0, [&MAGIC[..], &FORMAT.to_le_bytes()].concat());
            }
            let _ = decode(&bytes, &id(1));
        }

        #[test]
        fn a_journal_with_any_altered_byte_does_no_harm(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut file = encode(&Journal::new([entry(1, 2, &[5]), entry(2, 3, &[6, 7])]), &id(3));
            let at = at.index(file.len());
            file[at] = byte;
            let _ = decode(&file, &id(3));
        }
    }
}
