//! Writer of bundles: the same input gives the same bytes. It writes nothing that a reader would refuse.
//!
//! In memory: one part of each kind, and the packed validators of all details, some tens of bytes for each. Callers:
//! exports.

use std::io::Write;

use super::manifest::{self, Base, Counts, Manifest};
use super::part::{PartKind, most_memory, most_unpacked};
use super::parts::{PART, PartWriter};
use super::records::{self, RecordBody, Validators};
use super::{Detail, MAX_TEXT, WriteError, delta, unwritable};
use crate::api::form::ListForm;
use crate::api::hash::{ContentHash, Digest};
use crate::api::listing::{ListingId, Summary};
use crate::data::fields::put_text;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::data::snapshot::verdicts::told::Told;

/// The content to write, without the details.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Export<'a> {
    pub content: &'a Content,
    /// Its certificate; `published_ms` is left out.
    pub meta: &'a SnapshotMeta,
    /// The origin's lists for terms; `None`: those that came with the base.
    pub evidence: Option<&'a Evidence>,
    /// What requests mean at the origin; `None`: nothing is known.
    pub verdicts: Option<&'a Told>,
    /// The base of a delta; `None`: a full bundle.
    pub base: Option<&'a Content>,
    /// As [`Base::digest`].
    pub follows: Option<Digest>,
    /// Number of stored details of the snapshot's listings.
    pub coverage: Counts,
    /// How many of them are to be written: all, but for a delta.
    pub details: Counts,
    /// Of compression.
    pub level: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub manifest: Manifest,
    pub digest: Digest,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Writes a bundle. `details` are in ascending id order.
pub(crate) fn write<W: Write, E>(
    out: W,
    export: &Export<'_>,
    details: impl IntoIterator<Item = Result<(ListingId, Detail), E>>,
) -> Result<Written, WriteError<E>> {
    let mut parts = PartWriter::begin(out, export.level, export.base.is_none())?;
    let before = export.base.map(Hashes::of);
    let manifest = manifest_of(export, before.as_ref());
    manifest.check().map_err(|why| unwritable("the manifest", why))?;
    parts.json(PartKind::Manifest, &manifest)?;
    content(&mut parts, export, before.as_ref())?;
    drop(before);
    for (term, listed) in export.evidence.into_iter().flatten() {
        let mut record = Vec::new();
        records::put_term(&mut record, term, listed);
        parts.push(PartKind::Evidence, &record, || format!("what the origin listed for {:?}", term.1))?;
    }
    parts.flush(PartKind::Evidence)?;
    let validators = write_details(&mut parts, export, details)?;
    let digest = parts.chain;
    for (raw, packed) in validators {
        parts.packed(PartKind::Validators, raw, &packed)?;
    }
    let end = [&parts.count.to_le_bytes()[..], &parts.raw.to_le_bytes(), &digest.0].concat();
    parts.part(PartKind::End, &end)?;
    if parts.raw > most_unpacked(parts.bytes) {
        return Err(unwritable("the bundle", format!("{} bytes would unpack to {}", parts.bytes, parts.raw)));
    }
    if parts.held > most_memory(parts.bytes) {
        let why = format!("{} bytes would take {} bytes of memory", parts.bytes, parts.held);
        return Err(unwritable("the bundle", why));
    }
    parts.out.flush()?;
    Ok(Written { manifest, digest, bytes: parts.bytes })
}

fn manifest_of(export: &Export<'_>, before: Option<&Hashes>) -> Manifest {
    let Export { content, meta, .. } = *export;
    let base = export.base.zip(before).map(|(base, before)| {
        let (mut added, mut changed) = (0, 0);
        for summary in &content.summaries {
            match before.get(summary.id) {
                None => added += 1,
                Some(hash) => changed += u64::from(hash != summary.hash),
            }
        }
        let listings = base.summaries.len() as u64;
        let removed = (listings + added).saturating_sub(content.summaries.len() as u64);
        Base { snapshot: base.id(), listings, added, changed, removed, digest: export.follows }
    });
    Manifest {
        program: concat!("grandstand ", env!("CARGO_PKG_VERSION")).to_owned(),
        snapshot: content.id(),
        listings: content.summaries.len() as u64,
        base,
        certificate: meta.certificate,
        confirmed_ms: meta.confirmed_ms,
        coverage: export.coverage,
        details: export.details,
        origin: export.meta.origin.clone(),
        license: manifest::told(content, "license"),
        attribution: manifest::told(content, "attribution"),
        volatile: meta.volatile.clone(),
        volatile_values: meta.volatile_values.clone(),
        left_out: meta.left_out.clone(),
        open_points: meta.open_points.clone(),
        disproved: None,
        verdicts: export.verdicts.cloned(),
        form: (meta.form != ListForm::default()).then(|| meta.form.clone()),
        keeps_evidence: export.evidence.is_none(),
    }
}

