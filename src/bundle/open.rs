//! Opens a bundle: one pass that verifies everything. Content is kept in memory, details stay in the file.
//!
//! Callers: verify, inspect and import.

use std::io::{BufReader, Read, Seek};
use std::sync::Arc;

use bytes::Bytes;

use super::details::DetailReader;
use super::error::BundleError;
use super::held;
use super::manifest::{Base, Counts, Manifest};
use super::part::{Digest, Kind};
use super::parts::{Known, Part, PartReader};
use super::records::{self, Body, Reader, Validators};
use super::script::Step;
use super::{MAX_TEXT, Progress, WITH_LESSONS, WITHOUT_LESSONS};
use crate::api::edges::lesson::Learned;
use crate::api::hash::ContentHash;
use crate::api::json;
use crate::api::listing::{DetailState, ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::snapshot::content::Content;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::membership::Evidence;
use crate::snapshot::meta::SnapshotMeta;

/// A detail of a bundle without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetailHash {
    pub id: ListingId,
    /// Whether the origin has the detail.
    pub state: DetailState,
    /// Hash of the body without volatile values, as in the store; for a gone one the hash of an empty body.
    pub hash: ContentHash,
}

/// A bundle whose every part is verified.
#[derive(Debug)]
pub struct Bundle {
    format: u16,
    manifest: Manifest,
    digest: Digest,
    file_hash: blake3::Hash,
    pub(super) carried: Carried,
    evidence: Evidence,
    learned: Option<Learned>,
    details: Vec<DetailHash>,
    pub(super) parts: [Vec<Known>; 2],
}

/// The content in a bundle.
#[derive(Debug)]
pub(super) enum Carried {
    Full(Content),
    Delta(Box<Delta>),
}

/// The change from the base's content to the bundle's.
#[derive(Debug)]
pub(super) struct Delta {
    pub base: Base,
    pub envelope: Envelope,
    pub taxonomies: [Part; 3],
    pub order: Vec<Bytes>,
    pub summaries: Vec<Summary>,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.at)
    }
}

impl Bundle {
    /// Reads and verifies a whole bundle. `progress` gets bytes.
    ///
    /// # Errors
    /// For the first problem; see [`BundleError`].
    pub fn open(file: impl Read + Seek, progress: Progress<'_>) -> Result<Self, BundleError> {
        Self::open_beside(file, None, progress)
    }

    /// The same beside data in memory: equal summaries share their texts, so a bundle of almost the same data needs
    /// little memory.
    ///
    /// # Errors
    /// As for [`Bundle::open`].
    pub fn open_beside(
        file: impl Read + Seek,
        known: Option<&Dataset>,
        progress: Progress<'_>,
    ) -> Result<Self, BundleError> {
        let mut parts = PartReader::begin(BufReader::with_capacity(1 << 16, file))?;
        let manifest = read_manifest(&parts.one(Kind::Manifest)?)?;
        let envelope = read_envelope(&parts.one(Kind::Envelope)?)?;
        let is_full = manifest.base.is_none();
        let mut taxonomy = || {
            let part = parts.one(Kind::Taxonomy)?;
            // A delta has scripts here, which have no terms.
            let terms = if is_full { held::terms(part.raw.len() as u64) } else { 0 };
            parts.hold(part.at, terms).map(|()| part)
        };
        let taxonomies = [taxonomy()?, taxonomy()?, taxonomy()?];
        let order = manifest.base.as_ref().map(|base| read_order(&mut parts, &manifest, base)).transpose()?;
        let mut summaries = Vec::new();
        while let Some(part) = some(&mut parts, Kind::Summaries)? {
            let (mut reader, first) = (Reader(&part.raw), summaries.len());
            while !reader.0.is_empty() {
                parts.hold(part.at, held::SUMMARY)?;
                summaries.push(records::summary(&part.raw, &mut reader).map_err(|wrong| part.malformed(wrong))?);
            }
            if let Some(known) = known {
                share(&mut summaries[first..], known);
            }
            if summaries.len() as u64 > manifest.listings {
                agree("summaries at most", manifest.listings, summaries.len() as u64)?;
            }
            let (done, of) = parts.progress();
            progress(done, of);
        }
        let evidence = read_evidence(&mut parts)?;
        let learned = match parts.format() {
            WITHOUT_LESSONS => None,
            WITH_LESSONS => Some(read_lessons(&parts.one(Kind::Lessons)?)?),
            _ => parts.another(Kind::Lessons)?.map(|part| read_lessons(&part)).transpose()?,
        };
        let mut ids: Vec<ListingId> = summaries.iter().map(|summary| summary.id).collect();
        ids.sort_unstable();
        let twice = |pair: &[ListingId]| matches!(pair, [one, other] if one == other).then(|| pair[0]);
        if let Some(twice) = ids.windows(2).find_map(twice) {
            return Err(disagrees("copies of the summary of a listing", &1, &format!("two of listing {twice}")));
        }
        let carried = match (&manifest.base, order) {
            (Some(base), Some(order)) => {
                agree("changed or added summaries", base.added + base.changed, summaries.len() as u64)?;
                Carried::Delta(Box::new(Delta { base: base.clone(), envelope, taxonomies, order, summaries }))
            }
            _ => Carried::Full(full(&manifest, envelope, &taxonomies, summaries)?),
        };
        let listed = matches!(carried, Carried::Full(_)).then_some(&ids);
        let (details, bodies) = read_details(&mut parts, &manifest, listed.map(Vec::as_slice), progress)?;
        let digest = parts.chain();
        let validators = read_validators(&mut parts, &details, progress)?;
        read_end(&mut parts, &digest)?;
        let (done, of) = parts.progress();
        progress(done, of);
        let format = parts.format();
        let file_hash = parts.end()?;
        Ok(Self {
            format,
            manifest,
            digest,
            file_hash,
            carried,
            evidence,
            learned,
            details,
            parts: [bodies, validators],
        })
    }

