//! Reads a bundle part by part: each is verified before it is used.
//!
//! Callers check the contents: `open` for the whole, `details` for the second reading.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use bytes::Bytes;

use super::error::BundleError;
use super::frame::{self, Unpacker};
use super::part::{self, Digest, HEAD_LEN, Head, Kind, PartPosition, START_LEN};
use super::{FORMAT, MAGIC, held, most_unpacked};

/// A verified, decompressed part.
pub(super) struct Part {
    pub at: PartPosition,
    pub hash: Digest,
    pub raw: Bytes,
}

impl Part {
    pub(super) fn malformed(&self, what: impl Into<String>) -> BundleError {
        BundleError::Malformed { at: self.at, what: what.into() }
    }
}

/// Reads parts in turn.
pub(super) struct PartReader<R> {
    file: R,
    format: u16,
    length: u64,
    offset: u64,
    chain: Digest,
    parts: u32,
    raw: u64,
    /// Bytes in memory so far.
    held: u64,
    /// The head of the next part, if already read.
    ahead: Option<Head>,
    unpacker: Unpacker,
    /// The hash of all bytes read.
    whole: blake3::Hasher,
}

impl<R: Read + Seek> PartReader<R> {
    /// Reads the start of a file.
    pub(super) fn begin(mut file: R) -> Result<Self, BundleError> {
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut start = [0; START_LEN];
        let there = usize::try_from(length).unwrap_or(START_LEN).min(START_LEN);
        file.read_exact(&mut start[..there])?;
        let format = check_start(&start[..there], length)?;
        let mut whole = blake3::Hasher::new();
        whole.update(&start);
        let (offset, chain) = (START_LEN as u64, part::first(format));
        Ok(Self {
            file,
            format,
            length,
            offset,
            chain,
            parts: 0,
            raw: 0,
            held: 0,
            ahead: None,
            unpacker: Unpacker::new()?,
            whole,
        })
    }
}

/// Checks the first bytes of a file, even if only a few arrived.
///
/// # Errors
/// When a readable bundle cannot begin so.
pub(crate) fn check_beginning(bytes: &[u8]) -> Result<(), BundleError> {
    match check_start(&bytes[..bytes.len().min(START_LEN)], bytes.len() as u64) {
        Err(BundleError::Empty | BundleError::Ends { .. }) => Ok(()),
        judged => judged.map(drop),
    }
}

/// The format of a file that begins so.
fn check_start(start: &[u8], length: u64) -> Result<u16, BundleError> {
    if start.is_empty() {
        return Err(BundleError::Empty);
    }
    let magic = &start[..start.len().min(MAGIC.len())];
    if !MAGIC.starts_with(magic) {
        // Line ends converted, the eighth bit dropped, or decoded as text and encoded again.
        let text_mode = [b"\x89GSB".as_slice(), b"\tGSB", b"\xc2\x89GSB", b"\xef\xbf\xbdGSB"];
        return Err(if text_mode.iter().any(|start| magic.starts_with(start)) {
            BundleError::TextMode
        } else {
            BundleError::NotABundle
        });
    }
    let Some((_, version)) = start.split_last_chunk::<2>().filter(|_| start.len() == START_LEN) else {
        return Err(BundleError::Ends { length, after: 0, wanted: "the format number" });
    };
    match u16::from_le_bytes(*version) {
        format @ 1..=FORMAT => Ok(format),
        found => Err(BundleError::Version { found }),
    }
}

impl<R: Read> PartReader<R> {
    /// The next part, which must be of that kind.
    pub(super) fn one(&mut self, wanted: Kind) -> Result<Part, BundleError> {
        match self.another(wanted)? {
            Some(part) => Ok(part),
            None => Err(match self.ahead.and_then(|head| Kind::of(head.kind)) {
                Some(kind) => BundleError::Unexpected { at: self.at(kind), wanted },
                None => BundleError::Ends { length: self.length, after: self.parts, wanted: wanted.as_str() },
            }),
        }
    }

    /// The next part if it is of that kind.
    pub(super) fn another(&mut self, wanted: Kind) -> Result<Option<Part>, BundleError> {
        let head = match self.ahead {
            Some(head) => head,
            None => self.head(wanted)?,
        };
        self.ahead = Some(head);
        let offset = self.offset;
        let kind =
            Kind::of(head.kind).ok_or(BundleError::UnknownKind { part: self.parts + 1, offset, kind: head.kind })?;
        if kind != wanted {
            return Ok(None);
        }
        let part = self.body(self.at(kind), head)?;
        self.ahead = None;
        Ok(Some(part))
    }

    /// The format of the file.
    pub(super) const fn format(&self) -> u16 {
        self.format
    }

    /// Progress: bytes done, and in all.
    pub(super) const fn progress(&self) -> (u64, u64) {
        (self.offset, self.length)
    }

    /// The hash of the last part.
    pub(super) const fn chain(&self) -> Digest {
        self.chain
    }

