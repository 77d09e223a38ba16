//! Makes bundles of any parts with correct lengths and hashes, so that fuzzing gets past the hashes.
//!
//! Callers: [`crate::parts::fuzz`].

use super::frame::Packer;
use super::part::{self, Head, Kind};
use super::{FORMAT, MAX_PART};

/// A file with these parts in this order, whatever is in them; `None`: one is of no known kind, or cannot be packed.
pub(crate) fn seal(parts: &[(u8, &[u8])]) -> Option<Vec<u8>> {
    let mut packer = Packer::new(1).ok()?;
    let (mut file, mut chain) = (part::start(FORMAT).to_vec(), part::first(FORMAT));
    for (kind, raw) in parts {
        let (kind, packed) = (Kind::of(*kind)?, packer.pack(raw).ok()?);
        let length = u32::try_from(raw.len()).ok().filter(|length| *length as usize <= MAX_PART)?;
        let head = Head::following(&chain, kind, length, &packed);
        file.extend_from_slice(&head.to_bytes());
        file.extend_from_slice(&packed);
        chain = head.hash;
    }
    Some(file)
}
