//! The last copy of each fetched resource: every later request is conditional, even after a restart.
//!
//! A copy is valid for an interval of the origin's time: from when its content was first seen to when it was last
//! confirmed. Nothing here interprets content. Callers: most modules beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::api::hash::ContentHash;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::WallTime;
use crate::semantics::freshness;
use crate::store::{CopyMeta, Store, StoreError};

use super::pass::{self, Span};
use crate::tasks::{Aborted, blocking};
use crate::upstream::client::{Answer, AskError, Asker, OriginClient, Validators};
use crate::upstream::stamps::{self, Before, Dated, Place};

pub(super) use crate::upstream::stamps::DATE_GRAIN_MS;

/// A copy after a look at the origin.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    /// The path and query.
    pub path: String,
    /// The body, decoded.
    pub body: Bytes,
    /// The latest instant at which the content may have been made, in milliseconds of the origin's time.
    pub since_ms: i64,
    /// The latest instant for which the content is confirmed.
    pub until_ms: i64,
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The request failed.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The data directory failed.
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
}

impl From<Aborted> for CopyError {
    fn from(aborted: Aborted) -> Self {
        Self::Store(aborted.into())
    }
}

/// Checks a body; the message of `Err` says what is wrong.
pub(super) type Check = fn(&Bytes) -> Result<(), String>;

/// The copies of one origin.
#[derive(Clone)]
pub struct Copies {
    client: OriginClient,
    store: Arc<Store>,
    volatile: Arc<RwLock<VolatileKeys>>,
    /// Held while an answer is compared with the copy and replaces it; never across an await.
    judging: Arc<Mutex<()>>,
    /// When an answer was last older than its arrival, in milliseconds of our clock: a cache sits before the origin.
    aged_ms: Arc<AtomicI64>,
    /// The largest `Age` so far, in seconds.
    longest_age: Arc<AtomicU32>,
}

impl Copies {
    /// The copies in `store`; other rooms share the volatile keys.
    pub fn new(client: OriginClient, store: Arc<Store>, volatile: Arc<RwLock<VolatileKeys>>) -> Self {
        let aged_ms = Arc::new(AtomicI64::new(i64::MIN));
        Self { client, store, volatile, judging: Arc::default(), aged_ms, longest_age: Arc::default() }
    }

    pub(super) fn client(&self) -> &OriginClient {
        &self.client
    }

    /// Whether the origin's CDN recently sent copies older than their arrival.
    pub(super) fn saw_aged(&self) -> bool {
        let since = self.client.now_ms().saturating_sub(self.aged_ms.load(Ordering::Relaxed));
        let cache_ttl_ms = i64::try_from(self.client.stamps().cache_ttl().as_millis()).unwrap_or(i64::MAX);
        (0..=cache_ttl_ms.saturating_mul(3)).contains(&since)
    }

    /// The largest `Age` of an answer so far.
    pub(super) fn longest_age(&self) -> Duration {
        /// A larger one is no reason to wait for longer.
        const MOST: Duration = Duration::from_secs(3600);
        Duration::from_secs(self.longest_age.load(Ordering::Relaxed).into()).min(MOST)
    }

    /// The hash of the copy of `path`, without volatile fields.
    pub(super) fn hash_of(&self, path: &str) -> Result<Option<ContentHash>, StoreError> {
        Ok(self.store.copy_meta(path)?.map(|meta| meta.hash))
    }

    /// The volatile keys known so far.
    pub(super) fn volatile(&self) -> VolatileKeys {
        self.volatile.read().clone()
    }

    /// Takes the keys that an import brought.
    pub(super) fn set_volatile(&self, keys: VolatileKeys) {
        *self.volatile.write() = keys;
    }

    /// Whether `path` was fetched between `since_ms` and now.
    pub(super) fn is_recent(&self, path: &str, since_ms: i64) -> Result<bool, StoreError> {
        let now_ms = self.client.now_ms();
        Ok(self.store.copy_meta(path)?.is_some_and(|meta| (since_ms..=now_ms).contains(&meta.fetched_ms)))
    }

    /// Forgets a copy: the next request for it is unconditional.
    pub(super) fn forget(&self, path: &str) -> Result<(), StoreError> {
        let _judging = self.judging.lock();
        self.store.remove_copies(&[path.to_owned()])
    }

    /// The copy of `path`: the interval in which it is valid, and the body.
    pub(super) fn span(&self, path: &str) -> Result<Option<(Span, Bytes)>, StoreError> {
        let span = |meta: &CopyMeta| Span { since_ms: meta.since_ms, until_ms: meta.origin_time_ms };
        Ok(self.store.copy(path)?.map(|(meta, body)| (span(&meta), body)))
    }

    /// Asks the origin for `path`, conditionally if there is a copy, and stores the answer. A thread of
    /// [`super::details`] makes it durable within a second.
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

