//! A reply that is ready to be sent: body, validators and compressed variants.
//!
//! It has nothing that varies between requests. If a new snapshot does not change it, it stays, with its variants.
//! Callers: [`crate::answer`].

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderValue;

use crate::semantics::precondition::EntityTag;

use super::coded::Coded;

/// A reply of status 200.
#[derive(Debug)]
pub struct Reply {
    /// The entity tag, parsed for comparison.
    pub tag: Option<EntityTag>,
    /// `ETag`.
    pub etag: Option<HeaderValue>,
    /// `Link`.
    pub link: Option<HeaderValue>,
    /// The latest epoch in which it is known to be current.
    epoch: AtomicU64,
    /// A hash of its sources, if comparing them is cheaper than rendering again.
    basis: Option<u128>,
    /// The body.
    pub body: Coded,
}

impl Reply {
    /// A reply with a JSON body.
    pub fn new(body: impl Into<Bytes>, tag: Option<EntityTag>, link: Option<HeaderValue>, epoch: u64) -> Self {
        let etag = tag.as_ref().map(EntityTag::to_header_value);
        Self { etag, tag, link, epoch: AtomicU64::new(epoch), basis: None, body: Coded::new(body) }
    }

    /// The same, with its sources: an epoch with equal sources has the same reply.
    #[must_use]
    pub fn made_of(self, basis: u128) -> Self {
        Self { basis: Some(basis), ..self }
    }

    /// The latest epoch in which it is known to be current.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// It is current in this epoch, too.
    pub fn confirm(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Whether it was made of these sources.
    pub fn is_made_of(&self, basis: u128) -> bool {
        self.basis == Some(basis)
    }

    /// Whether a client could not tell two replies apart.
    pub fn shows_the_same_as(&self, other: &Self) -> bool {
        self.etag == other.etag && self.link == other.link && self.body.identity().body == other.body.identity().body
    }

    /// Its weight in the cache, in bytes.
    pub fn weight(&self) -> usize {
        let head = [&self.link, &self.etag].into_iter().flatten().map(HeaderValue::len).sum::<usize>();
        self.body.weight() + head
    }
}
