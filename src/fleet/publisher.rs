//! The publisher: writes the current snapshot to an object store, for replicas to follow.
//!
//! Publishing is a comparison, repeated: each round reads the head, [`plan`] says what the object store lacks of what should
//! lie there, and the task writes objects first and then the head. [`garbage`] compares all objects more seldom.
//! Remembered are the last head with its number, and the place of its chain in the details: the ledger has them, too.
//! After a failure it tries again, with growing pauses. The source of a snapshot (crawl, bundle, another object store,
//! rollback) makes no difference.
//!
//! One task of its own. It shares only snapshots and the data directory with the threads that serve clients, so it never
//! disturbs them. Callers: [`crate::server`].

mod garbage;
mod ledger;
mod plan;
pub(crate) mod status;
#[cfg(test)]
pub(in crate::fleet) mod tests;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use super::bundle_store::BundleStore;
use super::head::is_ahead;
use crate::clock::Clock;
use crate::clock::backoff::{Jitter, doubled};
use crate::config::{Config, PublishConfig};
use crate::data::bundle::signature::{SignatureError, Signer, TrustedKeys};
use crate::data::details::Details;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshots::Snapshots;
use crate::data::snapshots::export::Unsent;
use crate::tasks::blocking;

use garbage::Checks;
use ledger::ChainOwner;
pub(crate) use ledger::release;
use plan::{Chain, FULL_EVERY_MS, Facts, NextWrite, Offer, PAUSE_MS, SHORT_PAUSE_MS, Stored};
use status::{PublishError, PublishFacts, PublishStatus};
use write::{InStore, Rival};

/// After a failure the objects are checked again, but not sooner than this after the last check.
const CHECK_AGAIN: Duration = Duration::from_secs(60);

/// How often the task looks whether details have arrived, objects must be checked, or a full bundle is due.
/// A new snapshot wakes it at once.
const LOOK: Duration = Duration::from_secs(1);
/// How often the head in the object store is read without a new snapshot: somebody may have removed or altered it.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The pause after a failure, doubled after each further one up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest one where the object store loses heads: each try may write a full bundle.
const COSTLY_PAUSE: Duration = Duration::from_secs(600);
/// The pause after a wrong password: a try costs seconds of work and a GiB of memory.
const KEY_PAUSE: Duration = Duration::from_secs(600);
/// So often the head is read again because another publisher has written: two that write at once must not keep each
/// other busy.
const MOST_TRIES: u32 = 4;

pub(crate) struct Publisher {
    settings: PublishConfig,
    /// `bundle.trusted_keys`: the keys of other publishers on the prefix. Of use to one that signs.
    others: TrustedKeys,
    /// Where bundles are written before they are sent.
    data_dir: PathBuf,
    store: BundleStore,
    snapshots: Snapshots,
    details: Details,
    clock: Clock,
    status: PublishStatus,
    jitter: Jitter,
    signer: Option<Arc<Signer>>,
    /// The keys of heads that are believed; none: this publisher does not sign, and believes every head.
    trusted: TrustedKeys,
    whose: ChainOwner,
    /// The chain that is continued, as in the ledger.
    chain: Option<Chain>,
    /// The highest number of a head that was ever used here.
    sequence: Option<u64>,
    /// Whether a conditional write that had to be refused was refused; `None`: not tried yet. Else the object store has no
    /// conditions, or ignores them: the last write wins.
    has_conditions: Option<bool>,
    standing: HeadOwner,
    /// What could be written of the current snapshot, by its epoch, with the journal.
    offered: Option<(u64, Offer, Bytes)>,
    /// Which details the chain lacked, by the revision of the details.
    unsent: Option<(u64, Unsent)>,
    checks: Checks,
}

/// The owner of the head in the object store.
#[derive(Clone, Copy, Debug)]
enum HeadOwner {
    /// Ours has not been there since the start.
    New,
    There,
    /// A later one of another publisher took the place of ours.
    Lost(Rival),
}

