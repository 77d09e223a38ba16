//! Small blobs by name: the schedule, pins, the journal, marks, the origin's lists for doubtful terms, what requests
//! mean at the origin.
//!
//! Their owners define the contents. Callers: [`crate::mirror`], [`crate::data::snapshots`], through [`Store`].

use redb::WriteTransaction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::{Fault, StoreError, unless_damaged};
use super::positions::{self, NewMark};
use super::{MAX_BODY, Store, coding, database};
use crate::api::taxonomy::TaxonomyKind;
use crate::data::snapshot::membership::{Evidence, ListedTerm};

pub(super) const TABLE: &str = "state";

/// Blobs that are written in the transaction of something else.
#[derive(Clone, Debug, Default)]
pub struct States {
    blobs: Vec<(String, Option<Vec<u8>>)>,
    pub(super) marks: Vec<NewMark>,
}

impl States {
    /// Writes a blob of at most [`MAX_BODY`] bytes as well.
    pub fn put(&mut self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        coding::check_size(|| format!("state {key}"), bytes.len(), MAX_BODY)?;
        self.blobs.push((key.to_owned(), Some(coding::seal(TABLE, key.as_bytes(), bytes))));
        Ok(())
    }

    pub fn put_json(&mut self, key: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let json = serde_json::to_vec(value);
        self.put(key, json.map_err(|error| StoreError::Refused(format!("state {key}: {error}")))?)
    }

    pub fn remove(&mut self, key: &str) {
        self.blobs.push((key.to_owned(), None));
    }

    pub(super) fn bytes(&self) -> u64 {
        let blobs = self.blobs.iter().map(|(key, blob)| (key.len() + blob.as_ref().map_or(0, Vec::len)) as u64 + 64);
        blobs.sum::<u64>() + 256 * self.marks.len() as u64
    }

    pub(super) fn write(&self, transaction: &WriteTransaction) -> Result<(), Fault> {
        positions::write_marks(transaction, &self.marks)?;
        if self.blobs.is_empty() {
            return Ok(());
        }
        let mut table = transaction.open_table(database::STATE)?;
        for (key, blob) in &self.blobs {
            match blob {
                Some(sealed) => drop(table.insert(key.as_str(), sealed.as_slice())?),
                None => drop(table.remove(key.as_str())?),
            }
        }
        Ok(())
    }
}

impl Store {
    /// Stores a blob of at most [`MAX_BODY`] bytes; it replaces the one with that name.
    pub fn put_state(&self, key: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put_with(|states| states.put(key, bytes.to_vec()))
    }

    pub fn put_json(&self, key: &str, value: &impl Serialize) -> Result<(), StoreError> {
        self.put_with(|states| states.put_json(key, value))
    }

    /// Removes the blob of that name, if any.
    pub fn remove_state(&self, key: &str) -> Result<(), StoreError> {
        self.put_with(|states| {
            states.remove(key);
            Ok(())
        })
    }

    fn put_with(&self, fill: impl FnOnce(&mut States) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut states = States::default();
        fill(&mut states)?;
        self.put_states(&states)
    }

    /// Stores and removes several blobs, all or none.
    pub fn put_states(&self, states: &States) -> Result<(), StoreError> {
        if states.blobs.is_empty() && states.marks.is_empty() {
            return Ok(());
        }
        self.handle.write(states.bytes(), |transaction| states.write(transaction))
    }

    /// The same, which a crash may undo until the next other write.
    pub(crate) fn put_states_soon(&self, states: &States) -> Result<(), StoreError> {
        self.handle.write_soon(states.bytes(), |transaction| states.write(transaction))
    }

    /// The blobs whose names have this prefix, by name; damaged ones are left out.
    pub fn states_of(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let read = self.handle.read(|transaction| {
            let table = transaction.open_table(database::STATE)?;
            let mut found = Vec::new();
            for entry in table.range(prefix..)? {
                let (key, sealed) = entry?;
                let key = key.value();
                if !key.starts_with(prefix) {
                    break;
                }
                if let Ok(bytes) = coding::unseal(TABLE, key.as_bytes(), sealed.value()) {
                    found.push((key.to_owned(), bytes.to_vec()));
                }
            }
            Ok(Some(found))
        });
        Ok(unless_damaged(read, || format!("states {prefix}*"))?.unwrap_or_default())
    }

