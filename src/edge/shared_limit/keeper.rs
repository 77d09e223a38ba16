//! Supervision of the connection to Redis: connects, notices when it is gone, comes back to it, and reports what was
//! decided meanwhile.
//!
//! A new connection decides only after it has accepted a write and the report of what this process admitted alone.
//! Callers: [`super`] writes the journal; [`crate::server`] runs it as a service.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::clock::Monotonic;
use crate::edge::limit::{ClientKey, WINDOW_SECONDS};
use crate::origin::wire::CONNECTION_LIFE;

use super::link::{Link, Lost};
use super::{Alone, Id, SharedLimit};

/// How often a connection is tried.
const EVERY: Duration = Duration::from_secs(1);
/// The pauses between two tries to connect: doubled from the first to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// After a connection that lasted so long the pauses are short again.
const GOOD: Duration = Duration::from_secs(5);
/// How many decisions are reported at once, and how long that may take.
const BATCH: (usize, Duration) = (1024, Duration::from_secs(5));

impl SharedLimit {
    pub(crate) async fn run(self: Arc<Self>) {
        let mut pause = PAUSES.0;
        loop {
            match self.open().await {
                Ok(link) => {
                    let began = Instant::now();
                    self.keep(link).await;
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
        let link = Link::open(&self.store, &self.settings, &self.waiting).await?;
        link.probe(&self.id(u64::MAX), self.patience()).await?;
        self.tell(&link).await?;
        Ok(Arc::new(link))
    }

    /// Uses a connection, and after a while the next one, until one is lost.
    async fn keep(&self, mut link: Arc<Link>) {
        let decide_by = |link: &Arc<Link>| {
            let mut why = self.why.lock();
            self.link.store(Some(link.clone()));
            *why = None;
        };
        decide_by(&link);
        tracing::debug!("the limit is shared with other machines");
        let (mut opened, mut tried) = (Instant::now(), Instant::now());
        loop {
            if opened.elapsed() >= CONNECTION_LIFE {
                match self.open().await {
                    Ok(next) => {
                        decide_by(&next);
                        (link, opened) = (next, Instant::now());
                    }
                    // The one in use is better than none.
                    Err(_lost) => opened = Instant::now(),
                }
            }
            // An entry that was written before the link was in place has notified nobody.
            if let Err(lost) = self.tell(&link).await {
                self.lose(&link, lost);
            }
            if self.link.load().is_none() {
                return;
            }
            if timeout_at(tried + EVERY, self.news.notified()).await.is_err() {
                if let Err(lost) = link.probe(&self.id(u64::MAX), self.patience()).await {
                    self.lose(&link, lost);
                }
                tried = Instant::now();
            }
        }
    }

    async fn tell(&self, link: &Link) -> Result<(), Lost> {
        while !self.journal.lock().is_empty() {
            let now = self.clock.now_mono();
            // No lock across the wait: requests write into the journal meanwhile, and only this task takes from it.
            let entries = self.journal.lock().take(BATCH.0, now);
            let told = timeout(BATCH.1, link.replay(&entries, now)).await;
            match told.unwrap_or_else(|_elapsed| Err(Lost::slow(BATCH.1))) {
                Ok(refused) => {
                    self.journal.lock().forget(refused);
                    self.counters.replayed.fetch_add(entries.len() as u64 - refused, Ordering::Relaxed);
                }
                Err(lost) => {
                    // Some may have been taken by Redis: under the same id they count once.
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
            let since = why.as_ref().map_or_else(|| self.clock.now_wall(), |alone| alone.since);
            *why = Some(Alone { why: lost, since });
        }
    }
}

/// How many entries are kept: 8 MiB at most.
const MOST: usize = 1 << 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JournalEntry {
    pub key: ClientKey,
    pub id: Id,
    pub at: Monotonic,
    /// Whether Redis may have admitted it although it was refused.
    pub withdrawn: bool,
}

/// Entries, oldest first.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: VecDeque<JournalEntry>,
    forgotten: u64,
}

impl Journal {
    pub(super) fn push(&mut self, entry: JournalEntry) {
        if self.entries.len() >= MOST {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(entry);
    }

    /// Takes up to `most` of the oldest entries that still matter.
    pub(super) fn take(&mut self, most: usize, now: Monotonic) -> Vec<JournalEntry> {
        let window = Duration::from_secs(u64::from(WINDOW_SECONDS));
        let taken = self.entries.drain(..most.min(self.entries.len()));
        taken.filter(|entry| now.since(entry.at) < window).collect()
    }

    /// Gives back entries that could not be reported.
    fn put_back(&mut self, entries: Vec<JournalEntry>) {
        for entry in entries.into_iter().rev() {
            self.entries.push_front(entry);
        }
        while self.entries.len() > MOST {
            self.entries.pop_front();
            self.forgotten += 1;
        }
    }

    /// Counts entries that were taken and could not be reported.
    const fn forget(&mut self, entries: u64) {
        self.forgotten += entries;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

pub(super) fn by_client(entries: &[JournalEntry]) -> HashMap<ClientKey, Vec<&JournalEntry>> {
    let mut clients: HashMap<ClientKey, Vec<&JournalEntry>> = HashMap::new();
    for entry in entries {
        clients.entry(entry.key).or_default().push(entry);
    }
    clients
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::{Clock, WallTime};
    use crate::config::{Config, Settings};
    use crate::edge::limit::{LimitConfig, Limiter};

    /// Redis that takes every command and decides nothing; its address, and how many connections were opened and closed.
    async fn agreeable() -> (String, Arc<[AtomicUsize; 2]>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let counts = Arc::<[AtomicUsize; 2]>::default();
        let counted = counts.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counts = counted.clone();
                counts[0].fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut commands = vec![0; 64 << 10];
                    while let Ok(length @ 1..) = stream.read(&mut commands).await {
                        let text = String::from_utf8_lossy(&commands[..length]).into_owned();
                        let answers = text.split('*').skip(1).map(|command| match command {
                            load if load.contains("LOAD") => "$1\r\nx\r\n",
                            run if run.contains("EVALSHA") => ":0\r\n",
                            _ => "+OK\r\n",
                        });
                        stream.write_all(answers.collect::<String>().as_bytes()).await.unwrap();
                    }
                    counts[1].fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        (url, counts)
    }

    /// Then it also goes where the name leads by then.
    #[tokio::test]
    async fn a_connection_is_renewed_after_a_while_and_the_limit_stays_shared() {
        let (url, counts) = agreeable().await;
        let counts = || [&counts[0], &counts[1]].map(|count| count.load(Ordering::Relaxed));
        let sets = [format!("rate_limit.store={url}")];
        let config = Config::load(None, std::iter::empty(), &sets).unwrap().config;
        let store = config.rate_limit.store.clone().unwrap();
        let (clock, _hand) = Clock::of_runtime(WallTime::from_seconds(1_000_000));
        let local = Arc::new(Limiter::new(&LimitConfig::default()));
        let limit = Arc::new(SharedLimit::new(local, store, Settings::new(config), clock));
        let running = tokio::spawn(limit.clone().run());
        for renewed in 0..3 {
            let shares = async {
                while limit.why_local().is_some() || counts() != [renewed + 1, renewed] {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(Duration::from_secs(30), shares).await.unwrap();
            // Sockets need real time.
            tokio::time::pause();
            tokio::time::advance(CONNECTION_LIFE).await;
            tokio::time::resume();
        }
        assert_eq!(limit.counters.lost.load(Ordering::Relaxed), 0);
        running.abort();
    }
}

#[cfg(test)]
mod journal_tests {
    use super::*;

    fn entry(number: u64, second: u64) -> JournalEntry {
        let mut id = [0; 16];
        id[8..].copy_from_slice(&number.to_be_bytes());
        JournalEntry { key: ClientKey::default(), id, at: Monotonic::from_seconds(second), withdrawn: false }
    }

    #[test]
    fn only_what_still_counts_is_told_and_what_was_not_told_comes_first_again() {
        let mut journal = Journal::default();
        (0..5).for_each(|number| journal.push(entry(number, number * 10)));
        let taken = journal.take(3, Monotonic::from_seconds(60));
        assert_eq!(taken, [entry(1, 10), entry(2, 20)], "the first one has left the window");
        journal.put_back(taken);
        let rest = journal.take(usize::MAX, Monotonic::from_seconds(60));
        assert_eq!(rest, [1, 2, 3, 4].map(|number| entry(number, number * 10)));
        assert!(journal.is_empty() && by_client(&rest)[&ClientKey::default()].len() == 4);
    }

    #[test]
    fn it_does_not_grow_without_bound() {
        let mut journal = Journal::default();
        (0..MOST as u64 + 7).for_each(|number| journal.push(entry(number, 0)));
        assert_eq!(journal.forgotten(), 7);
        let taken = journal.take(1, Monotonic::from_seconds(1));
        assert_eq!(taken, [entry(7, 0)]);
        journal.push(entry(0, 0));
        journal.put_back(taken);
        assert_eq!(journal.forgotten(), 8);
    }
}