impl Publisher {
    /// A publisher to an object store with this address. It does nothing before [`Publisher::run`], and keeps its snapshot
    /// from now on.
    #[expect(clippy::too_many_arguments, reason = "all that a publisher has")]
    pub(crate) fn over(
        store: BundleStore,
        url: &str,
        config: &Config,
        others: TrustedKeys,
        snapshots: Snapshots,
        details: Details,
        clock: Clock,
        status: PublishStatus,
    ) -> Self {
        // The mirror may drop old snapshots before the key is open.
        let last = ledger::last_head(snapshots.store(), url);
        let sequence = last.as_ref().map(|head| head.sequence);
        let (url, proxy) = (url.to_owned(), store.proxy.clone());
        status.lock().facts = PublishFacts { url: Some(url.clone()), proxy, sequence, ..PublishFacts::default() };
        snapshots.keep_for_chain(last.map(|head| (head.snapshot.clone(), head.end().digest)));
        Self {
            settings: config.publish.clone(),
            others,
            data_dir: config.data_dir.clone(),
            store,
            snapshots,
            details,
            clock,
            status,
            jitter: Jitter::default(),
            signer: None,
            trusted: TrustedKeys::default(),
            whose: ChainOwner { url, signed_by: None },
            chain: None,
            sequence,
            has_conditions: None,
            standing: HeadOwner::New,
            offered: None,
            unsent: None,
            checks: Checks::default(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut swaps = self.snapshots.current().watch();
        let mut failures = 0_u32;
        let mut is_ready = false;
        loop {
            // Before the round: a snapshot that is published during it begins the next one.
            swaps.mark_unchanged();
            let done = if is_ready { Ok(()) } else { self.prepare().await };
            let done = match done {
                Ok(()) => {
                    is_ready = true;
                    self.round().await
                }
                failed => failed,
            };
            if let Err(error) = done {
                let pause = match error {
                    PublishError::Signature(SignatureError::WrongPassword(_)) => KEY_PAUSE,
                    PublishError::Unkept(_) => doubled(FIRST_PAUSE, failures, COSTLY_PAUSE),
                    _ => doubled(FIRST_PAUSE, failures, LONGEST_PAUSE),
                };
                let pause = self.jitter.jittered(pause);
                failures = failures.saturating_add(1);
                self.fail(&error, pause);
                sleep(pause).await;
                continue;
            }
            failures = 0;
            let looked = Instant::now();
            loop {
                tokio::select! {
                    _ = swaps.changed() => break,
                    () = sleep(LOOK) => if looked.elapsed() >= LOOK_AGAIN || self.is_due() { break },
                }
            }
        }
    }

    /// Opens the key and reads the ledger.
    async fn prepare(&mut self) -> Result<(), PublishError> {
        let PublishConfig { sign_key, sign_password_file, .. } = self.settings.clone();
        if let Some(key) = sign_key {
            self.status.lock().lacks(self.clock.now_mono());
            let signer = blocking(move || write::open_key(&key, sign_password_file.as_deref())).await?;
            self.whose.signed_by = Some(signer.key().to_string());
            self.status.lock().facts.signed_by.clone_from(&self.whose.signed_by);
            self.trusted = self.others.and(&signer)?;
            self.signer = Some(Arc::new(signer));
        }
        let (store, whose) = (self.snapshots.store().clone(), self.whose.clone());
        let (sequence, chain) = blocking(move || Ok::<_, PublishError>(ledger::read(&store, &whose)?)).await?;
        (self.sequence, self.chain) = (self.sequence.max(sequence), chain);
        Ok(())
    }

    /// Writes what the object store lacks, and checks its objects if it is time.
    async fn round(&mut self) -> Result<(), PublishError> {
        self.judge().await;
        self.catch_up().await?;
        if self.is_time_to_tidy() && !matches!(self.standing, HeadOwner::Lost(_)) {
            if let Err(error) = self.tidy().await {
                self.unchecked(&error);
            }
            // It may have found that the chain is broken, or that the head is lost.
            self.catch_up().await?;
        }
        Ok(())
    }

    /// Refuses to go on with a number of ours that is too far ahead, until the ledger is released.
    async fn check_number(&mut self) -> Result<(), PublishError> {
        let clock = self.clock.now_wall();
        let Some(sequence) = self.sequence.filter(|sequence| is_ahead(*sequence, clock)) else { return Ok(()) };
        let (store, whose) = (self.snapshots.store().clone(), self.whose.clone());
        let (kept, _) = blocking(move || Ok::<_, PublishError>(ledger::read(&store, &whose)?)).await?;
        if kept.is_some() {
            return Err(PublishError::Ahead { sequence, clock });
        }
        (self.sequence, self.chain, self.standing) = (None, None, HeadOwner::New);
        Ok(())
    }

    /// Writes until the object store has the current snapshot.
    async fn catch_up(&mut self) -> Result<(), PublishError> {
        self.check_number().await?;
        for _ in 0..MOST_TRIES {
            let Some(served) = self.snapshots.current().get() else { return Ok(()) };
            self.offer(&served).await?;
            let found = self.look().await?;
            self.compare(&found);
            if matches!(self.standing, HeadOwner::Lost(_)) {
                return Ok(());
            }
            let step = self.plan(&served, &found).await?;
            if step != NextWrite::Nothing {
                self.status.lock().lacks(self.clock.now_mono());
                match self.act(step, &served, &found).await {
                    // Another publisher has written: read the head again.
                    Err(error) if error.is_conflict() => continue,
                    done => done?,
                }
                let found = self.look().await?;
                if found.compared(self.chain.as_ref()) != Stored::Own {
                    match self.sequence.filter(|own| found.head().is_none_or(|head| head.sequence <= *own)) {
                        Some(own) => return Err(PublishError::Unkept(own)),
                        None => continue,
                    }
                }
            }
            self.standing = HeadOwner::There;
            self.status.lock().succeeded(self.clock.now_wall());
            return Ok(());
        }
        Err(PublishError::Busy)
    }

    /// Notes what could be written of what is served.
    async fn offer(&mut self, served: &Arc<Snapshot>) -> Result<(), PublishError> {
        if self.offered.as_ref().is_none_or(|(epoch, ..)| *epoch != served.epoch) {
            let (snapshots, published) = (self.snapshots.clone(), served.clone());
            let offer = blocking(move || Ok::<_, PublishError>(Offer::of(&snapshots, &published)));
            let (offer, journal) = offer.await?;
            self.offered = Some((served.epoch, offer, journal));
        }
        Ok(())
    }

    /// Compares what should lie in the object store with what was found there.
    async fn plan(&mut self, served: &Arc<Snapshot>, found: &InStore) -> Result<NextWrite, PublishError> {
        let now_ms = self.clock.now_wall().as_millis();
        let revision = self.details.revision();
        let mut unsent = Unsent::Nothing;
        if let Some(chain) = &self.chain
            && self.may_have_details(chain, now_ms)
        {
            let (snapshots, served, details) = (self.snapshots.clone(), served.clone(), self.details.clone());
            let end = chain.position;
            let look = move || {
                details.flush();
                Ok::<_, PublishError>(snapshots.unsent_details(&served, end)?)
            };
            unsent = blocking(look).await?;
            self.unsent = Some((revision, unsent));
        }
        let Some((_, offer, _)) = &self.offered else { return Ok(NextWrite::Nothing) };
        let step = plan::next(&Facts {
            now_ms,
            offer,
            chain: self.chain.as_ref(),
            stored: found.compared(self.chain.as_ref()),
            is_broken: self.checks.is_broken,
            unsent,
        });
        Ok(step)
    }

    /// Whether the chain may lack details that are due. Those that replicas wait for are of listings that the journal names.
    fn may_have_details(&self, chain: &Chain, now_ms: i64) -> bool {
        let known = self.unsent.filter(|(revision, _)| *revision == self.details.revision()).map(|(_, unsent)| unsent);
        let pause = match known {
            Some(Unsent::Nothing) => return false,
            Some(Unsent::Others) => PAUSE_MS,
            _ if self.snapshots.journal().is_empty() => PAUSE_MS,
            Some(Unsent::Awaited) | None => SHORT_PAUSE_MS,
        };
        now_ms.abs_diff(chain.last_ms) >= pause.unsigned_abs()
    }

    /// Whether it is worth a round without another snapshot.
    fn is_due(&self) -> bool {
        let now_ms = self.clock.now_wall().as_millis();
        let is_late = |since_ms: i64, period_ms: u64| now_ms.abs_diff(since_ms) >= period_ms;
        let chain = self.chain.as_ref();
        self.is_time_to_tidy()
            || self.checks.read_back.is_done()
            || chain.is_some_and(|chain| is_late(chain.full_ms, FULL_EVERY_MS.unsigned_abs()))
            || chain.is_some_and(|chain| {
                let offer = self.offered.as_ref().map(|(_, offer, _)| offer);
                let other = offer.filter(|offer| offer.content != chain.content);
                self.may_have_details(chain, now_ms)
                    || other.is_some_and(|offer| is_late(chain.last_ms, chain.pause_ms(offer).unsigned_abs()))
            })
    }

    fn fail(&mut self, error: &PublishError, pause: Duration) {
        self.status.lock().lacks(self.clock.now_mono());
        tracing::debug!(%error, ?pause, "publishing fails");
        // What the store has lost beside it is looked for once it answers again.
        self.checks.at.take_if(|at| at.elapsed() >= CHECK_AGAIN || matches!(error, PublishError::Unkept(_)));
        self.status.lock().failed(error.as_str(), error.finding(&self.whose.url));
    }
}
