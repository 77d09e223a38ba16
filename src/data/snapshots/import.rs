//! Import of the snapshots of bundles as the newest one, with their details, in one transaction. A damaged store is repaired
//! first, and data that nothing needs any more is dropped afterwards.
//!
//! An import by an operator is a chain of one bundle; a replica imports the bundles of a head. Several are applied in
//! memory, so that no state between them is served. [`plan`](fn@plan) says what comes of them, without any disk;
//! [`Trust`] says what follows from who vouches for them. [`crate::data::bundle`] verified the files; only their
//! details are read again, as they are stored. Everything here blocks. Callers: [`crate::server::admin`],
//! [`crate::server`], [`crate::fleet`].

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use url::Url;

use super::changes::Feed;
use super::follow::{self, Followed};
use super::{Policy, Snapshots, SnapshotsError};
use crate::api::hash::ContentHash;
use crate::api::listing::ListingId;
use crate::api::taxonomy::VolatileKeys;
use crate::clock::WallTime;
use crate::data::bundle::signature::Opened;
use crate::data::bundle::{Bundle, BundleError, Detail, Manifest};
use crate::data::details::Details;
use crate::data::snapshot::content::{Content, SnapshotId};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::journal::Entry;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::data::snapshot::verdicts::table::Table;
use crate::data::snapshot::verdicts::told::Told;
use crate::data::store::{
    Arriving, DetailMeta, DetailRecord, DetailState, DetailStream, MarkAt, States, StoreError, VERDICTS, WrittenAlong,
};
use crate::protocol::excerpt::Excerpt;

/// The party that vouches for the bundles of an import, and what follows from it.
pub(crate) enum Trust {
    /// An operator's. `allow_older`: the result may be older than earlier imports.
    Operator { allow_older: bool },
    /// A publisher's: its head names the bundles. A replica has exactly what its publisher has.
    Publisher(Followed),
}

impl Trust {
    /// What is taken from a head. Then nothing of the data before it counts beside it: neither details nor lists of terms.
    /// And it is never too old: the number of a head says that it is newer, also one that takes the data back.
    const fn followed(&self) -> Option<&Followed> {
        match self {
            Self::Publisher(followed) => Some(followed),
            Self::Operator { .. } => None,
        }
    }
}

/// The hashes of the summaries of a bundle's details.
type SummaryHashes = HashMap<ListingId, ContentHash, RandomState>;

/// What comes of bundles, whose content was verified.
pub(super) struct Plan {
    pub content: Content,
    pub meta: SnapshotMeta,
    /// The origin's lists for doubtful terms.
    pub evidence: Evidence,
    /// What requests mean at the origin.
    pub told: Told,
}

/// What comes of bundles, the first of which builds on `base` and its evidence; with the changes and the summaries of each.
/// Pure.
fn plan(
    steps: &[Opened],
    base: Option<&Content>,
    evidence: Evidence,
    now_ms: i64,
) -> Result<(Plan, Vec<Entry>, Vec<SummaryHashes>), SnapshotsError> {
    let (mut content, mut evidence): (Option<Content>, _) = (None, evidence);
    let (mut changes, mut summaries) = (Vec::new(), Vec::new());
    for (at, Opened { bundle, .. }) in steps.iter().enumerate() {
        let base = content.as_ref().or(base);
        let next = bundle.content_over(base).map_err(|why| SnapshotsError::Bundle { at, why })?;
        if let Some(base) = base.filter(|_| steps.len() > 1 && bundle.base().is_some()) {
            changes.push(Entry::between(base, &next, now_ms));
        }
        summaries.push(summaries_of_details(bundle, &next));
        evidence = bundle.evidence_over(evidence);
        content = Some(next);
    }
    changes.retain(|entry| entry.from != entry.to);
    let (content, last) = content.zip(steps.last()).ok_or(SnapshotsError::Moved)?;
    let (meta, told) = (last.bundle.meta(now_ms), last.bundle.manifest().told());
    Ok((Plan { content, meta, evidence, told }, changes, summaries))
}