/// The hashes of the summaries of a base, by id: a million in half the memory of a hash table.
struct Hashes(Vec<(ListingId, ContentHash)>);

impl Hashes {
    fn of(content: &Content) -> Self {
        let mut hashes: Vec<_> = content.summaries.iter().map(|summary| (summary.id, summary.hash)).collect();
        hashes.sort_unstable_by_key(|(id, _)| *id);
        Self(hashes)
    }

    fn get(&self, id: ListingId) -> Option<ContentHash> {
        self.0.binary_search_by_key(&id, |(id, _)| *id).ok().map(|found| self.0[found].1)
    }
}

fn content<W: Write, E>(
    parts: &mut PartWriter<W>,
    export: &Export<'_>,
    before: Option<&Hashes>,
) -> Result<(), WriteError<E>> {
    let Export { content, base, .. } = *export;
    content.envelope.check().map_err(|why| unwritable("the envelope", why))?;
    parts.json(PartKind::Envelope, &content.envelope)?;
    for (n, text) in content.taxonomies.iter().enumerate() {
        if text.len() > MAX_TEXT {
            return Err(unwritable("a taxonomy", format!("{} bytes are too much", text.len())));
        }
        match base {
            None => parts.part(PartKind::Taxonomy, text.as_bytes())?,
            Some(base) => parts.part(PartKind::Taxonomy, &delta::text(&base.taxonomies[n], text))?,
        }
    }
    if listed(content).windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(unwritable("the snapshot", "it has a listing twice"));
    }
    if let Some(base) = base {
        let mut result = Ok(());
        delta::order(&base.summaries, &content.summaries, |step| {
            let mut record = Vec::new();
            step.put(&mut record);
            if result.is_ok() {
                result = parts.push(PartKind::Order, &record, || "the order".to_owned());
            }
        });
        result?;
        parts.flush(PartKind::Order)?;
    }
    let is_known = |summary: &Summary| before.and_then(|before| before.get(summary.id)) == Some(summary.hash);
    for summary in content.summaries.iter().filter(|summary| !is_known(summary)) {
        let name = || format!("the summary of listing {}", summary.id);
        records::check_summary(summary).map_err(|why| unwritable(name(), why))?;
        let mut record = Vec::with_capacity(4 + summary.raw.len());
        put_text(&mut record, &summary.raw);
        parts.push(PartKind::Summaries, &record, name)?;
    }
    Ok(parts.flush(PartKind::Summaries)?)
}

/// The ids of all listings, ascending.
fn listed(content: &Content) -> Vec<ListingId> {
    let mut listed: Vec<ListingId> = content.summaries.iter().map(|summary| summary.id).collect();
    listed.sort_unstable();
    listed
}

/// Compressed parts, with their raw lengths.
type Packed = Vec<(u32, Vec<u8>)>;

fn write_details<W: Write, E>(
    parts: &mut PartWriter<W>,
    export: &Export<'_>,
    details: impl IntoIterator<Item = Result<(ListingId, Detail), E>>,
) -> Result<Packed, WriteError<E>> {
    let mut listed = listed(export.content).into_iter();
    let (mut validators, mut packed, mut counts) = (Vec::new(), Packed::new(), Counts::default());
    for detail in details {
        let (id, Detail { state, body, current, etag, last_modified }) = detail.map_err(WriteError::Details)?;
        if !listed.any(|listed| listed == id) {
            return Err(WriteError::OutOfTurn(id));
        }
        let name = || format!("the detail of listing {id}");
        let body = RecordBody { id, state, text: &body };
        let own = Validators { id, current, etag: etag.as_deref(), last_modified: last_modified.as_deref() };
        body.check().and_then(|_| own.check()).map_err(|why| unwritable(name(), why))?;
        let mut record = Vec::with_capacity(16 + body.text.len());
        body.put(&mut record);
        parts.push(PartKind::Details, &record, name)?;
        let start = validators.len();
        own.put(&mut validators);
        if validators.len() > PART && start > 0 {
            let last = validators.split_off(start);
            packed.push((validators.len() as u32, parts.packer.compress(&validators)?));
            validators = last;
        }
        counts.add(state);
    }
    parts.flush(PartKind::Details)?;
    if !validators.is_empty() {
        packed.push((validators.len() as u32, parts.packer.compress(&validators)?));
    }
    if counts == export.details {
        return Ok(packed);
    }
    let told = |counts: Counts| format!("{} present and {} gone", counts.present, counts.gone);
    Err(WriteError::Counts { announced: told(export.details), found: told(counts) })
}
