//! Shared limit of a fleet: the window of each client is in Redis (or Valkey), which every machine asks.
//!
//! One script decides in one atomic step, on the server's clock. The limiter of this process ([`crate::edge::limit`]) counts
//! all the time. If Redis does not answer, that limiter decides, and its admissions are replayed later under the same
//! ids, so that none counts twice. The limit of pages is not shared.
//!
//! **The promise.** While Redis answers and keeps its data, no client is admitted more often than its quota in any 60 s
//! on all machines together, and it is not refused otherwise. Without Redis, at most one further quota per machine.
//!
//! **What is wrong with one key concerns its client alone.** The script removes what it cannot have written. An error, or
//! an answer that the script cannot give, makes this process decide about that client by itself, and the connection stays.
//!
//! **A refusal that is known needs no round trip.** Redis says for how long it refuses a client. Until then the refusal
//! is repeated from memory ([`KnownRefusals`]). Callers: [`crate::edge::answer`] asks, [`crate::server::admin`] tells,
//! [`crate::server`] builds it and runs [`keeper`].

mod bounded;
mod keeper;
pub(crate) mod link;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{Clock, Monotonic, WallTime, ceil_seconds};
use crate::config::{RedisUrl, Settings};
use crate::data::cache::recent::Recent;
use crate::edge::limit::{ClientKey, Decision, Limiter, Wish};
use crate::telemetry::findings::{Finding, Kind};
use crate::telemetry::throttle::LogThrottle;

use keeper::{Journal, JournalEntry};
use link::{Link, Lost, Verdict};

/// How many decisions may wait for Redis at once. Each of them is a request that is being answered.
const MOST_WAITING: usize = 16_384;

/// Names an admission, on all machines: a number of this process, and a number in it.
type Id = [u8; 16];

/// What happened since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Decisions of Redis.
    shared: AtomicU64,
    /// Refusals that were repeated without asking.
    known: AtomicU64,
    /// Decisions of this process alone.
    local: AtomicU64,
    pub lost: AtomicU64,
    /// Local decisions that were reported to Redis.
    pub replayed: AtomicU64,
}

impl Counters {
    /// Decisions, by who made them.
    pub(crate) fn decisions(&self) -> [(&'static str, u64); 3] {
        [("store", &self.shared), ("memory", &self.known), ("process", &self.local)]
            .map(|(by, count)| (by, count.load(Ordering::Relaxed)))
    }
}

/// This process decides alone.
#[derive(Debug)]
struct Alone {
    why: Lost,
    since: WallTime,
}

pub struct SharedLimit {
    local: Arc<Limiter>,
    clock: Clock,
    store: RedisUrl,
    /// `rate_limit.store_timeout` and `rate_limit.store_password_file`, which a reload can change.
    settings: Settings,
    /// Tells the ids of this process from others.
    process: u64,
    next: AtomicU64,
    waiting: Arc<AtomicUsize>,
    /// The connection; `None`: this process decides alone.
    link: ArcSwapOption<Link>,
    /// Why there is none, and since when.
    why: Mutex<Option<Alone>>,
    known: KnownRefusals,
    journal: Mutex<Journal>,
    /// The link was lost, or the journal has an entry.
    news: Notify,
    /// Log lines about keys of no use.
    throttle: LogThrottle,
    pub(crate) counters: Counters,
}

impl SharedLimit {
    /// A window that is not connected yet: [`Self::run`] connects. `local` counts for this process.
    pub(crate) fn new(local: Arc<Limiter>, store: RedisUrl, settings: Settings, clock: Clock) -> Self {
        let alone = Alone { why: Lost::NotYet, since: clock.now_wall() };
        Self {
            local,
            clock,
            store,
            settings,
            process: rand::random(),
            next: AtomicU64::default(),
            waiting: Arc::default(),
            link: ArcSwapOption::empty(),
            why: Mutex::new(Some(alone)),
            known: KnownRefusals(Recent::new(MOST_REFUSALS)),
            journal: Mutex::new(Journal::default()),
            news: Notify::new(),
            throttle: LogThrottle::default(),
            counters: Counters::default(),
        }
    }

