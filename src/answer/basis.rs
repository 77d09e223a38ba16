//! One hash over the inputs of a cached taxonomy or detail: if a new snapshot has the same, the reply stays right.
//!
//! This is cheaper than rendering again: a detail would be read from the store, a taxonomy parsed. Lists need no hash:
//! they show the instant for which the snapshot is confirmed, and are rendered again when it changes. The hash must
//! have everything that [`super::render`] reads, except what never changes while the process runs. Callers:
//! [`super::find`].

use xxhash_rust::xxh3::Xxh3Default;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::pointer::Snapshot;

/// No reply has this hash.
pub(super) const NOTHING: u128 = 0;

/// The inputs of a taxonomy.
pub(super) fn taxonomy(published: &Snapshot, kind: TaxonomyKind) -> u128 {
    let mut hasher = common(published);
    part(&mut hasher, published.dataset.content.taxonomy(kind));
    part(&mut hasher, published.meta.origin.as_deref().unwrap_or_default());
    for (key, value) in published.meta.volatile_of(kind.path()) {
        part(&mut hasher, &key);
        part(&mut hasher, &value);
    }
    hasher.digest128().max(1)
}

/// The inputs of a detail, except its record.
pub(super) fn detail(published: &Snapshot) -> u128 {
    common(published).digest128().max(1)
}

/// The licence is in `Link`, and volatile fields take no part in the tag.
fn common(published: &Snapshot) -> Xxh3Default {
    let mut hasher = Xxh3Default::new();
    part(&mut hasher, published.license.as_deref().unwrap_or_default());
    for key in published.meta.volatile.iter() {
        part(&mut hasher, key);
    }
    part(&mut hasher, "");
    hasher
}

/// Where one part ends and the next begins is part of the hash.
fn part(hasher: &mut Xxh3Default, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes());
    hasher.update(text.as_bytes());
}
