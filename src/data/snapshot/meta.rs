//! The metadata of a published snapshot: its certificate and its confirmation.
//!
//! It may differ between two servers with equal data. It does not know terms in doubt, as [`super::dataset`] does, nor
//! what queries mean, as [`super::verdicts`] do. Callers: most rooms that know snapshots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::form::ListForm;
use crate::api::render::VolatileValues;
use crate::api::taxonomy::VolatileKeys;
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

impl Certificate {
    /// Whether no better one is tried for.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Full | Self::Incremental)
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
    /// The form of the origin's lists.
    #[serde(default)]
    pub form: ListForm,
    /// The address of the data's origin, with which its `api_url`s begin; `None`: not recorded.
    #[serde(default)]
    pub origin: Option<String>,
}

impl SnapshotMeta {
    /// The volatile values of a document (`list` or a path), by key.
    pub fn volatile_of(&self, document: &str) -> VolatileValues {
        let own = self.volatile_values.iter().filter_map(|(name, value)| {
            let (path, key) = name.split_once(' ')?;
            (path == document).then(|| (key.to_owned(), value.clone()))
        });
        own.collect()
    }
}
