//! The rest of an answer's body, piece by piece: from the origin, or from a file.
//!
//! Callers: [`super::public`], which sends it.

use std::io;

use bytes::Bytes;

use crate::dumps::DumpPart;
use crate::proxy::spool::{Broken, Reader};

/// Where the rest comes from.
pub(super) enum Rest {
    /// It still arrives.
    Origin(Reader),
    /// It lies on the disk.
    File(DumpPart),
}

/// Why there is no more of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfinished {
    #[error(transparent)]
    Origin(#[from] Broken),
    #[error("the file of a dump cannot be read: {0}")]
    File(#[from] io::Error),
}

impl Rest {
    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Unfinished>> {
        Some(match self {
            Self::Origin(reader) => reader.next().await?.map_err(Unfinished::from),
            Self::File(part) => part.next().await?.map_err(Unfinished::from),
        })
    }
}
