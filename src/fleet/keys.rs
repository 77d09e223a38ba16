//! The names of objects in an object store, below its prefix. Nothing else is ever read, written or removed.
//!
//! Pure. Callers: [`super::head`] and [`super::bundle_store`].

use std::fmt;

use crate::api::hash::Digest;
use crate::data::snapshot::content::SnapshotId;

/// The first eight bytes of a digest, which stand in names.
type ShortDigest = Digest<8>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ObjectKey {
    Head,
    /// A full bundle: its snapshot and its digest.
    Full(SnapshotId, ShortDigest),
    /// A delta: the digest of the bundle before it, and its own.
    Delta(ShortDigest, ShortDigest),
    Signature(Box<Self>),
    /// The journal, by the hash of the file.
    Journal(ShortDigest),
}

const HEAD: &str = "head.json";
const FULL: &str = "full/";
const DELTA: &str = "delta/";
const JOURNAL: &str = "journal/";
const BUNDLE_END: &str = ".gsb";
const SIGNATURE_END: &str = ".minisig";

impl ObjectKey {
    /// Reads a name; `None`: it is not ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == HEAD {
            return Some(Self::Head);
        }
        if let Some(digest) = text.strip_prefix(JOURNAL) {
            return ShortDigest::parse(digest).map(Self::Journal);
        }
        if let Some(bundle) = text.strip_suffix(SIGNATURE_END) {
            return Self::bundle(bundle).map(Self::signature);
        }
        Self::bundle(text)
    }

    fn bundle(text: &str) -> Option<Self> {
        let text = text.strip_suffix(BUNDLE_END)?;
        if let Some(rest) = text.strip_prefix(FULL) {
            let (snapshot, digest) = rest.split_once('-')?;
            return Some(Self::Full(SnapshotId::parse(snapshot)?, ShortDigest::parse(digest)?));
        }
        let (from, to) = text.strip_prefix(DELTA)?.split_once('-')?;
        Some(Self::Delta(ShortDigest::parse(from)?, ShortDigest::parse(to)?))
    }

    pub(crate) fn signature(self) -> Self {
        Self::Signature(Box::new(self))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str(HEAD),
            Self::Full(snapshot, digest) => write!(f, "{FULL}{snapshot}-{digest}{BUNDLE_END}"),
            Self::Delta(from, to) => write!(f, "{DELTA}{from}-{to}{BUNDLE_END}"),
            Self::Signature(bundle) => write!(f, "{bundle}{SIGNATURE_END}"),
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
            assert_eq!(ObjectKey::parse(&text).unwrap_or_else(|| panic!("{text}")).to_string(), text);
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
            assert_eq!(ObjectKey::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_key_or_none(text in "\\PC{0,80}") {
            if let Some(key) = ObjectKey::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }

        #[test]
        fn nothing_near_a_key_is_taken_for_one_with_another_name(
            text in "(full|delta|journal)/[0-9a-f]{0,34}-?[0-9a-fA-F/.]{0,18}(\\.gsb)?(\\.minisig)?"
        ) {
            if let Some(key) = ObjectKey::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
