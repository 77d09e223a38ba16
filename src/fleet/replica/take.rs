//! Application of a head: fetches the bundles that it names, and makes them the newest snapshot together.
//!
//! A bundle that is of no use ends an attempt. The bundles before it are taken where this is no step back. If a delta
//! does not fit, the full bundle and all deltas of the same head are fetched. Callers: [`super`].

use std::sync::Arc;
use std::time::Duration;

use super::Follower;
use super::decide::{BadObject, FollowError, LONGEST, heavy, misfit, taken};
use crate::clock::WallTime;
use crate::data::bundle::Bundle;
use crate::data::bundle::signature::Opened;
use crate::data::snapshot::journal::Entry;
use crate::data::snapshots::follow::{self, Followed, ImportOutcome, Stand};
use crate::data::snapshots::import::Trust;
use crate::fleet::head::{Head, NamedBundle};
use crate::protocol::excerpt::Excerpt;
use crate::tasks::blocking;

/// A journal of at most so many bytes is fetched with each change.
const SMALL_JOURNAL: u64 = 64 << 10;
/// Any journal is fetched this often, if there are changes.
const JOURNAL_EVERY: Duration = Duration::from_secs(3600);

impl Follower {
    /// Takes the deltas that are missing; where they do not fit the data here, everything.
    pub(super) async fn take_deltas(
        &mut self,
        head: &Head,
        stand: &Stand,
        missing: &[NamedBundle],
    ) -> Result<(), FollowError> {
        match self.take(head, stand, &missing.iter().collect::<Vec<_>>()).await {
            Err(error) if error.misfit().is_some() => {
                tracing::warn!(
                    error = %Excerpt(&error),
                    "the deltas do not follow from the newest snapshot here; fetching the full bundle"
                );
                // Nothing builds on this data any more, also after a restart.
                let store = self.snapshots.store().clone();
                blocking(move || Ok::<_, FollowError>(follow::forget(&store)?)).await?;
                self.take_all(head, &Stand { digest: None, ..stand.clone() }).await
            }
            done => done,
        }
    }

    /// Takes the full bundle and all deltas.
    pub(super) async fn take_all(&mut self, head: &Head, stand: &Stand) -> Result<(), FollowError> {
        if self.snapshots.newest().get().is_none() {
            let bytes: u64 = head.chain().map(|bundle| bundle.bytes).sum();
            tracing::info!(snapshot = %head.snapshot, bytes, "downloading the first data from the object store");
        }
        self.take(head, stand, &head.chain().collect::<Vec<_>>()).await
    }

    /// Fetches these bundles, the last ones of a head, and makes them the newest snapshot.
    async fn take(&mut self, head: &Head, stand: &Stand, chain: &[&NamedBundle]) -> Result<(), FollowError> {
        let attempt = (stand.digest.clone(), head.end().digest);
        let now = self.clock.now_mono();
        if let Some(why) = self.state.bad.as_ref().and_then(|bad| bad.refuses_attempt(&attempt, now)) {
            return Err(FollowError::Bad(why.to_owned()));
        }
        self.tidy(&chain.iter().map(|named| named.blake3).collect::<Vec<_>>());
        let (steps, failure) = self.fetch_all(head, chain).await;
        let (steps, mut usable) = (Arc::new(steps), None);
        let error = if let Some(error) = failure {
            error
        } else {
            let journal = self.journal_for(head, chain).await;
            let took = ImportOutcome::Head(taken(head));
            let Err(error) = self.import(head, stand, &steps, steps.len(), took, journal).await else {
                self.state.bad = None;
                self.tidy(&[]);
                return Ok(());
            };
            match error.misfit() {
                // Perhaps it is the data here that is wrong.
                Some((0, _)) if chain.first().is_some_and(|first| first.base.is_some()) => return Err(error),
                Some((at, why)) => {
                    usable = Some(at);
                    let named = chain.get(at).copied().unwrap_or(head.end());
                    self.set_aside(named, (LONGEST, misfit(&named.key().to_string(), why)))
                }
                None => return Err(error),
            }
        };
        let usable = usable.unwrap_or(steps.len());
        if matches!(error, FollowError::Bad(_)) {
            if self.is_ahead(&steps[..usable]) {
                tracing::warn!(
                    error = %Excerpt(&error),
                    "a bundle of the head cannot be used; taking the bundles before it"
                );
                self.import(head, stand, &steps, usable, ImportOutcome::Part, None).await?;
            }
            if let Some(bad) = &mut self.state.bad {
                bad.ended = Some(attempt);
            }
        }
        Err(error)
    }

