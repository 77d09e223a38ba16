//! Hot answers in memory, bounded by bytes: rendered replies and answers of the origin.
//!
//! The only user of moka. It decides nothing about freshness.
//!
//! An answer of the origin enters at once, because it cost a request. A rendered reply enters at its second request
//! ([`recent`]). Hot answers are compressed again, well ([`coded`]). A reply that a new snapshot does not change
//! stays; otherwise its successor takes its place. Callers: [`crate::edge::answer`], [`crate::edge::proxy`],
//! [`crate::mirror`], [`crate::server::admin`], [`crate::origin`].

pub mod coded;
pub mod recent;
pub mod reply;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use moka::ops::compute::Op;
use moka::sync::Cache as Moka;
use percent_encoding::percent_decode;

use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::api::query::search::SearchQuery;
use crate::api::route::WantedDocument;
use crate::api::taxonomy::TaxonomyKind;

use coded::Recoder;
use recent::{Asking, Recent, UnderWay};
use reply::{Lifetime, Rendered, Reply, Stored, Variants};

/// So many requests are remembered: 1 MiB.
const REMEMBERED: usize = 1 << 15;

/// The key of an answer: the canonical request without `Accept-Encoding`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A page of the list, from the snapshot.
    List(ListQuery),
    Taxonomy(TaxonomyKind),
    Detail(ListingId),
    /// The changes since the snapshot with this id.
    Changes(Box<str>),
    /// A page of what a search found.
    Search(Box<SearchQuery>),
    Document(WantedDocument),
    /// An answer of the origin, by path and query as sent: canonical for known endpoints, as received for others.
    Origin(Box<[u8]>),
}

impl Key {
    pub fn origin(target: impl AsRef<[u8]>) -> Self {
        Self::Origin(target.as_ref().into())
    }

    /// Whether it is an answer at this path, with any query.
    fn is_at(&self, path: &[u8]) -> bool {
        match self {
            Self::List(_) => path == b"/api/listings.json",
            Self::Taxonomy(kind) => path == kind.path().as_bytes(),
            Self::Detail(id) => path == format!("/api/listings/{id}.json").as_bytes(),
            Self::Changes(_) => path == b"/changes.json",
            Self::Search(_) => path == b"/search.json",
            Self::Document(wanted) => wanted.path().as_bytes() == path,
            // Escapes do not matter.
            Self::Origin(target) => {
                let own = target.split(|byte| *byte == b'?').next().unwrap_or_default();
                percent_decode(own).eq(percent_decode(path))
            }
        }
    }
}

#[derive(Clone)]
enum Kept {
    Reply(Arc<Reply>),
    Stored(Arc<Variants>),
    Rendered(Arc<Rendered>),
}

/// Outcomes of rendered replies that were cache misses, since the start. Hits count as answers.
#[derive(Debug, Default)]
struct Outcomes {
    /// Asked for once, and not kept.
    passing: AtomicU64,
    /// Kept from now on.
    kept: AtomicU64,
    /// Kept already, and the same in a new epoch.
    confirmed: AtomicU64,
    /// Cached, and replaced in a new epoch.
    renewed: AtomicU64,
}

/// The cache; cheap to clone.
#[derive(Clone)]
pub struct Cache {
    kept: Moka<Key, Kept, foldhash::fast::RandomState>,
    max_bytes: u64,
    under_way: UnderWay,
    /// What was asked for of late.
    asked: Arc<Recent<()>>,
    recoder: Recoder,
    outcomes: Arc<Outcomes>,
}

impl Cache {
    /// A cache of at most `max_bytes`, bodies and their coded variants counted.
    pub fn new(max_bytes: u64) -> Self {
        let weigh = |key: &Key, kept: &Kept| {
            let body = match kept {
                Kept::Reply(reply) => reply.weight(),
                Kept::Stored(variants) => variants.weight(),
                Kept::Rendered(document) => document.weight(),
            };
            let key = match key {
                Key::List(query) => query.weight(),
                Key::Origin(target) => target.len(),
                Key::Changes(since) => since.len(),
                Key::Search(query) => query.weight(),
                Key::Document(wanted) => wanted.weight(),
                Key::Taxonomy(_) | Key::Detail(_) => 16,
            };
            u32::try_from(body + key + 512).unwrap_or(u32::MAX)
        };
        let kept = Moka::builder()
            .max_capacity(max_bytes)
            .weigher(weigh)
            .build_with_hasher(foldhash::fast::RandomState::default());
        Self {
            kept,
            max_bytes,
            under_way: UnderWay::default(),
            asked: Arc::new(Recent::new(REMEMBERED)),
            recoder: Recoder::start(),
            outcomes: Arc::default(),
        }
    }

