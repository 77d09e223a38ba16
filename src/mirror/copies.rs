//! Copies of the origin's answers: fetched conditionally, dated, and kept with their validators over a restart.
//!
//! A copy is valid for an interval of the origin's time: from when its content was first seen to when it was last
//! confirmed. Retries are up to the callers: most modules beside it.
//!
//! An answer is as old as its
//! `Age` or the time since its `Date` says, whichever is more (RFC 9111 §4.2.3): it does not matter whether the CDN
//! keeps the origin's `Date` or sets its own. How far the origin's clock is behind ours is learned from answers that no
//! cache kept ([`crate::clock::Clock::origin_lag_ms`]). So an old copy in the CDN can neither certify nor replace newer
//! data. A `generated_at` in the body makes the date earlier, unless [`crate::origin::generated_at`] finds that it is not a
//! time of generation. An answer without `Age` may be an old copy of a cache that does not say so: a changed detail is
//! then asked for once more ([`super::details`]), and once such a cache was seen, the answer confirms less.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use parking_lot::{Mutex, RwLock};

use crate::api::hash::ContentHash;
use crate::api::page::{self, Page};
use crate::api::taxonomy::{self, VolatileKeys};
use crate::clock::backoff::doubled;
use crate::clock::{Monotonic, WallTime};
use crate::data::snapshot::pointer::SnapshotPointer;
use crate::data::store::{CopyMeta, Store, StoreError};
use crate::origin::client::{Answer, AskError, Asker, OriginClient, Validators};
use crate::origin::generated_at::{self, AnswerClass, Before, Dated};
use crate::origin::window::Class;
use crate::protocol::freshness;
use crate::tasks::{Aborted, blocking};

use super::pass;
use super::wording::Wording;

pub(super) use crate::origin::generated_at::DATE_GRAIN_MS;

/// The origin's clock, which counts seconds, has advanced by so much more than the grain of its answers.
const MOVED_ON: Duration = Duration::from_millis(100);

/// Requests on the wire at once.
const AT_ONCE: usize = 6;

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

impl Copy {
    fn of(path: &str, meta: &CopyMeta, body: Bytes) -> Self {
        Self { path: path.to_owned(), body, since_ms: meta.since_ms, until_ms: meta.origin_time_ms }
    }

    /// Whether it is surely from before an instant: dates have whole seconds.
    pub(super) const fn is_before(&self, at_ms: i64) -> bool {
        self.until_ms + 2 * DATE_GRAIN_MS < at_ms
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the data directory: {0}")]
    Store(#[from] StoreError),
}

impl CopyError {
    /// The same, with the whole URL that was asked.
    pub(super) fn named(self, client: &OriginClient) -> Self {
        match self {
            Self::Ask(error) => Self::Ask(client.named(error)),
            store @ Self::Store(_) => store,
        }
    }
}

impl From<Aborted> for CopyError {
    fn from(aborted: Aborted) -> Self {
        Self::Store(aborted.into())
    }
}

#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// Copies of the fetched resources, in any order.
    pub copies: Vec<Copy>,
    pub failed: Vec<String>,
    /// How many of them the origin refused as such: others may be answered.
    pub refused: usize,
    /// Why the last of them failed; a store error takes precedence.
    pub error: Option<CopyError>,
}

/// The largest `Age` of the last hour.
#[derive(Debug, Default)]
struct LongestAge {
    age: Duration,
    /// In milliseconds of our clock.
    seen_ms: i64,
}

impl LongestAge {
    /// How long an `Age` counts; a larger one is no reason to wait for longer.
    const MOST: Duration = Duration::from_secs(3600);

    /// A larger `Age` is that of a broken clock, not of a copy.
    const CREDIBLE: Duration = Duration::from_secs(30 * 86_400);

    fn saw(&mut self, seconds: u32, now_ms: i64) {
        let age = Duration::from_secs(seconds.into());
        if age <= Self::CREDIBLE && age.min(Self::MOST) >= self.at(now_ms) {
            (self.age, self.seen_ms) = (age.min(Self::MOST), now_ms);
        }
    }

