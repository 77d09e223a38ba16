//! The last copy of everything fetched, so that every request after the first is conditional, even after a restart.
//!
//! A copy speaks for an interval of the origin's time: from when its content was first seen to when it was last
//! confirmed. It knows nothing of what the content means. Callers: [`super::crawl`], [`super::terms`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::api::hash::ContentHash;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::WallTime;
use crate::semantics::freshness;
use crate::store::{CopyMeta, Store, StoreError};

use super::blocking::blocking;
use super::pass::{self, Span};
use crate::upstream::client::{Answer, AskError, Asker, OriginClient, Validators};
use crate::upstream::stamps::{self, Before, Place};

/// A `Date` says whole seconds: what it dates may be this much younger, in milliseconds.
pub(super) const DATE_GRAIN_MS: i64 = 1000;

/// A copy as it stands after looking at the origin.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    /// The path and query.
    pub path: String,
    /// The body, decoded.
    pub body: Bytes,
    /// The latest instant at which the content may have come to be, in milliseconds of the origin's time.
    pub since_ms: i64,
    /// The latest instant for which the content is confirmed.
    pub until_ms: i64,
}

/// Why a copy cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The origin does not give it.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The data directory does not take it.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
}

/// Says what a body must be; the message of `Err` says why it is not.
pub(super) type Check = fn(&Bytes) -> Result<(), String>;

/// The copies of one origin.
#[derive(Clone)]
pub struct Copies {
    client: OriginClient,
    store: Arc<Store>,
    volatile: Arc<RwLock<VolatileKeys>>,
    /// Held while an answer is compared with what is kept and takes its place; never across a wait.
    judging: Arc<Mutex<()>>,
    /// When an answer was last older than its arrival, in milliseconds of our clock: then there is a cache between us
    /// and the origin.
    aged_ms: Arc<AtomicI64>,
    /// Whether that cache was seen to hand out old copies without saying so in `Age`: a bit for each [`Place`].
    silent: Arc<AtomicU8>,
}

/// By how much the origin's clock may differ from ours, in milliseconds, before its `Date` is taken for an old one.
const CLOCKS_DIFFER_MS: i64 = 30_000;

impl Copies {
    /// The copies kept in `store`; the volatile keys are shared with whoever else needs them.
    pub fn new(client: OriginClient, store: Arc<Store>, volatile: Arc<RwLock<VolatileKeys>>) -> Self {
        let (aged_ms, silent) = (Arc::new(AtomicI64::new(i64::MIN)), Arc::default());
        Self { client, store, volatile, judging: Arc::default(), aged_ms, silent }
    }

    /// The client.
    pub(super) fn client(&self) -> &OriginClient {
        &self.client
    }

    /// Whether the origin's CDN was seen lately to hand out copies that were not made just then.
    pub(super) fn saw_aged(&self) -> bool {
        let since = self.client.now_ms().saturating_sub(self.aged_ms.load(Ordering::Relaxed));
        (0..=self.cache_ttl_ms().saturating_mul(3)).contains(&since)
    }

    /// How old the copies of the origin's CDN can be when it does not say.
    fn cache_ttl_ms(&self) -> i64 {
        i64::try_from(self.client.stamps().cache_ttl().as_millis()).unwrap_or(i64::MAX)
    }

    /// The volatile keys known by now.
    pub(super) fn volatile(&self) -> VolatileKeys {
        self.volatile.read().clone()
    }

    /// Others are known: an import brought them.
    pub(super) fn set_volatile(&self, keys: VolatileKeys) {
        *self.volatile.write() = keys;
    }

    /// Whether `path` was fetched between `since_ms` and now.
    pub(super) fn is_recent(&self, path: &str, since_ms: i64) -> Result<bool, StoreError> {
        let now_ms = self.client.now_ms();
        Ok(self.store.copy_meta(path)?.is_some_and(|meta| (since_ms..=now_ms).contains(&meta.fetched_ms)))
    }

    /// Forgets the copy of a resource, which is then asked for without a condition.
    pub(super) fn forget(&self, path: &str) -> Result<(), StoreError> {
        let _judging = self.judging.lock();
        self.store.remove_copies(&[path.to_owned()])
    }

    /// What is kept of `path`: the interval that it speaks for, and the body.
    pub(super) fn span(&self, path: &str) -> Result<Option<(Span, Bytes)>, StoreError> {
        let span = |meta: &CopyMeta| Span { since_ms: meta.since_ms, until_ms: meta.origin_time_ms };
        Ok(self.store.copy(path)?.map(|(meta, body)| (span(&meta), body)))
    }

