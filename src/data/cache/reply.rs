//! Ready answers: replies rendered from the snapshot, documents of this server, and answers of the
//! origin with the terms of their use.
//!
//! They have nothing that varies between requests, and decide nothing: see [`crate::protocol::caching`]. If a new
//! snapshot does not change one, it stays, with its compressed variants. Callers: [`crate::edge::answer`],
//! [`crate::edge::proxy`], [`crate::edge::pages`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::api::hash::ContentHash;
use crate::clock::Monotonic;
use crate::protocol::caching::{Freshness, OneLanguage, Selecting};
use crate::protocol::coding::Coding;
use crate::protocol::precondition::EntityTag;

use super::coded::Coded;
use super::{Cache, Key};

/// A reply of status 200.
#[derive(Debug)]
pub struct Reply {
    /// The entity tag, parsed for comparison.
    pub tag: Option<EntityTag>,
    pub etag: Option<HeaderValue>,
    pub link: Option<HeaderValue>,
    /// The latest epoch in which it is known to be current.
    epoch: AtomicU64,
    pub body: Coded,
}

impl Reply {
    /// A reply with a JSON body.
    pub fn new(body: impl Into<Bytes>, tag: Option<EntityTag>, link: Option<HeaderValue>, epoch: u64) -> Self {
        let etag = tag.as_ref().map(EntityTag::to_header_value);
        Self { etag, tag, link, epoch: AtomicU64::new(epoch), body: Coded::new(body) }
    }

    /// The latest epoch in which it is known to be current.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// It is current in this epoch, too.
    pub fn confirm(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Whether a client could not tell two replies apart.
    pub fn shows_the_same_as(&self, other: &Self) -> bool {
        self.etag == other.etag && self.link == other.link && self.body.identity() == other.body.identity()
    }

    /// Its weight in the cache, in bytes.
    pub fn weight(&self) -> usize {
        let head = [&self.link, &self.etag].into_iter().flatten().map(HeaderValue::len).sum::<usize>();
        self.body.weight() + head
    }
}

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
    /// The same with a map, which may have images of another server.
    Map,
    /// The same, which other sites may frame.
    Widget,
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
    Day,
    /// For good: other content has another name.
    Immutable,
    /// Not at all: it waits for something, and browsers load it again after so many seconds.
    Unfinished(u64),
}

/// The properties of a document that its header states.
#[derive(Clone, Copy, Debug)]
pub struct ReplyKind {
    pub content_type: &'static str,
    pub confinement: Confinement,
    pub lifetime: Lifetime,
    /// Whether another document at the same path answers other wishes (`Accept`).
    pub varies_by_accept: bool,
}

#[derive(Debug)]
enum ReplyBody {
    /// In any coding that a client wishes.
    Any(Coded),
    /// In one coding, and no other.
    Only(Coding, Bytes),
}

/// A document of status 200.
#[derive(Debug)]
pub struct Rendered {
    pub kind: ReplyKind,
    body: ReplyBody,
    tags: [Option<EntityTag>; 4],
    /// The latest epoch of the snapshot for which it is known to be right.
    epoch: AtomicU64,
}

impl Rendered {
    /// A document for this epoch of the snapshot; `renderer` names the version of what rendered it.
    pub fn new(kind: ReplyKind, body: impl Into<Bytes>, renderer: &str, epoch: u64) -> Self {
        let body = body.into();
        let hash = ContentHash::of_parts([renderer.as_bytes(), kind.content_type.as_bytes(), &body]);
        Self::of(kind, hash, ReplyBody::Any(Coded::roomy(body)), epoch)
    }

    /// A document that is there in one coding only, for clients that can decode it; `hash` is that of its content.
    pub fn packed(kind: ReplyKind, hash: ContentHash, coding: Coding, body: &'static [u8]) -> Self {
        Self::of(kind, hash, ReplyBody::Only(coding, Bytes::from_static(body)), 0)
    }

    fn of(kind: ReplyKind, hash: ContentHash, body: ReplyBody, epoch: u64) -> Self {
        let tag = |coding| EntityTag::parse(format!("\"{hash}-{}\"", Coding::as_str(coding)).as_bytes());
        let mut tags = [const { None }; 4];
        for coding in [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            tags[coding as usize] = tag(coding);
        }
        Self { kind, body, tags, epoch: AtomicU64::new(epoch) }
    }

    /// The body in a coding, the coding it really has, and its tag.
    pub fn variant(&self, coding: Coding) -> (Coding, Bytes, Option<&EntityTag>) {
        let (coding, body) = match &self.body {
            ReplyBody::Any(body) => body.variant(coding),
            ReplyBody::Only(coding, body) => (*coding, body.clone()),
        };
        (coding, body, self.tags[coding as usize].as_ref())
    }

    /// Makes a coding of a large body elsewhere and waits for it.
    pub async fn prepare(&self, coding: Coding) {
        if let ReplyBody::Any(body) = &self.body {
            body.prepare(coding).await;
        }
    }

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
            ReplyBody::Any(body) => body.weight(),
            ReplyBody::Only(_, body) => body.len(),
        };
        body + 256
    }
}

