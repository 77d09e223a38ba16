//! A finished dump: a file without a name, which is removed after its last reader.
//!
//! Callers: [`super`] makes them, [`crate::serve`] and [`crate::admin`] send them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::strong_tag;
use crate::api::hash::ContentHash;
use crate::clock::Monotonic;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::EntityTag;
use crate::snapshot::content::SnapshotId;
use crate::tasks::blocking;

/// How much is read at once, in bytes.
const PIECE: u64 = 128 << 10;

/// After how many bytes free space is checked again, and how many bytes stay free for the store.
const CHECKED: u64 = 16 << 20;
const RESERVE: u64 = 256 << 20;

/// The default of zstd, and the gzip level that is worth its time.
const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 6;

/// A dump of one snapshot in one content coding.
#[derive(Debug)]
pub(crate) struct Built {
    file: File,
    /// In bytes.
    pub length: u64,
    /// A strong tag: the hash of its bytes.
    pub tag: EntityTag,
    pub snapshot: SnapshotId,
    /// Revision of the details at its start.
    pub revision: u64,
    pub at: Monotonic,
    /// Whether all reads now fail.
    revoked: AtomicBool,
}

impl Built {
    /// Fills an empty file. `revision` and `at` are those of its source.
    pub(super) fn write<E: From<io::Error>>(
        file: File,
        (snapshot, revision, at): (SnapshotId, u64, Monotonic),
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut out = BufWriter::with_capacity(1 << 18, Hashing { file, hasher: blake3::Hasher::new(), length: 0 });
        fill(&mut out)?;
        let Hashing { file, hasher, length } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let mut digits = [0; 16];
        hasher.finalize_xof().fill(&mut digits);
        let tag = strong_tag(&ContentHash::from_bytes(digits).to_string())?;
        Ok(Self { file, length, tag, snapshot, revision, at, revoked: AtomicBool::new(false) })
    }

    /// Writes all of it in a content coding.
    pub(super) fn encode(&self, coding: Coding, out: &mut dyn Write) -> io::Result<()> {
        match coding {
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(out, ZSTD_LEVEL)?;
                self.copy(&mut encoder)?;
                encoder.finish().map(drop)
            }
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
                self.copy(&mut encoder)?;
                encoder.finish().map(drop)
            }
            Coding::Identity | Coding::Brotli => self.copy(out),
        }
    }

    /// Writes all of it as it is.
    pub(crate) fn copy(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut at = 0;
        while at < self.length {
            let piece = self.read(at, self.length)?;
            at += piece.len() as u64;
            out.write_all(&piece)?;
        }
        Ok(())
    }

    /// Ends every download of it: its disk space is needed.
    pub(super) fn revoke(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }

    /// The next bytes from `from` on, at most up to `to`.
    fn read(&self, from: u64, to: u64) -> io::Result<Bytes> {
        if self.revoked.load(Ordering::Relaxed) {
            return Err(io::Error::other("many newer dumps have been written since; this one is no longer kept"));
        }
        let mut piece = vec![0; usize::try_from(to.saturating_sub(from).min(PIECE)).unwrap_or(0)];
        self.file.read_exact_at(&mut piece, from)?;
        Ok(piece.into())
    }
}

/// The unsent part of a dump.
#[derive(Debug)]
pub(crate) struct DumpPart {
    built: Arc<Built>,
    from: u64,
    to: u64,
}

impl DumpPart {
    /// The bytes from `from` up to `to`, exclusive.
    pub(crate) const fn new(built: Arc<Built>, from: u64, to: u64) -> Self {
        Self { built, from, to }
    }

    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.from >= self.to {
            return None;
        }
        let (built, from, to) = (self.built.clone(), self.from, self.to);
        let read = blocking(move || built.read(from, to)).await;
        if let Ok(piece) = &read {
            self.from += piece.len() as u64;
        }
        Some(read)
    }
}

/// Hashes and counts what is written.
struct Hashing {
    file: File,
    hasher: blake3::Hasher,
    length: u64,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.length / CHECKED != (self.length + bytes.len() as u64) / CHECKED {
            let disk = rustix::fs::fstatvfs(&self.file)?;
            if disk.f_bavail.saturating_mul(disk.f_frsize) < RESERVE {
                let why = "less than 256 MiB are free in the data directory, and the store needs them";
                return Err(io::Error::new(io::ErrorKind::StorageFull, why));
            }
        }
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::page::Envelope;
    use crate::snapshot::content::Content;

    fn built(text: &[u8]) -> Arc<Built> {
        let fill = |out: &mut dyn Write| out.write_all(text);
        let envelope = Envelope::default();
        let content = Content { envelope, taxonomies: ["[]".into(), "[]".into(), "[]".into()], summaries: Vec::new() };
        let source = (content.id(), 0, Monotonic::from_seconds(1));
        Arc::new(Built::write::<io::Error>(tempfile::tempfile().unwrap(), source, fill).unwrap())
    }

    async fn read(mut part: DumpPart) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = part.next().await {
            all.extend_from_slice(&piece?);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn equal_bytes_have_one_tag_and_are_read_in_parts() {
        let text: Vec<u8> = (0..3 * PIECE + 5).map(|n| (n % 251) as u8).collect();
        let (one, same, other) = (built(&text), built(&text), built(&text[1..]));
        assert!(one.tag == same.tag && one.tag != other.tag && one.tag.as_bytes().starts_with(b"\""));
        assert_eq!(one.length, text.len() as u64);
        for (from, to) in [(0, one.length), (7, 8), (PIECE - 1, 2 * PIECE + 1), (5, 5)] {
            assert_eq!(read(DumpPart::new(one.clone(), from, to)).await.unwrap(), text[from as usize..to as usize]);
        }
        let mut coded = Vec::new();
        one.encode(Coding::Zstd, &mut coded).unwrap();
        assert_eq!(zstd::decode_all(&coded[..]).unwrap(), text);
    }

    #[tokio::test]
    async fn one_that_is_let_go_of_is_read_no_further() {
        let one = built(b"text");
        let part = DumpPart::new(one.clone(), 0, one.length);
        one.revoke();
        assert!(read(part).await.is_err());
    }
}