    /// The format of the file.
    pub const fn format(&self) -> u16 {
        self.format
    }

    /// The manifest.
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

    /// The origin's lists for terms.
    pub const fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// What was learned of the origin's answers to odd requests; `None`: the bundle has nothing of it.
    pub(crate) const fn learned(&self) -> Option<&Learned> {
        self.learned.as_ref()
    }

    /// The certificate's record, as of a publication here; milliseconds since the epoch.
    pub fn meta(&self, published_ms: i64) -> SnapshotMeta {
        self.manifest.meta(published_ms)
    }

    /// The details, in ascending id order.
    pub fn detail_hashes(&self) -> &[DetailHash] {
        &self.details
    }

    /// Reads the details, in ascending id order, from the opened file. A change of the file ends it with an error.
    pub fn details<R: Read + Seek>(&self, file: R) -> DetailReader<'_, R> {
        DetailReader::new(&self.parts, file)
    }
}

/// The next part of a kind that may occur any number of times.
fn some<R: Read>(parts: &mut PartReader<R>, kind: Kind) -> Result<Option<Part>, BundleError> {
    match parts.another(kind)? {
        Some(part) if part.raw.is_empty() => Err(part.malformed("it is empty")),
        other => Ok(other),
    }
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

fn disagrees(what: &'static str, manifest: &impl ToString, found: &impl ToString) -> BundleError {
    BundleError::Disagrees { what, manifest: manifest.to_string(), found: found.to_string() }
}

fn agree(what: &'static str, manifest: u64, found: u64) -> Result<(), BundleError> {
    if manifest == found { Ok(()) } else { Err(disagrees(what, &manifest, &found)) }
}

fn read_manifest(part: &Part) -> Result<Manifest, BundleError> {
    Manifest::read(&part.raw).map_err(|wrong| part.malformed(wrong))
}

fn read_envelope(part: &Part) -> Result<Envelope, BundleError> {
    let envelope: Envelope = serde_json::from_slice(&part.raw).map_err(|error| part.malformed(error.to_string()))?;
    check_envelope(&envelope).map_err(|wrong| part.malformed(wrong))?;
    Ok(envelope)
}

/// The envelope is copied into answers as it is.
pub(super) fn check_envelope(envelope: &Envelope) -> Result<(), String> {
    if envelope.fields.len() > Envelope::MAX_FIELDS {
        return Err(format!("{} fields are more than an envelope has", envelope.fields.len()));
    }
    json::check(&envelope.empty_filters).map_err(|error| error.to_string())?;
    envelope.empty_numbers.check()?;
    envelope.fields.iter().try_for_each(|field| match field {
        EnvelopeField::Carried { key, value } => json::check(value).map_err(|error| format!("{key:?}: {error}")),
        _ => Ok(()),
    })
}

fn full(
    manifest: &Manifest,
    envelope: Envelope,
    taxonomies: &[Part; 3],
    summaries: Vec<Summary>,
) -> Result<Content, BundleError> {
    agree("listings", manifest.listings, summaries.len() as u64)?;
    let mut texts: [Arc<str>; 3] = Default::default();
    for (text, part) in texts.iter_mut().zip(taxonomies) {
        let read = std::str::from_utf8(&part.raw).ok().filter(|read| read.len() <= MAX_TEXT);
        *text = read.ok_or_else(|| part.malformed(format!("it is not UTF-8, or longer than {MAX_TEXT} bytes")))?.into();
    }
    let content = Content { envelope, taxonomies: texts, summaries };
    let id = content.id();
    if id == manifest.snapshot { Ok(content) } else { Err(disagrees("is the snapshot id", &manifest.snapshot, &id)) }
}

fn read_order<R: Read>(parts: &mut PartReader<R>, manifest: &Manifest, base: &Base) -> Result<Vec<Bytes>, BundleError> {
    let (mut order, mut copied, mut inserted) = (Vec::new(), 0, 0);
    while let Some(part) = some(parts, Kind::Order)? {
        let mut reader = Reader(&part.raw);
        let wrong = |wrong| part.malformed(wrong);
        while !reader.0.is_empty() {
            match Step::read(&mut reader, 8).map_err(wrong)? {
                Step::Copy { from, count } => {
                    Step::range(from, count, base.listings as usize).map_err(wrong)?;
                    copied += u64::from(count);
                }
                Step::Insert { count, .. } => inserted += u64::from(count),
            }
        }
        // So that nothing too long is built later.
        if copied + inserted > manifest.listings {
            return Err(disagrees("listings", &manifest.listings, &"more"));
        }
        order.push(part.raw);
    }
    agree("listings", manifest.listings, copied + inserted)?;
    agree("added listings", base.added, inserted)?;
    Ok(order)
}

fn read_evidence<R: Read>(parts: &mut PartReader<R>) -> Result<Evidence, BundleError> {
    let mut evidence = Evidence::new();
    while let Some(part) = some(parts, Kind::Evidence)? {
        let mut reader = Reader(&part.raw);
        while !reader.0.is_empty() {
            parts.hold(part.at, held::TERM)?;
            let (term, listed) = records::term(&mut reader).map_err(|wrong| part.malformed(wrong))?;
            if evidence.last_key_value().is_some_and(|(last, _)| *last >= term) {
                return Err(part.malformed(format!("the term {:?} is out of order", term.1)));
            }
            evidence.insert(term, listed);
        }
    }
    Ok(evidence)
}

/// Lessons are applied to answers: they are checked as if an origin had taught them.
fn read_lessons(part: &Part) -> Result<Learned, BundleError> {
    let learned: Learned = serde_json::from_slice(&part.raw).map_err(|error| part.malformed(error.to_string()))?;
    learned.check().map_err(|wrong| part.malformed(wrong))?;
    Ok(learned)
}

type Found = (Vec<DetailHash>, Vec<Known>);

fn read_details<R: Read>(
    parts: &mut PartReader<R>,
    manifest: &Manifest,
    listed: Option<&[ListingId]>,
    progress: Progress<'_>,
) -> Result<Found, BundleError> {
    let (mut details, mut known): Found = Default::default();
    let mut counts = Counts::default();
    loop {
        let before = parts.chain();
        let Some(part) = some(parts, Kind::Details)? else { break };
        let (mut reader, wrong) = (Reader(&part.raw), |wrong: String| part.malformed(wrong));
        while !reader.0.is_empty() {
            let body = Body::read(&mut reader).map_err(wrong)?;
            let (id, state, text) = (body.id, body.state, body.check().map_err(wrong)?);
            if details.last().is_some_and(|last: &DetailHash| last.id >= id) {
                return Err(wrong(format!("the detail of listing {id} is out of order")));
            }
            if listed.is_some_and(|ids| ids.binary_search(&id).is_err()) {
                return Err(wrong(format!("listing {id} is not in the snapshot")));
            }
            let hash = match state {
                DetailState::Present => {
                    counts.present += 1;
                    manifest.volatile.hash(text)
                }
                DetailState::Gone => {
                    counts.gone += 1;
                    ContentHash::default()
                }
            };
            parts.hold(part.at, held::DETAIL)?;
            details.push(DetailHash { id, state, hash });
        }
        let (done, of) = parts.progress();
        known.push(Known::of(&part, before, done));
        progress(done, of);
    }
    agree("details", manifest.details.present, counts.present)?;
    agree("details that are gone", manifest.details.gone, counts.gone)?;
    Ok((details, known))
}

fn read_validators<R: Read>(
    parts: &mut PartReader<R>,
    details: &[DetailHash],
    progress: Progress<'_>,
) -> Result<Vec<Known>, BundleError> {
    let (mut known, mut ids) = (Vec::new(), details.iter().map(|detail| detail.id));
    loop {
        let before = parts.chain();
        let Some(part) = some(parts, Kind::Validators)? else { break };
        let (mut reader, wrong) = (Reader(&part.raw), |wrong: String| part.malformed(wrong));
        while !reader.0.is_empty() {
            let id = Validators::read(&mut reader).map_err(wrong)?.id;
            if ids.next() != Some(id) {
                return Err(wrong(format!("the validators of listing {id} are out of order")));
            }
        }
        let (done, of) = parts.progress();
        known.push(Known::of(&part, before, done));
        progress(done, of);
    }
    match ids.len() {
        0 => Ok(known),
        missing => Err(disagrees("details, so many validators", &details.len(), &(details.len() - missing))),
    }
}

fn read_end<R: Read>(parts: &mut PartReader<R>, digest: &Digest) -> Result<(), BundleError> {
    let (count, raw) = parts.totals();
    let part = parts.one(Kind::End)?;
    let mut reader = Reader(&part.raw);
    let mut read = || -> Result<_, String> {
        let read = (reader.u32()?, reader.u64()?, reader.take(32)?);
        reader.end().map(|()| read)
    };
    if read().map_err(|wrong| part.malformed(wrong))? == (count, raw, digest.as_bytes().as_slice()) {
        Ok(())
    } else {
        Err(part.malformed("it is the end of another bundle"))
    }
}
