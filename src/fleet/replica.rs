//! A replica: polls the head of an object store, fetches and verifies the bundles that it lacks, and imports them.
//!
//! It never stops serving: a failure is logged, shown in `/status`, and tried again. [`super::follow`] decides what to
//! do about a head; [`take`] carries it out; [`fetch`] moves bytes; [`crate::snapshots::follow`] writes. Callers:
//! [`crate::app`].

mod bad;
mod error;
pub(crate) mod fetch;
mod seed;
pub(crate) mod status;
mod take;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::follow::{Decision, believed_ms, decide, taken};
use super::head::{self, Head};
use super::keys::Key;
use super::place::{Found, PlaceError, Version};
use crate::bundle::signature::TrustedKeys;
use crate::clock::backoff::{Jitter, doubled};
use crate::clock::{Clock, Monotonic, WallTime};
use crate::config::Settings;
use crate::mirror::commands::Commands;
use crate::mirror::details::Details;
use crate::semantics::excerpt::Excerpt;
use crate::snapshots::{Snapshots, follow};
use crate::tasks::blocking;

use bad::BadObject;
use error::FollowError;
use fetch::{FetchError, Fetcher};
use status::{Outcome, Stamps};

/// The longest pause after failures, unless polls are further apart.
const LONGEST: Duration = Duration::from_secs(60);
/// The pause between two log lines about the same failure.
const REPEATED: Duration = Duration::from_secs(60);

/// A head is read with a conditional request only after it was read again, unchanged, this long after the first time.
/// The `ETag`s of some web servers are made from the length and the second of the file, so two heads of one second
/// could have the same `ETag`.
const SETTLED: Duration = Duration::from_secs(3);

/// The newest head.
struct Newest {
    head: Arc<Head>,
    /// Its `ETag` or version in the object store.
    version: Version,
    /// When it was first seen.
    since: Monotonic,
    /// Whether it was read again so much later that another head of the same length would have another version.
    is_settled: bool,
}

/// Follows an object store.
pub(crate) struct Follower {
    pub fetcher: Fetcher,
    pub snapshots: Snapshots,
    /// Details in memory.
    pub details: Option<Details>,
    /// The keys of accepted heads; none: every head is accepted.
    pub trusted: TrustedKeys,
    pub clock: Clock,
    newest: Option<Newest>,
    /// Whether files of an earlier process were removed.
    is_tidy: bool,
    /// The last object that was of no use.
    bad: Option<BadObject>,
    /// When the journal was last fetched.
    journal: Option<Monotonic>,
    jitter: Jitter,
}

impl Follower {
    /// A follower that has read nothing yet.
    pub(crate) fn new(
        fetcher: Fetcher,
        snapshots: Snapshots,
        details: Option<Details>,
        trusted: TrustedKeys,
        clock: Clock,
    ) -> Self {
        let (newest, is_tidy, bad, journal, jitter) = Default::default();
        Self { fetcher, snapshots, details, trusted, clock, newest, is_tidy, bad, journal, jitter }
    }

