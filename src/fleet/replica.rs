//! A replica: polls the head of an object store, fetches and verifies the bundles that it lacks, and imports them.
//!
//! It never stops serving: a failure is logged, shown in `/status`, and tried again. [`mod@decide`] says what to do about
//! a head; [`take`] carries it out; [`fetch`] moves bytes; [`crate::data::snapshots::follow`] writes. A mirror with an empty
//! disk takes its first data in the same way, once; after that it asks its origin, as any mirror. Callers:
//! [`crate::server`].

mod decide;
mod fetch;
pub(crate) mod status;
mod take;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use url::Url;

use super::bundle_store::{BundleStore, BundleStoreError, UpdateVersion};
use super::head::{self, Head};
use super::keys::ObjectKey;
use crate::clock::backoff::{Jitter, doubled};
use crate::clock::{Clock, Monotonic, WallTime};
use crate::config::Settings;
use crate::data::bundle::signature::TrustedKeys;
use crate::data::details::Details;
use crate::data::snapshots::Snapshots;
use crate::data::snapshots::follow::{self, ImportOutcome, Stand};
use crate::mirror::commands::Commands;
use crate::protocol::excerpt::Excerpt;
use crate::tasks::blocking;

use decide::{BadObject, FollowError, HeadDecision, believed_ms, decide, taken};
use status::{PollOutcome, ReplicaStatus, Stamps};

/// The longest pause after failures, unless polls are further apart.
const LONGEST: Duration = Duration::from_secs(60);

/// Tries of a mirror to get its first data before it crawls instead, and the pause between them.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(2);

/// A head is read with a conditional request only after it was read again, unchanged, this long after the first time.
/// The `ETag`s of some web servers are made from the length and the second of the file, so two heads of one second
/// could have the same `ETag`.
const SETTLED: Duration = Duration::from_secs(3);

struct Newest {
    head: Arc<Head>,
    /// Its `ETag` or version in the object store.
    version: UpdateVersion,
    /// When it was first seen.
    since: Monotonic,
    /// Whether it was read again so much later that another head of the same length would have another version.
    is_settled: bool,
}

pub(crate) struct Follower {
    pub store: BundleStore,
    /// Where downloaded files go.
    pub data_dir: PathBuf,
    /// A bundle shares equal texts with the newest data here.
    pub snapshots: Snapshots,
    pub details: Details,
    /// The keys of accepted heads; none: every head is accepted.
    pub trusted: TrustedKeys,
    pub clock: Clock,
    pub status: ReplicaStatus,
    /// A command interrupts a download, so that a slow one does not hold the replica.
    pub commands: Commands,
    pub state: FollowState,
}

#[derive(Default)]
pub(crate) struct FollowState {
    newest: Option<Newest>,
    /// Whether files of an earlier process were removed.
    is_tidy: bool,
    /// The last object that was of no use.
    bad: Option<BadObject>,
    journal: Option<Monotonic>,
    jitter: Jitter,
}

