//! A cached answer of the origin: the fields to send, and the terms of its use.
//!
//! It decides nothing: see [`crate::semantics::caching`]. Callers: [`crate::proxy`], [`crate::answer`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};

use crate::clock::Monotonic;
use crate::semantics::caching::{OneLanguage, Selecting, Terms};

use super::coded::Coded;

/// An answer of the origin.
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
    pub terms: Terms,
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
    variants: Vec<Variant>,
    /// Counts the requests that were answered from these.
    uses: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
struct Variant {
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
        variants.insert(0, Variant { stored: stored.clone(), used, asked });
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
