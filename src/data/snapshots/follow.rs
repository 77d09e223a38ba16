//! Position of a replica: where it stands in the chain of its publisher, and what an import takes from a head.
//!
//! [`crate::fleet`] decides which bundles are imported; [`super::import`] does it. Everything here blocks. Callers:
//! [`crate::fleet`].

use serde::{Deserialize, Serialize};

use super::changes::Feed;
use super::{Snapshots, SnapshotsError};
use crate::data::bundle::signature::Opened;
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::journal::Entry;
use crate::data::snapshot::meta::Certificate;
use crate::data::store::{MarkAt, States, Store, StoreError};

/// The highest head that was taken. It stays when an operator imports a bundle: nothing goes back behind it.
const TAKEN: &str = "follow/taken";

/// What the data is. An operator's import removes it.
const STANDING: &str = "follow/standing";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// Its sequence number; 0: none was taken yet.
    pub sequence: u64,
    /// BLAKE3 of its text, in hexadecimal digits.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FollowedData {
    /// The digest of the last bundle, in hexadecimal digits.
    digest: String,
    snapshot: SnapshotId,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stand {
    /// The highest head that was taken.
    pub taken: Taken,
    /// The digest of the bundle that the newest snapshot and its details are of; `None`: they are of no known bundle.
    pub digest: Option<String>,
}

/// What comes of an import for the one who follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImportOutcome {
    /// All of a head.
    Head(Taken),
    /// The first bundles of a head, which is not taken yet.
    Part,
    /// The first data of a mirror, which does not follow.
    Seed,
}

/// What an import takes from a head.
pub(crate) struct Followed {
    pub took: ImportOutcome,
    /// The digest that the replica stood at when it was decided what to fetch.
    pub from: Option<String>,
    /// How sure the publisher is now.
    pub certificate: Certificate,
    /// For when it has the data confirmed, as believed here; milliseconds since 1970.
    pub confirmed_ms: i64,
    /// The publisher's journal; `None`: it was not fetched.
    pub journal: Option<Vec<Entry>>,
}

impl Followed {
    /// What the journal gets; `changes`: those of each bundle.
    pub(super) fn feed(&self, steps: &[Opened], changes: Vec<Entry>) -> Feed {
        let last = steps.last().map(|step| &step.bundle.manifest().snapshot);
        // A publisher with a new journal knows nothing of the past.
        let ends = |journal: &&Vec<Entry>| journal.last().is_some_and(|end| Some(&end.to) == last);
        match self.journal.as_ref().filter(ends) {
            Some(journal) => Feed::Publishers(journal.clone()),
            None if changes.len() > 1 => Feed::Steps(changes),
            None => Feed::Own,
        }
    }

    /// Writes where the replica stands after the import of these bundles, and marks them. `before`: the place before the
    /// import; what a later bundle brought lies behind it.
    pub(super) fn write(&self, steps: &[Opened], before: MarkAt, states: &mut States) -> Result<(), StoreError> {
        let Some((Opened { bundle: last, .. }, earlier)) = steps.split_last() else { return Ok(()) };
        for Opened { bundle, .. } in earlier {
            states.mark(bundle.digest(), before, bundle.manifest().snapshot.clone());
        }
        states.mark(last.digest(), MarkAt::End, last.manifest().snapshot.clone());
        if let ImportOutcome::Head(taken) = &self.took {
            states.put_json(TAKEN, taken)?;
        }
        if self.took == ImportOutcome::Seed {
            forget_in(states);
            return Ok(());
        }
        let (digest, snapshot) = (last.digest().to_string(), last.manifest().snapshot.clone());
        states.put_json(STANDING, &FollowedData { digest, snapshot })
    }
}

/// Forgets which bundle the data is of: it may not be whole any more.
pub(crate) fn forget(store: &Store) -> Result<(), StoreError> {
    store.remove_state(STANDING)
}

/// Forgets the highest head that was taken: the next one is newer, whatever its number.
pub(crate) fn forget_taken(store: &Store) -> Result<(), StoreError> {
    store.remove_state(TAKEN)
}

/// Forgets what the data is of, in the transaction of something else.
pub(super) fn forget_in(states: &mut States) {
    states.remove(STANDING);
}

impl Snapshots {
    pub(crate) fn stand(&self) -> Result<Stand, StoreError> {
        let newest = self.newest().get().as_ref().map(|newest| newest.dataset.id.clone());
        let standing: Option<FollowedData> = self.store().state_json(STANDING)?;
        let standing = standing.filter(|standing| newest.as_ref() == Some(&standing.snapshot));
        let digest = standing.map(|standing| standing.digest).filter(|_| self.store().damage().is_none());
        Ok(Stand { taken: self.store().state_json(TAKEN)?.unwrap_or_default(), digest })
    }

    /// Takes a head that names the data that is here: its certificate, and its instant of confirmation.
    pub(crate) fn follow_renewed(
        &self,
        taken: &Taken,
        certificate: Certificate,
        confirmed_ms: i64,
    ) -> Result<(), SnapshotsError> {
        let mut change = self.change();
        let newest = change.view.newest.clone().ok_or(SnapshotsError::Moved)?;
        let mut meta = newest.meta.clone();
        (meta.certificate, meta.confirmed_ms, meta.claimed_ms) = (certificate, confirmed_ms, None);
        change.along.states.put_json(TAKEN, taken)?;
        self.store().update_meta(newest.seq, &meta, &change.along.states)?;
        let meta = self.believed(meta);
        if meta != newest.meta {
            self.show_renewed(change, &newest, newest.dataset.clone(), meta);
        }
        Ok(())
    }
}