    /// The largest body that is cached, in bytes: one must not push out all others.
    pub const fn largest(&self) -> u64 {
        self.max_bytes / 8
    }

    pub fn reply(&self, key: &Key) -> Option<Arc<Reply>> {
        match self.kept.get(key)? {
            Kept::Reply(reply) => Some(reply),
            Kept::Stored(_) | Kept::Rendered(_) => None,
        }
    }

    pub fn rendered(&self, key: &Key) -> Option<Arc<Rendered>> {
        match self.kept.get(key)? {
            Kept::Rendered(document) => Some(document),
            Kept::Reply(_) | Kept::Stored(_) => None,
        }
    }

    /// Keeps a rendered document in place of `kept`, and says which one is right: the kept one where a client could not
    /// tell them apart, and then with the codings that it has. One that nobody asked for of late is not kept.
    pub fn keep_rendered(&self, key: Key, kept: Option<&Arc<Rendered>>, made: Rendered) -> Arc<Rendered> {
        if let Some(kept) = kept.filter(|kept| kept.shows_the_same_as(&made)) {
            kept.confirm(made.epoch());
            return kept.clone();
        }
        let made = Arc::new(made);
        // Who still answers from the snapshot before the one that it is kept for changes nothing; and one document must
        // not push out all others.
        let is_newer = kept.is_none_or(|kept| kept.epoch() < made.epoch());
        let wanted = kept.is_some() || self.asked.came(&key);
        let is_finished = !matches!(made.kind.lifetime, Lifetime::Unfinished(_));
        if is_finished && is_newer && wanted && made.weight() as u64 <= self.largest() {
            self.kept.insert(key, Kept::Rendered(made.clone()));
        }
        made
    }

    pub fn keep_reply(&self, key: Key, reply: Arc<Reply>) {
        reply.body.kept(&self.recoder);
        self.outcomes.kept.fetch_add(1, Ordering::Relaxed);
        self.kept.insert(key, Kept::Reply(reply));
    }

    /// Caches a rendered reply if it was requested before, recently. Returns whether it did.
    pub fn keep_if_wanted(&self, key: Key, reply: &Arc<Reply>) -> bool {
        let wanted = self.asked.came(&key);
        if wanted {
            self.keep_reply(key, reply.clone());
        } else {
            self.outcomes.passing.fetch_add(1, Ordering::Relaxed);
        }
        wanted
    }

    /// Decides between the cached `kept` and `made` of a later epoch: `kept` if a client could not tell them apart,
    /// else `made`, which replaces it and is as hot.
    pub fn renew_reply(&self, key: Key, kept: Arc<Reply>, made: Reply) -> Arc<Reply> {
        if kept.shows_the_same_as(&made) {
            self.outcomes.confirmed.fetch_add(1, Ordering::Relaxed);
            kept.confirm(made.epoch());
            return kept;
        }
        // A request that still answers from an older snapshot changes nothing.
        if kept.epoch() > made.epoch() {
            return Arc::new(made);
        }
        made.body.succeed(&kept.body);
        made.body.kept(&self.recoder);
        let made = Arc::new(made);
        self.outcomes.renewed.fetch_add(1, Ordering::Relaxed);
        self.kept.insert(key, Kept::Reply(made.clone()));
        made
    }

    /// Keeps `made` in place of `kept`, or if it was requested before, recently, unless one is too large to be cached; says
    /// which one is right.
    pub fn settle_reply(&self, key: Key, kept: Option<Arc<Reply>>, made: Reply) -> Arc<Reply> {
        let fits = made.weight() as u64 <= self.largest();
        match kept {
            Some(kept) if fits => self.renew_reply(key, kept, made),
            _ => {
                let made = Arc::new(made);
                if fits {
                    self.keep_if_wanted(key, &made);
                }
                made
            }
        }
    }

