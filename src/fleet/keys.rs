//! The names of objects in an object store, below its prefix. Nothing else is ever read, written or removed.
//!
//! Pure. Callers: [`super::head`] and [`super::place`].

use std::fmt;

use crate::api::hash::write_hex;
use crate::snapshot::content::SnapshotId;

/// A hash of 32 bytes: the digest of a bundle, or the BLAKE3 hash of a file. Shown as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// From its bytes.
    pub(crate) const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads 64 hexadecimal digits in lower case; `None` otherwise.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        digits(text).map(Self)
    }

    /// Its bytes.
    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes, which stand in keys.
    pub(crate) fn short(&self) -> ShortDigest {
        ShortDigest(std::array::from_fn(|at| self.0[at]))
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The first eight bytes of a [`Digest`]. Shown as 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ShortDigest([u8; 8]);

impl ShortDigest {
    fn parse(text: &str) -> Option<Self> {
        digits(text).map(Self)
    }
}

impl fmt::Display for ShortDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ShortDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShortDigest({self})")
    }
}

/// Bytes from twice as many hexadecimal digits in lower case.
fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
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
    Some(bytes)
}

/// A bundle in the object store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BundleKey {
    /// A full bundle: its snapshot and its digest.
    Full(SnapshotId, ShortDigest),
    /// A delta: the digest of the bundle before it, and its own.
    Delta(ShortDigest, ShortDigest),
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The head.
    Head,
    Bundle(BundleKey),
    /// The signature of a bundle.
    Signature(BundleKey),
    /// The journal, by the hash of the file.
    Journal(ShortDigest),
}

const HEAD: &str = "head.json";
const FULL: &str = "full/";
const DELTA: &str = "delta/";
const JOURNAL: &str = "journal/";
const BUNDLE_END: &str = ".gsb";
const SIGNATURE_END: &str = ".minisig";

impl BundleKey {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix(BUNDLE_END)?;
        if let Some(rest) = text.strip_prefix(FULL) {
            let (snapshot, digest) = rest.split_once('-')?;
            return Some(Self::Full(SnapshotId::parse(snapshot)?, ShortDigest::parse(digest)?));
        }
        let (from, to) = text.strip_prefix(DELTA)?.split_once('-')?;
        Some(Self::Delta(ShortDigest::parse(from)?, ShortDigest::parse(to)?))
    }
}

impl Key {
    /// Reads a name; `None`: it is not ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == HEAD {
            return Some(Self::Head);
        }
        if let Some(digest) = text.strip_prefix(JOURNAL) {
            return ShortDigest::parse(digest).map(Self::Journal);
        }
        match text.strip_suffix(SIGNATURE_END) {
            Some(bundle) => BundleKey::parse(bundle).map(Self::Signature),
            None => BundleKey::parse(text).map(Self::Bundle),
        }
    }
}

impl From<BundleKey> for Key {
    fn from(key: BundleKey) -> Self {
        Self::Bundle(key)
    }
}

impl fmt::Display for BundleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(snapshot, digest) => write!(f, "{FULL}{snapshot}-{digest}{BUNDLE_END}"),
            Self::Delta(from, to) => write!(f, "{DELTA}{from}-{to}{BUNDLE_END}"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str(HEAD),
            Self::Bundle(key) => key.fmt(f),
            Self::Signature(key) => write!(f, "{key}{SIGNATURE_END}"),
            Self::Journal(digest) => write!(f, "{JOURNAL}{digest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SNAPSHOT: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for text in [
            "head.json".to_owned(),
            format!("full/{SNAPSHOT}-00ff00ff00ff00ff.gsb"),
            format!("full/{SNAPSHOT}-00ff00ff00ff00ff.gsb.minisig"),
            "delta/00ff00ff00ff00ff-1234567890abcdef.gsb".to_owned(),
            "delta/00ff00ff00ff00ff-1234567890abcdef.gsb.minisig".to_owned(),
            "journal/1234567890abcdef".to_owned(),
        ] {
            assert_eq!(Key::parse(&text).unwrap_or_else(|| panic!("{text}")).to_string(), text);
        }
    }

    #[test]
    fn any_other_name_is_foreign() {
        for text in [
            "",
            "head.json.minisig",
            "Head.json",
            "/head.json",
            "../head.json",
            "full/../head.json",
            "full/0123456789abcdef0123456789abcdef-00ff00ff00ff00ff",
            "full/0123456789ABCDEF0123456789abcdef-00ff00ff00ff00ff.gsb",
            "full/0123456789abcdef0123456789abcde-00ff00ff00ff00ff.gsb",
            "full/0123456789abcdef0123456789abcdef-00ff00ff00ff00ff.gsb/x",
            "delta/00ff00ff00ff00ff-1234567890abcde.gsb",
            "delta/00ff00ff00ff00ff.gsb",
            "delta/00ff00ff00ff00ff-1234567890abcdef.gsb.minisig.minisig",
            "journal/1234567890abcdef.minisig",
            "journal/1234567890abcdeg",
        ] {
            assert_eq!(Key::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_digest_has_64_digits_and_begins_with_its_short_form() {
        let text = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        let digest = Digest::parse(text).unwrap();
        assert_eq!((digest.to_string().as_str(), digest.short().to_string().as_str()), (text, &text[..16]));
        assert_eq!(Digest::parse(&text.to_uppercase()), None);
        assert_eq!(Digest::parse(&text[1..]), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_none(text in "\\PC{0,80}") {
            if let Some(key) = Key::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }

        #[test]
        fn nothing_near_a_key_is_taken_for_one_with_another_name(
            text in "(full|delta|journal)/[0-9a-f]{0,34}-?[0-9a-fA-F/.]{0,18}(\\.gsb)?(\\.minisig)?"
        ) {
            if let Some(key) = Key::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
