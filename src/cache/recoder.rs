//! One thread that compresses hot bodies well, while clients get the quick variant.
//!
//! No client waits for it: when the queue is full, a body is refused and may be queued later. It does not know bodies
//! or the cache. It uses at most a fifth of a core, apart from large bodies. Callers: [`super::Cache`],
//! [`super::coded`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The longest queue. It does not keep bodies in memory.
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
            for job in queue {
                let began = Instant::now();
                if !job() {
                    continue;
                }
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep((began.elapsed() * RESTS).min(LONGEST_REST));
            }
        });
        let jobs = match thread {
            Ok(_) => Some(jobs),
            Err(error) => {
                tracing::warn!(%error, "a thread could not be started, so answers are not compressed again and stay larger");
                None
            }
        };
        Self(Arc::new(RecoderState { jobs, recoded, turned_away: AtomicU64::new(0) }))
    }

    /// Queues a recompression; `false` if the queue is full.
    pub(super) fn ask(&self, job: impl FnOnce() -> bool + Send + 'static) -> bool {
        let asked = self.0.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Box::new(job)).is_ok());
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
