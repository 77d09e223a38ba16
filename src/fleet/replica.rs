//! A replica: polls the head of an object store, fetches and verifies the bundles that it lacks, and imports them.
//!
//! It never stops serving: a failure is logged, shown in `/status`, and tried again. [`super::follow`] decides what to
//! do about a head; [`fetch`] moves bytes; [`crate::versions::follow`] writes. Callers: [`crate::app`].

mod error;
pub(crate) mod fetch;
mod seed;
pub(crate) mod status;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::follow::{Decision, believed_ms, decide, everything, taken};
use super::head::{self, Head, NamedBundle};
use super::keys::{Digest, Key};
use super::place::{Found, PlaceError, Version};
use crate::bundle::signature::TrustedKeys;
use crate::clock::{Clock, Monotonic, WallTime};
use crate::config::Settings;
use crate::mirror::commands::Commands;
use crate::mirror::details::Details;
use crate::semantics::excerpt::Excerpt;
use crate::snapshot::journal::Entry;
use crate::upstream::jitter::Jitter;
use crate::versions::Versions;
use crate::versions::follow::{Following, Stand, Step, Took};

use error::FollowError;
use fetch::{Fetcher, blocking};
use status::{Outcome, Stamps};

/// The longest pause after failures, unless polls are further apart.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest pause before an object is fetched again that was not what the head names.
const LONGEST_BAD: Duration = Duration::from_secs(600);
/// The pause between two log lines about the same failure.
const REPEATED: Duration = Duration::from_secs(60);

/// A head is read with a conditional request only after it was read again, unchanged, this long after the first time.
/// The `ETag`s of some web servers are made from the length and the second of the file, so two heads of one second
/// could have the same `ETag`.
const SETTLED: Duration = Duration::from_secs(3);

/// A journal of at most so many bytes is fetched with each change.
const SMALL_JOURNAL: u64 = 64 << 10;
/// Any journal is fetched this often, if there are changes.
const JOURNAL_EVERY: Duration = Duration::from_secs(3600);

/// An object that was not what the head names.
struct BadObject {
    blake3: Digest,
    why: String,
    times: u32,
    until: Monotonic,
}

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
    pub versions: Versions,
    /// Details in memory.
    pub details: Option<Details>,
    /// The keys of accepted heads; none: every head is accepted.
    pub trusted: TrustedKeys,
    pub clock: Clock,
    newest: Option<Newest>,
    /// Whether files of an earlier process were removed.
    is_tidy: bool,
    bad: Option<BadObject>,
    /// When the journal was last fetched.
    journal: Option<Monotonic>,
    jitter: Jitter,
}

impl Follower {
    /// A follower that has read nothing yet.
    pub(crate) fn new(
        fetcher: Fetcher,
        versions: Versions,
        details: Option<Details>,
        trusted: TrustedKeys,
        clock: Clock,
    ) -> Self {
        let (newest, is_tidy, bad, journal, jitter) = Default::default();
        Self { fetcher, versions, details, trusted, clock, newest, is_tidy, bad, journal, jitter }
    }

