//! A dump that is written: a file without a name, which is gone when nobody reads it any more.
//!
//! Callers: [`super`] makes them, [`crate::serve`] and [`crate::admin`] send them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;

use crate::clock::Monotonic;
use crate::semantics::coding::Coding;
use crate::semantics::etag::EntityTag;
use crate::snapshot::content::SnapshotId;

/// How much is read at once, in bytes.
const PIECE: u64 = 128 << 10;

/// zstd's own default, and the one at which gzip is worth its time.
const ZSTD_LEVEL: i32 = 3;
const GZIP_LEVEL: u32 = 6;

/// A dump of one snapshot in one content coding.
#[derive(Debug)]
pub(crate) struct Built {
    file: File,
    /// Its length in bytes.
    pub length: u64,
    /// A strong tag: the hash of its bytes.
    pub tag: EntityTag,
    /// Of which snapshot.
    pub snapshot: SnapshotId,
    /// The state of the details when it was begun.
    pub revision: u64,
    /// When it was done.
    pub at: Monotonic,
}

/// What was written, without what it is a dump of.
pub(super) struct Written {
    file: File,
    length: u64,
    tag: EntityTag,
}

/// Fills an empty file.
///
/// # Errors
/// When `fill` fails, or the rest cannot be written.
pub(super) fn written<E: From<io::Error>>(
    file: File,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<Written, E> {
    let mut out = BufWriter::with_capacity(1 << 18, Hashing { file, hasher: blake3::Hasher::new(), length: 0 });
    fill(&mut out)?;
    let Hashing { file, hasher, length } = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let mut digits = [0; 16];
    hasher.finalize_xof().fill(&mut digits);
    let tag = format!("\"{}\"", crate::api::hash::ContentHash::from_bytes(digits));
    let tag = EntityTag::parse(tag.as_bytes()).map_err(io::Error::other)?;
    Ok(Written { file, length, tag })
}

impl Written {
    pub(super) fn of(self, snapshot: SnapshotId, revision: u64, at: Monotonic) -> Built {
        let Self { file, length, tag } = self;
        Built { file, length, tag, snapshot, revision, at }
    }
}

impl Built {
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
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(crate) fn copy(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut at = 0;
        while at < self.length {
            let piece = self.read(at, self.length)?;
            at += piece.len() as u64;
            out.write_all(&piece)?;
        }
        Ok(())
    }

    /// The next bytes from `from` on, at most up to `to`.
    fn read(&self, from: u64, to: u64) -> io::Result<Bytes> {
        let mut piece = vec![0; usize::try_from(to.saturating_sub(from).min(PIECE)).unwrap_or(0)];
        self.file.read_exact_at(&mut piece, from)?;
        Ok(piece.into())
    }
}

/// What of a dump is still to be sent.
#[derive(Debug)]
pub(crate) struct Part {
    built: Arc<Built>,
    from: u64,
    to: u64,
}

impl Part {
    /// The bytes from `from` up to `to`, exclusive.
    pub(crate) const fn new(built: Arc<Built>, from: u64, to: u64) -> Self {
        Self { built, from, to }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.from >= self.to {
            return None;
        }
        let (built, from, to) = (self.built.clone(), self.from, self.to);
        let read = tokio::task::spawn_blocking(move || built.read(from, to)).await;
        let read = read.unwrap_or_else(|lost| Err(io::Error::other(lost)));
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
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
