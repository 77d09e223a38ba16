//! A cached answer of the origin: the fields to send, and the terms of its use.
//!
//! It decides nothing: see [`crate::semantics::caching`]. Callers: [`crate::proxy`], [`crate::answer`].

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};

use crate::clock::Monotonic;
use crate::semantics::caching::selecting::Selecting;
use crate::semantics::caching::terms::Terms;

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
pub struct Variants(Vec<Variant>);

#[derive(Clone, Debug)]
struct Variant {
    stored: Arc<Stored>,
    /// The number of the request to the origin that brought this answer or last confirmed it; later requests have
    /// higher ones.
    asked: u64,
}

impl Variants {
    /// The newest that answers a request with these fields (RFC 9111 §4.1).
    pub fn select(&self, request: &HeaderMap) -> Option<&Arc<Stored>> {
        self.iter().find(|stored| stored.selecting.matches(request, &stored.fields))
    }

    /// All of them, newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.0.iter().map(|variant| &variant.stored)
    }

    /// Adds an answer in place of the old one for the same requests; `None` if the old one has a higher number.
    pub fn with(&self, stored: &Arc<Stored>, asked: u64) -> Option<Self> {
        const MOST: usize = 16;
        let same = |other: &&Variant| other.stored.selecting == stored.selecting;
        if self.0.iter().filter(same).any(|other| other.asked > asked) {
            return None;
        }
        let others = self.0.iter().filter(|other| !same(other)).take(MOST - 1).cloned();
        Some(Self(std::iter::once(Variant { stored: stored.clone(), asked }).chain(others).collect()))
    }

    /// Replaces one by its confirmed form; `None` if it is no longer cached.
    pub fn confirmed(&self, kept: &Arc<Stored>, stored: &Arc<Stored>, asked: u64) -> Option<Self> {
        let confirmed = self.0.iter().find(|variant| Arc::ptr_eq(&variant.stored, kept))?;
        self.with(stored, asked.max(confirmed.asked))
    }

    /// Removes one; `None` when nothing is left.
    pub fn without(&self, stored: &Arc<Stored>) -> Option<Self> {
        let others: Vec<_> = self.0.iter().filter(|other| !Arc::ptr_eq(&other.stored, stored)).cloned().collect();
        (!others.is_empty()).then_some(Self(others))
    }

    /// Their weight in the cache, in bytes.
    pub fn weight(&self) -> usize {
        self.iter().map(|stored| stored.weight()).sum()
    }
}
