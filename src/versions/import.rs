//! Importing: what a bundle holds becomes the newest version, in one transaction.
//!
//! It knows nothing of files. Callers: [`crate::app`], with what was verified before.

use std::sync::Arc;

use url::Url;

use super::{Versions, VersionsError};
use crate::clock::WallTime;
use crate::snapshot::content::{Content, SnapshotId};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Evidence;
use crate::snapshot::version::VersionMeta;
use crate::store::{Along, Arriving, States};

/// Where the sizes of the last day are kept in the store, by which a list that lost much is noticed.
pub(crate) const SIZES: &str = "sizes";

/// Where the latest instant of all that was ever imported is kept in the store, in milliseconds since 1970: a signed bundle
/// stays signed, so that whoever can hand over an old one could otherwise take the data back.
const HIGHEST: &str = "import/highest";

/// What is imported; all of it was verified.
pub struct Import<'a> {
    /// The snapshot.
    pub content: Content,
    /// What is known beside it.
    pub meta: VersionMeta,
    /// What the origin listed for terms in doubt.
    pub evidence: Evidence,
    /// Its details.
    pub details: &'a Arriving<'a>,
    /// How much they are, about, in bytes.
    pub details_bytes: u64,
    /// Whether it may be older than what was imported before.
    pub allow_older: bool,
    /// Called when all of it is durable and nobody sees it yet: whoever knows details by heart learns of these.
    pub committed: &'a dyn Fn(),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// Its listings.
    pub listings: usize,
    /// What was the newest before.
    pub before: Option<SnapshotId>,
    /// Whether it is confirmed for an earlier instant than what was the newest before.
    pub is_older: bool,
    /// Whether it is served; without, a rollback pins another one.
    pub is_served: bool,
}

impl Versions {
    /// Makes a bundle's snapshot the newest version, with its details, and serves it unless a rollback pins another one.
    /// The version before stays kept.
    ///
    /// # Errors
    /// When it would take the data of an origin backwards, it is older than what was imported before and that is not
    /// allowed, or the write fails.
    pub fn import(&self, import: Import<'_>) -> Result<Imported, VersionsError> {
        let Import { content, mut meta, evidence, details, details_bytes, allow_older, committed } = import;
        let mut notes = self.0.notes.lock();
        let mut all_evidence = self.0.store.evidence()?;
        all_evidence.extend(evidence);
        let dataset = Arc::new(Dataset::build(content, &all_evidence)?);
        let head = self.0.head.current();
        let is_older = head.as_ref().is_some_and(|head| meta.confirmed_ms < head.meta.confirmed_ms);
        if let Some(head) = head.as_ref().filter(|_| is_older && self.0.policy.has_origin) {
            let at = |ms| WallTime::from_millis(ms).to_string();
            return Err(VersionsError::Backwards {
                bundle: dataset.id.to_string(),
                bundle_confirmed: at(meta.confirmed_ms),
                newest: head.dataset.id.to_string(),
                newest_confirmed: at(head.meta.confirmed_ms),
            });
        }
        if let Some(head) = head.as_ref().filter(|_| self.0.policy.has_origin) {
            self.unless_foreign(&meta, &head.meta)?;
        }
        let highest = self.highest_after(&dataset.id, meta.confirmed_ms, allow_older)?;
        let mut states = States::default();
        states.put_evidence(&all_evidence)?;
        states.put(HIGHEST, highest.to_string().into_bytes())?;
        // How large the list was until now says nothing of how large it may be.
        states.remove(SIZES);
        if self.0.policy.has_origin {
            // It is asked again, by whoever asks it now.
            meta.disproved = None;
        }
        let along = Along { activate: true, verifies: true, details: Some(details), details_bytes, states };
        self.put(&mut notes, &dataset, meta, along, committed)?;
        let imported = Imported {
            snapshot: dataset.id.clone(),
            listings: dataset.len(),
            before: head.map(|head| head.dataset.id.clone()),
            is_older,
            is_served: notes.rolled_back.is_none(),
        };
        tracing::info!(snapshot = %imported.snapshot, listings = imported.listings, served = imported.is_served, "snapshot imported");
        Ok(imported)
    }

    /// The latest instant of all that was imported, once this is. A stamp from the future counts as now. What is allowed to
    /// be older is what later imports are compared with.
    fn highest_after(&self, id: &SnapshotId, confirmed_ms: i64, allow_older: bool) -> Result<i64, VersionsError> {
        let now = self.0.clock.now_wall().as_millis();
        let counted = confirmed_ms.min(now);
        let kept = self.0.store.state(HIGHEST)?;
        let kept = kept.and_then(|text| String::from_utf8(text).ok()?.parse::<i64>().ok());
        // Older versions of this program kept no record; without an origin all that there is was imported.
        let imported = || self.0.kept.load().iter().map(|kept| kept.meta.confirmed_ms).max();
        let highest = kept.or_else(|| imported().filter(|_| !self.0.policy.has_origin)).map(|highest| highest.min(now));
        match highest {
            Some(highest) if counted < highest && !allow_older => Err(VersionsError::Older {
                bundle: id.to_string(),
                bundle_confirmed: WallTime::from_millis(confirmed_ms).to_string(),
                highest: WallTime::from_millis(highest).to_string(),
            }),
            _ => Ok(counted),
        }
    }

    /// Refuses data of another origin than that of which there is some.
    fn unless_foreign(&self, new: &VersionMeta, own: &VersionMeta) -> Result<(), VersionsError> {
        let (Some(theirs), Some(ours)) = (&new.origin, &own.origin) else { return Ok(()) };
        let url = Url::parse(theirs).ok();
        let is_theirs = |address: &String| address == theirs || Url::parse(address).ok() == url;
        if is_theirs(ours) || self.0.policy.origins.iter().any(is_theirs) {
            return Ok(());
        }
        Err(VersionsError::Foreign { theirs: theirs.clone(), ours: ours.clone() })
    }
}
