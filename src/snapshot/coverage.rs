//! What an answer from the snapshot relies on: the assumptions that a query uses, and how an answer of the origin agrees
//! with the snapshot.
//!
//! Pure. It does not know terms in doubt; [`crate::snapshot::dataset`] does. Callers: [`crate::answer`] before it
//! answers, [`crate::audit`] before it compares and when it has found a difference, [`crate::mirror`] when it asks what
//! filters mean.

use std::collections::HashSet;

use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::api::taxonomy::TaxonomyKind;
use crate::snapshot::dataset::Dataset;
use crate::snapshot::meta::{Assumption, SnapshotMeta};

/// How a value of `modified_since` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Date,
    /// A time without offset.
    Local,
    /// A time with an offset, or `Z`.
    Zoned,
}

impl Written {
    fn of(text: &str) -> Self {
        // The date has hyphens, too. A space after the time is the `+` of an offset.
        let Some((_, time)) = text.trim().split_once(['T', 't', ' ']) else { return Self::Date };
        if time.contains(['Z', 'z', '+', '-', ' ']) { Self::Zoned } else { Self::Local }
    }
}

/// The assumptions that the answer to a query uses, in ascending order.
pub(crate) fn used_by(query: &ListQuery) -> Vec<Assumption> {
    let slugs = TaxonomyKind::ALL.into_iter().filter(|kind| query.slug(*kind).is_some());
    let mut used: Vec<Assumption> = slugs.map(Assumption::heeded).collect();
    if let Some(since) = &query.modified_since {
        used.extend([Assumption::SinceHeeded, Assumption::Strict]);
        used.extend(match Written::of(&since.text) {
            Written::Date => &[Assumption::Midnight][..],
            Written::Local => &[Assumption::Offset, Assumption::Time],
            Written::Zoned => &[Assumption::Time],
        });
    }
    if query.filters().count() > 1 {
        used.push(Assumption::And);
    }
    if query.is_filtered() {
        used.push(Assumption::Order);
    }
    used.sort_unstable();
    used
}

/// The first assumption that the answer to a query uses although the origin's answers speak against it; `None`: the
/// snapshot may answer.
pub(crate) fn disproved_for(meta: &SnapshotMeta, query: &ListQuery) -> Option<Assumption> {
    let disproved = meta.disproved.as_deref().unwrap_or_default();
    if disproved.is_empty() && meta.suspected.is_empty() {
        return None;
    }
    used_by(query).into_iter().find(|one| disproved.contains(one) || meta.suspected.contains(one))
}

/// Whether the answer to a query uses an assumption that the origin's answers speak against.
pub(crate) fn relies_on_disproved(meta: &SnapshotMeta, query: &ListQuery) -> bool {
    disproved_for(meta, query).is_some()
}

/// How an answer of the origin agrees with the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// Same total, same ids, same order.
    Whole,
    /// The same listings, as far as one page shows, in another order.
    ButOrder,
    /// Another total, or other listings.
    None,
}

/// Compares total and ids of an answer with the snapshot's; `None`: the snapshot cannot answer the query.
pub(crate) fn agreement(dataset: &Dataset, query: &ListQuery, total: u64, ids: &[ListingId]) -> Option<Agreement> {
    let found = dataset.find(query).ok()?;
    if found.total != total || found.items.len() != ids.len() {
        return Some(Agreement::None);
    }
    if found.items.iter().map(|item| &item.id).eq(ids) {
        return Some(Agreement::Whole);
    }
    let mut left: HashSet<ListingId> = ids.iter().copied().collect();
    if left.len() != ids.len() {
        return Some(Agreement::None);
    }
    for page in 1..=query.total_pages(total) {
        for item in dataset.find(&query.with_page(page)).ok()?.items {
            left.remove(&item.id);
        }
        if left.is_empty() {
            return Some(Agreement::ButOrder);
        }
    }
    Some(Agreement::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::query::Parameters;

    #[test]
    fn a_query_uses_what_its_filters_and_their_spelling_need() {
        use Assumption::{
            And, CityHeeded, Midnight, Offset, Order, SinceHeeded, SportHeeded, StateHeeded, Strict, Time,
        };
        for (query, expected) in [
            ("", &[][..]),
            ("page=2&per_page=7", &[]),
            ("sport=golf", &[SportHeeded, Order]),
            ("state=ohio", &[StateHeeded, Order]),
            ("city=a&sport=golf", &[SportHeeded, CityHeeded, And, Order]),
            ("modified_since=2025-06-01", &[SinceHeeded, Strict, Midnight, Order]),
            ("modified_since=2025-06-01T00:00:00", &[SinceHeeded, Strict, Offset, Time, Order]),
            ("modified_since=2025-06-01 00:00:00", &[SinceHeeded, Strict, Offset, Time, Order]),
            ("modified_since=2025-06-01T00:00:00Z", &[SinceHeeded, Strict, Time, Order]),
            ("modified_since=2025-06-01T00:00:00-05:00", &[SinceHeeded, Strict, Time, Order]),
            ("modified_since=2025-06-01T00:00:00+05:00", &[SinceHeeded, Strict, Time, Order]),
            ("state=ohio&modified_since=2025-06-01", &[StateHeeded, SinceHeeded, And, Strict, Midnight, Order]),
        ] {
            assert_eq!(used_by(&Parameters::parse(query).unwrap().list), expected, "{query}");
        }
    }

    #[test]
    fn a_query_that_uses_what_is_disproved_or_suspected_is_not_answered() {
        let dates = Parameters::parse("modified_since=2025-06-01").unwrap().list;
        let times = Parameters::parse("modified_since=2025-06-01T00:00:00Z").unwrap().list;
        let mut meta = SnapshotMeta::full(1);
        assert_eq!(disproved_for(&meta, &dates), None, "not asked yet");
        assert!(meta.disprove(&[Assumption::Midnight]) && !meta.disprove(&[Assumption::Midnight]));
        assert_eq!(disproved_for(&meta, &dates), Some(Assumption::Midnight));
        assert_eq!(disproved_for(&meta, &times), None);
        meta.suspected = vec![Assumption::Time];
        assert_eq!(disproved_for(&meta, &times), Some(Assumption::Time));
        assert!(!meta.unproved().any(|one| one == Assumption::Midnight) && meta.unproved().count() == 9);
    }
}
