//! A reply that is ready to be sent: body, validators, and its coded variants made at most once.
//!
//! It holds nothing that varies from request to request. Callers: [`crate::serve`].

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
    /// The epoch of the snapshot that it was rendered from.
    pub epoch: u64,
    /// The body.
    pub body: Coded,
}

impl Reply {
    /// A reply with a JSON body.
    pub fn new(body: impl Into<Bytes>, tag: Option<EntityTag>, link: Option<HeaderValue>, epoch: u64) -> Self {
        Self { etag: tag.as_ref().map(EntityTag::to_header_value), tag, link, epoch, body: Coded::new(body) }
    }

    /// What it weighs in a cache, in bytes.
    pub fn weight(&self) -> usize {
        let head = [&self.link, &self.etag].into_iter().flatten().map(HeaderValue::len).sum::<usize>();
        self.body.weight() + head
    }
}
