//! The bundle: one file that carries a snapshot, or the changes since another one, across an air gap.
//!
//! | question | file |
//! |---|---|
//! | what is a part, how is it hashed and packed, how much memory may it take | `part` |
//! | what is in a part | `manifest`, `records` |
//! | how are parts written and verified in turn | `parts` |
//! | how is a bundle written | `write` |
//! | how is one verified and read | `open` |
//! | how does a delta follow from its base | `delta` |
//! | who vouches for it | [`signature`] |
//!
//! It knows contents and details as values, but neither the store nor HTTP. Every call blocks. Callers: [`crate::cli`],
//! [`crate::server::admin`], [`crate::data::snapshots`].
//!
#![doc = include_str!("bundle/FORMAT.md")]

mod delta;
mod manifest;
mod open;
mod part;
mod parts;
mod records;
pub mod signature;
#[cfg(test)]
mod tests;
mod write;

use std::io;

use crate::api::listing::ListingId;
use crate::data::snapshot::content::SnapshotId;

pub(crate) use manifest::{Counts, Manifest};
pub use open::Bundle;
pub(crate) use open::Detail;
pub(crate) use part::{LEVEL, START_LEN as BEGINNING};
use part::{PartKind, PartPosition};
pub(crate) use parts::check_beginning;
pub(crate) use write::{Export, Written, write};

/// The format that is written. Formats 1 to 4, of earlier versions, are read.
pub(crate) const FORMAT: u16 = 5;

/// No part unpacks to more than this.
pub(crate) const MAX_PART: usize = 48 << 20;

/// The largest bundle that is fetched or imported, in bytes.
pub(crate) const MOST_BYTES: u64 = 4 << 30;

/// No summary, taxonomy or detail is longer than this, in bytes.
pub(crate) const MAX_TEXT: usize = 32 << 20;

const MAGIC: [u8; 8] = *b"\x89GSB\r\n\x1a\n";

/// Progress: bytes done, and in all.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("the bundle cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("the file is empty")]
    Empty,
    #[error("not a bundle: `grandstand bundle export` writes bundles")]
    NotABundle,
    #[error("this is a signature or a key of minisign; name the bundle beside it, without .minisig")]
    Minisign,
    /// A transfer converted line ends, or dropped the eighth bit.
    #[error("damaged by a transfer in text mode; transfer the bundle again, in binary mode")]
    TextMode,
    #[error("bundle format {found}, but this program reads formats 1 to {FORMAT}; {}", if *found > FORMAT { "use a newer grandstand" } else { "there is no such format" })]
    Version { found: u16 },
    #[error("truncated at byte {length}, in {at}")]
    Truncated { length: u64, at: PartPosition },
    #[error("truncated at byte {length}: {wanted} should follow part {after}")]
    Ends {
        length: u64,
        /// The last complete part; 0: none.
        after: u32,
        wanted: &'static str,
    },
    #[error("altered: {0} does not match its hash")]
    Altered(PartPosition),
    #[error("part {part} at byte {offset} has the unknown kind {kind}")]
    UnknownKind { part: u32, offset: u64, kind: u8 },
    #[error("{0} has unknown flags")]
    UnknownFlags(PartPosition),
    #[error("{at} is out of order; expected: {}", wanted.as_str())]
    Unexpected { at: PartPosition, wanted: PartKind },
    #[error("{at} would unpack to {raw} bytes; the limit for such a part is {}", at.kind.most_raw())]
    TooLarge { at: PartPosition, raw: u64 },
    /// The parts together would unpack to more than a file of this length can hold in good faith.
    #[error("{at}: the parts up to here would unpack to {raw} bytes; the limit for a file of this length is {most}")]
    Bomb {
        at: PartPosition,
        /// The sum of the lengths.
        raw: u64,
        most: u64,
    },
    /// The content would take more memory than an honest file of this length needs.
    #[error("{at}: the bundle would take more than {most} bytes of memory, the limit for a file of this length")]
    Heavy { at: PartPosition, most: u64 },
    #[error("{at} does not unpack to its {raw} bytes")]
    Frame { at: PartPosition, raw: u64 },
    #[error("{at}: {what}")]
    Malformed { at: PartPosition, what: String },
    #[error("the manifest says {manifest} {what}, but the bundle has {found}")]
    Disagrees { what: &'static str, manifest: String, found: String },
    #[error("the bundle ends at byte {end}, but the file has {length} bytes")]
    Trailing { end: u64, length: u64 },
    #[error(
        "this delta needs its base, snapshot {needed}, which is not kept here; import a bundle of that snapshot first, or a full bundle"
    )]
    NeedsBase { needed: SnapshotId },
    #[error("this delta needs snapshot {needed} as its base, not {given}")]
    WrongBase { needed: SnapshotId, given: SnapshotId },
    #[error("the file has changed since it was verified")]
    Changed,
}

impl BundleError {
    fn disagrees(what: &'static str, manifest: &impl ToString, found: &impl ToString) -> Self {
        Self::Disagrees { what, manifest: manifest.to_string(), found: found.to_string() }
    }
}

/// Why a bundle cannot be written. The file so far is not a bundle.
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    #[error("the bundle cannot be written: {0}")]
    Io(#[from] io::Error),
    #[error("a detail cannot be read: {0}")]
    Details(E),
    /// Details are not in ascending id order, or one belongs to no listing of the snapshot.
    #[error("details are not in ascending id order at listing {0}, or the listing is not in the snapshot")]
    OutOfTurn(ListingId),
    /// The number of details is not the announced one: they changed meanwhile.
    #[error("details announced: {announced}, details written: {found}")]
    Counts { announced: String, found: String },
    #[error("{what}: {why}")]
    Unwritable { what: String, why: String },
}

fn unwritable<E>(what: impl Into<String>, why: impl Into<String>) -> WriteError<E> {
    WriteError::Unwritable { what: what.into(), why: why.into() }
}