fn summaries_of_details(bundle: &Bundle, content: &Content) -> SummaryHashes {
    let wanted: HashSet<ListingId, RandomState> = bundle.detail_ids().iter().copied().collect();
    let summaries = content.summaries.iter().filter(|summary| wanted.contains(&summary.id));
    summaries.map(|summary| (summary.id, summary.hash)).collect()
}

/// What an operator's import did: the answer to an upload, and what a command tells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ImportOutcome {
    #[serde(flatten)]
    pub imported: Imported,
    pub manifest: Manifest,
    /// The trusted key; `None`: no signature is required.
    pub signed_by: Option<String>,
}

impl Snapshots {
    /// Imports an operator's bundle that was verified.
    pub(crate) fn import_opened(
        &self,
        opened: Opened,
        allow_older: bool,
        details: &Details,
    ) -> Result<ImportOutcome, SnapshotsError> {
        let signed_by = opened.voucher.signed_by().map(|key| key.to_string());
        if signed_by.is_none() && self.store().state(SIGNED)?.is_some() {
            return Err(SnapshotsError::Unsigned(self.store().path().with_file_name("")));
        }
        let steps = [opened];
        let imported = self.import(&steps, &Trust::Operator { allow_older }, details)?;
        if signed_by.is_some() {
            self.require_signatures(true)?;
        }
        if let Some(warning) = &imported.foreign {
            tracing::warn!("{warning}");
        }
        Ok(ImportOutcome { imported, manifest: steps[0].bundle.manifest().clone(), signed_by })
    }

    /// Makes the snapshot of the last bundle the newest one, with the details of all, and drops data that nothing needs any
    /// more. `steps`: a full bundle or a delta; then deltas, each from the one before. Serves it unless a rollback is in
    /// effect. A damaged store is repaired first. If the import fails, the current snapshot stays.
    pub(crate) fn import(
        &self,
        steps: &[Opened],
        trust: &Trust,
        details: &Details,
    ) -> Result<Imported, SnapshotsError> {
        self.mend()?;
        let imported = match self.try_import(steps, trust, details) {
            // The damage was not noticed before.
            Err(SnapshotsError::Store(StoreError::Damaged(_))) => {
                self.mend()?;
                self.try_import(steps, trust, details)
            }
            imported => imported,
        };
        let imported = imported?;
        if let Err(error) = self.mend() {
            tracing::error!(%error, "the damaged store could not be repaired");
        }
        if let Err(error) = self.tidy().and_then(|()| details.forget_vanished()) {
            tracing::warn!(%error, "data that is no longer needed could not be removed");
        }
        Ok(imported)
    }

    /// Repairs a store that is known to be damaged.
    fn mend(&self) -> Result<(), SnapshotsError> {
        let Some(damage) = self.store().damage() else { return Ok(()) };
        let healed = self.heal()?;
        tracing::error!("{}", healed.text(self.store().path(), &damage));
        if self.current().get().is_none()
            && let Err(error) = self.restore()
        {
            // The import replaces it.
            tracing::error!(%error, "no snapshot can be served");
        }
        Ok(())
    }

