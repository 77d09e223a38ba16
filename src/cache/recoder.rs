//! One thread that compresses hot bodies well, while clients get the quick variant.
//!
//! Nobody waits for it: when the queue is full, a body is refused and may be queued later. A body that was dropped
//! meanwhile is skipped. It uses at most a fifth of a core, apart from large bodies. Callers: [`super::Cache`],
//! [`super::coded`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::semantics::coding::Coding;

use super::coded::Codings;

/// The longest queue. It does not keep bodies in memory.
const QUEUE: usize = 1024;

/// It rests so many times as long as it works: after a publication there is much to do, and requests come first.
const RESTS: u32 = 4;
const LONGEST_REST: Duration = Duration::from_secs(1);

/// A body to recompress.
type Job = (Weak<Codings>, Coding);

/// The way to the thread; cheap to clone. The thread ends with the last of them.
#[derive(Clone, Debug)]
pub(crate) struct Recoder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    jobs: Option<SyncSender<Job>>,
    recoded: Arc<AtomicU64>,
    turned_away: AtomicU64,
}

impl Recoder {
    /// Starts the thread. Without a thread every body is refused.
    pub(crate) fn start() -> Self {
        let (jobs, queue) = sync_channel::<Job>(QUEUE);
        let recoded = Arc::<AtomicU64>::default();
        let count = recoded.clone();
        let thread = std::thread::Builder::new().name("codings".into()).spawn(move || {
            for (codings, coding) in queue {
                let Some(codings) = codings.upgrade() else { continue };
                let began = Instant::now();
                codings.recode(coding);
                drop(codings);
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep((began.elapsed() * RESTS).min(LONGEST_REST));
            }
        });
        let jobs = match thread {
            Ok(_) => Some(jobs),
            Err(error) => {
                tracing::warn!(%error, "no thread for recompression; replies keep their first, larger compression");
                None
            }
        };
        Self(Arc::new(Inner { jobs, recoded, turned_away: AtomicU64::new(0) }))
    }

    /// Queues a recompression; `false` if the queue is full.
    pub(super) fn ask(&self, codings: Weak<Codings>, coding: Coding) -> bool {
        let asked = self.0.jobs.as_ref().is_some_and(|jobs| jobs.try_send((codings, coding)).is_ok());
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
