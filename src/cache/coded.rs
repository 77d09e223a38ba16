//! A body and its compressed variants: compressed fast at the first request, and better when hot.
//!
//! It sets no response headers.
//!
//! The first client waits for the quick variant. The third request for a coding makes it hot: if the body is marked as
//! cached, [`Recoder`] compresses it again, better, and replaces the quick variant. In replies and stored answers all
//! variants share one weak entity tag, so replacing one is safe. Documents ([`super::rendered`]) are not recompressed:
//! each of their variants has a tag of its own. [`mod@encode`] has the figures behind the levels. Callers: the modules
//! beside it, [`crate::proxy`], [`crate::answer`].

mod encode;

use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::Semaphore;

use crate::semantics::coding::Coding;

pub use encode::{Effort, encode};

use super::recoder::Recoder;

/// Smaller bodies are not compressed: they would not become smaller.
const WORTH_CODING: usize = 200;
/// Larger bodies take too long to compress on a thread that serves clients: see [`Coded::prepare`].
const LARGE: usize = 64 << 10;
/// Large bodies compressed at the same time in this process; others wait, so clients get processor time.
static AT_ONCE: Semaphore = Semaphore::const_new(2);
/// A coding of a body is hot after this many requests for it.
const HOT: u8 = 3;
/// Recompression is queued, done, or gained nothing.
const SETTLED: u8 = u8::MAX;
/// Compression does not make it small enough.
const PLAIN: u8 = u8::MAX - 1;

/// One coded body.
#[derive(Debug)]
pub struct Variant {
    /// The coded body.
    pub body: Bytes,
    /// Its `Content-Length`.
    pub length: HeaderValue,
}

impl Variant {
    pub(super) fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self { length: HeaderValue::from(body.len()), body }
    }

    /// The variant as it is.
    pub(super) const fn shown(&self) -> Shown<'_> {
        Shown { identity: self, coded: None }
    }
}

/// The variant that one request gets.
pub struct Shown<'a> {
    identity: &'a Variant,
    coded: Option<Guard<Option<Arc<Variant>>>>,
}

impl Deref for Shown<'_> {
    type Target = Variant;

    fn deref(&self) -> &Variant {
        self.coded.as_ref().and_then(|coded| coded.as_deref()).unwrap_or(self.identity)
    }
}

/// A body.
#[derive(Debug)]
pub struct Coded {
    identity: Variant,
    /// `None` for bodies that are not compressed.
    codings: Option<Arc<Codings>>,
}

/// The coded variants of a body.
#[derive(Debug)]
struct Codings {
    body: Bytes,
    each: [OneCoding; 3],
    /// Bytes that all variants may take together.
    most: usize,
    /// Bytes that variants may still take, so that a body never exceeds its weight.
    room: AtomicUsize,
    /// Empty until the body is marked as cached.
    recoder: OnceLock<Recoder>,
    /// Held while a variant of a large body is made.
    making: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct OneCoding {
    made: ArcSwapOption<Variant>,
    /// Number of requests, up to [`HOT`]; [`SETTLED`] or [`PLAIN`].
    asked: AtomicU8,
}

impl Coded {
    /// From an uncompressed body.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let room = room_beside(body.len());
        Self::within(body, room)
    }

    /// The same, with room for three variants as large as the body: for bodies that compress less well than JSON.
    pub fn roomy(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let room = 3 * body.len();
        Self::within(body, room)
    }

    fn within(body: Bytes, most: usize) -> Self {
        let identity = Variant::new(body);
        let codings = (identity.body.len() >= WORTH_CODING).then(|| {
            Arc::new(Codings {
                body: identity.body.clone(),
                each: Default::default(),
                most,
                room: AtomicUsize::new(most),
                recoder: OnceLock::new(),
                making: tokio::sync::Mutex::default(),
            })
        });
        Self { identity, codings }
    }

    /// The uncompressed body.
    pub const fn identity(&self) -> &Variant {
        &self.identity
    }

    /// The body, and the coding that it really has: identity if compression does not pay. Compresses a new variant on
    /// the caller's thread.
    pub fn variant(&self, coding: Coding) -> (Coding, Shown<'_>) {
        let coded = self.codings.as_ref().and_then(|codings| codings.shown(coding));
        let really = if coded.is_some() { coding } else { Coding::Identity };
        (really, Shown { identity: &self.identity, coded })
    }

    /// Compresses a large body on another thread, once for all requests, so that other clients of this thread do not
    /// wait. Small bodies are left to [`variant`](Self::variant).
    pub async fn prepare(&self, coding: Coding) {
        let Some(codings) = self.codings.as_ref().filter(|codings| codings.body.len() > LARGE) else { return };
        if !codings.lacks(coding) {
            return;
        }
        let _alone = codings.making.lock().await;
        if codings.lacks(coding) {
            // `AT_ONCE` is never closed.
            let place = AT_ONCE.acquire().await;
            let codings = codings.clone();
            // If this task fails, `variant` compresses. The task continues if the client leaves.
            let made = tokio::task::spawn_blocking(move || {
                codings.make(coding);
                drop(place);
            });
            let _ = made.await;
        }
    }

