//! Export of the current snapshot with its details as a bundle, or as a link of a chain of bundles.
//!
//! In a chain each delta brings what a holder of the whole chain before it lacks: its base is the end of one known chain,
//! and a place says up to where that has the changes of details. [`crate::data::bundle`] knows the file. Everything
//! here blocks. Callers: [`crate::server::admin`]; [`crate::fleet`] for chains.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Seek, Write};

use super::retention::exported;
use super::{Snapshots, SnapshotsError};
use crate::api::hash::Digest;
use crate::api::listing::ListingId;
use crate::data::bundle::{self, Counts, Detail, Export, WriteError, Written};
use crate::data::snapshot::content::SnapshotId;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::pointer::Snapshot;
use crate::data::snapshot::verdicts::told::Told;
use crate::data::store::{ChangePosition, DetailMeta, DetailRecord, ExportedDetail, StoreError};

/// Tries of an export while details change.
const TRIES: u32 = 5;

/// Details in ascending id order.
type Known = Vec<ExportedDetail>;

/// What a delta builds on, up to where its holder has the changes of details (outer `None`: his details are unknown), and
/// the bundle before it in a chain.
type Base<'a> = (&'a Dataset, Option<Option<ChangePosition>>, Option<Digest>);

/// How many details of a data set there are.
type Count<'a> = &'a dyn Fn(&Dataset) -> Counts;

/// Ids of details that cannot be read.
type Lost = HashSet<ListingId>;

/// Keeps a snapshot for as long as it lives.
pub(super) struct Hold(Snapshots, u64);

impl Hold {
    pub(super) fn on(snapshots: &Snapshots, seq: u64) -> Self {
        snapshots.0.reserved.lock().exporting.push(seq);
        Self(snapshots.clone(), seq)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let exporting = &mut self.0.0.reserved.lock().exporting;
        if let Some(at) = exporting.iter().position(|seq| *seq == self.1) {
            exporting.swap_remove(at);
        }
    }
}

/// A written bundle, to be recorded once it was delivered. Its snapshot is kept until then.
pub struct Exported {
    pub written: Written,
    base: Option<SnapshotId>,
    /// A holder of the base and this bundle certainly has all changes of details before this place; `None`: none.
    pub(crate) place: Option<ChangePosition>,
    /// Whether the export of the base was recorded.
    pub is_exact: bool,
    /// Whether every detail could be read.
    pub is_whole: bool,
    _hold: Hold,
}

impl Snapshots {
    /// Writes the current snapshot into an empty file: all of it, or the changes `since` a kept snapshot, whose id may
    /// be shortened. `complete`: fails unless every detail is mirrored.
    pub fn export(&self, out: &mut File, since: Option<&str>, complete: bool) -> Result<Exported, SnapshotsError> {
        let served = self.current().get();
        let served = served.ok_or_else(|| SnapshotsError::Refused("there is no snapshot to export yet".to_owned()))?;
        let hold = Hold::on(self, served.seq);
        let base = since.map(|id| self.resolve(id).and_then(|id| self.load(id.as_str()))).transpose()?;
        let before = match &base {
            Some(base) => self.store().mark(exported(&base.dataset.id))?,
            None => None,
        };
        let base = base.as_ref().map(|base| (&*base.dataset, before.map(|mark| mark.place), None));
        let exported = self.write_bundle(out, &served, base, Some(&served.dataset.evidence()), None, hold)?;
        let (mirrored, of) = (exported.written.manifest.coverage.all(), served.dataset.len() as u64);
        if complete && mirrored < of {
            return Err(SnapshotsError::Refused(format!(
                "the bundle would not be complete: {mirrored} of {of} details are mirrored. Export again when the copy is \
                 complete (`grandstand sync` fetches the rest), or without --require-complete"
            )));
        }
        Ok(exported)
    }

    /// Writes a published snapshot into an empty file, as the next link of a chain: all of it, or what a holder of the chain
    /// lacks, which ends with the snapshot of `base` and has the changes of details before its place. `keeps_evidence`:
    /// whether the chain already has the evidence. `count` is for a delta, so that its cost follows the change.
    pub(crate) fn export_link(
        &self,
        out: &mut File,
        served: &Snapshot,
        base: Option<(&SnapshotId, Digest, Option<ChangePosition>)>,
        keeps_evidence: bool,
        count: Count<'_>,
    ) -> Result<Exported, SnapshotsError> {
        let hold = Hold::on(self, served.seq);
        let base = match base {
            Some((snapshot, digest, since)) => Some((self.load(snapshot.as_str())?, digest, since)),
            None => None,
        };
        let base = base.as_ref().map(|(base, digest, since)| (&*base.dataset, Some(*since), Some(*digest)));
        let evidence = served.dataset.evidence();
        let evidence = (base.is_none() || !keeps_evidence || evidence.is_empty()).then_some(&evidence);
        self.write_bundle(out, served, base, evidence, Some(count), hold)
    }