    /// The blob of that name; `None` if it is absent or damaged.
    pub fn state(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.state_as(key, <[u8]>::to_vec)
    }

    /// `of` applied to the blob of that name, which is not copied; `None` if it is absent or damaged.
    pub fn state_as<T>(&self, key: &str, of: impl Fn(&[u8]) -> T) -> Result<Option<T>, StoreError> {
        let read = self.handle.read(|transaction| {
            let Some(sealed) = transaction.open_table(database::STATE)?.get(key)? else { return Ok(None) };
            Ok(Some(of(coding::unseal(TABLE, key.as_bytes(), sealed.value())?)))
        });
        unless_damaged(read, || format!("state {key}"))
    }

    /// The value in the blob of that name, which is JSON; `None` when there is none, or, with a warning, when it cannot be
    /// read.
    pub fn state_json<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let read = self.state_as(key, |json| serde_json::from_slice(json))?;
        Ok(read.and_then(|read| {
            read.inspect_err(
                |error| tracing::warn!(key, %error, "a stored record cannot be read; it counts as missing"),
            )
            .ok()
        }))
    }

    /// Keeps an instant, in milliseconds since the epoch.
    pub fn put_instant(&self, key: &str, at_ms: i64) -> Result<(), StoreError> {
        self.put_state(key, &at_ms.to_le_bytes())
    }

    /// The instant of that name, in milliseconds since the epoch; `None` when there is none, or it cannot be read.
    pub fn instant(&self, key: &str) -> Result<Option<i64>, StoreError> {
        Ok(self.state(key)?.and_then(|bytes| Some(i64::from_le_bytes(bytes.try_into().ok()?))))
    }
}

/// The name of the blob with the verdicts on shapes of requests.
pub(crate) const VERDICTS: &str = "examiner";

/// The name of the blob with the origin's newest list for each term in doubt.
const EVIDENCE: &str = "terms";

/// The name of the blob with the evidence of a snapshot that is no longer the newest.
pub(super) fn own_evidence(seq: u64) -> String {
    format!("{EVIDENCE}/{seq}")
}

/// The snapshot whose evidence a blob of that name has.
pub(super) fn evidence_version(state: &str) -> Option<u64> {
    state.strip_prefix(EVIDENCE)?.strip_prefix('/')?.parse().ok()
}

impl Store {
    /// The newest evidence; empty if it is absent or cannot be read. [`crate::data::snapshot::membership`] judges it.
    pub fn evidence(&self) -> Result<Evidence, StoreError> {
        self.evidence_in(EVIDENCE)
    }

    /// The same for one snapshot: its own evidence comes before newer lists.
    pub fn evidence_of(&self, seq: u64) -> Result<Evidence, StoreError> {
        let mut evidence = self.evidence()?;
        evidence.append(&mut self.evidence_in(&own_evidence(seq))?);
        Ok(evidence)
    }

    fn evidence_in(&self, state: &str) -> Result<Evidence, StoreError> {
        let lists: Vec<(TaxonomyKind, String, ListedTerm)> = self.state_json(state)?.unwrap_or_default();
        Ok(lists.into_iter().map(|(kind, slug, listed)| ((kind, slug), listed)).collect())
    }
}

impl States {
    /// Keeps the evidence as well: the newest, or that of a snapshot, which is kept as long as the snapshot.
    pub fn put_evidence(&mut self, of: Option<u64>, evidence: &Evidence) -> Result<(), StoreError> {
        let lists: Vec<_> = evidence.iter().map(|((kind, slug), listed)| (kind, slug, listed)).collect();
        self.put_json(&of.map_or_else(|| EVIDENCE.to_owned(), own_evidence), &lists)
    }
}