    /// Judges an answer to a request with the validators of a copy, and stores it. Blocks.
    fn take(
        &self,
        path: &str,
        asked_with: Option<&CopyMeta>,
        answer: &Answer,
        check: Check,
    ) -> Result<Copy, CopyError> {
        let fetched_ms = answer.received.as_millis();
        // Another look may have stored a newer copy while this one waited. The answer is judged against the stored
        // copy, and an answer to an older question proves nothing.
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
        // A 304 has no body: only its header dates it.
        let stamped = if is_304 { None } else { Some(text) };
        let fetched_before_ms = known.as_ref().map_or(fetched_ms, |(meta, _)| meta.fetched_ms);
        let before = text_before.map(|before| Before {
            stamp: stamps::stamp(before),
            fetched_ms: fetched_before_ms,
            changed: !is_same,
            // Each refresh looks at the first page of the list only.
            counts: Place::of(path) != Place::Lists || pass::page_of(path) == Some(1),
        });
        let Dated { until_ms: at_ms, claimed_ms, since_ms: new_since_ms, .. } =
            self.date(path, answer, stamped, before);
        let (since_ms, until_ms) = match &known {
            // Confirmed, by 304 or by equal content.
            Some((meta, _)) if is_same => (meta.since_ms, at_ms.max(meta.origin_time_ms)),
            Some((meta, body)) if claimed_ms < meta.origin_time_ms || (moved && claimed_ms == meta.origin_time_ms) => {
                // Record the look, or it is repeated at once.
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

    /// Stores an answer that a client fetched, unless the path has a copy. Blocks.
    pub(super) fn offer(&self, path: &str, answer: &Answer, check: Check) -> Result<(), CopyError> {
        let _judging = self.judging.lock();
        if self.store.copy_meta(path)?.is_some() {
            return Ok(());
        }
        check(&answer.body).map_err(|reason| AskError::nonsense(path, reason))?;
        let text = std::str::from_utf8(&answer.body).map_err(|error| AskError::nonsense(path, error))?;
        let dated = self.date(path, answer, Some(text), None);
        let Validators { etag, last_modified } = answer.validators();
        let meta = CopyMeta {
            etag,
            last_modified,
            origin_time_ms: dated.until_ms,
            since_ms: dated.since_ms,
            fetched_ms: answer.received.as_millis(),
            hash: self.hash(text, None),
            status: 200,
        };
        Ok(self.store.put_copy_soon(path.to_owned(), meta, Some(&*answer.body))?)
    }

    /// Dates an answer, and remembers signs of a cache in between. `text` is `None` for a 304.
    fn date(&self, path: &str, answer: &Answer, text: Option<&str>, before: Option<Before>) -> Dated {
        let dated = self.client.stamps().date(Place::of(path), answer, text, before);
        self.longest_age.fetch_max(answer.stamps.age.unwrap_or(0), Ordering::Relaxed);
        if dated.is_aged {
            self.aged_ms.store(answer.received.as_millis(), Ordering::Relaxed);
        }
        dated
    }

    /// The hash of a body without volatile fields; newly found ones are remembered.
    fn hash(&self, text: &str, before: Option<&Bytes>) -> ContentHash {
        if let Some(before) = before.and_then(|before| std::str::from_utf8(before).ok()) {
            let learned = self.volatile.read().learn(before, text);
            for key in learned.into_iter().flatten() {
                if self.volatile.write().insert(&key) {
                    tracing::info!(
                        key,
                        "a field differs between otherwise equal answers; from now on its changes do not count"
                    );
                }
            }
        }
        self.volatile.read().hash(text)
    }
}

/// A copy's metadata without stamps from the future: after the clock was set back, they would make every later answer
/// too old.
fn believable(mut meta: CopyMeta, now: WallTime) -> CopyMeta {
    if freshness::is_from_the_future(WallTime::from_millis(meta.origin_time_ms), now) {
        meta.origin_time_ms = 0;
        meta.since_ms = meta.since_ms.min(now.as_millis());
    }
    meta
}

/// The stored copy: the answer was older and proves nothing.
fn older(path: &str, meta: &CopyMeta, body: &Bytes) -> Copy {
    Copy { path: path.to_owned(), body: body.clone(), since_ms: meta.since_ms, until_ms: meta.origin_time_ms }
}

/// The validators of a 304, else those of the request.
fn merged(fresh: Validators, asked_with: Option<&CopyMeta>) -> Validators {
    let old = |of: fn(&CopyMeta) -> &Option<String>| asked_with.and_then(|meta| of(meta).clone());
    Validators {
        etag: fresh.etag.or_else(|| old(|meta| &meta.etag)),
        last_modified: fresh.last_modified.or_else(|| old(|meta| &meta.last_modified)),
    }
}

#[cfg(test)]
mod tests;