    /// Asks the origin for `path`, conditionally where there is a copy, and keeps the answer, durably within a second
    /// ([`super::details`] has the thread that sees to that).
    ///
    /// # Errors
    /// When there is no usable answer; the copy stays as it was.
    pub(super) async fn look(&self, path: &str, asker: Asker, check: Check) -> Result<Copy, CopyError> {
        let (this, key) = (self.clone(), path.to_owned());
        let asked_with = blocking(move || Ok::<_, CopyError>(this.store.copy(&key)?)).await?;
        let asked_with = asked_with.map(|(meta, _)| meta);
        let validators = asked_with
            .as_ref()
            .map(|meta| Validators { etag: meta.etag.clone(), last_modified: meta.last_modified.clone() });
        let answer = self.client.ask(path, validators.as_ref(), asker).await?;
        let (this, path) = (self.clone(), path.to_owned());
        blocking(move || this.take(&path, asked_with.as_ref(), &answer, check)).await
    }

    /// Judges an answer to a question that was asked with the validators of a copy, and keeps it. Blocks.
    fn take(
        &self,
        path: &str,
        asked_with: Option<&CopyMeta>,
        answer: &Answer,
        check: Check,
    ) -> Result<Copy, CopyError> {
        let fetched_ms = answer.received.as_millis();
        // Another look may have kept a newer copy while this one waited for the budget or the origin: the answer is
        // judged against what is kept now, and one to an older question proves nothing.
        let _judging = self.judging.lock();
        let known = self.store.copy(path)?;
        let moved = known.as_ref().map(|(meta, _)| meta) != asked_with;
        if let (304, true, Some((meta, body))) = (answer.status, moved, &known) {
            return Ok(older(path, meta, body));
        }
        let known = known.map(|(meta, body)| (believable(meta, answer.received), body));
        let (body, is_304) = match (answer.status, &known) {
            (304, Some((_, body))) => (body.clone(), true),
            (200, _) => (answer.body.clone(), false),
            (status, _) => return Err(AskError::nonsense(path, format!("status {status}")).into()),
        };
        if !is_304 {
            check(&body).map_err(|reason| AskError::nonsense(path, reason))?;
        }
        let text = std::str::from_utf8(&body).map_err(|error| AskError::nonsense(path, error))?;
        let before = known.as_ref().map(|(_, body)| body);
        let hash = self.hash(text, before);
        let text_before = before.and_then(|body| std::str::from_utf8(body).ok());
        let is_same = is_304 || text_before.is_some_and(|before| self.volatile.read().hash(before) == hash);
        // A 304 says nothing of its own body: only its header dates it.
        let stamped = if is_304 { None } else { Some(text) };
        let before = text_before.map(|before| Before {
            stamp: stamps::stamp(before),
            changed: !is_same,
            // Of the list only the first page is looked at in each refresh.
            counts: Place::of(path) != Place::Lists || pass::page_of(path) == Some(1),
        });
        let (at_ms, new_since_ms) = self.date(path, answer, stamped, before);
        let (since_ms, until_ms) = match &known {
            // Confirmed, by 304 or by equal content.
            Some((meta, _)) if is_same => (meta.since_ms, at_ms.max(meta.origin_time_ms)),
            Some((meta, body)) if at_ms < meta.origin_time_ms || (moved && at_ms == meta.origin_time_ms) => {
                // It was looked at, or it would be asked for again at once.
                let seen = CopyMeta { fetched_ms, ..meta.clone() };
                self.store.put_copy_soon(path.to_owned(), seen, None)?;
                return Ok(older(path, meta, body));
            }
            _ => (new_since_ms, at_ms),
        };
        let fresh = answer.validators();
        let validators = if is_304 { merged(fresh, asked_with) } else { fresh };
        let meta = CopyMeta {
            etag: validators.etag,
            last_modified: validators.last_modified,
            origin_time_ms: until_ms,
            since_ms,
            fetched_ms,
            hash,
            status: 200,
        };
        let stored = if is_304 { None } else { Some(&*body) };
        self.store.put_copy_soon(path.to_owned(), meta, stored)?;
        Ok(Copy { path: path.to_owned(), body, since_ms, until_ms })
    }