    fn at(&self, now_ms: i64) -> Duration {
        let most_ms = i64::try_from(Self::MOST.as_millis()).unwrap_or(i64::MAX);
        let counts = (0..=most_ms).contains(&now_ms.saturating_sub(self.seen_ms));
        if counts { self.age } else { Duration::ZERO }
    }
}

// Order of the locks: `judging`, then one of the others, each for a moment. `Wording` holds a lock of its own across
// requests, never under `judging`.
#[derive(Clone)]
pub struct Copies {
    pub(crate) client: OriginClient,
    store: Arc<Store>,
    volatile: Arc<RwLock<VolatileKeys>>,
    wording: Arc<Wording>,
    /// Held while an answer is compared with the copy and replaces it; never across an await.
    judging: Arc<Mutex<()>>,
    /// When an answer was last older than its arrival, in milliseconds of our clock: a cache sits before the origin.
    aged_ms: Arc<AtomicI64>,
    /// How much later than it says the latest answer may have been made, in milliseconds.
    grain_ms: Arc<AtomicI64>,
    longest_age: Arc<Mutex<LongestAge>>,
    sent: Arc<AtomicU64>,
    /// How often the disk that fails was tried, and when it is next; `None`: it works.
    tries: Arc<Mutex<Option<(u32, Monotonic)>>>,
}

impl Copies {
    /// The copies in `store`, in the wording of the `newest` snapshot; other rooms share the volatile keys.
    pub fn new(
        client: OriginClient,
        store: Arc<Store>,
        volatile: Arc<RwLock<VolatileKeys>>,
        newest: SnapshotPointer,
    ) -> Self {
        let wording = Arc::new(Wording::new(newest));
        let [aged_ms, grain_ms] = [i64::MIN, DATE_GRAIN_MS].map(|ms| Arc::new(AtomicI64::new(ms)));
        let (judging, longest_age, sent, tries) = Default::default();
        Self { client, store, volatile, wording, judging, aged_ms, grain_ms, longest_age, sent, tries }
    }

    /// Whether the origin's CDN recently sent copies older than their arrival.
    pub(super) fn saw_aged(&self) -> bool {
        let since = self.client.now_ms().saturating_sub(self.aged_ms.load(Ordering::Relaxed));
        let cache_ttl_ms = i64::try_from(self.cache_ttl().as_millis()).unwrap_or(i64::MAX);
        (0..=cache_ttl_ms.saturating_mul(3)).contains(&since)
    }

    /// How old a copy of the origin's CDN can be.
    pub(super) fn cache_ttl(&self) -> Duration {
        self.client.stamps().cache_ttl()
    }

    /// How long to wait before reading inconsistent copies again: the lifetime in the CDN if it was seen to send old
    /// copies, else until the origin's clock has advanced.
    pub(super) fn lag(&self) -> Duration {
        let grain_ms = self.grain_ms.load(Ordering::Relaxed);
        let moved_on = MOVED_ON + Duration::from_millis(grain_ms.unsigned_abs());
        if self.saw_aged() { self.cache_ttl().max(moved_on) } else { moved_on }
    }

    /// How long after an answer the copies that were in the origin's CDN then have expired.
    pub(super) fn apart(&self) -> Duration {
        self.cache_ttl() + self.longest_age.lock().at(self.client.now_ms())
    }

    /// How many requests were sent by [`Copies::fetch`] and [`Copies::fetch_some`].
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// The volatile keys known so far.
    pub(crate) fn volatile(&self) -> VolatileKeys {
        self.volatile.read().clone()
    }

    /// Takes the keys that an import brought.
    pub(super) fn set_volatile(&self, keys: VolatileKeys) {
        *self.volatile.write() = keys;
    }