    /// Follows until the process ends. The head is read every `replica.poll`, and at once when the configuration
    /// changes.
    pub(crate) async fn run(mut self, settings: Settings, commands: Commands) {
        let status = self.fetcher.status.clone();
        let (every, mut changes) = (|| settings.load().replica.poll, settings.changes());
        match self.snapshots.stand() {
            Ok(stand) => status.starts_at(stand.taken.sequence),
            Err(error) => tracing::warn!(%error, "the record of the last head that this replica took cannot be read"),
        }
        let (mut failures, mut said): (u32, Option<(String, Monotonic)>) = (0, None);
        loop {
            if commands.take().forget_sequence {
                let store = self.snapshots.store().clone();
                match blocking(move || Ok::<_, FetchError>(follow::forget_taken(&store))).await {
                    Ok(Ok(())) => {
                        status.starts_at(0);
                        tracing::warn!("the number of the last head was forgotten; any head is newer now");
                    }
                    Ok(Err(error)) => tracing::error!(%error, "the number of the last head could not be forgotten"),
                    Err(error) => tracing::error!(%error, "the number of the last head could not be forgotten"),
                }
            }
            let (round, now) = (self.round().await, self.clock.now_mono());
            let pause = match round {
                Ok((sequence, outcome)) => {
                    if said.take().is_some() {
                        tracing::info!(sequence, "following the object store again");
                    }
                    failures = 0;
                    status.is_level(sequence, outcome, now);
                    // A fleet that was started at once does not poll at once.
                    every().mul_f64(0.9) + self.jitter.jittered(every() / 10)
                }
                // The head is read again at once, and the download goes on.
                Err(FollowError::Fetch(FetchError::Interrupted)) => {
                    self.bad = None;
                    continue;
                }
                Err(error) => {
                    failures = if error.backs_off() { failures.saturating_add(1) } else { 0 };
                    let why = Excerpt(&error).to_string();
                    if said.as_ref().is_none_or(|(last, at)| *last != why || now.since(*at) >= REPEATED) {
                        tracing::warn!(
                            error = why,
                            failures,
                            "the object store could not be followed; clients still get the data that is here"
                        );
                        said = Some((why.clone(), now));
                    }
                    status.failed(why, error.outcome());
                    let longest = LONGEST.max(every());
                    let pause = doubled(every(), failures.saturating_sub(1), longest);
                    if failures > 0 { self.jitter.jittered(pause) } else { every() }
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = commands.wait() => self.bad = None,
                // Another rhythm, perhaps.
                Ok(()) = changes.changed() => {}
            }
        }
    }

    /// Reads the head once, and takes what it names.
    pub(crate) async fn round(&mut self) -> Result<(u64, Outcome), FollowError> {
        let head = self.look().await?;
        let snapshots = self.snapshots.clone();
        let stand = blocking(move || Ok::<_, FetchError>(snapshots.stand())).await??;
        let decision = decide(&stand, &head);
        if !matches!(decision, Decision::Refuse(_)) {
            let [written, confirmed] = [head.written_ms, head.confirmed_ms].map(WallTime::from_millis);
            self.fetcher.status.saw(Stamps { written, confirmed });
        }
        if matches!(decision, Decision::Nothing | Decision::Renew) && !std::mem::replace(&mut self.is_tidy, true) {
            self.fetcher.tidy(&[]);
        }
        match decision {
            Decision::Nothing => return Ok((head.sequence, Outcome::Unchanged)),
            Decision::Renew => {
                let (snapshots, confirmed_ms) = (self.snapshots.clone(), self.believed(head.confirmed_ms));
                let head = head.clone();
                let renewed = move || {
                    Ok::<_, FetchError>(snapshots.follow_renewed(&taken(&head), head.certificate, confirmed_ms))
                };
                blocking(renewed).await??;
            }
            Decision::Deltas(missing) => self.take_deltas(&head, &stand, missing).await?,
            Decision::Full(..) => self.take_all(&head, &stand).await?,
            Decision::Refuse(refusal) => return Err(refusal.into()),
        }
        Ok((head.sequence, Outcome::Taken))
    }

    /// The instant of confirmation as it is believed here.
    fn believed(&self, confirmed_ms: i64) -> i64 {
        believed_ms(confirmed_ms, self.clock.now_wall())
    }

    /// The newest head, read again only if it has changed.
    pub(crate) async fn look(&mut self) -> Result<Arc<Head>, FollowError> {
        let known = self.newest.as_ref().filter(|newest| newest.is_settled).map(|newest| &newest.version);
        let found = self.fetcher.place.read(&Key::Head, head::MOST_BYTES, known).await;
        let found = found.map_err(|error| match error {
            PlaceError::Missing(_) => FollowError::NoHead,
            error => FollowError::Place(error),
        })?;
        self.fetcher.status.answered(self.clock.now_wall());
        let before = self.newest.take();
        let newest = match (found, before) {
            (Found::Unchanged, Some(before)) => before,
            (Found::Unchanged, None) => return Err(FollowError::NoHead),
            (Found::Changed(file, version), before) => {
                let (head, _key) = Head::read(&file, &self.trusted, self.clock.now_wall())?;
                let now = self.clock.now_mono();
                let since = before.filter(|before| *before.head == head).map_or(now, |before| before.since);
                let is_settled = now.since(since) >= SETTLED;
                Newest { head: Arc::new(head), version, since, is_settled }
            }
        };
        let head = newest.head.clone();
        self.newest = Some(newest);
        Ok(head)
    }
}