    /// All bundles of a chain, up to the first that cannot be had, and why. Together they may take as much memory as one file
    /// of their length: 65 may be named, each of which may take 32 MiB more.
    pub(super) async fn fetch_all(
        &mut self,
        head: &Head,
        chain: &[&NamedBundle],
    ) -> (Vec<Opened>, Option<FollowError>) {
        let (mut steps, mut files) = (Vec::<Opened>::new(), 0_u64);
        for named in chain {
            match self.fetch(head, named).await {
                Ok(step) => steps.push(step),
                Err(error) => return (steps, Some(error)),
            }
            files = files.saturating_add(named.bytes);
            if let Some(most) = Bundle::exceeded(steps.iter().map(|step| &step.bundle), files) {
                steps.pop();
                let error = self.set_aside(named, (LONGEST, heavy(&named.key().to_string(), most)));
                return (steps, Some(error));
            }
        }
        (steps, None)
    }

    /// Whether what was fetched is no step back.
    fn is_ahead(&self, steps: &[Opened]) -> bool {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
        let here = self.snapshots.newest().get().as_ref().map(|newest| newest.meta.confirmed_ms);
        first.bundle.base().is_some() || here.is_none_or(|here| last.bundle.manifest().confirmed_ms > here)
    }

    /// One bundle of a head. One that was of no use is left alone for a while.
    async fn fetch(&mut self, head: &Head, named: &NamedBundle) -> Result<Opened, FollowError> {
        let now = self.clock.now_mono();
        if let Some(why) = self.state.bad.as_ref().and_then(|bad| bad.refuses(&named.blake3, now)) {
            return Err(FollowError::Bad(why.to_owned()));
        }
        let at = head.chain().position(|other| other.digest == named.digest).unwrap_or(0);
        let before = at.checked_sub(1).and_then(|at| head.chain().nth(at)).map(|before| &before.snapshot);
        let what = match at {
            0 => "the full bundle".to_owned(),
            at => format!("delta {at} of {}", head.deltas.len()),
        };
        let fetched = self.bundle(named, before, &what).await;
        fetched.map_err(|error| match error.of_bad_object() {
            Some(failure) => self.set_aside(named, failure),
            None => error,
        })
    }

    /// Leaves a bundle alone for a while.
    fn set_aside(&mut self, named: &NamedBundle, failure: (Duration, String)) -> FollowError {
        let (before, now) = (self.state.bad.as_ref(), self.clock.now_mono());
        let bad = BadObject::after(before, named.blake3, failure, now, &self.state.jitter);
        FollowError::Bad(self.state.bad.insert(bad).why.clone())
    }

    /// The publisher's journal, where it is worth its bytes; `None`: the changes follow from the bundles alone.
    pub(super) async fn journal_for(&mut self, head: &Head, chain: &[&NamedBundle]) -> Option<Vec<Entry>> {
        let now = self.clock.now_mono();
        let bytes: u64 = chain.iter().map(|named| named.bytes).sum();
        let is_full = chain.iter().any(|named| named.base.is_none());
        let is_due = self.state.journal.is_none_or(|at| now.since(at) >= JOURNAL_EVERY);
        if !is_full && !is_due && head.journal.bytes > bytes.max(SMALL_JOURNAL) {
            return None;
        }
        match self.journal(&head.journal, &head.snapshot).await {
            Ok(entries) => {
                self.state.journal = Some(now);
                Some(entries)
            }
            Err(error) => {
                let error = Excerpt(&error);
                tracing::warn!(
                    %error,
                    "the publisher's journal cannot be fetched; /changes.json here may not go back as far"
                );
                None
            }
        }
    }

    /// Makes the first `usable` bundles the newest snapshot. Only the last bundle of the head has its confirmation.
    pub(super) async fn import(
        &self,
        head: &Head,
        stand: &Stand,
        steps: &Arc<Vec<Opened>>,
        usable: usize,
        took: ImportOutcome,
        journal: Option<Vec<Entry>>,
    ) -> Result<(), FollowError> {
        let (snapshots, details, from) = (self.snapshots.clone(), self.details.clone(), stand.digest.clone());
        let is_end = |last: &&Opened| last.bundle.digest() == head.end().digest;
        let (certificate, confirmed_ms) = match steps[..usable].last().filter(|last| !is_end(last)) {
            Some(last) => (last.bundle.manifest().certificate, last.bundle.manifest().confirmed_ms),
            None => (head.certificate, head.confirmed_ms),
        };
        let confirmed_ms = self.believed(confirmed_ms);
        let steps = steps.clone();
        let before = self.snapshots.newest().get().as_ref().map(|newest| newest.meta.confirmed_ms);
        let imported = blocking(move || {
            let trust = Trust::Publisher(Followed { took, from, certificate, confirmed_ms, journal });
            snapshots.import(&steps[..usable], &trust, &details)?;
            Ok::<_, FollowError>(())
        });
        imported.await?;
        if let Some(before) = before.filter(|before| *before > confirmed_ms) {
            let [before, confirmed] = [before, confirmed_ms].map(WallTime::from_millis);
            tracing::warn!(
                %confirmed, %before,
                "the publisher's data went back in time: it was rolled back, or started from an older backup"
            );
        }
        Ok(())
    }
}