    /// Marks the body as cached: once it is hot, it is compressed again.
    pub(super) fn kept(&self, recoder: &Recoder) {
        if let Some(codings) = &self.codings {
            let _ = codings.recoder.set(recoder.clone());
        }
    }

    /// The successor of a hot body is hot from the start: it is compressed again at the first request.
    pub(super) fn succeed(&self, old: &Self) {
        if let (Some(codings), Some(old)) = (&self.codings, &old.codings) {
            for (new, old) in codings.each.iter().zip(&old.each) {
                let hot = matches!(old.asked.load(Ordering::Relaxed), HOT | SETTLED);
                new.asked.store(if hot { HOT - 1 } else { 0 }, Ordering::Relaxed);
            }
        }
    }

    /// Its weight in the cache, in bytes, with all variants that it may ever have.
    pub fn weight(&self) -> usize {
        self.identity.body.len() + self.codings.as_ref().map_or(0, |codings| codings.most)
    }
}

/// Bytes that all variants of a body of this length may usually take together: enough for three codings of JSON.
const fn room_beside(length: usize) -> usize {
    length + 2048
}

impl Codings {
    fn of(&self, coding: Coding) -> Option<&OneCoding> {
        match coding {
            Coding::Identity => None,
            Coding::Gzip => Some(&self.each[0]),
            Coding::Brotli => Some(&self.each[1]),
            Coding::Zstd => Some(&self.each[2]),
        }
    }

    /// Whether a coding is missing.
    fn lacks(&self, coding: Coding) -> bool {
        self.of(coding).is_some_and(|one| one.made.load().is_none() && one.asked.load(Ordering::Relaxed) != PLAIN)
    }

    /// Counts a request and returns its variant; `None`: no coding.
    fn shown(self: &Arc<Self>, coding: Coding) -> Option<Guard<Option<Arc<Variant>>>> {
        let one = self.of(coding)?;
        let mut made = one.made.load();
        if made.is_none() {
            if one.asked.load(Ordering::Relaxed) == PLAIN {
                return None;
            }
            self.make(coding);
            made = one.made.load();
        }
        if one.asked.load(Ordering::Relaxed) < SETTLED {
            self.count(one, coding);
        }
        made.is_some().then_some(made)
    }

    /// Makes a coding while a client waits.
    fn make(&self, coding: Coding) {
        let Some(one) = self.of(coding) else { return };
        match encode(coding, Effort::Quick, &self.body).ok().filter(|coded| self.can_keep(coded.len())) {
            Some(coded) if self.takes(coded.len()) => {
                let coded = Some(Arc::new(Variant::new(coded)));
                let length = coded.as_ref().map_or(0, |coded| coded.body.len());
                // Another thread may have been faster.
                if one.made.compare_and_swap(&None::<Arc<Variant>>, coded).is_some() {
                    self.room.fetch_add(length, Ordering::Relaxed);
                }
            }
            None if one.made.load().is_none() => one.asked.store(PLAIN, Ordering::Relaxed),
            // `None`: another thread has made it. `Some`: another thread's variant holds the room; the next request may
            // succeed.
            None | Some(_) => {}
        }
    }

    /// Whether a variant of this length is small enough and fits beside the others.
    fn can_keep(&self, length: usize) -> bool {
        let made = self.each.iter().filter_map(|one| one.made.load().as_ref().map(|made| made.body.len()));
        length < self.body.len() && made.sum::<usize>() + length <= self.most
    }

    /// Takes room for a variant of this length; `false` if there is none.
    fn takes(&self, length: usize) -> bool {
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(length)).is_ok()
    }

    /// Counts a request for a coding; the request that makes it hot queues the recompression.
    fn count(self: &Arc<Self>, one: &OneCoding, coding: Coding) {
        let count = |asked: u8| (asked < HOT).then(|| asked + 1);
        let asked = match one.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count) {
            Ok(before) => before + 1,
            Err(asked) => asked,
        };
        if asked != HOT {
            return;
        }
        // An uncached body is not hot: its clients share it only while they wait together.
        let Some(recoder) = self.recoder.get() else { return };
        let first = one.asked.compare_exchange(HOT, SETTLED, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // A queued recompression must not keep the body in memory.
        let codings = Arc::downgrade(self);
        let recode = move || codings.upgrade().inspect(|codings| codings.recode(coding)).is_some();
        if first && !recoder.ask(recode) {
            one.asked.store(0, Ordering::Relaxed);
        }
    }

    /// Makes a coding once more, and better.
    fn recode(&self, coding: Coding) {
        let Some(one) = self.of(coding) else { return };
        let quick = one.made.load_full().map_or(0, |quick| quick.body.len());
        if let Ok(best) = encode(coding, Effort::Best, &self.body)
            && best.len() < quick
        {
            self.room.fetch_add(quick - best.len(), Ordering::Relaxed);
            one.made.store(Some(Arc::new(Variant::new(best))));
        }
    }
}

#[cfg(test)]
mod tests;
