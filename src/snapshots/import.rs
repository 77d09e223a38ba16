//! Imports a bundle's content as the newest snapshot, in one transaction.
//!
//! It does not know files. Callers: [`super::bundle`] and [`super::follow`], with verified content.

use std::sync::Arc;

use url::Url;

use super::follow::{self, Followed};
use super::{Snapshots, SnapshotsError};
use crate::api::edges::lesson::Learned;
use crate::clock::WallTime;
use crate::snapshot::content::{Content, SnapshotId};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Evidence;
use crate::snapshot::meta::SnapshotMeta;
use crate::store::{Arriving, LEARNED, States, WrittenAlong};

/// The key of the list sizes of the last day, by which a large loss is noticed.
pub(crate) const SIZES: &str = "sizes";

/// The key of the latest instant of all imports, in milliseconds since 1970: the signature of an old bundle stays
/// valid, so an attacker could otherwise take the data back.
const HIGHEST: &str = "import/highest";

/// The verified content to import.
pub struct Import<'a> {
    /// The snapshot.
    pub content: Content,
    /// Its metadata.
    pub meta: SnapshotMeta,
    /// The origin's lists for doubtful terms.
    pub evidence: Evidence,
    /// What was learned of the origin's answers to odd requests; `None`: what is known stays.
    pub(crate) learned: Option<Learned>,
    pub details: &'a Arriving<'a>,
    /// Their approximate size in bytes.
    pub details_bytes: u64,
    /// Whether it may be older than earlier imports.
    pub allow_older: bool,
    /// Called when the import is durable but not yet visible, to update details in memory.
    pub committed: &'a dyn Fn(),
    /// Where a replica stands afterwards; `None`: an operator imports.
    pub followed: Option<Followed>,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub snapshot: SnapshotId,
    pub listings: usize,
    /// The newest snapshot before.
    pub before: Option<SnapshotId>,
    /// Whether it is older than the newest snapshot before.
    pub is_older: bool,
    /// Whether it is current; `false` during a rollback.
    pub is_served: bool,
}

impl Snapshots {
    /// Makes a bundle's snapshot the newest one, with its details, and current unless a rollback is in effect.
    /// The snapshot before is kept.
    ///
    /// # Errors
    /// When it would take an origin's data back, it is older than an earlier import and that is not allowed, or the
    /// write fails.
    pub fn import(&self, import: Import<'_>) -> Result<Imported, SnapshotsError> {
        let Import { content, meta, evidence, learned, details, details_bytes, allow_older, committed, followed } =
            import;
        let mut notes = self.0.notes.lock();
        self.unless_elsewhere(followed.as_ref())?;
        let mut all_evidence = match followed {
            // A replica answers exactly what its publisher does: older lists could settle what is doubtful there.
            Some(_) => Evidence::new(),
            None => self.0.store.evidence()?,
        };
        all_evidence.extend(evidence);
        let dataset = Arc::new(Dataset::build(content, &all_evidence)?);
        let newest = self.0.newest.get();
        let is_older = newest.as_ref().is_some_and(|newest| meta.confirmed_ms < newest.meta.confirmed_ms);
        if let Some(newest) = newest.as_ref().filter(|_| is_older && self.0.policy.has_origin) {
            let at = |ms| WallTime::from_millis(ms).to_string();
            return Err(SnapshotsError::Backwards {
                bundle: dataset.id.to_string(),
                bundle_confirmed: at(meta.confirmed_ms),
                newest: newest.dataset.id.to_string(),
                newest_confirmed: at(newest.meta.confirmed_ms),
            });
        }
        if let Some(newest) = newest.as_ref().filter(|_| self.0.policy.has_origin) {
            self.unless_foreign(&meta, &newest.meta)?;
        }
        // Its sequence number says that a head is newer, also one that takes the data back.
        let allow_older = allow_older || followed.is_some();
        let highest = self.highest_after(&dataset.id, meta.confirmed_ms, allow_older)?;
        let mut states = States::default();
        states.put_evidence(None, &all_evidence)?;
        states.put(HIGHEST, highest.to_string().into_bytes())?;
        // What was learned of the present origin itself counts more.
        let learned = learned.filter(|_| !self.0.policy.has_origin || self.0.edges.known().is_none());
        if let Some(learned) = &learned {
            states.put_json(LEARNED, learned)?;
        }
        // Earlier sizes say nothing about the imported list.
        states.remove(SIZES);
        // A full bundle repairs; a delta builds on what was verified when it came.
        let verifies = followed.as_ref().is_none_or(|followed| followed.is_full);
        let feed = follow::write(followed, &dataset.id, &mut states)?;
        let along = WrittenAlong { activate: true, verifies, details: Some(details), details_bytes, states };
        self.put_with(&mut notes, &dataset, meta, along, feed, committed)?;
        if let Some(learned) = learned {
            self.0.edges.set(Some(Arc::new(learned)));
        }
        let imported = Imported {
            snapshot: dataset.id.clone(),
            listings: dataset.len(),
            before: newest.map(|newest| newest.dataset.id.clone()),
            is_older,
            is_served: notes.rolled_back.is_none(),
        };
        tracing::info!(snapshot = %imported.snapshot, listings = imported.listings, served = imported.is_served, "snapshot imported");
        Ok(imported)
    }

    /// The latest instant of all imports, including this one. A future instant counts as now. With `allow_older`, later
    /// imports are compared with this one.
    fn highest_after(&self, id: &SnapshotId, confirmed_ms: i64, allow_older: bool) -> Result<i64, SnapshotsError> {
        let now = self.0.clock.now_wall().as_millis();
        let counted = confirmed_ms.min(now);
        let kept = self.0.store.state(HIGHEST)?;
        let kept = kept.and_then(|text| String::from_utf8(text).ok()?.parse::<i64>().ok());
        // Older versions of this program kept no record; without an origin all data was imported.
        let imported = || self.0.kept.load().iter().map(|kept| kept.meta.confirmed_ms).max();
        let highest = kept.or_else(|| imported().filter(|_| !self.0.policy.has_origin)).map(|highest| highest.min(now));
        match highest {
            Some(highest) if counted < highest && !allow_older => Err(SnapshotsError::Older {
                bundle: id.to_string(),
                bundle_confirmed: WallTime::from_millis(confirmed_ms).to_string(),
                highest: WallTime::from_millis(highest).to_string(),
            }),
            _ => Ok(counted),
        }
    }

    /// Refuses data of another origin than the stored data's.
    fn unless_foreign(&self, new: &SnapshotMeta, own: &SnapshotMeta) -> Result<(), SnapshotsError> {
        let (Some(theirs), Some(ours)) = (&new.origin, &own.origin) else { return Ok(()) };
        let url = Url::parse(theirs).ok();
        let is_theirs = |address: &String| address == theirs || Url::parse(address).ok() == url;
        if is_theirs(ours) || self.0.policy.origins.iter().any(is_theirs) {
            return Ok(());
        }
        Err(SnapshotsError::Foreign { theirs: theirs.clone(), ours: ours.clone() })
    }
}
