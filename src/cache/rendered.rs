//! A rendered document that is ready to be sent: its body, and a strong entity tag for each coding of it.
//!
//! Its codings are made once and never again: a strong tag names bytes. Callers: [`crate::pages`] renders,
//! [`crate::answer`] sends.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::api::hash::ContentHash;
use crate::semantics::coding::Coding;
use crate::semantics::precondition::EntityTag;

use super::coded::{Coded, Shown, Variant};
use super::{Cache, Key};

impl Cache {
    /// Forgets every rendered document: what they say of the server has changed.
    pub(crate) fn forget_documents(&self) {
        let documents = self.kept.iter().filter(|(key, _)| matches!(**key, Key::Document(_)));
        let keys: Vec<_> = documents.map(|(key, _)| key).collect();
        for key in &keys {
            self.kept.invalidate(&**key);
        }
    }
}

/// What a browser may do with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// It is no page.
    None,
    /// A page of ours.
    Page,
    /// The viewer of the API's description, which styles itself.
    Viewer,
}

/// How long a document may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It is asked for each time whether it still holds.
    Revalidated,
    /// As long as answers of the API.
    OfAnswers,
    /// A day.
    Day,
    /// For good: other content has another name.
    Immutable,
}

/// What is said of a document beside its body.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// `Content-Type`.
    pub content_type: &'static str,
    /// What a browser may do with it.
    pub confinement: Confinement,
    /// How long it may be kept.
    pub lifetime: Lifetime,
    /// Whether another document at the same path answers other wishes (`Accept`).
    pub varies_by_accept: bool,
}

#[derive(Debug)]
enum Body {
    /// In any coding that a client wishes.
    Any(Coded),
    /// In one coding, and no other.
    Only(Coding, Variant),
}

/// A document of status 200.
#[derive(Debug)]
pub struct Rendered {
    /// What is said of it beside its body.
    pub kind: Kind,
    body: Body,
    tags: [Option<EntityTag>; 4],
    /// The latest epoch of the snapshot for which it is known to be right.
    epoch: AtomicU64,
}

impl Rendered {
    /// A document for this epoch of the snapshot; `renderer` names the version of what rendered it.
    pub fn new(kind: Kind, body: impl Into<Bytes>, renderer: &str, epoch: u64) -> Self {
        let body = body.into();
        let hash = ContentHash::of_parts([renderer.as_bytes(), kind.content_type.as_bytes(), &body]);
        Self::of(kind, hash, Body::Any(Coded::roomy(body)), epoch)
    }

    /// A document that is there in one coding only, for clients that can decode it; `hash` is that of its content.
    pub fn packed(kind: Kind, hash: ContentHash, coding: Coding, body: &'static [u8]) -> Self {
        Self::of(kind, hash, Body::Only(coding, Variant::new(Bytes::from_static(body))), 0)
    }

    fn of(kind: Kind, hash: ContentHash, body: Body, epoch: u64) -> Self {
        let tag = |coding| EntityTag::parse(format!("\"{hash}-{}\"", Coding::as_str(coding)).as_bytes());
        let mut tags = [const { None }; 4];
        for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            tags[coding as usize] = tag(coding);
        }
        Self { kind, body, tags, epoch: AtomicU64::new(epoch) }
    }

    /// The body in a coding, the coding it really has, and its tag.
    pub fn variant(&self, coding: Coding) -> (Coding, Shown<'_>, Option<&EntityTag>) {
        let (coding, shown) = match &self.body {
            Body::Any(body) => body.variant(coding),
            Body::Only(coding, body) => (*coding, body.shown()),
        };
        (coding, shown, self.tags[coding as usize].as_ref())
    }

    /// Makes a coding of a large body elsewhere and waits for it.
    pub async fn prepare(&self, coding: Coding) {
        if let Body::Any(body) = &self.body {
            body.prepare(coding).await;
        }
    }

    /// The latest epoch for which it is known to be right.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// It is right in this epoch, too.
    pub fn confirm(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Whether a client could not tell it from another one.
    pub fn shows_the_same_as(&self, other: &Self) -> bool {
        self.tags == other.tags
    }

    /// What it weighs in a cache, in bytes.
    pub fn weight(&self) -> usize {
        let body = match &self.body {
            Body::Any(body) => body.weight(),
            Body::Only(_, body) => body.body.len(),
        };
        body + 256
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind {
        content_type: "text/plain",
        confinement: Confinement::None,
        lifetime: Lifetime::Day,
        varies_by_accept: false,
    };

    fn tag(document: &Rendered, coding: Coding) -> String {
        String::from_utf8(document.variant(coding).2.unwrap().as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn each_coding_has_a_strong_tag_of_its_own() {
        let document = Rendered::new(KIND, "a word ".repeat(100), "1", 0);
        let tags: Vec<String> =
            [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd].map(|coding| tag(&document, coding)).into();
        assert!(tags.iter().all(|tag| tag.starts_with('"')), "{tags:?}");
        assert_eq!(tags.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{tags:?}");
        let short = Rendered::new(KIND, "a word", "1", 0);
        assert_eq!(tag(&short, Coding::Gzip), tag(&short, Coding::Identity), "it is not worth a coding");
    }

    #[test]
    fn a_map_that_compresses_to_half_has_every_coding() {
        // Digits without a pattern, as outlines and dots have them.
        let digit = |n: u32| blake3::hash(&n.to_le_bytes()).as_bytes()[0] % 10 + b'0';
        let body: Vec<u8> = (0..40_000).map(digit).collect();
        let document = Rendered::new(KIND, body, "1", 0);
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            assert_eq!(document.variant(coding).0, coding);
        }
    }

    #[test]
    fn the_tag_depends_on_content_and_renderer_only() {
        let tag = |body: &'static str, renderer: &str, epoch| {
            tag(&Rendered::new(KIND, body, renderer, epoch), Coding::Identity)
        };
        assert_eq!(tag("a", "1", 1), tag("a", "1", 2));
        assert_ne!(tag("a", "1", 1), tag("b", "1", 1));
        assert_ne!(tag("a", "1", 1), tag("a", "2", 1));
    }
}
