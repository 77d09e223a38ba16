//! The offer: the current snapshot in the form in which the plan compares it, and its journal.
//!
//! Blocks: it hashes evidence and journal. Callers: [`super`].

use super::plan::Offer;
use crate::fleet::journal;
use crate::fleet::keys::Digest;
use crate::snapshot::pointer::Snapshot;
use crate::snapshots::Snapshots;

/// The offer, and the file of its journal.
pub(super) fn of(snapshots: &Snapshots, served: &Snapshot) -> (Offer, Vec<u8>) {
    let snapshot = &served.dataset.id;
    let journal = journal::encode(&snapshots.journal(), snapshot);
    let offer = Offer {
        snapshot: snapshot.clone(),
        content: content(served),
        certificate: served.meta.certificate,
        confirmed_ms: served.meta.confirmed_ms,
        journal: blake3::hash(&journal).into(),
    };
    (offer, journal)
}

/// A hash of what a bundle of this snapshot carries: not details, which are compared one by one; not the confirmation,
/// which the head carries; not the last values of volatile fields, which go along with the next bundle.
fn content(served: &Snapshot) -> Digest {
    let meta = &served.meta;
    let mut hasher = blake3::Hasher::new();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(served.dataset.id.as_str().as_bytes());
    let told = (&meta.volatile, &meta.left_out, &meta.open_points, &meta.disproved, &meta.origin);
    // Texts always have a JSON form.
    part(&serde_json::to_vec(&told).unwrap_or_default());
    for ((taxonomy, slug), listed) in &served.dataset.evidence() {
        part(&[taxonomy.index() as u8]);
        part(slug.as_bytes());
        part(listed.snapshot.as_bytes());
        part(&listed.fingerprint);
        let mut ids: Vec<u64> = listed.ids.iter().map(|id| id.0).collect();
        ids.sort_unstable();
        part(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>());
    }
    hasher.finalize().into()
}