    /// Why this process decides alone; `None`: it does not.
    pub(crate) fn why_local(&self) -> Option<String> {
        self.why.lock().as_ref().map(|alone| alone.why.to_string())
    }

    /// That this process decides alone; `None`: it does not.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let why = self.why.lock().as_ref().map(|alone| alone.why.clone()).filter(|why| *why != Lost::NotYet)?;
        let text = format!("the limit is not shared, so each machine counts clients by itself: {why}");
        Some(Finding::new(Kind::LimitAlone, text))
    }

    /// Since when this process decides alone; `None`: it does not.
    pub(crate) fn alone_since(&self) -> Option<WallTime> {
        self.why.lock().as_ref().map(|alone| alone.since)
    }

    /// The store, without its password.
    pub(crate) fn store(&self) -> &RedisUrl {
        &self.store
    }

    /// How many local decisions were forgotten before they could be reported to Redis.
    pub(crate) fn forgotten(&self) -> u64 {
        self.journal.lock().forgotten()
    }

    /// Decides on a request of `address`. Waits for Redis, at most as long as `rate_limit.store_timeout`.
    pub(crate) async fn decide(&self, address: IpAddr, wish: Wish) -> Decision {
        let client = self.local.client_of(address);
        if client.0 == 0 {
            return Decision::Unlimited;
        }
        let asked = self.clock.now_mono();
        if let Some(until) = self.known.until(client, asked) {
            self.counters.known.fetch_add(1, Ordering::Relaxed);
            return decision(client.0, until.since(asked), wish);
        }
        let id = self.new_id();
        let Some(link) = self.link.load_full() else { return self.locally(address, client.1, wish, id, false) };
        match self.ask(&link, client, wish, &id).await {
            Ok(verdict) => self.obey(client, wish, id, asked, verdict),
            Err(lost) => {
                if !lost.is_about_one_key() {
                    self.lose(&link, lost);
                } else if let Some(answers) = self.throttle.count(self.clock.now_mono()) {
                    tracing::warn!(client = %client.1, %lost, answers, "Redis gave no usable answer about a client; this machine counts that client by itself");
                }
                // Redis may have counted it all the same: the journal reports it under the same id.
                self.locally(address, client.1, wish, id, true)
            }
        }
    }

    async fn ask(&self, link: &Link, client: (u32, ClientKey), wish: Wish, id: &Id) -> Result<Verdict, Lost> {
        let waiting = Waiting::new(&self.waiting);
        if waiting.before >= MOST_WAITING {
            return Err(Lost::Crowded);
        }
        let (id, patience) = (if wish == Wish::Admit { &id[..] } else { &[] }, self.patience());
        match tokio::time::timeout(patience, link.decide(client, id)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(Lost::slow(patience)),
        }
    }

    /// How long one decision may wait: `rate_limit.store_timeout`.
    fn patience(&self) -> Duration {
        self.settings.load().rate_limit.store_timeout
    }

    /// Puts a decision of Redis into effect here.
    fn obey(
        &self,
        client @ (quota, key): (u32, ClientKey),
        wish: Wish,
        id: Id,
        asked: Monotonic,
        verdict: Verdict,
    ) -> Decision {
        self.counters.shared.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now_mono();
        if !verdict.admitted {
            self.known.remember(client, asked, now, verdict.leaves);
            return decision(quota, verdict.leaves, wish);
        }
        // Redis counts an admission later than it was asked for and earlier than its answer arrives. So if all of the
        // quota was asked for here in the 60 s before now, Redis has lost some of it.
        if wish == Wish::Admit
            && let Err(refused) = self.local.note(client, asked, now)
        {
            self.write_down(JournalEntry { key, id, at: asked, withdrawn: true });
            return refused;
        }
        let reset_seconds = seconds(verdict.leaves);
        Decision::Admitted { quota, remaining: quota.saturating_sub(verdict.counted), reset_seconds }
    }

    /// Decides alone. `sent`: Redis may have counted the request.
    fn locally(&self, address: IpAddr, key: ClientKey, wish: Wish, id: Id, sent: bool) -> Decision {
        self.counters.local.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now_mono();
        let decision = self.local.decide(address, wish, now);
        let admitted = decision.is_admitted();
        if wish == Wish::Admit && (admitted || sent) {
            self.write_down(JournalEntry { key, id, at: now, withdrawn: !admitted });
        }
        decision
    }

