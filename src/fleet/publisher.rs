//! The publisher: writes the current snapshot to an object store, for replicas to follow.
//!
//! One task of its own. It shares only snapshots and the data directory with the threads that serve clients, so it
//! never disturbs them. [`plan`] decides what is written; the task writes objects first and then the head. After a
//! failure it tries again, with growing pauses. The source of a snapshot (crawl, bundle, another object store,
//! rollback) makes no difference. Callers: [`crate::app`].

mod ledger;
mod plan;
pub(crate) mod status;
mod tidy;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use super::head::is_ahead;
use super::place::{Place, PlaceError};
use crate::bundle::signature::{Signer, TrustedKeys};
use crate::clock::Clock;
use crate::clock::backoff::{Jitter, doubled};
use crate::config::{Config, PublishConfig};
use crate::mirror::details::Details;
use crate::snapshot::pointer::Snapshot;
use crate::snapshots::Snapshots;
use crate::snapshots::export::Unsent;
use crate::store::Store;
use crate::tasks::blocking;

use ledger::Whose;
pub(crate) use ledger::release;
use plan::{Chain, FULL_EVERY_MS, Facts, NextWrite, Offer, PAUSE_MS, SHORT_PAUSE_MS};
use status::{PublishError, PublishFacts, PublishStatus};
use tidy::ReadBack;
use write::{InStore, Rival};

/// How often the task looks whether details have arrived, objects must be checked, or a full bundle is due.
/// A new snapshot wakes it at once.
const LOOK: Duration = Duration::from_secs(1);
/// How often the head in the object store is read without a new snapshot: somebody may have removed or altered it.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The pause after a failure, doubled after each further one up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The pause after a wrong password: a try costs seconds of work and a GiB of memory.
const KEY_PAUSE: Duration = Duration::from_secs(600);
/// A plan has fewer steps than this: two publishers that write at once must not keep each other busy.
const MOST_STEPS: u32 = 4;

/// The publisher, before it runs.
pub(crate) struct Publisher {
    settings: PublishConfig,
    /// `bundle.trusted_keys`: the keys of other publishers on the prefix. Of use to one that signs.
    others: TrustedKeys,
    /// Where bundles are written before they are sent.
    data_dir: PathBuf,
    place: Place,
    snapshots: Snapshots,
    details: Details,
    clock: Clock,
    status: PublishStatus,
    jitter: Jitter,
    signer: Option<Arc<Signer>>,
    /// The keys of heads that are believed; none: this publisher does not sign, and believes every head.
    trusted: TrustedKeys,
    whose: Whose,
    /// The chain that is continued, as in the ledger.
    chain: Option<Chain>,
    /// The highest number of a head that was ever used here.
    sequence: Option<u64>,
    /// The head in the object store, as last read.
    stored: Option<InStore>,
    /// Whether a conditional write that had to be refused was refused; `None`: not tried yet. Else the object store has no
    /// conditions, or ignores them: the last write wins.
    has_conditions: Option<bool>,
    /// What could be written of the current snapshot, by its epoch, with the journal.
    offered: Option<(u64, Offer, Bytes)>,
    /// The revision of the details when the chain was known to have all of them.
    seen_details: Option<u64>,
    /// The revision of the details when replicas waited for none of those that the chain lacked.
    patient_details: Option<u64>,
    /// Whether the object store has lost an object of the chain.
    is_broken: bool,
    /// How many checks have found a bad object since the last one that found none.
    broken_checks: u32,
    /// When the objects were last checked and old ones removed.
    tidied: Option<Instant>,
    read_back: ReadBack,
    /// When the head in the object store was last read.
    looked: Option<Instant>,
    /// Whether our head was in the object store since the start.
    has_been_there: bool,
    /// A later head of another publisher, that took the place of ours: when it was written, and when it was seen first.
    rival: Option<Rival>,
}

impl Publisher {
    /// A publisher that does nothing before [`Publisher::run`], but whose snapshot is kept from now on; `None`: nothing is
    /// written to an object store.
    pub(crate) fn open(
        config: &Config,
        others: TrustedKeys,
        snapshots: Snapshots,
        details: Details,
        clock: Clock,
        status: PublishStatus,
    ) -> Result<Option<Self>, PlaceError> {
        let settings = config.publish.clone();
        let Some(url) = &settings.url else { return Ok(None) };
        let (place, url) = (Place::open(url, &settings.options, &settings.proxy)?, url.to_string());
        let proxy = place.proxy.clone();
        let mut publisher = Self {
            whose: Whose { url: url.clone(), signed_by: None },
            settings,
            others,
            data_dir: config.data_dir.clone(),
            place,
            snapshots,
            details,
            clock,
            status,
            jitter: Jitter::default(),
            signer: None,
            trusted: TrustedKeys::default(),
            chain: None,
            sequence: None,
            stored: None,
            has_conditions: None,
            offered: None,
            seen_details: None,
            patient_details: None,
            is_broken: false,
            broken_checks: 0,
            tidied: None,
            read_back: ReadBack::default(),
            looked: None,
            has_been_there: false,
            rival: None,
        };
        // The mirror may drop old snapshots before the key is open.
        let last = ledger::last_head(publisher.store(), &publisher.whose.url);
        publisher.sequence = last.as_ref().map(|head| head.sequence);
        let shown = PublishFacts { url: Some(url), proxy, sequence: publisher.sequence, ..PublishFacts::default() };
        publisher.status.lock().facts = shown;
        publisher.snapshots.keep_for_chain(last.map(|head| (head.snapshot.clone(), head.end().digest)));
        Ok(Some(publisher))
    }