    /// Writes a snapshot into an empty file: all of it, or the changes since `base`. `evidence`: `None` if the holder of
    /// the base has it. Details that come or go meanwhile are selected again.
    fn write_bundle(
        &self,
        out: &mut File,
        served: &Snapshot,
        base: Option<Base<'_>>,
        evidence: Option<&Evidence>,
        count: Option<Count<'_>>,
        hold: Hold,
    ) -> Result<Exported, SnapshotsError> {
        let told = self.verdicts().table().told();
        let lost = RefCell::new(Lost::new());
        let is_exact = base.is_none_or(|(_, since, _)| since.is_some());
        let mut tries = 0;
        loop {
            // Before the details are listed: those that change later come with the next delta.
            let place = self.store().epoch_place()?.filter(|_| is_exact);
            let (wanted, coverage) = self.select(&served.dataset, base, count, &lost.borrow())?;
            let export = Export {
                content: &served.dataset.content,
                meta: &served.meta,
                evidence,
                verdicts: Some(&told).filter(|told| **told != Told::default()),
                base: base.map(|(base, ..)| &base.content),
                follows: base.and_then(|(.., digest)| digest),
                coverage,
                details: counts(&wanted),
                level: bundle::LEVEL,
            };
            out.set_len(0).and_then(|()| out.rewind()).map_err(WriteError::Io)?;
            let mut buffered = BufWriter::with_capacity(1 << 18, &mut *out);
            let ids: Vec<ListingId> = wanted.iter().map(|detail| detail.id).collect();
            let read = wanted.iter().zip(self.store().details_in_turn(&ids));
            let details = read.filter_map(|(expected, (id, read))| match read {
                Ok(record) => record.map(|record| Ok((id, for_export(expected, record, &served.dataset)))),
                Err(StoreError::Damaged(detail)) => {
                    tracing::warn!(%id, detail, "a stored detail is damaged; it is missing in the bundle");
                    lost.borrow_mut().insert(id);
                    None
                }
                Err(error) => Some(Err(error)),
            });
            let written = bundle::write(&mut buffered, &export, details);
            match written {
                // A detail came or went meanwhile, or cannot be read.
                Err(WriteError::Counts { .. }) if tries + 1 < TRIES => tries += 1,
                written => {
                    let written = written?;
                    buffered.flush().map_err(WriteError::Io)?;
                    drop(buffered);
                    // Before the export is recorded: later deltas build on this file.
                    out.sync_all().map_err(WriteError::Io)?;
                    let base = base.map(|(base, ..)| base.id.clone());
                    let is_whole = self.store().damage().is_none();
                    return Ok(Exported { written, base, place, is_exact, is_whole, _hold: hold });
                }
            }
        }
    }

    /// The details for a bundle, and how many there are of the snapshot's listings.
    fn select(
        &self,
        dataset: &Dataset,
        base: Option<Base<'_>>,
        count: Option<Count<'_>>,
        lost: &Lost,
    ) -> Result<(Known, Counts), SnapshotsError> {
        let lacking = match base {
            Some((base, Some(since), _)) => Some(self.lacking(dataset, base, since, lost)?),
            _ => None,
        };
        // Counted later: details arrive meanwhile.
        if let Some((wanted, count)) = lacking.as_ref().zip(count) {
            let (all, here) = (count(dataset), counts(wanted));
            let coverage = Counts { present: all.present.max(here.present), gone: all.gone.max(here.gone) };
            return Ok((lacking.unwrap_or_default(), coverage));
        }
        let mut known = self.known(dataset, lost)?;
        let coverage = counts(&known);
        if let Some((base, None, _)) = base {
            // Its holder may lack every new or changed listing.
            let hash_in = |dataset: &Dataset, id| dataset.summary(id).map(|summary| summary.hash);
            known.retain(|detail| hash_in(base, detail.id) != hash_in(dataset, detail.id));
        }
        Ok((lacking.unwrap_or(known), coverage))
    }

    /// Records a delivered export, so that a delta can build on it. If the record cannot be written, the bundle is
    /// valid anyway.
    pub fn remember(&self, exported: Exported) -> Result<(), SnapshotsError> {
        let Exported { written, base, place, _hold, .. } = exported;
        self.remember_export(&written.manifest.snapshot, base.as_ref(), place)
    }

