//! The order of the newest snapshot: the rules that explain it, and the rules that the origin has disproved.
//!
//! What a rule is and how it is learned is in [`super::super::order`]. Callers: [`super`] and its parts.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::listing::{ListingId, Summary};
use crate::snapshot::content::SnapshotId;
use crate::snapshot::dataset::Dataset;
use crate::store::{States, Store};

use super::super::order::Rules;
use super::{MirrorError, blocking};

/// Store key of the disproved rules.
const DISPROVED: &str = "orders";

pub(super) struct KnownOrder {
    store: Arc<Store>,
    /// Texts of the rules disproved by reading every page.
    disproved: BTreeSet<String>,
    /// The rules that gave changed listings of the newest snapshot their places; empty: none known.
    placed_by: Vec<String>,
    /// The rules that explain the order of one data set.
    rules: Option<(SnapshotId, Arc<Rules>)>,
}

impl KnownOrder {
    /// Reads back the disproved rules.
    pub(super) fn new(store: Arc<Store>) -> Self {
        /// A larger set is ignored.
        const MOST: usize = 1000;
        let kept: Option<BTreeSet<String>> = store.state_json(DISPROVED).ok().flatten();
        let disproved = kept.filter(|orders| orders.len() <= MOST).unwrap_or_default();
        Self { store, disproved, placed_by: Vec::new(), rules: None }
    }

    /// The rules that explain the order of a data set: remembered, or learned from the list.
    pub(super) async fn rules(&mut self, dataset: &Arc<Dataset>) -> Result<Arc<Rules>, MirrorError> {
        if let Some((_, rules)) = self.rules.as_ref().filter(|(id, _)| *id == dataset.id) {
            return Ok(rules.clone());
        }
        let (sequence, disproved) = (dataset.clone(), self.disproved.clone());
        let rules = blocking(move || Ok(Rules::learn(&sequence.content.summaries, &disproved))).await?;
        Ok(self.explains(dataset.id.clone(), Arc::new(rules)))
    }

    /// Remembers these rules for the order of this data set.
    pub(super) fn explains(&mut self, id: SnapshotId, rules: Arc<Rules>) -> Arc<Rules> {
        self.rules = Some((id, rules.clone()));
        rules
    }

    /// Notes which rules placed listings of the newest snapshot; none if every page was read.
    pub(super) fn placed_by(&mut self, orders: Vec<String>) {
        self.placed_by = orders;
    }

    /// Disproves the rules that placed listings of the newest snapshot, if reading every page contradicts them.
    pub(super) async fn compare(&mut self, newest: &Dataset, next: &Dataset) -> Result<(), MirrorError> {
        if self.placed_by.is_empty() || newest.id == next.id || same_order(newest, next) {
            return Ok(());
        }
        let orders = self.placed_by.join(", ");
        tracing::warn!(
            orders,
            "the origin's order does not follow the rules that were learned; they are no longer used"
        );
        self.disproved.extend(std::mem::take(&mut self.placed_by));
        self.rules = None;
        let mut states = States::default();
        states.put_json(DISPROVED, &self.disproved)?;
        let store = self.store.clone();
        blocking(move || store.put_states(&states)).await
    }
}

/// Whether the listings that are equal in both have the same order.
fn same_order(one: &Dataset, other: &Dataset) -> bool {
    shared(one, other).eq(shared(other, one))
}

/// Listings of `all` that are equal in `by`, in order.
fn shared<'a>(all: &'a Dataset, by: &'a Dataset) -> impl Iterator<Item = ListingId> + 'a {
    let known = |summary: &&Summary| by.summary(summary.id).is_some_and(|known| known.hash == summary.hash);
    all.content.summaries.iter().filter(known).map(|summary| summary.id)
}
