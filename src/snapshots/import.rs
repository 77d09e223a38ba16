//! Imports the snapshots of bundles as the newest one, with their details, in one transaction. A damaged store is repaired
//! first, and data that nothing needs any more is dropped afterwards.
//!
//! An import by an operator is a chain of one bundle; [`super::follow`] imports the bundles of a head. Several are applied
//! in memory, so that no state between them is served. [`crate::bundle`] knows the files. Everything here blocks. Callers:
//! [`crate::admin`]; [`super::follow`].

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::PathBuf;
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
use crate::bundle::signature::{Opened, Voucher};
use crate::bundle::{Bundle, BundleError, Detail, Manifest};
use crate::clock::WallTime;
use crate::semantics::excerpt::Excerpt;
use crate::snapshot::content::{Content, SnapshotId};
use crate::snapshot::dataset::Dataset;
use crate::snapshot::journal::Entry;
use crate::snapshot::membership::Evidence;
use crate::snapshot::meta::SnapshotMeta;
use crate::snapshot::verdicts::table::{Table, Told};
use crate::store::{
    Arriving, DetailMeta, DetailRecord, DetailState, DetailStream, MarkAt, States, StoreError, VERDICTS, WrittenAlong,
};

/// Why a bundle is not imported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    /// The bundle is invalid, or its base is not kept.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// One of several bundles does not fit the data before it.
    #[error("{why}")]
    Misfit {
        /// Its place among them, from 0.
        at: usize,
        why: BundleError,
    },
    /// The import is refused.
    #[error(transparent)]
    Snapshots(#[from] SnapshotsError),
    /// The bundle is not signed, or its signature was not verified. With the data directory.
    #[error(
        "only signed bundles are imported into {}, because its server or an earlier import had bundle.trusted_keys: name that \
         server's configuration with --config. To take unsigned ones again, start the server once without keys",
        .0.display()
    )]
    Unsigned(PathBuf),
    /// The file cannot be read again.
    #[error("the bundle cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// What a server knows in memory of the stored details. It follows an import before that shows.
pub trait KnownDetails {
    /// Reads these details from the store again: an import brought them.
    fn look_again(&self, ids: &[ListingId]) -> Result<(), StoreError>;

    /// Forgets the details of listings that no kept snapshot has, in memory and in the store.
    fn forget_vanished(&self) -> Result<(), StoreError>;
}

/// A verified bundle, and its file.
pub(crate) struct BundleFile {
    pub bundle: Bundle,
    pub file: File,
}

/// What is imported: the bundle that an operator gives, or those of a head.
pub(crate) struct Chain<'a> {
    /// A full bundle, or a delta from a kept snapshot (from the newest one, if a head names it); then deltas, each from the
    /// one before. At least one.
    pub steps: &'a [BundleFile],
    /// Whether the result may be older than earlier imports.
    pub allow_older: bool,
    /// `None`: no server runs here.
    pub details: Option<&'a dyn KnownDetails>,
    /// What a replica takes from the head; `None`: an operator imports.
    pub followed: Option<Followed>,
}