    /// The stored details of a data set's listings.
    fn known(&self, dataset: &Dataset, lost: &Lost) -> Result<Known, StoreError> {
        // Only what is needed of each: with all of its metadata, a million take hundreds of MiB.
        let known = self.store().detail_index(|meta| meta.exported())?;
        let mut known: Known = known.into_iter().map(|(id, hash)| ExportedDetail { id, hash }).collect();
        known.retain(|detail| dataset.position(detail.id).is_some() && !lost.contains(&detail.id));
        known.sort_unstable_by_key(|detail| detail.id);
        Ok(known)
    }
}

fn for_export(expected: &ExportedDetail, record: DetailRecord, dataset: &Dataset) -> Detail {
    let DetailRecord { meta, body } = record;
    let id = expected.id;
    let is_same = meta.exported() == expected.hash;
    // A detail is provisional if its instant is before its summary's.
    let modified_ms = dataset.modified_of(id).map(|at| at.div_euclid(1_000_000));
    let is_settled = modified_ms.is_none_or(|modified| modified <= meta.origin_time_ms);
    let is_its = dataset.summary(id).is_some_and(|summary| summary.hash == meta.summary_hash);
    let current = is_same && is_its && is_settled;
    let DetailMeta { state, etag, last_modified, .. } = meta;
    Detail { state, body, current, etag, last_modified }
}

fn counts<'a>(details: impl IntoIterator<Item = &'a ExportedDetail>) -> Counts {
    let mut counts = Counts::default();
    for detail in details {
        *(if detail.is_gone() { &mut counts.gone } else { &mut counts.present }) += 1;
    }
    counts
}

/// What a chain lacks of the details of its last snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    Nothing,
    /// Details that changed alone; or it is not known, after a repair.
    Others,
    /// Details of listings that a publication after the first has added or changed: replicas have none of them, or old ones.
    Awaited,
}

impl Snapshots {
    /// The details of a data set's listings that a holder of `base` lacks: those that have changed since, and those of
    /// listings that are not in the base, which he has dropped.
    fn lacking(
        &self,
        dataset: &Dataset,
        base: &Dataset,
        since: Option<ChangePosition>,
        lost: &Lost,
    ) -> Result<Known, SnapshotsError> {
        /// Their metadata takes some hundred bytes each.
        const PIECE: usize = 4096;
        let mut ids = self.store().details_since(since)?.ok_or(SnapshotsError::Unfollowed)?;
        if base.id != dataset.id {
            let listed = dataset.content.summaries.iter().map(|summary| summary.id);
            ids.extend(listed.filter(|id| base.position(*id).is_none()));
        }
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|id| dataset.position(*id).is_some() && !lost.contains(id));
        let mut found = Known::new();
        for some in ids.chunks(PIECE) {
            let metas = self.store().detail_metas_of(some)?;
            found.extend(metas.iter().map(|(id, meta)| ExportedDetail { id: *id, hash: meta.exported() }));
        }
        Ok(found)
    }

    /// What a holder of the chain lacks of the details of a published snapshot, with which the chain ends.
    pub(crate) fn unsent_details(&self, served: &Snapshot, end: Option<ChangePosition>) -> Result<Unsent, StoreError> {
        let Some(mut ids) = self.store().details_since(end)? else { return Ok(Unsent::Others) };
        ids.retain(|id| served.dataset.position(*id).is_some());
        let journal = self.journal();
        let is_awaited = |id: &ListingId| {
            journal
                .entries()
                .any(|entry| [&entry.added, &entry.changed].iter().any(|ids| ids.binary_search(id).is_ok()))
        };
        Ok(if ids.iter().any(is_awaited) {
            Unsent::Awaited
        } else if ids.is_empty() {
            Unsent::Nothing
        } else {
            Unsent::Others
        })
    }

    /// Keeps the newest stored copy of a snapshot and the mark of a bundle, from now on instead of those named before: the
    /// next link builds on the snapshot, and copies elsewhere on the mark.
    pub(crate) fn keep_for_chain(&self, end: Option<(SnapshotId, Digest)>) {
        self.0.reserved.lock().chained = end;
    }
}

/// Whether an export failed because nothing is known any more of what it builds on.
pub(crate) const fn lacks_base(error: &SnapshotsError) -> bool {
    matches!(error, SnapshotsError::Unknown(_) | SnapshotsError::Unfollowed)
}