    /// The hash of the copy of `path`, without volatile fields.
    pub(super) fn hash_of(&self, path: &str) -> Result<Option<ContentHash>, StoreError> {
        Ok(self.store.copy_meta(path)?.map(|meta| meta.hash))
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

    pub(super) fn stored(&self, path: &str) -> Result<Option<Copy>, StoreError> {
        Ok(self.store.copy(path)?.map(|(meta, body)| Copy::of(path, &meta, body)))
    }

    /// The page of a list that a copy holds. One that an older version of this program stored and this one cannot read is
    /// forgotten.
    pub(super) fn page(&self, copy: &Copy) -> Result<Page, CopyError> {
        let page = read_page(&copy.path, &copy.body, &self.volatile());
        if page.is_err() {
            self.forget(&copy.path)?;
        }
        Ok(page.map_err(|error| self.client.named(error))?)
    }

    /// The page of a list in an answer that is not kept, in the stored wording. `None`: it is no list, or has listings that
    /// cannot be read.
    pub(crate) fn page_in(&self, path: &str, body: &Bytes) -> Option<(String, Page)> {
        let (body, broken) = readable(path, body).ok()?;
        let volatile = self.volatile();
        let worded = self.wording.page(std::str::from_utf8(&body).ok()?, None, &volatile);
        let body = worded.map_or(body, Bytes::from);
        let page = read_page(path, &body, &volatile).ok().filter(|_| broken == 0)?;
        Some((String::from_utf8(body.into()).ok()?, page))
    }

    /// As [`Copies::look`], for a step of the mirror: it counts.
    pub(super) async fn fetch(&self, path: &str, class: Class) -> Result<Copy, CopyError> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let looked = self.look(path, Asker::mirror(class)).await;
        match &looked {
            Ok(_) => self.client.status().pass_advanced(),
            Err(error) => tracing::debug!(path, %error, "not fetched"),
        }
        looked
    }

    /// Fetches several resources, some at once. One that fails does not stop the others.
    pub(super) async fn fetch_some(&self, paths: Vec<String>, class: Class) -> Fetched {
        let looks = futures_util::stream::iter(paths).map(async |path| (self.fetch(&path, class).await, path));
        let mut looks = std::pin::pin!(looks.buffer_unordered(AT_ONCE));
        let mut fetched = Fetched::default();
        while let Some((looked, path)) = looks.next().await {
            match looked {
                Ok(copy) => fetched.copies.push(copy),
                Err(error) => {
                    fetched.failed.push(path);
                    let is_end = matches!(&error, CopyError::Ask(error) if error.ends_a_list());
                    fetched.refused += usize::from(is_end);
                    if !matches!(fetched.error, Some(CopyError::Store(_))) {
                        fetched.error = Some(error);
                    }
                }
            }
        }
        fetched
    }

    /// Asks the origin for a page or a taxonomy, conditionally if there is a copy, and stores the answer. A thread of
    /// [`super::details`] makes it durable within a second. Without a usable answer, the copy stays as it was.
    pub(super) async fn look(&self, path: &str, asker: Asker) -> Result<Copy, CopyError> {
        let (this, key) = (self.clone(), path.to_owned());
        let asked_with = blocking(move || Ok::<_, CopyError>(this.store.copy(&key)?)).await?;
        let (asked_with, before) = asked_with.unzip();
        let validators = asked_with
            .as_ref()
            .map(|meta: &CopyMeta| Validators { etag: meta.etag.clone(), last_modified: meta.last_modified.clone() });
        self.may_ask()?;
        let answer = self.client.ask(path, validators.as_ref(), asker.clone()).await?;
        if let Some(before) = before.filter(|_| answer.status == 200 && AnswerClass::of(path) == AnswerClass::Lists) {
            Box::pin(self.wording.look_closer(&self.client, &self.volatile, path, (&before, &answer), &asker)).await;
        }
        let (this, path) = (self.clone(), path.to_owned());
        let taken = blocking(move || this.take(&path, asked_with.as_ref(), &answer)).await;
        taken.map_err(|error: CopyError| error.named(&self.client))
    }

    /// While nothing can be stored, one answer at a time is asked for, more and more seldom: what is lost would be asked for
    /// again and again.
    fn may_ask(&self) -> Result<(), StoreError> {
        const LONGEST: Duration = Duration::from_secs(15);
        let (mut tries, now) = (self.tries.lock(), self.client.now_mono());
        let Some(error) = self.store.disk_error() else {
            *tries = None;
            return Ok(());
        };
        let (done, next) = tries.get_or_insert((0, now.plus(Duration::from_secs(1))));
        if *next > now {
            return Err(error);
        }
        *done += 1;
        *next = now.plus(doubled(Duration::from_secs(1), *done, LONGEST));
        Ok(())
    }

