//! Hashes: of one piece of content (a summary, a detail, a taxonomy), and of files.
//!
//! Not the hash of a storage block or an entity tag, which are built from it. Callers: [`crate::data::snapshot`],
//! [`crate::data::store`], [`crate::api::render`], [`crate::data::bundle`], `fleet`; every type that shows a hash uses
//! [`write_hex`].

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// 128 bits of BLAKE3 over a content's bytes: equal content has equal hashes on every node and version.
pub type ContentHash = Digest<16>;

impl ContentHash {
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

    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The hash that [`ContentHash::to_bytes`] wrote.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// Writes bytes as hexadecimal digits in lower case: how every hash is shown.
pub(crate) fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// A BLAKE3 hash of a content, a file or a chain of parts, or its first bytes. Shown as hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest<const N: usize = 32>(pub [u8; N]);

impl<const N: usize> Digest<N> {
    /// Reads twice as many hexadecimal digits in lower case; `None` otherwise.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != N || !rest.is_empty() {
            return None;
        }
        let mut bytes = [0; N];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = value(*high)? << 4 | value(*low)?;
        }
        Some(Self(bytes))
    }
}

impl Default for ContentHash {
    fn default() -> Self {
        Self([0; 16])
    }
}

impl Digest {
    /// The first eight bytes, which stand in names.
    pub(crate) fn short(&self) -> Digest<8> {
        Digest(std::array::from_fn(|at| self.0[at]))
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl<const N: usize> fmt::Display for Digest<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl<const N: usize> fmt::Debug for Digest<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl<const N: usize> Serialize for Digest<N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Digest<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || D::Error::custom(format!("{text:?} is not a hash of {} hexadecimal digits", 2 * N));
        Self::parse(&text).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_shown() {
        let text = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        assert_eq!(<Digest>::parse(text).unwrap().to_string(), text);
        assert_eq!(<Digest>::parse(&text.to_uppercase()), None);
        assert_eq!(<Digest>::parse(&text[1..]), None);
        assert_eq!(Digest::<8>::parse(&text[..16]).unwrap().to_string(), text[..16]);
    }

    #[test]
    fn where_a_part_ends_is_part_of_the_hash() {
        let one = ContentHash::of_parts([b"ab".as_slice(), b"c"]);
        let other = ContentHash::of_parts([b"a".as_slice(), b"bc"]);
        assert_ne!(one, other);
        assert_eq!(one, ContentHash::from_bytes(one.to_bytes()));
        assert_eq!(one.to_string().len(), 32);
    }
}
