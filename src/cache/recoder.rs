//! One thread that compresses hot bodies well, while clients are served what was compressed at once.
//!
//! Nobody waits for it: when its queue is full, who wanted to join is turned away and may come again. It knows nothing
//! of what is kept; a body that was dropped meanwhile is skipped. It takes a fifth of a core at most, large bodies apart.
//! Callers: [`super::Cache`], [`super::coded`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::semantics::coding::Coding;

use super::coded::Codings;

/// Bodies that wait, at most. They are not held by waiting.
const QUEUE: usize = 1024;

/// How many times as long as it works it rests: after a publication there is much to do at once, and requests come first.
const RESTS: u32 = 4;
/// The longest rest.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// A body whose coding is to be made better.
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
    /// Starts the thread. Where the system gives none, everybody is turned away.
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

    /// Asks for a better coding; `false` when there is no room.
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