    /// Judges an answer to a request with the validators of a copy, and stores it. Blocks.
    fn take(&self, path: &str, asked_with: Option<&CopyMeta>, answer: &Answer) -> Result<Copy, CopyError> {
        let fetched_ms = answer.received.as_millis();
        // Another look may have stored a newer copy while this one waited. The answer is judged against the stored
        // copy, and an answer to an older question proves nothing.
        let _judging = self.judging.lock();
        let known = self.store.copy(path)?;
        let moved = known.as_ref().map(|(meta, _)| meta) != asked_with;
        let mut sent = None;
        let (body, broken, known) = match (answer.status, known) {
            (304, Some((meta, body))) if moved => return Ok(Copy::of(path, &meta, body)),
            (304, Some((meta, body))) => (body.clone(), 0, Some((meta, body))),
            (200, known) => {
                let (body, broken) = readable(path, &answer.body)?;
                self.check_terms(path, &body)?;
                sent = Some(body.clone());
                if let Some(page) = pass::page_of(path) {
                    self.client.status().left_out(page, broken);
                }
                (self.worded(path, body, known.as_ref().map(|known| &*known.1)), broken, known)
            }
            (status, _) => return Err(AskError::answered(path, status).into()),
        };
        let is_304 = answer.status == 304;
        let known = known.map(|(meta, body)| (believable(meta, answer.received), body));
        let text = std::str::from_utf8(&body).map_err(|error| AskError::nonsense(path, error))?;
        let text_before = known.as_ref().and_then(|(_, body)| std::str::from_utf8(body).ok());
        let hash = self.volatile.read().hash(text);
        let is_same = is_304 || text_before.is_some_and(|before| self.volatile.read().hash(before) == hash);
        let before = text_before.zip(known.as_ref()).map(|(before, (meta, _))| Before {
            stamp: generated_at::stamp(before),
            fetched_ms: meta.fetched_ms,
            changed: !is_same,
            // Each refresh looks at the first page of the list only.
            counts: AnswerClass::of(path) != AnswerClass::Lists || pass::page_of(path) == Some(1),
        });
        // A 304 has no body: only its header dates it.
        let stamped = Some(text).filter(|_| !is_304);
        let Dated { until_ms, claimed_ms, since_ms: new_since_ms, is_aged } =
            self.client.stamps().date(AnswerClass::of(path), answer, stamped, before);
        self.longest_age.lock().saw(answer.stamps.age.unwrap_or(0), fetched_ms);
        self.grain_ms.store(answer.grain_ms(), Ordering::Relaxed);
        if is_aged {
            self.aged_ms.store(fetched_ms, Ordering::Relaxed);
        }
        let (since_ms, origin_time_ms) = match &known {
            // Confirmed, by 304 or by equal content.
            Some((meta, _)) if is_same => (meta.since_ms, until_ms.max(meta.origin_time_ms)),
            Some((meta, body)) if claimed_ms < meta.origin_time_ms || (moved && claimed_ms == meta.origin_time_ms) => {
                // Record the look, or it is repeated at once.
                let seen = CopyMeta { fetched_ms, ..meta.clone() };
                self.store.put_copy_soon(path, &seen, None)?;
                return Ok(Copy::of(path, meta, body.clone()));
            }
            _ => (new_since_ms, until_ms),
        };
        self.note_look(path, sent.as_deref(), known.as_ref().map(|(_, before)| &**before), is_same);
        // A body without its broken listings is asked for again in full: so it is noticed after a restart, too.
        let validators = if broken == 0 { answer.validators() } else { Validators::default() };
        if let Some((before, _)) = known.filter(|_| !is_same) {
            self.client.stamps().differ([&before.etag, &before.last_modified], &validators);
        }
        let Validators { mut etag, mut last_modified } = validators;
        if let Some(asked_with) = asked_with.filter(|_| is_304) {
            etag = etag.or_else(|| asked_with.etag.clone());
            last_modified = last_modified.or_else(|| asked_with.last_modified.clone());
        }
        let meta = CopyMeta { etag, last_modified, origin_time_ms, since_ms, fetched_ms, hash, status: 200 };
        let copy = Copy::of(path, &meta, body.clone());
        self.store.put_copy_soon(path, &meta, Some(&*body).filter(|_| !is_304))?;
        Ok(copy)
    }

