//! Opening of a bundle: one pass that verifies everything. Content is kept in memory, details stay in the file, and are read
//! again to store them: each part must equal the verified one.
//!
//! Callers: verify, inspect and import.

use std::collections::HashSet;
use std::io::{BufReader, Read, Seek};
use std::sync::Arc;

use bytes::Bytes;

use super::delta::{Delta, ScriptStep, lead_astray};
use super::manifest::{Counts, Manifest};
use super::part::{PartKind, most_memory};
use super::parts::{self, PartReader, PartSeal, UnpackedPart};
use super::records::Records;
use super::{BundleError, FORMAT, MAX_TEXT, Progress};
use crate::api::hash::Digest;
use crate::api::listing::{DetailState, ListingId, Summary};
use crate::api::page::Envelope;
use crate::api::taxonomy;
use crate::data::snapshot::content::{Content, SnapshotId};
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;

/// A detail as it travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    pub state: DetailState,
    /// The body as the origin sent it; empty if gone. After reading: a slice of about a MiB.
    pub body: Bytes,
    /// Whether it was fetched for this summary, and is not provisional.
    pub current: bool,
    /// The origin's entity tag, as sent.
    pub etag: Option<String>,
    /// The origin's `Last-Modified`, as sent.
    pub last_modified: Option<String>,
}

/// A bundle whose every part is verified.
#[derive(Debug)]
pub struct Bundle {
    format: u16,
    manifest: Manifest,
    digest: Digest,
    file_hash: blake3::Hash,
    carried: Carried,
    evidence: Evidence,
    /// The listings of its details, ascending.
    details: Vec<ListingId>,
    /// The parts of details: bodies, and validators.
    pub(super) parts: [Vec<PartSeal>; 2],
    /// What it takes of memory, in bytes.
    held: u64,
}

/// The content in a bundle.
#[derive(Debug)]
enum Carried {
    Full(Content),
    Delta(Box<Delta>),
}

impl Bundle {
    /// Reads and verifies a whole bundle. `progress` gets bytes.
    pub fn open(file: impl Read + Seek, progress: Progress<'_>) -> Result<Self, BundleError> {
        Self::open_beside(file, None, progress)
    }

    /// The same beside data in memory: equal summaries share their texts, so a bundle of almost the same data needs
    /// little memory.
    pub fn open_beside(
        file: impl Read + Seek,
        known: Option<&Dataset>,
        progress: Progress<'_>,
    ) -> Result<Self, BundleError> {
        let mut parts = PartReader::begin(BufReader::with_capacity(1 << 16, file), progress)?;
        let part = parts.one(PartKind::Manifest)?;
        let manifest = Manifest::read(&part.raw).map_err(|wrong| part.malformed(wrong))?;
        parts.is_full = manifest.base.is_none();
        let envelope = parsed(&parts.one(PartKind::Envelope)?, Envelope::check)?;
        let mut taxonomy = || parts.one(PartKind::Taxonomy);
        let taxonomies = [taxonomy()?, taxonomy()?, taxonomy()?];
        let order = read_order(&mut parts, &manifest)?;
        let summaries = read_summaries(&mut parts, &manifest, known)?;
        let evidence = if manifest.keeps_evidence { Evidence::new() } else { read_evidence(&mut parts)? };
        // Formats 2 to 4 may have what the program learned of odd requests. Verdicts took its place.
        if parts.format < FORMAT {
            parts.another(PartKind::Lessons)?;
        }
        let mut ids: Vec<ListingId> = summaries.iter().map(|summary| summary.id).collect();
        ids.sort_unstable();
        let mut pairs = ids.iter().zip(ids.iter().skip(1));
        if let Some((twice, _)) = pairs.find(|(one, other)| one == other) {
            let found = format!("two of listing {twice}");
            return Err(BundleError::disagrees("copies of the summary of a listing", &1, &found));
        }
        let carried = match &manifest.base {
            Some(base) => {
                agree("changed or added summaries", base.added + base.changed, summaries.len() as u64)?;
                Carried::Delta(Box::new(Delta { base: base.snapshot.clone(), envelope, taxonomies, order, summaries }))
            }
            None => Carried::Full(full(&manifest, envelope, &taxonomies, summaries)?),
        };
        let (details, bodies) = read_details(&mut parts, &manifest, &ids)?;
        let digest = parts.chain;
        let validators = read_validators(&mut parts, &details)?;
        read_end(&mut parts, &digest)?;
        Ok(Self {
            format: parts.format,
            held: parts.held,
            file_hash: parts.end()?,
            manifest,
            digest,
            carried,
            evidence,
            details,
            parts: [bodies, validators],
        })
    }