    /// The outcomes of replies so far, with their labels.
    pub fn outcomes(&self) -> [(&'static str, u64); 4] {
        let Outcomes { passing, kept, confirmed, renewed } = &*self.outcomes;
        [("passing", passing), ("kept", kept), ("confirmed", confirmed), ("renewed", renewed)]
            .map(|(label, count)| (label, count.load(Ordering::Relaxed)))
    }

    /// Codings that were made again, and those that were not, because the queue was full.
    pub fn codings(&self) -> [(&'static str, u64); 2] {
        let (recoded, turned_away) = self.recoder.counts();
        [("recoded", recoded), ("turned-away", turned_away)]
    }

    /// The answers of the origin for one resource.
    pub fn stored(&self, key: &Key) -> Option<Arc<Variants>> {
        match self.kept.get(key)? {
            Kept::Stored(variants) => Some(variants),
            Kept::Reply(_) | Kept::Rendered(_) => None,
        }
    }

    /// Caches the origin's answer to a request. `false`: not cached, because it was purged meanwhile, a later request is
    /// answered already, or all other variants are in use and none came for it before.
    pub fn keep_stored(&self, key: &Key, stored: &Arc<Stored>, asking: &Asking) -> bool {
        let is_wanted = || self.asked.came(&(key, &stored.selecting));
        self.keep(key, asking, |old| old.with(stored, asking.number(), is_wanted))
    }

    /// Replaces `kept` by its confirmed form; `false`: not cached, because `kept` is not cached any more.
    pub fn keep_confirmed(&self, key: &Key, kept: &Arc<Stored>, stored: &Arc<Stored>, asking: &Asking) -> bool {
        self.keep(key, asking, |old| old.confirmed(kept, stored, asking.number()))
    }

    fn keep(&self, key: &Key, asking: &Asking, change: impl FnOnce(&Variants) -> Option<Variants>) -> bool {
        let mut keeps = false;
        self.kept.entry_by_ref(key).and_compute_with(|old| {
            // A purge counts first and removes then: an answer that is stored in between is not stored, or removed.
            if asking.is_purged() {
                return Op::Nop;
            }
            let variants = match old.map(moka::Entry::into_value) {
                Some(Kept::Stored(variants)) => change(&variants),
                Some(Kept::Reply(_) | Kept::Rendered(_)) | None => change(&Variants::default()),
            };
            keeps = variants.is_some();
            for stored in variants.iter().flat_map(Variants::iter) {
                stored.body.kept(&self.recoder);
            }
            variants.map_or(Op::Nop, |variants| Op::Put(Kept::Stored(Arc::new(variants))))
        });
        keeps
    }

    pub fn forget_stored(&self, key: &Key, stored: &Arc<Stored>) {
        self.kept.entry_by_ref(key).and_compute_with(|old| match old.map(moka::Entry::into_value) {
            Some(Kept::Stored(variants)) => match variants.without(stored) {
                Some(others) => Op::Put(Kept::Stored(Arc::new(others))),
                None => Op::Remove,
            },
            Some(Kept::Reply(_) | Kept::Rendered(_)) | None => Op::Nop,
        });
    }

    pub fn forget(&self, key: &Key) {
        self.kept.invalidate(key);
    }

    /// Removes everything that shows the detail of a listing.
    pub(crate) fn forget_detail(&self, id: ListingId) {
        self.forget(&Key::Detail(id));
        self.forget(&Key::Document(WantedDocument::Venue(id)));
    }

    /// A request to the origin for a resource begins.
    pub fn asking(&self, key: &Key) -> Asking {
        self.under_way.begin(key)
    }

    /// Purges one resource; answers on their way are not cached either. `true` if anything was cached.
    pub fn purge(&self, key: &Key) -> bool {
        // In this order: see `keep`.
        self.under_way.purge(key);
        self.kept.remove(key).is_some()
    }

    /// [`purge`](Self::purge) of every answer at a normalised path, with any query; returns their number.
    pub fn purge_path(&self, path: &[u8]) -> u64 {
        // All paths: which requests are under way is not known.
        self.under_way.purge_all();
        let named = self.kept.iter().filter(|(key, _)| key.is_at(path));
        let keys: Vec<_> = named.map(|(key, _)| key).collect();
        keys.iter().filter(|key| self.kept.remove(&***key).is_some()).count() as u64
    }

    /// [`purge`](Self::purge) of everything; returns the number.
    pub fn purge_all(&self) -> u64 {
        self.under_way.purge_all();
        self.kept.run_pending_tasks();
        let count = self.kept.entry_count();
        self.kept.invalidate_all();
        count
    }

    /// Bytes and entries held.
    pub fn size(&self) -> (u64, u64) {
        // Insertions that are not counted yet.
        self.kept.run_pending_tasks();
        (self.kept.weighted_size(), self.kept.entry_count())
    }
}

#[cfg(test)]
mod tests;
