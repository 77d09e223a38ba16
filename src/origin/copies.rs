//! The last copy of everything fetched, so that every request after the first is conditional, even after a restart.
//!
//! A copy speaks for an interval of the origin's time: from when its content was first seen to when it was last
//! confirmed. It knows nothing of what the content means. Callers: [`super::crawl`], [`super::terms`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::api::hash::ContentHash;
use crate::api::json;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::WallTime;
use crate::semantics::freshness;
use crate::store::{CopyMeta, Store, StoreError};

use super::client::{Answer, AskError, Asker, OriginClient, Validators};
use super::pass::Span;

/// A `Date` says whole seconds: what it dates may be this much younger, in milliseconds.
pub const DATE_GRAIN_MS: i64 = 1000;

/// How a copy compares with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There was none before.
    New,
    /// The origin confirmed it, by 304 or by equal content.
    Confirmed,
    /// Other content.
    Changed,
    /// The answer was older than what is known already and proves nothing.
    Older,
    /// Not asked: it was fetched since the pass began.
    Recent,
}

/// A copy as it stands after looking at the origin.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The path and query.
    pub path: String,
    /// How it compares.
    pub change: Change,
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
pub type Check = fn(&Bytes) -> Result<(), String>;

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
    /// Whether that cache was seen to hand out old copies without saying so in `Age`.
    silent: Arc<AtomicBool>,
    /// How old its copies can be when it does not say.
    cache_ttl: Duration,
}

/// By how much the origin's clock may differ from ours, in milliseconds, before its `Date` is taken for an old one.
const CLOCKS_DIFFER_MS: i64 = 30_000;

/// How old the copies of a CDN can be where nothing else is known.
const CACHE_TTL: Duration = Duration::from_secs(300);

impl Copies {
    /// The copies kept in `store`; the volatile keys are shared with whoever else needs them.
    pub fn new(client: OriginClient, store: Arc<Store>, volatile: Arc<RwLock<VolatileKeys>>) -> Self {
        let (aged_ms, silent) = (Arc::new(AtomicI64::new(i64::MIN)), Arc::default());
        Self { client, store, volatile, judging: Arc::default(), aged_ms, silent, cache_ttl: CACHE_TTL }
    }

    /// The same with copies of the origin's CDN that can be so old when it does not say; 5 minutes otherwise.
    #[must_use]
    pub fn with_cache_ttl(self, cache_ttl: Duration) -> Self {
        Self { cache_ttl, ..self }
    }

    /// The client.
    pub fn client(&self) -> &OriginClient {
        &self.client
    }

    /// Whether the origin's CDN was seen lately to hand out copies that were not made just then.
    pub fn saw_aged(&self) -> bool {
        let since = self.client.now_ms().saturating_sub(self.aged_ms.load(Ordering::Relaxed));
        (0..=3 * i64::try_from(self.cache_ttl.as_millis()).unwrap_or(i64::MAX / 3)).contains(&since)
    }

    /// The volatile keys known by now.
    pub fn volatile(&self) -> VolatileKeys {
        self.volatile.read().clone()
    }