    pub const fn format(&self) -> u16 {
        self.format
    }

    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The hash of everything but the origin's validators.
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// BLAKE3 of the file, to compare with the signed file.
    pub const fn file_hash(&self) -> blake3::Hash {
        self.file_hash
    }

    /// The limit, in bytes of memory, that bundles in files of so many bytes exceed together, although each keeps its own.
    pub(crate) fn exceeded<'a>(bundles: impl IntoIterator<Item = &'a Self>, files: u64) -> Option<u64> {
        let most = most_memory(files);
        let held = bundles.into_iter().map(|bundle| bundle.held).fold(0, u64::saturating_add);
        (held > most).then_some(most)
    }

    /// The content of a full bundle; `None`: a delta.
    pub const fn content(&self) -> Option<&Content> {
        match &self.carried {
            Carried::Full(content) => Some(content),
            Carried::Delta(_) => None,
        }
    }

    /// The manifest, the content of a full bundle, and the evidence.
    pub fn into_content(self) -> (Manifest, Option<Content>, Evidence) {
        let content = match self.carried {
            Carried::Full(content) => Some(content),
            Carried::Delta(_) => None,
        };
        (self.manifest, content, self.evidence)
    }

    /// The origin's lists for terms: the bundle's own, or those of its base, which then hold for the bundle's snapshot,
    /// too. `base`: the evidence of the base.
    pub fn evidence_over(&self, mut base: Evidence) -> Evidence {
        let Some(before) = self.base().filter(|_| self.manifest.keeps_evidence) else { return self.evidence.clone() };
        for listed in base.values_mut().filter(|listed| listed.snapshot == before.as_str()) {
            self.manifest.snapshot.as_str().clone_into(&mut listed.snapshot);
        }
        base
    }

    /// The certificate's record, as of a publication here; milliseconds since the epoch.
    pub fn meta(&self, published_ms: i64) -> SnapshotMeta {
        self.manifest.meta(published_ms)
    }

    /// The listings whose details are in it, ascending.
    pub fn detail_ids(&self) -> &[ListingId] {
        &self.details
    }

    /// The base of a delta; `None`: it is full.
    pub fn base(&self) -> Option<&SnapshotId> {
        self.manifest.base.as_ref().map(|base| &base.snapshot)
    }

    /// The bundle's content: its own if it is full (the base is ignored), else the result of the delta.
    pub fn content_over(&self, base: Option<&Content>) -> Result<Content, BundleError> {
        let delta = match &self.carried {
            Carried::Full(content) => return Ok(content.clone()),
            Carried::Delta(delta) => delta,
        };
        let needed = delta.base.clone();
        let Some(base) = base else { return Err(BundleError::NeedsBase { needed }) };
        let given = base.id();
        if needed != given {
            return Err(BundleError::WrongBase { needed, given });
        }
        let content = delta.content(base)?;
        let found = content.id();
        if found != self.manifest.snapshot {
            return Err(lead_astray(&self.manifest.snapshot, &found));
        }
        for text in &content.taxonomies {
            taxonomy::terms(text).map_err(|error| lead_astray(&"an index of terms", &error))?;
        }
        let ids: HashSet<ListingId> = content.summaries.iter().map(|summary| summary.id).collect();
        match self.details.iter().find(|id| !ids.contains(id)) {
            None => Ok(content),
            Some(id) => Err(lead_astray(&"only details of its listings", &format!("one of listing {id}"))),
        }
    }

    /// Reads the details, in ascending id order, from the opened file. A change of the file ends it with an error.
    pub fn details<'a>(
        &'a self,
        mut file: impl Read + Seek + 'a,
    ) -> impl Iterator<Item = Result<(ListingId, Detail), BundleError>> + 'a {
        let [bodies, validators] = &self.parts;
        let (mut bodies, mut validators) = (RecordStream::over(bodies), RecordStream::over(validators));
        let mut failed = false;
        std::iter::from_fn(move || {
            let next = if failed { None } else { next_detail(&mut file, &mut bodies, &mut validators).transpose() };
            failed = matches!(next, Some(Err(_)));
            next
        })
    }
}

