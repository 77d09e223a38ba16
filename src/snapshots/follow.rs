//! Follows a publisher: where a replica stands, and how the bundles of a head become its newest snapshot.
//!
//! [`crate::fleet`] decides which bundles. Everything here blocks. Callers: [`crate::fleet`].

use std::fs::File;

use serde::{Deserialize, Serialize};

use super::changes::Feed;
use super::import::{Chain, ImportError};
use super::{Imported, Snapshots, SnapshotsError};
use crate::bundle::Bundle;
use crate::snapshot::content::SnapshotId;
use crate::snapshot::journal::Entry;
use crate::snapshot::meta::Certificate;
use crate::store::{States, Store, StoreError};

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

/// What an import takes from a head and writes of where the replica stands.
pub(super) struct Followed<'a> {
    took: &'a Took,
    /// The digest that it stood at when it was decided what to fetch.
    pub from: Option<&'a str>,
    /// The digest that it stands at then.
    digest: String,
    /// How sure the publisher is now, and since when, as believed here.
    pub certificate: Certificate,
    pub confirmed_ms: i64,
    /// The publisher's journal.
    journal: Option<&'a Vec<Entry>>,
}

impl Followed<'_> {
    /// What the journal gets; `steps`: the changes of each bundle.
    pub(super) fn feed(&self, last: &Bundle, steps: Vec<Entry>) -> Feed {
        // A publisher with a new journal knows nothing of the past.
        let ends = |journal: &&Vec<Entry>| journal.last().is_some_and(|end| end.to == last.manifest().snapshot);
        match self.journal.filter(ends) {
            Some(journal) => Feed::Publishers(journal.clone()),
            None if steps.len() > 1 => Feed::Steps(steps),
            None => Feed::Own,
        }
    }

    /// Writes where the replica stands after the import.
    pub(super) fn write(&self, snapshot: &SnapshotId, states: &mut States) -> Result<(), StoreError> {
        if let Took::Head(taken) = self.took {
            states.put_json(TAKEN, taken)?;
        }
        if *self.took == Took::Seed {
            forget_in(states);
            return Ok(());
        }
        states.put_json(STANDING, &Standing { digest: self.digest.clone(), snapshot: snapshot.clone() })
    }
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

impl Snapshots {
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
        let Following { steps, certificate, confirmed_ms, now_ms, committed, .. } = *following;
        let last = steps.last().ok_or(SnapshotsError::Moved)?;
        let steps: Vec<_> = steps.iter().map(|step| (&step.bundle, &step.file)).collect();
        let followed = Followed {
            took: &following.took,
            from: following.from.as_deref(),
            digest: last.bundle.digest().to_string(),
            certificate,
            confirmed_ms,
            journal: following.journal.as_ref(),
        };
        self.import_chain(&Chain { steps: &steps, now_ms, allow_older: false, committed, followed: Some(followed) })
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