    /// The copy of `path` if it was fetched between `since_ms` and `now_ms` of our clock; a later stamp is from a clock
    /// that was ahead.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recent(&self, path: &str, since_ms: i64, now_ms: i64) -> Result<Option<Copy>, StoreError> {
        let Some(meta) = self.store.copy_meta(path)?.filter(|meta| (since_ms..=now_ms).contains(&meta.fetched_ms))
        else {
            return Ok(None);
        };
        Ok(self.store.copy_body(path)?.map(|body| Copy {
            path: path.to_owned(),
            change: Change::Recent,
            body,
            since_ms: meta.since_ms,
            until_ms: meta.origin_time_ms,
        }))
    }

    /// Whether `path` was fetched between `since_ms` and now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn is_recent(&self, path: &str, since_ms: i64) -> Result<bool, StoreError> {
        let now_ms = self.client.now_ms();
        Ok(self.store.copy_meta(path)?.is_some_and(|meta| (since_ms..=now_ms).contains(&meta.fetched_ms)))
    }

    /// What is kept of `path`: the interval that it speaks for, and the body.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn span(&self, path: &str) -> Result<Option<(Span, Bytes)>, StoreError> {
        let span = |meta: &CopyMeta| Span { since_ms: meta.since_ms, until_ms: meta.origin_time_ms };
        Ok(self.store.copy(path)?.map(|(meta, body)| (span(&meta), body)))
    }

    /// Asks the origin for `path`, conditionally where there is a copy, and keeps the answer, durably within a second
    /// ([`super::details`] has the thread that sees to that).
    ///
    /// # Errors
    /// When there is no usable answer; the copy stays as it was.
    pub async fn look(&self, path: &str, asker: Asker, check: Check) -> Result<Copy, CopyError> {
        let asked_with = self.store.copy(path)?;
        let validators = asked_with
            .as_ref()
            .map(|(meta, _)| Validators { etag: meta.etag.clone(), last_modified: meta.last_modified.clone() });
        let answer = self.client.ask(path, validators.as_ref(), asker).await?;
        let fetched_ms = answer.received.as_millis();
        // From here on nothing waits. Another look may have kept a newer copy while this one waited for the budget or
        // the origin: the answer is judged against what is kept now, and one to an older question proves nothing.
        let _judging = self.judging.lock();
        let known = self.store.copy(path)?;
        let moved = known.as_ref().map(|(meta, _)| meta) != asked_with.as_ref().map(|(meta, _)| meta);
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
        // A 304 says nothing of its own body: only its header dates it.
        let text = std::str::from_utf8(&body).map_err(|error| AskError::nonsense(path, error))?;
        let generated_at = if is_304 { None } else { generated_at(text) };
        let at_ms = self.origin_time(&answer, generated_at.as_deref());
        // An `Age` is rounded too.
        let grain_ms = if answer.stamps.age.is_some() { 2 * DATE_GRAIN_MS } else { DATE_GRAIN_MS };
        let before = known.as_ref().map(|(_, body)| body);
        let hash = self.hash(text, before);
        let hash_before = before.and_then(|body| Some(self.volatile.read().hash(std::str::from_utf8(body).ok()?)));
        let (change, since_ms, until_ms) = match &known {
            None => (Change::New, at_ms + grain_ms, at_ms),
            Some((meta, _)) if is_304 || hash_before == Some(hash) => {
                (Change::Confirmed, meta.since_ms, at_ms.max(meta.origin_time_ms))
            }
            Some((meta, body)) if at_ms < meta.origin_time_ms || (moved && at_ms == meta.origin_time_ms) => {
                // It was looked at, or it would be asked for again at once.
                let seen = CopyMeta { fetched_ms, ..meta.clone() };
                self.store.put_copy_soon(path.to_owned(), seen, None)?;
                return Ok(older(path, meta, body));
            }
            Some(_) => (Change::Changed, at_ms + grain_ms, at_ms),
        };
        let fresh = answer.validators();
        let validators = if is_304 { merged(fresh, validators.unwrap_or_default()) } else { fresh };
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
        Ok(Copy { path: path.to_owned(), change, body, since_ms, until_ms })
    }

    /// Keeps an answer that somebody else asked for, if nothing is kept yet of this path.
    ///
    /// # Errors
    /// When it is not what it should be, or the store fails.
    pub fn offer(&self, path: &str, answer: &Answer, check: Check) -> Result<(), CopyError> {
        let _judging = self.judging.lock();
        if self.store.copy_meta(path)?.is_some() {
            return Ok(());
        }
        check(&answer.body).map_err(|reason| AskError::nonsense(path, reason))?;
        let text = std::str::from_utf8(&answer.body).map_err(|error| AskError::nonsense(path, error))?;
        let at_ms = self.origin_time(answer, generated_at(text).as_deref());
        let grain_ms = if answer.stamps.age.is_some() { 2 * DATE_GRAIN_MS } else { DATE_GRAIN_MS };
        let Validators { etag, last_modified } = answer.validators();
        let meta = CopyMeta {
            etag,
            last_modified,
            origin_time_ms: at_ms,
            since_ms: at_ms + grain_ms,
            fetched_ms: answer.received.as_millis(),
            hash: self.hash(text, None),
            status: 200,
        };
        Ok(self.store.put_copy_soon(path.to_owned(), meta, Some(&*answer.body))?)
    }

    /// The instant that an answer speaks for, in milliseconds; what it says of a cache in between is remembered.
    fn origin_time(&self, answer: &Answer, generated_at: Option<&str>) -> i64 {
        let fetched_ms = answer.received.as_millis();
        let sent_ms = answer.time(None).at().as_millis();
        let at_ms = answer.time(generated_at).at().as_millis();
        // A `Date` that lags a little is a clock that does; an `Age`, or a body older than its header, is a cache.
        let aged = answer.stamps.age.is_some_and(|age| age > 0)
            || sent_ms - at_ms > 3 * DATE_GRAIN_MS
            || fetched_ms - sent_ms > CLOCKS_DIFFER_MS;
        if aged {
            self.aged_ms.store(fetched_ms, Ordering::Relaxed);
        }
        if answer.stamps.age.is_none() && sent_ms - at_ms > 3 * DATE_GRAIN_MS {
            self.silent.store(true, Ordering::Relaxed);
        }
        // Only a body tells the age of a copy that a cache hands out without `Age`; a 304 has none.
        if answer.status == 304 && answer.stamps.age.is_none() && self.silent.load(Ordering::Relaxed) {
            return at_ms.min(fetched_ms - i64::try_from(self.cache_ttl.as_millis()).unwrap_or(i64::MAX));
        }
        at_ms
    }

    /// The hash of a body without what is volatile; what turns out to be volatile is learned on the way.
    fn hash(&self, text: &str, before: Option<&Bytes>) -> ContentHash {
        if let Some(before) = before.and_then(|before| std::str::from_utf8(before).ok()) {
            let learned = self.volatile.read().learn(before, text);
            for key in learned.into_iter().flatten() {
                if self.volatile.write().insert(&key) {
                    tracing::info!(key, "a field differs between otherwise equal answers; it is volatile from now on");
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
    Copy {
        path: path.to_owned(),
        change: Change::Older,
        body: body.clone(),
        since_ms: meta.since_ms,
        until_ms: meta.origin_time_ms,
    }
}

fn merged(fresh: Validators, old: Validators) -> Validators {
    Validators { etag: fresh.etag.or(old.etag), last_modified: fresh.last_modified.or(old.last_modified) }
}

/// `generated_at` at the top level of a body.
pub fn generated_at(text: &str) -> Option<String> {
    let fields = json::fields(text).ok()?;
    let field = fields.iter().find(|field| field.key == "generated_at")?;
    json::string(field.value).map(Into::into)
}

#[cfg(test)]
mod tests;