/// The hashes of the summaries of a bundle's details.
type SummaryHashes = HashMap<ListingId, ContentHash, RandomState>;

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
    /// Imports an operator's bundle that was opened. `details`: `None` where no server runs.
    pub(crate) fn import_opened(
        &self,
        opened: Opened,
        allow_older: bool,
        details: Option<&dyn KnownDetails>,
    ) -> Result<ImportOutcome, ImportError> {
        let Opened { file, bundle, voucher } = opened;
        let is_signed = matches!(voucher, Voucher::Signed(_));
        if !is_signed && self.store().state(SIGNED).map_err(SnapshotsError::from)?.is_some() {
            return Err(ImportError::Unsigned(self.store().path().with_file_name("")));
        }
        let steps = [BundleFile { bundle, file }];
        let imported = self.import_chain(&Chain { steps: &steps, allow_older, details, followed: None })?;
        if is_signed {
            self.require_signatures(true).map_err(SnapshotsError::from)?;
        }
        let signed_by = if let Voucher::Signed(signed) = voucher { Some(signed.key.to_string()) } else { None };
        Ok(ImportOutcome { imported, manifest: steps[0].bundle.manifest().clone(), signed_by })
    }

    /// Makes the snapshot of the last bundle the newest one, with the details of all, and drops data that nothing needs any
    /// more. Serves it unless a rollback is in effect. A damaged store is repaired first. If the import fails, the
    /// current snapshot stays.
    pub(crate) fn import_chain(&self, chain: &Chain<'_>) -> Result<Imported, ImportError> {
        if let Some(damage) = self.store().damage() {
            self.mend(&damage)?;
        }
        let imported = match self.try_import(chain) {
            // The damage was not noticed before.
            Err(ImportError::Snapshots(SnapshotsError::Store(StoreError::Damaged(damage)))) => {
                self.mend(&damage)?;
                self.try_import(chain)
            }
            imported => imported,
        };
        let imported = imported?;
        if let Some(damage) = self.store().damage()
            && let Err(error) = self.mend(&damage)
        {
            tracing::error!(%error, "the damaged store could not be repaired");
        }
        let tidied = self.tidy().and_then(|()| match chain.details {
            Some(details) => details.forget_vanished(),
            None => self.store().forget_vanished().map(drop),
        });
        if let Err(error) = tidied {
            tracing::warn!(%error, "data that is no longer needed could not be removed");
        }
        Ok(imported)
    }

    fn mend(&self, damage: &str) -> Result<(), SnapshotsError> {
        let healed = self.heal()?;
        tracing::error!("{}", healed.text(self.store().path(), damage));
        if self.current().load().is_none()
            && let Err(error) = self.restore()
        {
            // The import replaces it.
            tracing::error!(%error, "no snapshot can be served");
        }
        Ok(())
    }

    fn try_import(&self, chain: &Chain<'_>) -> Result<Imported, ImportError> {
        let Chain { steps, allow_older, details: known, ref followed } = *chain;
        let now_ms = self.0.clock.now_wall().as_millis();
        let (first, last) = steps.first().zip(steps.last()).ok_or(SnapshotsError::Moved)?;
        let (first, last) = (&first.bundle, &last.bundle);
        let base = match &first.manifest().base {
            // The bundles of a head were chosen for the newest snapshot.
            Some(_) if followed.is_some() => self.newest().get(),
            Some(base) => Some(self.load(base.snapshot.as_str()).map_err(|error| match error {
                SnapshotsError::Unknown { .. } => BundleError::NeedsBase { needed: base.snapshot.clone() }.into(),
                error => ImportError::Snapshots(error),
            })?),
            None => None,
        };
        let mut evidence = match &base {
            Some(base) => self.store().evidence_of(base.seq).map_err(SnapshotsError::from)?,
            None => Evidence::new(),
        };
        let base = base.as_ref().map(|base| &base.dataset.content);
        let (mut content, mut entries): (Option<Content>, Vec<Entry>) = (None, Vec::new());
        let mut summaries = Vec::new();
        for (at, BundleFile { bundle, .. }) in steps.iter().enumerate() {
            let base = content.as_ref().or(base);
            let next = bundle.content_over(base).map_err(|why| match followed {
                Some(_) => ImportError::Misfit { at, why },
                None => why.into(),
            })?;
            if let Some(base) = base.filter(|_| steps.len() > 1 && bundle.base().is_some()) {
                entries.push(Entry::between_contents(base, &next, now_ms));
            }
            summaries.push(summaries_of_details(bundle, &next));
            evidence = bundle.evidence_over(evidence);
            content = Some(next);
        }
        let content = content.ok_or(SnapshotsError::Moved)?;
        entries.retain(|entry| entry.from != entry.to);
        let mut meta = last.meta(now_ms);
        if let Some(followed) = followed {
            (meta.certificate, meta.confirmed_ms) = (followed.certificate, followed.confirmed_ms);
        }
        let (volatile, confirmed_ms) = (meta.volatile.clone(), meta.confirmed_ms);
        let details = || -> Result<DetailStream<'_>, StoreError> {
            let streams = steps.iter().zip(&summaries);
            let streams = streams.map(|(step, summaries)| records(step, &volatile, summaries));
            Ok(Box::new(streams.collect::<Result<Vec<_>, _>>()?.into_iter().flatten()))
        };
        // A replica has what its publisher has. Else, with an origin, a stored detail of a later instant stays, and one
        // that was fetched for this summary always stays if the bundle's was not.
        let has_origin = self.policy().has_origin;
        let stays = |id: ListingId, known: &DetailMeta, new: &DetailRecord| {
            let is_its = summaries[0].get(&id) == Some(&known.summary_hash);
            followed.is_none()
                && (has_origin && known.origin_time_ms > confirmed_ms
                    || is_its && new.meta.summary_hash != known.summary_hash)
        };
        let length = |step: &BundleFile| step.file.metadata().map(|file| file.len().saturating_mul(2));
        let details_bytes = steps.iter().map(length).sum::<io::Result<u64>>()?;
        let committed = || {
            for BundleFile { bundle, .. } in steps {
                let ids: Vec<ListingId> = bundle.detail_hashes().iter().map(|detail| detail.id).collect();
                if let Some(Err(error)) = known.map(|known| known.look_again(&ids)) {
                    tracing::error!(%error, "the imported details become visible only after a restart");
                }
            }
        };
        let (mut states, mut feed) = (States::default(), Feed::Own);
        if let Some(followed) = followed {
            let before = self.store().epoch_place().map_err(SnapshotsError::from)?;
            followed.write(steps, MarkAt::Place(before), &mut states).map_err(SnapshotsError::from)?;
            feed = followed.feed(last, entries);
        }
        let details = Arriving { stream: &details, stays: &stays };
        let import = Import {
            content,
            meta,
            evidence,
            told: last.manifest().told(),
            along: WrittenAlong {
                // A full bundle repairs; a delta builds on what was verified when it came.
                rewrites: first.base().is_none(),
                details: Some(&details),
                details_bytes,
                states,
                ..WrittenAlong::default()
            },
            allow_older,
            committed: &committed,
            followed: followed.as_ref(),
            feed,
        };
        Ok(self.import(import)?)
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
    StoreError::Source(format!("the bundle cannot be read again: {error}"))
}

