//! What a kept taxonomy or detail was made of, as one hash: where it is the same in the next epoch, so is the reply.
//!
//! Cheaper than making it again: a detail would be read from the store, a taxonomy parsed. Lists need none: they show the
//! instant for which the snapshot is confirmed, and are made anew when that moves. What has to be in here is whatever
//! [`super::render`] reads beside what never changes while the process runs. Callers: [`super::find`].

use xxhash_rust::xxh3::Xxh3Default;

use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::live::Published;

/// What nothing is made of.
pub(super) const NOTHING: u128 = 0;

/// What a taxonomy is made of.
pub(super) fn taxonomy(published: &Published, kind: TaxonomyKind) -> u128 {
    let mut hasher = common(published);
    part(&mut hasher, published.dataset.content.taxonomy(kind));
    part(&mut hasher, published.meta.origin.as_deref().unwrap_or_default());
    for (key, value) in published.meta.volatile_of(kind.path()) {
        part(&mut hasher, &key);
        part(&mut hasher, &value);
    }
    hasher.digest128().max(1)
}

/// What a detail is made of beside its record.
pub(super) fn detail(published: &Published) -> u128 {
    common(published).digest128().max(1)
}

/// The licence is a link, and what is volatile takes no part in the tag.
fn common(published: &Published) -> Xxh3Default {
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