    fn try_import(&self, steps: &[Opened], trust: &Trust, known: &Details) -> Result<Imported, SnapshotsError> {
        let Some(Opened { bundle: first, .. }) = steps.first() else { return Err(SnapshotsError::Moved) };
        let followed = trust.followed();
        let base = match (first.base(), followed) {
            (None, _) => None,
            // The bundles of a head were chosen for the newest snapshot.
            (Some(_), Some(_)) => self.newest().get(),
            (Some(base), None) => Some(self.load(base.as_str()).map_err(|error| match error {
                SnapshotsError::Unknown(_) => {
                    SnapshotsError::Bundle { at: 0, why: BundleError::NeedsBase { needed: base.clone() } }
                }
                error => error,
            })?),
        };
        let evidence = base.as_ref().map(|base| self.store().evidence_of(base.seq));
        let evidence = evidence.transpose()?.unwrap_or_default();
        let base = base.as_ref().map(|base| &base.dataset.content);
        let (mut plan, changes, summaries) = plan(steps, base, evidence, self.0.clock.now_wall().as_millis())?;
        if let Some(followed) = followed {
            (plan.meta.certificate, plan.meta.confirmed_ms) = (followed.certificate, followed.confirmed_ms);
        }
        let (volatile, confirmed_ms) = (plan.meta.volatile.clone(), plan.meta.confirmed_ms);
        let details = || -> Result<DetailStream<'_>, StoreError> {
            let streams = steps.iter().zip(&summaries);
            let streams = streams.map(|(step, summaries)| records(step, &volatile, summaries));
            Ok(Box::new(streams.collect::<Result<Vec<_>, _>>()?.into_iter().flatten()))
        };
        // With an origin, a stored detail of a later instant stays, and one that was fetched for this summary always
        // stays if the bundle's was not.
        let has_origin = self.policy().has_origin;
        let stays = |id: ListingId, known: &DetailMeta, new: &DetailRecord| {
            let is_its = summaries[0].get(&id) == Some(&known.summary_hash);
            followed.is_none()
                && (has_origin && known.origin_time_ms > confirmed_ms
                    || is_its && new.meta.summary_hash != known.summary_hash)
        };
        let length = |step: &Opened| step.file.metadata().map(|file| file.len().saturating_mul(2));
        let details_bytes = steps.iter().map(length).sum::<io::Result<u64>>().map_err(unreadable)?;
        let committed = || {
            for Opened { bundle, .. } in steps {
                if let Err(error) = known.look_again(bundle.detail_ids()) {
                    tracing::error!(%error, "the imported details become visible only after a restart");
                }
            }
        };
        let mut states = States::default();
        let feed = if let Some(followed) = followed {
            followed.write(steps, MarkAt::Place(self.store().epoch_place()?), &mut states)?;
            followed.feed(steps, changes)
        } else {
            follow::forget_in(&mut states);
            Feed::Own
        };
        let details = Arriving { stream: &details, stays: &stays };
        let along = WrittenAlong {
            // A full bundle repairs; a delta builds on what was verified when it came.
            rewrites: first.base().is_none(),
            details: Some(&details),
            details_bytes,
            states,
            ..WrittenAlong::default()
        };
        self.replace(plan, along, feed, trust, &committed)
    }

    /// Stores whether the server of this data directory imports only signed bundles, for imports without its configuration.
    pub(crate) fn require_signatures(&self, required: bool) -> Result<(), StoreError> {
        let store = self.store();
        match (required, store.state(SIGNED)?.is_some()) {
            (true, false) => store.put_state(SIGNED, &[]),
            (false, true) => {
                tracing::warn!("bundle.trusted_keys was set before and is empty now: unsigned bundles are imported");
                store.remove_state(SIGNED)
            }
            _ => Ok(()),
        }
    }
}

fn unreadable(error: impl Display) -> StoreError {
    StoreError::Refused(format!("the bundle cannot be read again: {error}"))
}

/// The details of a bundle as they are stored; `summaries`: those of the bundle's snapshot.
fn records<'a>(
    Opened { bundle, file, .. }: &'a Opened,
    volatile: &'a VolatileKeys,
    summaries: &'a SummaryHashes,
) -> Result<DetailStream<'a>, StoreError> {
    let mut again = file.try_clone().map_err(unreadable)?;
    again.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let confirmed_ms = bundle.manifest().confirmed_ms;
    let records = bundle.details(again).map(move |detail| {
        let (id, detail) = detail.map_err(unreadable)?;
        let Detail { state, body, current, etag, last_modified } = detail;
        let hash = match state {
            DetailState::Present => volatile.hash(&String::from_utf8_lossy(&body)),
            DetailState::Gone => ContentHash::default(),
        };
        let (origin_time_ms, summary_hash) = match summaries.get(&id) {
            Some(summary_hash) if current => (confirmed_ms, *summary_hash),
            // With an origin, it is fetched again.
            _ => (0, ContentHash::of(b"another summary")),
        };
        let fetched_ms = confirmed_ms;
        let meta = DetailMeta { state, etag, last_modified, origin_time_ms, fetched_ms, summary_hash, hash };
        Ok((id, DetailRecord { meta, body }))
    });
    Ok(Box::new(records))
}