    /// Notes whether what each refresh looks at differs at each look. `sent`: what can be read of the body, `None` if it was
    /// not sent again; `before`: the stored body.
    fn note_look(&self, path: &str, sent: Option<&[u8]>, before: Option<&[u8]>, is_same: bool) {
        let is_list = pass::page_of(path) == Some(1);
        let Some(before) = before.filter(|_| is_list || matches!(AnswerClass::of(path), AnswerClass::Taxonomy(_)))
        else {
            return;
        };
        let differs = match sent {
            _ if is_same => Some(0),
            Some(sent) if is_list => super::wording::unmodified(before, sent),
            _ => None,
        };
        let hash = sent.map(|sent| self.volatile.read().hash(&String::from_utf8_lossy(sent)));
        self.client.status().looked(path, hash, differs);
    }

    /// An index without terms is no answer where the published one has some, unless the list is empty, too.
    fn check_terms(&self, path: &str, body: &Bytes) -> Result<(), CopyError> {
        let AnswerClass::Taxonomy(kind) = AnswerClass::of(path) else { return Ok(()) };
        let has_terms = |text: &str| taxonomy::terms(text).is_ok_and(|terms| !terms.is_empty());
        if std::str::from_utf8(body).is_ok_and(has_terms)
            || !self.wording.taxonomy(kind).is_some_and(|known| has_terms(&known))
        {
            return Ok(());
        }
        let list = self.stored(&pass::page_path(1))?;
        let list = list.and_then(|copy| read_page(&copy.path, &copy.body, &self.volatile()).ok());
        let is_empty = list.is_some_and(|list| list.total == 0);
        if is_empty { Ok(()) } else { Err(AskError::nonsense(path, "the index has no terms").into()) }
    }

    /// A body with the stored bytes of all values that did not change. Newly found volatile fields are remembered.
    fn worded(&self, path: &str, body: Bytes, known: Option<&[u8]>) -> Bytes {
        let known = known.and_then(|known| std::str::from_utf8(known).ok());
        let Ok(text) = std::str::from_utf8(&body) else { return body };
        let (page, published) = match AnswerClass::of(path) {
            AnswerClass::Lists => (self.wording.page(text, known, &self.volatile()), None),
            AnswerClass::Taxonomy(kind) => (None, self.wording.taxonomy(kind)),
            AnswerClass::Details => (None, None),
        };
        let text = page.as_deref().unwrap_or(text);
        if let Some(known) = known {
            self.learn(known, text);
        }
        let volatile = self.volatile.read();
        let settled =
            [published.as_deref(), known].into_iter().flatten().find_map(|stored| volatile.settle(stored, text));
        settled.or(page).map_or_else(|| body.clone(), Bytes::from)
    }

    /// Remembers newly found volatile fields.
    fn learn(&self, before: &str, text: &str) {
        // Read first, then written: the keys are not locked for both at once.
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
}

/// A body that is a page or a taxonomy, without the listings on it that cannot be read, and how many these are.
fn readable(path: &str, body: &Bytes) -> Result<(Bytes, usize), AskError> {
    let is_page = |body: &Bytes| read_page(path, body, &VolatileKeys::default()).map(drop);
    if AnswerClass::of(path) == AnswerClass::Lists {
        let Err(error) = is_page(body) else { return Ok((body.clone(), 0)) };
        let (rest, broken) = page::without_broken_items(body).ok_or(error)?;
        let rest = rest.into();
        return is_page(&rest).map(|()| (rest, broken));
    }
    let text = std::str::from_utf8(body).map_err(|error| AskError::nonsense(path, error))?;
    taxonomy::terms(text).map(|_| (body.clone(), 0)).map_err(|error| AskError::nonsense(path, error))
}

fn read_page(path: &str, body: &Bytes, volatile: &VolatileKeys) -> Result<Page, AskError> {
    let page = Page::parse(body, volatile).map_err(|error| AskError::nonsense(path, error))?;
    if pass::pages(page.total, None) > pass::MOST_PAGES {
        return Err(AskError::nonsense(path, format!("a total of {} listings", page.total)));
    }
    Ok(page)
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

#[cfg(test)]
mod tests;
