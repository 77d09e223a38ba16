//! The metadata of a published snapshot: its certificate and its confirmation.
//!
//! It may differ between two servers with equal data. Callers: most rooms that know snapshots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::render::VolatileValues;
use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};

/// How sure we are that the snapshot is the origin's state at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certificate {
    /// One consistent pass.
    Provisional,
    /// Closing rounds found every page unchanged: there is one instant at which the origin had exactly this data.
    Full,
    /// Refreshed from a full or incremental snapshot. While the refresh ran, the first page, the taxonomies and the
    /// answer to the probe did not change.
    Incremental,
    /// No proof within three tries.
    BestEffort,
}

impl Certificate {
    /// The word for `/status`, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Provisional => "provisional",
            Self::Full => "full",
            Self::Incremental => "incremental",
            Self::BestEffort => "best-effort",
        }
    }
}

/// An undocumented assumption on which answers from the snapshot rely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    /// `sport` selects the listings of the term.
    SportHeeded,
    /// `state` selects the listings of the term.
    StateHeeded,
    /// `city` selects the listings of the term.
    CityHeeded,
    /// `modified_since` selects anything at all.
    SinceHeeded,
    /// Several filters together mean AND.
    And,
    /// `modified_since` lets only later instants pass.
    Strict,
    /// A date in `modified_since` means its 00:00 UTC.
    Midnight,
    /// A time without offset in `modified_since` is UTC.
    Offset,
    /// The whole time in `modified_since` counts, with its offset, and not only its date.
    Time,
    /// Filtered lists are in the order of the whole list.
    Order,
}

impl Assumption {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 10] = [
        Self::SportHeeded,
        Self::StateHeeded,
        Self::CityHeeded,
        Self::SinceHeeded,
        Self::And,
        Self::Strict,
        Self::Midnight,
        Self::Offset,
        Self::Time,
        Self::Order,
    ];

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

    /// The word for `/status` and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SportHeeded => "sport-heeded",
            Self::StateHeeded => "state-heeded",
            Self::CityHeeded => "city-heeded",
            Self::SinceHeeded => "since-heeded",
            Self::And => "and",
            Self::Strict => "strict",
            Self::Midnight => "midnight",
            Self::Offset => "offset",
            Self::Time => "time",
            Self::Order => "order",
        }
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
    /// A certified snapshot that was confirmed and published at one instant.
    #[cfg(test)]
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