fn next_detail(
    file: &mut (impl Read + Seek),
    bodies: &mut RecordStream<'_>,
    validators: &mut RecordStream<'_>,
) -> Result<Option<(ListingId, Detail)>, BundleError> {
    let body = bodies.next(file, |part, records| {
        let body = records.body()?;
        Ok((body.id, body.state, part.raw.slice_ref(body.text)))
    })?;
    let Some((id, state, body)) = body else { return Ok(None) };
    let detail = validators.next(file, |_, records| {
        let read = records.validators()?;
        let (etag, last_modified) = (read.etag.map(str::to_owned), read.last_modified.map(str::to_owned));
        Ok(Detail { state, body: body.clone(), current: read.current, etag, last_modified })
    })?;
    // The number was the same at verification.
    detail.map_or(Err(BundleError::Changed), |detail| Ok(Some((id, detail))))
}

/// The records of parts of one kind.
struct RecordStream<'a> {
    left: &'a [PartSeal],
    part: Option<UnpackedPart>,
    /// The position in the part.
    at: usize,
}

impl<'a> RecordStream<'a> {
    const fn over(left: &'a [PartSeal]) -> Self {
        Self { left, part: None, at: 0 }
    }

    fn next<T>(
        &mut self,
        file: &mut (impl Read + Seek),
        read: impl FnOnce(&UnpackedPart, &mut Records<'_>) -> Result<T, BundleError>,
    ) -> Result<Option<T>, BundleError> {
        if self.part.as_ref().is_none_or(|part| self.at == part.raw.len()) {
            let Some((seal, left)) = self.left.split_first() else { return Ok(None) };
            // Drops the old part first.
            self.part = None;
            self.part = Some(parts::again(file, seal)?);
            (self.left, self.at) = (left, 0);
        }
        let Some(part) = &self.part else { return Ok(None) };
        let mut records = part.records(self.at);
        let record = read(part, &mut records)?;
        self.at = part.raw.len() - records.rest.len();
        Ok(Some(record))
    }
}

/// A part that is JSON, checked.
fn parsed<T: serde::de::DeserializeOwned>(
    part: &UnpackedPart,
    check: impl FnOnce(&T) -> Result<(), String>,
) -> Result<T, BundleError> {
    let value = serde_json::from_slice(&part.raw).map_err(|error| part.malformed(error.to_string()))?;
    check(&value).map(|()| value).map_err(|wrong| part.malformed(wrong))
}

fn agree(what: &'static str, manifest: u64, found: u64) -> Result<(), BundleError> {
    if manifest == found { Ok(()) } else { Err(BundleError::disagrees(what, &manifest, &found)) }
}

fn full(
    manifest: &Manifest,
    envelope: Envelope,
    taxonomies: &[UnpackedPart; 3],
    summaries: Vec<Summary>,
) -> Result<Content, BundleError> {
    agree("listings", manifest.listings, summaries.len() as u64)?;
    let mut texts: [Arc<str>; 3] = Default::default();
    for (text, part) in texts.iter_mut().zip(taxonomies) {
        let read = std::str::from_utf8(&part.raw).ok().filter(|read| read.len() <= MAX_TEXT);
        let read = read.ok_or_else(|| part.malformed(format!("it is not UTF-8, or longer than {MAX_TEXT} bytes")))?;
        taxonomy::terms(read).map_err(|error| part.malformed(error.to_string()))?;
        *text = read.into();
    }
    let content = Content { envelope, taxonomies: texts, summaries };
    let id = content.id();
    if id == manifest.snapshot {
        Ok(content)
    } else {
        Err(BundleError::disagrees("is the snapshot id", &manifest.snapshot, &id))
    }
}

fn read_order<R: Read>(parts: &mut PartReader<'_, R>, manifest: &Manifest) -> Result<Vec<UnpackedPart>, BundleError> {
    let Some(base) = &manifest.base else { return Ok(Vec::new()) };
    let (mut order, mut copied, mut inserted) = (Vec::new(), 0, 0);
    parts.each(PartKind::Order, |part, records| {
        match ScriptStep::read(records, 8, base.listings as usize)? {
            ScriptStep::Copy(range) => copied += range.len() as u64,
            ScriptStep::Insert(count, _) => inserted += u64::from(count),
        }
        // So that nothing too long is built later.
        if copied + inserted > manifest.listings {
            return Err(BundleError::disagrees("listings", &manifest.listings, &"more"));
        }
        if records.rest.is_empty() {
            order.push(part.clone());
        }
        Ok(())
    })?;
    agree("listings", manifest.listings, copied + inserted)?;
    agree("added listings", base.added, inserted)?;
    Ok(order)
}

fn read_summaries<R: Read>(
    parts: &mut PartReader<'_, R>,
    manifest: &Manifest,
    known: Option<&Dataset>,
) -> Result<Vec<Summary>, BundleError> {
    let (mut summaries, mut first) = (Vec::new(), 0);
    parts.each(PartKind::Summaries, |part, records| {
        summaries.push(records.summary(&part.raw)?);
        if !records.rest.is_empty() {
            return Ok(());
        }
        if let Some(known) = known {
            share(&mut summaries[first..], known);
        }
        first = summaries.len();
        let most = manifest.listings.max(first as u64);
        agree("summaries at most", manifest.listings, most)
    })?;
    Ok(summaries)
}

/// Takes the texts of the summaries of a part from known equal ones. If most are known, the others get texts of their
/// own, so that the part does not stay in memory for them.
fn share(summaries: &mut [Summary], known: &Dataset) {
    let mut new = Vec::new();
    for (at, summary) in summaries.iter_mut().enumerate() {
        match known.summary(summary.id).filter(|known| known.raw == summary.raw) {
            Some(known) => summary.raw = known.raw.clone(),
            None => new.push(at),
        }
    }
    if new.len() * 2 < summaries.len() {
        for at in new {
            summaries[at] = summaries[at].detached();
        }
    }
}

fn read_evidence<R: Read>(parts: &mut PartReader<'_, R>) -> Result<Evidence, BundleError> {
    let mut evidence = Evidence::new();
    parts.each(PartKind::Evidence, |part, records| {
        let (term, listed) = records.term()?;
        if evidence.last_key_value().is_some_and(|(last, _)| *last >= term) {
            return Err(part.malformed(format!("the term {:?} is out of order", term.1)));
        }
        evidence.insert(term, listed);
        Ok(())
    })?;
    Ok(evidence)
}

/// `listed`: the ids of the bundle's summaries, ascending.
fn read_details<R: Read>(
    parts: &mut PartReader<'_, R>,
    manifest: &Manifest,
    listed: &[ListingId],
) -> Result<(Vec<ListingId>, Vec<PartSeal>), BundleError> {
    let (mut details, mut counts): (Vec<ListingId>, Counts) = Default::default();
    let seals = parts.each(PartKind::Details, |part, records| {
        let body = records.body()?;
        let id = body.id;
        body.check().map_err(|wrong| part.malformed(wrong))?;
        if details.last().is_some_and(|last| *last >= id) {
            return Err(part.malformed(format!("the detail of listing {id} is out of order")));
        }
        if manifest.base.is_none() && listed.binary_search(&id).is_err() {
            return Err(part.malformed(format!("listing {id} is not in the snapshot")));
        }
        counts.add(body.state);
        details.push(id);
        Ok(())
    })?;
    agree("details", manifest.details.present, counts.present)?;
    agree("details that are gone", manifest.details.gone, counts.gone)?;
    Ok((details, seals))
}

fn read_validators<R: Read>(
    parts: &mut PartReader<'_, R>,
    details: &[ListingId],
) -> Result<Vec<PartSeal>, BundleError> {
    let mut ids = details.iter().copied();
    let seals = parts.each(PartKind::Validators, |part, records| match records.validators()?.id {
        id if ids.next() == Some(id) => Ok(()),
        id => Err(part.malformed(format!("the validators of listing {id} are out of order"))),
    })?;
    match ids.len() {
        0 => Ok(seals),
        missing => {
            Err(BundleError::disagrees("details, so many validators", &details.len(), &(details.len() - missing)))
        }
    }
}

fn read_end<R: Read>(parts: &mut PartReader<'_, R>, digest: &Digest) -> Result<(), BundleError> {
    let totals = (parts.count, parts.raw, digest.0);
    let part = parts.one(PartKind::End)?;
    let mut records = part.records(0);
    let end = (records.u32()?, records.u64()?, records.array()?);
    match records.rest.len() {
        0 if end == totals => Ok(()),
        0 => Err(part.malformed("it is the end of another bundle")),
        more => Err(part.malformed(format!("{more} bytes follow the last record"))),
    }
}
