//! Connects to Redis, notices when it is gone, and comes back to it.
//!
//! A new connection decides only after it has accepted a write and was told of what this process admitted alone.
//! Callers: [`crate::app`] runs it as a service.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::link::Link;
use super::lost::Lost;
use super::{Alone, SharedLimit};

/// How often a connection is tried.
const EVERY: Duration = Duration::from_secs(1);
/// The pauses between two tries to connect: doubled from the first to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// After a connection that lasted so long the pauses are short again.
const GOOD: Duration = Duration::from_secs(5);
/// How many decisions are reported at once, and how long that may take.
const BATCH: (usize, Duration) = (1024, Duration::from_secs(5));

impl SharedLimit {
    /// Keeps the connection until the process ends.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut pause = PAUSES.0;
        loop {
            match self.open().await {
                Ok(link) => {
                    let began = Instant::now();
                    self.keep(&link).await;
                    if began.elapsed() >= GOOD {
                        pause = PAUSES.0;
                    }
                }
                Err(lost) => self.told(lost),
            }
            sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn open(&self) -> Result<Arc<Link>, Lost> {
        let link = Link::open(&self.access()).await?;
        link.probe(&self.id(u64::MAX), self.patience()).await?;
        self.tell(&link).await?;
        Ok(Arc::new(link))
    }

    /// Uses a connection until it is lost.
    async fn keep(&self, link: &Arc<Link>) {
        {
            let mut why = self.why.lock();
            self.link.store(Some(link.clone()));
            *why = None;
        }
        tracing::info!("the limit is shared with other machines");
        let mut tried = Instant::now();
        loop {
            // An entry that was written before the link was in place has notified nobody.
            if let Err(lost) = self.tell(link).await {
                self.lose(link, lost);
            }
            if self.link.load().is_none() {
                return;
            }
            if timeout_at(tried + EVERY, self.news.notified()).await.is_err() {
                if let Err(lost) = link.probe(&self.id(u64::MAX), self.patience()).await {
                    self.lose(link, lost);
                }
                tried = Instant::now();
            }
        }
    }

    /// Reports everything in the journal to Redis.
    async fn tell(&self, link: &Link) -> Result<(), Lost> {
        while !self.journal.lock().is_empty() {
            let now = self.clock.now_mono();
            let entries = self.journal.lock().take(BATCH.0, now);
            let told = timeout(BATCH.1, link.replay(&entries, now)).await;
            match told.unwrap_or_else(|_elapsed| Err(Lost::slow(BATCH.1))) {
                Ok(refused) => {
                    self.journal.lock().forget(refused);
                    self.counters.replayed.fetch_add(entries.len() as u64 - refused, Ordering::Relaxed);
                }
                Err(lost) => {
                    self.journal.lock().put_back(entries);
                    return Err(lost);
                }
            }
        }
        Ok(())
    }

    /// Keeps the reason for `/status`, and logs it once.
    fn told(&self, lost: Lost) {
        let mut why = self.why.lock();
        if why.as_ref().map(|alone| &alone.why) != Some(&lost) {
            tracing::warn!(why = %lost, "the limit is not shared: each machine counts for itself");
            let since = why.as_ref().map_or_else(|| self.clock.now_wall(), |alone| alone.since);
            *why = Some(Alone { why: lost, since });
        }
    }
}