/// The key of the list sizes of the last day, by which a large loss is noticed.
pub(crate) const SIZES: &str = "sizes";

/// The key of the latest instant of all imports, in milliseconds since 1970: the signature of an old bundle stays
/// valid, so an attacker could otherwise take the data back.
const HIGHEST: &str = "import/highest";

/// The key that is there while only signed bundles are imported.
const SIGNED: &str = "import/signed";

/// The key of the address of the origin that the data comes from.
pub(crate) const ORIGIN: &str = "origin";

/// The result of an import, and its form in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    #[serde(rename = "imported")]
    pub snapshot: SnapshotId,
    pub listings: usize,
    /// The newest snapshot before.
    pub before: Option<SnapshotId>,
    /// Whether it is older than the newest snapshot before.
    #[serde(rename = "older")]
    pub is_older: bool,
    /// Whether it is current; `false` during a rollback.
    #[serde(rename = "served")]
    pub is_served: bool,
    /// A warning that it is another origin's data.
    #[serde(rename = "warning")]
    pub foreign: Option<String>,
}

impl Snapshots {
    /// Makes a bundle's snapshot the newest one, with what is written along, and current unless a rollback is in effect. The
    /// snapshot before is kept. `committed` is called when the import is durable but not yet visible, to update details in
    /// memory.
    pub(super) fn replace(
        &self,
        Plan { content, meta, evidence, told }: Plan,
        along: WrittenAlong<'_>,
        feed: Feed,
        trust: &Trust,
        committed: &dyn Fn(),
    ) -> Result<Imported, SnapshotsError> {
        let mut change = self.change();
        change.along = along;
        // If the snapshot of a rollback is lost, the rollback ends.
        let is_served = change.view.rolled_back.is_none() || change.view.current.is_none();
        let stand = self.stand()?;
        let followed = trust.followed();
        // Somebody else has imported since it was decided what to import.
        if followed.is_some_and(|followed| stand.digest != followed.from) {
            return Err(SnapshotsError::Moved);
        }
        // Older lists could settle what is doubtful at a replica's publisher.
        let mut all_evidence = if followed.is_some() { Evidence::new() } else { self.0.store.evidence()? };
        all_evidence.extend(evidence);
        let dataset = Arc::new(Dataset::build(content, &all_evidence)?);
        let newest = change.view.newest.clone();
        let is_older = newest.as_ref().is_some_and(|newest| meta.confirmed_ms < newest.meta.confirmed_ms);
        if let Some(newest) = newest.as_ref().filter(|_| is_older && self.0.policy.has_origin) {
            return Err(SnapshotsError::Refused(format!(
                "the bundle's snapshot {} was confirmed at {}, but the mirror already has {}, confirmed at {}; to go back to \
                 a kept snapshot, use `grandstand snapshot rollback`",
                dataset.id,
                WallTime::from_millis(meta.confirmed_ms),
                newest.dataset.id,
                newest.confirmed(),
            )));
        }
        let foreign = self.foreign(&meta, newest.as_ref().map(|newest| &newest.meta))?;
        let allows_older = !matches!(trust, Trust::Operator { allow_older: false });
        let highest = self.highest_after(&dataset.id, meta.confirmed_ms, allows_older)?;
        let states = &mut change.along.states;
        states.put_evidence(None, &all_evidence)?;
        states.put(HIGHEST, highest.to_string().into_bytes())?;
        // What the present origin said itself counts more.
        let table = Table::of_told(&told, !self.0.policy.has_origin);
        let table = Some(table).filter(|_| !self.0.policy.has_origin || !self.0.verdicts.table().is_opened);
        if let Some(table) = &table {
            states.put_json(VERDICTS, table)?;
        }
        // Earlier sizes say nothing about the imported list.
        states.remove(SIZES);
        self.put(change, &dataset, meta, feed, committed)?;
        if let Some(table) = table {
            self.0.verdicts.change(|known| *known = table);
        }
        let imported = Imported {
            snapshot: dataset.id.clone(),
            listings: dataset.len(),
            before: newest.map(|newest| newest.dataset.id.clone()),
            is_older,
            is_served,
            foreign,
        };
        tracing::info!(snapshot = %imported.snapshot, listings = imported.listings, served = imported.is_served, "snapshot imported");
        Ok(imported)
    }

