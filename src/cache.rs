//! Hot answers in memory, bounded by bytes: rendered replies and what was read through from the origin.
//!
//! The only user of moka. It decides nothing about freshness. Callers: [`crate::serve`], [`crate::origin`].

pub mod entry;
pub mod reply;

use std::sync::Arc;

use moka::sync::Cache as Moka;

use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;

use entry::Entry;
use reply::Reply;

/// What an answer is kept under: the canonical request, whatever the client's `Accept-Encoding`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A page of the list, from the snapshot.
    List(ListQuery),
    /// A taxonomy, from the snapshot.
    Taxonomy(TaxonomyKind),
    /// A detail.
    Detail(ListingId),
    /// A canonical path and query, read through.
    Through(Box<str>),
}

#[derive(Clone)]
enum Kept {
    Reply(Arc<Reply>),
    Entry(Arc<Entry>),
}

/// The cache; cheap to clone.
#[derive(Clone)]
pub struct Cache {
    kept: Moka<Key, Kept, foldhash::fast::RandomState>,
}

impl Cache {
    /// A cache of at most `max_bytes`, bodies and their coded variants counted.
    pub fn new(max_bytes: u64) -> Self {
        let weigh = |key: &Key, kept: &Kept| {
            let body = match kept {
                Kept::Reply(reply) => reply.weight(),
                Kept::Entry(entry) => entry.reply.weight(),
            };
            let key = match key {
                Key::List(query) => query.filters().map(|(_, value)| value.len()).sum::<usize>() + 96,
                Key::Through(path) => path.len(),
                Key::Taxonomy(_) | Key::Detail(_) => 16,
            };
            u32::try_from(body + key + 512).unwrap_or(u32::MAX)
        };
        let kept = Moka::builder()
            .max_capacity(max_bytes)
            .weigher(weigh)
            .build_with_hasher(foldhash::fast::RandomState::default());
        Self { kept }
    }

    /// A rendered reply.
    pub fn reply(&self, key: &Key) -> Option<Arc<Reply>> {
        match self.kept.get(key)? {
            Kept::Reply(reply) => Some(reply),
            Kept::Entry(_) => None,
        }
    }

    /// Keeps a rendered reply.
    pub fn keep_reply(&self, key: Key, reply: Arc<Reply>) {
        self.kept.insert(key, Kept::Reply(reply));
    }

    /// Something read through.
    pub fn entry(&self, key: &Key) -> Option<Arc<Entry>> {
        match self.kept.get(key)? {
            Kept::Entry(entry) => Some(entry),
            Kept::Reply(_) => None,
        }
    }

    /// Keeps something read through.
    pub fn keep_entry(&self, key: Key, entry: Arc<Entry>) {
        self.kept.insert(key, Kept::Entry(entry));
    }

    /// Forgets one answer.
    pub fn forget(&self, key: &Key) {
        self.kept.invalidate(key);
    }

    /// Bytes and entries held, as far as counted by now.
    pub fn size(&self) -> (u64, u64) {
        (self.kept.weighted_size(), self.kept.entry_count())
    }
}