fn summaries_of_details(bundle: &Bundle, content: &Content) -> SummaryHashes {
    let wanted: HashSet<ListingId, RandomState> = bundle.detail_hashes().iter().map(|detail| detail.id).collect();
    let summaries = content.summaries.iter().filter(|summary| wanted.contains(&summary.id));
    summaries.map(|summary| (summary.id, summary.hash)).collect()
}

/// The details of a bundle as they are stored; `summaries`: those of the bundle's snapshot.
fn records<'a>(
    BundleFile { bundle, file }: &'a BundleFile,
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

/// The key of the address of the origin whose data this is.
pub(crate) const ORIGIN: &str = "origin";

/// The verified content to import.
pub(super) struct Import<'a> {
    /// The snapshot.
    pub content: Content,
    /// Its metadata.
    pub meta: SnapshotMeta,
    /// The origin's lists for doubtful terms.
    pub evidence: Evidence,
    /// What requests mean at the origin.
    pub told: Told,
    /// The details, and what is written with them.
    pub along: WrittenAlong<'a>,
    /// Whether it may be older than earlier imports.
    pub allow_older: bool,
    /// Called when the import is durable but not yet visible, to update details in memory.
    pub committed: &'a dyn Fn(),
    /// What a replica takes from the head; `None`: an operator imports.
    pub followed: Option<&'a Followed>,
    /// What the journal gets.
    pub feed: Feed,
}

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
    /// Makes a bundle's snapshot the newest one, with its details, and current unless a rollback is in effect.
    /// The snapshot before is kept.
    pub(super) fn import(&self, import: Import<'_>) -> Result<Imported, SnapshotsError> {
        let Import { content, meta, evidence, told, mut along, committed, followed, feed, .. } = import;
        let mut notes = self.0.notes.lock();
        // Nobody else has imported since it was decided what to fetch.
        if let Some(followed) = followed
            && self.stand()?.digest != followed.from
        {
            return Err(SnapshotsError::Moved);
        }
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
        let foreign = self.foreign(&meta, newest.as_ref().map(|newest| &newest.meta))?;
        // Its sequence number says that a head is newer, also one that takes the data back.
        let allow_older = import.allow_older || followed.is_some();
        let highest = self.highest_after(&dataset.id, meta.confirmed_ms, allow_older)?;
        along.states.put_evidence(None, &all_evidence)?;
        along.states.put(HIGHEST, highest.to_string().into_bytes())?;
        // What the present origin said itself counts more.
        let table = Table::of_told(&told, !self.0.policy.has_origin);
        let table = Some(table).filter(|_| !self.0.policy.has_origin || !self.0.verdicts.table().is_opened);
        if let Some(table) = &table {
            along.states.put_json(VERDICTS, table)?;
        }
        // Earlier sizes say nothing about the imported list.
        along.states.remove(SIZES);
        if followed.is_none() {
            follow::forget_in(&mut along.states);
        }
        self.put(&mut notes, &dataset, meta, along, feed, committed)?;
        if let Some(table) = table {
            self.0.verdicts.change(|known| *known = table);
        }
        let imported = Imported {
            snapshot: dataset.id.clone(),
            listings: dataset.len(),
            before: newest.map(|newest| newest.dataset.id.clone()),
            is_older,
            is_served: notes.rolled_back.is_none(),
            foreign,
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

    /// What is to be told of data of another origin than this one's.
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
            return Err(SnapshotsError::Foreign {
                theirs: Excerpt(theirs).to_string(),
                ours: Excerpt(ours).to_string(),
            });
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
