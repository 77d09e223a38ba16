//! The bundle: one file that carries a snapshot, or the changes since another one, across an air gap.
//!
//! | question | file |
//! |---|---|
//! | what is a part, and how is it hashed and packed | `part`, `frame` |
//! | what is in a part | `manifest`, `records`, `script` |
//! | how much memory may a file take | `held` |
//! | how is one written | `write` |
//! | how is one verified and read | `parts` (part by part), `open` (the whole), `apply` (a delta), `details` |
//! | who vouches for it | [`signature`], [`trust`] |
//!
//! It knows contents and details as values, but neither the store nor HTTP. Every call blocks. Callers: [`crate::cli`],
//! [`crate::admin`], [`crate::snapshots`].
//!
#![doc = include_str!("bundle/FORMAT.md")]

mod apply;
mod details;
mod error;
mod frame;
mod held;
mod manifest;
mod open;
mod part;
mod parts;
mod records;
mod regular;
mod script;
pub mod signature;
#[cfg(test)]
mod tests;
pub(crate) mod trust;
mod write;

pub(crate) use details::Detail;
pub(crate) use error::{BundleError, WriteError};
pub(crate) use manifest::{Counts, Manifest};
pub use open::Bundle;
pub(crate) use open::DetailHash;
pub(crate) use part::START_LEN as BEGINNING;
pub(crate) use parts::check_beginning;
pub(crate) use write::{Export, Written, write};

/// The newest format that is read. The lowest one is written that holds what there is.
pub(crate) const FORMAT: u16 = 3;

/// The format of a bundle with lessons, if older programs know every name in it.
const WITH_LESSONS: u16 = 2;

/// The same without lessons.
const WITHOUT_LESSONS: u16 = 1;

/// No part unpacks to more than this.
pub(crate) const MAX_PART: usize = 48 << 20;

/// No summary, taxonomy or detail is longer than this, in bytes.
pub(crate) const MAX_TEXT: usize = 32 << 20;

const MAGIC: [u8; 8] = *b"\x89GSB\r\n\x1a\n";

/// All parts of a file together may unpack to this.
const fn most_unpacked(file: u64) -> u64 {
    (64 << 20) + file.saturating_mul(256)
}

/// Progress: bytes or records done, and in all.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64);