    /// Keeps an answer that somebody else asked for, if nothing is kept yet of this path. Blocks.
    pub(super) fn offer(&self, path: &str, answer: &Answer, check: Check) -> Result<(), CopyError> {
        let _judging = self.judging.lock();
        if self.store.copy_meta(path)?.is_some() {
            return Ok(());
        }
        check(&answer.body).map_err(|reason| AskError::nonsense(path, reason))?;
        let text = std::str::from_utf8(&answer.body).map_err(|error| AskError::nonsense(path, error))?;
        let (at_ms, since_ms) = self.date(path, answer, Some(text), None);
        let Validators { etag, last_modified } = answer.validators();
        let meta = CopyMeta {
            etag,
            last_modified,
            origin_time_ms: at_ms,
            since_ms,
            fetched_ms: answer.received.as_millis(),
            hash: self.hash(text, None),
            status: 200,
        };
        Ok(self.store.put_copy_soon(path.to_owned(), meta, Some(&*answer.body))?)
    }

    /// The instant for which an answer is confirmed, and the latest at which its content may have come to be, in
    /// milliseconds; what it says of a cache in between is remembered. `text` is `None` for a 304.
    fn date(&self, path: &str, answer: &Answer, text: Option<&str>, before: Option<Before>) -> (i64, i64) {
        let place = Place::of(path);
        let fetched_ms = answer.received.as_millis();
        let sent_ms = answer.sent().as_millis();
        let dated = self.client.stamps().date(place, answer, text, before);
        let age_said = answer.stamps.age.is_some();
        // A `Date` that lags a little is a clock that does; an `Age`, or a body older than its header, is a cache.
        let is_older = sent_ms - dated.until_ms > 3 * DATE_GRAIN_MS;
        let aged = answer.stamps.age.is_some_and(|age| age > 0) || is_older || fetched_ms - sent_ms > CLOCKS_DIFFER_MS;
        if aged {
            self.aged_ms.store(fetched_ms, Ordering::Relaxed);
        }
        let bit = 1 << place.index();
        if is_older && !age_said {
            self.silent.fetch_or(bit, Ordering::Relaxed);
        } else if dated.disbelieved {
            // What this stamp said of old copies before, it said falsely.
            self.silent.fetch_and(!bit, Ordering::Relaxed);
        }
        // An `Age` is rounded too.
        let since_ms = dated.since_ms + if age_said { 2 * DATE_GRAIN_MS } else { DATE_GRAIN_MS };
        // Only a body tells the age of a copy that a cache hands out without `Age`; a 304 has none.
        if answer.status == 304 && !age_said && self.silent.load(Ordering::Relaxed) != 0 {
            return (dated.until_ms.min(fetched_ms.saturating_sub(self.cache_ttl_ms())), since_ms);
        }
        (dated.until_ms, since_ms)
    }

    /// The hash of a body without what is volatile; what turns out to be volatile is learned on the way.
    fn hash(&self, text: &str, before: Option<&Bytes>) -> ContentHash {
        if let Some(before) = before.and_then(|before| std::str::from_utf8(before).ok()) {
            let learned = self.volatile.read().learn(before, text);
            for key in learned.into_iter().flatten() {
                if self.volatile.write().insert(&key) {
                    tracing::info!(
                        key,
                        "a field differs between otherwise equal answers; it is treated as volatile from now on"
                    );
                }
            }
        }
        self.volatile.read().hash(text)
    }
}

/// What is known of a copy, without stamps from the future, from before the clock was set back: they would keep every
/// later answer from counting.
fn believable(mut meta: CopyMeta, now: WallTime) -> CopyMeta {
    if freshness::is_from_the_future(WallTime::from_millis(meta.origin_time_ms), now) {
        meta.origin_time_ms = 0;
        meta.since_ms = meta.since_ms.min(now.as_millis());
    }
    meta
}

/// What is kept, where an answer was older and proves nothing.
fn older(path: &str, meta: &CopyMeta, body: &Bytes) -> Copy {
    Copy { path: path.to_owned(), body: body.clone(), since_ms: meta.since_ms, until_ms: meta.origin_time_ms }
}

/// What a 304 says of the validators, and else what was asked with.
fn merged(fresh: Validators, asked_with: Option<&CopyMeta>) -> Validators {
    let old = |of: fn(&CopyMeta) -> &Option<String>| asked_with.and_then(|meta| of(meta).clone());
    Validators {
        etag: fresh.etag.or_else(|| old(|meta| &meta.etag)),
        last_modified: fresh.last_modified.or_else(|| old(|meta| &meta.last_modified)),
    }
}

#[cfg(test)]
mod tests;
