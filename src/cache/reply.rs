//! A reply that is ready to be sent: body, validators, and its coded variants made at most once.
//!
//! It holds nothing that varies from request to request. A publication does not make it worthless: what it shows may be
//! the same in the next epoch, and then it stays, with its coded variants. Callers: [`crate::serve`].

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderValue;

use crate::semantics::etag::EntityTag;

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
    /// The latest epoch of the snapshot for which it is known to be right.
    epoch: AtomicU64,
    /// A hash of what it was made of, where that is cheaper to compare than to make it again.
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

    /// The same, with what it was made of: another epoch in which that is the same has the same reply.
    #[must_use]
    pub fn made_of(self, basis: u128) -> Self {
        Self { basis: Some(basis), ..self }
    }

    /// The latest epoch for which it is known to be right.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// It is right in this epoch, too.
    pub fn confirm(&self, epoch: u64) {
        self.epoch.fetch_max(epoch, Ordering::Relaxed);
    }

    /// Whether it was made of this.
    pub fn is_made_of(&self, basis: u128) -> bool {
        self.basis == Some(basis)
    }

    /// Whether a client could not tell it from another one.
    pub fn shows_the_same_as(&self, other: &Self) -> bool {
        self.etag == other.etag && self.link == other.link && self.body.identity().body == other.body.identity().body
    }

    /// What it weighs in a cache, in bytes.
    pub fn weight(&self) -> usize {
        let head = [&self.link, &self.etag].into_iter().flatten().map(HeaderValue::len).sum::<usize>();
        self.body.weight() + head
    }
}
