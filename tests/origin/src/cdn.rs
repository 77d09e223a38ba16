//! The CDN in front of the origin: copies by node, path with query, and content coding.
//!
//! It sends a copy until it is too old, never revalidates and knows nothing of edits: nodes disagree, and so do the
//! gzip and the identity copy of one resource. [`CopyHeader`](super::CopyHeader) says how. Also turns answers into bytes.
//! Callers: the server.

use std::collections::HashMap;
use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use tokio::time::Instant;

use super::answer::Answer;
use super::etag::{tag_in_coding, tag_of};
use super::switches::EtagStyle;

/// With more copies, those that are too old are dropped.
const MANY: usize = 20_000;

/// An answer as bytes, as it was at one moment.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    pub(super) location: Option<String>,
    pub(super) bytes: Bytes,
    pub(super) gzip: bool,
    pub(super) etag: Option<String>,
    /// When it was made, on the monotonic clock ...
    pub(super) made: Instant,
    /// ... and on the origin's.
    pub(super) made_at: Timestamp,
}

impl Copy {
    /// Encodes an answer. Only status 200 has an entity tag.
    pub(super) fn of(
        answer: &Answer,
        gzip: bool,
        style: EtagStyle,
        nonce: u64,
        made: Instant,
        made_at: Timestamp,
    ) -> Self {
        let text = answer.body.text.as_bytes();
        let compressed = if gzip { compress(text) } else { None };
        let tag = if answer.status == 200 { tag_of(&answer.body, style, nonce) } else { None };
        Self {
            status: answer.status,
            media_type: answer.media_type,
            location: answer.location.clone(),
            gzip: compressed.is_some(),
            etag: tag.map(|tag| tag_in_coding(tag, compressed.is_some())),
            bytes: compressed.unwrap_or_else(|| Bytes::copy_from_slice(text)),
            made,
            made_at,
        }
    }
}

fn compress(text: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::fast());
    encoder.write_all(text).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// Node, path with query, and whether it is the gzip copy.
pub(super) type Key = (u32, String, bool);

/// All copies on all nodes.
#[derive(Debug, Default)]
pub(super) struct Copies {
    kept: HashMap<Key, Copy>,
}

impl Copies {
    /// A copy, and whether it is not yet too old.
    pub(super) fn get(&self, key: &Key, max_age: Duration, now: Instant) -> Option<(Copy, bool)> {
        self.kept.get(key).map(|copy| (copy.clone(), now.duration_since(copy.made) < max_age))
    }

    /// Keeps a copy, if a CDN would keep it.
    pub(super) fn put(&mut self, key: Key, copy: &Copy, max_age: Duration) {
        if copy.status != 200 {
            return;
        }
        if self.kept.len() >= MANY {
            self.kept.retain(|_, kept| copy.made.duration_since(kept.made) < max_age);
        }
        self.kept.insert(key, copy.clone());
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}

/// The `Age` of a copy in whole seconds, rounded up: the data is never younger than it says.
pub(super) fn age_of(copy: &Copy, now: Instant) -> u64 {
    let age = now.duration_since(copy.made);
    age.as_secs() + u64::from(age.subsec_nanos() > 0)
}