    /// Publishes until the process ends.
    pub(crate) async fn run(mut self) {
        let mut swaps = self.snapshots.current().watch();
        let mut failures = 0_u32;
        let mut is_ready = false;
        loop {
            swaps.mark_unchanged();
            let done = if is_ready { Ok(()) } else { self.prepare().await };
            let done = match done {
                Ok(()) => {
                    is_ready = true;
                    self.turn().await
                }
                failed => failed,
            };
            if let Err(error) = done {
                let growing = doubled(FIRST_PAUSE, failures, LONGEST_PAUSE);
                let pause = self.jitter.jittered(if error.is_costly() { KEY_PAUSE } else { growing });
                failures = failures.saturating_add(1);
                self.fail(&error, pause);
                sleep(pause).await;
                continue;
            }
            failures = 0;
            loop {
                tokio::select! {
                    _ = swaps.changed() => break,
                    () = sleep(LOOK) => if self.is_due() { break },
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

    /// Writes until nothing is left to be written now.
    async fn turn(&mut self) -> Result<(), PublishError> {
        self.judge().await;
        // Another publisher may have written.
        self.stored = None;
        self.catch_up().await?;
        if self.is_time_to_tidy() && self.rival.is_none() {
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
        let (store, whose) = (self.store().clone(), self.whose.clone());
        let (kept, _) = blocking(move || Ok::<_, PublishError>(ledger::read(&store, &whose)?)).await?;
        if kept.is_some() {
            return Err(PublishError::Ahead { sequence, clock });
        }
        (self.sequence, self.chain, self.stored, self.has_been_there) = Default::default();
        Ok(())
    }

    /// Writes until the object store has the current snapshot.
    async fn catch_up(&mut self) -> Result<(), PublishError> {
        self.check_number().await?;
        for _ in 0..MOST_STEPS {
            let Some(served) = self.snapshots.current().get() else { return Ok(()) };
            self.outlast_rival();
            self.offer(&served).await?;
            let step = self.plan(&served).await?;
            if self.rival.is_some() {
                return Ok(());
            }
            if step == NextWrite::Nothing {
                self.has_been_there = true;
                self.status.lock().succeeded(self.clock.now_wall());
                return Ok(());
            }
            self.status.lock().lacks(self.clock.now_mono());
            match self.act(step, &served).await {
                Ok(()) => {}
                // Another publisher has written: read the head again.
                Err(error) if error.is_conflict() => self.stored = None,
                Err(error) => {
                    // The head may have been written all the same.
                    self.stored = None;
                    return Err(error);
                }
            }
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

    /// Looks at the object store and decides.
    async fn plan(&mut self, served: &Arc<Snapshot>) -> Result<NextWrite, PublishError> {
        if self.stored.is_none() {
            self.look().await?;
            self.looked = Some(Instant::now());
        }
        let now_ms = self.clock.now_wall().as_millis();
        let revision = Some(self.details.revision());
        let mut unsent = Unsent::Nothing;
        if let Some(chain) = &self.chain
            && self.may_have_details(chain, now_ms)
        {
            let (snapshots, served, details) = (self.snapshots.clone(), served.clone(), self.details.clone());
            let end = chain.place;
            let look = move || {
                details.flush();
                Ok::<_, PublishError>(snapshots.unsent_details(&served, end)?)
            };
            unsent = blocking(look).await?;
            match unsent {
                Unsent::Nothing => self.seen_details = revision,
                Unsent::Others => self.patient_details = revision,
                Unsent::Awaited => {}
            }
        }
        let Some((_, offer, _)) = &self.offered else { return Ok(NextWrite::Nothing) };
        let step = plan::next(&Facts {
            now_ms,
            offer,
            chain: self.chain.as_ref(),
            stored: self.stored_for_plan(),
            is_broken: self.is_broken,
            unsent,
        });
        Ok(step)
    }

    /// Whether the head in the object store is to be looked at without another reason.
    fn is_time_to_look(&self) -> bool {
        self.looked.is_none_or(|at| at.elapsed() >= LOOK_AGAIN)
    }

    /// Whether the chain may lack details that are due. Those that replicas wait for are of listings that the journal names.
    fn may_have_details(&self, chain: &Chain, now_ms: i64) -> bool {
        let revision = Some(self.details.revision());
        let is_new = revision != self.patient_details && !self.snapshots.journal().is_empty();
        let pause = if is_new { SHORT_PAUSE_MS } else { PAUSE_MS };
        revision != self.seen_details && now_ms.abs_diff(chain.last_ms) >= pause.unsigned_abs()
    }

    /// Whether it is worth a turn without another snapshot.
    fn is_due(&self) -> bool {
        let now_ms = self.clock.now_wall().as_millis();
        let is_late = |since_ms: i64, period_ms: u64| now_ms.abs_diff(since_ms) >= period_ms;
        let chain = self.chain.as_ref();
        self.is_time_to_tidy()
            || self.read_back.is_done()
            || self.is_time_to_look()
            || chain.is_some_and(|chain| is_late(chain.full_ms, FULL_EVERY_MS.unsigned_abs()))
            || chain.is_some_and(|chain| {
                let evidence = self.offered.as_ref().is_some_and(|(_, offer, _)| offer.content != chain.content);
                self.may_have_details(chain, now_ms) || evidence && is_late(chain.last_ms, PAUSE_MS.unsigned_abs())
            })
    }

    fn fail(&self, error: &PublishError, pause: Duration) {
        self.status.lock().lacks(self.clock.now_mono());
        tracing::debug!(%error, ?pause, "publishing fails");
        self.status.lock().failed(error.as_str(), error.finding(&self.whose.url));
    }

    fn store(&self) -> &Arc<Store> {
        self.snapshots.store()
    }
}
