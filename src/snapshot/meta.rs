//! The metadata of a published snapshot: its certificate, its confirmation, and the assumptions on which answers rely.
//!
//! It may differ between two servers with equal data. It does not know terms in doubt; [`super::dataset`] does. Callers:
//! most rooms that know snapshots; [`crate::answer`] asks before it answers what a query relies on, [`crate::audit`] and
//! [`crate::mirror`] how an answer of the origin agrees.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::dataset::Dataset;
use crate::api::listing::ListingId;
use crate::api::query::ListQuery;
use crate::api::render::VolatileValues;
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
use crate::words::named;

named! {
    /// How sure we are that the snapshot is the origin's state at one instant.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Certificate, as_str {
        /// One consistent pass.
        Provisional = "provisional",
        /// Closing rounds found every page unchanged: there is one instant at which the origin had exactly this data.
        Full = "full",
        /// Refreshed from a full or incremental snapshot. While the refresh ran, the first page, the taxonomies and the
        /// answer to the probe did not change.
        Incremental = "incremental",
        /// No proof within three tries.
        BestEffort = "best-effort",
    }
}

named! {
    /// An undocumented assumption on which answers from the snapshot rely, in the order in which they are shown.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Assumption, as_str {
        /// `sport` selects the listings of the term.
        SportHeeded = "sport-heeded",
        /// `state` selects the listings of the term.
        StateHeeded = "state-heeded",
        /// `city` selects the listings of the term.
        CityHeeded = "city-heeded",
        /// `modified_since` selects anything at all.
        SinceHeeded = "since-heeded",
        /// Several filters together mean AND.
        And = "and",
        /// `modified_since` lets only later instants pass.
        Strict = "strict",
        /// A date in `modified_since` means its 00:00 UTC.
        Midnight = "midnight",
        /// A time without offset in `modified_since` is UTC.
        Offset = "offset",
        /// The whole time in `modified_since` counts, with its offset, and not only its date.
        Time = "time",
        /// Filtered lists are in the order of the whole list.
        Order = "order",
    }
}

impl Assumption {
    /// That the filter of a taxonomy selects its listings.
    pub const fn heeded(kind: TaxonomyKind) -> Self {
        match kind {
            TaxonomyKind::Sports => Self::SportHeeded,
            TaxonomyKind::States => Self::StateHeeded,
            TaxonomyKind::Cities => Self::CityHeeded,
        }
    }

    /// Whether it says that a filter counts at all.
    pub const fn is_heeded(self) -> bool {
        matches!(self, Self::SportHeeded | Self::StateHeeded | Self::CityHeeded | Self::SinceHeeded)
    }

    /// What is assumed; completes "it is true that".
    pub const fn says(self) -> &'static str {
        match self {
            Self::SportHeeded => "sport selects the listings of the sport",
            Self::StateHeeded => "state selects the listings of the state",
            Self::CityHeeded => "city selects the listings of the city",
            Self::SinceHeeded => "modified_since selects by modified",
            Self::And => "several filters together mean AND",
            Self::Strict => "modified_since selects only later instants",
            Self::Midnight => "a date in modified_since means 00:00 UTC of that day",
            Self::Offset => "a time without offset in modified_since means UTC",
            Self::Time => "the whole time in modified_since counts",
            Self::Order => "filtered lists have the order of the whole list",
        }
    }

    /// Whether the readers of bundle formats 1 and 2 know it.
    pub const fn is_in_first_formats(self) -> bool {
        matches!(self, Self::And | Self::Strict | Self::Midnight | Self::Order)
    }
}