impl Follower {
    /// Follows until the process ends. The head is read every `replica.poll`, and at once when the configuration
    /// changes.
    pub(crate) async fn run(mut self, settings: Settings) {
        let (status, commands) = (self.status.clone(), self.commands.clone());
        let (every, mut changes) = (|| settings.load().replica.poll, settings.changes());
        match self.snapshots.stand() {
            Ok(stand) => {
                let taken = stand.taken.sequence;
                status.lock().facts.sequence = (taken > 0).then_some(taken);
            }
            Err(error) => tracing::warn!(%error, "the record of the last head that this replica took cannot be read"),
        }
        let mut failures: u32 = 0;
        loop {
            if commands.take().forget_sequence {
                let store = self.snapshots.store().clone();
                match blocking(move || Ok::<_, FollowError>(follow::forget_taken(&store)?)).await {
                    Ok(()) => {
                        status.lock().facts.sequence = None;
                        tracing::warn!("the number of the last head was forgotten; any head is newer now");
                    }
                    Err(error) => tracing::error!(%error, "the number of the last head could not be forgotten"),
                }
            }
            let (round, now) = (self.round().await, self.clock.now_mono());
            let pause = match round {
                Ok((sequence, outcome)) => {
                    failures = 0;
                    status.lock().is_level(sequence, outcome, now);
                    // A fleet that was started at once does not poll at once.
                    every().mul_f64(0.9) + self.state.jitter.jittered(every() / 10)
                }
                // The head is read again at once, and the download goes on.
                Err(FollowError::Interrupted) => {
                    self.state.bad = None;
                    continue;
                }
                Err(error) => {
                    failures = if error.backs_off() { failures.saturating_add(1) } else { 0 };
                    tracing::debug!(%error, "the object store could not be followed");
                    status.lock().failed(error.finding(), error.outcome(), now);
                    let longest = LONGEST.max(every());
                    let pause = doubled(every(), failures.saturating_sub(1), longest);
                    if failures > 0 { self.state.jitter.jittered(pause) } else { every() }
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = commands.wait() => self.state.bad = None,
                // Another rhythm, perhaps.
                Ok(()) = changes.changed() => {}
            }
        }
    }

    /// Reads the head once, and takes what it names.
    pub(crate) async fn round(&mut self) -> Result<(u64, PollOutcome), FollowError> {
        let head = self.look().await?;
        let snapshots = self.snapshots.clone();
        let stand = blocking(move || Ok::<_, FollowError>(snapshots.stand()?)).await?;
        let decision = decide(&stand, &head);
        if !matches!(decision, HeadDecision::Refuse(_)) {
            let [written, confirmed] = [head.written_ms, head.confirmed_ms].map(WallTime::from_millis);
            self.status.lock().head = Some(Stamps { written, confirmed });
        }
        if matches!(decision, HeadDecision::Nothing | HeadDecision::Renew)
            && !std::mem::replace(&mut self.state.is_tidy, true)
        {
            self.tidy(&[]);
        }
        match decision {
            HeadDecision::Nothing => return Ok((head.sequence, PollOutcome::Unchanged)),
            HeadDecision::Renew => {
                let (snapshots, confirmed_ms) = (self.snapshots.clone(), self.believed(head.confirmed_ms));
                let head = head.clone();
                let renewed = move || {
                    let renewed = snapshots.follow_renewed(&taken(&head), head.certificate, confirmed_ms);
                    renewed.map_err(FollowError::from)
                };
                blocking(renewed).await?;
            }
            HeadDecision::Deltas(missing) => self.take_deltas(&head, &stand, missing).await?,
            HeadDecision::Full(..) => self.take_all(&head, &stand).await?,
            HeadDecision::Refuse(refusal) => return Err(refusal.into()),
        }
        Ok((head.sequence, PollOutcome::Taken))
    }

    /// The instant of confirmation as it is believed here.
    fn believed(&self, confirmed_ms: i64) -> i64 {
        believed_ms(confirmed_ms, self.clock.now_wall())
    }

    /// The newest head, read again only if it has changed.
    pub(crate) async fn look(&mut self) -> Result<Arc<Head>, FollowError> {
        let known = self.state.newest.as_ref().filter(|newest| newest.is_settled).map(|newest| &newest.version);
        let found = self.store.read(&ObjectKey::Head, head::MOST_BYTES, known).await;
        let found = found.map_err(|error| match error {
            BundleStoreError::Missing(_) => FollowError::NoHead,
            error => FollowError::BundleStore(error),
        })?;
        self.status.lock().facts.last_poll = self.clock.now_wall().rfc3339();
        let before = self.state.newest.take();
        let newest = match (found, before) {
            (None, Some(before)) => before,
            (None, None) => return Err(FollowError::NoHead),
            (Some((file, version)), before) => {
                let (head, key) = Head::read(&file, &self.trusted, self.clock.now_wall())?;
                self.status.lock().facts.signed_by = key.map(|key| key.to_string());
                let now = self.clock.now_mono();
                let since = before.filter(|before| *before.head == head).map_or(now, |before| before.since);
                let is_settled = now.since(since) >= SETTLED;
                Newest { head: Arc::new(head), version, since, is_settled }
            }
        };
        let head = newest.head.clone();
        self.state.newest = Some(newest);
        Ok(head)
    }

    /// Imports the data of the object store, if nothing is stored here yet.
    pub(crate) async fn seed(mut self) {
        const CRAWLS: &str = "the object store gave no first data; everything is fetched from the origin";
        if self.snapshots.newest().get().is_some() {
            return;
        }
        for left in (0..TRIES).rev() {
            match self.seed_once().await {
                Ok(()) => tracing::info!("the first data came from the object store; the origin confirms it now"),
                Err(error @ (FollowError::NoHead | FollowError::Head(_) | FollowError::Foreign(_))) => {
                    tracing::warn!(%error, "{CRAWLS}");
                }
                Err(error) if left > 0 => {
                    tracing::warn!(%error, left, "the first data could not be fetched from the object store; trying again");
                    sleep(PAUSE).await;
                    continue;
                }
                Err(error) => tracing::warn!(%error, "{CRAWLS}"),
            }
            break;
        }
        self.tidy(&[]);
    }

    async fn seed_once(&mut self) -> Result<(), FollowError> {
        let head = self.look().await?;
        let chain: Vec<_> = head.chain().collect();
        self.tidy(&chain.iter().map(|named| named.blake3).collect::<Vec<_>>());
        let (steps, failure) = self.fetch_all(&head, &chain).await;
        match failure {
            // The origin knows the rest.
            Some(FollowError::Bad(error)) if !steps.is_empty() => {
                tracing::warn!(
                    error,
                    "the newest data in the object store cannot be taken; the mirror takes the data before it"
                );
            }
            Some(error) => return Err(error),
            None => {}
        }
        let theirs = steps.last().and_then(|last| last.bundle.manifest().origin.clone());
        if let Some(theirs) = theirs.filter(|theirs| !self.is_ours(theirs)) {
            return Err(FollowError::Foreign(Excerpt(theirs).to_string()));
        }
        let journal = if steps.len() == chain.len() { self.journal_for(&head, &chain).await } else { None };
        let (usable, steps) = (steps.len(), Arc::new(steps));
        self.import(&head, &Stand::default(), &steps, usable, ImportOutcome::Seed, journal).await
    }

    /// Whether an address is the origin's, or an alias of it.
    fn is_ours(&self, address: &str) -> bool {
        let url = Url::parse(address).ok();
        let is_it = |own: &String| own == address || Url::parse(own).ok() == url;
        self.snapshots.policy().origins.iter().any(is_it)
    }
}
