//! Reader and writer of the parts of a file, in turn. A part is verified before it is used.
//!
//! The contents are checked by [`super::open`]. Callers: [`mod@super::write`], [`super::open`].

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};

use bytes::Bytes;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::compress_bound;

use super::part::{self, HEAD_LEN, PartHead, PartKind, PartPosition, START_LEN, most_memory, most_unpacked};
use super::records::Records;
use super::{BundleError, FORMAT, MAGIC, MAX_PART, Progress, WriteError, unwritable};
use crate::api::hash::Digest;

/// A part ends before the record that would exceed this.
pub(super) const PART: usize = 1 << 20;

/// A verified, decompressed part.
#[derive(Clone)]
pub(super) struct UnpackedPart {
    pub seal: PartSeal,
    pub raw: Bytes,
}

/// What a verified part must be when it is read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartSeal {
    pub at: PartPosition,
    /// The hash of the part before it.
    before: Digest,
    head: PartHead,
}

impl UnpackedPart {
    pub(super) fn malformed(&self, what: impl Into<String>) -> BundleError {
        BundleError::Malformed { at: self.seal.at, what: what.into() }
    }

    /// Its records from a byte on.
    pub(super) fn records(&self, from: usize) -> Records<'_> {
        Records { rest: &self.raw[from..], of: self.seal.at }
    }
}

impl std::fmt::Debug for UnpackedPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.seal.at)
    }
}

pub(super) struct PartReader<'p, R> {
    file: R,
    pub format: u16,
    /// Whether the bundle is full, which its manifest says.
    pub is_full: bool,
    length: u64,
    offset: u64,
    /// The hash of the last part.
    pub chain: Digest,
    pub count: u32,
    /// The raw length of these parts.
    pub raw: u64,
    /// Bytes in memory so far.
    pub held: u64,
    /// The head of the next part, if already read.
    ahead: Option<PartHead>,
    unpacker: Decompressor<'static>,
    /// The hash of all bytes read.
    whole: blake3::Hasher,
    progress: Progress<'p>,
}

