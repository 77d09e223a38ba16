//! Follows a publisher: bundles become the newest snapshot, together with where the replica then stands.
//!
//! Several bundles are applied in memory and imported in one transaction, so that no state between them is served.
//! [`crate::fleet`] decides which bundles. Everything here blocks. Callers: [`crate::fleet`].

use std::collections::{HashMap, HashSet};
use std::fs::File;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::bundle::{ImportError, hashes_by_id, records};
use super::changes::Feed;
use super::{Import, Imported, Snapshots, SnapshotsError};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::bundle::Bundle;
use crate::snapshot::content::{Content, SnapshotId};
use crate::snapshot::journal::Entry;
use crate::snapshot::meta::Certificate;
use crate::store::{Arriving, DetailStream, States, Store, StoreError};

/// The highest head that was taken. It stays when an operator imports a bundle: nothing goes back behind it.
const TAKEN: &str = "follow/taken";

/// What the data is. An operator's import removes it.
const STANDING: &str = "follow/standing";

/// A head that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// Its sequence number; 0: none was taken yet.
    pub sequence: u64,
    /// BLAKE3 of its text, in hexadecimal digits.
    pub text: String,
}

/// The data that a replica has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Standing {
    /// The digest of the last bundle, in hexadecimal digits.
    digest: String,
    /// The snapshot in it.
    snapshot: SnapshotId,
}

/// Where a replica stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stand {
    /// The highest head that was taken.
    pub taken: Taken,
    /// The digest of the bundle that the newest snapshot and its details are of; `None`: they are of no known bundle.
    pub digest: Option<String>,
}

/// What comes of an import for the one who follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// All of a head.
    Head(Taken),
    /// The first bundles of a head, which is not taken yet.
    Part,
    /// The first data of a mirror, which does not follow.
    Seed,
}

/// What an import writes of where a replica stands.
pub struct Followed {
    took: Took,
    /// The digest that it stood at when it was decided what to fetch.
    from: Option<String>,
    /// The digest that it stands at then.
    digest: String,
    /// Whether it began with a full bundle.
    pub(super) is_full: bool,
    feed: Feed,
}

/// A downloaded and verified bundle.
pub(crate) struct Step {
    pub bundle: Bundle,
    /// Its file.
    pub file: File,
}

/// The bundles of a head.
pub(crate) struct Following<'a> {
    /// A full bundle, or a delta from the newest snapshot; and deltas, each from the one before. At least one.
    pub steps: &'a [Step],
    /// How sure the publisher is now.
    pub certificate: Certificate,
    /// For when it has the data confirmed, as believed here; milliseconds since 1970.
    pub confirmed_ms: i64,
    pub took: Took,
    /// The digest that the replica stood at when it was decided what to fetch.
    pub from: Option<String>,
    /// The publisher's journal; `None`: it was not fetched.
    pub journal: Option<Vec<Entry>>,
    /// The time.
    pub now_ms: i64,
    /// Called when the import is durable but not yet visible, to update details in memory.
    pub committed: &'a dyn Fn(),
}

/// Forgets which bundle the data is of: it may not be whole any more.
///
/// # Errors
/// When the write fails.
pub(crate) fn forget(store: &Store) -> Result<(), StoreError> {
    store.remove_state(STANDING)
}

/// Forgets the highest head that was taken: the next one is newer, whatever its number.
///
/// # Errors
/// When the write fails.
pub(crate) fn forget_taken(store: &Store) -> Result<(), StoreError> {
    store.remove_state(TAKEN)
}

/// Forgets what the data is of, in the transaction of something else.
pub(super) fn forget_in(states: &mut States) {
    states.remove(STANDING);
}

/// Writes where a replica stands after an import, and tells what the journal gets.
pub(super) fn write(
    followed: Option<Followed>,
    snapshot: &SnapshotId,
    states: &mut States,
) -> Result<Feed, StoreError> {
    let Some(Followed { took, digest, feed, .. }) = followed else {
        forget_in(states);
        return Ok(Feed::Own);
    };
    if let Took::Head(taken) = &took {
        states.put_json(TAKEN, taken)?;
    }
    match took {
        Took::Head(_) | Took::Part => {
            states.put_json(STANDING, &Standing { digest, snapshot: snapshot.clone() })?;
        }
        Took::Seed => forget_in(states),
    }
    Ok(feed)
}

impl Snapshots {
    /// Checks, with the lock held, that nobody else has imported since it was decided what to fetch.
    pub(super) fn unless_elsewhere(&self, followed: Option<&Followed>) -> Result<(), SnapshotsError> {
        let Some(followed) = followed else { return Ok(()) };
        if self.stand()?.digest == followed.from { Ok(()) } else { Err(SnapshotsError::Moved) }
    }