/// The sync state of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMeta {
    /// How sure we are.
    pub certificate: Certificate,
    /// The instant, in the origin's time, for which the data is confirmed; milliseconds since the epoch.
    pub confirmed_ms: i64,
    /// The value of `confirmed_ms` on disk, if it was in the future when read; the field above then holds a past
    /// instant. `None`: it was not in the future. This field is never stored.
    #[serde(skip)]
    pub claimed_ms: Option<i64>,
    /// When it was published here; milliseconds since the epoch.
    pub published_ms: i64,
    /// Names of the origin's fields that are not content.
    pub volatile: VolatileKeys,
    /// The last values of volatile fields, as JSON text. Keys: `<path> <field>`; for the envelope, `list
    /// <field>`.
    pub volatile_values: BTreeMap<String, String>,
    /// Envelope fields that differed between pages and are omitted.
    pub left_out: Vec<String>,
    /// What is not proven, in words.
    pub open_points: Vec<String>,
    /// The disproved assumptions in ascending order; `None`: not checked yet.
    #[serde(default)]
    pub disproved: Option<Vec<Assumption>>,
    /// The assumptions that the origin's answers bear out, in ascending order. What is neither here nor disproved is
    /// taken for granted.
    #[serde(default)]
    pub proved: Vec<Assumption>,
    /// What an answer speaks against that has not been repeated yet, in ascending order.
    #[serde(default)]
    pub suspected: Vec<Assumption>,
    /// When the origin was last asked about its filters, in milliseconds since the epoch; 0: never.
    #[serde(default)]
    pub asked_ms: i64,
    /// The address of the data's origin, with which its `api_url`s begin; `None`: not recorded.
    #[serde(default)]
    pub origin: Option<String>,
}

impl SnapshotMeta {
    /// The assumptions about which nothing is known.
    pub fn unproved(&self) -> impl Iterator<Item = Assumption> + '_ {
        let disproved = self.disproved.as_deref().unwrap_or_default();
        Assumption::ALL.into_iter().filter(move |one| !self.proved.contains(one) && !disproved.contains(one))
    }

    /// Notes that the origin's answers contradict assumptions; `false`: that is known.
    pub fn disprove(&mut self, assumptions: &[Assumption]) -> bool {
        let before = self.disproved.clone();
        let disproved = self.disproved.get_or_insert_default();
        disproved.extend(assumptions);
        disproved.sort_unstable();
        disproved.dedup();
        self.proved.retain(|one| !disproved.contains(one));
        self.disproved != before
    }

    /// The volatile values of a document (`list` or a path), by key.
    pub fn volatile_of(&self, document: &str) -> VolatileValues {
        let own = self.volatile_values.iter().filter_map(|(name, value)| {
            let (path, key) = name.split_once(' ')?;
            (path == document).then(|| (key.to_owned(), value.clone()))
        });
        own.collect()
    }
}

/// The assumptions that the answer to a query uses, in ascending order.
pub(crate) fn used_by(query: &ListQuery) -> Vec<Assumption> {
    let slugs = TaxonomyKind::ALL.into_iter().filter(|kind| query.slug(*kind).is_some());
    let mut used: Vec<Assumption> = slugs.map(Assumption::heeded).collect();
    if let Some(since) = &query.modified_since {
        used.extend([Assumption::SinceHeeded, Assumption::Strict]);
        // The date has hyphens, too. A space after the time is the `+` of an offset.
        used.extend(match since.text.trim().split_once(['T', 't', ' ']) {
            None => &[Assumption::Midnight][..],
            Some((_, time)) if time.contains(['Z', 'z', '+', '-', ' ']) => &[Assumption::Time],
            Some(_) => &[Assumption::Offset, Assumption::Time],
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

    impl SnapshotMeta {
        /// A certified snapshot that was confirmed and published at one instant.
        pub(crate) fn full(at_ms: i64) -> Self {
            Self {
                certificate: Certificate::Full,
                confirmed_ms: at_ms,
                claimed_ms: None,
                published_ms: at_ms,
                volatile: VolatileKeys::default(),
                volatile_values: BTreeMap::new(),
                left_out: Vec::new(),
                open_points: Vec::new(),
                disproved: None,
                proved: Vec::new(),
                suspected: Vec::new(),
                asked_ms: 0,
                origin: None,
            }
        }
    }

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