#[derive(Clone, Debug)]
pub struct Stored {
    pub status: StatusCode,
    /// The end-to-end fields; without `Age`, which grows.
    pub fields: HeaderMap,
    pub body: Arc<Coded>,
    /// Our own `Link`, beside the origin's.
    pub link: Option<HeaderValue>,
    /// The origin's own `ETag`, to revalidate with.
    pub etag: Option<HeaderValue>,
    /// The origin's `Last-Modified`, to revalidate with.
    pub last_modified: Option<HeaderValue>,
    /// How long it may be used, and how.
    pub terms: Freshness,
    /// Which requests it answers.
    pub selecting: Selecting,
    /// It also answers requests that want this language most, if nothing stored answers them exactly.
    pub language: Option<OneLanguage>,
    /// When it arrived or was last confirmed.
    pub arrived: Monotonic,
}

impl Stored {
    /// Its age now (RFC 9111 §4.2.3).
    pub fn age(&self, now: Monotonic) -> Duration {
        self.terms.initial_age.saturating_add(now.since(self.arrived))
    }

    /// Seconds of freshness left, rounded down; negative when it is stale.
    pub fn ttl(&self, now: Monotonic) -> i64 {
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let (age, lifetime) = (self.age(now), self.terms.lifetime);
        match lifetime.checked_sub(age) {
            Some(left) => seconds(left),
            None => -seconds(age.saturating_sub(lifetime) + Duration::from_nanos(999_999_999)),
        }
    }

    /// Whether it can be revalidated.
    pub const fn has_validator(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// Its weight in the cache, in bytes.
    pub fn weight(&self) -> usize {
        const EACH: usize = 64;
        let fields = self.fields.iter().map(|(name, value)| name.as_str().len() + value.len() + EACH).sum::<usize>();
        self.body.weight() + fields + self.selecting.weight() + 256 + self.link.as_ref().map_or(0, HeaderValue::len)
    }
}

/// The cached answers for one resource, newest first. No two are for the same values of the headers in `Vary`.
#[derive(Clone, Debug, Default)]
pub struct Variants {
    variants: Vec<StoredVariant>,
    /// Counts the requests that were answered from these.
    uses: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
struct StoredVariant {
    stored: Arc<Stored>,
    /// When it last answered a request, by the clock of [`Variants`]; 0: never.
    used: Arc<AtomicU64>,
    /// The number of the request to the origin that brought this answer or last confirmed it; later requests have
    /// higher ones.
    asked: u64,
}

impl Variants {
    /// The one for a request with these fields (RFC 9111 §4.1), else one in the language that the request wants most.
    pub fn select(&self, request: &HeaderMap) -> Option<&Arc<Stored>> {
        let is_favourite = |stored: &Stored| {
            stored.language.as_ref().is_some_and(|language| stored.selecting.serves_as_favourite(language, request))
        };
        let exact = self.variants.iter().find(|variant| variant.stored.selecting.matches(request));
        let chosen = exact.or_else(|| self.variants.iter().find(|variant| is_favourite(&variant.stored)))?;
        chosen.used.store(self.uses.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Some(&chosen.stored)
    }

    /// All of them, newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.variants.iter().map(|variant| &variant.stored)
    }

    /// Adds an answer in place of the old one for the same requests, else of one that was never used, else of the one
    /// that was used longest ago, but that only if `is_wanted`: requests with these fields came before. `None`: it is
    /// not added, or the old one has a higher number.
    pub fn with(&self, stored: &Arc<Stored>, asked: u64, is_wanted: impl FnOnce() -> bool) -> Option<Self> {
        // The weight bounds the memory; this bounds the search in `select`.
        const MOST: usize = 16;
        let mut variants = self.variants.clone();
        let mut used = Arc::default();
        if let Some(same) = variants.iter().position(|other| other.stored.selecting == stored.selecting) {
            let old = variants.remove(same);
            if old.asked > asked {
                return None;
            }
            used = old.used;
        } else if variants.len() >= MOST {
            let last_use = |at: &usize| variants[*at].used.load(Ordering::Relaxed);
            let oldest = (0..variants.len()).rev().min_by_key(last_use)?;
            if last_use(&oldest) > 0 && !is_wanted() {
                return None;
            }
            variants.remove(oldest);
        }
        variants.insert(0, StoredVariant { stored: stored.clone(), used, asked });
        Some(Self { variants, uses: self.uses.clone() })
    }

    /// Replaces one by its confirmed form; `None` if it is no longer cached.
    pub fn confirmed(&self, kept: &Arc<Stored>, stored: &Arc<Stored>, asked: u64) -> Option<Self> {
        let confirmed = self.variants.iter().find(|variant| Arc::ptr_eq(&variant.stored, kept))?;
        self.with(stored, asked.max(confirmed.asked), || false)
    }

    /// Removes one; `None` when nothing is left.
    pub fn without(&self, stored: &Arc<Stored>) -> Option<Self> {
        let mut others = self.clone();
        others.variants.retain(|other| !Arc::ptr_eq(&other.stored, stored));
        (!others.variants.is_empty()).then_some(others)
    }

    /// Their weight in the cache, in bytes.
    pub fn weight(&self) -> usize {
        self.iter().map(|stored| stored.weight()).sum()
    }
}

#[cfg(test)]
mod rendered_tests {
    use super::*;

    const KIND: ReplyKind = ReplyKind {
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
