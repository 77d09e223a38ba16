//! Entity tags: the opaque validators of RFC 9110 §8.8.3.
//!
//! The parsed tag, its two comparisons, its header value. Not the evaluation of a request's conditions (`precondition`)
//! or the hash that makes our tags (`api`). Callers: `precondition`, `caching`, `cache`, `dumps`, `proxy`, `answer`.

use http::HeaderValue;

/// An entity tag as in a header: `"..."` or `W/"..."`. A clone shares the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntityTag {
    wire: HeaderValue,
    weak: bool,
}

/// Why some bytes are no entity tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EntityTagError {
    /// It does not start with a quotation mark, after an optional `W/`.
    #[error("an entity tag starts with a quotation mark, or with W/ and one")]
    Unquoted,
    /// No closing quotation mark, or an invalid byte before it.
    #[error("the entity tag is not closed by a quotation mark, or holds a byte that it may not")]
    Unclosed,
    /// Something follows the closing quotation mark.
    #[error("something follows the entity tag")]
    Trailing,
}

impl EntityTag {
    /// Reads exactly one entity tag, without surrounding whitespace.
    ///
    /// # Errors
    /// [`EntityTagError`] unless the bytes are `entity-tag` of RFC 9110 §8.8.3, whole.
    pub fn parse(wire: &[u8]) -> Result<Self, EntityTagError> {
        let (tag, rest) = TagRef::split(wire)?;
        if !rest.is_empty() {
            return Err(EntityTagError::Trailing);
        }
        // Every byte of a valid tag is valid in a header value.
        let value = HeaderValue::from_bytes(wire).map_err(|_| EntityTagError::Unclosed)?;
        Ok(Self { wire: value, weak: tag.weak })
    }

    /// The weak tag `W/"opaque"`.
    ///
    /// # Errors
    /// [`EntityTagError`] when `opaque` has an invalid byte, for example a quotation mark or a space.
    pub fn weak(opaque: &str) -> Result<Self, EntityTagError> {
        Self::parse([b"W/\"", opaque.as_bytes(), b"\""].concat().as_slice())
    }

    /// This tag as a weak one, for a rewritten or recompressed representation.
    #[must_use]
    pub fn weakened(&self) -> Self {
        if self.weak {
            return self.clone();
        }
        // A valid tag stays valid behind `W/`.
        Self::parse(&[b"W/", self.as_bytes()].concat()).unwrap_or_else(|_| self.clone())
    }

    /// Whether the tag is marked `W/`.
    pub const fn is_weak(&self) -> bool {
        self.weak
    }

    /// The bytes between the quotation marks.
    pub fn opaque(&self) -> &[u8] {
        self.view().opaque
    }

    /// The tag as it is sent, quotation marks and `W/` included.
    pub fn as_bytes(&self) -> &[u8] {
        self.wire.as_bytes()
    }

    /// The value for an `ETag` header; shares the bytes.
    pub fn to_header_value(&self) -> HeaderValue {
        self.wire.clone()
    }

    /// Weak comparison: equal opaque bytes, whatever the marks (RFC 9110 §8.8.3.2).
    pub fn matches_weakly(&self, other: &Self) -> bool {
        self.view().matches_weakly(other.view())
    }

    /// Strong comparison: equal opaque bytes and neither tag weak (RFC 9110 §8.8.3.2).
    pub fn matches_strongly(&self, other: &Self) -> bool {
        self.view().matches_strongly(other.view())
    }

    /// The tag without its storage, for comparison with members of a list.
    pub(super) fn view(&self) -> TagRef<'_> {
        let wire = self.as_bytes();
        let start = if self.weak { 3 } else { 1 };
        let end = wire.len().saturating_sub(1);
        TagRef { weak: self.weak, opaque: wire.get(start..end).unwrap_or_default() }
    }
}

/// A tag borrowed from a field value: parsing a list allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TagRef<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl<'a> TagRef<'a> {
    /// Splits a tag off the front of `text`; the rest is whatever follows its closing quotation mark.
    pub(super) fn split(text: &'a [u8]) -> Result<(Self, &'a [u8]), EntityTagError> {
        // The mark is case-sensitive (RFC 9110 §8.8.3: weak = %s"W/").
        let (weak, quoted) = text.strip_prefix(b"W/").map_or((false, text), |rest| (true, rest));
        let inside = quoted.strip_prefix(b"\"").ok_or(EntityTagError::Unquoted)?;
        let end = inside.iter().position(|&byte| !is_etagc(byte)).ok_or(EntityTagError::Unclosed)?;
        match inside.split_at(end) {
            (opaque, [b'"', rest @ ..]) => Ok((Self { weak, opaque }, rest)),
            _ => Err(EntityTagError::Unclosed),
        }
    }

    /// RFC 9110 §8.8.3.2, weak.
    pub(super) fn matches_weakly(self, other: TagRef<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// RFC 9110 §8.8.3.2, strong.
    pub(super) fn matches_strongly(self, other: TagRef<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }
}

/// `etagc` of RFC 9110 §8.8.3: visible ASCII but the quotation mark, and obs-text.
const fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7E | 0x80..=0xFF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_are_read_strictly() {
        for good in [&b"\"\""[..], b"\"xyzzy\"", b"W/\"xyzzy\"", b"\"a,b\"", b"\"\xfc\"", b"\"!\"", b"\"W/\""] {
            assert_eq!(EntityTag::parse(good).unwrap().as_bytes(), good);
        }
        for (bad, why) in [
            (&b""[..], EntityTagError::Unquoted),
            (b"xyzzy", EntityTagError::Unquoted),
            (b"w/\"x\"", EntityTagError::Unquoted),
            (b"W/x", EntityTagError::Unquoted),
            (b" \"x\"", EntityTagError::Unquoted),
            (b"*", EntityTagError::Unquoted),
            (b"\"", EntityTagError::Unclosed),
            (b"\"a b\"", EntityTagError::Unclosed),
            (b"\"a\0\"", EntityTagError::Unclosed),
            (b"\"a\x7f\"", EntityTagError::Unclosed),
            (b"\"a\"b", EntityTagError::Trailing),
            (b"\"a\" ", EntityTagError::Trailing),
            (b"\"a\", \"b\"", EntityTagError::Trailing),
        ] {
            assert_eq!(EntityTag::parse(bad), Err(why), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn the_comparison_table_of_rfc_9110_holds() {
        for (a, b, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            let (x, y) = (EntityTag::parse(a.as_bytes()).unwrap(), EntityTag::parse(b.as_bytes()).unwrap());
            assert_eq!((x.matches_strongly(&y), x.matches_weakly(&y)), (strong, weak), "{a} {b}");
        }
    }

    #[test]
    fn weakening_marks_a_strong_tag_and_keeps_a_weak_one() {
        let strong = EntityTag::parse(b"\"v1\"").unwrap();
        assert_eq!(strong.weakened(), EntityTag::weak("v1").unwrap());
        assert_eq!(strong.weakened().weakened(), strong.weakened());
        assert_eq!(strong.weakened().opaque(), b"v1");
        assert!(EntityTag::weak("a\"b").is_err());
    }

    proptest! {
        #[test]
        fn the_parser_is_total_and_keeps_the_bytes(bytes: Vec<u8>) {
            if let Ok(tag) = EntityTag::parse(&bytes) {
                prop_assert_eq!(tag.as_bytes(), bytes.as_slice());
                prop_assert!(tag.matches_weakly(&tag.weakened()));
            }
        }
    }
}