/// Checks the first bytes of a file, even if only a few arrived.
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
        } else if start.starts_with(b"untrusted ") {
            BundleError::Minisign
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

impl<'p, R: Read + Seek> PartReader<'p, R> {
    /// Reads the start of a file. `progress` gets bytes.
    pub(super) fn begin(mut file: R, progress: Progress<'p>) -> Result<Self, BundleError> {
        let length = file.seek(SeekFrom::End(0))?;
        file.rewind()?;
        let mut start = [0; START_LEN];
        let there = usize::try_from(length).unwrap_or(START_LEN).min(START_LEN);
        file.read_exact(&mut start[..there])?;
        let format = check_start(&start[..there], length)?;
        let mut whole = blake3::Hasher::new();
        whole.update(&start);
        Ok(Self {
            file,
            format,
            is_full: true,
            length,
            offset: START_LEN as u64,
            chain: part::first(format),
            count: 0,
            raw: 0,
            held: 0,
            ahead: None,
            unpacker: Decompressor::new()?,
            whole,
            progress,
        })
    }
}

impl<R: Read> PartReader<'_, R> {
    /// The next part, which must be of that kind.
    pub(super) fn one(&mut self, wanted: PartKind) -> Result<UnpackedPart, BundleError> {
        match self.another(wanted)? {
            Some(part) => Ok(part),
            None => Err(match self.ahead.and_then(|head| PartKind::of(head.kind)) {
                Some(kind) => BundleError::Unexpected { at: self.at(kind), wanted },
                None => self.ends_before(wanted),
            }),
        }
    }

    /// The next part if it is of that kind.
    pub(super) fn another(&mut self, wanted: PartKind) -> Result<Option<UnpackedPart>, BundleError> {
        let head = match self.ahead {
            Some(head) => head,
            None if self.left() < HEAD_LEN as u64 => return Err(self.ends_before(wanted)),
            None => {
                let bytes = filled(&mut self.file, [0; HEAD_LEN])?;
                self.whole.update(&bytes);
                *self.ahead.insert(PartHead::of_bytes(&bytes))
            }
        };
        let unknown = BundleError::UnknownKind { part: self.count + 1, offset: self.offset, kind: head.kind };
        let kind = PartKind::of(head.kind).ok_or(unknown)?;
        if kind != wanted {
            return Ok(None);
        }
        let part = self.body(self.at(kind), head)?;
        self.ahead = None;
        (self.progress)(self.offset, self.length);
        Ok(Some(part))
    }

    /// Reads the next parts of a kind, record by record; their seals.
    pub(super) fn each(
        &mut self,
        kind: PartKind,
        mut read: impl FnMut(&UnpackedPart, &mut Records<'_>) -> Result<(), BundleError>,
    ) -> Result<Vec<PartSeal>, BundleError> {
        let mut seals = Vec::new();
        while let Some(part) = self.another(kind)? {
            let mut records = part.records(0);
            if records.rest.is_empty() {
                return Err(part.malformed("it is empty"));
            }
            while !records.rest.is_empty() {
                self.hold(part.seal.at, kind.record_memory())?;
                read(&part, &mut records)?;
            }
            seals.push(part.seal);
        }
        Ok(seals)
    }

    /// Checks that the file ends here; the hash of the whole file.
    pub(super) fn end(mut self) -> Result<blake3::Hash, BundleError> {
        let more = self.file.read(&mut [0])? > 0;
        if self.offset == self.length && !more {
            return Ok(self.whole.finalize());
        }
        Err(BundleError::Trailing { end: self.offset, length: self.length.max(self.offset + 1) })
    }

    fn hold(&mut self, at: PartPosition, bytes: u64) -> Result<(), BundleError> {
        self.held = self.held.saturating_add(bytes);
        let most = most_memory(self.length);
        if self.held > most { Err(BundleError::Heavy { at, most }) } else { Ok(()) }
    }

    const fn at(&self, kind: PartKind) -> PartPosition {
        PartPosition { part: self.count + 1, kind, offset: self.offset }
    }

    const fn left(&self) -> u64 {
        self.length.saturating_sub(self.offset)
    }

    const fn ends_before(&self, wanted: PartKind) -> BundleError {
        BundleError::Ends { length: self.length, after: self.count, wanted: wanted.as_str() }
    }

    /// Nothing is reserved before the lengths are known to be possible.
    fn body(&mut self, at: PartPosition, head: PartHead) -> Result<UnpackedPart, BundleError> {
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
        self.hold(at, at.kind.memory(raw, self.is_full))?;
        if head.packed as usize > compress_bound(len) {
            return Err(BundleError::Frame { at, raw });
        }
        if u64::from(head.packed) > self.left() - HEAD_LEN as u64 {
            return Err(BundleError::Truncated { length: self.length, at });
        }
        let seal = PartSeal { at, before: self.chain, head };
        let packed = filled(&mut self.file, vec![0; head.packed as usize])?;
        self.whole.update(&packed);
        if head.chained(&seal.before, &packed) != head.hash {
            return Err(BundleError::Altered(at));
        }
        let unpacked = part::unpack(&mut self.unpacker, &packed, len).ok_or(BundleError::Frame { at, raw })?;
        (self.chain, self.raw) = (head.hash, sum);
        self.offset += (HEAD_LEN + packed.len()) as u64;
        self.count += 1;
        Ok(UnpackedPart { seal, raw: unpacked.into() })
    }
}

/// Reads so many bytes. A file that has fewer became shorter meanwhile.
fn filled<B: AsMut<[u8]>>(file: &mut impl Read, mut buffer: B) -> Result<B, BundleError> {
    match file.read_exact(buffer.as_mut()) {
        Ok(()) => Ok(buffer),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(BundleError::Changed),
        Err(error) => Err(error.into()),
    }
}

/// Reads a verified part again: it must be the same.
pub(super) fn again(file: &mut (impl Read + Seek), seal: &PartSeal) -> Result<UnpackedPart, BundleError> {
    file.seek(SeekFrom::Start(seal.at.offset))?;
    let head = PartHead::of_bytes(&filled(file, [0; HEAD_LEN])?);
    if head != seal.head {
        return Err(BundleError::Changed);
    }
    let packed = filled(file, vec![0; head.packed as usize])?;
    if head.chained(&seal.before, &packed) != head.hash {
        return Err(BundleError::Changed);
    }
    let raw = part::unpack(&mut Decompressor::new()?, &packed, head.raw as usize).ok_or(BundleError::Changed)?;
    Ok(UnpackedPart { seal: *seal, raw: raw.into() })
}

pub(super) struct PartWriter<W> {
    pub out: W,
    pub packer: Compressor<'static>,
    is_full: bool,
    /// The hash of the last part.
    pub chain: Digest,
    pub count: u32,
    /// The raw length of these parts.
    pub raw: u64,
    /// The memory that a reader needs for it, in bytes.
    pub held: u64,
    pub bytes: u64,
    /// Records that do not fill a part yet.
    waiting: Vec<u8>,
}

impl<W: Write> PartWriter<W> {
    pub(super) fn begin(mut out: W, level: i32, is_full: bool) -> io::Result<Self> {
        out.write_all(&part::start(FORMAT))?;
        Ok(Self {
            out,
            packer: part::packer(level)?,
            is_full,
            chain: part::first(FORMAT),
            count: 0,
            raw: 0,
            held: 0,
            bytes: START_LEN as u64,
            waiting: Vec::new(),
        })
    }

    pub(super) fn json<E>(&mut self, kind: PartKind, value: &impl serde::Serialize) -> Result<(), WriteError<E>> {
        let raw = serde_json::to_vec(value).map_err(|error| unwritable("JSON", error.to_string()))?;
        if raw.len() > kind.most_raw() {
            let why = format!("{} bytes are too much; the limit is {}", raw.len(), kind.most_raw());
            return Err(unwritable(format!("the {}", kind.as_str()), why));
        }
        Ok(self.part(kind, &raw)?)
    }

    pub(super) fn part(&mut self, kind: PartKind, raw: &[u8]) -> io::Result<()> {
        let packed = self.packer.compress(raw)?;
        self.packed(kind, raw.len() as u32, &packed)
    }

    pub(super) fn packed(&mut self, kind: PartKind, raw: u32, packed: &[u8]) -> io::Result<()> {
        let head = PartHead::following(&self.chain, kind, raw, packed);
        self.out.write_all(&head.to_bytes())?;
        self.out.write_all(packed)?;
        self.chain = head.hash;
        self.count += 1;
        self.raw += u64::from(raw);
        self.held += kind.memory(u64::from(raw), self.is_full);
        self.bytes += (HEAD_LEN + packed.len()) as u64;
        Ok(())
    }

    /// Adds a record to the part of this kind; see [`PartWriter::flush`].
    pub(super) fn push<E>(
        &mut self,
        kind: PartKind,
        record: &[u8],
        name: impl FnOnce() -> String,
    ) -> Result<(), WriteError<E>> {
        if record.len() > MAX_PART {
            return Err(unwritable(name(), format!("{} bytes are more than a part has", record.len())));
        }
        if self.waiting.len() + record.len() > PART {
            self.flush(kind)?;
        }
        self.waiting.extend_from_slice(record);
        self.held += kind.record_memory();
        Ok(())
    }

    /// Writes the records that wait. They are all of one kind: it is called before records of another one.
    pub(super) fn flush(&mut self, kind: PartKind) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut raw = std::mem::take(&mut self.waiting);
        self.part(kind, &raw)?;
        raw.clear();
        self.waiting = raw;
        Ok(())
    }
}