    /// Where this replica stands.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn stand(&self) -> Result<Stand, StoreError> {
        let newest = self.newest().load().as_ref().map(|newest| newest.dataset.id.clone());
        let standing: Option<Standing> = self.store().state_json(STANDING)?;
        let standing = standing.filter(|standing| newest.as_ref() == Some(&standing.snapshot));
        let digest = standing.map(|standing| standing.digest).filter(|_| self.store().damage().is_none());
        Ok(Stand { taken: self.store().state_json(TAKEN)?.unwrap_or_default(), digest })
    }

    /// Makes the result of these bundles the newest snapshot, with their details; serves it unless a rollback is in
    /// effect. A damaged store is repaired first.
    ///
    /// # Errors
    /// With [`ImportError::Misfit`] when a bundle does not fit the data before it; or something cannot be read or
    /// written. The current snapshot then stays.
    pub(crate) fn follow(&self, following: &Following<'_>) -> Result<Imported, ImportError> {
        self.mending(|| self.try_follow(following))
    }

    fn try_follow(&self, following: &Following<'_>) -> Result<Imported, ImportError> {
        let newest = self.newest().get();
        let newest = newest.as_ref().map(|newest| &newest.dataset.content);
        let (mut content, mut entries): (Option<Content>, Vec<Entry>) = (None, Vec::new());
        // The summaries for which the details of each bundle were fetched.
        let mut summaries = Vec::new();
        for (at, step) in following.steps.iter().enumerate() {
            let base = content.as_ref().or(newest);
            let misfit = |why| ImportError::Misfit { at, why };
            let next = step.bundle.content_over(base).map_err(misfit)?;
            if let Some(base) = base.filter(|_| following.steps.len() > 1 && step.bundle.base().is_some()) {
                entries.push(Entry::between_contents(base, &next, following.now_ms));
            }
            summaries.push(of_details(&step.bundle, &next));
            content = Some(next);
        }
        let (Some(last), Some(content)) = (following.steps.last(), content) else {
            return Err(SnapshotsError::Moved.into());
        };
        let mut meta = last.bundle.meta(following.now_ms);
        meta.certificate = following.certificate;
        meta.confirmed_ms = following.confirmed_ms;
        let volatile = meta.volatile.clone();
        let details = || -> Result<DetailStream<'_>, StoreError> {
            let mut streams = Vec::new();
            for (step, summaries) in following.steps.iter().zip(&summaries) {
                streams.push(records(&step.bundle, &step.file, &volatile, summaries)?);
            }
            Ok(Box::new(streams.into_iter().flatten()))
        };
        // A replica has what its publisher has.
        let details = Arriving { stream: &details, stays: &|_, _, _| false };
        let mut details_bytes = 0;
        for step in following.steps {
            details_bytes += step.file.metadata()?.len().saturating_mul(2);
        }
        entries.retain(|entry| entry.from != entry.to);
        // A publisher with a new journal knows nothing of the past.
        let ends = |journal: &&Vec<Entry>| journal.last().is_some_and(|end| end.to == last.bundle.manifest().snapshot);
        let feed = match following.journal.as_ref().filter(ends) {
            Some(journal) => Feed::Publishers(journal.clone()),
            None if entries.len() > 1 => Feed::Steps(entries),
            None => Feed::Own,
        };
        let (took, from) = (following.took.clone(), following.from.clone());
        let is_full = following.steps.first().is_some_and(|first| first.bundle.base().is_none());
        let followed = Some(Followed { took, from, digest: last.bundle.digest().to_string(), is_full, feed });
        let (evidence, learned) = (last.bundle.evidence().clone(), last.bundle.learned().cloned());
        let (allow_older, committed) = (false, following.committed);
        let import = Import {
            content,
            meta,
            evidence,
            learned,
            details: &details,
            details_bytes,
            allow_older,
            committed,
            followed,
        };
        Ok(self.import(import)?)
    }

    /// Takes a head that names the data that is here: its certificate, and its instant of confirmation.
    ///
    /// # Errors
    /// When there is no data, or the write fails.
    pub(crate) fn follow_renewed(
        &self,
        taken: &Taken,
        certificate: Certificate,
        confirmed_ms: i64,
    ) -> Result<(), SnapshotsError> {
        let _switching = self.0.notes.lock();
        let Some(newest) = self.newest().get() else { return Err(SnapshotsError::Moved) };
        let mut meta = newest.meta.clone();
        (meta.certificate, meta.confirmed_ms, meta.claimed_ms) = (certificate, confirmed_ms, None);
        let mut states = States::default();
        states.put_json(TAKEN, taken)?;
        self.store().update_meta(newest.seq, &meta, &states)?;
        let shown = self.shown(meta);
        if shown != newest.meta {
            self.show(&newest.dataset, &shown, newest.seq);
        }
        Ok(())
    }
}

/// The hashes of the summaries of a bundle's details.
fn of_details(bundle: &Bundle, content: &Content) -> HashMap<ListingId, ContentHash, RandomState> {
    if bundle.base().is_none() {
        return hashes_by_id(content);
    }
    let wanted: HashSet<ListingId, RandomState> = bundle.detail_hashes().iter().map(|detail| detail.id).collect();
    let summaries = content.summaries.iter().filter(|summary| wanted.contains(&summary.id));
    summaries.map(|summary| (summary.id, summary.hash)).collect()
}
