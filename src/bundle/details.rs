//! Reads the details of a bundle again, to store them: each part must equal the verified one.
//!
//! Callers: imports, through [`super::open::Bundle::details`].

use std::io::{Read, Seek};

use bytes::Bytes;

use super::error::BundleError;
use super::frame::Unpacker;
use super::parts::{self, Known, Part};
use super::records::{Body, Reader, Validators};
use crate::api::listing::{DetailState, ListingId};

/// A detail as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Whether the origin has the detail.
    pub state: DetailState,
    /// The body as the origin sent it; empty if gone. After reading: a slice of about a MiB.
    pub body: Bytes,
    /// Whether it was fetched for this summary, and is not provisional.
    pub current: bool,
    /// The origin's entity tag, as sent.
    pub etag: Option<String>,
    /// The origin's `Last-Modified`, as sent.
    pub last_modified: Option<String>,
}

/// Reads details in turn.
pub struct DetailReader<'a, R> {
    file: R,
    unpacker: Option<Unpacker>,
    bodies: Stream<'a>,
    validators: Stream<'a>,
    failed: bool,
}

/// The records of parts of one kind.
struct Stream<'a> {
    left: &'a [Known],
    part: Option<Part>,
    /// The position in the part.
    at: usize,
}

impl<'a, R: Read + Seek> DetailReader<'a, R> {
    /// The details in these parts, bodies and validators, of a file whose parts were verified.
    pub(super) fn new([bodies, validators]: &'a [Vec<Known>; 2], file: R) -> Self {
        let (bodies, validators) = (Stream::over(bodies.as_slice()), Stream::over(validators.as_slice()));
        Self { file, unpacker: None, bodies, validators, failed: false }
    }

    fn read(&mut self) -> Result<Option<(ListingId, Detail)>, BundleError> {
        let unpacker = match &mut self.unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Unpacker::new()?),
        };
        let body = self.bodies.next(&mut self.file, unpacker, |part, reader| {
            let body = Body::read(reader)?;
            Ok((body.id, body.state, part.raw.slice_ref(body.text)))
        })?;
        let Some((id, state, body)) = body else { return Ok(None) };
        let detail = self.validators.next(&mut self.file, unpacker, |_, reader| {
            let read = Validators::read(reader)?;
            let (etag, last_modified) = (read.etag.map(str::to_owned), read.last_modified.map(str::to_owned));
            Ok(Detail { state, body: body.clone(), current: read.current, etag, last_modified })
        })?;
        // The number was the same at verification.
        detail.map_or(Err(BundleError::Changed), |detail| Ok(Some((id, detail))))
    }
}

impl<R: Read + Seek> Iterator for DetailReader<'_, R> {
    type Item = Result<(ListingId, Detail), BundleError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.read().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

impl<'a> Stream<'a> {
    const fn over(left: &'a [Known]) -> Self {
        Self { left, part: None, at: 0 }
    }

    fn next<T>(
        &mut self,
        file: &mut (impl Read + Seek),
        unpacker: &mut Unpacker,
        read: impl FnOnce(&Part, &mut Reader<'_>) -> Result<T, String>,
    ) -> Result<Option<T>, BundleError> {
        if self.part.as_ref().is_none_or(|part| self.at == part.raw.len()) {
            let Some((known, left)) = self.left.split_first() else { return Ok(None) };
            // Drops the old part first.
            self.part = None;
            self.part = Some(parts::again(file, known, unpacker)?);
            (self.left, self.at) = (left, 0);
        }
        let Some(part) = &self.part else { return Ok(None) };
        let mut reader = Reader(&part.raw[self.at..]);
        let record = read(part, &mut reader).map_err(|wrong| part.malformed(wrong))?;
        self.at = part.raw.len() - reader.0.len();
        Ok(Some(record))
    }
}