    /// The number of parts read, and their raw length.
    pub(super) const fn totals(&self) -> (u32, u64) {
        (self.parts, self.raw)
    }

    /// Checks that the file ends here; the hash of the whole file.
    pub(super) fn end(mut self) -> Result<blake3::Hash, BundleError> {
        let more = self.file.read(&mut [0])? > 0;
        if self.offset == self.length && !more {
            return Ok(self.whole.finalize());
        }
        Err(BundleError::Trailing { end: self.offset, length: self.length.max(self.offset + 1) })
    }

    /// Counts memory before it is used.
    pub(super) fn hold(&mut self, at: PartPosition, bytes: u64) -> Result<(), BundleError> {
        self.held = self.held.saturating_add(bytes);
        let most = held::most(self.length);
        if self.held > most { Err(BundleError::Heavy { at, most }) } else { Ok(()) }
    }

    const fn at(&self, kind: Kind) -> PartPosition {
        PartPosition { part: self.parts + 1, kind, offset: self.offset }
    }

    const fn left(&self) -> u64 {
        self.length.saturating_sub(self.offset)
    }

    fn head(&mut self, wanted: Kind) -> Result<Head, BundleError> {
        if self.left() < HEAD_LEN as u64 {
            return Err(BundleError::Ends { length: self.length, after: self.parts, wanted: wanted.as_str() });
        }
        let mut bytes = [0; HEAD_LEN];
        self.file.read_exact(&mut bytes).map_err(shrunk)?;
        self.whole.update(&bytes);
        Ok(Head::of_bytes(&bytes))
    }

    /// Nothing is reserved before the lengths are known to be possible.
    fn body(&mut self, at: PartPosition, head: Head) -> Result<Part, BundleError> {
        if head.flags != [0; 3] {
            return Err(BundleError::UnknownFlags(at));
        }
        let raw = u64::from(head.raw);
        let len = usize::try_from(raw).ok().filter(|len| *len <= at.kind.most_raw());
        let len = len.ok_or(BundleError::TooLarge { at, raw })?;
        let (sum, most) = (self.raw + raw, most_unpacked(self.length));
        if sum > most {
            return Err(BundleError::Bomb { at, raw: sum, most });
        }
        self.hold(at, held::part(at.kind, raw))?;
        if head.packed as usize > frame::longest(len) {
            return Err(BundleError::Frame { at, raw });
        }
        if u64::from(head.packed) > self.left() - HEAD_LEN as u64 {
            return Err(BundleError::Truncated { length: self.length, at });
        }
        let mut packed = vec![0; head.packed as usize];
        self.file.read_exact(&mut packed).map_err(shrunk)?;
        self.whole.update(&packed);
        if head.chained(&self.chain, &packed) != head.hash {
            return Err(BundleError::Altered(at));
        }
        let unpacked = self.unpacker.unpack(&packed, len).ok_or(BundleError::Frame { at, raw })?;
        self.chain = head.hash;
        self.offset += (HEAD_LEN + packed.len()) as u64;
        self.parts += 1;
        self.raw = sum;
        Ok(Part { at, hash: head.hash, raw: unpacked.into() })
    }
}

/// The file became shorter meanwhile.
pub(super) fn shrunk(error: std::io::Error) -> BundleError {
    if error.kind() == ErrorKind::UnexpectedEof { BundleError::Changed } else { BundleError::Io(error) }
}

/// Reads a verified part again: it must be the same.
pub(super) fn again<R: Read + Seek>(file: &mut R, known: &Known, unpacker: &mut Unpacker) -> Result<Part, BundleError> {
    file.seek(SeekFrom::Start(known.at.offset))?;
    let mut bytes = [0; HEAD_LEN];
    file.read_exact(&mut bytes).map_err(shrunk)?;
    let head = Head::of_bytes(&bytes);
    if (head.hash, head.raw, head.packed) != (known.hash, known.raw, known.packed) {
        return Err(BundleError::Changed);
    }
    let mut packed = vec![0; head.packed as usize];
    file.read_exact(&mut packed).map_err(shrunk)?;
    if head.chained(&known.before, &packed) != known.hash {
        return Err(BundleError::Changed);
    }
    let raw = unpacker.unpack(&packed, head.raw as usize).ok_or(BundleError::Changed)?;
    Ok(Part { at: known.at, hash: head.hash, raw: raw.into() })
}

/// A part that was verified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub at: PartPosition,
    before: Digest,
    hash: Digest,
    raw: u32,
    packed: u32,
}

impl Known {
    /// `before`: the hash of the part before it; `end`: where the next one begins.
    pub(super) fn of(part: &Part, before: Digest, end: u64) -> Self {
        let packed = end - part.at.offset - HEAD_LEN as u64;
        // Both were read from 32 bits.
        Self { at: part.at, before, hash: part.hash, raw: part.raw.len() as u32, packed: packed as u32 }
    }
}
