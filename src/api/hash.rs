//! The hash of one piece of content (a summary, a detail, a taxonomy).
//!
//! Not the hash of a storage block or an entity tag, which are built from it. Callers: [`crate::snapshot`],
//! [`crate::store`], [`crate::api::render`]; every type that shows a hash uses [`write_hex`].

use std::fmt;

/// 128 bits of BLAKE3 over a content's bytes: equal content has equal hashes on every node and version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContentHash([u8; 16]);

impl ContentHash {
    /// Hashes one text.
    pub fn of(text: &[u8]) -> Self {
        Self::of_parts([text])
    }

    /// Hashes several texts; their lengths are part of the hash.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Self(bytes)
    }

    /// The hash as it is stored.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The hash that [`ContentHash::to_bytes`] wrote.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// Writes bytes as hexadecimal digits in lower case: how every hash is shown.
///
/// # Errors
/// Those of the formatter.
pub(crate) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentHash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_part_ends_is_part_of_the_hash() {
        let one = ContentHash::of_parts([b"ab".as_slice(), b"c"]);
        let other = ContentHash::of_parts([b"a".as_slice(), b"bc"]);
        assert_ne!(one, other);
        assert_eq!(one, ContentHash::from_bytes(one.to_bytes()));
        assert_eq!(one.to_string().len(), 32);
    }
}
