//! A body and its compressed variants: compressed fast at the first request, and better when hot.
//!
//! It sets no response headers.
//!
//! The first client waits for the quick variant. The third request for a coding makes it hot: if the body is marked as
//! cached, [`Recoder`] compresses it again, better, and replaces the quick variant. In replies and stored answers all
//! variants share one weak entity tag, so replacing one is safe. Documents ([`super::reply::Rendered`]) are not
//! recompressed: each of their variants has a tag of its own. [`encode`] has the figures behind the levels. Callers: the
//! modules beside it, [`crate::edge::proxy`], [`crate::edge::answer`].

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use tokio::sync::Semaphore;
use zstd::bulk::Compressor;

use crate::protocol::coding::Coding;
use crate::tasks::{Aborted, blocking, threads};

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

#[derive(Debug)]
pub struct Coded {
    identity: Bytes,
    /// `None` for bodies that are not compressed.
    codings: Option<Arc<Codings>>,
}

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
    /// Most bodies are sent without coding, and an `ArcSwap` asks every thread of the process when it is dropped.
    made: OnceLock<ArcSwap<Bytes>>,
    /// Number of requests, up to [`HOT`]; [`SETTLED`] or [`PLAIN`].
    asked: AtomicU8,
}

impl OneCoding {
    fn made(&self) -> Option<Bytes> {
        self.made.get().map(|made| Bytes::clone(&made.load()))
    }
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
        let codings = (body.len() >= WORTH_CODING).then(|| {
            Arc::new(Codings {
                body: body.clone(),
                each: Default::default(),
                most,
                room: AtomicUsize::new(most),
                recoder: OnceLock::new(),
                making: tokio::sync::Mutex::default(),
            })
        });
        Self { identity: body, codings }
    }

    pub const fn identity(&self) -> &Bytes {
        &self.identity
    }

    /// The body, and the coding that it really has: identity if compression does not pay. Compresses a new variant on
    /// the caller's thread.
    pub fn variant(&self, coding: Coding) -> (Coding, Bytes) {
        match self.codings.as_ref().and_then(|codings| codings.shown(coding)) {
            Some(coded) => (coding, coded),
            None => (Coding::Identity, self.identity.clone()),
        }
    }

    /// Compresses a large body on another thread, once for all requests, so that other clients of this thread do not
    /// wait. Small bodies are left to [`variant`](Self::variant).
    pub async fn prepare(&self, coding: Coding) {
        let Some(codings) = self.codings.as_ref().filter(|codings| codings.body.len() > LARGE) else { return };
        if !codings.lacks(coding) {
            return;
        }
        // Before a place of `AT_ONCE`: so a wait for a place delays only requests for the same body.
        let _alone = codings.making.lock().await;
        if codings.lacks(coding) {
            // `AT_ONCE` is never closed.
            let place = AT_ONCE.acquire().await;
            let codings = codings.clone();
            // If this task fails, `variant` compresses. The task continues if the client leaves.
            let made = blocking(move || {
                codings.make(coding);
                drop(place);
                Ok::<_, Aborted>(())
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
        self.identity.len() + self.codings.as_ref().map_or(0, |codings| codings.most)
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

    fn lacks(&self, coding: Coding) -> bool {
        self.of(coding).is_some_and(|one| one.made.get().is_none() && one.asked.load(Ordering::Relaxed) != PLAIN)
    }

    /// Counts a request and returns its variant; `None`: no coding.
    fn shown(self: &Arc<Self>, coding: Coding) -> Option<Bytes> {
        let one = self.of(coding)?;
        let mut made = one.made();
        if made.is_none() {
            if one.asked.load(Ordering::Relaxed) == PLAIN {
                return None;
            }
            self.make(coding);
            made = one.made();
        }
        if one.asked.load(Ordering::Relaxed) < SETTLED {
            self.count(one, coding);
        }
        made
    }

    /// Makes a coding while a client waits.
    fn make(&self, coding: Coding) {
        let Some(one) = self.of(coding) else { return };
        match encode(coding, Effort::Quick, &self.body).ok().filter(|coded| self.can_keep(coded.len())) {
            Some(coded) if self.takes(coded.len()) => {
                let length = coded.len();
                // Another thread may have been faster.
                if one.made.set(ArcSwap::from_pointee(coded.into())).is_err() {
                    self.room.fetch_add(length, Ordering::Relaxed);
                }
            }
            None if one.made.get().is_none() => one.asked.store(PLAIN, Ordering::Relaxed),
            // `None`: another thread has made it. `Some`: another thread's variant holds the room; the next request may
            // succeed.
            None | Some(_) => {}
        }
    }

    /// Whether a variant of this length is small enough and fits beside the others.
    fn can_keep(&self, length: usize) -> bool {
        let made = self.each.iter().filter_map(|one| one.made().map(|made| made.len()));
        length < self.body.len() && made.sum::<usize>() + length <= self.most
    }

    /// Takes room for a variant of this length; `false` if there is none.
    fn takes(&self, length: usize) -> bool {
        // Relaxed: the number guards nothing else; `OnceLock` and `ArcSwap` publish the variants.
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
        let Some(made) = self.of(coding).and_then(|one| one.made.get()) else { return };
        let quick = made.load().len();
        if let Ok(best) = encode(coding, Effort::Best, &self.body)
            && best.len() < quick
        {
            self.room.fetch_add(quick - best.len(), Ordering::Relaxed);
            made.store(Arc::new(best.into()));
        }
    }
}

/// How much work a coding is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A client waits.
    Quick,
    /// In the background, for bodies that are sent often.
    Best,
}

impl Effort {
    const fn level(self, coding: Coding) -> i32 {
        match (self, coding) {
            (_, Coding::Identity) => 0,
            (Self::Quick, Coding::Brotli) => 2,
            (Self::Quick, _) => 1,
            (Self::Best, Coding::Gzip | Coding::Zstd) => 6,
            (Self::Best, Coding::Brotli) => 5,
        }
    }
}

/// Bodies over this size, in bytes, are compressed with an encoder of their own: its memory grows with the body, and
/// must not stay with the thread.
const REUSED_FOR: usize = 64 << 10;

thread_local! {
    /// For small bodies, setting up an encoder costs more than using it. About 1 MiB per compressing thread.
    static QUICK: RefCell<(Option<Compress>, Option<Compressor<'static>>)> = const { RefCell::new((None, None)) };
}

pub fn encode(coding: Coding, effort: Effort, body: &[u8]) -> io::Result<Vec<u8>> {
    let level = effort.level(coding);
    let reuses = effort == Effort::Quick && body.len() <= REUSED_FOR;
    match coding {
        Coding::Identity => Ok(body.to_vec()),
        Coding::Brotli => brotli(level, body),
        Coding::Gzip if reuses => QUICK.with_borrow_mut(|(encoder, _)| {
            let encoder = encoder.get_or_insert_with(|| gzip_encoder(level));
            encoder.reset();
            gzip(encoder, body)
        }),
        Coding::Gzip => gzip(&mut gzip_encoder(level), body),
        Coding::Zstd if reuses => QUICK.with_borrow_mut(|(_, encoder)| match encoder {
            Some(encoder) => encoder.compress(body),
            None => encoder.insert(Compressor::new(level)?).compress(body),
        }),
        Coding::Zstd => zstd::bulk::compress(body, level),
    }
}

fn gzip_encoder(level: i32) -> Compress {
    Compress::new_gzip(Compression::new(level.unsigned_abs()), 15)
}

fn gzip(encoder: &mut Compress, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() / 3 + 64);
    loop {
        let rest = body.get(encoder.total_in() as usize..).unwrap_or_default();
        match encoder.compress_vec(rest, &mut out, FlushCompress::Finish)? {
            Status::StreamEnd => return Ok(out),
            Status::Ok | Status::BufError => out.reserve(body.len() / 3 + 64),
        }
    }
}

fn brotli(level: i32, body: &[u8]) -> io::Result<Vec<u8>> {
    // No larger than the body needs: the window is allocated. From 256 KiB to 4 MiB.
    let window = body.len().max(2).ilog2().cast_signed() + 1;
    let parameters = BrotliEncoderParams {
        quality: level,
        lgwin: window.clamp(18, 22),
        size_hint: body.len(),
        ..BrotliEncoderParams::default()
    };
    let mut out = Vec::with_capacity(body.len() / 3 + 64);
    brotli::BrotliCompress(&mut &*body, &mut out, &parameters)?;
    Ok(out)
}

/// The longest queue. It does not keep bodies in memory: a job has a weak pointer.
const QUEUE: usize = 1024;

/// It rests so many times as long as it works: after a publication there is much to do, and requests come first.
const RESTS: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Recompresses a body; `false` if nobody needs it any more.
type Job = Box<dyn FnOnce() -> bool + Send>;

/// The way to the thread; cheap to clone. The thread ends with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Recoder(Arc<RecoderState>);

#[derive(Debug)]
struct RecoderState {
    jobs: SyncSender<Job>,
    recoded: Arc<AtomicU64>,
    turned_away: AtomicU64,
}

impl Recoder {
    /// Starts the thread. Without a thread every body is refused.
    pub(crate) fn start() -> Self {
        let (jobs, queue) = sync_channel::<Job>(QUEUE);
        let recoded = Arc::<AtomicU64>::default();
        let count = recoded.clone();
        let thread = threads::spawn("codings", move || {
            for job in queue {
                let began = Instant::now();
                if !job() {
                    continue;
                }
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep((began.elapsed() * RESTS).min(LONGEST_REST));
            }
        });
        if let Err(error) = thread {
            tracing::warn!(%error, "a thread could not be started, so answers are not compressed again and stay larger");
        }
        Self(Arc::new(RecoderState { jobs, recoded, turned_away: AtomicU64::new(0) }))
    }

    /// Queues a recompression; `false` if the queue is full.
    fn ask(&self, job: impl FnOnce() -> bool + Send + 'static) -> bool {
        let asked = self.0.jobs.try_send(Box::new(job)).is_ok();
        if !asked {
            self.0.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        asked
    }

    /// How many codings were made again, and how many could not join the queue.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.0.recoded.load(Ordering::Relaxed), self.0.turned_away.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