    /// The latest instant of all imports, including this one. A future instant counts as now. An older import
    /// (`allow_older`) does not lower it: an attacker could replay what came between.
    fn highest_after(&self, id: &SnapshotId, confirmed_ms: i64, allow_older: bool) -> Result<i64, SnapshotsError> {
        let now = self.0.clock.now_wall().as_millis();
        let counted = confirmed_ms.min(now);
        let kept = self.0.store.state(HIGHEST)?;
        let kept = kept.and_then(|text| String::from_utf8(text).ok()?.parse::<i64>().ok());
        // A repair may have lost the record; without an origin all data was imported.
        let imported = || self.view().kept.iter().map(|kept| kept.meta.confirmed_ms).max();
        let highest = kept.or_else(|| imported().filter(|_| !self.0.policy.has_origin)).map(|highest| highest.min(now));
        match highest {
            Some(highest) if counted < highest && !allow_older => Err(SnapshotsError::Refused(format!(
                "the bundle's snapshot {id} was confirmed at {}, but newer data, confirmed at {}, was imported before; to \
                 import it anyway, use `grandstand bundle import --allow-older`",
                WallTime::from_millis(confirmed_ms),
                WallTime::from_millis(highest),
            ))),
            _ => Ok(highest.map_or(counted, |highest| highest.max(counted))),
        }
    }

    /// The warning about data of another origin than this one's; `None`: it is this one's, or nothing is known.
    fn foreign(&self, new: &SnapshotMeta, own: Option<&SnapshotMeta>) -> Result<Option<String>, SnapshotsError> {
        let Some(theirs) = &new.origin else { return Ok(None) };
        let url = Url::parse(theirs).ok();
        let is_theirs = |address: &String| address == theirs || Url::parse(address).ok() == url;
        let Policy { origins, has_origin, .. } = &self.0.policy;
        if origins.iter().any(is_theirs) {
            return Ok(None);
        }
        let own = own.and_then(|own| own.origin.clone());
        if let Some(ours) = own.clone().filter(|ours| *has_origin && !is_theirs(ours)) {
            let (theirs, ours) = (Excerpt(theirs), Excerpt(ours));
            return Err(SnapshotsError::Refused(format!(
                "the bundle's data comes from {theirs}, but this mirror's data from {ours}. If both are the same origin, add \
                 {theirs} to origin.aliases. If not, use another data directory"
            )));
        }
        let here = || Ok::<_, StoreError>(self.0.store.state(ORIGIN)?.and_then(|url| String::from_utf8(url).ok()));
        let (ours, what) = match origins.first() {
            Some(ours) => (Some(ours.clone()), "origin.url is"),
            None => (here()?.or(own), "the data directory is for"),
        };
        Ok(ours.filter(|ours| !is_theirs(ours)).map(|ours| {
            let then = if *has_origin { "; the next refresh replaces whatever differs" } else { "" };
            format!("the bundle's data comes from {}, but {what} {}{then}", Excerpt(theirs), Excerpt(ours))
        }))
    }
}
