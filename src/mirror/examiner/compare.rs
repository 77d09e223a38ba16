//! Comparison of an answer of the origin with ours: first the rows, then the meaning of the query.
//!
//! Pure. Callers: [`super::asked`].

use std::collections::HashSet;

use crate::api::listing::{ListingId, Summary};
use crate::api::query::ListQuery;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::seconds::Cut;

/// How an answer agrees with the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// Same total, same ids, same order.
    Whole,
    /// The same listings, as far as one page shows, in another order.
    ButOrder,
    None,
    /// A row that is not as ours.
    Aged,
}

/// Whether the rows are as ours: else our copy, or the answer, is too old to tell anything.
pub(crate) fn are_ours(dataset: &Dataset, items: &[Summary]) -> bool {
    items.iter().all(|item| dataset.summary(item.id).is_some_and(|ours| ours.hash == item.hash))
}

/// Compares total and items of an answer's page with the snapshot's; `None`: the snapshot cannot answer the query. `learned`:
/// which listings of its instant the origin counts, where it has said so.
pub(crate) fn agreement(
    dataset: &Dataset,
    query: &ListQuery,
    (total, items): (u64, &[Summary]),
    learned: Option<&Cut>,
) -> Option<Agreement> {
    let found = learned.map_or_else(|| dataset.find(query), |cut| dataset.find_by(query, cut)).ok()?;
    if !are_ours(dataset, items) {
        return Some(Agreement::Aged);
    }
    let ids = || items.iter().map(|item| item.id);
    if dataset.is_explained(query, total, &ids().collect::<Vec<_>>(), learned) {
        return Some(Agreement::Whole);
    }
    if found.total != total || found.items.len() != items.len() {
        return Some(Agreement::None);
    }
    if found.items.iter().map(|item| item.id).eq(ids()) {
        return Some(Agreement::Whole);
    }
    let since = query.modified_since.as_ref().map(|since| since.at);
    let selected: HashSet<u32> = dataset.select(&query.slugs, since).ok()?.into_iter().collect();
    let is_selected = |id: ListingId| dataset.position(id).is_some_and(|position| selected.contains(&position));
    let is_each_once = ids().collect::<HashSet<_>>().len() == items.len();
    Some(if is_each_once && ids().all(is_selected) { Agreement::ButOrder } else { Agreement::None })
}