    fn write_down(&self, entry: JournalEntry) {
        self.journal.lock().push(entry);
        // Without a link nothing can be reported, and `keeper` looks by itself when there is one.
        if self.link.load().is_some() {
            self.news.notify_one();
        }
    }

    /// Gives up a link, if it is still the one in use.
    fn lose(&self, link: &Arc<Link>, lost: Lost) {
        // The lock of both: link and reason change together, here and in `keep`.
        let mut why = self.why.lock();
        if self.link.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            self.link.store(None);
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
            *why = Some(Alone { why: lost, since: self.clock.now_wall() });
            self.news.notify_one();
        }
    }

    fn new_id(&self) -> Id {
        self.id(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The id with this number in this process.
    fn id(&self, number: u64) -> Id {
        let mut id = [0; 16];
        let (process, of_it) = id.split_at_mut(8);
        process.copy_from_slice(&self.process.to_be_bytes());
        of_it.copy_from_slice(&number.to_be_bytes());
        id
    }
}

/// A decision that waits, also if its request is given up.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

pub const ADMIT: &str = concat!(include_str!("shared_limit/clock.lua"), include_str!("shared_limit/admit.lua"));
/// Counts what was admitted without asking.
pub const REPLAY: &str = concat!(include_str!("shared_limit/clock.lua"), include_str!("shared_limit/replay.lua"));

/// How many refusals are remembered; 48 bytes each.
const MOST_REFUSALS: usize = 1 << 14;

/// Refusals of Redis that still hold, so that Redis is not asked again: until when it certainly refuses, and from when on
/// it certainly admits. A client whose place was taken by another one is asked about.
struct KnownRefusals(Recent<(Monotonic, Monotonic)>);

impl KnownRefusals {
    /// Until when a client is refused, if that is known.
    fn until(&self, client: (u32, ClientKey), now: Monotonic) -> Option<Monotonic> {
        self.0.with(&client, |known| known.filter(|(sure, _)| now < *sure).map(|(_, until)| until))
    }

    /// Redis was asked at `asked`, answered by `now`, and refuses for `left` more.
    fn remember(&self, client: (u32, ClientKey), asked: Monotonic, now: Monotonic, left: Duration) {
        self.0.with(&client, |known| *known = Some((asked.plus(left), now.plus(left))));
    }
}

/// The decision for a client whose window is full for `left` more.
fn decision(quota: u32, left: Duration, wish: Wish) -> Decision {
    let seconds = seconds(left).max(1);
    match wish {
        Wish::Admit => Decision::Refused { quota, retry_after_seconds: seconds },
        Wish::Peek => Decision::Admitted { quota, remaining: 0, reset_seconds: seconds },
    }
}

fn seconds(left: Duration) -> u32 {
    u32::try_from(ceil_seconds(left)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod known_tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::edge::limit::{LimitConfig, Limiter};

    #[test]
    fn a_refusal_is_known_only_as_long_as_redis_surely_refuses() {
        let limiter = Limiter::new(&LimitConfig::default());
        let client = limiter.client_of(Ipv4Addr::LOCALHOST.into());
        let known = KnownRefusals(Recent::new(MOST_REFUSALS));
        let at = |millis: u64| Monotonic::from_nanos(millis * 1_000_000);
        assert_eq!(known.until(client, at(0)), None);
        known.remember(client, at(1000), at(1010), Duration::from_millis(500));
        assert_eq!(known.until(client, at(1499)), Some(at(1510)));
        assert_eq!(known.until(client, at(1500)), None, "it may be admitted now");
        assert_eq!(known.until((client.0 + 1, client.1), at(1400)), None, "another quota");
        let refused = Decision::Refused { quota: 60, retry_after_seconds: 2 };
        assert_eq!(decision(60, Duration::from_millis(1001), Wish::Admit), refused);
        assert_eq!(decision(60, Duration::ZERO, Wish::Admit).retry_after_seconds(), Some(1));
        let told = Decision::Admitted { quota: 60, remaining: 0, reset_seconds: 1 };
        assert_eq!(decision(60, Duration::from_millis(1), Wish::Peek), told);
    }
}