    /// Follows until the process ends. The head is read every `replica.poll`, and at once when the configuration changes.
    pub(crate) async fn run(mut self, settings: Settings, commands: Commands) {
        let status = self.fetcher.status.clone();
        let (every, mut changes) = (|| settings.load().replica.poll, settings.changes());
        match self.versions.stand() {
            Ok(stand) => status.starts_at(stand.taken.sequence),
            Err(error) => tracing::warn!(%error, "the record of the last head that this replica took cannot be read"),
        }
        let (mut failures, mut said): (u32, Option<(String, Monotonic)>) = (0, None);
        loop {
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
                    let pause = every().saturating_mul(1 << failures.min(16).saturating_sub(1)).min(longest);
                    if failures > 0 { self.jitter.jittered(pause) } else { every() }
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = commands.wait() => self.bad = None,
                // Another rhythm, perhaps.
                Ok(()) = changes.changed() => {}
            }
            commands.take();
        }
    }

    /// Reads the head once, and takes what it names.
    pub(crate) async fn round(&mut self) -> Result<(u64, Outcome), FollowError> {
        let head = self.look().await?;
        let versions = self.versions.clone();
        let stand = blocking(move || Ok(versions.stand())).await??;
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
                let (versions, confirmed_ms) = (self.versions.clone(), self.believed(head.confirmed_ms));
                let head = head.clone();
                let renewed = move || Ok(versions.follow_renewed(&taken(&head), head.certificate, confirmed_ms));
                blocking(renewed).await??;
            }
            Decision::Deltas(missing) => match self.take(&head, &stand, &missing.iter().collect::<Vec<_>>()).await {
                Err(error) if error.is_misfit() => {
                    tracing::warn!(%error, "the deltas do not follow from the newest snapshot here; fetching the full bundle");
                    self.take_all(&head, &stand).await?;
                }
                taken => taken?,
            },
            Decision::Full(..) => self.take_all(&head, &stand).await?,
            Decision::Refuse(refusal) => return Err(refusal.into()),
        }
        Ok((head.sequence, Outcome::Taken))
    }

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
                let (head, _key) = Head::read(&file, &self.trusted)?;
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

    async fn take_all(&mut self, head: &Head, stand: &Stand) -> Result<(), FollowError> {
        let Decision::Full(full, deltas) = everything(head) else { return Ok(()) };
        if self.versions.head().load().is_none() {
            let bytes: u64 = head.chain().map(|bundle| bundle.bytes).sum();
            tracing::info!(snapshot = %head.snapshot, bytes, "downloading the first data from the object store");
        }
        self.take(head, stand, &std::iter::once(full).chain(deltas).collect::<Vec<_>>()).await
    }

    /// Fetches these bundles and makes them the newest snapshot, together. If one of them is not what the head names, those
    /// before it are taken where this is no step back.
    async fn take(&mut self, head: &Head, stand: &Stand, chain: &[&NamedBundle]) -> Result<(), FollowError> {
        let wanted: Vec<Digest> = chain.iter().map(|named| named.blake3).collect();
        self.fetcher.tidy(&wanted);
        let (steps, failure) = self.fetch_all(chain).await;
        if let Some(error) = failure {
            let is_bad = matches!(&error, FollowError::Bad(_))
                || matches!(&error, FollowError::Fetch(error) if error.is_bad_object());
            if is_bad && self.is_ahead(&steps) {
                tracing::warn!(error = %Excerpt(&error), "a bundle of the head cannot be used; taking the bundles before it");
                self.import(head, stand, steps, Took::Part, None).await?;
            }
            return Err(error);
        }
        let journal = self.journal(head, chain).await;
        self.import(head, stand, steps, Took::Head(taken(head)), journal).await?;
        self.fetcher.tidy(&[]);
        Ok(())
    }

    /// All bundles of a chain, up to the first that cannot be fetched, and why.
    async fn fetch_all(&mut self, chain: &[&NamedBundle]) -> (Vec<Step>, Option<FollowError>) {
        let mut steps = Vec::new();
        for named in chain {
            match self.fetch(named, chain).await {
                Ok(step) => steps.push(step),
                Err(error) => return (steps, Some(error)),
            }
        }
        (steps, None)
    }

    /// Whether the fetched bundles lead to newer data than that which is here.
    fn is_ahead(&self, steps: &[Step]) -> bool {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
        let here = self.versions.head().load().as_ref().map(|newest| newest.meta.confirmed_ms);
        first.bundle.base().is_some() || here.is_none_or(|here| last.bundle.manifest().confirmed_ms > here)
    }

    /// One bundle of a chain. After one that was not what the head names, a pause follows before it is fetched again.
    async fn fetch(&mut self, named: &NamedBundle, chain: &[&NamedBundle]) -> Result<Step, FollowError> {
        let now = self.clock.now_mono();
        let before = self.bad.as_ref().filter(|bad| bad.blake3 == named.blake3);
        if let Some(bad) = before.filter(|bad| now < bad.until) {
            return Err(FollowError::Bad(bad.why.clone()));
        }
        let times = before.map_or(0, |bad| bad.times);
        let what =
            match chain.iter().filter(|named| named.base.is_some()).position(|delta| delta.digest == named.digest) {
                None => "the full bundle".to_owned(),
                Some(at) => {
                    format!("delta {} of {}", at + 1, chain.iter().filter(|named| named.base.is_some()).count())
                }
            };
        match self.fetcher.bundle(named, &what).await {
            Ok(step) => {
                if times > 0 {
                    self.bad = None;
                }
                Ok(step)
            }
            Err(error) if error.is_bad_object() => {
                let pause = Duration::from_secs(1).saturating_mul(1 << times.min(10)).min(LONGEST_BAD);
                let until = now.plus(self.jitter.jittered(pause));
                let why = error.to_string();
                self.bad = Some(BadObject { blake3: named.blake3, why, times: times + 1, until });
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The publisher's journal, if it is worth its bytes; `None`: the changes are taken from the bundles.
    async fn journal(&mut self, head: &Head, chain: &[&NamedBundle]) -> Option<Vec<Entry>> {
        let now = self.clock.now_mono();
        let bytes: u64 = chain.iter().map(|named| named.bytes).sum();
        let is_full = chain.iter().any(|named| named.base.is_none());
        let is_due = self.journal.is_none_or(|at| now.since(at) >= JOURNAL_EVERY);
        if !is_full && !is_due && head.journal.bytes > bytes.max(SMALL_JOURNAL) {
            return None;
        }
        match self.fetcher.journal(&head.journal, &head.snapshot).await {
            Ok(journal) => {
                self.journal = Some(now);
                Some(journal.entries().cloned().collect())
            }
            Err(error) => {
                let error = Excerpt(&error);
                tracing::warn!(%error, "the publisher's journal cannot be fetched; /changes.json knows less than the publisher");
                None
            }
        }
    }

    async fn import(
        &self,
        head: &Head,
        stand: &Stand,
        steps: Vec<Step>,
        took: Took,
        journal: Option<Vec<Entry>>,
    ) -> Result<(), FollowError> {
        let (versions, details, from) = (self.versions.clone(), self.details.clone(), stand.digest.clone());
        let of_head = (head.certificate, head.confirmed_ms);
        let of_last =
            steps.last().map(|last| (last.bundle.manifest().certificate, last.bundle.manifest().confirmed_ms));
        let (certificate, confirmed_ms) = if took == Took::Part { of_last.unwrap_or(of_head) } else { of_head };
        let (confirmed_ms, now_ms) = (self.believed(confirmed_ms), self.clock.now_wall().as_millis());
        let imported = blocking(move || {
            let committed = || steps.iter().for_each(|step| learn(details.as_ref(), step));
            let following = Following {
                steps: &steps,
                certificate,
                confirmed_ms,
                took,
                from,
                journal,
                now_ms,
                committed: &committed,
            };
            let imported = versions.follow(&following);
            if imported.is_ok() {
                tidy(&versions, details.as_ref());
            }
            Ok(imported)
        });
        imported.await??;
        Ok(())
    }
}

/// Updates the details in memory after a bundle.
fn learn(details: Option<&Details>, step: &Step) {
    let ids = || step.bundle.detail_hashes().iter().map(|detail| detail.id);
    if let Some(Err(error)) = details.map(|details| details.look_again(ids())) {
        tracing::error!(%error, "the details of the imported bundles become visible only after a restart");
    }
}

/// Drops unneeded data.
fn tidy(versions: &Versions, details: Option<&Details>) {
    let forgotten = versions.tidy().and_then(|()| details.map_or(Ok(0), Details::forget_vanished));
    if let Err(error) = forgotten {
        tracing::warn!(%error, "data that is no longer needed could not be removed");
    }
}
